//! Where the time of a run went: by region and by the user's line.

use crate::trace::{Event, Memory, Recording, Region, record};
use ir::Site;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What one region took, all its runs together.
#[derive(Clone, Debug)]
pub struct Share {
    /// The region.
    pub region: Arc<Region>,
    /// How often it ran.
    pub runs: usize,
    /// Time spent in it and not in regions inside it.
    pub self_us: f64,
}

/// Times of regions and lines.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Profile {
    /// Regions, the costliest first.
    pub regions: Vec<Share>,
    /// Microseconds of each line of the user's program, the costliest first. A region's time is
    /// shared among its lines by how many of its ops each has.
    pub lines: Vec<(Site, f64)>,
    /// Everything together.
    pub total_us: f64,
    /// The memory of the program that needed most, as planned.
    pub memory: Memory,
}

/// Runs `f` and says where the time went, whatever ran it: tensors that were looked at, sessions
/// or jitted functions. Time spent in the program itself is not counted.
///
/// ```
/// let (_, profile) = talweg_runtime::profile(|| 1 + 1);
/// assert!(profile.regions.is_empty());
/// ```
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Profile) {
    let (r, recording) = record(f);
    (r, Profile::new(&recording))
}

impl Profile {
    /// Sums up what ran.
    pub fn new(recording: &Recording) -> Profile {
        let events = &recording.events;
        let mut at: FxHashMap<*const Region, usize> = FxHashMap::default();
        let mut regions: Vec<Share> = Vec::new();
        let mut lines: BTreeMap<(&'static str, u32, u32), (Site, f64)> = BTreeMap::new();
        let mut total_us = 0.0;
        for (e, self_us) in events.iter().zip(self_times(events)) {
            let i = *at.entry(Arc::as_ptr(&e.region)).or_insert_with(|| {
                regions.push(Share { region: e.region.clone(), runs: 0, self_us: 0.0 });
                regions.len() - 1
            });
            regions[i].runs += 1;
            regions[i].self_us += self_us;
            total_us += self_us;
            for (site, part) in &e.region.lines {
                let key = (site.file, site.line, site.column);
                lines.entry(key).or_insert((*site, 0.0)).1 += self_us * part;
            }
        }
        regions.sort_by(|a, b| b.self_us.total_cmp(&a.self_us));
        let mut lines: Vec<(Site, f64)> = lines.into_values().collect();
        lines.sort_by(|a, b| b.1.total_cmp(&a.1));
        Profile { regions, lines, total_us, memory: recording.memory }
    }
}

/// Each event's time without that of the events inside it on the same thread.
fn self_times(events: &[Event]) -> Vec<f64> {
    let mut own: Vec<f64> = events.iter().map(|e| e.duration_us).collect();
    let mut order: Vec<usize> = (0..events.len()).collect();
    // The outer of two that begin together is the longer one.
    order.sort_by(|&a, &b| {
        let (a, b) = (&events[a], &events[b]);
        (a.thread.cmp(&b.thread)).then(a.start_us.total_cmp(&b.start_us)).then(b.duration_us.total_cmp(&a.duration_us))
    });
    let mut open: Vec<usize> = Vec::new();
    for i in order {
        let e = &events[i];
        while let Some(&o) = open.last() {
            let outer = &events[o];
            if outer.thread == e.thread && e.start_us < outer.start_us + outer.duration_us {
                own[o] -= e.duration_us;
                break;
            }
            open.pop();
        }
        open.push(i);
    }
    own.iter().map(|t| t.max(0.0)).collect()
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |us: f64| 100.0 * us / self.total_us.max(1e-9);
        writeln!(f, "{:>9} {:>6} {:>8} {:>7} {:>9}  region", "ms", "%", "runs", "GB/s", "GFLOP/s")?;
        for s in &self.regions {
            // Bytes or operations a microsecond are millions a second.
            let rate = |n: usize| (n * s.runs) as f64 / s.self_us.max(1e-9) / 1e3;
            let lines: Vec<String> = s.region.lines.iter().map(|(l, _)| format!("{}:{}", l.file, l.line)).collect();
            let (ms, part) = (s.self_us / 1e3, share(s.self_us));
            let (gb, gf) = (rate(s.region.bytes), rate(s.region.flops));
            writeln!(f, "{ms:9.3} {part:6.1} {:8} {gb:7.1} {gf:9.1}  {} | {}", s.runs, s.region.name, lines.join(" "))?;
        }
        writeln!(f, "{:>9} {:>6}  line", "ms", "%")?;
        for (site, us) in &self.lines {
            writeln!(f, "{:9.3} {:6.1}  {site}", us / 1e3, share(*us))?;
        }
        let m = &self.memory;
        let mb = |bytes: usize| bytes as f64 / (1 << 20) as f64;
        writeln!(
            f,
            "memory planned: {:.2} MiB at most (given {:.2}, arena {:.2}, results {:.2}, of which {:.2} in place)",
            mb(m.peak()),
            mb(m.given),
            mb(m.arena),
            mb(m.results),
            mb(m.in_place)
        )?;
        write!(f, "{:9.3} ms in all", self.total_us / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, line: u32, start_us: f64, duration_us: f64) -> Event {
        let site = Site::new("a.rs", line, 1);
        let region = Region { name: name.into(), lines: vec![(site, 1.0)], bytes: 1000, flops: 10 };
        Event { region: Arc::new(region), start_us, duration_us, thread: 1 }
    }

    #[test]
    fn inner_time_counts_once() {
        let events = vec![event("matmul", 2, 1.0, 3.0), event("scan", 1, 0.0, 10.0), event("add", 3, 12.0, 1.0)];
        let memory = Memory { given: 3 << 20, arena: 2 << 20, results: 1 << 20, in_place: 1 << 19 };
        let p = Profile::new(&Recording { events, memory });
        let times: Vec<(&str, f64)> = p.regions.iter().map(|s| (s.region.name.as_str(), s.self_us)).collect();
        assert_eq!(times, [("scan", 7.0), ("matmul", 3.0), ("add", 1.0)]);
        assert_eq!(p.lines.iter().map(|(s, us)| (s.line, *us)).collect::<Vec<_>>(), [(1, 7.0), (2, 3.0), (3, 1.0)]);
        assert_eq!(p.total_us, 11.0);
        let text = p.to_string();
        assert!(text.contains("a.rs:1") && text.contains("63.6") && text.contains("5.50 MiB"), "{text}");
    }
}
