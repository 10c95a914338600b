//! `median`: the middle element along an axis and its place.

use crate::rules::{by_expansion, expand, f64s, floats, i64s};
use crate::{Axes, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `median`.
pub static OP: Op = Op {
    name: "median",
    doc: "The middle element along `axis` and its index; the axis keeps size 1. Of an even number the lower of the \
          two in the middle; NaN if there is one.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    grad: super::CHOSEN_GRAD,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([3, 2], 2)], along(0)),
            Case::new(vec![floats([2, 4], 3)], along(1)),
            Case::new(vec![f64s([3], &[9.0, 1.0, 4.0])], along(0))
                .expect(vec![f64s([1], &[4.0]), i64s([1], &[2])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let at = c.axis("axis")?;
    expand(x, |x| Ok(x[0].middle(at, false)?.to_vec()))
}

impl Tensor {
    /// The middle element along an axis and its index;
    /// of an even number, the lower of the two in the middle. The axis disappears.
    #[track_caller]
    pub fn median_index(&self, along: i64) -> [Tensor; 2] {
        self.middle_in(&OP, &Axes::from(along))
    }
    /// The middle element along an axis, or of all for `..`; of an
    /// even number, the lower of the two in the middle. The axis disappears. Equal elements share
    /// the gradient of `..` evenly.
    #[track_caller]
    pub fn median(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        let [value, _] = self.middle_in(&OP, &axes);
        self.shared_middle(value, &axes)
    }
}

impl Tensor {
    /// The middle of all elements, whose gradient equal elements share evenly, as in PyTorch; along
    /// an axis one of them has it.
    pub(super) fn shared_middle(&self, middle: Tensor, axes: &Axes) -> Tensor {
        if *axes != Axes::All || !self.dtype().is_ok_and(|d| d.is_float()) {
            return middle;
        }
        middle.then(|_| {
            let middle = middle.stop_gradient();
            let hit = self.eq(&middle).or(self.is_nan().and(middle.is_nan()));
            Ok(Tensor::where_(&hit, self, f64::NEG_INFINITY).max(..))
        })
    }
    /// The middle element and its index, with NaN left out or winning.
    pub(super) fn middle(&self, at: usize, skip_nan: bool) -> Result<[Tensor; 2]> {
        let size = self.shape()?[at] as i64;
        let [sorted, places] = self.sort(at as i64);
        let nans = self.is_nan().sum_keep(at);
        // NaN sort to the end: the first of them, if any, stands behind all other elements.
        let valid = -&nans + size;
        let k = if skip_nan {
            (&valid - 1i64).shr(1i64).maximum(0i64)
        } else {
            Tensor::where_(&nans.gt(0i64), &valid, (size - 1) / 2)
        };
        Ok([sorted.gather(at as i64, &k), places.gather(at as i64, &k)])
    }
    #[track_caller]
    pub(super) fn middle_in(&self, op: &'static Op, axes: &Axes) -> [Tensor; 2] {
        self.then2(|t| {
            let (x, at) = self.one_axis(axes, op.name)?;
            if x.shape()?[at] == 0 {
                let e = format!("axis {at} of {} is empty and has no such element", t.shape);
                return Err(crate::Error::shape(e).in_op(op.name));
            }
            let outs: [Tensor; 2] = Tensor::apply_n(op, &[&x], Attrs::new().with("axis", at));
            let out = if *axes == Axes::All || t.shape.rank() == 0 {
                ir::Shape::scalar()
            } else {
                t.shape.reduce(&[at], false)
            };
            Ok(outs.map(|y| y.reshape(&out)))
        })
    }
}
