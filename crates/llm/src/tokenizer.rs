//! Tokenizers, by the crate `tokenizers`: from a `tokenizer.json`, or from the vocabulary of a GGUF file.

use crate::gguf::{Gguf, Value};
use crate::models::Encoded;
use ir::{Error, ErrorKind, Result};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::path::Path;
use tokenizers::{PostProcessor, TruncationDirection, TruncationParams, truncate_encodings};

/// Text to tokens, and tokens to bytes.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The bytes of every token; none for special ones.
    pieces: Vec<Piece>,
    bos: Option<u32>,
    eos: Vec<u32>,
    adds_bos: bool,
}

enum Piece {
    Text(Vec<u8>),
    Special(String),
}

/// GPT-2's words: contractions, letters, digits, other characters, spaces.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Llama 3's words, with digits in groups of at most `{}`.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Special tokens that end a turn, whatever a file says of them.
const ENDS: [&str; 6] = ["<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>", "<|end|>"];

fn foreign(e: impl std::fmt::Display) -> Error {
    Error::format(format!("tokenizer: {e}"))
}

/// The byte behind each character of a byte-level vocabulary: printable ones stand for themselves.
fn byte_level() -> HashMap<char, u8> {
    let is_plain = |b: &u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let plain = (0..=255u8).filter(is_plain).map(|b| (b as char, b));
    let others = (0..=255u8).filter(|b| !is_plain(b)).zip(256u32..);
    plain.chain(others.filter_map(|(b, c)| Some((char::from_u32(c)?, b)))).collect()
}

/// What a vocabulary of a file consists of.
struct Vocabulary<'a> {
    gguf: &'a Gguf,
    tokens: Vec<&'a str>,
    /// Control tokens and those that users added: never made from text by merging.
    special: Vec<bool>,
    /// Of those, tokens that users added: they are text where they are generated (`<tool_call>`).
    added: Vec<bool>,
}

impl<'a> Vocabulary<'a> {
    fn of(gguf: &'a Gguf) -> Result<Vocabulary<'a>> {
        let text = |v: &'a Value| match v {
            Value::Str(s) => std::str::from_utf8(s).map_err(|e| foreign(format!("a token is not UTF-8: {e}"))),
            _ => Err(foreign("a token is not text")),
        };
        let tokens = gguf.array("tokenizer.ggml.tokens")?.iter().map(text).collect::<Result<Vec<_>>>()?;
        let types = match gguf.metadata().get("tokenizer.ggml.token_type") {
            Some(Value::Array(types)) => types.iter().map(|t| if let Value::Int(n) = t { *n } else { 1 }).collect(),
            _ => vec![1; tokens.len()],
        };
        let special: Vec<bool> = types.iter().map(|t| matches!(t, 3 | 4)).collect();
        let added = types.iter().map(|t| *t == 4).collect();
        if special.len() != tokens.len() {
            return Err(foreign(format!("{} tokens have {} types", tokens.len(), special.len())));
        }
        Ok(Vocabulary { gguf, tokens, special, added })
    }

