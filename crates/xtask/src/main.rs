//! Chores of the workspace: `cargo xtask ci` is everything that must pass, `cargo xtask tidy` the
//! rules about files that no compiler checks.

mod tidy;

use std::process::{Command, ExitCode};
use std::time::Instant;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let done = match task.as_str() {
        "ci" => ci(),
        "tidy" => tidy::check(),
        _ => Err("usage: cargo xtask ci | tidy".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Every step in order; the first that fails ends it.
fn ci() -> Result<(), String> {
    step("format", &["fmt", "--all", "--check"])?;
    tidy::check()?;
    step("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    step("tests", &["test", "--workspace", "--quiet"])?;
    for example in tidy::examples()? {
        step(&format!("example {example}"), &["run", "--quiet", "-p", "talweg", "--example", &example])?;
    }
    Ok(())
}

fn step(name: &str, args: &[&str]) -> Result<(), String> {
    println!("== {name}: cargo {}", args.join(" "));
    let start = Instant::now();
    // Examples and tests that can run long are told to keep it short.
    let status = Command::new("cargo").args(args).env("TALWEG_QUICK", "1").status();
    let status = status.map_err(|e| format!("cargo did not start: {e}"))?;
    println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{name} failed")) }
}
