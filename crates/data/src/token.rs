//! Tokenizers: text to numbers and back. Bytes and characters are here;
//! byte-pair encoding is behind the feature `tokenizers`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Text to numbers and back.
pub trait Tokenizer: Send + Sync {
    /// How many different tokens there are; all are below this.
    fn size(&self) -> usize;

    /// The tokens of a text.
    ///
    /// # Errors
    /// If the text holds something the tokenizer does not know.
    fn encode(&self, text: &str) -> Result<Vec<u32>>;

    /// The text of some tokens. Bytes that are no text become `�`: a model may
    /// stop in the middle of a character.
    ///
    /// # Errors
    /// If a token does not exist.
    fn decode(&self, tokens: &[u32]) -> Result<String>;
}

/// Every byte of the UTF-8 text is a token: 256 tokens, no unknown text.
///
/// ```
/// use talweg_data::{Bytes, Tokenizer};
/// assert_eq!(Bytes.encode("né")?, [110, 195, 169]);
/// assert_eq!(Bytes.decode(&[110, 195, 169])?, "né");
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes;

impl Tokenizer for Bytes {
    fn size(&self) -> usize {
        256
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, tokens: &[u32]) -> Result<String> {
        let byte = |token: &u32| u8::try_from(*token).map_err(|_| unknown(*token, self.size()));
        let bytes = tokens.iter().map(byte).collect::<Result<Vec<u8>>>()?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Every character of an alphabet is a token.
///
/// ```
/// use talweg_data::{Chars, Tokenizer};
/// let chars = Chars::of("to be or not to be");
/// assert_eq!(chars.size(), 7);
/// assert_eq!(chars.decode(&chars.encode("beet")?)?, "beet");
/// let error = chars.encode("robot!").unwrap_err();
/// assert_eq!(error.to_string(), "character '!' (byte 5) is not among the 7 this tokenizer knows");
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Chars {
    /// Sorted; a character's place is its token.
    alphabet: Vec<char>,
}

impl Chars {
    /// The alphabet of the characters that occur in a text, in Unicode's order.
    pub fn of(text: &str) -> Self {
        // A set of the few distinct ones: texts are long, alphabets short.
        let distinct: std::collections::BTreeSet<char> = text.chars().collect();
        Chars { alphabet: distinct.into_iter().collect() }
    }
}

impl From<String> for Chars {
    fn from(alphabet: String) -> Self {
        Chars::of(&alphabet)
    }
}

impl From<Chars> for String {
    fn from(chars: Chars) -> Self {
        chars.alphabet.into_iter().collect()
    }
}

impl Tokenizer for Chars {
    fn size(&self) -> usize {
        self.alphabet.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let token = |(byte, character): (usize, char)| match self.alphabet.binary_search(&character) {
            Ok(place) => Ok(place as u32),
            Err(_) => Err(Error::mismatch(format!(
                "character {character:?} (byte {byte}) is not among the {} this tokenizer knows",
                self.size()
            ))),
        };
        text.char_indices().map(token).collect()
    }

    fn decode(&self, tokens: &[u32]) -> Result<String> {
        let character = |token: &u32| self.alphabet.get(*token as usize).ok_or(unknown(*token, self.size()));
        tokens.iter().map(character).collect()
    }
}

pub(crate) fn unknown(token: u32, size: usize) -> Error {
    Error::mismatch(format!("token {token} does not exist: there are {size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_do_not_exist() {
        assert_eq!(Bytes.decode(&[256]).unwrap_err().to_string(), "token 256 does not exist: there are 256");
        assert_eq!(Chars::of("ab").decode(&[2]).unwrap_err().to_string(), "token 2 does not exist: there are 2");
        assert_eq!(Bytes.decode(&[195]).unwrap(), "\u{fffd}");
    }

    #[test]
    fn an_alphabet_is_saved_as_text() {
        let chars = Chars::of("hello ✓");
        let saved = serde_json::to_string(&chars).unwrap();
        assert_eq!(saved, "\" ehlo✓\"");
        assert_eq!(serde_json::from_str::<Chars>(&saved).unwrap(), chars);
    }
}
