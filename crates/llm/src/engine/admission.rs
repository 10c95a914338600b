//! Whether a new request would get its first token in time, by what those before it took. Pure: times are arguments.

use std::collections::VecDeque;

/// The share of a new measurement.
const NEW: f64 = 0.2;

/// What is known of the load. Times are in seconds from any moment on.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Sequences that run at once.
    slots: usize,
    /// Seconds from arrival to the first token at most.
    target: f64,
    /// When requests ended while others waited, the last ones.
    ends: VecDeque<f64>,
    /// Seconds to the first token of requests that did not wait.
    first: Option<f64>,
}

impl Admission {
    /// Nothing is known yet.
    pub fn new(slots: usize, target: f64) -> Admission {
        Admission { slots, target, ends: VecDeque::new(), first: None }
    }
    /// Notes the first token of a request that arrived when `open` others were open.
    pub fn note_first(&mut self, seconds: f64, open: usize) {
        if open < self.slots {
            self.first = Some(self.first.map_or(seconds, |old| old + NEW * (seconds - old)));
        }
    }
    /// Notes that a request ended; `open` were open with it.
    pub fn note_end(&mut self, now: f64, open: usize) {
        if open <= self.slots {
            return self.ends.clear();
        }
        self.ends.push_back(now);
        if self.ends.len() > 4 * self.slots + 1 {
            self.ends.pop_front();
        }
    }
    /// Seconds between two ends, if enough were seen.
    fn interval(&self) -> Option<f64> {
        let (first, last) = (self.ends.front()?, self.ends.back()?);
        (self.ends.len() > self.slots.min(4)).then(|| (last - first) / (self.ends.len() - 1) as f64)
    }
    /// Whether a request that arrives when `open` are open gets its first token in time.
    pub fn admits(&self, open: usize) -> bool {
        if open < self.slots {
            return true;
        }
        let ahead = open - self.slots + 1;
        match self.interval() {
            Some(interval) => ahead as f64 * interval + self.first.unwrap_or(0.0) <= self.target,
            // Until that is known, few wait.
            None => ahead <= self.slots.div_ceil(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_would_wait_too_long_are_refused() {
        let mut a = Admission::new(4, 2.0);
        assert!((0..5).all(|open| a.admits(open)) && !a.admits(5), "one waits while nothing is known");
        (0..20).for_each(|_| a.note_first(0.5, 1));
        a.note_first(90.0, 4);
        (0..9).for_each(|i| a.note_end(0.25 * i as f64, 6));
        // One ends in a quarter of a second, and the first token comes half a second after that.
        assert!(a.admits(4 + 5) && !a.admits(4 + 6), "1.5 s have room for six");
        a.note_end(3.0, 4);
        assert!(a.admits(4) && !a.admits(5), "nobody waited, so the rate is not known");
    }
}
