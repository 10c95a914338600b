//! Recovery of a store from disk: which copy of each partition, and at which step.
//!
//! Copies are written by each server for itself, so after a power cut files may end at different
//! steps. Partitions at different steps are never mixed: where steps are applied together all of them
//! are recovered at the newest step that every partition still has; if some file begins after it, or
//! where workers go their own pace, the store is refused.

use crate::membership::kv::Kv;
use crate::store::map::ServerId;
use crate::store::server::disk::{Kept, Position};
use crate::store::worker::VOLATILE_MAX;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// What a server's disk holds, as it says.
pub(crate) struct DiskReport {
    pub folder: String,
    /// Whether steps are applied together.
    pub gathers: bool,
    pub partitions: Vec<(u32, Kept)>,
}

impl DiskReport {
    /// As text: the folder, then a line for each partition.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = format!("{} {}", u8::from(self.gathers), self.folder);
        for (p, Kept { position: at, first }) in &self.partitions {
            out += &format!("\n{p} {} {} {} {first}", at.epoch, at.applied, at.settled);
        }
        out.into_bytes()
    }
    /// From text.
    pub fn decode(text: &[u8]) -> Option<DiskReport> {
        let text = std::str::from_utf8(text).ok()?;
        let mut lines = text.lines();
        let (gathers, folder) = lines.next()?.split_once(' ')?;
        let kept = |line: &str| {
            let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
            let [partition, epoch, applied, settled, first] = numbers[..] else { return None };
            Some((u32::try_from(partition).ok()?, Kept { position: Position { epoch, applied, settled }, first }))
        };
        let partitions = lines.map(kept).collect::<Option<_>>()?;
        Some(DiskReport { folder: folder.to_string(), gathers: gathers == "1", partitions })
    }
}

/// From which server each partition is recovered, and at which step if not at its last.
pub(crate) struct Recovery {
    pub best: BTreeMap<u32, (Position, ServerId)>,
    pub step: Option<u64>,
}

/// A copy, and who has it where.
struct Copy {
    kept: Kept,
    server: ServerId,
    file: String,
}

/// Chooses among what the disks of these servers hold.
pub(crate) fn choose(kv: &Kv, present: &[ServerId], workers: usize) -> Result<Recovery> {
    let (mut copies, mut gathers) = (BTreeMap::<u32, Vec<Copy>>::new(), true);
    for (key, text) in kv.list("disk/") {
        let server = key["disk/".len()..].parse::<ServerId>().ok().filter(|s| present.contains(s));
        let Some(server) = server else { continue };
        let bad = || Error::refused(format!("server {server} says of its disk {:?}", String::from_utf8_lossy(text)));
        let report = DiskReport::decode(text).ok_or_else(bad)?;
        gathers &= report.gathers;
        for (p, kept) in report.partitions {
            let file = format!("{}/partition-{p}.log", report.folder);
            copies.entry(p).or_default().push(Copy { kept, server, file });
        }
    }
    copies.values_mut().for_each(|list| list.sort_by_key(|c| (c.kept.position, c.server)));
    let newest = || copies.values().filter_map(|list| list.last());
    let last = |list: &Vec<Copy>| list.last().map(|c| (c.kept.position, c.server));
    let best = copies.iter().filter_map(|(p, list)| Some((*p, last(list)?))).collect();
    let steps = |of: fn(&Position) -> u64| {
        let all = || newest().map(|c| of(&c.kept.position));
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    };
    if !gathers {
        // A worker may be this many steps further with one partition than with another.
        let (least, most) = steps(|at| at.settled);
        let is_torn = most - least > workers as u64 * (VOLATILE_MAX + 1);
        return if is_torn { Err(torn(newest(), |at| at.settled)) } else { Ok(Recovery { best, step: None }) };
    }
    let (least, most) = steps(|at| at.applied);
    if most - least <= 1 {
        // As a crash leaves it: who is ahead still knows the step before.
        return Ok(Recovery { best, step: None });
    }
    let has = |c: &&Copy| c.kept.first <= least && least <= c.kept.position.applied;
    let at = |(p, list): (&u32, &Vec<Copy>)| {
        list.iter()
            .rev()
            .find(has)
            .map(|c| (*p, (c.kept.position, c.server)))
            .ok_or_else(|| torn(newest(), |at| at.applied))
    };
    Ok(Recovery { best: copies.iter().map(at).collect::<Result<_>>()?, step: Some(least) })
}

/// Why files are not taken up, and what to do.
fn torn<'a>(newest: impl Iterator<Item = &'a Copy>, step: fn(&Position) -> u64) -> Error {
    let files: Vec<String> =
        newest.map(|c| format!("{} from step {} to {}", c.file, c.kept.first, step(&c.kept.position))).collect();
    Error::refused(format!(
        "the store on disk is torn: its partitions end at different steps, with none that all can go back to, as after a power \
         cut ({}); move these files away, and the job starts from its newest checkpoint; TALWEG_STORE_SYNC=1 \
         prevents it",
        files.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::controller::disk_key;
    use crate::membership::kv::Request;
    use std::time::Duration;

    /// What two servers have of two partitions: first step and last.
    fn taken(gathers: bool, disks: [[(u64, u64); 2]; 2]) -> Result<Recovery> {
        let mut r = Kv::default();
        for (server, partitions) in disks.into_iter().enumerate() {
            let kept = |(p, (first, applied)): (usize, (u64, u64))| {
                (p as u32, Kept { position: Position { epoch: 1, applied, settled: applied }, first })
            };
            let partitions = partitions.into_iter().enumerate().map(kept).collect();
            let text = DiskReport { folder: format!("/store/{server}"), gathers, partitions }.encode();
            r.handle(Duration::ZERO, 0, 0, Request::Set(&disk_key(server as u32), &text)).unwrap();
        }
        choose(&r, &[0, 1], 1)
    }

    #[test]
    fn the_newest_copy_of_each_partition_is_taken() {
        let t = taken(true, [[(0, 66), (0, 100)], [(0, 100), (0, 99)]]).unwrap();
        let servers: Vec<ServerId> = t.best.values().map(|(_, s)| *s).collect();
        assert_eq!((servers, t.step), (vec![1, 0], None));
        assert_eq!(taken(true, [[(0, 99), (0, 100)], [(0, 98), (0, 7)]]).unwrap().step, None, "as a crash leaves it");
    }

    #[test]
    fn partitions_that_end_at_different_steps_are_taken_up_at_a_common_one() {
        let t = taken(true, [[(0, 66), (0, 100)], [(0, 50), (80, 101)]]).unwrap();
        let servers: Vec<ServerId> = t.best.values().map(|(_, s)| *s).collect();
        assert_eq!((servers, t.step), (vec![0, 0], Some(66)), "the newer copy begins too late");
    }

    #[test]
    fn what_has_no_common_step_is_refused_by_name() {
        let e = taken(true, [[(0, 66), (70, 100)], [(0, 50), (80, 101)]]).err().unwrap().to_string();
        assert!(e.contains("/store/0/partition-0.log from step 0 to 66"), "{e}");
        assert!(e.contains("/store/1/partition-1.log from step 80 to 101"), "{e}");
        assert!(taken(false, [[(0, 66), (0, 100)], [(0, 50), (0, 90)]]).is_err());
        assert!(taken(false, [[(0, 96), (0, 100)], [(0, 50), (0, 90)]]).is_ok());
    }
}
