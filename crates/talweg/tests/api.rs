//! The public names of the façade and the signatures of their methods are those of `api.txt`: who changes one changes
//! the other, in the same commit. `TALWEG_BLESS=1 cargo test -p talweg --test api` writes the file.
//!
//! It reads sources as rustfmt leaves them. What a macro makes (ops that are rows of the table alone, layers of several
//! ranks) is listed by name or in `docs/ops.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The paths of a `use`: `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn paths(prefix: &str, tree: &str, out: &mut Vec<String>) {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (i, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    for part in parts.iter().map(|p| p.trim()).filter(|p| !p.is_empty()) {
        match part.split_once('{') {
            Some((head, rest)) => paths(&format!("{prefix}{head}"), rest.trim_end_matches('}'), out),
            None => out.push(format!("{prefix}{part}")),
        }
    }
}

/// The public names of a file: what it exports, with the module that does so, and its public modules.
fn exports(text: &str) -> BTreeSet<(String, String)> {
    let mut names = BTreeSet::new();
    let mut module = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (inner, code) = (line.starts_with("    "), line.trim());
        if let Some(rest) = code.strip_prefix("pub mod ") {
            let name = rest.trim_end_matches([';', '{', ' ']);
            names.insert((String::new(), name.to_string()));
            module = if rest.ends_with('{') { format!("{name}::") } else { module };
        } else if code == "}" && !inner {
            module.clear();
        } else if let Some(rest) = code.strip_prefix("pub use ") {
            let mut tree = rest.to_string();
            while !tree.contains(';') {
                tree += lines.next().expect("a use ends").trim();
            }
            let mut found = Vec::new();
            paths("", tree.split(';').next().unwrap_or_default(), &mut found);
            names.extend(found.iter().map(|p| {
                let name = p.rsplit_once(" as ").map_or(p.rsplit("::").next().unwrap_or(p), |(_, name)| name);
                (module.clone(), name.to_string())
            }));
        }
    }
    let defined = text.lines().filter_map(|l| l.strip_prefix("pub ")).filter_map(|l| l.split_once(' '));
    let named = defined.filter(|(kind, _)| ["struct", "enum", "trait", "fn", "type", "const"].contains(kind));
    names.extend(
        named.map(|(_, rest)| (String::new(), rest.split(['<', '(', ' ', ':', ';']).next().unwrap_or("").into())),
    );
    names
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    for path in entries.map(|e| e.unwrap().path()) {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// What follows `<…>` at the start of a text.
fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..i].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text[i + 1..].trim();
        }
    }
    text
}

/// The signatures of public methods by type, of blocks `impl Type`.
fn methods(text: &str, out: &mut BTreeMap<String, BTreeSet<String>>) {
    let (mut owner, mut is_hidden) = (None, false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let was_hidden = std::mem::replace(&mut is_hidden, line == "    #[doc(hidden)]");
        if was_hidden {
            continue;
        }
        if line == "}" {
            owner = None;
        } else if line.starts_with("impl") && !line.contains(" for ") {
            let ty = after_generics(line.trim_start_matches("impl"));
            owner = ty.split(['<', ' ', '{']).next().filter(|t| !t.is_empty() && !t.contains('$')).map(str::to_string);
        } else if let (Some(ty), true) =
            (&owner, line.starts_with("    pub fn ") || line.starts_with("    pub const fn "))
        {
            let mut signature = line.trim().to_string();
            while !signature.ends_with('{') && !signature.ends_with('}') {
                let next = lines.next().expect("a function has a body").trim();
                let space = if signature.ends_with('(') || next.starts_with(')') { "" } else { " " };
                signature = format!("{signature}{space}{next}");
            }
            let signature = signature.split(" {").next().unwrap_or_default().replace(",)", ")");
            let signature = signature.trim_start_matches("pub ").trim_start_matches("const ").trim_start_matches("fn ");
            out.entry(ty.clone()).or_default().insert(signature.to_string());
        }
    }
}

#[test]
fn the_public_api_is_the_one_that_is_written_down() {
    let known = |names: &[&str]| {
        let (mut files, mut of_type) = (Vec::new(), BTreeMap::new());
        names.iter().for_each(|name| sources(&crates().join(name).join("src"), &mut files));
        files.iter().for_each(|f| methods(&read(f), &mut of_type));
        of_type
    };
    let mut lines = BTreeSet::new();
    let mut list = |at: &str, file: &str, of_type: &BTreeMap<String, BTreeSet<String>>| {
        for (module, name) in exports(&read(&crates().join(file))) {
            lines.insert(format!("{at}{module}{name}"));
            // The prelude's are listed where they come from.
            for signature in of_type.get(&name).into_iter().flatten().filter(|_| module != "prelude::") {
                lines.insert(format!("{at}{module}{name}::{signature}"));
            }
        }
    };
    list("talweg::", "talweg/src/lib.rs", &known(&["ops", "tensor", "runtime"]));
    list("talweg::data::", "data/src/lib.rs", &known(&["data"]));
    let of_nn = known(&["nn"]);
    list("talweg::nn::", "nn/src/lib.rs", &of_nn);
    for module in ["layers", "optim", "train"] {
        list(&format!("talweg::nn::{module}::"), &format!("nn/src/{module}/mod.rs"), &of_nn);
    }
    let found: String = lines.iter().map(|l| format!("{l}\n")).collect();
    let path = crates().join("talweg/api.txt");
    if std::env::var_os("TALWEG_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let written = read(&path);
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (written.lines().collect(), found.lines().collect());
    let gone: Vec<_> = old.difference(&new).collect();
    let added: Vec<_> = new.difference(&old).collect();
    assert!(
        gone.is_empty() && added.is_empty(),
        "the public API differs from api.txt (TALWEG_BLESS=1 writes it)\ngone: {gone:#?}\nadded: {added:#?}"
    );
}
