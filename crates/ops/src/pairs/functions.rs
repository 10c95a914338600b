//! Exponential, trigonometric and hyperbolic functions of complex numbers and their inverses.
//!
//! Inverses follow W. Kahan, Branch Cuts for Complex Elementary Functions (1987): written with real
//! functions of the parts, so that the sign of a zero says on which side of a cut a number lies.

use super::Pair;
use crate::Tensor;
use std::f64::consts::FRAC_PI_2;

/// Times a real number.
pub(crate) fn scaled(z: &Pair, by: f64) -> Pair {
    Pair::new(&z.re * by, &z.im * by)
}
/// Times i.
pub(crate) fn times_i(z: &Pair) -> Pair {
    Pair::new(-&z.im, z.re.clone())
}
/// Times -i.
pub(crate) fn over_i(z: &Pair) -> Pair {
    Pair::new(z.im.clone(), -&z.re)
}
/// `a` where the condition holds, else `b`.
fn pick(c: &Tensor, a: impl crate::Operand, b: &Tensor) -> Tensor {
    Tensor::where_(&c.logical_not(), b, a)
}

/// True for infinities and NaN.
fn is_wild(x: &Tensor) -> Tensor {
    x.is_finite().logical_not()
}

/// Where a real number stays one only if its imaginary zero is kept from a factor that is NaN. Elsewhere
/// the product is the zero, and has the slope.
fn is_lost(z: &Pair, factor: &Tensor) -> Tensor {
    z.im.eq(0.0).and(is_wild(factor))
}

pub(crate) fn exp(z: &Pair) -> Pair {
    let (size, wild) = (z.re.exp(), is_wild(&z.im));
    let im = pick(&is_lost(z, &size), &z.im, &(&size * z.im.sin()));
    let (is_none, is_all) = (z.re.eq(f64::NEG_INFINITY).and(&wild), z.re.eq(f64::INFINITY).and(wild));
    let re = pick(&is_all, f64::INFINITY, &(&size * z.im.cos()));
    Pair::new(pick(&is_none, 0.0, &re), pick(&is_none, 0.0, &im))
}

/// Near 0 without losing digits: e^x cos y - 1 = (e^x - 1) cos y - 2 sin²(y / 2).
pub(crate) fn expm1(z: &Pair) -> Pair {
    let half = (&z.im * 0.5).sin();
    let re = z.re.expm1() * z.im.cos() - half.square() * 2.0;
    let re = pick(&z.re.eq(f64::NEG_INFINITY), -1.0, &re);
    let re = pick(&z.re.eq(f64::INFINITY).and(is_wild(&z.im)), f64::INFINITY, &re);
    Pair::new(re, exp(z).im)
}

pub(crate) fn log(z: &Pair) -> Pair {
    let is_first = z.re.abs().ge(z.im.abs());
    let (large, small) = (Tensor::where_(&is_first, &z.re, &z.im), Tensor::where_(&is_first, &z.im, &z.re));
    // Near the unit circle, where the magnitude is nearly 1, its distance from 1 has the digits.
    let size = large.abs();
    let is_near = size.gt(0.5).and(size.lt(2.0));
    let near = Tensor::where_(&is_near, &large, large.ones_like());
    let off = (&near - 1.0) * (near + 1.0) + small.square();
    let by_distance = Tensor::where_(&is_near, &off, off.zeros_like()).log1p() * 0.5;
    // A NaN real part is the smaller of the two.
    let is_zero = large.eq(0.0).and(small.eq(0.0));
    let by_size = Tensor::where_(&is_zero, &size, z.abs()).log();
    Pair::new(Tensor::where_(&is_near, &by_distance, by_size), z.angle())
}

pub(crate) fn log1p(z: &Pair) -> Pair {
    let moved = Pair::new(&z.re + 1.0, z.im.clone());
    let is_small = z.abs().lt(0.5);
    let off = &z.re * (&z.re + 2.0) + z.im.square();
    let small = Tensor::where_(&is_small, &off, off.zeros_like()).log1p() * 0.5;
    Pair::new(Tensor::where_(&is_small, &small, log(&moved).re), moved.angle())
}

pub(crate) fn sqrt(z: &Pair) -> Pair {
    // Half the sum of magnitude and real part, and the other part from their product.
    let is_right = z.re.ge(0.0);
    let half = Tensor::where_(&is_right, &z.re, -&z.re) * 0.5 + z.abs() * 0.5;
    let is_zero = half.eq(0.0);
    let t = Tensor::where_(&is_zero, &half.ones_like(), &half).sqrt();
    let s = &z.im / (&t * 2.0);
    let re = Tensor::where_(&is_right, &t, s.abs());
    let im = Tensor::where_(&is_right, &s, t.copysign(&z.im));
    let is_far = z.im.is_inf();
    let re = pick(&is_zero, 0.0, &pick(&is_far, f64::INFINITY, &re));
    Pair::new(re, Tensor::where_(&is_zero.or(&is_far), &z.im, im))
}

