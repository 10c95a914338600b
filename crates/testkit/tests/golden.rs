//! Every operator against PyTorch's recorded values, gradients and second-order gradients.
//!
//! `TALWEG_GOLDEN_OP=name cargo test -p talweg-testkit --test golden -- --nocapture` runs one
//! operator. `TALWEG_BLESS=1` rewrites `docs/golden.md` and drops operators that have become
//! complete from the list of exceptions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use talweg_testkit::golden::{Golden, Report, parse_exceptions};

/// At least so many operators agree in every case.
const COMPLETE_MIN: usize = 245;

fn path(of: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(of)
}

/// The exceptions file with only the operators that still disagree, comments kept.
fn still_open(text: &str, report: &Report) -> String {
    let is_open = |line: &str| match line.split_once('=') {
        Some((name, _)) if !line.trim_start().starts_with('#') => {
            report.operators.get(name.trim()).is_some_and(|r| !r.is_complete())
        }
        _ => true,
    };
    text.lines().filter(|l| is_open(l)).map(|l| format!("{l}\n")).collect()
}

/// What the list of exceptions gets wrong: a disagreement it does not name, a name it need not.
fn disagreements(report: &Report, exceptions: &BTreeMap<String, String>, is_subset: bool) -> Vec<String> {
    let mut out = Vec::new();
    for (name, r) in &report.operators {
        match (r.is_complete(), exceptions.contains_key(name)) {
            (false, false) => {
                let why = r.error.clone().unwrap_or_else(|| "no adapter".into());
                out.push(format!("{name}: {} of {} cases agree: {why}", r.agree, r.cases));
            }
            // The subset may well miss the case that an exception is about.
            (true, true) if !is_subset => out.push(format!("{name} is complete, but listed as an exception")),
            _ => {}
        }
    }
    let unknown = exceptions.keys().filter(|n| !report.operators.contains_key(*n));
    out.extend(unknown.map(|n| format!("{n} is listed as an exception, but the data has no such operator")));
    out
}

#[test]
fn operators_agree_with_pytorch() {
    let golden = Golden::find().unwrap();
    let only = std::env::var("TALWEG_GOLDEN_OP").ok();
    let report = Report::run(&golden, only.as_deref());
    println!("{}", report.table());
    if let Some(only) = only {
        let r = report.operators.get(&only).unwrap_or_else(|| panic!("no operator is named {only}"));
        assert!(r.is_complete(), "{only}: {:?}", r.error);
        return;
    }
    let (list, page) = (path("data/golden_exceptions.txt"), path("../../docs/golden.md"));
    let mut text = std::fs::read_to_string(&list).unwrap();
    let is_blessing = std::env::var_os("TALWEG_BLESS").is_some() && !golden.is_subset;
    if is_blessing {
        text = still_open(&text, &report);
        std::fs::write(&list, &text).unwrap();
    }
    let exceptions = parse_exceptions(&text).unwrap();
    if is_blessing {
        std::fs::create_dir_all(path("../../docs")).unwrap();
        std::fs::write(&page, report.page(&exceptions)).unwrap();
    }
    let wrong = disagreements(&report, &exceptions, golden.is_subset);
    assert!(wrong.is_empty(), "TALWEG_BLESS=1 drops what has become complete:\n{}", wrong.join("\n"));
    assert!(report.complete() >= COMPLETE_MIN, "{} operators are complete", report.complete());
    if !golden.is_subset {
        let current = std::fs::read_to_string(&page).unwrap_or_default();
        assert_eq!(current, report.page(&exceptions), "docs/golden.md is out of date: TALWEG_BLESS=1 writes it");
    }
}

#[test]
fn the_list_of_exceptions_is_checked() {
    assert!(parse_exceptions("# why\nadd = rounds\n").unwrap().contains_key("add"));
    assert!(parse_exceptions("add = a\nadd = b").unwrap_err().contains("line 2"));
    assert!(parse_exceptions("add").unwrap_err().contains("expected `operator = reason`"));
}
