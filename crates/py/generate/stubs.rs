//! The type stubs of the methods, for editors and type checkers.

use super::functions::ByHand;
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
        list.push("keepdim: builtins.bool = False".into());
    }
    if super::rust::TYPED.contains(&m.name.as_str()) {
        list.push("*, dtype: DTypeLike | None = None".into());
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

/// Whether a function of the package stands in the part that is written by hand.
fn in_head(name: &str) -> bool {
    let starts = [format!("def {name}("), format!("{name} = ")];
    include_str!("head.pyi").lines().any(|l| starts.iter().any(|s| l.starts_with(s)))
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
    let in_class = |name: &str| class.contains(&format!("    def {name}(self"));
    for m in all.iter().filter(|m| !in_class(&m.name) && !by_hand.has_method(&m.name)) {
        if !m.method.on_self {
            out.push_str("    @staticmethod\n");
        }
        let me = m.method.on_self.then_some("self");
        let _ = writeln!(out, "    def {}({}) -> {}:", m.name, parameters(m, me), m.stub_result);
        let _ = writeln!(out, "{}", docstring(m, "        "));
    }
    for r in by_hand.registered.iter().filter(|r| r.is_method) {
        for name in r.names.iter().filter(|n| !in_class(n)) {
            let _ = writeln!(out, "    def {name}{}: ...", r.signature);
        }
    }
    for (alias, name) in by_hand.aliases.iter().filter(|(alias, _)| !all.iter().any(|m| m.name == *alias)) {
        let _ = writeln!(out, "    {alias} = {name}");
    }
    for name in by_hand.in_place.iter().filter(|n| !in_class(n)) {
        let _ = writeln!(out, "    def {name}(self, *args: Any, **settings: Any) -> Tensor: ...");
    }
    for name in by_hand.conversions.iter().filter(|n| !in_class(n)) {
        let _ = writeln!(out, "    def {name}(self) -> Tensor: ...");
    }
    out
}

/// The same as functions of the package.
fn functions(table: &Table, by_hand: &ByHand) -> String {
    let mut out = String::new();
    let is_written = |name: &str| in_head(name) || by_hand.has_function(name);
    // `fft` is the namespace of that name.
    for m in bound(table).iter().filter(|m| m.name != "fft" && !is_written(&m.name)) {
        let me = m.method.on_self.then_some("input: Tensor");
        let _ = writeln!(out, "def {}({}) -> {}:", m.name, parameters(m, me), m.stub_result);
        let _ = writeln!(out, "{}", docstring(m, "    "));
    }
    for r in by_hand.registered.iter().filter(|r| r.is_function) {
        for name in r.names.iter().filter(|n| !in_head(n)) {
            let _ = writeln!(out, "def {name}{}: ...", r.signature);
        }
    }
    for (alias, name) in &by_hand.aliases {
        let _ = writeln!(out, "{alias} = {name}");
    }
    out
}
