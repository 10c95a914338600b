//! Fine-tuning of adapters: packed sequences whose documents do not see each other, AdamW; on texts, or on preferences
//! (DPO).

use crate::evaluate::Evaluator;
use crate::load::LanguageModel;
use crate::models::Decoder;
use crate::models::attend::{Attend, Scores};
use ir::{DType, Error, Literal, Result};
use nn::optim::{AdamW, Optimizer, clip_grad_norm};
use std::sync::Arc;
use tensor::nn::AttentionOptions;
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

/// A row of a batch: parts of texts, one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// The token after each, and how much it counts.
    pub targets: Vec<u32>,
    /// 0 where there is nothing to learn: questions, ends of texts, padding.
    pub weights: Vec<f32>,
    /// The place of each token in its part of a text.
    pub positions: Vec<i32>,
    /// The part of a text that each token belongs to.
    pub parts: Vec<i32>,
}

impl Row {
    fn push(&mut self, tokens: &[u32], weight: impl Fn(usize) -> f32) {
        let part = self.parts.last().map_or(0, |p| p + 1);
        for i in 0..tokens.len() - 1 {
            self.tokens.push(tokens[i]);
            self.targets.push(tokens[i + 1]);
            self.weights.push(weight(i + 1));
            self.positions.push(i as i32);
            self.parts.push(part);
        }
    }
    fn pad(&mut self, length: usize) {
        let part = self.parts.last().map_or(0, |p| p + 1);
        self.tokens.resize(length, 0);
        self.targets.resize(length, 0);
        self.weights.resize(length, 0.0);
        self.positions.resize(length, 0);
        self.parts.resize(length, part);
    }
}

/// Texts packed into rows of `length` tokens. A text that does not fit goes on in the next row; what follows it there
/// does not see it.
pub fn packed(examples: &[Example], length: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = Row::default();
    for e in examples {
        let weight = |i: usize| if e.is_target.get(i).copied().unwrap_or(true) { 1.0 } else { 0.0 };
        let mut at = 0;
        while at + 1 < e.tokens.len() {
            let end = (at + length - row.tokens.len() + 1).min(e.tokens.len());
            row.push(&e.tokens[at..end], |i| weight(at + i));
            at = end - 1;
            if row.tokens.len() == length {
                rows.push(std::mem::take(&mut row));
            }
        }
    }
    if row.weights.iter().any(|w| *w > 0.0) {
        row.pad(length);
        rows.push(row);
    }
    rows
}

/// Rows of parts of texts: a token sees the tokens before it in its own part.
struct Parts<'a> {
    count: usize,
    length: usize,
    /// i32 `[count, length]`.
    parts: &'a Tensor,
}

impl Attend for Parts<'_> {
    fn attend(&self, _: usize, q: &Tensor, k: &Tensor, v: &Tensor, s: Scores) -> Result<Tensor> {
        let (n, l) = (self.count, self.length);
        let (heads, kv_heads, d) = (q.shape()?[1], k.shape()?[1], q.shape()?[2]);
        let apart = |x: &Tensor, heads: usize| x.reshape([n, l, heads, d]).permute(&[0, 2, 1, 3]);
        let (q, k, v) = (apart(q, heads), apart(k, kv_heads), apart(v, kv_heads));
        let is_seen = |i: usize, j: usize| j <= i && (s.window == 0 || i - j < s.window);
        let seen: Vec<bool> = (0..l * l).map(|x| is_seen(x / l, x % l)).collect();
        let same = self.parts.unsqueeze(2).eq(self.parts.unsqueeze(1));
        let mask = same.logical_and(&Tensor::from(Literal::new([1, l, l], &seen)?)).unsqueeze(1);
        let y = if s.softcap == 0.0 {
            let options =
                AttentionOptions { mask: Some(mask), scale: Some(s.scale), grouped: true, ..Default::default() };
            q.attention(&k, &v, options)
        } else {
            let q = q.reshape([n, kv_heads, heads / kv_heads, l, d]);
            let z = q.matmul(k.permute(&[0, 1, 3, 2]).unsqueeze(2)) * s.scale;
            let z = (z / s.softcap).tanh() * s.softcap;
            let z = Tensor::where_(&mask.unsqueeze(1), &z, -1e30f32);
            z.softmax(-1).matmul(v.unsqueeze(2)).reshape([n, heads, l, d])
        };
        Ok(y.permute(&[0, 2, 1, 3]).reshape([n * l, heads, d]))
    }
}

