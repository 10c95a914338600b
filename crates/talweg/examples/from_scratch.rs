//! The core of Talweg rebuilt in one file with the standard library alone. A tensor is a handle to a
//! node of a graph; everything else is a function from graph to graph or a place to run one. Read it
//! before the crates; the names are the same.
//!
//! `cargo run --release -p talweg --example from_scratch` trains a perceptron to separate two moons: all
//! 400 points are right after 300 steps. A step, with its gradients and updates, is 42 ops in 26 loops
//! and kernels of one plan, which is made once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;

/// Everything is a matrix here: rows and columns.
type Shape = [usize; 2];

// ---- The op table: one row an op, which says all that is known of it.

struct Row {
    name: &'static str,
    meaning: Meaning,
    /// Gradients of the inputs from the result, the inputs and the gradient of the result.
    gradient: fn(&Tensor, &[Tensor], &Tensor) -> Vec<Tensor>,
}

enum Meaning {
    Leaf,
    /// Applied to each element.
    Scalar(fn(f32, f32) -> f32),
    /// Rows or columns repeated to the shape of the node.
    Broadcast,
    /// Rows or columns added up to the shape of the node.
    Sum,
    Transpose,
    MatMul,
}

static LEAF: Row = Row { name: "leaf", meaning: Meaning::Leaf, gradient: |_, _, _| vec![] };
static ADD: Row =
    Row { name: "add", meaning: Meaning::Scalar(|a, b| a + b), gradient: |_, _, g| vec![g.clone(), g.clone()] };
static SUB: Row =
    Row { name: "sub", meaning: Meaning::Scalar(|a, b| a - b), gradient: |_, _, g| vec![g.clone(), 0.0 - g] };
static MUL: Row =
    Row { name: "mul", meaning: Meaning::Scalar(|a, b| a * b), gradient: |_, x, g| vec![g * &x[1], g * &x[0]] };
static DIV: Row = Row {
    name: "div",
    meaning: Meaning::Scalar(|a, b| a / b),
    gradient: |y, x, g| vec![g / &x[1], 0.0 - g * y / &x[1]],
};
static EXP: Row = Row { name: "exp", meaning: Meaning::Scalar(|a, _| a.exp()), gradient: |y, _, g| vec![g * y] };
static LOG: Row = Row { name: "log", meaning: Meaning::Scalar(|a, _| a.ln()), gradient: |_, x, g| vec![g / &x[0]] };
static STEP: Row = Row {
    name: "step",
    meaning: Meaning::Scalar(|a, _| if a > 0.0 { 1.0 } else { 0.0 }),
    gradient: |_, _, g| vec![g * 0.0],
};
static SUM: Row = Row { name: "sum", meaning: Meaning::Sum, gradient: |_, x, g| vec![g.broadcast(x[0].shape())] };
static BROADCAST: Row =
    Row { name: "broadcast", meaning: Meaning::Broadcast, gradient: |_, x, g| vec![g.sum_to(x[0].shape())] };
static TRANSPOSE: Row = Row { name: "transpose", meaning: Meaning::Transpose, gradient: |_, _, g| vec![g.t()] };
static MATMUL: Row =
    Row { name: "matmul", meaning: Meaning::MatMul, gradient: |_, x, g| vec![g.matmul(&x[1].t()), x[0].t().matmul(g)] };

// ---- Tensors: handles to nodes, or the error that prevents one.

struct Node {
    /// Counts up: the order of the program, in which every node comes after its inputs.
    number: usize,
    row: &'static Row,
    inputs: Vec<Tensor>,
    shape: Shape,
    value: RefCell<Option<Rc<Vec<f32>>>>,
}

#[derive(Clone)]
struct Tensor(Result<Rc<Node>, Rc<str>>);

thread_local!(static NUMBER: Cell<usize> = const { Cell::new(0) });

