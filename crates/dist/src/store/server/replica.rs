//! Copies of a partition: the primary's stream of records, and the backup that repeats it.
//!
//! Records are numbered; a backup takes them in order and says how far it is. What was acknowledged
//! to a worker is in every copy, so a backup that takes over continues with nothing lost. A copy
//! begins with the whole content, for any receiver.

use crate::pool;
use crate::store::map::{Map, ServerId, WorkerId};
use crate::store::message::{Clocks, Envelope, Message, Peer, Record, Update};
use crate::store::server::partition::{Block, Outbox, Partition, Role};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Records that a backup keeps until those before them come.
const EARLY_MAX: u64 = 1024;

/// The records on their way to one backup, or to the disk.
struct Stream {
    /// The epoch it began in; of the disk, its number.
    id: u64,
    /// Number of the first record in the queue.
    first: u64,
    /// Number of the first record never sent.
    unsent: u64,
    /// Number of the first record after the copy with which it began.
    whole: u64,
    queue: VecDeque<Record>,
}

/// A point of all streams, and what becomes safe when the backups have reached it.
struct Commit {
    needs: SmallVec<[(Peer, u64); 4]>,
    settled: Clocks,
    applied: u64,
    then: Option<(WorkerId, Message)>,
}

/// The sending side.
#[derive(Default)]
pub(crate) struct Outgoing {
    streams: BTreeMap<Peer, Stream>,
    commits: VecDeque<Commit>,
    /// Whether there is a disk, how many streams it has been sent, and whether it takes no more.
    has_disk: bool,
    disk_streams: u64,
    disk_full: bool,
}

/// The receiving side.
#[derive(Default)]
pub(crate) struct Incoming {
    /// The epoch in which the stream began; 0 before the first.
    pub stream: u64,
    from: ServerId,
    next: u64,
    /// Records that have overtaken others.
    early: BTreeMap<u64, Record>,
    /// The content of a copy that is not whole yet; what was here before counts until it is, since
    /// no message tells of a step that this server has not got.
    copy: Option<BTreeMap<(u32, u32), Block>>,
    /// Updates before their commit.
    updates: Vec<Update>,
}

impl Block {
    pub(crate) fn record(&self, table: u32, block: u32) -> Record {
        let mut arrays = vec![self.value.clone(), self.before.clone()];
        arrays.extend(self.state.iter().cloned());
        Record::Block { table, block, version: self.version, width: self.width as u32, arrays }
    }
}

impl Partition {
    /// A new epoch: who holds the partition, and which workers count.
    pub(crate) fn map(&mut self, map: &Map, out: &mut Outbox) -> Result<(), String> {
        if map.epoch <= self.epoch {
            return Ok(());
        }
        if map.workers.len() != self.settled.len() {
            return Err(format!("a map of {} workers, not {}", map.workers.len(), self.settled.len()));
        }
        let since = map.since_of(self.id, self.me).unwrap_or(u64::MAX);
        self.epoch = map.epoch;
        self.counted.clone_from(&map.workers);
        self.recount();
        let list = map.replicas.get(self.id as usize).cloned().unwrap_or_default();
        let role = match list.iter().position(|s| *s == self.me) {
            Some(0) => Role::Primary,
            Some(_) => Role::Backup,
            None => Role::None,
        };
        let term = map.terms.get(self.id as usize).copied().unwrap_or(0);
        // It may not have heard that another was primary in between.
        if role == Role::Primary && (self.role != Role::Primary || term > self.term) {
            // Nothing was acknowledged without who was there from the first epoch on, when there was
            // nothing: its copy is whole, also if no record ever came.
            self.synced = since == 1 || (self.synced && self.held >= since);
            self.take_over();
        }
        if role != Role::Primary && self.role == Role::Primary {
            // What it did not hand on goes with the next copy it gets, if there is one.
            self.settled = self.durable().to_vec();
            self.recount();
            self.outgoing.streams.clear();
            self.outgoing.commits.clear();
            self.parked.clear();
            self.saves.clear();
        }
        self.role = role;
        (self.since, self.term) = (since, term);
        // Without a complete copy it is primary because those who had one are gone, and has nothing to hand on:
        // neither other servers nor its disk must take that for the partition.
        if role == Role::Primary && self.synced {
            self.held = self.epoch;
            self.copy_to(&list[1..], map);
            self.commit(None);
            self.close()?;
            self.flush(out);
            self.release(out);
        }
        Ok(())
    }

