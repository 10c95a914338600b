//! The controller: a state machine that watches the membership store and publishes, for each epoch, the
//! view (the workers that all-reduce together) and the partition map of the parameter store.

use crate::membership::kv::{KeyEvent, Kv, Replies};
use crate::membership::status::{End, done_key};
use crate::store::map::{Map, ServerId};
use crate::store::server::recovery::{self, Recovery};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Key under which a worker says where it listens.
pub fn worker_key(rank: u32) -> String {
    format!("worker/{rank}")
}
/// Key under which a server says where it listens.
pub fn server_key(server: ServerId) -> String {
    format!("server/{server}")
}
/// Key that counts how often a worker has begun.
pub(crate) fn life_key(rank: u32) -> String {
    format!("life/{rank}")
}
/// Key under which a worker says that it has done all its steps.
pub(crate) fn ended_key(rank: u32) -> String {
    format!("ended/{rank}")
}
/// Key under which a server says what its disk holds.
pub fn disk_key(server: ServerId) -> String {
    format!("disk/{server}")
}
/// Key under which a server says which of its partitions every backup has, and in which epoch.
pub fn copied_key(server: ServerId) -> String {
    format!("copied/{server}")
}
/// Key under which a server says which partitions it answers for without a complete copy, and in which epoch.
pub fn unsynced_key(server: ServerId) -> String {
    format!("unsynced/{server}")
}
/// Key that asks a server to hand over its partitions and leave.
pub fn leave_key(server: ServerId) -> String {
    format!("leave/{server}")
}
/// Key by which a launcher says that a worker will not come back; `done` if it has finished.
pub fn left_key(rank: u32) -> String {
    format!("left/{rank}")
}
/// The value of that key.
pub fn left_value(is_done: bool) -> Vec<u8> {
    if is_done { b"done".to_vec() } else { b"lost".to_vec() }
}
/// Key of the present group.
pub const GROUP: &str = "group";
/// Key of the step that servers recover from disk, if it is not the last of each.
pub const RECOVERY_STEP: &str = "take-up";
/// Key of the present map.
pub const MAP: &str = "map";
/// Key under which a worker says that the group of an epoch does not work, and why.
pub const BROKEN: &str = "broken";
/// Key under which a worker says that the next group may take in those that wait.
pub const ADMIT: &str = "admit";
/// Key of the newest group's epoch, how many workers wait to be let in and how many are missing that
/// may still come, in words.
pub const NEWS: &str = "news";

/// A view: the workers that all-reduce together in one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Grows with every change.
    pub epoch: u64,
    /// Ranks and where they listen, in order.
    pub workers: Vec<(u32, String)>,
}

impl View {
    /// As text: the epoch, then a line for each worker.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.epoch.to_string();
        self.workers.iter().for_each(|(r, a)| out += &format!("\n{r} {a}"));
        out.into_bytes()
    }
    /// From text.
    pub fn decode(b: &[u8]) -> Result<View> {
        let bad = || Error::refused("a group is malformed");
        let mut lines = std::str::from_utf8(b).map_err(|_| bad())?.lines();
        let epoch = lines.next().and_then(|l| l.parse().ok()).ok_or_else(bad)?;
        let worker = |l: &str| {
            let (rank, address) = l.split_once(' ')?;
            Some((rank.parse().ok()?, address.to_string()))
        };
        let workers = lines.map(|l| worker(l).ok_or_else(bad)).collect::<Result<_>>()?;
        Ok(View { epoch, workers })
    }
}

/// The state machine.
pub struct Controller {
    workers: usize,
    servers: usize,
    copies: usize,
    partitions: usize,
    group: View,
    news: String,
    /// Workers that will not come back,
    left: BTreeSet<u32>,
    /// one of them because it is done.
    is_done: bool,
    map: Option<Map>,
    /// Where partitions are on their way to.
    target: Option<Map>,
    lost: BTreeSet<ServerId>,
    /// The last epoch in which every copy was whole.
    whole: u64,
    notes: Vec<String>,
}

