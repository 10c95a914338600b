//! Llama-shaped models with random weights of 16 bits, to measure without files.

use crate::constrain::Vocabulary;
use crate::load::LanguageModel;
use crate::models::{Config, Decoder, Matrix, Source};
use crate::sample::Sampling;
use crate::tokenizer::Tokenizer;
use half::bf16;
use ir::{DType, Error, Literal, Result};
use serde_json::json;
use std::sync::Arc;

/// Sizes of a Llama.
#[derive(Clone, Copy)]
struct Sizes {
    name: &'static str,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    inner: usize,
    vocabulary: usize,
    is_tied: bool,
}

const SIZES: [Sizes; 3] = [
    Sizes {
        name: "llama-tiny",
        hidden: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        inner: 96,
        vocabulary: 512,
        is_tied: true,
    },
    Sizes {
        name: "llama-1b",
        hidden: 2048,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        inner: 8192,
        vocabulary: 128_256,
        is_tied: true,
    },
    Sizes {
        name: "llama-8b",
        hidden: 4096,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        inner: 14_336,
        vocabulary: 128_256,
        is_tied: false,
    },
];

/// The numbers of which weights are made: a prime, so that rows differ.
const NOISE: usize = 1_048_573;

struct Random {
    sizes: Sizes,
    /// Uniform, of variance one.
    noise: Vec<f32>,
}

impl Random {
    fn shape(&self, name: &str) -> Option<[usize; 2]> {
        let s = &self.sizes;
        let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let tail = name.strip_prefix("blk.").and_then(|n| n.split_once('.')).map_or(name, |(_, tail)| tail);
        Some(match tail.strip_suffix(".weight")? {
            "token_embd" => [s.vocabulary, s.hidden],
            "output" if !s.is_tied => [s.vocabulary, s.hidden],
            "attn_q" => [q, s.hidden],
            "attn_k" | "attn_v" => [kv, s.hidden],
            "attn_output" => [s.hidden, q],
            "ffn_gate" | "ffn_up" => [s.inner, s.hidden],
            "ffn_down" => [s.hidden, s.inner],
            "output_norm" | "attn_norm" | "ffn_norm" => [1, s.hidden],
            _ => return None,
        })
    }
}

impl Source for Random {
    fn has(&self, name: &str) -> bool {
        self.shape(name).is_some()
    }
    fn floats(&self, name: &str) -> Result<Literal> {
        let [_, width] = self.shape(name).ok_or_else(|| Error::format(format!("there is no tensor {name:?}")))?;
        Literal::new([width], &vec![1.0f32; width])
    }
    fn matrix(&self, name: &str) -> Result<Matrix> {
        let [rows, columns] = self.shape(name).ok_or_else(|| Error::format(format!("there is no tensor {name:?}")))?;
        let scale = 1.0 / (columns as f32).sqrt();
        let period: Vec<u8> = self.noise.iter().flat_map(|x| bf16::from_f32(x * scale).to_le_bytes()).collect();
        let count = rows * columns * 2;
        // Another beginning for each tensor.
        let first = name.bytes().fold(7usize, |h, b| h.wrapping_mul(31) ^ b as usize) % NOISE * 2;
        let mut bytes = Vec::with_capacity(count + period.len());
        bytes.extend_from_slice(&period[first..]);
        while bytes.len() < count {
            bytes.extend_from_slice(&period);
        }
        Ok(Matrix::Dense(Literal::from_bytes(DType::BF16, [rows, columns], &bytes[..count])?.into()))
    }
}

/// Whether this names a model with random weights.
pub fn is_random_model(name: &str) -> bool {
    SIZES.iter().any(|s| s.name == name)
}

/// A model with random weights: `llama-tiny`, `llama-1b` or `llama-8b`. Its text means nothing.
pub fn random_model(name: &str) -> Result<LanguageModel> {
    let Some(s) = SIZES.into_iter().find(|s| s.name == name) else {
        let names: Vec<&str> = SIZES.iter().map(|s| s.name).collect();
        return Err(Error::value(format!("there is no random model {name:?}: {}", names.join(", "))));
    };
    let config = Config::from_json(&json!({
        "model_type": "llama", "hidden_size": s.hidden, "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads, "head_dim": s.head_dim, "max_position_embeddings": 131_072,
        "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "hidden_act": "silu",
    }))?;
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let unit = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * 3f32.sqrt()
    };
    let tokenizer = Tokenizer::of_letters(s.vocabulary)?;
    let source = Random { sizes: s, noise: (0..NOISE).map(unit).collect() };
    Ok(LanguageModel {
        name: name.to_string(),
        decoder: Arc::new(Decoder::load(&source, config)?),
        tokenizer,
        template: None,
        sampling: Sampling::default(),
        adapters: None,
        vocabulary: Vocabulary::default(),
    })
}
