//! Language models: `talweg generate`, `chat`, `finetune`, `evaluate`, `merge`, and `serve` of a language model.

mod bench;
mod evaluate;
mod finetune;
#[cfg(feature = "serve")]
mod serve;

pub use bench::{BenchOptions, bench};
pub use evaluate::{EvaluateOptions, MergeOptions, evaluate, merge};
pub use finetune::{FinetuneOptions, finetune};
#[cfg(feature = "serve")]
pub use serve::{ServeOptions, redirected, serve};

use crate::{Error, Result};
use ::llm::engine::{Engine, Event, Generation, Handle, Options as EngineOptions, Reason, Usage, cache_type};
use ::llm::{Constraint, Guide, LanguageModel, Sampling, is_random_model, random_model};
use ir::ErrorKind;
use serde_json::{Value as Json, json};
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// How tokens are drawn.
#[derive(clap::Args, Clone)]
pub struct SamplingOptions {
    /// Tokens to generate at most.
    #[arg(long, default_value_t = 256)]
    tokens: usize,
    /// 0 takes the likeliest token; without it, what the model's makers recommend.
    #[arg(long)]
    temperature: Option<f32>,
    /// Only so many of the likeliest tokens.
    #[arg(long)]
    top_k: Option<usize>,
    /// Only the likeliest tokens up to this sum of probabilities.
    #[arg(long)]
    top_p: Option<f32>,
    /// Only tokens at least this times as likely as the likeliest.
    #[arg(long)]
    min_p: Option<f32>,
    /// Makes tokens less likely that were there before.
    #[arg(long)]
    repetition_penalty: Option<f32>,
    /// The same seed draws the same tokens; without it they differ.
    #[arg(long)]
    seed: Option<u64>,
    /// Guess so many tokens ahead by prompt lookup; they are verified together and change no text.
    #[arg(long, default_value_t = 0)]
    draft: usize,
    /// A small model with the same vocabulary that guesses instead, 4 tokens if --draft does not say.
    #[arg(long, value_name = "MODEL")]
    draft_model: Option<PathBuf>,
    /// Ends the text where this would be written; may be repeated.
    #[arg(long)]
    stop: Vec<String>,
    /// A file with a JSON schema that the text must meet.
    #[arg(long, value_name = "FILE", group = "constraint")]
    json_schema: Option<PathBuf>,
    /// A regular expression that the whole text must match.
    #[arg(long, group = "constraint")]
    regex: Option<String>,
    /// A file with a grammar of the text, in Lark's notation or GBNF.
    #[arg(long, value_name = "FILE", group = "constraint")]
    grammar: Option<PathBuf>,
}

impl SamplingOptions {
    /// An engine, with the draft model if one is named.
    fn engine(&self, model: &Arc<LanguageModel>, options: EngineOptions) -> Result<Engine> {
        let mut engine = Engine::new(model.clone(), options)?;
        if let Some(path) = &self.draft_model {
            engine.set_draft_model(Arc::new(LanguageModel::load(path)?), options)?;
        }
        Ok(engine)
    }
    fn guide(&self, model: &LanguageModel) -> Result<Option<Guide>> {
        let read =
            |path: &PathBuf| std::fs::read_to_string(path).map_err(|e| failed(format!("{}: {e}", path.display())));
        let constraint = match (&self.json_schema, &self.regex, &self.grammar) {
            (Some(path), ..) => {
                let json = serde_json::from_str(&read(path)?);
                Constraint::Json(json.map_err(|e| Error::format(format!("{}: {e}", path.display())))?)
            }
            (_, Some(regex), _) => Constraint::Regex(regex.clone()),
            (.., Some(path)) => Constraint::Grammar(read(path)?),
            _ => return Ok(None),
        };
        model.guide(&constraint).map(Some)
    }
    fn generation(&self, model: &LanguageModel, prompt: Vec<u32>) -> Result<Generation> {
        let makers = &model.sampling;
        let sampling = Sampling {
            temperature: self.temperature.unwrap_or(makers.temperature),
            top_k: self.top_k.unwrap_or(makers.top_k),
            top_p: self.top_p.unwrap_or(makers.top_p),
            min_p: self.min_p.unwrap_or(makers.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(makers.repetition_penalty),
            seed: self.seed.unwrap_or_else(random),
            ..makers.clone()
        };
        let draft = if self.draft == 0 && self.draft_model.is_some() { 4 } else { self.draft };
        Ok(Generation {
            prompt,
            tokens_max: Some(self.tokens),
            sampling,
            stops: self.stop.clone(),
            draft,
            guide: self.guide(model)?,
            ..Generation::default()
        })
    }
}

fn random() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, e.to_string())
}

