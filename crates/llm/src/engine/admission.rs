//! Whether a new request would get its first token in time, by what those before it took. Pure: times are arguments.

use std::collections::VecDeque;

/// The requests whose times count: the last ones.
const LAST: usize = 64;
/// The quantile of their times that predictions use.
const QUANTILE: f64 = 0.95;
/// The share of the target that predictions may use: the way to the client and back takes time as well.
const SHARE: f64 = 0.85;
/// Shares of the target: what the margin widens by after a late first token, what it gives back in a second, and at most.
const WIDEN: f64 = 0.1;
const GIVE_BACK: f64 = 0.04;
const MARGIN_MAX: f64 = 0.5;

/// The times of the last requests.
#[derive(Clone, Debug, Default)]
struct Times(VecDeque<f64>);

impl Times {
    fn note(&mut self, seconds: f64) {
        self.0.push_back(seconds);
        if self.0.len() > LAST {
            self.0.pop_front();
        }
    }
    /// Their quantile: one that was measured; 0 while nothing is known.
    fn quantile(&self) -> f64 {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let rank = (QUANTILE * sorted.len() as f64).ceil() as usize;
        rank.checked_sub(1).map_or(0.0, |i| sorted[i])
    }
}

/// What is left free of the target: widened fast by late first tokens, given back slowly.
#[derive(Clone, Copy, Debug, Default)]
struct Margin {
    /// Shares of the target, and when that was.
    share: f64,
    at: f64,
}

impl Margin {
    fn now(&self, now: f64) -> f64 {
        (self.share - GIVE_BACK * (now - self.at).max(0.0)).max(0.0)
    }
    fn widen(&mut self, now: f64) {
        *self = Margin { share: (self.now(now) + WIDEN).min(MARGIN_MAX), at: now };
    }
}

/// What is known of the load. Times are in seconds from any moment on.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Sequences that run at once.
    slots: usize,
    /// Seconds from arrival to the first token at most.
    target: f64,
    /// When requests ended while all slots were taken, the last ones.
    ends: VecDeque<f64>,
    /// Seconds between two ends, when they were known last.
    interval: Option<f64>,
    /// Seconds to the first token beyond those that were foreseen for a free slot, by prompts that were read at once:
    /// they share the tokens of a step.
    excess: Times,
    margin: Margin,
    /// Requests that were admitted and have no token yet.
    pending: usize,
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admitted {
    /// Seconds until a slot is free, if they could be foreseen.
    wait: Option<f64>,
    /// Prompts that are read at once, its own among them.
    readers: usize,
}

