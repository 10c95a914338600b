//! Low-rank adapters: made for training, saved and loaded in PEFT's format.

use crate::load::LanguageModel;
use crate::models::{Config, Decoder, Linear, Lora, peft_name};
use ir::{DType, Error, ErrorKind, Literal, Result};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tensor::{Tensor, Variable};

/// What an adapter is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraOptions {
    /// Rank.
    pub rank: usize,
    /// Results are scaled by this over the rank.
    pub alpha: f64,
    /// Endings of names of linear layers, as in PEFT (`q_proj`).
    pub targets: Vec<String>,
}

impl Default for LoraOptions {
    fn default() -> LoraOptions {
        let targets = ["q_proj", "k_proj", "v_proj", "o_proj"].map(String::from).to_vec();
        LoraOptions { rank: 16, alpha: 32.0, targets }
    }
}

fn in_file(path: &Path, e: impl std::fmt::Display) -> Error {
    Error::format(format!("{}: {e}", path.display()))
}

impl LanguageModel {
    fn decoder_mut(&mut self) -> Result<&mut Decoder> {
        Arc::get_mut(&mut self.decoder).ok_or_else(|| Error::value("adapters are added before the model is served"))
    }

    /// Adds an adapter that changes nothing yet: A is uniform in ±1/√in, as in PEFT, and B is zero. Returns its
    /// variables.
    pub fn add_lora(&mut self, options: &LoraOptions) -> Result<Vec<Variable>> {
        let mut variables = Vec::new();
        for linear in self.decoder_mut()?.linears() {
            let name = peft_name(&linear.name);
            if !options.targets.iter().any(|t| name.ends_with(&format!(".{t}"))) {
                continue;
            }
            let (rows, columns) = linear.weight.sizes()?;
            let bound = 1.0 / (columns as f64).sqrt();
            let start = (Tensor::rand([options.rank, columns]) * 2.0 - 1.0) * bound;
            let a = Variable::new(&format!("{name}.lora_A.weight"), start)?;
            let b = Variable::new(&format!("{name}.lora_B.weight"), Tensor::zeros([rows, options.rank]))?;
            variables.extend([a.clone(), b.clone()]);
            linear.lora = Some(Lora { a, b, scale: options.alpha / options.rank as f64 });
        }
        if variables.is_empty() {
            return Err(Error::value(format!("no linear layer is called {}", options.targets.join(" or "))));
        }
        Ok(variables)
    }

    /// Writes the adapter as PEFT does: `adapter_config.json` and `adapter_model.safetensors`.
    pub fn save_lora(&mut self, folder: impl AsRef<Path>, options: &LoraOptions) -> Result<()> {
        let folder = folder.as_ref();
        let io = |e: std::io::Error| Error::new(ErrorKind::Io, format!("{}: {e}", folder.display()));
        std::fs::create_dir_all(folder).map_err(io)?;
        let name = self.name.clone();
        let config = self.decoder.config.clone();
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        for linear in self.decoder_mut()?.linears() {
            let Some(lora) = linear.lora.clone() else { continue };
            let key = format!("base_model.model.{}", peft_name(&linear.name));
            tensors.push((format!("{key}.lora_A.weight"), lora.a.tensor()));
            tensors.push((format!("{key}.lora_B.weight"), reordered(linear, &lora.b.tensor(), &config, true)?));
        }
        let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(n, t)| (&n[..], t)).collect();
        tensor::save(folder.join("adapter_model.safetensors"), &named)?;
        let json = json!({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": options.rank, "lora_alpha": options.alpha,
            "target_modules": options.targets, "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": false,
            "inference_mode": true, "base_model_name_or_path": name, "use_rslora": false, "use_dora": false,
        });
        std::fs::write(folder.join("adapter_config.json"), format!("{json:#}\n")).map_err(io)
    }

    /// Loads an adapter that PEFT or [`LanguageModel::save_lora`] wrote. Returns what it is made of.
    pub fn load_lora(&mut self, folder: impl AsRef<Path>) -> Result<LoraOptions> {
        let folder = folder.as_ref();
        let path = folder.join("adapter_config.json");
        let text = std::fs::read(&path).map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))?;
        let json: Json = serde_json::from_slice(&text).map_err(|e| in_file(&path, e))?;
        let rank =
            json["r"].as_u64().filter(|r| (1..=4096).contains(r)).ok_or_else(|| in_file(&path, "there is no rank r"))?
                as usize;
        let alpha = json["lora_alpha"].as_f64().ok_or_else(|| in_file(&path, "there is no lora_alpha"))?;
        for key in ["use_dora", "fan_in_fan_out"] {
            if json[key].as_bool() == Some(true) {
                return Err(in_file(&path, format!("{key} is not supported")));
            }
        }
        let is_rs = json["use_rslora"].as_bool() == Some(true);
        let scale = if is_rs { alpha / (rank as f64).sqrt() } else { alpha / rank as f64 };
        let file = folder.join("adapter_model.safetensors");
        let mut tensors = tensor::load(&file)?;
        let config = self.decoder.config.clone();
        for linear in self.decoder_mut()?.linears() {
            let name = peft_name(&linear.name);
            let key = format!("base_model.model.{name}");
            let take =
                |tensors: &mut BTreeMap<String, Tensor>, part: &str| tensors.remove(&format!("{key}.{part}.weight"));
            let (Some(a), Some(b)) = (take(&mut tensors, "lora_A"), take(&mut tensors, "lora_B")) else { continue };
            let (rows, columns) = linear.weight.sizes()?;
            let (a, b) = (a.cast(DType::F32), b.cast(DType::F32));
            if a.shape()?.dims() != [rank, columns] || b.shape()?.dims() != [rows, rank] {
                let e =
                    format!("{name}: {} and {} do not fit [{rows}, {columns}] at rank {rank}", a.shape()?, b.shape()?);
                return Err(in_file(&file, e));
            }
            let b = reordered(linear, &b, &config, false)?;
            let a = Variable::new(&format!("{name}.lora_A.weight"), a.eval()?.clone())?;
            let b = Variable::new(&format!("{name}.lora_B.weight"), b.eval()?.clone())?;
            linear.lora = Some(Lora { a, b, scale });
        }
        if let Some(left) = tensors.keys().next() {
            return Err(in_file(&file, format!("the model has no place for {left:?}")));
        }
        let text = |v: &Json| v.as_str().map(str::to_string);
        let targets = json["target_modules"].as_array().into_iter().flatten().filter_map(text).collect();
        Ok(LoraOptions { rank, alpha, targets })
    }
}

/// Rows of B in PEFT's order, or back in the model's. GGUF stores Llama's query and key heads with the halves of each
/// rotated pair beside each other; Hugging Face keeps the halves apart.
fn reordered(linear: &Linear, b: &Tensor, c: &Config, to_peft: bool) -> Result<Tensor> {
    let is_rotated = [".attn_q", ".attn_k"].iter().any(|n| linear.name.ends_with(n));
    if !is_rotated || !c.rope.as_ref().is_some_and(|r| r.is_interleaved) {
        return Ok(b.clone());
    }
    let (rows, d) = (b.shape()?[0], c.head_dim);
    let index: Vec<i64> = (0..rows)
        .map(|i| {
            let (head, at) = (i / d, i % d);
            // Where row i comes from.
            let from = if to_peft { at % (d / 2) * 2 + at / (d / 2) } else { at % 2 * (d / 2) + at / 2 };
            (head * d + from) as i64
        })
        .collect();
    Ok(b.index_select(0, &Tensor::from(Literal::new([rows], &index)?)))
}
