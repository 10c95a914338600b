//! `talweg bench`: workloads of the peers' benchmark harness, one JSON line each; and single operators.

use super::Program;
use crate::{Error, Result};
use ir::ErrorKind;
use std::ffi::OsString;
use std::process::Command;

/// What to measure.
#[derive(clap::Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    /// A workload; `list` names them. `gpt:8x384x6x256` is a training step of a GPT with this batch,
    /// width, depth and context. A file `MODEL.onnx` is loaded and run.
    #[arg(required = true)]
    workload: Option<String>,
    /// The device. A GPU has workloads of its own; `all` runs every one.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// A free size of an ONNX model's inputs, as `batch=8`; 1 without it.
    #[arg(long = "size", value_name = "NAME=N")]
    sizes: Vec<String>,
}

/// What is measured from outside.
#[derive(clap::Subcommand)]
enum Other {
    /// Put load on an inference server: latency percentiles and goodput.
    #[cfg(feature = "serve")]
    Serve(super::serve::BenchOptions),
    /// Export the nets of the serving benchmark as a model repository.
    Nets {
        /// The repository.
        directory: std::path::PathBuf,
        /// Which nets; all without it.
        #[arg(long, value_delimiter = ',')]
        names: Vec<String>,
    },
    /// Time every operator through Python, beside PyTorch where it is installed. `--help` lists the options.
    #[command(disable_help_flag = true)]
    Ops {
        /// Options of the Python program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// Measures and prints.
pub fn run(o: &Options, program: &Program) -> Result<()> {
    match &o.other {
        #[cfg(feature = "serve")]
        Some(Other::Serve(load)) => super::serve::bench(load),
        Some(Other::Nets { directory, names }) => {
            let all = bench::nets::NETS.map(String::from);
            let names = if names.is_empty() { &all[..] } else { &names[..] };
            names.iter().try_for_each(|name| bench::nets::write(directory, name))
        }
        Some(Other::Ops { args }) => ops(args, program),
        None => match o.workload.as_deref().map(std::path::Path::new) {
            Some(path) if super::onnx::is_onnx(path) => super::onnx::bench(path, &super::onnx::sizes(&o.sizes)?),
            _ => bench::run(o.workload.as_deref().unwrap_or("list"), &o.device),
        },
    }
}

/// Has Python time operators: the package has PyTorch's spelling, and PyTorch may be beside it.
fn ops(args: &[OsString], program: &Program) -> Result<()> {
    let failed = |e: String| Error::new(ErrorKind::Io, e);
    let status = Command::new(&program.python).args(["-m", "talweg._bench_ops"]).args(args).status();
    let status = status.map_err(|e| failed(format!("{}: {e}", program.python.display())))?;
    if status.success() { Ok(()) } else { Err(failed("operators were refused or have become slower".to_string())) }
}