/// The name of a model with random weights, unless there is a file of that name.
fn random_name(path: &Path) -> Option<&str> {
    path.to_str().filter(|name| !path.exists() && is_random_model(name))
}

/// Loads a model, with an adapter if one is named.
fn load(path: &Path, lora: Option<&Path>) -> Result<LanguageModel> {
    let mut model = match random_name(path) {
        Some(name) => random_model(name)?,
        None => LanguageModel::load(path)?,
    };
    if let Some(lora) = lora {
        model.load_lora(lora)?;
    }
    Ok(model)
}

/// Text to continue.
#[derive(clap::Args)]
pub struct GenerateOptions {
    /// A GGUF file, or a folder with config.json, safetensors and tokenizer.json.
    model: PathBuf,
    /// The text; without it, standard input.
    prompt: Option<String>,
    /// A JSON file with a list of prompts, answered together; prints one JSON line for each.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompts: Option<PathBuf>,
    /// So many of the likeliest tokens at each place, with their log probabilities, in the JSON lines.
    #[arg(long, value_name = "COUNT", default_value_t = 0, requires = "prompts")]
    logprobs: usize,
    /// How keys and values are stored: f32, f16, bf16, fp8 or int8.
    #[arg(long, default_value = "f16")]
    cache_type: String,
    /// Goes on after the model's end tokens.
    #[arg(long)]
    ignore_eos: bool,
    /// An adapter in PEFT's format.
    #[arg(long, value_name = "FOLDER")]
    lora: Option<PathBuf>,
    #[command(flatten)]
    sampling: SamplingOptions,
}

/// Continues texts.
pub fn generate(o: &GenerateOptions) -> Result<()> {
    let model = Arc::new(load(&o.model, o.lora.as_deref())?);
    let options = EngineOptions { cache_dtype: cache_type(&o.cache_type)?, ..EngineOptions::default() };
    let handle = Handle::of(o.sampling.engine(&model, options)?, usize::MAX)?;
    let request = |text: &str| {
        let mut g = o.sampling.generation(&model, model.tokenizer.encode(text)?)?;
        g.sampling.logprobs = o.logprobs;
        Ok::<Generation, Error>(Generation { ignores_eos: o.ignore_eos, ..g })
    };
    if let Some(path) = &o.prompts {
        let text = std::fs::read(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
        let prompts: Vec<String> =
            serde_json::from_slice(&text).map_err(|e| failed(format!("{}: {e}", path.display())))?;
        let began = Instant::now();
        let all = prompts.iter().map(|p| handle.generate(request(p)?)).collect::<Result<Vec<_>>>()?;
        for (prompt, events) in prompts.iter().zip(all) {
            let c = collect(events)?;
            let seconds = began.elapsed().as_secs_f64();
            let mut line = json!({
                "prompt": prompt, "text": c.text, "tokens": c.tokens, "logprobs": c.logprobs,
                "finish_reason": c.reason.name(), "prompt_tokens": c.usage.prompt, "seconds": seconds,
            });
            if o.logprobs > 0 {
                line["top_logprobs"] = json!(c.top);
            }
            println!("{line}");
        }
        return Ok(());
    }
    let prompt = match &o.prompt {
        Some(text) => text.clone(),
        None => std::io::read_to_string(std::io::stdin()).map_err(failed)?,
    };
    print!("{prompt}");
    let (_, rate) = show(handle.generate(request(&prompt)?)?)?;
    println!();
    eprintln!("{rate}");
    Ok(())
}

/// What a request was answered.
struct Collected {
    text: String,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    /// The likeliest tokens at each place.
    top: Vec<Vec<(u32, f32)>>,
    reason: Reason,
    usage: Usage,
}

fn collect(events: impl Iterator<Item = Event>) -> Result<Collected> {
    let (mut all, mut tokens, mut logprobs, mut tops) = (String::new(), Vec::new(), Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Token { token, text, logprob, top } => {
                all += &text;
                tokens.push(token);
                logprobs.push(logprob);
                tops.push(top);
            }
            Event::Done { reason, text, usage } => {
                return Ok(Collected { text: all + &text, tokens, logprobs, top: tops, reason, usage });
            }
            Event::Failed(e) => return Err(Error::value(e)),
            Event::Refused => return Err(failed("the request was refused")),
        }
    }
    Err(failed("the engine ended"))
}

