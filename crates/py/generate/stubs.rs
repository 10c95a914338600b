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

/// The whole file: what is written by hand, the methods of the class, the functions of the package.
pub fn all(table: &Table) -> String {
    format!("{}{}\n{}", include_str!("head.pyi"), methods(table), functions(table))
}

/// The methods inside the class.
fn methods(table: &Table) -> String {
    let mut out = String::new();
    for m in bound(table) {
        if !m.method.on_self {
            out.push_str("    @staticmethod\n");
        }
        let me = m.method.on_self.then_some("self");
        let _ = writeln!(out, "    def {}({}) -> {}:", m.name, parameters(&m, me), m.stub_result);
        let _ = writeln!(out, "{}", docstring(&m, "        "));
    }
    out
}

/// The same as functions of the package.
fn functions(table: &Table) -> String {
    let mut out = String::new();
    // `fft` is the standard's namespace of that name.
    for m in bound(table).iter().filter(|m| m.name != "fft") {
        let me = m.method.on_self.then_some("x: Tensor, /");
        let _ = writeln!(out, "def {}({}) -> {}:", m.name, parameters(m, me), m.stub_result);
        let _ = writeln!(out, "{}", docstring(m, "    "));
    }
    out
}
