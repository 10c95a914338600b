//! Loops of tiles and moves of elements against the slow reference, at sizes around their tiles: reductions of what lies
//! in memory, short rows, parts of wider tensors.

use ir::{Attrs, Buffer, DType, Graph, Literal, Shape, Site, Slot, Type};
use runtime::{Device, reference};
use talweg_cpu::Cpu;

const SIZES: [DType; 5] = [DType::F32, DType::F64, DType::BF16, DType::I32, DType::U8];

/// Small integers from 1 on: sums of them are exact in any order.
fn whole(dtype: DType, shape: &[usize]) -> Literal {
    let count: usize = shape.iter().product();
    let data: Vec<f64> = (0..count).map(|i| ((i * 7 + i / 13) % 5) as f64 + 1.0).collect();
    Literal::from_f64(dtype, Shape::new(shape), &data)
}

/// Runs steps of ops, each over the results of all before it, and compares the last one with the reference.
#[track_caller]
fn check(inputs: &[Literal], steps: &[(&str, &[usize], Attrs)]) {
    let mut g = Graph::new();
    let mut slots: Vec<Slot> =
        inputs.iter().map(|l| g.input("", &Type::new(l.dtype(), l.shape().clone()), Site::UNKNOWN)).collect();
    for (name, args, attrs) in steps {
        let op = ops::find(name).unwrap_or_else(|| panic!("the table has no op {name}"));
        let args: Vec<Slot> = args.iter().map(|&a| slots[a]).collect();
        slots.push(g.push(op, &args, attrs.clone(), Site::UNKNOWN).unwrap());
    }
    g.outputs = slots.last().copied().into_iter().collect();
    let want = reference::run(&g, inputs).unwrap();
    let device = Cpu::new();
    let optimized = passes::optimize(&g, &|n, t| device.claims(n, t), &reference::run_node).unwrap();
    let program = device.compile(optimized).unwrap();
    let got = program.run(&mut inputs.iter().cloned().map(Buffer::Host).collect::<Vec<_>>()).unwrap();
    let (got, want) = (got[0].read().unwrap(), &want[0]);
    let what = format!("{} of {}{}", steps.last().unwrap().0, inputs[0].dtype(), inputs[0].shape());
    assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{what}");
    if !want.dtype().is_float() {
        assert!(got.bytes() == want.bytes(), "{what}: {:?}, not {:?}", got.to_f64(), want.to_f64());
    }
    for (i, (w, g)) in want.to_f64().iter().zip(got.to_f64()).enumerate() {
        assert!(*w == g || (w.is_nan() && g.is_nan()), "{what}: element {i} is {g}, not {w}");
    }
}

fn over(axes: &[usize]) -> Attrs {
    Attrs::new().with("axes", axes)
}

/// Columns and all elements, where nothing is computed before: rows are reduced as they lie in memory.
#[test]
fn reductions_of_memory() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        for shape in [&[37, 1500][..], &[19, 33], &[5, 4097], &[70, 31], &[3, 9000]] {
            let x = whole(dtype, shape);
            for axes in [&[0][..], &[1], &[0, 1]] {
                for name in ["max", "min"] {
                    check(std::slice::from_ref(&x), &[(name, &[0], over(axes))]);
                }
                // Sums of 16 bits are not exact beyond 256.
                if dtype != DType::BF16 {
                    check(std::slice::from_ref(&x), &[("sum", &[0], over(axes))]);
                }
            }
        }
        let few = whole(dtype, &[6, 1500]);
        check(&[few], &[("prod", &[0], over(&[0]))]);
    }
}

/// Sums along an axis whose neighbors lie apart: rows of the result are added up side by side.
#[test]
fn sums_of_a_middle_axis() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for shape in [&[3, 50, 70][..], &[2, 9, 33], &[4, 50, 5], &[1, 16, 1000], &[5, 7, 16]] {
            check(&[whole(dtype, shape)], &[("sum", &[0], over(&[1]))]);
        }
    }
}

/// Floats of 16 bits are rounded after every op, also where the next one takes them as they are stored.
#[test]
fn chains_of_short_floats_are_rounded_at_each_step() {
    let none = Attrs::new;
    for dtype in [DType::BF16, DType::F16] {
        for shape in [&[3, 1500][..], &[40, 5], &[1, 17]] {
            let count: usize = shape.iter().product();
            let number = |seed: usize| {
                let data: Vec<f64> = (0..count).map(|i| ((i * seed) % 97) as f64 / 7.0 - 5.0).collect();
                Literal::from_f64(dtype, Shape::new(shape), &data)
            };
            let (a, b) = (number(13), number(31));
            let products = [("mul", &[0usize, 1][..], none()), ("sub", &[2, 0], none()), ("mul", &[3, 2], none())];
            check(&[a.clone(), b.clone()], &products);
            for name in ["lt", "le", "gt", "ge", "eq", "ne"] {
                let chosen = [
                    (name, &[0usize, 1][..], none()),
                    ("mul", &[0, 1], none()),
                    ("where", &[2, 3, 0], none()),
                    ("maximum", &[4, 1], none()),
                    ("square", &[5], none()),
                ];
                check(&[a.clone(), b.clone()], &chosen);
            }
            // With numbers, and widened for a sum at the end.
            let held = Attrs::new().with("lo", -1.0).with("hi", 2.5);
            check(
                std::slice::from_ref(&a),
                &[("hardtanh", &[0], held), ("neg", &[1], none()), ("mul", &[2, 0], none())],
            );
            check(&[a, b], &[("sub", &[0, 1], none()), ("abs", &[2], none()), ("max", &[3], over(&[1]))]);
        }
    }
}

