//! Special functions on vectors of `f64`: gamma, error and Bessel functions, remainders.
//!
//! Vectors of `f32` are computed in `f64` (`double1` of the module `f32s`), so that they are accurate to rounding.
//! Polynomials are Chebyshev interpolations, with errors below 1e-17.

#![allow(unsafe_code, clippy::excessive_precision)]

use super::coefficients::{
    BERNOULLI, COSPI, ERF, ERF_NEAR_WIDE, ERFCX, ERFINV_CENTER, ERFINV_CENTER_SHORT, ERFINV_MIDDLE, ERFINV_TAIL,
    I0_HIGH, I0_LOW, I1_HIGH, I1_LOW, LGAMMA, SINPI,
};
use super::math::{exp, horner, log};
use super::simd::Vector;
use std::f64::consts::PI;

/// From here on the asymptotic series of gamma functions are accurate to rounding.
const ASYMPTOTIC: f64 = 8.0;

/// Whether any lane of a mask is set.
#[inline(always)]
fn any<V: Vector>(m: V::M) -> bool {
    V::bits(m) != 0
}

/// `sqrt(x² + y²)` without overflow; `IS_SHORT`: of numbers of `f32`, whose squares do not overflow.
#[inline(always)]
pub fn hypot<V: Vector<E = f64>, const IS_SHORT: bool>(x: V, y: V) -> V {
    let (x, y) = (x.abs(), y.abs());
    if IS_SHORT {
        let s = x.fma(x, y * y);
        let inf = V::c(f64::INFINITY);
        // An infinity beside a NaN is one.
        return V::select(x.eq(inf), inf, V::select(y.eq(inf), inf, s.sqrt()));
    }
    let a = V::select(x.lt(y), y, x);
    let inf = V::c(f64::INFINITY);
    let scale = V::select(V::c(1e150).lt(a), V::c(2f64.powi(-600)), V::c(1.0));
    let scale = V::select(a.lt(V::c(1e-140)), V::c(2f64.powi(600)), scale);
    let (p, q) = (x * scale, y * scale);
    let r = p.fma(p, q * q).sqrt() / scale;
    V::select(x.eq(inf), inf, V::select(y.eq(inf), inf, r))
}

/// The remainder with the sign of the dividend; exact.
#[inline(always)]
pub fn fmod<V: Vector<E = f64>>(a: V, b: V) -> V {
    let (x, y) = (a.abs(), b.abs());
    let q = (x / y).floor();
    // Whole quotients up to 2⁵³ are exact, or one too large.
    let is_far = V::both(V::c(2f64.powi(52)).lt(q), V::both(x.lt(V::c(f64::INFINITY)), V::zero().lt(y)));
    if !V::FUSED || any::<V>(is_far) {
        return a.zip(b, |a, b| a % b);
    }
    let r = (-q).fma(y, x);
    let r = V::select(r.lt(V::zero()), r + y, r);
    let is_small = V::both(y.eq(V::c(f64::INFINITY)), x.lt(y));
    V::select(is_small, x, r).copysign(a)
}

/// The remainder with the sign of the divisor, as Python's `%`.
#[inline(always)]
pub fn rem<V: Vector<E = f64>>(a: V, b: V) -> V {
    let (r, zero) = (fmod(a, b), V::zero());
    V::select(r.eq(zero), r.copysign(b), V::select(is_opposite(r, b), r + b, r))
}

/// Whether signs differ.
#[inline(always)]
fn is_opposite<V: Vector>(a: V, b: V) -> V::M {
    (V::c(1.0).copysign(a) * V::c(1.0).copysign(b)).lt(V::zero())
}

/// The quotient rounded down, as Python's `//`.
#[inline(always)]
pub fn floor_divide<V: Vector<E = f64>>(a: V, b: V) -> V {
    let (r, plain, zero, one) = (fmod(a, b), a / b, V::zero(), V::c(1.0));
    let below = V::select(r.eq(zero), zero, V::select(is_opposite(r, b), one, zero));
    let q = (a - r) / b - below;
    let floor = q.floor();
    let y = V::select(V::c(0.5).lt(q - floor), floor + one, floor);
    let y = V::select(q.eq(zero), zero.copysign(plain), y);
    let is_plain = V::c(f64::INFINITY).eq(a.abs());
    V::select(b.eq(zero), plain, V::select(is_plain, plain, y))
}

/// `cot(πx)`.
#[inline(always)]
fn cot_pi<V: Vector<E = f64>>(x: V) -> V {
    let r = x - x.round();
    let (s, c) = sin_cos_pi(r.abs());
    (c / s).copysign(r)
}

