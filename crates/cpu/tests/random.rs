//! Random graphs on the CPU against the slow truth. A failure prints its seed and the smallest
//! part of the graph that still fails.

use ir::{Attr, Attrs, Buffer, DType, Graph, Literal, Shape, Site, Slot, Type};
use runtime::{Device, reference};
use talweg_cpu::Cpu;

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
        (self.next() % n as u64) as usize
    }
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

fn op(name: &str) -> &'static ir::Op {
    ops::find(name).unwrap_or_else(|| panic!("the table has no op {name}"))
}

/// A graph under construction, with values small enough that float arithmetic on them is exact.
struct Builder {
    dice: Dice,
    graph: Graph,
    slots: Vec<Slot>,
    exact: bool,
    dtype: DType,
}

const SIZES: [usize; 8] = [1, 2, 3, 4, 5, 8, 33, 130];

impl Builder {
    fn push(&mut self, name: &str, inputs: &[Slot], attrs: Attrs) {
        if let Ok(s) = self.graph.push(op(name), inputs, attrs, Site::UNKNOWN)
            && self.graph.ty(s).shape.count() <= 40_000
        {
            self.slots.push(s);
        }
    }
    /// A recent value, mostly.
    fn any(&mut self) -> Slot {
        let n = self.slots.len();
        let back = self.dice.below(n.min(6));
        if self.dice.below(4) == 0 { self.dice.pick(&self.slots.clone()) } else { self.slots[n - 1 - back] }
    }
    fn number(&mut self, dtype: DType, x: f64) -> Slot {
        let value = Attrs::new().with("value", Attr::Literal(Literal::scalar_f64(dtype, x)));
        self.graph.push(&ir::CONST, &[], value, Site::UNKNOWN).unwrap()
    }
    /// Brings a value to a type, if it is not of it.
    fn cast(&mut self, s: Slot, dtype: DType) -> Slot {
        if self.graph.ty(s).dtype == dtype {
            return s;
        }
        self.graph.push(op("cast"), &[s], Attrs::new().with("dtype", dtype), Site::UNKNOWN).unwrap()
    }
    /// A value that another broadcasts with, of the working type.
    fn partner(&mut self, of: Slot) -> Slot {
        let shape = self.graph.ty(of).shape.clone();
        for _ in 0..8 {
            let s = self.any();
            if self.graph.ty(s).shape.broadcast(&shape).is_some_and(|b| b.count() <= 40_000) {
                return self.cast(s, self.dtype);
            }
        }
        self.number(self.dtype, 3.0)
    }

    fn step(&mut self) {
        let s = self.any();
        let shape = self.graph.ty(s).shape.clone();
        match self.dice.below(10) {
            0..=3 => self.scalar(s),
            4 | 5 => self.view(s, &shape),
            6 | 7 => self.reduce(s, &shape),
            8 => self.kernel(s, &shape),
            _ => {
                // Back to small numbers.
                let a = self.cast(s, self.dtype);
                let seven = self.number(self.dtype, 7.0);
                let name = if self.exact && self.dtype != DType::Bool { "rem" } else { "mul" };
                self.push(name, &[a, seven], Attrs::new());
            }
        }
    }

    fn scalar(&mut self, s: Slot) {
        let a = self.cast(s, self.dtype);
        let b = self.partner(a);
        if !self.exact && self.dice.below(2) == 0 {
            let name = self.dice.pick(&["tanh", "sigmoid", "sin", "cos", "erf", "sign", "atan"]);
            return self.push(name, &[a], Attrs::new());
        }
        match self.dice.below(6) {
            0 => {
                let c = self.cast(s, DType::Bool);
                self.push("where", &[c, a, b], Attrs::new());
            }
            1 if self.exact => {
                let name = self.dice.pick(&["eq", "ne", "lt", "le", "gt", "ge"]);
                self.push(name, &[a, b], Attrs::new());
            }
            2 if self.dtype != DType::Bool => self.push("neg", &[a], Attrs::new()),
            _ => {
                let name = self.dice.pick(&["add", "sub", "maximum", "minimum", "mul"]);
                let is_safe = name != "mul" || !self.exact;
                self.push(if is_safe { name } else { "add" }, &[a, b], Attrs::new());
            }
        }
    }

