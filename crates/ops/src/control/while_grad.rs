//! `while_grad`: the gradient of `while_loop`, whose number of trips is known only when it runs.
//!
//! The first derivative runs the loop once more and saves the carried values of each trip, then
//! goes back trip by trip; each step back computes the body again. A higher derivative counts the
//! trips first: a loop of known length is a `scan`, which can be differentiated any number of times.

use super::{Body, check_inputs, graph, input_types, output_types, scan, tensors, values, vjp_graph, while_loop};
use crate::rules::{GradTensors, f64s, floats};
use crate::{Error, Result, Tensor, autocast, vjp};
use ir::{
    AttrKind, Attrs, Batch, BatchCall, Buffer, Call, Case, DType, Grad, GradCall, Graph, Literal, Meaning, Op,
    RunGraph, Site, Type, Types, Value,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The row of `while_grad`.
pub static OP: Op = Op {
    name: "while_grad",
    doc: "A derivative of `while_loop`. It takes the loop's inputs, the cotangents of the carried floats, and for each \
          further derivative those of the results of the one before. `wanted` has a flag for each input of each \
          derivative in turn: the last ones say which gradients are the results. The graph `back` is one trip back: it \
          takes the cotangents of the carried floats, the sums of the gradients of the captured values that the first \
          derivative wants, and the body's inputs, and gives the new cotangents and sums.",
    attrs: &[
        ("cond", AttrKind::Graph),
        ("body", AttrKind::Graph),
        ("back", AttrKind::Graph),
        ("carried", AttrKind::Int),
        ("max_trips", AttrKind::Int),
        ("wanted", AttrKind::Ints),
    ],
    infer,
    meaning: Meaning::Control(run),
    grad: Grad::Rule(grad),
    batch: Batch::Rule(batch),
    cases,
    ..Op::DEFAULT
};

/// Which gradients each derivative gives, in turn.
struct Levels {
    wanted: Vec<Vec<bool>>,
}

impl Levels {
    /// From the flags, for a loop whose body takes these inputs.
    fn of(attrs: &Attrs) -> Result<Levels> {
        let (n, inputs) = (attrs.size("carried")?, input_types(attrs.graph("body")?));
        let wrong = || Error::value("`wanted` must have a flag for each input of each derivative");
        if n > inputs.len() {
            return Err(wrong());
        }
        let (mut flags, mut wanted) = (attrs.ints("wanted")?, Vec::new());
        let mut taken = inputs.len();
        let mut results = float_marks(&inputs[..n]).iter().filter(|f| **f).count();
        while !flags.is_empty() {
            if flags.len() < taken {
                return Err(wrong());
            }
            let (now, rest) = flags.split_at(taken);
            let now: Vec<bool> = now.iter().map(|f| *f != 0).collect();
            taken += results;
            results = now.iter().filter(|w| **w).count();
            wanted.push(now);
            flags = rest;
        }
        if wanted.is_empty() { Err(wrong()) } else { Ok(Levels { wanted }) }
    }
    fn flags(&self) -> Vec<i64> {
        self.wanted.iter().flatten().map(|w| i64::from(*w)).collect()
    }
}

fn float_marks(types: &[Type]) -> Vec<bool> {
    types.iter().map(|t| t.dtype.is_inexact()).collect()
}

fn infer(c: &Call) -> Result<Types> {
    let (test, body) = (c.attrs.graph("cond")?, c.attrs.graph("body")?);
    let (n, inputs) = (c.attrs.size("carried")?, input_types(body));
    c.attrs.size("max_trips")?;
    check_inputs("the condition", test, &inputs)?;
    let levels = Levels::of(c.attrs)?;
    let mut want = inputs.clone();
    let mut results = super::chosen(&inputs[..n], &float_marks(&inputs[..n]));
    for wanted in &levels.wanted {
        let next = super::chosen(&want, wanted);
        want.extend(std::mem::replace(&mut results, next));
    }
    if want.as_slice() != c.types {
        return Err(Error::shape(format!("takes {}, but {} was given", super::list(&want), super::list(c.types))));
    }
    check_inputs("the way back", c.attrs.graph("back")?, &Back::of(body, n, &levels.wanted[0]).types())?;
    Ok(results.into())
}

/// What one trip back takes and gives.
struct Back<'a> {
    body: &'a Graph,
    n: usize,
    /// Carried values that are floats.
    floats: Vec<bool>,
    /// Captured values whose gradient is wanted.
    captures: &'a [bool],
}

