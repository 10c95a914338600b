//! BERT and RoBERTa: encoders for embeddings, as of MiniLM, and for re-ranking, as cross-encoders.

use super::config::Activation;
use super::layers::{Linear, Norm};
use super::weights::{Matrix, Source};
use ir::{DType, Error, Literal, Result};
use serde_json::Value as Json;
use tensor::Tensor;
use tensor::nn::AttentionOptions;

/// Texts that are computed together at most.
const TOGETHER: usize = 32;
/// Lengths of texts are rounded up to a multiple of this: each length is a program.
const LENGTHS: usize = 16;

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    output_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

/// What scores a pair of texts by its first token, with one label.
struct Classifier {
    dense: Linear,
    output: Linear,
}

/// How the rows of a text become its embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first.
    First,
}

/// The tokens of a text, or of a pair of texts with the segment of each token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Tokens.
    pub tokens: Vec<u32>,
    /// 0 or 1 for each.
    pub segments: Vec<u32>,
}

/// An encoder with its weights.
pub struct Bert {
    embedding: Matrix,
    positions: Tensor,
    /// The embeddings of segments, and whether pairs have two.
    segments: Tensor,
    has_segments: bool,
    classifier: Option<Classifier>,
    norm: Norm,
    layers: Vec<Layer>,
    heads: usize,
    width: usize,
    length_max: usize,
    activation: Activation,
}

impl Bert {
    /// Reads the weights; `config` is the model's `config.json`.
    pub fn load(source: &dyn Source, config: &Json) -> Result<Bert> {
        let size = |key: &str| {
            let n = config[key].as_u64().filter(|n| *n > 0 && *n < 1 << 20);
            n.map(|n| n as usize).ok_or_else(|| Error::format(format!("config.json: there is no {key:?}")))
        };
        let eps = config["layer_norm_eps"].as_f64().unwrap_or(1e-12);
        let norm = |name: &str| Norm::load(source, name, eps, true);
        let layer = |i: usize| {
            let at = |name: &str| format!("blk.{i}.{name}");
            let linear = |name: &str| Linear::load(source, &at(name));
            Ok(Layer {
                query: linear("attn_q")?,
                key: linear("attn_k")?,
                value: linear("attn_v")?,
                output: linear("attn_output")?,
                output_norm: norm(&at("attn_output_norm"))?,
                up: linear("ffn_up")?,
                down: linear("ffn_down")?,
                norm: norm(&at("layer_output_norm"))?,
            })
        };
        let activation = match config["hidden_act"].as_str().unwrap_or("gelu") {
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" => Activation::GeluTanh,
            other => return Err(Error::format(format!("config.json: activation {other:?} is not supported"))),
        };
        if let Some(other) = config["position_embedding_type"].as_str().filter(|kind| *kind != "absolute") {
            return Err(Error::format(format!("config.json: positions of type {other:?} are not supported")));
        }
        // RoBERTa numbers positions from the one behind the padding's.
        let is_roberta = config["model_type"] != "bert";
        let skipped =
            if is_roberta { config["pad_token_id"].as_u64().unwrap_or(1).min(1 << 10) as usize + 1 } else { 0 };
        let length_max = size("max_position_embeddings")?.saturating_sub(skipped);
        let positions: Tensor = source.floats("position_embd.weight")?.into();
        let segments: Tensor = source.floats("token_types.weight")?.into();
        let (dense, output) =
            if is_roberta { ("classifier.dense", "classifier.out_proj") } else { ("pooler", "classifier") };
        let classifier = match Linear::find(source, output)? {
            Some(output) if output.weight.sizes()?.0 != 1 => {
                let e = format!("the classifier has {} labels; a cross-encoder has one", output.weight.sizes()?.0);
                return Err(Error::format(e));
            }
            Some(output) => Some(Classifier { dense: Linear::load(source, dense)?, output }),
            None => None,
        };
        Ok(Bert {
            embedding: source.matrix("token_embd.weight")?,
            positions: positions.narrow(0, skipped, length_max).eval()?.clone(),
            has_segments: !is_roberta && segments.shape()?[0] > 1,
            segments,
            classifier,
            norm: norm("token_embd_norm")?,
            layers: (0..size("num_hidden_layers")?).map(layer).collect::<Result<_>>()?,
            heads: size("num_attention_heads")?,
            width: size("hidden_size")?,
            length_max,
            activation,
        })
    }
    /// Width of an embedding.
    pub fn width(&self) -> usize {
        self.width
    }
    /// Tokens of a text at most.
    pub fn length_max(&self) -> usize {
        self.length_max
    }

    /// Whether it scores pairs of texts.
    pub fn is_cross_encoder(&self) -> bool {
        self.classifier.is_some()
    }

