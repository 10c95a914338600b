//! Elementary functions on vectors, for both float widths.
//!
//! The scheme is the usual one: reduce the argument to a small interval, evaluate a polynomial,
//! scale back, and mend the special cases with selects. What differs between `f32` and `f64` is
//! the constants and the polynomials, in [`Real`]. Lanes out of
//! range go to the system's scalar function.
//!
//! The largest errors seen are in the table of [`super`]; tests keep them there.

// Published constants are kept digit for digit.
#![allow(clippy::excessive_precision)]

use super::simd::{Scalar, Vector};

/// The constants and polynomials of one float width.
pub trait Real: Scalar {
    /// `ln 2` with enough trailing zeros that its product with an exponent is exact.
    const LN2_HI: f64;
    /// `ln 2 - LN2_HI`.
    const LN2_LO: f64;
    /// Smallest normal number.
    const NORMAL_MIN: f64;
    /// A power of two that lifts every subnormal into the normal range, and its exponent.
    const LIFT: (f64, f64);
    /// Below this the exponential is 0.
    const EXP_MIN: f64;
    /// Above this the exponential is infinite.
    const EXP_MAX: f64;
    /// Where the mantissa interval for the logarithm starts.
    const MANTISSA_LOW: f64;
    /// `exp(r) - 1` for `|r| <= ln(2) / 2`.
    fn expm1_small<V: Vector<E = Self>>(r: V) -> V;
    /// `ln(1 + f) + e ln 2` for `1 + f` in the mantissa interval.
    fn ln1p_small<V: Vector<E = Self>>(f: V, e: V) -> V;
    /// Hyperbolic tangent.
    fn tanh<V: Vector<E = Self>>(x: V) -> V;
    /// Sine.
    fn sin<V: Vector<E = Self>>(x: V) -> V;
    /// Cosine.
    fn cos<V: Vector<E = Self>>(x: V) -> V;
    /// Tangent.
    fn tan<V: Vector<E = Self>>(x: V) -> V;
    /// Error function.
    fn erf<V: Vector<E = Self>>(x: V) -> V;
    /// `1 - erf(x)`, accurate where it is small.
    fn erfc<V: Vector<E = Self>>(x: V) -> V;
}

#[inline(always)]
pub(super) fn horner<V: Vector, const K: usize>(x: V, coefficients: [f64; K]) -> V {
    let mut r = V::c(coefficients[0]);
    for k in 1..K {
        r = r.fma(x, V::c(coefficients[k]));
    }
    r
}

#[inline(always)]
pub(super) fn reduce<V: Vector>(x: V) -> (V, V) {
    let n = (x * V::c(std::f64::consts::LOG2_E)).round();
    (n, n.fma(V::c(-V::E::LN2_LO), n.fma(V::c(-V::E::LN2_HI), x)))
}

/// Clamped so that the scaling exponent stays small; NaN stays NaN.
#[inline(always)]
pub(super) fn clamp<V: Vector>(x: V, low: f64, high: f64) -> V {
    V::c(low).max(V::c(high).min(x))
}

/// `e` to the power `x`.
#[inline(always)]
pub fn exp<V: Vector>(x: V) -> V {
    let (n, r) = reduce(clamp(x, V::E::EXP_MIN, V::E::EXP_MAX));
    (V::E::expm1_small(r) + V::c(1.0)).ldexp(n)
}

/// 2 to the power `x`.
#[inline(always)]
pub fn exp2<V: Vector>(x: V) -> V {
    let log2_e = std::f64::consts::LOG2_E;
    let x = clamp(x, V::E::EXP_MIN * log2_e, V::E::EXP_MAX * log2_e);
    let n = x.round();
    let f = x - n;
    let ln2 = std::f64::consts::LN_2;
    let hi = rounded::<V>(ln2);
    let r = f.fma(V::c(hi), f * V::c(ln2 - hi));
    (V::E::expm1_small(r) + V::c(1.0)).ldexp(n)
}

/// A constant rounded to the lanes' width.
#[inline(always)]
pub(super) fn rounded<V: Vector>(x: f64) -> f64 {
    V::E::from_f64(x).to_f64()
}