/// `sin(πr)` and `cos(πr)` for `r` from 0 to 1/2.
#[inline(always)]
fn sin_cos_pi<V: Vector<E = f64>>(r: V) -> (V, V) {
    let is_far = V::c(0.25).lt(r);
    let t = V::select(is_far, V::c(0.5) - r, r);
    let z = t * t;
    let (s, c) = (horner(z, SINPI) * t, horner(z, COSPI));
    (V::select(is_far, c, s), V::select(is_far, s, c))
}

/// The logarithm of the absolute value of the gamma function.
#[inline(always)]
pub fn lgamma<V: Vector<E = f64>>(x: V) -> V {
    let (a, one) = (x.abs(), V::c(1.0));
    let is_asymptotic = V::c(ASYMPTOTIC).le(a);
    // To [3/2, 5/2], up by one or two steps, or down by up to six.
    let (is_low, is_lowest) = (a.lt(V::c(1.5)), a.lt(V::c(0.5)));
    let mut y = V::select(is_lowest, a + V::c(2.0), V::select(is_low, a + one, a));
    let mut p = V::select(is_lowest, a * (a + one), V::select(is_low, a, one));
    for _ in 0..6 {
        let is_high = V::c(2.5).le(y);
        y = V::select(is_high, y - one, y);
        p = V::select(is_high, p * y, p);
    }
    let l = log(V::select(is_asymptotic, a, p));
    let t = y - V::c(2.0);
    let core = horner(t, LGAMMA) * t;
    let near = V::select(is_low, core - l, core + l);
    let w = one / a;
    let series = horner(
        w * w,
        [1.0 / 156.0, -691.0 / 360360.0, 1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0],
    );
    // log(2π) / 2 - 1/2 follows the product.
    let far = (a - V::c(0.5)).fma(l - one, series.fma(w, V::c(0.418938533204672741780)));
    let y = V::select(is_asymptotic, far, near);
    // Nearer to 0 both sides have the same value.
    let is_negative = x.lt(V::c(-1e-20));
    if !any::<V>(is_negative) {
        return y;
    }
    let (s, _) = sin_cos_pi((a - a.round()).abs());
    let reflected = V::c(1.1447298858494001741) - log(a * s) - y;
    let reflected = V::select(s.eq(V::zero()), V::c(f64::INFINITY), reflected);
    let y = V::select(is_negative, reflected, y);
    V::select(V::c(f64::INFINITY).eq(a), V::c(f64::INFINITY), y)
}

/// The slope of the logarithm of the gamma function.
#[inline(always)]
pub fn digamma<V: Vector<E = f64>>(x: V) -> V {
    let (one, zero) = (V::c(1.0), V::zero());
    let is_negative = x.lt(zero);
    let a = V::select(is_negative, one - x, x);
    // Σ 1 / (a + k) below the asymptotic range, as one fraction.
    let is_low = a.lt(V::c(ASYMPTOTIC));
    let (mut n, mut d, mut b) = (zero, one, a);
    for _ in 0..ASYMPTOTIC as usize {
        n = n.fma(b, d);
        d = d * b;
        b = b + one;
    }
    let at = V::select(is_low, b, a);
    let w = one / at;
    let z = w * w;
    // B₂ⱼ / 2j.
    let series = horner(
        z,
        [
            43867.0 / 14364.0,
            -3617.0 / 8160.0,
            1.0 / 12.0,
            -691.0 / 32760.0,
            1.0 / 132.0,
            -1.0 / 240.0,
            1.0 / 252.0,
            -1.0 / 120.0,
            1.0 / 12.0,
        ],
    );
    let y = log(at) - w * V::c(0.5) - series * z;
    let y = V::select(is_low, y - n / d, y);
    let y = if any::<V>(is_negative) {
        let reflected = V::select(x.eq(x.floor()), V::c(f64::NAN), y - V::c(PI) * cot_pi(x));
        V::select(is_negative, reflected, y)
    } else {
        y
    };
    V::select(x.eq(zero), V::c(f64::INFINITY).copysign(-x), y)
}

/// `exp(a²) erfc(a)` for `a >= 0`.
#[inline(always)]
fn erfcx_positive<V: Vector<E = f64>>(a: V) -> V {
    let b = finite(a);
    let u = (b - V::c(3.75)) / (b + V::c(3.75));
    horner(u, ERFCX) / V::c(2.0).fma(a, V::c(1.0))
}

/// `erfc(a)` for `a >= 0`.
#[inline(always)]
fn erfc_positive<V: Vector<E = f64>>(a: V) -> V {
    let s = a * a;
    let e = exp(-s);
    // What rounding took from the square.
    let lost = if V::FUSED { (-a).fma(a, s) } else { V::zero() };
    let e = e.fma(lost, e);
    V::select(a.lt(V::c(28.0)), e * erfcx_positive(a), V::zero())
}