    /// Becomes the primary with what is committed.
    fn take_over(&mut self) {
        self.settled = self.durable().to_vec();
        self.recount();
        self.outgoing.commits.clear();
        // The disk may hold updates that were never committed: what is written next replaces it.
        self.outgoing.streams.clear();
        (self.incoming.copy, self.incoming.updates) = (None, Vec::new());
        self.open.clear();
        self.staged.iter_mut().for_each(Vec::clear);
        // Nothing is safe before the backups of this epoch have it, also what the former primary
        // had handed on to this one alone.
        self.safe.fill(0);
        self.applied_safe = 0;
    }

    /// Starts copies to backups that have none, and ends those to servers that are no backups.
    fn copy_to(&mut self, backups: &[ServerId], map: &Map) {
        let id = self.id;
        // A backup that was none in between, in an epoch that this server has not heard of, starts over.
        let stays = |to: &Peer, t: &Stream| match to {
            Peer::Server(s) => backups.contains(s) && map.since_of(id, *s).is_some_and(|since| t.id >= since),
            _ => true,
        };
        self.outgoing.streams.retain(|to, t| stays(to, t));
        // A backup that heard of this epoch first has refused what came under the old one.
        self.outgoing.streams.values_mut().for_each(|t| t.unsent = t.first);
        let disk = self.outgoing.has_disk.then_some(Peer::Disk);
        for to in disk.into_iter().chain(backups.iter().map(|s| Peer::Server(*s))) {
            if !self.outgoing.streams.contains_key(&to) {
                self.start(to);
            }
        }
    }
    /// Starts a copy: everything, then whatever changes.
    fn start(&mut self, to: Peer) {
        let mut queue = VecDeque::from([Record::Reset]);
        queue.extend(self.blocks.iter().map(|((table, block), b)| b.record(*table, *block)));
        queue.push_back(Record::Commit { settled: self.durable(), applied: self.applied });
        if self.role == Role::Backup {
            queue.extend(self.incoming.updates.iter().cloned().map(Record::Update));
        }
        let id = if to == Peer::Disk { self.next_disk_stream() } else { self.epoch };
        // Commits that wait for a former copy wait for this one, which contains them; on disk they
        // are already when it is rewritten.
        for c in &mut self.outgoing.commits {
            match (to, c.needs.iter_mut().find(|(peer, _)| *peer == to).map(|(_, n)| n)) {
                (Peer::Disk, Some(n)) => *n = 0,
                (_, Some(n)) => *n = queue.len() as u64,
                _ => {}
            }
        }
        let whole = queue.len() as u64;
        self.outgoing.streams.insert(to, Stream { id, first: 0, unsent: 0, whole, queue });
    }
    fn next_disk_stream(&mut self) -> u64 {
        self.outgoing.disk_streams += 1;
        self.outgoing.disk_streams
    }
    /// True if it answers for the partition and every backup has a complete copy.
    pub fn is_copied(&self) -> bool {
        self.role == Role::Primary && self.synced && self.outgoing.streams.values().all(|t| t.first >= t.whole)
    }
    /// True if it answers for the partition without a complete copy: those who had one died before it got its own.
    pub fn is_unsynced(&self) -> bool {
        self.role == Role::Primary && !self.synced
    }
    /// The epoch it lives in.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// From now on the disk gets a copy as well.
    pub fn keep_on_disk(&mut self) {
        self.outgoing.has_disk = true;
    }
    /// Takes a record that the disk has kept from a former life.
    pub fn restore(&mut self, epoch: u64, record: Record) -> Result<(), String> {
        self.epoch = self.epoch.max(epoch);
        self.repeat(record)?;
        self.held = self.epoch;
        Ok(())
    }
    /// Writes everything to the disk again, unless it still lacks something.
    pub fn rewrite(&mut self) -> Outbox {
        let mut out = Outbox::new();
        if self.outgoing.streams.get(&Peer::Disk).is_some_and(|t| t.queue.is_empty()) {
            self.start(Peer::Disk);
            self.send_records(&mut out, Some(Peer::Disk));
        }
        out
    }
    /// The disk takes no more: workers are told, and it is tried again by [`Partition::resend`].
    pub(crate) fn disk_full(&mut self, out: &mut Outbox) {
        self.outgoing.disk_full = true;
        (0..self.settled.len() as u32).for_each(|w| self.say(out, Peer::Worker(w), Message::DiskFull));
    }
    /// True if the disk did not take what it was last sent.
    pub fn is_disk_full(&self) -> bool {
        self.outgoing.disk_full
    }

