//! Every row of the op table: worked examples, gradients against finite differences, second
//! order, every element type against the reference, batching against a loop.
//!
//! `TALWEG_OP=name cargo test -p talweg-ops --test table` checks one op.

use cpu as _;
use ir::{Attr, Attrs, Case, DType, Grad, Literal, Meaning, Op};
use talweg_ops::{Result, Tensor, table, vjp, vmap};

fn rows() -> Vec<&'static Op> {
    let only = std::env::var("TALWEG_OP").ok();
    let rows: Vec<_> = table().filter(|op| only.as_deref().is_none_or(|n| n == op.name)).collect();
    assert!(!rows.is_empty(), "no op is named {only:?}");
    rows
}

/// Runs a check over every case of every row and reports all failures together.
fn each(check: impl Fn(&'static Op, &Case) -> std::result::Result<(), String>) {
    let mut failures = Vec::new();
    let mut checked = 0;
    for op in rows() {
        for (i, case) in (op.cases)().iter().enumerate() {
            checked += 1;
            if let Err(e) = check(op, case) {
                failures.push(format!("{} case {i} ({:?}): {e}", op.name, case.attrs));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {checked} cases fail:\n{}", failures.len(), failures.join("\n"));
}

fn apply(op: &'static Op, inputs: &[Tensor], attrs: &Attrs) -> Vec<Tensor> {
    Tensor::apply(op, &inputs.iter().collect::<Vec<_>>(), attrs.clone()).to_vec()
}
fn leaf(l: &Literal) -> Tensor {
    let t = Tensor::from(l.clone());
    if l.dtype().is_inexact() { t.requires_grad() } else { t }
}
fn tensors(case: &Case) -> Vec<Tensor> {
    case.inputs.iter().map(leaf).collect()
}
fn show<T>(r: Result<T>) -> std::result::Result<T, String> {
    r.map_err(|e| e.to_string())
}
/// Largest difference relative to the larger of 1 and the expected size; NaN equals NaN.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let one = |(&x, &y): (&f64, &f64)| {
        if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() / y.abs().max(1.0) }
    };
    a.iter().zip(b).map(one).fold(0.0, |m, d| if d.is_nan() { f64::INFINITY } else { d.max(m) })
}
fn close(what: &str, got: &Literal, want: &Literal, tolerance: f64) -> std::result::Result<(), String> {
    if got.dtype() != want.dtype() || got.shape() != want.shape() {
        return Err(format!("{what}: {}{} instead of {}{}", got.dtype(), got.shape(), want.dtype(), want.shape()));
    }
    let d = distance(&got.paired().to_f64(), &want.paired().to_f64());
    if d > tolerance { Err(format!("{what}: off by {d:e}: {got:?} instead of {want:?}")) } else { Ok(()) }
}

#[test]
fn names_are_unique_and_rows_complete() {
    let mut names: Vec<_> = table().map(|op| op.name).collect();
    names.sort_unstable();
    for w in names.windows(2) {
        assert_ne!(w[0], w[1], "two rows have the name {}", w[0]);
    }
    for op in rows() {
        let cases = (op.cases)();
        assert!(!op.doc.trim().is_empty(), "{} has no doc", op.name);
        assert!(cases.iter().any(|c| c.expect.is_some()), "{} has no worked example", op.name);
        if let (Grad::Expand, m) = (op.grad, op.meaning) {
            assert!(matches!(m, Meaning::Composite(_)), "{}: only composites are differentiated by expansion", op.name);
        }
    }
}

#[test]
fn worked_examples() {
    each(|op, case| {
        let Some((want, source)) = &case.expect else { return Ok(()) };
        let got = apply(op, &tensors(case), &case.attrs);
        if got.len() != want.len() {
            return Err(format!("{} results instead of {}: {:?}", got.len(), want.len(), got[0].error()));
        }
        for (g, w) in got.iter().zip(want) {
            close(source, &show(g.literal())?, w, 1e-9)?;
        }
        Ok(())
    });
}

/// Inputs a gradient can be taken for.
fn differentiable(op: &'static Op, case: &Case) -> Vec<usize> {
    let no = matches!(op.grad, Grad::Zero | Grad::Missing(_)) || !case.smooth;
    if no { vec![] } else { (0..case.inputs.len()).filter(|&i| case.inputs[i].dtype().is_inexact()).collect() }
}

/// A scalar function of the case's float inputs: the results weighted by fixed numbers.
fn objective(op: &'static Op, case: &Case, xs: &[Tensor]) -> Result<Tensor> {
    let mut total = Tensor::from(0.0f64);
    for (k, y) in apply(op, xs, &case.attrs).iter().enumerate() {
        let y = &if y.dtype()?.is_complex() { y.view_as_real() } else { y.clone() };
        if y.dtype()?.is_float() {
            let w = talweg_ops::rules::sample(DType::F64, y.shape()?, 91 + k as u64, (0.5, 1.5));
            total = total + (y.cast(DType::F64) * Tensor::from(w)).sum(..);
        }
    }
    Ok(total)
}

/// Central differences of `f` at input `which`.
fn differences(f: &dyn Fn(&[Tensor]) -> Result<f64>, case: &Case, which: usize) -> Result<Vec<f64>> {
    let h = 1e-5;
    let x = case.inputs[which].paired();
    let (pairs, x) = (x.clone(), x.to_f64());
    let at = |i: usize, d: f64| -> Result<f64> {
        let mut moved = x.clone();
        moved[i] += d;
        let mut xs = tensors(case);
        let moved = Literal::from_f64(pairs.dtype(), pairs.shape().clone(), &moved);
        xs[which] = leaf(&moved.retyped(case.inputs[which].dtype(), case.inputs[which].shape().clone()));
        f(&xs)
    };
    // Two step sizes combined cancel the leading error.
    let slope = |i: usize, h: f64| -> Result<f64> { Ok((at(i, h)? - at(i, -h)?) / (2.0 * h)) };
    (0..x.len()).map(|i| Ok((4.0 * slope(i, h)? - slope(i, 2.0 * h)?) / 3.0)).collect()
}

fn gradients(op: &'static Op, case: &Case, xs: &[Tensor], wrt: &[usize]) -> Result<Vec<Tensor>> {
    let y = objective(op, case, xs)?;
    vjp(std::slice::from_ref(&y), &[y.ones_like()], &wrt.iter().map(|&i| xs[i].clone()).collect::<Vec<_>>())
}

#[test]
fn gradients_match_finite_differences() {
    each(|op, case| {
        let wrt = differentiable(op, case);
        let xs = tensors(case);
        let got = show(gradients(op, case, &xs, &wrt))?;
        for (&i, g) in wrt.iter().zip(&got) {
            let f = |xs: &[Tensor]| objective(op, case, xs)?.item::<f64>();
            let want = show(differences(&f, case, i))?;
            let d = distance(&show(g.literal())?.paired().to_f64(), &want);
            if d > 2e-6 {
                return Err(format!(
                    "gradient of input {i} off by {d:e}: {:?} instead of {want:?}",
                    show(g.literal())?
                ));
            }
        }
        Ok(())
    });
}

#[test]
fn second_order_matches_finite_differences() {
    each(|op, case| {
        let wrt = differentiable(op, case);
        // The squared length of the gradient, differentiated once more.
        let length = |xs: &[Tensor]| -> Result<Tensor> {
            Ok(gradients(op, case, xs, &wrt)?.iter().map(|g| g.abs().square().sum(..) * 0.5).sum())
        };
        let xs = tensors(case);
        if wrt.is_empty() {
            return Ok(());
        }
        let y = show(length(&xs))?;
        let values: Vec<Tensor> = wrt.iter().map(|&i| xs[i].clone()).collect();
        let got = show(vjp(std::slice::from_ref(&y), &[y.ones_like()], &values))?;
        for (&i, g) in wrt.iter().zip(&got) {
            let want = show(differences(&|xs| length(xs)?.item::<f64>(), case, i))?;
            let d = distance(&show(g.literal())?.paired().to_f64(), &want);
            if d > 2e-5 {
                return Err(format!(
                    "second order of input {i} off by {d:e}: {:?} instead of {want:?}",
                    show(g.literal())?
                ));
            }
        }
        Ok(())
    });
}

/// Float inputs of a case times `a`, plus other samples of their shapes times `b`; the rest as it is.
fn mixed(case: &Case, a: f64, b: f64) -> Vec<Tensor> {
    let one = |(i, l): (usize, &Literal)| match l.dtype() {
        DType::F64 => {
            let other = talweg_ops::rules::sample(DType::F64, l.shape().clone(), 71 + i as u64, (-2.0, 2.0));
            let sum: Vec<f64> = l.to_f64().iter().zip(other.to_f64()).map(|(x, y)| a * x + b * y).collect();
            Tensor::from(Literal::from_f64(DType::F64, l.shape().clone(), &sum))
        }
        _ => Tensor::from(l.clone()),
    };
    case.inputs.iter().enumerate().map(one).collect()
}

#[test]
fn linear_rows_are_linear() {
    each(|op, case| {
        if !op.linear {
            return Ok(());
        }
        let of = |a: f64, b: f64| show(apply(op, &mixed(case, a, b), &case.attrs)[0].literal());
        let (x, y, both) = (of(1.0, 0.0)?, of(0.0, 1.0)?, of(2.0, -3.0)?);
        let want: Vec<f64> = x.to_f64().iter().zip(y.to_f64()).map(|(x, y)| 2.0 * x - 3.0 * y).collect();
        close("2 f(x) - 3 f(y)", &both, &Literal::from_f64(both.dtype(), both.shape().clone(), &want), 1e-12)
    });
}

#[test]
fn every_dtype_matches_the_reference() {
    each(|op, case| {
        for dtype in DType::ALL {
            let cast = |l: &Literal| if l.dtype() == DType::F64 { l.cast(dtype) } else { l.clone() };
            let inputs: Vec<Literal> = case.inputs.iter().map(cast).collect();
            let xs: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
            let outs = apply(op, &xs, &case.attrs);
            if outs[0].error().is_some() {
                continue; // not defined for this type: the error says so
            }
            let args: Vec<ir::Value> = inputs
                .iter()
                .map(|l| ir::Value::placeholder("", ir::Type::new(l.dtype(), l.shape().clone()), ir::Site::here()))
                .collect();
            let stand_ins: Vec<Tensor> = args.iter().cloned().map(Tensor::from).collect();
            let live = apply(op, &stand_ins, &case.attrs);
            let live = show(live.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>())?;
            let graph = show(passes::graph_of(&args, &live))?;
            let want = runtime::reference::run(&graph, &inputs);
            for (o, y) in outs.iter().enumerate() {
                let (got, want) = match (y.literal(), &want) {
                    (Ok(g), Ok(w)) => (g, &w[o]),
                    (Err(_), Err(_)) => continue,
                    (g, w) => {
                        return Err(format!("{dtype}: {:?} but the reference gives {:?}", g.err(), w.as_ref().err()));
                    }
                };
                // A result may be coarser than the inputs: samples of f32 from an integer key.
                let coarse = if got.dtype().is_inexact() && dtype.part() == DType::F64 { got.dtype() } else { dtype };
                let coarse = coarse.part();
                let tolerance = match coarse {
                    DType::F64 => 1e-9,
                    DType::F32 => 2e-5,
                    DType::F16 => 2e-2,
                    DType::BF16 => 1e-1,
                    _ => 2e-5,
                };
                close(&format!("{dtype} result {o}"), &got, want, tolerance)?;
            }
        }
        Ok(())
    });
}

#[test]
fn vmap_matches_a_loop() {
    each(|op, case| {
        if case.inputs.is_empty() {
            return Ok(());
        }
        // Batches of two: the case itself and the case with its elements in reverse order. Index
        // and mask inputs are repeated as they are.
        let other: Vec<Literal> = case
            .inputs
            .iter()
            .map(|l| {
                let n = l.count();
                if l.dtype().is_float() && n > 0 && case.smooth {
                    l.pick(l.shape(), |i| Some(n - 1 - i))
                } else {
                    l.clone()
                }
            })
            .collect();
        for mask in 1..(1u32 << case.inputs.len().min(3)) {
            let is_batched = |i: usize| mask >> i.min(2) & 1 == 1;
            let args: Vec<Tensor> = (0..case.inputs.len())
                .filter(|&i| is_batched(i))
                .map(|i| Tensor::stack(&[case.inputs[i].clone().into(), other[i].clone().into()], 0))
                .collect();
            let call = |batched: &[Tensor]| -> Vec<Tensor> {
                let mut next = batched.iter();
                let xs: Vec<Tensor> = (0..case.inputs.len())
                    .map(|i| if is_batched(i) { next.next().unwrap().clone() } else { case.inputs[i].clone().into() })
                    .collect();
                apply(op, &xs, &case.attrs)
            };
            let got = show(vmap(|a| Ok(call(a)), &args))?;
            let rows: Vec<Vec<Tensor>> =
                (0..2).map(|b| call(&args.iter().map(|a| a.select(0, b)).collect::<Vec<_>>())).collect();
            for (o, y) in got.iter().enumerate() {
                let want = show(Tensor::stack(&[rows[0][o].clone(), rows[1][o].clone()], 0).literal())?;
                close(&format!("vmap mask {mask} result {o}"), &show(y.literal())?, &want, 1e-9)?;
            }
        }
        Ok(())
    });
}

#[test]
fn bad_attributes_are_named() {
    for op in rows() {
        for case in (op.cases)() {
            let attrs = case.attrs.clone().with("nonsense", Attr::Int(1));
            let e = apply(op, &tensors(&case), &attrs)[0].error().expect("an error").to_string();
            assert!(e.contains("nonsense") && e.starts_with(op.name), "{e}");
        }
    }
}
