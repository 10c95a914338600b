//! A language model from disk: a GGUF file, or a folder as Hugging Face's libraries write it.

use crate::adapters::Adapters;
use crate::chat::ChatTemplate;
use crate::constrain::Vocabulary;
use crate::gguf::Gguf;
use crate::models::{Config, Decoder, Folder, Source};
use crate::sample::Sampling;
use crate::scratch::Scratch;
use crate::tokenizer::Tokenizer;
use ir::{Error, ErrorKind, Result};
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

/// Weights, vocabulary, chat template, and how its makers sample.
pub struct LanguageModel {
    /// The file or folder without its ending.
    pub name: String,
    /// The network.
    pub decoder: Arc<Decoder>,
    /// Text to tokens.
    pub tokenizer: Tokenizer,
    /// Messages to text.
    pub template: Option<ChatTemplate>,
    /// What the makers recommend; a temperature of 1 where they say nothing.
    pub sampling: Sampling,
    /// Adapters that requests may name.
    pub adapters: Option<Arc<Adapters>>,
    /// The vocabulary for constraints.
    pub(crate) vocabulary: Vocabulary,
}

impl LanguageModel {
    /// Opens a GGUF file or a folder. Weights stay in the file until they are read.
    pub fn load(path: impl AsRef<Path>) -> Result<LanguageModel> {
        let path = path.as_ref();
        let model = if path.is_dir() { from_folder(path, false)? } else { from_gguf(path)? };
        LanguageModel::checked(path, model)
    }
    /// A model for pre-training: a folder with `config.json` and `tokenizer.json`, whose weights are drawn anew.
    pub fn from_scratch(path: impl AsRef<Path>) -> Result<LanguageModel> {
        LanguageModel::checked(path.as_ref(), from_folder(path.as_ref(), true)?)
    }
    fn checked(path: &Path, mut model: LanguageModel) -> Result<LanguageModel> {
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        model.name =
            if path.is_dir() { path.file_name().map_or(name, |n| n.to_string_lossy().into_owned()) } else { name };
        let (tokens, rows) = (model.tokenizer.count(), model.decoder.vocabulary()?);
        if tokens > rows {
            let e = format!("{}: {tokens} tokens, but embeddings of {rows}", path.display());
            return Err(Error::format(e));
        }
        Ok(model)
    }
    /// Texts have so many tokens at most: rotary frequencies that depend on the length are made for it. 0 is what the
    /// model allows.
    pub fn set_rope_length(&mut self, length: usize) -> Result<()> {
        let config = &mut self.decoder_mut()?.config;
        config.set_rope_length(if length == 0 { config.length_max } else { length });
        Ok(())
    }
    /// The prompt of a conversation.
    pub fn chat_prompt(&self, messages: &Json, tools: Option<&Json>, extra: &Json) -> Result<String> {
        self.rendered(messages, tools, true, extra)
    }
    /// A conversation as text, where an answer begins if `adds_prompt`.
    pub fn rendered(&self, messages: &Json, tools: Option<&Json>, adds_prompt: bool, extra: &Json) -> Result<String> {
        let none = || Error::value(format!("{} has no chat template", self.name));
        self.template.as_ref().ok_or_else(none)?.render(messages, tools, adds_prompt, extra)
    }
}

fn from_gguf(path: &Path) -> Result<LanguageModel> {
    let g = Gguf::open(path)?;
    let in_file = |e: Error| Error::new(e.kind, format!("{}: {}", path.display(), e.message));
    let config = Config::from_gguf(&g).map_err(in_file)?;
    let decoder = Arc::new(Decoder::load(&g, config).map_err(in_file)?);
    let tokenizer = Tokenizer::from_gguf(&g)?;
    let text = |id: Option<u32>| id.and_then(|t| tokenizer.special(t)).unwrap_or_default().to_string();
    let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos().first().copied()));
    let template = g.str("tokenizer.chat_template").ok().map(|t| ChatTemplate::new(t, &bos, &eos)).transpose()?;
    let (name, sampling, vocabulary) = (String::new(), Sampling::default(), Vocabulary::default());
    Ok(LanguageModel { name, decoder, tokenizer, template, sampling, adapters: None, vocabulary })
}