/// Zeros and infinities of one part are not lost to infinities and NaN of the other, as C's Annex G
/// says; so below.
pub(crate) fn sinh(z: &Pair) -> Pair {
    let wild = is_wild(&z.im);
    let re = pick(&z.re.eq(0.0).or(z.re.is_inf()).and(wild), &z.re, &(z.re.sinh() * z.im.cos()));
    let factor = z.re.cosh();
    Pair::new(re, pick(&is_lost(z, &factor), &z.im, &(&factor * z.im.sin())))
}
pub(crate) fn cosh(z: &Pair) -> Pair {
    let wild = is_wild(&z.im);
    let re = pick(&z.re.is_inf().and(&wild), f64::INFINITY, &(z.re.cosh() * z.im.cos()));
    let factor = z.re.sinh();
    let im = pick(&z.re.eq(0.0).and(wild), 0.0, &(&factor * z.im.sin()));
    let side = z.re.ones_like().copysign(&z.re);
    Pair::new(re, pick(&is_lost(z, &factor), &z.im * side, &im))
}

/// Where the real part is large, the result is 1 or -1 but for an imaginary rest that vanishes.
pub(crate) fn tanh(z: &Pair) -> Pair {
    const LARGE: f64 = 20.0;
    let is_large = z.re.abs().gt(LARGE);
    let re = pick(&is_large, 1.0, &z.re);
    let (t, s) = (z.im.tan(), re.sinh());
    let beta = t.square() + 1.0;
    let divisor = &beta * s.square() + 1.0;
    let rho = (s.square() + 1.0).sqrt();
    let rest = z.im.sin() * z.im.cos() * (z.re.abs() * -2.0).exp() * 4.0;
    let rest = pick(&z.re.is_inf(), signed(0.0, &z.im), &rest);
    let wild = is_wild(&z.im);
    let re = pick(&z.re.eq(0.0).and(&wild), &z.re, &(beta * rho * &s / &divisor));
    let side = pick(&z.re.is_finite().and(wild), f64::NAN, &z.re.sign());
    Pair::new(
        Tensor::where_(&is_large, &side, re),
        pick(&z.im.eq(0.0).and(z.re.is_nan()), &z.im, &Tensor::where_(&is_large, &rest, t / divisor)),
    )
}

/// √(1 - z) and √(1 + z).
fn roots(z: &Pair) -> (Pair, Pair) {
    (sqrt(&Pair::new(1.0 - &z.re, -&z.im)), sqrt(&Pair::new(&z.re + 1.0, z.im.clone())))
}

/// `y`, or where a part of `z` is infinite, these parts.
fn unless_far(z: &Pair, y: Pair, far: impl FnOnce(&Tensor, &Tensor) -> (Tensor, Tensor)) -> Pair {
    let is_far = z.re.is_inf().or(z.im.is_inf());
    let (re, im) = far(&z.re.stop_gradient(), &z.im.stop_gradient());
    Pair::new(pick(&is_far, &re, &y.re), pick(&is_far, &im, &y.im))
}
/// A number with the sign of another.
fn signed(x: f64, like: &Tensor) -> Tensor {
    like.full_like(x).copysign(like)
}
/// True where one part is 0 and the other NaN.
fn is_half(zero: &Tensor, nan: &Tensor) -> Tensor {
    zero.eq(0.0).and(nan.is_nan())
}

pub(crate) fn asin(z: &Pair) -> Pair {
    let (m, p) = roots(z);
    let re = z.re.atan2(&m.re * &p.re - &m.im * &p.im);
    let re = pick(&is_half(&z.re, &z.im), &z.re, &re);
    let y = Pair::new(re, (&m.re * &p.im - &m.im * &p.re).asinh());
    unless_far(z, y, |re, im| (re.atan2(im.abs()), signed(f64::INFINITY, im)))
}
pub(crate) fn acos(z: &Pair) -> Pair {
    let (m, p) = roots(z);
    let re = pick(&is_half(&z.re, &z.im), FRAC_PI_2, &(m.re.atan2(&p.re) * 2.0));
    let y = Pair::new(re, (&p.re * &m.im - &p.im * &m.re).asinh());
    unless_far(z, y, |re, im| (im.abs().atan2(re), -signed(f64::INFINITY, im)))
}
pub(crate) fn acosh(z: &Pair) -> Pair {
    let m = sqrt(&Pair::new(&z.re - 1.0, z.im.clone()));
    let p = sqrt(&Pair::new(&z.re + 1.0, z.im.clone()));
    let im = pick(&is_half(&z.re, &z.im), FRAC_PI_2, &(m.im.atan2(&p.re) * 2.0));
    let y = Pair::new((&m.re * &p.re + &m.im * &p.im).asinh(), im);
    unless_far(z, y, |re, im| (re.full_like(f64::INFINITY), im.atan2(re)))
}
/// As it is odd, of the number with a positive real part, where no digits cancel near ±1.
pub(crate) fn atanh(z: &Pair) -> Pair {
    /// Beyond this x / |z|² is the real part to the last digit of f64, and its squares may overflow.
    const LARGE: f64 = 1e8;
    let side = Tensor::where_(&z.re.lt(0.0), &z.re.full_like(-1.0), &z.re.ones_like());
    let x = &z.re * &side;
    let down = 1.0 - &x;
    let size = z.abs();
    let is_large = size.gt(LARGE);
    let far = pick(&is_large, 1.0, &(down.square() + z.im.square()));
    let by = pick(&is_large, &size, &size.ones_like());
    let re = Tensor::where_(&is_large, &(&x / &by / by), (&x * 4.0 / far).log1p() * 0.25) * side;
    let re = pick(&is_half(&z.re, &z.im), &z.re, &re);
    let im = (&z.im * 2.0).atan2(down * (x + 1.0) - z.im.square()) * 0.5;
    unless_far(z, Pair::new(re, im), |re, im| {
        (signed(0.0, re), Tensor::where_(&im.is_nan(), im, signed(FRAC_PI_2, im)))
    })
}
