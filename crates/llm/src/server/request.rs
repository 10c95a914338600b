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

/// What generating requests have in common.
const GENERATING: &[&str] = &[
    "model",
    "n",
    "stream",
    "stream_options",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "seed",
    "stop",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "bad_words",
    "allowed_token_ids",
    "skip_special_tokens",
    "priority",
    "cache_salt",
    "timeout",
    "draft_tokens",
    "use_beam_search",
    "length_penalty",
    "response_format",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "guided_json_object",
];
const CHAT: &[&str] = &[
    "messages",
    "max_completion_tokens",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "chat_template_kwargs",
];
const COMPLETIONS: &[&str] = &["prompt", "best_of", "echo", "suffix"];
/// What requests for responses spell in another way, or not at all.
const RENAMED: [&str; 4] = ["n", "max_tokens", "logprobs", "response_format"];
/// What names a request or its client, and changes no answer.
pub const LABELS: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "request_id",
];
/// What others take, and the one value that is served, as JSON.
const FIXED: &[(&str, &str)] = &[
    ("echo", "false"),
    ("priority", "0"),
    ("add_generation_prompt", "true"),
    ("continue_final_message", "false"),
    ("spaces_between_special_tokens", "true"),
    ("detokenize", "true"),
    ("modalities", "[\"text\"]"),
    ("return_token_ids", "false"),
    ("return_tokens_as_token_ids", "false"),
    ("background", "false"),
    ("truncation", "\"disabled\""),
    ("include", "[]"),
];

/// Refuses what a request says that is not in these lists: to pass it over would change what is asked for.
pub fn known(body: &Json, lists: &[&[&str]]) -> Parsed<()> {
    let all = body.as_object().ok_or_else(|| Failure::invalid("body", "the body must be a JSON object"))?;
    for (key, value) in all.iter().filter(|(_, v)| !v.is_null()) {
        let is_listed = lists.iter().any(|list| list.contains(&&key[..]));
        let fixed = FIXED.iter().find(|(name, _)| name == key).map(|f| f.1);
        if is_listed || fixed.is_some_and(|only| serde_json::from_str::<Json>(only).is_ok_and(|only| only == *value)) {
            continue;
        }
        let instead = match (&key[..], fixed) {
            ("functions", _) => ": use tools",
            ("function_call", _) => ": use tool_choice",
            (_, Some(only)) => &format!(" other than {only}"),
            _ => "",
        };
        let e = Failure::invalid(key.clone(), format!("{key} is not supported{instead}"));
        return Err(Failure { code: Some("unknown_parameter"), ..e });
    }
    Ok(())
}

const RESPONSES: &[&str] = &[
    "input",
    "instructions",
    "conversation",
    "previous_response_id",
    "max_output_tokens",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "chat_template_kwargs",
];

/// Refuses what requests for responses do not take.
pub fn known_response(body: &Json) -> Parsed<()> {
    let shared: Vec<&str> = GENERATING.iter().filter(|k| !RENAMED.contains(k)).copied().collect();
    known(body, &[&shared, LABELS, RESPONSES])?;
    if body["text"].is_null() { Ok(()) } else { known(&body["text"], &[&["format"]]) }
}

/// Refuses what requests that generate do not take.
pub fn known_generating(body: &Json, is_chat: bool) -> Parsed<()> {
    known(body, &[GENERATING, LABELS, if is_chat { CHAT } else { COMPLETIONS }])
}

/// A text, if there is one.
pub fn text<'a>(body: &'a Json, key: &'static str) -> Parsed<Option<&'a str>> {
    match &body[key] {
        Json::Null => Ok(None),
        v => v.as_str().map(Some).ok_or_else(|| bad(key, "a text")),
    }
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
        let count = within("n", size(body, "n")?.unwrap_or(1), COUNT_MAX)?;
        if count == 0 {
            return Err(bad("n", "at least 1"));
        }
        let (has_logprobs, logprobs) = if is_chat {
            let top = within("top_logprobs", size(body, "top_logprobs")?.unwrap_or(0), LOGPROBS_MAX)?;
            let has_logprobs = flag(body, "logprobs")?;
            if top > 0 && !has_logprobs {
                return Err(Failure::invalid("top_logprobs", "top_logprobs needs logprobs: true"));
            }
            (has_logprobs, top)
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
        let tokens_min = size(body, "min_tokens")?.unwrap_or(0) as usize;
        if tokens_max.is_some_and(|most| tokens_min > most) {
            return Err(bad("min_tokens", "at most max_tokens"));
        }
        let integer = |key: &'static str| match &body[key] {
            Json::Null => Ok(0),
            v => v.as_i64().and_then(|n| i32::try_from(n).ok()).ok_or_else(|| bad(key, "an integer")),
        };
        let salt = text(body, "cache_salt")?.unwrap_or_default().as_bytes().to_vec();
        let generation = Generation {
            prompt: Vec::new(),
            tokens_max,
            tokens_min,
            sampling,
            stops: texts(body, "stop")?,
            stop_tokens,
            keeps_stop: flag(body, "include_stop_str_in_output")?,
            ignores_eos: flag(body, "ignore_eos")?,
            priority: integer("priority")?,
            salt,
            timeout,
            first_within: None,
            draft: within("draft_tokens", size(body, "draft_tokens")?.unwrap_or(draft as u64), DRAFT_MAX)?,
            adapter: None,
            guide: None,
            shows_special: !flag_or(body, "skip_special_tokens", true)?,
        };
        let streams = flag(body, "stream")?;
        let options = &body["stream_options"];
        if !options.is_null() {
            if !streams || !options.is_object() {
                return Err(bad("stream_options", "an object of a request with stream: true"));
            }
            known(options, &[&["include_usage", "include_obfuscation"]])?;
        }
        let streams_usage = flag(options, "include_usage")?;
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
        let wrong = || bad("logit_bias", "numbers by token");
        if !matches!(body["logit_bias"], Json::Null | Json::Object(_)) {
            return Err(wrong());
        }
        for (token, bias) in body["logit_bias"].as_object().into_iter().flatten() {
            logit_bias.push((token.parse().map_err(|_| wrong())?, bias.as_f64().ok_or_else(wrong)? as f32));
        }
        // Without a seed, texts differ.
        let seed = match &body["seed"] {
            Json::Null => RandomState::new().hash_one(0),
            v => v.as_i64().map(|n| n as u64).or(v.as_u64()).ok_or_else(|| bad("seed", "an integer"))?,
        };
        let top_k = match &body["top_k"] {
            Json::Null => makers.top_k,
            v => v.as_i64().filter(|k| *k >= -1).ok_or_else(|| bad("top_k", "an integer, -1 or 0 for all"))?.max(0)
                as usize,
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
