//! Control flow: sub-graphs that run conditionally or repeatedly.
//!
//! Closures are traced once, over placeholders of the inputs' types. Whatever they use beside
//! their arguments (variables, leaves, values computed before) becomes an explicit input of the
//! op, so gradients reach it and sub-graphs stay closed. The key of a random draw inside a closure
//! is such a value too; a loop folds the index of each iteration into it, so that every iteration
//! draws its own numbers, and the gradient draws those of the iteration again.

mod associative;
mod scan_grad;

crate::table! {
    barrier,
    checkpoint,
    cond,
    custom_gradient,
    function,
    scan,
    while_grad,
    while_loop,
}

pub use associative::associative_scan;
pub use checkpoint::{checkpoint, recorded};
pub use cond::cond;
pub use custom_gradient::custom_gradient;
pub use function::{Backward, function};
pub use scan::{ScanOptions, fori_loop, map, scan, scan_with};
pub use while_loop::{while_loop, while_loop_within};

use crate::batch::over_batch;
use crate::{Error, Result, Tensor, effects, generator, vjp};
use ir::{Attr, Buffer, DType, Graph, Literal, Meaning, Site, Slot, Type, Value};
use std::sync::Arc;

/// A function traced over placeholders.
pub(crate) struct Body {
    args: Vec<Value>,
    outs: Vec<Value>,
    since: u64,
}

impl Body {
    /// Runs `f` on placeholders of the given types.
    pub(crate) fn trace(types: &[Type], site: Site, f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Body> {
        let since = ir::mark();
        let args: Vec<Value> = types.iter().map(|t| Value::placeholder("", t.clone(), site)).collect();
        // A scope around the whole says of its results whether they collect; inside, only scopes of
        // the function itself count.
        let (outs, noted) = collecting(|| effects::collected(|| f(&tensors(&args))));
        let outs = values(&outs?)?;
        effects::check_used(&outs, &noted)?;
        let outs = crate::differentiate::stopped(&outs, since)?;
        Ok(Body { args, outs, since })
    }
    /// The body of a loop. If it draws random numbers, `index` stands for the number of the
    /// iteration.
    fn trace_loop(
        types: &[Type],
        site: Site,
        f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<(Body, Option<Value>)> {
        let index = Value::placeholder("", Type::new(DType::I64, ()), site);
        let (body, is_drawn) = generator::indexed(&index.clone().into(), || Body::trace(types, site, f));
        Ok((body?, is_drawn.then_some(index)))
    }
    /// What it uses besides its arguments.
    pub(crate) fn captures(&self) -> Result<Vec<Value>> {
        passes::captures_of(&self.args, &self.outs, self.since)
    }
    /// Its flat graph: the arguments come first, then `captures`.
    pub(crate) fn graph(&self, captures: &[Value]) -> Result<Arc<Graph>> {
        Ok(Arc::new(passes::body_of(&[&self.args, captures].concat(), &self.outs, self.since)?))
    }
    /// What several functions use beside their arguments, each value once.
    pub(crate) fn captures_of(bodies: &[&Body]) -> Result<Vec<Value>> {
        let mut all: Vec<Value> = Vec::new();
        for b in bodies {
            for v in b.captures()? {
                if !all.iter().any(|a| a.is_same(&v)) {
                    all.push(v);
                }
            }
        }
        Ok(all)
    }
}

/// Handles of values.
pub(crate) fn tensors(values: &[Value]) -> Vec<Tensor> {
    values.iter().cloned().map(Tensor::from).collect()
}
/// The values behind handles, or the first error.
pub(crate) fn values(tensors: &[Tensor]) -> Result<Vec<Value>> {
    tensors.iter().map(|t| t.value().cloned()).collect()
}
/// The types of values.
pub(crate) fn types(values: &[Value]) -> Vec<Type> {
    values.iter().map(|v| v.ty().clone()).collect()
}
/// The types a graph takes.
fn input_types(g: &Graph) -> Vec<Type> {
    g.inputs.iter().map(|&n| g.nodes[n as usize].outs[0].clone()).collect()
}
/// The types a graph gives.
fn output_types(g: &Graph) -> Vec<Type> {
    g.outputs.iter().map(|&s| g.ty(s).clone()).collect()
}
/// Fails unless a graph takes exactly the given types.
fn check_inputs(what: &str, g: &Graph, given: &[Type]) -> Result<()> {
    let want = input_types(g);
    if want.len() != given.len() {
        return Err(Error::value(format!("{what} takes {} inputs, but {} were given", want.len(), given.len())));
    }
    match want.iter().zip(given).position(|(w, g)| w != g) {
        None => Ok(()),
        Some(i) => Err(Error::shape(format!("input {i} of {what} is {}, but {} was given", want[i], given[i]))),
    }
}
/// A list of types for an error message.
fn list(types: &[Type]) -> String {
    format!("({})", types.iter().map(Type::to_string).collect::<Vec<_>>().join(", "))
}

/// Runs `f` with results that record what they depend on, whatever the scope around it says.
fn collecting<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ir::set_grad(self.0);
        }
    }
    let _restore = Restore(ir::set_grad(true));
    f()
}