    pub(crate) fn log(&mut self, record: Record) {
        for stream in self.outgoing.streams.values_mut() {
            stream.queue.push_back(record.clone());
        }
    }
    /// Logs an update that is applied; without backups its memory is free.
    pub(crate) fn log_update(&mut self, u: Update) {
        if self.outgoing.streams.is_empty() { pool::give(u.data) } else { self.log(Record::Update(u)) }
    }
    /// Steps that survive a crash of this server once the backups have all records: steps that
    /// are gathered and still open do not.
    fn durable(&self) -> Clocks {
        let limit = if self.rule.gathers() { self.applied } else { u64::MAX };
        Clocks::of(self.settled.iter().map(|s| (*s).min(limit)))
    }
    /// Makes everything so far final; `then` is said when all backups have it.
    pub(crate) fn commit(&mut self, then: Option<(WorkerId, Message)>) {
        let settled = self.durable();
        assert!(settled.iter().zip(&self.settled).all(|(d, s)| d <= s), "only settled steps are durable");
        let now = Record::Commit { settled: settled.clone(), applied: self.applied };
        // What has been said already need not be said again, only waited for.
        let is_said = |t: &Stream| t.queue.back().is_some_and(|r| *r == now);
        for stream in self.outgoing.streams.values_mut().filter(|t| !is_said(t)) {
            stream.queue.push_back(now.clone());
        }
        let end = |t: &Stream| t.first + t.queue.len() as u64;
        let needs = self.outgoing.streams.iter().map(|(s, t)| (*s, end(t))).collect();
        self.outgoing.commits.push_back(Commit { needs, settled, applied: self.applied, then });
    }
    /// Tells workers what has become safe, and sends new records.
    pub(crate) fn flush(&mut self, out: &mut Outbox) {
        while let Some(c) = self.outgoing.commits.front() {
            let has = |(s, n): &(Peer, u64)| self.outgoing.streams.get(s).is_none_or(|t| t.first >= *n);
            if !c.needs.iter().all(has) {
                break;
            }
            let Some(c) = self.outgoing.commits.pop_front() else { break };
            self.applied_safe = self.applied_safe.max(c.applied);
            for (w, s) in c.settled.iter().copied().enumerate() {
                if s > self.safe[w] {
                    self.safe[w] = s;
                    self.say(out, Peer::Worker(w as u32), Message::Settled { clock: s, closed: self.applied });
                }
            }
            if let Some((w, message)) = c.then {
                self.say(out, Peer::Worker(w), message);
            }
        }
        self.send_records(out, None);
    }
    /// Says again what another server, or every one, has not acknowledged, and as a backup how far
    /// it is: after a link was lost.
    pub fn resend(&mut self, to: Option<Peer>) -> Outbox {
        for (s, t) in &mut self.outgoing.streams {
            if to.is_none_or(|to| to == *s) {
                t.unsent = t.first;
            }
        }
        let mut out = Outbox::new();
        self.send_records(&mut out, to);
        let source = &self.incoming;
        if self.role == Role::Backup && source.stream > 0 && to.is_none_or(|to| to == Peer::Server(source.from)) {
            let message = Message::RecordAck { stream: source.stream, seq: source.next };
            self.say(&mut out, Peer::Server(source.from), message);
        }
        out
    }
    fn send_records(&mut self, out: &mut Outbox, to: Option<Peer>) {
        let (partition, epoch) = (self.id, self.epoch);
        for (server, t) in self.outgoing.streams.iter_mut().filter(|(s, _)| to.is_none_or(|to| to == **s)) {
            let end = t.first + t.queue.len() as u64;
            assert!(t.first <= t.unsent && t.unsent <= end, "records are sent once each, in order");
            for (i, record) in t.queue.iter().enumerate().skip((t.unsent - t.first) as usize) {
                let message = Message::Record { stream: t.id, seq: t.first + i as u64, record: record.clone() };
                out.push((*server, Envelope { partition, epoch, message }));
            }
            t.unsent = end;
        }
    }
    /// A backup says how far it is.
    pub(crate) fn acknowledged(&mut self, from: Peer, stream: u64, seq: u64, out: &mut Outbox) {
        let Some(t) = self.outgoing.streams.get_mut(&from).filter(|t| t.id == stream) else { return };
        while t.first < seq
            && let Some(record) = t.queue.pop_front()
        {
            t.first += 1;
            if let Record::Update(u) = record {
                pool::give(u.data);
            }
        }
        t.unsent = t.unsent.max(t.first);
        if from == Peer::Disk {
            self.outgoing.disk_full = false;
        }
        self.flush(out);
        self.release(out);
    }

