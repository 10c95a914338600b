//! Kernels along an axis, by index, of order, of linear algebra and of Fourier transforms against the slow reference:
//! every element type, odd shapes, random values with equal elements and NaN.

use ir::{Attrs, Buffer, DType, Graph, Literal, Shape, Site, Slot, Type};
use runtime::{Device, reference};
use talweg_cpu::Cpu;

const NUMBERS: [DType; 12] = [
    DType::F32,
    DType::F64,
    DType::BF16,
    DType::F16,
    DType::I64,
    DType::U64,
    DType::I32,
    DType::U32,
    DType::I16,
    DType::U16,
    DType::I8,
    DType::U8,
];
const FLOATS: [DType; 2] = [DType::F32, DType::F64];

/// Numbers that look random, the same every time.
struct Dice(u64);
impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    fn unit(&mut self) -> f64 {
        (self.next() % (1 << 24)) as f64 / (1 << 23) as f64 - 1.0
    }
    /// Small integers, of which many are equal, and now and then NaN.
    fn whole(&mut self, dtype: DType, shape: &[usize], with_nan: bool) -> Literal {
        let low = if matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64) { 0.0 } else { -4.0 };
        let count = shape.iter().product();
        let mut one = || match self.below(50) {
            0 if with_nan && dtype.is_float() => f64::NAN,
            _ => low + self.below(9) as f64,
        };
        let data: Vec<f64> = (0..count).map(|_| one()).collect();
        Literal::from_f64(dtype, Shape::new(shape), &data)
    }
    fn real(&mut self, dtype: DType, shape: &[usize]) -> Literal {
        let data: Vec<f64> = (0..shape.iter().product()).map(|_| self.unit()).collect();
        Literal::from_f64(dtype, Shape::new(shape), &data)
    }
    fn index(&mut self, shape: &[usize], size: usize) -> Literal {
        let data: Vec<i64> = (0..shape.iter().product()).map(|_| self.below(size) as i64).collect();
        Literal::from_i64(DType::I64, Shape::new(shape), &data)
    }
}

/// What the CPU and what the reference make of one op.
fn both(name: &str, inputs: &[Literal], attrs: &Attrs) -> (ir::Result<Vec<Literal>>, ir::Result<Vec<Literal>>) {
    let op = ops::find(name).unwrap_or_else(|| panic!("the table has no op {name}"));
    let mut g = Graph::new();
    let slots: Vec<_> =
        inputs.iter().map(|l| g.input("", &Type::new(l.dtype(), l.shape().clone()), Site::UNKNOWN)).collect();
    let at = g.push(op, &slots, attrs.clone(), Site::UNKNOWN).unwrap();
    g.outputs = (0..g.node(at).outs.len()).map(|o| Slot { node: at.node, out: o as u32 }).collect();
    let want = reference::run(&g, inputs);
    let device = Cpu::new();
    let optimized = passes::optimize(&g, &|n, t| device.claims(n, t), &reference::run_node).unwrap();
    let program = device.compile(optimized).unwrap();
    let got = program.run(&mut inputs.iter().cloned().map(Buffer::Host).collect::<Vec<_>>());
    (got.map(|g| g.iter().map(|b| b.read().unwrap()).collect()), want)
}

/// The CPU's results are the reference's, but for `tolerance` relative to the largest element.
#[track_caller]
fn check(name: &str, inputs: &[Literal], attrs: &Attrs, tolerance: f64) {
    let (got, want) = both(name, inputs, attrs);
    let (got, want) = (got.unwrap(), want.unwrap());
    assert_eq!(got.len(), want.len());
    for (k, (g, w)) in got.iter().zip(&want).enumerate() {
        let what = || format!("{name} {attrs:?} of {}{}, output {k}", inputs[0].dtype(), inputs[0].shape());
        assert_eq!((g.dtype(), g.shape()), (w.dtype(), w.shape()), "{}", what());
        let (g, w) = (g.to_f64(), w.to_f64());
        let scale = w.iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
        for (i, (w, g)) in w.iter().zip(&g).enumerate() {
            let is_close = w == g || (w.is_nan() && g.is_nan()) || (w - g).abs() <= tolerance * scale;
            assert!(is_close, "{}: element {i} is {g}, not {w}", what());
        }
    }
}
fn along(axis: usize) -> Attrs {
    Attrs::new().with("axis", axis)
}
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-11,
        DType::F32 => 2e-5,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 0.0,
    }
}

