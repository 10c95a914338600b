//! Packs blocks of memory with known lifetimes into one arena.

use std::collections::{BTreeMap, BTreeSet};

/// A stretch of the arena with its lifetime, in waves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub bytes: usize,
    pub from: usize,
    pub to: usize,
}

/// Blocks from here on are placed in the order of time alone.
const PACK_MAX: usize = 4096;

/// Offsets for blocks such that those alive together do not overlap. The best of a few orders to place
/// them in: the largest first, those that take the most room for the longest, the earliest. The first two
/// compare all blocks with each other, so many blocks are placed in the last alone.
pub(crate) fn pack(blocks: &[Block]) -> (Vec<usize>, usize) {
    let filled: Vec<usize> = (0..blocks.len()).filter(|&b| blocks[b].bytes > 0).collect();
    let keys: [fn(&Block) -> (usize, usize); 2] =
        [|b| (usize::MAX - b.bytes, b.from), |b| (usize::MAX - b.bytes.saturating_mul(b.to - b.from + 1), b.from)];
    let keys = if filled.len() < PACK_MAX { &keys[..] } else { &[] };
    let packed = keys.iter().map(|key| {
        let mut order = filled.clone();
        order.sort_by_key(|&b| (key(&blocks[b]), b));
        pack_in(blocks, &order)
    });
    packed.chain([pack_in_time(blocks, &filled)]).min_by_key(|(_, end)| *end).unwrap_or_default()
}

/// Places blocks one by one, each in the smallest gap that holds it.
fn pack_in(blocks: &[Block], order: &[usize]) -> (Vec<usize>, usize) {
    let mut offsets = vec![0; blocks.len()];
    // Those placed, in the order in which they lie.
    let mut placed: Vec<(usize, usize, Block)> = Vec::with_capacity(order.len());
    let mut end = 0;
    for &b in order {
        let x = blocks[b];
        let mut best: Option<(usize, usize)> = None;
        let mut at = 0;
        for &(lo, hi, _) in placed.iter().filter(|(_, _, p)| p.from <= x.to && x.from <= p.to) {
            if lo >= at + x.bytes && best.is_none_or(|(gap, _)| lo - at < gap) {
                best = Some((lo - at, at));
            }
            at = at.max(hi);
        }
        let lo = best.map_or(at, |(_, at)| at);
        offsets[b] = lo;
        let hi = lo + x.bytes;
        end = end.max(hi);
        placed.insert(placed.partition_point(|&(l, h, _)| (l, h) <= (lo, hi)), (lo, hi, x));
    }
    (offsets, end)
}

/// The same in the order in which blocks come alive, the largest of equals first: what is alive then and
/// the gaps between are all there is to look at.
fn pack_in_time(blocks: &[Block], filled: &[usize]) -> (Vec<usize>, usize) {
    let mut order = filled.to_vec();
    order.sort_by_key(|&b| (blocks[b].from, usize::MAX - blocks[b].bytes, b));
    let mut dying = filled.to_vec();
    dying.sort_by_key(|&b| (blocks[b].to, b));
    let mut dying = dying.into_iter().peekable();
    let mut offsets = vec![0; blocks.len()];
    let mut gaps = Gaps::default();
    let mut end = 0;
    for b in order {
        while let Some(dead) = dying.next_if(|&d| blocks[d].to < blocks[b].from) {
            gaps.give(offsets[dead], blocks[dead].bytes);
        }
        offsets[b] = gaps.take(blocks[b].bytes);
        end = end.max(offsets[b] + blocks[b].bytes);
    }
    (offsets, end)
}

/// The free stretches below the end of what is in use.
#[derive(Default)]
struct Gaps {
    /// Where each begins, and its size.
    sizes: BTreeMap<usize, usize>,
    /// Size and beginning of each.
    by_size: BTreeSet<(usize, usize)>,
    /// Nothing beyond is in use.
    end: usize,
}

impl Gaps {
    fn add(&mut self, at: usize, bytes: usize) {
        if bytes > 0 {
            self.sizes.insert(at, bytes);
            self.by_size.insert((bytes, at));
        }
    }
    fn remove(&mut self, at: usize, bytes: usize) {
        self.sizes.remove(&at);
        self.by_size.remove(&(bytes, at));
    }
    /// The smallest that holds so many bytes, the first of equals; else what comes after the last in use.
    fn take(&mut self, bytes: usize) -> usize {
        let found = self.by_size.range((bytes, 0)..).next().copied();
        let Some((size, at)) = found else {
            self.end += bytes;
            return self.end - bytes;
        };
        self.remove(at, size);
        self.add(at + bytes, size - bytes);
        at
    }
    fn give(&mut self, mut at: usize, mut bytes: usize) {
        if let Some((&before, &size)) = self.sizes.range(..at).next_back()
            && before + size == at
        {
            self.remove(before, size);
            (at, bytes) = (before, bytes + size);
        }
        if let Some(&size) = self.sizes.get(&(at + bytes)) {
            self.remove(at + bytes, size);
            bytes += size;
        }
        if at + bytes == self.end {
            self.end = at;
        } else {
            self.add(at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(seed: u64, count: usize) -> Vec<Block> {
        let mut x = seed;
        let mut below = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((x >> 33) % n) as usize
        };
        let mut block = || {
            let from = below(40);
            Block { bytes: 64 * below(9), from, to: from + below(12) }
        };
        (0..count).map(|_| block()).collect()
    }

    #[test]
    fn blocks_that_are_alive_together_lie_apart() {
        for (seed, count) in [(1, 10), (2, 60), (3, 200), (4, PACK_MAX + 500)] {
            let blocks = blocks(seed, count);
            let (offsets, end) = pack(&blocks);
            for (i, a) in blocks.iter().enumerate() {
                assert!(offsets[i] + a.bytes <= end || a.bytes == 0);
                for (j, b) in blocks[..i].iter().enumerate() {
                    let is_apart = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                    assert!(is_apart || a.from > b.to || b.from > a.to || a.bytes * b.bytes == 0);
                }
            }
        }
    }

    #[test]
    fn the_gaps_are_those_between_all_blocks_alive() {
        for seed in 0..20 {
            let blocks = blocks(seed, 120);
            let filled: Vec<usize> = (0..blocks.len()).filter(|&b| blocks[b].bytes > 0).collect();
            let mut order = filled.clone();
            order.sort_by_key(|&b| (blocks[b].from, usize::MAX - blocks[b].bytes, b));
            assert_eq!(pack_in_time(&blocks, &filled), pack_in(&blocks, &order));
        }
    }
}
