//! Random graphs, the same for the same seed, and smaller ones that still fail.
//!
//! Values stay within bounds and functions are entered inside the interval their row names, so
//! that rounding stays rounding: a device that computes in another order must still agree. Ops
//! that jump (comparisons, rounding) only see values that are exact: inputs and views of them. Some
//! sizes are zero, and some selections choose nothing.

use ir::{Attrs, CONST, DType, Graph, INPUT, Literal, Meaning, Op, Out, Shape, Site, Slot, Type, Value};
use ops::{Result, Tensor};
use runtime::reference;

/// A graph with values for its inputs.
#[derive(Clone)]
pub struct Sample {
    /// The graph.
    pub graph: Graph,
    /// A value for each input.
    pub inputs: Vec<Literal>,
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.graph)?;
        self.inputs.iter().enumerate().try_for_each(|(i, l)| writeln!(f, "# input {i}: {l:?}"))
    }
}

/// Small numbers that are the same everywhere.
struct Dice(u64);
impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
    /// In (-1, 1).
    fn number(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// A value of the graph under construction.
#[derive(Clone, Copy)]
struct Known {
    slot: Slot,
    /// No element is larger.
    bound: f64,
    /// Free of rounding.
    exact: bool,
}

struct Maker {
    graph: Graph,
    inputs: Vec<Literal>,
    dice: Dice,
    known: Vec<Known>,
    dtype: DType,
}

fn row(name: &str) -> &'static Op {
    ops::find(name).unwrap_or_else(|| panic!("the table has no op {name}"))
}

/// Elementwise rows that jump where their argument is continuous.
const JUMPS: [&str; 8] = ["rem", "fmod", "floor_divide", "copysign", "sign", "fmax", "fmin", "polygamma"];