impl Controller {
    /// A job of this many workers and servers, and copies of each partition of the store.
    pub fn new(workers: usize, servers: usize, copies: usize) -> Controller {
        // Several partitions to a server, so that a dead one's load spreads over the others.
        let partitions = if servers <= 1 { servers } else { 2 * servers };
        Controller {
            workers,
            servers,
            copies,
            partitions,
            group: View::default(),
            news: String::new(),
            left: BTreeSet::new(),
            is_done: false,
            map: None,
            target: None,
            lost: BTreeSet::new(),
            whole: 0,
            notes: Vec::new(),
        }
    }
    /// Takes over from a lost coordinator: its published state, and the events since, to react to.
    pub fn resume(mut self, kv: &Kv) -> Result<(Controller, Vec<KeyEvent>)> {
        let published = |key: &str| kv.get(key).1;
        self.group = published(GROUP).map_or(Ok(View::default()), |b| View::decode(&b))?;
        self.news = published(NEWS).map_or(String::new(), |b| String::from_utf8_lossy(&b).into_owned());
        self.map = published(MAP).map(|b| Map::decode(&b)).transpose()?;
        let set = |(k, _): &(&str, &[u8])| KeyEvent::Set((*k).into());
        let mut changes: Vec<KeyEvent> = ["worker/", "left/", BROKEN, ADMIT, "leave/", "copied/", "unsynced/"]
            .iter()
            .flat_map(|prefix| kv.list(prefix).iter().map(set).collect::<Vec<_>>())
            .collect();
        let gone = self.group.workers.iter().map(|(rank, _)| worker_key(*rank));
        changes.extend(gone.filter(|k| published(k).is_none()).map(|k| KeyEvent::Gone(k.into())));
        // A server that the map names holds what the map says, unless it is gone.
        let named: BTreeSet<ServerId> = self.map.iter().flat_map(|m| m.replicas.iter().flatten().copied()).collect();
        let gone = named.iter().map(|s| server_key(*s)).filter(|k| published(k).is_none());
        changes.extend(gone.map(|k| KeyEvent::Gone(k.into())));
        let servers = kv.list("server/");
        let is_new = |(k, _): &&(&str, &[u8])| !named.iter().any(|s| server_key(*s) == *k);
        changes.extend(servers.iter().filter(is_new).map(set));
        Ok((self, changes))
    }
    /// Log lines since the last call.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Reacts to changes in the membership store.
    pub fn react(&mut self, kv: &mut Kv, changes: &[KeyEvent]) -> Result<Replies> {
        let mut out = Replies::new();
        for change in changes {
            let KeyEvent::Set(key) = change else { continue };
            let Some(rank) = key.strip_prefix("left/").and_then(|r| r.parse().ok()) else { continue };
            if !self.left.contains(&rank) {
                let is_done = kv.get(key).1 == Some(left_value(true));
                out.extend(self.left(kv, rank, is_done)?);
            }
        }
        let touches = |prefix: &str| {
            changes.iter().any(|c| matches!(c, KeyEvent::Set(k) | KeyEvent::Gone(k) if k.starts_with(prefix)))
        };
        let says = |key: &str| -> Option<String> {
            let text = touches(key).then(|| kv.get(key).1.and_then(|v| String::from_utf8(v).ok())).flatten()?;
            let (epoch, why) = text.split_once(' ').unwrap_or((&text, ""));
            (epoch.parse() == Ok(self.group.epoch)).then(|| why.to_string())
        };
        let (broken, admits) = (says(BROKEN), says(ADMIT).is_some());
        let is_broken = broken.is_some();
        let why = broken.filter(|w| !w.is_empty());
        why.iter().for_each(|w| self.notes.push(format!("epoch {} is over: {w}", self.group.epoch)));
        if touches("worker/") || is_broken || admits {
            out.extend(self.regroup(kv, is_broken || admits, admits)?);
        }
        if self.servers > 0 && touches("server/") {
            out.extend(self.remap(kv, changes)?);
        }
        if self.map.is_some() && touches("unsynced/") {
            out.extend(self.pass_over_unsynced(kv)?);
        }
        if self.map.is_some() && (touches("server/") || touches("leave/") || touches("copied/")) {
            out.extend(self.rebalance(kv, touches("server/") || touches("leave/"))?);
        }
        Ok(out)
    }