    fn added(&self) -> Json {
        let one = |(id, token): (usize, &&str)| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        };
        self.tokens.iter().enumerate().filter(|(id, _)| self.special[*id]).map(one).collect()
    }
    fn ids(&self) -> Json {
        Json::Object(self.tokens.iter().enumerate().map(|(id, t)| (t.to_string(), json!(id))).collect())
    }

    /// The token that begins a text, if one does; `default` where the file does not say.
    fn bos(&self, default: bool) -> Option<usize> {
        let adds = self.gguf.bool("tokenizer.ggml.add_bos_token").unwrap_or(default);
        self.gguf.size("tokenizer.ggml.bos_token_id").ok().filter(|id| adds && *id < self.tokens.len())
    }
    /// The template that puts it before a text.
    fn begins(&self, default: bool) -> Result<Json> {
        let Some(id) = self.bos(default) else { return Ok(Json::Null) };
        let (token, text) = (self.tokens[id], json!({"Sequence": {"id": "A", "type_id": 0}}));
        let first = json!({"SpecialToken": {"id": token, "type_id": 0}});
        let mut special = serde_json::Map::new();
        special.insert(token.to_string(), json!({"id": token, "ids": [id], "tokens": [token]}));
        Ok(json!({
            "type": "TemplateProcessing", "single": [first, text],
            "pair": [first, text, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": special,
        }))
    }

    /// Byte-level BPE, as of GPT-2.
    fn bpe(&self) -> Result<Json> {
        let merge = |v: &Value| match v {
            Value::Str(s) => Ok(String::from_utf8_lossy(s).into_owned()),
            _ => Err(foreign("a merge is not text")),
        };
        let merges = self.gguf.array("tokenizer.ggml.merges")?.iter().map(merge).collect::<Result<Vec<String>>>()?;
        let pre = self.gguf.str("tokenizer.ggml.pre").unwrap_or("gpt-2");
        let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        let mut steps = match pre {
            "gpt-2" | "phi-2" | "default" => vec![split(GPT2)],
            "smollm" | "starcoder" | "refact" | "command-r" => vec![split(r"\p{N}"), split(GPT2)],
            "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "pixtral" => vec![split(&LLAMA3.replace("DIGITS", "3"))],
            "qwen2" | "deepseek-r1-qwen" | "stablelm2" => vec![split(&LLAMA3.replace("{1,DIGITS}", ""))],
            other => {
                let e = format!("pre-tokenizer {other:?} is not supported: pass a tokenizer.json");
                return Err(Error::format(e));
            }
        };
        steps.push(json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}));
        Ok(json!({
            "version": "1.0", "added_tokens": self.added(), "normalizer": null,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
            "post_processor": self.begins(false)?,
            "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
            "model": {"type": "BPE", "vocab": self.ids(), "merges": merges, "ignore_merges": pre == "llama-bpe"},
        }))
    }

    /// SentencePiece's BPE: of two neighbors that form a token, those with the best score merge first.
    fn sentencepiece(&self) -> Result<Json> {
        let score = |v: &Value| if let Value::Float(x) = v { Ok(*x) } else { Err(foreign("a score is not a number")) };
        let scores = self.gguf.array("tokenizer.ggml.scores")?.iter().map(score).collect::<Result<Vec<f64>>>()?;
        if scores.len() != self.tokens.len() {
            return Err(foreign(format!("{} tokens have {} scores", self.tokens.len(), scores.len())));
        }
        let known: HashMap<&str, usize> = self.tokens.iter().enumerate().map(|(i, t)| (*t, i)).collect();
        let mut merges: Vec<(usize, usize, usize)> = Vec::new();
        for (id, token) in self.tokens.iter().enumerate().filter(|(id, _)| !self.special[*id]) {
            for (cut, _) in token.char_indices().skip(1) {
                if let (Some(&a), Some(&b)) = (known.get(&token[..cut]), known.get(&token[cut..])) {
                    merges.push((id, a, b));
                }
            }
        }
        merges.sort_by(|x, y| scores[y.0].total_cmp(&scores[x.0]).then(x.cmp(y)));
        let merges: Vec<Json> = merges.iter().map(|(_, a, b)| json!([self.tokens[*a], self.tokens[*b]])).collect();
        let prefix = self.gguf.bool("tokenizer.ggml.add_space_prefix").unwrap_or(true);
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let normalizer = if prefix {
            json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]})
        } else {
            replace
        };
        let mut decoders = vec![
            json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if prefix {
            decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        Ok(json!({
            "version": "1.0", "added_tokens": self.added(), "normalizer": normalizer, "pre_tokenizer": null,
            "post_processor": self.begins(true)?, "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {"type": "BPE", "vocab": self.ids(), "merges": merges, "byte_fallback": true, "fuse_unk": true,
                      "unk_token": self.gguf.size("tokenizer.ggml.unknown_token_id").ok().and_then(|i| self.tokens.get(i))},
        }))
    }
}

impl Tokenizer {
    /// The tokenizer of a GGUF file.
    pub fn from_gguf(gguf: &Gguf) -> Result<Tokenizer> {
        let vocabulary = Vocabulary::of(gguf)?;
        let kind = gguf.str("tokenizer.ggml.model")?;
        let json = match kind {
            "gpt2" => vocabulary.bpe()?,
            "llama" => vocabulary.sentencepiece()?,
            other => {
                let e = format!("{}: tokenizer {other:?} is not supported", gguf.path().display());
                return Err(Error::format(e));
            }
        };
        let inner: tokenizers::Tokenizer = json.to_string().parse().map_err(foreign)?;
        let id = |key: &str| gguf.size(&format!("tokenizer.ggml.{key}")).ok().and_then(|i| u32::try_from(i).ok());
        let mut eos: Vec<u32> = ["eos_token_id", "eot_token_id", "eom_token_id"].iter().filter_map(|k| id(k)).collect();
        let ends = (0u32..).zip(&vocabulary.tokens).filter(|(_, t)| ENDS.contains(t)).map(|(i, _)| i);
        eos.extend(ends.filter(|i| vocabulary.special[*i as usize]));
        let mut seen = std::collections::HashSet::new();
        eos.retain(|t| seen.insert(*t));
        let adds_bos = gguf.bool("tokenizer.ggml.add_bos_token").unwrap_or(kind == "llama");
        let levels = byte_level();
        let piece = |(i, t): (usize, &&str)| match (vocabulary.special[i], kind) {
            (true, _) if vocabulary.added[i] => Piece::Text(t.as_bytes().to_vec()),
            (true, _) => Piece::Special(t.to_string()),
            (false, "gpt2") => Piece::Text(t.chars().filter_map(|c| levels.get(&c).copied()).collect()),
            _ => Piece::Text(sentence_piece(t)),
        };
        let pieces = vocabulary.tokens.iter().enumerate().map(piece).collect();
        Ok(Tokenizer { inner, pieces, bos: id("bos_token_id"), eos, adds_bos })
    }