/// An answer that is preferred to another.
#[derive(Clone, Debug, Default)]
pub struct Preference {
    /// The better one, after its question.
    pub chosen: Example,
    /// The other, after the same question.
    pub rejected: Example,
}

/// What is learned.
enum Data {
    Rows(Vec<Row>),
    /// Pairs of rows with their log probabilities before training, and DPO's β.
    Pairs(Vec<([Row; 2], [f32; 2])>, f64),
}

/// A fine-tuning run.
pub struct Finetune {
    decoder: Arc<Decoder>,
    optimizer: Optimizer,
    parameters: Vec<Variable>,
    data: Data,
    options: FinetuneOptions,
    traces: Traces,
    step: usize,
}

/// The inputs of rows: tokens, positions, targets, weights, parts.
fn inputs(rows: &[&Row], length: usize) -> Result<Vec<Tensor>> {
    let n = rows.len() * length;
    let ints = |of: &dyn Fn(&Row) -> Vec<i32>| -> Result<Tensor> {
        Ok(Literal::new([n], &rows.iter().flat_map(|r| of(r)).collect::<Vec<i32>>())?.into())
    };
    let ids = |x: &[u32]| x.iter().map(|t| *t as i32).collect::<Vec<i32>>();
    let weights: Vec<f32> = rows.iter().flat_map(|r| r.weights.clone()).collect();
    Ok(vec![
        ints(&|r| ids(&r.tokens))?,
        ints(&|r| r.positions.clone())?,
        ints(&|r| ids(&r.targets))?,
        Literal::new([n], &weights)?.into(),
        ints(&|r| r.parts.clone())?.reshape([rows.len(), length]),
    ])
}

/// The log probability of each target, times its weight, for such inputs.
fn logprobs(decoder: &Decoder, a: &[Tensor]) -> Result<Tensor> {
    let (count, length) = (a[4].shape()?[0], a[4].shape()?[1]);
    let hidden = decoder.hidden(&a[0], &a[1], &Parts { count, length, parts: &a[4] })?;
    let log_p = decoder.logits(&hidden).log_softmax(-1);
    let own = log_p.take_along_axis(&a[2].cast(DType::I64).unsqueeze(-1), -1).reshape([count * length]);
    Ok(own * &a[3])
}

impl Finetune {
    /// Of these variables of a model on texts.
    pub fn new(
        model: &LanguageModel,
        parameters: Vec<Variable>,
        examples: &[Example],
        options: FinetuneOptions,
    ) -> Result<Finetune> {
        let rows = packed(examples, options.length);
        if rows.is_empty() {
            return Err(Error::value("the data have nothing to learn"));
        }
        Finetune::of(model, parameters, Data::Rows(rows), options)
    }

    /// Direct preference optimization (Rafailov and others 2023): answers become likelier than those they are
    /// preferred to, compared with the model as it is now.
    pub fn preferences(
        model: &LanguageModel,
        parameters: Vec<Variable>,
        all: &[Preference],
        beta: f64,
        options: FinetuneOptions,
    ) -> Result<Finetune> {
        let row = |e: &Example| {
            if e.tokens.len() < 2 || e.tokens.len() > options.length + 1 {
                let e = format!("an answer has {} tokens, but 2 to {} fit", e.tokens.len(), options.length + 1);
                return Err(Error::value(e));
            }
            let mut row = Row::default();
            row.push(&e.tokens, |i| if e.is_target.get(i).copied().unwrap_or(true) { 1.0 } else { 0.0 });
            row.pad(options.length);
            Ok(row)
        };
        let traces = Traces::default();
        let mut pairs = Vec::new();
        for p in all {
            let rows = [row(&p.chosen)?, row(&p.rejected)?];
            let args = inputs(&[&rows[0], &rows[1]], options.length)?;
            let body = |a: &[Tensor]| Ok((vec![logprobs(&model.decoder, a)?.reshape([2, options.length]).sum(1)], ()));
            let args: Vec<&Tensor> = args.iter().collect();
            let (out, ()) = traces.call(&args, body, |()| ())?;
            let reference = out[0].to_vec::<f32>()?;
            pairs.push((rows, [reference[0], reference[1]]));
        }
        if pairs.is_empty() {
            return Err(Error::value("there are no preferences"));
        }
        Finetune::of(model, parameters, Data::Pairs(pairs, beta), options)
    }

