//! From the JSON of a request to what the engine takes.

use super::failure::Failure;
use crate::constrain::Constraint;
use crate::engine::Generation;
use crate::load::LanguageModel;
use crate::sample::Sampling;
use serde_json::Value as Json;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Completions of one request at most.
const COUNT_MAX: u64 = 128;
/// Tokens drafted by prompt lookup in one step at most.
const DRAFT_MAX: u64 = 32;
/// Log probabilities of one position at most.
const LOGPROBS_MAX: u64 = 20;

/// What a request asks for, besides its prompt.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The same for each completion; the prompt is empty.
    pub generation: Generation,
    /// Completions of each prompt that are answered.
    pub count: usize,
    /// Completions of each prompt that are generated; the likeliest are answered.
    pub best_of: usize,
    /// Beam search with this length penalty.
    pub beams: Option<f64>,
    /// What the text must look like.
    pub constraint: Option<Constraint>,
    pub streams: bool,
    pub streams_usage: bool,
    pub has_logprobs: bool,
    pub echoes: bool,
}

type Parsed<T> = Result<T, Failure>;

fn bad(key: &'static str, want: &str) -> Failure {
    Failure::invalid(key, format!("{key} must be {want}"))
}
fn float(body: &Json, key: &'static str, default: f32) -> Parsed<f32> {
    match &body[key] {
        Json::Null => Ok(default),
        v => v.as_f64().map(|x| x as f32).ok_or_else(|| bad(key, "a number")),
    }
}
fn size(body: &Json, key: &'static str) -> Parsed<Option<u64>> {
    match &body[key] {
        Json::Null => Ok(None),
        v => v.as_u64().map(Some).ok_or_else(|| bad(key, "a non-negative integer")),
    }
}
pub fn flag(body: &Json, key: &'static str) -> Parsed<bool> {
    flag_or(body, key, false)
}
pub fn flag_or(body: &Json, key: &'static str, default: bool) -> Parsed<bool> {
    match &body[key] {
        Json::Null => Ok(default),
        v => v.as_bool().ok_or_else(|| bad(key, "true or false")),
    }
}
fn within(key: &'static str, n: u64, most: u64) -> Parsed<usize> {
    if n <= most { Ok(n as usize) } else { Err(bad(key, &format!("at most {most}, not {n}"))) }
}

/// One text, or several.
pub fn texts(body: &Json, key: &'static str) -> Parsed<Vec<String>> {
    let one = |v: &Json| v.as_str().map(str::to_string).ok_or_else(|| bad(key, "text, or a list of texts"));
    match &body[key] {
        Json::Null => Ok(Vec::new()),
        Json::Array(all) => all.iter().map(one).collect(),
        v => Ok(vec![one(v)?]),
    }
}

/// Prompts: a text, texts, tokens, or lists of tokens.
pub fn prompts(encode: &dyn Fn(&str) -> ir::Result<Vec<u32>>, body: &Json, key: &'static str) -> Parsed<Vec<Vec<u32>>> {
    let encode = |t: &str| encode(t).map_err(|e| Failure::invalid(key, e.message));
    let token = |v: &Json| v.as_u64().and_then(|n| u32::try_from(n).ok());
    let tokens = |all: &[Json]| all.iter().map(token).collect::<Option<Vec<u32>>>();
    let wrong = || bad(key, "a text, texts, tokens, or lists of tokens");
    let prompts = match &body[key] {
        Json::String(s) => vec![encode(s)?],
        Json::Array(all) if all.first().is_some_and(Json::is_u64) => vec![tokens(all).ok_or_else(wrong)?],
        Json::Array(all) => {
            let one = |v: &Json| match v {
                Json::String(s) => encode(s),
                Json::Array(ids) => tokens(ids).ok_or_else(wrong),
                _ => Err(wrong()),
            };
            all.iter().map(one).collect::<Parsed<Vec<_>>>()?
        }
        _ => return Err(wrong()),
    };
    if prompts.is_empty() || prompts.iter().any(Vec::is_empty) {
        return Err(Failure::invalid(key, "a prompt has no token"));
    }
    Ok(prompts)
}

