//! Inverse trigonometric and hyperbolic functions on vectors, for both float widths.
//!
//! Each reduces its argument to an interval where a polynomial or [`log1p`], [`expm1`] and [`exp`] are accurate, and
//! puts special values in place with selects.

#![allow(clippy::excessive_precision)]

use super::math::{Real, exp, expm1, horner, log, log_special, log1p, rounded};
use super::simd::Vector;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, SQRT_2};

/// `(atan(t) / t - 1) / t²` in `t²` for `t` up to tan(π/8), for `f32`.
const ATAN32: [f64; 5] =
    [-0.06451928208121749, 0.10743731490791084, -0.1426395559798464, 0.19999540483648964, -0.3333333176116852];
/// The same for `f64`.
const ATAN64: [f64; 13] = [
    -0.01391822929102443,
    0.030635704112969498,
    -0.04104436265755082,
    0.04719395030027433,
    -0.05258041554297779,
    0.058819252531928636,
    -0.06666642020055166,
    0.07692306736000173,
    -0.0909090906700999,
    0.11111111110754729,
    -0.14285714285711518,
    0.19999999999999993,
    -0.3333333333333333,
];
/// `(asin(t) / t - 1) / t²` in `t²` for `t` up to 1/2, for `f32`.
const ASIN32: [f64; 6] = [
    0.03369084720283012,
    0.017149238357677253,
    0.03110066273549457,
    0.04459940152851218,
    0.07500094543497424,
    0.16666666337430908,
];
/// The same for `f64`.
const ASIN64: [f64; 15] = [
    0.030718768995191097,
    -0.024020544918554605,
    0.022553563638202982,
    0.000380853033290726,
    0.00879500607648843,
    0.008135829925501657,
    0.009792751320201996,
    0.011549086612987425,
    0.013965009932053607,
    0.017352757477819787,
    0.02237215927967998,
    0.030381944441363808,
    0.0446428571428834,
    0.07499999999999991,
    0.16666666666666666,
];

/// Whether vectors are of `f64`.
const fn is_double<V: Vector>() -> bool {
    size_of::<V::E>() == 8
}

/// A multiple `k` of π/4, rounded, and what rounding took from it.
#[inline(always)]
fn quarters<V: Vector>(k: f64) -> (f64, f64) {
    let hi = rounded::<V>(k * FRAC_PI_4);
    (hi, if is_double::<V>() { k * 3.061616997868383e-17 } else { k * FRAC_PI_4 - hi })
}

/// Hyperbolic sine.
#[inline(always)]
pub fn sinh<V: Vector>(x: V) -> V {
    let (a, one) = (x.abs(), V::c(1.0));
    let t = expm1(a);
    let small = V::c(0.5) * (t + t / (t + one));
    V::select(a.lt(V::c(V::E::EXP_MAX - 2.0)), small, half_exp(a)).copysign(x)
}

/// Hyperbolic cosine.
#[inline(always)]
pub fn cosh<V: Vector>(x: V) -> V {
    let a = x.abs();
    let e = exp(a);
    let small = e.fma(V::c(0.5), V::c(0.5) / e);
    V::select(a.lt(V::c(V::E::EXP_MAX - 2.0)), small, half_exp(a))
}

/// `exp(a) / 2`, which is finite a little longer than `exp(a)`.
#[inline(always)]
fn half_exp<V: Vector>(a: V) -> V {
    let h = exp(a * V::c(0.5));
    (h * V::c(0.5)) * h
}

/// From here on `asinh(x)` and `acosh(x)` are `log(2 x)`.
#[inline(always)]
fn large<V: Vector>() -> V {
    V::c(if is_double::<V>() { 1e9 } else { 1e4 })
}

/// Inverse hyperbolic sine.
#[inline(always)]
pub fn asinh<V: Vector>(x: V) -> V {
    let (a, one) = (x.abs(), V::c(1.0));
    let s = a * a;
    let is_large = large::<V>().lt(a);
    let t = a + s / (one + (s + one).sqrt());
    V::select(is_large, log(a) + V::c(LN_2), log1p(t)).copysign(x)
}

/// Inverse hyperbolic cosine.
#[inline(always)]
pub fn acosh<V: Vector>(x: V) -> V {
    let t = x - V::c(1.0);
    let y = log1p(t + (t * (t + V::c(2.0))).sqrt());
    let y = V::select(large::<V>().lt(x), log(x) + V::c(LN_2), y);
    V::select(t.lt(V::zero()), V::c(f64::NAN), y)
}

/// Inverse hyperbolic tangent.
#[inline(always)]
pub fn atanh<V: Vector>(x: V) -> V {
    let (a, one) = (x.abs(), V::c(1.0));
    let y = V::c(0.5) * log1p((a + a) / (one - a));
    V::select(one.lt(a), V::c(f64::NAN), y).copysign(x)
}

/// `atan(t)` for `t` within tan(π/8).
#[inline(always)]
fn atan_small<V: Vector>(t: V) -> V {
    let z = t * t;
    let p = if is_double::<V>() { horner(z, ATAN64) } else { horner(z, ATAN32) };
    (p * z).fma(t, t)
}

