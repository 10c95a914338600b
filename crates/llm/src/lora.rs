//! Low-rank adapters: made for training, saved and loaded in PEFT's format.

use crate::load::LanguageModel;
use crate::models::{Config, Decoder, Linear, Lora, peft_name};
use ir::{DType, Error, ErrorKind, Literal, Result};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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
    pub(crate) fn decoder_mut(&mut self) -> Result<&mut Decoder> {
        Arc::get_mut(&mut self.decoder).ok_or_else(|| Error::value("a model is changed before it is served"))
    }

    /// Trains with less memory and one more forward pass: gradients compute a layer's inner values again.
    pub fn set_checkpoints(&mut self, yes: bool) -> Result<()> {
        self.decoder_mut()?.checkpoints = yes;
        Ok(())
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
            linear.lora = Some(Lora { a, b, scale: options.alpha / options.rank as f64, chosen: None });
        }
        if variables.is_empty() {
            return Err(Error::value(format!("no linear layer is called {}", options.targets.join(" or "))));
        }
        Ok(variables)
    }

    /// The variables of the adapter that the model has, to go on training it.
    pub fn lora_variables(&mut self) -> Result<Vec<Variable>> {
        let of = |l: &mut Linear| l.lora.as_ref().map(|l| [l.a.clone(), l.b.clone()]);
        Ok(self.decoder_mut()?.linears().filter_map(of).flatten().collect())
    }

    /// Writes the adapter as PEFT does: `adapter_config.json` and `adapter_model.safetensors`.
    pub fn save_lora(&self, folder: impl AsRef<Path>, options: &LoraOptions) -> Result<()> {
        let folder = folder.as_ref();
        let io = |e: std::io::Error| Error::new(ErrorKind::Io, format!("{}: {e}", folder.display()));
        std::fs::create_dir_all(folder).map_err(io)?;
        let (name, config) = (&self.name, &self.decoder.config);
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        for linear in self.decoder.adaptable() {
            let Some(lora) = linear.lora.clone() else { continue };
            let key = format!("base_model.model.{}", peft_name(&linear.name));
            tensors.push((format!("{key}.lora_A.weight"), lora.a.tensor()));
            let b = match order(&linear.name, lora.b.shape()[0], config, true) {
                Some(order) => lora.b.tensor().index_select(0, &Tensor::from(Literal::new([order.len()], &order)?)),
                None => lora.b.tensor(),
            };
            tensors.push((format!("{key}.lora_B.weight"), b));
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
        let saved = Saved::read(folder.as_ref())?;
        let mut tensors = saved.tensors.clone();
        let config = self.decoder.config.clone();
        for linear in self.decoder_mut()?.linears() {
            let place = Placed::of(linear, &config)?;
            let Some([a, b]) = place.take(&mut tensors, saved.rank, &saved.file)? else { continue };
            let a = Variable::new(&format!("{}.lora_A.weight", place.name), a)?;
            let b = Variable::new(&format!("{}.lora_B.weight", place.name), b)?;
            linear.lora = Some(Lora { a, b, scale: saved.scale, chosen: None });
        }
        saved.check_all_used(&tensors)?;
        Ok(LoraOptions { rank: saved.rank, alpha: saved.alpha, targets: saved.targets })
    }
}

/// Adds an adapter to the weights of a folder of safetensors, and writes the whole as another folder.
pub fn merge_lora(model: &Path, adapter: &Path, out: &Path) -> Result<usize> {
    let saved = Saved::read(adapter)?;
    let io = |path: &Path, e: std::io::Error| Error::new(ErrorKind::Io, format!("{}: {e}", path.display()));
    std::fs::create_dir_all(out).map_err(|e| io(out, e))?;
    let mut left = saved.tensors.clone();
    let mut changed = 0;
    for entry in std::fs::read_dir(model).map_err(|e| io(model, e))? {
        let path = entry.map_err(|e| io(model, e))?.path();
        let to = out.join(path.file_name().unwrap_or_default());
        if path.extension().is_none_or(|e| e != "safetensors") {
            if path.is_file() {
                std::fs::copy(&path, &to).map_err(|e| io(&path, e))?;
            }
            continue;
        }
        let mut tensors = tensor::load(&path)?;
        for (name, weight) in &mut tensors {
            let Some(layer) = name.strip_suffix(".weight") else { continue };
            let mut part = |part: &str| left.remove(&format!("base_model.model.{layer}.{part}.weight"));
            let (Some(a), Some(b)) = (part("lora_A"), part("lora_B")) else { continue };
            let dtype = weight.dtype()?;
            let more = b.cast(DType::F32).matmul(a.cast(DType::F32)) * saved.scale;
            *weight = (weight.cast(DType::F32) + more).cast(dtype).eval()?.clone();
            changed += 1;
        }
        let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(n, t)| (&n[..], t)).collect();
        tensor::save(&to, &named)?;
    }
    saved.check_all_used(&left)?;
    Ok(changed)
}

