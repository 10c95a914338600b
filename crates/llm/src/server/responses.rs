//! `/v1/responses`: OpenAI's newer interface, whole and as events.

use super::answer::{Calls, Completion, Head, ToolCall, call_id};
use super::failure::Failure;
use super::request::{flag_or, known_response, text};
use super::stream::Writer;
use crate::engine::{Event, Reason, Usage};
use crate::tools::Part;
use axum::http::StatusCode;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// Responses that are kept at most, and their bytes; the oldest go first.
const KEPT_MAX: usize = 1000;
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A response, and the conversation that ends with it.
struct Kept {
    id: String,
    body: Json,
    messages: Vec<Json>,
    bytes: usize,
}

/// Responses that later requests may name, in memory.
#[derive(Default)]
pub struct Store(Mutex<VecDeque<Kept>>);

impl Store {
    /// The conversation that ends with a response.
    fn messages(&self, id: &str) -> Option<Vec<Json>> {
        self.0.lock().iter().find(|k| k.id == id).map(|k| k.messages.clone())
    }
    /// A response.
    pub fn get(&self, id: &str) -> Result<Json, Failure> {
        self.0.lock().iter().find(|k| k.id == id).map(|k| k.body.clone()).ok_or_else(|| absent(id))
    }
    /// Forgets a response.
    pub fn remove(&self, id: &str) -> Result<Json, Failure> {
        let mut all = self.0.lock();
        let at = all.iter().position(|k| k.id == id).ok_or_else(|| absent(id))?;
        all.remove(at);
        Ok(json!({"id": id, "object": "response", "deleted": true}))
    }
    fn keep(&self, body: &Json, messages: Vec<Json>) {
        let bytes = messages.iter().chain([body]).map(|m| m.to_string().len()).sum();
        let mut all = self.0.lock();
        all.push_back(Kept { id: body["id"].as_str().unwrap_or_default().into(), body: body.clone(), messages, bytes });
        while all.len() > KEPT_MAX || all.iter().map(|k| k.bytes).sum::<usize>() > KEPT_BYTES_MAX {
            all.pop_front();
        }
    }
}

fn absent(id: &str) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, format!("the response {id:?} does not exist"))
}

/// A request of this interface: as it was asked, as one of chat, and where its answer is kept.
pub struct Asked {
    body: Json,
    /// The same for chat.
    pub chat: Json,
    kept: Option<(Arc<Store>, Vec<Json>)>,
}

impl Asked {
    /// Reads a request, which may continue a kept response.
    pub fn read(body: Json, store: &Arc<Store>) -> Result<Asked, Failure> {
        if body["background"] == true {
            let e = "background is not supported: wait for the answer, or stream it";
            return Err(Failure::invalid("background", e));
        }
        known_response(&body)?;
        let before = match &body["previous_response_id"] {
            Json::Null => Vec::new(),
            Json::String(id) => {
                let e = || Failure::invalid("previous_response_id", format!("the response {id:?} is not kept"));
                store.messages(id).ok_or_else(e)?
            }
            _ => return Err(Failure::invalid("previous_response_id", "previous_response_id must be a text")),
        };
        let keeps = flag_or(&body, "store", true)?;
        let (chat, messages) = as_chat(&body, before)?;
        let kept = keeps.then(|| (store.clone(), messages));
        Ok(Asked { body, chat, kept })
    }
    /// Keeps an answer that is complete.
    fn keep(&mut self, response: &Json) {
        let Some((store, mut messages)) = self.kept.take() else { return };
        for i in response["output"].as_array().into_iter().flatten() {
            if item(i, &mut messages).is_err() {
                return;
            }
        }
        store.keep(response, messages);
    }
}