/// `exp(x) - 1` without cancellation.
#[inline(always)]
pub fn expm1<V: Vector>(x: V) -> V {
    let (n, r) = reduce(clamp(x, V::E::EXP_MIN, V::E::EXP_MAX));
    let p = V::E::expm1_small(r);
    // Half the power, so that it does not overflow before the sum does.
    let t = V::c(1.0).ldexp(n - V::c(1.0));
    let y = p.fma(t, t - V::c(0.5));
    // The sign of zero survives.
    V::select(n.eq(V::zero()), p.copysign(x), y + y)
}

/// Scales subnormals up; returns the number and the exponent that was added.
#[inline(always)]
fn lift<V: Vector>(x: V) -> (V, V) {
    let small = x.lt(V::c(V::E::NORMAL_MIN));
    (V::select(small, x * V::c(V::E::LIFT.0), x), V::select(small, V::c(-V::E::LIFT.1), V::zero()))
}

/// Puts the special cases of a logarithm in place: 0, negative, infinity, NaN.
#[inline(always)]
pub(super) fn log_special<V: Vector>(x: V, y: V) -> V {
    let infinity = V::c(f64::INFINITY);
    let y = V::select(x.lt(infinity), y, x);
    let y = V::select(x.eq(V::zero()), -infinity, y);
    V::select(x.lt(V::zero()), V::c(f64::NAN), y)
}

/// The mantissa and the exponent of a positive number, subnormal or not.
#[inline(always)]
pub(super) fn mantissa<V: Vector>(x: V) -> (V, V) {
    let (a, i) = lift(x);
    let (m, e) = a.split(V::E::from_f64(V::E::MANTISSA_LOW));
    (m, e + i)
}

/// Natural logarithm.
#[inline(always)]
pub fn log<V: Vector>(x: V) -> V {
    let (m, e) = mantissa(x);
    log_special(x, V::E::ln1p_small(m - V::c(1.0), e))
}

/// Logarithm to base 2.
#[inline(always)]
pub fn log2<V: Vector>(x: V) -> V {
    let (m, e) = mantissa(x);
    let l = V::E::ln1p_small(m - V::c(1.0), V::zero());
    let log2_e = std::f64::consts::LOG2_E;
    let hi = rounded::<V>(log2_e);
    log_special(x, l.fma(V::c(log2_e - hi), l.fma(V::c(hi), e)))
}

/// `ln(1 + x)`, accurate near 0.
#[inline(always)]
pub fn log1p<V: Vector>(x: V) -> V {
    let one = V::c(1.0);
    let u = one + x;
    // What rounding took from `u`, put back into the mantissa.
    let lost = V::select(x.lt(one), x - (u - one), one - (u - x));
    let (m, e) = u.split(V::E::from_f64(V::E::MANTISSA_LOW));
    let f = (m - one) + lost.ldexp(-e);
    let y = log_special(u, V::E::ln1p_small(f, e));
    V::select(x.eq(V::zero()), x, y)
}

/// `1 / sqrt(x)`.
#[inline(always)]
pub fn rsqrt<V: Vector>(x: V) -> V {
    V::c(1.0) / x.sqrt()
}

/// `1 / x`.
#[inline(always)]
pub fn recip<V: Vector>(x: V) -> V {
    V::c(1.0) / x
}

/// `1 / (1 + exp(-x))`, without overflow and accurate on both sides.
#[inline(always)]
pub fn sigmoid<V: Vector>(x: V) -> V {
    let e = exp(-x.abs());
    V::select(x.lt(V::zero()), e, V::c(1.0)) / (V::c(1.0) + e)
}

/// `x * sigmoid(x)`.
#[inline(always)]
pub fn silu<V: Vector>(x: V) -> V {
    // At minus infinity the product would be NaN.
    V::select(x.lt(V::c(V::E::EXP_MIN * 1.1)), V::c(-0.0), x * sigmoid(x))
}

/// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
#[inline(always)]
pub fn gelu_tanh<V: Vector>(x: V) -> V {
    // 0.5 (1 + tanh(z)) = sigmoid(2 z), which keeps the small values on the negative side.
    let c = 2.0 * 0.797_884_560_802_865_4;
    let z = x * (x * x).fma(V::c(c * 0.044715), V::c(c));
    V::select(x.lt(V::c(-30.0)), V::c(-0.0), x * sigmoid(z))
}

