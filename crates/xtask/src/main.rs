//! Chores of the workspace: `cargo xtask ci` is everything that must pass, `cargo xtask tidy` the
//! rules about files that no compiler checks.

mod book;
mod ci;
mod commits;
mod names;
mod prose;
mod python;
mod tidy;

use ci::Report;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask ci [--strict] | book | doc | deny | package | python | tidy | fmt";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["ci"] => ci::run(false),
        ["ci", "--strict"] => ci::run(true),
        ["doc"] => ci::doc(&Report::default()),
        ["deny"] => ci::deny(&Report::default()),
        ["package"] => ci::package(&Report::default()),
        ["book"] => book::build(),
        ["python"] => python::check(&Report::default()),
        ["tidy"] => tidy::check(),
        ["fmt"] => ci::rewrite(),
        _ => Err(USAGE.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