/// An extreme is NaN wherever the NaN stands.
#[test]
fn a_nan_is_the_extreme() {
    for n in [1, 15, 16, 31, 130, 5000] {
        for at in [0, n / 2, n - 1] {
            let mut data: Vec<f64> = (0..n).map(|i| i as f64).collect();
            data[at] = f64::NAN;
            for dtype in [DType::F32, DType::F64] {
                let x = Literal::from_f64(dtype, Shape::new(&[1, n]), &data);
                for name in ["max", "min"] {
                    check(std::slice::from_ref(&x), &[(name, &[0], over(&[1]))]);
                }
            }
        }
    }
}

/// Parts of a wider tensor are concatenated as they lie.
#[test]
fn parts_of_wider_tensors_are_concatenated() {
    let roll = |by: i64, axis: usize| Attrs::new().with("shifts", &[by][..]).with("axes", &[axis][..]);
    for dtype in SIZES {
        for (shape, axis) in [(&[7, 33][..], 1), (&[7, 33], 0), (&[3, 5, 9], 1), (&[300, 2], 1), (&[2, 200_000], 1)] {
            for by in [1, -1, 2] {
                check(&[whole(dtype, shape)], &[("roll", &[0], roll(by, axis))]);
            }
        }
        // Rows from the last to the first, every other one, and a transposed part.
        let slice = |starts: &[i64], sizes: &[i64], steps: &[i64]| {
            Attrs::new().with("starts", starts).with("sizes", sizes).with("steps", steps)
        };
        let x = whole(dtype, &[9, 12]);
        check(
            &[x],
            &[
                ("flip", &[0], over(&[0])),
                ("slice", &[0], slice(&[0, 2], &[9, 5], &[1, 1])),
                ("slice", &[1], slice(&[0, 1], &[9, 4], &[1, 1])),
                ("slice", &[0], slice(&[0, 0], &[9, 6], &[1, 2])),
                ("concat", &[2, 3, 4, 0], Attrs::new().with("axis", 1usize)),
            ],
        );
    }
}

/// Rows of a few elements, strided and repeated.
#[test]
fn short_rows() {
    for dtype in SIZES {
        for w in 1..=6 {
            let wide = Attrs::new().with("shape", &[11usize, 130, w][..]);
            check(&[whole(dtype, &[11, 130, 1])], &[("broadcast", &[0], wide.clone()), ("neg", &[1], Attrs::new())]);
            check(&[whole(dtype, &[11, 130, 1])], &[("broadcast", &[0], wide)]);
            for axes in [[2, 0, 1], [1, 0, 2], [0, 2, 1], [2, 1, 0]] {
                let x = whole(dtype, &[w, 37, 5]);
                let y = whole(dtype, &axes.map(|a: usize| [w, 37, 5][a]));
                check(&[x, y], &[("permute", &[0], over(&axes)), ("add", &[2, 1], Attrs::new())]);
            }
        }
    }
}

/// Comparisons, choices and numbers held between two others, at lengths around a vector.
#[test]
fn choices() {
    let floats = [DType::F32, DType::F64, DType::BF16, DType::F16];
    for dtype in floats {
        for n in [1, 7, 8, 16, 17, 63, 64, 1023, 1024, 3000] {
            let mut data: Vec<f64> = (0..n).map(|i| (i * 7 % 13) as f64 - 6.0).collect();
            data[n / 2] = f64::NAN;
            let x = Literal::from_f64(dtype, Shape::new(&[n]), &data);
            let [low, high] = [-2.0, 3.0].map(|b| Literal::from_f64(dtype, Shape::new(&[]), &[b]));
            for name in ["lt", "le", "gt", "ge", "eq", "ne"] {
                check(&[x.clone(), low.clone()], &[(name, &[0, 1], Attrs::new())]);
            }
            check(&[x.clone(), low.clone(), high.clone()], &[("clamp", &[0, 1, 2], Attrs::new())]);
            check(
                &[x.clone(), low.clone(), high],
                &[("minimum", &[0, 2], Attrs::new()), ("maximum", &[3, 1], Attrs::new())],
            );
            check(&[x.clone(), low], &[("gt", &[0, 1], Attrs::new()), ("where", &[2, 0, 1], Attrs::new())]);
        }
    }
}

