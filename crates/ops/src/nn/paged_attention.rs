//! `paged_attention`: attention of a ragged batch over a paged KV cache.

use super::paged_write::{is_cache, restored, stored_width};
use crate::rules::{f64s, floats, real, same};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op};

/// The row of `paged_attention`.
pub static OP: Op = Op {
    name: "paged_attention",
    doc: "softmax(scale q kᵀ) v for queries q[T, H, D] of many sequences over paged caches k, v[B, S, G, D], where G \
          divides H and neighboring heads share keys. Position p of sequence n lies at p mod S of block \
          tables[n, p / S]; tables is i32[N, M]. Token t is at position positions[t] of sequence sequences[t] (both \
          i32[T]) and sees the positions up to its own; with `window` > 0, only that many of the last. Scores s become \
          c tanh(s / c) if `softcap` c > 0. A token whose sequence is not in 0..N is padding, and its result is zero. \
          Blocks outside of the cache are masked. Caches of type i8 have rows of D + 4 (see `paged_write`). \
          A token's result does not depend on the other tokens.",
    attrs: &[("scale", AttrKind::Float), ("window", AttrKind::Int), ("softcap", AttrKind::Float)],
    infer: |c| {
        c.arity(6)?;
        real(c, 0)?;
        check(c)?;
        same(c, 0)
    },
    meaning: Meaning::Kernel(|c, args| {
        let (scale, softcap) = (c.attrs.float("scale")?, c.attrs.float("softcap")?);
        let window = c.attrs.size("window")?;
        let stored = |i: usize| restored(c.dtype(i), args[i].to_f64(), c.shape(0)[2]);
        let (q, k, v) = (args[0].to_f64(), stored(1), stored(2));
        let [tables, sequences, positions] = [3, 4, 5].map(|i| args[i].to_i64());
        let (tokens, heads, d) = (c.shape(0)[0], c.shape(0)[1], c.shape(0)[2]);
        let (blocks, size, kv_heads) = (c.shape(1)[0], c.shape(1)[1], c.shape(1)[2]);
        let (rows, reach) = (c.shape(3)[0], c.shape(3)[1]);
        let mut out = vec![0.0; tokens * heads * d];
        for (t, (&n, &p)) in sequences.iter().zip(&positions).enumerate() {
            if n < 0 || n >= rows as i64 || p < 0 {
                continue;
            }
            let last = (p as usize + 1).min(reach * size);
            let first = if window > 0 { (p as usize + 1).saturating_sub(window) } else { 0 };
            let slots: Vec<usize> = (first..last)
                .map(|p| (tables[n as usize * reach + p / size], p % size))
                .filter(|(b, _)| (0..blocks as i64).contains(b))
                .map(|(b, i)| b as usize * size + i)
                .collect();
            for h in 0..heads {
                let g = h / (heads / kv_heads);
                let at = |slot: usize| (slot * kv_heads + g) * d;
                let q = &q[(t * heads + h) * d..][..d];
                let score = |slot: usize| {
                    let s = scale * q.iter().zip(&k[at(slot)..][..d]).map(|(a, b)| a * b).sum::<f64>();
                    if softcap > 0.0 { softcap * (s / softcap).tanh() } else { s }
                };
                let scores: Vec<f64> = slots.iter().map(|&s| score(s)).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|s| (s - most).exp()).sum();
                let out = &mut out[(t * heads + h) * d..][..d];
                for (&slot, s) in slots.iter().zip(&scores) {
                    let weight = (s - most).exp() / total;
                    out.iter_mut().zip(&v[at(slot)..][..d]).for_each(|(o, v)| *o += weight * v);
                }
            }
        }
        Ok(vec![Literal::from_f64(c.dtype(0), c.shape(0).clone(), &out)])
    }),
    grad: Grad::Missing("a KV cache is for inference; train with `attention`"),
    cases,
    ..Op::DEFAULT
};

/// Fails unless shapes and types fit together.
fn check(c: &Call) -> Result<()> {
    let [q, k, v, tables, sequences, positions] = [0, 1, 2, 3, 4, 5].map(|i| c.shape(i));
    if !is_cache(c.dtype(1)) || c.dtype(1) != c.dtype(2) || c.types[3..].iter().any(|t| t.dtype != DType::I32) {
        let got: Vec<String> = c.types.iter().map(|t| t.dtype.to_string()).collect();
        let e =
            "float queries, two caches of one float type (or i8) and i32 tables, sequences and positions are needed";
        return Err(Error::dtype(format!("{e}, not {}", got.join(", "))));
    }
    let fits = q.rank() == 3
        && k.rank() == 4
        && k == v
        && k[3] == stored_width(c.dtype(1), q[2])
        && k[2] > 0
        && q[1].is_multiple_of(k[2])
        && k[1] > 0
        && tables.rank() == 2
        && sequences.dims() == [q[0]]
        && positions.dims() == [q[0]];
    if !fits {
        let got: Vec<String> = c.types.iter().map(|t| t.shape.to_string()).collect();
        let e = "q[T, H, D], caches k, v[B, S, G, D], tables[N, M], sequences[T] and positions[T] are needed";
        return Err(Error::shape(format!("{e}, not {}", got.join(", "))));
    }
    let (window, softcap) = (c.attrs.int("window")?, c.attrs.float("softcap")?);
    if window < 0 || softcap.is_nan() || softcap < 0.0 {
        let e = format!("window and softcap must be 0 (none) or more, not {window} and {softcap}");
        return Err(Error::value(e));
    }
    Ok(())
}

