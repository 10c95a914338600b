//! `custom_gradient`: a function with a gradient rule of the user's own.

use super::{Body, graph, input_types, output_types, tensors, types, values};
use crate::rules::{GradTensors, f64s, floats};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Case, DType, Grad, GradCall, Meaning, Op, Site, Type, Value};

/// The row of `custom_gradient`.
pub static OP: Op = Op {
    name: "custom_gradient",
    doc: "Runs the graph `forward`. The graph `backward` is its gradient rule: it takes the inputs, the results and \
          the gradients of the float results, and returns a gradient for each of the first `inputs` inputs that is a \
          float.",
    attrs: &[("forward", AttrKind::Graph), ("backward", AttrKind::Graph), ("inputs", AttrKind::Int)],
    infer: |c| {
        let (forward, backward) = (c.attrs.graph("forward")?, c.attrs.graph("backward")?);
        let n = c.attrs.size("inputs")?;
        super::check_inputs("the function", forward, c.types)?;
        let outs = output_types(forward);
        if outs.is_empty() || n > c.types.len() {
            return Err(Error::value("the function returns nothing"));
        }
        let cotangents = outs.iter().filter(|t| t.dtype.is_inexact()).cloned().collect();
        super::check_inputs("the gradient rule", backward, &[c.types.to_vec(), outs.clone(), cotangents].concat())?;
        let want: Vec<Type> = c.types[..n].iter().filter(|t| t.dtype.is_inexact()).cloned().collect();
        let got = output_types(backward);
        if want != got {
            return Err(Error::shape(format!(
                "the gradient rule must give {}, one for each float input, but it gives {}",
                super::list(&want),
                super::list(&got)
            )));
        }
        Ok(outs.into())
    },
    meaning: Meaning::Composite(|c, args| c.attrs.graph("forward")?.inline(args)),
    grad: Grad::Rule(grad),
    cases: || {
        let v = Type::new(DType::F64, [2]);
        // The sine with its own derivative, so that finite differences agree.
        let forward = graph(std::slice::from_ref(&v), |x| Ok(vec![x[0].sin()])).expect("well typed");
        let backward = graph(&[v.clone(), v.clone(), v], |x| Ok(vec![x[0].cos() * &x[2]])).expect("well typed");
        let attrs = Attrs::new().with("forward", forward).with("backward", backward).with("inputs", 1i64);
        vec![
            Case::new(vec![floats([2], 1)], attrs.clone()),
            Case::new(vec![f64s([2], &[0.0, 0.0])], attrs).expect(vec![f64s([2], &[0.0, 0.0])], "by hand: sin(0)"),
        ]
    },
    ..Op::DEFAULT
};

fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let n = c.attrs.size("inputs")?;
    let cots = (0..c.outputs.len()).filter(|&o| c.outputs[o].ty().dtype.is_inexact()).map(|o| c.g(o).value().cloned());
    let mut args = [c.inputs, c.outputs].concat();
    args.extend(cots.collect::<Result<Vec<_>>>()?);
    let mut got = c.attrs.graph("backward")?.inline(&args)?.into_iter();
    let is_given = |(i, v): (usize, &Value)| if i < n && v.ty().dtype.is_inexact() { got.next() } else { None };
    Ok(c.inputs.iter().enumerate().map(is_given).collect())
}

/// A function with its own gradient rule: `rule(inputs, results, gradients of the results)` gives
/// a gradient for each input. Inputs and results must be floats where the rule is concerned;
/// values that the closures use beside their arguments get no gradient.
///
/// ```
/// # use talweg_ops::{Tensor, control::custom_gradient};
/// // Rounding with the gradient passed straight through.
/// let x = Tensor::from([1.2f32, 2.7]).requires_grad();
/// let y = custom_gradient(|x| Ok(vec![(&x[0] + 0.5).floor()]), |_, _, g| Ok(g.to_vec()), &[x.clone()]).unwrap();
/// (&y[0] * 3.0).sum(..).backward().unwrap();
/// assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [3.0, 3.0]);
/// ```
#[track_caller]
pub fn custom_gradient(
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    rule: impl FnOnce(&[Tensor], &[Tensor], &[Tensor]) -> Result<Vec<Tensor>>,
    xs: &[Tensor],
) -> Result<Vec<Tensor>> {
    let site = Site::here();
    let run = || {
        let args = values(xs)?;
        let given = types(&args);
        let forward = Body::trace(&given, site, f)?;
        let outs = types(&forward.outs);
        let cots: Vec<Type> = outs.iter().filter(|t| t.dtype.is_inexact()).cloned().collect();
        let (n, m) = (given.len(), given.len() + outs.len());
        let backward =
            Body::trace(&[given, outs.clone(), cots.clone()].concat(), site, |a| rule(&a[..n], &a[n..m], &a[m..]))?;
        let captures = Body::captures_of(&[&forward, &backward])?;
        // The rule takes (inputs, captures, results, gradients): captures stand among the inputs.
        let inner = backward.graph(&captures)?;
        let forward = forward.graph(&captures)?;
        let order = [input_types(&forward), outs, cots].concat();
        let k = n + captures.len();
        let backward =
            graph(&order, |a| Ok(tensors(&inner.inline(&values(&[&a[..n], &a[k..], &a[n..k]].concat())?)?)))?;
        let attrs = Attrs::new().with("forward", forward).with("backward", backward).with("inputs", n);
        Ok(tensors(&Value::apply(&OP, args.into_iter().chain(captures).collect(), attrs, site)?))
    };
    run().map_err(|e: Error| e.in_op("custom_gradient").at(site))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    #[test]
    fn a_rule_of_the_wrong_type_is_named() {
        let x = Tensor::from([1.0f32, 2.0]);
        let e = custom_gradient(|x| Ok(x.to_vec()), |_, _, g| Ok(vec![g[0].sum(..)]), &[x]).unwrap_err();
        assert!(e.to_string().contains("must give (f32[2])") && e.to_string().contains("gives (f32[])"), "{e}");
    }

    #[test]
    fn the_rule_may_use_values_from_outside() {
        let slope = Tensor::from(7.0f64);
        let x = Tensor::from(1.0f64).requires_grad();
        let y = custom_gradient(|x| Ok(vec![x[0].clone() * 2.0]), |_, _, g| Ok(vec![&g[0] * &slope]), from_ref(&x))
            .unwrap();
        assert_eq!(crate::grad(&y[0], &[x]).unwrap()[0].item::<f64>().unwrap(), 7.0);
    }
}
