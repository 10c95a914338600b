//! `random_integers`: whole numbers of a range.

use super::{check_key, long, shape_of, words};
use crate::rules::{expand1, i64s, one};
use crate::{DType, Error, Tensor};
use ir::{AttrKind, Attrs, Batch, Case, Grad, Meaning, Op, Shape};
use std::ops::Range;

/// The row of `random_integers`.
pub static OP: Op = Op {
    name: "random_integers",
    doc: "Whole numbers evenly distributed from lo up to hi, which is left out, from a key.",
    attrs: &[("shape", AttrKind::Ints), ("lo", AttrKind::Int), ("hi", AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        check_key(c, 0)?;
        let (lo, hi) = (c.attrs.int("lo")?, c.attrs.int("hi")?);
        if hi <= lo || hi.checked_sub(lo).is_none() {
            return Err(Error::value(format!("{lo}..{hi} is not a range with 1 to 2⁶³ - 1 numbers")));
        }
        one(DType::I64, shape_of(c)?)
    },
    meaning: Meaning::Composite(|c, args| {
        let (lo, hi, shape) = (c.attrs.int("lo")?, c.attrs.int("hi")?, shape_of(c)?);
        // The remainder of 63 bits favors no number by more than the range over 2⁶³.
        expand1(args, |t| long(words(&t[0], &shape)).rem(hi - lo) + lo)
    }),
    grad: Grad::Zero,
    batch: Batch::Auto,
    cases: || {
        let of = |shape: &[usize], lo: i64, hi: i64| Attrs::new().with("shape", shape).with("lo", lo).with("hi", hi);
        vec![
            Case::new(vec![i64s([2], &[3, 4])], of(&[2, 3], -5, 100)),
            Case::new(vec![i64s([2], &[0, 0])], of(&[4], 0, 10))
                .expect(vec![i64s([4], &[4, 4, 1, 5])], "remainders of 63 bits of the Random123 answer for zeros"),
        ]
    },
};

impl Tensor {
    /// i64 numbers evenly distributed over a range, from a key: i64, a seed and a counter.
    #[track_caller]
    pub fn random_integers(key: &Tensor, shape: impl Into<Shape>, range: Range<i64>) -> Tensor {
        let attrs = Attrs::new().with("shape", &shape.into()).with("lo", range.start).with("hi", range.end);
        Tensor::apply1(&OP, &[key], attrs)
    }
}