impl<'a> Back<'a> {
    fn of(body: &'a Graph, n: usize, wanted: &'a [bool]) -> Back<'a> {
        Back { body, n, floats: float_marks(&input_types(body)[..n]), captures: &wanted[n..] }
    }
    /// Cotangents, sums, inputs of the body.
    fn types(&self) -> Vec<Type> {
        let ins = input_types(self.body);
        let (carried, captures) = ins.split_at(self.n);
        [super::chosen(carried, &self.floats), super::chosen(captures, self.captures), ins.clone()].concat()
    }
    fn graph(&self) -> Result<Arc<Graph>> {
        let cots = self.floats.iter().filter(|f| **f).count();
        let sums = self.captures.iter().filter(|w| **w).count();
        graph(&self.types(), |a| {
            let (cots, rest) = a.split_at(cots);
            let (sums, inputs) = rest.split_at(sums);
            let ys = tensors(&self.body.inline(&values(inputs)?)?);
            let (carried, captures) = inputs.split_at(self.n);
            let wrt = [super::chosen(carried, &self.floats), super::chosen(captures, self.captures)].concat();
            let mut got = vjp(&super::chosen(&ys, &self.floats), cots, &wrt)?;
            for (g, sum) in got[cots.len()..].iter_mut().zip(sums) {
                *g = sum + &*g;
            }
            Ok(got)
        })
    }
}

/// The derivative of a loop with these attributes.
fn attrs_of(of: &Attrs, levels: &Levels) -> Result<Attrs> {
    let (body, n) = (of.graph("body")?, of.size("carried")?);
    let back = Back::of(body, n, &levels.wanted[0]).graph()?;
    let attrs = Attrs::new().with("cond", of.graph("cond")?.clone()).with("body", body.clone()).with("back", back);
    let attrs = attrs.with("carried", n).with("max_trips", of.size("max_trips")?);
    Ok(attrs.with("wanted", &levels.flags()[..]))
}

/// The gradient rule of `while_loop`.
pub(super) fn of_loop(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let levels = Levels { wanted: vec![c.wanted.to_vec()] };
    let cots = (0..c.outputs.len()).filter(|&o| c.outputs[o].ty().dtype.is_inexact()).map(|o| c.g(o));
    applied(c, attrs_of(c.attrs, &levels)?, cots.collect())
}

/// One derivative more.
fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let mut levels = Levels::of(c.attrs)?;
    levels.wanted.push(c.wanted.to_vec());
    let cots = (0..c.outputs.len()).map(|o| c.g(o)).collect();
    applied(c, c.attrs.clone().set("wanted", &levels.flags()[..]), cots)
}

fn applied(c: &GradCall, attrs: Attrs, cots: Vec<Tensor>) -> Result<Vec<Option<Value>>> {
    if !c.wanted.contains(&true) {
        return Ok(vec![None; c.inputs.len()]);
    }
    let inputs = c.inputs.iter().cloned().chain(values(&cots)?).collect();
    let mut got = Value::apply(&OP, inputs, attrs, Site::here())?.into_iter();
    Ok(c.wanted.iter().map(|w| if *w { got.next() } else { None }).collect())
}

fn run(c: &Call, args: &[Buffer], run: RunGraph) -> Result<Vec<Buffer>> {
    let body = c.attrs.graph("body")?;
    let (n, inputs) = (c.attrs.size("carried")?, &args[..body.inputs.len()]);
    let mut levels = Levels::of(c.attrs)?;
    if levels.wanted.len() > 1 {
        let mut trips = 0;
        while_loop::repeat(c.attrs, inputs, run, |_| trips += 1)?;
        let whole = autocast::off(|| derivative(body, n, trips, &levels))?;
        return run(&whole, args);
    }
    let wanted = levels.wanted.swap_remove(0);
    let mut found: Vec<Vec<Buffer>> = Vec::new();
    while_loop::repeat(c.attrs, inputs, run, |now| found.push(now.to_vec()))?;
    let types = &c.types[..inputs.len()];
    let zeros = |t: &Type| Buffer::Host(Literal::zeros(t.dtype, t.shape.clone()));
    let mut grads = args[inputs.len()..].to_vec();
    grads.extend(types[n..].iter().zip(&wanted[n..]).filter(|(_, w)| **w).map(|(t, _)| zeros(t)));
    let back = c.attrs.graph("back")?;
    // What a trip found is let go of as soon as the way back has passed it.
    while let Some(carried) = found.pop() {
        let given = [std::mem::take(&mut grads), carried, inputs[n..].to_vec()].concat();
        grads = run(back, &given)?;
    }
    let mut grads = grads.into_iter();
    let mut out = Vec::new();
    for (i, t) in types.iter().enumerate() {
        let has_grad = if i < n { t.dtype.is_inexact() } else { wanted[i] };
        let g = if has_grad { grads.next() } else { None };
        out.extend(g.filter(|_| wanted[i]));
    }
    Ok(out)
}

