//! Attention of a ragged batch over a paged KV cache.
//!
//! Tokens that follow each other in a sequence form a run, whose queries share keys. Keys are taken in tiles at
//! absolute positions, with an online softmax, and tiles in segments, which are merged in order. So the order of every
//! sum is a matter of positions alone: a token's result has the same bits whatever else is in the batch.

#![allow(unsafe_code)]

use super::quant::decode::Words;
use super::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::simd::{Isa, Vector};
#[cfg(target_arch = "x86_64")]
use crate::vmath::{Level, level};
use crate::vmath::{dispatch, f32s};
use std::ops::Range;

#[cfg(test)]
#[path = "paged_tests.rs"]
mod tests;

/// Keys of a tile.
const TILE: usize = 64;
/// Keys of a segment, which is a task.
const SEGMENT: usize = 512;
/// Tokens of a run.
const RUN: usize = 32;
/// Rows that a product is computed for at a time.
const STRIP: usize = 4;
/// Elements of partial results that one thread finishes sooner than it wakes others.
const SERIAL: usize = 1 << 15;

/// Rows of a paged cache as f32.
pub trait Cache: Sync {
    /// Copies the row of head `head` at slot `slot`.
    fn read(&self, slot: usize, head: usize, to: &mut [f32]);
    /// Copies the rows of `count` slots from `slot` on, of `d` elements, to rows that are `row` elements apart.
    fn read_rows(&self, [slot, count]: [usize; 2], head: usize, to: &mut [f32], [d, row]: [usize; 2]) {
        (0..count).for_each(|i| self.read(slot + i, head, &mut to[i * row..][..d]));
    }
    /// Asks for these rows ahead: they are apart in memory, where a core foresees no pattern.
    fn prefetch(&self, _slots: [usize; 2], _head: usize) {}
}

/// A batch of queries.
pub struct Paged<'a> {
    /// Query heads.
    pub heads: usize,
    /// Key heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub d: usize,
    /// Blocks of the cache.
    pub blocks: usize,
    /// Positions of a block.
    pub block_size: usize,
    /// Blocks of each sequence, `[sequences][reach]`.
    pub tables: &'a [i32],
    /// Blocks in a row of `tables`.
    pub reach: usize,
    /// The sequence of each token; padding is outside of `tables`.
    pub sequences: &'a [i32],
    /// The position of each token.
    pub positions: &'a [i32],
    /// Factor of the scores.
    pub scale: f32,
    /// How many of the last positions a token sees; 0 for all.
    pub window: usize,
    /// Scores s become c tanh(s / c); 0 for none.
    pub softcap: f32,
}

/// Tokens that follow each other.
struct Run {
    token: usize,
    count: usize,
    sequence: usize,
    position: usize,
}

/// A run, a key head and a segment of keys; `at` is the first row of its partial results.
struct Task {
    run: usize,
    head: usize,
    segment: usize,
    at: usize,
}