/// What a request of this interface is in that of chat, and the conversation without instructions.
fn as_chat(body: &Json, before: Vec<Json>) -> Result<(Json, Vec<Json>), Failure> {
    if !body["conversation"].is_null() {
        let e = "conversation is not supported: name the previous_response_id, or send the whole conversation";
        return Err(Failure::invalid("conversation", e));
    }
    let mut chat = body.clone();
    let mut messages = before;
    match &body["input"] {
        Json::String(text) => messages.push(json!({"role": "user", "content": text})),
        Json::Array(items) => items.iter().try_for_each(|i| item(i, &mut messages))?,
        _ => return Err(Failure::invalid("input", "input must be a text or a list of items")),
    }
    let instructions = text(body, "instructions")?.map(|text| json!({"role": "system", "content": text}));
    chat["messages"] = instructions.into_iter().chain(messages.iter().cloned()).collect();
    chat["max_completion_tokens"] = body["max_output_tokens"].clone();
    chat["tools"] = match &body["tools"] {
        Json::Array(all) => Json::Array(all.iter().map(tool).collect::<Result<_, _>>()?),
        other => other.clone(),
    };
    if body["tool_choice"]["type"] == "function" {
        chat["tool_choice"] = json!({"type": "function", "function": {"name": body["tool_choice"]["name"]}});
    }
    let format = &body["text"]["format"];
    chat["response_format"] = match format["type"].as_str() {
        Some("json_schema") => json!({"type": "json_schema", "json_schema": format}),
        _ => format.clone(),
    };
    Ok((chat, messages))
}

fn tool(t: &Json) -> Result<Json, Failure> {
    if t["type"] != "function" {
        return Err(Failure::invalid("tools", format!("tools of type {} are not supported", t["type"])));
    }
    Ok(json!({"type": "function", "function": {
        "name": t["name"], "description": t["description"], "parameters": t["parameters"],
    }}))
}

/// Adds an item of the input to a conversation.
fn item(i: &Json, messages: &mut Vec<Json>) -> Result<(), Failure> {
    match i["type"].as_str().unwrap_or("message") {
        "message" => {
            let text = |p: &Json| match p["type"].as_str() {
                Some("input_text" | "output_text" | "text") => p["text"].as_str().map(str::to_string),
                _ => None,
            };
            let content = match &i["content"] {
                Json::Array(parts) => parts.iter().map(text).collect::<Option<Vec<String>>>().map(|p| p.concat()),
                other => other.as_str().map(str::to_string),
            };
            let content = content.ok_or_else(|| Failure::invalid("input", "only text is supported"))?;
            // Developers' messages are those of the system to most templates.
            let role = if i["role"] == "developer" { &json!("system") } else { &i["role"] };
            messages.push(json!({"role": role, "content": content}));
        }
        "function_call" => {
            let call = json!({"id": i["call_id"], "type": "function",
                              "function": {"name": i["name"], "arguments": i["arguments"]}});
            match messages.last_mut().filter(|m| m["tool_calls"].is_array()) {
                Some(last) => last["tool_calls"].as_array_mut().into_iter().for_each(|c| c.push(call.clone())),
                None => messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]})),
            }
        }
        "function_call_output" => {
            let output = i["output"].as_str().map_or_else(|| i["output"].to_string(), str::to_string);
            messages.push(json!({"role": "tool", "tool_call_id": i["call_id"], "content": output}));
        }
        // What a model thought is not repeated to it.
        "reasoning" => {}
        other => return Err(Failure::invalid("input", format!("items of type {other:?} are not supported"))),
    }
    Ok(())
}

/// An item of the output.
#[derive(Clone)]
enum Item {
    Message { id: String, text: String },
    Call { id: String, call: ToolCall },
}

impl Item {
    fn json(&self, status: &str) -> Json {
        match self {
            Item::Message { id, text } => {
                let content = if status == "in_progress" { json!([]) } else { json!([part(text)]) };
                json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content})
            }
            Item::Call { id, call } => json!({
                "type": "function_call", "id": id, "status": status, "call_id": call.id, "name": call.name,
                "arguments": call.arguments,
            }),
        }
    }
    fn id(&self) -> &str {
        match self {
            Item::Message { id, .. } | Item::Call { id, .. } => id,
        }
    }
}