/// The derivative of a loop that makes this many trips, as a graph of all inputs.
fn derivative(body: &Arc<Graph>, n: usize, trips: usize, levels: &Levels) -> Result<Arc<Graph>> {
    let mut g = graph(&input_types(body), |x| {
        if trips == 0 {
            return Ok(x[..n].to_vec());
        }
        let attrs = scan::repeated(Arc::new(super::saving_inputs(body, n)), n, trips);
        let outs = Value::apply(&scan::OP, values(x)?.into(), attrs, Site::here())?;
        Ok(tensors(&outs[..n]))
    })?;
    for wanted in &levels.wanted {
        let has = float_marks(&output_types(&g));
        g = vjp_graph(&g, &has, wanted)?;
    }
    Ok(g)
}

/// The derivative of the loop over a batch. A gradient belongs to one member, so whatever has one
/// becomes a value of each.
fn batch(c: &BatchCall) -> Result<Vec<Value>> {
    let levels = Levels::of(c.attrs)?;
    let n = c.attrs.size("carried")?;
    let taken = levels.wanted[0].len();
    let is_wanted = |i: usize| levels.wanted.iter().any(|w| w.get(i).is_some_and(|w| *w));
    let marks: Vec<bool> = (0..taken).map(|i| i < n || c.batched[i] || is_wanted(i)).collect();
    let of = while_loop::batched_loop(c.attrs, &marks, c.size)?;
    let inputs = c.inputs.iter().enumerate().map(|(i, v)| {
        if marks.get(i).copied().unwrap_or(true) { super::batched(v, c.batched[i], c.size) } else { Ok(v.clone()) }
    });
    let inputs = inputs.collect::<Result<SmallVec<[Value; 2]>>>()?;
    Ok(Value::apply(&OP, inputs, attrs_of(&of, &levels)?, Site::here())?.into_vec())
}

fn cases() -> Vec<Case> {
    let s = Type::new(DType::F64, ());
    let made = |wanted: &[&[bool]]| {
        let site = Site::here();
        let args = [s.clone(), s.clone()];
        let test = Body::trace(&args, site, |x| Ok(vec![(&x[0] * 0.0 + 10.0).gt(&x[0])]))?.graph(&[])?;
        let body = Body::trace(&args, site, |x| Ok(vec![&x[0] * &x[0] * 0.5 + &x[1]]))?.graph(&[])?;
        let of = Attrs::new().with("cond", test).with("body", body).with("carried", 1i64).with("max_trips", 0i64);
        attrs_of(&of, &Levels { wanted: wanted.iter().map(|w| w.to_vec()).collect() })
    };
    let first = made(&[&[true, true]]).expect("well typed");
    let second = made(&[&[true, true], &[true, true, true]]).expect("well typed");
    vec![
        Case::new(vec![floats((), 1), f64s((), &[3.0]), floats((), 2)], first.clone()),
        Case::new(vec![f64s((), &[2.0]), f64s((), &[2.0]), f64s((), &[1.0])], first)
            .expect(vec![f64s((), &[8.0]), f64s((), &[5.0])], "by hand: 2, 4, 10 by x²/2 + c")
            .kinked(),
        Case::new(vec![f64s((), &[1.5]), f64s((), &[1.25]), floats((), 2), floats((), 3), floats((), 4)], second),
    ]
}

#[cfg(test)]
mod tests {
    use crate::control::{cond, while_loop};
    use crate::{Result, Tensor, grad, vmap};
    use std::slice::from_ref;

    /// x · w, as often as it stays below a limit.
    fn grown(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let test = |c: &[Tensor]| Ok(Tensor::from(20.0f64).gt(&c[0]));
        Ok(while_loop(test, |c| Ok(vec![&c[0] * w]), from_ref(x))?.swap_remove(0))
    }

