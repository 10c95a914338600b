//! `talweg launch`: an unchanged training program on several processes.

use dist::Rule;
use dist::launch::Launch;
use std::ffi::OsString;
use std::path::Path;
use talweg::{Error, Result};

/// How many processes, and how they work together.
#[derive(clap::Args)]
pub struct Options {
    /// Worker processes; each takes its part of every batch.
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Servers that hold the parameters; without any, workers reduce gradients among themselves.
    #[arg(long, default_value_t = 0)]
    servers: u32,
    /// How far workers may be apart: bsp, ssp:S, async or backup:B.
    #[arg(long, default_value = "bsp")]
    consistency: Rule,
    /// Servers that hold a copy of each parameter.
    #[arg(long, default_value_t = 2)]
    copies: usize,
    /// How often a lost worker is started again.
    #[arg(long, default_value_t = 3)]
    max_restarts: u32,
    /// The program and its arguments; a `.py` file is given to python3.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    program: Vec<OsString>,
}

/// Starts the processes and waits for them.
pub fn run(o: &Options) -> Result<()> {
    let mut program = o.program.clone();
    if program.first().is_some_and(|p| Path::new(p).extension().is_some_and(|e| e == "py")) {
        program.insert(0, "python3".into());
    }
    let own = std::env::current_exe().map_err(|e| Error::value(format!("finding the talweg program: {e}")))?;
    let launch = Launch {
        workers: o.workers,
        servers: o.servers,
        copies: o.copies,
        rule: o.consistency,
        restarts_max: o.max_restarts,
        program,
        server: vec![own.into(), "store-server".into()],
    };
    match launch.run() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::value("the job failed: see what the workers said")),
        Err(e) => Err(Error::value(e.to_string())),
    }
}
