//! The `talweg` command.

use std::process::ExitCode;
use talweg::cli::{self, Program};

fn main() -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(own) => Program { own: vec![own.into()], python: "python3".into(), consistency: None },
        Err(e) => {
            eprintln!("talweg: finding the talweg program: {e}");
            return ExitCode::FAILURE;
        }
    };
    ExitCode::from(cli::main(&program, std::env::args_os()))
}
