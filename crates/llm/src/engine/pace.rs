//! How many tokens of prompts a step may take beside decoding, so that the texts of others do not falter.

use super::runner::{bucket, bucket_below};
use std::collections::BTreeMap;

/// How much longer a step that reads prompts may take than one that decodes alone.
const FACTOR: f64 = 1.8;
/// The share of a new measurement.
const NEW: f64 = 0.2;
/// Tokens before anything was measured.
const FIRST: usize = 16;

/// What steps took.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Seconds of a step that decodes alone, by the size of its program.
    decode: BTreeMap<usize, f64>,
    /// Seconds of every token more than those that decode, with what fills the program up.
    token: Option<f64>,
}

fn mixed(old: Option<f64>, new: f64) -> f64 {
    old.map_or(new, |old| old + NEW * (new - old))
}

impl Pace {
    /// Seconds of a step that decodes so many sequences: measured, or those of the next size that was.
    fn decode(&self, decodes: usize) -> Option<f64> {
        let size = bucket(decodes);
        let below = self.decode.range(..=size).next_back();
        below.or_else(|| self.decode.range(size..).next()).map(|(_, s)| *s)
    }
    /// Notes what a step took; one that compiled tells nothing.
    pub fn note(&mut self, seconds: f64, decodes: usize, prefill: usize) {
        if decodes > 0 && prefill == 0 {
            let size = bucket(decodes);
            let new = mixed(self.decode.get(&size).copied(), seconds);
            self.decode.insert(size, new);
        }
        if let Some(decode) = self.decode(decodes).filter(|_| decodes > 0 && prefill > 0) {
            let more = bucket(decodes + prefill) - decodes;
            self.token = Some(mixed(self.token, (seconds - decode).max(0.05 * decode) / more as f64));
        }
    }
    /// Tokens of prompts that the next step may take if it decodes so many sequences. They fill a program up: an empty
    /// row takes as long as one of a prompt.
    pub fn prefill_max(&self, decodes: usize) -> usize {
        let (Some(decode), Some(token)) = (self.decode(decodes), self.token) else { return FIRST };
        let more = ((FACTOR - 1.0) * decode / token).min(4096.0) as usize;
        // The next program, if no smaller one has room: prompts are read at any rate.
        let total = bucket_below(decodes + more).max(bucket(decodes + 1));
        total - decodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_take_as_long_as_decoding_does() {
        let mut p = Pace::default();
        assert_eq!(p.prefill_max(4), FIRST);
        for _ in 0..100 {
            p.note(0.010, 4, 0);
            let n = p.prefill_max(4);
            p.note(0.010 + 0.0002 * (bucket(4 + n) - 4) as f64, 4, n);
        }
        assert_eq!(p.prefill_max(4), 36, "of the 40 tokens that 8 ms have room for, as many as fill a program of 40");
        p.note(1.0, 0, 512);
        assert_eq!(p.prefill_max(4), 36, "a step that decodes nothing says nothing");
        assert_eq!(p.prefill_max(9), 39, "no step that decodes nine was measured, so that it counts as one of four");
        p.note(0.040, 9, 0);
        assert_eq!((p.prefill_max(4), p.prefill_max(9)), (36, 151), "sizes have their own times");
    }

    #[test]
    fn prompts_are_read_at_any_rate() {
        let mut p = Pace::default();
        p.note(0.001, 8, 0);
        p.note(1.0, 8, 8);
        assert_eq!(p.prefill_max(8), 8, "the next program has sixteen rows");
        assert_eq!(p.prefill_max(3), 1, "one row of the program is empty");
    }
}
