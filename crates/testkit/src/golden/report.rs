//! All cases together: which operators are complete, and the tables people read.

use super::{Golden, TOLERANCE, Verdict, check};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How the cases of one operator went.
#[derive(Clone, Debug, Default)]
pub struct OpReport {
    /// Cases in all.
    pub cases: usize,
    /// Cases that agree.
    pub agree: usize,
    /// True if no adapter knows it.
    pub no_adapter: bool,
    /// The first failure.
    pub error: Option<String>,
}
impl OpReport {
    /// True if every case agrees.
    pub fn is_complete(&self) -> bool {
        self.agree == self.cases
    }
}

/// How every operator went.
pub struct Report {
    /// By operator.
    pub operators: BTreeMap<String, OpReport>,
}

impl Report {
    /// Runs the cases, of one operator if `only` names it, on every core.
    pub fn run(golden: &Golden, only: Option<&str>) -> Report {
        let chosen: Vec<_> = golden.cases.iter().filter(|c| only.is_none_or(|o| c.operator == o)).collect();
        let next = AtomicUsize::new(0);
        let verdicts: Mutex<Vec<(usize, Verdict)>> = Mutex::new(Vec::new());
        let work = || {
            while let Some((i, case)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, chosen.get(i)?)))
            {
                let v = check(case);
                verdicts.lock().expect("no panic while locked").push((i, v));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        std::thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(work))));
        let mut verdicts = verdicts.into_inner().expect("no panic while locked");
        verdicts.sort_by_key(|(i, _)| *i);
        let mut operators: BTreeMap<String, OpReport> = BTreeMap::new();
        for ((_, v), case) in verdicts.into_iter().zip(&chosen) {
            let r = operators.entry(case.operator.clone()).or_default();
            r.cases += 1;
            match v {
                Verdict::Agrees => r.agree += 1,
                Verdict::NoAdapter => r.no_adapter = true,
                Verdict::Fails(e) => {
                    r.error.get_or_insert_with(|| format!("case {}: {e}", case.index));
                }
            }
        }
        Report { operators }
    }
    /// How many operators agree in every case.
    pub fn complete(&self) -> usize {
        self.operators.values().filter(|r| r.is_complete()).count()
    }

    /// The table the test prints.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let (mut failing, mut without) = (String::new(), Vec::new());
        for (name, r) in self.operators.iter().filter(|(_, r)| !r.is_complete()) {
            if r.no_adapter {
                without.push(name.as_str());
            } else {
                let error: String = r.error.as_deref().unwrap_or("").chars().take(300).collect();
                let _ = writeln!(failing, "  {name:<45} {:>2} of {:>2}  {error}", r.agree, r.cases);
            }
        }
        let _ = writeln!(out, "complete: {} of {} operators", self.complete(), self.operators.len());
        let _ = writeln!(out, "partial: {}\n{failing}", failing.lines().count());
        let _ = writeln!(out, "without adapter: {}\n  {}", without.len(), without.join(" "));
        out
    }

    /// The page `docs/golden.md`.
    pub fn page(&self, exceptions: &BTreeMap<String, String>) -> String {
        let cases: usize = self.operators.values().map(|r| r.cases).sum();
        let agree: usize = self.operators.values().map(|r| r.agree).sum();
        let mut out = format!(
            "# Agreement with PyTorch\n\n\
             <!-- Written by `TALWEG_BLESS=1 cargo test -p talweg-testkit --test golden`; do not edit. -->\n\n\
             Results, gradients and second-order gradients of {} PyTorch operators, {cases} recorded calls, \
             compared in f64 with a tolerance of {TOLERANCE:e} relative to the larger of 1 and the recorded value.\n\n\
             - operators that agree in every case: **{}**\n- cases that agree: **{agree}**\n\n",
            self.operators.len(),
            self.complete()
        );
        let open: Vec<_> = self.operators.iter().filter(|(_, r)| !r.is_complete()).collect();
        if !open.is_empty() {
            out += "| operator | cases that agree | why not all |\n|---|---|---|\n";
        }
        for (name, r) in open {
            let why = exceptions.get(name).map_or("", String::as_str);
            let _ = writeln!(out, "| `{name}` | {} of {} | {why} |", r.agree, r.cases);
        }
        out
    }
}

/// The list of operators that are allowed to disagree: `operator = reason` lines, `#` comments.
pub fn parse_exceptions(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut out = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once('=').map(|(a, b)| (a.trim(), b.trim())) {
            Some((name, reason)) if !name.is_empty() && !reason.is_empty() => {
                if out.insert(name.to_string(), reason.to_string()).is_some() {
                    return Err(format!("line {}: {name} is listed twice", i + 1));
                }
            }
            _ => return Err(format!("line {}: expected `operator = reason`, found {line:?}", i + 1)),
        }
    }
    Ok(out)
}
