//! The type stubs of the methods, for editors and type checkers.

use super::params::{Python, bound};
use super::read::Table;
use std::fmt::Write;

/// A type in the stubs: `Tensor` has methods of the names of Python's own types, and the package
/// has an element type `bool`.
fn typed(stub: &str) -> String {
    let word = |w: &str| if ["int", "float", "bool"].contains(&w) { format!("builtins.{w}") } else { w.to_string() };
    let mut out = String::new();
    let mut name = String::new();
    for c in stub.chars() {
        if c.is_alphanumeric() || c == '_' {
            name.push(c);
        } else {
            out.push_str(&word(&std::mem::take(&mut name)));
            out.push(c);
        }
    }
    out + &word(&name)
}

fn parameters(m: &Python, me: Option<&str>) -> String {
    let mut list: Vec<String> = me.iter().map(|s| s.to_string()).collect();
    for p in &m.params {
        list.push(match &p.default {
            Some((_, python)) => format!("{}: {} = {python}", p.name, typed(&p.stub)),
            None => format!("{}: {}", p.name, typed(&p.stub)),
        });
    }
    if m.keeps {
        list.push("keepdims: builtins.bool = False".into());
    }
    list.join(", ")
}

fn docstring(m: &Python, indent: &str) -> String {
    let text = super::rust::docs(m);
    let text = text.replace('\\', "\\\\").replace("\"\"\"", "'''");
    format!(
        "{indent}\"\"\"{}\"\"\"",
        text.replace('\n', &format!("\n{indent}")).replace(&format!("\n{indent}\n"), "\n\n")
    )
}

/// What is written by hand and stands in the package as well: the files of `python/talweg`.
pub struct ByHand<'a> {
    /// The stubs of the functions that take the place of an op's.
    pub functions: &'a str,
    /// Other spellings of ops.
    pub names: &'a str,
}

impl ByHand<'_> {
    /// Whether a function of the package is written by hand.
    fn has(&self, name: &str) -> bool {
        let starts = [format!("def {name}("), format!("{name} = ")];
        let mut lines = include_str!("head.pyi").lines().chain(self.functions.lines());
        lines.any(|l| starts.iter().any(|s| l.starts_with(s)))
    }
    /// Other spellings with the ops they stand for.
    fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.lines().filter_map(|l| {
            let (alias, name) = l.trim().trim_end_matches(',').split_once(": ")?;
            Some((alias.trim().strip_prefix('"')?.strip_suffix('"')?, name.strip_prefix('"')?.strip_suffix('"')?))
        })
    }
}

/// The whole file: what is written by hand, the methods of the class, the functions of the package.
pub fn all(table: &Table, by_hand: &ByHand) -> String {
    format!("{}{}\n{}", include_str!("head.pyi"), methods(table, by_hand), functions(table, by_hand))
}

/// The methods inside the class.
fn methods(table: &Table, by_hand: &ByHand) -> String {
    let mut out = String::new();
    let all = bound(table);
    let class = include_str!("head.pyi").split("\nclass Tensor:").nth(1).unwrap_or_default();
    for m in all.iter().filter(|m| !class.contains(&format!("    def {}(self", m.name))) {
        if !m.method.on_self {
            out.push_str("    @staticmethod\n");
        }
        let me = m.method.on_self.then_some("self");
        let _ = writeln!(out, "    def {}({}) -> {}:", m.name, parameters(m, me), m.stub_result);
        let _ = writeln!(out, "{}", docstring(m, "        "));
    }
    for (alias, name) in by_hand.aliases().filter(|(alias, _)| !all.iter().any(|m| m.name == *alias)) {
        let _ = writeln!(out, "    {alias} = {name}");
    }
    out
}

/// The same as functions of the package.
fn functions(table: &Table, by_hand: &ByHand) -> String {
    let mut out = String::new();
    // `fft` is the standard's namespace of that name.
    for m in bound(table).iter().filter(|m| m.name != "fft" && !by_hand.has(&m.name)) {
        let me = m.method.on_self.then_some("x: Tensor, /");
        let _ = writeln!(out, "def {}({}) -> {}:", m.name, parameters(m, me), m.stub_result);
        let _ = writeln!(out, "{}", docstring(m, "    "));
    }
    out
}
