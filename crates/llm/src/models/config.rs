//! Everything about a decoder that is not a weight, from GGUF's metadata or a `config.json`.

use super::rope::{Rope, Scaling, longrope_factor, yarn_factor};
use super::weights::Source;
use crate::gguf::Gguf;
use ir::{Error, Result};
use serde_json::Value as Json;

/// Layers that a model may have; a file that announces more is refused.
const LAYERS_MAX: usize = 1024;

/// The activation of a feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x σ(x).
    Silu,
    /// GELU by its tanh approximation.
    GeluTanh,
    /// GELU.
    Gelu,
}

/// Mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// How many there are.
    pub count: usize,
    /// How many a token uses.
    pub used: usize,
    /// Whether the weights of those used are scaled to sum to one.
    pub is_normalized: bool,
}

/// The shape of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The architecture, by GGUF's name.
    pub architecture: String,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Tokens it can look back at.
    pub length_max: usize,
    /// ε of norms.
    pub eps: f64,
    /// LayerNorm instead of RMS norm.
    pub is_layer_norm: bool,
    /// Of the feed-forward network.
    pub activation: Activation,
    /// None: learned position embeddings.
    pub rope: Option<Rope>,
    /// Attention and feed-forward network read the same norm and are added together.
    pub is_parallel: bool,
    /// Embeddings are multiplied by this.
    pub embedding_scale: f64,
    /// Scores are multiplied by this.
    pub attention_scale: f64,
    /// Scores are `c tanh(x / c)`; 0: not.
    pub attention_softcap: f64,
    /// Logits are `c tanh(x / c)`; 0: not.
    pub final_softcap: f64,
    /// Tokens that a layer with a sliding window looks back at; 0: all.
    pub window: usize,
    /// Every so many layers one sees all; 0: none does.
    pub window_period: usize,
    /// Whether each layer has the window, where a file says so; the period counts otherwise.
    pub sliding: Option<Vec<bool>>,
    /// Mixture of experts.
    pub experts: Option<Experts>,
}

/// Which layers have the window: by `layer_types`, or from layer `max_window_layers` on.
fn sliding(json: &Json, layers: usize) -> Result<Option<Vec<bool>>> {
    let Some(types) = json["layer_types"].as_array() else {
        // A file with too many layers is refused later.
        let first = json["max_window_layers"].as_u64().filter(|_| layers <= LAYERS_MAX);
        return Ok(first.map(|first| (0..layers as u64).map(|l| l >= first).collect()));
    };
    if types.len() != layers {
        let e = format!("config.json: layer_types names {} layers of {layers}", types.len());
        return Err(Error::format(e));
    }
    let is_sliding = |kind: &Json| match kind.as_str() {
        Some("sliding_attention") => Ok(true),
        Some("full_attention") => Ok(false),
        _ => {
            let known = "full_attention, sliding_attention";
            Err(Error::format(format!(
                "config.json: layer_types has {kind}, which is not supported; supported: {known}"
            )))
        }
    };
    types.iter().map(is_sliding).collect::<Result<_>>().map(Some)
}

impl Config {
    /// The window of a layer; 0 if it sees all.
    pub fn layer_window(&self, layer: usize) -> usize {
        let is_sliding = match &self.sliding {
            Some(sliding) => sliding[layer],
            None => self.window_period == 0 || !(layer + 1).is_multiple_of(self.window_period),
        };
        if is_sliding { self.window } else { 0 }
    }