/// Three operations in one pass, and operations on floats of 16 bits as they are stored, with operands that are whole,
/// one row, one column or one number; the largest does not fit a cache.
#[test]
fn several_operations_in_one_pass() {
    let none = Attrs::new;
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for (h, w) in [(1, 5), (3, 17), (40, 1030), (600, 1100)] {
            for other in [&[h, w][..], &[1, w], &[h, 1], &[]] {
                let (a, b, c) = (whole(dtype, &[h, w]), whole(dtype, &[h, w]), whole(dtype, other));
                let number = Literal::from_f64(dtype, Shape::new(&[]), &[2.0]);
                let inputs = [a.clone(), b.clone(), c.clone(), number.clone()];
                for last in [&[5, 0][..], &[3, 5]] {
                    check(&inputs, &[("sub", &[1, 0], none()), ("mul", &[4, 2], none()), ("add", last, none())]);
                    check(&inputs, &[("mul", &[0, 2], none()), ("mul", &[4, 1], none()), ("sub", last, none())]);
                }
                if h * w < 1 << 16 {
                    for name in ["add", "sub", "mul", "maximum", "minimum"] {
                        check(&[a.clone(), c.clone()], &[(name, &[0, 1], none())]);
                        check(&[a.clone(), c.clone()], &[(name, &[1, 0], none())]);
                    }
                    for name in ["abs", "neg", "square", "floor", "sqrt"] {
                        check(
                            std::slice::from_ref(&a),
                            &[("neg", &[0], none()), ("neg", &[1], none()), (name, &[2], none())],
                        );
                        check(std::slice::from_ref(&a), &[(name, &[0], none())]);
                    }
                    check(&inputs, &[("gt", &[0, 2], none()), ("where", &[4, 0, 1], none())]);
                    check(&inputs, &[("mul", &[0, 3], none()), ("maximum", &[4, 1], none())]);
                }
            }
        }
    }
}

/// Integers of every type with their extremes: operations that wrap around, alone, two in one pass, and with a number on
/// either side; divisions, by 0 as well.
#[test]
fn integers_with_each_other_and_with_numbers() {
    let none = Attrs::new;
    let signed = [(DType::I8, 7), (DType::I16, 15), (DType::I32, 31), (DType::I64, 63)];
    let unsigned = [(DType::U8, 8), (DType::U16, 16), (DType::U32, 32), (DType::U64, 63)];
    for (dtype, bits) in signed.into_iter().chain(unsigned) {
        let most = ((1u64 << bits) - 1) as i64;
        let least = if signed.iter().any(|s| s.0 == dtype) { -most - 1 } else { 0 };
        let some =
            [0, 1, 2, 3, 5, 100, most, most - 1, most / 2, least, least + 1, least / 2, least.max(-1), least.max(-7)];
        for width in [some.len(), 211] {
            // Each of them beside each other one.
            let literal = |value: &dyn Fn(usize, usize) -> usize| {
                let at = |i: usize| some[value(i / width, i % width) % some.len()];
                let data: Vec<i64> = (0..some.len() * width).map(at).collect();
                Literal::from_i64(dtype, Shape::new(&[some.len(), width]), &data)
            };
            let (a, b, c) = (literal(&|r, _| r), literal(&|_, c| c), literal(&|r, c| r + 3 * c));
            let row = Literal::from_i64(dtype, Shape::new(&[1, width]), &vec![some[4]; width]);
            let numbers = [some[5], some[6], least.max(-7)].map(|x| Literal::from_i64(dtype, Shape::new(&[]), &[x]));
            let [low, high, other] = numbers;
            let inputs = [a, b, c, row, low, high, other];
            for name in ["add", "sub", "mul", "maximum", "minimum", "fmod", "rem", "floor_divide"] {
                for args in [[0, 1], [0, 3], [4, 1], [1, 6]] {
                    check(&inputs, &[(name, &args[..], none())]);
                }
                for second in ["add", "sub", "mul", "maximum", "minimum"] {
                    for args in [[7, 2], [2, 7], [7, 4], [6, 7], [7, 3]] {
                        check(&inputs, &[(name, &[0, 1][..], none()), (second, &args, none())]);
                        check(&inputs, &[(name, &[0, 6][..], none()), (second, &args, none())]);
                    }
                }
            }
            for name in ["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor"] {
                for args in [[0, 1], [0, 6], [4, 1]] {
                    check(&inputs, &[(name, &args[..], none())]);
                }
            }
            for power in [1, 2, 3] {
                let power = Literal::from_i64(dtype, Shape::new(&[]), &[power]);
                check(&[inputs[2].clone(), power], &[("pow", &[0, 1], none())]);
            }
        }
    }
}

