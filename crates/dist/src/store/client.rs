//! A worker's side of the store: a state machine that remembers what has not been answered yet.
//!
//! Pushes are kept until the store says that they would survive a crash, questions until they are
//! answered; after a fail-over everything unanswered is said again, and the store recognizes what
//! it knows already.

use crate::store::map::{Map, ServerId, WorkerId};
use crate::store::message::{Envelope, LIFE_MAX, Message, Peer, Rows, Update, first_request};
use crate::store::server::partition::Outbox;
use crate::{Error, Reads, Result, Rule, pool};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Elements of a block at most: with the state of an optimizer it still fits into one message.
const BLOCK_MAX: usize = 32 << 20;

/// Servers in order, without heap where they are few.
pub type Servers = SmallVec<[ServerId; 64]>;

/// How a table of rows is cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its number.
    pub id: u32,
    /// How many rows.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Rows of a block; the last may have fewer.
    pub block_rows: usize,
}

impl Table {
    /// A table whose blocks have about `bytes` bytes.
    pub fn new(id: u32, rows: usize, width: usize, bytes: usize) -> Result<Table> {
        let too_large = rows.checked_mul(width).is_none_or(|n| n > u32::MAX as usize);
        if rows == 0 || width == 0 || too_large {
            return Err(Error::value(format!("a table of {rows} × {width} elements cannot be stored")));
        }
        let block_rows = (bytes / 4 / width).clamp(1, rows);
        if block_rows * width > BLOCK_MAX {
            let e = format!("a block of table {id} would have {} elements, more than {BLOCK_MAX}", block_rows * width);
            return Err(Error::value(e));
        }
        Ok(Table { id, rows, width, block_rows })
    }
    /// How many blocks.
    pub fn blocks(&self) -> u32 {
        self.rows.div_ceil(self.block_rows) as u32
    }
    /// Where a block's elements lie in the table.
    pub fn elements(&self, block: u32) -> Range<usize> {
        let first = block as usize * self.block_rows;
        first * self.width..(first + self.block_rows).min(self.rows) * self.width
    }
}

#[derive(Default)]
struct Part {
    /// The last update, held back to say with it that the step is settled.
    held: Option<Update>,
    index: u32,
    /// Pushes that are not safe yet, in order.
    kept: VecDeque<Message>,
    safe: u64,
    /// Steps that it has closed, as far as is known.
    closed: u64,
}

struct Read {
    partition: u32,
    ask: Message,
    answer: Option<Arc<Vec<f32>>>,
}

/// Requests whose responses were not taken yet, by their consecutive numbers.
#[derive(Default)]
struct Questions {
    /// Number of the first in the list.
    first: u64,
    list: VecDeque<Option<Read>>,
}

impl Questions {
    /// Number of the next question.
    fn next(&self) -> u64 {
        self.first + self.list.len() as u64
    }
    fn get_mut(&mut self, request: u64) -> Option<&mut Read> {
        self.list.get_mut(request.checked_sub(self.first)? as usize)?.as_mut()
    }
    fn take(&mut self, request: u64) -> Option<Read> {
        let read = self.list.get_mut(request.checked_sub(self.first)? as usize)?.take();
        while let Some(None) = self.list.front() {
            self.list.pop_front();
            self.first += 1;
        }
        read
    }
    /// Those without an answer.
    fn open(&self) -> impl Iterator<Item = &Read> {
        self.list.iter().flatten().filter(|r| r.answer.is_none())
    }
}

/// The state machine.
pub struct Client {
    me: WorkerId,
    life: u32,
    map: Arc<Map>,
    step: u64,
    /// Steps that it has settled; behind `step` where steps were left out.
    settled: u64,
    parts: Vec<Part>,
    reads: Questions,
    creates: BTreeMap<(u32, u32), (u32, Message)>,
    joining: BTreeSet<u32>,
    joined: Option<u64>,
    closed: u64,
    /// Whether the store drops steps that come late, so that a late worker leaves some out.
    drops: bool,
    stale: bool,
    /// Partitions whose disk takes no more.
    full: BTreeSet<u32>,
    /// How old what this worker has may be to be read again; `None`: it asks each time.
    reuse: Option<u64>,
    /// Whether reads come from the store until the next step, whatever the rule says.
    rereads: bool,
    /// Blocks that it has, with the closed steps that they contain.
    cache: BTreeMap<(u32, u32), (u64, Arc<Vec<f32>>)>,
    staleness: [u64; 17],
}

