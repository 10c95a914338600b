//! Pipeline schedules as data: what each rank does, in order.

use crate::{Error, Result};

/// A part of the work on one microbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The forward pass.
    Forward,
    /// The whole backward pass, or that of the inputs where the weights' has its own part.
    Backward,
    /// The backward pass of the weights.
    Weights,
}

/// One entry of a rank's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// What is done.
    pub part: Part,
    /// With which microbatch.
    pub micro: usize,
    /// By which of the rank's chunks of layers.
    pub chunk: usize,
}

/// The schedules that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All forward passes, then all backward passes (Huang and others 2019).
    GPipe,
    /// One forward, one backward (PipeDream-Flush; Narayanan and others 2021).
    OneForwardOneBackward,
    /// The same with several chunks of layers a rank.
    Interleaved(usize),
    /// With the weights' part of the backward pass moved into the waits (Qi and others 2024, ZB-H1).
    ZeroBubble,
}

impl Kind {
    /// Chunks of layers a rank.
    pub fn chunks(self) -> usize {
        if let Kind::Interleaved(v) = self { v } else { 1 }
    }
    /// Whether it is the same but for the number of chunks.
    pub fn is_like(self, other: Kind) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// A list for each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Which one.
    pub kind: Kind,
    /// Microbatches.
    pub micros: usize,
    /// The lists.
    pub ranks: Vec<Vec<Action>>,
}

/// The schedule of `ranks` stages and `micros` microbatches.
pub fn generate(kind: Kind, ranks: usize, micros: usize) -> Result<Schedule> {
    if ranks == 0 || micros == 0 || kind.chunks() == 0 {
        return Err(Error(format!("{kind:?} needs ranks and microbatches, not {ranks} and {micros}")));
    }
    if matches!(kind, Kind::Interleaved(_)) && !micros.is_multiple_of(ranks) {
        return Err(Error(format!("an interleaved schedule needs a multiple of {ranks} microbatches, not {micros}")));
    }
    let list = |rank: usize| match kind {
        Kind::GPipe => gpipe(micros),
        Kind::OneForwardOneBackward => one_by_one(micros, (ranks - rank).min(micros), plain, plain),
        Kind::Interleaved(1) => one_by_one(micros, (ranks - rank).min(micros), plain, plain),
        Kind::Interleaved(v) => interleaved(rank, ranks, micros, v),
        Kind::ZeroBubble => zero_bubble(rank, ranks, micros),
    };
    Ok(Schedule { kind, micros, ranks: (0..ranks).map(list).collect() })
}

fn plain(k: usize) -> (usize, usize) {
    (k, 0)
}
fn action(part: Part, (micro, chunk): (usize, usize)) -> Action {
    Action { part, micro, chunk }
}

fn gpipe(micros: usize) -> Vec<Action> {
    let of = |part| (0..micros).map(move |m| action(part, (m, 0)));
    of(Part::Forward).chain(of(Part::Backward)).collect()
}

/// `warm` forward units, then one backward and one forward in turn.
fn one_by_one(
    units: usize,
    warm: usize,
    forward: impl Fn(usize) -> (usize, usize),
    backward: impl Fn(usize) -> (usize, usize),
) -> Vec<Action> {
    let mut list: Vec<Action> = (0..warm).map(|k| action(Part::Forward, forward(k))).collect();
    for k in 0..units {
        list.push(action(Part::Backward, backward(k)));
        if warm + k < units {
            list.push(action(Part::Forward, forward(warm + k)));
        }
    }
    list
}

fn interleaved(rank: usize, ranks: usize, micros: usize, v: usize) -> Vec<Action> {
    let unit = |k: usize| (k % ranks + ranks * (k / (ranks * v)), k / ranks % v);
    let back = |k: usize| (unit(k).0, v - 1 - unit(k).1);
    let units = micros * v;
    // One more forward than waits: a backward unit follows each forward unit from then on.
    let warm = (2 * (ranks - rank - 1) + (v - 1) * ranks + 1).min(units);
    one_by_one(units, warm, unit, back)
}

/// One forward, one backward, with at most `rank` weights' parts late; the rest at the end.
fn zero_bubble(rank: usize, ranks: usize, micros: usize) -> Vec<Action> {
    let mut list = Vec::new();
    let (mut done, mut weighed) = (0, 0);
    for a in one_by_one(micros, (ranks - rank).min(micros), plain, plain) {
        list.push(a);
        if a.part == Part::Backward {
            done += 1;
            if done - weighed > rank {
                list.push(action(Part::Weights, (weighed, 0)));
                weighed += 1;
            }
        }
    }
    list.extend((weighed..micros).map(|m| action(Part::Weights, (m, 0))));
    list
}

impl Schedule {
    /// What an action waits for, beside the actions before it on its rank: the rank and action.
    pub fn needs(&self, rank: usize, a: Action) -> Option<(usize, Action)> {
        let (last, v) = (self.ranks.len() - 1, self.kind.chunks());
        match a.part {
            Part::Weights => Some((rank, Action { part: Part::Backward, ..a })),
            Part::Forward if rank > 0 => Some((rank - 1, a)),
            Part::Forward if a.chunk > 0 => Some((last, Action { chunk: a.chunk - 1, ..a })),
            Part::Forward => None,
            Part::Backward if rank < last => Some((rank + 1, a)),
            Part::Backward if a.chunk + 1 < v => Some((0, Action { chunk: a.chunk + 1, ..a })),
            Part::Backward => Some((rank, Action { part: Part::Forward, ..a })),
        }
    }
    /// Whether the backward pass has two parts.
    pub fn is_split(&self) -> bool {
        self.kind == Kind::ZeroBubble
    }
}

/// Checks that the lists can be run: every action once, nothing waits for ever, and no rank holds the activations of
/// more than `held` units at once. Answers the most that each rank holds.
pub fn verify(s: &Schedule, held: Option<usize>) -> Result<Vec<usize>> {
    let parts: &[Part] =
        if s.is_split() { &[Part::Forward, Part::Backward, Part::Weights] } else { &[Part::Forward, Part::Backward] };
    let mut most = Vec::with_capacity(s.ranks.len());
    for (rank, list) in s.ranks.iter().enumerate() {
        let mut seen: Vec<Action> = list.clone();
        seen.sort_unstable_by_key(|a| (a.part as u8, a.micro, a.chunk));
        seen.dedup();
        let count = parts.len() * s.micros * s.kind.chunks();
        if seen.len() != count || list.len() != count {
            return Err(Error(format!("rank {rank} has {} actions, not {count} different ones", list.len())));
        }
        let last = *parts.last().unwrap_or(&Part::Backward);
        let (mut now, mut peak) = (0usize, 0);
        for a in list {
            if a.part == Part::Forward {
                now += 1;
                peak = peak.max(now);
            } else if a.part == last {
                now =
                    now.checked_sub(1).ok_or_else(|| Error(format!("rank {rank}: {a:?} comes before its forward")))?;
            }
        }
        if held.is_some_and(|h| peak > h) {
            return Err(Error(format!("rank {rank} holds {peak} microbatches at once")));
        }
        most.push(peak);
    }
    crate::events::run(s, |_, _| 1.0, |_, _| 0.0).map(|_| most)
}
