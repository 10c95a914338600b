//! If, Loop and Scan. What is known while tracing is decided there; the rest becomes `cond`, `while_loop` and `scan`.

use super::{Outs, Row, constant, row};
use crate::graph::Graph;
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Literal, Result};
use tensor::Tensor;
use tensor::control::{ScanOptions, cond, scan_with, while_loop};

pub static ROWS: &[Row] =
    &[row("If", 1, branch), row("Loop", 1, repeat), row("Scan", 8, scan_batches), row("Scan", 9, scan)];

/// Loops of more trips than this are not written out while tracing.
const UNROLLED_MAX: usize = 64;

fn tensors(values: Vec<Value>) -> Option<Vec<Tensor>> {
    let one = |v| match v {
        Value::Tensor(t) if !t.elem.is_small() => Some(t.tensor),
        _ => None,
    };
    values.into_iter().map(one).collect()
}

fn values(tensors: Vec<Tensor>) -> Vec<Value> {
    tensors.into_iter().map(Value::from).collect()
}

fn branch(c: &Call<'_>) -> Outs {
    let (then, otherwise) = (c.graph("then_branch")?, c.graph("else_branch")?);
    let test = super::math::scalar(c.x(0)?)?;
    if Call::is_known(&test) {
        let is_true = c.host(0)?.to_i64().first().is_some_and(|&b| b != 0);
        return c.scope.graph(if is_true { &then } else { &otherwise }, Vec::new());
    }
    let run = |g: &Graph| {
        let outs = c.scope.graph(g, Vec::new())?;
        tensors(outs).ok_or_else(|| Error::dtype("branches must return tensors while a graph is traced"))
    };
    match cond(&test, |_| run(&then), |_| run(&otherwise), &[]) {
        Ok(outs) => Ok(values(outs)),
        // Branches may differ in shape: then the condition must be known.
        Err(e) => Err(c.needs_value(&format!("a condition is not known while a graph is traced ({})", e.message))),
    }
}

fn repeat(c: &Call<'_>) -> Outs {
    let body = c.graph("body")?;
    let state: Vec<Value> = c.inputs.iter().skip(2).cloned().collect();
    let carried = state.len();
    let scans = body.outputs.len().saturating_sub(carried + 1);
    let trips = match c.has(0) {
        true => {
            let n = c.ints(0)?.first().copied().unwrap_or(0);
            Some(n)
        }
        false => None,
    };
    let test = if c.has(1) { Some(super::math::scalar(c.x(1)?)?) } else { None };
    if let Some(t) = &test
        && !Call::is_known(t)
    {
        return while_true(c, &body, trips, t, state, scans);
    }
    let is_symbolic = |v: &Value| matches!(v, Value::Tensor(t) if !Call::is_known(&t.tensor));
    if trips.is_some_and(|n| n > UNROLLED_MAX as i64) && state.iter().any(is_symbolic) {
        return by_scan(c, &body, trips.unwrap_or(0) as usize, state);
    }
    let mut go = match &test {
        Some(_) => c.host(1)?.to_i64().first().is_some_and(|&b| b != 0),
        None => true,
    };
    let mut state = state;
    let mut rows: Vec<Vec<Value>> = vec![Vec::new(); scans];
    let mut i = 0i64;
    while go && trips.is_none_or(|n| i < n) {
        let mut inputs = vec![Literal::scalar(i).into(), Literal::scalar(true).into()];
        inputs.append(&mut state);
        let mut outs = c.scope.graph(&body, inputs)?;
        let more = outs.split_off((carried + 1).min(outs.len()));
        rows.iter_mut().zip(more).for_each(|(r, v)| r.push(v));
        state = outs.split_off(1);
        go = match &outs[0] {
            Value::Tensor(t) => match &t.host {
                Some(l) => l.to_i64().first().is_some_and(|&b| b != 0),
                None => c.read(&t.tensor, "a loop's condition")?.to_i64().first().is_some_and(|&b| b != 0),
            },
            v => return Err(Error::dtype(format!("the condition of a loop is {}", v.describe()))),
        };
        i += 1;
    }
    for r in rows {
        state.push(joined(c, &body, state.len(), r)?);
    }
    Ok(state)
}

/// The rows of a scan output as one tensor.
fn joined(c: &Call<'_>, body: &Graph, at: usize, rows: Vec<Value>) -> Result<Value> {
    if rows.is_empty() {
        use crate::proto::{Dim, TypeProto};
        let Some(TypeProto::Tensor { elem, shape }) = body.outputs.get(at + 1).map(|o| &o.ty) else {
            return Err(Error::dtype("a loop without trips does not know the type of its result"));
        };
        let size = |d: &Dim| if let Dim::Fixed(n) = d { *n } else { 0 };
        let sizes: Vec<usize> = [0].into_iter().chain(shape.iter().flatten().map(size)).collect();
        let dtype = crate::element::Elem(*elem).storage().unwrap_or(DType::F32);
        return Ok(constant(Literal::zeros(dtype, sizes)).into());
    }
    let elem = match &rows[0] {
        Value::Tensor(t) => t.elem,
        _ => return Err(Error::dtype("a scan output must be a tensor")),
    };
    let rows = tensors(rows).ok_or_else(|| Error::dtype("a scan output must be a tensor"))?;
    let count = rows[0].count()?.saturating_mul(rows.len());
    c.check_count(count, rows[0].dtype()?)?;
    Ok(Value::typed(Tensor::stack(&rows, 0), elem))
}

