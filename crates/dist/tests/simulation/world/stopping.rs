//! A stop after a common step that is asked for while a worker is dead: see `talweg_dist::status`.

use super::{Micros, Phase, Trouble, WORKER, World};
use talweg_dist::status::{Word, last_step};

/// When the stop comes, and how long it takes until every worker has heard of it.
const AT: std::ops::Range<Micros> = 3_000..25_000;
const HEARD: std::ops::Range<Micros> = 0..3_000;

pub(super) struct Stopping {
    /// For each worker whether it begins no more steps, and what it has said.
    closed: Vec<bool>,
    words: Vec<Option<u64>>,
    /// The greatest step of those that lived when the last of them had said it.
    of_the_living: u64,
    last: Option<u64>,
}

impl World {
    pub(super) fn plan_stop(&mut self) {
        if !self.plan.stops {
            return;
        }
        let random = self.network.random();
        // The first may be slow: the last is ahead of it.
        let (at, who) = (random.within(AT), self.plan.workers - 1);
        let (dies, comes) = (at - random.within(0..600), at + random.within(4_000..9_000));
        self.trouble.push((dies, Trouble::KillWorker(who)));
        self.trouble.push((at, Trouble::Stop));
        self.trouble.push((comes, Trouble::StartWorker(who)));
    }
    pub(super) fn asks_to_stop(&mut self) {
        let n = self.workers.len();
        self.stop = Some(Stopping { closed: vec![false; n], words: vec![None; n], of_the_living: 0, last: None });
        let now = self.network.now();
        for i in 0..n as u32 {
            let at = now + self.network.random().within(HEARD);
            self.trouble.push((at, Trouble::Hear(i)));
        }
    }
    /// A worker begins no more steps, if it lives.
    pub(super) fn hears_of_stop(&mut self, i: u32) {
        if let Some(stop) = self.stop.as_mut().filter(|_| !self.network.is_down(WORKER + i)) {
            stop.closed[i as usize] = true;
        }
    }
    /// How many steps a worker is to do; `None` if it has to wait until that is known.
    pub(super) fn steps_of(&self, i: usize) -> Option<u64> {
        match &self.stop {
            Some(stop) if stop.last.is_some() => stop.last,
            Some(stop) if stop.closed[i] => None,
            _ => Some(self.plan.steps),
        }
    }

    /// Workers that have heard of the stop say how far they are; when all have, the last step is known.
    pub(super) fn agree(&mut self) {
        let Some(stop) = self.stop.as_mut().filter(|s| s.last.is_none()) else { return };
        for (i, w) in self.workers.iter().enumerate() {
            if !stop.closed[i] || stop.words[i].is_some() || self.network.is_down(WORKER + i as u32) {
                continue;
            }
            stop.words[i] = match w.phase {
                Phase::Joining => w.client.joined().map(|_| w.client.steps_in_store()),
                Phase::Reading(_) | Phase::Computing(_) => Some(w.client.step() + 1),
                Phase::Creating | Phase::Settling | Phase::AtGate | Phase::Done => Some(w.client.steps_in_store()),
            };
        }
        let words: Vec<Word> = stop.words.iter().map(|w| w.map_or(Word::Awaited, Word::Steps)).collect();
        let alive = |(i, _): &(usize, &Option<u64>)| !self.network.is_down(WORKER + *i as u32);
        if stop.words.iter().enumerate().filter(alive).all(|(_, w)| w.is_some()) && words.contains(&Word::Awaited) {
            stop.of_the_living = stop.words.iter().flatten().copied().max().unwrap_or(0);
        }
        stop.last = last_step(&words);
        if stop.last.is_some() {
            (0..self.workers.len()).for_each(|i| self.progress(i));
        }
    }
    /// The step after which all workers have stopped.
    pub fn last(&self) -> Option<u64> {
        self.stop.as_ref()?.last
    }
    /// How far the dead worker was ahead of those that lived when the stop came.
    pub fn was_ahead(&self) -> u64 {
        self.stop.as_ref().map_or(0, |s| s.last.unwrap_or(0).saturating_sub(s.of_the_living))
    }
    /// Goes on from there to the end.
    pub fn resume(&mut self) {
        self.stop = None;
        for i in 0..self.workers.len() {
            self.workers[i].phase = Phase::AtGate;
            self.progress(i);
        }
        self.run_on();
    }
}
