//! Byte-pair encoding, by the crate `tokenizers`: trained here, or loaded from
//! a `tokenizer.json` of any model on the Hugging Face hub.

use std::path::Path;

use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, ModelWrapper, TokenizerBuilder};

use crate::atomic;
use crate::error::{Error, Result};
use crate::token::{Tokenizer, unknown};

/// A byte-level byte-pair encoder: no unknown text, `size` tokens.
///
/// ```
/// use talweg_data::{Bpe, Tokenizer};
/// let text = "low lower lowest, slow slower slowest";
/// let bpe = Bpe::train([text], 280, &["<end>"])?;
/// let tokens = bpe.encode("slowest ✓")?;
/// assert!(tokens.len() < "slowest ✓".len());
/// assert_eq!(bpe.decode(&tokens)?, "slowest ✓");
/// assert_eq!(bpe.token("<end>"), Some(0));
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bpe {
    tokenizer: tokenizers::Tokenizer,
}

impl Bpe {
    /// Learns `size` tokens from texts: first the special ones, then the 256
    /// bytes, then merges. Texts are best given in pieces (lines, documents).
    ///
    /// # Errors
    /// If `size` leaves no room for the bytes and the special tokens.
    pub fn train<'a>(
        texts: impl IntoIterator<Item = &'a str, IntoIter: Send>,
        size: usize,
        special: &[&str],
    ) -> Result<Self> {
        let least = 256 + special.len();
        if size < least {
            return Err(Error::mismatch(format!("expected a size of at least {least}, found {size}")));
        }
        let special = special.iter().map(|token| AddedToken::from(*token, true)).collect();
        let mut trainer = BpeTrainerBuilder::new()
            .show_progress(false)
            .vocab_size(size)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .special_tokens(special)
            .build();
        let level = ByteLevel::default().add_prefix_space(false);
        let mut tokenizer = TokenizerBuilder::new()
            .with_model(BPE::default())
            .with_normalizer(None::<tokenizers::NormalizerWrapper>)
            .with_pre_tokenizer(Some(level))
            .with_post_processor(Some(level))
            .with_decoder(Some(level))
            .build()
            .map_err(foreign)?;
        tokenizer.train(&mut trainer, texts.into_iter()).map_err(foreign)?;
        // Through its file form: the type without parameters is the one that
        // is loaded, too.
        let json = tokenizer.to_string(false).map_err(foreign)?;
        Ok(Bpe { tokenizer: json.parse().map_err(foreign)? })
    }

    /// Loads a `tokenizer.json`.
    ///
    /// # Errors
    /// If the file cannot be read or is no tokenizer.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
        match tokenizers::Tokenizer::from_bytes(bytes) {
            Ok(tokenizer) => Ok(Bpe { tokenizer }),
            Err(error) => Err(Error::format(path, format!("expected a tokenizer in JSON: {error}"))),
        }
    }

    /// Saves as `tokenizer.json`, atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        atomic::write(path, self.tokenizer.to_string(true).map_err(foreign)?.as_bytes())
    }

    /// The number of a token by its text.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_to_id(text)
    }

    /// Whether the loaded model is in fact byte-pair encoding; other kinds work
    /// as well.
    pub fn is_bpe(&self) -> bool {
        matches!(self.tokenizer.get_model(), ModelWrapper::BPE(_))
    }
}

impl Tokenizer for Bpe {
    fn size(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.tokenizer.encode_fast(text, false).map_err(foreign)?.get_ids().to_vec())
    }

    fn decode(&self, tokens: &[u32]) -> Result<String> {
        // The crate skips tokens it does not know; a model of another size
        // would go unnoticed.
        if let Some(token) = tokens.iter().find(|token| self.tokenizer.id_to_token(**token).is_none()) {
            return Err(unknown(*token, self.size()));
        }
        self.tokenizer.decode(tokens, false).map_err(foreign)
    }
}

fn foreign(error: tokenizers::Error) -> Error {
    Error::mismatch(format!("tokenizer: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "the quick brown fox jumps over the lazy dog; the dog sleeps";

    #[test]
    fn saved_and_loaded_it_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let trained = Bpe::train([TEXT], 270, &[]).unwrap();
        trained.save(&path).unwrap();
        let loaded = Bpe::load(&path).unwrap();
        assert!(loaded.is_bpe());
        assert_eq!((loaded.size(), loaded.encode(TEXT).unwrap()), (270, trained.encode(TEXT).unwrap()));
        assert_eq!(loaded.decode(&trained.encode(TEXT).unwrap()).unwrap(), TEXT);
    }

    #[test]
    fn training_is_repeatable() {
        let train = || Bpe::train([TEXT, "some more text"], 300, &["<pad>"]).unwrap().tokenizer.to_string(false);
        assert_eq!(train().unwrap(), train().unwrap());
    }

    #[test]
    fn bad_input() {
        assert_eq!(
            Bpe::train([TEXT], 256, &["<pad>"]).unwrap_err().to_string(),
            "expected a size of at least 257, found 256"
        );
        let bpe = Bpe::train([TEXT], 256, &[]).unwrap();
        assert_eq!(bpe.decode(&[256]).unwrap_err().to_string(), "token 256 does not exist: there are 256");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, "{}").unwrap();
        let error = Bpe::load(&path).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: expected a tokenizer in JSON"), "{error}");
        assert!(Bpe::load("no/file").unwrap_err().to_string().starts_with("cannot read no/file"));
    }
}