/// `0.5 x (1 + erf(x / sqrt 2))`.
#[inline(always)]
pub fn gelu<V: Vector>(x: V) -> V {
    let y = x * V::c(0.5) * V::E::erfc(x * V::c(-std::f64::consts::FRAC_1_SQRT_2));
    V::select(x.lt(V::c(-40.0)), V::c(-0.0), y)
}

/// Derivative of [`gelu`].
#[inline(always)]
pub fn gelu_grad<V: Vector>(x: V) -> V {
    let cdf = V::c(0.5) * V::E::erfc(x * V::c(-std::f64::consts::FRAC_1_SQRT_2));
    let x = V::c(-40.0).max(V::c(40.0).min(x));
    let pdf = V::c(0.398_942_280_401_432_7) * exp(x * x * V::c(-0.5));
    x.fma(pdf, cdf)
}

/// Derivative of [`gelu_tanh`].
#[inline(always)]
pub fn gelu_tanh_grad<V: Vector>(x: V) -> V {
    let c = 2.0 * 0.797_884_560_802_865_4;
    let x2 = x * x;
    let s = sigmoid(x * x2.fma(V::c(c * 0.044715), V::c(c)));
    let slope = x2.fma(V::c(3.0 * c * 0.044715), V::c(c));
    let inner = (s * (V::c(1.0) - s)) * (x * slope);
    V::select(x.abs().lt(V::c(30.0)), s + inner, s)
}

/// Derivative of [`silu`].
#[inline(always)]
pub fn silu_grad<V: Vector>(x: V) -> V {
    let s = sigmoid(x);
    let y = s.fma(x * (V::c(1.0) - s), s);
    V::select(x.abs().lt(V::c(V::E::EXP_MAX * 1.1)), y, s)
}

impl Real for f32 {
    const LN2_HI: f64 = 0.693359375;
    const LN2_LO: f64 = -2.12194440e-4;
    const NORMAL_MIN: f64 = 1.175494351e-38;
    const LIFT: (f64, f64) = (8388608.0, 23.0);
    const EXP_MIN: f64 = -104.0;
    const EXP_MAX: f64 = 89.0;
    const MANTISSA_LOW: f64 = 0.666666667;

    #[inline(always)]
    fn expm1_small<V: Vector<E = f32>>(r: V) -> V {
        let p = horner(r, [1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1]);
        p.fma(r * r, r)
    }

    #[inline(always)]
    fn ln1p_small<V: Vector<E = f32>>(f: V, e: V) -> V {
        let s = f * f;
        let r = horner(s, [-0.130310059, -0.121483847, -0.166846052, -0.249996200]);
        let t = horner(s, [0.140869141, 0.139814854, 0.200120345]);
        let r = t.fma(f, r);
        let r = r.fma(f, V::c(0.333331972)).fma(f, V::c(-0.5));
        let r = r.fma(s, e.fma(V::c(-2.12194440e-4), f));
        e.fma(V::c(0.693359375), r)
    }

    #[inline(always)]
    fn tanh<V: Vector<E = f32>>(x: V) -> V {
        let t = x.abs();
        let s = x * x;
        let p = horner(s, [1.57394409e-2, -5.23025580e-2, 1.33152470e-1, -3.33327681e-1]);
        let small = (p * s).fma(t, t);
        let e = exp(V::c(9.1).min(t) * V::c(2.0));
        let large = V::c(1.0) - V::c(2.0) / (e + V::c(1.0));
        let y = V::select(t.lt(V::c(0.55)), small, large);
        V::select(t.eq(t), y, x).copysign(x)
    }

    #[inline(always)]
    fn sin<V: Vector<E = f32>>(x: V) -> V {
        if is_large(x) {
            return x.map(|x| (x as f64).sin() as f32);
        }
        let (q, r) = quadrant(x);
        let y = V::select(is_odd(q), cos_small(r), sin_small(r));
        // Quadrants 2 and 3 are upside down; the sign of zero survives.
        let y = V::select(is_odd((q * V::c(0.5)).floor()), -y, y);
        V::select(x.eq(V::zero()), x, y)
    }

    #[inline(always)]
    fn cos<V: Vector<E = f32>>(x: V) -> V {
        if is_large(x) {
            return x.map(|x| (x as f64).cos() as f32);
        }
        let (q, r) = quadrant(x);
        let y = V::select(is_odd(q), sin_small(r), cos_small(r));
        V::select(is_odd(((q + V::c(1.0)) * V::c(0.5)).floor()), -y, y)
    }