impl Tensor {
    fn node(row: &'static Row, inputs: Vec<Tensor>, shape: Shape, value: Option<Rc<Vec<f32>>>) -> Tensor {
        let number = NUMBER.replace(NUMBER.get() + 1);
        Tensor(Ok(Rc::new(Node { number, row, inputs, shape, value: RefCell::new(value) })))
    }
    fn new(shape: Shape, value: Vec<f32>) -> Tensor {
        assert_eq!(value.len(), shape[0] * shape[1]);
        Tensor::node(&LEAF, vec![], shape, Some(Rc::new(value)))
    }
    /// An op checks shapes at once and adds a node; a bad call carries the caller's line along.
    #[track_caller]
    fn apply(row: &'static Row, inputs: &[&Tensor], shape: impl Fn(&[Shape]) -> Option<Shape>) -> Tensor {
        if let Some(bad) = inputs.iter().find(|t| t.0.is_err()) {
            return (*bad).clone();
        }
        let shapes: Vec<Shape> = inputs.iter().map(|t| t.shape()).collect();
        match shape(&shapes) {
            Some(shape) => Tensor::node(row, inputs.iter().map(|&t| t.clone()).collect(), shape, None),
            None => {
                let at = Location::caller();
                Tensor(Err(format!("{}:{}: {}: shapes {shapes:?} do not fit", at.file(), at.line(), row.name).into()))
            }
        }
    }
    fn shape(&self) -> Shape {
        self.0.as_ref().map_or([0, 0], |n| n.shape)
    }
    #[track_caller]
    fn scalar(row: &'static Row, a: &Tensor, b: &Tensor) -> Tensor {
        let (s, t) = (a.shape(), b.shape());
        let both = [s[0].max(t[0]), s[1].max(t[1])];
        Tensor::apply(row, &[&a.broadcast(both), &b.broadcast(both)], |s| (s[0] == s[1]).then_some(s[0]))
    }
    #[track_caller]
    fn broadcast(&self, to: Shape) -> Tensor {
        if self.shape() == to {
            return self.clone();
        }
        Tensor::apply(&BROADCAST, &[self], |s| (0..2).all(|i| s[0][i] == to[i] || s[0][i] == 1).then_some(to))
    }
    #[track_caller]
    fn sum_to(&self, to: Shape) -> Tensor {
        if self.shape() == to {
            return self.clone();
        }
        Tensor::apply(&SUM, &[self], |s| (0..2).all(|i| s[0][i] == to[i] || to[i] == 1).then_some(to))
    }
    #[track_caller]
    fn matmul(&self, other: &Tensor) -> Tensor {
        Tensor::apply(&MATMUL, &[self, other], |s| (s[0][1] == s[1][0]).then_some([s[0][0], s[1][1]]))
    }
    fn t(&self) -> Tensor {
        Tensor::apply(&TRANSPOSE, &[self], |s| Some([s[0][1], s[0][0]]))
    }
    fn exp(&self) -> Tensor {
        Tensor::scalar(&EXP, self, self)
    }
    fn log(&self) -> Tensor {
        Tensor::scalar(&LOG, self, self)
    }
    fn relu(&self) -> Tensor {
        self * Tensor::scalar(&STEP, self, self)
    }
    /// Looking at a value computes it.
    fn values(&self) -> Result<Rc<Vec<f32>>, Rc<str>> {
        evaluate(&[self])?;
        let node = self.0.as_ref().map_err(Rc::clone)?;
        Ok(node.value.borrow().clone().expect("evaluated"))
    }
}

impl From<&Tensor> for Tensor {
    fn from(t: &Tensor) -> Tensor {
        t.clone()
    }
}
impl From<f32> for Tensor {
    fn from(x: f32) -> Tensor {
        Tensor::new([1, 1], vec![x])
    }
}
macro_rules! operator {
    ($($trait:ident $method:ident $row:ident)*) => {$(
        impl<T: Into<Tensor>> std::ops::$trait<T> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: T) -> Tensor {
                Tensor::scalar(&$row, self, &other.into())
            }
        }
        impl<T: Into<Tensor>> std::ops::$trait<T> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: T) -> Tensor {
                Tensor::scalar(&$row, &self, &other.into())
            }
        }
        impl std::ops::$trait<&Tensor> for f32 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                Tensor::scalar(&$row, &self.into(), other)
            }
        }
        impl std::ops::$trait<Tensor> for f32 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                Tensor::scalar(&$row, &self.into(), &other)
            }
        }
    )*};
}
operator!(Add add ADD Sub sub SUB Mul mul MUL Div div DIV);

// ---- Differentiation: a function from graph to graph.

