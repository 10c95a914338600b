//! `random_integers`: integers of a range.

use super::{check_key, long, shape_of, words};
use crate::rules::{expand1, i64s, one};
use crate::{DType, Error, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op, Shape};
use std::ops::Range;

/// The row of `random_integers`.
pub static OP: Op = Op {
    name: "random_integers",
    doc: "Integers evenly distributed from lo up to hi, which is left out, from a key.",
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
        let range = hi - lo;
        // The remainder of 63 bits favors no number by more than the range over 2⁶³.
        if range <= REMAINDER_MAX {
            return expand1(args, |t| long(words(&t[0], &shape)).rem(range) + lo);
        }
        expand1(args, |t| scaled(words(&t[0], &shape), range as u64).cast(DType::I64) + lo)
    }),
    grad: Grad::Zero,
    cases: || {
        let of = |shape: &[usize], lo: i64, hi: i64| Attrs::new().with("shape", shape).with("lo", lo).with("hi", hi);
        vec![
            Case::new(vec![i64s([2], &[3, 4])], of(&[2, 3], -5, 100)),
            Case::new(vec![i64s([2], &[3, 4])], of(&[2, 3], 0, 3 << 61)),
            Case::new(vec![i64s([2], &[0, 0])], of(&[4], 0, 10))
                .expect(vec![i64s([4], &[4, 4, 1, 5])], "remainders of 63 bits of the Random123 answer for zeros"),
        ]
    },
    ..Op::DEFAULT
};

/// Ranges beyond this would be drawn unevenly by a remainder.
const REMAINDER_MAX: i64 = 1 << 32;

/// The whole part of u n / 2¹²⁸ for a number u of four words: every number below n is as likely as
/// the others to one part in 2⁶⁴. A long multiplication of words in u64.
fn scaled(u: [Tensor; 4], n: u64) -> Tensor {
    let u = u.map(|w| w.cast(DType::U64));
    let word = |x: &Tensor| x.and(u32::MAX as u64);
    let mut sums: [Option<Tensor>; 6] = Default::default();
    for (shift, digit) in [n & u64::from(u32::MAX), n >> 32].into_iter().enumerate() {
        let mut carry: Option<Tensor> = None;
        for (i, u) in u.iter().enumerate() {
            let mut at = u * digit;
            at = sums[i + shift].take().map_or(at.clone(), |s| &at + s);
            at = carry.map_or(at.clone(), |c| &at + c);
            sums[i + shift] = Some(word(&at));
            carry = Some(at.shr(32u64));
        }
        sums[4 + shift] = carry;
    }
    let [.., low, high] = sums.map(|s| s.expect("every place was written"));
    high.shl(32u64).or(low)
}

impl Tensor {
    /// i64 numbers evenly distributed over a range, from a key: i64, a seed and a counter.
    #[track_caller]
    pub fn random_integers(key: &Tensor, shape: impl Into<Shape>, range: Range<i64>) -> Tensor {
        let attrs = Attrs::new().with("shape", &shape.into()).with("lo", range.start).with("hi", range.end);
        Tensor::apply1(&OP, &[key], attrs)
    }
}