    #[inline(always)]
    fn tan<V: Vector<E = f32>>(x: V) -> V {
        if is_large(x) {
            return x.map(|x| (x as f64).tan() as f32);
        }
        let (q, r) = quadrant(x);
        let (s, c) = (sin_small(r), cos_small(r));
        let odd = is_odd(q);
        let y = V::select(odd, -c, s) / V::select(odd, s, c);
        V::select(x.eq(V::zero()), x, y)
    }

    #[inline(always)]
    fn erf<V: Vector<E = f32>>(x: V) -> V {
        if V::HAS_TABLES {
            return erf_by_table(x);
        }
        let t = x.abs();
        let s = x * x;
        let r = horner(t, [-1.72853470e-5, 3.83197126e-4]);
        let u = horner(t, [-3.88396438e-3, 2.42546219e-2]);
        let r = r.fma(s, u).fma(t, V::c(-1.06777877e-1)).fma(t, V::c(-6.34846687e-1)).fma(t, V::c(-1.28717512e-1));
        let large = (V::c(1.0) - exp(r.fma(t, -t))).copysign(x);
        let small =
            horner(s, [-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1])
                .fma(x, x);
        let y = V::select(V::c(0.927734375).lt(t), large, small);
        V::select(V::c(4.0).lt(t), V::c(1.0).copysign(x), y)
    }

    #[inline(always)]
    fn erfc<V: Vector<E = f32>>(x: V) -> V {
        let one = V::c(1.0);
        let a = V::c(10.5).min(x.abs());
        // q = (a - 2) / (a + 2), with its rounding error mended.
        let r = one / (a + V::c(2.0));
        let q = V::c(-4.0).fma(r, one);
        let e = (-a).fma(q, (q + one).fma(V::c(-2.0), a));
        let q = r.fma(e, q);
        // (1 + 2 a) exp(a^2) erfc(a) - 1.
        let p = horner(
            q,
            [
                -4.01139259e-4,
                -1.23075210e-3,
                1.31355342e-3,
                8.63227434e-3,
                -8.05991981e-3,
                -5.42046614e-2,
                1.64055392e-1,
                -1.66031361e-1,
                -9.27639827e-2,
                2.76978403e-1,
            ],
        );
        let r = one / V::c(2.0).fma(a, one);
        let q = p.fma(r, r);
        let e = q.fma(-a, V::c(0.5)).fma(V::c(2.0), p - q);
        let r = e.fma(r, q);
        // Times exp(-a^2), with what rounding took from the square.
        let s = a * a;
        let e = exp(-s);
        let lost = if V::FUSED { (-a).fma(a, s) } else { square_error(a, s) };
        let y = r.fma(e, r * e * lost);
        let y = V::select(V::c(10.0546875).lt(a), V::zero(), y);
        let y = V::select(x.lt(V::zero()), V::c(2.0) - y, y);
        V::select(x.eq(x), y, x)
    }
}

/// `x` times a polynomial around the nearest multiple of 1/8.
#[inline(always)]
fn erf_by_table<V: Vector<E = f32>>(x: V) -> V {
    // From here on the result rounds to 1, and so it does at this number.
    let a = V::c(3.92).min(x.abs());
    // A number whose last bit stands for 1/8: the sum has the table's index in its low bits.
    let shift = V::c(1572864.0);
    let index = a + shift;
    let d = a - (index - shift);
    let [d4, d3, d2, d1, value, rest] = &super::coefficients::ERF_NEAR;
    let r = index.entry(d4).fma(d, index.entry(d3)).fma(d, index.entry(d2)).fma(d, index.entry(d1));
    let r = r.fma(d, index.entry(rest));
    a.fma(index.entry(value), a * r).copysign(x)
}

/// `s - a * a` where `s` is the rounded square, by splitting `a` in halves (Dekker), for machines
/// without fused multiply-add.
#[inline(always)]
fn square_error<V: Vector<E = f32>>(a: V, s: V) -> V {
    let c = a * V::c(4097.0);
    let hi = c - (c - a);
    let lo = a - hi;
    s - hi * hi - V::c(2.0) * hi * lo - lo * lo
}

