//! `talweg finetune`: an adapter learns a text.

use super::{failed, load};
use crate::{Error, Result};
use ::llm::finetune::{Example, Finetune, FinetuneOptions as Settings, Preference, perplexity};
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
    /// An adapter in PEFT's format to go on with; rank, alpha and targets are its own.
    #[arg(long, value_name = "FOLDER")]
    init: Option<PathBuf>,
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
    /// The data are preferences: JSON lines with `prompt` (a text or messages), `chosen` and `rejected` (DPO).
    #[arg(long)]
    dpo: bool,
    /// How strongly preferences keep to the model as it was.
    #[arg(long, default_value_t = 0.1, requires = "dpo")]
    beta: f64,
    /// Less memory for one more forward pass a step: gradients compute a layer's inner values again.
    #[arg(long)]
    checkpoint: bool,
    /// Where the adapter goes, in PEFT's format.
    #[arg(long, default_value = "adapter")]
    out: PathBuf,
}

/// Fine-tunes, tests and saves. Under `talweg launch`, every worker learns a part of each batch.
pub fn finetune(o: &FinetuneOptions) -> Result<()> {
    crate::manual_seed(o.seed);
    if !(0.0..1.0).contains(&o.held_out) {
        return Err(Error::value(format!("--held-out: {} is no share", o.held_out)));
    }
    let is_first = nn::parallel::rank()? == 0;
    let say = |text: String| {
        if is_first {
            println!("{text}")
        }
    };
    let mut model = load(&o.model, None)?;
    let window = o.length.min(model.decoder.config.length_max);
    let settings = Settings { steps: o.steps, batch: o.batch.max(1), length: window, lr: o.lr, seed: o.seed };
    let (mut texts, pairs) =
        if o.dpo { (Vec::new(), preferences(&model, &o.data)?) } else { (examples(&model, &o.data)?, Vec::new()) };
    let test = held_out(&mut texts, o.held_out);
    let tested = |model: &LanguageModel| {
        if test.len() < window || !is_first { Ok(None) } else { perplexity(model, &test, window).map(Some) }
    };
    let before = tested(&model)?;
    let (options, parameters) = match &o.init {
        Some(folder) => (model.load_lora(folder)?, model.lora_variables()?),
        None => {
            let alpha = o.alpha.unwrap_or(2.0 * o.lora as f64);
            let options = LoraOptions { rank: o.lora.max(1), alpha, targets: o.targets.clone() };
            let parameters = model.add_lora(&options)?;
            (options, parameters)
        }
    };
    model.set_checkpoints(o.checkpoint)?;
    let count: usize = parameters.iter().map(|p| p.shape().count()).sum();
    let mut run = match o.dpo {
        true => Finetune::preferences(&model, parameters, &pairs, o.beta, settings)?,
        false => Finetune::new(&model, parameters, &texts, settings)?,
    };
    let what = if o.dpo { "pairs" } else { "sequences" };
    say(format!("{count} parameters learn {} {what} of {window} tokens", run.count()));
    learn(&mut run, o, window, &say)?;
    drop(run);
    if let (Some(before), Some(after)) = (before, tested(&model)?) {
        say(format!("held-out perplexity {before:.2} before, {after:.2} after"));
    }
    if nn::parallel::writes_files()? {
        model.save_lora(&o.out, &options)?;
    }
    // Weights of the adapter, its gradient and two moments.
    let trained = 4 * 4 * count;
    let mb = |bytes: usize| bytes as f64 / (1 << 20) as f64;
    let peak = peak_bytes().map_or(String::new(), |p| format!(", {:.0} MB of memory at most", mb(p)));
    let weights = mb(model.decoder.byte_count());
    say(format!("weights {weights:.1} MB, adapter with gradients and moments {:.1} MB{peak}", mb(trained)));
    say(format!("the adapter is in {}", o.out.display()));
    nn::parallel::done()
}

/// The most memory that this process had, where the system says it.
fn peak_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kb| kb << 10)
}

fn learn(run: &mut Finetune, o: &FinetuneOptions, window: usize, say: &dyn Fn(String)) -> Result<()> {
    let tokens = o.batch.max(1) * window * nn::parallel::world()? * if o.dpo { 2 } else { 1 };
    let began = Instant::now();
    for step in 1..=o.steps {
        let (loss, right) = run.step()?;
        if step == 1 || step.is_multiple_of(10) || step == o.steps {
            let rate = (step * tokens) as f64 / began.elapsed().as_secs_f64();
            let right = right.map_or(String::new(), |r| format!("  {:.0} % in order", 100.0 * r));
            say(format!("step {step:5}  loss {loss:.4}{right}  {rate:.0} tokens a second"));
        }
    }
    Ok(())
}

/// Pairs of answers to a question.
fn preferences(model: &LanguageModel, path: &Path) -> Result<Vec<Preference>> {
    let text = std::fs::read_to_string(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
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
