//! Tool calls: how a model is told of tools, and the calls in what it writes, also while it is being written.

use crate::LanguageModel;
use crate::constrain::{Constraint, compact};
use serde_json::{Value as Json, json};

/// How a model writes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, as Hermes and Qwen do.
    Hermes,
    /// The whole text is `{"name": …, "parameters": {…}}`, as Llama 3 does.
    Llama,
    /// `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, as Mistral does.
    Mistral,
}

impl ToolFormat {
    /// By the text of a chat template; `None` if the template knows no tools.
    pub fn of(template: &str) -> Option<ToolFormat> {
        let has = |text: &str| template.contains(text);
        match () {
            () if !has("tools") => None,
            () if has("[TOOL_CALLS]") => Some(ToolFormat::Mistral),
            () if has("<tool_call>") => Some(ToolFormat::Hermes),
            () if has("\"parameters\"") || has("<|python_tag|>") => Some(ToolFormat::Llama),
            () => Some(ToolFormat::Hermes),
        }
    }
    /// What begins calls.
    fn mark(self) -> &'static str {
        match self {
            ToolFormat::Hermes => "<tool_call>",
            ToolFormat::Llama => "<|python_tag|>",
            ToolFormat::Mistral => "[TOOL_CALLS]",
        }
    }
    /// The key of the arguments.
    fn key(self) -> &'static str {
        if self == ToolFormat::Llama { "parameters" } else { "arguments" }
    }
}

impl LanguageModel {
    /// How this model writes calls.
    pub fn tool_format(&self) -> ToolFormat {
        self.template.as_ref().and_then(|t| t.tool_format()).unwrap_or(ToolFormat::Hermes)
    }
    /// Whether the mark that begins calls is a special token, which is not shown otherwise.
    pub fn has_special_tool_mark(&self) -> bool {
        self.special_mark().is_some()
    }
    fn special_mark(&self) -> Option<u32> {
        self.tokenizer.token(self.tool_format().mark()).filter(|t| self.tokenizer.special(*t).is_some())
    }

    /// The constraint of a text that is a call of one of these tools (`[{"type": "function", "function": …}]`).
    pub fn call_constraint(&self, tools: &[Json]) -> Constraint {
        let format = self.tool_format();
        let any = json!({"type": "object"});
        let one = |tool: &Json| {
            let f = &tool["function"];
            let parameters = if f["parameters"].is_object() { &f["parameters"] } else { &any };
            json!({
                "type": "object", "properties": {"name": {"const": f["name"]}, format.key(): parameters},
                "required": ["name", format.key()], "additionalProperties": false,
            })
        };
        let schema = compact(&json!({"anyOf": tools.iter().map(one).collect::<Vec<Json>>()}));
        let mark = match self.special_mark() {
            Some(t) => format!("<[{t}]>"),
            None => json!(format.mark()).to_string(),
        };
        let start = match format {
            ToolFormat::Hermes => format!("{mark} \"\\n\" call \"\\n</tool_call>\""),
            ToolFormat::Llama => "call".to_string(),
            ToolFormat::Mistral => format!("{mark} \"[\" call \"]\""),
        };
        Constraint::Grammar(format!("start: {start}\ncall: %json {schema}\n"))
    }
}

/// Messages of a conversation with tools, for a template that knows none: a system message says what they are and how
/// to call them, calls and results become text.
pub fn without_template(messages: &[Json], tools: &[Json]) -> Vec<Json> {
    let functions: Vec<String> = tools.iter().map(Json::to_string).collect();
    let told = format!(
        "You may call one or more functions to assist with the user query. You are provided with function signatures \
         within <tools></tools> XML tags:\n<tools>\n{}\n</tools>\n\nFor each function call, return a json object with \
         function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{{\"name\": \
         <function-name>, \"arguments\": <args-json-object>}}\n</tool_call>",
        functions.join("\n")
    );
    let mut out: Vec<Json> = Vec::new();
    let content = |m: &Json| m["content"].as_str().unwrap_or_default().to_string();
    for m in messages {
        let (role, text) = match m["role"].as_str() {
            Some("tool") => ("user", format!("<tool_response>\n{}\n</tool_response>", content(m))),
            Some("assistant") if m["tool_calls"].is_array() => {
                let call = |c: &Json| {
                    let call = json!({"name": c["function"]["name"], "arguments": c["function"]["arguments"]});
                    format!("<tool_call>\n{call}\n</tool_call>")
                };
                let calls: Vec<String> = m["tool_calls"].as_array().into_iter().flatten().map(call).collect();
                (
                    "assistant",
                    [content(m)].into_iter().filter(|t| !t.is_empty()).chain(calls).collect::<Vec<_>>().join("\n"),
                )
            }
            role => (role.unwrap_or("user"), content(m)),
        };
        out.push(json!({"role": role, "content": text}));
    }
    if !tools.is_empty() {
        let is_told = out.first().is_some_and(|m| m["role"] == "system");
        if is_told {
            let own = content(&out[0]);
            out[0]["content"] = json!(format!("{own}\n\n{told}"));
        } else {
            out.insert(0, json!({"role": "system", "content": told}));
        }
    }
    out
}