impl Client {
    /// A worker that knows nothing until it gets a map. Each life of a worker has a higher number
    /// than those before, from 1, so that messages of one are not taken for another's.
    ///
    /// # Panics
    /// If it has more lives than messages can say: some sixteen million.
    pub fn new(me: WorkerId, life: u32, drops: bool) -> Client {
        assert!(life <= LIFE_MAX, "a worker has at most {LIFE_MAX} lives");
        Client {
            me,
            life,
            map: Arc::default(),
            step: 0,
            settled: 0,
            parts: Vec::new(),
            reads: Questions { first: first_request(life), list: VecDeque::new() },
            creates: BTreeMap::new(),
            joining: BTreeSet::new(),
            joined: None,
            closed: 0,
            drops,
            stale: true,
            full: BTreeSet::new(),
            reuse: None,
            cache: BTreeMap::new(),
            rereads: false,
            staleness: [0; 17],
        }
    }
    /// Reads what it has while that is within the rule's bound, if the rule says so.
    pub fn reuse(&mut self, rule: &Rule) {
        self.reuse = rule.bound.filter(|_| rule.reads != Reads::Fresh);
    }
    /// Cached reads are not fresh enough any more, whatever the rule says; nor are those that servers have sent on
    /// their own and that still arrive.
    pub(crate) fn forget(&mut self) {
        self.cache.clear();
        self.rereads = true;
    }
    /// How many reads were this many steps ahead of the slowest worker in what they saw; the last
    /// counts all beyond.
    pub fn staleness_counts(&self) -> &[u64; 17] {
        &self.staleness
    }
    fn saw(&mut self, closed: u64) {
        self.closed = self.closed.max(closed);
        self.staleness[(self.step.saturating_sub(closed) as usize).min(16)] += 1;
    }
    /// The step it is in.
    pub fn step(&self) -> u64 {
        self.step
    }
    /// After joining: the partition that is furthest in this worker's steps, and how many it has
    /// settled there. Where reads may be ahead, partitions may be further apart than the step that can
    /// be done again: then the partition that is least far.
    pub(crate) fn furthest(&self) -> (u32, u64) {
        let of = |p: usize| (p as u32, self.parts[p].safe);
        let clocks = || (0..self.parts.len()).map(of);
        let most = clocks().max_by_key(|(p, clock)| (*clock, std::cmp::Reverse(*p))).unwrap_or_default();
        if most.1 <= self.step + 1 { most } else { clocks().min_by_key(|(_, clock)| *clock).unwrap_or_default() }
    }
    /// After joining: begins at another step.
    pub(crate) fn move_to(&mut self, step: u64) {
        (self.step, self.settled) = (step, step);
    }
    /// The newest closed step it has heard of.
    pub fn closed(&self) -> u64 {
        self.closed
    }
    /// The map it acts on.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }
    /// True if a server would not answer under this map: there is a newer one, or it must be said
    /// again.
    pub fn needs_map(&self) -> bool {
        self.stale
    }
    /// True if every block it asked to create exists in every copy.
    pub fn is_created(&self) -> bool {
        self.creates.is_empty()
    }
    /// Settled steps that might be lost with a server.
    pub fn volatile_steps(&self) -> u64 {
        let safe = self.parts.iter().map(|p| p.safe).min().unwrap_or(self.settled);
        self.settled.saturating_sub(safe)
    }
    /// Steps of which some partition has this worker's part: more than it will begin with if its former life has died
    /// while it settled a step.
    pub fn steps_in_store(&self) -> u64 {
        self.parts.iter().map(|p| p.safe).max().unwrap_or(0).max(self.step)
    }
    /// True if a read has not been answered.
    pub fn is_waiting(&self) -> bool {
        self.reads.open().next().is_some()
    }
    /// Servers that owe an answer to a read.
    pub fn questioned(&self) -> Servers {
        self.primaries(self.reads.open().map(|r| r.partition))
    }
    /// Who answers for these partitions, each once.
    fn primaries(&self, partitions: impl Iterator<Item = u32>) -> Servers {
        let mut out = Servers::new();
        for server in partitions.filter_map(|p| self.map.primary(p)) {
            if let Err(at) = out.binary_search(&server) {
                out.insert(at, server);
            }
        }
        out
    }
    /// Servers that owe an answer to a read, a creation or a join.
    pub fn debtors(&self) -> Servers {
        let reads = self.reads.open().map(|r| r.partition);
        let rest = self.creates.values().map(|(p, _)| *p).chain(self.joining.iter().copied());
        self.primaries(reads.chain(rest))
    }
    /// Servers whose disk takes no more.
    pub fn full(&self) -> Servers {
        self.primaries(self.full.iter().copied())
    }
    /// Servers that have not said that all settled steps are safe.
    pub fn volatile_servers(&self) -> Servers {
        self.primaries((0..self.parts.len() as u32).filter(|p| self.parts[*p as usize].safe < self.settled))
    }