/// Shapes and the axis that is meant: lanes that lie together and beside each other, short and long.
const SHAPES: [(&[usize], usize); 10] = [
    (&[1], 0),
    (&[7], 0),
    (&[5, 33], 1),
    (&[33, 5], 0),
    (&[3, 17, 130], 1),
    (&[2, 1, 9], 1),
    (&[9, 1100], 1),
    (&[300, 3], 0),
    (&[17, 40], 1),
    (&[2, 3, 4, 5], 2),
];

#[test]
fn order_of_every_type() {
    let mut dice = Dice(11);
    for dtype in NUMBERS {
        for (shape, axis) in SHAPES {
            let (x, n) = (dice.whole(dtype, shape, true), shape[axis]);
            for descending in [false, true] {
                check("sort", std::slice::from_ref(&x), &along(axis).with("descending", descending), 0.0);
                for k in [1, n.div_ceil(5), n] {
                    let by = Attrs::new().with("k", k).with("axis", axis).with("largest", descending);
                    check("top_k", std::slice::from_ref(&x), &by, 0.0);
                }
            }
            let by = Attrs::new().with("k", 1 + dice.below(n)).with("axis", axis);
            check("kthvalue", std::slice::from_ref(&x), &by, 0.0);
            check("median", std::slice::from_ref(&x), &along(axis), 0.0);
            check("nanmedian", std::slice::from_ref(&x), &along(axis), 0.0);
            for name in ["argmax", "argmin", "cummax", "cummin"] {
                check(name, std::slice::from_ref(&x), &along(axis), 0.0);
            }
        }
    }
}

#[test]
fn a_long_lane() {
    let mut dice = Dice(12);
    for dtype in [DType::F32, DType::F64, DType::I32, DType::BF16] {
        let x = dice.whole(dtype, &[200_003], true);
        check("sort", std::slice::from_ref(&x), &along(0).with("descending", true), 0.0);
        check("argmax", std::slice::from_ref(&x), &along(0), 0.0);
        let x = dice.whole(dtype, &[200_003], false);
        check("argmin", std::slice::from_ref(&x), &along(0), 0.0);
        for reverse in [false, true] {
            check("cumsum", std::slice::from_ref(&x), &along(0).with("reverse", reverse), epsilon(dtype));
        }
    }
}

#[test]
fn running_extremes_of_long_lanes() {
    let mut dice = Dice(23);
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32] {
        let rising: Vec<f64> = (0..1000).map(|i| f64::from(i / 3)).collect();
        let rising = Literal::from_f64(dtype, [1000], &rising);
        for x in [dice.real(dtype, &[3, 1001]), dice.whole(dtype, &[2, 700], true), rising] {
            for (name, axis) in [("cummax", 0), ("cummin", 0), ("cummax", 1), ("cummin", 1)] {
                if axis < x.shape().rank() {
                    check(name, std::slice::from_ref(&x), &along(axis), 0.0);
                }
            }
        }
    }
}

#[test]
fn places_of_true_elements() {
    let mut dice = Dice(24);
    for n in [0, 1, 7, 8, 9, 100, 16_384, 40_003] {
        for one_in in [1, 2, 50] {
            let mask: Vec<i64> = (0..n).map(|_| i64::from(dice.below(one_in) == 0)).collect();
            let count = mask.iter().sum::<i64>() as usize;
            let mask = Literal::from_i64(DType::Bool, [n], &mask);
            for size in [0, count.div_ceil(2), count, count + 3] {
                let by = Attrs::new().with("size", size).with("fill", -7i64);
                check("flat_nonzero", std::slice::from_ref(&mask), &by, 0.0);
            }
        }
    }
}

