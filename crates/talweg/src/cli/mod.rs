//! The `talweg` command as a function: the binary calls it, and so does the Python package.

mod bench;
mod build;
mod certificates;
mod cluster;
mod device_test;
mod explain;
mod export;
mod inspect;
mod launch;
#[cfg(feature = "llm")]
mod llm;
mod onnx;
mod page;
mod plan;
mod plot;
mod run;
mod scale;
#[cfg(feature = "serve")]
mod serve;
mod store;

use crate::Result;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

pub use dist::Consistency;

/// A machine-learning system: train, inspect, measure, launch.
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
    Quickstart(quickstart::digits::Options),
    /// Show a graph at every stage: each pass, the compiled program, a drawing.
    Explain(explain::Options),
    /// Show the content of a file: tensors (safetensors), a graph (text or binary form) or an ONNX model.
    Inspect {
        /// The file.
        file: PathBuf,
    },
    /// Write an ONNX model in Talweg's own format, which can be served.
    Import(onnx::ImportOptions),
    /// Make a program, a C library or a WebAssembly module that holds one model and nothing it does not need.
    Build(build::Options),
    /// Run a model once, without compiling a program; without inputs, show what it takes.
    Run(run::Options),
    /// List the op table, or one op's row.
    Ops {
        /// Name of an op.
        name: Option<String>,
    },
    /// Measure a workload and print one JSON line.
    Bench(bench::Options),
    /// Write a module or function of a Python file as a model that can be served.
    Export(export::Options),
    /// Make a module of a Python file smaller: int8, int4, fp8 or pruned, with a report of every layer.
    #[command(disable_help_flag = true)]
    Compress {
        /// `FILE.py:NAME --int8 --calibrate inputs.npy`; `talweg compress --help` lists all options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        args: Vec<OsString>,
    },
    /// Serve exported models over REST and gRPC.
    #[cfg(feature = "serve")]
    Serve(Box<serve::Options>),
    /// Run a model once, here or at a server; without inputs, show what it takes.
    #[cfg(feature = "serve")]
    Infer(serve::InferOptions),
    /// Talk with a language model in the terminal.
    #[cfg(feature = "llm")]
    Chat(Box<llm::ChatOptions>),
    /// Continue a text with a language model.
    #[cfg(feature = "llm")]
    Generate(Box<llm::GenerateOptions>),
    /// Measure a language model: decode and prefill through the engine, one JSON line each.
    #[cfg(feature = "llm")]
    BenchModel(Box<llm::BenchOptions>),
    /// Fine-tune a language model on a text, with an adapter.
    #[cfg(feature = "llm")]
    Finetune(Box<llm::FinetuneOptions>),
    /// Evaluate a language model: perplexity of a text, questions with several answers.
    #[cfg(feature = "llm")]
    Evaluate(Box<llm::EvaluateOptions>),
    /// Make an adapter part of a language model.
    #[cfg(feature = "llm")]
    Merge(llm::MergeOptions),
    /// Serve a language model with OpenAI's interface; `serve` of a GGUF file is this.
    #[cfg(all(feature = "llm", feature = "serve"))]
    ServeLanguageModel(Box<llm::ServeOptions>),
    /// Measure how time and memory of a training step scale with batch, width, depth and threads.
    Scale(scale::Options),
    /// Check every op in every element type on a device against the reference.
    DeviceTest(device_test::Options),
    /// Run a training program on several processes, with all-reduce or with a parameter store.
    Launch(launch::Options),
    /// Search how to cut a program's train step over so many ranks, and predict what that costs on a cluster.
    Plan(plan::Options),
    /// Make certificates for `launch --tls`.
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
    /// Measure the link between two processes; `plan --cluster local` starts them.
    #[command(hide = true)]
    MeasureLink {
        /// Where the result is written.
        file: PathBuf,
    },
    /// Run one server of a parameter store; `launch` starts it.
    #[command(hide = true)]
    StoreServer {
        /// A custom rule that decides when reads are answered: its name, or FILE.py:FUNCTION.
        #[arg(long)]
        consistency: Option<String>,
    },
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Finds a rule of consistency by its text.
pub type FindRule = fn(&str) -> Result<Arc<dyn Consistency>>;

