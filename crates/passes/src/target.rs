//! What the planner asks of a device. Defaults describe a device with the plainest kernels.

use crate::{Fused, MemoryPlan, Region, Stage, View};
use ir::{FlatNode, Layout, Result};

/// A device, as [`crate::plan`] sees it: its own stages, what its kernels can do, and how it lowers regions.
pub trait Target {
    /// Its rewrites of the graph, before fusion.
    fn graph_stages(&self) -> Vec<Stage<'_>> {
        Vec::new()
    }
    /// Its stages after fusion: copy elision, epilogues, scheduling.
    fn region_stages(&self) -> Vec<Stage<'_>> {
        Vec::new()
    }

    /// The longest row whose reduction later steps of the same loop may use, given the number of rows.
    fn row_max(&self, rows: usize) -> usize {
        let _ = rows;
        4096
    }
    /// Loops that share an operand of at least this many elements are fused: it is worth reading once.
    fn share_min(&self) -> usize {
        4096
    }
    /// Whether a kernel takes an operand with this layout; all take contiguous ones.
    fn accepts(&self, n: &FlatNode, operand: usize, layout: &Layout) -> bool {
        let _ = (n, operand);
        layout.is_contiguous()
    }
    /// Whether a node is only an execution barrier: its results are its operands, once all are computed.
    fn is_barrier(&self, n: &FlatNode) -> bool {
        let _ = n;
        false
    }
    /// The axis along which a kernel concatenates its operands, if it does nothing else.
    fn concat_axis(&self, n: &FlatNode) -> Option<usize> {
        let _ = n;
        None
    }
    /// Whether a kernel writes a result with this layout; all write contiguous ones.
    fn writes(&self, n: &FlatNode, result: usize, layout: &Layout) -> bool {
        let _ = (n, result, layout);
        false
    }
    /// Whether a kernel with these operands hands its result to an epilogue tile by tile.
    fn has_epilogue(&self, n: &FlatNode, args: &[View]) -> bool {
        let _ = (n, args);
        false
    }
    /// How many elements of such a kernel's result make a row of its epilogue's loop.
    fn epilogue_columns(&self, n: &FlatNode) -> usize {
        n.outs[0].shape.last().copied().unwrap_or(1)
    }
    /// The operand that a kernel updates in place where nothing else needs it.
    fn overwrites(&self, n: &FlatNode) -> Option<usize> {
        let _ = n;
        None
    }

    /// The floating-point operations of a kernel; one an element where nothing is known.
    fn flops(&self, n: &FlatNode, args: &[View]) -> usize {
        let _ = args;
        n.outs[0].shape.count()
    }

    /// Whether running a region can be an error.
    fn may_fail(&self, fused: &Fused, region: usize) -> bool {
        let _ = (fused, region);
        false
    }
    /// Whether a region keeps one thread busy and no more: several of them run at the same time.
    fn is_light(&self, fused: &Fused, region: usize) -> bool {
        let _ = (fused, region);
        false
    }
    /// Whether a region starts asynchronous work: it runs as soon as its operands are computed.
    fn starts_async(&self, fused: &Fused, region: usize) -> bool {
        matches!(&fused.regions[region], Region::Call { node, .. }
            if matches!(fused.graph.nodes[*node].op.effect, ir::Effect::Starts | ir::Effect::StartsInOrder))
    }

    /// Chooses a kernel for each call, once the regions are final.
    fn select(&mut self, fused: &Fused) -> Result<()> {
        let _ = fused;
        Ok(())
    }
    /// Takes memory of inputs back from results that must not be written over it.
    fn restrict_donors(&self, fused: &Fused, memory: &mut MemoryPlan) {
        let _ = (fused, memory);
    }
    /// Lowers each region, once it is known which results share the memory of an operand
    /// ([`MemoryPlan::shares`]). Returns the scratch bytes of each region.
    fn lower(&mut self, fused: &Fused, memory: &MemoryPlan) -> Result<Vec<usize>> {
        let _ = memory;
        Ok(vec![0; fused.regions.len()])
    }
}