    fn say(&self, out: &mut Outbox, partition: u32, message: Message) {
        if let Some(server) = self.map.primary(partition) {
            out.push((Peer::Server(server), Envelope { partition, epoch: self.map.epoch, message }));
        }
    }

    /// Asks every partition how far this worker was.
    pub fn join(&mut self) -> Outbox {
        self.joining = (0..self.map.replicas.len() as u32).collect();
        self.joined = None;
        let mut out = Outbox::new();
        for p in self.joining.clone() {
            self.say(&mut out, p, Message::Join { life: self.life });
        }
        out
    }
    /// The step this worker begins with, once every partition has answered.
    pub fn joined(&self) -> Option<u64> {
        self.joined.filter(|_| self.joining.is_empty())
    }
    /// Makes sure that a block exists, with this value if it is new.
    pub fn create(&mut self, table: &Table, block: u32, data: Arc<Vec<f32>>) -> Outbox {
        let partition = self.map.partition(table.id, block);
        let message = Message::Create { table: table.id, block, width: table.width as u32, data };
        self.creates.insert((table.id, block), (partition, message.clone()));
        let mut out = Outbox::new();
        self.say(&mut out, partition, message);
        out
    }
    /// Brings a block as a checkpoint had it.
    pub fn restore(&mut self, table: u32, block: u32, data: Arc<Vec<f32>>) -> Outbox {
        let partition = self.map.partition(table, block);
        let message = Message::Restore { table, block, data };
        // What was read before is not what is there now.
        self.cache.remove(&(table, block));
        self.creates.insert((table, block), (partition, message.clone()));
        let mut out = Outbox::new();
        self.say(&mut out, partition, message);
        out
    }
    /// Sends on what is held back of the partition of a block, as more follows.
    pub(crate) fn release(&mut self, table: u32, block: u32) -> Outbox {
        let partition = self.map.partition(table, block);
        let mut out = Outbox::new();
        if let Some(u) = self.parts[partition as usize].held.take() {
            self.send_push(partition, Some(u), false, &mut out);
        }
        out
    }
    /// Adds an update to this step.
    pub fn push(&mut self, update: Update) -> Outbox {
        let out = self.release(update.table, update.block);
        let partition = self.map.partition(update.table, update.block);
        self.parts[partition as usize].held = Some(update);
        out
    }
    fn send_push(&mut self, partition: u32, update: Option<Update>, last: bool, out: &mut Outbox) {
        let part = &mut self.parts[partition as usize];
        let message = Message::Push { life: self.life, clock: self.step, index: part.index, last, update };
        part.index = if last { 0 } else { part.index + 1 };
        part.kept.push_back(message.clone());
        self.say(out, partition, message);
    }
    /// Ends the step; what to send is added to `out`, a message for each partition.
    pub fn settle(&mut self, out: &mut Outbox) {
        for p in 0..self.parts.len() as u32 {
            let held = self.parts[p as usize].held.take();
            self.send_push(p, held, true, out);
        }
        assert!(self.parts.iter().all(|p| p.held.is_none() && p.index == 0), "a settled step holds nothing back");
        self.step += 1;
        self.rereads = false;
        self.settled = self.step;
        if self.drops {
            // Only past steps that every partition has closed: another might still need this worker.
            let closed = self.parts.iter().map(|p| p.closed).min().unwrap_or(0);
            self.step = self.step.max(closed);
        }
    }
    /// Asks for a block, or rows of it; returns the number of the question.
    pub fn pull(&mut self, table: u32, block: u32, rows: Rows) -> (u64, Outbox) {
        let has = self.cache.get(&(table, block)).filter(|_| rows.is_empty());
        let is_fresh = |closed: u64| !self.rereads && self.reuse.is_some_and(|bound| self.step <= closed + bound);
        let answer = has.filter(|(closed, _)| is_fresh(*closed)).cloned();
        let (clock, request) = (self.step, self.reads.next());
        let partition = self.map.partition(table, block);
        self.ask(Message::Pull { clock, request, table, block, rows }, partition, answer)
    }
    /// Asks for a block with everything that belongs to it; returns the number of the question.
    pub fn dump(&mut self, table: u32, block: u32) -> (u64, Outbox) {
        let (clock, request) = (self.step, self.reads.next());
        let partition = self.map.partition(table, block);
        self.ask(Message::Dump { clock, request, table, block }, partition, None)
    }
    /// Asks for a partition to be written to a file; returns the number of the question. The answer
    /// is the number of blocks, or nothing if it is too late.
    pub fn save(&mut self, partition: u32, to: String) -> (u64, Outbox) {
        let (clock, request) = (self.step, self.reads.next());
        self.ask(Message::Save { clock, request, to }, partition, None)
    }
    /// Each partition's primary.
    pub fn all_primaries(&self) -> Vec<ServerId> {
        self.map.replicas.iter().map(|list| list.first().copied().unwrap_or(u32::MAX)).collect()
    }
    /// Asks, unless there is an answer already.
    fn ask(&mut self, ask: Message, partition: u32, answer: Option<(u64, Arc<Vec<f32>>)>) -> (u64, Outbox) {
        let request = self.reads.next();
        let mut out = Outbox::new();
        if let Some((closed, data)) = answer {
            self.saw(closed);
            self.reads.list.push_back(Some(Read { partition, ask, answer: Some(data) }));
            return (request, out);
        }
        self.say(&mut out, partition, ask.clone());
        self.reads.list.push_back(Some(Read { partition, ask, answer: None }));
        (request, out)
    }
    /// The answer to a question, once it is there; it is handed out once.
    pub fn take(&mut self, request: u64) -> Option<Arc<Vec<f32>>> {
        self.reads.get_mut(request)?.answer.as_ref()?;
        self.reads.take(request)?.answer
    }