    /// A token for each byte, and no special ones.
    pub fn of_bytes() -> Result<Tokenizer> {
        let levels = byte_level();
        let vocabulary: serde_json::Map<String, Json> =
            levels.iter().map(|(c, b)| (c.to_string(), json!(*b as usize))).collect();
        let json = json!({
            "version": "1.0", "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
            "post_processor": null, "decoder": null, "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        });
        let inner = json.to_string().parse().map_err(foreign)?;
        let pieces = (0..=255u8).map(|b| Piece::Text(vec![b])).collect();
        Ok(Tokenizer { inner, pieces, bos: None, eos: Vec::new(), adds_bos: false })
    }

    /// Bytes, and letters for the other ids below `tokens`: every token of a model with random weights has text.
    pub fn of_letters(tokens: usize) -> Result<Tokenizer> {
        let mut all = Tokenizer::of_bytes()?;
        all.pieces.extend((all.pieces.len()..tokens).map(|i| Piece::Text(vec![b'a' + (i % 26) as u8])));
        Ok(all)
    }

    /// From a `tokenizer.json`; `bos` and `eos` come from the model's configuration.
    pub fn from_file(path: impl AsRef<Path>, bos: Option<u32>, eos: Vec<u32>) -> Result<Tokenizer> {
        let path = path.as_ref();
        let in_file = |e: String| Error::format(format!("{}: {e}", path.display()));
        let bytes = std::fs::read(path).map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| in_file(e.to_string()))?;
        // Files for training may say that texts are cut and padded; here nothing is lost silently.
        inner.with_truncation(None).map_err(|e| in_file(e.to_string()))?;
        inner.with_padding(None);
        let levels = byte_level();
        let added = inner.get_added_tokens_decoder();
        let is_byte_level = inner.get_vocab(false).keys().any(|t| t.starts_with('Ġ'));
        let piece = |id: u32| {
            let text = inner.id_to_token(id).unwrap_or_default();
            match added.get(&id) {
                Some(a) if a.special => Piece::Special(text),
                Some(_) => Piece::Text(text.into_bytes()),
                None if is_byte_level => Piece::Text(text.chars().filter_map(|c| levels.get(&c).copied()).collect()),
                None => Piece::Text(sentence_piece(&text)),
            }
        };
        let pieces = (0..inner.get_vocab_size(true) as u32).map(piece).collect();
        // Its own template says whether the first token is added.
        let adds_bos = inner.encode_fast("", true).is_ok_and(|e| bos.is_some() && e.get_ids().first().copied() == bos);
        Ok(Tokenizer { inner, pieces, bos, eos, adds_bos })
    }

    /// Writes a `tokenizer.json`.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.inner.save(path, false).map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))
    }

    /// How many tokens there are.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }
    /// Tokens that end a text.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }
    /// The token that begins a text, if the model has one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }
    /// The token that every prompt is begun with, if the model expects one.
    pub fn first(&self) -> Option<u32> {
        self.bos.filter(|_| self.adds_bos)
    }
    /// The token with this text, special ones included.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }

    /// A token as the vocabulary spells it.
    pub fn text(&self, token: u32) -> Option<String> {
        self.inner.id_to_token(token)
    }

