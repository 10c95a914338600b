//! Which server holds what: keys hash to partitions, partitions hash to servers.
//!
//! Partitions play the part of virtual nodes: there are several to a server, they are placed by
//! rendezvous hashing with bounded load, and each is replicated, moved and failed over as a whole.
//! A map belongs to an epoch; requests under an older one are refused.

use crate::store::server::disk::Position;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Number of a server.
pub type ServerId = u32;
/// Number of a worker.
pub type WorkerId = u32;

/// The placement of all partitions in one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Grows with every change.
    pub epoch: u64,
    /// For each partition its servers, the primary first.
    pub replicas: Vec<Vec<ServerId>>,
    /// For each partition and server, the epoch since which it has held it without a break: an
    /// older copy lacks what happened since.
    pub since: Vec<Vec<u64>>,
    /// For each partition, the epoch since which its primary has been that.
    pub terms: Vec<u64>,
    /// For each worker, whether steps wait for it.
    pub workers: Vec<bool>,
}

/// A hash that is the same in every process and version.
pub(crate) fn hash(a: u64, b: u64) -> u64 {
    net::sim::Random::new(a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b).bits()
}

/// Begins what stands in a map's place; no epoch is that large.
const REFUSED: &[u8] = b"refused:";

impl Map {
    /// Places partitions on servers with `copies` replicas each, as far as there are servers.
    pub fn new(partitions: usize, servers: &[ServerId], copies: usize, workers: usize) -> Result<Map> {
        if partitions == 0 || servers.is_empty() || copies == 0 || workers == 0 {
            return Err(Error::value("a store needs a partition, a server, a copy and a worker at least"));
        }
        let mut map = Map {
            epoch: 1,
            replicas: vec![Vec::new(); partitions],
            since: Vec::new(),
            terms: Vec::new(),
            workers: vec![true; workers],
        };
        map.fill(servers, copies);
        Ok(map.after(&Map::default()))
    }
    /// The map of a store that is taken up from disk: who has the newest copy of a partition
    /// answers for it; a partition without one is lost.
    pub(crate) fn restored(
        found: &BTreeMap<u32, (Position, ServerId)>,
        servers: &[ServerId],
        copies: usize,
        workers: usize,
    ) -> Result<Map> {
        let partitions = found.keys().max().map_or(0, |p| *p as usize + 1);
        let epoch = found.values().map(|(at, _)| at.epoch).max().unwrap_or(0) + 1;
        let mut map = Map::new(partitions, servers, copies, workers)?;
        map.epoch = epoch.max(2);
        for (p, list) in map.replicas.iter_mut().enumerate() {
            *list = found.get(&(p as u32)).map(|(_, s)| *s).into_iter().collect();
        }
        map.fill(servers, copies);
        map = map.after(&Map::default());
        // What the disks hold is all there is.
        map.since.iter_mut().filter_map(|l| l.first_mut()).for_each(|e| *e = 0);
        Ok(map)
    }
    /// This map with the epochs since when servers hold partitions, coming after `old`.
    fn after(mut self, old: &Map) -> Map {
        let since = |p: usize, s: &ServerId| old.since_of(p as u32, *s).unwrap_or(self.epoch);
        let list = |(p, l): (usize, &Vec<ServerId>)| l.iter().map(|s| since(p, s)).collect();
        self.since = self.replicas.iter().enumerate().map(list).collect();
        let term = |p: usize| match old.terms.get(p) {
            Some(term) if old.primary(p as u32) == self.primary(p as u32) => *term,
            _ => self.epoch,
        };
        self.terms = (0..self.replicas.len()).map(term).collect();
        self
    }
    /// Since which epoch a server holds a partition.
    pub fn since_of(&self, partition: u32, server: ServerId) -> Option<u64> {
        let at = self.replicas.get(partition as usize)?.iter().position(|s| *s == server)?;
        self.since.get(partition as usize)?.get(at).copied()
    }
    /// The partition of a block.
    pub fn partition(&self, table: u32, block: u32) -> u32 {
        (hash(u64::from(table) << 32 | u64::from(block), 1) % self.replicas.len().max(1) as u64) as u32
    }
    /// True if a server holds anything.
    pub fn names(&self, server: ServerId) -> bool {
        self.replicas.iter().any(|l| l.contains(&server))
    }
    /// True if every copy of a partition is lost, so that no worker can go on.
    pub fn has_lost(&self) -> bool {
        self.replicas.iter().any(Vec::is_empty)
    }
    /// Who answers for a partition; `None` if every copy is lost.
    pub fn primary(&self, partition: u32) -> Option<ServerId> {
        self.replicas.get(partition as usize)?.first().copied()
    }
    /// The next epoch's map after servers have died: their backups take over, and others become
    /// backups in turn.
    #[must_use]
    pub fn without(&self, dead: &[ServerId], alive: &[ServerId], copies: usize) -> Map {
        let mut next = Map { epoch: self.epoch + 1, ..self.clone() };
        for list in &mut next.replicas {
            list.retain(|s| !dead.contains(s));
        }
        // A partition that lost every copy stays without one: an empty stand-in would be a lie.
        next.fill(alive, copies);
        next.after(self)
    }
    /// The next epoch's map on the way to where `target` puts the partitions; `None` if nothing can
    /// be done now. A partition of which every backup has a complete copy (`is_copied`, in this epoch)
    /// moves in two phases: first the servers that lack it become backups and get a copy; when it is
    /// copied again, those that `target` does not name let go.
    #[must_use]
    pub fn toward(&self, target: &Map, is_copied: impl Fn(u32) -> bool) -> Option<Map> {
        let mut next = Map { epoch: self.epoch + 1, ..self.clone() };
        for (p, (list, want)) in next.replicas.iter_mut().zip(&target.replicas).enumerate() {
            let lacks: Vec<ServerId> = want.iter().copied().filter(|s| !list.contains(s)).collect();
            // What is lost stays lost, and what is not whole stays where it is.
            if list.is_empty() || list == want || !is_copied(p as u32) {
                continue;
            }
            if lacks.is_empty() {
                list.clone_from(want);
            } else {
                list.extend(lacks);
            }
        }
        (next.replicas != self.replicas).then(|| next.after(self))
    }
    /// The next epoch's map after primaries have said that they have no complete copy (`is_unsynced`, in this epoch);
    /// `None` if none has. The next server of the list answers for the partition: it may have got its copy sooner. A
    /// partition without any is lost. Who is passed over is not filled in again here: it would be asked for ever.
    #[must_use]
    pub fn without_unsynced(&self, is_unsynced: impl Fn(u32) -> bool) -> Option<Map> {
        let mut next = Map { epoch: self.epoch + 1, ..self.clone() };
        for (p, list) in next.replicas.iter_mut().enumerate() {
            if !list.is_empty() && is_unsynced(p as u32) {
                list.remove(0);
            }
        }
        (next.replicas != self.replicas).then(|| next.after(self))
    }
    /// The next epoch's map with a worker counted, or no longer.
    #[must_use]
    pub fn with_worker(&self, worker: WorkerId, counts: bool) -> Map {
        let mut next = Map { epoch: self.epoch + 1, ..self.clone() };
        next.workers[worker as usize] = counts;
        next
    }

