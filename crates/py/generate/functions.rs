//! What `python/talweg/_functions` registers: functions of the package and methods of `Tensor` that
//! are written in Python.

/// A function that a decorator `@public` registers.
pub struct Registered {
    /// Where it is defined, such as `sorting.sort`.
    pub path: String,
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
    /// From the modules: their names and texts.
    pub fn read<'a>(modules: impl Iterator<Item = (&'a str, String)>) -> ByHand {
        let mut out = ByHand::default();
        for (module, text) in modules {
            let mut decorator: Option<&str> = None;
            for line in text.lines() {
                if line.starts_with("@public") {
                    decorator = Some(line);
                } else if let (Some(d), Some(rest)) = (decorator, line.strip_prefix("def ")) {
                    let name = rest.split('(').next().unwrap_or_default();
                    out.registered.push(registered(module, name, d));
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

fn registered(module: &str, defined: &str, decorator: &str) -> Registered {
    let name = quoted(between(decorator, " name=", ",")).pop();
    let name = name.or_else(|| quoted(between(decorator, "(name=", ",")).pop());
    let mut names = vec![name.unwrap_or_else(|| defined.to_string())];
    names.extend(quoted(between(decorator, "names=[", "]")));
    Registered {
        path: format!("{module}.{defined}"),
        names,
        is_function: !decorator.contains("function=False"),
        is_method: !decorator.contains("method=False"),
    }
}
