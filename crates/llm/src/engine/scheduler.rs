//! Continuous batching: which tokens of which sequences the next step computes.
//!
//! There is no prefill phase and no decode phase. Every step hands out a budget of tokens so that what is computed
//! catches up with what is known: a running sequence needs one token a step, a new one its whole prompt, in chunks if
//! the budget is smaller. A sequence that finds no block preempts the one with the lowest priority, whose KV is
//! recomputed later.

use super::blocks::{BlockHash, BlockId, BlockPool, prefix_hashes};
use std::collections::{BTreeMap, VecDeque};

/// A request, in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Limits of a step.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Tokens that a step computes at most.
    pub tokens_max: usize,
    /// Sequences that run at once at most.
    pub sequences_max: usize,
    /// Tokens of a block of the KV cache.
    pub block_tokens: usize,
    /// Tokens of one prompt in one step at most: a long prompt does not hold up others.
    pub chunk_max: usize,
    /// Tokens that a sequence may have.
    pub length_max: usize,
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most.
    pub tokens_max: usize,
    /// Tokens that end generation.
    pub stops: Vec<u32>,
    /// Lower runs first.
    pub priority: i32,
    /// Sequences with different salts share no KV.
    pub salt: Vec<u8>,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A stop token.
    Stop,
    /// The most tokens it may have.
    Length,
    /// The client went away, or the deadline passed.
    Aborted,
}

/// A request and how far it is.
pub struct Sequence {
    request: Request,
    /// Prompt and generated tokens.
    tokens: Vec<u32>,
    /// Tokens whose KV is in the cache.
    computed: usize,
    /// Tokens that came from shared blocks when it was admitted last.
    cached: usize,
    blocks: Vec<BlockId>,
    /// The hash of each block that was published, and the chain's end.
    chain: Vec<BlockHash>,
    preemptions: u32,
    /// Tokens that may come next, to be verified by the next step.
    draft: Vec<u32>,
}

impl Sequence {
    /// Prompt and generated tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
    /// Generated tokens.
    pub fn generated(&self) -> &[u32] {
        &self.tokens[self.request.prompt.len()..]
    }
    /// Its blocks of the KV cache, in order.
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }
    /// Tokens that came from shared blocks when it was admitted last.
    pub fn cached(&self) -> usize {
        self.cached
    }
    /// Tokens that the next step verifies.
    pub fn draft(&self) -> &[u32] {
        &self.draft
    }
    /// How often its KV was thrown away.
    pub fn preemptions(&self) -> u32 {
        self.preemptions
    }
}

/// A sequence's part of a step: tokens `start..start + count` are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The sequence.
    pub id: RequestId,
    /// The first token.
    pub start: usize,
    /// How many.
    pub count: usize,
    /// Whether the last one's logits give the next token.
    pub samples: bool,
    /// Tokens of the draft that are computed after these and verified.
    pub draft: usize,
}

/// What a step computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Parts of sequences, running ones first.
    pub work: Vec<Work>,
    /// Sequences that were preempted for it.
    pub preempted: Vec<RequestId>,
}

/// Decides every step.
pub struct Scheduler {
    config: Config,
    pool: BlockPool,
    sequences: BTreeMap<RequestId, Sequence>,
    /// In order of admission.
    running: Vec<RequestId>,
    waiting: VecDeque<RequestId>,
    next: u64,
    /// Tokens of prompts in a step that decodes as well, at most.
    prefill_max: usize,
}

impl Scheduler {
    /// A scheduler over a pool of blocks.
    pub fn new(config: Config, blocks: usize) -> Scheduler {
        assert!(config.block_tokens > 0 && config.tokens_max > 0 && config.sequences_max > 0 && config.chunk_max > 0);
        let pool = BlockPool::new(blocks);
        // A sequence that runs alone finds a block for every token it may have.
        let length_max = config.length_max.min(blocks * config.block_tokens);
        let config = Config { length_max, ..config };
        let (running, waiting) = (Vec::new(), VecDeque::new());
        Scheduler { config, pool, sequences: BTreeMap::new(), running, waiting, next: 0, prefill_max: usize::MAX }
    }
    /// The pool.
    pub fn pool(&self) -> &BlockPool {
        &self.pool
    }
    /// Sequences that run, and that wait.
    pub fn counts(&self) -> (usize, usize) {
        (self.running.len(), self.waiting.len())
    }
    /// Whether as many sequences run as may run at once.
    pub fn is_full(&self) -> bool {
        self.running.len() >= self.config.sequences_max
    }
    /// A sequence that is not finished.
    pub fn sequence(&self, id: RequestId) -> Option<&Sequence> {
        self.sequences.get(&id)
    }

