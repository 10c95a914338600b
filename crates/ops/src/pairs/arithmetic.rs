//! Arithmetic, powers and comparisons of complex numbers.

use super::{Pair, Use};
use crate::{Result, Tensor};

/// The largest whole exponent that a power multiplies out.
const EXPONENT_MAX: f64 = 64.0;

/// A complex function of one number.
pub(crate) fn unary(u: &Use, f: impl Fn(&Pair) -> Pair) -> Result<Vec<Tensor>> {
    Ok(vec![f(&u.pair(0)?).join()])
}
/// A complex function of two numbers.
pub(crate) fn binary(u: &Use, f: impl Fn(&Pair, &Pair) -> Pair) -> Result<Vec<Tensor>> {
    Ok(vec![f(&u.pair(0)?, &u.pair(1)?).join()])
}
/// A real function of one number.
pub(crate) fn real(u: &Use, f: impl Fn(&Pair) -> Tensor) -> Result<Vec<Tensor>> {
    Ok(vec![f(&u.pair(0)?)])
}
/// A real function of two numbers.
pub(crate) fn real2(u: &Use, f: impl Fn(&Pair, &Pair) -> Tensor) -> Result<Vec<Tensor>> {
    Ok(vec![f(&u.pair(0)?, &u.pair(1)?)])
}

/// The number 1, alone.
pub(crate) fn one(like: &Pair) -> Pair {
    let number = |x: f64| like.re.then(|t| Ok(Tensor::full_of((), x, t.dtype)));
    Pair::new(number(1.0), number(0.0))
}

pub(crate) fn mul(a: &Pair, b: &Pair) -> Pair {
    match (a.is_real(), b.is_real()) {
        (_, true) => Pair::new(&a.re * &b.re, &a.im * &b.re),
        (true, _) => Pair::new(&a.re * &b.re, &a.re * &b.im),
        _ => Pair::new(&a.re * &b.re - &a.im * &b.im, &a.re * &b.im + &a.im * &b.re),
    }
}

/// Smith's division: by the greater part of the divisor, so that no square overflows.
pub(crate) fn div(a: &Pair, b: &Pair) -> Pair {
    if b.is_real() {
        return Pair::new(&a.re / &b.re, &a.im / &b.re);
    }
    let is_first = b.re.abs().ge(b.im.abs());
    let (large, small) = (Tensor::where_(&is_first, &b.re, &b.im), Tensor::where_(&is_first, &b.im, &b.re));
    let is_zero = large.eq(0.0);
    // 0 divides each part by itself; the quotient of the parts is not looked at there.
    let ratio = &small / Tensor::where_(&is_zero, &large.ones_like(), &large);
    let divisor = &large + &small * &ratio;
    let (p, q) = (Tensor::where_(&is_first, &a.re, &a.im), Tensor::where_(&is_first, &a.im, &a.re));
    let im = (&q - &p * &ratio) / &divisor;
    Pair::new((p + q * ratio) / divisor, Tensor::where_(&is_first, &im, &-&im))
}

/// The direction; 0 for 0. Of an infinite number only the infinite parts count.
pub(crate) fn sign(z: &Pair) -> Pair {
    let is_far = z.re.is_inf().or(z.im.is_inf()).and(z.re.is_nan().or(z.im.is_nan()).logical_not());
    let near = |x: &Tensor| {
        let at_infinity = x.is_inf().cast_like(x).copysign(x.stop_gradient());
        Tensor::where_(&is_far, &at_infinity, x)
    };
    let z = Pair::new(near(&z.re), near(&z.im));
    let size = z.abs();
    let is_zero = size.eq(0.0);
    let size = Tensor::where_(&is_zero, &size.ones_like(), &size);
    let part = |x: &Tensor| Tensor::where_(&is_zero, &x.zeros_like(), x / &size);
    Pair::new(part(&z.re), part(&z.im))
}

/// The integer that is the exponent everywhere, if it is a small one.
fn whole(b: &Pair) -> Option<i32> {
    let number = |t: &Tensor| -> Option<f64> {
        let node = t.value().ok()?.node().clone();
        let l = node.op().filter(|op| *op == &ir::CONST).and_then(|_| node.attrs().literal("value").ok())?;
        (l.count() == 1).then(|| l.to_f64()[0])
    };
    let (re, im) = (number(&b.re)?, number(&b.im)?);
    (im == 0.0 && re.trunc() == re && re.abs() <= EXPONENT_MAX).then_some(re as i32)
}

pub(crate) fn pow(a: &Pair, b: &Pair) -> Pair {
    if let Some(n) = whole(b) {
        let mut out: Option<Pair> = None;
        let (mut base, mut rest) = (a.clone(), n.unsigned_abs());
        while rest > 0 {
            if rest & 1 == 1 {
                out = Some(out.map_or_else(|| base.clone(), |o| mul(&o, &base)));
            }
            base = mul(&base, &base);
            rest >>= 1;
        }
        let out = out.unwrap_or_else(|| Pair::new(a.re.ones_like(), a.re.zeros_like()));
        return if n < 0 { div(&one(a), &out) } else { out };
    }
    // 0 to any power is 0, but 1 to the power 0; the logarithm must not see it.
    let is_zero = a.re.eq(0.0).and(a.im.eq(0.0));
    let safe = Pair::new(Tensor::where_(&is_zero, &a.re.ones_like(), &a.re), a.im.clone());
    let y = super::functions::exp(&mul(b, &super::functions::log(&safe)));
    let at_zero = b.re.eq(0.0).and(b.im.eq(0.0)).cast_like(&a.re);
    Pair::new(Tensor::where_(&is_zero, &at_zero, &y.re), Tensor::where_(&is_zero, &y.im.zeros_like(), &y.im))
}