    /// What the architecture decides.
    fn of(architecture: &str) -> Result<Config> {
        let plain = Config {
            architecture: architecture.to_string(),
            layers: 0,
            hidden: 0,
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            length_max: 0,
            eps: 1e-5,
            is_layer_norm: false,
            activation: Activation::Silu,
            rope: None,
            is_parallel: false,
            embedding_scale: 1.0,
            attention_scale: 0.0,
            attention_softcap: 0.0,
            final_softcap: 0.0,
            window: 0,
            window_period: 0,
            sliding: None,
            experts: None,
        };
        Ok(match architecture {
            "llama" | "qwen2" | "qwen3" | "qwen2moe" | "qwen3moe" | "phi3" => plain,
            "gemma2" => Config { activation: Activation::GeluTanh, window_period: 2, ..plain },
            "gemma3" => Config { activation: Activation::GeluTanh, window_period: 6, ..plain },
            "gpt2" => Config { activation: Activation::GeluTanh, is_layer_norm: true, ..plain },
            "phi2" => Config { activation: Activation::GeluTanh, is_layer_norm: true, is_parallel: true, ..plain },
            other => {
                let known = "llama, qwen2, qwen3, qwen2moe, qwen3moe, phi2, phi3, gemma2, gemma3, gpt2";
                return Err(Error::format(format!("architecture {other:?} is not supported; supported: {known}")));
            }
        })
    }

    /// From GGUF's metadata.
    pub fn from_gguf(g: &Gguf) -> Result<Config> {
        let arch = g.str("general.architecture")?;
        let mut c = Config::of(arch)?;
        let key = |k: &str| format!("{arch}.{k}");
        let size = |k: &str| g.size(&key(k));
        let float = |k: &str| g.float(&key(k)).ok();
        c.layers = size("block_count")?;
        c.hidden = size("embedding_length")?;
        c.heads = size("attention.head_count")?;
        c.kv_heads = size("attention.head_count_kv").unwrap_or(c.heads);
        c.head_dim = size("attention.key_length").unwrap_or(c.hidden.checked_div(c.heads).unwrap_or(0));
        c.length_max = size("context_length")?;
        let eps = if c.is_layer_norm { "attention.layer_norm_epsilon" } else { "attention.layer_norm_rms_epsilon" };
        c.eps = float(eps).unwrap_or(c.eps);
        c.window = size("attention.sliding_window").unwrap_or(0);
        c.attention_softcap = float("attn_logit_softcapping").unwrap_or(0.0);
        c.final_softcap = float("final_logit_softcapping").unwrap_or(0.0);
        if let Ok(count) = size("expert_count")
            && count > 0
        {
            let is_normalized = arch != "qwen2moe";
            c.experts = Some(Experts { count, used: size("expert_used_count")?, is_normalized });
        }
        if arch != "gpt2" {
            let base = float("rope.freq_base").unwrap_or(10_000.0);
            let dims = size("rope.dimension_count").unwrap_or(c.head_dim);
            let mut rope = Rope::new(base, dims, c.length_max);
            rope.is_interleaved = arch == "llama";
            let factor = float("rope.scaling.factor").unwrap_or(1.0);
            let length = size("rope.scaling.original_context_length").unwrap_or(c.length_max) as f64;
            let stated = float("rope.scaling.attn_factor");
            let factors = ["rope_factors_short.weight", "rope_factors_long.weight"];
            let has_factors = factors.iter().all(|name| g.has(name));
            (rope.scaling, rope.attention_factor) = match g.str(&key("rope.scaling.type")).unwrap_or("none") {
                "none" | "longrope" if has_factors => {
                    let read = |name: &str| -> Result<Vec<f64>> {
                        Ok(g.floats(name)?.to_vec::<f32>()?.into_iter().map(f64::from).collect())
                    };
                    let [short, long] = factors.map(read);
                    let usual = longrope_factor(c.length_max as f64 / length, length);
                    (Scaling::Long { short: short?, long: long?, length }, stated.unwrap_or(usual))
                }
                "none" => (Scaling::None, 1.0),
                "linear" => (Scaling::Linear(factor), 1.0),
                "yarn" => {
                    let turns = |k: &str, default: f64| float(k).unwrap_or(default);
                    let beta_fast = turns("rope.scaling.yarn_beta_fast", 32.0);
                    let beta_slow = turns("rope.scaling.yarn_beta_slow", 1.0);
                    let attention_factor = yarn_factor(factor, 1.0) * stated.unwrap_or(1.0);
                    (Scaling::Yarn { factor, beta_fast, beta_slow, length, truncate: true }, attention_factor)
                }
                "longrope" => {
                    return Err(Error::format(format!("rope scaling longrope needs the tensors {factors:?}")));
                }
                other => {
                    let e = format!("rope scaling {other:?} is not supported in GGUF files: linear, yarn, longrope");
                    return Err(Error::format(e));
                }
            };
            c.rope = Some(rope);
        }
        c.finish(None)
    }

