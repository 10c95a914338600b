//! `function`: results that the host language computed, with its own pullback.

use super::{tensors, values};
use crate::rules::f64s;
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op, Pullback, Site, Value};
use std::sync::Arc;

/// From results and their gradients to those of the inputs.
pub type Backward = Arc<dyn Fn(&[Tensor], &[Option<Value>]) -> Result<Vec<Option<Value>>> + Send + Sync>;

/// The row of `function`.
pub static OP: Op = Op {
    name: "function",
    doc: "The first `results` inputs. Gradients go from there to the other inputs, by a function of the host language \
          that belongs to the call: a graph that was stored has none.",
    attrs: &[("results", AttrKind::Int)],
    infer: |c| {
        let n = c.attrs.size("results")?;
        match c.types.get(..n) {
            Some(outs) if n > 0 => Ok(outs.to_vec().into()),
            _ => Err(Error::value("the function returns nothing")),
        }
    },
    meaning: Meaning::Composite(|c, args| Ok(args[..c.attrs.size("results")?].to_vec())),
    grad: Grad::Missing("its backward function belongs to the call that made it"),
    cases: || {
        let (y, x) = (f64s([2], &[1.0, 2.0]), f64s((), &[3.0]));
        vec![Case::new(vec![y.clone(), x], Attrs::new().with("results", 1i64)).expect(vec![y], "by definition")]
    },
    ..Op::DEFAULT
};

/// `ys`, computed from `xs` without a record, as nodes whose gradients with respect to `xs` are those that `backward`
/// returns for the results and their gradients.
///
/// ```
/// # use std::sync::Arc;
/// # use talweg_ops::{Tensor, control::function, no_grad};
/// let x = Tensor::from([1.0f32, 2.0]).requires_grad();
/// let y = no_grad(|| &x * &x);
/// let slope = Arc::new(|_: &[Tensor], g: &[Option<_>]| Ok(g.to_vec()));
/// let y = function(&[y], &[x.clone()], slope).unwrap();
/// y[0].sum(..).backward().unwrap();
/// assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0]);
/// ```
#[track_caller]
pub fn function(ys: &[Tensor], xs: &[Tensor], backward: Backward) -> Result<Vec<Tensor>> {
    let site = Site::here();
    let (results, n) = (values(ys)?, ys.len());
    let inputs = results.into_iter().chain(values(xs)?).collect();
    let outs = Value::apply(&OP, inputs, Attrs::new().with("results", n), site)?;
    let node = outs[0].node().clone();
    // The node must not keep itself alive.
    let own = Arc::downgrade(&node);
    let pullback: Pullback = Arc::new(move |grads| {
        let node = own.upgrade().ok_or_else(|| Error::bug("a function without its node"))?;
        let first = Value::from_node(node);
        let outs: Vec<Tensor> = (0..n).map(|o| first.sibling(o).into()).collect();
        let mut all = vec![None; n];
        all.extend(backward(&outs, grads)?);
        Ok(all)
    });
    node.watch(|w| w.pullback = Some(pullback));
    Ok(tensors(&outs))
}
