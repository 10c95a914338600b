//! `cond`: one of two functions, chosen when the program runs.

use super::{Body, batch_graph, flags, graph, list, only_active, output_types, takes_places};
use super::{tensors, types, values, vjp_graph};
use crate::rules::{f64s, floats};
use crate::{Error, Result, Tensor};
use ir::{
    AttrKind, Attrs, Batch, BatchCall, Case, DType, Grad, GradCall, Graph, Literal, Meaning, Op, Site, Type, Value,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The row of `cond`.
pub static OP: Op = Op {
    name: "cond",
    doc: "Runs the graph `then` on the inputs after the first if the first, a single bool, is true, else the graph \
          `else`. Only the chosen one is run.",
    attrs: &[("then", AttrKind::Graph), ("else", AttrKind::Graph)],
    infer: |c| {
        let Some((pred, rest)) = c.types.split_first() else { return Err(Error::value("the condition is missing")) };
        if *pred != Type::new(DType::Bool, ()) {
            return Err(Error::dtype(format!("the condition must be a single bool, not {pred}")));
        }
        let (yes, no) = (c.attrs.graph("then")?, c.attrs.graph("else")?);
        super::check_inputs("the first branch", yes, rest)?;
        super::check_inputs("the second branch", no, rest)?;
        let (a, b) = (output_types(yes), output_types(no));
        if a != b {
            return Err(Error::shape(format!(
                "the branches must give the same types: the first gives {}, the second {}",
                list(&a),
                list(&b)
            )));
        }
        if a.is_empty() {
            return Err(Error::value("the branches give no results"));
        }
        Ok(a.into())
    },
    meaning: Meaning::Control(|c, args, run| {
        let name = if super::truth(&args[0])? { "then" } else { "else" };
        run(c.attrs.graph(name)?, &args[1..])
    }),
    grad: Grad::Rule(grad),
    batch: Batch::Rule(batch),
    cases: || {
        let ty = Type::new(DType::F64, [2]);
        let yes = super::graph(&[ty.clone(), ty.clone()], |x| Ok(vec![&x[0] * &x[1], x[0].sin()]));
        let no = super::graph(&[ty.clone(), ty], |x| Ok(vec![&x[0] - &x[1], x[1].exp()]));
        let attrs = Attrs::new().with("then", yes.expect("well typed")).with("else", no.expect("well typed"));
        let (a, b) = (floats([2], 1), floats([2], 2));
        let out = f64s([2], &[0.0, 0.0]);
        vec![
            Case::new(vec![Literal::scalar(true), a.clone(), b.clone()], attrs.clone()),
            Case::new(vec![Literal::scalar(false), a, b], attrs.clone()),
            Case::new(vec![Literal::scalar(false), out.clone(), out], attrs)
                .expect(vec![f64s([2], &[0.0, 0.0]), f64s([2], &[1.0, 1.0])], "by hand: 0 - 0 and exp(0)"),
        ]
    },
    ..Op::DEFAULT
};

/// The same choice between the branches' vector-Jacobian products.
fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (has, wanted): (Vec<bool>, &[bool]) = (c.grads.iter().map(Option::is_some).collect(), &c.wanted[1..]);
    let mut out = vec![None; c.inputs.len()];
    if !wanted.contains(&true) {
        return Ok(out);
    }
    let attrs = Attrs::new()
        .with("then", vjp_graph(c.attrs.graph("then")?, &has, wanted)?)
        .with("else", vjp_graph(c.attrs.graph("else")?, &has, wanted)?);
    let inputs = c.inputs.iter().chain(c.grads.iter().flatten()).cloned().collect();
    let mut got = Value::apply(&OP, inputs, attrs, Site::here())?.into_iter();
    for (slot, &w) in out[1..].iter_mut().zip(wanted) {
        *slot = if w { got.next() } else { None };
    }
    Ok(out)
}

/// With one condition for all, both branches are batched; with one each, both are run and the
/// condition chooses between the results.
fn batch(c: &BatchCall) -> Result<Vec<Value>> {
    let rest = &c.batched[1..];
    let yes = batch_graph(c.attrs.graph("then")?, rest, c.size)?;
    let no = batch_graph(c.attrs.graph("else")?, rest, c.size)?;
    if !c.batched[0] {
        let attrs = Attrs::new().with("then", yes).with("else", no);
        return Ok(Value::apply(&OP, c.inputs.iter().cloned().collect(), attrs, Site::here())?.into_vec());
    }
    let pred = Tensor::from(c.inputs[0].clone());
    let a = branch(&yes, &pred, &c.inputs[1..], rest)?;
    let b = branch(&no, &pred.not(), &c.inputs[1..], rest)?;
    a.iter().zip(&b).map(|(a, b)| Tensor::where_(&flags(&pred, a)?, a, b).value().cloned()).collect()
}