/// What a text with calls consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text for the reader.
    Text(String),
    /// A call begins.
    Call {
        /// Its number in the text.
        index: usize,
        /// The function.
        name: String,
    },
    /// More of the JSON text of a call's arguments.
    Arguments {
        /// The call.
        index: usize,
        /// The text.
        text: String,
    },
}

/// Finds calls in a text as it is written.
#[derive(Clone, Debug)]
pub struct ToolParser {
    format: ToolFormat,
    /// Text that may still become a mark, or a call's JSON.
    held: String,
    object: Option<Object>,
    is_in_calls: bool,
    /// Whether text for the reader came already.
    has_text: bool,
    count: usize,
}

impl ToolParser {
    /// Of a text in this format.
    pub fn new(format: ToolFormat) -> ToolParser {
        let is_in_calls = false;
        ToolParser { format, held: String::new(), object: None, is_in_calls, has_text: false, count: 0 }
    }
    /// Calls so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What is known after more text.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.held += text;
        let mut out = Vec::new();
        while self.advance(&mut out) {}
        out
    }
    /// What is left when the text ends. A call that is not complete is text.
    pub fn finish(&mut self) -> Vec<Part> {
        let mut out = Vec::new();
        if let Some(object) = self.object.take() {
            if !object.is_begun {
                self.text(&mut out, object.raw);
            }
        } else if !(self.is_in_calls && self.held.trim().is_empty()) {
            let held = std::mem::take(&mut self.held);
            self.text(&mut out, held);
        }
        out
    }
    fn text(&mut self, out: &mut Vec<Part>, text: String) {
        // Nothing but space between calls is nothing to read.
        if text.is_empty() || (self.count > 0 && text.trim().is_empty()) {
            return;
        }
        self.has_text = true;
        out.push(Part::Text(text));
    }

    /// Uses up some of what is held; false if more text is needed.
    fn advance(&mut self, out: &mut Vec<Part>) -> bool {
        if let Some(mut object) = self.object.take() {
            let n = object.push(&self.held, self.format.key());
            self.held.drain(..n);
            object.emit(self.count, out);
            if !object.is_ended {
                self.object = Some(object);
                return false;
            }
            match object.is_begun {
                true => self.count += 1,
                // JSON that is no call.
                false => self.text(out, object.raw),
            }
            return true;
        }
        if self.is_in_calls { self.between(out) } else { self.before(out) }
    }

    /// Text before calls: up to the mark, or to what may become one.
    fn before(&mut self, out: &mut Vec<Part>) -> bool {
        let mark = self.format.mark();
        if let Some(at) = self.held.find(mark) {
            let text = self.held[..at].to_string();
            self.held.drain(..at + mark.len());
            let text = if self.has_text { text } else { text.trim_start().to_string() };
            self.text(out, text.trim_end().to_string());
            self.is_in_calls = true;
            return true;
        }
        // Llama needs no mark.
        if self.format == ToolFormat::Llama && !self.has_text && self.held.trim_start().starts_with('{') {
            self.is_in_calls = true;
            return true;
        }
        let kept = (1..mark.len()).rev().find(|n| self.held.ends_with(&mark[..*n])).unwrap_or(0);
        // Spaces before a mark are not for the reader.
        let text = &self.held[..self.held.len() - kept];
        let end = text.trim_end().len();
        if end == 0 {
            return false;
        }
        let text: String = self.held.drain(..end).collect();
        self.text(out, text);
        false
    }

    /// Between calls: to the next object, or back to text.
    fn between(&mut self, out: &mut Vec<Part>) -> bool {
        let mark = self.format.mark();
        let rest = self.held.trim_start();
        if rest.starts_with(mark) {
            let used = self.held.len() - rest.len() + mark.len();
            self.held.drain(..used);
            return true;
        }
        if !rest.is_empty() && mark.starts_with(rest) {
            return false;
        }
        let rest = self.held.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | ',' | ';'));
        let skipped = self.held.len() - rest.len();
        if rest.is_empty() {
            self.held.clear();
            return false;
        }
        if rest.starts_with('{') {
            self.held.drain(..skipped);
            self.object = Some(Object::default());
            return true;
        }
        let end = "</tool_call>";
        if self.format == ToolFormat::Hermes && rest.starts_with(end) {
            self.held.drain(..skipped + end.len());
            self.is_in_calls = false;
            return true;
        }
        if self.format == ToolFormat::Hermes && end.starts_with(rest) {
            return false;
        }
        // No call after all.
        self.is_in_calls = false;
        let text = std::mem::take(&mut self.held);
        self.text(out, text);
        true
    }
}

