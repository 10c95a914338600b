//! The `quickstart` command: `cargo quickstart` compiles and runs it.

use clap::Parser;
use cpu as _; // the device
use std::ffi::OsString;
use std::process::ExitCode;
use talweg_quickstart::digits::{self, Options};

/// Train a small model on built-in handwritten digits, in under a minute.
#[derive(Parser)]
#[command(name = "quickstart", version)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// What the whole command can do with the result.
const NEXT: &str = "cargo install --path crates/talweg    # the whole command: launch, inspect, explain, bench …";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = Cli::parse_from(&args);
    match digits::run(&cli.options, "cargo quickstart", &args, &[NEXT]) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("quickstart: {e}");
            ExitCode::FAILURE
        }
    }
}