/// A cache of type i8; scales of 2⁻⁸ follow the numbers.
fn in_bytes() -> Case {
    let scale = (1.0f32 / 256.0).to_le_bytes();
    let cache = |seed: usize| {
        let number = move |i: usize| ((i * 37 + seed * 101) % 255) as i64 as i8 ^ 0x55;
        let at = move |i: usize| if i % 12 < 8 { number(i) } else { scale[i % 12 - 8] as i8 };
        Literal::generate([2, 4, 1, 12], at)
    };
    let ints = |shape: &[usize], x: &[i32]| Literal::generate(shape, |i| x[i]);
    let (sequences, positions) = (ints(&[2], &[0, 0]), ints(&[2], &[4, 5]));
    let inputs = vec![floats([2, 2, 8], 1), cache(1), cache(2), ints(&[1, 2], &[1, 0]), sequences, positions];
    Case::new(inputs, PagedOptions { scale: 0.3, window: 0, softcap: 0.0 }.attrs())
}

fn cases() -> Vec<Case> {
    let ints = |shape: &[usize], x: &[i32]| Literal::generate(shape, |i| x[i]);
    // A chunk of a prefill, a decode step, padding, and a sequence with a block outside of the cache.
    let ragged = |heads: usize, kv_heads: usize, d: usize, window: i64, softcap: f64| {
        let cache = [6, 4, kv_heads, d];
        let tables = ints(&[3, 3], &[4, 1, 9, 0, 5, 2, 3, -1, 0]);
        let (sequences, positions) = (ints(&[6], &[0, 0, 0, 1, -1, 2]), ints(&[6], &[3, 4, 5, 9, 0, 5]));
        let inputs = vec![floats([6, heads, d], 1), floats(cache, 2), floats(cache, 3), tables, sequences, positions];
        Case::new(inputs, PagedOptions { scale: 0.3, window, softcap }.attrs())
    };
    let k = f64s([1, 2, 1, 1], &[0.0, 3f64.ln()]);
    let v = f64s([1, 2, 1, 1], &[1.0, 3.0]);
    let by_hand = vec![f64s([1, 1, 1], &[1.0]), k, v, ints(&[1, 1], &[0]), ints(&[1], &[0]), ints(&[1], &[1])];
    vec![
        ragged(2, 2, 3, 0, 0.0),
        ragged(6, 2, 16, 0, 0.0),
        ragged(4, 1, 8, 3, 0.0),
        ragged(4, 2, 5, 4, 2.0),
        in_bytes(),
        Case::new(by_hand, PagedOptions { scale: 1.0, window: 0, softcap: 0.0 }.attrs())
            .expect(vec![f64s([1, 1, 1], &[2.5])], "by hand: weights 1/4 and 3/4"),
    ]
}

/// How scores are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagedOptions {
    /// Factor of the scores.
    pub scale: f64,
    /// How many of the last positions a token sees; 0 for all.
    pub window: i64,
    /// Scores s become c tanh(s / c); 0 for none.
    pub softcap: f64,
}

impl PagedOptions {
    fn attrs(self) -> Attrs {
        Attrs::new().with("scale", self.scale).with("window", self.window).with("softcap", self.softcap)
    }
}

impl Tensor {
    /// Attention of these queries `[T, H, D]` over paged caches `[B, S, G, D]`.
    ///
    /// `tables`, `i32[N, M]`, has the blocks of each sequence; `sequences` and `positions`, `i32[T]`, say which
    /// sequence a token belongs to (−1 for padding) and where it is. Decode steps and chunks of prefills may stand in
    /// one batch. Keys and values of the tokens must be in the caches already ([`Tensor::paged_write`]).
    #[track_caller]
    pub fn paged_attention(
        &self,
        [k, v]: [&Tensor; 2],
        tables: &Tensor,
        [sequences, positions]: [&Tensor; 2],
        options: PagedOptions,
    ) -> Tensor {
        Tensor::apply1(&OP, &[self, k, v, tables, sequences, positions], options.attrs())
    }
}
