//! Full fine-tuning and pre-training: every weight is a variable, and a model is saved as a folder that Hugging Face's
//! libraries read.

use crate::load::LanguageModel;
use crate::lora::order;
use crate::models::{Config, Names};
use ir::{DType, Error, ErrorKind, Literal, Result};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use tensor::{Tensor, Variable};

/// Files of a folder that are not weights, by their endings.
const COPIED: [&str; 4] = ["json", "jinja", "txt", "model"];

fn io(path: &Path, e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {e}", path.display()))
}

impl LanguageModel {
    /// Makes every weight a variable of 32-bit floats; returns them by their names in GGUF.
    pub fn learn(&mut self) -> Result<Vec<(String, Variable)>> {
        self.decoder_mut()?.learn()
    }

    /// Adds the adapter that the model has to its weights, which [`LanguageModel::learn`] made variables. Returns how
    /// many matrices changed.
    pub fn merge(&mut self, weights: &[(String, Variable)]) -> Result<usize> {
        let of: BTreeMap<&str, &Variable> = weights.iter().map(|(n, v)| (&n[..], v)).collect();
        let mut changed = 0;
        for linear in self.decoder_mut()?.linears() {
            let Some(lora) = linear.lora.take() else { continue };
            let name = format!("{}.weight", linear.name);
            let weight = of.get(&name[..]).ok_or_else(|| Error::bug(format!("{name} is no variable")))?;
            let more = lora.b.tensor().matmul(lora.a.tensor()) * lora.scale;
            weight.assign(&(weight.tensor() + more))?;
            weight.tensor().eval()?;
            changed += 1;
        }
        Ok(changed)
    }

    /// Writes the model as a folder: `config.json`, `model.safetensors`, `tokenizer.json` and what belongs to them.
    /// `from` is where it was loaded from. Weights get the type that `config.json` states.
    pub fn save_folder(&self, from: &Path, weights: &[(String, Variable)], out: &Path) -> Result<()> {
        std::fs::create_dir_all(out).map_err(|e| io(out, e))?;
        let config = if from.is_dir() { copied(from, out)? } else { self.write_files(out)? };
        let kind = config["model_type"].as_str().unwrap_or_default();
        let stated = config["dtype"].as_str().or(config["torch_dtype"].as_str());
        let dtype = match stated {
            Some("bfloat16") => DType::BF16,
            Some("float16") => DType::F16,
            _ => DType::F32,
        };
        let names = Names::new(kind, |_| true)?;
        let mut tensors = BTreeMap::new();
        for (name, variable) in weights {
            let mut add = |name: String, t: Tensor| {
                tensors.insert(name, t.cast(dtype).literal()?);
                Ok::<(), Error>(())
            };
            let t = theirs(&self.decoder.config, &names, name, variable.tensor())?;
            match names.expert(name) {
                None => add(names.of(name), t)?,
                Some(pattern) => {
                    let count = self.decoder.config.experts.map_or(1, |e| e.count);
                    let rows = t.shape()?[0] / count;
                    for e in 0..count {
                        add(pattern.replace("{e}", &e.to_string()), t.narrow(0, e * rows, rows))?;
                    }
                }
            }
        }
        let path = out.join("model.safetensors");
        let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
        std::fs::write(&path, tensor::files::encode(&tensors, &metadata)?).map_err(|e| io(&path, e))
    }

    /// The files of a model that came as one: `config.json`, which is returned, and those of the tokenizer.
    fn write_files(&self, out: &Path) -> Result<Json> {
        let d = &self.decoder;
        let mut config = d.config.to_json()?;
        let (bos, eos) = (self.tokenizer.bos(), self.tokenizer.eos());
        for (key, value) in [
            ("vocab_size", json!(d.vocabulary()?)),
            ("intermediate_size", json!(d.inner()?)),
            ("tie_word_embeddings", json!(d.is_tied())),
            ("dtype", json!("float32")),
            ("bos_token_id", json!(bos)),
            ("eos_token_id", json!(eos)),
        ] {
            config[key] = value;
        }
        let text = |t: Option<u32>| t.and_then(|t| self.tokenizer.special(t)).map(str::to_string);
        let words = json!({
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": d.config.length_max,
            "bos_token": text(bos), "eos_token": text(eos.first().copied()), "clean_up_tokenization_spaces": false,
        });
        let generation = json!({"bos_token_id": bos, "eos_token_id": eos});
        for (name, json) in
            [("config.json", &config), ("tokenizer_config.json", &words), ("generation_config.json", &generation)]
        {
            let path = out.join(name);
            std::fs::write(&path, format!("{json:#}\n")).map_err(|e| io(&path, e))?;
        }
        if let Some(template) = &self.template {
            let path = out.join("chat_template.jinja");
            std::fs::write(&path, template.source()).map_err(|e| io(&path, e))?;
        }
        self.tokenizer.save(&out.join("tokenizer.json"))?;
        Ok(config)
    }
}

/// Copies what is not weights; returns `config.json`.
fn copied(from: &Path, out: &Path) -> Result<Json> {
    let same = |p: &Path| std::fs::canonicalize(p).map_err(|e| io(p, e));
    if same(from)? == same(out)? {
        return Err(Error::value(format!("{}: the model cannot replace the one it came from", out.display())));
    }
    for entry in std::fs::read_dir(from).map_err(|e| io(from, e))? {
        let path = entry.map_err(|e| io(from, e))?.path();
        let is_index = path.to_string_lossy().ends_with(".index.json");
        let is_copied = path.extension().is_some_and(|e| COPIED.iter().any(|c| *c == e));
        if path.is_file() && is_copied && !is_index {
            std::fs::copy(&path, out.join(path.file_name().unwrap_or_default())).map_err(|e| io(&path, e))?;
        }
    }
    let path = out.join("config.json");
    let text = std::fs::read(&path).map_err(|e| io(&path, e))?;
    serde_json::from_slice(&text).map_err(|e| Error::format(format!("{}: {e}", path.display())))
}

/// A weight as Hugging Face stores it.
fn theirs(config: &Config, names: &Names, name: &str, mut t: Tensor) -> Result<Tensor> {
    let shape = t.shape()?;
    if let Some(order) = order(name, shape[0], config, true) {
        t = t.index_select(0, &Tensor::from(Literal::new([order.len()], &order)?));
    }
    let offset = names.norm_offset(name);
    if offset != 0.0 {
        t = t - offset as f64;
    }
    if shape.len() == 2 && names.is_transposed(name) {
        t = t.transpose(0, 1);
    }
    Ok(t)
}
