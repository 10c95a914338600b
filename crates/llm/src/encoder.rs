//! Encoders (BERT, RoBERTa): texts to embeddings, and cross-encoders: pairs of texts to scores.

use crate::models::{Bert, Encoded, Folder, Pooling};
use crate::tokenizer::{Half, Tokenizer};
use ir::{Error, ErrorKind, Result};
use serde_json::Value as Json;
use std::path::Path;

/// An encoder with its vocabulary.
pub struct Encoder {
    /// The folder's name.
    pub name: String,
    bert: Bert,
    tokenizer: Tokenizer,
    pooling: Pooling,
    /// Whether a score of a pair is put between 0 and 1 where a caller does not say.
    is_sigmoid: bool,
}

/// A JSON file of a folder; null if there is none.
fn json(folder: &Path, name: &str) -> Result<Json> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|e| Error::format(format!("{}: {e}", path.display()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && name != "config.json" => Ok(Json::Null),
        Err(e) => Err(Error::new(ErrorKind::Io, format!("{}: {e}", path.display()))),
    }
}

/// Pairs of texts that are encoded before they are scored.
const ENCODED: usize = 1024;
/// Architectures that are encoders.
const KINDS: [&str; 3] = ["bert", "roberta", "xlm-roberta"];

/// How sentence-transformers makes an embedding of the last layer; the mean where the folder does not say.
fn pooling(folder: &Path) -> Result<Pooling> {
    for module in json(folder, "modules.json")?.as_array().into_iter().flatten() {
        let kind = module["type"].as_str().unwrap_or_default();
        if !["Transformer", "Pooling", "Normalize"].iter().any(|known| kind.ends_with(known)) {
            return Err(Error::format(format!("modules.json: {kind:?} is not supported")));
        }
    }
    let stated = json(folder, "1_Pooling/config.json")?;
    let mut modes: Vec<&str> = stated["pooling_mode"].as_str().into_iter().collect();
    let flags = stated.as_object().into_iter().flatten().filter(|(_, v)| v.as_bool() == Some(true));
    modes.extend(flags.filter_map(|(k, _)| k.strip_prefix("pooling_mode_")));
    match &modes[..] {
        [] | ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::First),
        other => Err(Error::format(format!("1_Pooling/config.json: {other:?} is not supported; supported: mean, cls"))),
    }
}

/// Whether a cross-encoder's scores are made by a sigmoid, as sentence-transformers and vLLM decide it.
fn is_sigmoid(config: &Json) -> Result<bool> {
    let newer = &config["sentence_transformers"]["activation_fn"];
    let stated = newer.as_str().or(config["sbert_ce_default_activation_function"].as_str());
    match stated.map(|name| name.rsplit('.').next().unwrap_or(name)) {
        None | Some("Sigmoid") => Ok(true),
        Some("Identity") => Ok(false),
        Some(other) => Err(Error::format(format!("config.json: the activation {other:?} of scores is not supported"))),
    }
}