#[test]
fn many_elements_added_to_few_sums() {
    let mut dice = Dice(25);
    for dtype in NUMBERS {
        let (x, index) = (dice.whole(dtype, &[2, 31], false), dice.index(&[70_001], 31));
        // So few that no sum of 8 bits overflows.
        let ones: Vec<f64> = (0..140_002).map(|i| f64::from(u8::from(i % 64 == 0))).collect();
        let ones = Literal::from_f64(dtype, [2, 70_001], &ones);
        check("index_add", &[x, index, ones], &along(1), epsilon(dtype));
    }
}

#[test]
fn elements_of_several_tensors_in_turn() {
    let mut dice = Dice(27);
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8] {
        for count in 1..6 {
            let parts: Vec<Literal> = (0..count).map(|_| dice.whole(dtype, &[3, 3001, 1], false)).collect();
            check("concat", &parts, &along(2), 0.0);
        }
    }
}

#[test]
fn max_pooling_of_every_float() {
    let mut dice = Dice(26);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for (size, window, stride, lo) in [(9usize, 2usize, 2usize, 0usize), (12, 3, 2, 1), (7, 3, 1, 1)] {
            let out = (size + 2 * lo - window) / stride + 1;
            let pair = |v: usize| [v, v];
            let by = Attrs::new()
                .with("window", pair(window))
                .with("stride", pair(stride))
                .with("padding_lo", pair(lo))
                .with("dilation", pair(1))
                .with("out", pair(out));
            let x = dice.real(dtype, &[2, 3, size, size]);
            check("max_pool", std::slice::from_ref(&x), &by, 0.0);
            let index = both("max_pool", &[x], &by).1.unwrap().remove(1);
            let g = dice.real(dtype, &[2, 3, out, out]);
            let to = Attrs::new().with("shape", [2, 3, size, size]);
            check("max_pool_grad", &[index, g], &to, epsilon(dtype));
        }
    }
}

#[test]
fn running_sums_and_products() {
    let mut dice = Dice(13);
    for dtype in NUMBERS {
        for (shape, axis) in SHAPES {
            let x = dice.whole(dtype, shape, true);
            for reverse in [false, true] {
                check("cumsum", std::slice::from_ref(&x), &along(axis).with("reverse", reverse), epsilon(dtype));
            }
            let x = if dtype.is_float() { dice.real(dtype, shape) } else { dice.whole(dtype, shape, false) };
            check("cumprod", &[x], &along(axis), epsilon(dtype));
            if dtype.is_float() {
                let (a, b) = (dice.real(dtype, shape), dice.real(dtype, shape));
                // The reference rounds every step.
                check("recur_back", &[a, b], &along(axis), 8.0 * epsilon(dtype));
            }
        }
    }
}

#[test]
fn places_of_values() {
    let mut dice = Dice(14);
    for dtype in NUMBERS {
        for (n, lead) in [(1, vec![]), (40, vec![]), (7, vec![3])] {
            let shape = |last: usize| lead.iter().copied().chain([last]).collect::<Vec<usize>>();
            let sorted = dice.whole(dtype, &shape(n), false);
            let up = along(lead.len()).with("descending", false);
            let sorted = both("sort", &[sorted], &up).1.unwrap().remove(0);
            for right in [false, true] {
                let values = dice.whole(dtype, &shape(3000), true);
                check("searchsorted", &[sorted.clone(), values], &Attrs::new().with("right", right), 0.0);
            }
        }
    }
}

