//! `while_loop`: a function repeated as long as a condition holds.

use super::{Body, batch_graph, batched, flags, graph, input_types, list, only_active, output_types};
use super::{tensors, truth, types, values, while_grad};
use crate::rules::{f64s, floats};
use crate::{Error, Result, Tensor};
use ir::{
    AttrKind, Attrs, Batch, BatchCall, Buffer, Call, Case, DType, Grad, Meaning, Op, RunGraph, Site, Type, Types, Value,
};
use smallvec::SmallVec;

/// The row of `while_loop`.
pub static OP: Op = Op {
    name: "while_loop",
    doc: "Runs the graph `body` on the carried values (the first `carried` inputs) as long as the graph `cond` says \
          true of them; both also take the remaining inputs. More than `max_trips` trips are an error; 0 is no bound.",
    attrs: &[
        ("cond", AttrKind::Graph),
        ("body", AttrKind::Graph),
        ("carried", AttrKind::Int),
        ("max_trips", AttrKind::Int),
    ],
    infer,
    meaning: Meaning::Control(run),
    grad: Grad::Rule(while_grad::of_loop),
    batch: Batch::Rule(batch),
    cases: || {
        let s = Type::new(DType::F64, ());
        let test = graph(&[s.clone(), s.clone()], |x| Ok(vec![(&x[0] * 0.0 + 10.0).gt(&x[0])])).expect("well typed");
        let body = graph(&[s.clone(), s], |x| Ok(vec![&x[0] * &x[0] * 0.5 + &x[1]])).expect("well typed");
        let by = |max: i64| {
            let a = Attrs::new().with("cond", test.clone()).with("body", body.clone());
            a.with("carried", 1i64).with("max_trips", max)
        };
        let x = |a: f64, b: f64| vec![f64s((), &[a]), f64s((), &[b])];
        vec![
            Case::new(x(1.5, 1.25), by(8)),
            Case::new(vec![floats((), 3), f64s((), &[3.0])], by(6)),
            Case::new(x(2.0, 2.0), by(0)).expect(vec![f64s((), &[10.0])], "by hand: 2, 4, 10").kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn infer(c: &Call) -> Result<Types> {
    let n = c.attrs.size("carried")?;
    c.attrs.size("max_trips")?;
    let (test, body) = (c.attrs.graph("cond")?, c.attrs.graph("body")?);
    super::check_inputs("the condition", test, c.types)?;
    super::check_inputs("the body", body, c.types)?;
    if output_types(test) != [Type::new(DType::Bool, ())] {
        let e = format!("the condition must give a single bool, not {}", list(&output_types(test)));
        return Err(Error::dtype(e));
    }
    let outs = output_types(body);
    if n == 0 || n > c.types.len() || outs.len() != n {
        return Err(Error::value(format!(
            "the body must return the {n} carried values, but it returns {}",
            list(&outs)
        )));
    }
    if let Some(i) = (0..n).find(|&i| outs[i] != c.types[i]) {
        let e = format!("carried value {i} is {} at first, but the body returns {}", c.types[i], outs[i]);
        return Err(Error::shape(e));
    }
    Ok(outs.into())
}

/// Runs the loop; `each` sees the carried values that a trip begins with. The last ones come back.
pub(super) fn repeat(
    attrs: &Attrs,
    args: &[Buffer],
    run: RunGraph,
    mut each: impl FnMut(&[Buffer]),
) -> Result<Vec<Buffer>> {
    let (n, most) = (attrs.size("carried")?, attrs.size("max_trips")?);
    let (test, body) = (attrs.graph("cond")?, attrs.graph("body")?);
    let mut now = args.to_vec();
    let mut trips = 0;
    while truth(&run(test, &now)?[0])? {
        if most > 0 && trips == most {
            return Err(Error::value(format!("the loop did not end within max_trips = {most} trips")));
        }
        trips += 1;
        each(&now[..n]);
        let next = run(body, &now)?;
        now[..n].clone_from_slice(&next);
    }
    now.truncate(n);
    Ok(now)
}

fn run(c: &Call, args: &[Buffer], run: RunGraph) -> Result<Vec<Buffer>> {
    repeat(c.attrs, args, run, |_| ())
}

/// The attributes of the loop over a batch, in which all members go on until the last has finished;
/// those that have are left as they are.
pub(super) fn batched_loop(attrs: &Attrs, marks: &[bool], size: usize) -> Result<Attrs> {
    let test = batch_graph(attrs.graph("cond")?, marks, size)?;
    let body = batch_graph(attrs.graph("body")?, marks, size)?;
    let any = graph(&input_types(&test), |x| {
        let active = Tensor::from(test.inline(&values(x)?)?.swap_remove(0));
        Ok(vec![active.any(..)])
    })?;
    let masked = graph(&input_types(&body), |x| {
        let active = Tensor::from(test.inline(&values(x)?)?.swap_remove(0));
        let seen = only_active(&body, &active, x, marks)?;
        let next = tensors(&body.inline(&values(&seen)?)?);
        next.iter().zip(x).map(|(new, old)| Ok(Tensor::where_(&flags(&active, new)?, new, old))).collect()
    })?;
    Ok(attrs.clone().set("cond", any).set("body", masked))
}

fn batch(c: &BatchCall) -> Result<Vec<Value>> {
    let n = c.attrs.size("carried")?;
    let marks: Vec<bool> = (0..c.inputs.len()).map(|i| i < n || c.batched[i]).collect();
    let attrs = batched_loop(c.attrs, &marks, c.size)?;
    let inputs =
        c.inputs.iter().enumerate().map(|(i, v)| if i < n { batched(v, c.batched[i], c.size) } else { Ok(v.clone()) });
    Ok(Value::apply(&OP, inputs.collect::<Result<SmallVec<[Value; 2]>>>()?, attrs, Site::here())?.into_vec())
}

/// Repeats `body` on the carried values as long as `test` (a single bool) holds of them. What the
/// closures use beside their arguments is found by itself. The gradient saves the carried values of
/// each trip and computes the body again on the way back.
///
/// ```
/// # use talweg_ops::{Tensor, control::while_loop};
/// let y = while_loop(|c| Ok(Tensor::from(100.0f32).gt(&c[0])), |c| Ok(vec![&c[0] * 3.0]), &[Tensor::from(1.0f32)]);
/// assert_eq!(y.unwrap()[0].item::<f32>().unwrap(), 243.0);
/// ```
#[track_caller]
pub fn while_loop(
    test: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    body: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    init: &[Tensor],
) -> Result<Vec<Tensor>> {
    while_loop_within(0, test, body, init)
}

/// [`while_loop`] with a bound on the number of trips (0 is no bound): more are an error when the
/// loop runs.
#[track_caller]
pub fn while_loop_within(
    max_trips: usize,
    test: impl FnOnce(&[Tensor]) -> Result<Tensor>,
    body: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    init: &[Tensor],
) -> Result<Vec<Tensor>> {
    let site = Site::here();
    let run = || {
        let mut start = values(init)?;
        let n = start.len();
        let (mut test, i) = Body::trace_loop(&types(&start), site, |c| Ok(vec![test(c)?]))?;
        let (mut body, j) = Body::trace_loop(&types(&start), site, body)?;
        if let Some(unused) = i.as_ref().or(j.as_ref()).cloned() {
            // What is drawn differs by the number of the trip, which is carried along.
            let index = j.unwrap_or_else(|| unused.clone());
            body.outs.push((Tensor::from(index.clone()) + 1i64).value()?.clone());
            body.args.push(index);
            test.args.push(i.unwrap_or(unused));
            start.push(Tensor::from(0i64).value()?.clone());
        }
        let captures = Body::captures_of(&[&test, &body])?;
        let attrs = Attrs::new().with("cond", test.graph(&captures)?).with("body", body.graph(&captures)?);
        let attrs = attrs.with("carried", start.len()).with("max_trips", max_trips);
        Ok(tensors(&Value::apply(&OP, start.into_iter().chain(captures).collect(), attrs, site)?[..n]))
    };
    run().map_err(|e: Error| e.in_op("while_loop").at(site))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn doubled_below(limit: f64, x: &Tensor, max: usize) -> Result<Tensor> {
        let test = |c: &[Tensor]| Ok(Tensor::from(limit).gt(&c[0]));
        Ok(while_loop_within(max, test, |c| Ok(vec![&c[0] * 2.0]), from_ref(x))?.swap_remove(0))
    }

    #[test]
    fn a_bound_changes_no_gradient() {
        for bound in [0, 3, 10] {
            let x = Tensor::from(3.0f64).requires_grad();
            let y = doubled_below(20.0, &x, bound).unwrap();
            assert_eq!(crate::grad(&y, &[x]).unwrap()[0].item::<f64>().unwrap(), 8.0);
        }
    }

    #[test]
    fn too_many_trips_are_an_error() {
        let e = doubled_below(1e9, &Tensor::from(1.0f64), 4).unwrap().eval().unwrap_err();
        assert!(e.to_string().contains("did not end within max_trips = 4"), "{e}");
    }

    #[test]
    fn members_of_a_batch_stop_on_their_own() {
        let x = Tensor::from([1.0f64, 30.0, 3.0]);
        let y = crate::vmap(|a| Ok(vec![doubled_below(20.0, &a[0], 0)?]), &[x]).unwrap();
        assert_eq!(y[0].to_vec::<f64>().unwrap(), [32.0, 30.0, 24.0]);
    }
}