/// The gradients of a 1 × 1 tensor: walk the nodes against the order of the program, call the
/// rows' rules, add up.
fn grad(of: &Tensor, against: &[&Tensor]) -> Result<Vec<Tensor>, Rc<str>> {
    let root = of.0.as_ref().map_err(Rc::clone)?;
    let mut found: HashMap<usize, Tensor> = HashMap::from([(root.number, 1.0.into())]);
    for node in nodes_of(&[root], |_| true).iter().rev() {
        let Some(g) = found.get(&node.number).cloned() else { continue };
        let result = Tensor(Ok(node.clone()));
        for (input, g) in node.inputs.iter().zip((node.row.gradient)(&result, &node.inputs, &g)) {
            let number = input.0.as_ref().map_err(Rc::clone)?.number;
            let sum = found.get(&number).map_or(g.clone(), |had| had + &g);
            found.insert(number, sum);
        }
    }
    let of_one = |t: &&Tensor| {
        let node = t.0.as_ref().map_err(Rc::clone)?;
        found.get(&node.number).cloned().ok_or_else(|| "the value does not depend on this tensor".into())
    };
    against.iter().map(of_one).collect()
}

/// The nodes that the roots need, in the order of the program; `through` says where to look on.
fn nodes_of(roots: &[&Rc<Node>], through: impl Fn(&Node) -> bool) -> Vec<Rc<Node>> {
    let mut seen: HashMap<usize, Rc<Node>> = HashMap::new();
    let mut open: Vec<Rc<Node>> = roots.iter().map(|&n| n.clone()).collect();
    while let Some(node) = open.pop() {
        if seen.insert(node.number, node.clone()).is_none() && through(&node) {
            open.extend(node.inputs.iter().filter_map(|t| t.0.as_ref().ok().cloned()));
        }
    }
    let mut nodes: Vec<_> = seen.into_values().collect();
    nodes.sort_by_key(|n| n.number);
    nodes
}

// ---- Plans: what is run. A plan is made once for each structure of a graph.

/// A value while a plan runs: an input of the plan, or a block of its memory.
#[derive(Clone, Copy)]
enum Place {
    Input(usize),
    Block(usize),
}

enum Step {
    /// Elementwise ops that run as one loop; nothing between them goes through memory.
    Loop {
        shape: Shape,
        code: Vec<Code>,
        stores: Vec<(usize, usize)>,
    },
    Kernel {
        meaning: &'static Meaning,
        inputs: Vec<(Place, Shape)>,
        shape: Shape,
        into: usize,
    },
}

impl Step {
    fn ops(&self) -> usize {
        match self {
            Step::Loop { code, .. } => code.iter().filter(|c| matches!(c, Code::Apply(..))).count(),
            Step::Kernel { .. } => 1,
        }
    }
}

/// An instruction of a loop; its place in the code is the register it writes.
enum Code {
    /// An operand, which moves on by these steps from row to row and from column to column.
    Load(Place, usize, usize),
    Apply(fn(f32, f32) -> f32, usize, usize),
}

struct Plan {
    steps: Vec<Step>,
    /// Sizes of the blocks of memory.
    blocks: Vec<usize>,
    /// The blocks of the roots.
    results: Vec<usize>,
}

thread_local!(static PLANS: RefCell<HashMap<Vec<usize>, Rc<Plan>>> = RefCell::default());

/// Computes tensors together.
fn evaluate(tensors: &[&Tensor]) -> Result<(), Rc<str>> {
    let roots: Vec<&Rc<Node>> = tensors.iter().map(|t| t.0.as_ref().map_err(Rc::clone)).collect::<Result<_, _>>()?;
    let is_open = |n: &Node| n.value.borrow().is_none();
    let roots: Vec<&Rc<Node>> = roots.into_iter().filter(|n| is_open(n)).collect();
    if roots.is_empty() {
        return Ok(());
    }
    let nodes = nodes_of(&roots, is_open);
    let (open, known): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|n| is_open(n));

    // The structure: which op, which shape, which inputs. Values are not part of it.
    let place: HashMap<usize, usize> = known.iter().chain(&open).enumerate().map(|(i, n)| (n.number, i)).collect();
    let mut key = vec![known.len(), roots.len()];
    key.extend(known.iter().flat_map(|n| n.shape));
    for n in &open {
        key.extend([std::ptr::from_ref(n.row) as usize, n.shape[0], n.shape[1]]);
        key.extend(slots(n, &place));
    }
    key.extend(roots.iter().map(|n| place[&n.number]));
    let found = PLANS.with_borrow(|plans| plans.get(&key).cloned());
    let plan = found.unwrap_or_else(|| {
        let plan = Rc::new(compile(&known, &open, &roots, &place));
        PLANS.with_borrow_mut(|plans| plans.insert(key, plan.clone()));
        plan
    });

    let inputs: Vec<Rc<Vec<f32>>> = known.iter().map(|n| n.value.borrow().clone().expect("known")).collect();
    for (root, value) in roots.iter().zip(plan.run(&inputs)) {
        *root.value.borrow_mut() = Some(Rc::new(value));
    }
    Ok(())
}