#[test]
fn choice_by_index() {
    let mut dice = Dice(15);
    for dtype in NUMBERS {
        for (shape, axis) in SHAPES {
            let x = dice.whole(dtype, shape, false);
            let with = |size: usize| {
                let mut s = shape.to_vec();
                s[axis] = size;
                s
            };
            for count in [1, 5, 70] {
                let index = dice.index(&[count], shape[axis]);
                check("take", &[x.clone(), index.clone()], &along(axis), 0.0);
                let src = dice.whole(dtype, &with(count), false);
                check("index_add", &[x.clone(), index, src.clone()], &along(axis), epsilon(dtype));
                let index = dice.index(&with(count), shape[axis]);
                check("gather", &[x.clone(), index.clone()], &along(axis), 0.0);
                check("scatter", &[x.clone(), index.clone(), src.clone()], &along(axis), 0.0);
                check("scatter_add", &[x.clone(), index, src], &along(axis), epsilon(dtype));
            }
            // An index that covers a part of the tensor.
            let part: Vec<usize> = shape.iter().map(|d| d.div_ceil(2)).collect();
            let (index, src) = (dice.index(&part, shape[axis]), dice.whole(dtype, &part, false));
            check("gather", &[x.clone(), index.clone()], &along(axis), 0.0);
            check("scatter_add", &[x.clone(), index, src], &along(axis), epsilon(dtype));
        }
    }
}

#[test]
fn the_first_bad_index_is_named() {
    let x = Literal::from_f64(DType::F32, [3, 4], &[0.0; 12]);
    let bad = Literal::from_i64(DType::I64, [3], &[1, 9, -1]);
    let wide = Literal::from_i64(DType::I64, [3, 1], &[1, 9, -1]);
    for (name, index) in [("take", &bad), ("gather", &wide)] {
        let (got, want) = both(name, &[x.clone(), index.clone()], &along(1));
        let (got, want) = (got.unwrap_err().to_string(), want.unwrap_err().to_string());
        assert!(got.contains("index 9 is out of range") && want.contains("index 9"), "{got}; {want}");
    }
}

#[test]
fn fourier_transforms() {
    let mut dice = Dice(16);
    for dtype in FLOATS {
        let tolerance = if dtype == DType::F32 { 5e-6 } else { 1e-12 };
        for n in [1, 2, 3, 4, 8, 12, 17, 60, 97, 128, 1009] {
            for (shape, axis) in [(vec![n], 0), (vec![3, n], 1), (vec![2, n, 5], 1), (vec![n, 17], 0)] {
                let pairs: Vec<usize> = shape.iter().copied().chain([2]).collect();
                for inverse in [false, true] {
                    check("fft", &[dice.real(dtype, &pairs)], &along(axis).with("inverse", inverse), tolerance);
                }
                for (size, norm) in [(n, "backward"), (n + 3, "ortho"), (n.div_ceil(2), "forward")] {
                    let by = Attrs::new().with("n", size).with("axis", axis).with("norm", norm);
                    check("rfft", &[dice.real(dtype, &shape)], &by, tolerance);
                    check("irfft", &[dice.real(dtype, &pairs)], &by, tolerance);
                }
            }
        }
    }
}

/// A matrix with a strong diagonal, so that the condition of no factor hides an error.
fn strong(dice: &mut Dice, dtype: DType, batch: usize, n: usize, is_symmetric: bool) -> Literal {
    let mut x = dice.real(DType::F64, &[batch, n, n]).to_f64();
    for b in 0..batch {
        let a = &mut x[b * n * n..(b + 1) * n * n];
        for i in 0..n {
            for j in 0..i {
                if is_symmetric {
                    a[j * n + i] = a[i * n + j];
                }
            }
            a[i * n + i] += n as f64 * (1.0 + 0.1 * i as f64);
        }
    }
    Literal::from_f64(dtype, [batch, n, n], &x)
}

