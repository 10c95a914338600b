//! A constraint compiled for a vocabulary, by llguidance.

use super::{Constraint, Mask, compact, gbnf};
use crate::LanguageModel;
use crate::tokenizer::Tokenizer;
use ir::{Error, Result};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// The vocabulary as llguidance takes it, made when the first constraint is.
#[derive(Default)]
pub(crate) struct Vocabulary(OnceLock<std::result::Result<ParserFactory, String>>);

impl Vocabulary {
    fn factory(&self, tokenizer: &Tokenizer) -> Result<&ParserFactory> {
        let made = self.0.get_or_init(|| factory(tokenizer).map_err(|e| e.to_string()));
        made.as_ref().map_err(|e| Error::value(format!("the vocabulary cannot be constrained: {e}")))
    }
}

fn factory(tokenizer: &Tokenizer) -> std::result::Result<ParserFactory, Box<dyn std::error::Error + Send + Sync>> {
    let word = |t: u32| match tokenizer.special(t) {
        Some(name) => [&[TokTrie::SPECIAL_TOKEN_MARKER][..], name.as_bytes()].concat(),
        None => tokenizer.bytes(t).to_vec(),
    };
    let mut words: Vec<Vec<u8>> = (0..tokenizer.count() as u32).map(word).collect();
    // A vocabulary without an end gets one that the model does not have: texts end when they are complete.
    let eos = tokenizer.eos().to_vec();
    let eos = if eos.is_empty() {
        words.push([&[TokTrie::SPECIAL_TOKEN_MARKER][..], b"<|end|>"].concat());
        vec![words.len() as u32 - 1]
    } else {
        eos
    };
    let info = TokRxInfo::new(words.len() as u32, eos[0]);
    let trie = TokTrie::from(&info, &words).with_eos_tokens(&eos);
    let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&env)?;
    factory.quiet();
    Ok(factory)
}

impl Constraint {
    fn grammar(&self) -> Result<TopLevelGrammar> {
        Ok(match self {
            Constraint::Json(schema) => TopLevelGrammar::from_json_schema(compact(schema)),
            Constraint::Regex(text) => TopLevelGrammar::from_regex(text),
            Constraint::Choice(all) if all.is_empty() => return Err(Error::value("there is nothing to choose from")),
            Constraint::Choice(all) => {
                let quoted: Vec<String> = all.iter().map(|t| json!(t).to_string()).collect();
                TopLevelGrammar::from_lark(format!("start: {}", quoted.join(" | ")))
            }
            Constraint::Grammar(text) if text.contains("::=") => TopLevelGrammar::from_lark(gbnf::to_lark(text)?),
            Constraint::Grammar(text) => TopLevelGrammar::from_lark(text.clone()),
        })
    }
}

/// A compiled constraint, and how far a text is.
pub struct Guide(Mutex<Matcher>);

impl Clone for Guide {
    fn clone(&self) -> Guide {
        Guide(Mutex::new(self.0.lock().deep_clone()))
    }
}
impl std::fmt::Debug for Guide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guide")
    }
}

impl LanguageModel {
    /// Compiles what a text must look like.
    pub fn guide(&self, constraint: &Constraint) -> Result<Guide> {
        let failed = |e: String| Error::value(format!("the constraint cannot be used: {e}"));
        let factory = self.vocabulary.factory(&self.tokenizer)?;
        let parser = factory.create_parser(constraint.grammar()?).map_err(|e| failed(e.to_string()))?;
        let matcher = Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(e) => Err(failed(e)),
            None => Ok(Guide(Mutex::new(matcher))),
        }
    }
}

impl Guide {
    /// Whether the text is complete: nothing may follow.
    pub fn is_stopped(&self) -> bool {
        self.0.lock().is_stopped()
    }
    /// The text goes on with this token.
    pub(crate) fn consume(&mut self, token: u32) -> Result<()> {
        self.0.get_mut().consume_token(token).map_err(|e| Error::value(format!("the constraint failed: {e}")))
    }
    /// What may come next: tokens of the text, or the end where it may end.
    pub(crate) fn mask(&mut self) -> Result<Mask> {
        let bits = self.0.get_mut().compute_mask_or_eos();
        let bits = bits.map_err(|e| Error::value(format!("the constraint failed: {e}")))?;
        Ok(Mask { bits: bits.as_slice().to_vec() })
    }
}
