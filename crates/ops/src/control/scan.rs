//! `scan`: a function over the rows of tensors, with a state carried from row to row.

use super::scan_grad::{grad, saving};
use super::{Body, batch_graph, batched, graph, list, output_types};
use super::{row, saving_inputs, stack, tensors, types, values};
use crate::rules::{f64s, floats};
use crate::{Error, Result, Tensor};
use ir::{
    AttrKind, Attrs, Batch, BatchCall, Buffer, Call, Case, DType, Grad, Graph, Meaning, Op, RunGraph, Site, Type,
    Types, Value,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The row of `scan`.
pub static OP: Op = Op {
    name: "scan",
    doc: "Runs the graph `body` `length` times. It takes the carried values, one row of each of the next `rows` \
          inputs, and the remaining inputs as they are; it returns the new carried values and one row of each further \
          result. The last `saved` results are for the gradient: the carried values as each step found them, then \
          inner values that are costly to compute again.",
    attrs: &[
        ("body", AttrKind::Graph),
        ("carried", AttrKind::Int),
        ("rows", AttrKind::Int),
        ("length", AttrKind::Int),
        ("reverse", AttrKind::Bool),
        ("saved", AttrKind::Int),
    ],
    infer,
    meaning: Meaning::Control(run),
    grad: Grad::Rule(grad),
    batch: Batch::Rule(batch),
    cases,
    ..Op::DEFAULT
};

/// The numbers of a scan's attributes.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub carried: usize,
    pub rows: usize,
    pub length: usize,
    pub reverse: bool,
    pub saved: usize,
}
impl Parts {
    pub fn of(attrs: &Attrs) -> Result<Parts> {
        Ok(Parts {
            carried: attrs.size("carried")?,
            rows: attrs.size("rows")?,
            length: attrs.size("length")?,
            reverse: attrs.bool("reverse")?,
            saved: attrs.size("saved")?,
        })
    }
    pub fn attrs(self, body: Arc<Graph>) -> Attrs {
        Attrs::new()
            .with("body", body)
            .with("carried", self.carried)
            .with("rows", self.rows)
            .with("length", self.length)
            .with("reverse", self.reverse)
            .with("saved", self.saved)
    }
}

/// The attributes of a scan without rows that carries `n` values and saves them.
pub(super) fn repeated(body: Arc<Graph>, n: usize, length: usize) -> Attrs {
    Parts { carried: n, rows: 0, length, reverse: false, saved: n }.attrs(body)
}

fn infer(c: &Call) -> Result<Types> {
    let p = Parts::of(c.attrs)?;
    let body = c.attrs.graph("body")?;
    if c.types.len() < p.carried + p.rows {
        return Err(Error::value(format!(
            "takes at least {} inputs, but {} were given",
            p.carried + p.rows,
            c.types.len()
        )));
    }
    let mut step = c.types.to_vec();
    for (i, t) in step.iter_mut().enumerate().skip(p.carried).take(p.rows) {
        if t.shape.rank() == 0 || t.shape[0] != p.length {
            return Err(Error::shape(format!("input {i} must have {} rows, but it is {t}", p.length)));
        }
        t.shape.remove(0);
    }
    super::check_inputs("the body", body, &step)?;
    let outs = output_types(body);
    if outs.len() < p.carried + p.saved {
        let e = format!("the body must return {} carried values, but it returns {}", p.carried, list(&outs));
        return Err(Error::value(e));
    }
    for i in 0..p.carried {
        if outs[i] != step[i] {
            let e = format!("carried value {i} is {} at first, but the body returns {}", step[i], outs[i]);
            return Err(Error::shape(e));
        }
    }
    if outs.is_empty() {
        return Err(Error::value("the body returns nothing"));
    }
    let rows = |(i, mut t): (usize, Type)| {
        if i >= p.carried {
            t.shape.insert(0, p.length);
        }
        t
    };
    Ok(outs.into_iter().enumerate().map(rows).collect())
}

fn run(c: &Call, args: &[Buffer], run: RunGraph) -> Result<Vec<Buffer>> {
    let p = Parts::of(c.attrs)?;
    let body = c.attrs.graph("body")?;
    let outs = infer(c)?;
    let mut carried = args[..p.carried].to_vec();
    let mut rows: Vec<Vec<Buffer>> = vec![Vec::with_capacity(p.length); outs.len() - p.carried];
    for k in 0..p.length {
        let i = if p.reverse { p.length - 1 - k } else { k };
        let mut given = std::mem::take(&mut carried);
        for x in &args[p.carried..p.carried + p.rows] {
            given.push(row(x, i)?);
        }
        given.extend_from_slice(&args[p.carried + p.rows..]);
        let mut got = run(body, &given)?.into_iter();
        carried = got.by_ref().take(p.carried).collect();
        rows.iter_mut().zip(got).for_each(|(r, y)| r.push(y));
    }
    for (r, t) in rows.iter_mut().zip(&outs[p.carried..]) {
        if p.reverse {
            r.reverse();
        }
        carried.push(stack(t, r)?);
    }
    Ok(carried)
}