#[test]
fn linear_algebra_of_strong_matrices() {
    let mut dice = Dice(17);
    let triangle = |t: &str| Attrs::new().with("triangle", t);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        let tolerance = epsilon(dtype) * 4.0;
        for (batch, n) in [(1, 1), (3, 2), (2, 17), (1, 40), (5, 33), (1, 70)] {
            let symmetric = strong(&mut dice, dtype, batch, n, true);
            let a = strong(&mut dice, dtype, batch, n, false);
            for t in ["lower", "upper", "both"] {
                check("cholesky", std::slice::from_ref(&symmetric), &triangle(t), tolerance);
                if dtype == DType::F32 || dtype == DType::F64 {
                    check("eigh", std::slice::from_ref(&symmetric), &triangle(t), tolerance * 10.0);
                }
            }
            for name in ["inv", "slogdet", "lu"] {
                check(name, std::slice::from_ref(&a), &Attrs::new(), tolerance);
            }
            if n < 20 {
                check("det", std::slice::from_ref(&a), &Attrs::new(), tolerance);
                if dtype == DType::F64 {
                    check("cofactor", std::slice::from_ref(&a), &Attrs::new(), tolerance);
                }
            }
            let b = dice.real(dtype, &[batch, n, 3]);
            check("solve", &[a.clone(), b.clone()], &Attrs::new(), tolerance);
            for upper in [false, true] {
                for unit in [false, true] {
                    if unit && n > 20 {
                        continue;
                    }
                    let by = Attrs::new().with("upper", upper).with("unit", unit);
                    let a = if unit { dice.real(dtype, &[batch, n, n]) } else { a.clone() };
                    check("triangular_solve", &[a, b.clone()], &by, tolerance);
                }
            }
            for full in [false, true] {
                check("qr", std::slice::from_ref(&a), &Attrs::new().with("full", full), tolerance);
            }
            if dtype == DType::F32 || dtype == DType::F64 {
                let values = both("svd", std::slice::from_ref(&a), &Attrs::new().with("full", false));
                let (got, want) = (values.0.unwrap()[1].to_f64(), values.1.unwrap()[1].to_f64());
                let most = want.iter().copied().fold(1.0, f64::max);
                assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= tolerance * most), "{got:?} {want:?}");
                check(
                    "pinv",
                    &[dice.real(dtype, &[batch, n, n + 2])],
                    &Attrs::new().with("rtol", 1e-5),
                    tolerance * 50.0,
                );
                let small = dice.real(dtype, &[batch, n, n]);
                check("matrix_exp", &[small], &Attrs::new(), tolerance);
            }
        }
    }
}

#[test]
fn least_squares_of_full_and_of_low_rank() {
    let mut dice = Dice(18);
    for dtype in FLOATS {
        for (m, n, k) in [(1, 1, 1), (9, 4, 2), (50, 33, 3), (40, 40, 1)] {
            let (a, b) = (dice.real(dtype, &[m, n]), dice.real(dtype, &[m, k]));
            let factor = if m == n { 2000.0 } else { 20.0 };
            check("lstsq", &[a, b], &Attrs::new(), epsilon(dtype) * factor);
        }
        // Two equal columns.
        let mut x = dice.real(DType::F64, &[12, 3]).to_f64();
        (0..12).for_each(|i| x[3 * i + 2] = x[3 * i]);
        let a = Literal::from_f64(dtype, [12, 3], &x);
        check("lstsq", &[a, dice.real(dtype, &[12, 2])], &Attrs::new(), epsilon(dtype) * 20.0);
    }
}

#[test]
fn refused_matrices_are_named_as_the_reference_does() {
    let singular = Literal::from_f64(DType::F32, [2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0]);
    for name in ["inv", "cholesky"] {
        let by = if name == "cholesky" { Attrs::new().with("triangle", "lower") } else { Attrs::new() };
        let (got, want) = both(name, std::slice::from_ref(&singular), &by);
        let (got, want) = (got.unwrap_err().to_string(), want.unwrap_err().to_string());
        assert!(got.contains("matrix [1] of the batch") && want.contains("matrix [1] of the batch"), "{got}; {want}");
    }
}

