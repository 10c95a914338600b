//! The margin: how much of the latency target admission keeps free, because answers come later than expected. A pure state
//! machine: time is an argument.
//!
//! Latency counts from end to end, from the last byte of a request in the socket to the write of its answer. So whatever
//! the estimate of the queue leaves out (threads that are kept from running, a slow model, a slow neighbor) widens the
//! margin. It widens at once and is given back slowly: what went wrong under this load goes wrong again.

/// Answers of which too large a share must be late before the margin widens.
const WINDOW: u32 = 256;
/// The margin widens by one of so many parts of the target.
const STEP_PARTS: f64 = 10.0;
/// It widens by twice that while more than one of so many answers is late.
const MANY_PARTS: u32 = 10;
/// The part of the margin that is given back in a second.
const GIVEN_BACK: f64 = 0.05;

/// An answer that was written, or as good as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// When the request came.
    pub arrived_us: u64,
    /// When its answer was written.
    pub written_us: u64,
    /// Whether a wider margin would have refused it. A request that is late although it hardly waited for others says
    /// nothing about the margin.
    pub is_refusable: bool,
}

/// The margin of one queue.
#[derive(Clone, Debug, Default)]
pub struct Margin {
    us: f64,
    seen: u32,
    late: u32,
    /// Requests that came before the margin last widened say nothing about it.
    since_us: u64,
    /// When some of it was given back last.
    given_us: u64,
}

impl Margin {
    /// Counts an answer. `late_permille` of the answers may take longer than `target_us`. Returns the margin.
    pub fn record(&mut self, answer: Written, target_us: u64, late_permille: u32) -> u64 {
        let now_us = answer.written_us;
        let seconds = now_us.saturating_sub(self.given_us) as f64 / 1e6;
        self.given_us = self.given_us.max(now_us);
        self.us *= (-GIVEN_BACK * seconds).exp();
        if answer.arrived_us >= self.since_us {
            let is_late = answer.is_refusable && now_us.saturating_sub(answer.arrived_us) > target_us;
            (self.seen, self.late) = (self.seen + 1, self.late + u32::from(is_late));
            if u64::from(self.late) * 1000 > u64::from(self.seen.max(WINDOW)) * u64::from(late_permille) {
                let steps = if self.late * MANY_PARTS > self.seen { 2.0 } else { 1.0 };
                self.us = (self.us + steps * target_us as f64 / STEP_PARTS).min(target_us as f64);
                (self.seen, self.late, self.since_us) = (0, 0, now_us);
            } else if self.seen >= WINDOW {
                (self.seen, self.late) = (0, 0);
            }
        }
        self.us as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET_US: u64 = 20_000;

    fn answer(now_us: u64, took_us: u64) -> Written {
        Written { arrived_us: now_us - took_us, written_us: now_us, is_refusable: true }
    }

    #[test]
    fn it_widens_at_once_and_is_given_back_slowly() {
        let mut margin = Margin::default();
        let record = |m: &mut Margin, a| m.record(a, TARGET_US, 10);
        (0..1000).for_each(|i| assert_eq!(record(&mut margin, answer(1_000_000 + i, 19_000)), 0));
        // Two of 256 are fewer than one of 100.
        assert_eq!(record(&mut margin, answer(1_001_000, 30_000)), 0);
        assert_eq!(record(&mut margin, answer(1_001_001, 30_000)), 0);
        assert_eq!(record(&mut margin, answer(1_001_002, 30_000)), 2_000);
        // Those that were admitted before do not count.
        (0..500).for_each(|i| assert!(record(&mut margin, answer(1_001_003 + i, 30_000)) >= 1_999));
        assert!(record(&mut margin, answer(1_031_003, 30_000)) < 2_000);
        // All of those after are late: it widens faster.
        assert!(record(&mut margin, answer(1_031_004, 30_000)) < 2_000);
        assert!((5_900..6_000).contains(&record(&mut margin, answer(1_031_005, 30_000))));
        // A second in time gives back a twentieth, and half of it takes 14.
        assert!((5_650..5_750).contains(&record(&mut margin, answer(2_031_005, 10_000))));
        assert!((2_900..3_100).contains(&record(&mut margin, answer(14_900_000, 10_000))));
    }

    #[test]
    fn it_is_at_most_the_target_and_unavoidable_lateness_does_not_widen_it() {
        let mut margin = Margin::default();
        for i in 0..10_000u64 {
            let late = Written { is_refusable: false, ..answer(1_000_000 + i * 1_000, 50_000) };
            assert_eq!(margin.record(late, TARGET_US, 10), 0);
        }
        for i in 0..10_000u64 {
            assert!(margin.record(answer(20_000_000 + i * 1_000, 50_000), TARGET_US, 10) <= TARGET_US);
        }
        assert!(margin.us > 0.9 * TARGET_US as f64);
    }
}
