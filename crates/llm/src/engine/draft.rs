//! Drafts: tokens that may come next, guessed cheaply and verified together by the model.

use super::core::{Engine, Options};
use super::generation::{Event, Generation};
use super::scheduler::RequestId;
use crate::load::LanguageModel;
use crate::sample::Sampling;
use ir::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// A small model that guesses what a larger one will say. Its KV cache shares the beginnings of texts, so that a guess
/// costs the tokens since the last one.
pub struct Drafter {
    engine: Box<Engine>,
}

impl Drafter {
    /// Of a model with the vocabulary of the one it drafts for.
    pub fn new(draft: Arc<LanguageModel>, model: &LanguageModel, options: Options) -> Result<Drafter> {
        let (a, b) = (&draft.tokenizer, &model.tokenizer);
        let differs = |t: &u32| a.bytes(*t) != b.bytes(*t) || a.special(*t) != b.special(*t);
        if a.count() != b.count() {
            let e = format!("the draft model has {} tokens, the model {}", a.count(), b.count());
            return Err(Error::value(e));
        }
        if let Some(t) = (0..a.count() as u32).find(differs) {
            return Err(Error::value(format!("token {t} of the draft model is another text than the model's")));
        }
        // Small blocks: what is not in a full block is computed again.
        let engine = Engine::new(draft, Options { block_tokens: 4, ..options })?;
        Ok(Drafter { engine: Box::new(engine) })
    }

    /// The likeliest tokens after each text, at most so many.
    pub fn propose(&mut self, texts: Vec<(RequestId, Vec<u32>, usize)>) -> Result<Vec<(RequestId, Vec<u32>)>> {
        let mut open = Vec::new();
        for (id, prompt, most) in texts {
            let tokens = Arc::new(Mutex::new(Vec::new()));
            let drafted = tokens.clone();
            let sink = move |event: Event| {
                if let Event::Token { token, .. } = event {
                    drafted.lock().push(token);
                }
                true
            };
            let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
            let g = Generation { prompt, tokens_max: Some(most), sampling, ignores_eos: true, ..Default::default() };
            // A text that is too long for the small model has no draft.
            if self.engine.add(g, Box::new(sink)).is_ok() {
                open.push((id, tokens));
            }
        }
        while !self.engine.is_idle() {
            self.engine.step()?;
        }
        Ok(open.into_iter().map(|(id, tokens)| (id, std::mem::take(&mut *tokens.lock()))).collect())
    }
}

/// What followed the last tokens where they stood before, at most `most` tokens: prompt lookup.
pub fn looked_up(tokens: &[u32], most: usize) -> Vec<u32> {
    for n in [4, 3, 2] {
        if tokens.len() <= n {
            continue;
        }
        let (before, last) = (&tokens[..tokens.len() - 1], &tokens[tokens.len() - n..]);
        if let Some(at) = before.windows(n).rposition(|w| w == last) {
            // A text that repeats itself up to its end goes on in the draft.
            let mut all = tokens.to_vec();
            (0..most).for_each(|i| all.push(all[at + n + i]));
            return all.split_off(tokens.len());
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::looked_up;

    #[test]
    fn texts_repeat_themselves() {
        assert_eq!(looked_up(&[1, 2, 3, 4, 9, 1, 2], 3), [3, 4, 9]);
        assert_eq!(looked_up(&[5, 6, 7, 8, 1, 2, 7, 8, 3, 6, 7, 8], 2), [1, 2], "the longer match");
        assert_eq!(looked_up(&[3, 1, 2, 1, 2], 5), [1, 2, 1, 2, 1]);
        assert!(looked_up(&[1, 2, 3], 4).is_empty() && looked_up(&[1], 4).is_empty());
    }
}
