//! The engine: requests in, tokens out, one step at a time. It has no thread; [`super::Handle`] gives it one.

use super::admission::Reading;
use super::draft::{Drafter, looked_up};
use super::generation::{Event, Generation, Reason, Sink, Usage};
use super::guided::{Guided, Masks};
use super::pace::Pace;
use super::runner::{Batch, CacheSizes, Chosen, Logits, Runner, cache_width};
use super::scheduler::{Config as Limits, Finish, Request, RequestId, Scheduler, Step, Work};
use super::stats::Stats;
use crate::load::LanguageModel;
use crate::models::is_on_host;
use crate::sample::{Limits as DrawLimits, Sampled};
use crate::text::TextStream;
use ir::{DType, Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Limits of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Tokens that a step computes at most.
    pub tokens_max: usize,
    /// Sequences that run at once at most.
    pub sequences_max: usize,
    /// Tokens of a prompt in one step at most.
    pub chunk_max: usize,
    /// Tokens of a block of the KV cache.
    pub block_tokens: usize,
    /// Tokens of a sequence at most; 0: what the model allows.
    pub length_max: usize,
    /// Bytes of the KV cache.
    pub cache_bytes: usize,
    /// How keys and values are stored: f32, f16, bf16, f8e4m3 or i8 (with a scale for each row).
    pub cache_dtype: DType,
    /// Whether steps that decode read no more of prompts than decoding takes time, so that texts do not falter.
    pub paces_prefill: bool,
    /// Whether the device chooses the likeliest tokens itself, and begins the next step before the host has read them.
    /// None: a GPU does.
    pub looks_ahead: Option<bool>,
}

/// The type of a KV cache by its name.
pub fn cache_type(name: &str) -> Result<DType> {
    Ok(match name {
        "f32" => DType::F32,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        "fp8" => DType::F8E4M3,
        "int8" => DType::I8,
        other => return Err(Error::value(format!("{other:?} is no type of a KV cache: f32, f16, bf16, fp8 or int8"))),
    })
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tokens_max: 256,
            sequences_max: 32,
            chunk_max: 256,
            block_tokens: 16,
            length_max: 0,
            cache_bytes: 512 << 20,
            cache_dtype: DType::F16,
            paces_prefill: true,
            looks_ahead: None,
        }
    }
}

/// A request that is not finished.
struct Open {
    generation: Generation,
    stream: TextStream,
    sink: Sink,
    arrived: Instant,
    /// When the first step read of its prompt.
    began: Option<Instant>,
    last: Option<Instant>,
    cached: Option<usize>,
    guided: Option<Guided>,
    /// Whether the constraint is met and allows nothing more.
    is_complete: bool,
    /// The row of the adapters' weights; 0: none.
    adapter: i32,
}

/// The tokens that a request gets in a step, or why it gets none.
type Drawn = std::result::Result<Vec<Sampled>, String>;

/// A step that the device computes.
struct UnderWay {
    step: Step,
    chosen: Chosen,
}

/// Serves many requests from one model.
pub struct Engine {
    model: Arc<LanguageModel>,
    runner: Runner,
    scheduler: Scheduler,
    open: BTreeMap<RequestId, Open>,
    stats: Arc<Stats>,
    length_max: usize,
    pace: Option<Pace>,
    /// What prompts took, by which requests that wait are refused in time.
    reading: Reading,
    masks: Masks,
    drafter: Option<Drafter>,
    looks_ahead: bool,
    /// The step after the last, which was begun before the last one's tokens were known.
    ahead: Option<UnderWay>,
}

