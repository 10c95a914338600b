//! Sine, cosine and tangent on vectors of `f64`: reduction by π/2 in three parts (Cody and Waite), then polynomials.

#![allow(clippy::excessive_precision)]

use super::math::{horner, is_odd};
use super::simd::Vector;

/// `(sin(r) / r - 1) / r²` in `r²` for `|r| <= π/4`.
const SIN: [f64; 7] = [
    -7.586691094197958e-13,
    1.6058531516797758e-10,
    -2.5052106231802837e-08,
    2.7557319219337312e-06,
    -0.00019841269841265063,
    0.008333333333333331,
    -0.16666666666666666,
];
/// `(cos(r) - 1 + r² / 2) / r⁴` in `r²` for `|r| <= π/4`.
const COS: [f64; 7] = [
    4.7458685530816656e-14,
    -1.1470460830795304e-11,
    2.0876755790721963e-09,
    -2.755731922140179e-07,
    2.4801587301584645e-05,
    -0.0013888888888888887,
    0.041666666666666664,
];
/// π/2 in three parts.
const HALF_PI: [f64; 3] = [1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33];
/// Up to here the reduction is exact to rounding.
const REDUCED_MAX: f64 = 1048576.0;

/// Whether lanes go to the system's function: one is out of range (infinities and NaN are not), or the reduction would
/// not be exact.
#[inline(always)]
fn is_out<V: Vector<E = f64>>(x: V) -> bool {
    let a = x.abs();
    !V::FUSED || V::bits(V::both(V::c(REDUCED_MAX).lt(a), a.lt(V::c(f64::INFINITY)))) != 0
}

/// The quadrant, and sine and cosine of the rest.
#[inline(always)]
fn reduced<V: Vector<E = f64>>(x: V) -> (V, V, V) {
    let q = (x * V::c(std::f64::consts::FRAC_2_PI)).round();
    let r = HALF_PI.into_iter().fold(x, |r, part| q.fma(V::c(-part), r));
    let z = r * r;
    let sin = (horner(z, SIN) * z).fma(r, r);
    // 1 - z / 2 with what rounding takes from it.
    let half = z * V::c(0.5);
    let w = V::c(1.0) - half;
    let cos = w + (horner(z, COS) * z).fma(z, (V::c(1.0) - w) - half);
    (q, sin, cos)
}

/// Sine.
#[inline(always)]
pub fn sin<V: Vector<E = f64>>(x: V) -> V {
    if is_out(x) {
        return x.map(f64::sin);
    }
    let (q, s, c) = reduced(x);
    let y = V::select(is_odd(q), c, s);
    // Quadrants 2 and 3 are upside down; the sign of zero survives.
    let y = V::select(is_odd((q * V::c(0.5)).floor()), -y, y);
    V::select(x.eq(V::zero()), x, y)
}

/// Cosine.
#[inline(always)]
pub fn cos<V: Vector<E = f64>>(x: V) -> V {
    if is_out(x) {
        return x.map(f64::cos);
    }
    let (q, s, c) = reduced(x);
    let y = V::select(is_odd(q), s, c);
    V::select(is_odd(((q + V::c(1.0)) * V::c(0.5)).floor()), -y, y)
}

/// Tangent.
#[inline(always)]
pub fn tan<V: Vector<E = f64>>(x: V) -> V {
    if is_out(x) {
        return x.map(f64::tan);
    }
    let (q, s, c) = reduced(x);
    let is_swapped = is_odd(q);
    let y = V::select(is_swapped, -c, s) / V::select(is_swapped, s, c);
    V::select(x.eq(V::zero()), x, y)
}