/// A graph of at most about `60` nodes that `seed` determines.
pub fn random_graph(seed: u64) -> Sample {
    let mut dice = Dice(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
    let dtype = dice.pick(&[DType::F64, DType::F32, DType::F64]);
    let mut m = Maker { graph: Graph::new(), inputs: vec![], dice, known: vec![], dtype };
    for k in 0..2 + m.dice.below(3) {
        m.input(&format!("x{k}"));
    }
    let nodes = 4 + m.dice.below(50);
    let mut tries = 0;
    while m.graph.nodes.len() < nodes && tries < 400 {
        tries += 1;
        // A call that the op refuses adds nothing.
        let _ = m.step();
    }
    let asked = 1 + m.dice.below(3);
    let last = m.known.len();
    for k in 0..asked {
        let s = if k == 0 { m.known[last - 1] } else { m.any() };
        m.graph.outputs.push(s.slot);
    }
    Sample { graph: m.graph, inputs: m.inputs }
}

impl Maker {
    fn input(&mut self, name: &str) {
        let rank = self.dice.below(4);
        let shape: Shape = (0..rank).map(|_| self.size()).collect();
        let data: Vec<f64> = (0..shape.count()).map(|_| self.dice.number()).collect();
        self.inputs.push(Literal::from_f64(self.dtype, shape.clone(), &data));
        let slot = self.graph.input(name, &Type::new(self.dtype, shape), Site::UNKNOWN);
        self.known.push(Known { slot, bound: 1.0, exact: true });
    }
    fn size(&mut self) -> usize {
        if self.dice.below(24) == 0 { 0 } else { self.dice.pick(&[1, 2, 3, 4, 5, 8, 17]) }
    }
    /// A known value: rarely a zero-size one, as whatever uses it is empty as well.
    fn any(&mut self) -> Known {
        let k = self.recent();
        let is_kept = self.shape(k).count() > 0 || self.dice.below(4) == 0;
        if is_kept { k } else { self.recent() }
    }
    /// Later values more often: graphs become deep.
    fn recent(&mut self) -> Known {
        let n = self.known.len();
        let back = self.dice.below(n).min(self.dice.below(n));
        self.known[n - 1 - back]
    }
    fn shape(&self, k: Known) -> Shape {
        self.graph.ty(k.slot).shape.clone()
    }
    fn push(&mut self, op: &'static Op, args: &[Slot], attrs: Attrs) -> Result<Slot> {
        let slot = self.graph.push(op, args, attrs, Site::UNKNOWN)?;
        if self.graph.ty(slot).shape.count() > 4096 {
            self.graph.nodes.pop();
            return Err(ops::Error::shape("too large for a sample"));
        }
        Ok(slot)
    }
    fn add(&mut self, slot: Slot, bound: f64, exact: bool) {
        self.known.push(Known { slot, bound, exact });
    }
    fn constant(&mut self, x: f64) -> Result<Slot> {
        self.push(&CONST, &[], Attrs::new().with("value", Literal::scalar_f64(self.dtype, x)))
    }
    /// The value pressed into (-1, 1).
    fn pressed(&mut self, k: Known) -> Result<Known> {
        let slot = self.push(row("tanh"), &[k.slot], Attrs::new())?;
        Ok(Known { slot, bound: 1.0, exact: false })
    }
    /// The value moved into an interval.
    fn within(&mut self, k: Known, (lo, hi): (f64, f64)) -> Result<Slot> {
        let t = self.pressed(k)?;
        let (half, middle) = (self.constant((hi - lo) / 2.0)?, self.constant((hi + lo) / 2.0)?);
        let scaled = self.push(row("mul"), &[t.slot, half], Attrs::new())?;
        self.push(row("add"), &[scaled, middle], Attrs::new())
    }

    fn step(&mut self) -> Result<()> {
        match self.dice.below(13) {
            0..=2 => self.mild(),
            3 | 4 => self.function(),
            5 => self.composite(),
            6 | 7 => self.view(),
            8 | 9 => self.reduction(),
            10 => self.choice(),
            11 => self.selection(),
            _ => self.kernel(),
        }
    }

    /// Arithmetic without a detour, as long as values stay small.
    fn mild(&mut self) -> Result<()> {
        let (a, b) = (self.any(), self.any());
        let name = self.dice.pick(&["add", "sub", "mul", "maximum", "minimum", "neg", "abs", "sin", "cos", "square"]);
        let bound = match name {
            "add" | "sub" => a.bound + b.bound,
            "mul" => a.bound * b.bound,
            "square" => a.bound * a.bound,
            "sin" | "cos" => 1.0,
            _ => a.bound.max(b.bound),
        };
        if bound > 8.0 {
            let k = self.pressed(a)?;
            self.known.push(k);
            return Ok(());
        }
        let op = row(name);
        let args = [a.slot, b.slot];
        let arity = op.scalar().map_or(1, |s| s.arity);
        let slot = self.push(op, &args[..arity], Attrs::new())?;
        self.add(slot, bound, false);
        Ok(())
    }

    /// Any smooth elementwise row, inside its interval.
    fn function(&mut self) -> Result<()> {
        let smooth = |op: &&'static Op| {
            let Meaning::Scalar(s) = op.meaning else { return false };
            matches!(s.out, Out::Same | Out::Float)
                && !matches!(op.grad, ir::Grad::Zero)
                && op.attrs.is_empty()
                && !JUMPS.contains(&op.name)
                && s.domain.0.is_finite()
        };
        let rows: Vec<&'static Op> = ops::table().filter(smooth).collect();
        let op = self.dice.pick(&rows);
        let Some(s) = op.scalar() else { return Ok(()) };
        let mut args = Vec::new();
        for _ in 0..s.arity {
            let k = self.any();
            args.push(self.within(k, s.domain)?);
        }
        let slot = self.push(op, &args, Attrs::new())?;
        let k = self.pressed(Known { slot, bound: f64::INFINITY, exact: false })?;
        self.known.push(k);
        Ok(())
    }

    /// A composite that takes one value and no attributes.
    fn composite(&mut self) -> Result<()> {
        let rows: Vec<&'static Op> = ops::table()
            .filter(|op| matches!(op.meaning, Meaning::Composite(_)) && op.attrs.is_empty())
            .filter(|op| (op.cases)().first().is_some_and(|c| c.inputs.len() == 1))
            .filter(|op| !["frac", "angle", "logit", "hardshrink", "logsumexp"].contains(&op.name))
            .collect();
        let (op, k) = (self.dice.pick(&rows), self.any());
        let slot = self.push(op, &[k.slot], Attrs::new())?;
        if self.graph.ty(slot).dtype == self.dtype {
            let k = self.pressed(Known { slot, bound: f64::INFINITY, exact: false })?;
            self.known.push(k);
        }
        Ok(())
    }

    fn view(&mut self) -> Result<()> {
        let k = self.any();
        let shape = self.shape(k);
        let rank = shape.rank();
        let (op, attrs) = match self.dice.below(5) {
            0 => {
                let mut axes: Vec<i64> = (0..rank as i64).collect();
                (0..rank).rev().for_each(|i| axes.swap(i, self.dice.below(i + 1)));
                ("permute", Attrs::new().with("axes", &axes))
            }
            1 => (
                "flip",
                Attrs::new().with("axes", &(0..rank as i64).filter(|_| self.dice.below(2) == 0).collect::<Vec<_>>()),
            ),
            2 => ("reshape", Attrs::new().with("shape", &self.reshaped(&shape))),
            3 => {
                let lead = self.dice.pick(&[1usize, 2, 3]);
                let to: Vec<usize> = [lead].into_iter().chain(shape.iter().copied()).collect();
                ("broadcast", Attrs::new().with("shape", &to))
            }
            _ => {
                let (mut starts, mut sizes, mut steps) = (vec![], vec![], vec![]);
                for &d in shape.iter() {
                    let step = self.dice.pick(&[1i64, 1, 2, -1]);
                    let size = 1 + self.dice.below(d.div_ceil(2));
                    let size = if step == 2 { size } else { size.min(d) };
                    let size = if d == 0 || self.dice.below(16) == 0 { 0 } else { size };
                    starts.push(if step < 0 && d > 0 { d as i64 - 1 } else { 0 });
                    sizes.push(size as i64);
                    steps.push(step);
                }
                ("slice", Attrs::new().with("starts", &starts).with("sizes", &sizes).with("steps", &steps))
            }
        };
        let slot = self.push(row(op), &[k.slot], attrs)?;
        self.add(slot, k.bound, k.exact);
        Ok(())
    }
    /// Another shape of the same size: two dimensions made one, or one split.
    fn reshaped(&mut self, shape: &Shape) -> Vec<usize> {
        let mut dims = shape.to_vec();
        if dims.len() > 1 && self.dice.below(2) == 0 {
            let i = self.dice.below(dims.len() - 1);
            let d = dims.remove(i);
            dims[i] *= d;
        } else {
            let at = self.dice.below(dims.len() + 1);
            dims.insert(at, 1);
            if let Some(d) = dims.iter().position(|d| d % 2 == 0) {
                dims[d] /= 2;
                dims[at] *= 2;
            }
        }
        dims
    }

    fn reduction(&mut self) -> Result<()> {
        let k = self.any();
        let k = if k.bound > 1.0 { self.pressed(k)? } else { k };
        let rank = self.shape(k).rank() as i64;
        let axes: Vec<i64> = (0..rank).filter(|_| self.dice.below(2) == 0).collect();
        let name = self.dice.pick(&["sum", "max", "min", "sum", "mean", "prod"]);
        // The mean of nothing is NaN, which keeps to no bound.
        let name = if self.shape(k).count() == 0 && name == "mean" { "sum" } else { name };
        let attrs = Attrs::new().with("axes", &axes);
        let slot = self.push(row(name), &[k.slot], attrs)?;
        let n = self.shape(k).count().max(1) as f64;
        let scale = self.constant(1.0 / n)?;
        let slot = if name == "sum" { self.push(row("mul"), &[slot, scale], Attrs::new())? } else { slot };
        self.add(slot, 1.0, false);
        Ok(())
    }

    /// One or the other, by a comparison of exact values.
    fn choice(&mut self) -> Result<()> {
        let exact: Vec<Known> = self.known.iter().filter(|k| k.exact).copied().collect();
        let (a, b) = (self.dice.pick(&exact), self.dice.pick(&exact));
        let name = self.dice.pick(&["gt", "lt", "ge", "le", "eq", "ne"]);
        let condition = self.push(row(name), &[a.slot, b.slot], Attrs::new())?;
        let (x, y) = (self.any(), self.any());
        let slot = self.push(row("where"), &[condition, x.slot, y.slot], Attrs::new())?;
        self.add(slot, x.bound.max(y.bound), x.exact && y.exact);
        Ok(())
    }

    /// Slices or elements chosen by an index, perhaps of nothing, as they are or added back.
    fn selection(&mut self) -> Result<()> {
        let k = self.any();
        let shape = self.shape(k);
        if shape.rank() == 0 {
            return Ok(());
        }
        let at = self.dice.below(shape.rank());
        let count = if shape[at] == 0 { 0 } else { self.dice.pick(&[0, 0, 1, 2, 5]) };
        let (is_elements, is_added) = (self.dice.below(2) == 0, self.dice.below(2) == 0);
        let mut places = Shape::new(&[count]);
        if is_elements {
            places = shape.clone();
            places.dims_mut()[at] = count;
        }
        let index: Vec<i64> = (0..places.count()).map(|_| self.dice.below(shape[at]) as i64).collect();
        let index = Literal::from_i64(DType::I64, places, &index);
        let index = self.push(&CONST, &[], Attrs::new().with("value", index))?;
        let along = Attrs::new().with("axis", at as i64);
        let (choose, add) = if is_elements { ("gather", "scatter_add") } else { ("take", "index_add") };
        let slot = self.push(row(choose), &[k.slot, index], along.clone())?;
        if !is_added {
            self.add(slot, k.bound, k.exact);
            return Ok(());
        }
        let slot = self.push(row(add), &[k.slot, index, slot], along)?;
        let k = self.pressed(Known { slot, bound: f64::INFINITY, exact: false })?;
        self.known.push(k);
        Ok(())
    }

    fn kernel(&mut self) -> Result<()> {
        let (a, b) = (self.any(), self.any());
        let rank = self.shape(a).rank();
        let axis = self.dice.below(rank) as i64;
        match self.dice.below(4) {
            0 | 1 => {
                // The right side is made to fit: a product of the value with its own transpose.
                let swap: Vec<i64> =
                    (0..rank as i64).map(|i| if i < rank as i64 - 2 { i } else { 2 * rank as i64 - 3 - i }).collect();
                let t = self.push(row("permute"), &[a.slot], Attrs::new().with("axes", &swap))?;
                let right = if self.graph.ty(b.slot) == self.graph.ty(t) { b.slot } else { t };
                let slot = self.push(row("matmul"), &[a.slot, right], Attrs::new())?;
                let k = self.pressed(Known { slot, bound: f64::INFINITY, exact: false })?;
                self.known.push(k);
            }
            2 => {
                let slot = self.push(row("concat"), &[a.slot, b.slot, a.slot], Attrs::new().with("axis", axis))?;
                self.add(slot, a.bound.max(b.bound), a.exact && b.exact);
            }
            _ => {
                let some: Vec<i64> = (0..rank).map(|_| self.dice.below(3) as i64).collect();
                let attrs = Attrs::new().with("lo", &some).with("hi", &vec![1i64; rank]).with("value", 0.25);
                let slot = self.push(row("pad"), &[a.slot], attrs)?;
                self.add(slot, a.bound.max(0.25), a.exact);
            }
        }
        Ok(())
    }
}