impl Paged<'_> {
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let sequences = self.tables.len() / self.reach.max(1);
        for (token, (&n, &p)) in self.sequences.iter().zip(self.positions).enumerate() {
            let (Ok(sequence), Ok(position)) = (usize::try_from(n), usize::try_from(p)) else { continue };
            if sequence >= sequences {
                continue;
            }
            match runs.last_mut() {
                Some(r)
                    if r.sequence == sequence
                        && r.token + r.count == token
                        && r.position + r.count == position
                        && r.count < RUN =>
                {
                    r.count += 1;
                }
                _ => runs.push(Run { token, count: 1, sequence, position }),
            }
        }
        runs
    }
    /// The segments of which a run sees a key.
    fn segments(&self, r: &Run) -> Range<usize> {
        let end = (r.position + r.count).min(self.reach * self.block_size);
        let first = if self.window > 0 { (r.position + 1).saturating_sub(self.window) } else { 0 };
        first / SEGMENT..end.div_ceil(SEGMENT)
    }
    /// Elements of a row of partial results: sums padded to whole vectors, then the maximum and the sum of weights.
    fn padded(&self) -> usize {
        self.d.next_multiple_of(TILE)
    }
    /// Query heads that share a key head.
    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Computes `out[T, H, D]`; `query(token, head, to)` copies a query, `write(token, head, y)` takes a result.
    pub fn run(
        &self,
        [k, v]: [&dyn Cache; 2],
        query: &(dyn Fn(usize, usize, &mut [f32]) + Sync),
        write: &(dyn Fn(usize, usize, &[f32]) + Sync),
    ) {
        let runs = self.runs();
        let (mut tasks, mut rows, mut firsts) = (Vec::new(), 0, Vec::with_capacity(runs.len()));
        for (i, r) in runs.iter().enumerate() {
            firsts.push(rows);
            for head in 0..self.kv_heads {
                for segment in self.segments(r) {
                    tasks.push(Task { run: i, head, segment, at: rows });
                    rows += r.count * self.group();
                }
            }
        }
        let width = self.padded() + TILE;
        let partial = Scratch::<f32>::new(rows * width);
        let to = Shared::new(partial.ptr());
        pool::parallel_for(tasks.len(), &|t| {
            let (task, run) = (&tasks[t], &runs[tasks[t].run]);
            // SAFETY: each task writes its own rows.
            let rows = unsafe { to.slice(task.at * width, run.count * self.group() * width) };
            self.segment(run, task, [k, v], query, rows);
        });
        let finish = |t: usize| {
            let (run, head) = (&runs[t / self.kv_heads], t % self.kv_heads);
            let (count, segments) = (run.count * self.group(), self.segments(run).len());
            let first = firsts[t / self.kv_heads] + head * segments * count;
            for row in 0..count {
                let part = |s: usize| {
                    // SAFETY: this row belongs to this task, and all partial results have been written.
                    unsafe { to.slice((first + s * count + row) * width, width) }
                };
                if segments == 0 {
                    write(run.token + row / self.group(), head * self.group() + row % self.group(), &vec![0.0; self.d]);
                    continue;
                }
                let total = part(0);
                (1..segments).for_each(|s| merge(total, part(s), self.padded()));
                let sum = total[self.padded() + 1];
                let factor = if sum > 0.0 { 1.0 / sum } else { 0.0 };
                total[..self.d].iter_mut().for_each(|x| *x *= factor);
                write(run.token + row / self.group(), head * self.group() + row % self.group(), &total[..self.d]);
            }
        };
        let parts = runs.len() * self.kv_heads;
        if rows * width < SERIAL {
            (0..parts).for_each(finish)
        } else {
            pool::parallel_for(parts, &finish)
        }
        let seen: usize = runs.iter().map(|r| r.count).sum();
        if seen < self.sequences.len() {
            self.write_padding(&runs, write);
        }
    }

    /// Zeros for the tokens that are in no run.
    fn write_padding(&self, runs: &[Run], write: &(dyn Fn(usize, usize, &[f32]) + Sync)) {
        let zeros = vec![0.0; self.d];
        let mut next = 0;
        let ends = runs.iter().map(|r| (r.token, r.token + r.count)).chain([(self.sequences.len(), 0)]);
        for (start, end) in ends {
            (next..start).for_each(|t| (0..self.heads).for_each(|h| write(t, h, &zeros)));
            next = end;
        }
    }

    /// The partial results of a segment: unscaled sums, maximum and sum of weights of each row.
    fn segment(
        &self,
        run: &Run,
        task: &Task,
        [k, v]: [&dyn Cache; 2],
        query: &(dyn Fn(usize, usize, &mut [f32]) + Sync),
        rows: &mut [f32],
    ) {
        let (d, padded, group) = (self.d, self.padded(), self.group());
        let (count, width) = (run.count * group, padded + TILE);
        let strips = count.next_multiple_of(STRIP);
        let (q, scores) = (Scratch::<f32>::new(strips * padded), Scratch::<f32>::new(strips * TILE));
        let (rows_k, kt, rows_v) = (
            Scratch::<f32>::new(TILE * padded),
            Scratch::<f32>::new(TILE * padded),
            Scratch::<f32>::new(TILE * padded),
        );
        // SAFETY: all are written before they are read.
        let (q, scores, rows_k, rows_v) = unsafe { (q.slice(), scores.slice(), rows_k.slice(), rows_v.slice()) };
        q.fill(0.0);
        for row in 0..count {
            let to = &mut q[row * padded..][..d];
            query(run.token + row / group, task.head * group + row % group, to);
            to.iter_mut().for_each(|x| *x *= self.scale);
        }
        for row in rows.chunks_exact_mut(width) {
            row.fill(0.0);
            row[padded] = f32::NEG_INFINITY;
        }
        if d < padded {
            rows_k.fill(0.0);
            rows_v.fill(0.0);
        }
        let table = &self.tables[run.sequence * self.reach..][..self.reach];
        let end = (run.position + run.count).min(self.reach * self.block_size).min((task.segment + 1) * SEGMENT);
        let seen = if self.window > 0 { (run.position + 1).saturating_sub(self.window) } else { 0 };
        let start = (task.segment * SEGMENT).max(seen / TILE * TILE);
        self.prefetch_tile(table, task.head, start..end, [k, v]);
        for first in (start..end).step_by(TILE) {
            let keys = TILE.min(end - first);
            self.prefetch_tile(table, task.head, first + TILE..end, [k, v]);
            let is_valid = self.load_tile(table, task.head, [first, keys, seen], [k, v], [rows_k, rows_v]);
            // SAFETY: all of them have `padded` columns and whole strips of rows.
            unsafe {
                transpose(rows_k.as_ptr(), d, padded, kt.ptr());
                scores.fill(0.0);
                for s in (0..count).step_by(STRIP) {
                    let a = Left { p: q.as_ptr().add(s * padded), row: padded, k: d };
                    product(a, kt.ptr(), TILE, TILE, scores.as_mut_ptr().add(s * TILE), TILE);
                }
            }
            let is_whole = is_valid[..keys].iter().all(|v| *v);
            for row in 0..count {
                let position = run.position + row / group;
                let end = keys.min((position + 1).saturating_sub(first));
                let begin = if self.window == 0 { 0 } else { (position + 1).saturating_sub(first + self.window) };
                let scores = &mut scores[row * TILE..][..TILE];
                let holes = (!is_whole).then_some(&is_valid[..keys]);
                self.weigh(scores, begin.min(end)..end, holes, &mut rows[row * width..][..width]);
            }
            for s in (0..count).step_by(STRIP) {
                // SAFETY: as above; the rows behind the last are computed in a copy.
                unsafe {
                    let a = Left { p: scores.as_ptr().add(s * TILE), row: TILE, k: keys };
                    let n = STRIP.min(count - s);
                    rows_times(a, n, rows_v.as_ptr(), padded, rows.as_mut_ptr().add(s * width), width);
                }
            }
        }
    }

    /// Asks for the first tile of some positions.
    fn prefetch_tile(&self, table: &[i32], head: usize, positions: Range<usize>, [k, v]: [&dyn Cache; 2]) {
        let end = positions.end.min(positions.start + TILE);
        let mut p = positions.start;
        while p < end {
            let (block, at) = (p / self.block_size, p % self.block_size);
            let count = (self.block_size - at).min(end - p);
            if let Some(b) = usize::try_from(table[block]).ok().filter(|b| *b < self.blocks) {
                let slots = [b * self.block_size + at, count];
                k.prefetch(slots, head);
                v.prefetch(slots, head);
            }
            p += count;
        }
    }

    /// Copies the keys and values of a tile, and says which there are: blocks outside of the cache are zeros, and so is
    /// what comes before the first key that is seen.
    fn load_tile(
        &self,
        table: &[i32],
        head: usize,
        [first, keys, seen]: [usize; 3],
        [k, v]: [&dyn Cache; 2],
        [rows_k, rows_v]: [&mut [f32]; 2],
    ) -> [bool; TILE] {
        let padded = self.padded();
        let mut is_valid = [false; TILE];
        let mut j = 0;
        while j < keys {
            // As many as lie side by side in a block.
            let p = first + j;
            let (block, at) = (p / self.block_size, p % self.block_size);
            let mut count = (self.block_size - at).min(keys - j);
            if p < seen {
                count = count.min(seen - p);
            }
            let block = usize::try_from(table[block]).ok().filter(|b| *b < self.blocks && p >= seen);
            let (to_k, to_v) = (&mut rows_k[j * padded..], &mut rows_v[j * padded..]);
            if let Some(b) = block {
                is_valid[j..j + count].fill(true);
                let slots = [b * self.block_size + at, count];
                k.read_rows(slots, head, to_k, [self.d, padded]);
                v.read_rows(slots, head, to_v, [self.d, padded]);
            } else {
                to_k[..count * padded].fill(0.0);
                to_v[..count * padded].fill(0.0);
            }
            j += count;
        }
        rows_k[keys * padded..].fill(0.0);
        is_valid
    }

    /// Turns the scores of a tile into weights, and brings a row's sums to the new maximum. Keys `seen` count, less
    /// those that `is_valid` denies.
    fn weigh(&self, scores: &mut [f32], seen: Range<usize>, is_valid: Option<&[bool]>, row: &mut [f32]) {
        let padded = self.padded();
        if self.softcap > 0.0 {
            scores.iter_mut().for_each(|s| *s /= self.softcap);
            f32s::inplace::tanh(scores);
            scores.iter_mut().for_each(|s| *s *= self.softcap);
        }
        scores[..seen.start].fill(f32::NEG_INFINITY);
        scores[seen.end..].fill(f32::NEG_INFINITY);
        for (is_valid, s) in is_valid.unwrap_or(&[]).iter().zip(&mut *scores) {
            *s = if *is_valid { *s } else { f32::NEG_INFINITY };
        }
        let before = row[padded];
        // SAFETY: a tile of scores.
        let most = unsafe { shift(scores.as_mut_ptr(), before) };
        if most == f32::NEG_INFINITY {
            return scores.fill(0.0);
        }
        f32s::inplace::exp(scores);
        let mut sums = [0.0f32; 16];
        scores.chunks_exact(16).for_each(|s| (0..16).for_each(|i| sums[i] += s[i]));
        let sum: f32 = sums.into_iter().sum();
        if before != most {
            let mut old = [before - most];
            f32s::inplace::exp(&mut old);
            row[..padded].iter_mut().for_each(|x| *x *= old[0]);
            row[padded] = most;
            row[padded + 1] *= old[0];
        }
        row[padded + 1] += sum;
    }
}

