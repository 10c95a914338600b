//! fp8: converted, moved, printed and multiplied; refused by what computes.

use cpu as _;
use talweg_ops::{DType, Tensor, f8e4m3, f8e5m2, vjp};

/// Numbers of all magnitudes, NaN and infinities among them.
fn numbers() -> Vec<f32> {
    (0..=u16::MAX).map(|b| f32::from_bits((b as u32) << 16 | 0x1234)).chain((0..=u16::MAX).map(|b| b as f32)).collect()
}

#[test]
fn casts_are_those_of_single_numbers() {
    let x = Tensor::from(numbers());
    let bits = |t: &Tensor| t.literal().unwrap().bytes().to_vec();
    let want: Vec<u8> = numbers().into_iter().map(|x| f8e4m3::from_f32(x).to_bits()).collect();
    assert_eq!(bits(&x.cast(DType::F8E4M3)), want);
    let want: Vec<u8> = numbers().into_iter().map(|x| f8e5m2::from_f32(x).to_bits()).collect();
    assert_eq!(bits(&x.cast(DType::F8E5M2)), want);
    let codes: Vec<u8> = (0..=255).collect();
    for to in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let all = Tensor::new([256], &codes.iter().map(|&c| f8e4m3::from_bits(c)).collect::<Vec<_>>());
        let wide = all.cast(to);
        // Wider types hold all of them, so they come back as they were.
        assert_eq!(bits(&wide.cast(DType::F8E4M3)), codes, "{to}");
        let got = wide.cast(DType::F32).to_vec::<f32>().unwrap();
        let is_same = |(&c, y): (&u8, &f32)| f8e4m3::from_bits(c).to_f32().to_bits() == y.to_bits() || y.is_nan();
        assert!(codes.iter().zip(&got).all(is_same), "{to}");
    }
    let whole = Tensor::from([-3i64, 17, 1000]);
    assert_eq!(whole.cast(DType::F8E4M3).cast(DType::I64).to_vec::<i64>().unwrap(), [-3, 16, 448]);
    assert_eq!(whole.cast(DType::F8E5M2).cast(DType::Bool).to_vec::<bool>().unwrap(), [true; 3]);
}

#[test]
fn what_moves_elements_takes_them() {
    let x = Tensor::from([[1.0f32, -2.0, 0.5], [16.0, 448.0, 0.0]]).cast(DType::F8E4M3);
    let back = |t: Tensor| t.cast(DType::F32).to_vec::<f32>().unwrap();
    assert_eq!(back(x.t().reshape([6])), [1.0, 16.0, -2.0, 448.0, 0.5, 0.0]);
    assert_eq!(back(Tensor::concat(&[x.clone(), x.narrow(0, 1, 1)], 0).narrow(0, 2, 1)), [16.0, 448.0, 0.0]);
    assert_eq!(back(x.take(&Tensor::from([2i64, 0]), 1)), [0.5, 1.0, 0.0, 16.0]);
    assert_eq!(back(x.pad_raw(&[0, 1], &[0, 0], 3.0).narrow(0, 0, 1)), [3.0, 1.0, -2.0, 0.5]);
    let is_odd = Tensor::from([true, false, true]);
    assert_eq!(back(Tensor::where_(&is_odd, &x, 2.0)), [1.0, 2.0, 0.5, 16.0, 2.0, 0.0]);
    let text = "tensor([[  1.0000,  -2.0000,   0.5000],\n        [ 16.0000, 448.0000,   0.0000]], dtype=f8e4m3)";
    assert_eq!(format!("{x}"), text);
}

#[test]
fn what_computes_says_to_cast() {
    let x = Tensor::from([[1.0f32, 2.0]]).cast(DType::F8E4M3);
    let wide = Tensor::from([[1.0f32, 2.0]]);
    let bad = [
        &x + &x,
        &x + 1.0,
        &x * &wide,
        x.exp(),
        x.relu(),
        x.sum(..),
        x.mean(..),
        x.max(..),
        x.matmul(x.t()),
        x.matmul(wide.t()),
        x.linear(&x, None),
        x.softmax(-1),
        x.eq(&x),
        x.layer_norm(1, None, None, 1e-5),
        Tensor::concat(&[x.clone(), wide.clone()], 0),
        Tensor::stack(&[wide.clone(), x.clone()], 0),
        x.requires_grad(),
    ];
    for (i, t) in bad.iter().enumerate() {
        let e = t.error().unwrap_or_else(|| panic!("{i} computes in 8 bits")).to_string();
        assert!(e.contains("f8e4m3 is for storing and scaled_matmul") && e.contains("cast it to f32"), "{i}: {e}");
    }
    let one = Tensor::from(1.0f32);
    let e5 = x.cast(DType::F8E5M2);
    let e = e5.scaled_matmul(&e5.t(), &one, &one, None, DType::BF16);
    assert!(e.error().unwrap().to_string().contains("one at least f8e4m3, not f8e5m2 and f8e5m2"));
}

#[test]
fn gradients_of_a_linear_map_in_8_bits_are_near_those_in_f32() {
    let of = |shape: &[usize], step: usize| {
        let n = shape.iter().product::<usize>();
        let data: Vec<f32> = (0..n).map(|i| ((i * step) % 101) as f32 / 50.0 - 1.0).collect();
        Tensor::new(shape, &data).requires_grad()
    };
    let (x, w, b) = (of(&[3, 16, 32], 7), of(&[48, 32], 13), of(&[48], 29));
    let g = of(&[3, 16, 48], 31).detach();
    let run = |y: Tensor| -> Vec<Tensor> {
        let wrt = [x.clone(), w.clone(), b.clone()];
        [vec![y.clone()], vjp(&[y], std::slice::from_ref(&g), &wrt).unwrap()].concat()
    };
    let (narrow, wide) = (run(x.float8_linear(&w, Some(&b))), run(x.linear(&w, Some(&b))));
    for (i, (a, b)) in narrow.iter().zip(&wide).enumerate() {
        let [a, b] = [a, b].map(|t| t.to_vec::<f32>().unwrap());
        let norm = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
        let off: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        // Three bits of mantissa round by 1/16 at most, two by 1/8; the bias is not rounded at all.
        let most = [0.06, 0.12, 0.12, 1e-6][i];
        assert!(norm(&off) < most * norm(&b), "{i}: {} of {}", norm(&off), norm(&b));
        assert!(i == 3 || off.iter().any(|&d| d != 0.0), "{i} was not rounded");
    }
}