    fn view(&mut self, s: Slot, shape: &Shape) {
        let rank = shape.rank();
        match self.dice.below(6) {
            0 => {
                let mut axes: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    axes.swap(i, self.dice.below(i + 1));
                }
                self.push("permute", &[s], Attrs::new().with("axes", &axes));
            }
            1 => {
                let mut to: Vec<usize> = shape.to_vec();
                if rank > 1 && self.dice.below(2) == 0 {
                    let at = self.dice.below(rank - 1);
                    let d = to.remove(at + 1);
                    to[at] *= d;
                } else {
                    to.insert(self.dice.below(rank + 1), 1);
                }
                self.push("reshape", &[s], Attrs::new().with("shape", &to));
            }
            2 => {
                let lead = self.dice.pick(&SIZES[..5]);
                let to: Vec<usize> =
                    std::iter::once(lead).chain(shape.iter().map(|&d| if d == 1 { 4 } else { d })).collect();
                self.push("broadcast", &[s], Attrs::new().with("shape", &to));
            }
            3 if rank > 0 => {
                let axes = [self.dice.below(rank)];
                self.push("flip", &[s], Attrs::new().with("axes", axes));
            }
            _ => {
                let (mut starts, mut sizes, mut steps) = (vec![], vec![], vec![]);
                for &d in shape.iter() {
                    let step = self.dice.pick(&[1i64, 1, 2, -1]);
                    let size = if d > 1 { 1 + self.dice.below(d) } else { d };
                    let size = size.min((d + 1) / step.unsigned_abs() as usize).max(1).min(d);
                    starts.push(if step < 0 { d as i64 - 1 } else { 0 });
                    sizes.push(size as i64);
                    steps.push(step);
                }
                let attrs = Attrs::new().with("starts", &starts).with("sizes", &sizes).with("steps", &steps);
                self.push("slice", &[s], attrs);
            }
        }
    }

    fn reduce(&mut self, s: Slot, shape: &Shape) {
        let axes: Vec<usize> = (0..shape.rank()).filter(|_| self.dice.below(2) == 0).collect();
        let names: Vec<&str> = ["sum", "max", "min"].into_iter().filter(|n| ops::find(n).is_some()).collect();
        let name = self.dice.pick(&names);
        self.push(name, &[s], Attrs::new().with("axes", &axes));
    }

    fn kernel(&mut self, s: Slot, shape: &Shape) {
        let rank = shape.rank();
        let a = self.cast(s, self.dtype);
        match self.dice.below(7) {
            0 | 1 if rank >= 2 && self.dtype.size() > 1 => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.swap(rank - 1, rank - 2);
                if let Ok(t) = self.graph.push(op("permute"), &[a], Attrs::new().with("axes", &axes), Site::UNKNOWN) {
                    self.push("matmul", &[t, a], Attrs::new());
                }
            }
            2 if rank > 0 => {
                let axis = self.dice.below(rank);
                self.push("concat", &[a, a], Attrs::new().with("axis", axis));
            }
            3 if rank > 0 && shape.count() > 0 => {
                let axis = self.dice.below(rank);
                let attrs = Attrs::new().with("axis", axis);
                let at = Literal::generate([4], |i| ((i * 7) % shape[axis]) as i64);
                let value = Attrs::new().with("value", Attr::Literal(at));
                let index = self.graph.push(&ir::CONST, &[], value, Site::UNKNOWN).unwrap();
                self.push("take", &[a, index], attrs.clone());
                let taken = *self.slots.last().unwrap();
                self.push("index_add", &[a, index, taken], attrs);
            }
            4 if rank > 0 && shape.count() > 0 && self.exact => {
                let attrs = Attrs::new().with("axis", self.dice.below(rank));
                let name = self.dice.pick(&["argmax", "argmin", "sort", "cumsum"]);
                let attrs = match name {
                    "sort" => attrs.with("descending", self.dice.below(2) == 0),
                    "cumsum" => attrs.with("reverse", self.dice.below(2) == 0),
                    _ => attrs,
                };
                self.push(name, &[a], attrs);
            }
            _ => {
                let (lo, hi) = (vec![1i64; rank], vec![-((rank > 1) as i64); rank]);
                self.push("pad", &[a], Attrs::new().with("lo", &lo).with("hi", &hi).with("value", 2.0));
            }
        }
    }
}

fn build(seed: u64, dtype: DType, exact: bool, nodes: usize) -> (Graph, Vec<Literal>) {
    let dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut b = Builder { dice, graph: Graph::new(), slots: Vec::new(), exact, dtype };
    let mut inputs = Vec::new();
    for k in 0..3 {
        let rank = b.dice.below(4);
        let shape: Shape = (0..rank).map(|_| b.dice.pick(&SIZES)).collect();
        let shape = if shape.count() > 20_000 { Shape::new(&[130, 5]) } else { shape };
        let slot = b.graph.input(&format!("x{k}"), &Type::new(dtype, shape.clone()), Site::UNKNOWN);
        b.slots.push(slot);
        let data: Vec<f64> = (0..shape.count())
            .map(|_| {
                let x = b.dice.below(7) as f64 - if dtype.is_unsigned() { 0.0 } else { 3.0 };
                if exact { x } else { x / 4.0 }
            })
            .collect();
        inputs.push(Literal::from_f64(dtype, shape, &data));
    }
    for _ in 0..nodes {
        b.step();
    }
    let n = b.slots.len();
    b.graph.outputs = b.slots[n - 1..].to_vec();
    for _ in 0..3 {
        let s = b.dice.pick(&b.slots.clone());
        b.graph.outputs.push(s);
    }
    (b.graph, inputs)
}