fn part(text: &str) -> Json {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}
fn message_id() -> String {
    call_id().replace("call_", "msg_")
}

/// What a request asked for, which the answer repeats.
fn echoed(body: &Json) -> Json {
    let or = |key: &str, default: Json| if body[key].is_null() { default } else { body[key].clone() };
    json!({
        "instructions": body["instructions"], "max_output_tokens": body["max_output_tokens"],
        "metadata": or("metadata", json!({})), "parallel_tool_calls": or("parallel_tool_calls", json!(true)),
        "temperature": body["temperature"], "top_p": body["top_p"], "tool_choice": or("tool_choice", json!("auto")),
        "tools": or("tools", json!([])), "text": or("text", json!({"format": {"type": "text"}})),
        "truncation": "disabled", "store": or("store", json!(true)),
        "previous_response_id": body["previous_response_id"], "error": null,
    })
}

fn response(head: &Head, echo: &Json, status: &str, items: &[Item], used: Option<Usage>) -> Json {
    let mut body = echo.clone();
    (body["id"], body["object"], body["created_at"]) = (json!(head.id), json!("response"), json!(head.created));
    (body["model"], body["status"]) = (json!(head.served_name), json!(status));
    body["incomplete_details"] =
        if status == "incomplete" { json!({"reason": "max_output_tokens"}) } else { Json::Null };
    body["output"] = items.iter().map(|i| i.json("completed")).collect();
    body["usage"] = used.map_or(Json::Null, |u| {
        json!({
            "input_tokens": u.prompt, "input_tokens_details": {"cached_tokens": u.cached},
            "output_tokens": u.generated, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": u.prompt + u.generated,
        })
    });
    body
}

fn status(reason: Reason) -> &'static str {
    if reason == Reason::Stop { "completed" } else { "incomplete" }
}

/// A whole answer.
pub fn whole(head: &Head, mut asked: Asked, c: &Completion, used: Usage) -> Json {
    let (text, calls) = head.parts(&c.text);
    let mut items = Vec::new();
    if !text.is_empty() || calls.is_empty() {
        items.push(Item::Message { id: message_id(), text });
    }
    items.extend(calls.into_iter().map(|call| Item::Call { id: call_id().replace("call_", "fc_"), call }));
    let response = response(head, &echoed(&asked.body), status(c.reason), &items, Some(used));
    asked.keep(&response);
    response
}

/// Events of an answer.
pub struct Events {
    head: Head,
    asked: Asked,
    echo: Json,
    calls: Option<Calls>,
    items: Vec<Item>,
    /// Whether the last item is still being written.
    is_open: bool,
    has_begun: bool,
    number: usize,
}

