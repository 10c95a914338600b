//! Text files: token chunks for language models, and lines.

use std::path::Path;

use crate::array::Array;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::sample::Sample;
use crate::token::Tokenizer;

/// Chunks of a long text: `input` (`i64`, `context` tokens) and `target`, the
/// same moved by one, so that every token is followed by what is to be guessed.
///
/// ```
/// use talweg_data::{Bytes, Dataset, Text};
/// let text = Text::new("hello world", &Bytes, 4)?;
/// assert_eq!(text.len(), 2);
/// let second = text.get(1)?;
/// assert_eq!(second.array("input")?.values::<i64>()?, [111, 32, 119, 111]);
/// assert_eq!(second.array("target")?.values::<i64>()?, [32, 119, 111, 114]);
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Text {
    tokens: Vec<u32>,
    context: usize,
    stride: usize,
}

impl Text {
    /// Chunks of `context` tokens of a text, one after the other.
    ///
    /// # Errors
    /// If the tokenizer does not know the text, or it is shorter than one chunk
    /// and its target.
    pub fn new(text: &str, tokenizer: &dyn Tokenizer, context: usize) -> Result<Self> {
        Self::from_tokens(tokenizer.encode(text)?, context)
    }

    /// Chunks of a text file.
    ///
    /// # Errors
    /// If the file cannot be read or is no UTF-8 text; and as [`Text::new`].
    pub fn open(path: impl AsRef<Path>, tokenizer: &dyn Tokenizer, context: usize) -> Result<Self> {
        let path = path.as_ref();
        Self::new(&read(path)?, tokenizer, context).map_err(|error| Error::format(path, error.to_string()))
    }

    /// Chunks of tokens.
    ///
    /// # Errors
    /// If there are not enough for one chunk and its target.
    pub fn from_tokens(tokens: Vec<u32>, context: usize) -> Result<Self> {
        if context == 0 || tokens.len() <= context {
            return Err(Error::mismatch(format!(
                "expected a context of at least 1 and more tokens than that, found {} tokens for a context of {context}",
                tokens.len()
            )));
        }
        Ok(Text { tokens, context, stride: context })
    }

    /// Lets a chunk begin every `stride` tokens; 1 makes every place a sample.
    ///
    /// # Errors
    /// If it is 0.
    pub fn stride(mut self, stride: usize) -> Result<Self> {
        if stride == 0 {
            return Err(Error::mismatch("a stride is at least 1, found 0"));
        }
        self.stride = stride;
        Ok(self)
    }

    /// Two texts: the first `share` of the tokens, and the rest.
    ///
    /// # Errors
    /// If a part is shorter than one chunk and its target.
    pub fn cut(mut self, share: f64) -> Result<(Text, Text)> {
        let place = (self.tokens.len() as f64 * share.clamp(0.0, 1.0)) as usize;
        let rest = self.tokens.split_off(place);
        let part = |tokens| Self::from_tokens(tokens, self.context)?.stride(self.stride);
        Ok((part(self.tokens)?, part(rest)?))
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl Dataset for Text {
    fn len(&self) -> usize {
        (self.tokens.len() - self.context - 1) / self.stride + 1
    }

    fn get(&self, index: usize) -> Result<Sample> {
        let len = self.len();
        if index >= len {
            return Err(Error::OutOfRange { index, len });
        }
        let chunk = |start: usize| {
            let tokens = &self.tokens[start..start + self.context];
            Array::vector(tokens.iter().map(|token| i64::from(*token)).collect())
        };
        let start = index * self.stride;
        Ok(Sample::new().with("input", chunk(start)).with("target", chunk(start + 1)))
    }
}

/// The lines of a text file: `text`, without the line's end.
#[derive(Clone, Debug)]
pub struct Lines {
    text: String,
    /// Start and end of each line.
    places: Vec<(usize, usize)>,
}

impl Lines {
    /// Reads a text file.
    ///
    /// # Errors
    /// If it cannot be read or is no UTF-8 text.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::new(read(path.as_ref())?))
    }

    /// The lines of a text.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let start = |line: &str| line.as_ptr().addr() - text.as_ptr().addr();
        let places = text.lines().map(|line| (start(line), start(line) + line.len())).collect();
        Lines { text, places }
    }
}

impl Dataset for Lines {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn get(&self, index: usize) -> Result<Sample> {
        let len = self.len();
        let &(start, end) = self.places.get(index).ok_or(Error::OutOfRange { index, len })?;
        Ok(Sample::new().with("text", &self.text[start..end]))
    }
}

/// A file as text.
fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        Error::format(path, format!("expected UTF-8 text, found other bytes at byte {place}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Bytes, Chars};

    #[test]
    fn chunks_cover_the_text() {
        let tokens: Vec<u32> = (0..10).collect();
        let lengths =
            |context, stride| Text::from_tokens(tokens.clone(), context).unwrap().stride(stride).unwrap().len();
        assert_eq!([lengths(3, 3), lengths(3, 1), lengths(9, 9), lengths(9, 1)], [3, 7, 1, 1]);
        let text = Text::from_tokens(tokens.clone(), 3).unwrap().stride(1).unwrap();
        let last = text.get(6).unwrap();
        assert_eq!(last.array("target").unwrap().values::<i64>().unwrap(), [7, 8, 9]);
        assert!(text.get(7).is_err());
        let (train, test) = text.cut(0.6).unwrap();
        assert_eq!((train.tokens(), test.tokens()), (&tokens[..6], &tokens[6..]));
    }

    #[test]
    fn what_cannot_be_chunked() {
        let message = |r: Result<Text>| r.unwrap_err().to_string();
        assert!(message(Text::new("abc", &Bytes, 3)).ends_with("found 3 tokens for a context of 3"));
        assert!(message(Text::new("abc", &Bytes, 0)).contains("at least 1"));
        assert!(message(Text::new("abc", &Bytes, 1).unwrap().stride(0)).contains("found 0"));
        assert!(Text::new("abcd", &Bytes, 2).unwrap().cut(0.5).is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.txt");
        std::fs::write(&path, b"ab\xffcd").unwrap();
        let error = message(Text::open(&path, &Bytes, 2));
        assert!(error.ends_with("t.txt: expected UTF-8 text, found other bytes at byte 2"), "{error}");
        std::fs::write(&path, b"abx").unwrap();
        let error = message(Text::open(&path, &Chars::of("ab"), 2));
        assert!(error.contains("t.txt: character 'x' (byte 2)"), "{error}");
        assert!(message(Text::open("no/file", &Bytes, 2)).starts_with("cannot read no/file"));
    }

    #[test]
    fn lines() {
        let lines = Lines::new("first\r\nsecond ✓\n\nlast");
        let all: Vec<String> =
            (0..lines.len()).map(|i| lines.get(i).unwrap().text("text").unwrap().to_owned()).collect();
        assert_eq!(all, ["first", "second ✓", "", "last"]);
        assert!(lines.get(4).is_err());
        assert!(Lines::open("no/file").is_err());
    }
}
