//! Consistency: when a read may be answered, given how far every worker has come.
//!
//! A worker *settles* a step when it has pushed all of its updates. With `closed(q)` the number
//! of steps that at least `q` workers have settled, a read at step `s` is admitted when
//! `s <= closed(quorum) + bound`. Bulk-synchronous, stale-synchronous, asynchronous and backup
//! workers are that one rule with different numbers:
//!
//! | text | quorum | bound |
//! |---|---|---|
//! | `bsp` | all | 0 |
//! | `ssp:S` | all | S |
//! | `async` | all | ∞ |
//! | `backup:B` | all but B | 0 |
//!
//! A worker under `ssp:S` asks the store at each read. Under `ssp:S:lazy` it reads what it has while
//! that is fresh enough, and asks otherwise; under `ssp:S:eager` the store sends what has changed to
//! every process that has read it, each time a worker settles a step.
//!
//! With bound 0 no worker reads inside a step, so its updates are gathered and applied together, in
//! the order of the workers, when it closes; what comes after is dropped. Otherwise an update is
//! applied when its worker has settled the step.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// When reads are admitted. Implement it for a custom rule; it must be a pure function, and
/// must not take back what it has admitted when workers settle more.
pub trait Consistency: Send + Sync + fmt::Debug {
    /// Steps whose updates are complete, given how many steps each worker has settled.
    fn closed(&self, settled: &[u64]) -> u64;
    /// Whether a read at `step` may be answered.
    fn admit(&self, step: u64, settled: &[u64]) -> bool;
    /// Whether a step's updates are applied together when it closes.
    fn gathers(&self) -> bool;
    /// Whether a step can close without some workers, whose updates are then dropped.
    fn drops(&self) -> bool;
    /// Whether the store sends what has changed to who has read it.
    fn pushes(&self) -> bool {
        false
    }
    /// Its name, for messages and the dashboard.
    fn text(&self) -> String {
        format!("{self:?}")
    }
    /// The built-in rule by which workers behave. They need not know when reads are admitted, only whether
    /// steps are gathered and whether some may be dropped.
    fn worker_rule(&self) -> Rule {
        match (self.gathers(), self.drops()) {
            (_, true) => Rule::backup(1),
            (true, false) => Rule::BSP,
            (false, false) => Rule::ASYNC,
        }
    }
}

/// Where a worker's reads come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// Each from the store.
    #[default]
    Fresh,
    /// From what the worker has, while it is fresh enough.
    Lazy,
    /// The same, and the store sends what has changed.
    Eager,
}

/// The rule of two numbers.
///
/// ```
/// # use talweg_dist::{Consistency, Rule};
/// let ssp: Rule = "ssp:3".parse().unwrap();
/// assert!(ssp.admit(5, &[2, 9]) && !ssp.admit(6, &[2, 9]));
/// let backup: Rule = "backup:1".parse().unwrap();
/// assert_eq!(backup.closed(&[7, 2, 7]), 7);
/// assert!("ssp".parse::<Rule>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How many workers a step closes without.
    pub backup: usize,
    /// How far a reader may be ahead of the closed steps; `None`: any distance.
    pub bound: Option<u64>,
    /// Where reads come from; only where the bound leaves a choice.
    pub reads: Reads,
}

impl Rule {
    /// Bulk-synchronous.
    pub const BSP: Rule = Rule { backup: 0, bound: Some(0), reads: Reads::Fresh };
    /// Asynchronous.
    pub const ASYNC: Rule = Rule { backup: 0, bound: None, reads: Reads::Fresh };
    /// Stale-synchronous.
    pub fn ssp(bound: u64) -> Rule {
        Rule { backup: 0, bound: Some(bound), reads: Reads::Fresh }
    }
    /// Bulk-synchronous without waiting for the slowest.
    pub fn backup(workers: usize) -> Rule {
        Rule { backup: workers, bound: Some(0), reads: Reads::Fresh }
    }
    /// Fails if the rule makes no sense for that many workers.
    pub fn check(&self, workers: usize) -> Result<()> {
        if self.backup < workers {
            return Ok(());
        }
        Err(Error::value(format!("backup:{} needs more than {} workers, not {workers}", self.backup, self.backup)))
    }
}

