//! What `python/talweg/_functions` registers: functions of the package and methods of `Tensor` that
//! are written in Python.

/// A function that a decorator `@public` registers.
pub struct Registered {
    /// Its parameters and its result as the stubs state them: `(input: Tensor) -> Tensor`.
    pub signature: String,
    /// The names it is registered under.
    pub names: Vec<String>,
    /// True if it is a function of the package.
    pub is_function: bool,
    /// True if it is a method of `Tensor`.
    pub is_method: bool,
}

/// All of them.
#[derive(Default)]
pub struct ByHand {
    /// Functions with a decorator.
    pub registered: Vec<Registered>,
    /// Other names of ops, with the ops: lines `"arccos": "acos",` of a table `ALIASES`.
    pub aliases: Vec<(String, String)>,
    /// Names of methods that are written in place, with their underscore.
    pub in_place: Vec<String>,
    /// Methods that convert to a type.
    pub conversions: Vec<String>,
}

/// The words in quotes of a text.
fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_string).collect()
}

/// What stands between a line that starts with one text and the next that starts with another.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let Some(from) = text.find(start) else { return "" };
    let rest = &text[from + start.len()..];
    &rest[..rest.find(end).unwrap_or(rest.len())]
}

impl ByHand {
    /// From the texts of the modules.
    pub fn read(modules: impl Iterator<Item = String>) -> ByHand {
        let mut out = ByHand::default();
        for text in modules {
            let mut decorator: Option<&str> = None;
            let mut lines = text.lines();
            while let Some(line) = lines.next() {
                if line.starts_with("@public") {
                    decorator = Some(line);
                } else if let (Some(d), Some(rest)) = (decorator, line.strip_prefix("def ")) {
                    let (name, rest) = rest.split_once('(').unwrap_or((rest, ""));
                    let mut signature = format!("({}", code(rest));
                    while !signature.ends_with(':') {
                        let Some(line) = lines.next() else { break };
                        let space = if signature.ends_with('(') || line.starts_with(')') { "" } else { " " };
                        signature = format!("{signature}{space}{}", code(line));
                    }
                    out.registered.push(registered(name, stated(signature.trim_end_matches(':')), d));
                    decorator = None;
                }
            }
            let pairs = between(&text, "\nALIASES = {", "\n}").lines();
            out.aliases.extend(pairs.filter_map(|l| match &quoted(l)[..] {
                [alias, name] => Some((alias.clone(), name.clone())),
                _ => None,
            }));
            let names = between(&text, "\nIN_PLACE = \"\"\"", "\"\"\"").split_whitespace();
            out.in_place.extend(names.map(|n| format!("{n}_")));
            let names = between(&text, "\nREORDERED = \"\"\"", "\"\"\"").split_whitespace();
            out.in_place.extend(names.map(str::to_string));
            out.conversions.extend(quoted(between(&text, "\nCONVERSIONS = {", "\n}")).into_iter().step_by(2));
        }
        out
    }
    /// Whether a function of the package is written by hand.
    pub fn has_function(&self, name: &str) -> bool {
        self.registered.iter().any(|r| r.is_function && r.names.iter().any(|n| n == name))
    }
    /// Whether a method of tensors is written by hand.
    pub fn has_method(&self, name: &str) -> bool {
        self.registered.iter().any(|r| r.is_method && r.names.iter().any(|n| n == name))
    }
}

/// A line without its comment and the space around it.
fn code(line: &str) -> &str {
    line.split("  # ").next().unwrap_or_default().trim()
}

/// Names that the stubs of the package know.
const KNOWN: &[&str] = &["Any", "Callable", "DTypeLike", "False", "None", "Sequence", "Size", "Tensor", "True"];

/// A signature without quotes around its types, and with names that the stubs know.
fn stated(signature: &str) -> String {
    let mut out = String::new();
    let mut rest = signature;
    while let Some(at) = [": \"", "-> \""].iter().filter_map(|s| Some(rest.find(s)? + s.len())).min() {
        out.push_str(&words(&rest[..at - 1]));
        let (quoted, after) = rest[at..].split_once('"').unwrap_or((&rest[at..], ""));
        out.push_str(&words(quoted));
        rest = after;
    }
    out + &words(rest)
}
fn words(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split('"').enumerate() {
        // A string stays as it is.
        if i % 2 == 1 {
            out.push_str(&format!("\"{part}\""));
            continue;
        }
        let mut word = String::new();
        for c in part.chars().chain(['\0']) {
            if c.is_alphanumeric() || "_.".contains(c) {
                word.push(c);
                continue;
            }
            let word = std::mem::take(&mut word);
            // What a colon follows is a parameter.
            out.push_str(&if c == ':' { word } else { known(&word) });
            if c != '\0' {
                out.push(c);
            }
        }
    }
    out
}
/// A word of a signature; a type that the stubs do not know is any.
fn known(word: &str) -> String {
    let is_type = word.trim_start_matches('_').starts_with(char::is_uppercase) && !word.contains('.');
    match word {
        "int" | "float" | "bool" => format!("builtins.{word}"),
        _ if is_type && !KNOWN.contains(&word) => "Any".to_string(),
        _ => word.to_string(),
    }
}

fn registered(defined: &str, signature: String, decorator: &str) -> Registered {
    let name = quoted(between(decorator, " name=", ",")).pop();
    let name = name.or_else(|| quoted(between(decorator, "(name=", ",")).pop());
    let mut names = vec![name.unwrap_or_else(|| defined.to_string())];
    names.extend(quoted(between(decorator, "names=[", "]")));
    names.dedup();
    Registered {
        signature,
        names,
        is_function: !decorator.contains("function=False"),
        is_method: !decorator.contains("method=False"),
    }
}
