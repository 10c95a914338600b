//! Special functions of f64 that the standard and the C library lack, to about 1e-14.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// Bernoulli numbers B₂, B₄, … B₂₀.
const BERNOULLI: [f64; 10] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174611.0 / 330.0,
];

/// From here on ten terms of the asymptotic series are exact to rounding.
const LARGE: f64 = 12.0;

/// Cotangent of πx, with whole turns taken off first; exactly 0 half way.
fn cot_pi(x: f64) -> f64 {
    let r = x - x.round();
    if r.abs() > 0.25 { (PI * (0.5 - r.abs())).tan().copysign(r) } else { 1.0 / (PI * r).tan() }
}

/// Slope of the logarithm of the gamma function.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        // Reflection; poles at the negative integers.
        return if x == x.floor() { f64::NAN } else { digamma(1.0 - x) - PI * cot_pi(x) };
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < LARGE {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series: f64 = BERNOULLI.iter().enumerate().rev().fold(0.0, |s, (j, b)| (s + b / (2.0 * (j + 1) as f64)) * r);
    sum + x.ln() - 0.5 / x - series
}

/// Hurwitz zeta function Σ (x + k)⁻ˢ for s > 1, x > 0, by Euler-Maclaurin summation.
fn zeta(s: f64, x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < LARGE + s {
        sum += x.powf(-s);
        x += 1.0;
    }
    let last = x.powf(-s);
    sum += last * x / (s - 1.0) + 0.5 * last;
    // Terms B₂ⱼ / (2j)! · s (s+1) … (s+2j-2) · x^(-s-2j+1).
    let mut term = last * s / x / 2.0;
    for (j, b) in BERNOULLI.iter().enumerate() {
        sum += b * term;
        let k = 2.0 * (j + 1) as f64;
        term *= (s + k - 1.0) * (s + k) / ((k + 1.0) * (k + 2.0) * x * x);
    }
    sum
}

/// The n-th derivative of cot(πx): πⁿ P(cot πx), where each order maps P to -(1 + c²) P'.
fn cot_pi_derivative(n: usize, x: f64) -> f64 {
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
    PI.powi(n as i32) * p.iter().rev().fold(0.0, |s, a| s * c + a)
}

/// The n-th derivative of the digamma function; NaN unless n is an integer from 0 to 150.
pub fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if n.fract() != 0.0 || !(1.0..=150.0).contains(&n) || x.is_nan() {
        return f64::NAN;
    }
    let even = n % 2.0 == 0.0;
    if x <= 0.0 {
        if x == x.floor() {
            return if even { f64::NAN } else { f64::INFINITY };
        }
        let mirrored = polygamma(n, 1.0 - x);
        return if even { mirrored } else { -mirrored } - PI * cot_pi_derivative(n as usize, x);
    }
    let factorial: f64 = (1..=n as u32).map(f64::from).product();
    let size = factorial * zeta(n + 1.0, x);
    if even { -size } else { size }
}

/// Inverse of the error function: a rational start (M. Giles, 2012), then Halley's method.
pub fn erfinv(x: f64) -> f64 {
    if x.abs() >= 1.0 || x == 0.0 || x.is_nan() {
        return if x.abs() == 1.0 {
            f64::INFINITY.copysign(x)
        } else if x == 0.0 {
            x
        } else {
            f64::NAN
        };
    }
    let w = -((1.0 - x) * (1.0 + x)).ln();
    let poly = |w: f64, c: &[f64]| c.iter().fold(0.0, |s, a| s * w + a);
    let start = if w < 5.0 {
        let c = [
            2.81022636e-08,
            3.43273939e-07,
            -3.5233877e-06,
            -4.39150654e-06,
            0.00021858087,
            -0.00125372503,
            -0.00417768164,
            0.246640727,
            1.50140941,
        ];
        poly(w - 2.5, &c)
    } else {
        let c = [
            -0.000200214257,
            0.000100950558,
            0.00134934322,
            -0.00367342844,
            0.00573950773,
            -0.0076224613,
            0.00943887047,
            1.00167406,
            2.83297682,
        ];
        poly(w.sqrt() - 3.0, &c)
    };
    let mut y = (start * x).abs();
    let x_abs = x.abs();
    for _ in 0..3 {
        // In the tail the complement keeps the digits that erf loses near 1.
        let error = if x_abs < 0.5 { libm::erf(y) - x_abs } else { (1.0 - x_abs) - libm::erfc(y) };
        let u = error / (FRAC_2_SQRT_PI * (-y * y).exp());
        y -= u / (1.0 + y * u);
    }
    y.copysign(x)
}