/// Whether any lane is too large for [`quadrant`] (infinities and NaN are not).
#[inline(always)]
fn is_large<V: Vector<E = f32>>(x: V) -> bool {
    let limit = if V::FUSED { 40000.0 } else { 8000.0 };
    let a = x.abs();
    V::bits(V::both(V::c(limit).lt(a), a.lt(V::c(f64::INFINITY)))) != 0
}

/// `(q, r)` with `x = q pi / 2 + r` and `r` within a quarter turn.
#[inline(always)]
fn quadrant<V: Vector<E = f32>>(x: V) -> (V, V) {
    let q = (x * V::c(std::f64::consts::FRAC_2_PI)).round();
    let parts = if V::FUSED {
        [-1.57079601e+00, -3.13916473e-07, -5.39030253e-15]
    } else {
        // Few bits each, so that the products are exact.
        [-1.5703125, -4.837512969970703125e-4, -7.549789948768648e-8]
    };
    (q, parts.into_iter().fold(x, |r, part| q.fma(V::c(part), r)))
}

/// Whether an integer is odd.
#[inline(always)]
pub(super) fn is_odd<V: Vector>(q: V) -> V::M {
    let half = q * V::c(0.5);
    half.floor().lt(half)
}

#[inline(always)]
fn sin_small<V: Vector<E = f32>>(r: V) -> V {
    let s = r * r;
    (horner(s, [2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1]) * s).fma(r, r)
}

#[inline(always)]
fn cos_small<V: Vector<E = f32>>(r: V) -> V {
    horner(r * r, [2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -0.5, 1.0])
}

/// Taylor's coefficients of the exponential from `1/13!` down to `1/2!`.
const TAYLOR: [f64; 12] = [
    1.605_904_383_682_161_3e-10,
    2.087_675_698_786_81e-9,
    2.505_210_838_544_172e-8,
    2.755_731_922_398_589e-7,
    2.755_731_922_398_589_4e-6,
    2.480_158_730_158_730_2e-5,
    1.984_126_984_126_984e-4,
    1.388_888_888_888_889e-3,
    8.333_333_333_333_333e-3,
    4.166_666_666_666_666_4e-2,
    1.666_666_666_666_666_6e-1,
    0.5,
];

impl Real for f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238_2e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    const NORMAL_MIN: f64 = f64::MIN_POSITIVE;
    const LIFT: (f64, f64) = (18014398509481984.0, 54.0);
    const EXP_MIN: f64 = -746.0;
    const EXP_MAX: f64 = 710.0;
    const MANTISSA_LOW: f64 = std::f64::consts::FRAC_1_SQRT_2;

    #[inline(always)]
    fn expm1_small<V: Vector<E = f64>>(r: V) -> V {
        horner(r, TAYLOR).fma(r * r, r)
    }

    #[inline(always)]
    fn ln1p_small<V: Vector<E = f64>>(f: V, e: V) -> V {
        let s = f / (f + V::c(2.0));
        let z = s * s;
        let r = horner(
            z,
            [
                1.479819860511658591e-01,
                1.531383769920937332e-01,
                1.818357216161805012e-01,
                2.222219843214978396e-01,
                2.857142874366239149e-01,
                3.999999999940941908e-01,
                6.666666666666735130e-01,
            ],
        ) * z;
        let half = V::c(0.5) * f * f;
        let low = s.fma(half + r, e * V::c(Self::LN2_LO));
        e.fma(V::c(Self::LN2_HI), f - (half - low))
    }

    #[inline(always)]
    fn tanh<V: Vector<E = f64>>(x: V) -> V {
        let m = expm1(V::c(40.0).min(x.abs()) * V::c(2.0));
        let y = m / (m + V::c(2.0));
        V::select(x.eq(x), y.copysign(x), x)
    }

    #[inline(always)]
    fn sin<V: Vector<E = f64>>(x: V) -> V {
        super::trig::sin(x)
    }

    #[inline(always)]
    fn cos<V: Vector<E = f64>>(x: V) -> V {
        super::trig::cos(x)
    }

    #[inline(always)]
    fn tan<V: Vector<E = f64>>(x: V) -> V {
        super::trig::tan(x)
    }

    #[inline(always)]
    fn erf<V: Vector<E = f64>>(x: V) -> V {
        super::special::erf(x)
    }

    #[inline(always)]
    fn erfc<V: Vector<E = f64>>(x: V) -> V {
        super::special::erfc(x)
    }
}
