//! Weights for pre-training: drawn anew for the sizes that a `config.json` states.

use crate::models::{Config, Matrix, Source};
use ir::{Error, Literal, Result};
use serde_json::Value as Json;
use tensor::Tensor;

/// A source of random weights, by the names and shapes of the architecture.
pub struct Scratch {
    config: Config,
    vocabulary: usize,
    /// Width of the feed-forward network.
    inner: usize,
    /// Of an expert, and of the expert that every token uses.
    expert_inner: usize,
    shared_inner: usize,
    /// The standard deviation of matrices.
    deviation: f64,
    is_tied: bool,
    has_attention_bias: bool,
    has_ffn_bias: bool,
}

impl Scratch {
    /// For a model's `config.json`.
    pub fn new(json: &Json) -> Result<Scratch> {
        let config = Config::from_json(json)?;
        let size = |keys: &[&str]| {
            let n = keys.iter().find_map(|k| json[*k].as_u64()).filter(|n| (1..1 << 32).contains(n));
            n.map(|n| n as usize).ok_or_else(|| Error::format(format!("config.json: there is no {:?}", keys[0])))
        };
        let architecture = &config.architecture[..];
        let inner = match size(&["intermediate_size", "n_inner"]) {
            Err(_) if architecture == "gpt2" => 4 * config.hidden,
            inner => inner?,
        };
        // Where config.json does not say: transformers' defaults.
        let is_tied = matches!(architecture, "gemma2" | "gemma3" | "gpt2");
        Ok(Scratch {
            vocabulary: size(&["vocab_size"])?,
            inner,
            expert_inner: size(&["moe_intermediate_size"]).unwrap_or(inner),
            shared_inner: size(&["shared_expert_intermediate_size"]).unwrap_or(0),
            deviation: json["initializer_range"].as_f64().unwrap_or(0.02),
            is_tied: json["tie_word_embeddings"].as_bool().unwrap_or(is_tied),
            has_attention_bias: json["attention_bias"].as_bool().unwrap_or(false),
            has_ffn_bias: json["mlp_bias"].as_bool().unwrap_or(false),
            config,
        })
    }

    /// The shape of a tensor by GGUF's name; none if the architecture does not have it.
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let c = &self.config;
        let architecture = &c.architecture[..];
        let is_plain = matches!(architecture, "gpt2" | "phi2");
        let tail = name.strip_prefix("blk.").and_then(|n| n.split_once('.')).map_or(name, |(_, tail)| tail);
        let (stem, ending) = tail.rsplit_once('.')?;
        let (q, kv, h) = (c.heads * c.head_dim, c.kv_heads * c.head_dim, c.hidden);
        let experts = c.experts.map_or(0, |e| e.count);
        let is_fused_qkv = matches!(architecture, "gpt2" | "phi3");
        let is_qk_normed = matches!(architecture, "qwen3" | "qwen3moe" | "gemma3");
        let shape = match stem {
            "token_embd" => vec![self.vocabulary, h],
            "position_embd" if architecture == "gpt2" => vec![c.length_max, h],
            "output" if !self.is_tied => vec![self.vocabulary, h],
            "output_norm" | "attn_norm" => vec![h],
            "ffn_norm" if architecture != "phi2" => vec![h],
            "post_attention_norm" | "post_ffw_norm" if architecture.starts_with("gemma") => vec![h],
            "attn_q_norm" | "attn_k_norm" if is_qk_normed => vec![c.head_dim],
            "attn_qkv" if is_fused_qkv => vec![q + 2 * kv, h],
            "attn_q" if !is_fused_qkv => vec![q, h],
            "attn_k" | "attn_v" if !is_fused_qkv => vec![kv, h],
            "attn_output" => vec![h, q],
            "ffn_gate_up" if architecture == "phi3" => vec![2 * self.inner, h],
            "ffn_gate" if experts == 0 && !is_plain && architecture != "phi3" => vec![self.inner, h],
            "ffn_up" if experts == 0 && architecture != "phi3" => vec![self.inner, h],
            "ffn_down" if experts == 0 => vec![h, self.inner],
            "ffn_gate_inp" if experts > 0 => vec![experts, h],
            "ffn_gate_exps" | "ffn_up_exps" if experts > 0 => vec![experts * self.expert_inner, h],
            "ffn_down_exps" if experts > 0 => vec![experts * h, self.expert_inner],
            "ffn_gate_shexp" | "ffn_up_shexp" if self.shared_inner > 0 => vec![self.shared_inner, h],
            "ffn_down_shexp" if self.shared_inner > 0 => vec![h, self.shared_inner],
            "ffn_gate_inp_shexp" if self.shared_inner > 0 => vec![1, h],
            _ => return None,
        };
        if ending == "weight" {
            return Some(shape);
        }
        let is_qkv = matches!(stem, "attn_q" | "attn_k" | "attn_v");
        let has_bias = match stem {
            "token_embd" | "position_embd" => false,
            "output" => architecture == "phi2",
            _ if is_plain => true,
            _ if is_qkv && architecture.starts_with("qwen2") => true,
            "attn_output" => self.has_attention_bias && !architecture.starts_with("qwen2"),
            "ffn_gate" | "ffn_up" | "ffn_down" => self.has_ffn_bias,
            _ => is_qkv && self.has_attention_bias,
        };
        (ending == "bias" && has_bias).then(|| vec![shape[0]])
    }
    fn known(&self, name: &str) -> Result<Vec<usize>> {
        self.shape(name).ok_or_else(|| Error::format(format!("the architecture has no tensor {name:?}")))
    }
}

impl Source for Scratch {
    fn has(&self, name: &str) -> bool {
        self.shape(name).is_some()
    }
    fn floats(&self, name: &str) -> Result<Literal> {
        let shape = self.known(name)?;
        if let [rows, columns] = shape[..] {
            return (Tensor::randn([rows, columns]) * self.deviation).literal();
        }
        let start = if name.ends_with(".bias") { 0.0f32 } else { 1.0 };
        Literal::new([shape[0]], &vec![start; shape[0]])
    }
    fn matrix(&self, name: &str) -> Result<Matrix> {
        Ok(Matrix::Dense(self.floats(name)?.into()))
    }
}
