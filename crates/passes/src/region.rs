//! What a graph is cut into: loops over one iteration space, and single kernels.
//!
//! A loop's space is a list of sizes, outer ones first; the last `inner` of them make up a *row*.
//! Each step's value is either *full* (one number a point of the space) or *row* (one a row).

use crate::View;
use ir::{Graph, Literal, Monoid, Slot};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::fmt::Write;

/// A piece of a graph that a device runs in one go.
#[derive(Clone, Debug)]
pub enum Region {
    /// Elementwise nodes and reductions over one iteration space.
    Loop(Loop),
    /// One kernel, claimed composite or control node, with the views of its operands and results.
    Call {
        /// Index of the node.
        node: usize,
        /// Where its operands lie.
        args: Vec<View>,
        /// Where its results go: memory of their own, or parts of another node's result.
        outs: Vec<View>,
    },
}

/// Elementwise nodes and reductions over one iteration space.
#[derive(Clone, Debug, Default)]
pub struct Loop {
    /// Sizes of the space, each greater than 1, outer ones first.
    pub dims: Vec<usize>,
    /// How many of the last sizes make up a row.
    pub inner: usize,
    /// What is computed at each point, in order.
    pub steps: Vec<Step>,
    /// What is kept.
    pub stores: Vec<Store>,
    /// The graph's nodes it computes, in order.
    pub nodes: Vec<u32>,
    /// The kernel whose result it takes piece by piece.
    pub producer: Option<Producer>,
}

/// A kernel that runs together with the loop that alone reads its result: each piece is taken
/// while it is still in cache.
#[derive(Clone, Debug)]
pub struct Producer {
    /// Index of the kernel's node.
    pub node: usize,
    /// Where its operands lie.
    pub args: Vec<View>,
}

impl Producer {
    /// The value that the loop takes.
    pub fn slot(&self) -> Slot {
        Slot::new(self.node, 0)
    }
    /// True if the kernel reads a value.
    pub fn reads(&self, s: Slot) -> bool {
        self.args.iter().any(|p| p.root == s)
    }
}

/// One step of a loop.
#[derive(Clone, Debug)]
pub enum Step {
    /// Reads a stored value.
    Load {
        /// Which.
        root: Slot,
        /// Elements to step in each dimension of the space.
        strides: SmallVec<[isize; 4]>,
        /// Position of the first element.
        offset: usize,
    },
    /// A constant of one element.
    Const(Literal),
    /// An elementwise node.
    Scalar {
        /// Index of the node.
        node: u32,
        /// Its operands, by step.
        args: SmallVec<[u32; 3]>,
        /// One value a row instead of one a point.
        row: bool,
    },
    /// A reduction.
    Reduce {
        /// Index of the node.
        node: u32,
        /// How values are combined.
        monoid: Monoid,
        /// Its operand, by step.
        arg: u32,
        /// The operand has one value a row.
        row: bool,
        /// Which dimensions are combined.
        along: Along,
        /// The result exists only after the whole loop; no step uses it.
        after: bool,
    },
}

/// Which dimensions of a loop a reduction combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// Each row to one value.
    Row,
    /// All rows to one.
    Column,
    /// Everything to one value.
    All,
}

/// A value a loop keeps.
#[derive(Clone, Debug)]
pub struct Store {
    /// The node's output.
    pub slot: Slot,
    /// The step that computes it.
    pub step: u32,
    /// Elements to step in each dimension of the space; meaningless for results that exist only
    /// after the loop, which are contiguous.
    pub strides: SmallVec<[isize; 4]>,
    /// Position of the first element; the loop's own values begin at 0, parts of a joined one do not.
    pub offset: usize,
}

impl Region {
    /// The stored values it reads.
    pub fn reads(&self) -> SmallVec<[Slot; 4]> {
        match self {
            Region::Loop(l) => {
                let fed = l.producer.as_ref().map(Producer::slot);
                let loads =
                    l.steps.iter().filter_map(|s| if let Step::Load { root, .. } = s { Some(*root) } else { None });
                let operands = l.producer.iter().flat_map(|f| f.args.iter().map(|p| p.root));
                loads.filter(|&s| Some(s) != fed).chain(operands).collect()
            }
            Region::Call { args, .. } => args.iter().map(|p| p.root).collect(),
        }
    }
    /// The values it stores, or stores parts of.
    pub fn writes(&self) -> SmallVec<[Slot; 4]> {
        let mut all: SmallVec<[Slot; 4]> = match self {
            Region::Loop(l) => {
                l.producer.as_ref().map(Producer::slot).into_iter().chain(l.stores.iter().map(|s| s.slot)).collect()
            }
            Region::Call { outs, .. } => outs.iter().map(|p| p.root).collect(),
        };
        if all.len() > 1 {
            let mut seen: FxHashSet<Slot> = FxHashSet::default();
            all.retain(|s| seen.insert(*s));
        }
        all
    }
    /// The graph's nodes it computes.
    pub fn nodes(&self) -> SmallVec<[u32; 4]> {
        match self {
            Region::Loop(l) => l.producer.iter().map(|f| f.node as u32).chain(l.nodes.iter().copied()).collect(),
            Region::Call { node, .. } => SmallVec::from_slice(&[*node as u32]),
        }
    }
}

impl Loop {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.dims[..self.dims.len() - self.inner].iter().product()
    }
    /// How many points a row has.
    pub fn columns(&self) -> usize {
        self.dims[self.dims.len() - self.inner..].iter().product()
    }

    /// The loop as text, one step a line: `%3 = mul %1 %2`, rows marked `[row]`.
    pub fn text(&self, graph: &Graph) -> String {
        let (outer, inner) = self.dims.split_at(self.dims.len() - self.inner);
        let mut s = format!("loop {outer:?} x {inner:?}");
        if let Some(f) = &self.producer {
            let _ = write!(s, " fed by %{} {}", f.node, graph.nodes[f.node].op.name);
        }
        s.push('\n');
        for (i, step) in self.steps.iter().enumerate() {
            let _ = match step {
                Step::Load { root, strides, offset } => {
                    let at = if *offset > 0 { format!(" from {offset}") } else { String::new() };
                    writeln!(s, "  %{i} = load {}.{} by {:?}{at}", root.node, root.out, strides.as_slice())
                }
                Step::Const(l) => writeln!(s, "  %{i} = const {l:?}"),
                Step::Scalar { node, args, row } => {
                    let args: String = args.iter().map(|a| format!(" %{a}")).collect();
                    let row = if *row { " [row]" } else { "" };
                    writeln!(s, "  %{i} = {}{args}{row}", graph.nodes[*node as usize].op.name)
                }
                Step::Reduce { node, arg, row, along, after, .. } => {
                    let row = if *row { " [row]" } else { "" };
                    let after = if *after { " after" } else { "" };
                    let name = graph.nodes[*node as usize].op.name;
                    writeln!(s, "  %{i} = {name} %{arg}{row} along {along:?}{after}")
                }
            };
        }
        for st in &self.stores {
            let at = if st.offset > 0 { format!(" from {}", st.offset) } else { String::new() };
            let (node, out) = (st.slot.node, st.slot.out);
            let _ = writeln!(s, "  store %{} to {node}.{out} by {:?}{at}", st.step, st.strides.as_slice());
        }
        s
    }
}