/// `atan(n / d)` for `0 <= n` and `0 < d`, with one division.
#[inline(always)]
fn atan_ratio<V: Vector>(n: V, d: V) -> V {
    // Above tan(3π/8) as π/2 - atan(d / n), above tan(π/8) as π/4 + atan((n - d) / (n + d)).
    let is_steep = (d * V::c(SQRT_2 + 1.0)).lt(n);
    let is_middle = (d * V::c(SQRT_2 - 1.0)).lt(n);
    let top = V::select(is_steep, -d, V::select(is_middle, n - d, n));
    let bottom = V::select(is_steep, n, V::select(is_middle, n + d, d));
    let (half, half_lo) = quarters::<V>(2.0);
    let (quarter, quarter_lo) = quarters::<V>(1.0);
    let base = V::select(is_steep, V::c(half), V::select(is_middle, V::c(quarter), V::zero()));
    let lo = V::select(is_steep, V::c(half_lo), V::select(is_middle, V::c(quarter_lo), V::zero()));
    base + (atan_small(top / bottom) + lo)
}

/// Inverse tangent.
#[inline(always)]
pub fn atan<V: Vector>(x: V) -> V {
    // An infinite numerator would meet itself in the reduction.
    let a = V::c(f64::INFINITY).eq(x.abs());
    let y = V::select(a, V::c(FRAC_PI_2), atan_ratio(x.abs(), V::c(1.0)));
    y.copysign(x)
}

/// The angle of the point `(x, y)`.
#[inline(always)]
pub fn atan2<V: Vector>(y: V, x: V) -> V {
    let (ax, ay, inf) = (x.abs(), y.abs(), V::c(f64::INFINITY));
    // Both infinite: the diagonal. Sums of both stay finite.
    let is_diagonal = V::both(ax.eq(inf), ay.eq(inf));
    let large = V::c(if is_double::<V>() { 4e307 } else { 8e37 });
    let shrink = V::select(large.lt(V::select(ax.lt(ay), ay, ax)), V::c(0.25), V::c(1.0));
    let part = |a: V| V::select(is_diagonal, V::c(1.0), a * shrink);
    let (n, d) = (part(ay), part(ax));
    let is_swapped = d.lt(n);
    let (low, high) = (V::select(is_swapped, d, n), V::select(is_swapped, n, d));
    // Both zero: the axis.
    let r = atan_ratio(low, V::select(high.eq(V::zero()), V::c(1.0), high));
    let (half, half_lo) = quarters::<V>(2.0);
    let r = V::select(is_swapped, V::c(half) - (r - V::c(half_lo)), r);
    let (full, full_lo) = quarters::<V>(4.0);
    let is_left = V::c(1.0).copysign(x).lt(V::zero());
    let r = V::select(is_left, V::c(full) - (r - V::c(full_lo)), r).copysign(y);
    V::select(V::both(x.eq(x), y.eq(y)), r, x + y)
}

/// For `|x|`: the reduced `asin` and whether it was reduced, `asin(|x|) = π/2 - 2 p`.
#[inline(always)]
fn asin_reduced<V: Vector>(x: V) -> (V, V::M) {
    let a = x.abs();
    let is_large = V::c(0.5).lt(a);
    let z = V::select(is_large, (V::c(1.0) - a) * V::c(0.5), a * a);
    let t = V::select(is_large, z.sqrt(), a);
    let p = if is_double::<V>() { horner(z, ASIN64) } else { horner(z, ASIN32) };
    ((p * z).fma(t, t), is_large)
}

/// Inverse sine.
#[inline(always)]
pub fn asin<V: Vector>(x: V) -> V {
    let (p, is_large) = asin_reduced(x);
    let (half, lo) = quarters::<V>(2.0);
    V::select(is_large, V::c(half) - ((p + p) - V::c(lo)), p).copysign(x)
}

/// Inverse cosine.
#[inline(always)]
pub fn acos<V: Vector>(x: V) -> V {
    let (p, is_large) = asin_reduced(x);
    let (half, lo) = quarters::<V>(2.0);
    let small = V::c(half) - (p.copysign(x) - V::c(lo));
    let rest = V::c(half) - (p - V::c(lo));
    let large = V::select(x.lt(V::zero()), rest + rest, p + p);
    V::select(is_large, large, small)
}

/// Logarithm to base 10.
#[inline(always)]
pub fn log10<V: Vector>(x: V) -> V {
    let (m, e) = super::math::mantissa(x);
    let l = V::E::ln1p_small(m - V::c(1.0), V::zero());
    // The exponent's factor with few bits, so that its product is exact.
    let (hi, lo) = if is_double::<V>() {
        (3.01029995663611771306e-01, 3.69423907715893078616e-13)
    } else {
        (3.0102920532e-01, 7.9034151668e-07)
    };
    let c = std::f64::consts::LOG10_E;
    let c_hi = rounded::<V>(c);
    let c_lo = if is_double::<V>() { 1.098319650216765e-17 } else { c - c_hi };
    let low = l.fma(V::c(c_lo), e * V::c(lo));
    log_special(x, e.fma(V::c(hi), l.fma(V::c(c_hi), low)))
}