    /// The tokens of a prompt: begun as the model expects it, with the special tokens that are written in it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens: Vec<u32> = Vec::new();
        let encoded = self.inner.encode_fast(text, false).map_err(foreign)?;
        if let Some(bos) = self.first().filter(|b| encoded.get_ids().first() != Some(b)) {
            tokens.push(bos);
        }
        tokens.extend_from_slice(encoded.get_ids());
        Ok(tokens)
    }
    /// The tokens of a text that continues another: nothing begins.
    pub fn encode_more(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.inner.encode_fast(text, false).map_err(foreign)?.get_ids().to_vec())
    }
    /// Words as the sequences of tokens they are written in, at the beginning of a text and after a space.
    pub fn words(&self, words: &[String]) -> Result<Vec<Vec<u32>>> {
        let mut out: Vec<Vec<u32>> = Vec::new();
        for word in words {
            for text in [word.clone(), format!(" {}", word.trim_start())] {
                let tokens = self.encode_more(&text)?;
                if !tokens.is_empty() && !out.contains(&tokens) {
                    out.push(tokens);
                }
            }
        }
        Ok(out)
    }
    /// The tokens of a text with those that its template adds around it, as encoders expect.
    pub fn encode_whole(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.inner.encode_fast(text, true).map_err(foreign)?.get_ids().to_vec())
    }
    /// The tokens of a pair of texts with those that its template adds, cut to `most` tokens where that is stated: of the
    /// longer text first.
    pub fn encode_pair(&self, first: &str, second: &str, most: Option<usize>) -> Result<Encoded> {
        self.pair(self.half(first, most)?, self.half(second, most)?, most)
    }
    /// A text of pairs that are cut to `most` tokens.
    pub fn half(&self, text: &str, most: Option<usize>) -> Result<Half> {
        let mut encoding = self.inner.encode_fast(text, false).map_err(foreign)?;
        let count = encoding.len();
        if let Some(kept) = most.map(|most| most + 1).filter(|kept| *kept < count) {
            // One more than can be left of it tells which text is longer.
            encoding.truncate(kept, 0, TruncationDirection::Right);
            drop(encoding.take_overflowing());
        }
        Ok(Half { encoding, count })
    }
    /// The tokens of a pair of texts.
    pub fn pair(&self, first: Half, second: Half, most: Option<usize>) -> Result<Encoded> {
        let is_first_longer = first.count > second.count;
        let (mut first, mut second) = (first.encoding, Some(second.encoding));
        if let Some(most) = most {
            let added = self.inner.get_post_processor().map_or(0, |p| p.added_tokens(true));
            let none = || {
                Error::value(format!("a pair of texts has {added} tokens of its own, but at most {most} may be used"))
            };
            let max_length = most.checked_sub(added).ok_or_else(none)?;
            let shorter = if is_first_longer { second.as_mut() } else { Some(&mut first) };
            if let Some(shorter) = shorter.filter(|e| e.len() > most) {
                shorter.truncate(most, 0, TruncationDirection::Right);
            }
            let how = TruncationParams { max_length, ..TruncationParams::default() };
            (first, second) = truncate_encodings(first, second, &how).map_err(foreign)?;
            // What was cut off: each piece of one text would be joined with each of the other.
            [Some(&mut first), second.as_mut()].into_iter().flatten().for_each(|e| drop(e.take_overflowing()));
        }
        let both = self.inner.post_process(first, second, true).map_err(foreign)?;
        Ok(Encoded { tokens: both.get_ids().to_vec(), segments: both.get_type_ids().to_vec() })
    }
    /// The bytes of a token; a special one has none. A character may be spread over several tokens.
    pub fn bytes(&self, token: u32) -> &[u8] {
        match self.pieces.get(token as usize) {
            Some(Piece::Text(bytes)) => bytes,
            _ => &[],
        }
    }
    /// The text of a special token.
    pub fn special(&self, token: u32) -> Option<&str> {
        if let Some(Piece::Special(s)) = self.pieces.get(token as usize) { Some(s) } else { None }
    }
    /// The text of tokens, without special ones.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|t| self.bytes(*t)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A text that is half of a pair.
#[derive(Clone)]
pub struct Half {
    /// Its tokens, without those that no pair needs.
    encoding: tokenizers::Encoding,
    /// How many it has.
    count: usize,
}

/// The bytes of a piece of SentencePiece: `▁` is a space, `<0x0A>` a byte.
fn sentence_piece(t: &str) -> Vec<u8> {
    let byte = t.strip_prefix("<0x").and_then(|t| t.strip_suffix('>')).filter(|t| t.len() == 2);
    match byte.and_then(|t| u8::from_str_radix(t, 16).ok()) {
        Some(b) => vec![b],
        None => t.replace('▁', " ").into_bytes(),
    }
}
