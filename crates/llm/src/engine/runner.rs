//! A step of a running batch as a compiled program: one per bucket of sizes, replayed as lengths change.

use super::blocks::BlockId;
use crate::adapters::Adapters;
use crate::models::Decoder;
use crate::models::attend::{Attend, Scores, Sequences};
use crate::models::is_on_host;
use crate::sample::Sampled;
use ir::{DType, Literal, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
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
    /// The adapter of each token, where the model has several.
    pub adapters: Vec<i32>,
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
    /// By the rows of logits, whether the batch is the beginning of one sequence, and whether tokens are chosen.
    traces: Mutex<BTreeMap<(usize, bool, bool), Arc<Traces>>>,
    adapters: Option<Arc<Adapters>>,
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

/// Elements of a cached row: a scale of 4 bytes is behind numbers of 8 bits.
pub(super) fn cache_width(dtype: DType, head_dim: usize) -> usize {
    if dtype == DType::I8 { head_dim + 4 } else { head_dim }
}

/// Attention over the pages of a cache.
struct Paged<'a> {
    caches: &'a [[Variable; 2]],
    tables: &'a Tensor,
    sequences: &'a Tensor,
    positions: &'a Tensor,
    slots: &'a Tensor,
    /// Whether the tokens are the beginning of one sequence, which see each other and nothing else.
    is_fresh: bool,
}

impl Attend for Paged<'_> {
    fn attend(&self, layer: usize, q: &Tensor, k: &Tensor, v: &Tensor, s: Scores) -> Result<Tensor> {
        let [keys, values] = &self.caches[layer];
        keys.assign(&keys.tensor().paged_write(k, self.slots))?;
        values.assign(&values.tensor().paged_write(v, self.slots))?;
        if self.is_fresh {
            return Sequences { count: 1, length: q.shape()?[0] }.attend(layer, q, k, v, s);
        }
        let options = PagedOptions { scale: s.scale, window: s.window as i64, softcap: s.softcap };
        let caches = [&keys.tensor(), &values.tensor()];
        Ok(q.paged_attention(caches, self.tables, [self.sequences, self.positions], options))
    }
}

/// The next size of a bucket: 1, 2, 4, 8, then multiples of 8 that are at most an eighth too large.
fn bucket(n: usize) -> usize {
    let size = n.max(1).next_power_of_two();
    if size <= 8 { size } else { n.next_multiple_of((size / 8).max(8)) }
}

fn padded(mut x: Vec<i32>, n: usize, with: i32) -> Result<Tensor> {
    x.resize(n, with);
    Ok(Literal::new([n], &x)?.into())
}

impl Runner {
    /// A cache of zeros.
    pub fn new(decoder: Arc<Decoder>, s: CacheSizes) -> Result<Runner> {
        let c = &decoder.config;
        let shape = [s.blocks, s.block_tokens, c.kv_heads, cache_width(s.dtype, c.head_dim)];
        let cache = |name: &str| Variable::buffer(name, Literal::zeros(s.dtype, shape));
        let caches = (0..c.layers).map(|_| Ok([cache("keys")?, cache("values")?])).collect::<Result<Vec<_>>>()?;
        let reach = s.length_max.div_ceil(s.block_tokens);
        let (block_tokens, sequences_max) = (s.block_tokens, s.sequences_max);
        let (traces, adapters) = (Mutex::default(), None);
        Ok(Runner { decoder, caches, block_tokens, reach, sequences_max, traces, adapters })
    }
    /// Tokens may use these adapters.
    pub fn set_adapters(&mut self, adapters: Arc<Adapters>) {
        self.adapters = Some(adapters);
    }
    /// Tokens of a block.
    pub fn block_tokens(&self) -> usize {
        self.block_tokens
    }
    /// Programs that were compiled.
    pub fn programs(&self) -> usize {
        self.traces.lock().values().map(|t| t.count()).sum()
    }