    /// Adds replicas up to `copies`; only the first filling may choose a primary.
    fn fill(&mut self, servers: &[ServerId], copies: usize) {
        let copies = copies.min(servers.len());
        let first = self.epoch == 1;
        for copy in 0..copies {
            // At each rank no server may hold much more than its share.
            let most = self.replicas.len().div_ceil(servers.len());
            let mut load: Vec<usize> =
                servers.iter().map(|s| self.replicas.iter().filter(|l| l.get(copy) == Some(s)).count()).collect();
            for p in 0..self.replicas.len() {
                let list = &self.replicas[p];
                if list.len() > copy || list.len() < copy || (list.is_empty() && !first) {
                    continue;
                }
                let free = |i: &usize| !list.contains(&servers[*i]);
                let weight = |i: &usize| hash(p as u64, u64::from(servers[*i]) + 17);
                let mut best = (0..servers.len()).filter(free).filter(|i| load[*i] < most).max_by_key(weight);
                best = best.or_else(|| (0..servers.len()).filter(free).max_by_key(weight));
                if let Some(i) = best {
                    load[i] += 1;
                    self.replicas[p].push(servers[i]);
                }
            }
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.epoch.to_le_bytes().to_vec();
        let mut number = |n: usize| out.extend_from_slice(&(n as u32).to_le_bytes());
        number(self.workers.len());
        self.workers.iter().for_each(|w| number(usize::from(*w)));
        number(self.replicas.len());
        for list in &self.replicas {
            number(list.len());
            list.iter().for_each(|s| number(*s as usize));
        }
        self.since.iter().flatten().chain(&self.terms).for_each(|e| out.extend_from_slice(&e.to_le_bytes()));
        out
    }
    /// What stands in a map's place if there can be none: its bytes read as an error.
    pub(crate) fn refusal(why: &str) -> Vec<u8> {
        [REFUSED, why.strip_prefix("refused: ").unwrap_or(why).as_bytes()].concat()
    }
    /// From its bytes.
    pub fn decode(b: &[u8]) -> Result<Map> {
        if let Some(why) = b.strip_prefix(REFUSED) {
            return Err(Error::refused(String::from_utf8_lossy(why)));
        }
        let bad = || Error::refused("a map is malformed");
        let (epoch, mut rest) = b.split_at_checked(8).ok_or_else(bad)?;
        let epoch = u64::from_le_bytes(epoch.try_into().map_err(|_| bad())?);
        let mut number = || -> Result<usize> {
            let (n, after) = rest.split_at_checked(4).ok_or_else(bad)?;
            rest = after;
            Ok(u32::from_le_bytes(n.try_into().map_err(|_| bad())?) as usize)
        };
        let most = b.len() / 4;
        let count = |n: Result<usize>| n.and_then(|n| if n <= most { Ok(n) } else { Err(bad()) });
        let workers = (0..count(number())?).map(|_| Ok(number()? != 0)).collect::<Result<_>>()?;
        let mut replicas = Vec::new();
        for _ in 0..count(number())? {
            let len = count(number())?;
            replicas.push((0..len).map(|_| Ok(number()? as u32)).collect::<Result<Vec<_>>>()?);
        }
        let mut long = || Ok(number()? as u64 | (number()? as u64) << 32);
        let mut since = Vec::with_capacity(replicas.len());
        for list in &replicas {
            since.push((0..list.len()).map(|_| long()).collect::<Result<_>>()?);
        }
        let terms = replicas.iter().map(|_| long()).collect::<Result<_>>()?;
        Ok(Map { epoch, replicas, since, terms, workers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_even_and_copies_lie_apart() {
        let servers: Vec<u32> = (0..5).collect();
        let map = Map::new(20, &servers, 2, 1).unwrap();
        for rank in 0..2 {
            for s in &servers {
                let n = map.replicas.iter().filter(|l| l[rank] == *s).count();
                assert!((2..=6).contains(&n), "server {s} has {n} at rank {rank}");
            }
        }
        assert!(map.replicas.iter().all(|l| l.len() == 2 && l[0] != l[1]));
    }

    #[test]
    fn a_dead_servers_backups_take_over_and_nothing_else_moves() {
        let map = Map::new(16, &[0, 1, 2], 2, 2).unwrap();
        let next = map.without(&[1], &[0, 2], 2);
        assert_eq!(next.epoch, 2);
        for (old, new) in map.replicas.iter().zip(&next.replicas) {
            let expected = if old[0] == 1 { old[1] } else { old[0] };
            assert_eq!(new[0], expected);
            assert_eq!(new.len(), 2);
            assert!(!new.contains(&1));
        }
        let alone = next.without(&[0], &[2], 2);
        assert!(alone.replicas.iter().all(|l| *l == [2]));
        assert!(alone.without(&[2], &[], 2).replicas.iter().all(Vec::is_empty), "an empty copy would be a lie");
    }

    #[test]
    fn a_partition_moves_when_its_copy_is_whole() {
        let replicas = vec![vec![0, 1], vec![1, 0], vec![]];
        let map = Map { epoch: 4, replicas, since: Vec::new(), terms: Vec::new(), workers: vec![true] }
            .after(&Map::default());
        let target = Map { replicas: vec![vec![2, 1], vec![1, 0], vec![0, 2]], ..map.clone() };
        assert_eq!(map.toward(&target, |_| false), None);
        let first = map.toward(&target, |_| true).unwrap();
        assert_eq!((first.epoch, &first.replicas[0]), (5, &vec![0, 1, 2]));
        assert_eq!(first.toward(&target, |_| false), None);
        let second = first.toward(&target, |_| true).unwrap();
        assert_eq!(second.replicas, [vec![2, 1], vec![1, 0], vec![]], "what is lost stays lost");
        assert_eq!(second.since, [vec![5, 4], vec![4, 4], vec![]]);
        assert_eq!(second.terms, [6, 4, 4]);
        assert_eq!(second.toward(&target, |_| true), None);
    }

    #[test]
    fn a_primary_without_a_copy_is_passed_over_until_nobody_is_left() {
        // Servers 1 and 2 were to get copies from server 0, which has died.
        let replicas = vec![vec![0, 1, 2], vec![0]];
        let map = Map { epoch: 4, replicas, since: Vec::new(), terms: Vec::new(), workers: vec![true] }
            .after(&Map::default())
            .without(&[0], &[1, 2], 1);
        assert_eq!((map.epoch, &map.replicas[0], map.has_lost()), (5, &vec![1, 2], true));
        assert_eq!(map.without_unsynced(|_| false), None);
        assert_eq!(map.without_unsynced(|p| p == 1), None, "what is lost stays lost");
        let next = map.without_unsynced(|p| p == 0).unwrap();
        assert_eq!((next.epoch, &next.replicas[0], next.since_of(0, 2), next.terms[0]), (6, &vec![2], Some(4), 6));
        assert!(next.without_unsynced(|p| p == 0).unwrap().replicas[0].is_empty());
    }

    #[test]
    fn bytes_read_back_and_others_are_refused() {
        let map = Map::new(3, &[4, 5], 2, 3).unwrap().with_worker(1, false);
        let bytes = map.encode();
        assert_eq!(Map::decode(&bytes).unwrap(), map);
        for n in 0..bytes.len() {
            assert!(Map::decode(&bytes[..n]).is_err());
        }
        assert!(Map::decode(&[0xFF; 40]).is_err());
    }
}
