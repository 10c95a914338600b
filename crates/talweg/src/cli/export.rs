//! `talweg export` and `talweg compress`: commands about a module of a Python file, which Python carries out.

use super::Program;
use crate::{Error, Result};
use ir::ErrorKind;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// What to export.
#[derive(clap::Args)]
pub struct Options {
    /// A module, a class of modules or a function of a Python file: `FILE.py:NAME`. The file is run, but not as
    /// `__main__`.
    source: String,
    /// The directory to write, such as `repository/NAME/1`.
    directory: PathBuf,
    /// An input as `NAME=TYPE[SIZE,...]`. A name as a size makes the axis free: `image=f32[batch,3,side<=512]`.
    #[arg(long = "input", value_name = "INPUT", required = true)]
    inputs: Vec<String>,
    /// The name of an output; once for each.
    #[arg(long = "output", value_name = "NAME")]
    outputs: Vec<String>,
    /// A safetensors file with the state of the module.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The name of the model; by default that of the function or class.
    #[arg(long)]
    name: Option<String>,
}

/// Has Python trace and write the model.
pub fn run(o: &Options, program: &Program) -> Result<()> {
    let request = serde_json::json!({
        "source": o.source, "directory": o.directory, "inputs": o.inputs, "outputs": o.outputs, "weights": o.weights,
        "name": o.name,
    });
    let status = python(program, "talweg._export_command", &[request.to_string().into()])?;
    if status.success() { Ok(()) } else { Err(failed(format!("{} was not exported", o.source))) }
}

/// Has Python compress a module; its exit status.
pub fn compress(args: &[OsString], program: &Program) -> Result<u8> {
    let args: Vec<OsString> = [OsString::from("compress")].into_iter().chain(args.iter().cloned()).collect();
    let status = python(program, "talweg", &args)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Runs a module of the Python package with these arguments.
fn python(program: &Program, module: &str, args: &[OsString]) -> Result<ExitStatus> {
    let status = Command::new(&program.python).args(["-m", module]).args(args).status();
    status.map_err(|e| failed(format!("{}: {e}", program.python.display())))
}

fn failed(message: String) -> Error {
    Error::new(ErrorKind::Io, message)
}