    /// The last layer `[texts, length, width]` of padded texts with their segments (i32 `[texts, length]`) and lengths
    /// (i32).
    pub fn hidden(&self, tokens: &Tensor, segments: &Tensor, lengths: &Tensor) -> Result<Tensor> {
        let (n, l) = (tokens.shape()?[0], tokens.shape()?[1]);
        let d = self.width / self.heads;
        let x = self.embedding.rows(tokens, DType::F32)
            + self.positions.narrow(0, 0, l)
            + self.segments.embedding(segments);
        let mut x = self.norm.forward(&x);
        for layer in &self.layers {
            let apart = |y: Tensor| y.reshape([n, l, self.heads, d]).permute(&[0, 2, 1, 3]);
            let [q, k, v] = [&layer.query, &layer.key, &layer.value].map(|p| apart(p.forward(&x)));
            let options = AttentionOptions { key_lengths: Some(lengths.clone()), ..Default::default() };
            let y = q.attention(&k, &v, options).permute(&[0, 2, 1, 3]).reshape([n, l, self.width]);
            x = layer.output_norm.forward(&(&x + layer.output.forward(&y)));
            let inner = self.activation.apply(&layer.up.forward(&x));
            x = layer.norm.forward(&(&x + layer.down.forward(&inner)));
        }
        Ok(x)
    }

    /// The last layer of texts, padded to `length`.
    fn padded(&self, texts: &[&Encoded], length: usize) -> Result<Tensor> {
        let padded = |of: fn(&Encoded) -> &[u32]| {
            let row = |t: &&Encoded| (0..length).map(|i| of(t).get(i).map_or(0, |t| *t as i32)).collect::<Vec<_>>();
            let all: Vec<i32> = texts.iter().flat_map(row).collect();
            Literal::new([texts.len(), length], &all).map(Tensor::from)
        };
        let segments: fn(&Encoded) -> &[u32] = if self.has_segments { |t| &t.segments } else { |_| &[] };
        let lengths: Vec<i32> = texts.iter().map(|t| t.tokens.len() as i32).collect();
        let lengths = Tensor::from(Literal::new([texts.len()], &lengths)?);
        self.hidden(&padded(|t| &t.tokens)?, &padded(segments)?, &lengths)
    }
    /// Fails if a text has no token, or too many.
    pub(crate) fn check(&self, texts: &[&Encoded]) -> Result<()> {
        match texts.iter().map(|t| t.tokens.len()).find(|n| *n == 0 || *n > self.length_max) {
            Some(n) => Err(Error::value(format!("texts must have 1 to {} tokens, not {n}", self.length_max))),
            None => Ok(()),
        }
    }

    /// Calls `f` for some texts of about the same length at a time: with their places, and their last layer.
    fn each_group(&self, texts: &[&Encoded], mut f: impl FnMut(&[usize], Tensor) -> Result<()>) -> Result<()> {
        self.check(texts)?;
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|i| texts[*i].tokens.len());
        for group in order.chunks(TOGETHER) {
            let some: Vec<&Encoded> = group.iter().map(|i| texts[*i]).collect();
            let longest = some.iter().map(|t| t.tokens.len()).max().unwrap_or(0);
            f(group, self.padded(&some, longest.next_multiple_of(LENGTHS).min(self.length_max))?)?;
        }
        Ok(())
    }

    /// Embeddings of texts, each of length one, as sentence-transformers computes them.
    pub fn embed(&self, texts: &[&Encoded], pooling: Pooling) -> Result<Vec<Vec<f32>>> {
        let mut rows = vec![Vec::new(); texts.len()];
        self.each_group(texts, |group, hidden| {
            let (count, length) = (group.len(), hidden.shape()?[1]);
            let pooled = match pooling {
                Pooling::First => hidden.narrow(1, 0, 1).reshape([count, self.width]),
                Pooling::Mean => {
                    let seen =
                        |i: &usize| (0..length).map(|p| f32::from(p < texts[*i].tokens.len())).collect::<Vec<_>>();
                    let seen: Vec<f32> = group.iter().flat_map(seen).collect();
                    let seen = Tensor::from(Literal::new([count, length, 1], &seen)?);
                    (hidden * &seen).sum(1) / seen.sum(1)
                }
            };
            let pooled = pooled.cast(DType::F32).to_vec::<f32>()?;
            for (i, row) in group.iter().zip(pooled.chunks_exact(self.width)) {
                let norm = row.iter().map(|x| (*x as f64).powi(2)).sum::<f64>().sqrt().max(1e-12);
                rows[*i] = row.iter().map(|x| (*x as f64 / norm) as f32).collect();
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// The classifier's result for each pair of texts, without an activation.
    pub fn score(&self, pairs: &[&Encoded]) -> Result<Vec<f32>> {
        let none = || Error::value("there is no classifier: only a cross-encoder scores pairs of texts");
        let classifier = self.classifier.as_ref().ok_or_else(none)?;
        let mut scores = vec![0.0; pairs.len()];
        self.each_group(pairs, |group, hidden| {
            let first = hidden.narrow(1, 0, 1).reshape([group.len(), self.width]);
            let y = classifier.output.forward(&classifier.dense.forward(&first).tanh());
            for (i, score) in group.iter().zip(y.cast(DType::F32).to_vec::<f32>()?) {
                scores[*i] = score;
            }
            Ok(())
        })?;
        Ok(scores)
    }
}