    /// Limits the tokens of prompts in steps that decode as well: a long prompt makes others wait no longer than that
    /// takes.
    pub fn set_prefill_max(&mut self, tokens: usize) {
        self.prefill_max = tokens.max(1);
    }

    /// Running sequences that need one token, which the next step decodes.
    pub fn decodes(&self) -> usize {
        let decodes = |id: &&RequestId| self.sequences[id].tokens.len() - self.sequences[id].computed == 1;
        self.running.iter().filter(decodes).count()
    }

    /// Adds a request; an error says why it can never run.
    pub fn add(&mut self, request: Request) -> Result<RequestId, String> {
        if request.prompt.is_empty() {
            return Err("the prompt has no token".into());
        }
        if request.tokens_max == 0 {
            return Err("no token is to be generated".into());
        }
        let length = request.prompt.len() + 1;
        if length > self.config.length_max {
            let most = self.config.length_max.saturating_sub(1);
            return Err(format!("the prompt has {} tokens, but at most {most} fit", length - 1));
        }
        let id = RequestId(self.next);
        self.next += 1;
        let (tokens, blocks, chain) = (request.prompt.clone(), Vec::new(), Vec::new());
        let sequence =
            Sequence { request, tokens, computed: 0, cached: 0, blocks, chain, preemptions: 0, draft: Vec::new() };
        self.sequences.insert(id, sequence);
        self.enqueue(id);
        Ok(id)
    }
    /// Puts a sequence into the queue: by priority, then by arrival.
    fn enqueue(&mut self, id: RequestId) {
        let rank = |id: &RequestId| (self.sequences[id].request.priority, *id);
        let at = self.waiting.partition_point(|w| rank(w) < rank(&id));
        self.waiting.insert(at, id);
    }
    /// Ends a sequence and frees its blocks. Returns it, if it was there.
    pub fn finish(&mut self, id: RequestId) -> Option<Sequence> {
        let sequence = self.sequences.remove(&id)?;
        self.running.retain(|r| *r != id);
        self.waiting.retain(|w| *w != id);
        self.pool.free(&sequence.blocks);
        Some(sequence)
    }

