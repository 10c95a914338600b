//! Beam search: the likeliest texts that a beam of some width finds. Each step asks the engine for one token after
//! every text of the beam; the texts share their KV by the prefix cache.

use crate::engine::{Event, Generation, Handle};
use crate::sample::Sampling;
use ir::{Error, Result};

/// How to search.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamOptions {
    /// Texts that are followed.
    pub width: usize,
    /// Tokens of a text at most.
    pub tokens_max: usize,
    /// A text's log probability is divided by its length to this power.
    pub length_penalty: f64,
    /// Goes on after the model's end tokens.
    pub ignores_eos: bool,
}

impl Default for BeamOptions {
    fn default() -> BeamOptions {
        BeamOptions { width: 4, tokens_max: 16, length_penalty: 1.0, ignores_eos: false }
    }
}

/// A text that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Beam {
    /// Its tokens, without the prompt and with the end token.
    pub tokens: Vec<u32>,
    /// The sum of their log probabilities.
    pub logprob: f64,
    /// That sum over the length to the power of the length penalty.
    pub score: f64,
    /// Whether an end token ended it.
    pub is_ended: bool,
}

/// The best texts after a prompt, the best first, as many as the beam is wide. The rules are those of
/// `transformers` with `num_beams` and without early stopping.
pub fn beam_search(handle: &Handle, prompt: &[u32], o: &BeamOptions) -> Result<Vec<Beam>> {
    if o.width == 0 || o.tokens_max == 0 {
        return Err(Error::value("a beam needs a width and a length of at least 1"));
    }
    let most = handle.length_max().saturating_sub(prompt.len());
    if most == 0 {
        return Err(Error::value(format!("the prompt has {} tokens, and nothing fits after it", prompt.len())));
    }
    let eos = handle.model().tokenizer.eos();
    let is_end = |t: u32| !o.ignores_eos && eos.contains(&t);
    let score = |logprob: f64, length: usize| logprob / (length as f64).powf(o.length_penalty);
    let mut running: Vec<(Vec<u32>, f64)> = vec![(Vec::new(), 0.0)];
    let mut done: Vec<Beam> = Vec::new();
    let keep = |done: &mut Vec<Beam>, beam: Beam| {
        done.push(beam);
        done.sort_by(|a, b| b.score.total_cmp(&a.score));
        done.truncate(o.width);
    };
    for length in 1..=o.tokens_max.min(most) {
        let mut candidates: Vec<(usize, u32, f64)> = Vec::new();
        for (i, next) in likeliest(handle, prompt, &running, 2 * o.width)?.into_iter().enumerate() {
            candidates.extend(next.into_iter().map(|(t, p)| (i, t, running[i].1 + p as f64)));
        }
        candidates.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)).then(a.1.cmp(&b.1)));
        candidates.truncate(2 * o.width);
        let mut next: Vec<(Vec<u32>, f64)> = Vec::new();
        for (rank, (i, token, logprob)) in candidates.into_iter().enumerate() {
            let tokens = [&running[i].0[..], &[token]].concat();
            if is_end(token) {
                // An end counts only among the best of a whole beam.
                if rank < o.width {
                    let score = score(logprob, length);
                    keep(&mut done, Beam { tokens, logprob, score, is_ended: true });
                }
            } else if next.len() < o.width {
                next.push((tokens, logprob));
            }
        }
        running = next;
        let Some(best) = running.first() else { break };
        let worst = done.get(o.width - 1).map(|b| b.score);
        if worst.is_some_and(|w| w >= score(best.1, length)) {
            return Ok(done);
        }
    }
    for (tokens, logprob) in running {
        let score = score(logprob, tokens.len());
        keep(&mut done, Beam { tokens, logprob, score, is_ended: false });
    }
    Ok(done)
}

/// The likeliest tokens after each text, with their log probabilities.
fn likeliest(handle: &Handle, prompt: &[u32], texts: &[(Vec<u32>, f64)], n: usize) -> Result<Vec<Vec<(u32, f32)>>> {
    let ask = |(tokens, _): &(Vec<u32>, f64)| {
        let sampling = Sampling { temperature: 0.0, logprobs: n, ..Sampling::default() };
        let prompt = [prompt, tokens].concat();
        handle.generate(Generation { prompt, tokens_max: Some(1), sampling, ..Generation::default() })
    };
    let open = texts.iter().map(ask).collect::<Result<Vec<_>>>()?;
    let answer = |events: crate::engine::Events| match events.into_iter().next() {
        Some(Event::Token { top, .. }) => Ok(top),
        Some(Event::Failed(e)) => Err(Error::value(e)),
        _ => Err(Error::value("the engine ended")),
    };
    open.into_iter().map(answer).collect()
}