    /// Publishes a new group if the present one has lost members or does not work. Workers that
    /// come later know nothing of what the others have computed: they wait until it `admits`
    /// them, or until no member is left that has state; if that is because the others are done,
    /// they are too late.
    fn regroup(&mut self, kv: &mut Kv, is_over: bool, admits: bool) -> Result<Replies> {
        let mut present = BTreeMap::new();
        for (key, address) in kv.list("worker/") {
            let rank = key["worker/".len()..].parse::<u32>().ok().filter(|r| (*r as usize) < self.workers);
            let address = String::from_utf8_lossy(address).into_owned();
            if let Some(rank) = rank {
                present.insert(rank, address);
            }
        }
        let stays = |(r, a): &&(u32, String)| present.get(r) == Some(a);
        let stay: Vec<_> = self.group.workers.iter().filter(stays).cloned().collect();
        let expected = self.workers - self.left.len();
        let workers: Vec<_> = match stay.is_empty() {
            true if present.len() < expected || (self.is_done && self.group.epoch > 0) => Vec::new(),
            true => present.clone().into_iter().collect(),
            false if admits => present.clone().into_iter().collect(),
            false => stay.clone(),
        };
        let mut out = Replies::new();
        if is_over || workers != self.group.workers {
            // That a finished member leaves is no news, nor is a group of the same members.
            let end = |r: &u32| kv.get(&done_key(*r)).1.and_then(|v| End::decode(&v));
            let is_done = |r: &u32| end(r).is_some_and(|e| e != End::Going);
            let gone: Vec<u32> = self.group.workers.iter().filter(|w| !stay.contains(w)).map(|(r, _)| *r).collect();
            let lost = gone.iter().filter(|r| !is_done(r));
            lost.for_each(|r| self.notes.push(format!("worker {r} is gone")));
            let is_news = gone.iter().any(|r| !is_done(r)) || workers.iter().any(|w| !self.group.workers.contains(w));
            let new = workers.iter().filter(|w| self.group.epoch > 0 && !self.group.workers.contains(w));
            new.for_each(|(r, _)| self.notes.push(format!("worker {r} is let in")));
            assert!(workers.is_sorted_by(|a, b| a.0 < b.0), "a view names each rank once, in order");
            self.group = View { epoch: self.group.epoch + 1, workers };
            out.extend(kv.publish(GROUP, &self.group.encode())?);
            let (epoch, n) = (self.group.epoch, self.group.workers.len());
            if n > 0 && is_news {
                self.notes.push(format!("epoch {epoch}: {n} workers reduce together"));
            }
        }
        let waiting = present.iter().filter(|(r, a)| !self.group.workers.iter().any(|(m, b)| m == *r && b == *a));
        let missing = expected.saturating_sub(present.len());
        let news = format!("{} {} {missing}", self.group.epoch, waiting.count());
        if news != self.news {
            out.extend(kv.publish(NEWS, news.as_bytes())?);
            self.news = news;
        }
        Ok(out)
    }

    /// The first map: from what the servers' disks hold, if they hold anything.
    fn first_map(&mut self, kv: &mut Kv, present: &[ServerId]) -> Result<(Map, Replies)> {
        let Recovery { best, step } = recovery::choose(kv, present, self.workers)?;
        if best.is_empty() {
            return Ok((Map::new(self.partitions, present, self.copies, self.workers)?, Replies::new()));
        }
        self.notes.push(format!("{} partitions are taken up from disk", best.len()));
        let mut out = Replies::new();
        if let Some(step) = step {
            let torn = format!("their files end at different steps: all go back to step {step}, which every one has");
            self.notes.push(torn);
            out = kv.publish(RECOVERY_STEP, step.to_string().as_bytes())?;
        }
        Ok((Map::restored(&best, present, self.copies, self.workers)?, out))
    }

