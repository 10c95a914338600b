//! Which regions become one launch: a GEMV or skinny GEMM with the loop that computes its vector and the loops,
//! argmax or argmin that take its result; and loops with the scatters of what they compute.

use crate::claims::op;
use crate::emit::kernels::{self, Operand};
use crate::emit::skinny_gemm::{self, Part, Put};
use crate::emit::{Kernel, gemv, horizontal};
use crate::rewrite::rows::MATMUL_BIAS;
use ir::{DType, Slot};
use passes::{Fused, Loop, Region, view_of};
use std::ops::Range;

/// GEMM with kernels of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OwnGemm {
    /// One row.
    Gemv,
    /// A few rows.
    Skinny,
}

/// The region of a wave that is a GEMM with a kernel of its own on GPUs of this generation.
pub fn own_gemm(fused: &Fused, wave: &Range<usize>, major: u32) -> Option<(usize, OwnGemm)> {
    wave.clone().find_map(|r| {
        let Region::Call { node, .. } = &fused.regions[r] else { return None };
        if ![op::MATMUL, MATMUL_BIAS.name].contains(&fused.graph.nodes[*node].op.name) {
            return None;
        }
        let (_, args, outs) = fused.call(r)?;
        if gemv::fits(&args, &outs[0]) {
            return Some((r, OwnGemm::Gemv));
        }
        skinny_gemm::fits(&args, &outs[0], major).then_some((r, OwnGemm::Skinny))
    })
}

/// Merges waves that become one launch.
pub fn fuse_launches(mut fused: Fused, major: u32) -> Fused {
    let mut waves: Vec<Range<usize>> = Vec::with_capacity(fused.waves.len());
    let mut next = 0;
    while let Some(wave) = fused.waves.get(next).cloned() {
        next += 1;
        if waves.last().is_some_and(|before| puts(&fused, before, &wave)) {
            let start = waves.pop().map_or(wave.start, |before| before.start);
            waves.push(start..wave.end);
            continue;
        }
        if waves.last().is_some_and(|before| histogram(&fused, &(before.start..wave.end)).is_some()) {
            let start = waves.pop().map_or(wave.start, |before| before.start);
            waves.push(start..wave.end);
            continue;
        }
        let Some((product, own)) = own_gemm(&fused, &wave, major).filter(|_| wave.len() == 1) else {
            waves.push(wave);
            continue;
        };
        let mut range = wave.clone();
        let may_make = |before: &Range<usize>| own == OwnGemm::Gemv && makes(&fused, before.start, product);
        if waves.last().is_some_and(|before| before.len() == 1 && may_make(before)) {
            range.start = waves.pop().map_or(range.start, |before| before.start);
        }
        let taken = takes(&fused, next, product, own);
        if taken > 0 {
            range.end = fused.waves[next + taken - 1].end;
            next += taken;
        }
        waves.push(range);
    }
    fused.waves = waves;
    fused
}

/// The kernels of a loop and the `index_add` of integers that alone reads its results, where they are a histogram.
pub fn histogram(fused: &Fused, wave: &Range<usize>) -> Option<Vec<Kernel>> {
    let (before, add) = (wave.start, wave.end - 1);
    let (Some(l), Some((node, args, outs))) = (a_loop(fused, before), fused.call(add)) else { return None };
    let is_add = wave.len() == 2 && fused.graph.nodes[node].op.name == op::INDEX_ADD && horizontal::is_plain(l);
    let is_own = |s: Slot| args[1..].iter().any(|o| o.slot == s) && is_only_for(fused, s, &[add]);
    if !is_add || l.stores.iter().any(|s| !is_own(s.slot) || s.slot == args[0].slot) {
        return None;
    }
    kernels::histogram(l, &fused.graph, &args, &outs[0])
}

fn a_loop(fused: &Fused, r: usize) -> Option<&Loop> {
    if let Region::Loop(l) = &fused.regions[r] { Some(l) } else { None }
}

/// True if exactly these regions read a value and it is no result.
fn is_only_for(fused: &Fused, s: Slot, readers: &[usize]) -> bool {
    let is_result = fused.graph.outputs.iter().any(|&o| view_of(&fused.views, o).root == s);
    let is_right = |(r, region): (usize, &Region)| readers.contains(&r) == region.reads().contains(&s);
    !is_result && fused.regions.iter().enumerate().all(is_right)
}

/// True if a loop computes the vector of a GEMV, for it alone.
fn makes(fused: &Fused, before: usize, product: usize) -> bool {
    let (Some(l), Some((_, args, _))) = (a_loop(fused, before), fused.call(product)) else { return false };
    // It computes neither the matrix nor the bias.
    let is_other = args[1..].iter().all(|o| l.stores.iter().all(|s| s.slot != o.slot));
    is_other && gemv::may_make(l, &args[0]) && is_only_for(fused, args[0].slot, &[product])
}

