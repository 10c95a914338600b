//! Pages that are generated from the op table stay true; `TALWEG_BLESS=1` writes them.

use std::fmt::Write;
use talweg::ir::{Batch, Grad, Meaning};
use talweg::table;

/// What each op supports, as a page.
fn ops_page() -> String {
    let mut out = String::from(
        "# Ops\n\nGenerated from the op table by `TALWEG_BLESS=1 cargo test -p talweg --test docs`. Every row has a \
         worked example, and is checked against finite differences (first and second order where it has a gradient), \
         against the reference in every element type, through the text and binary forms, and batched against a loop.\n\n\
         - **gradient**: *rule* (its own), *expand* (through what it consists of), *zero* (piecewise constant), or why there is none.\n\
         - **vmap**: *rule*, *aligned* (elementwise), *expand*, or *loop* (one example after the other).\n\n",
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
            Meaning::View(_) => "view",
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

#[test]
fn the_page_of_ops_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ops.md");
    let want = ops_page();
    if std::env::var("TALWEG_BLESS").is_ok() {
        std::fs::write(path, &want).unwrap();
    }
    let have = std::fs::read_to_string(path).unwrap_or_default();
    assert!(have == want, "docs/ops.md is out of date: TALWEG_BLESS=1 cargo test -p talweg --test docs");
}

#[test]
fn the_op_shown_to_contributors_is_the_real_one() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let guide = std::fs::read_to_string(format!("{root}/CONTRIBUTING.md")).unwrap();
    let row = std::fs::read_to_string(format!("{root}/crates/ops/src/scalar/square.rs")).unwrap();
    assert!(guide.contains(&row), "CONTRIBUTING.md shows another square.rs than the one in the table");
}
