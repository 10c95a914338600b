//! One case: results, gradients and second-order gradients against the recorded ones.

use super::{GoldenCase, call};
use ir::Literal;
use ops::{DType, Tensor, vjp};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Largest difference allowed, relative to the larger of 1 and the recorded size. Both sides
/// compute in f64, so only the order of operations differs.
pub const TOLERANCE: f64 = 1e-8;

/// How a case went.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Results, gradients and second-order gradients agree.
    Agrees,
    /// No adapter knows the operator.
    NoAdapter,
    /// What is wrong.
    Fails(String),
}

/// Checks one case. Panics of adapters and ops are failures of the case.
pub fn check(case: &GoldenCase) -> Verdict {
    let run = || match call(case) {
        None => Ok(Verdict::NoAdapter),
        Some(outs) => compare(case, outs.map_err(|e| e.to_string())?).map(|()| Verdict::Agrees),
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(v)) => v,
        Ok(Err(e)) => Verdict::Fails(e),
        Err(p) => {
            let text = p.downcast_ref::<String>().cloned();
            let text = text.or_else(|| p.downcast_ref::<&str>().map(|s| s.to_string()));
            Verdict::Fails(format!("panicked: {}", text.unwrap_or_default()))
        }
    }
}

fn compare(case: &GoldenCase, outs: Vec<Tensor>) -> Result<(), String> {
    let show = |e: ops::Error| e.to_string();
    let mut picked = Vec::new();
    for (&p, key) in case.pick.iter().zip(&case.outputs) {
        let out = outs.get(p).ok_or_else(|| format!("{} results, but the case records number {p}", outs.len()))?;
        agree(&format!("result {p}"), &out.literal().map_err(show)?, &case.store[key])?;
        picked.push(out.clone());
    }
    let wrt: Vec<Tensor> = case.wrt.iter().map(|k| case.by_key(k)).collect();
    if wrt.is_empty() {
        return Ok(());
    }
    let outs: Vec<Tensor> = case.diff.iter().map(|&d| picked[d].cast(DType::F64)).collect();
    let cotangents: Vec<Tensor> = case.cotangents.iter().map(|k| case.by_key(k)).collect();
    let grads = vjp(&outs, &cotangents, &wrt).map_err(|e| format!("gradient: {e}"))?;
    let mut values = Vec::new();
    for (i, (g, key)) in grads.iter().zip(&case.grads).enumerate() {
        let l = g.literal().map_err(show)?;
        agree(&format!("gradient {i}"), &l, &case.store[key])?;
        values.push(Tensor::from(l));
    }
    let Some(second) = &case.gradgrads else { return Ok(()) };
    // d(Σ ⟨g, g⟩ / 2) is the pullback of g itself.
    let got = vjp(&grads, &values, &wrt).map_err(|e| format!("second order: {e}"))?;
    for (i, (g, key)) in got.iter().zip(second).enumerate() {
        agree(&format!("second-order gradient {i}"), &g.literal().map_err(show)?, &case.store[key])?;
    }
    Ok(())
}

/// Shapes equal, floats close, integers exact.
fn agree(what: &str, got: &Literal, want: &Literal) -> Result<(), String> {
    let kind = |l: &Literal| if l.dtype().is_float() { "float" } else { l.dtype().name() };
    if got.shape() != want.shape() || kind(got) != kind(want) {
        return Err(format!("{what} is {}{} instead of {}{}", kind(got), got.shape(), kind(want), want.shape()));
    }
    if !want.dtype().is_float() {
        let (got, want) = (got.to_i64(), want.to_i64());
        return match got.iter().zip(&want).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(i) => Err(format!("{what}[{i}] is {} instead of {}", got[i], want[i])),
        };
    }
    let (got, want) = (got.to_f64(), want.to_f64());
    let off = |x: f64, y: f64| {
        if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() / y.abs().max(1.0) }
    };
    let worst = got.iter().zip(&want).enumerate().map(|(i, (&x, &y))| (off(x, y), i));
    // NaN beside a number is as far off as can be.
    let worst = worst.map(|(d, i)| (if d.is_nan() { f64::INFINITY } else { d }, i)).max_by(|a, b| a.0.total_cmp(&b.0));
    match worst {
        Some((d, i)) if d > TOLERANCE => {
            Err(format!("{what}[{i}] is {} instead of {} (off by {d:.1e})", got[i], want[i]))
        }
        _ => Ok(()),
    }
}