/// The carried values of all members go along together; rows keep their axis in front.
fn batch(c: &BatchCall) -> Result<Vec<Value>> {
    let p = Parts::of(c.attrs)?;
    let (n, m) = (p.carried, p.rows);
    let marks: Vec<bool> = (0..c.inputs.len()).map(|i| i < n || c.batched[i]).collect();
    let body = batch_graph(c.attrs.graph("body")?, &marks, c.size)?;
    let inputs = c.inputs.iter().enumerate().map(|(i, v)| {
        if i < n {
            batched(v, c.batched[i], c.size)
        } else if i < n + m && c.batched[i] {
            Tensor::from(v.clone()).transpose(0, 1).value().cloned()
        } else {
            Ok(v.clone())
        }
    });
    let inputs = inputs.collect::<Result<SmallVec<[Value; 2]>>>()?;
    let outs = Value::apply(&OP, inputs, p.attrs(body), Site::here())?;
    let swap = |(i, v): (usize, Value)| if i < n { Ok(v) } else { Tensor::from(v).transpose(0, 1).value().cloned() };
    outs.into_iter().enumerate().map(swap).collect()
}

fn cases() -> Vec<Case> {
    let (v, s) = (Type::new(DType::F64, [2]), Type::new(DType::F64, ()));
    // Carries a vector, takes a scalar a step, captures a vector.
    let body = graph(&[v.clone(), s.clone(), v.clone()], |x| {
        let next = (&x[0] * &x[2] + &x[1]).sin();
        Ok(vec![next.clone(), (&next * &x[0]).sum(..)])
    });
    let sum = graph(&[s.clone(), s], |x| Ok(vec![&x[0] + &x[1], &x[0] + &x[1]])).expect("well typed");
    let body = body.expect("well typed");
    let p = Parts { carried: 1, rows: 1, length: 3, reverse: false, saved: 0 };
    let inputs = || vec![floats([2], 1), floats([3], 2), floats([2], 3)];
    let saving = Arc::new(saving_inputs(&body, 1));
    vec![
        Case::new(inputs(), p.attrs(body.clone())),
        Case::new(inputs(), Parts { reverse: true, ..p }.attrs(body)),
        Case::new(inputs(), Parts { saved: 1, ..p }.attrs(saving)),
        Case::new(vec![f64s((), &[0.0]), f64s([3], &[1.0, 2.0, 3.0])], p.attrs(sum))
            .expect(vec![f64s((), &[6.0]), f64s([3], &[1.0, 3.0, 6.0])], "JAX manual, lax.scan: running sums"),
    ]
}

/// How a scan goes along its rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanOptions {
    /// From the last row to the first.
    pub reverse: bool,
    /// How many steps; needed only where there are no rows to count.
    pub length: Option<usize>,
}

