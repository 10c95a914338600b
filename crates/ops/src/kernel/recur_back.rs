//! `recur_back`: a linear recurrence from the end of an axis.

use super::BATCH_AXIS;
use crate::rules::{expand, f64s, float, floats, one_dtype, same};
use crate::{Result, Tensor};
use ir::{AttrKind, Attrs, Case, Error, Meaning, Op};

/// The row of `recur_back`.
pub static OP: Op = Op {
    name: "recur_back",
    doc: "The solution of r[i] = b[i] + a[i] r[i + 1] from the end of `axis`, where r is 0 behind the last element.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        one_dtype(c)?;
        c.axis("axis")?;
        if c.shape(0) != c.shape(1) {
            return Err(Error::shape(format!("shapes differ: {} and {}", c.shape(0), c.shape(1))));
        }
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        let axis = c.axis("axis")?;
        expand(args, |t| Ok(vec![doubled(&t[0], &t[1], axis)?]))
    }),
    batch: BATCH_AXIS,
    shard: ir::Shard::Lanes,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3, 2], 1), floats([2, 3, 2], 2)], along(1)),
            Case::new(vec![floats([2, 5], 3), floats([2, 5], 4)], along(1)),
            Case::new(vec![f64s([3], &[2.0, 3.0, 7.0]), f64s([3], &[1.0, 10.0, 100.0])], along(0))
                .expect(vec![f64s([3], &[621.0, 310.0, 100.0])], "by hand: 10 + 3 · 100, 1 + 2 · 310"),
        ]
    },
    ..Op::DEFAULT
};

/// By doubling: after each round an element covers twice as many of its successors. That takes the logarithm of the
/// axis' size in rounds of ordinary ops.
fn doubled(a: &Tensor, b: &Tensor, axis: usize) -> Result<Tensor> {
    let shape = b.shape()?;
    let (size, rank) = (shape[axis], shape.rank());
    let ahead = |t: &Tensor, by: usize| {
        let mut hi = vec![0; rank];
        hi[axis] = by as i64;
        t.narrow(axis as i64, by, size - by).pad_raw(&vec![0; rank], &hi, 0.0)
    };
    let (mut a, mut b, mut by) = (a.clone(), b.clone(), 1);
    while by < size {
        b = &b + &a * ahead(&b, by);
        a = &a * ahead(&a, by);
        by *= 2;
    }
    Ok(b)
}

impl Tensor {
    /// Solves r[i] = b[i] + self[i] · r[i + 1] from the end of an axis.
    #[track_caller]
    pub(crate) fn recur_back(&self, b: &Tensor, axis: usize) -> Tensor {
        Tensor::apply1(&OP, &[self, b], Attrs::new().with("axis", axis))
    }
}