dispatch! {
    /// Subtracts the maximum of a tile of scores and `before` from the scores, and returns it. A NaN is a maximum. Where
    /// all are -∞, they stay.
    unsafe fn shift(scores: *mut f32, before: f32) -> f32 {
        _I => {
            let scores = std::slice::from_raw_parts_mut(scores, TILE);
            let (mut lanes, mut nan) = ([f32::NEG_INFINITY; 16], [0u32; 16]);
            for s in scores.chunks_exact(16) {
                for i in 0..16 {
                    lanes[i] = if s[i] > lanes[i] { s[i] } else { lanes[i] };
                    nan[i] |= u32::from(s[i].is_nan());
                }
            }
            let most = lanes.into_iter().fold(before, |m, x| if x > m { x } else { m });
            let most = if nan.into_iter().any(|n| n > 0) { f32::NAN } else { most };
            if most != f32::NEG_INFINITY {
                scores.iter_mut().for_each(|s| *s -= most);
            }
            most
        }
    }
}

/// Adds the partial results of a later segment.
fn merge(total: &mut [f32], part: &[f32], padded: usize) {
    let most = total[padded].max(part[padded]);
    if most == f32::NEG_INFINITY {
        return;
    }
    let (a, b) = ((total[padded] - most).exp(), (part[padded] - most).exp());
    for (t, p) in total[..padded].iter_mut().zip(part) {
        *t = *t * a + *p * b;
    }
    total[padded] = most;
    total[padded + 1] = total[padded + 1] * a + part[padded + 1] * b;
}