/// The graph of a function of the given types, made for one use.
pub(crate) fn graph(types: &[Type], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Arc<Graph>> {
    let site = Site::here();
    let args: Vec<Value> = types.iter().map(|t| Value::placeholder("", t.clone(), site)).collect();
    // Rules run under `no_grad`; a body that is differentiated here collects gradients all the same.
    let outs = values(&collecting(|| f(&tensors(&args)))?)?;
    Ok(Arc::new(passes::graph_of(&args, &outs)?))
}

/// A graph's vector-Jacobian product as a graph: it takes the graph's inputs and a cotangent for
/// each output marked in `has`, and returns a gradient for each input marked in `wanted`.
fn vjp_graph(g: &Graph, has: &[bool], wanted: &[bool]) -> Result<Arc<Graph>> {
    let n = g.inputs.len();
    let cotangents = chosen(&output_types(g), has);
    graph(&[input_types(g), cotangents].concat(), |a| {
        let (xs, cots) = a.split_at(n);
        let outs = tensors(&g.inline(&values(xs)?)?);
        vjp(&chosen(&outs, has), cots, &chosen(xs, wanted))
    })
}
/// The items that are marked.
fn chosen<T: Clone>(items: &[T], marks: &[bool]) -> Vec<T> {
    items.iter().zip(marks).filter(|(_, m)| **m).map(|(x, _)| x.clone()).collect()
}

/// A graph over a batch: inputs marked in `batched` and all outputs carry a leading dimension.
fn batch_graph(g: &Graph, batched: &[bool], size: usize) -> Result<Arc<Graph>> {
    let with = |(t, &b): (Type, &bool)| {
        let mut t = t;
        if b {
            t.shape.insert(0, size);
        }
        t
    };
    let types: Vec<Type> = input_types(g).into_iter().zip(batched).map(with).collect();
    graph(&types, |xs| {
        if !batched.contains(&true) {
            return tensors(&g.inline(&values(xs)?)?).iter().map(|t| repeat(t, size)).collect();
        }
        over_batch(
            |rows| {
                let mut rows = rows.iter();
                let mixed: Vec<Tensor> = xs
                    .iter()
                    .zip(batched)
                    .map(|(x, &b)| if b { rows.next().expect("counted").clone() } else { x.clone() })
                    .collect();
                Ok(tensors(&g.inline(&values(&mixed)?)?))
            },
            &chosen(xs, batched),
            None,
        )
    })
}
/// The same value for each member of a batch.
pub(crate) fn repeat(t: &Tensor, size: usize) -> Result<Tensor> {
    let mut shape = t.shape()?;
    shape.insert(0, size);
    Ok(t.broadcast_to(shape))
}
/// An input with its batch dimension.
fn batched(v: &Value, is_batched: bool, size: usize) -> Result<Value> {
    if is_batched { Ok(v.clone()) } else { repeat(&Tensor::from(v.clone()), size)?.value().cloned() }
}
/// A flag for each member of a batch, shaped to choose between values of a rank.
fn flags(active: &Tensor, like: &Tensor) -> Result<Tensor> {
    let mut shape = active.shape()?;
    while shape.rank() < like.rank()? {
        shape.push(1);
    }
    Ok(active.reshape(shape))
}

/// Whether a graph reads at indices that it is given: out of range they are an error.
fn takes_places(g: &Graph) -> bool {
    let is_place = |t: &Type| !t.dtype.is_inexact() && t.dtype != DType::Bool;
    g.nodes.iter().any(|n| {
        let is_loop = matches!(n.op.meaning, Meaning::Scalar(_) | Meaning::View(_) | Meaning::Reduce(_));
        let has_places = |a: &Attr| matches!(a, Attr::Graph(g) if takes_places(g));
        (!is_loop && g.input_types(n).iter().any(is_place)) || n.attrs.iter().any(|(_, a)| has_places(a))
    })
}

/// The inputs of a batched graph for members that are active; the others get those of the first that
/// is. A graph that could fail on what it was not meant for never sees it.
fn only_active(g: &Graph, active: &Tensor, inputs: &[Tensor], marks: &[bool]) -> Result<Vec<Tensor>> {
    if !takes_places(g) {
        return Ok(inputs.to_vec());
    }
    let first = active.cast(DType::I64).argmax(0);
    let one = |(x, is_batched): (&Tensor, &bool)| {
        if !is_batched {
            return Ok(x.clone());
        }
        let like = x.take(&first.reshape([1]), 0).broadcast_to(x.shape()?);
        Ok(Tensor::where_(&flags(active, x)?, x, &like))
    };
    inputs.iter().zip(marks).map(one).collect()
}

/// Row `i` along the first axis.
fn row(x: &Buffer, i: usize) -> Result<Buffer> {
    let l = x.read()?;
    let mut shape = l.shape().clone();
    shape.remove(0);
    let size = shape.count() * l.dtype().size();
    Literal::from_bytes(l.dtype(), shape, &l.bytes()[i * size..(i + 1) * size]).map(Buffer::Host)
}
/// Rows of one type as one value.
fn stack(ty: &Type, rows: &[Buffer]) -> Result<Buffer> {
    let rows = rows.iter().map(Buffer::read).collect::<Result<Vec<Literal>>>()?;
    let bytes: Vec<u8> = rows.iter().flat_map(|r| r.bytes().iter().copied()).collect();
    Literal::from_bytes(ty.dtype, ty.shape.clone(), &bytes).map(Buffer::Host)
}
/// One boolean.
fn truth(x: &Buffer) -> Result<bool> {
    Ok(x.read()?.bytes()[0] != 0)
}
/// A graph that also gives its first `n` inputs as they came in.
fn saving_inputs(g: &Graph, n: usize) -> Graph {
    let mut g = g.clone();
    let kept: Vec<Slot> = g.inputs[..n].iter().map(|&node| Slot { node, out: 0 }).collect();
    g.outputs.extend(kept);
    g
}
