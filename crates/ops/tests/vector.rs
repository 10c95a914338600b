//! Elementwise rows on the CPU: each runs by vector loops, and over the whole range of numbers they give what the
//! function in the row gives, special values included.

use cpu as _;
use ir::{Attrs, Call, DType, Literal, Meaning, Op, Out, Scalar, Type};
use talweg_ops::{Tensor, table};

fn scalars() -> Vec<(&'static Op, Scalar)> {
    let only = std::env::var("TALWEG_OP").ok();
    let scalar = |op: &'static Op| match op.meaning {
        Meaning::Scalar(s) if only.as_deref().is_none_or(|n| n == op.name) => Some((op, s)),
        _ => None,
    };
    table().filter_map(scalar).collect()
}

fn takes(op: &Op, s: &Scalar, dtype: DType) -> bool {
    let mut types = vec![Type::new(dtype, [2]); s.arity];
    if s.out == Out::Select {
        types[0].dtype = DType::Bool;
    }
    let attrs = if s.out == Out::Cast { Attrs::new().with("dtype", DType::F32) } else { Attrs::new() };
    (op.infer)(&Call { types: &types, attrs: &attrs }).is_ok()
}

#[test]
fn every_row_has_a_vector_loop() {
    for (op, s) in scalars() {
        for dtype in DType::ALL {
            if !dtype.is_complex() && !dtype.is_f8() && takes(op, &s, dtype) {
                assert!(cpu::has_vector_loop(&s, dtype), "{} has no vector loop for {dtype}: {}", op.name, s.code);
            }
        }
    }
}

/// All magnitudes, integers and halves, and special values, without an order.
fn sweep(dtype: DType, seed: u64) -> Vec<f64> {
    let mut mixed = seed;
    let mut next = || {
        mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let special = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, -1e-310, 3e38, -1.7e308];
    let one = |i: usize| match i % 8 {
        0 if dtype == DType::F32 => f32::from_bits(next() as u32) as f64,
        0 => f64::from_bits(next()),
        1 => next() as f64 / u64::MAX as f64 * 2.0 - 1.0,
        2 => (next() as f64 / u64::MAX as f64 - 0.5) * 20.0,
        3 => (next() as f64 / u64::MAX as f64 - 0.5) * 400.0,
        4 => (next() % 41) as f64 * 0.5 - 10.0,
        5 => 1.0 + (next() as f64 / u64::MAX as f64 - 0.5) * 1e-3,
        6 => 10f64.powi((next() % 17) as i32 - 8),
        _ => special[next() as usize % special.len()],
    };
    (0..40_000).map(one).map(|x| if dtype == DType::F32 { x as f32 as f64 } else { x }).collect()
}

/// The difference in units in the last place of the type; infinite where one is special and the other is not.
fn ulps(got: f64, want: f64, dtype: DType) -> f64 {
    let (digits, least) = if dtype == DType::F32 { (24, f32::MIN_POSITIVE as f64) } else { (53, f64::MIN_POSITIVE) };
    let want = if dtype == DType::F32 && (want as f32).is_infinite() { want as f32 as f64 } else { want };
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        // The last numbers before overflow may round to infinity.
        let most = if dtype == DType::F32 { f32::MAX as f64 } else { f64::MAX };
        let is_edge = |x: f64| x.is_infinite() || x.abs() > most * (1.0 - 1e-6);
        return if is_edge(got) && is_edge(want) && got.signum() == want.signum() { 0.0 } else { f64::INFINITY };
    }
    let exponent = want.abs().max(least).log2().floor() as i32 + 1 - digits;
    (got - want).abs() / 2f64.powi(exponent)
}

/// The largest errors: in `f32` in units in the last place, in `f64` relative to the larger of 1 and the value.
fn limits(s: &Scalar) -> (f64, f64) {
    match s.cost {
        ir::Cost::Instruction | ir::Cost::Short => (0.5, 0.0),
        ir::Cost::Division => (1.5, 1e-15),
        ir::Cost::Function | ir::Cost::Special => (4.5, 4e-14),
    }
}

#[test]
fn loops_agree_with_the_row_over_the_whole_range() {
    let mut failures = Vec::new();
    for (op, s) in scalars() {
        for dtype in [DType::F32, DType::F64] {
            if matches!(s.out, Out::Cast | Out::Select) || !takes(op, &s, dtype) {
                continue;
            }
            let mut inputs: Vec<Vec<f64>> = (0..s.arity).map(|k| sweep(dtype, 17 + k as u64)).collect();
            if op.name == "polygamma" {
                inputs[0].iter_mut().enumerate().for_each(|(i, n)| *n = (i / 64 % 6) as f64);
            }
            let n = inputs[0].len();
            let xs: Vec<Tensor> = inputs.iter().map(|x| Tensor::from(Literal::from_f64(dtype, [n], x))).collect();
            let got = Tensor::apply1(op, &xs.iter().collect::<Vec<_>>(), Attrs::new()).literal().unwrap().to_f64();
            let (ulp_max, far) = limits(&s);
            let mut worst: (f64, String) = (0.0, String::new());
            for i in 0..n {
                let x: Vec<f64> = inputs.iter().map(|v| v[i]).collect();
                let want = (s.float)(&x);
                let off = ulps(got[i], want, dtype);
                let is_near = (got[i] - want).abs() <= far * want.abs().max(1.0);
                let is_right = off <= ulp_max || dtype == DType::F64 && is_near;
                let is_signed = got[i] != 0.0 || want != 0.0 || got[i].is_sign_negative() == want.is_sign_negative();
                let is_zero_ordered = matches!(op.name, "fmax" | "fmin" | "maximum" | "minimum");
                if !is_right || !(is_signed || is_zero_ordered) {
                    failures
                        .push(format!("{} {dtype} {x:?}: {:e} instead of {want:e} ({off:.1} ulp)", op.name, got[i]));
                    if failures.len() > 60 {
                        panic!("{}", failures.join("\n"));
                    }
                    break;
                }
                if off > worst.0 && off.is_finite() {
                    worst = (off, format!("{x:?}"));
                }
            }
            if std::env::var("TALWEG_ULPS").is_ok() {
                println!("{} {dtype}: {:.2} ulp at {}", op.name, worst.0, worst.1);
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
