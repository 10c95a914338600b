//! Classic algorithms on the parameter store, each on small data made from a seed, with three
//! workers and two servers as threads of one process. Each says what it found and how it compares
//! with what the data were made from.
//!
//! `cargo run --release -p talweg-dist --example classic` runs all.

mod algorithms;
mod job;

fn main() -> talweg_dist::Result<()> {
    println!("{}", algorithms::logistic::run("ssp:2".parse()?)?);
    println!("{}", algorithms::lasso::run()?);
    println!("{}", algorithms::mixture::run()?);
    println!("{}", algorithms::kmeans::run()?);
    println!("{}", algorithms::factors::run("ssp:2".parse()?)?);
    println!("{}", algorithms::topics::run("bsp".parse()?)?);
    println!("{}", algorithms::forest::run(24)?);
    for staleness in [0, 2, 4] {
        println!("{}", algorithms::regret::run(staleness)?);
    }
    Ok(())
}
