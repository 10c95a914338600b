//! `talweg infer`: one request, to a server or to a model in this process.

use super::{failed, runtime};
use crate::{DType, Error, Result};
use ir::Literal;
use model::Model;
use serve::client::Client;
use std::time::Instant;

/// A request to a server, or to a model without one.
#[derive(clap::Args)]
pub struct InferOptions {
    /// The model's name at the server, or an exported model.
    model: String,
    /// Inputs as `NAME=FILE.npy` or `NAME=[[1, 2], [3, 4]]`.
    inputs: Vec<String>,
    /// The server; without it the model is a directory and runs here.
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// An API key.
    #[arg(long)]
    key: Option<String>,
}

/// Runs a model once and prints its outputs; without inputs, what it takes.
pub fn infer(o: &InferOptions) -> Result<()> {
    let Some(host) = &o.server else { return infer_here(o) };
    runtime(1)?.block_on(async {
        let mut client = Client::new(host, o.key.as_deref());
        let metadata = client.get(&format!("/v2/models/{}", o.model)).await.map_err(failed)?;
        if o.inputs.is_empty() {
            println!("{metadata:#}");
            return Ok(());
        }
        let dtype = |name: &str| {
            let row = metadata["inputs"].as_array().into_iter().flatten().find(|i| i["name"] == name);
            row.and_then(|r| serve::wire::dtype(r["datatype"].as_str()?).ok())
        };
        let inputs = parse_inputs(&o.inputs, dtype)?;
        let began = Instant::now();
        let outputs = client.infer(&o.model, &inputs).await.map_err(failed)?;
        eprintln!("{:.2} ms", began.elapsed().as_secs_f64() * 1e3);
        print_outputs(&outputs);
        Ok(())
    })
}

fn infer_here(o: &InferOptions) -> Result<()> {
    let path = std::path::Path::new(&o.model);
    if crate::cli::onnx::is_onnx(path) {
        if o.inputs.is_empty() {
            return crate::cli::onnx::inspect(path);
        }
        let given = |m: &crate::onnx::Model| {
            let dtype = |name: &str| m.inputs().iter().find(|p| p.name == name)?.elem()?.storage();
            parse_inputs(&o.inputs, dtype)
        };
        print_outputs(&crate::cli::onnx::infer(path, given)?);
        return Ok(());
    }
    let model = Model::load(&o.model)?;
    let signature = model.signature();
    if o.inputs.is_empty() {
        return describe(&model);
    }
    let dtype = |name: &str| signature.inputs.iter().find(|s| s.name == name)?.dtype().ok();
    let mut given = parse_inputs(&o.inputs, dtype)?;
    let take = |spec: &model::TensorSpec| {
        let at = given.iter().position(|(n, _)| *n == spec.name);
        let at = at.ok_or_else(|| Error::value(format!("input {:?} is missing", spec.name)))?;
        Ok(given.swap_remove(at).1)
    };
    let inputs = signature.inputs.iter().map(take).collect::<Result<Vec<Literal>>>()?;
    let outputs = model.run(&inputs)?;
    print_outputs(&signature.outputs.iter().map(|s| s.name.clone()).zip(outputs).collect::<Vec<_>>());
    Ok(())
}

/// Prints what a model takes and returns.
fn describe(model: &Model) -> Result<()> {
    let s = model.signature();
    println!("{}: {} bytes of weights{}", s.name, model.weight_bytes(), if s.is_batched { ", batched" } else { "" });
    for (what, specs) in [("input", &s.inputs), ("output", &s.outputs)] {
        specs.iter().for_each(|t| println!("{what:7} {:16} {}", t.name, t.describe()));
    }
    for d in &s.dims {
        let most = if d.max == model::Dimension::new("").max { String::new() } else { format!(" to {}", d.max) };
        let step = if d.multiple_of == 1 { String::new() } else { format!(", a multiple of {}", d.multiple_of) };
        let padded = if d.is_padded { ", padded by the server" } else { "" };
        println!("size    {:16} from {}{most}{step}{padded}", d.name, d.min);
    }
    Ok(())
}

fn parse_inputs(texts: &[String], dtype: impl Fn(&str) -> Option<DType>) -> Result<Vec<(String, Literal)>> {
    let one = |text: &String| {
        let bad = |e: &str| Error::value(format!("{text}: {e}"));
        let (name, value) = text.split_once('=').ok_or_else(|| bad("NAME=FILE.npy or NAME=[…] is needed"))?;
        let literal = if value.ends_with(".npy") {
            crate::load_npy(value)?.literal()?
        } else {
            let dtype = dtype(name).ok_or_else(|| bad("the model has no such input"))?;
            serde_json::from_str::<serde_json::Value>(value)
                .map_err(|e| bad(&format!("neither the name of an .npy file nor JSON: {e}")))?;
            let parsed = serve::wire::parse(name, dtype, value).map_err(|e| bad(&e.message))?;
            Literal::from_bytes(dtype, parsed.nesting, &parsed.bytes)?
        };
        Ok((name.to_string(), literal))
    };
    texts.iter().map(one).collect()
}

fn print_outputs(outputs: &[(String, Literal)]) {
    for (name, l) in outputs {
        let mut text = String::new();
        serve::wire::nested(&mut text, l.dtype(), l.shape(), l.bytes());
        println!("{name} {}{} {text}", l.dtype(), l.shape());
    }
}