    fn blocks_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.config.block_tokens)
    }

    /// The next step. It is empty only if no sequence waits or runs.
    pub fn schedule(&mut self) -> Step {
        let mut step = Step::default();
        let mut budget = self.config.tokens_max;
        let mut prefill = if self.decodes() > 0 { self.prefill_max } else { usize::MAX };
        for id in self.running.clone() {
            // Preempted for one before it, or nothing is left to hand out.
            if step.preempted.contains(&id) || budget == 0 {
                continue;
            }
            let s = &self.sequences[&id];
            let is_prefill = s.tokens.len() - s.computed > 1;
            let most = if is_prefill { prefill.min(self.config.chunk_max) } else { 1 };
            let count = (s.tokens.len() - s.computed).min(most).min(budget);
            if count > 0 && self.reserve(id, count, &mut step, &mut budget) {
                prefill -= if is_prefill { count } else { 0 };
                let draft = self.reserve_draft(id, count, budget - count);
                budget -= self.push(&mut step, id, count, draft);
            }
        }
        if step.preempted.is_empty() {
            self.admit(&mut step, &mut budget, prefill);
        }
        self.check_step(&step);
        step
    }

    /// Blocks for `count` more tokens of a running sequence, preempting others if need be. False if the sequence was
    /// preempted itself.
    fn reserve(&mut self, id: RequestId, count: usize, step: &mut Step, budget: &mut usize) -> bool {
        loop {
            let s = &self.sequences[&id];
            let need = self.blocks_for(s.computed + count).saturating_sub(s.blocks.len());
            if let Some(blocks) = self.pool.allocate(need) {
                self.sequences.get_mut(&id).expect("it runs").blocks.extend(blocks);
                return true;
            }
            let rank = |id: &RequestId| (self.sequences[id].request.priority, *id);
            let victim = *self.running.iter().max_by_key(|r| rank(r)).expect("one runs at least");
            // What the victim was given of this step's budget comes back.
            if let Some(at) = step.work.iter().position(|w| w.id == victim) {
                let work = step.work.remove(at);
                *budget += work.count + work.draft;
            }
            self.preempt(victim);
            step.preempted.push(victim);
            if victim == id {
                return false;
            }
        }
    }

    /// Proposes the tokens after those of a running sequence. They cost a place in the next step, and are kept as far
    /// as the model agrees.
    pub fn propose(&mut self, id: RequestId, draft: Vec<u32>) {
        if let Some(s) = self.sequences.get_mut(&id) {
            s.draft = draft;
        }
    }
    /// How much of a draft the step has room for. No sequence is preempted for a draft.
    fn reserve_draft(&mut self, id: RequestId, count: usize, budget: usize) -> usize {
        let s = &self.sequences[&id];
        if s.draft.is_empty() || s.computed + count < s.tokens.len() {
            return 0;
        }
        // The token after the draft must fit as well.
        let room = self.config.length_max.saturating_sub(s.tokens.len() + 1);
        let draft = s.draft.len().min(budget).min(room);
        let need = self.blocks_for(s.computed + count + draft).saturating_sub(s.blocks.len());
        match self.pool.allocate(need) {
            Some(blocks) => {
                self.sequences.get_mut(&id).expect("it runs").blocks.extend(blocks);
                draft
            }
            None => 0,
        }
    }

    fn preempt(&mut self, id: RequestId) {
        self.running.retain(|r| *r != id);
        let s = self.sequences.get_mut(&id).expect("it runs");
        self.pool.free(&s.blocks);
        s.blocks.clear();
        s.chain.clear();
        s.draft.clear();
        (s.computed, s.preemptions) = (0, s.preemptions + 1);
        self.enqueue(id);
    }

    fn push(&self, step: &mut Step, id: RequestId, count: usize, draft: usize) -> usize {
        let s = &self.sequences[&id];
        step.work.push(Work { id, start: s.computed, count, samples: s.computed + count == s.tokens.len(), draft });
        count + draft
    }

    /// Starts waiting sequences, in order, while there is room for all they have.
    fn admit(&mut self, step: &mut Step, budget: &mut usize, mut prefill: usize) {
        while *budget > 0 && prefill > 0 && self.running.len() < self.config.sequences_max {
            let Some(&id) = self.waiting.front() else { return };
            let s = &self.sequences[&id];
            // The last token is computed in any case: its logits are needed.
            let full = &s.tokens[..s.tokens.len() - 1];
            let hashes = prefix_hashes(full, self.config.block_tokens, &s.request.salt);
            let hits = &hashes[..self.pool.hits(&hashes)];
            let new = self.blocks_for(s.tokens.len()) - hits.len();
            // Room for the whole sequence: one that is admitted in part would preempt others for the rest.
            if new + self.pool.idle(hits) > self.pool.free_count() {
                return;
            }
            let mut blocks: Vec<BlockId> = hits.iter().map(|h| self.pool.share(*h).expect("counted above")).collect();
            let computed = hits.len() * self.config.block_tokens;
            let count = (s.tokens.len() - computed).min(self.config.chunk_max).min(*budget).min(prefill);
            prefill -= count;
            let need = self.blocks_for(computed + count) - blocks.len();
            blocks.extend(self.pool.allocate(need).expect("counted above"));
            let chain = hits.to_vec();
            let s = self.sequences.get_mut(&id).expect("it waits");
            (s.blocks, s.chain, s.computed, s.cached) = (blocks, chain, computed, computed);
            self.waiting.pop_front();
            self.running.push(id);
            *budget -= self.push(step, id, count, 0);
        }
    }

    /// Records that a step was computed; `sampled` has a token for each part that samples, in order. Returns the
    /// sequences that are finished, and why; [`Scheduler::finish`] then frees them.
    pub fn complete(&mut self, step: &Step, sampled: &[u32]) -> Vec<(RequestId, Finish)> {
        let each: Vec<Vec<u32>> = sampled.iter().map(|t| vec![*t]).collect();
        self.complete_drafts(step, &each)
    }

    /// The same, where a part may have several tokens: those of its draft that were right, and the one after them.
    pub fn complete_drafts(&mut self, step: &Step, sampled: &[Vec<u32>]) -> Vec<(RequestId, Finish)> {
        let mut sampled = sampled.iter();
        let mut done = Vec::new();
        for w in &step.work {
            let tokens = if w.samples { &sampled.next().expect("a token for each part that samples")[..] } else { &[] };
            assert!(tokens.len() <= w.draft + 1, "{} tokens of a draft of {}", tokens.len(), w.draft);
            // A sequence that was aborted while the step ran.
            let Some(s) = self.sequences.get_mut(&w.id) else { continue };
            assert_eq!(s.computed, w.start, "a part is computed once");
            s.computed += w.count;
            s.draft.clear();
            for (i, token) in tokens.iter().enumerate() {
                // The KV of every token but the last is there: it was computed as part of the draft.
                s.computed += usize::from(i > 0);
                s.tokens.push(*token);
                let generated = s.tokens.len() - s.request.prompt.len();
                if s.request.stops.contains(token) {
                    done.push((w.id, Finish::Stop));
                    break;
                }
                if generated >= s.request.tokens_max || s.tokens.len() >= self.config.length_max {
                    done.push((w.id, Finish::Length));
                    break;
                }
            }
            let block_tokens = self.config.block_tokens;
            while (s.chain.len() + 1) * block_tokens <= s.computed {
                let at = s.chain.len();
                let parent = s.chain.last().copied().unwrap_or_else(|| BlockHash::root(&s.request.salt));
                let hash = parent.child(&s.tokens[at * block_tokens..(at + 1) * block_tokens]);
                self.pool.publish(s.blocks[at], hash);
                s.chain.push(hash);
            }
        }
        assert!(sampled.next().is_none(), "a token for no part");
        done
    }

    /// The step after one whose tokens are not known yet, with the part of `step` that each of its parts follows: every
    /// sequence that does not end by its length decodes one more. None where that is not what [`Scheduler::schedule`]
    /// would do: others wait or run, or there is no block. The step counts as scheduled.
    pub fn follow(&mut self, step: &Step) -> Option<(Step, Vec<usize>)> {
        // Some may have ended since.
        let is_there = |w: &&Work| self.sequences.contains_key(&w.id);
        let is_whole = self.waiting.is_empty() && self.running.len() == step.work.iter().filter(is_there).count();
        if !is_whole || step.work.iter().any(|w| !w.samples || w.draft > 0) {
            return None;
        }
        let (mut next, mut rows) = (Step::default(), Vec::new());
        for (row, w) in step.work.iter().enumerate() {
            let Some(s) = self.sequences.get(&w.id) else { continue };
            if s.computed != w.start || !s.draft.is_empty() {
                return None;
            }
            let (known, generated) = (s.tokens.len() + 1, s.tokens.len() + 1 - s.request.prompt.len());
            if generated >= s.request.tokens_max || known >= self.config.length_max {
                continue;
            }
            let need = self.blocks_for(known).saturating_sub(s.blocks.len());
            let blocks = self.pool.allocate(need)?;
            self.sequences.get_mut(&w.id).expect("it runs").blocks.extend(blocks);
            next.work.push(Work { id: w.id, start: w.start + w.count, count: 1, samples: true, draft: 0 });
            rows.push(row);
        }
        if next.work.is_empty() { None } else { Some((next, rows)) }
    }

    fn check_step(&self, step: &Step) {
        let tokens: usize = step.work.iter().map(|w| w.count + w.draft).sum();
        assert!(tokens <= self.config.tokens_max, "{tokens} tokens in a step");
        assert!(self.running.len() <= self.config.sequences_max);
        assert!(step.work.iter().all(|w| w.count > 0 && !step.preempted.contains(&w.id)));
    }

    /// Panics unless all invariants hold.
    pub fn check(&self) {
        self.pool.check(self.sequences.values().map(|s| &s.blocks[..]));
        for (id, s) in &self.sequences {
            let is_running = self.running.contains(id);
            assert_ne!(is_running, self.waiting.contains(id), "{id:?} runs or waits");
            assert!(s.computed <= s.tokens.len());
            assert!(s.computed <= s.blocks.len() * self.config.block_tokens, "{id:?} has no room for its KV");
            assert!(is_running || s.blocks.is_empty(), "{id:?} waits and holds blocks");
        }
        assert_eq!(self.running.len() + self.waiting.len(), self.sequences.len());
    }
}