impl Admission {
    /// Nothing is known yet.
    pub fn new(slots: usize, target: f64) -> Admission {
        let (ends, excess, margin) = (VecDeque::new(), Times::default(), Margin::default());
        Admission { slots, target, ends, interval: None, excess, margin, pending: 0 }
    }
    /// Seconds in which a first token must come, so that the client has it in time.
    pub fn first_within(&self) -> f64 {
        SHARE * self.target
    }
    /// Notes that the first token of a request came `seconds` after its arrival, or its end without one.
    pub fn note_first(&mut self, now: f64, seconds: f64, request: Admitted) {
        self.pending = self.pending.saturating_sub(1);
        if seconds > self.first_within() {
            self.margin.widen(now);
        }
        if let Some(wait) = request.wait {
            self.excess.note((seconds - wait).max(0.0) / request.readers as f64);
        }
    }
    /// Notes that a request was refused after it had waited: its first token could no longer come in time.
    pub fn note_refused(&mut self, now: f64) {
        self.pending = self.pending.saturating_sub(1);
        self.margin.widen(now);
    }
    /// Notes that a request ended; `open` were open with it.
    pub fn note_end(&mut self, now: f64, open: usize) {
        if open < self.slots {
            return self.ends.clear();
        }
        self.ends.push_back(now);
        if self.ends.len() > 4 * self.slots + 1 {
            self.ends.pop_front();
        }
        if let (Some(first), Some(last)) = (self.ends.front(), self.ends.back())
            && self.ends.len() > self.slots.min(4)
        {
            self.interval = Some((last - first) / (self.ends.len() - 1) as f64);
        }
    }
    /// Admits a request that arrives when `open` are open, if it gets its first token in time: by the rate at which slots
    /// become free, a quantile of what the last prompts took beyond that, as many times as prompts are read at once, and the
    /// margin.
    pub fn admit(&mut self, now: f64, open: usize) -> Option<Admitted> {
        let ahead = (open + 1).saturating_sub(self.slots);
        // Those that wait for a slot are not read yet.
        let readers = (self.pending + 1).saturating_sub(ahead).max(1);
        let reading = self.excess.quantile() * readers as f64;
        let room = self.first_within() - reading - self.margin.now(now) * self.target;
        let (is_admitted, wait) = match self.interval {
            // One prompt at a time is read at any rate; otherwise the rate would stay unknown after the load has gone.
            _ if ahead == 0 => (room >= 0.0 || self.pending == 0, Some(0.0)),
            Some(interval) => (ahead as f64 * interval <= room, Some(ahead as f64 * interval)),
            // Until that is known, few wait.
            None => (room >= 0.0 && ahead <= self.slots.div_ceil(4), None),
        };
        self.pending += usize::from(is_admitted);
        is_admitted.then_some(Admitted { wait, readers })
    }
}

/// What reading a prompt takes, from its first step to the first token.
#[derive(Clone, Debug, Default)]
pub struct Reading(Times);

