//! Structured output: what a text must look like, as a mask of the tokens that may come next.

#[cfg(feature = "constrain")]
mod gbnf;
#[cfg(feature = "constrain")]
mod guide;

#[cfg(feature = "constrain")]
pub use guide::Guide;
#[cfg(feature = "constrain")]
pub(crate) use guide::Vocabulary;

use serde_json::{Value as Json, json};

/// What a text must look like.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// JSON that this schema describes; `{"type": "object"}` is any object.
    Json(Json),
    /// A text that a regular expression matches from its beginning to its end.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A grammar in Lark's notation, as llguidance reads it, or in llama.cpp's (GBNF).
    Grammar(String),
}

/// A schema whose texts have at most one space after a comma or a colon, unless it says otherwise (`x-guidance`): small
/// models fill their answers with space where they may.
pub(crate) fn compact(schema: &Json) -> Json {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut().filter(|m| !m.contains_key("x-guidance")) {
        let style = json!({"whitespace_flexible": false, "item_separator": ", ?", "key_separator": ": ?"});
        map.insert("x-guidance".into(), style);
    }
    schema
}

/// The tokens that may come next.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// A bit for each token.
    bits: Vec<u32>,
}

impl Mask {
    /// Whether a token may come next.
    pub fn allows(&self, token: u32) -> bool {
        self.bits.get(token as usize / 32).is_some_and(|b| b >> (token % 32) & 1 == 1)
    }
}

/// A compiled constraint. This build has none: the feature `constrain` is off.
#[cfg(not(feature = "constrain"))]
#[derive(Clone, Debug)]
pub enum Guide {}

#[cfg(not(feature = "constrain"))]
#[derive(Default)]
pub(crate) struct Vocabulary;

#[cfg(not(feature = "constrain"))]
impl Guide {
    /// Whether the text is complete.
    pub fn is_stopped(&self) -> bool {
        match *self {}
    }
    pub(crate) fn consume(&mut self, _: u32) -> ir::Result<()> {
        match *self {}
    }
    pub(crate) fn mask(&mut self) -> ir::Result<Mask> {
        match *self {}
    }
}

#[cfg(not(feature = "constrain"))]
impl crate::LanguageModel {
    /// Compiles what a text must look like. This build cannot: the feature `constrain` is off.
    pub fn guide(&self, _: &Constraint) -> ir::Result<Guide> {
        Err(ir::Error::value("structured output needs a build with the feature constrain"))
    }
}