/// Prints a text as it comes; returns it, and how fast it came.
fn show(events: impl Iterator<Item = Event>) -> Result<(String, String)> {
    let began = Instant::now();
    let (mut first, mut all) = (None, String::new());
    let mut out = std::io::stdout();
    for event in events {
        let (text, usage) = match event {
            Event::Token { text, .. } => (text, None),
            Event::Done { text, usage, .. } => (text, Some(usage)),
            Event::Failed(e) => return Err(Error::value(e)),
            Event::Refused => return Err(failed("the request was refused")),
        };
        first.get_or_insert_with(|| began.elapsed());
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
        all += &text;
        if let Some(u) = usage {
            let first = first.unwrap_or_default().as_secs_f64();
            let rest = (began.elapsed().as_secs_f64() - first).max(1e-9);
            let rate = u.generated.saturating_sub(1) as f64 / rest;
            let rate = format!(
                "[{} tokens read ({} cached), first token after {first:.2} s, {} tokens, {rate:.1} a second]",
                u.prompt, u.cached, u.generated
            );
            return Ok((all, rate));
        }
    }
    Err(failed("the engine ended"))
}

/// A conversation.
#[derive(clap::Args)]
pub struct ChatOptions {
    /// A GGUF file, or a folder with config.json, safetensors and tokenizer.json.
    model: PathBuf,
    /// What the model is told before the conversation.
    #[arg(long)]
    system: Option<String>,
    /// An adapter in PEFT's format.
    #[arg(long, value_name = "FOLDER")]
    lora: Option<PathBuf>,
    /// Show speeds after each answer.
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    sampling: SamplingOptions,
}

/// Talks with a model until the end of standard input, `/exit` or Ctrl-C; `/clear` starts over.
pub fn chat(o: &ChatOptions) -> Result<()> {
    let began = Instant::now();
    let model = Arc::new(load(&o.model, o.lora.as_deref())?);
    let one = EngineOptions { sequences_max: 1, ..EngineOptions::default() };
    let handle = Handle::of(o.sampling.engine(&model, one)?, 1)?;
    let is_terminal = std::io::stdin().is_terminal();
    if is_terminal {
        println!("{}, loaded in {:.2} s. /clear starts over, /exit ends.", model.name, began.elapsed().as_secs_f64());
    }
    let start: Vec<Json> = o.system.iter().map(|s| json!({"role": "system", "content": s})).collect();
    let mut messages = start.clone();
    let mut lines = std::io::stdin().lock().lines();
    loop {
        if is_terminal {
            print!("> ");
            std::io::stdout().flush().map_err(failed)?;
        }
        let Some(line) = lines.next() else { return Ok(()) };
        let line = line.map_err(failed)?;
        match line.trim() {
            "" => continue,
            "/exit" => return Ok(()),
            "/clear" => {
                messages = start.clone();
                continue;
            }
            text => messages.push(json!({"role": "user", "content": text})),
        }
        let prompt = model.chat_prompt(&Json::Array(messages.clone()), None, &Json::Null)?;
        let g = o.sampling.generation(&model, model.tokenizer.encode(&prompt)?)?;
        let (text, rate) = show(handle.generate(g)?)?;
        println!();
        if o.verbose {
            eprintln!("{rate}");
        }
        messages.push(json!({"role": "assistant", "content": text}));
    }
}