/// The sample that also asks for the gradient of the sum of its outputs with respect to each input.
pub fn with_gradients(s: &Sample) -> Result<Sample> {
    let leaves: Vec<Value> = s.inputs.iter().map(|l| Value::data(l.clone(), true, Site::UNKNOWN)).collect();
    let mut asked: Vec<Tensor> = s.graph.inline(&leaves)?.into_iter().map(Tensor::from).collect();
    let leaves: Vec<Tensor> = leaves.into_iter().map(Tensor::from).collect();
    let sum = asked.iter().map(|y| y.sum(..)).reduce(|a, b| a + b).ok_or_else(|| ops::Error::value("no outputs"))?;
    asked.extend(ops::grad(&sum, &leaves)?);
    let asked = asked.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()?;
    let c = ir::collect(&asked, ir::Collect::Now)?;
    let inputs = c.leaves.iter().map(|v| v.buffer().ok_or_else(|| ops::Error::bug("a leaf without a value"))?.read());
    Ok(Sample { inputs: inputs.collect::<Result<_>>()?, graph: c.graph })
}

/// The smallest sample found that still fails: only one output is asked for, and node after node
/// becomes an input with the value the reference gives it.
pub fn shrink(sample: &Sample, fails: &dyn Fn(&Sample) -> bool) -> Sample {
    let mut best = sample.clone();
    for &out in &sample.graph.outputs {
        let mut one = sample.clone();
        one.graph.outputs = vec![out];
        if let Some(one) = tidied(&one).filter(fails) {
            best = one;
            break;
        }
    }
    let mut at = best.graph.nodes.len();
    while at > 0 {
        at -= 1;
        if at >= best.graph.nodes.len() || best.graph.nodes[at].op == &INPUT {
            continue;
        }
        if let Some(smaller) = given(&best, at).and_then(|s| tidied(&s)).filter(fails) {
            at = at.min(smaller.graph.nodes.len());
            best = smaller;
        }
    }
    best
}

