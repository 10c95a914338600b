//! Powers of vectors.

use super::math::{Real, clamp, exp, horner, log, mantissa, reduce};
use super::simd::{Isa, Vector};

/// `x` to the power `y` in `f32`, computed in double precision.
#[inline(always)]
pub fn short<I: Isa>(x: I::S, y: I::S) -> I::S {
    let (a0, a1) = I::widen(x.abs());
    let (y0, y1) = I::widen(y);
    power_special(x, y, I::narrow(exp(y0 * log(a0)), exp(y1 * log(a1))))
}

/// `x` to the power `y` in `f64`: the logarithm has the bits that a product with 700 needs.
#[inline(always)]
pub fn wide<V: Vector<E = f64>>(x: V, y: V) -> V {
    let a = x.abs();
    let (high, low) = log_two(a);
    let high = V::select(a.eq(V::zero()), V::c(f64::NEG_INFINITY), high);
    let high = V::select(a.lt(V::c(f64::INFINITY)), high, a);
    let p = y * high;
    let rest = y.fma(low, y.fma(high, -p));
    // Beyond that the result overflows or is 0; what rounding took is NaN there.
    let rest = V::select(p.abs().lt(V::c(800.0)), rest, V::zero());
    let (n, r) = reduce(clamp(p, f64::EXP_MIN, f64::EXP_MAX));
    power_special(x, y, (f64::expm1_small(r + rest) + V::c(1.0)).ldexp(n))
}

/// The logarithm of a positive number as the sum of two, the second what the first cannot hold; for vectors with a fused
/// multiply-add.
#[inline(always)]
fn log_two<V: Vector<E = f64>>(a: V) -> (V, V) {
    let (m, e) = mantissa(a);
    let (one, two) = (V::c(1.0), V::c(2.0));
    // q = (m - 1) / (m + 1) with what its rounding took; the logarithm is 2 (q + q³ / 3 + q⁵ / 5 …).
    let (n, d) = (m - one, m + one);
    let d_low = m - (d - one);
    let r = one / d;
    let q = n * r;
    let q_low = (-q).fma(d_low, (-q).fma(d, n)) * r;
    let z = q * q;
    let z_low = (q + q).fma(q_low, q.fma(q, -z));
    let cube = z * q;
    let cube_low = z.fma(q_low, z_low.fma(q, z.fma(q, -cube)));
    let third = cube * V::c(2.0 / 3.0);
    // What 2/3 is more than its nearest number.
    let third_low =
        cube.fma(V::c(3.700_743_415_417_188e-17), cube_low.fma(V::c(2.0 / 3.0), cube.fma(V::c(2.0 / 3.0), -third)));
    let series = horner(
        z,
        [
            2.0 / 23.0,
            2.0 / 21.0,
            2.0 / 19.0,
            2.0 / 17.0,
            2.0 / 15.0,
            2.0 / 13.0,
            2.0 / 11.0,
            2.0 / 9.0,
            2.0 / 7.0,
            2.0 / 5.0,
        ],
    );
    // From the greatest to the least: each sum is exact with its rest.
    let (whole, double) = (e * V::c(f64::LN2_HI), q + q);
    let first = whole + double;
    let first_low = double - (first - whole);
    let second = first + third;
    let second_low = third - (second - first);
    let low = (cube * z).fma(series, e.fma(V::c(f64::LN2_LO), two.fma(q_low, third_low)) + (first_low + second_low));
    let high = second + low;
    (high, low - (high - second))
}

/// Puts the special cases of `x` to the power `y` in place, given the power of the magnitude.
#[inline(always)]
fn power_special<V: Vector>(x: V, y: V, r: V) -> V {
    let (zero, one, infinity) = (V::zero(), V::c(1.0), V::c(f64::INFINITY));
    let a = x.abs();
    // A negative base: NaN unless the exponent is an integer, odd ones keep the sign.
    let half = y * V::c(0.5);
    let odd = V::both(y.eq(y.floor()), half.floor().lt(half));
    let fraction = V::both(V::both(y.floor().lt(y), x.lt(zero)), a.lt(infinity));
    let r = V::select(odd, r.copysign(x), r);
    let r = V::select(fraction, V::c(f64::NAN), r);
    // One to anything, anything to zero, and -1 to an infinity are 1, NaN or not.
    let r = V::select(V::both(a.eq(one), y.abs().eq(infinity)), one, r);
    let r = V::select(x.eq(one), one, r);
    V::select(y.eq(zero), one, r)
}
