//! Pages that are generated, from the op table and from the headers of the examples, stay true;
//! `TALWEG_BLESS=1` writes them.

use std::fmt::Write;
use talweg::ir::{Batch, Grad, Meaning};
use talweg::table;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What each op supports, as a page.
fn ops_page() -> String {
    let mut out = String::from(
        "# Ops\n\nGenerated from the op table by `TALWEG_BLESS=1 cargo test -p talweg --test docs`. Every row has a \
         worked example. Tests check it against finite differences (first and second order), against the reference in \
         every element type, through the text and binary forms, and batched against a loop.\n\n\
         - **gradient**: *rule* (its own), *expand* (through its definition), *zero* (piecewise constant), or the reason \
         why there is none.\n\
         - **vmap**: *rule*, *aligned* (elementwise), *expand*, or *loop* (one example at a time).\n\n",
    );
    let rows: Vec<_> = table().collect();
    let _ = writeln!(
        out,
        "{} ops.\n\n| op | kind | gradient | vmap | what it computes |\n|---|---|---|---|---|",
        rows.len()
    );
    for op in rows {
        let kind = match op.meaning {
            Meaning::Input | Meaning::Const => "leaf",
            Meaning::Scalar(_) => "scalar",
            Meaning::View(_) | Meaning::Recast => "view",
            Meaning::Reduce(_) => "reduce",
            Meaning::Kernel(_) => "kernel",
            Meaning::Composite(_) => "composite",
            Meaning::Control(_) => "control",
        };
        let gradient = match op.grad {
            Grad::Rule(_) => "rule",
            Grad::Expand => "expand",
            Grad::Zero => "zero",
            Grad::Missing(why) => why,
        };
        let vmap = match (op.batch, op.meaning) {
            (Batch::Rule(_), _) => "rule",
            (_, Meaning::Scalar(_)) => "aligned",
            (_, Meaning::Composite(_)) => "expand",
            _ => "loop",
        };
        let doc = op.doc.trim().replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(out, "| `{}` | {kind} | {gradient} | {vmap} | {doc} |", op.name);
    }
    out
}

/// The files of the examples, in order, with their names.
fn examples() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(format!("{ROOT}/crates/talweg/examples")).unwrap();
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
    };
    let mut files: Vec<_> = folder.map(read).collect();
    files.sort();
    files
}

/// What each example says of itself, as a page.
fn examples_page() -> String {
    let mut out = String::from(
        "# Examples\n\nEach example is one file and needs nothing beside this repository unless it says so. Generated \
         from their headers by `TALWEG_BLESS=1 cargo test -p talweg --test docs`. With `TALWEG_QUICK=1` they run \
         briefly, as in the tests.\n",
    );
    for (name, text) in examples() {
        let header = text.lines().map_while(|line| line.strip_prefix("//!"));
        let header: Vec<&str> = header.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let _ = writeln!(out, "\n## [{name}](../crates/talweg/examples/{name}.rs)\n{}", header.join("\n"));
    }
    out
}

/// Compares a page with its file, or writes it.
fn check(file: &str, want: &str) {
    let path = format!("{ROOT}/{file}");
    if std::env::var("TALWEG_BLESS").is_ok() {
        std::fs::write(&path, want).unwrap();
    }
    let have = std::fs::read_to_string(path).unwrap_or_default();
    assert!(have == want, "{file} is out of date: TALWEG_BLESS=1 cargo test -p talweg --test docs");
}

#[test]
fn the_page_of_ops_is_current() {
    check("docs/ops.md", &ops_page());
}

#[test]
fn the_page_of_examples_is_current() {
    check("docs/examples.md", &examples_page());
}

#[test]
fn the_readme_lists_every_example() {
    let readme = std::fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    for (name, _) in examples() {
        assert!(readme.contains(&format!("(crates/talweg/examples/{name}.rs)")), "the README does not list {name}");
    }
}

#[test]
fn the_op_shown_to_contributors_is_the_real_one() {
    let guide = std::fs::read_to_string(format!("{ROOT}/CONTRIBUTING.md")).unwrap();
    let row = std::fs::read_to_string(format!("{ROOT}/crates/ops/src/scalar/square.rs")).unwrap();
    assert!(guide.contains(&row), "CONTRIBUTING.md shows another square.rs than the one in the table");
}
