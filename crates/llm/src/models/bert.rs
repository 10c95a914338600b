//! BERT: an encoder for embeddings, as of MiniLM.

use super::config::Activation;
use super::layers::{Linear, Norm};
use super::weights::{Matrix, Source};
use ir::{DType, Error, Literal, Result};
use serde_json::Value as Json;
use tensor::Tensor;
use tensor::nn::AttentionOptions;

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

/// An encoder with its weights.
pub struct Bert {
    embedding: Matrix,
    positions: Tensor,
    /// The embedding of the first segment: all tokens are in it.
    segment: Tensor,
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
        let types: Tensor = source.floats("token_types.weight")?.into();
        Ok(Bert {
            embedding: source.matrix("token_embd.weight")?,
            positions: source.floats("position_embd.weight")?.into(),
            segment: types.narrow(0, 0, 1).eval()?.clone(),
            norm: norm("token_embd_norm")?,
            layers: (0..size("num_hidden_layers")?).map(layer).collect::<Result<_>>()?,
            heads: size("num_attention_heads")?,
            width: size("hidden_size")?,
            length_max: size("max_position_embeddings")?,
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

    /// The last layer `[texts, length, width]` of padded texts (i32 `[texts, length]`) with these lengths (i32).
    pub fn hidden(&self, tokens: &Tensor, lengths: &Tensor) -> Result<Tensor> {
        let (n, l) = (tokens.shape()?[0], tokens.shape()?[1]);
        let d = self.width / self.heads;
        let x = self.embedding.rows(tokens, DType::F32) + self.positions.narrow(0, 0, l) + &self.segment;
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

    /// Mean embeddings of texts, each of length one, as sentence-transformers computes them.
    pub fn embed(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
        if texts.iter().any(Vec::is_empty) || longest > self.length_max {
            return Err(Error::value(format!("texts must have 1 to {} tokens", self.length_max)));
        }
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let padded: Vec<i32> =
            texts.iter().flat_map(|t| (0..longest).map(|i| t.get(i).map_or(0, |t| *t as i32))).collect();
        let lengths: Vec<i32> = texts.iter().map(|t| t.len() as i32).collect();
        let tokens = Tensor::from(Literal::new([texts.len(), longest], &padded)?);
        let hidden = self.hidden(&tokens, &Tensor::from(Literal::new([texts.len()], &lengths)?))?;
        let seen: Vec<f32> =
            texts.iter().flat_map(|t| (0..longest).map(|i| if i < t.len() { 1.0 } else { 0.0 })).collect();
        let seen = Tensor::from(Literal::new([texts.len(), longest, 1], &seen)?);
        let mean = (hidden * &seen).sum(1) / seen.sum(1);
        let rows = mean.cast(DType::F32).to_vec::<f32>()?;
        let scaled = |row: &[f32]| {
            let norm = row.iter().map(|x| (*x as f64).powi(2)).sum::<f64>().sqrt().max(1e-12);
            row.iter().map(|x| (*x as f64 / norm) as f32).collect()
        };
        Ok(rows.chunks_exact(self.width).map(scaled).collect())
    }
}
