//! Chat templates: from messages to the text of a prompt.

use crate::tools::{self, ToolFormat};
use ir::{Error, Result};
use minijinja::value::Kwargs;
use minijinja::{Environment, ErrorKind, Value};
use serde_json::Value as Json;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io;

/// A compiled template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
    tools: Option<ToolFormat>,
    source: String,
}

/// Renders loops and texts no longer than this; a template may come from anywhere.
const FUEL: u64 = 10_000_000;

fn failed(e: minijinja::Error) -> Error {
    let detail = e.detail().map_or_else(|| e.to_string(), str::to_string);
    Error::value(format!("chat template: {detail}"))
}

impl ChatTemplate {
    /// Compiles a template; `bos` and `eos` are the texts of those tokens.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |text: String| -> std::result::Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
        });
        environment.add_function("strftime_now", |format: String| date(&format));
        environment.add_filter("tojson", tojson);
        environment.set_fuel(Some(FUEL));
        environment.add_template_owned("chat", source.to_string()).map_err(failed)?;
        let (bos, eos, source) = (bos.to_string(), eos.to_string(), source.to_string());
        Ok(ChatTemplate { environment, bos, eos, tools: ToolFormat::of(&source), source })
    }

    /// Its text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// How calls of tools are written; `None` if the template knows no tools.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        self.tools
    }

    /// The prompt of these messages (`[{"role": …, "content": …}]`) and tools; `extra` are further variables of the
    /// template. The answer begins where the prompt ends if `adds_prompt`.
    pub fn render(&self, messages: &Json, tools: Option<&Json>, adds_prompt: bool, extra: &Json) -> Result<String> {
        let mut context = extra.as_object().cloned().unwrap_or_default();
        let all = messages.as_array().map_or(&[][..], Vec::as_slice);
        let has_calls = all.iter().any(|m| m["role"] == "tool" || m["tool_calls"].is_array());
        let (messages, tools) = if self.tools.is_none() && (tools.is_some() || has_calls) {
            let tools = tools.and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
            (Json::Array(tools::without_template(all, tools)), None)
        } else {
            (messages.clone(), tools)
        };
        context.insert("messages".into(), messages);
        context.insert("add_generation_prompt".into(), adds_prompt.into());
        context.insert("bos_token".into(), self.bos.clone().into());
        context.insert("eos_token".into(), self.eos.clone().into());
        if let Some(tools) = tools {
            context.insert("tools".into(), tools.clone());
        }
        let template = self.environment.get_template("chat").map_err(failed)?;
        template.render(Value::from_serialize(Json::Object(context))).map_err(failed)
    }
}

/// Python's separators.
struct Python;
impl Formatter for Python {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}

/// Python's `json.dumps`, without escapes of HTML.
fn tojson(value: Value, options: Kwargs) -> std::result::Result<Value, minijinja::Error> {
    use serde::Serialize;
    let indent: Option<usize> = options.get("indent").ok();
    let mut out = Vec::new();
    let written = match indent {
        Some(n) => {
            let spaces = vec![b' '; n.min(16)];
            value.serialize(&mut Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(&spaces)))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, Python)),
    };
    written.map_err(|e| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    Ok(Value::from_safe_string(String::from_utf8_lossy(&out).into_owned()))
}

/// Today, by the few directives that templates use.
fn date(format: &str) -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil((seconds / 86_400) as i64);
    let names = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let name = names[month as usize - 1];
    let of = |s: String, (directive, text): (&str, String)| s.replace(directive, &text);
    let all = [
        ("%Y", year.to_string()),
        ("%m", format!("{month:02}")),
        ("%d", format!("{day:02}")),
        ("%b", name[..3].to_string()),
        ("%B", name.to_string()),
        ("%H", format!("{:02}", seconds / 3600 % 24)),
        ("%M", format!("{:02}", seconds / 60 % 60)),
    ];
    all.into_iter().fold(format.to_string(), of)
}

/// Year, month and day of a day since 1970 (Hinnant's algorithm).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    (yoe + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CHATML: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
        {{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}\
        {{'<|im_start|>' + message['role'] + '\n' + message['content'].strip() + '<|im_end|>' + '\n'}}{% endfor %}\
        {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

    #[test]
    fn messages_become_a_prompt() {
        let t = ChatTemplate::new(CHATML, "<s>", "</s>").unwrap();
        let got = t.render(&json!([{"role": "user", "content": " Hi "}]), None, true, &Json::Null).unwrap();
        assert_eq!(
            got,
            "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        );
    }

    #[test]
    fn tools_have_the_text_of_python() {
        let t = ChatTemplate::new("{{ bos_token }}{{ tools | tojson }}", "<s>", "").unwrap();
        let tools = json!([{"name": "f<", "n": [1, 2]}]);
        let got = t.render(&json!([]), Some(&tools), false, &Json::Null).unwrap();
        assert!(got == r#"<s>[{"n": [1, 2], "name": "f<"}]"# || got == r#"<s>[{"name": "f<", "n": [1, 2]}]"#, "{got}");
    }

    #[test]
    fn templates_that_fail_or_never_end_are_errors() {
        let t = ChatTemplate::new("{{ raise_exception('no roles') }}", "", "").unwrap();
        assert!(t.render(&json!([]), None, false, &Json::Null).unwrap_err().message.contains("no roles"));
        let t = ChatTemplate::new(
            "{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}",
            "",
            "",
        );
        assert!(t.unwrap().render(&json!([]), None, false, &Json::Null).is_err());
        assert!(ChatTemplate::new("{% if %}", "", "").is_err());
    }

    #[test]
    fn days_have_dates() {
        assert_eq!((civil(0), civil(19_782), civil(20_773)), ((1970, 1, 1), (2024, 2, 29), (2026, 11, 16)));
    }
}
