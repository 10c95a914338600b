//! Composites of 16-bit floats compute inside in f32: with large numbers and with numbers that nearly
//! cancel, each row is within a few units in the last place of what it is in f64.

use cpu as _;
use ir::{DType, Literal, Meaning};
use talweg_ops::{Tensor, table};

/// How far a result may be off, in units in the last place of its type.
const ULPS: f64 = 2.0;

/// Rows that round inside by design, for speed: attention's scores are products of 16 bits, and its
/// weights are rounded for the next product; rope goes along with the products around it, and its
/// cosines and sines are at most 1.
const ROUNDED: &[&str] = &["attention", "attention_grad", "rope"];

/// Digits after the first, the greatest number and the least normal one.
fn limits(dtype: DType) -> (i32, f64, f64) {
    match dtype {
        DType::F16 => (10, 65504.0, 2f64.powi(-14)),
        _ => (7, f64::from(f32::MAX), 2f64.powi(-126)),
    }
}

/// The error in units in the last place of `want`.
fn ulps(got: f64, want: f64, dtype: DType) -> f64 {
    let (digits, most, least) = limits(dtype);
    if !want.is_finite() || want.abs() > most {
        return 0.0;
    }
    let unit = 2f64.powi(want.abs().max(least).log2().floor() as i32 - digits);
    let off = (got - want).abs() / unit;
    if off.is_nan() { f64::INFINITY } else { off }
}

/// The inputs of a case in other sizes: as they are, of size 600, and close to each other.
fn variants(l: &Literal) -> [Literal; 3] {
    let x = l.to_f64();
    let most = x.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs())).max(1e-3);
    let with = |f: &dyn Fn(f64) -> f64| {
        let data: Vec<f64> = x.iter().map(|&x| f(x)).collect();
        Literal::from_f64(DType::F64, l.shape().clone(), &data)
    };
    [l.clone(), with(&|x| x * 600.0 / most), with(&|x| 600.0 + x)]
}

#[test]
fn composites_of_16_bits_do_not_round_or_overflow_inside() {
    let mut worst: Vec<(String, f64)> = Vec::new();
    let mut checked = 0;
    for op in table().filter(|op| matches!(op.meaning, Meaning::Composite(_)) && !ROUNDED.contains(&op.name)) {
        for (i, case) in (op.cases)().iter().enumerate() {
            let has_graph = case.attrs.iter().any(|(_, a)| matches!(a, ir::Attr::Graph(_)));
            if has_graph || !case.inputs.iter().any(|l| l.dtype() == DType::F64) {
                continue;
            }
            for dtype in [DType::F16, DType::BF16] {
                for variant in 0..3 {
                    let narrow = |l: &Literal| match l.dtype() {
                        DType::F64 => variants(l)[variant].cast(dtype),
                        _ => l.clone(),
                    };
                    let inputs: Vec<Literal> = case.inputs.iter().map(narrow).collect();
                    let wide = |to: DType| {
                        let cast = |l: &Literal| if l.dtype() == dtype { l.cast(to) } else { l.clone() };
                        inputs.iter().map(cast).collect::<Vec<Literal>>()
                    };
                    let run = |inputs: Vec<Literal>| {
                        let xs: Vec<Tensor> = inputs.into_iter().map(Tensor::from).collect();
                        let ys = Tensor::apply(op, &xs.iter().collect::<Vec<_>>(), case.attrs.clone());
                        ys.iter().map(|y| y.literal()).collect::<Result<Vec<_>, _>>()
                    };
                    // What f32 itself cannot tell, because it cancels there as well, is no fault.
                    let (Ok(got), Ok(want), Ok(same)) =
                        (run(inputs.clone()), run(wide(DType::F64)), run(wide(DType::F32)))
                    else {
                        continue;
                    };
                    for (o, g) in got.iter().enumerate() {
                        if g.dtype() != dtype {
                            continue;
                        }
                        checked += 1;
                        let (g, w, s) = (g.to_f64(), want[o].to_f64(), same[o].to_f64());
                        let scale = w.iter().fold(0.0f64, |m, x| m.max(x.abs()));
                        let error = |i: usize| {
                            let off = (g[i] - w[i]).abs();
                            let is_fine = match op.name {
                                // Imaginary parts that are zero but for rounding.
                                "rfft" => off <= 1e-7 * scale,
                                // An ill-conditioned sample: no worse than f32.
                                "lstsq" => off <= 2.0 * (s[i] - w[i]).abs(),
                                _ => false,
                            };
                            if is_fine { 0.0 } else { ulps(g[i], w[i], dtype).min(ulps(g[i], s[i], dtype)) }
                        };
                        let off = (0..g.len()).map(error).fold(0.0, f64::max);
                        if off > ULPS {
                            let what = format!("{} case {i} variant {variant} result {o} in {dtype}", op.name);
                            worst.push((what, off));
                        }
                    }
                }
            }
        }
    }
    assert!(checked > 1000, "only {checked} results were compared");
    let lines: Vec<String> = worst.iter().map(|(what, off)| format!("{what}: {off:.1} ulp")).collect();
    assert!(worst.is_empty(), "{} of {checked} results are off:\n{}", worst.len(), lines.join("\n"));
}