/// A batched branch for the members that chose it; what the others get does not matter. A branch that
/// may fail runs only if it was chosen, and on nothing but what such members have.
fn branch(g: &Arc<Graph>, chosen: &Tensor, inputs: &[Value], batched: &[bool]) -> Result<Vec<Tensor>> {
    if !takes_places(g) {
        return Ok(tensors(&g.inline(inputs)?));
    }
    let all: Vec<Value> = std::iter::once(chosen.value()?.clone()).chain(inputs.iter().cloned()).collect();
    let some = graph(&types(&all), |x| {
        let seen = only_active(g, &x[0], &x[1..], batched)?;
        Ok(tensors(&g.inline(&values(&seen)?)?))
    })?;
    let none = graph(&types(&all), |_| {
        let zeros = |t: &Type| Tensor::zeros(t.shape.clone()).cast(t.dtype);
        Ok(output_types(g).iter().map(zeros).collect())
    })?;
    let inputs = std::iter::once(chosen.any(..).value()?.clone()).chain(all).collect();
    let attrs = Attrs::new().with("then", some).with("else", none);
    Ok(tensors(&Value::apply(&OP, inputs, attrs, Site::here())?))
}

/// Runs `then` if `pred` (a single bool) is true, else `otherwise`; both take `inputs` and must
/// give the same types. What the closures use beside their arguments is found by itself.
///
/// ```
/// # use talweg_ops::{Tensor, control::cond};
/// let x = Tensor::from(3.0f32).requires_grad();
/// let y = cond(&x.gt(0.0), |a| Ok(vec![&a[0] * &a[0]]), |a| Ok(vec![-&a[0]]), &[x.clone()]).unwrap();
/// assert_eq!(y[0].item::<f32>().unwrap(), 9.0);
/// y[0].backward().unwrap();
/// assert_eq!(x.grad().unwrap().item::<f32>().unwrap(), 6.0);
/// ```
#[track_caller]
pub fn cond(
    pred: &Tensor,
    then: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    otherwise: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>> {
    let site = Site::here();
    let run = || {
        let args = values(inputs)?;
        let (yes, no) = (Body::trace(&types(&args), site, then)?, Body::trace(&types(&args), site, otherwise)?);
        let captures = Body::captures_of(&[&yes, &no])?;
        let attrs = Attrs::new().with("then", yes.graph(&captures)?).with("else", no.graph(&captures)?);
        let all: SmallVec<[Value; 2]> = std::iter::once(pred.value()?.clone()).chain(args).chain(captures).collect();
        Ok(tensors(&Value::apply(&OP, all, attrs, site)?))
    };
    run().map_err(|e: Error| e.in_op("cond").at(site))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    #[test]
    fn branches_of_different_types_name_the_line() {
        let x = Tensor::from([1.0f32, 2.0]);
        let yes = Tensor::from(true);
        let e = cond(&yes, |a| Ok(vec![a[0].sum(..)]), |a| Ok(vec![a[0].clone()]), from_ref(&x)).unwrap_err();
        assert!(e.to_string().contains("the first gives (f32[]), the second (f32[2])"), "{e}");
        assert!(e.to_string().contains("cond.rs"), "{e}");
        let e = cond(&x, |a| Ok(a.to_vec()), |a| Ok(a.to_vec()), from_ref(&x)).unwrap_err();
        assert!(e.to_string().contains("single bool, not f32[2]"), "{e}");
    }

    #[test]
    fn captured_values_get_gradients() {
        let w = Tensor::from([2.0f64, 3.0]).requires_grad();
        let doubled = &w * 2.0;
        let x = Tensor::from([1.0f64, 1.0]);
        let run = |yes: bool| {
            let p = Tensor::from(yes);
            let y = cond(&p, |a| Ok(vec![&a[0] * &doubled]), |a| Ok(vec![&a[0] + &w]), from_ref(&x)).unwrap();
            crate::grad(&y[0].sum(..), from_ref(&w)).unwrap()[0].to_vec::<f64>().unwrap()
        };
        assert_eq!(run(true), [2.0, 2.0]);
        assert_eq!(run(false), [1.0, 1.0]);
    }

    #[test]
    fn a_condition_for_each_member_chooses() {
        let x = Tensor::from([-1.0f64, 4.0]);
        let f =
            |a: &[Tensor]| cond(&a[0].gt(0.0), |b| Ok(vec![&b[0] * 10.0]), |b| Ok(vec![b[0].exp()]), &[a[0].clone()]);
        let y = crate::vmap(f, &[x]).unwrap();
        assert_eq!(y[0].to_vec::<f64>().unwrap(), [(-1f64).exp(), 40.0]);
    }
}