/// `1 - erf(x)`.
#[inline(always)]
pub fn erfc<V: Vector<E = f64>>(x: V) -> V {
    if !V::FUSED {
        return x.map(libm::erfc);
    }
    let y = erfc_positive(x.abs());
    // Near 0 the difference from 1 has the digits.
    let y = V::select(x.lt(V::zero()), V::c(2.0) - y, y);
    let y = V::select(x.abs().lt(V::c(0.25)), V::c(1.0) - erf_small(x), y);
    V::select(x.eq(x), y, x)
}

/// `erf(x)` for `|x| <= 1`.
#[inline(always)]
fn erf_small<V: Vector<E = f64>>(x: V) -> V {
    horner(x * x, ERF).fma(x, x)
}

/// The error function.
#[inline(always)]
pub fn erf<V: Vector<E = f64>>(x: V) -> V {
    if !V::FUSED {
        return x.map(libm::erf);
    }
    let a = x.abs();
    if V::HAS_TABLES {
        return erf_by_table(a).copysign(x);
    }
    let y = V::select(a.lt(V::c(1.0)), erf_small(a), V::c(1.0) - erfc_positive(a));
    V::select(x.eq(x), y.copysign(x), x)
}

/// `a` times a polynomial around the nearest multiple of 0.4.
#[inline(always)]
fn erf_by_table<V: Vector<E = f64>>(a: V) -> V {
    // From here on the result rounds to 1, and so it does at this number.
    let a = V::c(6.0).min(a);
    // A number whose last bit stands for 1: the sum has the table's index in its low bits.
    let shift = V::c(6755399441055744.0);
    let index = a.fma(V::c(2.5), shift);
    let d = (index - shift).fma(V::c(-0.4), a);
    let [first, powers @ .., value, rest] = &ERF_NEAR_WIDE;
    let mut r = index.entry(first);
    for power in powers {
        r = r.fma(d, index.entry(power));
    }
    a.fma(index.entry(value), a * r.fma(d, index.entry(rest)))
}

/// `exp(x²) erfc(x)`.
#[inline(always)]
pub fn erfcx<V: Vector<E = f64>>(x: V) -> V {
    let a = x.abs();
    let y = erfcx_positive(a);
    let is_negative = x.lt(V::zero());
    let y = if any::<V>(is_negative) {
        let s = a * a;
        let lost = if V::FUSED { a.fma(a, -s) } else { V::zero() };
        let e = exp(s);
        let e = V::select(e.lt(V::c(f64::INFINITY)), e.fma(lost, e), e);
        V::select(is_negative, e + e - y, y)
    } else {
        y
    };
    V::select(x.eq(x), y, x)
}

/// The inverse of the error function (after M. Giles, 2012); `IS_SHORT`: to the accuracy of `f32`.
#[inline(always)]
pub fn erfinv<V: Vector<E = f64>, const IS_SHORT: bool>(x: V) -> V {
    let one = V::c(1.0);
    let w = -log((one - x) * (one + x));
    let t = w - V::c(3.125);
    let center = if IS_SHORT { horner(t, ERFINV_CENTER_SHORT) } else { horner(t, ERFINV_CENTER) };
    let is_outer = V::c(6.25).lt(w);
    let y = if any::<V>(is_outer) {
        let s = w.sqrt();
        let middle = horner(s - V::c(3.25), ERFINV_MIDDLE);
        let tail = horner(s - V::c(5.1), ERFINV_TAIL);
        V::select(is_outer, V::select(s.lt(V::c(4.0)), middle, tail), center)
    } else {
        center
    };
    V::select(x.abs().eq(one), V::c(f64::INFINITY).copysign(x), y * x)
}

/// At most 1e300, so that a quotient does not become 0 before it meets an infinity.
#[inline(always)]
fn finite<V: Vector<E = f64>>(a: V) -> V {
    V::select(a.lt(V::c(1e300)), a, V::c(1e300))
}

/// `exp(a)` times `v`, finite where the product is.
#[inline(always)]
fn times_exp<V: Vector<E = f64>>(v: V, a: V) -> V {
    let e = exp(a * V::c(0.5));
    (v * e) * e
}

/// The modified Bessel function of the first kind of order 0.
#[inline(always)]
pub fn i0<V: Vector<E = f64>>(x: V) -> V {
    let a = x.abs();
    let high = horner(V::c(16.0) / a - V::c(1.0), I0_HIGH) / finite(a).sqrt();
    let low = horner(a * V::c(0.25) - V::c(1.0), I0_LOW);
    times_exp(V::select(a.lt(V::c(8.0)), low, high), a)
}

