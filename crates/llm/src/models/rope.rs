//! Rotary position embeddings: frequencies, and how they change for texts longer than those of training.
//!
//! The formulas are those of `transformers`. Where they depend on the length of a text (dynamic NTK, LongRoPE), the
//! frequencies are those of a text as long as may be used ([`Rope::seq_len`]), as in vLLM and llama.cpp: keys stay in
//! a cache, and requests share them.

use ir::{Error, Result};
use serde_json::{Value as Json, json};

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// θ.
    pub base: f64,
    /// θ of layers with a sliding window.
    pub local_base: f64,
    /// Dimensions of a head that are rotated.
    pub dims: usize,
    /// Pairs are neighbors, as GGUF stores Llama's heads; else (i, i + dims / 2).
    pub is_interleaved: bool,
    /// How frequencies change for long texts.
    pub scaling: Scaling,
    /// Multiplies cosines and sines.
    pub attention_factor: f64,
    /// Tokens of a text that frequencies are made for, where they depend on it.
    pub seq_len: usize,
}

/// How frequencies are scaled.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Not.
    None,
    /// All divided by a factor.
    Linear(f64),
    /// Llama 3's: low frequencies divided, high ones kept.
    Llama3 {
        /// Of low frequencies.
        factor: f64,
        /// Turns within the original length below which a frequency is low.
        low: f64,
        /// And above which it is high.
        high: f64,
        /// The length it was trained with.
        length: f64,
    },
    /// YaRN: dimensions of low frequencies divided, those of high ones kept, a ramp between them.
    Yarn {
        /// Of low frequencies.
        factor: f64,
        /// Turns within the original length of the last dimension that is kept.
        beta_fast: f64,
        /// And of the first that is divided by the whole factor.
        beta_slow: f64,
        /// The length it was trained with.
        length: f64,
        /// Whether the ramp begins and ends at whole dimensions.
        truncate: bool,
    },
    /// Dynamic NTK: θ grows with the length.
    Dynamic {
        /// How fast.
        factor: f64,
        /// The length it was trained with.
        length: f64,
    },
    /// LongRoPE: a divisor of each frequency, of which texts longer than those of training have others.
    Long {
        /// For texts up to `length`.
        short: Vec<f64>,
        /// For longer ones.
        long: Vec<f64>,
        /// The length it was trained with.
        length: f64,
    },
}

/// Of the dimension that turns so often within a length.
fn correction_dim(turns: f64, dims: f64, base: f64, length: f64) -> f64 {
    dims * (length / (turns * 2.0 * std::f64::consts::PI)).ln() / (2.0 * base.ln())
}

/// How much larger scores are where texts are `scale` times as long, by YaRN's authors.
pub(super) fn yarn_factor(scale: f64, weight: f64) -> f64 {
    if scale <= 1.0 { 1.0 } else { 0.1 * weight * scale.ln() + 1.0 }
}

/// The same, by LongRoPE's.
pub(super) fn longrope_factor(scale: f64, length: f64) -> f64 {
    if scale <= 1.0 { 1.0 } else { (1.0 + scale.ln() / length.ln()).sqrt() }
}

impl Rope {
    /// Without scaling.
    pub(super) fn new(base: f64, dims: usize, seq_len: usize) -> Rope {
        let scaling = Scaling::None;
        Rope { base, local_base: base, dims, is_interleaved: false, scaling, attention_factor: 1.0, seq_len }
    }
    /// Fails unless its numbers make frequencies.
    pub(super) fn check(&self, head_dim: usize) -> Result<()> {
        if self.dims > head_dim || !self.dims.is_multiple_of(2) || self.dims == 0 {
            return Err(Error::format(format!("{} dimensions of {head_dim} cannot be rotated", self.dims)));
        }
        let is_positive = |x: &f64| *x > 0.0 && x.is_finite();
        let numbers = match &self.scaling {
            Scaling::None => vec![],
            Scaling::Linear(factor) => vec![*factor],
            Scaling::Llama3 { factor, low, high, length } => vec![*factor, *low, *high, *length, high - low],
            Scaling::Yarn { factor, beta_fast, beta_slow, length, .. } => {
                vec![*factor, *beta_fast, *beta_slow, *length]
            }
            Scaling::Dynamic { factor, length } => vec![*factor, *length, self.dims as f64 - 2.0],
            Scaling::Long { short, long, length } => {
                if short.len() != self.dims / 2 || long.len() != self.dims / 2 {
                    let (s, l) = (short.len(), long.len());
                    let e = format!("rope scaling: {s} short and {l} long factors for {} dimensions", self.dims);
                    return Err(Error::format(e));
                }
                short.iter().chain(long).copied().chain([*length]).collect()
            }
        };
        if !numbers.iter().chain([&self.base, &self.local_base, &self.attention_factor]).all(is_positive) {
            return Err(Error::format(format!("rope scaling: {:?} must be made of positive numbers", self.scaling)));
        }
        Ok(())
    }

