//! `talweg run`: one run of an exported model or an ONNX file, in this process.

use super::onnx;
use crate::{DType, Error, Result, Tensor};
use ir::{Literal, Shape};
use model::Model;
use serde_json::Value;
use std::path::PathBuf;

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// An exported model, or an ONNX file.
    model: PathBuf,
    /// Inputs as `NAME=FILE.npy` or `NAME=[[1, 2], [3, 4]]`.
    inputs: Vec<String>,
    /// Writes each output to `NAME.npy` in this folder instead of printing it.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The device: `cpu`, `cuda`.
    #[arg(long)]
    device: Option<String>,
}

/// Runs a model once and prints its outputs; without inputs, what it takes.
pub fn run(o: &Options) -> Result<()> {
    match &o.device {
        None => here(o),
        Some(name) => crate::device(name, || here(o))?,
    }
}

fn here(o: &Options) -> Result<()> {
    if onnx::is_onnx(&o.model) {
        if o.inputs.is_empty() {
            return onnx::inspect(&o.model);
        }
        let given = |m: &crate::onnx::Model| {
            parse_inputs(&o.inputs, |name| m.inputs().iter().find(|p| p.name == name)?.elem()?.storage())
        };
        return write(&onnx::infer(&o.model, given)?, o);
    }
    let model = Model::load(&o.model)?;
    let s = model.signature();
    if o.inputs.is_empty() {
        println!("{}: {} bytes of weights", s.name, model.weight_bytes());
        s.inputs.iter().for_each(|t| println!("input   {:16} {}", t.name, t.describe()));
        s.outputs.iter().for_each(|t| println!("output  {:16} {}", t.name, t.describe()));
        return Ok(());
    }
    let mut given = parse_inputs(&o.inputs, |name| s.inputs.iter().find(|i| i.name == name)?.dtype().ok())?;
    let mut inputs = Vec::new();
    for spec in &s.inputs {
        let at = given.iter().position(|(n, _)| *n == spec.name);
        let at =
            at.ok_or_else(|| Error::value(format!("input {:?} is missing: it is {}", spec.name, spec.describe())))?;
        inputs.push(given.swap_remove(at).1);
    }
    if let Some((name, _)) = given.first() {
        return Err(Error::value(format!("the model has no input {name:?}")));
    }
    let outputs = model.run(&inputs)?;
    write(&s.outputs.iter().map(|s| s.name.clone()).zip(outputs).collect::<Vec<_>>(), o)
}

fn write(outputs: &[(String, Literal)], o: &Options) -> Result<()> {
    let Some(dir) = &o.output else {
        for (name, l) in outputs {
            let mut text = String::new();
            edge::nested(&mut text, l.dtype(), l.shape(), l.bytes());
            println!("{name} {}{} {text}", l.dtype(), l.shape());
        }
        return Ok(());
    };
    std::fs::create_dir_all(dir)?;
    outputs.iter().try_for_each(|(name, l)| crate::save_npy(dir.join(format!("{name}.npy")), &Tensor::from(l.clone())))
}

fn parse_inputs(texts: &[String], dtype: impl Fn(&str) -> Option<DType>) -> Result<Vec<(String, Literal)>> {
    let one = |text: &String| {
        let bad = |e: &str| Error::value(format!("{text}: {e}"));
        let (name, value) = text.split_once('=').ok_or_else(|| bad("NAME=FILE.npy or NAME=[…] is needed"))?;
        let dtype = dtype(name).ok_or_else(|| bad("the model has no such input"))?;
        let literal = if value.ends_with(".npy") {
            crate::load_npy(value)?.literal()?
        } else {
            let parsed: Value = serde_json::from_str(value).map_err(|e| bad(&e.to_string()))?;
            let (mut shape, mut numbers) = (Vec::new(), Vec::new());
            flatten(&parsed, 0, &mut shape, &mut numbers).map_err(bad)?;
            literal(dtype, shape.into(), &numbers).ok_or_else(|| bad(&format!("numbers of type {dtype} are needed")))?
        };
        Ok((name.to_string(), literal))
    };
    texts.iter().map(one).collect()
}

/// The numbers of nested lists in order, and their sizes.
fn flatten<'a>(
    v: &'a Value,
    depth: usize,
    shape: &mut Vec<usize>,
    to: &mut Vec<&'a Value>,
) -> std::result::Result<(), &'static str> {
    let Value::Array(items) = v else {
        to.push(v);
        return if depth == shape.len() { Ok(()) } else { Err("lists are ragged") };
    };
    match shape.get(depth) {
        Some(&n) if n != items.len() => return Err("lists are ragged"),
        Some(_) => {}
        // The first number has fixed the depth.
        None if !to.is_empty() => return Err("lists are ragged"),
        None => shape.push(items.len()),
    }
    items.iter().try_for_each(|i| flatten(i, depth + 1, shape, to))
}

fn literal(dtype: DType, shape: Shape, values: &[&Value]) -> Option<Literal> {
    if dtype.is_float() {
        let numbers: Vec<f64> = values.iter().map(|v| v.as_f64()).collect::<Option<_>>()?;
        return Some(Literal::from_f64(dtype, shape, &numbers));
    }
    let int = |v: &&Value| match v {
        Value::Bool(b) if dtype == DType::Bool => Some(i128::from(*b)),
        v => v.as_i64().map(i128::from).or_else(|| v.as_u64().map(i128::from)),
    };
    let numbers: Vec<i128> = values.iter().map(int).collect::<Option<_>>()?;
    Some(Literal::from_ints(dtype, shape, &numbers))
}