/// The sample with a node's value given from outside.
fn given(s: &Sample, at: usize) -> Option<Sample> {
    let n = &s.graph.nodes[at];
    if n.outs.len() != 1 || s.graph.outputs.iter().any(|o| o.node as usize == at) {
        return None;
    }
    let mut asked = s.graph.clone();
    asked.outputs = vec![Slot::new(at, 0)];
    let value = reference::run(&asked, &s.inputs).ok()?.pop()?;
    let mut out = s.clone();
    let name = format!("was {}", n.op.name);
    let mut scratch = Graph::new();
    scratch.input(&name, &n.outs[0], n.site);
    out.graph.nodes[at] = scratch.nodes.pop()?;
    let place = out.graph.inputs.iter().filter(|&&i| (i as usize) < at).count();
    out.graph.inputs.insert(place, at as u32);
    out.inputs.insert(place, value);
    Some(out)
}

/// Without dead nodes and unused inputs.
fn tidied(s: &Sample) -> Option<Sample> {
    let pruned = passes::prune(&s.graph);
    let uses = pruned.uses();
    let mut new = Graph::new();
    let mut inputs = Vec::new();
    let mut map = Vec::new();
    let mut values = s.inputs.iter();
    for (n, &uses) in pruned.nodes.iter().zip(&uses) {
        let value = if n.op == &INPUT { values.next() } else { None };
        if n.op == &INPUT && uses == 0 {
            map.push(u32::MAX);
            continue;
        }
        let mut n = n.clone();
        n.inputs.iter_mut().for_each(|s| s.node = map[s.node as usize]);
        if let Some(value) = value {
            new.inputs.push(new.nodes.len() as u32);
            inputs.push(value.clone());
        }
        map.push(new.nodes.len() as u32);
        new.nodes.push(n);
    }
    new.outputs = pruned.outputs.iter().map(|s| Slot { node: map[s.node as usize], out: s.out }).collect();
    new.verify().ok()?;
    Some(Sample { graph: new, inputs })
}