    /// From a `config.json`.
    pub fn from_json(json: &Json) -> Result<Config> {
        let kind = json["model_type"].as_str().ok_or_else(|| Error::format("config.json: there is no model_type"))?;
        let arch = match kind {
            "mistral" | "mixtral" => "llama",
            "qwen2_moe" => "qwen2moe",
            "qwen3_moe" => "qwen3moe",
            "gemma3_text" => "gemma3",
            "phi" => "phi2",
            other => other,
        };
        let mut c = Config::of(arch)?;
        let size = |keys: &[&str]| keys.iter().find_map(|k| json[*k].as_u64()).map(|n| n as usize);
        let float = |keys: &[&str]| keys.iter().find_map(|k| json[*k].as_f64());
        let need =
            |keys: &[&str]| size(keys).ok_or_else(|| Error::format(format!("config.json: there is no {:?}", keys[0])));
        c.layers = need(&["num_hidden_layers", "n_layer"])?;
        c.hidden = need(&["hidden_size", "n_embd"])?;
        c.heads = need(&["num_attention_heads", "n_head"])?;
        c.kv_heads = size(&["num_key_value_heads"]).unwrap_or(c.heads);
        c.head_dim = size(&["head_dim"]).unwrap_or(c.hidden.checked_div(c.heads).unwrap_or(0));
        c.length_max = need(&["max_position_embeddings", "n_positions"])?;
        c.eps = float(&["rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"]).unwrap_or(c.eps);
        c.activation = match json["hidden_activation"].as_str().or(json["hidden_act"].as_str()) {
            Some("gelu") => Activation::Gelu,
            Some("gelu_pytorch_tanh" | "gelu_new") => Activation::GeluTanh,
            Some("silu") => Activation::Silu,
            None => c.activation,
            Some(other) => return Err(Error::format(format!("config.json: activation {other:?} is not supported"))),
        };
        let has_window = json["use_sliding_window"].as_bool().unwrap_or(!kind.starts_with("qwen"));
        c.window = if has_window { size(&["sliding_window"]).unwrap_or(0) } else { 0 };
        c.window_period = size(&["sliding_window_pattern", "_sliding_window_pattern"]).unwrap_or(c.window_period);
        c.sliding = sliding(json, c.layers)?;
        c.attention_softcap = float(&["attn_logit_softcapping"]).unwrap_or(0.0);
        c.final_softcap = float(&["final_logit_softcapping"]).unwrap_or(0.0);
        if let Some(count) = size(&["num_local_experts", "num_experts"]) {
            let is_normalized = json["norm_topk_prob"].as_bool().unwrap_or(kind == "mixtral");
            c.experts = Some(Experts { count, used: need(&["num_experts_per_tok"])?, is_normalized });
        }
        if arch != "gpt2" {
            // Newer files keep all of it in one object.
            let newer = &json["rope_parameters"];
            let local = newer["sliding_attention"]["rope_theta"].as_f64().or(float(&["rope_local_base_freq"]));
            let newer = if newer["full_attention"].is_object() { &newer["full_attention"] } else { newer };
            let scaling = if newer.is_object() { newer } else { &json["rope_scaling"] };
            let base = newer["rope_theta"].as_f64().or(float(&["rope_theta"])).unwrap_or(10_000.0);
            let part = newer["partial_rotary_factor"].as_f64().or(float(&["partial_rotary_factor"]));
            let part = part.unwrap_or(if arch == "phi2" { 0.5 } else { 1.0 });
            let mut rope = Rope::new(base, (c.head_dim as f64 * part) as usize, c.length_max);
            rope.local_base = local.unwrap_or(base);
            c.length_max = rope.read(scaling, json, c.length_max)?.unwrap_or(c.length_max);
            rope.seq_len = c.length_max;
            c.rope = Some(rope);
        }
        c.finish(float(&["query_pre_attn_scalar"]))
    }