/// The modified Bessel function of the first kind of order 1.
#[inline(always)]
pub fn i1<V: Vector<E = f64>>(x: V) -> V {
    let a = x.abs();
    let high = horner(V::c(16.0) / a - V::c(1.0), I1_HIGH) / finite(a).sqrt();
    let low = horner(a * V::c(0.25) - V::c(1.0), I1_LOW) * a;
    times_exp(V::select(a.lt(V::c(8.0)), low, high), a).copysign(x)
}

/// The derivatives of the digamma function of the orders `n`: vectors of one order at a time.
#[inline(always)]
pub fn polygamma<V: Vector<E = f64>>(n: V, x: V) -> V {
    let (orders, xs) = (n.lanes(), x.lanes());
    let is_one = orders[..V::N].iter().all(|m| m.to_bits() == orders[0].to_bits());
    let mut out = [0.0; 16];
    // One call: it is inlined, as a function of its own would not have the instruction set.
    for (to, (&order, &each)) in out.iter_mut().zip(orders[..V::N].iter().zip(&xs)) {
        let y = polygamma_of(order, if is_one { x } else { V::splat(each) });
        if is_one {
            return y;
        }
        *to = y.lanes()[0];
    }
    // SAFETY: the array holds at least `N` elements.
    unsafe { V::load(out.as_ptr()) }
}

/// The derivative of order `n`; NaN unless `n` is an integer from 0 to 150.
#[inline(always)]
fn polygamma_of<V: Vector<E = f64>>(n: f64, x: V) -> V {
    if n == 0.0 {
        return digamma(x);
    }
    if n.fract() != 0.0 || !(1.0..=150.0).contains(&n) {
        return V::c(f64::NAN);
    }
    let (order, is_even, one, zero) = (n as u32, n % 2.0 == 0.0, V::c(1.0), V::zero());
    let is_negative = x.le(zero);
    let a = V::select(is_negative, one - x, x);
    let factorial: f64 = (1..=order).map(f64::from).product();
    let size = V::c(factorial) * hurwitz(order + 1, a);
    let y = if is_even { -size } else { size };
    let y = if any::<V>(is_negative) {
        let mirrored = (if is_even { y } else { -y }) - V::c(PI) * cot_pi_derivative(order, x);
        let pole = V::c(if is_even { f64::NAN } else { f64::INFINITY });
        V::select(is_negative, V::select(x.eq(x.floor()), pole, mirrored), y)
    } else {
        y
    };
    V::select(x.eq(x), y, x)
}

/// `v` to a whole power.
#[inline(always)]
fn power<V: Vector<E = f64>>(v: V, mut n: u32) -> V {
    let (mut base, mut out) = (v, V::c(1.0));
    while n > 0 {
        if n & 1 == 1 {
            out = out * base;
        }
        base = base * base;
        n >>= 1;
    }
    out
}

/// The Hurwitz zeta function Σ (x + k)⁻ˢ for `s > 1`, `x > 0`, by Euler-Maclaurin summation.
#[inline(always)]
fn hurwitz<V: Vector<E = f64>>(s: u32, x: V) -> V {
    let (one, limit, order) = (V::c(1.0), V::c(12.0 + f64::from(s)), f64::from(s));
    let (mut x, mut sum) = (x, V::zero());
    loop {
        let is_low = x.lt(limit);
        if !any::<V>(is_low) {
            break;
        }
        sum = V::select(is_low, sum + power(one / x, s), sum);
        x = V::select(is_low, x + one, x);
    }
    let last = power(one / x, s);
    sum = sum + last * x * V::c(1.0 / (order - 1.0)) + last * V::c(0.5);
    // Terms B₂ⱼ / (2j)! · s (s+1) … (s+2j-2) · x^(-s-2j+1).
    let mut term = last * V::c(order * 0.5) / x;
    let w = one / (x * x);
    for (j, b) in BERNOULLI.iter().enumerate() {
        sum = term.fma(V::c(*b), sum);
        let k = 2.0 * (j + 1) as f64;
        term = term * w * V::c((order + k - 1.0) * (order + k) / ((k + 1.0) * (k + 2.0)));
    }
    sum
}

/// The n-th derivative of cot(πx): πⁿ P(cot πx), where each order maps P to -(1 + c²) P'.
#[inline(always)]
fn cot_pi_derivative<V: Vector<E = f64>>(n: u32, x: V) -> V {
    let mut p = vec![0.0, 1.0];
    for _ in 0..n {
        let mut next = vec![0.0; p.len() + 1];
        for (k, a) in p.iter().enumerate().skip(1) {
            next[k - 1] -= k as f64 * a;
            next[k + 1] -= k as f64 * a;
        }
        p = next;
    }
    let c = cot_pi(x);
    V::c(PI.powi(n as i32)) * p.iter().rev().fold(V::zero(), |s, a| s.fma(c, V::c(*a)))
}