    /// A question was answered, and the answer already put where it belongs.
    pub(crate) fn answered(&mut self, request: u64, closed: u64) {
        if self.reads.take(request).is_some() {
            self.saw(closed);
        }
    }
    /// True if what is read is kept for the next reads.
    pub(crate) fn keeps(&self) -> bool {
        self.reuse.is_some()
    }

    /// Takes a message and says what to send.
    pub fn handle(&mut self, from: Peer, e: Envelope) -> Result<Outbox> {
        let p = e.partition as usize;
        let is_known = p < self.parts.len();
        match e.message {
            Message::Map(map) => return self.new_map(map),
            Message::Value { request, closed, data } => {
                if let Some(r) = self.reads.get_mut(request).filter(|r| r.answer.is_none()) {
                    r.answer = Some(data.clone());
                    if let (Message::Pull { table, block, rows, .. }, true) = (&r.ask, self.reuse.is_some())
                        && rows.is_empty()
                    {
                        let key = (*table, *block);
                        self.keep(key, closed, data);
                    }
                    self.saw(closed);
                }
            }
            Message::Snapped { request, blocks } => {
                if let Some(r) = self.reads.get_mut(request).filter(|r| r.answer.is_none()) {
                    r.answer = Some(Arc::new(blocks.map(f32::from_bits).into_iter().collect()));
                }
            }
            Message::Fresh { table, block, closed, data } if is_known => self.keep((table, block), closed, data),
            Message::Settled { clock, closed } if is_known => {
                self.full.remove(&e.partition);
                let part = &mut self.parts[p];
                part.closed = part.closed.max(closed);
                part.safe = part.safe.max(clock);
                let is_safe = |m: &Message| matches!(m, Message::Push { clock: c, .. } if *c < clock);
                while part.kept.front().is_some_and(is_safe) {
                    if let Some(Message::Push { update: Some(u), .. }) = part.kept.pop_front() {
                        pool::give(u.data);
                    }
                }
            }
            Message::Created { table, block } => {
                self.creates.remove(&(table, block));
            }
            Message::Joined { life, clock } if is_known && life == self.life => {
                if self.joining.remove(&e.partition) {
                    let step = self.joined.map_or(clock, |j| j.min(clock));
                    (self.joined, self.step, self.closed) = (Some(step), step, step);
                    (self.settled, self.parts[p].safe) = (step, clock);
                }
            }
            Message::DiskFull if is_known => {
                self.full.insert(e.partition);
            }
            // What was said to a former life of this worker.
            Message::Settled { .. } | Message::Joined { .. } | Message::DiskFull | Message::Fresh { .. } => {}
            // A newer epoch, or a server that has not heard of this one yet.
            Message::Moved => self.stale = true,
            other => return Err(Error::refused(format!("{from:?} sent a worker {other:?}"))),
        }
        Ok(Outbox::new())
    }

