//! Weights that are constants: brought into their kernel's form when a graph is compiled.

use ir::{Attr, Attrs, Buffer, DType, Graph, Literal, Site, Slot, Type};
use runtime::{Device, reference};
use talweg_cpu::Cpu;

/// Small integers: their sums and products are exact in any order.
fn whole(dtype: DType, shape: &[usize]) -> Literal {
    let count: usize = shape.iter().product();
    let data: Vec<i64> = (0..count as i64).map(|i| (i * 7 + i / 5) % 5 - 2).collect();
    Literal::from_i64(dtype, shape, &data)
}

fn push(g: &mut Graph, name: &str, inputs: &[Slot], attrs: Attrs) -> Slot {
    g.push(ops::find(name).unwrap(), inputs, attrs, Site::UNKNOWN).unwrap()
}

fn constant(g: &mut Graph, value: &Literal) -> Slot {
    let attrs = Attrs::new().with("value", Attr::Literal(value.clone()));
    g.push(&ir::CONST, &[], attrs, Site::UNKNOWN).unwrap()
}

/// Runs a graph of one input twice, and compares with the reference.
fn check(g: &Graph, x: &Literal) {
    let want = reference::run(g, std::slice::from_ref(x)).unwrap();
    let program = Cpu::new().compile(g.clone()).unwrap();
    for _ in 0..2 {
        let got = program.run(&mut [Buffer::Host(x.clone())]).unwrap();
        for (got, want) in got.iter().zip(&want) {
            let got = got.read().unwrap();
            assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()));
            for (a, b) in got.to_f64().iter().zip(want.to_f64()) {
                // Filtering rounds integers, too.
                assert!((a - b).abs() < 0.05, "{a} instead of {b}");
            }
        }
    }
}

#[test]
fn convolutions() {
    for (channels, outputs, groups, size, kernel, stride) in [
        (16, 20, 1, 9, 3, 1usize),
        (20, 16, 1, 30, 3, 1),
        (64, 256, 1, 9, 3, 2),
        (30, 40, 2, 6, 3, 2),
        (8, 16, 8, 7, 3, 1),
    ] {
        let mut g = Graph::new();
        let shape = [2, channels, size, size];
        let x = g.input("", &Type::new(DType::F32, shape), Site::UNKNOWN);
        let w = constant(&mut g, &whole(DType::F32, &[outputs, channels / groups, kernel, kernel]));
        let attrs = Attrs::new()
            .with("stride", [stride; 2])
            .with("padding_lo", [kernel / 2; 2])
            .with("padding_hi", [kernel / 2; 2])
            .with("dilation", [1usize; 2])
            .with("groups", groups);
        let y = push(&mut g, "conv", &[x, w], attrs);
        g.outputs = vec![y];
        check(&g, &whole(DType::F32, &shape));
    }
}

/// Bias, residual and activation take a convolution's result part by part, whatever its algorithm.
#[test]
fn epilogues_of_convolutions() {
    for (channels, groups, size, kernel) in [
        (16, 1, 9, 3),
        (20, 1, 30, 3),
        (256, 1, 7, 3),
        (40, 1, 14, 1),
        (160, 1, 7, 1),
        (24, 24, 7, 3),
        (24, 24, 20, 5),
        (6, 1, 12, 3),
    ] {
        for (has_residual, activation) in [(false, "clamp"), (true, "relu"), (true, "none"), (false, "tanh")] {
            let mut g = Graph::new();
            let shape = [1, channels, size, size];
            let x = g.input("", &Type::new(DType::F32, shape), Site::UNKNOWN);
            let w = constant(&mut g, &whole(DType::F32, &[channels, channels / groups, kernel, kernel]));
            let both = |n: usize| [n; 2];
            let attrs = Attrs::new()
                .with("stride", both(1))
                .with("padding_lo", both(kernel / 2))
                .with("padding_hi", both(kernel / 2))
                .with("dilation", both(1))
                .with("groups", groups);
            let mut y = push(&mut g, "conv", &[x, w], attrs);
            let bias = constant(&mut g, &whole(DType::F32, &[1, channels, 1, 1]));
            y = push(&mut g, "add", &[y, bias], Attrs::new());
            if has_residual {
                y = push(&mut g, "add", &[y, x], Attrs::new());
            }
            let (low, high) = (constant(&mut g, &Literal::scalar(0f32)), constant(&mut g, &Literal::scalar(6f32)));
            match activation {
                "tanh" => y = push(&mut g, "tanh", &[y], Attrs::new()),
                "none" => {}
                _ => y = push(&mut g, "maximum", &[y, low], Attrs::new()),
            }
            if activation == "clamp" {
                y = push(&mut g, "minimum", &[y, high], Attrs::new());
            }
            g.outputs = vec![y];
            let text = Cpu::new().compile(g.clone()).unwrap().explain();
            let is_fused = ["call into loop", "call, finished"].iter().any(|way| text.contains(way));
            assert!(is_fused, "{channels} {size} {kernel}: {text}");
            check(&g, &whole(DType::F32, &shape));
        }
    }
}

#[test]
fn products_of_bytes() {
    for (is_turned, lead) in [(false, 1), (true, 1), (true, 3)] {
        let mut g = Graph::new();
        let shape = [lead, 9, 50];
        let x = g.input("", &Type::new(DType::I8, shape), Site::UNKNOWN);
        let w = constant(&mut g, &whole(DType::I8, if is_turned { &[70, 50] } else { &[50, 70] }));
        let w = if is_turned { push(&mut g, "permute", &[w], Attrs::new().with("axes", [1usize, 0])) } else { w };
        let y = push(&mut g, "int_matmul", &[x, w], Attrs::new());
        g.outputs = vec![y];
        check(&g, &whole(DType::I8, &shape));
    }
}