#[test]
fn reductions_over_every_axis() {
    let mut dice = Dice(19);
    let cases: [(&[usize], &[usize]); 9] = [
        (&[5, 70, 61], &[1]),
        (&[3, 4, 200], &[1]),
        (&[6, 3, 5, 33], &[1, 2]),
        (&[40, 1100], &[0]),
        (&[40, 1100], &[1]),
        (&[7, 3], &[0]),
        (&[50_001], &[0]),
        (&[2, 1500, 9], &[1]),
        (&[5, 70, 61], &[0, 2]),
    ];
    for dtype in NUMBERS {
        for (shape, axes) in cases {
            let by = Attrs::new().with("axes", axes);
            // Integers: sums are exact, whatever their order.
            let x = dice.whole(dtype, shape, false);
            check("sum", std::slice::from_ref(&x), &by, epsilon(dtype));
            for with_nan in [false, true] {
                let x = dice.whole(dtype, shape, with_nan);
                check("max", std::slice::from_ref(&x), &by, 0.0);
                check("min", std::slice::from_ref(&x), &by, 0.0);
            }
            // Near 1, so that products stay in range.
            let near: Vec<f64> = x.to_f64().iter().map(|x| 1.0 + x / 65536.0).collect();
            let x = if dtype.is_float() { Literal::from_f64(dtype, x.shape().clone(), &near) } else { x };
            check("prod", &[x], &by, epsilon(dtype));
        }
    }
}

#[test]
fn borders_of_short_and_long_rows() {
    let mut dice = Dice(20);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::U8] {
        for shape in [vec![1], vec![9, 1], vec![4, 300, 1], vec![3, 5, 7], vec![2, 40], vec![3, 0, 2]] {
            for _ in 0..4 {
                let mut side = |size: usize| dice.below(4 + size) as i64 - size.min(2) as i64;
                let lo: Vec<i64> = shape.iter().map(|&d| side(d / 4)).collect();
                let hi: Vec<i64> = shape.iter().map(|&d| side(d / 4)).collect();
                let x = dice.whole(dtype, &shape, false);
                let by = Attrs::new().with("lo", &lo).with("hi", &hi).with("value", 3.0);
                check("pad", &[x], &by, 0.0);
            }
        }
    }
}

#[test]
fn images_in_other_sizes_and_at_given_places() {
    let mut dice = Dice(31);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for mode in ["linear", "cubic"] {
            for (shape, out) in
                [(&[2, 3, 9, 37][..], &[17usize, 70][..]), (&[1, 2, 8, 5], &[8, 3]), (&[2, 3, 11], &[40])]
            {
                let step: Vec<f64> = shape[2..].iter().zip(out).map(|(s, o)| *s as f64 / *o as f64).collect();
                for align in [false, true] {
                    let attrs = Attrs::new()
                        .with("out", out)
                        .with("step", Literal::new(step.len(), &step).unwrap())
                        .with("mode", mode)
                        .with("align_corners", align);
                    check("interpolate", &[dice.real(dtype, shape)], &attrs, epsilon(dtype));
                }
            }
        }
        for (shape, out) in [
            (&[2, 3, 9, 37][..], &[4usize, 5][..]),
            (&[1, 2, 28, 28], &[5, 5]),
            (&[1, 2, 3, 8], &[7, 8]),
            (&[2, 3, 11], &[4]),
        ] {
            check("adaptive_avg_pool", &[dice.real(dtype, shape)], &Attrs::new().with("out", out), epsilon(dtype));
        }
        for padding in ["zeros", "border", "reflection"] {
            for (mode, align) in [("bilinear", false), ("bilinear", true), ("nearest", false)] {
                let mut grid: Vec<f64> = (0..2 * 7 * 90 * 2).map(|_| 1.3 * dice.unit()).collect();
                grid[5] = f64::NAN;
                let grid = Literal::from_f64(dtype, Shape::new(&[2, 7, 90, 2]), &grid);
                let x = dice.real(dtype, &[2, 3, 9, 12]);
                let attrs = Attrs::new().with("mode", mode).with("padding", padding).with("align_corners", align);
                check("grid_sample", &[x, grid], &attrs, epsilon(dtype));
            }
        }
    }
}

#[test]
fn elements_spread_out_by_a_border() {
    let mut dice = Dice(32);
    for dtype in NUMBERS {
        for (lo, hi) in [(0, 1), (1, 0), (0, 2), (1, 1), (2, 1), (3, 6)] {
            let attrs = Attrs::new().with("lo", &[0i64, 0, lo][..]).with("hi", &[0i64, 0, hi][..]).with("value", 2.0);
            check("pad", &[dice.whole(dtype, &[5, 1700, 1], false)], &attrs, 0.0);
        }
    }
}