/// A JSON file of a folder; null if there is none.
fn json(folder: &Path, name: &str) -> Result<Json> {
    let path = folder.join(name);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Json::Null),
        Err(e) => return Err(Error::new(ErrorKind::Io, format!("{}: {e}", path.display()))),
    };
    serde_json::from_slice(&text).map_err(|e| Error::format(format!("{}: {e}", path.display())))
}

/// One token, or several.
fn ids(json: &Json) -> Vec<u32> {
    let one = |v: &Json| v.as_u64().and_then(|n| u32::try_from(n).ok());
    match json {
        Json::Array(all) => all.iter().filter_map(one).collect(),
        other => one(other).into_iter().collect(),
    }
}

/// The text of a token, which may be an object.
fn content(json: &Json) -> &str {
    json.as_str().or(json["content"].as_str()).unwrap_or_default()
}

fn from_folder(path: &Path, is_new: bool) -> Result<LanguageModel> {
    let [config, generation, words] =
        ["config.json", "generation_config.json", "tokenizer_config.json"].map(|n| json(path, n));
    let (config, generation, words) = (config?, generation?, words?);
    if config.is_null() {
        return Err(Error::format(format!(
            "{}: config.json is missing; a folder with a language model has config.json, tokenizer.json and safetensors",
            path.display()
        )));
    }
    let kind = config["model_type"].as_str().unwrap_or_default();
    let in_folder = |e: Error| Error::new(e.kind, format!("{}: {}", path.display(), e.message));
    let shape = Config::from_json(&config).map_err(in_folder)?;
    let source: Box<dyn Source> = match is_new {
        true => Box::new(Scratch::new(&config).map_err(in_folder)?),
        false => Box::new(Folder::open(path, kind)?),
    };
    let decoder = Arc::new(Decoder::load(&*source, shape).map_err(in_folder)?);
    let first = |key: &str| [&generation[key], &config[key]].map(ids).into_iter().find(|v| !v.is_empty());
    let bos = first("bos_token_id").and_then(|v| v.first().copied());
    let mut eos = first("eos_token_id").unwrap_or_default();
    let file = path.join("tokenizer.json");
    let named = Tokenizer::from_file(&file, bos, Vec::new())?;
    if let Some(t) = named.token(content(&words["eos_token"])).filter(|t| !eos.contains(t)) {
        eos.push(t);
    }
    let tokenizer = Tokenizer::from_file(&file, bos, eos)?;
    let source = match std::fs::read_to_string(path.join("chat_template.jinja")) {
        Ok(text) => Some(text),
        Err(_) => template(&words["chat_template"]),
    };
    let (bos, eos) = (content(&words["bos_token"]), content(&words["eos_token"]));
    let template = source.map(|t| ChatTemplate::new(&t, bos, eos)).transpose()?;
    let (name, sampling, vocabulary) = (String::new(), sampling(&generation), Vocabulary::default());
    Ok(LanguageModel { name, decoder, tokenizer, template, sampling, adapters: None, vocabulary })
}

/// A template, or the default one of several.
fn template(json: &Json) -> Option<String> {
    let default = || json.as_array()?.iter().find(|t| t["name"] == "default")?["template"].as_str();
    json.as_str().or_else(default).map(str::to_string)
}

fn sampling(generation: &Json) -> Sampling {
    let plain = Sampling::default();
    if generation["do_sample"].as_bool() == Some(false) {
        return plain;
    }
    let float = |key: &str, default: f32| generation[key].as_f64().map_or(default, |x| x as f32);
    Sampling {
        temperature: float("temperature", plain.temperature),
        top_p: float("top_p", plain.top_p),
        top_k: generation["top_k"].as_u64().map_or(plain.top_k, |k| k as usize),
        repetition_penalty: float("repetition_penalty", plain.repetition_penalty),
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_config_says_what_is_missing() {
        let folder = std::env::temp_dir().join(format!("talweg-no-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let said = from_folder(&folder, false).err().map(|e| e.message);
        std::fs::remove_dir(&folder).unwrap();
        assert!(said.as_ref().is_some_and(|m| m.contains("config.json is missing")), "{said:?}");
    }
}