/// How this command is started, to be started again by `launch` and `scale`.
pub struct Program {
    /// The program and the arguments that come before those of the command.
    pub own: Vec<OsString>,
    /// The interpreter that `launch` gives `.py` files to.
    pub python: OsString,
    /// Finds a consistency rule that is not built in by the text of `--consistency`. The Python package knows
    /// `FILE.py:FUNCTION`; a custom program knows its own names (see the example `custom_consistency`).
    pub consistency: Option<FindRule>,
}

/// What to do after the quickstart.
const NEXT: [&str; 2] = ["talweg inspect CHECKPOINT", "talweg explain    # what a training step is compiled to"];

const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;

/// Runs the command with these arguments, the name of the program first; returns its exit status.
pub fn main(program: &Program, args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    #[cfg(all(feature = "llm", feature = "serve"))]
    let args = llm::redirected(args);
    let code = match Cli::try_parse_from(&args) {
        Ok(cli) => {
            let traced = cli.trace.as_deref().map_or(Ok(()), runtime::trace::write_to);
            traced.and_then(|()| start(cli.command, program, &args)).unwrap_or_else(|e| {
                eprintln!("talweg: {e}");
                FAILURE
            })
        }
        Err(e) => {
            // The terminal may be gone.
            let _ = e.print();
            e.exit_code() as u8
        }
    };
    // Only Rust's own `main` does this at its end.
    let _ = std::io::stdout().flush();
    code
}

fn start(command: Command, program: &Program, args: &[OsString]) -> Result<u8> {
    let done = match command {
        Command::Quickstart(o) => return quickstart::digits::run(&o, "talweg", args, &NEXT),
        Command::Explain(o) => explain::run(&o, program),
        Command::Inspect { file } => inspect::run(&file),
        Command::Import(o) => onnx::import(&o),
        Command::Build(o) => build::run(&o),
        Command::Run(o) => run::run(&o),
        Command::Ops { name } => inspect::ops(name.as_deref()),
        Command::Bench(o) => bench::run(&o, program),
        Command::Export(o) => export::run(&o, program),
        Command::Compress { args } => return export::compress(&args, program),
        #[cfg(feature = "serve")]
        Command::Serve(o) => serve::run(&o, program, args),
        #[cfg(feature = "serve")]
        Command::Infer(o) => serve::infer(&o),
        #[cfg(feature = "llm")]
        Command::Chat(o) => llm::chat(&o),
        #[cfg(feature = "llm")]
        Command::Generate(o) => llm::generate(&o),
        #[cfg(feature = "llm")]
        Command::BenchModel(o) => llm::bench(&o),
        #[cfg(feature = "llm")]
        Command::Finetune(o) => llm::finetune(&o),
        #[cfg(feature = "llm")]
        Command::Evaluate(o) => llm::evaluate(&o),
        #[cfg(feature = "llm")]
        Command::Merge(o) => llm::merge(&o),
        #[cfg(all(feature = "llm", feature = "serve"))]
        Command::ServeLanguageModel(o) => llm::serve(&o),
        Command::Scale(o) => scale::run(&o, program),
        Command::DeviceTest(o) => device_test::run(&o),
        Command::Launch(o) => return launch::run(&o, program),
        Command::Plan(o) => plan::run(&o, program),
        Command::MeasureLink { file } => cluster::measure_link(&file),
        Command::Guard { parent, command } => launch::guard(parent, &command),
        Command::Certificates(o) => certificates::run(&o),
        Command::StoreServer { consistency } => store::run(consistency.as_deref(), program),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "talweg", &mut std::io::stdout());
            Ok(())
        }
    };
    done.map(|()| SUCCESS)
}
