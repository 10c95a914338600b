//! The `talweg` command.

mod bench;
mod certificates;
mod device_test;
mod explain;
mod inspect;
mod launch;
mod page;
mod plot;
mod quickstart;
mod rules;
mod scale;
mod store;

use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// A machine-learning system: train, look inside, measure.
#[derive(Parser)]
#[command(name = "talweg", version)]
struct Cli {
    /// Write a timeline of everything that runs, for ui.perfetto.dev.
    #[arg(long, global = true, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a small model on built-in handwritten digits, in under a minute.
    Quickstart(quickstart::Options),
    /// Show what becomes of a graph: every pass, the compiled program, a picture.
    Explain(explain::Options),
    /// Show what is in a file: tensors (safetensors), or a graph (text or binary form).
    Inspect {
        /// The file.
        file: PathBuf,
    },
    /// List the op table, or one op's row.
    Ops {
        /// Name of an op.
        name: Option<String>,
    },
    /// Measure a workload and print one JSON line.
    Bench(bench::Options),
    /// Measure how a training step's time and memory grow with batch, width, depth and threads.
    Scale(scale::Options),
    /// Check every op in every element type on a device against the reference.
    DeviceTest(device_test::Options),
    /// Run a training program on several processes, with all-reduce or with a parameter store.
    Launch(launch::Options),
    /// Make certificates for `launch --tls`, so that processes prove themselves and encrypt.
    Certificates(certificates::Options),
    /// Run a command that ends with the process that started it; `launch` starts workers so.
    #[command(hide = true)]
    Guard {
        /// The process.
        parent: u32,
        /// The command.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Run one server of a parameter store; `launch` starts it.
    #[command(hide = true)]
    StoreServer,
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let traced = cli.trace.as_deref().map_or(Ok(()), runtime::trace::write_to);
    let done = traced.and_then(|()| run(cli.command));
    match done {
        Ok(code) => code,
        Err(e) => {
            eprintln!("talweg: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> talweg::Result<ExitCode> {
    let done = match command {
        Command::Quickstart(o) => return quickstart::run(&o),
        Command::Explain(o) => explain::run(&o),
        Command::Inspect { file } => inspect::run(&file),
        Command::Ops { name } => inspect::ops(name.as_deref()),
        Command::Bench(o) => bench::run(&o),
        Command::Scale(o) => scale::run(&o),
        Command::DeviceTest(o) => device_test::run(&o),
        Command::Launch(o) => return launch::run(&o),
        Command::Guard { parent, command } => launch::guard(parent, &command),
        Command::Certificates(o) => certificates::run(&o),
        Command::StoreServer => store::run(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "talweg", &mut std::io::stdout());
            Ok(())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}
