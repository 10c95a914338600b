//! Paged attention against plain arithmetic; results that do not depend on the batch or on chunks.

use super::*;
use crate::kernels::testing::Noise;
use std::sync::Mutex;

/// A cache of f32.
struct Floats {
    data: Vec<f32>,
    heads: usize,
    d: usize,
}

impl Cache for Floats {
    fn read(&self, slot: usize, head: usize, to: &mut [f32]) {
        to.copy_from_slice(&self.data[(slot * self.heads + head) * self.d..][..self.d]);
    }
}

/// Some sequences, and queries at all of their positions.
struct Model {
    heads: usize,
    kv_heads: usize,
    d: usize,
    block_size: usize,
    window: usize,
    softcap: f32,
    blocks: usize,
    reach: usize,
    tables: Vec<i32>,
    lengths: Vec<usize>,
    cache: [Floats; 2],
    queries: Vec<Vec<f32>>,
}

impl Model {
    fn new(lengths: &[usize], [heads, kv_heads, d, block_size]: [usize; 4], window: usize, softcap: f32) -> Model {
        let mut noise = Noise::new(7);
        let reach = lengths.iter().max().unwrap().div_ceil(block_size) + 1;
        let blocks = lengths.len() * reach + 1;
        // Blocks in an order of no pattern, and garbage in all of them at first.
        let mut order: Vec<i32> = (0..blocks as i32).collect();
        (1..blocks).for_each(|i| order.swap(i, noise.range(0, i)));
        let mut floats = || Floats { data: noise.f32s(blocks * block_size * kv_heads * d), heads: kv_heads, d };
        let cache = [floats(), floats()];
        let queries = lengths.iter().map(|n| noise.f32s(n * heads * d)).collect();
        let tables = order[..lengths.len() * reach].to_vec();
        let lengths = lengths.to_vec();
        Model { heads, kv_heads, d, block_size, window, softcap, blocks, reach, tables, lengths, cache, queries }
    }
    /// The results of a batch of (sequence, position); padding where the sequence is negative.
    fn run(&self, batch: &[(i32, usize)]) -> Vec<f32> {
        let sequences: Vec<i32> = batch.iter().map(|b| b.0).collect();
        let positions: Vec<i32> = batch.iter().map(|b| b.1 as i32).collect();
        let row = self.heads * self.d;
        let out = Mutex::new(vec![f32::NAN; batch.len() * row]);
        let paged = Paged {
            heads: self.heads,
            kv_heads: self.kv_heads,
            d: self.d,
            blocks: self.blocks,
            block_size: self.block_size,
            tables: &self.tables,
            reach: self.reach,
            sequences: &sequences,
            positions: &positions,
            scale: 0.4,
            window: self.window,
            softcap: self.softcap,
        };
        let query = |t: usize, h: usize, to: &mut [f32]| {
            let (n, p) = batch[t];
            to.copy_from_slice(&self.queries[n as usize][(p * self.heads + h) * self.d..][..self.d]);
        };
        paged.run([&self.cache[0], &self.cache[1]], &query, &|t, h, y| {
            out.lock().unwrap()[t * row + h * self.d..][..self.d].copy_from_slice(y);
        });
        out.into_inner().unwrap()
    }
    fn plain(&self, n: usize, p: usize, h: usize) -> Vec<f64> {
        let g = h / (self.heads / self.kv_heads);
        let first = if self.window > 0 { (p + 1).saturating_sub(self.window) } else { 0 };
        let row = |cache: &Floats, p: usize| -> Vec<f64> {
            let mut to = vec![0.0f32; self.d];
            let block = self.tables[n * self.reach + p / self.block_size] as usize;
            cache.read(block * self.block_size + p % self.block_size, g, &mut to);
            to.into_iter().map(f64::from).collect()
        };
        let q = &self.queries[n][(p * self.heads + h) * self.d..][..self.d];
        let score = |p: usize| {
            let s = 0.4 * row(&self.cache[0], p).iter().zip(q).map(|(a, b)| a * *b as f64).sum::<f64>();
            let c = self.softcap as f64;
            if c > 0.0 { c * (s / c).tanh() } else { s }
        };
        let weights: Vec<f64> = (first..=p).map(|p| score(p).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; self.d];
        for (i, w) in weights.iter().enumerate() {
            out.iter_mut().zip(row(&self.cache[1], first + i)).for_each(|(o, v)| *o += w / total * v);
        }
        out
    }
}

#[test]
fn chunks_and_steps_match_plain_arithmetic() {
    for (sizes, window, softcap) in
        [([4, 4, 8, 4], 0, 0.0), ([6, 2, 64, 16], 0, 0.0), ([8, 1, 80, 16], 100, 0.0), ([4, 2, 5, 3], 7, 1.5)]
    {
        let m = Model::new(&[700, 3, 65], sizes, window, softcap);
        // A chunk, padding, steps of the others.
        let mut batch: Vec<(i32, usize)> = (600..640).map(|p| (0, p)).collect();
        batch.extend([(-1, 0), (1, 2), (2, 64), (2, 0), (0, 699)]);
        let got = m.run(&batch);
        for (t, &(n, p)) in batch.iter().enumerate() {
            for h in 0..m.heads {
                let got = &got[(t * m.heads + h) * m.d..][..m.d];
                let want = if n < 0 { vec![0.0; m.d] } else { m.plain(n as usize, p, h) };
                for (a, b) in got.iter().zip(want) {
                    assert!((*a as f64 - b).abs() < 2e-5, "{sizes:?} token {t} head {h}: {a}, want {b}");
                }
            }
        }
    }
}

#[test]
fn a_token_has_the_same_bits_in_any_company() {
    let mut noise = Noise::new(8);
    for (sizes, window) in [([6, 2, 64, 16], 0), ([4, 4, 16, 5], 90)] {
        let m = Model::new(&[1100, 40, 513], sizes, window, 0.0);
        let row = m.heads * m.d;
        for _ in 0..40 {
            let mut batch = Vec::new();
            for _ in 0..noise.range(1, 5) {
                let n = noise.range(0, m.lengths.len() - 1);
                let first = noise.range(0, m.lengths[n] - 1);
                let count = noise.range(1, 50).min(m.lengths[n] - first);
                batch.extend((first..first + count).map(|p| (n as i32, p)));
                if noise.flip() {
                    batch.push((-1, 0));
                }
            }
            let together = m.run(&batch);
            let t = noise.range(0, batch.len() - 1);
            let alone = m.run(&batch[t..t + 1]);
            let same = alone.iter().zip(&together[t * row..]).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{sizes:?} window {window}: token {t} of {batch:?}");
        }
    }
}