/// What the text must look like: OpenAI's `response_format`, or vLLM's `structured_outputs` and `guided_…`.
fn constraint(body: &Json) -> Parsed<Option<Constraint>> {
    let format = &body["response_format"];
    let schema = |v: &Json, key: &'static str| match v {
        Json::String(text) => serde_json::from_str(text).map_err(|e| bad(key, &format!("a JSON schema: {e}"))),
        Json::Object(_) | Json::Bool(true) => Ok(v.clone()),
        _ => Err(bad(key, "a JSON schema")),
    };
    let text = |v: &Json, key| v.as_str().map(str::to_string).ok_or_else(|| bad(key, "a text"));
    let mut all = Vec::new();
    match format["type"].as_str() {
        None if format.is_null() => {}
        Some("text") => {}
        Some("json_object") => all.push(Constraint::Json(serde_json::json!({"type": "object"}))),
        Some("json_schema") => all.push(Constraint::Json(schema(&format["json_schema"]["schema"], "response_format")?)),
        Some("regex") => all.push(Constraint::Regex(text(&format["pattern"], "response_format")?)),
        Some("grammar") => all.push(Constraint::Grammar(text(&format["grammar"], "response_format")?)),
        _ => return Err(bad("response_format", "of type text, json_object, json_schema, regex or grammar")),
    }
    let own = &body["structured_outputs"];
    let pairs: [(&'static str, &Json, &str); 10] = [
        ("structured_outputs", own, "json"),
        ("structured_outputs", own, "regex"),
        ("structured_outputs", own, "choice"),
        ("structured_outputs", own, "grammar"),
        ("structured_outputs", own, "json_object"),
        ("guided_json", body, "guided_json"),
        ("guided_regex", body, "guided_regex"),
        ("guided_choice", body, "guided_choice"),
        ("guided_grammar", body, "guided_grammar"),
        ("guided_json_object", body, "guided_json_object"),
    ];
    for (key, from, name) in pairs {
        let value = &from[name];
        if value.is_null() || *value == Json::Bool(false) {
            continue;
        }
        all.push(match name.trim_start_matches("guided_") {
            "json" => Constraint::Json(schema(value, key)?),
            "regex" => Constraint::Regex(text(value, key)?),
            "grammar" => Constraint::Grammar(text(value, key)?),
            "json_object" => Constraint::Json(serde_json::json!({"type": "object"})),
            _ => {
                let each = value.as_array().ok_or_else(|| bad(key, "a list of texts"))?;
                Constraint::Choice(each.iter().map(|v| text(v, key)).collect::<Parsed<Vec<String>>>()?)
            }
        });
    }
    match all.len() {
        0 | 1 => Ok(all.pop()),
        _ => Err(Failure::invalid("structured_outputs", "a text can have one constraint only")),
    }
}

/// Tools that may be called: those of the request that its choice leaves, and whether one must be.
pub fn tools(body: &Json) -> Parsed<(Vec<Json>, bool)> {
    let wrong = || bad("tools", "a list of functions with names");
    let all = match &body["tools"] {
        Json::Null => Vec::new(),
        v => v.as_array().ok_or_else(wrong)?.clone(),
    };
    if all.iter().any(|t| t["type"] != "function" || !t["function"]["name"].is_string()) {
        return Err(wrong());
    }
    let choice = &body["tool_choice"];
    if let Some(name) = choice["function"]["name"].as_str() {
        let named: Vec<Json> = all.into_iter().filter(|t| t["function"]["name"] == name).collect();
        if named.is_empty() {
            return Err(bad("tool_choice", &format!("the name of a tool, and {name:?} is none")));
        }
        return Ok((named, true));
    }
    match choice.as_str() {
        Some("none") => Ok((Vec::new(), false)),
        Some("required") if all.is_empty() => Err(bad("tool_choice", "auto or none without tools")),
        Some("required") => Ok((all, true)),
        Some("auto") => Ok((all, false)),
        None if choice.is_null() => Ok((all, false)),
        _ => Err(bad("tool_choice", "none, auto, required or a function")),
    }
}

/// A list of tokens.
fn token_list(body: &Json, key: &'static str) -> Parsed<Vec<u32>> {
    let wrong = || bad(key, "a list of tokens");
    let one = |t: &Json| t.as_u64().and_then(|n| u32::try_from(n).ok()).ok_or_else(wrong);
    match &body[key] {
        Json::Null => Ok(Vec::new()),
        v => v.as_array().ok_or_else(wrong)?.iter().map(one).collect(),
    }
}

