//! Fine-tuning of adapters on a text: packed sequences, AdamW, a held-out part.

use crate::evaluate::Evaluator;
use crate::load::LanguageModel;
use crate::models::Decoder;
use crate::models::attend::Sequences;
use ir::{DType, Error, Literal, Result};
use nn::optim::{AdamW, Optimizer, clip_grad_norm};
use std::sync::Arc;
use tensor::{Tensor, Traces, Variable};

/// How to fine-tune.
#[derive(Clone, Debug)]
pub struct FinetuneOptions {
    /// Steps.
    pub steps: usize,
    /// Sequences of a step.
    pub batch: usize,
    /// Tokens of a sequence.
    pub length: usize,
    /// Learning rate.
    pub lr: f64,
    /// Seed of the order of sequences.
    pub seed: u64,
}

impl Default for FinetuneOptions {
    fn default() -> FinetuneOptions {
        FinetuneOptions { steps: 100, batch: 4, length: 128, lr: 2e-4, seed: 0 }
    }
}

/// A text, and which of its tokens are learned.
#[derive(Clone, Debug, Default)]
pub struct Example {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// Whether each is a target; all are if this is empty.
    pub is_target: Vec<bool>,
}

/// Sequences of `length + 1` tokens cut from texts that follow each other, with the weight of each target.
pub fn packed(examples: &[Example], length: usize) -> Vec<(Vec<u32>, Vec<f32>)> {
    let mut tokens = Vec::new();
    let mut weights = Vec::new();
    for e in examples {
        tokens.extend(&e.tokens);
        weights
            .extend((0..e.tokens.len()).map(|i| if e.is_target.get(i).copied().unwrap_or(true) { 1.0 } else { 0.0 }));
    }
    let cut = |i: usize| (tokens[i..i + length + 1].to_vec(), weights[i + 1..i + length + 1].to_vec());
    (0..tokens.len().saturating_sub(length)).step_by(length).map(cut).collect()
}

/// A fine-tuning run.
pub struct Finetune {
    decoder: Arc<Decoder>,
    optimizer: Optimizer,
    parameters: Vec<Variable>,
    sequences: Vec<(Vec<u32>, Vec<f32>)>,
    options: FinetuneOptions,
    traces: Traces,
    step: usize,
}

impl Finetune {
    /// Of these variables of a model.
    pub fn new(
        model: &LanguageModel,
        parameters: Vec<Variable>,
        examples: &[Example],
        options: FinetuneOptions,
    ) -> Result<Finetune> {
        let sequences = packed(examples, options.length);
        if sequences.is_empty() {
            let e = format!("the data have fewer than {} tokens", options.length + 1);
            return Err(Error::value(e));
        }
        let rule = AdamW { lr: options.lr, weight_decay: 0.0, ..AdamW::default() };
        let optimizer = Optimizer::new(rule, &parameters[..])?;
        let (decoder, traces) = (model.decoder.clone(), Traces::default());
        Ok(Finetune { decoder, optimizer, parameters, sequences, options, traces, step: 0 })
    }
    /// Sequences of the data.
    pub fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// The mean loss of a batch `[tokens, positions, targets, weights]`.
    fn loss(&self, a: &[Tensor]) -> Result<Tensor> {
        let attend = Sequences { count: self.options.batch, length: self.options.length };
        let hidden = self.decoder.hidden(&a[0], &a[1], &attend)?;
        let log_p = self.decoder.logits(&hidden).log_softmax(-1);
        let own = log_p.take_along_axis(&a[2].cast(DType::I64).unsqueeze(-1), -1).reshape([a[2].shape()?[0]]);
        Ok(-(own * &a[3]).sum(..) / (a[3].sum(..) + 1e-9))
    }

    /// The sequences of a step: a pass over the data in an order of its own, then the next.
    fn batch(&self) -> Vec<usize> {
        let n = self.sequences.len();
        let pick = |i: usize| {
            let at = self.step * self.options.batch + i;
            let (pass, at) = ((at / n) as u64, at % n);
            order(n, self.options.seed.wrapping_add(pass))[at]
        };
        (0..self.options.batch).map(pick).collect()
    }

    /// One step; its loss.
    pub fn step(&mut self) -> Result<f64> {
        let (b, l) = (self.options.batch, self.options.length);
        let (mut tokens, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::<f32>::new());
        for i in self.batch() {
            let (text, weight) = &self.sequences[i];
            tokens.extend(text[..l].iter().map(|t| *t as i32));
            targets.extend(text[1..].iter().map(|t| *t as i32));
            weights.extend(weight);
        }
        let positions: Vec<i32> = (0..b * l).map(|i| (i % l) as i32).collect();
        let ints = |x: &[i32]| Ok::<Tensor, Error>(Literal::new([b * l], x)?.into());
        let weights: Tensor = Literal::new([b * l], &weights)?.into();
        let args = [ints(&tokens)?, ints(&positions)?, ints(&targets)?, weights];
        let body = |a: &[Tensor]| {
            let loss = self.loss(a)?;
            loss.backward()?;
            clip_grad_norm(&self.parameters, 1.0)?;
            self.optimizer.step()?;
            Ok((vec![loss], ()))
        };
        let args: Vec<&Tensor> = args.iter().collect();
        let (out, ()) = self.traces.call(&args, body, |()| ())?;
        self.step += 1;
        out[0].item::<f64>()
    }
}

/// Numbers below `n` in an order that a seed decides (Fisher and Yates).
fn order(n: usize, seed: u64) -> Vec<usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut all: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        all.swap(i, (state >> 11) as usize % (i + 1));
    }
    all
}

/// The perplexity of a text under a model.
pub fn perplexity(model: &LanguageModel, tokens: &[u32], length: usize) -> Result<f64> {
    Evaluator::new(model.decoder.clone()).perplexity(tokens, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_into_sequences() {
        let chat = Example { tokens: vec![1, 2, 3], is_target: vec![false, true, true] };
        let plain = Example { tokens: vec![4, 5, 6, 7], is_target: vec![] };
        let got = packed(&[chat, plain], 3);
        assert_eq!(got, [(vec![1, 2, 3, 4], vec![1.0, 1.0, 1.0]), (vec![4, 5, 6, 7], vec![1.0, 1.0, 1.0])]);
        assert!(packed(&[], 3).is_empty());
        let mut o = order(50, 3);
        assert_ne!(o, order(50, 4));
        o.sort_unstable();
        assert_eq!(o, (0..50).collect::<Vec<_>>());
    }
}
