//! `conv_weight_grad`: the gradient of a convolution for its kernel.

use super::conv::{self, Geometry, Role, attrs};
use super::conv_input_grad::{self, shape, without_shape};
use crate::rules::{GradTensors, f64s, float, floats, maybe_grads, one, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Literal, Meaning, Op, Shape};

/// The row of `conv_weight_grad`.
pub static OP: Op = Op {
    name: "conv_weight_grad",
    doc: "The gradient of `conv` for a kernel of shape `shape`, from the image x[N, C, *S] and the result's gradient \
          g[N, O, *Q].",
    attrs: &[conv::ATTRS[0], conv::ATTRS[1], conv::ATTRS[2], conv::ATTRS[3], conv::ATTRS[4], ("shape", AttrKind::Ints)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        geometry(c)?;
        one(one_dtype(c)?, shape(c.attrs)?)
    },
    meaning: Meaning::Kernel(|c, args| {
        let (x, g) = (args[0].to_f64(), args[1].to_f64());
        let shape = shape(c.attrs)?;
        let mut w = vec![0.0; shape.count()];
        geometry(c)?.each(|i, k, o| w[k] += x[i] * g[o]);
        Ok(vec![Literal::from_f64(c.dtype(0), shape, &w)])
    }),
    grad: Grad::Rule(|c| {
        let (x, g, up) = (c.x(0), c.x(1), c.g(0));
        maybe_grads(vec![
            c.wanted[0].then(|| conv_input_grad::apply(&g, &up, &c.inputs[0].ty().shape, c.attrs)),
            c.wanted[1].then(|| Tensor::apply1(&conv::OP, &[&x, &up], without_shape(c.attrs))),
        ])
    }),
    batch: Batch::Rule(|c| conv::batch(c, [Role::Image, Role::Image], Role::Weight)),
    shard: ir::Shard::Rule(|c| conv::factors(c, ["nc", "no"], "oc")),
    linear_in: &[0, 1],
    resize: Some(conv::resize),
    cases: || {
        vec![
            Case::new(
                vec![floats([2, 2, 4], 1), floats([2, 2, 2], 2)],
                attrs(&[2], &[1], &[0], &[1], 1).with("shape", [2i64, 2, 2]),
            ),
            Case::new(
                vec![floats([1, 2, 3, 4], 1), floats([1, 4, 2, 3], 2)],
                attrs(&[1, 2], &[0, 1], &[1, 2], &[2, 1], 2).with("shape", [4i64, 1, 2, 2]),
            ),
            Case::new(
                vec![f64s([1, 1, 3], &[1.0, 2.0, 3.0]), f64s([1, 1, 2], &[10.0, 1.0])],
                attrs(&[1], &[0], &[0], &[1], 1).with("shape", [1i64, 1, 2]),
            )
            .expect(vec![f64s([1, 1, 2], &[12.0, 23.0])], "by hand: 1·10 + 2·1, 2·10 + 3·1"),
        ]
    },
    ..Op::DEFAULT
};

fn geometry(c: &Call) -> Result<Geometry> {
    let geometry = Geometry::new(c.attrs, c.shape(0), &shape(c.attrs)?)?;
    if geometry.out() != *c.shape(1) {
        let e = format!("the convolution's result is {}, but its gradient is {}", geometry.out(), c.shape(1));
        return Err(Error::shape(e));
    }
    Ok(geometry)
}

/// The op from the attributes of its convolution.
pub(super) fn apply(x: &Tensor, g: &Tensor, shape: &Shape, attrs: &Attrs) -> Tensor {
    Tensor::apply1(&OP, &[x, g], without_shape(attrs).with("shape", shape))
}
