//! Comparisons and truth.

use super::{Outs, Row, one, row};
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Literal};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("Equal", 1, |c| {
        if let Value::Strings(..) = c.value(0) {
            return equal_strings(c);
        }
        compare(c, |a, b| a.eq(b))
    }),
    row("Greater", 1, |c| compare(c, |a, b| a.gt(b))),
    row("GreaterOrEqual", 12, |c| compare(c, |a, b| a.ge(b))),
    row("Less", 1, |c| compare(c, |a, b| a.lt(b))),
    row("LessOrEqual", 12, |c| compare(c, |a, b| a.le(b))),
    row("And", 1, |c| compare(c, |a, b| a.and(b))),
    row("Or", 1, |c| compare(c, |a, b| a.or(b))),
    row("Xor", 1, |c| compare(c, |a, b| a.xor(b))),
    row("Not", 1, |c| one(c.x(0)?.logical_not())),
    row("IsNaN", 9, |c| one(c.x(0)?.is_nan())),
    row("IsInf", 10, |c| {
        let x = c.x(0)?;
        let (low, high) = (c.int("detect_negative", 1) != 0, c.int("detect_positive", 1) != 0);
        one(match (low, high) {
            (true, true) => x.is_inf(),
            (true, false) => x.eq(f64::NEG_INFINITY),
            (false, true) => x.eq(f64::INFINITY),
            (false, false) => x.is_inf().and(false),
        })
    }),
    row("Where", 9, |c| {
        let (a, b) = (c.item(1)?, c.item(2)?);
        let y = Tensor::where_(&c.x(0)?, &a.tensor, &b.tensor);
        Ok(vec![Value::typed(y, a.elem)])
    }),
];

fn compare(c: &Call<'_>, f: impl Fn(Tensor, Tensor) -> Tensor) -> Outs {
    let (a, mut b) = (c.x(0)?, c.x(1)?);
    if c.version() < 7 {
        b = super::math::aligned(c, &a, b)?;
    }
    one(f(a, b))
}

fn equal_strings(c: &Call<'_>) -> Outs {
    let ((sa, a), (sb, b)) = (c.strings(0)?, c.strings(1)?);
    let shape = sa.broadcast(sb).ok_or_else(|| Error::shape(format!("{sa} and {sb} do not broadcast")))?;
    let (la, lb) = (super::text::places(sa, &shape), super::text::places(sb, &shape));
    Ok(vec![Literal::generate::<bool>(shape, |i| a[la[i]] == b[lb[i]]).cast(DType::Bool).into()])
}