impl Events {
    pub fn new(head: Head, asked: Asked) -> Events {
        let calls = head.parser();
        let (items, echo) = (Vec::new(), echoed(&asked.body));
        Events { head, asked, echo, calls, items, is_open: false, has_begun: false, number: 0 }
    }
    fn send(&mut self, kind: &str, mut fields: Json, out: &mut VecDeque<Bytes>) {
        (fields["type"], fields["sequence_number"]) = (json!(kind), json!(self.number));
        self.number += 1;
        out.push_back(Bytes::from(format!("event: {kind}\ndata: {fields}\n\n")));
    }
    fn begin(&mut self, out: &mut VecDeque<Bytes>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            for kind in ["response.created", "response.in_progress"] {
                let body = response(&self.head, &self.echo, "in_progress", &[], None);
                self.send(kind, json!({"response": body}), out);
            }
        }
    }
    fn open(&mut self, item: Item, out: &mut VecDeque<Bytes>) {
        self.close(out);
        let at = self.items.len();
        self.send("response.output_item.added", json!({"output_index": at, "item": item.json("in_progress")}), out);
        if let Item::Message { id, .. } = &item {
            let fields = json!({"item_id": id, "output_index": at, "content_index": 0, "part": part("")});
            self.send("response.content_part.added", fields, out);
        }
        self.items.push(item);
        self.is_open = true;
    }
    fn close(&mut self, out: &mut VecDeque<Bytes>) {
        if !std::mem::replace(&mut self.is_open, false) {
            return;
        }
        let Some(item) = self.items.last().cloned() else { return };
        let place = json!({"item_id": item.id(), "output_index": self.items.len() - 1});
        match &item {
            Item::Message { text, .. } => {
                let mut fields = place.clone();
                (fields["content_index"], fields["text"], fields["logprobs"]) = (json!(0), json!(text), json!([]));
                self.send("response.output_text.done", fields, out);
                let mut fields = place;
                (fields["content_index"], fields["part"]) = (json!(0), part(text));
                self.send("response.content_part.done", fields, out);
            }
            Item::Call { call, .. } => {
                let mut fields = place;
                (fields["name"], fields["arguments"]) = (json!(call.name), json!(call.arguments));
                self.send("response.function_call_arguments.done", fields, out);
            }
        }
        let fields = json!({"output_index": self.items.len() - 1, "item": item.json("completed")});
        self.send("response.output_item.done", fields, out);
    }
    fn part(&mut self, part: Part, out: &mut VecDeque<Bytes>) {
        match part {
            Part::Text(more) => {
                if !(self.is_open && matches!(self.items.last(), Some(Item::Message { .. }))) {
                    self.open(Item::Message { id: message_id(), text: String::new() }, out);
                }
                let at = self.items.len() - 1;
                if let Some(Item::Message { id, text }) = self.items.last_mut() {
                    *text += &more;
                    let fields = json!({"item_id": id, "output_index": at, "content_index": 0, "delta": more,
                                        "logprobs": []});
                    self.send("response.output_text.delta", fields, out);
                }
            }
            Part::Call { name, .. } => {
                let call = ToolCall { id: call_id(), name, arguments: String::new() };
                self.open(Item::Call { id: call_id().replace("call_", "fc_"), call }, out);
            }
            Part::Arguments { text, .. } => {
                let at = self.items.len() - 1;
                if let Some(Item::Call { id, call }) = self.items.last_mut() {
                    call.arguments += &text;
                    let fields = json!({"item_id": id, "output_index": at, "delta": text});
                    self.send("response.function_call_arguments.delta", fields, out);
                }
            }
        }
    }
}

impl Writer for Events {
    fn take(&mut self, _: usize, e: Event, out: &mut VecDeque<Bytes>) -> bool {
        self.begin(out);
        let (text, end) = match e {
            Event::Token { text, .. } => (text, None),
            Event::Done { reason, text, usage } => (text, Some((reason, usage))),
            Event::Failed(_) | Event::Refused => return true,
        };
        let mut parts = match &mut self.calls {
            Some(calls) => calls.push(&text),
            None if text.is_empty() => vec![],
            None => vec![Part::Text(text)],
        };
        if let (Some(calls), Some(_)) = (&mut self.calls, end) {
            parts.extend(calls.finish());
        }
        parts.into_iter().for_each(|p| self.part(p, out));
        let Some((reason, used)) = end else { return false };
        if self.items.is_empty() {
            self.open(Item::Message { id: message_id(), text: String::new() }, out);
        }
        self.close(out);
        let status = status(reason);
        let body = response(&self.head, &self.echo, status, &self.items, Some(used));
        self.asked.keep(&body);
        self.send(&format!("response.{status}"), json!({"response": body}), out);
        true
    }
    fn fail(&mut self, failure: &Failure, out: &mut VecDeque<Bytes>) {
        let mut body = response(&self.head, &self.echo, "failed", &self.items, None);
        body["error"] = json!({"code": "server_error", "message": failure.message});
        self.send("response.failed", json!({"response": body}), out);
    }
}
