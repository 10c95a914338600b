//! What a model makes of given texts: log probabilities, perplexity, embeddings. Sequences are padded to few lengths,
//! so that few programs are compiled.

use crate::models::Decoder;
use crate::models::attend::Sequences;
use ir::{Error, Literal, Result};
use std::sync::Arc;
use tensor::{Tensor, Traces};

/// Evaluates texts without a KV cache.
pub struct Evaluator {
    decoder: Arc<Decoder>,
    /// Log probabilities of the given tokens, and of the likeliest.
    scores: Traces,
    hidden: Traces,
}

/// Lengths are multiples of this, or powers of two below it.
const LENGTH_STEP: usize = 256;
/// Likeliest tokens that are computed with every position.
const TOP: usize = 20;

fn padded_length(n: usize) -> usize {
    if n < LENGTH_STEP { n.next_power_of_two().max(8) } else { n.next_multiple_of(LENGTH_STEP) }
}

fn ints(mut x: Vec<i32>, n: usize) -> Result<Tensor> {
    x.resize(n, 0);
    Ok(Literal::new([n], &x)?.into())
}

/// The score of a token and of the likeliest in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Its log probability.
    pub logprob: f32,
    /// The likeliest tokens with theirs.
    pub top: Vec<(u32, f32)>,
}

/// How likely each answer to a question is.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// The sum of the log probabilities of its tokens.
    pub logprobs: Vec<f64>,
}

impl Answers {
    /// The likeliest, after division by these lengths.
    pub fn best(&self, lengths: &[usize]) -> usize {
        let score = |i: usize| self.logprobs[i] / lengths.get(i).copied().unwrap_or(1).max(1) as f64;
        (0..self.logprobs.len()).max_by(|a, b| score(*a).total_cmp(&score(*b)).then(b.cmp(a))).unwrap_or(0)
    }
}

impl Evaluator {
    /// Of a model.
    pub fn new(decoder: Arc<Decoder>) -> Evaluator {
        Evaluator { decoder, scores: Traces::default(), hidden: Traces::default() }
    }

    fn check(&self, tokens: &[u32]) -> Result<()> {
        let (most, vocabulary) = (self.decoder.config.length_max, self.decoder.vocabulary()?);
        if tokens.is_empty() || tokens.len() > most {
            return Err(Error::value(format!("{} tokens, but 1 to {most} are allowed", tokens.len())));
        }
        match tokens.iter().find(|t| **t as usize >= vocabulary) {
            Some(t) => Err(Error::value(format!("token {t}, but there are {vocabulary}"))),
            None => Ok(()),
        }
    }
    fn states(&self, a: &[Tensor]) -> Result<Tensor> {
        let length = a[0].shape()?[0];
        self.decoder.hidden(&a[0], &a[1], &Sequences { count: 1, length })
    }

    /// The scores of tokens 1.. given those before each.
    pub fn scores(&self, tokens: &[u32]) -> Result<Vec<Score>> {
        self.check(tokens)?;
        let n = padded_length(tokens.len());
        let ids: Vec<i32> = tokens.iter().map(|t| *t as i32).collect();
        let next: Vec<i32> = ids[1..].to_vec();
        let args = [ints(ids, n)?, ints((0..n as i32).collect(), n)?, ints(next, n)?];
        let body = |a: &[Tensor]| {
            let log_p = self.decoder.logits(&self.states(a)?).log_softmax(-1);
            let own = log_p.take_along_axis(&a[2].cast(ir::DType::I64).unsqueeze(-1), -1);
            let [values, index] = log_p.top_k(TOP.min(self.decoder.vocabulary()?), -1);
            Ok((vec![own, values, index.cast(ir::DType::I32)], ()))
        };
        let args: Vec<&Tensor> = args.iter().collect();
        let (out, ()) = tensor::no_grad(|| self.scores.call(&args, body, |()| ()))?;
        let (own, values, index) = (out[0].to_vec::<f32>()?, out[1].to_vec::<f32>()?, out[2].to_vec::<i32>()?);
        let k = values.len() / n;
        let score = |i: usize| {
            let top = (i * k..(i + 1) * k).map(|j| (index[j] as u32, values[j])).collect();
            Score { logprob: own[i], top }
        };
        Ok((0..tokens.len() - 1).map(score).collect())
    }

    /// The log probability of each continuation of a text.
    pub fn choose(&self, context: &[u32], choices: &[Vec<u32>]) -> Result<Answers> {
        if context.is_empty() || choices.is_empty() || choices.iter().any(Vec::is_empty) {
            return Err(Error::value("a question and each of its answers need a token at least"));
        }
        let mut logprobs = Vec::new();
        for choice in choices {
            let scores = self.scores(&[context, choice].concat())?;
            logprobs.push(scores[context.len() - 1..].iter().map(|s| s.logprob as f64).sum());
        }
        Ok(Answers { logprobs })
    }

    /// The perplexity of a text in windows of `length` tokens. As llama.cpp does, only the second half of each window
    /// counts, the windows do not overlap, and each begins with the token `first` if there is one.
    pub fn perplexity(&self, tokens: &[u32], length: usize, first: Option<u32>) -> Result<f64> {
        if length < 4 || tokens.len() < length {
            return Err(Error::value(format!("{} tokens are less than a window of {length}", tokens.len())));
        }
        let (mut sum, mut count) = (0.0, 0usize);
        for window in tokens.chunks_exact(length) {
            let mut window = window.to_vec();
            window[0] = first.unwrap_or(window[0]);
            let scores = self.scores(&window)?;
            let counted = &scores[length / 2..];
            sum -= counted.iter().map(|s| s.logprob as f64).sum::<f64>();
            count += counted.len();
        }
        Ok((sum / count as f64).exp())
    }

    /// The mean of the residual stream over the tokens, scaled to length one.
    pub fn embedding(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        self.check(tokens)?;
        let n = padded_length(tokens.len());
        let ids: Vec<i32> = tokens.iter().map(|t| *t as i32).collect();
        let args = [ints(ids, n)?, ints((0..n as i32).collect(), n)?];
        let args: Vec<&Tensor> = args.iter().collect();
        let body = |a: &[Tensor]| Ok((vec![self.states(a)?], ()));
        let (out, ()) = tensor::no_grad(|| self.hidden.call(&args, body, |()| ()))?;
        let width = self.decoder.config.hidden;
        let rows = out[0].to_vec::<f32>()?;
        let mut mean = vec![0.0f64; width];
        for row in rows.chunks_exact(width).take(tokens.len()) {
            mean.iter_mut().zip(row).for_each(|(m, x)| *m += *x as f64);
        }
        let norm = mean.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
        Ok(mean.iter().map(|x| (x / norm) as f32).collect())
    }
}
