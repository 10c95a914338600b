//! What is learned, from files: texts, conversations, preferences.

use crate::finetune::{Example, Preference};
use crate::load::LanguageModel;
use ir::{Error, ErrorKind, Result};
use serde_json::Value as Json;
use std::path::Path;

fn failed(path: &Path, e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {e}", path.display()))
}

/// Pairs of answers to a question: JSON lines with `prompt` (text or messages), `chosen` and `rejected`.
pub fn preferences(model: &LanguageModel, path: &Path) -> Result<Vec<Preference>> {
    let text = std::fs::read_to_string(path).map_err(|e| failed(path, e))?;
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let bad = |e: String| Error::format(format!("{}:{}: {e}", path.display(), i + 1));
        let json: Json = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
        let answer = |key: &str| -> Result<Example> {
            // The last message, or a text.
            let text = json[key].as_str().or(json[key][0]["content"].as_str());
            let text = text.ok_or_else(|| bad(format!("there is no {key}")))?;
            match &json["prompt"] {
                Json::String(prompt) => {
                    let mut tokens = model.tokenizer.encode(prompt)?;
                    let mut is_target = vec![false; tokens.len()];
                    tokens.extend(model.tokenizer.encode_more(text)?);
                    tokens.extend(model.tokenizer.eos().first());
                    is_target.resize(tokens.len(), true);
                    Ok(Example { tokens, is_target })
                }
                Json::Array(messages) => {
                    let mut all = messages.clone();
                    all.push(serde_json::json!({"role": "assistant", "content": text}));
                    let mut example = conversation(model, &all)?;
                    // Only the last answer is compared.
                    let asked = conversation(model, messages)?.tokens.len();
                    example.is_target.iter_mut().take(asked).for_each(|t| *t = false);
                    Ok(example)
                }
                _ => Err(bad("there is no prompt".into())),
            }
        };
        out.push(Preference { chosen: answer("chosen")?, rejected: answer("rejected")? });
    }
    Ok(out)
}

/// The last part of the data, as one text.
pub(crate) fn held_out(examples: &mut Vec<Example>, share: f64) -> Vec<u32> {
    let total: usize = examples.iter().map(|e| e.tokens.len()).sum();
    let wanted = (total as f64 * share) as usize;
    let mut test: Vec<u32> = Vec::new();
    while test.len() < wanted {
        let Some(mut last) = examples.pop() else { break };
        let part = (wanted - test.len()).min(last.tokens.len());
        let at = last.tokens.len() - part;
        let mut tail = last.tokens.split_off(at);
        last.is_target.truncate(at);
        tail.append(&mut test);
        test = tail;
        if at > 0 {
            examples.push(last);
        }
    }
    test
}

/// Texts of a file: plain text, or JSON lines with `text` or `messages`, of which the assistant's are targets.
pub fn examples(model: &LanguageModel, path: &Path) -> Result<Vec<Example>> {
    let text = std::fs::read_to_string(path).map_err(|e| failed(path, e))?;
    if path.extension().is_none_or(|e| e != "jsonl" && e != "json") {
        return Ok(vec![Example { tokens: model.tokenizer.encode(&text)?, is_target: Vec::new() }]);
    }
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let bad = |e: String| Error::format(format!("{}:{}: {e}", path.display(), i + 1));
        let json: Json = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
        match (&json["text"], &json["messages"]) {
            (Json::String(text), _) => {
                let mut tokens = model.tokenizer.encode(text)?;
                tokens.extend(model.tokenizer.eos().first());
                out.push(Example { tokens, is_target: Vec::new() });
            }
            (_, Json::Array(messages)) => out.push(conversation(model, messages)?),
            _ => return Err(bad("there is neither text nor messages".into())),
        }
    }
    Ok(out)
}

/// A conversation; the answers of the assistant are targets.
fn conversation(model: &LanguageModel, messages: &[Json]) -> Result<Example> {
    let template = model.template.as_ref().ok_or_else(|| Error::value("the model has no chat template"))?;
    let render = |n: usize, adds_prompt: bool| {
        template.render(&Json::Array(messages[..n].to_vec()), None, adds_prompt, &Json::Null)
    };
    let mut example = Example::default();
    let mut done = String::new();
    for (i, message) in messages.iter().enumerate() {
        let is_target = message["role"] == "assistant";
        // The prompt of an answer is not part of it.
        let parts = if is_target {
            vec![(render(i, true)?, false), (render(i + 1, false)?, true)]
        } else {
            vec![(render(i + 1, false)?, false)]
        };
        for (text, is_target) in parts {
            let Some(new) = text.strip_prefix(&done) else { continue };
            let tokens =
                if done.is_empty() { model.tokenizer.encode(new)? } else { model.tokenizer.encode_more(new)? };
            example.is_target.extend(vec![is_target; tokens.len()]);
            example.tokens.extend(tokens);
            done = text;
        }
    }
    Ok(example)
}
