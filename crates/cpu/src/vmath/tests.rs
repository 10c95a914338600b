//! Accuracy of the vector functions over sweeps of all magnitudes, special values, and the loops
//! against obvious versions; on every instruction set that this machine has.

use super::loops::Compare;
use super::{Level, convert, f32s, f64s, ints, level, limit_level};
use std::sync::Mutex;

/// Tests that choose the instruction set take turns.
static TURN: Mutex<()> = Mutex::new(());

fn on_every_level(f: impl Fn(Level)) {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    for &want in Level::ALL {
        if limit_level(want) == want {
            f(want);
        }
    }
    limit_level(Level::Avx512);
}

/// Every kind of `f32`: steps through all bit patterns, and small numbers densely.
fn sweep() -> Vec<f32> {
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(9973).map(f32::from_bits).collect();
    x.extend((-60_000..60_000).map(|i| i as f32 * 1.7e-4));
    x.extend((-20_000..20_000).map(|i| i as f32 * 0.0123));
    x.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 1e-45, -1e-45]);
    x
}

/// The distance in units in the last place of the true value's `f32` neighborhood.
fn ulps(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if near.is_nan() || got.is_nan() {
        return if near.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if near.is_infinite() || got.is_infinite() {
        return if near == got { 0.0 } else { f64::INFINITY };
    }
    let (_, e) = libm::frexp(want.abs().max(f32::MIN_POSITIVE as f64));
    (got as f64 - want).abs() / 2f64.powi(e - 24)
}

fn ulps64(got: f64, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() || want.is_infinite() || got.is_infinite() {
        let same = got == want || (got.is_nan() && want.is_nan());
        return if same { 0.0 } else { f64::INFINITY };
    }
    let (_, e) = libm::frexp(want.abs().max(f64::MIN_POSITIVE));
    (got - want).abs() / libm::ldexp(1.0, e - 53)
}

type Case = (&'static str, fn(&[f32], &mut [f32]), fn(f64) -> f64, f64, f64);

/// Name, function, truth, largest error with fused multiply-add and without.
const CASES: &[Case] = &[
    ("exp", f32s::exp, f64::exp, 1.5, 2.0),
    ("exp2", f32s::exp2, f64::exp2, 1.5, 2.0),
    ("expm1", f32s::expm1, f64::exp_m1, 2.0, 3.0),
    ("log", f32s::log, f64::ln, 1.5, 3.0),
    ("log2", f32s::log2, f64::log2, 2.0, 3.0),
    ("log1p", f32s::log1p, f64::ln_1p, 2.0, 3.0),
    ("sqrt", f32s::sqrt, f64::sqrt, 0.5, 0.5),
    ("rsqrt", f32s::rsqrt, |x| 1.0 / x.sqrt(), 1.5, 1.5),
    ("recip", f32s::recip, |x| 1.0 / x, 0.5, 0.5),
    ("sin", f32s::sin, f64::sin, 1.5, 2.5),
    ("cos", f32s::cos, f64::cos, 1.5, 2.5),
    ("tan", f32s::tan, f64::tan, 3.0, 4.0),
    ("tanh", f32s::tanh, f64::tanh, 2.0, 3.0),
    ("sigmoid", f32s::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 2.5, 3.0),
    ("erf", f32s::erf, libm::erf, 1.5, 3.0),
    ("erfc", f32s::erfc, libm::erfc, 3.0, 8.0),
    ("log10", f32s::log10, f64::log10, 2.0, 3.0),
    ("sinh", f32s::sinh, f64::sinh, 3.5, 4.5),
    ("cosh", f32s::cosh, f64::cosh, 3.5, 4.5),
    ("asin", f32s::asin, f64::asin, 3.0, 3.0),
    ("acos", f32s::acos, f64::acos, 3.0, 3.0),
    ("atan", f32s::atan, f64::atan, 3.0, 3.0),
    ("asinh", f32s::asinh, libm::asinh, 3.5, 4.5),
    ("acosh", f32s::acosh, acosh, 3.5, 4.5),
    ("atanh", f32s::atanh, libm::atanh, 3.5, 4.5),
    ("lgamma", f32s::lgamma, libm::lgamma, 1.0, 1.0),
];

/// `libm` is wrong below 1, where there is no result.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

#[test]
fn f32_functions_are_accurate() {
    let x = sweep();
    on_every_level(|level| {
        for &(name, f, truth, fused, plain) in CASES {
            let mut y = vec![0f32; x.len()];
            f(&x, &mut y);
            let limit = if level == Level::Portable { plain } else { fused };
            let worst = x
                .iter()
                .zip(&y)
                .map(|(&x, &y)| (ulps(y, truth(x as f64)), x, y))
                .fold((0.0, 0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
            if std::env::var("TALWEG_ULPS").is_ok() {
                println!("{level:?} {name}: {:.2} ulp at {:e}", worst.0, worst.1);
            }
            assert!(
                worst.0 <= limit,
                "{level:?} {name}({:e}) = {:e}, want {:e}: {} ulp",
                worst.1,
                worst.2,
                truth(worst.1 as f64),
                worst.0
            );
        }
    });
}

#[test]
fn f64_functions_are_accurate() {
    let cases: &[(&str, fn(&[f64], &mut [f64]), fn(f64) -> f64, f64)] = &[
        ("exp", f64s::exp, f64::exp, 2.0),
        ("exp2", f64s::exp2, f64::exp2, 2.0),
        ("expm1", f64s::expm1, f64::exp_m1, 3.0),
        ("log", f64s::log, f64::ln, 3.0),
        ("log2", f64s::log2, f64::log2, 3.0),
        ("log1p", f64s::log1p, f64::ln_1p, 4.0),
        ("tanh", f64s::tanh, f64::tanh, 4.0),
        ("sin", f64s::sin, f64::sin, 1.0),
        ("cos", f64s::cos, f64::cos, 1.0),
        ("tan", f64s::tan, f64::tan, 2.0),
        ("erf", f64s::erf, libm::erf, 1.0),
        ("erfc", f64s::erfc, libm::erfc, 4.0),
        ("log10", f64s::log10, f64::log10, 3.0),
        ("sinh", f64s::sinh, f64::sinh, 4.0),
        ("cosh", f64s::cosh, f64::cosh, 4.0),
        ("asin", f64s::asin, f64::asin, 3.0),
        ("acos", f64s::acos, f64::acos, 3.0),
        ("atan", f64s::atan, f64::atan, 3.0),
        ("asinh", f64s::asinh, libm::asinh, 5.0),
        ("acosh", f64s::acosh, acosh, 5.0),
        ("atanh", f64s::atanh, libm::atanh, 5.0),
    ];
    let mut x: Vec<f64> = (0..400_000u64).map(|i| f64::from_bits(i.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    x.extend((-60_000..60_000).map(|i| i as f64 * 1.31e-4));
    x.extend([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, f64::MAX, -745.0, 709.7]);
    on_every_level(|level| {
        for &(name, f, truth, limit) in cases {
            let mut y = vec![0f64; x.len()];
            f(&x, &mut y);
            for (&x, &y) in x.iter().zip(&y) {
                let off = ulps64(y, truth(x));
                assert!(off <= limit + 1.0, "{level:?} {name}({x:e}) = {y:e}, want {:e}: {off} ulp", truth(x));
            }
        }
    });
}

/// Functions whose small values may cancel are held to an absolute error instead.
#[test]
fn activations_are_accurate() {
    fn phi(x: f64) -> f64 {
        0.5 * libm::erfc(-x / 2f64.sqrt())
    }
    fn tanh_form(x: f64) -> f64 {
        0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)).tanh())
    }
    fn difference(f: fn(f64) -> f64, x: f64) -> f64 {
        (f(x + 1e-5) - f(x - 1e-5)) / 2e-5
    }
    fn silu(x: f64) -> f64 {
        x / (1.0 + (-x).exp())
    }
    let cases: &[(&str, fn(&[f32], &mut [f32]), fn(f64) -> f64)] = &[
        ("silu", f32s::silu, silu),
        ("gelu", f32s::gelu, |x| x * phi(x)),
        ("gelu_tanh", f32s::gelu_tanh, tanh_form),
        ("silu_grad", f32s::silu_grad, |x| difference(silu, x)),
        ("gelu_grad", f32s::gelu_grad, |x| difference(|x| x * phi(x), x)),
        ("gelu_tanh_grad", f32s::gelu_tanh_grad, |x| difference(tanh_form, x)),
        ("relu", f32s::relu, |x| x.max(0.0)),
    ];
    let x: Vec<f32> = (-200_000..200_000).map(|i| i as f32 * 6.1e-4).collect();
    on_every_level(|level| {
        for &(name, f, truth) in cases {
            let mut y = vec![0f32; x.len()];
            f(&x, &mut y);
            for (&x, &y) in x.iter().zip(&y) {
                let want = truth(x as f64);
                let off = (y as f64 - want).abs();
                assert!(off <= 1e-6 * (1.0 + want.abs()), "{level:?} {name}({x}) = {y}, want {want}");
            }
            let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30, -1e30];
            let mut y = [0f32; 5];
            f(&special, &mut y);
            assert!(y[2].is_nan() && !y[0].is_nan() && !y[1].is_nan(), "{level:?} {name}: {y:?}");
            assert!(y[1].abs() < 1e-30 && y[4].abs() < 1e-30, "{level:?} {name}: {y:?}");
        }
    });
}

#[test]
fn powers() {
    let bases = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        -8.0,
        1e-40,
        3.3e38,
        1.0001,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        7.25,
        1e-3,
    ];
    let exponents = [
        0.0,
        1.0,
        -1.0,
        2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        1e6,
        -1e6,
        127.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        0.333,
        16777216.0,
    ];
    let a: Vec<f32> = bases.iter().flat_map(|&b| exponents.iter().map(move |_| b)).collect();
    let b: Vec<f32> = bases.iter().flat_map(|_| exponents).collect();
    on_every_level(|level| {
        let mut y = vec![0f32; a.len()];
        f32s::pow(&a, &b, &mut y);
        for i in 0..a.len() {
            let want = (a[i] as f64).powf(b[i] as f64);
            let off = ulps(y[i], want);
            assert!(off <= 1.0, "{level:?} pow({:e}, {:e}) = {:e}, want {want:e}", a[i], b[i], y[i]);
            let (got_sign, want_sign) = (y[i].is_sign_negative(), want.is_sign_negative());
            assert!(y[i].is_nan() || got_sign == want_sign, "{level:?} pow({:e}, {:e}) = {:e}", a[i], b[i], y[i]);
        }
    });
    // Results of every magnitude, with bases near 1 too, whose logarithms are multiplied by much.
    let n = 60_000;
    let mut a: Vec<f64> = a.iter().map(|&x| x as f64).collect();
    let mut b: Vec<f64> = b.iter().map(|&x| x as f64).collect();
    for (x, z) in noise(3, n).into_iter().zip(noise(4, n)) {
        let near = 1.0 + x * 2f64.powi((z * 26.0) as i32 - 27);
        for base in [near, 2f64.powf(x * 30.0), 2f64.powf(x * 1073.0)] {
            a.push(base);
            b.push(z * 745.0 / base.ln().abs().max(1e-300));
        }
    }
    on_every_level(|level| {
        let mut y = vec![0f64; a.len()];
        f64s::pow(&a, &b, &mut y);
        for i in 0..a.len() {
            let want = a[i].powf(b[i]);
            let off = ulps64(y[i], want);
            assert!(off <= 1.5, "{level:?} pow({:e}, {:e}) = {:e}, want {want:e}: {off}", a[i], b[i], y[i]);
            let (got_sign, want_sign) = (y[i].is_sign_negative(), want.is_sign_negative());
            assert!(y[i].is_nan() || got_sign == want_sign, "{level:?} pow({:e}, {:e}) = {:e}", a[i], b[i], y[i]);
        }
    });
}

/// Numbers without pattern in -1..1.
fn noise(seed: u64, n: usize) -> Vec<f64> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = move |_| {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(next).collect()
}

#[test]
fn binary_loops_of_every_length() {
    on_every_level(|_| {
        for n in (0..70).chain([1000]) {
            let a: Vec<f32> = noise(n as u64, n).iter().map(|&x| (x * 4.0).round() as f32).collect();
            let b: Vec<f32> = noise(n as u64 + 99, n).iter().map(|&x| (x * 4.0).round() as f32).collect();
            let mut y = vec![0f32; n];
            for (f, g) in [
                (f32s::add as fn(&[f32], &[f32], &mut [f32]), (|a, b| a + b) as fn(f32, f32) -> f32),
                (f32s::sub, |a, b| a - b),
                (f32s::mul, |a, b| a * b),
                (f32s::max, f32::max),
                (f32s::min, f32::min),
            ] {
                f(&a, &b, &mut y);
                assert!((0..n).all(|i| y[i] == g(a[i], b[i])));
            }
            let mut m = vec![9u8; n];
            for (op, g) in [
                (Compare::Eq, (|a, b| a == b) as fn(f32, f32) -> bool),
                (Compare::Ne, |a, b| a != b),
                (Compare::Lt, |a, b| a < b),
                (Compare::Le, |a, b| a <= b),
                (Compare::Gt, |a, b| a > b),
                (Compare::Ge, |a, b| a >= b),
            ] {
                f32s::compare(op, &a, &b, &mut m);
                assert!((0..n).all(|i| m[i] == g(a[i], b[i]) as u8), "{op:?}");
            }
            f32s::select(&m, &a, &b, &mut y);
            assert!((0..n).all(|i| y[i] == if m[i] == 1 { a[i] } else { b[i] }));
            f32s::fma(&a, &b, &a, &mut y);
            assert!((0..n).all(|i| y[i] == a[i] * b[i] + a[i]));
            let mut z = a.clone();
            f32s::inplace::square(&mut z);
            assert!((0..n).all(|i| z[i] == a[i] * a[i]));
            f32s::axpy(2.0, &b, &mut z);
            assert!((0..n).all(|i| z[i] == a[i] * a[i] + 2.0 * b[i]));
        }
    });
}

#[test]
fn integer_loops() {
    on_every_level(|_| {
        for n in [0, 1, 31, 32, 33, 100] {
            let a: Vec<i64> = noise(1, n).iter().map(|x| (x * 9.0) as i64).collect();
            let b: Vec<i64> = noise(2, n).iter().map(|x| (x * 9.0) as i64).collect();
            let mut y = vec![0i64; n];
            ints::i64s::mul(&a, &b, &mut y);
            assert!((0..n).all(|i| y[i] == a[i] * b[i]));
            ints::i64s::div(&a, &b, &mut y);
            assert!((0..n).all(|i| y[i] == if b[i] == 0 { 0 } else { a[i] / b[i] }));
            let mut m = vec![0u8; n];
            ints::i64s::compare(Compare::Ge, &a, &b, &mut m);
            assert!((0..n).all(|i| m[i] == (a[i] >= b[i]) as u8));
            let c: Vec<i32> = a.iter().map(|&x| x as i32).collect();
            let mut z = vec![0i32; n];
            ints::i32s::max(&c, &c, &mut z);
            assert_eq!(z, c);
            assert_eq!(ints::i32s::sum(&c) as i64, a.iter().sum::<i64>());
        }
    });
}

#[test]
fn reductions() {
    on_every_level(|_| {
        for n in [0, 1, 7, 64, 100, 4095, 4096, 4097, 50_000] {
            let wide = noise(n as u64 + 5, n);
            let x: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
            let want: f64 = x.iter().map(|&x| x as f64).sum();
            assert!((f32s::sum(&x) as f64 - want).abs() <= 1e-6 * (n as f64).sqrt().max(1.0) * 2.0, "{n}");
            let want: f64 = x.iter().map(|&x| (x as f64).powi(2)).sum();
            assert!((f32s::dot(&x, &x) as f64 - want).abs() <= 1e-6 * want.max(1.0), "{n}");
            assert!((f64s::sum(&wide) - wide.iter().sum::<f64>()).abs() <= 1e-11);
            assert_eq!(f32s::reduce_max(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            assert_eq!(f32s::reduce_min(&x), x.iter().copied().fold(f32::INFINITY, f32::min));
            if n > 0 {
                let mut y = x.clone();
                y[n / 2] = f32::NAN;
                assert!(f32s::reduce_max(&y).is_nan() && f32s::reduce_min(&y).is_nan());
            }
        }
    });
}

#[test]
fn halves_round_like_the_scalar_type() {
    let x = sweep();
    on_every_level(|_| {
        let mut b = vec![half::bf16::ZERO; x.len()];
        let mut h = vec![half::f16::ZERO; x.len()];
        convert::narrow(&x, &mut b);
        convert::narrow(&x, &mut h);
        for i in 0..x.len() {
            let (want_b, want_h) = (half::bf16::from_f32(x[i]), half::f16::from_f32(x[i]));
            assert!(b[i] == want_b || (b[i].is_nan() && x[i].is_nan()), "{} {:?}", x[i], b[i]);
            assert!(h[i] == want_h || (h[i].is_nan() && x[i].is_nan()), "{} {:?}", x[i], h[i]);
        }
        let all: Vec<half::f16> = (0..=u16::MAX).map(half::f16::from_bits).collect();
        let mut y = vec![0f32; all.len()];
        convert::widen(&all, &mut y);
        assert!(all.iter().zip(&y).all(|(h, &y)| h.to_f32() == y || (h.is_nan() && y.is_nan())));
    });
}

/// On ARM the two instruction sets differ in speed alone.
#[test]
#[cfg(target_arch = "aarch64")]
fn neon_gives_the_bits_of_portable_code() {
    let x = sweep();
    let wide = noise(7, 10_007);
    let run = |level: Level| {
        limit_level(level);
        let mut y: Vec<Vec<u32>> = Vec::new();
        for &(_, f, ..) in CASES {
            let mut out = vec![0f32; x.len()];
            f(&x, &mut out);
            y.push(out.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect());
        }
        let narrow: Vec<f32> = wide.iter().map(|&v| v as f32).collect();
        y.push(vec![f32s::sum(&narrow).to_bits(), f32s::dot(&narrow, &narrow).to_bits()]);
        let mut exp = vec![0f64; wide.len()];
        f64s::exp(&wide, &mut exp);
        let doubles = exp.into_iter().chain([f64s::sum(&wide), f64s::dot(&wide, &wide)]).map(f64::to_bits).collect();
        (y, doubles)
    };
    let (portable, neon): ((_, Vec<u64>), (_, Vec<u64>)) = (run(Level::Portable), run(Level::Neon));
    assert!(portable.0 == neon.0, "functions of f32, or their sums");
    assert!(portable.1 == neon.1, "functions of f64, or their sums");
}

#[test]
fn the_level_is_one_the_machine_has() {
    assert!(level() <= super::machine_level());
}
