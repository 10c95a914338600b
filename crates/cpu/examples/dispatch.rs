//! Times compiled programs: the cost of a small region, and gelu → layer norm → softmax of
//! 4096 x 1024 numbers, which is one loop. `cargo run --release -p talweg-cpu --example dispatch`

use ir::{
    Attr, AttrKind, Attrs, Buffer, DType, Grad, Graph, Layout, Literal, Meaning, Monoid, Op, Out, Scalar, Shape, Site,
    Slot, Type,
};
use runtime::{Device, Program, reference};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;
use talweg_cpu::Cpu;

/// Rows of its own: the op table is built on this crate.
macro_rules! rows {
    ($($name:ident / $arity:literal |$v:ident| $f:expr;)*) => {
        fn scalar(name: &str) -> Option<&'static Op> {
            $({
                static ROW: Op = Op {
                    name: stringify!($name),
                    infer: |c| Scalar::infer(c, $arity, Out::Same, false),
                    meaning: Meaning::Scalar(Scalar {
                        arity: $arity,
                        out: Out::Same,
                        float: |$v| $f,
                        code: "",
                        ..Scalar::DEFAULT
                    }),
                    ..PLAIN
                };
                if name == stringify!($name) {
                    return Some(&ROW);
                }
            })*
            None
        }
    };
}
const PLAIN: Op = Op {
    infer: |c| Ok(SmallVec::from_iter([Type::new(c.dtype(0), c.shape(0).reduce(&c.attrs.sizes("axes")?, true))])),
    grad: Grad::Zero,
    ..Op::DEFAULT
};
const OVER: &[(&str, AttrKind)] = &[("axes", AttrKind::Ints)];
static SUM: Op = Op { name: "sum", attrs: OVER, meaning: Meaning::Reduce(Monoid::Sum), ..PLAIN };
static MAX: Op = Op { name: "max", attrs: OVER, meaning: Meaning::Reduce(Monoid::Max), ..PLAIN };
static TURN: Op = Op {
    name: "turn",
    infer: |c| Ok(SmallVec::from_iter([Type::new(c.dtype(0), c.shape(0).iter().rev().copied().collect::<Shape>())])),
    meaning: Meaning::View(|_, l| {
        let strides = l.strides.iter().rev().copied().collect();
        Ok(Some(Layout { shape: l.shape.iter().rev().copied().collect(), strides, offset: l.offset }))
    }),
    ..PLAIN
};
rows! {
    add / 2 |v| v[0] + v[1];
    sub / 2 |v| v[0] - v[1];
    mul / 2 |v| v[0] * v[1];
    div / 2 |v| v[0] / v[1];
    neg / 1 |v| -v[0];
    exp / 1 |v| v[0].exp();
    tanh / 1 |v| v[0].tanh();
    rsqrt / 1 |v| 1.0 / v[0].sqrt();
}
fn row(name: &str) -> &'static Op {
    match name {
        "sum" => &SUM,
        "max" => &MAX,
        "turn" => &TURN,
        _ => scalar(name).expect("a row"),
    }
}

struct Net(Graph);

impl Net {
    fn input(&mut self, dtype: DType, shape: &[usize]) -> Slot {
        self.0.input("", &Type::new(dtype, shape), Site::UNKNOWN)
    }
    fn op(&mut self, name: &str, inputs: &[Slot], attrs: Attrs) -> Slot {
        self.0.push(row(name), inputs, attrs, Site::UNKNOWN).expect("types that fit")
    }
    fn f(&mut self, name: &str, inputs: &[Slot]) -> Slot {
        self.op(name, inputs, Attrs::new())
    }
    fn number(&mut self, x: f32) -> Slot {
        let attrs = Attrs::new().with("value", Attr::Literal(Literal::scalar(x)));
        self.0.push(&ir::CONST, &[], attrs, Site::UNKNOWN).expect("a constant")
    }
    fn over_rows(&mut self, name: &str, x: Slot) -> Slot {
        self.op(name, &[x], Attrs::new().with("axes", [1usize]))
    }
    fn compile(mut self, outputs: &[Slot]) -> Arc<dyn Program> {
        self.0.outputs = outputs.to_vec();
        let device = Cpu::new();
        let g = passes::optimize(&self.0, &|n, t| device.claims(n, t), &reference::run_node).expect("a valid graph");
        device.compile(g).expect("a program")
    }

