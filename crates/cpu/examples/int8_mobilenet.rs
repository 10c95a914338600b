//! MobileNet v2 in floats and in bytes, an image of 224 × 224, by the CPU's kernels alone: milliseconds, the least of
//! many runs that take turns. Weights are arbitrary.
//!
//! `cargo run --release -p talweg-cpu --example int8_mobilenet [THREADS [ROUNDS]]`

use ir::{Attr, Attrs, Buffer, DType, Graph, Literal, Site, Slot, Type};
use runtime::{Device, Program};
use std::sync::Arc;
use std::time::Instant;
use talweg_cpu::{Cpu, pool};

const SITE: Site = Site::new("int8_mobilenet.rs", 1, 1);
/// Expansion, outputs, count and first stride of the blocks.
const BLOCKS: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// A layer: channels in and out, the side of the kernel, stride, groups, and whether ReLU6 follows.
#[derive(Clone, Copy)]
struct Layer {
    inputs: usize,
    outputs: usize,
    side: usize,
    stride: usize,
    groups: usize,
    has_relu6: bool,
}

/// A value as numbers and, in the network of bytes, in steps of the next layer.
#[derive(Clone, Copy)]
struct Pair {
    real: Slot,
    steps: Slot,
}

struct Net {
    graph: Graph,
    is_bytes: bool,
}

impl Net {
    fn op(&mut self, name: &str, inputs: &[Slot], attrs: Attrs) -> Slot {
        let op = ops::find(name).expect("a row of the table");
        self.graph.push(op, inputs, attrs, SITE).expect("shapes that fit")
    }
    fn f(&mut self, name: &str, inputs: &[Slot]) -> Slot {
        self.op(name, inputs, Attrs::new())
    }
    fn cast(&mut self, x: Slot, to: DType) -> Slot {
        self.op("cast", &[x], Attrs::new().with("dtype", to))
    }
    fn constant(&mut self, value: Literal) -> Slot {
        let attrs = Attrs::new().with("value", Attr::Literal(value));
        self.graph.push(&ir::CONST, &[], attrs, SITE).expect("a constant")
    }
    fn number(&mut self, x: f32) -> Slot {
        self.constant(Literal::scalar(x))
    }
    fn clamped(&mut self, x: Slot, low: f32, high: f32) -> Slot {
        let (low, high) = (self.number(low), self.number(high));
        let x = self.f("maximum", &[x, low]);
        self.f("minimum", &[x, high])
    }
    /// Numbers in steps.
    fn steps(&mut self, x: Slot, by: f32, to: DType) -> Slot {
        let (low, high) = if to == DType::I8 { (-128.0, 127.0) } else { (0.0, 255.0) };
        let by = self.number(by);
        let steps = self.f("mul", &[x, by]);
        let steps = self.f("round", &[steps]);
        let steps = self.clamped(steps, low, high);
        self.cast(steps, to)
    }
    fn layer(&mut self, x: Pair, l: Layer, residual: Option<Slot>) -> Pair {
        let shape = [l.outputs, l.inputs / l.groups, l.side, l.side];
        let both = |n: usize| Attr::Ints(vec![n as i64; 2].into());
        let attrs =
            Attrs::new().with("stride", both(l.stride)).with("dilation", both(1)).with("groups", l.groups as i64);
        let attrs = attrs.with("padding_lo", both(l.side / 2)).with("padding_hi", both(l.side / 2));
        let bias = |i: usize| i as f32 * 0.01 - 1.0;
        let mut y = if self.is_bytes {
            let count = shape.iter().product::<usize>() as i64;
            let data: Vec<i64> = (0..count).map(|i| i * 91 % 255 - 127).collect();
            let weight = self.constant(Literal::from_i64(DType::I8, shape, &data));
            let sums = self.op("int_conv", &[x.steps, weight], attrs);
            let sums = self.cast(sums, DType::F32);
            let scale = self.constant(Literal::generate([l.outputs], |i| 1e-4 + i as f32 * 1e-6));
            let bias = self.constant(Literal::generate([l.outputs], bias));
            let y = self.f("mul", &[sums, scale]);
            self.f("add", &[y, bias])
        } else {
            let weight = self.constant(Literal::generate(shape, |i| (i % 255) as f32 * 1e-3 - 0.127));
            let bias = self.constant(Literal::generate([l.outputs, 1, 1], bias));
            let y = self.op("conv", &[x.real, weight], attrs);
            self.f("add", &[y, bias])
        };
        if let Some(r) = residual {
            y = self.f("add", &[y, r]);
        }
        if l.has_relu6 {
            y = self.clamped(y, 0.0, 6.0);
        }
        let steps = match (self.is_bytes, l.has_relu6) {
            (false, _) => y,
            (true, true) => self.steps(y, 255.0 / 6.0, DType::U8),
            (true, false) => self.steps(y, 20.0, DType::I8),
        };
        Pair { real: y, steps }
    }
}

/// The network up to the features of its classifier, from a picture `f32[1, 3, 224, 224]`.
fn network(is_bytes: bool) -> Arc<dyn Program> {
    let mut net = Net { graph: Graph::default(), is_bytes };
    let picture = net.graph.input("picture", &Type::new(DType::F32, [1, 3, 224, 224]), SITE);
    let mut x = Pair { real: picture, steps: picture };
    if is_bytes {
        let steps = net.steps(picture, 255.0, DType::U8);
        x.steps = net.op("permute", &[steps], Attrs::new().with("axes", Attr::Ints(vec![0, 2, 3, 1].into())));
    }
    let plain = Layer { inputs: 3, outputs: 32, side: 1, stride: 1, groups: 1, has_relu6: true };
    x = net.layer(x, Layer { side: 3, stride: 2, ..plain }, None);
    let mut inputs = 32;
    for (expand, outputs, count, first) in BLOCKS {
        for i in 0..count {
            let (before, stride, inner) = (x.real, if i == 0 { first } else { 1 }, inputs * expand);
            if expand > 1 {
                x = net.layer(x, Layer { inputs, outputs: inner, ..plain }, None);
            }
            x = net.layer(x, Layer { inputs: inner, outputs: inner, side: 3, stride, groups: inner, ..plain }, None);
            let residual = (stride == 1 && inputs == outputs).then_some(before);
            x = net.layer(x, Layer { inputs: inner, outputs, has_relu6: false, ..plain }, residual);
            inputs = outputs;
        }
    }
    x = net.layer(x, Layer { inputs, outputs: 1280, ..plain }, None);
    let axes = if is_bytes { vec![1, 2] } else { vec![2, 3] };
    let y = net.op("sum", &[x.real], Attrs::new().with("axes", Attr::Ints(axes.into())));
    net.graph.outputs = vec![y];
    Cpu::new().compile(net.graph).expect("a program")
}

fn main() {
    let argument = |i: usize, other: usize| std::env::args().nth(i).and_then(|a| a.parse().ok()).unwrap_or(other);
    pool::set_threads(argument(1, pool::threads()));
    let picture = Literal::generate([1, 3, 224, 224], |i| (i % 256) as f32 / 255.0);
    let programs = [network(false), network(true)];
    let mut least = [f64::INFINITY; 2];
    for _ in 0..argument(2, 100) {
        for (program, least) in programs.iter().zip(&mut least) {
            let start = Instant::now();
            program.run(&mut [Buffer::Host(picture.clone())]).expect("a run");
            *least = least.min(start.elapsed().as_secs_f64());
        }
    }
    println!("f32 {:.2} ms, int8 {:.2} ms, {:.2} times as fast", least[0] * 1e3, least[1] * 1e3, least[0] / least[1]);
}
