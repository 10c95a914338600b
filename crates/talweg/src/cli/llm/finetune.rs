//! `talweg finetune`: an adapter learns a text.

use super::{failed, load};
use crate::{Error, Result};
use ::llm::finetune::{Example, Finetune, FinetuneOptions as Settings, perplexity};
use ::llm::{LanguageModel, LoraOptions};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to learn, and how.
#[derive(clap::Args)]
pub struct FinetuneOptions {
    /// A GGUF file, or a folder with config.json, safetensors and tokenizer.json.
    model: PathBuf,
    /// Plain text, or JSON lines with `text` or with `messages`, of which the assistant's are learned.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Rank of the adapter.
    #[arg(long, default_value_t = 16)]
    lora: usize,
    /// Results of the adapter are scaled by this over its rank; twice the rank if it is not given.
    #[arg(long)]
    alpha: Option<f64>,
    /// Linear layers that get an adapter.
    #[arg(long, value_delimiter = ',', default_value = "q_proj,k_proj,v_proj,o_proj")]
    targets: Vec<String>,
    /// Steps.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Sequences of a step.
    #[arg(long, default_value_t = 4)]
    batch: usize,
    /// Tokens of a sequence.
    #[arg(long, default_value_t = 128)]
    length: usize,
    /// Learning rate.
    #[arg(long, default_value_t = 2e-4)]
    lr: f64,
    /// Seed of the adapter and of the order of sequences.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The share of the text that is not learned, but tested with.
    #[arg(long, default_value_t = 0.1)]
    held_out: f64,
    /// Where the adapter goes, in PEFT's format.
    #[arg(long, default_value = "adapter")]
    out: PathBuf,
}

/// Fine-tunes, tests and saves.
pub fn finetune(o: &FinetuneOptions) -> Result<()> {
    crate::manual_seed(o.seed);
    if !(0.0..1.0).contains(&o.held_out) {
        return Err(Error::value(format!("--held-out: {} is no share", o.held_out)));
    }
    let mut model = load(&o.model, None)?;
    let mut examples = examples(&model, &o.data)?;
    let test = held_out(&mut examples, o.held_out);
    let window = o.length.min(model.decoder.config.length_max);
    let tested = |model: &LanguageModel| {
        if test.len() < window { Ok(None) } else { perplexity(model, &test, window).map(Some) }
    };
    let before = tested(&model)?;
    let options =
        LoraOptions { rank: o.lora.max(1), alpha: o.alpha.unwrap_or(2.0 * o.lora as f64), targets: o.targets.clone() };
    let parameters = model.add_lora(&options)?;
    let count: usize = parameters.iter().map(|p| p.shape().count()).sum();
    let settings = Settings { steps: o.steps, batch: o.batch.max(1), length: window, lr: o.lr, seed: o.seed };
    let mut run = Finetune::new(&model, parameters, &examples, settings)?;
    println!("{count} parameters learn {} sequences of {window} tokens", run.sequences());
    let began = Instant::now();
    for step in 1..=o.steps {
        let loss = run.step()?;
        if step == 1 || step.is_multiple_of(10) || step == o.steps {
            let rate = (step * o.batch.max(1) * window) as f64 / began.elapsed().as_secs_f64();
            println!("step {step:5}  loss {loss:.4}  {rate:.0} tokens a second");
        }
    }
    drop(run);
    if let (Some(before), Some(after)) = (before, tested(&model)?) {
        println!("held-out perplexity {before:.2} before, {after:.2} after");
    }
    model.save_lora(&o.out, &options)?;
    println!("the adapter is in {}", o.out.display());
    Ok(())
}

/// The last part of the data, as one text.
fn held_out(examples: &mut Vec<Example>, share: f64) -> Vec<u32> {
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

fn examples(model: &LanguageModel, path: &Path) -> Result<Vec<Example>> {
    let text = std::fs::read_to_string(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
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
