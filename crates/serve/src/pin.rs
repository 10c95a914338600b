//! CPU affinity: each replica runs on processors of its own.

/// Restricts the calling thread, and threads that it starts later, to one of `parts` equal parts of the processors that
/// it may use now. With more parts than processors, parts share them.
#[cfg(target_os = "linux")]
pub fn pin(part: usize, parts: usize) -> std::io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None)?;
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&c| allowed.is_set(c)).collect();
    let mut own = CpuSet::new();
    share(all.len(), part, parts).for_each(|i| own.set(all[i]));
    Ok(sched_setaffinity(None, &own)?)
}

/// Other systems place threads themselves.
#[cfg(not(target_os = "linux"))]
pub fn pin(_: usize, _: usize) -> std::io::Result<()> {
    Ok(())
}

/// Which of so many processors belong to a part: at least one.
fn share(processors: usize, part: usize, parts: usize) -> std::ops::Range<usize> {
    if parts >= processors {
        let one = part % processors.max(1);
        return one..one + 1;
    }
    part * processors / parts..(part + 1) * processors / parts
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn every_processor_has_a_part_and_every_part_a_processor() {
        for processors in 1..9 {
            for parts in 1..12 {
                let all: Vec<_> = (0..parts).map(|p| share(processors, p, parts)).collect();
                assert!(all.iter().all(|r| !r.is_empty() && r.end <= processors), "{processors} in {parts}");
                assert!(
                    (0..processors).all(|c| parts >= processors || all.iter().filter(|r| r.contains(&c)).count() == 1)
                );
            }
        }
    }
}
