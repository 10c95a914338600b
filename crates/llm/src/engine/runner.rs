//! A step of a running batch as a compiled program: one per bucket of sizes, replayed as lengths change.

use super::blocks::BlockId;
use crate::adapters::Adapters;
use crate::models::Decoder;
use crate::models::attend::{Attend, Scores, Sequences};
use crate::models::{is_on_host, placed};
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
    /// The row of the step before whose result each token is, or −1: it is in `tokens`.
    pub sources: Vec<i32>,
}

impl Batch {
    /// Adds tokens `start..` of a sequence whose KV lies in these blocks; the logits of the last `logits` are asked
    /// for.
    pub fn push(&mut self, tokens: &[u32], start: usize, blocks: &[BlockId], block_tokens: usize, logits: usize) {
        let row = self.tables.len() as i32;
        for (i, token) in tokens.iter().enumerate() {
            let at = start + i;
            self.tokens.push(*token as i32);
            self.sources.push(-1);
            self.positions.push(at as i32);
            self.sequences.push(row);
            self.slots.push((blocks[at / block_tokens].0 as usize * block_tokens + at % block_tokens) as i32);
        }
        self.tables.push(blocks.to_vec());
        let end = self.tokens.len() as i32;
        self.rows.extend(end - logits as i32..end);
    }
    /// The last token is what a row of the step before has given.
    pub fn take_last_from(&mut self, row: usize) {
        if let Some(source) = self.sources.last_mut() {
            *source = row as i32;
        }
    }
}

/// The logits of a step, where the program has left them: a copy takes longer than a draw.
pub struct Logits {
    all: Literal,
    vocabulary: usize,
}

impl Logits {
    /// The logits of row `i`.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.all.stored::<f32>()[i * self.vocabulary..][..self.vocabulary]
    }
}

/// The likeliest token of each row of a step. They are on the device until they are read.
pub struct Chosen {
    /// `[2, rows]`: tokens, and their log probabilities.
    both: Tensor,
    count: usize,
}

impl Chosen {
    /// Waits for them.
    pub fn read(&self) -> Result<Vec<Result<Sampled>>> {
        let all = self.both.to_vec::<f32>()?;
        let (tokens, logprobs) = all.split_at(all.len() / 2);
        let one = |(token, logprob): (&f32, &f32)| match logprob.is_nan() {
            false => Ok(Sampled { token: *token as u32, logprob: *logprob, top: Vec::new() }),
            true => Err(ir::Error::value("the logits hold no number")),
        };
        Ok(tokens.iter().zip(logprobs).take(self.count).map(one).collect())
    }
}

/// What kind of program a batch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    /// Rows of logits.
    rows: usize,
    /// Whether the batch is the beginning of one sequence.
    is_fresh: bool,
    /// Whether tokens are chosen.
    is_greedy: bool,
    /// Whether every token's logits are asked for.
    is_whole: bool,
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
    traces: Mutex<BTreeMap<Kind, Arc<Traces>>>,
    /// Results of no step, by their rows.
    blanks: Mutex<BTreeMap<usize, Tensor>>,
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
pub(super) fn bucket(n: usize) -> usize {
    let size = n.max(1).next_power_of_two();
    if size <= 8 { size } else { n.next_multiple_of((size / 8).max(8)) }
}

/// The largest size of a bucket that is no more than `n`; 1 at least.
pub(super) fn bucket_below(n: usize) -> usize {
    let size = n.max(1).next_power_of_two();
    match size <= 8 {
        true if size == n.max(1) => size,
        true => size / 2,
        false => n / (size / 8).max(8) * (size / 8).max(8),
    }
}

