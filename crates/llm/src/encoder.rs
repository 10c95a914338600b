//! Encoders (BERT, MiniLM): texts to embeddings.

use crate::models::{Bert, Folder};
use crate::tokenizer::Tokenizer;
use ir::{Error, ErrorKind, Result};
use serde_json::Value as Json;
use std::path::Path;

/// An encoder with its vocabulary.
pub struct Encoder {
    /// The folder's name.
    pub name: String,
    bert: Bert,
    tokenizer: Tokenizer,
}

fn config(folder: &Path) -> Result<Json> {
    let path = folder.join("config.json");
    let text = std::fs::read(&path).map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))?;
    serde_json::from_slice(&text).map_err(|e| Error::format(format!("{}: {e}", path.display())))
}

impl Encoder {
    /// Whether a folder holds an encoder.
    pub fn is_at(folder: impl AsRef<Path>) -> bool {
        config(folder.as_ref()).is_ok_and(|c| c["model_type"] == "bert")
    }
    /// Opens a folder with `config.json`, safetensors and `tokenizer.json`.
    pub fn load(folder: impl AsRef<Path>) -> Result<Encoder> {
        let folder = folder.as_ref();
        let in_folder = |e: Error| Error::new(e.kind, format!("{}: {}", folder.display(), e.message));
        let bert = Bert::load(&Folder::open(folder, "bert")?, &config(folder)?).map_err(in_folder)?;
        let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"), None, Vec::new())?;
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Encoder { name, bert, tokenizer })
    }
    /// Tokens of a text at most.
    pub fn length_max(&self) -> usize {
        self.bert.length_max()
    }
    /// The tokens of a text, with those that begin and end it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.tokenizer.encode_whole(text)
    }
    /// The text of tokens, without special ones.
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.tokenizer.decode(tokens)
    }
    /// The mean of the last layer over each text, scaled to length one, as sentence-transformers computes it.
    pub fn embed(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        let vocabulary = self.tokenizer.count();
        if let Some(t) = texts.iter().flatten().find(|t| **t as usize >= vocabulary) {
            return Err(Error::value(format!("token {t}, but there are {vocabulary}")));
        }
        tensor::no_grad(|| self.bert.embed(texts))
    }
}