    /// The inverse frequencies of layers with this θ.
    pub fn frequencies(&self, base: f64) -> Vec<f32> {
        let plain = |base: f64, i: usize| base.powf(-2.0 * i as f64 / self.dims as f64);
        let scaled = |i: usize| {
            let f = plain(base, i);
            match &self.scaling {
                // Layers with a window keep their frequencies.
                _ if base != self.base => f,
                Scaling::None => f,
                Scaling::Linear(factor) => f / factor,
                Scaling::Llama3 { factor, low, high, length } => {
                    let turns = length * f / (2.0 * std::f64::consts::PI);
                    let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    f / factor * (1.0 - smooth) + f * smooth
                }
                Scaling::Yarn { factor, beta_fast, beta_slow, length, truncate } => {
                    let at = |turns: f64| correction_dim(turns, self.dims as f64, base, *length);
                    let (first, last) = match truncate {
                        true => (at(*beta_fast).floor(), at(*beta_slow).ceil()),
                        false => (at(*beta_fast), at(*beta_slow)),
                    };
                    let (first, last) = (first.max(0.0), last.min(self.dims as f64 - 1.0));
                    let width = if first == last { 0.001 } else { last - first };
                    let ramp = ((i as f64 - first) / width).clamp(0.0, 1.0);
                    f / factor * ramp + f * (1.0 - ramp)
                }
                Scaling::Dynamic { factor, length } => {
                    let seen = (self.seq_len as f64).max(*length);
                    let dims = self.dims as f64;
                    plain(base * (factor * seen / length - (factor - 1.0)).powf(dims / (dims - 2.0)), i)
                }
                Scaling::Long { short, long, length } => {
                    f / if self.seq_len as f64 > *length { long[i] } else { short[i] }
                }
            }
        };
        (0..self.dims / 2).map(|i| scaled(i) as f32).collect()
    }

    /// Reads `rope_parameters` or `rope_scaling` of a `config.json`; `trained` is its `max_position_embeddings`. Returns
    /// how long texts may be if that is longer.
    pub(super) fn read(&mut self, scaling: &Json, config: &Json, trained: usize) -> Result<Option<usize>> {
        let stated = scaling["rope_type"].as_str().or(scaling["type"].as_str()).unwrap_or("default");
        // Phi-3's first files say "su" and "yarn" for LongRoPE.
        let is_phi3 = config["model_type"] == "phi3";
        let kind = if is_phi3 && matches!(stated, "su" | "yarn") { "longrope" } else { stated };
        let find = |k: &str| scaling[k].as_f64();
        let number = |k: &str| find(k).ok_or_else(|| Error::format(format!("config.json: rope has no {k:?}")));
        let key = "original_max_position_embeddings";
        let original = find(key).or(config[key].as_f64()).unwrap_or(trained as f64);
        let longer = |length: f64, factor: f64| Some((length * factor) as usize).filter(|n| *n > trained);
        let (scaling, attention_factor, length) = match kind {
            "default" => (Scaling::None, None, None),
            "linear" => {
                let factor = number("factor")?;
                // Gemma states the length after scaling.
                let is_stated = config["model_type"].as_str().is_some_and(|kind| kind.starts_with("gemma"));
                (Scaling::Linear(factor), None, longer(trained as f64, factor).filter(|_| !is_stated))
            }
            "llama3" => {
                let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
                (Scaling::Llama3 { factor: number("factor")?, low, high, length: number(key)? }, None, None)
            }
            "yarn" => {
                let factor = find("factor").unwrap_or(trained as f64 / original);
                let nonzero = |k: &str, default: f64| find(k).filter(|x| *x != 0.0).unwrap_or(default);
                let attention_factor = match (nonzero("mscale", 0.0), nonzero("mscale_all_dim", 0.0)) {
                    (one, all) if one != 0.0 && all != 0.0 => yarn_factor(factor, one) / yarn_factor(factor, all),
                    _ => yarn_factor(factor, 1.0),
                };
                let (beta_fast, beta_slow) = (nonzero("beta_fast", 32.0), nonzero("beta_slow", 1.0));
                let truncate = scaling["truncate"].as_bool().unwrap_or(true);
                let scaling = Scaling::Yarn { factor, beta_fast, beta_slow, length: original, truncate };
                (scaling, Some(attention_factor), longer(original, factor))
            }
            "dynamic" => {
                let factor = number("factor")?;
                let scaling = Scaling::Dynamic { factor, length: trained as f64 };
                (scaling, None, longer(trained as f64, factor))
            }
            "longrope" => {
                let factors = |k: &str| {
                    let all = scaling[k].as_array().and_then(|all| all.iter().map(Json::as_f64).collect());
                    all.ok_or_else(|| Error::format(format!("config.json: rope has no list of numbers {k:?}")))
                };
                let factor = find("factor").unwrap_or(trained as f64 / original);
                let (short, long) = (factors("short_factor")?, factors("long_factor")?);
                let scaling = Scaling::Long { short, long, length: original };
                (scaling, Some(longrope_factor(factor, original)), None)
            }
            other => {
                let known = "linear, dynamic, yarn, longrope, llama3";
                return Err(Error::format(format!("rope scaling {other:?} is not supported; supported: {known}")));
            }
        };
        self.attention_factor = match attention_factor {
            Some(usual) => find("attention_factor").unwrap_or(usual),
            None => 1.0,
        };
        self.scaling = scaling;
        Ok(length)
    }

    /// The same as `rope_scaling` of a `config.json`; null if there is none.
    pub(super) fn to_json(&self) -> Json {
        match &self.scaling {
            Scaling::None => Json::Null,
            Scaling::Linear(factor) => json!({"rope_type": "linear", "factor": factor}),
            Scaling::Llama3 { factor, low, high, length } => json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                "original_max_position_embeddings": *length as u64,
            }),
            Scaling::Yarn { factor, beta_fast, beta_slow, length, truncate } => json!({
                "rope_type": "yarn", "factor": factor, "beta_fast": beta_fast, "beta_slow": beta_slow, "truncate": truncate,
                "original_max_position_embeddings": *length as u64, "attention_factor": self.attention_factor,
            }),
            Scaling::Dynamic { factor, .. } => json!({"rope_type": "dynamic", "factor": factor}),
            Scaling::Long { short, long, length } => json!({
                "rope_type": "longrope", "short_factor": short, "long_factor": long,
                "original_max_position_embeddings": *length as u64, "attention_factor": self.attention_factor,
            }),
        }
    }
}
