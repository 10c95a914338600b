//! `nanmedian`: the middle element along an axis and its place, with NaN left out.

use crate::rules::{by_expansion, expand, f64s, floats, i64s};
use crate::{Axes, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `nanmedian`.
pub static OP: Op = Op {
    name: "nanmedian",
    doc: "The middle element along `axis` that is not NaN, and its index; the axis keeps size 1. Of an even number \
          the lower of the two in the middle.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    grad: super::CHOSEN_GRAD,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([3, 2], 2)], along(0)),
            Case::new(vec![floats([2, 4], 3)], along(1)),
            Case::new(vec![f64s([3], &[1.0, f64::NAN, 3.0])], along(0))
                .expect(
                    vec![f64s([1], &[1.0]), i64s([1], &[0])],
                    "PyTorch manual: torch.tensor([1, float('nan'), 3]).nanmedian()",
                )
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let at = c.axis("axis")?;
    expand(x, |x| Ok(x[0].middle(at, true)?.to_vec()))
}

impl Tensor {
    /// The middle element along an axis and its index, with NaN left out;
    /// of an even number, the lower of the two in the middle. The axis disappears.
    #[track_caller]
    pub fn nanmedian_index(&self, along: i64) -> [Tensor; 2] {
        self.middle_in(&OP, &Axes::from(along))
    }
    /// The middle element along an axis, or of all for `..`, with NaN left out; of an
    /// even number, the lower of the two in the middle. The axis disappears.
    #[track_caller]
    pub fn nanmedian(&self, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        let [value, _] = self.middle_in(&OP, &axes);
        self.shared_middle(value, &axes)
    }
}
