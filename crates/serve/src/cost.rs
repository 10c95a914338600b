//! The cost curve: how long a batch takes, by its size, as measured while serving.

use std::collections::BTreeMap;

/// Time of one batch size, smoothed as TCP smooths round trips.
#[derive(Clone, Copy, Debug)]
struct Point {
    mean_us: f64,
    deviation_us: f64,
    /// Whether it was measured once: the first run of a program also pays for memory that later ones find.
    is_first: bool,
}

/// Time of a batch by its size.
#[derive(Clone, Debug, Default)]
pub struct CostCurve {
    points: BTreeMap<usize, Point>,
}

/// A measurement counts as at most so many times the mean. A thread that was kept from running once says little, and a
/// model that became slower is known after a few batches all the same.
const OUTLIER: f64 = 4.0;
/// Batches of other sizes after which most of what a size seemed to cost in excess is forgotten.
const MEMORY: f64 = 256.0;

impl CostCurve {
    /// Adds a measurement.
    pub fn record(&mut self, size: usize, us: u64) {
        let us = us as f64;
        self.forget(size, us);
        match self.points.get_mut(&size) {
            None => drop(self.points.insert(size, Point { mean_us: us, deviation_us: us / 8.0, is_first: true })),
            Some(p) if p.is_first => {
                let mean_us = us.min(p.mean_us);
                *p = Point { mean_us, deviation_us: mean_us / 8.0, is_first: false };
            }
            Some(p) => {
                let us = us.min(OUTLIER * p.mean_us.max(1.0));
                p.deviation_us += ((us - p.mean_us).abs() - p.deviation_us) / 4.0;
                p.mean_us += (us - p.mean_us) / 8.0;
            }
        }
    }

    /// Lets other sizes come down to what this measurement suggests: a larger batch costs no more than in proportion, a
    /// smaller one no more than this. A size that seems too expensive does not run, so nothing else would correct it.
    fn forget(&mut self, size: usize, us: f64) {
        for (other, p) in self.points.iter_mut().filter(|(other, _)| **other != size) {
            let likely_us = us * (*other as f64 / size.max(1) as f64).max(1.0);
            if p.mean_us + 2.0 * p.deviation_us > likely_us {
                p.mean_us -= (p.mean_us - likely_us).max(0.0) / MEMORY;
                p.deviation_us -= p.deviation_us / MEMORY;
            }
        }
    }

    /// The time that a batch of this size rarely exceeds: the mean and two deviations. Sizes between two measured ones
    /// are interpolated, larger ones grow in proportion, smaller ones cost what the least costs. `None` before the
    /// first measurement.
    pub fn estimate_us(&self, size: usize) -> Option<u64> {
        self.at(size, |p| p.mean_us + 2.0 * p.deviation_us)
    }

    /// The time that a batch of this size takes on average, and by how much it rarely exceeds that.
    pub fn mean_and_spread_us(&self, size: usize) -> Option<(u64, u64)> {
        Some((self.at(size, |p| p.mean_us)?, self.at(size, |p| 2.0 * p.deviation_us)?))
    }

    fn at(&self, size: usize, cost: impl Fn(&Point) -> f64) -> Option<u64> {
        let above = self.points.range(size..).next();
        let below = self.points.range(..size).next_back();
        let us = match (below, above) {
            (_, Some((&s, p))) if s == size => cost(p),
            (Some((&a, p)), Some((&b, q))) => cost(p) + (cost(q) - cost(p)) * (size - a) as f64 / (b - a) as f64,
            (None, Some((_, q))) => cost(q),
            (Some((&a, p)), None) => cost(p) * size as f64 / a.max(1) as f64,
            (None, None) => return None,
        };
        Some(us.max(0.0) as u64)
    }

    /// What the cheapest batch takes; 0 before the first measurement.
    pub fn floor_us(&self) -> u64 {
        let least = self.points.values().map(|p| p.mean_us).fold(f64::INFINITY, f64::min);
        if least.is_finite() { least.max(0.0) as u64 } else { 0 }
    }

    /// The largest size up to `size_max` whose cost stays within `budget_us`; at least 1. Unmeasured curves allow all. A
    /// size that costs hardly more than the cheapest one always fits: a smaller batch would lose throughput and win no
    /// time.
    pub fn size_within(&self, budget_us: u64, size_max: usize) -> usize {
        let budget_us = budget_us.max(self.floor_us() * 3 / 2);
        let fits = |s: usize| self.estimate_us(s).is_none_or(|us| us <= budget_us);
        if fits(size_max) {
            return size_max.max(1);
        }
        // The curve need not be monotone, but where it is not, a smaller batch is as good.
        let (mut low, mut high) = (1, size_max.max(1));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_lie_between_measurements() {
        let mut curve = CostCurve::default();
        assert_eq!(curve.estimate_us(4), None);
        assert_eq!(curve.size_within(10, 32), 32);
        for _ in 0..100 {
            curve.record(1, 100);
            curve.record(9, 500);
        }
        assert_eq!(curve.estimate_us(1), Some(100));
        assert_eq!(curve.estimate_us(5), Some(300));
        assert_eq!(curve.estimate_us(18), Some(1000));
        assert_eq!(curve.size_within(300, 64), 5);
        assert_eq!((curve.floor_us(), curve.size_within(10, 64)), (100, 2), "hardly more than a row alone");
        assert_eq!(curve.size_within(1000, 64), 18);
    }

    #[test]
    fn the_first_run_does_not_count_if_the_second_is_faster() {
        let mut curve = CostCurve::default();
        curve.record(1, 9_000);
        curve.record(1, 1_000);
        assert_eq!(curve.floor_us(), 1_000);
    }

    /// One slow batch of 32 rows once made every later batch smaller: the size never ran again, so its cost was never
    /// corrected.
    #[test]
    fn a_size_that_was_slow_once_is_tried_again() {
        let mut curve = CostCurve::default();
        for _ in 0..20 {
            curve.record(16, 1_000);
            curve.record(32, 1_900);
        }
        for _ in 0..8 {
            curve.record(32, 60_000);
        }
        let is_allowed = |curve: &CostCurve| curve.size_within(11_000, 32) == 32;
        assert!(!is_allowed(&curve));
        let batches = (0..2_000).take_while(|_| {
            curve.record(16, 1_000);
            !is_allowed(&curve)
        });
        assert!((50..1_500).contains(&batches.count()));
        // It is as slow as before: a few batches say so.
        let again = (0..20).take_while(|_| {
            curve.record(32, 60_000);
            is_allowed(&curve)
        });
        assert!(again.count() <= 2);
    }

    #[test]
    fn one_slow_batch_is_no_trend_but_several_are() {
        let mut curve = CostCurve::default();
        (0..50).for_each(|_| curve.record(8, 1_000));
        curve.record(8, 50_000);
        assert!(curve.estimate_us(8).unwrap() < 4_000, "{:?}", curve.estimate_us(8));
        (0..20).for_each(|_| curve.record(8, 50_000));
        assert!(curve.estimate_us(8).unwrap() > 40_000);
    }

    #[test]
    fn scattered_times_are_estimated_high() {
        let mut curve = CostCurve::default();
        for i in 0..200 {
            curve.record(1, if i % 2 == 0 { 50 } else { 150 });
        }
        let us = curve.estimate_us(1).unwrap();
        assert!((150..=260).contains(&us), "{us}");
    }
}
