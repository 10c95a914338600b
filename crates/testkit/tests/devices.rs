//! Every sample of the op table on every device, against the reference.
//!
//! `TALWEG_OP=name` checks one op.

use ir::{Buffer, Case, DType, Graph, Literal};
use runtime::{Engine, reference};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// f64 in another order; f32 with vector functions; half types rounded once instead of at every node.
const TOLERANCES: [(DType, f64); 4] = [(DType::F64, 1e-10), (DType::F32, 1e-4), (DType::BF16, 0.1), (DType::F16, 0.02)];

/// The case with its floats in another type.
fn converted(case: &Case, dtype: DType) -> Case {
    let convert = |l: &Literal| if l.dtype().is_float() { l.cast(dtype) } else { l.clone() };
    Case { inputs: case.inputs.iter().map(convert).collect(), ..case.clone() }
}

fn compare(engine: &Engine, g: &Graph, inputs: &[Literal], tolerance: f64) -> Result<(), String> {
    let want = reference::run(g, inputs).map_err(|e| format!("the reference fails: {e}"))?;
    let mut buffers: Vec<Buffer> = inputs.iter().cloned().map(Buffer::Host).collect();
    let got = catch_unwind(AssertUnwindSafe(|| engine.compile(g).and_then(|p| p.run(&mut buffers))));
    let got = got.map_err(|_| "the device panics")?.map_err(|e| format!("the device fails: {e}"))?;
    for (k, (g, w)) in got.iter().zip(&want).enumerate() {
        let g = g.read().map_err(|e| e.to_string())?;
        if g.dtype() != w.dtype() || g.shape() != w.shape() {
            return Err(format!("output {k} is {g:?} instead of {w:?}"));
        }
        let off = reference::distance(&g, w);
        let own = TOLERANCES.iter().find(|(d, _)| *d == w.dtype()).map_or(0.0, |t| t.1);
        if off > tolerance.max(own) {
            return Err(format!("output {k} is off by {off:e}: {g:?} instead of {w:?}"));
        }
    }
    Ok(())
}

fn every_case_agrees(engine: &Engine) {
    let only = std::env::var("TALWEG_OP").ok();
    let mut failures = Vec::new();
    for op in ops::table().filter(|op| only.as_deref().is_none_or(|n| n == op.name)) {
        for (i, case) in (op.cases)().iter().enumerate() {
            for (dtype, tolerance) in TOLERANCES {
                let case = converted(case, dtype);
                // An op may refuse a type.
                let Ok(g) = reference::graph_of(op, &case) else { continue };
                if let Err(e) = compare(engine, &g, &case.inputs, tolerance) {
                    failures.push(format!("{} case {i} in {dtype}: {e}", op.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_cpu_agrees_with_the_reference_on_every_sample() {
    every_case_agrees(&Engine::new(Arc::new(cpu::Cpu::new())));
}