    fn keep(&mut self, key: (u32, u32), closed: u64, data: Arc<Vec<f32>>) {
        let entry = self.cache.entry(key).or_default();
        if closed >= entry.0 || entry.1.is_empty() {
            pool::give(std::mem::replace(entry, (closed, data)).1);
        }
    }

    fn new_map(&mut self, map: Arc<Map>) -> Result<Outbox> {
        if map.epoch <= self.map.epoch {
            return Ok(Outbox::new());
        }
        if self.parts.is_empty() {
            self.parts.resize_with(map.replicas.len(), Part::default);
        }
        if self.parts.len() != map.replicas.len() {
            return Err(Error::refused(format!(
                "a map of {} partitions, not {}",
                map.replicas.len(),
                self.parts.len()
            )));
        }
        if let Some(p) = map.replicas.iter().position(Vec::is_empty) {
            return Err(Error::Lost(format!("partition {p}: the servers with its copies have died")));
        }
        (self.map, self.stale) = (map, false);
        // Every server has dropped what came under the old epoch's number.
        Ok(self.resend(None))
    }

    /// Says again whatever is unanswered, to one server or to all.
    pub fn resend(&mut self, to: Option<ServerId>) -> Outbox {
        self.stale &= to.is_some();
        let mut out = Outbox::new();
        for (partition, m) in self.creates.values() {
            self.say(&mut out, *partition, m.clone());
        }
        self.joining.iter().for_each(|p| self.say(&mut out, *p, Message::Join { life: self.life }));
        for (p, part) in self.parts.iter().enumerate() {
            part.kept.iter().for_each(|m| self.say(&mut out, p as u32, m.clone()));
        }
        for r in self.reads.open() {
            self.say(&mut out, r.partition, r.ask.clone());
        }
        out.retain(|(peer, _)| to.is_none_or(|s| *peer == Peer::Server(s)));
        out
    }
    /// This worker's number.
    pub fn worker(&self) -> WorkerId {
        self.me
    }
}