impl Engine {
    /// Allocates the KV cache.
    pub fn new(model: Arc<LanguageModel>, o: Options) -> Result<Engine> {
        let c = &model.decoder.config;
        let row = cache_width(o.cache_dtype, c.head_dim) * o.cache_dtype.size();
        let token_bytes = 2 * c.layers * c.kv_heads * row;
        let length_max = if o.length_max == 0 { c.length_max } else { o.length_max.min(c.length_max) };
        // No more than all sequences at their greatest length can use.
        let useful = o.sequences_max.saturating_mul(length_max.div_ceil(o.block_tokens));
        let blocks = (o.cache_bytes / (token_bytes * o.block_tokens)).min(useful);
        if blocks == 0 {
            let e = format!("a KV cache of {} bytes has no room for {} tokens", o.cache_bytes, o.block_tokens);
            return Err(Error::value(e));
        }
        let length_max = length_max.min(blocks * o.block_tokens);
        let sizes = CacheSizes {
            blocks,
            block_tokens: o.block_tokens,
            length_max,
            sequences_max: o.sequences_max,
            dtype: o.cache_dtype,
        };
        let limits = Limits {
            tokens_max: o.tokens_max,
            sequences_max: o.sequences_max,
            block_tokens: o.block_tokens,
            chunk_max: o.chunk_max,
            length_max,
        };
        let mut runner = Runner::new(model.decoder.clone(), sizes)?;
        model.adapters.iter().for_each(|a| runner.set_adapters(a.clone()));
        let (open, stats) = (BTreeMap::new(), Arc::new(Stats::default()));
        Ok(Engine {
            model,
            runner,
            scheduler: Scheduler::new(limits, blocks),
            open,
            stats,
            length_max,
            pace: o.paces_prefill.then(Pace::default),
            reading: Reading::default(),
            masks: Masks::default(),
            drafter: None,
            looks_ahead: o.looks_ahead.unwrap_or(!is_on_host()),
            ahead: None,
        })
    }
    /// Drafts come from this model from now on, where requests ask for any.
    pub fn set_draft_model(&mut self, draft: Arc<LanguageModel>, options: Options) -> Result<()> {
        self.drafter = Some(Drafter::new(draft, &self.model, options)?);
        Ok(())
    }
    /// Its model.
    pub fn model(&self) -> &Arc<LanguageModel> {
        &self.model
    }
    /// Its counters.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }
    /// Tokens of a sequence at most.
    pub fn length_max(&self) -> usize {
        self.length_max
    }
    /// Programs that were compiled.
    pub fn programs(&self) -> usize {
        self.runner.programs()
    }
    /// Whether nothing waits or runs.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }
    /// Whether the next step has begun.
    pub fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }
    /// The scheduler, for its invariants.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Adds a request; its events go to the sink.
    pub fn add(&mut self, mut g: Generation, sink: Sink) -> Result<RequestId> {
        let vocabulary = self.model.decoder.vocabulary()?;
        g.sampling.check(vocabulary)?;
        if let Some(t) = g.prompt.iter().find(|t| **t as usize >= vocabulary) {
            return Err(Error::value(format!("the prompt has token {t}, but there are {vocabulary}")));
        }
        if g.guide.is_some() && g.ignores_eos {
            return Err(Error::value("a text with a constraint ends with it; ignore_eos cannot be asked for"));
        }
        let guided = g.guide.take().map(|guide| Guided::new(guide, &mut self.masks)).transpose()?;
        let mut adapter = 0;
        if let Some(name) = &g.adapter {
            let adapters = self.model.adapters.as_ref();
            let adapters = adapters.ok_or_else(|| Error::value(format!("there is no adapter {name:?}")))?;
            let (choice, salt) = adapters.choice(name)?;
            adapter = choice;
            g.salt.extend(salt);
        }
        let mut stops = g.stop_tokens.clone();
        if !g.ignores_eos {
            stops.extend(self.model.tokenizer.eos());
        }
        let request = Request {
            prompt: g.prompt.clone(),
            tokens_max: g.tokens_max.unwrap_or(usize::MAX),
            stops,
            priority: g.priority,
            salt: g.salt.clone(),
        };
        let id = self.scheduler.add(request).map_err(Error::value)?;
        let stream = TextStream::new(&g.stops, g.keeps_stop);
        let (arrived, began, last, cached) = (Instant::now(), None, None, None);
        let open =
            Open { generation: g, stream, sink, arrived, began, last, cached, guided, is_complete: false, adapter };
        self.open.insert(id, open);
        Ok(id)
    }
    /// Loads an adapter under a name.
    pub fn load_adapter(&mut self, name: &str, folder: &Path) -> Result<()> {
        self.adapters()?.load(name, folder)
    }
    /// Unloads an adapter that no request uses.
    pub fn unload_adapter(&mut self, name: &str) -> Result<()> {
        let used = self.open.values().filter(|o| o.generation.adapter.as_deref() == Some(name)).count();
        if used > 0 {
            return Err(Error::value(format!("{used} requests use the adapter {name:?}")));
        }
        self.adapters()?.unload(name)
    }
    fn adapters(&self) -> Result<&Arc<crate::Adapters>> {
        let none = || Error::value("the model was started without room for adapters");
        self.model.adapters.as_ref().ok_or_else(none)
    }
    /// Ends a request, if it is still there.
    pub fn abort(&mut self, id: RequestId) {
        self.end(id, Reason::Aborted);
    }

    /// Computes one step; false if there was nothing to do. An error is one of the model: all requests are told.
    pub fn step(&mut self) -> Result<bool> {
        self.expire();
        let began = Instant::now();
        let is_wanted = |a: &UnderWay| a.step.work.iter().any(|w| self.open.contains_key(&w.id));
        if let Some(under_way) = self.ahead.take().filter(is_wanted) {
            let decodes = under_way.step.work.len();
            let done = self.finish_step(under_way);
            if let Some(pace) = &mut self.pace {
                pace.note(began.elapsed().as_secs_f64(), decodes, 0);
            }
            return self.stepped(done);
        }
        self.propose()?;
        if let Some(pace) = &self.pace {
            self.scheduler.set_prefill_max(pace.prefill_max(self.scheduler.decodes()));
        }
        let step = self.scheduler.schedule();
        self.stats.preemptions.fetch_add(step.preempted.len() as u64, Relaxed);
        if step.work.is_empty() {
            self.gauge();
            return Ok(false);
        }
        let programs = self.runner.programs();
        let done = self.compute(&step);
        if let Some(pace) = self.pace.as_mut().filter(|_| self.runner.programs() == programs) {
            let (decodes, prefill): (Vec<&Work>, Vec<&Work>) = step.work.iter().partition(|w| w.count == 1);
            pace.note(began.elapsed().as_secs_f64(), decodes.len(), prefill.iter().map(|w| w.count).sum());
        }
        self.stepped(done)
    }

    /// Tells all requests if a step has failed.
    fn stepped(&mut self, done: Result<()>) -> Result<bool> {
        if let Err(e) = &done {
            self.ahead = None;
            for id in self.open.keys().copied().collect::<Vec<_>>() {
                self.fail(id, e.message.clone());
            }
        }
        self.gauge();
        done.map(|()| true)
    }

    fn gauge(&self) {
        let (running, waiting) = self.scheduler.counts();
        self.stats.running.store(running as u64, Relaxed);
        self.stats.waiting.store(waiting as u64, Relaxed);
        self.stats.usage.store((self.scheduler.pool().usage() * 1e6) as u64, Relaxed);
    }

    fn expire(&mut self) {
        let is_late = |o: &Open| o.generation.timeout.is_some_and(|t| o.arrived.elapsed() > t);
        let late: Vec<RequestId> = self.open.iter().filter(|(_, o)| is_late(o)).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.end(id, Reason::Aborted));
        // While a slot is free, the next one begins at once, whatever the others took.
        if !self.scheduler.is_full() {
            return;
        }
        let would_be = |o: &Open| {
            let within = o.generation.first_within.filter(|_| o.began.is_none());
            within.is_some_and(|t| self.reading.is_late(o.arrived.elapsed().as_secs_f64(), t.as_secs_f64()))
        };
        let late: Vec<RequestId> = self.open.iter().filter(|(_, o)| would_be(o)).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.tell_end(id, Event::Refused));
    }

    /// Drafts for the requests that ask for them.
    fn propose(&mut self) -> Result<()> {
        let mut texts = Vec::new();
        for (id, o) in self.open.iter().filter(|(_, o)| o.generation.draft > 0 && o.last.is_some()) {
            let Some(s) = self.scheduler.sequence(*id) else { continue };
            // No more than are still wanted, of which the last comes from the model itself.
            let left = o.generation.tokens_max.unwrap_or(usize::MAX).saturating_sub(s.generated().len() + 1);
            texts.push((*id, s.tokens().to_vec(), o.generation.draft.min(left)));
        }
        texts.retain(|t| t.2 > 0);
        let drafts = match &mut self.drafter {
            Some(drafter) if !texts.is_empty() => drafter.propose(texts)?,
            _ => texts.into_iter().map(|(id, tokens, most)| (id, looked_up(&tokens, most))).collect(),
        };
        drafts.into_iter().for_each(|(id, draft)| self.scheduler.propose(id, draft));
        Ok(())
    }

    fn compute(&mut self, step: &Step) -> Result<()> {
        let mut batch = Batch::default();
        for w in &step.work {
            let s = self.scheduler.sequence(w.id).ok_or_else(|| Error::bug("a scheduled sequence is gone"))?;
            if let Some(o) = self.open.get_mut(&w.id)
                && o.cached.is_none()
            {
                o.cached = Some(s.cached());
                o.began = Some(Instant::now());
                self.stats.queued.time(o.arrived.elapsed());
                let prompt = o.generation.prompt.len() as u64;
                self.stats.prompt_tokens.fetch_add(prompt, Relaxed);
                self.stats.prefix_queries.fetch_add(prompt, Relaxed);
                self.stats.prefix_hits.fetch_add(s.cached() as u64, Relaxed);
            }
            let mut tokens = s.tokens()[w.start..w.start + w.count].to_vec();
            tokens.extend(&s.draft()[..w.draft]);
            let logits = if w.samples { 1 + w.draft } else { 0 };
            let adapter = self.open.get(&w.id).map_or(0, |o| o.adapter);
            batch.adapters.extend(std::iter::repeat_n(adapter, tokens.len()));
            batch.push(&tokens, w.start, s.blocks(), self.runner.block_tokens(), logits);
        }
        self.stats.step_tokens.record(batch.tokens.len() as f64);
        // A GPU chooses the likeliest tokens itself: logits of many sequences take long to copy.
        if self.looks_ahead && step.work.iter().filter(|w| w.samples).all(|w| self.is_plain(w)) {
            let chosen = self.runner.run_greedy(&batch, None)?;
            return self.finish_step(UnderWay { step: step.clone(), chosen });
        }
        let logits = self.runner.run(&batch)?;
        self.sampled(step, &logits)
    }

    /// Whether a part gets its likeliest token, whatever came before.
    fn is_plain(&self, w: &Work) -> bool {
        let plain = |o: &Open| o.guided.is_none() && o.generation.is_greedy();
        w.draft == 0 && self.open.get(&w.id).is_some_and(plain)
    }

    /// Begins the step after one that is under way, then reads that one's tokens and tells the clients.
    fn finish_step(&mut self, now: UnderWay) -> Result<()> {
        self.ahead = self.follow(&now)?;
        let works = now.step.work.iter().filter(|w| w.samples);
        let drawn = now.chosen.read()?;
        let events = works.zip(drawn).map(|(w, s)| (w.id, s.map(|s| vec![s]).map_err(|e| e.message))).collect();
        self.drawn(&now.step, events)
    }

    /// The next step, if it can begin before the tokens of this one are known. Sequences that then end have computed a
    /// token too many, in a place of their own.
    fn follow(&mut self, now: &UnderWay) -> Result<Option<UnderWay>> {
        let is_drafted = |w: &Work| self.open.get(&w.id).is_some_and(|o| o.generation.draft > 0);
        let mut there = now.step.work.iter().filter(|w| self.open.contains_key(&w.id));
        if there.any(|w| !self.is_plain(w) || is_drafted(w)) {
            return Ok(None);
        }
        let Some((step, rows)) = self.scheduler.follow(&now.step) else { return Ok(None) };
        let mut batch = Batch::default();
        for (w, row) in step.work.iter().zip(rows) {
            let s = self.scheduler.sequence(w.id).ok_or_else(|| Error::bug("a scheduled sequence is gone"))?;
            batch.adapters.push(self.open.get(&w.id).map_or(0, |o| o.adapter));
            batch.push(&[0], w.start, s.blocks(), self.runner.block_tokens(), 1);
            batch.take_last_from(row);
        }
        if !self.runner.may_follow(&batch, &now.chosen) {
            return Ok(None);
        }
        self.stats.step_tokens.record(batch.tokens.len() as f64);
        let chosen = self.runner.run_greedy(&batch, Some(&now.chosen))?;
        Ok(Some(UnderWay { step, chosen }))
    }

    /// Draws tokens from the rows of logits and tells the clients.
    fn sampled(&mut self, step: &Step, logits: &Logits) -> Result<()> {
        let (mut row, mut events) = (0, Vec::new());
        for w in step.work.iter().filter(|w| w.samples) {
            events.push((w.id, self.draw(w, logits, row)?));
            row += 1 + w.draft;
        }
        self.drawn(step, events)
    }

    /// Tells the scheduler and the clients what was drawn.
    fn drawn(&mut self, step: &Step, events: Vec<(RequestId, Drawn)>) -> Result<()> {
        // One request's failure is not that of the others; its token is not used.
        let tokens = |drawn: &Drawn| drawn.as_ref().map_or(vec![0], |d| d.iter().map(|s| s.token).collect());
        let tokens: Vec<Vec<u32>> = events.iter().map(|(_, drawn)| tokens(drawn)).collect();
        let ends = self.scheduler.complete_drafts(step, &tokens);
        for (id, drawn) in events {
            let end = ends.iter().find(|(e, _)| *e == id).map(|e| e.1);
            match drawn {
                Ok(drawn) => {
                    let last = drawn.len() - 1;
                    for (i, one) in drawn.into_iter().enumerate() {
                        self.tell(id, one, i == last, end.filter(|_| i == last));
                    }
                }
                Err(e) => self.fail(id, e),
            }
        }
        Ok(())
    }

    /// The tokens of a part: one from its last logits, and one more for each token of its draft that was drawn. A draw
    /// depends on the seed and the position alone, so drafts change no token. Its logits begin at row `first`.
    fn draw(&mut self, w: &Work, logits: &Logits, first: usize) -> Result<Drawn> {
        let (Some(s), Some(o)) = (self.scheduler.sequence(w.id), self.open.get_mut(&w.id)) else {
            return Err(Error::bug("a scheduled sequence is gone"));
        };
        let g = &o.generation;
        let mut generated = s.generated().to_vec();
        let most = g.tokens_max.unwrap_or(usize::MAX);
        let mut out: Vec<Sampled> = Vec::new();
        let eos = self.model.tokenizer.eos();
        for i in 0..=w.draft {
            let z = logits.row(first + i);
            let ends: Vec<u32> = eos.iter().chain(&g.stop_tokens).copied().collect();
            let late = if generated.len() < g.tokens_min { &ends[..] } else { &[] };
            let drawn: Result<(Sampled, bool)> = (|| {
                let allowed = o.guided.as_mut().map(Guided::mask).transpose()?;
                let drawn = g.sampling.sample(z, &g.prompt, &generated, DrawLimits { allowed, late })?;
                let is_end = g.stop_tokens.contains(&drawn.token) || (!g.ignores_eos && eos.contains(&drawn.token));
                if let Some(guided) = o.guided.as_mut().filter(|_| !is_end) {
                    o.is_complete = guided.consume(drawn.token, &mut self.masks)?;
                }
                Ok((drawn, is_end || o.is_complete))
            })();
            let (drawn, is_end) = match drawn {
                Ok(drawn) => drawn,
                Err(e) => return Ok(Err(e.message)),
            };
            let token = drawn.token;
            out.push(drawn);
            generated.push(token);
            let is_right = s.draft().get(i) == Some(&token) && i < w.draft;
            if is_end || !is_right || generated.len() >= most {
                break;
            }
        }
        if w.draft > 0 {
            self.stats.drafts.fetch_add(1, Relaxed);
            self.stats.draft_tokens.fetch_add(w.draft as u64, Relaxed);
            self.stats.accepted_tokens.fetch_add(out.len() as u64 - 1, Relaxed);
        }
        Ok(Ok(out))
    }

    fn tell(&mut self, id: RequestId, drawn: Sampled, is_last: bool, end: Option<Finish>) {
        let Some(o) = self.open.get_mut(&id) else { return };
        let now = Instant::now();
        match o.last {
            None => {
                self.stats.first.time(now - o.arrived);
                o.began.iter().for_each(|b| self.reading.note((now - *b).as_secs_f64()));
            }
            Some(last) => self.stats.between.time(now - last),
        }
        o.last = Some(now);
        self.stats.generation_tokens.fetch_add(1, Relaxed);
        let is_end_token = end == Some(Finish::Stop);
        let t = &self.model.tokenizer;
        let bytes: &[u8] = match t.special(drawn.token) {
            _ if is_end_token => &[],
            Some(name) if o.generation.shows_special => name.as_bytes(),
            _ => t.bytes(drawn.token),
        };
        let text = o.stream.push(bytes);
        // The last token of a step completes a constraint.
        let is_stopped = o.stream.is_stopped() || (o.is_complete && is_last);
        let event = Event::Token { token: drawn.token, text, logprob: drawn.logprob, top: drawn.top };
        let is_heard = (o.sink)(event);
        let reason = match end {
            _ if !is_heard => Some(Reason::Aborted),
            _ if is_stopped => Some(Reason::Stop),
            Some(Finish::Stop) => Some(Reason::Stop),
            Some(Finish::Length) => Some(Reason::Length),
            Some(Finish::Aborted) => Some(Reason::Aborted),
            None => None,
        };
        if let Some(reason) = reason {
            self.end(id, reason);
        }
    }

    fn end(&mut self, id: RequestId, reason: Reason) {
        let Some(mut o) = self.open.remove(&id) else { return };
        let generated = self.scheduler.finish(id).map_or(0, |s| s.generated().len());
        let text = if o.stream.is_stopped() { String::new() } else { o.stream.finish() };
        let usage = Usage { prompt: o.generation.prompt.len(), cached: o.cached.unwrap_or(0), generated };
        self.stats.finished[reason as usize].fetch_add(1, Relaxed);
        self.stats.whole.time(o.arrived.elapsed());
        (o.sink)(Event::Done { reason, text, usage });
    }
    fn fail(&mut self, id: RequestId, message: String) {
        self.tell_end(id, Event::Failed(message));
    }
    /// Ends a request that gets no text.
    fn tell_end(&mut self, id: RequestId, why: Event) {
        let Some(mut o) = self.open.remove(&id) else { return };
        self.scheduler.finish(id);
        (o.sink)(why);
    }
}
