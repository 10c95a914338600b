//! Ops are named by string in their rows and in devices' claims alone: what the system knows about an op is said there,
//! and not in lists elsewhere.

use std::collections::BTreeSet;
use std::path::Path;

/// The crates between the table and the devices.
const CRATES: &[&str] = &["ir", "passes", "runtime", "cpu", "cuda", "wgsl", "wgpu", "ops"];

/// Words that are not ops where they stand: attributes, options and functions of C with the name of an op.
const HOMONYMS: &[(&str, &[&str])] = &[
    ("crates/cpu/src/call/grid_sample.rs", &["bilinear"]),
    ("crates/cpu/src/call/resample.rs", &["linear", "bilinear"]),
    ("crates/cuda/src/dnn/", &["dropout"]),
    ("crates/cuda/src/emit/", &["put", "sum", "max", "min"]),
    ("crates/cuda/src/emit/kernels/sample.rs", &["linear", "bilinear"]),
    ("crates/cuda/src/library/nccl.rs", &["prod", "max", "min"]),
    ("crates/cuda/src/rewrite/rows.rs", &["dropout"]),
    ("crates/ir/src/dtype.rs", &["complex"]),
    ("crates/ops/src/collective/", &["sum", "prod", "max", "min", "mean"]),
    ("crates/ops/src/loss/mod.rs", &["mean", "sum"]),
    ("crates/passes/src/", &["fold"]),
    ("crates/wgsl/src/expression.rs", &["ceil", "floor", "is_finite", "is_inf", "trunc"]),
    ("crates/wgsl/src/kernels/", &["sum", "max", "min"]),
];

/// Where claims are (the names of the ops a device looks for, and what it knows about its kernels), and rows of a
/// device's own.
const CLAIMS: &[&str] = &["crates/cuda/src/claims.rs", "crates/cuda/src/rewrite/rows.rs"];

/// The names of all rows, from the lists of the op table and the rows of a device's own.
pub fn rows(list_of: &[(String, String)]) -> BTreeSet<String> {
    let lists = list_of.iter().filter(|(path, _)| path.starts_with("crates/ops/src/") && path.ends_with("/mod.rs"));
    let blocks = lists.flat_map(|(_, text)| text.split("crate::table! {").skip(1));
    let names = blocks.flat_map(|b| b.split('}').next().unwrap_or("").split(','));
    let names = names.map(|n| n.trim().trim_end_matches('_').to_string()).filter(|n| !n.is_empty());
    let own = list_of.iter().filter(|(path, _)| CLAIMS.contains(&path.as_str()));
    let own = own.flat_map(|(_, text)| text.split("kernel(").skip(1)).filter_map(|t| t.trim_start().strip_prefix('"'));
    names.chain(own.filter_map(|t| t.split('"').next().map(str::to_string))).collect()
}

/// Reports the names of ops in a source file that is neither a row nor a claim.
pub fn check(path: &str, text: &str, rows: &BTreeSet<String>, bad: &mut Vec<String>) {
    let is_checked = CRATES.iter().any(|c| path.starts_with(&format!("crates/{c}/src/")));
    let stem = Path::new(path).file_stem().map(|s| s.to_string_lossy().trim_end_matches('_').to_string());
    let is_row = path.starts_with("crates/ops/") && stem.is_some_and(|s| rows.contains(&s) || s == "forms");
    let is_test = path.contains("/tests") || path.ends_with("_tests.rs");
    if !is_checked || is_row || is_test || CLAIMS.contains(&path) {
        return;
    }
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    for (i, line) in code.lines().enumerate() {
        // A claim or a row of a device's own.
        let is_said = ["Claim::", "op: \"", "name: \"", "//"].iter().any(|w| line.contains(w));
        for word in line.split('"').skip(1).step_by(2).filter(|w| !is_said && rows.contains(*w)) {
            let is_other = HOMONYMS.iter().any(|(p, words)| path.starts_with(p) && words.contains(&word));
            if !is_other {
                bad.push(format!("{path}:{}: the op \"{word}\" is named outside of its row and of claims", i + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_rows_and_claims_are_found() {
        let list =
            ("crates/ops/src/scalar/mod.rs".to_string(), "crate::table! {\n    exp,\n    where_,\n}".to_string());
        let rows = rows(&[list]);
        assert_eq!(rows.iter().map(String::as_str).collect::<Vec<_>>(), ["exp", "where"]);
        let found = |path: &str, text: &str| {
            let mut bad = Vec::new();
            check(path, text, &rows, &mut bad);
            bad.len()
        };
        assert_eq!(found("crates/cpu/src/a.rs", "match n.op.name {\n    \"exp\" | \"where\" => 1,\n}"), 2);
        assert_eq!(found("crates/cpu/src/a.rs", "Claim::new(\"exp\", never, f)"), 0);
        assert_eq!(found("crates/ops/src/scalar/exp.rs", "\"exp\""), 0);
        assert_eq!(found("crates/ops/src/scalar/mod.rs", "\"exp\""), 1);
        assert_eq!(found("crates/nn/src/a.rs", "\"exp\""), 0);
    }
}