    #[test]
    fn the_number_of_trips_needs_no_bound() {
        let (x, w) = (Tensor::from(3.0f64).requires_grad(), Tensor::from(2.0f64).requires_grad());
        // 3 w³: the derivative is w³ for x, 9 w² for w.
        let y = grown(&x, &w).unwrap();
        let g = grad(&y, &[x.clone(), w.clone()]).unwrap();
        assert_eq!([y.item::<f64>().unwrap(), g[0].item().unwrap(), g[1].item().unwrap()], [24.0, 8.0, 36.0]);
        // Second order: 18 w for w twice, 3 w² for x and w; third: 18.
        let h = grad(&g[1], &[x.clone(), w.clone()]).unwrap();
        assert_eq!([h[0].item::<f64>().unwrap(), h[1].item().unwrap()], [12.0, 36.0]);
        assert_eq!(grad(&h[1], &[x, w]).unwrap()[1].item::<f64>().unwrap(), 18.0);
    }

    #[test]
    fn no_trip_at_all_gives_the_gradient_of_the_identity() {
        let (x, w) = (Tensor::from(30.0f64).requires_grad(), Tensor::from(2.0f64).requires_grad());
        let g = grad(&grown(&x, &w).unwrap(), &[x.clone(), w.clone()]).unwrap();
        assert_eq!([g[0].item::<f64>().unwrap(), g[1].item().unwrap()], [1.0, 0.0]);
        let h = grad(&(&g[1] * &w), &[w]).unwrap();
        assert_eq!(h[0].item::<f64>().unwrap(), 0.0);
    }

    #[test]
    fn members_of_a_batch_have_their_own_gradients() {
        let (x, w) = (Tensor::from([3.0f64, 1.0, 30.0]), Tensor::from(2.0f64));
        let slopes = |a: &[Tensor]| {
            let (x, w) = (a[0].clone(), w.clone().requires_grad());
            grad(&grown(&x, &w)?, &[x, w])
        };
        let g = vmap(slopes, from_ref(&x)).unwrap();
        assert_eq!(g[0].to_vec::<f64>().unwrap(), [8.0, 32.0, 1.0]);
        assert_eq!(g[1].to_vec::<f64>().unwrap(), [36.0, 80.0, 0.0]);
    }

    /// Adds up the elements of `x` before the index `end`.
    fn sum_before(x: &Tensor, end: &Tensor) -> Result<Tensor> {
        let start = [Tensor::from(0i64), Tensor::from(0.0f64)];
        let body = |c: &[Tensor]| Ok(vec![&c[0] + 1i64, &c[1] + x.take(&c[0], 0).square()]);
        Ok(while_loop(|c| Ok(end.gt(&c[0])), body, &start)?.swap_remove(1))
    }

    #[test]
    fn no_body_runs_after_the_end_of_its_loop() {
        let x = Tensor::from([[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
        let ends = Tensor::from([3i64, 1, 0]);
        let both = |a: &[Tensor]| {
            let x = a[0].clone();
            let y = sum_before(&x, &a[1])?;
            Ok([vec![y.clone()], grad(&y, &[x])?].concat())
        };
        // x has three elements: reading a fourth, which the loop's last state names, is an error.
        let y = vmap(both, &[x.clone(), ends.clone()]).unwrap();
        assert_eq!(y[0].to_vec::<f64>().unwrap(), [14.0, 16.0, 0.0]);
        assert_eq!(y[1].to_vec::<f64>().unwrap(), [2.0, 4.0, 6.0, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let all_done = vmap(both, &[x, Tensor::from([0i64, 0, 0])]).unwrap();
        assert_eq!(all_done[0].to_vec::<f64>().unwrap(), [0.0; 3]);
    }

    #[test]
    fn no_branch_runs_for_members_that_did_not_choose_it() {
        let x = Tensor::from([1.0f64, 2.0]);
        let at = |a: &[Tensor]| {
            let read = |i: &[Tensor]| Ok(vec![x.take(&i[0], 0)]);
            cond(&Tensor::from(2i64).gt(&a[0]), read, |i| Ok(vec![i[0].cast(ir::DType::F64) * 0.0]), from_ref(&a[0]))
        };
        for (places, want) in [([5i64, 1, 0], [0.0, 2.0, 1.0]), ([2, 3, 4], [0.0; 3])] {
            let y = vmap(at, &[Tensor::from(places)]).unwrap();
            assert_eq!(y[0].to_vec::<f64>().unwrap(), want);
        }
    }
}