impl Encoder {
    /// Whether a folder holds an encoder.
    pub fn is_at(folder: impl AsRef<Path>) -> bool {
        let kind = json(folder.as_ref(), "config.json").map(|c| c["model_type"].as_str().map(str::to_string));
        kind.is_ok_and(|kind| kind.is_some_and(|kind| KINDS.contains(&&kind[..])))
    }
    /// Opens a folder with `config.json`, safetensors and `tokenizer.json`.
    pub fn load(folder: impl AsRef<Path>) -> Result<Encoder> {
        let folder = folder.as_ref();
        let in_folder = |e: Error| Error::new(e.kind, format!("{}: {}", folder.display(), e.message));
        let config = json(folder, "config.json")?;
        let kind = config["model_type"].as_str().unwrap_or_default();
        if !KINDS.contains(&kind) {
            let e = format!("{}: {kind:?} is no encoder; supported: {}", folder.display(), KINDS.join(", "));
            return Err(Error::format(e));
        }
        let bert = Bert::load(&Folder::open(folder, kind)?, &config).map_err(in_folder)?;
        let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"), None, Vec::new())?;
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let (pooling, is_sigmoid) = (pooling(folder).map_err(in_folder)?, is_sigmoid(&config).map_err(in_folder)?);
        Ok(Encoder { name, bert, tokenizer, pooling, is_sigmoid })
    }
    /// Tokens of a text at most.
    pub fn length_max(&self) -> usize {
        self.bert.length_max()
    }
    /// Whether it is a cross-encoder, which scores pairs of texts and embeds none.
    pub fn is_cross_encoder(&self) -> bool {
        self.bert.is_cross_encoder()
    }
    /// The tokens of a text, with those that begin and end it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.tokenizer.encode_whole(text)
    }
    /// The tokens of a pair of texts with those around and between them, cut to `most` tokens where that is stated: the
    /// longer text first, as transformers does.
    pub fn encode_pair(&self, first: &str, second: &str, most: Option<usize>) -> Result<Encoded> {
        self.tokenizer.encode_pair(first, second, most)
    }
    /// The text of tokens, without special ones.
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.tokenizer.decode(tokens)
    }
    fn check<'a>(&self, mut tokens: impl Iterator<Item = &'a u32>) -> Result<()> {
        let vocabulary = self.tokenizer.count();
        match tokens.find(|t| **t as usize >= vocabulary) {
            Some(t) => Err(Error::value(format!("token {t}, but there are {vocabulary}"))),
            None => Ok(()),
        }
    }
    /// The embedding of each text, scaled to length one, as sentence-transformers computes it.
    pub fn embed(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>> {
        if self.is_cross_encoder() {
            return Err(Error::value(format!("{} is a cross-encoder: it scores pairs of texts", self.name)));
        }
        self.check(texts.iter().flatten())?;
        let encoded = |tokens: &Vec<u32>| Encoded { tokens: tokens.clone(), segments: Vec::new() };
        let texts: Vec<Encoded> = texts.iter().map(encoded).collect();
        tensor::no_grad(|| self.bert.embed(&texts.iter().collect::<Vec<_>>(), self.pooling))
    }
    /// The score of each pair, as sentence-transformers' `CrossEncoder` computes it; with `is_raw` without an activation.
    pub fn score(&self, pairs: &[Encoded], is_raw: bool) -> Result<Vec<f32>> {
        self.check(pairs.iter().flat_map(|p| &p.tokens))?;
        let mut scores = tensor::no_grad(|| self.bert.score(&pairs.iter().collect::<Vec<_>>()))?;
        if self.is_sigmoid && !is_raw {
            scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp()));
        }
        Ok(scores)
    }
    /// The scores of pairs of texts, each cut to `most` tokens where that is stated, and how many tokens they have.
    pub fn score_texts(
        &self,
        pairs: &[(impl AsRef<str>, impl AsRef<str>)],
        most: Option<usize>,
        is_raw: bool,
    ) -> Result<(Vec<f32>, usize)> {
        let (mut scores, mut count) = (Vec::with_capacity(pairs.len()), 0);
        // A query with many documents is tokenized once.
        let mut known: Option<(&str, Half)> = None;
        for some in pairs.chunks(ENCODED) {
            let mut encoded = Vec::with_capacity(some.len());
            for (a, b) in some {
                let first = match &known {
                    Some((text, half)) if *text == a.as_ref() => half.clone(),
                    _ => known.insert((a.as_ref(), self.tokenizer.half(a.as_ref(), most)?)).1.clone(),
                };
                let pair = self.tokenizer.pair(first, self.tokenizer.half(b.as_ref(), most)?, most)?;
                // Before the next one is encoded: many may share a text that is too long.
                self.bert.check(&[&pair])?;
                count += pair.tokens.len();
                encoded.push(pair);
            }
            scores.extend(self.score(&encoded, is_raw)?);
        }
        Ok((scores, count))
    }
}