impl Wanted {
    /// Reads what chat and completions have in common.
    pub fn read(model: &LanguageModel, body: &Json, is_chat: bool, draft: usize) -> Parsed<Wanted> {
        let given = size(body, "max_completion_tokens")?.or(size(body, "max_tokens")?);
        let tokens_max = match (given, is_chat) {
            (Some(n), _) => Some(n as usize),
            (None, true) => None,
            (None, false) => Some(16),
        };
        let count = within("n", size(body, "n")?.unwrap_or(1), COUNT_MAX)?.max(1);
        let (has_logprobs, logprobs) = if is_chat {
            let top = within("top_logprobs", size(body, "top_logprobs")?.unwrap_or(0), LOGPROBS_MAX)?;
            (flag(body, "logprobs")?, top)
        } else {
            let top = size(body, "logprobs")?;
            (top.is_some(), within("logprobs", top.unwrap_or(0), LOGPROBS_MAX)?)
        };
        let sampling = Wanted::sampling(model, body, logprobs)?;
        let stop_tokens = token_list(body, "stop_token_ids")?;
        let best_of = if is_chat { None } else { size(body, "best_of")? };
        let best_of = within("best_of", best_of.unwrap_or(count as u64), COUNT_MAX)?;
        if best_of < count {
            return Err(bad("best_of", &format!("at least n, which is {count}")));
        }
        let beams =
            if flag(body, "use_beam_search")? { Some(float(body, "length_penalty", 1.0)? as f64) } else { None };
        let timeout = match &body["timeout"] {
            Json::Null => None,
            v => Some(
                v.as_f64()
                    .and_then(|s| Duration::try_from_secs_f64(s).ok())
                    .ok_or_else(|| bad("timeout", "seconds"))?,
            ),
        };
        let generation = Generation {
            prompt: Vec::new(),
            tokens_max,
            tokens_min: size(body, "min_tokens")?.unwrap_or(0) as usize,
            sampling,
            stops: texts(body, "stop")?,
            stop_tokens,
            keeps_stop: flag(body, "include_stop_str_in_output")?,
            ignores_eos: flag(body, "ignore_eos")?,
            priority: body["priority"].as_i64().unwrap_or(0) as i32,
            salt: body["cache_salt"].as_str().unwrap_or_default().as_bytes().to_vec(),
            timeout,
            first_within: None,
            draft: within("draft_tokens", size(body, "draft_tokens")?.unwrap_or(draft as u64), DRAFT_MAX)?,
            adapter: None,
            guide: None,
            shows_special: !flag_or(body, "skip_special_tokens", true)?,
        };
        let streams = flag(body, "stream")?;
        let streams_usage = flag(&body["stream_options"], "include_usage")?;
        let echoes = !is_chat && flag(body, "echo")?;
        if streams && (beams.is_some() || best_of > count) {
            return Err(Failure::invalid("stream", "the best of several texts cannot be streamed"));
        }
        let constraint = constraint(body)?;
        Ok(Wanted { generation, count, best_of, beams, constraint, streams, streams_usage, has_logprobs, echoes })
    }

    fn sampling(model: &LanguageModel, body: &Json, logprobs: usize) -> Parsed<Sampling> {
        let makers = &model.sampling;
        let mut logit_bias = Vec::new();
        for (token, bias) in body["logit_bias"].as_object().into_iter().flatten() {
            let wrong = || bad("logit_bias", "numbers by token");
            logit_bias.push((token.parse().map_err(|_| wrong())?, bias.as_f64().ok_or_else(wrong)? as f32));
        }
        // Without a seed, texts differ.
        let seed = match &body["seed"] {
            Json::Null => RandomState::new().hash_one(0),
            v => v.as_i64().map(|n| n as u64).or(v.as_u64()).ok_or_else(|| bad("seed", "an integer"))?,
        };
        let top_k = match body["top_k"].as_i64() {
            Some(k) => k.max(0) as usize,
            None => makers.top_k,
        };
        let words = model.tokenizer.words(&texts(body, "bad_words")?);
        let bad_words = words.map_err(|e| Failure::invalid("bad_words", e.message))?;
        let sampling = Sampling {
            temperature: float(body, "temperature", makers.temperature)?,
            top_k,
            top_p: float(body, "top_p", makers.top_p)?,
            min_p: float(body, "min_p", makers.min_p)?,
            repetition_penalty: float(body, "repetition_penalty", makers.repetition_penalty)?,
            presence_penalty: float(body, "presence_penalty", 0.0)?,
            frequency_penalty: float(body, "frequency_penalty", 0.0)?,
            logit_bias,
            allowed_tokens: token_list(body, "allowed_token_ids")?,
            bad_words,
            logprobs,
            seed,
        };
        let vocabulary = model.decoder.vocabulary().unwrap_or(0);
        sampling.check(vocabulary).map_err(|e| Failure::new(axum::http::StatusCode::BAD_REQUEST, e.message))?;
        Ok(sampling)
    }

    /// The requests of all completions of these prompts.
    pub fn generations(&self, prompts: &[Vec<u32>], length_max: usize) -> Parsed<Vec<Generation>> {
        let mut out = Vec::new();
        for prompt in prompts {
            if prompt.len() >= length_max {
                let e = format!("the prompt has {} tokens, but at most {} fit", prompt.len(), length_max - 1);
                return Err(Failure { code: Some("context_length_exceeded"), ..Failure::invalid("messages", e) });
            }
            for i in 0..self.best_of {
                let mut g = Generation { prompt: prompt.clone(), ..self.generation.clone() };
                g.sampling.seed = g.sampling.seed.wrapping_add(i as u64);
                out.push(g);
            }
        }
        Ok(out)
    }
}