/// Adds numbers, and so many of the last kind that there are n.
fn put(to: &mut Vec<i32>, x: &[i32], n: usize, with: i32) {
    let end = to.len() + n;
    to.extend_from_slice(x);
    to.resize(end, with);
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
        let (traces, blanks, adapters) = (Mutex::default(), Mutex::default(), None);
        Ok(Runner { decoder, caches, block_tokens, reach, sequences_max, traces, blanks, adapters })
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

    fn kind(&self, batch: &Batch, is_greedy: bool) -> Kind {
        let tokens = bucket(batch.tokens.len());
        let is_whole = batch.rows.len() == batch.tokens.len();
        let rows = if is_whole { tokens } else { self.rows(batch.rows.len(), tokens) };
        Kind { rows, is_fresh: self.is_fresh(batch), is_greedy, is_whole }
    }

    /// The logits of a batch, rows in order. Keys and values of its tokens are in the cache afterwards.
    pub fn run(&self, batch: &Batch) -> Result<Logits> {
        let all = self.results(batch, self.kind(batch, false), None)?.literal()?;
        Ok(Logits { all, vocabulary: self.decoder.vocabulary()? })
    }

    /// The likeliest tokens of a batch, rows in order; logits stay on the device. Tokens of the batch may be those of
    /// the step before.
    pub fn run_greedy(&self, batch: &Batch, before: Option<&Chosen>) -> Result<Chosen> {
        let kind = self.kind(batch, true);
        let both = self.results(batch, kind, before.map(|c| &c.both))?;
        Ok(Chosen { both, count: batch.rows.len() })
    }

    /// Whether a batch may take tokens from results: its program is for as many rows.
    pub fn may_follow(&self, batch: &Batch, before: &Chosen) -> bool {
        before.both.shape().is_ok_and(|s| s[1] == self.kind(batch, true).rows)
    }

    /// Results of no step.
    fn blank(&self, rows: usize) -> Result<Tensor> {
        let mut blanks = self.blanks.lock();
        if let Some(t) = blanks.get(&rows) {
            return Ok(t.clone());
        }
        let t = placed(&Literal::zeros(DType::F32, [2, rows]).into()).eval()?.clone();
        blanks.insert(rows, t.clone());
        Ok(t)
    }

    /// The logits of a batch, or the likeliest tokens and their log probabilities.
    fn results(&self, batch: &Batch, kind: Kind, before: Option<&Tensor>) -> Result<Tensor> {
        let t = bucket(batch.tokens.len());
        let mut places = vec![-1; batch.tokens.len()];
        batch.rows.iter().enumerate().for_each(|(i, row)| places[*row as usize] = i as i32);
        // One tensor: every copy to a GPU takes its time.
        let mut ints = Vec::with_capacity(7 * t + self.sequences_max * self.reach);
        put(&mut ints, &batch.tokens, t, 0);
        put(&mut ints, &batch.positions, t, 0);
        put(&mut ints, &batch.sequences, t, -1);
        put(&mut ints, &batch.slots, t, -1);
        put(&mut ints, &places, t, -1);
        put(&mut ints, &batch.sources, t, -1);
        put(&mut ints, if self.adapters.is_some() { &batch.adapters } else { &[] }, t, 0);
        let first = ints.len();
        ints.resize(first + self.sequences_max * self.reach, -1);
        for (row, blocks) in ints[first..].chunks_exact_mut(self.reach).zip(&batch.tables) {
            row.iter_mut().zip(blocks).for_each(|(to, b)| *to = b.0 as i32);
        }
        let ints: Tensor = Literal::new([ints.len()], &ints)?.into();
        let blank;
        let before = match before {
            Some(before) => before,
            None => {
                blank = self.blank(if kind.is_greedy { kind.rows } else { 1 })?;
                &blank
            }
        };
        let traces = self.traces.lock().entry(kind).or_default().clone();
        let step = |a: &[Tensor]| Ok((vec![self.step(a, t, kind)?], ()));
        let (mut out, ()) = tensor::no_grad(|| traces.call(&[&ints, before], step, |()| ()))?;
        out.pop().ok_or_else(|| ir::Error::bug("a step has one result"))
    }

    fn step(&self, a: &[Tensor], t: usize, kind: Kind) -> Result<Tensor> {
        let [ints, before] = a else { return Err(ir::Error::bug("a step has two inputs")) };
        let [tokens, positions, sequences, slots, places, sources, adapters] =
            std::array::from_fn(|i| ints.narrow(0, i * t, t));
        let tables = ints.narrow(0, 7 * t, self.sequences_max * self.reach);
        let tables = &tables.reshape([self.sequences_max, self.reach]);
        let tokens = if kind.is_greedy {
            let given = before.narrow(0, 0, 1).reshape([kind.rows]).cast(DType::I32);
            Tensor::where_(&sources.ge(0), &given.take(&sources.clamp(0, kind.rows as i64 - 1), 0), &tokens)
        } else {
            tokens
        };
        let (positions, sequences, slots, is_fresh) = (&positions, &sequences, &slots, kind.is_fresh);
        let attend = Paged { caches: &self.caches, tables, sequences, positions, slots, is_fresh };
        let hidden = || self.decoder.hidden(&tokens, positions, &attend);
        let hidden = self.adapters.as_ref().map_or_else(hidden, |all| all.with(&adapters, hidden))?;
        let rows = if kind.is_whole { hidden } else { self.chosen(&hidden, &places, kind.rows)? };
        let scores = self.decoder.scores(&rows);
        let z = self.decoder.capped(&scores);
        if !kind.is_greedy {
            return Ok(z);
        }
        let most = z.max_keep(-1);
        let logprobs = -(&z - &most).exp().sum(-1).log();
        Ok(Tensor::stack(&[scores.argmax(-1).cast(DType::F32), logprobs], 0))
    }

    /// The rows of tokens whose logits are asked for. They are written into place, not indexed: an index may be out of
    /// range, and nothing is updated in place before an op that may fail. The caches would be copied at every step.
    fn chosen(&self, hidden: &Tensor, places: &Tensor, rows: usize) -> Result<Tensor> {
        let width = self.decoder.config.hidden;
        let chosen = Tensor::zeros([1, rows, 1, width]).cast(hidden.dtype()?);
        Ok(chosen.paged_write(&hidden.unsqueeze(1), places).reshape([rows, width]))
    }
}
