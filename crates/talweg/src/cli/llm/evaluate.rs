//! `talweg evaluate`: perplexity of a text, and questions with several answers. `talweg merge`: an adapter becomes part
//! of a model.

use super::{failed, load};
use crate::{Error, Result};
use ::llm::{Evaluator, merge_lora};
use serde_json::Value as Json;
use std::path::PathBuf;

/// What to evaluate a model with.
#[derive(clap::Args)]
pub struct EvaluateOptions {
    /// A GGUF file, or a folder with config.json, safetensors and tokenizer.json.
    model: PathBuf,
    /// A text whose perplexity is computed.
    #[arg(long, value_name = "FILE", required_unless_present = "choices")]
    text: Option<PathBuf>,
    /// Tokens of a window of the text, of which the second half counts.
    #[arg(long, default_value_t = 512)]
    length: usize,
    /// Windows at most; all of the text if it is not given.
    #[arg(long)]
    windows: Option<usize>,
    /// Questions: JSON lines with `question`, `choices` and `answer`, the number of the right one.
    #[arg(long, value_name = "FILE")]
    choices: Option<PathBuf>,
    /// An adapter in PEFT's format.
    #[arg(long, value_name = "FOLDER")]
    lora: Option<PathBuf>,
}

/// Prints perplexity and accuracy.
pub fn evaluate(o: &EvaluateOptions) -> Result<()> {
    let mut model = load(&o.model, o.lora.as_deref())?;
    model.set_rope_length(if o.choices.is_some() { 0 } else { o.length })?;
    let evaluator = Evaluator::new(model.decoder.clone());
    let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(|e| failed(format!("{}: {e}", path.display())));
    if let Some(path) = &o.text {
        // The windows begin as the model expects it, not the text.
        let mut tokens = model.tokenizer.encode_more(&read(path)?)?;
        let length = o.length.min(model.decoder.config.length_max);
        tokens.truncate(o.windows.map_or(tokens.len(), |n| n.saturating_mul(length)));
        let perplexity = evaluator.perplexity(&tokens, length, model.tokenizer.first())?;
        println!("perplexity {perplexity:.4} of {} tokens", tokens.len());
    }
    let Some(path) = &o.choices else { return Ok(()) };
    let (mut right, mut right_by_length, mut count) = (0usize, 0usize, 0u32);
    for (i, line) in read(path)?.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let bad = |e: &str| Error::format(format!("{}:{}: {e}", path.display(), i + 1));
        let json: Json = serde_json::from_str(line).map_err(|e| bad(&e.to_string()))?;
        let question = json["question"].as_str().ok_or_else(|| bad("there is no question"))?;
        let texts = json["choices"].as_array().into_iter().flatten().map(|c| c.as_str());
        let texts: Vec<&str> = texts.collect::<Option<_>>().ok_or_else(|| bad("a choice is no text"))?;
        let answer = json["answer"].as_u64().filter(|a| (*a as usize) < texts.len());
        let answer = answer.ok_or_else(|| bad("the answer is the number of none of the choices"))? as usize;
        let choices = texts.iter().map(|t| model.tokenizer.encode_more(t)).collect::<Result<Vec<_>>>()?;
        let chosen = evaluator.choose(&model.tokenizer.encode(question)?, &choices)?;
        let bytes: Vec<usize> = texts.iter().map(|t| t.len()).collect();
        right += usize::from(chosen.best(&[]) == answer);
        right_by_length += usize::from(chosen.best(&bytes) == answer);
        count += 1;
    }
    let share = |n: usize| n as f64 / f64::from(count.max(1));
    let (plain, by_length) = (share(right), share(right_by_length));
    println!("accuracy {plain:.4}, {by_length:.4} with log probabilities per byte, of {count} questions");
    Ok(())
}

/// What to merge.
#[derive(clap::Args)]
pub struct MergeOptions {
    /// A GGUF file, or a folder with config.json, safetensors and tokenizer.json.
    model: PathBuf,
    /// An adapter in PEFT's format.
    #[arg(long, value_name = "FOLDER")]
    lora: PathBuf,
    /// Where the whole model goes, as a folder.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Adds an adapter to the weights of a model.
pub fn merge(o: &MergeOptions) -> Result<()> {
    let changed = if o.model.is_dir() {
        merge_lora(&o.model, &o.lora, &o.out)?
    } else {
        let mut model = load(&o.model, Some(&o.lora))?;
        let weights = model.learn()?;
        let changed = model.merge(&weights)?;
        model.save_folder(&o.model, &weights, &o.out)?;
        changed
    };
    println!("{changed} matrices changed; the model is in {}", o.out.display());
    Ok(())
}
