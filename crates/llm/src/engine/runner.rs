//! A step of a running batch as a compiled program: one per bucket of sizes, replayed as lengths change.

use super::blocks::BlockId;
use crate::models::Decoder;
use crate::models::attend::{Attend, Scores};
use ir::{DType, Literal, Result};
use std::sync::Arc;
use tensor::nn::PagedOptions;
use tensor::{Tensor, Traces, Variable};

/// Tokens of many sequences that are computed together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The tokens.
    pub tokens: Vec<i32>,
    /// Their positions.
    pub positions: Vec<i32>,
    /// The row of `tables` that each belongs to.
    pub sequences: Vec<i32>,
    /// Where its key and value go: block times the block's size, plus the position in it.
    pub slots: Vec<i32>,
    /// The blocks of each sequence.
    pub tables: Vec<Vec<BlockId>>,
    /// Tokens whose logits are asked for.
    pub rows: Vec<i32>,
}

impl Batch {
    /// Adds tokens `start..` of a sequence whose KV lies in these blocks; the logits of the last `logits` are asked
    /// for.
    pub fn push(&mut self, tokens: &[u32], start: usize, blocks: &[BlockId], block_tokens: usize, logits: usize) {
        let row = self.tables.len() as i32;
        for (i, token) in tokens.iter().enumerate() {
            let at = start + i;
            self.tokens.push(*token as i32);
            self.positions.push(at as i32);
            self.sequences.push(row);
            self.slots.push((blocks[at / block_tokens].0 as usize * block_tokens + at % block_tokens) as i32);
        }
        self.tables.push(blocks.to_vec());
        let end = self.tokens.len() as i32;
        self.rows.extend(end - logits as i32..end);
    }
}

/// The KV cache of a model and the programs that use it.
pub struct Runner {
    decoder: Arc<Decoder>,
    /// Keys and values of each layer, `[blocks, block_tokens, kv_heads, head_dim]`.
    caches: Vec<[Variable; 2]>,
    block_tokens: usize,
    /// Blocks of a sequence at most.
    reach: usize,
    /// Sequences of a batch at most.
    sequences_max: usize,
    traces: Traces,
}

/// Sizes of a KV cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheSizes {
    /// Blocks.
    pub blocks: usize,
    /// Tokens of a block.
    pub block_tokens: usize,
    /// Tokens of a sequence at most.
    pub length_max: usize,
    /// Sequences of a batch at most.
    pub sequences_max: usize,
    /// How keys and values are stored.
    pub dtype: DType,
}

/// Attention over the pages of a cache.
struct Paged<'a> {
    caches: &'a [[Variable; 2]],
    tables: &'a Tensor,
    sequences: &'a Tensor,
    positions: &'a Tensor,
    slots: &'a Tensor,
}

impl Attend for Paged<'_> {
    fn attend(&self, layer: usize, q: &Tensor, k: &Tensor, v: &Tensor, s: Scores) -> Result<Tensor> {
        let [keys, values] = &self.caches[layer];
        keys.assign(&keys.tensor().paged_write(k, self.slots))?;
        values.assign(&values.tensor().paged_write(v, self.slots))?;
        let options = PagedOptions { scale: s.scale, window: s.window as i64, softcap: s.softcap };
        let caches = [&keys.tensor(), &values.tensor()];
        Ok(q.paged_attention(caches, self.tables, [self.sequences, self.positions], options))
    }
}

/// The next size of a bucket.
fn bucket(n: usize) -> usize {
    n.max(1).next_power_of_two()
}

fn padded(mut x: Vec<i32>, n: usize, with: i32) -> Result<Tensor> {
    x.resize(n, with);
    Ok(Literal::new([n], &x)?.into())
}

impl Runner {
    /// A cache of zeros.
    pub fn new(decoder: Arc<Decoder>, s: CacheSizes) -> Result<Runner> {
        let c = &decoder.config;
        let shape = [s.blocks, s.block_tokens, c.kv_heads, c.head_dim];
        let cache = |name: &str| Variable::buffer(name, Literal::zeros(s.dtype, shape));
        let caches = (0..c.layers).map(|_| Ok([cache("keys")?, cache("values")?])).collect::<Result<Vec<_>>>()?;
        let reach = s.length_max.div_ceil(s.block_tokens);
        let (block_tokens, sequences_max) = (s.block_tokens, s.sequences_max);
        Ok(Runner { decoder, caches, block_tokens, reach, sequences_max, traces: Traces::default() })
    }
    /// Tokens of a block.
    pub fn block_tokens(&self) -> usize {
        self.block_tokens
    }
    /// Programs that were compiled.
    pub fn programs(&self) -> usize {
        self.traces.count()
    }

    /// Rows of logits of a program: few sizes, so that there are few programs.
    fn rows(&self, wanted: usize, tokens: usize) -> usize {
        let sizes = [1, 8, 32, 128];
        let size = sizes.into_iter().find(|s| *s >= wanted).unwrap_or_else(|| bucket(wanted));
        if size >= tokens { tokens } else { size }
    }

    /// The logits `[rows, vocabulary]` of a batch, rows in order. Keys and values of its tokens are in the cache
    /// afterwards.
    pub fn run(&self, batch: Batch) -> Result<Vec<Vec<f32>>> {
        let wanted = batch.rows.len();
        let t = bucket(batch.tokens.len());
        let rows = self.rows(wanted, t);
        let mut tables = vec![-1i32; self.sequences_max * self.reach];
        for (row, blocks) in tables.chunks_exact_mut(self.reach).zip(&batch.tables) {
            row.iter_mut().zip(blocks).for_each(|(to, b)| *to = b.0 as i32);
        }
        let inputs = [
            padded(batch.tokens, t, 0)?,
            padded(batch.positions, t, 0)?,
            padded(batch.sequences, t, -1)?,
            padded(batch.slots, t, -1)?,
            Literal::new([self.sequences_max, self.reach], &tables)?.into(),
            padded(batch.rows, rows, 0)?,
        ];
        let args: Vec<&Tensor> = inputs.iter().collect();
        let (out, ()) = tensor::no_grad(|| self.traces.call(&args, |a| Ok((vec![self.step(a)?], ())), |()| ()))?;
        let vocabulary = self.decoder.vocabulary()?;
        let all = out[0].to_vec::<f32>()?;
        Ok(all.chunks_exact(vocabulary).take(wanted).map(<[f32]>::to_vec).collect())
    }

    fn step(&self, a: &[Tensor]) -> Result<Tensor> {
        let [tokens, positions, sequences, slots, tables, rows] = a else {
            return Err(ir::Error::bug("a step has six inputs"));
        };
        let attend = Paged { caches: &self.caches, tables, sequences, positions, slots };
        let hidden = self.decoder.hidden(tokens, positions, &attend)?;
        Ok(self.decoder.logits(&hidden.index_select(0, rows)))
    }
}
