//! Printing against PyTorch 2.15, whose output is copied here line by line; only the names of
//! element types are ours.

use cpu as _;
use talweg_ops::{DType, Tensor};

fn check(x: Tensor, lines: &[&str]) {
    assert_eq!(x.to_string(), lines.join("\n"));
}

#[test]
fn display_is_pytorchs() {
    check(Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), &["tensor([[1., 2.],", "        [3., 4.]])"]);
    check(
        Tensor::from([[1.5f32, -2.25], [3.0, 1000.0]]),
        &["tensor([[   1.5000,   -2.2500],", "        [   3.0000, 1000.0000]])"],
    );
    check(Tensor::from([1e-5f32, 1.0]), &["tensor([1.0000e-05, 1.0000e+00])"]);
    check(Tensor::from([1e9f32, 1.0]), &["tensor([1.0000e+09, 1.0000e+00])"]);
    check(Tensor::from([1.0f32, f32::NAN, f32::INFINITY, -f32::INFINITY]), &["tensor([1., nan, inf, -inf])"]);
    check(
        Tensor::from([1.5f32, f32::NAN, f32::INFINITY, -f32::INFINITY]),
        &["tensor([1.5000,    nan,    inf,   -inf])"],
    );
    check(Tensor::from([0.0f32, -0.0]), &["tensor([0., -0.])"]);
    check(Tensor::from([f32::NAN]), &["tensor([nan])"]);
    check(Tensor::from(3.14159f64), &["tensor(3.1416, dtype=f64)"]);
    check(Tensor::from(7i64), &["tensor(7)"]);
    check(Tensor::from([-1.0f32, 10.0, -100.0]), &["tensor([  -1.,   10., -100.])"]);
    check(Tensor::from([100000.0f32, 2.0, 3.0]), &["tensor([1.0000e+05, 2.0000e+00, 3.0000e+00])"]);
    check(Tensor::from([0.5f32, 2000.0]).cast(DType::BF16), &["tensor([5.0000e-01, 2.0000e+03], dtype=bf16)"]);
    check(Tensor::from([1e-200f64, -1e120]), &["tensor([ 1.0000e-200, -1.0000e+120], dtype=f64)"]);
    check(Tensor::from([true, false]), &["tensor([ True, False])"]);
    check(Tensor::zeros([2, 0]), &["tensor([], size=(2, 0))"]);
    check(Tensor::zeros([0]), &["tensor([])"]);
    check(Tensor::zeros([0]).cast(DType::I64), &["tensor([], dtype=i64)"]);
    check(Tensor::arange(0i64..1001), &["tensor([   0,    1,    2,  ...,  998,  999, 1000])"]);
    check(
        Tensor::arange(0i32..24).reshape([2, 3, 4]),
        &[
            "tensor([[[ 0,  1,  2,  3],",
            "         [ 4,  5,  6,  7],",
            "         [ 8,  9, 10, 11]],",
            "",
            "        [[12, 13, 14, 15],",
            "         [16, 17, 18, 19],",
            "         [20, 21, 22, 23]]], dtype=i32)",
        ],
    );
    check(
        Tensor::arange(0i64..10000).reshape([100, 100]),
        &[
            "tensor([[   0,    1,    2,  ...,   97,   98,   99],",
            "        [ 100,  101,  102,  ...,  197,  198,  199],",
            "        [ 200,  201,  202,  ...,  297,  298,  299],",
            "        ...,",
            "        [9700, 9701, 9702,  ..., 9797, 9798, 9799],",
            "        [9800, 9801, 9802,  ..., 9897, 9898, 9899],",
            "        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])",
        ],
    );
    check(
        Tensor::arange(0i64..40) / 7.0,
        &[
            "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,",
            "        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,",
            "        2.5714, 2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143,",
            "        3.8571, 4.0000, 4.1429, 4.2857, 4.4286, 4.5714, 4.7143, 4.8571, 5.0000,",
            "        5.1429, 5.2857, 5.4286, 5.5714])",
        ],
    );
    check(
        Tensor::arange(0i64..1500).reshape([2, 250, 3]) * 0.5,
        &[
            "tensor([[[0.0000e+00, 5.0000e-01, 1.0000e+00],",
            "         [1.5000e+00, 2.0000e+00, 2.5000e+00],",
            "         [3.0000e+00, 3.5000e+00, 4.0000e+00],",
            "         ...,",
            "         [3.7050e+02, 3.7100e+02, 3.7150e+02],",
            "         [3.7200e+02, 3.7250e+02, 3.7300e+02],",
            "         [3.7350e+02, 3.7400e+02, 3.7450e+02]],",
            "",
            "        [[3.7500e+02, 3.7550e+02, 3.7600e+02],",
            "         [3.7650e+02, 3.7700e+02, 3.7750e+02],",
            "         [3.7800e+02, 3.7850e+02, 3.7900e+02],",
            "         ...,",
            "         [7.4550e+02, 7.4600e+02, 7.4650e+02],",
            "         [7.4700e+02, 7.4750e+02, 7.4800e+02],",
            "         [7.4850e+02, 7.4900e+02, 7.4950e+02]]])",
        ],
    );
    check(
        Tensor::arange(0i64..11).cast(DType::F64) / 8.0,
        &[
            "tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,",
            "        1.1250, 1.2500], dtype=f64)",
        ],
    );
    check(
        Tensor::arange(0i64..10).cast(DType::F64) / 8.0,
        &[
            "tensor([0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,",
            "        1.1250], dtype=f64)",
        ],
    );
}

#[test]
fn display_computes_and_shows_errors() {
    let x = Tensor::from([1.0f32]) + 1.0;
    assert_eq!(format!("{x}"), "tensor([2.])");
    let bad = Tensor::from([1.0f32]).reshape([2]).to_string();
    assert!(bad.starts_with("tensor(error: reshape: [1] has 1 elements, [2] has 2"), "{bad}");
}

#[test]
fn debug_never_computes() {
    let x = Tensor::from([1.0f32, 2.5]);
    assert_eq!(format!("{x:?}"), "Tensor(f32[2] [1.0, 2.5])");
    let y = &x + 1.0;
    assert_eq!(format!("{y:?}"), "Tensor(f32[2] pending add)");
    y.eval().unwrap();
    assert_eq!(format!("{y:?}"), "Tensor(f32[2] [2.0, 3.5])");
    let long = Tensor::new([100], &[7i64; 100]);
    assert_eq!(format!("{long:?}"), "Tensor(i64[100] [7, 7, 7, ..., 7, 7, 7])");
    let bad = format!("{:?}", x.reshape([3]));
    assert!(bad.starts_with("Tensor(error: reshape: "), "{bad}");
}
