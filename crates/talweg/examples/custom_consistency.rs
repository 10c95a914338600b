//! A custom consistency rule, launched: workers go their own pace, and wait for each other every K steps.
//!
//! This program is the `talweg` command with one more rule:
//! `custom_consistency launch --workers 2 --servers 1 --consistency every:4 PROGRAM`. The launcher starts it again as
//! the store's server, which asks the rule at each read.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use talweg::cli::{self, Consistency, Program};
use talweg::{Error, Result};

/// Reads are admitted once every worker has done the steps before the last multiple of this.
#[derive(Debug)]
struct Every(u64);

impl Consistency for Every {
    fn closed(&self, settled: &[u64]) -> u64 {
        settled.iter().copied().min().unwrap_or(0)
    }
    fn admit(&self, step: u64, settled: &[u64]) -> bool {
        self.closed(settled) >= step - step % self.0
    }
    fn gathers(&self) -> bool {
        false
    }
    fn drops(&self) -> bool {
        false
    }
}

/// Finds the rule by its text, `every:K`.
fn find(text: &str) -> Result<Arc<dyn Consistency>> {
    let steps = text.strip_prefix("every:").and_then(|k| k.parse().ok()).filter(|k| *k > 0);
    let steps =
        steps.ok_or_else(|| Error::value(format!("consistency is every:K or a built-in rule, not {text:?}")))?;
    Ok(Arc::new(Every(steps)))
}

fn main() -> ExitCode {
    let rule = Every(4);
    assert!(rule.admit(3, &[0, 0]) && !rule.admit(4, &[5, 3]) && rule.admit(7, &[4, 9]));
    if std::env::args().len() < 2 {
        println!("every:4 admits reads at steps 4 to 7 once every worker has done 4 steps");
        return ExitCode::SUCCESS;
    }
    let own: Vec<OsString> = std::env::args_os().take(1).collect();
    let own = std::env::current_exe().map_or(own, |path| vec![path.into()]);
    let program = Program { own, python: "python3".into(), consistency: Some(find) };
    ExitCode::from(cli::main(&program, std::env::args_os()))
}
