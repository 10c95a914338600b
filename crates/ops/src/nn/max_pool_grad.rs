//! `max_pool_grad`: the gradient of max pooling.

use super::conv_input_grad::shape;
use crate::rules::{GradTensors, expand, f64s, float, floats, i64s, maybe_grads, one};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Case, DType, Grad, Meaning, Op};

/// The row of `max_pool_grad`.
pub static OP: Op = Op {
    name: "max_pool_grad",
    doc: "The gradient of `max_pool` for an input of shape `shape`, from the indices it found and the gradient of \
          its result: each element goes to its index, the rest is zero.",
    attrs: &[("shape", AttrKind::Ints)],
    infer: |c| {
        c.arity(2)?;
        float(c, 1)?;
        let to = shape(c.attrs)?;
        let fits = c.dtype(0) == DType::I64 && c.shape(0) == c.shape(1) && to.rank() == c.shape(0).rank();
        if !fits || to.rank() < 3 || to[..2] != c.shape(0)[..2] {
            let e =
                format!("takes indices i64 and a gradient [N, C, …] for {to}, not {} and {}", c.types[0], c.types[1]);
            return Err(Error::shape(e));
        }
        one(c.dtype(1), to)
    },
    meaning: Meaning::Composite(|c, v| {
        let to = shape(c.attrs)?;
        expand(v, |v| {
            let flat = |t: &Tensor| t.flatten(2, -1);
            let zeros = flat(&Tensor::full_of(&to, 0.0, c.dtype(1)));
            Ok(vec![zeros.scatter_add(2, &flat(&v[0]), &flat(&v[1])).reshape(&to)])
        })
    }),
    grad: Grad::Rule(|c| {
        let flat = |t: Tensor| t.flatten(2, -1);
        let g = flat(c.g(0)).gather(2, &flat(c.x(0))).reshape(&c.inputs[1].ty().shape);
        maybe_grads(vec![None, Some(g)])
    }),
    cases: || {
        let to = |s: &[i64]| Attrs::new().with("shape", s);
        vec![
            Case::new(vec![i64s([1, 2, 2], &[0, 3, 2, 2]), floats([1, 2, 2], 1)], to(&[1, 2, 4])),
            Case::new(vec![i64s([1, 1, 1, 2], &[4, 6]), f64s([1, 1, 1, 2], &[1.0, 2.0])], to(&[1, 1, 2, 4]))
                .expect(vec![f64s([1, 1, 2, 4], &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 0.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};
