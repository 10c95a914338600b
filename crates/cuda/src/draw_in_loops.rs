//! Random bits that only loops read are drawn where they are used: a draw keeps its key, and Philox computes four
//! neighbors at a time in registers. The bits are neither written nor read.

use crate::emit::{horizontal, transpose_fits};
use crate::fuse_launches::own_gemm;
use crate::rewrite::rows::DRAW_KEY;
use ir::{Slot, Type};
use passes::{Along, Fused, Loop, Region, Step, view_of};

/// Elements of a draw that is worth it.
const COUNT_MIN: usize = 1 << 14;
/// Words that Philox computes together.
const WORDS: usize = 4;

/// Replaces draws whose every reader can compute them.
pub fn draw_in_loops(mut fused: Fused, major: u32) -> Fused {
    let found: Vec<usize> = (0..fused.graph.nodes.len()).filter(|&n| is_drawn(&fused, n, major)).collect();
    for n in found {
        let node = &mut fused.graph.nodes[n];
        (node.op, node.outs[0]) = (&DRAW_KEY, Type::new(node.outs[0].dtype, [WORDS]));
    }
    fused
}

fn is_drawn(fused: &Fused, node: usize, major: u32) -> bool {
    let n = &fused.graph.nodes[node];
    if n.op.name != crate::claims::op::RANDOM_BITS {
        return false;
    }
    let slot = Slot::new(node, 0);
    let key = fused.graph.ty(n.inputs[0]);
    let is_result = fused.graph.outputs.iter().any(|&o| view_of(&fused.views, o).root == slot);
    let fits = |(r, region): (usize, &Region)| match region {
        _ if !region.reads().contains(&slot) => true,
        Region::Loop(l) => {
            let wave = fused.waves.iter().find(|w| w.contains(&r));
            is_computed(l, slot) && wave.is_some_and(|w| own_gemm(fused, w, major).is_none())
        }
        Region::Call { .. } => false,
    };
    let count = n.outs[0].shape.count();
    key.shape.dims() == [2] && count >= COUNT_MIN && !is_result && fused.regions.iter().enumerate().all(fits)
}

/// True for a loop over points, which reads a draw four neighbors at a time.
fn is_computed(l: &Loop, slot: Slot) -> bool {
    let is_summed = |s: &Step| !matches!(s, Step::Reduce { along, .. } if *along != Along::All);
    let is_flat = horizontal::is_plain(l) || (!transpose_fits(l) && l.steps.iter().all(is_summed));
    let is_even = |n: usize| n.is_multiple_of(WORDS);
    let is_wide = |s: &Step| match s {
        Step::Load { root, strides, offset } if *root == slot => {
            let Some((&1, rest)) = strides.split_last() else { return false };
            is_even(*offset) && rest.iter().all(|s| *s >= 0 && is_even(s.unsigned_abs()))
        }
        _ => true,
    };
    is_flat && l.producer.is_none() && l.dims.last().is_some_and(|&d| is_even(d)) && l.steps.iter().all(is_wide)
}