    fn remap(&mut self, kv: &mut Kv, changes: &[KeyEvent]) -> Result<Replies> {
        let present: Vec<ServerId> =
            kv.list("server/").iter().filter_map(|(k, _)| k["server/".len()..].parse().ok()).collect();
        let mut out = Replies::new();
        let next = match &self.map {
            None if present.len() < self.servers => return Ok(out),
            None => match self.first_map(kv, &present) {
                Ok((mut map, first)) => {
                    out = first;
                    // Some may have been given up before the servers were there.
                    let gone = self.left.iter().filter_map(|r| usize::try_from(*r).ok());
                    gone.for_each(|r| map.workers.iter_mut().skip(r).take(1).for_each(|w| *w = false));
                    map
                }
                // All members wait for a map: they get this instead.
                Err(e) => {
                    self.notes.push(e.to_string());
                    return kv.publish(MAP, &Map::refusal(&e.to_string()));
                }
            },
            Some(old) => {
                // A restarted server of the same name holds nothing of what the map says it holds.
                let gone = changes.iter().filter_map(|c| match c {
                    KeyEvent::Gone(k) | KeyEvent::Set(k) => k.strip_prefix("server/")?.parse::<ServerId>().ok(),
                });
                let gone: Vec<ServerId> = gone.filter(|s| old.replicas.iter().any(|l| l.contains(s))).collect();
                self.lost.extend(&gone);
                gone.iter().for_each(|s| self.notes.push(format!("server {s} is gone: its backups take over")));
                // A server that comes later holds nothing; it makes up for missing copies.
                let alive: Vec<ServerId> = present.iter().copied().filter(|s| !self.lost.contains(s)).collect();
                let next = old.without(&gone, &alive, self.copies);
                if next.replicas == old.replicas {
                    return Ok(Replies::new());
                }
                next
            }
        };
        self.notes.push(format!("epoch {}: {} servers hold the store", next.epoch, present.len()));
        out.extend(self.publish(kv, next)?);
        Ok(out)
    }

    /// Primaries that have no complete copy are passed over: the next server of each list may have one. A partition of
    /// which no server has one is lost, as if its servers had all died.
    fn pass_over_unsynced(&mut self, kv: &mut Kv) -> Result<Replies> {
        let Some(map) = &self.map else { return Ok(Replies::new()) };
        let unsynced = said_by_primaries(kv, map, "unsynced/");
        let Some(next) = map.without_unsynced(|p| unsynced.contains(&p)) else { return Ok(Replies::new()) };
        let (lost, passed): (Vec<u32>, Vec<u32>) = unsynced.into_iter().partition(|p| next.primary(*p).is_none());
        if !passed.is_empty() {
            let text = "their primaries were still to get a copy, the next servers take over";
            self.notes.push(format!("epoch {}: partitions {passed:?}: {text}", next.epoch));
        }
        if !lost.is_empty() {
            let text = "every complete copy died while another was being transferred";
            self.notes.push(format!("epoch {}: partitions {lost:?} are lost: {text}", next.epoch));
        }
        // When the others have said that they are whole, those that were passed over get their copies again.
        let stay = self.staying(kv);
        if !stay.is_empty() {
            self.target = Some(Map::new(next.replicas.len(), &stay, self.copies, self.workers)?);
        }
        self.publish(kv, next)
    }
    /// Servers that are there, were never taken for dead, and are not to leave.
    fn staying(&self, kv: &Kv) -> Vec<ServerId> {
        let leaving: BTreeSet<ServerId> = kv.list("leave/").iter().filter_map(server_of).collect();
        let present = kv.list("server/").into_iter().filter_map(|k| server_of(&k));
        present.filter(|s| !self.lost.contains(s) && !leaving.contains(s)).collect()
    }

