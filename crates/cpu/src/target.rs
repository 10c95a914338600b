//! What the planner asks of the CPU.

use crate::call;
use crate::tile;
use crate::tile::plan::{Plan as Tiling, ROW_MAX};
use ir::{FlatNode, Graph, Layout, Result};
use passes::{Fused, Loop, MemoryPlan, Region, Stage, Target, View};
use passes::{elide_copies, fuse_epilogues, rematerialize_narrow, schedule};
use std::ops::Range;

/// Values with at least this many elements are worth reading only once.
const SHARE_MIN: usize = 4096;
/// Work of a loop, and multiplications of a GEMM, that are worth another thread.
const LIGHT_LOOP_MIN: usize = 32 * 1024;
const LIGHT_GEMM: Range<usize> = 1 << 18..1 << 21;

/// The CPU as a target of one compilation.
#[derive(Default)]
pub struct CpuTarget {
    /// How each loop is tiled, by region.
    pub tilings: Vec<Option<Tiling>>,
}

impl Target for CpuTarget {
    fn region_stages(&self) -> Vec<Stage<'_>> {
        vec![
            Stage::regions("rematerialize_narrow", rematerialize_narrow),
            Stage::regions("elide_copies", |f| elide_copies(f, self)),
            Stage::regions("fuse_epilogues", |f| fuse_epilogues(f, self)),
            Stage::regions("schedule", |f| schedule(f, self)),
        ]
    }
    fn row_max(&self, _: usize) -> usize {
        ROW_MAX
    }
    fn share_min(&self) -> usize {
        SHARE_MIN
    }
    fn accepts(&self, n: &FlatNode, operand: usize, layout: &Layout) -> bool {
        call::accepts(n, operand, layout)
    }
    fn is_barrier(&self, n: &FlatNode) -> bool {
        call::is_fence(n)
    }
    fn overwrites(&self, n: &FlatNode) -> Option<usize> {
        call::overwrites(n)
    }
    fn concat_axis(&self, n: &FlatNode) -> Option<usize> {
        call::joins(n)
    }
    fn writes(&self, n: &FlatNode, result: usize, layout: &Layout) -> bool {
        call::writes(n, result, layout)
    }
    fn has_epilogue(&self, n: &FlatNode, args: &[View]) -> bool {
        call::feeds(n, args)
    }
    fn epilogue_columns(&self, n: &FlatNode) -> usize {
        call::fed_columns(n)
    }
    fn flops(&self, n: &FlatNode, args: &[View]) -> usize {
        call::flops(n, args)
    }
    fn may_fail(&self, fused: &Fused, region: usize) -> bool {
        matches!(&fused.regions[region], Region::Call { node, .. } if call::may_fail(&fused.graph.nodes[*node]))
    }
    fn is_light(&self, fused: &Fused, region: usize) -> bool {
        let graph = &fused.graph;
        match &fused.regions[region] {
            Region::Loop(Loop { producer: Some(p), .. }) => is_light_gemm(p.node, &p.args, graph),
            Region::Loop(l) => {
                let tiling = tile::plan(l, graph);
                tiling.tasks() == 1 && tiling.work >= LIGHT_LOOP_MIN
            }
            Region::Call { node, args, .. } => is_light_gemm(*node, args, graph),
        }
    }
    fn lower(&mut self, fused: &Fused, _: &MemoryPlan) -> Result<Vec<usize>> {
        let tiling = |r: &Region| match r {
            Region::Loop(l) if l.producer.as_ref().is_some_and(|p| call::feeds_rows(&fused.graph.nodes[p.node])) => {
                Some(Tiling::for_rows(l))
            }
            Region::Loop(l) => Some(tile::plan(l, &fused.graph)),
            Region::Call { .. } => None,
        };
        self.tilings = fused.regions.iter().map(tiling).collect();
        let scratch = |(r, t): (&Region, &Option<Tiling>)| match (r, t) {
            (Region::Loop(l), Some(t)) => tile::scratch_bytes(l, t),
            _ => 0,
        };
        Ok(fused.regions.iter().zip(&self.tilings).map(scratch).collect())
    }
}

fn is_light_gemm(node: usize, args: &[View], graph: &Graph) -> bool {
    let n = &graph.nodes[node];
    let inner = args.first().and_then(|a| a.layout.shape.last()).copied().unwrap_or(0);
    call::is_gemm(n) && LIGHT_GEMM.contains(&(n.outs[0].shape.count() * inner))
}