/// Rows on the left of a product, which are `row` elements apart, of `k` elements.
#[derive(Clone, Copy)]
struct Left {
    p: *const f32,
    row: usize,
    k: usize,
}

/// Adds the product of `n` rows (of a strip, all readable) and `[k][cols]` to rows of sums `c_row` apart.
unsafe fn rows_times(a: Left, n: usize, b: *const f32, cols: usize, c: *mut f32, c_row: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if n == STRIP {
            return product(a, b, cols, cols, c, c_row);
        }
        let copy = Scratch::<f32>::new(STRIP * cols);
        let sums = copy.slice();
        sums.fill(0.0);
        for r in 0..n {
            sums[r * cols..][..cols].copy_from_slice(std::slice::from_raw_parts(c.add(r * c_row), cols));
        }
        product(a, b, cols, cols, sums.as_mut_ptr(), cols);
        for r in 0..n {
            std::slice::from_raw_parts_mut(c.add(r * c_row), cols).copy_from_slice(&sums[r * cols..][..cols]);
        }
    }
}

dispatch! {
    /// Adds the product of a strip of rows and `[k][cols]` to rows of sums, in the order of `k`.
    unsafe fn product(a: Left, b: *const f32, b_row: usize, cols: usize, c: *mut f32, c_row: usize) {
        I => {
            let n = <<I as Isa>::S as Vector>::N;
            if n == 16 {
                for j in (0..cols).step_by(4 * n) {
                    columns::<I, 4>(a, b.add(j), b_row, c.add(j), c_row);
                }
            } else {
                for j in (0..cols).step_by(2 * n) {
                    columns::<I, 2>(a, b.add(j), b_row, c.add(j), c_row);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn columns<I: Isa, const NV: usize>(a: Left, b: *const f32, b_row: usize, c: *mut f32, c_row: usize) {
    let n = <I::S as Vector>::N;
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[I::S::splat(0.0); NV]; STRIP];
        for r in 0..STRIP {
            for v in 0..NV {
                sums[r][v] = I::S::load(c.add(r * c_row + v * n));
            }
        }
        for j in 0..a.k {
            let mut right = [I::S::splat(0.0); NV];
            for v in 0..NV {
                right[v] = I::S::load(b.add(j * b_row + v * n));
            }
            for r in 0..STRIP {
                let x = I::S::splat(*a.p.add(r * a.row + j));
                for v in 0..NV {
                    sums[r][v] = right[v].fma(x, sums[r][v]);
                }
            }
        }
        for r in 0..STRIP {
            for v in 0..NV {
                sums[r][v].store(c.add(r * c_row + v * n));
            }
        }
    }
}

/// `to[d][TILE]` from `from[TILE][row]`, of which `d` columns count, rounded up to four.
unsafe fn transpose(from: *const f32, d: usize, row: usize, to: *mut f32) {
    #[inline(always)]
    unsafe fn by<W: Words>(from: *const f32, d: usize, row: usize, to: *mut f32) {
        for j in (0..TILE).step_by(W::N) {
            for i in (0..d).step_by(4) {
                // SAFETY: the caller's promise; rows are padded to more than four columns.
                unsafe {
                    let words = W::load4(from.add(j * row + i).cast(), 4 * row);
                    for (q, w) in words.into_iter().enumerate() {
                        w.store(to.add((i + q) * TILE + j).cast());
                    }
                }
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2")]
    unsafe fn by512(from: *const f32, d: usize, row: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { by::<super::quant::decode::x86::Sixteen>(from, d, row, to) }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn by256(from: *const f32, d: usize, row: usize, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { by::<super::quant::decode::x86::Eight>(from, d, row, to) }
    }
    // SAFETY: the caller's promise; the level is one of this machine.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match level() {
            Level::Avx512 => return by512(from, d, row, to),
            Level::Avx2 => return by256(from, d, row, to),
            _ => {}
        }
        by::<u32>(from, d, row, to);
    }
}
