//! Which regions become one launch with the product of a vector, or few, and a matrix: the loop before it that
//! makes the vector, and the loop behind it that takes the result. And loops with the kernels that put
//! what they compute into another value.

use crate::emit::{few, together, vector};
use crate::plan::operands;
use ir::Slot;
use passes::{Fused, Loop, Region, place_of};
use std::ops::Range;

/// Products that have kernels of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// Of one row.
    Vector,
    /// Of few rows.
    Few,
}

/// The number of the region that is a product with a kernel of its own on GPUs of a generation, among those of
/// a wave.
pub fn product_of(fused: &Fused, wave: &Range<usize>, major: u32) -> Option<(usize, Own)> {
    wave.clone().find_map(|r| {
        let Region::Call { node, args, .. } = &fused.regions[r] else { return None };
        let is_product = matches!(fused.graph.nodes[*node].op.name, "matmul" | "matmul_bias");
        let (args, outs) = operands(&fused.graph, *node, args);
        match is_product {
            true if vector::fits(&args, &outs[0]) => Some((r, Own::Vector)),
            true if few::fits(&args, &outs[0], major) => Some((r, Own::Few)),
            _ => None,
        }
    })
}

/// Puts loops into the waves of the products they belong to.
pub fn chain(mut fused: Fused, major: u32) -> Fused {
    let mut waves: Vec<Range<usize>> = Vec::with_capacity(fused.waves.len());
    let mut next = 0;
    while let Some(wave) = fused.waves.get(next).cloned() {
        next += 1;
        if waves.last().is_some_and(|before| puts(&fused, before, &wave)) {
            let start = waves.pop().map_or(wave.start, |before| before.start);
            waves.push(start..wave.end);
            continue;
        }
        let Some((product, own)) = product_of(&fused, &wave, major).filter(|_| wave.len() == 1) else {
            waves.push(wave);
            continue;
        };
        let mut range = wave.clone();
        let may_make = |before: &Range<usize>| own == Own::Vector && makes(&fused, before.start, product);
        if waves.last().is_some_and(|before| before.len() == 1 && may_make(before)) {
            range.start = waves.pop().map_or(range.start, |before| before.start);
        }
        if fused.waves.get(next).is_some_and(|behind| behind.len() == 1 && takes(&fused, behind.start, product, own)) {
            range.end = fused.waves[next].end;
            next += 1;
        }
        waves.push(range);
    }
    fused.waves = waves;
    fused
}

fn a_loop(fused: &Fused, r: usize) -> Option<&Loop> {
    if let Region::Loop(l) = &fused.regions[r] { Some(l) } else { None }
}

/// True if nobody but one region needs a value.
fn is_only_for(fused: &Fused, s: Slot, reader: usize) -> bool {
    let is_result = fused.graph.outputs.iter().any(|&o| place_of(&fused.graph, &fused.places, o).root == s);
    !is_result && fused.regions.iter().enumerate().all(|(r, region)| (r == reader) == region.reads().contains(&s))
}

/// True if a loop makes the vector of a product, for it alone.
fn makes(fused: &Fused, before: usize, product: usize) -> bool {
    let (Some(l), Region::Call { node, args, .. }) = (a_loop(fused, before), &fused.regions[product]) else {
        return false;
    };
    let (args, _) = operands(&fused.graph, *node, args);
    // The matrix, and what is added, are not made by it.
    let is_other = args[1..].iter().all(|o| l.stores.iter().all(|s| s.slot != o.slot));
    is_other && vector::may_make(l, &args[0]) && is_only_for(fused, args[0].slot, product)
}

/// True if a loop takes the result of a product, and nobody else does.
fn takes(fused: &Fused, behind: usize, product: usize, own: Own) -> bool {
    let (Some(l), Region::Call { node, args, .. }) = (a_loop(fused, behind), &fused.regions[product]) else {
        return false;
    };
    let (_, outs) = operands(&fused.graph, *node, args);
    let y = &outs[0];
    let may_take = match own {
        Own::Vector => vector::may_take(l, y.slot, y.ty.shape.count()),
        Own::Few => few::may_take(l, y),
    };
    may_take && is_only_for(fused, y.slot, behind)
}

/// The loop of a wave that computes, for it alone, what a kernel puts into another value.
pub fn source_of<'a>(fused: &'a Fused, wave: &Range<usize>, put: usize) -> Option<(usize, &'a Loop)> {
    let Region::Call { node, args, .. } = &fused.regions[put] else { return None };
    if fused.graph.nodes[*node].op.name != "scatter" {
        return None;
    }
    let r = wave.clone().find(|&r| fused.regions[r].writes().contains(&args[2].root))?;
    a_loop(fused, r).map(|l| (r, l))
}

/// True if the kernels of a wave all put elements into other values, each at once and where an index
/// says, and take them from the plain loops of the wave before or from elsewhere.
fn puts(fused: &Fused, before: &Range<usize>, wave: &Range<usize>) -> bool {
    let is_plain = |r: usize| a_loop(fused, r).is_some_and(together::is_plain);
    let fits = |r: usize| {
        let Region::Call { node, args, .. } = &fused.regions[r] else { return false };
        let n = &fused.graph.nodes[*node];
        let is_put = n.op.name == "scatter" && n.attrs.size("axis").is_ok_and(|axis| args[1].layout.shape[axis] == 1);
        let made = |s: Slot| before.clone().any(|b| fused.regions[b].writes().contains(&s));
        let source = source_of(fused, before, r);
        let is_source = source.is_none_or(|(_, l)| {
            l.stores.len() == 1
                && args[2].layout.is_contiguous()
                && args[2].layout.offset == 0
                && is_only_for(fused, args[2].root, r)
        });
        is_put && is_source && args[1].layout.offset == 0 && !made(args[0].root) && !made(args[1].root)
    };
    before.clone().all(is_plain) && wave.clone().all(fits)
}