fn run(graph: &Graph, inputs: &[Literal]) -> Result<Vec<Literal>, String> {
    let device = Cpu::new();
    let optimized =
        passes::optimize(graph, &|n, t| device.claims(n, t), &reference::run_node).map_err(|e| e.to_string())?;
    let program = device.compile(optimized).map_err(|e| e.to_string())?;
    let read = |mut given: Vec<Buffer>| -> Result<Vec<Literal>, String> {
        let out = program.run(&mut given).map_err(|e| e.to_string())?;
        out.iter().map(|b| b.read().map_err(|e| e.to_string())).collect()
    };
    let held = read(inputs.iter().cloned().map(Buffer::Host).collect())?;
    // Inputs without other owners may be overwritten; that must not show.
    let own = |l: &Literal| Literal::from_bytes(l.dtype(), l.shape(), l.bytes()).expect("its own bytes");
    let given = read(inputs.iter().map(|l| Buffer::Host(own(l))).collect())?;
    let is_same = |(a, b): (&Literal, &Literal)| a.bytes() == b.bytes();
    if !held.iter().zip(&given).all(is_same) {
        return Err("inputs given away change the result".into());
    }
    // The same bits on every run, whatever the number of threads.
    for threads in [1, 3] {
        talweg_cpu::pool::set_threads(threads);
        let again = read(inputs.iter().cloned().map(Buffer::Host).collect())?;
        if !held.iter().zip(&again).all(is_same) {
            return Err(format!("{threads} threads change the result"));
        }
    }
    talweg_cpu::pool::set_threads(0);
    Ok(held)
}

/// Where two results differ, if they do.
fn difference(want: &Literal, got: &Literal, tolerance: f64) -> Option<String> {
    if want.dtype() != got.dtype() || want.shape() != got.shape() {
        return Some(format!("{}{} instead of {}{}", got.dtype(), got.shape(), want.dtype(), want.shape()));
    }
    let scale = want.to_f64().iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
    for (i, (w, g)) in want.to_f64().into_iter().zip(got.to_f64()).enumerate() {
        let is_same = w == g || (w.is_nan() && g.is_nan()) || (w - g).abs() <= tolerance * scale;
        if !is_same {
            return Some(format!("element {i} of {}{} is {g}, not {w}", want.dtype(), want.shape()));
        }
    }
    None
}

fn failure(graph: &Graph, inputs: &[Literal], tolerance: f64) -> Option<String> {
    let want = reference::run(graph, inputs).unwrap();
    match run(graph, inputs) {
        Err(e) => Some(e),
        Ok(got) => want.iter().zip(&got).find_map(|(w, g)| difference(w, g, tolerance)),
    }
}

fn check(dtype: DType, exact: bool, tolerance: f64, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let (graph, inputs) = build(seed, dtype, exact, 24);
        let Some(why) = failure(&graph, &inputs, tolerance) else { continue };
        // The first value that goes wrong on its own.
        for i in 0..graph.nodes.len() {
            let mut part = graph.clone();
            part.outputs = vec![Slot::new(i, 0)];
            if let Some(why) = failure(&part, &inputs, tolerance) {
                let part = passes::prune(&part);
                let text: String = part
                    .nodes
                    .iter()
                    .enumerate()
                    .map(|(i, n)| {
                        format!(
                            "  {i}: {} {:?} {:?} -> {}\n",
                            n.op.name,
                            n.inputs.iter().map(|s| s.node).collect::<Vec<_>>(),
                            n.attrs,
                            n.outs[0]
                        )
                    })
                    .collect();
                panic!("{dtype} seed {seed}: {why}\n{text}");
            }
        }
        panic!("{dtype} seed {seed}: {why} (only with all outputs)\n{graph:?}");
    }
}

#[test]
fn small_numbers_are_exact_in_every_type() {
    // Devices never meet complex numbers: they are pairs by then.
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_complex() && !d.is_f8()) {
        let tolerance = if matches!(dtype, DType::BF16) { 0.004 } else { 0.0 };
        check(dtype, true, tolerance, 1..120);
    }
}

#[test]
fn smooth_functions_agree() {
    check(DType::F32, false, 2e-5, 1..200);
    check(DType::F64, false, 1e-13, 1..100);
    check(DType::BF16, false, 0.05, 1..60);
    check(DType::F16, false, 0.02, 1..60);
}