    /// Whether attention need not look at the cache: a GPU computes the beginning of a sequence with its kernels for
    /// whole sequences. A CPU does not, as their sums are made in another order.
    fn is_fresh(&self, batch: &Batch) -> bool {
        let c = &self.decoder.config;
        let is_plain = c.attention_softcap == 0.0 && (c.window == 0 || c.window >= batch.tokens.len());
        !is_on_host() && is_plain && batch.tables.len() == 1 && batch.tokens.len() > 64 && batch.positions[0] == 0
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
        let out = self.results(batch, false)?;
        let vocabulary = self.decoder.vocabulary()?;
        let all = out[0].to_vec::<f32>()?;
        Ok(all.chunks_exact(vocabulary).take(wanted).map(<[f32]>::to_vec).collect())
    }

    /// The likeliest tokens of a batch with their log probabilities, rows in order; logits stay on the device.
    pub fn run_greedy(&self, batch: Batch) -> Result<Vec<Result<Sampled>>> {
        let wanted = batch.rows.len();
        let out = self.results(batch, true)?;
        let (tokens, logprobs) = (out[0].to_vec::<i32>()?, out[1].to_vec::<f32>()?);
        let one = |(token, logprob): (i32, f32)| match logprob.is_nan() {
            false => Ok(Sampled { token: token as u32, logprob, top: Vec::new() }),
            true => Err(ir::Error::value("the logits hold no number")),
        };
        Ok(tokens.into_iter().zip(logprobs).take(wanted).map(one).collect())
    }

    /// The logits of a batch, or the likeliest tokens and their log probabilities.
    fn results(&self, batch: Batch, is_greedy: bool) -> Result<Vec<Tensor>> {
        let wanted = batch.rows.len();
        let t = bucket(batch.tokens.len());
        let (rows, is_fresh) = (self.rows(wanted, t), self.is_fresh(&batch));
        let mut tables = vec![-1i32; self.sequences_max * self.reach];
        for (row, blocks) in tables.chunks_exact_mut(self.reach).zip(&batch.tables) {
            row.iter_mut().zip(blocks).for_each(|(to, b)| *to = b.0 as i32);
        }
        let mut places = vec![-1; batch.tokens.len()];
        batch.rows.iter().enumerate().for_each(|(i, row)| places[*row as usize] = i as i32);
        let inputs = [
            padded(batch.tokens, t, 0)?,
            padded(batch.positions, t, 0)?,
            padded(batch.sequences, t, -1)?,
            padded(batch.slots, t, -1)?,
            Literal::new([self.sequences_max, self.reach], &tables)?.into(),
            padded(places, t, -1)?,
            padded(batch.adapters, if self.adapters.is_some() { t } else { 1 }, 0)?,
        ];
        let args: Vec<&Tensor> = inputs.iter().collect();
        let traces = self.traces.lock().entry((rows, is_fresh, is_greedy)).or_default().clone();
        let step = |a: &[Tensor]| {
            let z = self.step(a, rows, is_fresh)?;
            if !is_greedy {
                return Ok((vec![z], ()));
            }
            let logprobs = z.max(-1) - z.logsumexp(-1);
            Ok((vec![z.argmax(-1).cast(DType::I32), logprobs], ()))
        };
        Ok(tensor::no_grad(|| traces.call(&args, step, |()| ()))?.0)
    }

    fn step(&self, a: &[Tensor], rows: usize, is_fresh: bool) -> Result<Tensor> {
        let [tokens, positions, sequences, slots, tables, places, adapters] = a else {
            return Err(ir::Error::bug("a step has seven inputs"));
        };
        let attend = Paged { caches: &self.caches, tables, sequences, positions, slots, is_fresh };
        let hidden = || self.decoder.hidden(tokens, positions, &attend);
        let hidden = self.adapters.as_ref().map_or_else(hidden, |all| all.with(adapters, hidden))?;
        // The rows are written into place, not indexed: an index may be out of range, and nothing is updated in place
        // before an op that may fail. The caches would be copied at every step.
        let width = self.decoder.config.hidden;
        let chosen = Tensor::zeros([1, rows, 1, width]).cast(hidden.dtype()?);
        let chosen = chosen.paged_write(&hidden.unsqueeze(1), places).reshape([rows, width]);
        Ok(self.decoder.logits(&chosen))
    }
}