impl Consistency for Rule {
    fn closed(&self, settled: &[u64]) -> u64 {
        // The quorum is all workers but `backup`, so the slowest of the rest decides.
        let Some(mut slowest) = settled.iter().copied().min() else { return 0 };
        while settled.iter().filter(|s| **s <= slowest).count() <= self.backup {
            let Some(next) = settled.iter().copied().filter(|s| *s > slowest).min() else { break };
            slowest = next;
        }
        slowest
    }
    fn admit(&self, step: u64, settled: &[u64]) -> bool {
        self.bound.is_none_or(|bound| step <= self.closed(settled).saturating_add(bound))
    }
    fn gathers(&self) -> bool {
        self.bound == Some(0)
    }
    fn drops(&self) -> bool {
        self.backup > 0
    }
    fn pushes(&self) -> bool {
        self.reads == Reads::Eager
    }
    fn text(&self) -> String {
        self.to_string()
    }
    fn worker_rule(&self) -> Rule {
        *self
    }
}

impl FromStr for Rule {
    type Err = Error;
    fn from_str(s: &str) -> Result<Rule> {
        let bad = || {
            Error::value(format!("consistency is bsp, ssp:S, ssp:S:lazy, ssp:S:eager, async or backup:B, not {s:?}"))
        };
        let (s, reads) = match (s.strip_suffix(":lazy"), s.strip_suffix(":eager")) {
            (Some(rest), _) => (rest, Reads::Lazy),
            (_, Some(rest)) => (rest, Reads::Eager),
            _ => (s, Reads::Fresh),
        };
        let (name, number) = s.split_once(':').map_or((s, None), |(a, b)| (a, Some(b)));
        let number = number.map(|n| n.parse::<u32>().map_err(|_| bad())).transpose()?;
        match (name, number) {
            ("ssp", Some(n)) if reads != Reads::Fresh && n > 0 => Ok(Rule { reads, ..Rule::ssp(n.into()) }),
            _ if reads != Reads::Fresh => Err(bad()),
            ("bsp", None) => Ok(Rule::BSP),
            ("async", None) => Ok(Rule::ASYNC),
            ("ssp", Some(n)) => Ok(Rule::ssp(n.into())),
            ("backup", Some(n)) => Ok(Rule::backup(n as usize)),
            _ => Err(bad()),
        }
    }
}
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.backup, self.bound) {
            (0, Some(0)) => f.write_str("bsp"),
            (0, Some(s)) => match self.reads {
                Reads::Fresh => write!(f, "ssp:{s}"),
                Reads::Lazy => write!(f, "ssp:{s}:lazy"),
                Reads::Eager => write!(f, "ssp:{s}:eager"),
            },
            (_, None) => f.write_str("async"),
            (b, Some(_)) => write!(f, "backup:{b}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_read_back() {
        for text in ["bsp", "ssp:3", "ssp:8:lazy", "ssp:8:eager", "async", "backup:2"] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "bsp:1",
            "ssp:",
            "ssp:-1",
            "backup",
            "ssp:99999999999",
            "eventual",
            "bsp:lazy",
            "ssp:0:eager",
            "ssp:3:late",
        ] {
            assert!(bad.parse::<Rule>().is_err(), "{bad}");
        }
        assert_eq!("ssp:0".parse::<Rule>().unwrap(), Rule::BSP);
    }

    #[test]
    fn a_read_waits_for_the_quorum() {
        assert!(Rule::BSP.admit(4, &[4, 4, 5]) && !Rule::BSP.admit(5, &[4, 4, 5]));
        assert!(Rule::ssp(2).admit(6, &[4, 9]) && !Rule::ssp(2).admit(7, &[4, 9]));
        assert!(Rule::ASYNC.admit(u64::MAX, &[0]));
        assert!(Rule::backup(1).admit(4, &[4, 0, 4]) && !Rule::backup(1).admit(4, &[4, 0, 3]));
    }

    #[test]
    fn there_must_be_somebody_to_wait_for() {
        assert!(Rule::backup(2).check(2).is_err() && Rule::backup(2).check(3).is_ok());
    }
}
