//! Runs the lists of a schedule against a clock.

use crate::schedule::{Action, Part, Schedule};
use crate::{Error, Result};
use std::fmt::Write;

/// An action, when it ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What was done.
    pub action: Action,
    /// When it began, in seconds.
    pub start: f64,
    /// When it ended.
    pub end: f64,
}

/// What every rank did.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// A list for each rank.
    pub ranks: Vec<Vec<Span>>,
}

impl Timeline {
    /// When the last action ended.
    pub fn end(&self) -> f64 {
        self.ranks.iter().flatten().map(|s| s.end).fold(0.0, f64::max)
    }
    /// The share of all time that ranks waited.
    pub fn idle(&self) -> f64 {
        let busy: f64 = self.ranks.iter().flatten().map(|s| s.end - s.start).sum();
        1.0 - busy / (self.end() * self.ranks.len() as f64)
    }
    /// A trace in Chrome's format, a row for each rank.
    pub fn trace(&self) -> String {
        let mut text = String::from("{\"traceEvents\":[");
        for (rank, spans) in self.ranks.iter().enumerate() {
            for s in spans {
                let what = match s.action.part {
                    Part::Forward => "forward",
                    Part::Backward => "backward",
                    Part::Weights => "weights",
                };
                let (name, start, long) = (s.action.micro, s.start * 1e6, (s.end - s.start) * 1e6);
                let comma = if text.ends_with('[') { "" } else { "," };
                // Writing to a string does not fail.
                let _ = write!(
                    text,
                    "{comma}{{\"name\":\"{what} {name}.{}\",\"cat\":\"{what}\",\"ph\":\"X\",\"ts\":{start:.3},\
                     \"dur\":{long:.3},\"pid\":0,\"tid\":{rank}}}",
                    s.action.chunk
                );
            }
        }
        text + "]}"
    }
}

/// Runs a schedule: `cost` is what an action takes on a rank, `send` what its input takes from another one. An error
/// if it deadlocks.
pub fn run(s: &Schedule, cost: impl Fn(usize, Action) -> f64, send: impl Fn(usize, usize) -> f64) -> Result<Timeline> {
    let (n, v) = (s.ranks.len(), s.kind.chunks());
    let place = |rank: usize, a: Action| ((rank * 3 + a.part as usize) * s.micros + a.micro) * v + a.chunk;
    let mut ends = vec![f64::NAN; n * 3 * s.micros * v];
    let (mut at, mut free) = (vec![0usize; n], vec![0.0f64; n]);
    let mut spans: Vec<Vec<Span>> = s.ranks.iter().map(|l| Vec::with_capacity(l.len())).collect();
    loop {
        let mut is_moving = false;
        for rank in 0..n {
            while let Some(&action) = s.ranks[rank].get(at[rank]) {
                let ready = match s.needs(rank, action) {
                    None => 0.0,
                    Some((from, a)) if from == rank => ends[place(from, a)],
                    Some((from, a)) => ends[place(from, a)] + send(from, rank),
                };
                if ready.is_nan() {
                    break;
                }
                let start = free[rank].max(ready);
                let end = start + cost(rank, action);
                (free[rank], ends[place(rank, action)]) = (end, end);
                spans[rank].push(Span { action, start, end });
                at[rank] += 1;
                is_moving = true;
            }
        }
        if !is_moving {
            break;
        }
    }
    match (0..n).find(|&r| at[r] < s.ranks[r].len()) {
        None => Ok(Timeline { ranks: spans }),
        Some(r) => {
            let a = s.ranks[r][at[r]];
            Err(Error(format!("deadlock: rank {r} waits for {:?} before {a:?}", s.needs(r, a))))
        }
    }
}