/// An adapter's files.
pub(crate) struct Saved {
    pub rank: usize,
    alpha: f64,
    pub scale: f64,
    /// Endings of names of the layers that it changes.
    pub targets: Vec<String>,
    pub tensors: BTreeMap<String, Tensor>,
    pub file: PathBuf,
}

impl Saved {
    /// Reads what PEFT wrote.
    pub fn read(folder: &Path) -> Result<Saved> {
        let path = folder.join("adapter_config.json");
        let text = std::fs::read(&path).map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))?;
        let json: Json = serde_json::from_slice(&text).map_err(|e| in_file(&path, e))?;
        let rank = json["r"].as_u64().filter(|r| (1..=4096).contains(r));
        let rank = rank.ok_or_else(|| in_file(&path, "there is no rank r"))? as usize;
        let alpha = json["lora_alpha"].as_f64().ok_or_else(|| in_file(&path, "there is no lora_alpha"))?;
        for key in ["use_dora", "fan_in_fan_out"] {
            if json[key].as_bool() == Some(true) {
                return Err(in_file(&path, format!("{key} is not supported")));
            }
        }
        let is_rs = json["use_rslora"].as_bool() == Some(true);
        let scale = if is_rs { alpha / (rank as f64).sqrt() } else { alpha / rank as f64 };
        let text = |v: &Json| v.as_str().map(str::to_string);
        let targets = json["target_modules"].as_array().into_iter().flatten().filter_map(text).collect();
        let file = folder.join("adapter_model.safetensors");
        let tensors = tensor::load(&file)?;
        Ok(Saved { rank, alpha, scale, targets, tensors, file })
    }
    /// Fails if something of the file found no place.
    pub fn check_all_used(&self, left: &BTreeMap<String, Tensor>) -> Result<()> {
        match left.keys().next() {
            Some(left) => Err(in_file(&self.file, format!("the model has no place for {left:?}"))),
            None => Ok(()),
        }
    }
}

/// A linear layer as PEFT sees it.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Its name in PEFT.
    pub name: String,
    pub rows: usize,
    pub columns: usize,
    /// Where each row of the model comes from in PEFT's order, if they differ.
    order: Option<Vec<i64>>,
}

impl Placed {
    pub fn of(linear: &Linear, c: &Config) -> Result<Placed> {
        let (rows, columns) = linear.weight.sizes()?;
        Ok(Placed { name: peft_name(&linear.name), rows, columns, order: order(&linear.name, rows, c, false) })
    }
    /// Whether a target (`q_proj`) means it.
    pub fn is_called(&self, target: &str) -> bool {
        self.name.ends_with(&format!(".{target}"))
    }
    /// Takes A and B out of a file's tensors, B in the model's order of rows.
    pub fn take(&self, from: &mut BTreeMap<String, Tensor>, rank: usize, file: &Path) -> Result<Option<[Tensor; 2]>> {
        let mut part = |part: &str| from.remove(&format!("base_model.model.{}.{part}.weight", self.name));
        let (Some(a), Some(b)) = (part("lora_A"), part("lora_B")) else { return Ok(None) };
        let (a, b) = (a.cast(DType::F32), b.cast(DType::F32));
        let (rows, columns) = (self.rows, self.columns);
        if a.shape()?.dims() != [rank, columns] || b.shape()?.dims() != [rows, rank] {
            let shapes = format!("{} and {}", a.shape()?, b.shape()?);
            return Err(in_file(
                file,
                format!("{}: {shapes} do not fit [{rows}, {columns}] at rank {rank}", self.name),
            ));
        }
        let b = match &self.order {
            Some(order) => b.index_select(0, &Tensor::from(Literal::new([rows], order)?)),
            None => b,
        };
        Ok(Some([a.eval()?.clone(), b.eval()?.clone()]))
    }
}

/// The row of PEFT's B that each row of the model's comes from, or the other way round. GGUF stores Llama's query and
/// key heads with the halves of each rotated pair beside each other; Hugging Face keeps the halves apart.
pub(crate) fn order(name: &str, rows: usize, c: &Config, to_peft: bool) -> Option<Vec<i64>> {
    let name = name.trim_end_matches(".weight").trim_end_matches(".bias");
    let is_rotated = [".attn_q", ".attn_k"].iter().any(|n| name.ends_with(n));
    if !is_rotated || !c.rope.as_ref().is_some_and(|r| r.is_interleaved) {
        return None;
    }
    let d = c.head_dim;
    let from = |i: usize| {
        let (head, at) = (i / d, i % d);
        let from = if to_peft { at % (d / 2) * 2 + at / (d / 2) } else { at % 2 * (d / 2) + at / 2 };
        (head * d + from) as i64
    };
    Some((0..rows).map(from).collect())
}