/// Calls `f(carried, row)` for each row of `xs` along the first axis. `f` returns the new carried
/// values and a row of each result; the last carried values and the stacked rows come back.
///
/// ```
/// # use talweg_ops::{Tensor, control::scan};
/// let (last, sums) = scan(
///     |carried, row| {
///         let sum = &carried[0] + &row[0];
///         Ok((vec![sum.clone()], vec![sum]))
///     },
///     &[Tensor::from(0.0f32)],
///     &[Tensor::from([1.0f32, 2.0, 3.0])],
/// )
/// .unwrap();
/// assert_eq!(last[0].item::<f32>().unwrap(), 6.0);
/// assert_eq!(sums[0].to_vec::<f32>().unwrap(), [1.0, 3.0, 6.0]);
/// ```
#[track_caller]
pub fn scan(
    f: impl FnOnce(&[Tensor], &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    init: &[Tensor],
    xs: &[Tensor],
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    scan_with(ScanOptions::default(), f, init, xs)
}

/// [`scan`] with options.
#[track_caller]
pub fn scan_with(
    options: ScanOptions,
    f: impl FnOnce(&[Tensor], &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    init: &[Tensor],
    xs: &[Tensor],
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let site = Site::here();
    let run = || {
        let (start, mut rows) = (values(init)?, values(xs)?);
        let length = match (rows.first(), options.length) {
            (Some(r), _) if r.ty().shape.rank() == 0 => return Err(Error::shape("a scalar has no rows to go along")),
            (Some(r), _) => r.ty().shape[0],
            (None, Some(n)) => n,
            (None, None) => return Err(Error::value("without rows the length must be given")),
        };
        let mut list = types(&start);
        for mut t in types(&rows) {
            if t.shape.rank() == 0 || t.shape[0] != length {
                return Err(Error::shape(format!("rows must be equally many: {length} and {t}")));
            }
            t.shape.remove(0);
            list.push(t);
        }
        let n = start.len();
        let mut carried = 0;
        let (mut body, index) = Body::trace_loop(&list, site, |a| {
            let (c, y) = f(&a[..n], &a[n..])?;
            carried = c.len();
            Ok([c, y].concat())
        })?;
        if let Some(index) = index {
            body.args.push(index);
            rows.push(Tensor::iota(length, DType::I64).value()?.clone());
        }
        if carried != n {
            return Err(Error::value(format!("the body must return {n} carried values, but it returns {carried}")));
        }
        let captures = body.captures()?;
        let mut graph = body.graph(&captures)?;
        let m = rows.len();
        let inputs: SmallVec<[Value; 2]> = start.into_iter().chain(rows).chain(captures).collect();
        let given = output_types(&graph).len();
        // A gradient needs what each step found: kept here it need not be computed again.
        if inputs.iter().any(|v| v.node().needs_grad()) && ir::is_grad_on() {
            graph = Arc::new(saving(&graph, n, n + m)?);
        }
        let saved = output_types(&graph).len() - given;
        let p = Parts { carried: n, rows: m, length, reverse: options.reverse, saved };
        let outs = tensors(&Value::apply(&OP, inputs, p.attrs(graph), site)?);
        Ok((outs[..n].to_vec(), outs[n..given].to_vec()))
    };
    run().map_err(|e: Error| e.in_op("scan").at(site))
}

/// Calls `f` for each row of `xs` along the first axis, one after the other, and stacks what it
/// returns. Where memory allows, `vmap` does the same all at once.
///
/// ```
/// # use talweg_ops::{Tensor, control::map};
/// let y = map(|row| Ok(vec![row[0].sum(..)]), &[Tensor::from([[1.0f32, 2.0], [3.0, 4.0]])]).unwrap();
/// assert_eq!(y[0].to_vec::<f32>().unwrap(), [3.0, 7.0]);
/// ```
#[track_caller]
pub fn map(f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>, xs: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(scan(|_, row| Ok((vec![], f(row)?)), &[], xs)?.1)
}

/// Calls `f(i, carried)` for `i` from `lo` up to but not including `hi`; `i` is an i64 scalar.
///
/// ```
/// # use talweg_ops::{DType, Tensor, control::fori_loop};
/// let y = fori_loop(1, 6, |i, c| Ok(vec![&c[0] * i]), &[Tensor::from(1i64)]).unwrap();
/// assert_eq!(y[0].item::<i64>().unwrap(), 120);
/// ```
#[track_caller]
pub fn fori_loop(
    lo: i64,
    hi: i64,
    f: impl FnOnce(&Tensor, &[Tensor]) -> Result<Vec<Tensor>>,
    init: &[Tensor],
) -> Result<Vec<Tensor>> {
    let options = ScanOptions { length: Some((hi - lo).max(0) as usize), ..Default::default() };
    let start = [&[Tensor::from(lo)], init].concat();
    let step = |c: &[Tensor], _: &[Tensor]| Ok(([vec![&c[0] + 1i64], f(&c[0], &c[1..])?].concat(), vec![]));
    Ok(scan_with(options, step, &start, &[])?.0.split_off(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    #[test]
    fn a_carried_value_that_changes_its_type_names_the_line() {
        let x = Tensor::from([1.0f32, 2.0]);
        let e = scan(|_, r| Ok((vec![r[0].reshape([1])], vec![])), &[Tensor::from(0.0f32)], &[x]).unwrap_err();
        assert!(e.to_string().contains("carried value 0 is f32[] at first, but the body returns f32[1]"), "{e}");
        assert!(e.to_string().contains("scan.rs"), "{e}");
    }

    #[test]
    fn gradients_reach_captures_through_every_step() {
        // y = w^3 by three steps: dy/dw = 3 w^2, second derivative 6 w.
        let w = Tensor::from(2.0f64).requires_grad();
        let y = fori_loop(0, 3, |_, c| Ok(vec![&c[0] * &w]), &[Tensor::from(1.0f64)]).unwrap();
        let g = crate::grad(&y[0], from_ref(&w)).unwrap().swap_remove(0);
        let h = crate::grad(&g, &[w]).unwrap().swap_remove(0);
        assert_eq!([y[0].item::<f64>().unwrap(), g.item().unwrap(), h.item().unwrap()], [8.0, 12.0, 12.0]);
    }

    #[test]
    fn a_scan_inside_a_scan_sees_the_outer_row() {
        let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
        let total = |row: &[Tensor]| {
            let (last, _) =
                scan(|c, e| Ok((vec![&c[0] + &e[0] * row[0].sum(..)], vec![])), &[Tensor::from(0.0f64)], row)?;
            Ok(last)
        };
        let y = map(total, &[x]).unwrap();
        assert_eq!(y[0].to_vec::<f64>().unwrap(), [9.0, 49.0]);
    }
}