    fn of(model: &LanguageModel, parameters: Vec<Variable>, data: Data, options: FinetuneOptions) -> Result<Finetune> {
        let rule = AdamW { lr: options.lr, weight_decay: 0.0, ..AdamW::default() };
        let optimizer = Optimizer::new(rule, &parameters[..])?;
        let (decoder, traces) = (model.decoder.clone(), Traces::default());
        Ok(Finetune { decoder, optimizer, parameters, data, options, traces, step: 0 })
    }
    /// Rows of packed texts, or pairs.
    pub fn count(&self) -> usize {
        match &self.data {
            Data::Rows(rows) => rows.len(),
            Data::Pairs(pairs, _) => pairs.len(),
        }
    }

    /// The loss of a batch, and the share of pairs whose order is right.
    fn loss(&self, a: &[Tensor]) -> Result<Vec<Tensor>> {
        let own = logprobs(&self.decoder, a)?;
        let Data::Pairs(_, beta) = &self.data else {
            return Ok(vec![-own.sum(..) / (a[3].sum(..) + 1e-9)]);
        };
        let (rows, length) = (a[4].shape()?[0], a[4].shape()?[1]);
        let gained = (own.reshape([rows, length]).sum(1) - &a[5]).reshape([rows / 2, 2]);
        let margin = gained.narrow(1, 0, 1) - gained.narrow(1, 1, 1);
        let right = margin.gt(0.0).cast(DType::F32).mean(..);
        // −log σ(β · margin), without overflow.
        let x = margin * -*beta;
        Ok(vec![(x.maximum(0.0) + (-x.abs()).exp().log1p()).mean(..), right])
    }

    /// Numbers of rows or pairs of a step: a pass over the data in an order of its own, then the next. Workers of a job
    /// take turns.
    fn batch(&self) -> Result<Vec<usize>> {
        let n = self.count();
        let (rank, world) = (nn::parallel::rank()?, nn::parallel::world()?);
        let pick = |i: usize| {
            let at = (self.step * world + rank) * self.options.batch + i;
            let (pass, at) = ((at / n) as u64, at % n);
            order(n, self.options.seed.wrapping_add(pass))[at]
        };
        Ok((0..self.options.batch).map(pick).collect())
    }

    /// One step; its loss, and for preferences the share of pairs whose order is right.
    pub fn step(&mut self) -> Result<(f64, Option<f64>)> {
        let chosen = self.batch()?;
        let length = self.options.length;
        let args = match &self.data {
            Data::Rows(rows) => inputs(&chosen.iter().map(|i| &rows[*i]).collect::<Vec<_>>(), length)?,
            Data::Pairs(pairs, _) => {
                let rows: Vec<&Row> = chosen.iter().flat_map(|i| &pairs[*i].0).collect();
                let reference: Vec<f32> = chosen.iter().flat_map(|i| pairs[*i].1).collect();
                let mut args = inputs(&rows, length)?;
                args.push(Literal::new([reference.len()], &reference)?.into());
                args
            }
        };
        let body = |a: &[Tensor]| {
            let out = self.loss(a)?;
            out[0].backward()?;
            clip_grad_norm(&self.parameters, 1.0)?;
            self.optimizer.step()?;
            Ok((out, ()))
        };
        let args: Vec<&Tensor> = args.iter().collect();
        let (out, ()) = self.traces.call(&args, body, |()| ())?;
        self.step += 1;
        let right = out.get(1).map(|r| r.item::<f64>()).transpose()?;
        Ok((out[0].item::<f64>()?, right))
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
    Evaluator::new(model.decoder.clone()).perplexity(tokens, length, model.tokenizer.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_packed_into_rows() {
        let chat = Example { tokens: vec![1, 2, 3], is_target: vec![false, true, false] };
        let plain = Example { tokens: vec![4, 5, 6, 7], is_target: vec![] };
        let got = packed(&[chat, plain], 3);
        // Two tokens of the first text have a successor; the second text begins in the same row and goes on in the next.
        assert_eq!((&got[0].tokens[..], &got[0].targets[..]), (&[1, 2, 4][..], &[2, 3, 5][..]));
        assert_eq!((&got[0].weights[..], &got[0].parts[..]), (&[1.0, 0.0, 1.0][..], &[0, 0, 1][..]));
        assert_eq!(got[0].positions, [0, 1, 0]);
        assert_eq!((&got[1].tokens[..], &got[1].weights[..]), (&[5, 6, 0][..], &[1.0, 1.0, 0.0][..]));
        assert_eq!((got.len(), &got[1].parts[..]), (2, &[0, 0, 1][..]));
        assert!(packed(&[], 3).is_empty());
        let mut o = order(50, 3);
        assert_ne!(o, order(50, 4));
        o.sort_unstable();
        assert_eq!(o, (0..50).collect::<Vec<_>>());
    }
}