impl Reading {
    /// Notes the seconds of one.
    pub fn note(&mut self, seconds: f64) {
        self.0.note(seconds);
    }
    /// Whether a request that has waited so many seconds, and whose prompt is not being read, would get its first token
    /// too late.
    pub fn is_late(&self, waited: f64, within: f64) -> bool {
        waited + self.0.quantile() > within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_would_wait_too_long_are_refused() {
        let mut a = Admission::new(4, 2.0);
        let admits = |a: &Admission, now: f64, open: usize| a.clone().admit(now, open).is_some();
        assert!((0..5).all(|open| admits(&a, 0.0, open)) && !admits(&a, 0.0, 5), "one waits while nothing is known");
        a.note_first(0.0, 0.5, Admitted { wait: Some(0.0), readers: 1 });
        (0..9).for_each(|i| a.note_end(0.25 * i as f64, 6));
        // One ends in a quarter of a second, and the first token comes half a second after that.
        assert!(admits(&a, 2.0, 3 + 4) && !admits(&a, 2.0, 3 + 5), "1.2 s have room for four");
        a.note_first(2.0, 1.5, Admitted { wait: Some(0.5), readers: 1 });
        assert!(admits(&a, 2.0, 3 + 2) && !admits(&a, 2.0, 3 + 3), "0.7 s have room for two");
        a.note_end(3.0, 3);
        assert!(admits(&a, 3.0, 3 + 2) && !admits(&a, 3.0, 3 + 3), "the rate is the last one that was known");
        (0..LAST).for_each(|_| a.note_first(4.0, 0.3, Admitted { wait: Some(0.0), readers: 1 }));
        assert!(admits(&a, 4.0, 3 + 5) && !admits(&a, 4.0, 3 + 6), "the load has gone");
    }

    #[test]
    fn late_first_tokens_widen_the_margin_at_once_and_it_is_given_back_slowly() {
        let mut m = Margin::default();
        m.widen(1.0);
        m.widen(1.0);
        assert_eq!(m.now(1.0), 2.0 * WIDEN);
        assert!((m.now(2.0) - (2.0 * WIDEN - GIVE_BACK)).abs() < 1e-12);
        assert_eq!(m.now(100.0), 0.0);
        (0..100).for_each(|_| m.widen(2.0));
        assert_eq!(m.now(2.0), MARGIN_MAX, "some are admitted at any rate");
        let mut a = Admission::new(1, 1.0);
        let request = a.admit(0.0, 0).unwrap();
        a.note_refused(0.0);
        assert_eq!((a.pending, a.margin.now(0.0)), (0, WIDEN));
        a.note_first(0.0, 0.9, request);
        assert_eq!(a.margin.now(0.0), 2.0 * WIDEN);
    }

    #[test]
    fn a_quantile_is_a_time_that_was_measured() {
        let mut t = Times::default();
        assert_eq!(t.quantile(), 0.0);
        t.note(3.0);
        assert_eq!(t.quantile(), 3.0);
        (1..=20).for_each(|i| t.note(f64::from(i)));
        assert_eq!(t.quantile(), 19.0, "of 21, all but one");
        (0..LAST).for_each(|_| t.note(1.0));
        assert_eq!((t.quantile(), t.0.len()), (1.0, LAST));
    }

    #[test]
    fn prompts_that_take_longer_than_the_target_are_read_one_by_one() {
        let mut a = Admission::new(4, 1.0);
        let one = a.admit(0.0, 0).unwrap();
        a.note_first(3.0, 3.0, one);
        let next = a.admit(3.0, 0).unwrap();
        assert!(a.admit(3.0, 1).is_none(), "another has no token yet");
        a.note_first(3.5, 0.5, next);
        assert!(a.admit(3.5, 0).is_some());
    }

    /// A seeded simulation of an engine with continuous batching: sequences that run have a token a step, and prompts are
    /// read in chunks beside them.
    struct Server {
        state: u64,
        now: f64,
        /// How much slower a step is from now on.
        slow: f64,
        waiting: VecDeque<Sequence>,
        running: Vec<Sequence>,
        reading: Reading,
        admission: Option<Admission>,
        firsts: Vec<f64>,
        refused_late: usize,
        done: usize,
    }
    struct Sequence {
        arrived: f64,
        began: f64,
        prompt: usize,
        tokens: usize,
        admitted: Option<Admitted>,
    }
    const SLOTS: usize = 8;
    const TOKENS: usize = 32;

    impl Server {
        fn new(seed: u64, admission: Option<Admission>) -> Server {
            let (waiting, running, firsts) = (VecDeque::new(), Vec::new(), Vec::new());
            let (now, slow, reading) = (0.0, 1.0, Reading::default());
            let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            Server { state, now, slow, waiting, running, reading, admission, firsts, refused_late: 0, done: 0 }
        }
        /// A random number between 0 and 1.
        fn random(&mut self) -> f64 {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            (self.state >> 11) as f64 / (1u64 << 53) as f64
        }
        /// A request arrives; whether it was admitted.
        fn arrive(&mut self, arrived: f64) -> bool {
            let open = self.waiting.len() + self.running.len();
            let admitted = self.admission.as_mut().map(|a| a.admit(arrived, open));
            if admitted == Some(None) {
                return false;
            }
            let prompt = 40 + (self.random() * 80.0) as usize;
            self.waiting.push_back(Sequence { arrived, began: 0.0, prompt, tokens: 0, admitted: admitted.flatten() });
            true
        }
        fn step(&mut self) {
            if let Some(a) = self.admission.as_mut().filter(|_| self.running.len() == SLOTS) {
                let within = a.first_within();
                let before = self.waiting.len();
                self.waiting.retain(|s| !self.reading.is_late(self.now - s.arrived, within));
                (self.waiting.len()..before).for_each(|_| a.note_refused(self.now));
                self.refused_late += before - self.waiting.len();
            }
            while self.running.len() < SLOTS {
                let Some(s) = self.waiting.pop_front() else { break };
                self.running.push(Sequence { began: self.now, ..s });
            }
            let mut chunk = 32;
            let mut work = 0;
            for s in &mut self.running {
                let read = s.prompt.min(chunk);
                (s.prompt, chunk) = (s.prompt - read, chunk - read);
                work += read.max(1);
            }
            // Most steps vary by a fifth; some stall, as when another program has the processor.
            let noise = 0.8 + 0.4 * self.random();
            let stall = if self.random() < 0.01 { 0.05 * self.random() } else { 0.0 };
            self.now += self.slow * (0.004 + 0.0003 * work as f64) * noise + stall;
            let (now, open) = (self.now, self.waiting.len() + self.running.len());
            for s in self.running.iter_mut().filter(|s| s.prompt == 0) {
                s.tokens += 1;
                if s.tokens == 1 {
                    self.firsts.push(now - s.arrived);
                    self.reading.note(now - s.began);
                    if let (Some(a), Some(admitted)) = (&mut self.admission, s.admitted) {
                        a.note_first(now, now - s.arrived, admitted);
                    }
                }
            }
            let before = self.running.len();
            self.running.retain(|s| s.tokens < TOKENS);
            for n in 0..before - self.running.len() {
                self.done += 1;
                self.admission.iter_mut().for_each(|a| a.note_end(now, open - n));
            }
        }
    }

    /// Requests a second with all slots taken.
    fn saturation() -> f64 {
        let mut s = Server::new(1, None);
        while s.now < 60.0 {
            while s.waiting.len() + s.running.len() < SLOTS {
                s.arrive(s.now);
            }
            s.step();
        }
        s.done as f64 / s.now
    }

    #[test]
    fn accepted_requests_keep_their_target_at_twice_the_saturation_load() {
        let rate = saturation();
        for (seed, target, slow) in [(3, 0.5, 1.0), (4, 1.0, 1.0), (5, 0.5, 1.6), (6, 1.0, 2.0), (7, 0.3, 1.0)] {
            let mut s = Server::new(seed, Some(Admission::new(SLOTS, target)));
            let (mut next, mut offered) = (0.0, 0);
            while s.now < 120.0 {
                // In the middle third everything is slower.
                s.slow = if (40.0..80.0).contains(&s.now) { slow } else { 1.0 };
                while next <= s.now {
                    s.arrive(next);
                    offered += 1;
                    next -= (1.0 - s.random()).ln() / (2.0 * rate);
                }
                if s.waiting.is_empty() && s.running.is_empty() {
                    s.now = next;
                }
                s.step();
            }
            let in_time = s.firsts.iter().filter(|t| **t <= target).count() as f64 / s.firsts.len() as f64;
            let answered = s.done as f64 / s.now / rate;
            let what = format!(
                "seed {seed}: {in_time:.4} of {} in time, {answered:.3} answered, {} of {offered} refused late",
                s.firsts.len(),
                s.refused_late
            );
            assert!(in_time >= 0.99, "{what}");
            assert!(answered >= 0.6, "{what}");
            assert!(s.refused_late * 20 <= offered, "{what}");
            println!("{what}");
        }
    }

    /// Eight prompts that came together once counted as what a prompt takes: one at a time was admitted, until 64 others were
    /// read; then many at once, which were late.
    #[test]
    fn prompts_that_are_read_at_once_share_their_time() {
        let mut a = Admission::new(8, 1.0);
        let together: Vec<Admitted> = (0..8).map(|open| a.admit(0.0, open).unwrap()).collect();
        for (i, request) in together.into_iter().enumerate() {
            let seconds = 0.12 * (i + 1) as f64;
            a.note_first(seconds, seconds, request);
        }
        // The last one was late; its margin is given back.
        let count = |a: &Admission| {
            let mut a = a.clone();
            (0..8).take_while(|open| a.admit(10.0, *open).is_some()).count()
        };
        assert_eq!(count(&a), 7, "an eighth would be read after 0.96 s");
        for _ in 0..LAST {
            let request = a.admit(10.0, 0).unwrap();
            a.note_first(10.0, 0.12, request);
        }
        assert_eq!(count(&a), 7);
    }
}