    /// As a backup: the primary says what happened.
    pub(crate) fn record(
        &mut self,
        from: ServerId,
        stream: u64,
        seq: u64,
        record: Record,
        out: &mut Outbox,
    ) -> Result<(), String> {
        if stream > self.incoming.stream && seq == 0 && record == Record::Reset {
            self.incoming = Incoming { stream, from, ..Incoming::default() };
        }
        if stream != self.incoming.stream {
            return Ok(());
        }
        let is_next = seq == self.incoming.next;
        let mut is_commit = matches!(record, Record::Commit { .. });
        let mut next = None;
        if is_next {
            next = Some(record);
        } else if (self.incoming.next..self.incoming.next + EARLY_MAX).contains(&seq) {
            self.incoming.early.insert(seq, record);
        }
        while let Some(record) = next.take().or_else(|| self.incoming.early.remove(&self.incoming.next)) {
            self.incoming.next += 1;
            is_commit |= matches!(record, Record::Commit { .. });
            if self.outgoing.has_disk {
                self.copy_to_disk(record.clone(), out);
            }
            self.repeat(record)?;
        }
        let early = self.incoming.early.first_key_value();
        assert!(early.is_none_or(|(seq, _)| *seq > self.incoming.next), "records are repeated in order");
        // Workers wait for commits only; a record out of order says that something was lost.
        if is_commit || !is_next {
            let next = self.incoming.next;
            self.say(out, Peer::Server(from), Message::RecordAck { stream, seq: next });
        }
        Ok(())
    }

    /// As a backup: the disk gets what the primary says.
    fn copy_to_disk(&mut self, record: Record, out: &mut Outbox) {
        if record == Record::Reset {
            let id = self.next_disk_stream();
            let stream = Stream { id, first: 0, unsent: 0, whole: 0, queue: VecDeque::new() };
            self.outgoing.streams.insert(Peer::Disk, stream);
        }
        if let Some(t) = self.outgoing.streams.get_mut(&Peer::Disk) {
            t.queue.push_back(record);
        }
        self.send_records(out, Some(Peer::Disk));
    }

    fn repeat(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Reset => self.incoming.copy = Some(BTreeMap::new()),
            Record::Block { table, block, version, width, arrays } => {
                let mut arrays = arrays.into_iter();
                let (Some(value), Some(before)) = (arrays.next(), arrays.next()) else {
                    return Err("a block without a value".to_string());
                };
                let state = arrays.collect();
                let readers = BTreeMap::new();
                let b = Block { value, before, state, version, width: width as usize, readers };
                self.incoming.copy.as_mut().unwrap_or(&mut self.blocks).insert((table, block), b);
                self.changes((table, block));
            }
            Record::Update(u) => self.incoming.updates.push(u),
            Record::Commit { settled, applied } => {
                if settled.len() != self.settled.len() {
                    return Err(format!("a commit of {} workers, not {}", settled.len(), self.settled.len()));
                }
                if let Some(copy) = self.incoming.copy.take() {
                    (self.blocks, self.held) = (copy, self.incoming.stream);
                } else if applied > self.applied {
                    self.remember(true);
                }
                let mut updates = std::mem::take(&mut self.incoming.updates);
                for u in updates.drain(..) {
                    self.change(&u)?;
                    pool::give(u.data);
                }
                self.incoming.updates = updates;
                self.settled.copy_from_slice(&settled);
                self.recount();
                (self.applied, self.synced) = (applied, true);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::apply::Add;
    use crate::store::consistency::Rule;
    use std::sync::Arc;

    #[test]
    fn who_is_left_without_a_copy_writes_nothing_in_its_place() {
        let mut p = Partition::new(0, 2, 1, Arc::new(Rule::BSP), Box::new(Add));
        p.keep_on_disk();
        let mut out = Outbox::new();
        // Server 2 is to get a copy; before it comes, those who have one are gone.
        let two = Map::new(1, &[0, 1], 2, 1).unwrap();
        let three = two.toward(&Map::new(1, &[1, 2], 2, 1).unwrap(), |_| true).unwrap();
        assert_eq!(three.replicas[0], [0, 1, 2]);
        let alone = three.without(&[0, 1], &[2], 2);
        assert_eq!(alone.replicas[0], [2]);
        for map in [two, three, alone] {
            let (epoch, message) = (map.epoch, Message::Map(Arc::new(map)));
            p.handle(Peer::Coordinator, Envelope { partition: 0, epoch, message }, &mut out).unwrap();
        }
        assert!(out.is_empty() && p.is_unsynced() && !p.is_copied(), "{out:?}");
        // A worker is sent to the next map, which says whether another server has a copy.
        let join = Envelope { partition: 0, epoch: p.epoch(), message: Message::Join { life: 1 } };
        p.handle(Peer::Worker(0), join, &mut out).unwrap();
        assert!(matches!(out[..], [(Peer::Worker(0), Envelope { message: Message::Moved, .. })]), "{out:?}");
    }
}