fn slots<'a>(n: &'a Node, place: &'a HashMap<usize, usize>) -> impl Iterator<Item = usize> + 'a {
    n.inputs.iter().filter_map(|t| t.0.as_ref().ok()).map(|n| place[&n.number])
}

/// Makes a plan: cuts the graph into steps, gives values that are read by later steps a block of
/// memory, writes the code.
fn compile(known: &[Rc<Node>], open: &[Rc<Node>], roots: &[&Rc<Node>], place: &HashMap<usize, usize>) -> Plan {
    let first = known.len();
    let cuts = cut(open);
    let mut last_step = vec![None; open.len()];
    for (step, members) in cuts.iter().enumerate() {
        for slot in members.iter().flat_map(|&i| slots(&open[i], place)) {
            if slot >= first && !members.contains(&(slot - first)) {
                last_step[slot - first] = Some(step);
            }
        }
    }
    roots.iter().for_each(|n| last_step[place[&n.number] - first] = Some(usize::MAX));
    let (block_of, blocks) = allocate(&cuts, &last_step, open);

    let operand = |slot: usize| match slot {
        s if s < first => (Place::Input(s), known[s].shape),
        s => (Place::Block(block_of[s - first]), open[s - first].shape),
    };
    let steps = cuts.iter().map(|members| {
        let n = &open[members[0]];
        if !is_loop(n) {
            let inputs = slots(n, place).map(operand).collect();
            return Step::Kernel { meaning: &n.row.meaning, inputs, shape: n.shape, into: block_of[members[0]] };
        }
        let (mut code, mut stores) = (Vec::new(), Vec::new());
        let mut register: HashMap<usize, usize> = HashMap::new();
        for &i in members {
            let mut load = |slot: usize| {
                *register.entry(slot).or_insert_with(|| {
                    let (from, shape) = operand(slot);
                    let rows = if shape[0] == 1 { 0 } else { shape[1] };
                    code.push(Code::Load(from, rows, usize::from(shape[1] > 1)));
                    code.len() - 1
                })
            };
            let operands: Vec<usize> = slots(&open[i], place).map(&mut load).collect();
            let at = match open[i].row.meaning {
                Meaning::Scalar(f) => {
                    code.push(Code::Apply(f, operands[0], operands[1]));
                    code.len() - 1
                }
                _ => operands[0],
            };
            register.insert(first + i, at);
            if last_step[i].is_some() {
                stores.push((at, block_of[i]));
            }
        }
        Step::Loop { shape: n.shape, code, stores }
    });
    Plan { steps: steps.collect(), blocks, results: roots.iter().map(|n| block_of[place[&n.number] - first]).collect() }
}

/// Elementwise ops run in one loop with their neighbors of the same shape. A broadcast is one of
/// them: it is a way to read an operand.
fn is_loop(n: &Node) -> bool {
    matches!(n.row.meaning, Meaning::Scalar(_) | Meaning::Broadcast)
}

/// The steps, as numbers of their nodes.
fn cut(open: &[Rc<Node>]) -> Vec<Vec<usize>> {
    let mut steps: Vec<Vec<usize>> = Vec::new();
    for (i, n) in open.iter().enumerate() {
        match steps.last_mut() {
            Some(step) if is_loop(n) && is_loop(&open[step[0]]) && open[step[0]].shape == n.shape => step.push(i),
            _ => steps.push(vec![i]),
        }
    }
    steps
}