/// Places of extremes, where an equal one comes first; the last block is short.
#[test]
fn places_of_extremes() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32, DType::I64, DType::I16, DType::U8] {
        for n in [1, 31, 33, 1023, 1100, 5000] {
            let data: Vec<f64> = (0..2 * n).map(|i| ((i * 7919) % 113) as f64).collect();
            let x = Literal::from_f64(dtype, Shape::new(&[2, n]), &data);
            for name in ["argmax", "argmin"] {
                check(std::slice::from_ref(&x), &[(name, &[0], Attrs::new().with("axis", 1usize))]);
            }
        }
    }
}

/// Elements that are added to sums of their own row, and the greatest of a row.
#[test]
fn rows_by_index() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        for (rows, n) in [(1, 5), (7, 33), (40, 300)] {
            let x = whole(dtype, &[rows, n]);
            let places: Vec<i64> = (0..rows * n).map(|i| (i * 31 % n) as i64).collect();
            let index = Literal::from_i64(DType::I64, Shape::new(&[rows, n]), &places);
            let zeros = Literal::zeros(dtype, Shape::new(&[rows, n]));
            check(&[zeros, index, x.clone()], &[("scatter_add", &[0, 1, 2], Attrs::new().with("axis", 1usize))]);
            for largest in [true, false] {
                let first = Attrs::new().with("k", 3usize.min(n)).with("axis", 1usize).with("largest", largest);
                check(std::slice::from_ref(&x), &[("top_k", &[0], first)]);
            }
        }
    }
}

/// Results of a graph of ops over one input: each step takes the results of those before it, and the last ones are kept.
fn run_steps(x: &Literal, steps: &[(&str, &[usize], Attrs)], kept: usize) -> Vec<Literal> {
    let mut g = Graph::new();
    let mut slots = vec![g.input("", &Type::new(x.dtype(), x.shape().clone()), Site::UNKNOWN)];
    for (name, args, attrs) in steps {
        let args: Vec<Slot> = args.iter().map(|&a| slots[a]).collect();
        slots.push(g.push(ops::find(name).unwrap(), &args, attrs.clone(), Site::UNKNOWN).unwrap());
    }
    g.outputs = slots[slots.len() - kept..].to_vec();
    let device = Cpu::new();
    let optimized = passes::optimize(&g, &|n, t| device.claims(n, t), &reference::run_node).unwrap();
    let outputs = device.compile(optimized).unwrap().run(&mut [Buffer::Host(x.clone())]).unwrap();
    outputs.iter().map(|b| b.read().unwrap()).collect()
}

/// A sum over rows, or over everything, has the same bits in the loop that computes what it adds up, with or without a
/// sum of each row there, as in a program of its own.
#[test]
fn sums_do_not_depend_on_what_else_a_loop_computes() {
    let shapes: [&[usize]; 10] = [
        &[64, 256],
        &[37, 1500],
        &[19, 33],
        &[70, 31],
        &[300, 100],
        &[1024, 1024],
        &[9, 5000],
        &[4000, 3],
        &[65, 2049],
        &[130, 640],
    ];
    for shape in shapes {
        let count: usize = shape.iter().product();
        let data: Vec<f64> = (0..count).map(|i| ((i * 7919 + i / 13) % 1009) as f64 / 317.0 - 1.5).collect();
        let x = Literal::from_f64(DType::F32, Shape::new(shape), &data);
        let of = |shape: &[usize]| Attrs::new().with("shape", shape);
        for axes in [&[0][..], &[0, 1]] {
            let is_large = count > 4096;
            if axes.len() == 2 && !is_large {
                // Few elements are one row.
                continue;
            }
            let sum = || ("sum", &[1][..], over(axes));
            let both = run_steps(&x, &[("tanh", &[0], Attrs::new()), sum()], 2);
            let alone = run_steps(&both[0], &[("sum", &[0], over(axes))], 1);
            assert_eq!(both[1].bytes(), alone[0].bytes(), "{shape:?} over {axes:?}");
            if axes.len() == 1 && shape[1] > 1 {
                let rows: [(&str, &[usize], Attrs); 5] = [
                    ("max", &[0], over(&[1])),
                    ("reshape", &[1], of(&[shape[0], 1])),
                    ("broadcast", &[2], of(shape)),
                    ("sub", &[0, 3], Attrs::new()),
                    ("sum", &[4], over(axes)),
                ];
                let both = run_steps(&x, &rows, 2);
                let alone = run_steps(&both[0], &[("sum", &[0], over(axes))], 1);
                assert_eq!(both[1].bytes(), alone[0].bytes(), "{shape:?} over {axes:?} beside rows");
            }
        }
    }
}
