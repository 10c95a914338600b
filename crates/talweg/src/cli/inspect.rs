//! `talweg inspect` and `talweg ops`: what is in a file, what an op is.

use crate::ir::{Grad, Meaning};
use crate::{Error, Result, files, find, table};
use std::path::{Path, PathBuf};

/// Shows the tensors of a safetensors file, or a graph.
pub fn run(file: &PathBuf) -> Result<()> {
    if file.extension().is_some_and(|e| e == "safetensors") {
        return tensors(file);
    }
    if super::onnx::is_onnx(file) {
        return super::onnx::inspect(file);
    }
    let graph = super::explain::read(file)?;
    println!("{graph}");
    Ok(())
}

fn tensors(file: &Path) -> Result<()> {
    let name = |e: &dyn std::fmt::Display| Error::format(format!("{}: {e}", file.display()));
    let bytes = if data::atomic::sidecar(file).exists() {
        data::atomic::read_checked(file)?
    } else {
        std::fs::read(file).map_err(|e| name(&e))?
    };
    let (tensors, metadata) = files::decode(&bytes).map_err(|e| name(&e.message))?;
    for (k, v) in &metadata {
        println!("{k} = {v}");
    }
    let mut total = 0;
    for (k, l) in &tensors {
        total += l.bytes().len();
        let x = l.to_f64();
        let n = x.len().max(1) as f64;
        let mean = x.iter().sum::<f64>() / n;
        let std = (x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        let odd = x.iter().filter(|v| !v.is_finite()).count();
        let note = if odd > 0 { format!(", {odd} not finite") } else { String::new() };
        println!("{k:32} {}{}  mean {mean:.2e}, std {std:.2e}{note}", l.dtype(), l.shape());
    }
    println!("{} tensors, {total} bytes", tensors.len());
    Ok(())
}

/// Lists the table, or shows one row.
pub fn ops(name: Option<&str>) -> Result<()> {
    let kind = |m: &Meaning| match m {
        Meaning::Input | Meaning::Const => "leaf",
        Meaning::Scalar(_) => "scalar",
        Meaning::View(_) | Meaning::Recast => "view",
        Meaning::Reduce(_) => "reduce",
        Meaning::Kernel(_) => "kernel",
        Meaning::Composite(_) => "composite",
        Meaning::Control(_) => "control",
    };
    let Some(name) = name else {
        for op in table() {
            println!("{:28} {:10} {}", op.name, kind(&op.meaning), op.doc.trim());
        }
        return Ok(());
    };
    let op = find(name).ok_or_else(|| Error::value(format!("there is no op {name}; `talweg ops` lists them")))?;
    println!("{} ({})\n{}", op.name, kind(&op.meaning), op.doc.trim());
    for (attr, kind) in op.attrs {
        println!("  {attr}: {kind:?}");
    }
    println!(
        "  gradient: {}",
        match op.grad {
            Grad::Expand => "through what it consists of",
            Grad::Rule(_) => "its own rule",
            Grad::Zero => "zero",
            Grad::Missing(why) => why,
        }
    );
    for case in (op.cases)() {
        if let Some((out, source)) = &case.expect {
            println!("  {:?} {:?} -> {out:?}  ({source})", case.inputs, case.attrs);
        }
    }
    Ok(())
}
