//! What the server says about itself and its models, tokens of texts, and adapters that come and go.

use super::failure::Failure;
use super::request::{flag_or, known, text};
use super::routes::{Answered, Api, Held, json_response, messages, not_found, parsed, template_values, with_type};
use crate::engine::Handle;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::sync::atomic::Ordering::Relaxed;

pub(super) async fn models(State(api): Held) -> Response {
    let entry = |id: &str, length: usize| {
        json!({
            "id": id, "object": "model", "created": api.created, "owned_by": "talweg", "root": api.name,
            "max_model_len": length,
        })
    };
    let own = api.handle().map(|h| entry(&api.name, h.length_max()));
    let encoders: Vec<Json> = api.encoders().map(|e| entry(&e.name, e.length_max())).collect();
    let adapter = |name: String| {
        let mut entry = entry(&name, api.handle().map_or(0, Handle::length_max));
        entry["parent"] = json!(api.name);
        entry
    };
    let data: Vec<Json> = own.into_iter().chain(api.adapter_names().into_iter().map(adapter)).chain(encoders).collect();
    json_response(&json!({"object": "list", "data": data}))
}
pub(super) async fn model(State(api): Held, Path(name): Path<String>) -> Answered {
    let encoder = api.encoders().find(|e| e.name == name);
    let length = match (api.handle(), encoder) {
        (Some(handle), _) if api.named(&json!({ "model": name })).is_ok() => handle.length_max(),
        (_, Some(encoder)) => encoder.length_max(),
        _ => return Err(not_found(&name)),
    };
    let entry = json!({"id": name, "object": "model", "created": api.created, "owned_by": "talweg",
                       "root": api.name, "max_model_len": length});
    Ok(json_response(&entry))
}

/// The texts of a request about an adapter.
fn adapter_request<const N: usize>(api: &Api, body: &Bytes, keys: [&'static str; N]) -> Result<[String; N], Failure> {
    if !api.takes_adapters {
        let e = "adapters are loaded by clients only if the server was started with --lora-updates";
        return Err(Failure::new(StatusCode::FORBIDDEN, e));
    }
    let body = parsed(body)?;
    known(&body, &[&keys, &["lora_int_id"]])?;
    let text = |key: &'static str| {
        let found = body[key].as_str().map(str::to_string);
        found.ok_or_else(|| Failure::invalid(key, format!("{key} must be a text")))
    };
    let mut out = [const { String::new() }; N];
    for (to, key) in out.iter_mut().zip(keys) {
        *to = text(key)?;
    }
    Ok(out)
}
pub(super) async fn load_adapter(State(api): Held, body: Bytes) -> Answered {
    let [name, path] = adapter_request(&api, &body, ["lora_name", "lora_path"])?;
    if name.is_empty() || name == api.name {
        return Err(Failure::invalid("lora_name", "the model itself has this name"));
    }
    let (handle, done) = (api.generator()?.clone(), format!("Success: LoRA adapter '{name}' added successfully."));
    api.compute(move || handle.between_steps(move |e| e.load_adapter(&name, path.as_ref()))).await?;
    Ok(with_type("text/plain", done))
}
pub(super) async fn unload_adapter(State(api): Held, body: Bytes) -> Answered {
    let [name] = adapter_request(&api, &body, ["lora_name"])?;
    let (handle, done) = (api.generator()?.clone(), format!("Success: LoRA adapter '{name}' removed successfully."));
    api.compute(move || handle.between_steps(move |e| e.unload_adapter(&name))).await?;
    Ok(with_type("text/plain", done))
}

pub(super) async fn tokenize(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    let model = api.named(&body)?.0;
    let common = &["model", "add_special_tokens", "return_token_strs"];
    let tokens = match text(&body, "prompt")? {
        Some(prompt) => {
            known(&body, &[common, &["prompt"]])?;
            let encode =
                |is_whole| if is_whole { model.tokenizer.encode(prompt) } else { model.tokenizer.encode_more(prompt) };
            encode(flag_or(&body, "add_special_tokens", true)?).map_err(|e| Failure::invalid("prompt", e.message))?
        }
        None => {
            known(&body, &[common, &["messages", "add_generation_prompt", "chat_template_kwargs", "tools"]])?;
            let adds_prompt = flag_or(&body, "add_generation_prompt", true)?;
            let (tools, extra) = (Some(&body["tools"]).filter(|t| !t.is_null()), template_values(&body)?);
            let prompt = model.rendered(&messages(&body)?, tools, adds_prompt, extra);
            let prompt = prompt.map_err(|e| Failure::invalid("messages", e.message))?;
            // A template writes the special tokens itself.
            let is_whole = flag_or(&body, "add_special_tokens", false)?;
            if is_whole && model.tokenizer.first().is_some() {
                let e = "add_special_tokens must be false for messages: the chat template begins the prompt";
                return Err(Failure::invalid("add_special_tokens", e));
            }
            model.tokenizer.encode(&prompt).map_err(|e| Failure::invalid("messages", e.message))?
        }
    };
    let texts = match flag_or(&body, "return_token_strs", false)? {
        true => tokens.iter().map(|t| model.tokenizer.text(*t)).collect(),
        false => Json::Null,
    };
    let length = api.generator()?.length_max();
    let all = json!({"count": tokens.len(), "max_model_len": length, "tokens": tokens, "token_strs": texts});
    Ok(json_response(&all))
}

pub(super) async fn detokenize(State(api): Held, body: Bytes) -> Answered {
    let wrong = || Failure::invalid("tokens", "tokens must be a list of integers");
    let one = |t: &Json| t.as_u64().and_then(|n| u32::try_from(n).ok()).ok_or_else(wrong);
    let body = parsed(&body)?;
    known(&body, &[&["model", "tokens"]])?;
    let model = api.named(&body)?.0;
    let tokens = body["tokens"].as_array().ok_or_else(wrong)?.iter().map(one).collect::<Result<Vec<u32>, _>>()?;
    Ok(json_response(&json!({"prompt": model.tokenizer.decode(&tokens)})))
}

pub(super) async fn metrics(State(api): Held) -> Response {
    let text = api.handle().map_or_else(String::new, |h| h.stats().exposition(&api.name));
    with_type("text/plain; version=0.0.4", text)
}
pub(super) async fn health(State(api): Held) -> Answered {
    if api.handle().is_some_and(Handle::has_failed) || api.is_draining.load(Relaxed) {
        return Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the server takes no requests"));
    }
    Ok(json_response(&json!({"status": "ok"})))
}
