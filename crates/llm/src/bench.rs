//! How fast the engine decodes and reads prompts.

use crate::engine::{Engine, Event, Generation, Options};
use crate::load::LanguageModel;
use crate::sample::Sampling;
use ir::{DType, Error, Result};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// Tokens of the prompt before decoding.
    pub prompt: usize,
    /// Steps that are timed.
    pub tokens: usize,
    /// Prompts that are timed, after one that compiles.
    pub repeats: usize,
    /// How keys and values are stored.
    pub cache_dtype: DType,
}

/// A prompt that shares nothing with those of other numbers.
fn prompt(model: &LanguageModel, number: usize, tokens: usize) -> Result<Vec<u32>> {
    let vocabulary = model.decoder.vocabulary()?.min(model.tokenizer.count());
    let mut state = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let token = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % vocabulary as u32
    };
    Ok((0..tokens).map(token).collect())
}

fn engine(model: &Arc<LanguageModel>, o: &Bench, sequences: usize, step: usize, length: usize) -> Result<Engine> {
    let c = &model.decoder.config;
    // Room for all, with the scales of 8-bit rows.
    let row = (c.head_dim + 4) * o.cache_dtype.size();
    let cache_bytes = 2 * c.layers * c.kv_heads * row * sequences * (length.next_multiple_of(16) + 16);
    let options = Options {
        tokens_max: step,
        chunk_max: step,
        sequences_max: sequences,
        length_max: length,
        cache_bytes,
        cache_dtype: o.cache_dtype,
        // Batches are full before they are timed.
        paces_prefill: false,
        ..Options::default()
    };
    Engine::new(model.clone(), options)
}

/// Tokens of all requests, and requests that have got one.
#[derive(Default)]
struct Counts {
    tokens: AtomicUsize,
    begun: AtomicUsize,
}

/// Adds a request; counts its tokens.
fn add(engine: &mut Engine, prompt: Vec<u32>, tokens: usize, counts: &Arc<Counts>) -> Result<()> {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let g = Generation { prompt, tokens_max: Some(tokens), sampling, ignores_eos: true, ..Generation::default() };
    let (counts, mut is_new) = (counts.clone(), true);
    let sink = move |e: Event| {
        if matches!(e, Event::Token { .. }) {
            counts.tokens.fetch_add(1, Relaxed);
            counts.begun.fetch_add(usize::from(std::mem::take(&mut is_new)), Relaxed);
        }
        true
    };
    engine.add(g, Box::new(sink)).map(|_| ())
}

/// The time to read a prompt of so many tokens in one step.
pub fn prefill(model: &Arc<LanguageModel>, o: &Bench, tokens: usize) -> Result<Json> {
    let mut engine = engine(model, o, 1, tokens, tokens + 16)?;
    let counts = Arc::new(Counts::default());
    let mut times = Vec::new();
    for i in 0..=o.repeats {
        add(&mut engine, prompt(model, i, tokens)?, 1, &counts)?;
        let began = Instant::now();
        while !engine.is_idle() {
            engine.step()?;
        }
        times.push(began.elapsed().as_secs_f64());
    }
    let compiled = times.remove(0);
    times.sort_by(f64::total_cmp);
    let s = times[times.len() / 2];
    let c = &model.decoder.config;
    // Two operations for each weight and token; the head computes one token. Scores and their sums for half of all pairs.
    let head = 2 * model.decoder.vocabulary()? * c.hidden;
    let weights = model.decoder.parameters() - head / 2;
    let attention = 2 * c.layers * c.heads * c.head_dim * tokens * tokens;
    let flops = (2 * weights * tokens + head + attention) as f64;
    Ok(json!({
        "what": "prefill", "tokens": tokens, "ms": s * 1e3, "tokens_per_s": tokens as f64 / s,
        "tflops": flops / s / 1e12, "first_ms": compiled * 1e3,
    }))
}

/// The time of a step that decodes so many sequences.
pub fn decode(model: &Arc<LanguageModel>, o: &Bench, batch: usize) -> Result<Json> {
    const WARM: usize = 4;
    let step = (batch * o.prompt).clamp(batch, 8192);
    // The first sequences decode while the last prompts are read, of which decoding leaves at least half a step.
    let tokens = o.tokens + WARM + 2 + 2 * (batch * o.prompt).div_ceil(step);
    let mut engine = engine(model, o, batch, step.max(2 * batch), o.prompt + tokens + 16)?;
    let counts = Arc::new(Counts::default());
    for i in 0..batch {
        add(&mut engine, prompt(model, 1000 + i, o.prompt)?, tokens, &counts)?;
    }
    let began = Instant::now();
    while counts.begun.load(Relaxed) < batch {
        engine.step()?;
    }
    let first = began.elapsed().as_secs_f64();
    for _ in 0..WARM {
        engine.step()?;
    }
    let (before, mut times) = (counts.tokens.load(Relaxed), Vec::with_capacity(o.tokens));
    for _ in 0..o.tokens {
        let began = Instant::now();
        engine.step()?;
        times.push(began.elapsed().as_secs_f64());
    }
    let total: f64 = times.iter().sum();
    let made = counts.tokens.load(Relaxed) - before;
    if made != batch * o.tokens {
        return Err(Error::bug(format!("{made} tokens in {} steps of {batch} sequences", o.tokens)));
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let c = &model.decoder.config;
    let token = 2 * c.layers * c.kv_heads * c.head_dim * o.cache_dtype.size();
    let bytes = model.decoder.step_bytes() + batch * (o.prompt + o.tokens / 2) * token;
    Ok(json!({
        "what": "decode", "batch": batch, "context": o.prompt, "step_ms": median * 1e3,
        "tokens_per_s": made as f64 / total, "bytes": bytes, "gb_per_s": bytes as f64 / median / 1e9,
        "first_ms": first * 1e3,
    }))
}
