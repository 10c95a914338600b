//! How long the simulator takes for large jobs, and what it says of them.
//!
//! ```text
//! cargo run --release -p talweg-sim --example scale
//! ```

use std::time::Instant;
use talweg_sim::{
    Cluster, Error, Gpt, Kind, Limits, Plan, Recompute, Result, clusters, estimate, estimate_among, run_with_failures,
    search, uneven,
};

fn main() -> Result<()> {
    let text = clusters().into_iter().find(|(n, _)| *n == "h100").map(|(_, t)| t);
    let h100: Cluster = text.ok_or_else(|| Error("no cluster h100".into()))?.parse()?;
    let gpt = Gpt::default();
    let (data, tensor, pipe, batch) = (125, 8, 10, 2000);
    let gpt_of_ten = Gpt { layers: 100, ..gpt };
    let schedule = Kind::OneForwardOneBackward;
    let recompute = Recompute::Selective;
    let plan = Plan { data, tensor, pipe, schedule, zero: 1, recompute, sequence: true, overlap: true, ..Plan::ONE };
    let devices = plan.devices();

    let clock = Instant::now();
    let even = estimate(&gpt_of_ten, &h100, &plan, batch)?;
    println!(
        "{devices} equal devices: {:.3} s a step, simulated in {:.4} s",
        even.step_s,
        clock.elapsed().as_secs_f64()
    );

    let clock = Instant::now();
    let factors = uneven(devices, 0.03, 7);
    let chance = estimate_among(&gpt_of_ten, &h100, &plan, batch, Some(&factors))?;
    println!(
        "{devices} devices that deviate by 3 %: {:.3} s a step, simulated in {:.3} s",
        chance.step_s,
        clock.elapsed().as_secs_f64()
    );

    let mut one = vec![1.0; devices];
    one[4711] = 1.5;
    let slow = estimate_among(&gpt_of_ten, &h100, &plan, batch, Some(&one))?;
    println!("one of them is 1.5 times as slow: {:.3} s a step", slow.step_s);

    let run = run_with_failures(&h100, devices, even.step_s, 100_000, 1);
    let best = 100_000.0 * even.step_s;
    println!(
        "100,000 steps with failures: {:.1} days, {} failures, {:.1} % of the time is not lost (formula: {:.1} %)",
        run.seconds / 86400.0,
        run.failures,
        100.0 * best / run.seconds,
        100.0 * h100.efficiency(devices)
    );

    let clock = Instant::now();
    let found = search(&gpt, &h100, 1024, 1536, Limits::default());
    println!(
        "GPT-175B on 1,024 devices: {} plans kept, searched in {:.2} s",
        found.len(),
        clock.elapsed().as_secs_f64()
    );
    Ok(())
}