/// Blocks for the values that a later step reads, used again when the last reader has run.
fn allocate(steps: &[Vec<usize>], last_step: &[Option<usize>], open: &[Rc<Node>]) -> (Vec<usize>, Vec<usize>) {
    let (mut block_of, mut blocks, mut free) = (vec![0; open.len()], Vec::new(), Vec::<usize>::new());
    for (step, members) in steps.iter().enumerate() {
        for &i in members.iter().filter(|&&i| last_step[i].is_some()) {
            let size = open[i].shape[0] * open[i].shape[1];
            block_of[i] = match free.iter().position(|&b| blocks[b] == size) {
                Some(p) => free.swap_remove(p),
                None => {
                    blocks.push(size);
                    blocks.len() - 1
                }
            };
        }
        free.extend((0..open.len()).filter(|&i| last_step[i] == Some(step)).map(|i| block_of[i]));
    }
    (block_of, blocks)
}

// ---- The device.

impl Plan {
    fn run(&self, inputs: &[Rc<Vec<f32>>]) -> Vec<Vec<f32>> {
        let mut blocks: Vec<Vec<f32>> = self.blocks.iter().map(|&n| vec![0.0; n]).collect();
        for step in &self.steps {
            match step {
                Step::Loop { shape, code, stores } => run_loop(*shape, code, stores, inputs, &mut blocks),
                Step::Kernel { meaning, inputs: operands, shape, into } => {
                    let mut out = std::mem::take(&mut blocks[*into]);
                    let (a, a_shape) = (read(operands[0].0, inputs, &blocks), operands[0].1);
                    match meaning {
                        Meaning::MatMul => matmul(a, read(operands[1].0, inputs, &blocks), a_shape, shape[1], &mut out),
                        Meaning::Sum => sum(a, a_shape, *shape, &mut out),
                        _ => transpose(a, a_shape, &mut out),
                    }
                    blocks[*into] = out;
                }
            }
        }
        self.results.iter().map(|&b| blocks[b].clone()).collect()
    }
}

fn read<'a>(place: Place, inputs: &'a [Rc<Vec<f32>>], blocks: &'a [Vec<f32>]) -> &'a [f32] {
    match place {
        Place::Input(i) => &inputs[i],
        Place::Block(b) => &blocks[b],
    }
}

/// Runs all the code on a few columns before it goes on to the next ones, so that what lies
/// between the ops stays in the cache.
fn run_loop(shape: Shape, code: &[Code], stores: &[(usize, usize)], inputs: &[Rc<Vec<f32>>], blocks: &mut [Vec<f32>]) {
    const TILE: usize = 64;
    let mut registers = vec![[0.0; TILE]; code.len()];
    for row in 0..shape[0] {
        for start in (0..shape[1]).step_by(TILE) {
            let n = TILE.min(shape[1] - start);
            for (k, c) in code.iter().enumerate() {
                let (done, rest) = registers.split_at_mut(k);
                let out = &mut rest[0][..n];
                match *c {
                    Code::Load(place, rows, columns) => {
                        let source = &read(place, inputs, blocks)[row * rows..];
                        out.iter_mut().enumerate().for_each(|(i, x)| *x = source[(start + i) * columns]);
                    }
                    Code::Apply(f, a, b) => {
                        out.iter_mut().zip(&done[a]).zip(&done[b]).for_each(|((x, &a), &b)| *x = f(a, b));
                    }
                }
            }
            for &(register, block) in stores {
                let at = row * shape[1] + start;
                blocks[block][at..at + n].copy_from_slice(&registers[register][..n]);
            }
        }
    }
}

fn matmul(a: &[f32], b: &[f32], [m, k]: Shape, n: usize, out: &mut [f32]) {
    out.fill(0.0);
    for i in 0..m {
        for l in 0..k {
            let x = a[i * k + l];
            out[i * n..][..n].iter_mut().zip(&b[l * n..]).for_each(|(y, b)| *y += x * b);
        }
    }
}

fn sum(a: &[f32], [m, n]: Shape, to: Shape, out: &mut [f32]) {
    out.fill(0.0);
    for i in 0..m {
        for j in 0..n {
            out[i.min(to[0] - 1) * to[1] + j.min(to[1] - 1)] += a[i * n + j];
        }
    }
}

fn transpose(a: &[f32], [m, n]: Shape, out: &mut [f32]) {
    for i in 0..m {
        for j in 0..n {
            out[j * m + i] = a[i * n + j];
        }
    }
}