    /// Moves partitions to servers that came, and away from servers that are to leave.
    fn rebalance(&mut self, kv: &mut Kv, has_changed: bool) -> Result<Replies> {
        let Some(map) = &self.map else { return Ok(Replies::new()) };
        // Servers say what they hold five times a second, mostly what is known.
        if !has_changed && self.target.is_none() && (self.copies <= 1 || self.whole >= map.epoch) {
            return Ok(Replies::new());
        }
        let leaving: BTreeSet<ServerId> = kv.list("leave/").iter().filter_map(server_of).collect();
        let present: Vec<ServerId> =
            kv.list("server/").iter().filter_map(server_of).filter(|s| !self.lost.contains(s)).collect();
        let stay = self.staying(kv);
        if has_changed && !stay.is_empty() {
            let is_idle = stay.iter().any(|s| !map.replicas.iter().any(|l| l.first() == Some(s)));
            let is_leaving = leaving.iter().any(|s| map.names(*s));
            // A move in progress goes on, with those who are there.
            if is_idle || is_leaving || self.target.is_some() {
                self.target = Some(Map::new(map.replicas.len(), &stay, self.copies, self.workers)?);
            }
        }
        let copied = said_by_primaries(kv, map, "copied/");
        let copies = self.copies.min(present.len());
        let is_whole = (0..map.replicas.len()).all(|p| copied.contains(&(p as u32)) && map.replicas[p].len() == copies);
        if is_whole && copies > 1 && self.whole < map.epoch {
            self.whole = map.epoch;
            self.notes.push(format!("epoch {}: every partition has its {copies} copies", map.epoch));
        }
        let Some(target) = &self.target else { return Ok(Replies::new()) };
        let Some(next) = map.toward(target, |p| copied.contains(&p)) else {
            if target.replicas == map.replicas {
                self.target = None;
            }
            return Ok(Replies::new());
        };
        let held = |m: &Map| present.iter().filter(|s| m.names(**s)).count();
        self.notes.push(format!("epoch {}: partitions move, {} servers hold the store", next.epoch, held(&next)));
        self.publish(kv, next)
    }

    /// Publishes the map of a new epoch.
    fn publish(&mut self, kv: &mut Kv, next: Map) -> Result<Replies> {
        assert!(self.map.as_ref().is_none_or(|old| old.epoch < next.epoch), "epochs grow with every map");
        let is_once = |list: &Vec<ServerId>| list.iter().enumerate().all(|(i, s)| !list[..i].contains(s));
        assert!(next.replicas.iter().all(is_once), "a server holds one copy of a partition at most");
        let out = kv.publish(MAP, &next.encode())?;
        self.map = Some(next);
        Ok(out)
    }

    /// A worker will not come back, perhaps because it is done: steps stop waiting for it.
    pub fn left(&mut self, kv: &mut Kv, rank: u32, is_done: bool) -> Result<Replies> {
        self.left.insert(rank);
        self.is_done |= is_done;
        if self.servers == 0 {
            return self.regroup(kv, false, false);
        }
        let Some(map) = self.map.as_ref().filter(|m| m.workers.get(rank as usize) == Some(&true)) else {
            return Ok(Replies::new());
        };
        let next = map.with_worker(rank, false);
        self.notes.push(format!("worker {rank} will not come back: the others go on"));
        self.publish(kv, next)
    }
}

/// The server that a key is about.
fn server_of((key, _): &(&str, &[u8])) -> Option<ServerId> {
    key.split_once('/')?.1.parse().ok()
}

/// Partitions of which their primaries say something under keys of that prefix, in the map's epoch.
fn said_by_primaries(kv: &Kv, map: &Map, prefix: &str) -> BTreeSet<u32> {
    let mut out = BTreeSet::new();
    for (key, text) in kv.list(prefix) {
        let Some(server) = server_of(&(key, text)) else { continue };
        let numbers: Vec<u64> = String::from_utf8_lossy(text).split(' ').filter_map(|n| n.parse().ok()).collect();
        if numbers.first() == Some(&map.epoch) {
            out.extend(numbers[1..].iter().map(|p| *p as u32).filter(|p| map.primary(*p) == Some(server)));
        }
    }
    out
}

#[cfg(test)]
mod tests;