/// The JSON object of a call, read character by character.
#[derive(Clone, Debug, Default)]
struct Object {
    raw: String,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    string_start: usize,
    /// The key whose value is being read.
    key: Option<String>,
    is_value: bool,
    value_start: Option<usize>,
    name: Option<String>,
    /// Where the arguments begin and end.
    start: Option<usize>,
    end: Option<usize>,
    sent: usize,
    is_begun: bool,
    is_ended: bool,
}

impl Object {
    /// Reads to the end of the object; returns how many bytes it used.
    fn push(&mut self, text: &str, arguments: &str) -> usize {
        for (i, c) in text.char_indices() {
            let at = self.raw.len();
            self.raw.push(c);
            if self.in_string {
                self.quoted(c, at);
            } else {
                self.plain(c, at, arguments);
            }
            if self.is_ended {
                return i + c.len_utf8();
            }
        }
        text.len()
    }
    fn quoted(&mut self, c: char, at: usize) {
        match c {
            _ if self.is_escaped => self.is_escaped = false,
            '\\' => self.is_escaped = true,
            '"' => {
                self.in_string = false;
                if self.depth == 1 {
                    let text = serde_json::from_str::<String>(&self.raw[self.string_start..=at]).ok();
                    match (self.is_value, self.key.as_deref()) {
                        (false, _) => self.key = text,
                        (true, Some("name")) => self.name = text,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    fn plain(&mut self, c: char, at: usize, arguments: &str) {
        let begins_value = self.depth == 1 && self.is_value && self.value_start.is_none() && !c.is_whitespace();
        if begins_value && !matches!(c, ',' | '}') {
            self.value_start = Some(at);
            if c == '{' && self.key.as_deref().is_some_and(|k| k == arguments || k == "arguments") {
                self.start = Some(at);
            }
        }
        match c {
            '"' => (self.in_string, self.string_start) = (true, at),
            ':' if self.depth == 1 => (self.is_value, self.value_start) = (true, None),
            ',' if self.depth == 1 => (self.is_value, self.key) = (false, None),
            '{' | '[' => self.depth += 1,
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 1 && self.start.is_some() && self.end.is_none() {
                    self.end = Some(at + 1);
                }
                self.is_ended = self.depth == 0;
            }
            _ => {}
        }
    }

    /// What has become known of the call.
    fn emit(&mut self, index: usize, out: &mut Vec<Part>) {
        let Some(name) = &self.name else { return };
        if !self.is_begun && (self.start.is_some() || self.is_ended) {
            self.is_begun = true;
            out.push(Part::Call { index, name: name.clone() });
        }
        if let Some(start) = self.start.filter(|_| self.is_begun) {
            let known = &self.raw[start..self.end.unwrap_or(self.raw.len())];
            if known.len() > self.sent {
                out.push(Part::Arguments { index, text: known[self.sent..].to_string() });
                self.sent = known.len();
            }
        } else if self.is_begun && self.is_ended {
            out.push(Part::Arguments { index, text: self.unusual() });
        }
    }
    /// Arguments that are no object: a text that holds JSON, or none.
    fn unusual(&self) -> String {
        let json: Json = serde_json::from_str(&self.raw).unwrap_or_default();
        let given = ["arguments", "parameters"].into_iter().map(|k| &json[k]).find(|v| !v.is_null());
        match given {
            None => "{}".into(),
            Some(Json::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text and the calls, whatever pieces the text comes in.
    fn parsed(format: ToolFormat, text: &str) -> (String, Vec<(String, String)>) {
        let all = |size: usize| {
            let mut parser = ToolParser::new(format);
            let chars: Vec<char> = text.chars().collect();
            let mut parts: Vec<Part> =
                chars.chunks(size).flat_map(|c| parser.push(&c.iter().collect::<String>())).collect();
            parts.extend(parser.finish());
            let (mut read, mut calls) = (String::new(), Vec::<(String, String)>::new());
            for part in parts {
                match part {
                    Part::Text(t) => read += &t,
                    Part::Call { index, name } => {
                        assert_eq!(index, calls.len());
                        calls.push((name, String::new()));
                    }
                    Part::Arguments { index, text } => calls[index].1 += &text,
                }
            }
            assert_eq!(calls.len(), parser.count());
            (read, calls)
        };
        let whole = all(usize::MAX);
        (1..7).for_each(|n| assert_eq!(all(n), whole, "pieces of {n}"));
        whole
    }
    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.into(), arguments.into())
    }

    #[test]
    fn calls_are_found_in_every_format() {
        let hermes = "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": [1, {\"b\": \"}\"}]}}\n</tool_call>\n\
            <tool_call>{\"arguments\": {}, \"name\": \"now\"}</tool_call>";
        let want = vec![call("add", "{\"a\": [1, {\"b\": \"}\"}]}"), call("now", "{}")];
        assert_eq!(parsed(ToolFormat::Hermes, hermes), ("Let me see.".into(), want));
        let llama = "{\"name\": \"add\", \"parameters\": {\"a\": \"x\\\"y\"}}; {\"name\": \"now\"}";
        let want = vec![call("add", "{\"a\": \"x\\\"y\"}"), call("now", "{}")];
        assert_eq!(parsed(ToolFormat::Llama, llama), (String::new(), want.clone()));
        assert_eq!(parsed(ToolFormat::Llama, &format!("<|python_tag|>{llama}")), (String::new(), want));
        let mistral =
            "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": \"f\", \"arguments\": \"{}\"}]";
        assert_eq!(
            parsed(ToolFormat::Mistral, mistral),
            (String::new(), vec![call("add", "{\"a\": 1}"), call("f", "{}")])
        );
    }

    #[test]
    fn what_is_no_call_is_text() {
        for text in ["a < b <tool> and [1]", "x <tool_cal", "say <|python_tag"] {
            for format in [ToolFormat::Hermes, ToolFormat::Llama, ToolFormat::Mistral] {
                assert_eq!(parsed(format, text), (text.into(), vec![]));
            }
        }
        assert_eq!(parsed(ToolFormat::Llama, "{\"a\": 1}"), ("{\"a\": 1}".into(), vec![]));
        assert_eq!(parsed(ToolFormat::Hermes, "<tool_call>{\"name\": ").1, vec![]);
    }

    #[test]
    fn templates_without_tools_are_told_in_text() {
        let messages = [
            json!({"role": "user", "content": "2 + 3?"}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "add", "arguments": {"a": 2}}}]}),
            json!({"role": "tool", "content": "5"}),
        ];
        let got = without_template(&messages, &[json!({"function": {"name": "add"}})]);
        assert_eq!(got.len(), 4);
        assert!(got[0]["content"].as_str().unwrap().contains("<tools>\n{\"function\":{\"name\":\"add\"}}\n</tools>"));
        assert!(got[2]["content"].as_str().unwrap().starts_with("<tool_call>\n{"));
        assert_eq!(got[3], json!({"role": "user", "content": "<tool_response>\n5\n</tool_response>"}));
    }
}
