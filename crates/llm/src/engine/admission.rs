//! Whether a new request would get its first token in time, by what those before it took. Pure: times are arguments.

use std::collections::VecDeque;

/// The requests whose times count: the last ones.
const LAST: usize = 32;
/// The share of the target that predictions may use: the way to the client and back takes time as well.
const SHARE: f64 = 0.9;

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
    /// Seconds to the first token beyond those that were foreseen for a free slot, of the last requests.
    first: VecDeque<f64>,
    /// Requests that were admitted and have no token yet.
    pending: usize,
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admitted {
    /// Seconds until a slot is free, if they could be foreseen.
    wait: Option<f64>,
}

impl Admission {
    /// Nothing is known yet.
    pub fn new(slots: usize, target: f64) -> Admission {
        let (ends, first) = (VecDeque::new(), VecDeque::new());
        Admission { slots, target, ends, interval: None, first, pending: 0 }
    }
    /// Notes the first token of a request, or its end without one.
    pub fn note_first(&mut self, seconds: f64, request: Admitted) {
        self.pending = self.pending.saturating_sub(1);
        let Some(wait) = request.wait else { return };
        self.first.push_back((seconds - wait).max(0.0));
        if self.first.len() > LAST {
            self.first.pop_front();
        }
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
    /// Admits a request that arrives when `open` are open, if it gets its first token in time: by the slowest of the
    /// last ones, which had the load of now.
    pub fn admit(&mut self, open: usize) -> Option<Admitted> {
        let first = self.first.iter().fold(0.0, |m: f64, x| m.max(*x));
        let room = SHARE * self.target - first;
        let ahead = (open + 1).saturating_sub(self.slots);
        let (is_admitted, wait) = match self.interval {
            // One prompt at a time is read at any rate; otherwise the rate would stay unknown after the load has gone.
            _ if ahead == 0 => (room >= 0.0 || self.pending == 0, Some(0.0)),
            Some(interval) => (ahead as f64 * interval <= room, Some(ahead as f64 * interval)),
            // Until that is known, few wait.
            None => (room >= 0.0 && ahead <= self.slots.div_ceil(4), None),
        };
        self.pending += usize::from(is_admitted);
        is_admitted.then_some(Admitted { wait })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_would_wait_too_long_are_refused() {
        let mut a = Admission::new(4, 2.0);
        let admits = |a: &Admission, open: usize| a.clone().admit(open).is_some();
        assert!((0..5).all(|open| admits(&a, open)) && !admits(&a, 5), "one waits while nothing is known");
        a.note_first(90.0, Admitted { wait: None });
        a.note_first(0.5, Admitted { wait: Some(0.0) });
        (0..9).for_each(|i| a.note_end(0.25 * i as f64, 6));
        // One ends in a quarter of a second, and the first token comes half a second after that.
        assert!(admits(&a, 3 + 5) && !admits(&a, 3 + 6), "1.3 s have room for five");
        // Those who were admitted took longer than was foreseen.
        a.note_first(1.75, Admitted { wait: Some(0.5) });
        assert!(admits(&a, 3 + 2) && !admits(&a, 3 + 3), "0.55 s have room for two");
        a.note_end(3.0, 3);
        assert!(admits(&a, 3 + 2) && !admits(&a, 3 + 3), "the rate is the last one that was known");
        (0..LAST).for_each(|_| a.note_first(0.3, Admitted { wait: Some(0.0) }));
        assert!(admits(&a, 3 + 6) && !admits(&a, 3 + 7), "the load has gone");
    }

    #[test]
    fn prompts_that_take_longer_than_the_target_are_read_one_by_one() {
        let mut a = Admission::new(4, 1.0);
        let one = a.admit(0).unwrap();
        a.note_first(3.0, one);
        let next = a.admit(0).unwrap();
        assert!(a.admit(1).is_none(), "another has no token yet");
        a.note_first(0.5, next);
        assert!(a.admit(1).is_some());
    }
}
