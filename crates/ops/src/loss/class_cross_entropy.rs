//! `class_cross_entropy`: cross entropy of a softmax with one class, along an axis.

use crate::rules::{GradTensors, expand, f64s, float, floats, i64s, maybe_grads, one};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Grad, Meaning, Op, Shape};

/// The row of `class_cross_entropy`.
pub static OP: Op = Op {
    name: "class_cross_entropy",
    doc: "log Σ exp(x) − x[t] along an axis, which is removed, for class labels t of the shape that is left.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        let rest = c.shape(0).reduce(&[c.axis("axis")?], false);
        if c.dtype(1) != DType::I64 || c.shape(1) != &rest {
            return Err(Error::shape(format!(
                "logits {} need class numbers i64{rest}, not {}",
                c.types[0], c.types[1]
            )));
        }
        one(c.dtype(0), rest)
    },
    meaning: Meaning::Composite(|c, v| {
        let along = c.attrs.int("axis")?;
        let hit = |t: &Tensor| hits(c, t);
        expand(v, |v| {
            let x = v[0].widened();
            // Relative to the greatest logit, so that nothing overflows and little cancels.
            let z = &x - x.max_keep(along).stop_gradient();
            // One pass over the logits finds all: picking them out would need them in memory.
            let picked = Tensor::where_(&hit(&v[1])?, &z, 0.0).sum_keep(along);
            Ok(vec![(z.exp().sum_keep(along).log() - picked).reshape(c.shape(1)).cast(c.dtype(0))])
        })
    }),
    grad: Grad::Rule(|c| {
        let (x, along) = (c.x(0), c.attrs.int("axis")?);
        let types = [c.inputs[0].ty().clone(), c.inputs[1].ty().clone()];
        let call = Call { types: &types, attrs: c.attrs };
        let softmax = x.widened().softmax(along);
        let hit = hits(&call, &c.x(1))?.cast_like(&softmax);
        let g = c.g(0).widened().reshape(thin(&call)?);
        maybe_grads(vec![Some(((softmax - hit) * g).cast_like(&x)), None])
    }),
    autocast: ir::Autocast::Wide,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let ln3 = 3f64.ln();
        let far = f64s([2, 3], &[0.0, 0.0, 0.0, 1e4, 0.0, f64::NEG_INFINITY]);
        vec![
            Case::new(vec![floats([2, 3], 1), i64s([2], &[2, 0])], along(1)),
            Case::new(vec![floats([3, 2], 2), i64s([2], &[0, 1])], along(0)),
            Case::new(vec![far, i64s([2], &[1, 1])], along(1)).expect(vec![f64s([2], &[ln3, 1e4])], "by hand").kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// Where a class label is the class at its index along the axis.
fn hits(c: &Call, numbers: &Tensor) -> Result<Tensor> {
    let axis = c.axis("axis")?;
    let classes = Tensor::iota(c.shape(0)[axis], DType::I64);
    Ok(numbers.reshape(thin(c)?).eq(super::nll_loss::along(&classes, axis, c.shape(0).rank())))
}

/// The shape of the logits with size 1 along the axis.
fn thin(c: &Call) -> Result<Shape> {
    Ok(c.shape(0).reduce(&[c.axis("axis")?], true))
}
