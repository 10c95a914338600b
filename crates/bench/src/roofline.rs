//! How near a workload comes to what the machine can do: its operations and bytes against the
//! peaks measured in the same process.

use crate::harness::Times;
use runtime::trace::{Event, Memory, Recording};

/// What one call does, region by region.
#[derive(Clone, Copy, Default)]
pub struct Work {
    /// Operations on numbers: two for each multiplication and addition of a product; of a
    /// convolution as if computed directly; one for each element and elementwise op.
    pub flops: f64,
    /// Bytes that regions read and write.
    pub bytes: f64,
    /// The memory planned for the program that needs most.
    pub memory: Memory,
}

impl Work {
    /// Sums up a call. Regions that contain others (loops with turns) only repeat what those do.
    pub fn of(recording: &Recording) -> Work {
        let mut order: Vec<&Event> = recording.events.iter().collect();
        order.sort_by(|a, b| {
            a.thread
                .cmp(&b.thread)
                .then(a.start_us.total_cmp(&b.start_us))
                .then(b.duration_us.total_cmp(&a.duration_us))
        });
        let mut work = Work { memory: recording.memory, ..Work::default() };
        for (i, e) in order.iter().enumerate() {
            let next = order.get(i + 1).filter(|n| n.thread == e.thread);
            if next.is_none_or(|n| n.start_us >= e.start_us + e.duration_us) {
                work.flops += e.region.flops as f64;
                work.bytes += e.region.bytes as f64;
            }
        }
        work
    }
    /// The work of one of `n` parts.
    pub fn divided(self, n: f64) -> Work {
        Work { flops: self.flops / n, bytes: self.bytes / n, ..self }
    }
}

/// Rates, the peaks, and the percentage of the nearer one. The bandwidth is that of a copy over as
/// many bytes as the workload has in memory: a small one lives in the caches.
pub fn report(times: &Times) -> serde_json::Value {
    let (work, s) = (times.work, times.median() / 1e3);
    let (gflops, gbs) = (work.flops / s / 1e9, work.bytes / s / 1e9);
    let peak_gflops = cpu::peak::flops() / 1e9;
    let peak_gbs = cpu::peak::bandwidth(work.memory.peak()) / 1e9;
    let (of_flops, of_bytes) = (100.0 * gflops / peak_gflops, 100.0 * gbs / peak_gbs);
    let nearer = if of_flops >= of_bytes { "flops" } else { "bandwidth" };
    let round = |x: f64| (x * 10.0).round() / 10.0;
    serde_json::json!({
        "percent": round(of_flops.max(of_bytes)), "of": nearer, "gflops": round(gflops), "gb_s": round(gbs),
        "peak_gflops": round(peak_gflops), "peak_gb_s": round(peak_gbs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::trace::Region;
    use std::sync::Arc;

    #[test]
    fn loops_count_by_their_turns() {
        let event = |flops, bytes, start_us, duration_us| Event {
            region: Arc::new(Region { flops, bytes, ..Region::default() }),
            start_us,
            duration_us,
            thread: 1,
        };
        let events =
            vec![event(9, 900, 0.0, 10.0), event(1, 10, 1.0, 2.0), event(2, 20, 4.0, 2.0), event(4, 40, 10.0, 1.0)];
        let work = Work::of(&Recording { events, memory: Memory::default() });
        assert_eq!((work.flops, work.bytes), (7.0, 70.0));
    }
}