    fn gelu(&mut self, x: Slot) -> Slot {
        let (half, one, c, root) =
            (self.number(0.5), self.number(1.0), self.number(0.044715), self.number(0.797_884_6));
        let x2 = self.f("mul", &[x, x]);
        let x3 = self.f("mul", &[x2, x]);
        let t = self.f("mul", &[x3, c]);
        let t = self.f("add", &[x, t]);
        let t = self.f("mul", &[t, root]);
        let t = self.f("tanh", &[t]);
        let t = self.f("add", &[t, one]);
        let t = self.f("mul", &[t, x]);
        self.f("mul", &[t, half])
    }
    fn layer_norm(&mut self, x: Slot, n: usize) -> Slot {
        let (scale, tiny) = (self.number(1.0 / n as f32), self.number(1e-5));
        let s = self.over_rows("sum", x);
        let mean = self.f("mul", &[s, scale]);
        let d = self.f("sub", &[x, mean]);
        let q = self.f("mul", &[d, d]);
        let v = self.over_rows("sum", q);
        let v = self.f("mul", &[v, scale]);
        let v = self.f("add", &[v, tiny]);
        let r = self.f("rsqrt", &[v]);
        self.f("mul", &[d, r])
    }
    fn softmax(&mut self, x: Slot) -> Slot {
        let m = self.over_rows("max", x);
        let d = self.f("sub", &[x, m]);
        let e = self.f("exp", &[d]);
        let s = self.over_rows("sum", e);
        self.f("div", &[e, s])
    }
}

/// The least time of a run, in seconds.
fn time(p: &dyn Program, inputs: &[Literal], runs: usize) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let mut args: Vec<Buffer> = inputs.iter().cloned().map(Buffer::Host).collect();
        let start = Instant::now();
        let out = p.run(&mut args).expect("a result");
        best = best.min(start.elapsed().as_secs_f64());
        std::hint::black_box(out);
    }
    best
}

fn random(shape: &[usize]) -> Literal {
    Literal::generate(shape, |i| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0)
}

fn small() {
    // Regions that cannot join: each reads the one before through a transposed view.
    for regions in [1usize, 65] {
        let mut net = Net(Graph::new());
        let mut x = net.input(DType::F32, &[4, 4]);
        let one = net.number(1.0);
        for _ in 0..regions {
            x = net.f("turn", &[x]);
            x = net.f("add", &[x, one]);
        }
        let p = net.compile(&[x]);
        let t = time(p.as_ref(), &[random(&[4, 4])], 20_000);
        println!("{regions} small regions: {:.3} us", t * 1e6);
    }
}

fn main() {
    println!("threads {}", talweg_cpu::pool::threads());
    small();
    let (m, n) = (4096, 1024);
    for name in ["copy", "gelu", "layer_norm", "softmax", "all"] {
        let mut net = Net(Graph::new());
        let x = net.input(DType::F32, &[m, n]);
        let y = match name {
            "copy" => net.f("neg", &[x]),
            "gelu" => net.gelu(x),
            "layer_norm" => net.layer_norm(x, n),
            "softmax" => net.softmax(x),
            _ => {
                let y = net.gelu(x);
                let y = net.layer_norm(y, n);
                net.softmax(y)
            }
        };
        let p = net.compile(&[y]);
        if name == "all" {
            print!("{}", p.explain());
        }
        println!("{name} {m}x{n}: {:.3} ms", time(p.as_ref(), &[random(&[m, n])], 200) * 1e3);
    }
}