/// A loop whose condition is only known when it runs.
fn while_true(c: &Call<'_>, body: &Graph, trips: Option<i64>, test: &Tensor, state: Vec<Value>, scans: usize) -> Outs {
    let why = "a loop's condition is not known while a graph is traced";
    let Some(state) = tensors(state).filter(|_| scans == 0) else {
        return Err(c.needs_value(&format!("{why}, and it has results that grow")));
    };
    let start = [vec![Tensor::from(0i64), test.clone()], state].concat();
    let limit = trips.unwrap_or(i64::MAX);
    let step = |s: &[Tensor]| {
        let outs = c.scope.graph(body, values(s.to_vec()))?;
        let outs = tensors(outs).ok_or_else(|| Error::dtype("a loop carries tensors while a graph is traced"))?;
        Ok([vec![&s[0] + 1i64, outs[0].reshape(())], outs[1..].to_vec()].concat())
    };
    match while_loop(|s| Ok(s[1].and(s[0].lt(limit))), step, &start) {
        Ok(outs) => Ok(values(outs[2..].to_vec())),
        Err(e) => Err(c.needs_value(&format!("{why} ({})", e.message))),
    }
}

/// A loop of many trips whose condition stays true.
fn by_scan(c: &Call<'_>, body: &Graph, trips: usize, state: Vec<Value>) -> Outs {
    let why = "a long loop is not a scan";
    let carried = state.len();
    let Some(state) = tensors(state) else { return Err(c.needs_value(why)) };
    let start = [vec![Tensor::from(0i64)], state].concat();
    let step = |s: &[Tensor], _: &[Tensor]| {
        let inputs = [vec![s[0].clone().into(), Literal::scalar(true).into()], values(s[1..].to_vec())].concat();
        let outs = c.scope.graph(body, inputs)?;
        let is_on = matches!(&outs[0], Value::Tensor(t) if t.host.as_ref().is_some_and(|l| l.to_i64() == [1]));
        if !is_on {
            return Err(Error::value("its condition may change"));
        }
        let outs = tensors(outs).ok_or_else(|| Error::dtype("a loop carries tensors while a graph is traced"))?;
        let next = [vec![&s[0] + 1i64], outs[1..=carried].to_vec()].concat();
        Ok((next, outs[carried + 1..].to_vec()))
    };
    match scan_with(ScanOptions { length: Some(trips), ..Default::default() }, step, &start, &[]) {
        Ok((last, ys)) => Ok(values([last[1..].to_vec(), ys].concat())),
        Err(e) => Err(c.needs_value(&format!("{why} ({})", e.message))),
    }
}

fn scan(c: &Call<'_>) -> Outs {
    let body = c.graph("body")?;
    let all = (0..c.inputs.len()).map(|i| c.x(i)).collect::<Result<Vec<_>>>()?;
    scan_once(c, &body, all)
}

fn scan_once(c: &Call<'_>, body: &Graph, mut state: Vec<Tensor>) -> Outs {
    let rows = usize::try_from(c.int("num_scan_inputs", 0)).unwrap_or(0);
    if rows == 0 || rows > state.len() {
        return Err(Error::value("num_scan_inputs is wrong"));
    }
    let mut xs = state.split_off(state.len() - rows);
    let carried = state.len();
    let list = |name: &str, i: usize| c.list(name).and_then(|l| l.get(i).copied()).unwrap_or(0);
    let directions = if c.version() < 9 { "directions" } else { "scan_input_directions" };
    for (i, x) in xs.iter_mut().enumerate() {
        let axis = list("scan_input_axes", i);
        if axis != 0 {
            *x = x.moveaxis(&[axis], &[0]);
        }
        if list(directions, i) != 0 {
            *x = x.flip(0);
        }
    }
    let step = |s: &[Tensor], x: &[Tensor]| {
        let outs = c.scope.graph(body, values([s, x].concat()))?;
        let mut outs = tensors(outs).ok_or_else(|| Error::dtype("a scan carries tensors"))?;
        let ys = outs.split_off(carried.min(outs.len()));
        Ok((outs, ys))
    };
    let (mut last, ys) = scan_with(ScanOptions::default(), step, &state, &xs)?;
    for (i, mut y) in ys.into_iter().enumerate() {
        if list("scan_output_directions", i) != 0 {
            y = y.flip(0);
        }
        let axis = list("scan_output_axes", i);
        last.push(if axis == 0 { y } else { y.moveaxis(&[0], &[axis]) });
    }
    Ok(values(last))
}

/// Version 8: examples along the first axis, each scanned by itself.
fn scan_batches(c: &Call<'_>) -> Outs {
    if c.has(0) {
        return Err(Error::value("Scan of version 8 with sequence_lens is not supported"));
    }
    let body = c.graph("body")?;
    let all = (1..c.inputs.len()).map(|i| c.x(i)).collect::<Result<Vec<_>>>()?;
    let n = all.first().ok_or_else(|| Error::value("Scan has no inputs"))?.shape()?[0];
    let mut out: Vec<Vec<Tensor>> = Vec::new();
    for i in 0..n {
        let one: Vec<Tensor> = all.iter().map(|t| t.narrow(0, i, 1).squeeze(0)).collect();
        let outs = tensors(scan_once(c, &body, one)?).ok_or_else(|| Error::dtype("a scan carries tensors"))?;
        out.resize(outs.len(), Vec::new());
        out.iter_mut().zip(outs).for_each(|(o, t)| o.push(t));
    }
    Ok(out.iter().map(|parts| Tensor::stack(parts, 0).into()).collect())
}