/// How many of the waves from `next` on are the epilogue of a GEMM: only they read its result.
fn takes(fused: &Fused, next: usize, product: usize, own: OwnGemm) -> usize {
    let Some((_, _, outs)) = fused.call(product) else { return 0 };
    let y = &outs[0];
    let Some(behind) = fused.waves.get(next) else { return 0 };
    if own == OwnGemm::Gemv {
        let may_take = |l: &Loop| gemv::may_take(l, y.slot, y.ty.shape.count());
        let is_taken = behind.len() == 1
            && a_loop(fused, behind.start).is_some_and(may_take)
            && is_only_for(fused, y.slot, &[behind.start]);
        return usize::from(is_taken);
    }
    if extreme(fused, behind.clone(), y).is_some() && is_only_for(fused, y.slot, &[behind.start]) {
        return 1;
    }
    let with_puts = fused.waves.get(next + 1).filter(|wave| puts(fused, behind, wave)).map(|wave| (2, wave.end));
    let fits = |end: usize| {
        let Some(parts) = parts(fused, behind.start..end) else { return false };
        let readers: Vec<usize> = (behind.start..end).filter(|&r| a_loop(fused, r).is_some()).collect();
        is_only_for(fused, y.slot, &readers) && skinny_gemm::may_take(&parts, y)
    };
    with_puts.into_iter().chain([(1, behind.end)]).find(|&(_, end)| fits(end)).map_or(0, |(count, _)| count)
}

/// The argmax or argmin over a GEMM's rows that a wave is: its result, and whether it is argmin.
pub fn extreme(fused: &Fused, wave: Range<usize>, y: &Operand) -> Option<(Operand, bool)> {
    let Region::Call { node, .. } = &fused.regions[wave.start] else { return None };
    let n = &fused.graph.nodes[*node];
    let is_least = match n.op.name {
        op::ARGMAX => false,
        op::ARGMIN => true,
        _ => return None,
    };
    let (_, args, mut outs) = fused.call(wave.start)?;
    let x = &args[0];
    let is_whole = x.slot == y.slot && x.layout.is_contiguous() && x.layout.offset == 0;
    let [rows, columns] = *y.ty.shape.dims() else { return None };
    let is_rows = x.ty.shape.last() == Some(&columns) && x.ty.shape.count() == rows * columns;
    let is_last = n.attrs.size("axis").is_ok_and(|axis| axis + 1 == x.ty.shape.rank());
    (wave.len() == 1 && is_whole && is_rows && is_last && u32::try_from(columns).is_ok())
        .then(|| (outs.swap_remove(0), is_least))
}

/// The loops of a wave with their scatters; `None` if the wave has other regions.
pub fn parts(fused: &Fused, wave: Range<usize>) -> Option<Vec<Part<'_>>> {
    let calls = wave.clone().filter(|&r| a_loop(fused, r).is_none());
    let mut sources: Vec<(usize, Put)> = Vec::new();
    for r in calls {
        let (node, mut args, mut outs) = fused.call(r)?;
        let n = &fused.graph.nodes[node];
        let (places, _) = put_operands(n.op.name)?;
        let axis = if n.op.name == op::SCATTER { Some(n.attrs.size("axis").ok()?) } else { None };
        let (source, _) = source_of(fused, &wave, r)?;
        sources.push((source, Put { index: args.swap_remove(places), y: outs.swap_remove(0), axis }));
    }
    let part = |r: usize| {
        let put = sources.iter().position(|(source, _)| *source == r).map(|i| sources.swap_remove(i).1);
        a_loop(fused, r).map(|l| Part { l, put })
    };
    let found: Vec<Part> = wave.filter_map(part).collect();
    // Each of them has one scatter at most.
    sources.is_empty().then_some(found)
}

/// Which operands of a scatter, or of a write to a KV cache, are the places and what is written there.
fn put_operands(name: &str) -> Option<(usize, usize)> {
    match name {
        op::SCATTER => Some((1, 2)),
        op::PAGED_WRITE => Some((2, 1)),
        _ => None,
    }
}

/// The loop of a wave that computes what a scatter writes, for it alone.
pub fn source_of<'a>(fused: &'a Fused, wave: &Range<usize>, put: usize) -> Option<(usize, &'a Loop)> {
    let Region::Call { node, args, .. } = &fused.regions[put] else { return None };
    let (_, source) = put_operands(fused.graph.nodes[*node].op.name)?;
    let r = wave.clone().find(|&r| fused.regions[r].writes().contains(&args[source].root))?;
    a_loop(fused, r).map(|l| (r, l))
}

/// True if a wave has only scatters of one element along the axis, or writes to KV caches, whose operands come from the
/// pointwise loops of the wave before, or from earlier.
fn puts(fused: &Fused, before: &Range<usize>, wave: &Range<usize>) -> bool {
    let is_plain = |r: usize| a_loop(fused, r).is_some_and(horizontal::is_plain);
    let fits = |r: usize| {
        let Region::Call { node, args, .. } = &fused.regions[r] else { return false };
        let n = &fused.graph.nodes[*node];
        let Some((places, from)) = put_operands(n.op.name) else { return false };
        let is_one = |axis: usize| args[1].layout.shape[axis] == 1;
        let is_bytes = fused.graph.ty(args[0].root).dtype == DType::I8;
        let is_put = match n.op.name {
            op::SCATTER => n.attrs.size("axis").is_ok_and(is_one),
            _ => !is_bytes,
        };
        let made = |s: Slot| before.clone().any(|b| fused.regions[b].writes().contains(&s));
        let source = source_of(fused, before, r);
        let is_source = source.is_none_or(|(_, l)| {
            l.stores.len() == 1
                && args[from].layout.is_contiguous()
                && args[from].layout.offset == 0
                && is_only_for(fused, args[from].root, &[r])
        });
        let is_first = args[places].layout.offset == 0 || n.op.name != op::SCATTER;
        is_put && is_source && is_first && !made(args[0].root) && !made(args[places].root)
    };
    before.clone().all(is_plain) && wave.clone().all(fits)
}