    /// As a `config.json`, without sizes of weights. Only architectures whose GGUF files have the same tensors as their
    /// folders.
    pub fn to_json(&self) -> Result<Json> {
        let (kind, class) = match (&self.architecture[..], &self.experts) {
            ("llama", None) => ("llama", "LlamaForCausalLM"),
            ("qwen2", None) => ("qwen2", "Qwen2ForCausalLM"),
            ("qwen3", None) => ("qwen3", "Qwen3ForCausalLM"),
            ("gemma3", None) => ("gemma3_text", "Gemma3ForCausalLM"),
            (other, _) => {
                let e = format!(
                    "a model of {other:?} in a GGUF file cannot be saved as a folder: llama, qwen2, qwen3, gemma3"
                );
                return Err(Error::value(e));
            }
        };
        let activation = match self.activation {
            Activation::Silu => "silu",
            Activation::GeluTanh => "gelu_pytorch_tanh",
            Activation::Gelu => "gelu",
        };
        let mut json = serde_json::json!({
            "model_type": kind, "architectures": [class], "num_hidden_layers": self.layers, "hidden_size": self.hidden,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "max_position_embeddings": self.length_max, "rms_norm_eps": self.eps, "hidden_act": activation,
        });
        if let Some(rope) = &self.rope {
            json["rope_theta"] = rope.base.into();
            let scaling = rope.to_json();
            if !scaling.is_null() {
                json["rope_scaling"] = scaling;
            }
        }
        if kind == "gemma3_text" {
            json["hidden_activation"] = activation.into();
            json["query_pre_attn_scalar"] = self.head_dim.into();
            json["sliding_window"] = self.window.into();
            json["sliding_window_pattern"] = self.window_period.into();
            json["rope_local_base_freq"] = self.rope.as_ref().map(|r| r.local_base).into();
        }
        Ok(json)
    }

    fn finish(mut self, query_scalar: Option<f64>) -> Result<Config> {
        let sizes = [self.layers, self.hidden, self.heads, self.kv_heads, self.head_dim, self.length_max];
        if sizes.contains(&0) || self.layers > LAYERS_MAX || !self.heads.is_multiple_of(self.kv_heads) {
            let Config { layers, hidden, heads, kv_heads, head_dim, .. } = self;
            let e = format!("{layers} layers of {hidden}, {heads} heads of {head_dim} on {kv_heads} make no model");
            return Err(Error::format(e));
        }
        if let Some(r) = &mut self.rope {
            if self.architecture == "gemma3" && r.local_base == r.base {
                r.local_base = 10_000.0;
            }
            r.check(self.head_dim)?;
        }
        if self.experts.is_some_and(|e| e.used == 0 || e.used > e.count) {
            return Err(Error::format(format!("{:?} cannot be", self.experts)));
        }
        if self.architecture.starts_with("gemma") {
            self.embedding_scale = (self.hidden as f64).sqrt();
        }
        // Gemma 2 of 27B scales by the width per head instead of the head's.
        let by_hidden = self.architecture == "gemma2" && self.layers == 46;
        let default = if by_hidden { self.hidden / self.heads } else { self.head_dim };
        self.attention_scale = query_scalar.unwrap_or(default as f64).powf(-0.5);
        Ok(self)
    }

    /// Texts have so many tokens at most: rotary frequencies that depend on the length are made for it.
    pub fn set_rope_length(&mut self, length: usize) {
        if let Some(rope) = &mut self.rope {
            rope.seq_len = length.min(self.length_max);
        }
    }
}