// ---- A program.

struct Net {
    params: [Tensor; 4],
}
impl Net {
    fn scores(&self, x: &Tensor) -> Tensor {
        let [w1, b1, w2, b2] = &self.params;
        (x.matmul(w1) + b1).relu().matmul(w2) + b2
    }
    /// Mean of -log p(class); the classes are rows with a 1.
    fn loss(&self, x: &Tensor, classes: &Tensor) -> Tensor {
        let scores = self.scores(x);
        let rows = scores.shape()[0];
        let logs = &scores - scores.exp().sum_to([rows, 1]).log();
        0.0 - (logs * classes).sum_to([1, 1]) / rows as f32
    }
}

/// Two half circles that reach into each other.
fn moons(n: usize) -> (Tensor, Tensor) {
    let (mut points, mut classes) = (Vec::new(), Vec::new());
    for i in 0..n {
        let (class, angle) = (i % 2, i as f32 / n as f32 * std::f32::consts::PI);
        let (x, y) = (angle.cos(), angle.sin());
        points.extend(if class == 0 { [x, y] } else { [1.0 - x, 0.4 - y] });
        classes.extend([1.0 - class as f32, class as f32]);
    }
    (Tensor::new([n, 2], points), Tensor::new([n, 2], classes))
}

fn main() -> Result<(), Rc<str>> {
    let mut seed = 1u32;
    let mut random = move |shape: Shape| {
        let mut draw = |_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        Tensor::new(shape, (0..shape[0] * shape[1]).map(&mut draw).collect())
    };
    let (x, classes) = moons(400);
    let zeros = |n| Tensor::new([1, n], vec![0.0; n]);
    let mut net = Net { params: [random([2, 32]), zeros(32), random([32, 2]), zeros(2)] };

    // A wrong program says where it is wrong, when its value is asked for.
    println!("{}", net.params[0].matmul(&x).values().expect_err("32 is not 400"));
    check_gradient(&net, &x, &classes)?;

    PLANS.with_borrow_mut(HashMap::clear);
    for step in 0..=300 {
        let loss = net.loss(&x, &classes);
        let gradients = grad(&loss, &net.params.each_ref())?;
        let updated: Vec<Tensor> = net.params.iter().zip(&gradients).map(|(p, g)| p - g * 0.5).collect();
        evaluate(&updated.iter().chain([&loss]).collect::<Vec<_>>())?;
        for (p, new) in net.params.iter_mut().zip(&updated) {
            *p = Tensor::new(new.shape(), new.values()?.to_vec());
        }
        if step % 100 == 0 {
            println!("step {step:3}: loss {:.4}", loss.values()?[0]);
        }
    }
    PLANS.with_borrow(|plans| {
        let plan = plans.values().next().expect("one structure was run");
        let ops: usize = plan.steps.iter().map(Step::ops).sum();
        println!(
            "{} plan: {ops} ops in {} steps, {} blocks of memory",
            plans.len(),
            plan.steps.len(),
            plan.blocks.len()
        );
    });
    let (scores, classes) = (net.scores(&x).values()?, classes.values()?);
    let right = scores.chunks(2).zip(classes.chunks(2)).filter(|(s, c)| (s[0] > s[1]) == (c[0] > c[1])).count();
    println!("{right} of {} points are right", classes.len() / 2);
    assert!(right >= 390, "the network learns the moons");
    Ok(())
}

/// The gradient of a few weights against finite differences.
fn check_gradient(net: &Net, x: &Tensor, classes: &Tensor) -> Result<(), Rc<str>> {
    let gradient = grad(&net.loss(x, classes), &[&net.params[2]])?.remove(0).values()?;
    for i in [0, 17, 40] {
        let loss_with = |change: f32| {
            let mut w = net.params[2].values()?.to_vec();
            w[i] += change;
            let [w1, b1, _, b2] = net.params.clone();
            let moved = Net { params: [w1, b1, Tensor::new([32, 2], w), b2] };
            Ok::<f32, Rc<str>>(moved.loss(x, classes).values()?[0])
        };
        let slope = (loss_with(0.05)? - loss_with(-0.05)?) / 0.1;
        assert!((slope - gradient[i]).abs() < 1e-3, "weight {i}: {slope} by differences, {} by rules", gradient[i]);
    }
    Ok(())
}
