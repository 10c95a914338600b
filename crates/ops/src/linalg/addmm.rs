//! `addmm`: a tensor plus a product of matrices.

use super::ranks;
use crate::rules::{f64s, floats};
use crate::{Error, Result, Tensor};
use ir::{Attrs, Call, Case, Op, Site};

super::composite!(
    "addmm",
    "beta times the tensor plus alpha times the product of two matrices.",
    3,
    [("beta", Float), ("alpha", Float)],
    |c, t| {
        ranks(&Call { types: &c.types[1..], attrs: c.attrs }, [2, 2])?;
        sum(c, t, t[1].matmul(&t[2]))
    },
    || {
        let by = |b: f64, a: f64| Attrs::new().with("beta", b).with("alpha", a);
        vec![
            Case::new(vec![floats([2, 2], 1), floats([2, 3], 2), floats([3, 2], 3)], by(0.5, 2.0)),
            Case::new(vec![floats([2], 1), floats([2, 3], 2), floats([3, 2], 3)], by(1.0, 1.0)),
            Case::new(vec![f64s((), &[1.0]), f64s([1, 2], &[1.0, 2.0]), f64s([2, 1], &[3.0, 4.0])], by(2.0, 3.0))
                .expect(vec![f64s([1, 1], &[35.0])], "by hand: 2 + 3 * 11"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

/// `beta * x + alpha * product`. With beta 0 the tensor is not read, whatever it holds.
pub(super) fn sum(c: &Call, t: &[Tensor], product: Tensor) -> Result<Tensor> {
    let (beta, alpha) = (c.attrs.float("beta")?, c.attrs.float("alpha")?);
    let shape = product.shape()?;
    if !c.shape(0).broadcasts_to(&shape) {
        return Err(Error::shape(format!("{} does not broadcast to the product's shape {shape}", c.shape(0))));
    }
    let scaled = |x: &Tensor, by: f64| if by == 1.0 { x.clone() } else { (x * by).cast_like(x) };
    Ok(if beta == 0.0 { scaled(&product, alpha) } else { scaled(&t[0], beta) + scaled(&product, alpha) })
}
/// An op of three tensors in their common type.
#[track_caller]
pub(super) fn three(op: &'static Op, t: [&Tensor; 3], beta: f64, alpha: f64) -> Tensor {
    Site::here().scope(|| {
        let attrs = Attrs::new().with("beta", beta).with("alpha", alpha);
        crate::composite::promote(t).map(|[x, a, b]| Tensor::apply1(op, &[&x, &a, &b], attrs)).into()
    })
}

impl Tensor {
    /// beta times the tensor plus alpha times the product of two matrices.
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor {
        three(&OP, [self, a, b], beta, alpha)
    }
}