/// An index that repeats rows is read as it lies, also where it has other sizes than the tensor.
#[test]
fn a_repeated_index() {
    let mut dice = Dice(33);
    for (x, index, repeated) in
        [([2, 5, 40], [2, 1, 90], [2, 5, 90]), ([3, 6, 9], [1, 1, 4], [2, 5, 4]), ([4, 3, 2], [1, 3, 2], [4, 3, 2])]
    {
        let inputs = [dice.real(DType::F32, &x), dice.index(&index, x[2]), dice.real(DType::F32, &repeated)];
        let mut g = Graph::new();
        let types = inputs.each_ref().map(|l| Type::new(l.dtype(), l.shape().clone()));
        let [x, i, source] = types.each_ref().map(|t| g.input("", t, Site::UNKNOWN));
        let push = |g: &mut Graph, name: &str, from: &[Slot], attrs: Attrs| {
            g.push(ops::find(name).unwrap(), from, attrs, Site::UNKNOWN).unwrap()
        };
        let wide = push(&mut g, "broadcast", &[i], Attrs::new().with("shape", &repeated.map(|d| d as i64)[..]));
        let gathered = push(&mut g, "gather", &[x, wide], along(2));
        let added = push(&mut g, "scatter_add", &[x, wide, source], along(2));
        g.outputs = vec![gathered, added];
        let want = reference::run(&g, &inputs).unwrap();
        let program = Cpu::new().compile(g).unwrap();
        let got = program.run(&mut inputs.iter().cloned().map(Buffer::Host).collect::<Vec<_>>()).unwrap();
        for (got, want) in got.iter().zip(&want) {
            let (got, want) = (got.read().unwrap().to_f64(), want.to_f64());
            assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?} is not {want:?}");
        }
    }
}

/// Parts of wider tensors and transposed operands, in tiles of one row and in blocks of eight by eight.
#[test]
fn loops_over_parts_and_transposed_operands() {
    let mut dice = Dice(34);
    for dtype in NUMBERS {
        for (rows, columns) in [(7, 200), (16, 16), (33, 70), (130, 9)] {
            let inputs = [dice.whole(dtype, &[rows, 2 * columns], false), dice.whole(dtype, &[columns, rows], false)];
            let mut g = Graph::new();
            let types = inputs.each_ref().map(|l| Type::new(l.dtype(), l.shape().clone()));
            let [x, y] = types.each_ref().map(|t| g.input("", t, Site::UNKNOWN));
            let push = |g: &mut Graph, name: &str, from: &[Slot], attrs: Attrs| {
                g.push(ops::find(name).unwrap(), from, attrs, Site::UNKNOWN).unwrap()
            };
            let part = |first: usize| {
                let at = |list: [usize; 2]| list.map(|d| d as i64).to_vec();
                let (starts, sizes) = (at([0, first]), at([rows, columns]));
                Attrs::new().with("starts", &starts[..]).with("sizes", &sizes[..]).with("steps", &[1i64, 1][..])
            };
            let (a, b) = (push(&mut g, "slice", &[x], part(0)), push(&mut g, "slice", &[x], part(columns)));
            let transposed = push(&mut g, "permute", &[y], Attrs::new().with("axes", &[1i64, 0][..]));
            let parts = push(&mut g, "mul", &[a, b], Attrs::new());
            let mixed = push(&mut g, "add", &[a, transposed], Attrs::new());
            g.outputs = vec![parts, mixed];
            let want = reference::run(&g, &inputs).unwrap();
            let program = Cpu::new().compile(g).unwrap();
            let got = program.run(&mut inputs.iter().cloned().map(Buffer::Host).collect::<Vec<_>>()).unwrap();
            let got: Vec<Vec<f64>> = got.iter().map(|b| b.read().unwrap().to_f64()).collect();
            assert_eq!(got, want.iter().map(Literal::to_f64).collect::<Vec<_>>(), "{dtype} {rows} {columns}");
        }
    }
}
