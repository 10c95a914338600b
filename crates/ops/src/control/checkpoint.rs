//! `checkpoint`: a function whose inner values are computed again for the gradient instead of
//! being kept.

use super::{Body, barrier::barrier, chosen, graph, output_types, tensors, types, values};
use crate::rules::{f64s, floats};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Buffer, Case, DType, Grad, GradCall, Graph, Meaning, Op, Site, Type, Value};
use std::sync::Arc;

/// The row of `checkpoint`.
pub static OP: Op = Op {
    name: "checkpoint",
    doc: "Runs the graph `body`. Its gradient runs the body again from the inputs, so that nothing inside needs to \
          be kept meanwhile.",
    attrs: &[("body", AttrKind::Graph)],
    infer: |c| {
        let body = c.attrs.graph("body")?;
        super::check_inputs("the body", body, c.types)?;
        match output_types(body) {
            outs if outs.is_empty() => Err(Error::value("the body returns nothing")),
            outs => Ok(outs.into()),
        }
    },
    meaning: Meaning::Composite(|c, args| c.attrs.graph("body")?.inline(args)),
    grad: Grad::Rule(grad),
    cases: || {
        let (v, s) = (Type::new(DType::F64, [3]), Type::new(DType::F64, ()));
        let body = graph(&[v, s], |x| Ok(vec![(x[0].sin() * &x[1]).exp().sum(..)])).expect("well typed");
        let attrs = Attrs::new().with("body", body);
        vec![
            Case::new(vec![floats([3], 1), floats((), 2)], attrs.clone()),
            Case::new(vec![f64s([3], &[0.0; 3]), f64s((), &[1.0])], attrs)
                .expect(vec![f64s((), &[3.0])], "by hand: three times exp(0)"),
        ]
    },
    ..Op::DEFAULT
};

/// The body once more, behind a barrier that waits for the gradients of the results.
fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let has: Vec<bool> = c.grads.iter().map(Option::is_some).collect();
    let n = c.inputs.len();
    let behind =
        barrier(&[tensors(c.inputs), tensors(&c.grads.iter().flatten().cloned().collect::<Vec<_>>())].concat());
    let (xs, cots) = behind.split_at(n);
    let ys = tensors(&c.attrs.graph("body")?.inline(&values(xs)?)?);
    // The barrier's results may count as not trainable (under `no_grad`): what is wanted is known.
    let wrt = values(&chosen(xs, c.wanted))?;
    let cots = values(cots)?.into_iter().map(Some).collect::<Vec<_>>();
    let mut got = crate::differentiate::pull(&values(&chosen(&ys, &has))?, &cots, &wrt, true)?.into_iter();
    Ok(c.wanted.iter().map(|&w| if w { got.next().flatten() } else { None }).collect())
}

/// A function that forgets its inner values: the gradient computes them again from the inputs.
/// It trades one more forward run for the memory of everything inside.
///
/// ```
/// # use talweg_ops::{Tensor, control::checkpoint};
/// let x = Tensor::from([1.0f32, 2.0]).requires_grad();
/// let y = checkpoint(|a| Ok(vec![(&a[0] * &a[0]).sum(..)]), &[x.clone()]).unwrap();
/// y[0].backward().unwrap();
/// assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
/// ```
#[track_caller]
pub fn checkpoint(f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>, xs: &[Tensor]) -> Result<Vec<Tensor>> {
    let site = Site::here();
    let run = || {
        let args = values(xs)?;
        let body = Body::trace(&types(&args), site, f)?;
        let captures = body.captures()?;
        let attrs = Attrs::new().with("body", body.graph(&captures)?);
        Ok(tensors(&Value::apply(&OP, args.into_iter().chain(captures).collect(), attrs, site)?))
    };
    run().map_err(|e: Error| e.in_op("checkpoint").at(site))
}

/// The results of a graph that has been run, as nodes that gradients flow through: a gradient runs
/// the graph again, as that of [`checkpoint`] does.
pub fn recorded(body: &Arc<Graph>, inputs: Vec<Value>, results: Vec<Buffer>, site: Site) -> Result<Vec<Value>> {
    let outs = Value::apply(&OP, inputs.into(), Attrs::new().with("body", body.clone()), site)?;
    outs.iter().zip(results).for_each(|(v, b)| v.node().fill(v.out(), b));
    Ok(outs.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{Collect, collect};
    use std::slice::from_ref;

    /// How many sines a plan for these tensors computes.
    fn sines(fetch: &[Tensor]) -> usize {
        let c = collect(&values(fetch).unwrap(), Collect::Now).unwrap();
        let g = crate::engine().optimize(&c.graph).unwrap();
        g.nodes.iter().filter(|n| n.op.name == "sin").count()
    }

    #[test]
    fn the_inner_values_are_computed_twice() {
        let x = Tensor::from([0.3f64, 0.4]).requires_grad();
        // exp's gradient needs exp(sin x): kept without a checkpoint, computed again with it.
        let f = |a: &[Tensor]| Ok(vec![a[0].sin().exp().sum(..)]);
        let (plain, kept) =
            (f(from_ref(&x)).unwrap().swap_remove(0), checkpoint(f, from_ref(&x)).unwrap().swap_remove(0));
        let g = |y: &Tensor| crate::grad(y, from_ref(&x)).unwrap().swap_remove(0);
        let (a, b) = (g(&plain), g(&kept));
        assert_eq!(sines(&[plain, a.clone()]), 1);
        assert_eq!(sines(&[kept, b.clone()]), 2);
        assert_eq!(a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    }

    #[test]
    fn captures_get_gradients() {
        let w = Tensor::from(3.0f64).requires_grad();
        let y = checkpoint(|a| Ok(vec![&a[0] * &w]), &[Tensor::from(2.0f64)]).unwrap().swap_remove(0);
        assert_eq!(crate::grad(&y, &[w]).unwrap()[0].item::<f64>().unwrap(), 2.0);
    }
}
