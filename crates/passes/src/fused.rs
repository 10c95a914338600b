//! A graph cut into regions.

use crate::{Region, View, Views, view_of};
use ir::{Error, Graph, Layout, Meaning, Result, Slot, Type};
use rustc_hash::FxHashSet;
use std::fmt::Write;
use std::ops::Range;

/// A graph cut into regions that run in order.
#[derive(Clone)]
pub struct Fused {
    /// The graph, with copies where views need them.
    pub graph: Graph,
    /// Each output as a view over a stored value.
    pub views: Views,
    /// For each node, the barrier that returned its value, if one did.
    pub barrier: Vec<Option<u32>>,
    /// The regions, in an order that respects what they need of each other.
    pub regions: Vec<Region>,
    /// Ranges of regions that run in parallel, or as one launch.
    pub waves: Vec<Range<usize>>,
}

/// An operand or a result of a kernel: a view over a stored value.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The stored value.
    pub slot: Slot,
    /// Element type and shape of the view.
    pub ty: Type,
    /// The layout of the view.
    pub layout: Layout,
}

impl Operand {
    /// Bytes from the start of the stored value to the first element.
    pub fn offset(&self) -> usize {
        self.layout.offset * self.ty.dtype.size()
    }
}

impl Fused {
    /// The node of a region that is a call, its operands and its results.
    pub fn call(&self, region: usize) -> Option<(usize, Vec<Operand>, Vec<Operand>)> {
        let Region::Call { node, args, outs } = &self.regions[region] else { return None };
        let (args, outs) = self.operands(*node, args, outs);
        Some((*node, args, outs))
    }
    /// The operands and results of a node by their views.
    pub fn operands(&self, node: usize, args: &[View], outs: &[View]) -> (Vec<Operand>, Vec<Operand>) {
        let operand = |p: &View| Operand {
            slot: p.root,
            ty: Type::new(self.graph.ty(p.root).dtype, p.layout.shape.clone()),
            layout: p.layout.clone(),
        };
        let result = |(p, ty): (&View, &Type)| Operand { slot: p.root, ty: ty.clone(), layout: p.layout.clone() };
        (args.iter().map(operand).collect(), outs.iter().zip(&self.graph.nodes[node].outs).map(result).collect())
    }
    /// The stored values that outlive a run.
    pub fn results(&self) -> FxHashSet<Slot> {
        self.graph.outputs.iter().map(|&s| view_of(&self.views, s).root).collect()
    }
    /// Inputs that hold a variable's old value, by number, with the stored value that is its new one.
    pub fn updates(&self) -> Vec<(usize, Slot)> {
        let graph = &self.graph;
        let pair = |&(k, o): &(u32, u32)| {
            let (view, node) = (view_of(&self.views, graph.outputs[o as usize]), graph.inputs[k as usize]);
            let is_whole = graph.ty(view.root) == &graph.nodes[node as usize].outs[0]
                && view.layout.is_contiguous()
                && view.layout.offset == 0;
            is_whole.then_some((k as usize, view.root))
        };
        graph.updates.iter().filter_map(pair).collect()
    }
    /// The inputs that a region may write a result over: it reads them, and a result has their type.
    pub(crate) fn updated<'a>(
        &'a self,
        region: &Region,
        results: &'a FxHashSet<Slot>,
    ) -> impl Iterator<Item = Slot> + use<'a> {
        let graph = &self.graph;
        let written: Vec<Slot> = region.writes().into_iter().filter(|s| results.contains(s)).collect();
        let is_input = |s: &Slot| matches!(graph.node(*s).op.meaning, Meaning::Input);
        let reads = if written.is_empty() { Default::default() } else { region.reads() };
        reads.into_iter().filter(is_input).filter(move |v| written.iter().any(|s| graph.ty(*s) == graph.ty(*v)))
    }
    /// Drops loops that store nothing, which stand where a region was taken out.
    pub(crate) fn drop_empty(&mut self) {
        self.regions.retain(|r| !matches!(r, Region::Loop(l) if l.stores.is_empty()));
        self.waves = (0..self.regions.len()).map(|r| r..r + 1).collect();
    }

    /// An error unless waves cover the regions in order and each region reads only what is given or was written
    /// before it.
    pub fn verify(&self) -> Result<()> {
        let starts = std::iter::once(0).chain(self.waves.iter().map(|w| w.end));
        if !self.waves.iter().map(|w| w.start).eq(starts.take(self.waves.len()))
            || self.waves.last().map_or(0, |w| w.end) != self.regions.len()
        {
            return Err(Error::bug("waves do not cover the regions in order"));
        }
        let mut written: FxHashSet<Slot> = FxHashSet::default();
        for (r, region) in self.regions.iter().enumerate() {
            let is_given = |s: &Slot| matches!(self.graph.node(*s).op.meaning, Meaning::Input | Meaning::Const);
            if let Some(s) = region.reads().into_iter().find(|s| !is_given(s) && !written.contains(s)) {
                return Err(Error::bug(format!("region {r} reads {s:?} before it is written")));
            }
            written.extend(region.writes());
        }
        match self.results().iter().find(|s| !written.contains(s) && self.is_computed(**s)) {
            Some(s) => Err(Error::bug(format!("no region writes the result {s:?}"))),
            None => Ok(()),
        }
    }
    fn is_computed(&self, s: Slot) -> bool {
        !matches!(self.graph.node(s).op.meaning, Meaning::Input | Meaning::Const)
    }

    /// The regions as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        for region in &self.regions {
            match region {
                Region::Loop(l) => out += &l.text(&self.graph),
                Region::Call { node, outs, .. } => {
                    let _ = write!(out, "call %{node} {}", self.graph.nodes[*node].op.name);
                    for p in outs.iter().filter(|p| p.root.node as usize != *node) {
                        let (to, by) = (p.root, p.layout.strides.as_slice());
                        let _ = write!(out, " to {}.{} by {by:?} from {}", to.node, to.out, p.layout.offset);
                    }
                    out.push('\n');
                }
            }
        }
        out
    }
    /// The waves as text, a line each.
    pub fn waves_text(&self) -> String {
        let node = |n: &u32| format!("%{n} {}", self.graph.nodes[*n as usize].op.name);
        let region = |r: &Region| r.nodes().iter().map(node).collect::<Vec<_>>().join(", ");
        let wave = |w: &Range<usize>| self.regions[w.clone()].iter().map(region).collect::<Vec<_>>().join(" | ") + "\n";
        self.waves.iter().map(wave).collect()
    }
}