/// exp(x²) erfc(x).
pub fn erfcx(x: f64) -> f64 {
    if x < 8.0 {
        // What rounding takes from the square counts where it is large.
        let square = x * x;
        let e = square.exp();
        let e = if e.is_finite() { x.mul_add(x, -square).mul_add(e, e) } else { e };
        return e * libm::erfc(x);
    }
    // Asymptotic series 1/(x sqrt π) (1 - 1/(2x²) + 3/(4x⁴) - …); its terms shrink far below rounding.
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 0..30 {
        term *= -f64::from(2 * k + 1) / (2.0 * x * x);
        sum += term;
    }
    sum * FRAC_2_SQRT_PI / (2.0 * x)
}

/// Modified Bessel function of the first kind for whole orders from 0, at x ≥ 0.
fn bessel_i(order: u32, x: f64) -> f64 {
    let n = f64::from(order);
    if x > 720.0 {
        return f64::INFINITY;
    }
    if x > 40.0 {
        // exp(x) / sqrt(2πx) (1 - (μ-1)/(8x) + (μ-1)(μ-9)/(2!(8x)²) - …), μ = 4n²; two roots of the
        // exponential, since the whole may overflow before the quotient.
        let (mut sum, mut term) = (1.0, 1.0);
        for k in 1..30 {
            let odd = f64::from(2 * k - 1);
            term *= -(4.0 * n * n - odd * odd) / (f64::from(k) * 8.0 * x);
            sum += term;
        }
        let half = (x / 2.0).exp();
        return half / (2.0 * PI * x).sqrt() * sum * half;
    }
    // Σ (x/2)^(2k+n) / (k! (k+n)!): all terms are positive.
    let quarter = x * x / 4.0;
    let mut term = (x / 2.0).powi(order as i32);
    let (mut sum, mut k) = (term, 0.0);
    while term > sum * 1e-17 {
        k += 1.0;
        term *= quarter / (k * (k + n));
        sum += term;
    }
    sum
}
/// Modified Bessel function of the first kind of order 0.
pub fn i0(x: f64) -> f64 {
    if x.is_nan() { x } else { bessel_i(0, x.abs()) }
}
/// Modified Bessel function of the first kind of order 1.
pub fn i1(x: f64) -> f64 {
    if x.is_nan() { x } else { bessel_i(1, x.abs()).copysign(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() <= 2e-14 * want.abs().max(1.0), "{got:e} instead of {want:e}");
    }

    #[test]
    fn digamma_at_known_points() {
        // Abramowitz and Stegun, table 6.1 and 6.3.7; large arguments by the leading terms.
        close(digamma(1.5), 0.03648997397857652);
        close(digamma(10.0), 2.251752589066721);
        close(digamma(1e10), 23.02585092989046);
        close(digamma(-1.5), 0.7031566406452432);
        close(digamma(1e-3), -1000.5755719318103);
        assert!(digamma(-2.0).is_nan());
    }
    #[test]
    fn polygamma_at_known_points() {
        // π²/6, -2 ζ(3), π⁴/15, and by reflection π²/2 + 4.
        close(polygamma(1.0, 1.0), PI * PI / 6.0);
        close(polygamma(2.0, 1.0), -2.4041138063191885);
        close(polygamma(3.0, 1.0), PI.powi(4) / 15.0);
        close(polygamma(1.0, -0.5), PI * PI / 2.0 + 4.0);
        close(polygamma(2.0, -0.5), -0.82879664423432);
        assert!(polygamma(0.5, 1.0).is_nan());
        assert_eq!(polygamma(1.0, -3.0), f64::INFINITY);
    }
    #[test]
    fn erfinv_inverts_erf() {
        // Beyond 2, erf itself has too few digits left to tell.
        for i in 1..200 {
            let y = i as f64 * 0.01;
            close(erfinv(libm::erf(y)), y);
        }
        close(erfinv(-0.5), -0.4769362762044699);
        assert!(erfinv(1.5).is_nan());
    }
    #[test]
    fn both_branches_meet() {
        // Values by series with 30 digits.
        close(i0(39.5) / 9091504908730678.9, 1.0);
        close(i0(-40.5) / 24404306884276696.0, 1.0);
        close(i1(39.5) / 8975674988589334.8, 1.0);
        close(i1(-40.5) / 24101111554186505.0, -1.0);
        close(erfcx(7.5), 0.07457369306287668);
        close(erfcx(8.5), 0.06592512249998035);
        assert_eq!(erfcx(f64::INFINITY), 0.0);
    }
}
