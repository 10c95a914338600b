//! One partition of the store on one server: a state machine, told what arrives and saying what
//! to send. It reads no clock and does no input or output.
//!
//! A worker's updates of a step are staged until it settles the step, so a worker that dies half
//! way leaves nothing behind, and a step counts once however often its messages come. What is
//! final goes to the backups as a numbered stream of records, after aggregation; a worker is told
//! that a step is settled when every backup has it. Reads that the consistency rule does not
//! admit yet are parked.

use crate::merge;
use crate::pool;
use crate::store::apply::{Apply, Target};
use crate::store::consistency::Consistency;
use crate::store::map::{ServerId, WorkerId};
use crate::store::message::{Envelope, Message, Peer, Rows, Update};
use crate::store::server::disk::Position;
use crate::store::server::replica::{Incoming, Outgoing};
use crate::store::server::snapshot::{Save, Snapshot};
use crate::store::worker::state::is_worker_state;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Steps that a worker may have in progress at most; it waits for the oldest long before.
const STEPS_MAX: usize = 64;

/// The elements of a block and what belongs to them.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub value: Arc<Vec<f32>>,
    /// The value before the last step, for a worker that has to do that step again.
    pub before: Arc<Vec<f32>>,
    pub state: Vec<Arc<Vec<f32>>>,
    pub version: u64,
    /// Elements of a row.
    pub width: usize,
    /// Workers that get it when it has changed, and its version when they last did.
    pub readers: BTreeMap<WorkerId, u64>,
}

impl Block {
    /// Keeps the value for who has to do the step again.
    fn remember(&mut self) {
        pool::give(std::mem::replace(&mut self.before, self.value.clone()));
    }
    /// Everything that belongs to it: a value, the state, the version in two words.
    fn whole(&self, value: &[f32]) -> Vec<f32> {
        let mut out = value.to_vec();
        self.state.iter().for_each(|s| out.extend_from_slice(s));
        out.extend([self.version as u32, (self.version >> 32) as u32].map(f32::from_bits));
        out
    }
    /// Takes over what [`Block::whole`] has made.
    fn take(&mut self, data: &[f32]) -> Option<()> {
        let len = self.value.len();
        let (arrays, version) = data.split_at_checked(len * (1 + self.state.len()))?;
        let [low, high] = *version else { return None };
        self.version = u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32;
        self.value = Arc::new(arrays[..len].to_vec());
        self.before = self.value.clone();
        self.state = (1..=self.state.len()).map(|i| Arc::new(arrays[i * len..(i + 1) * len].to_vec())).collect();
        Some(())
    }
}

/// What a worker has sent of a step that it has not settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Staged {
    clock: u64,
    /// Updates come with a number each, also where there is nothing but settling to say.
    count: u32,
    updates: Vec<Update>,
}

/// What a worker has sent of a step that it has settled, before the step closes.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    clock: u64,
    pub worker: WorkerId,
    updates: Vec<Update>,
}

/// A read that waits.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    worker: WorkerId,
    clock: u64,
    request: u64,
    table: u32,
    block: u32,
    rows: Rows,
    /// With everything that belongs to the block.
    whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    None,
    Primary,
    Backup,
}

/// Counters of what has happened, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Updates of blocks applied.
    pub applied: u64,
    /// Steps of workers that came after they were closed, and were dropped.
    pub dropped: u64,
    /// Messages that said what was known already.
    pub repeated: u64,
    /// Reads answered.
    pub reads: u64,
    /// Reads that had to wait.
    pub parked: u64,
    /// How many reads were this many steps ahead of the slowest worker; the last counts all beyond.
    pub staleness: [u64; 17],
}

/// What to send, and to whom.
pub type Outbox = SmallVec<[(Peer, Envelope); 4]>;

/// The state machine.
pub struct Partition {
    pub(crate) id: u32,
    pub(crate) me: ServerId,
    pub(crate) rule: Arc<dyn Consistency>,
    pub(crate) apply: Box<dyn Apply>,
    pub(crate) epoch: u64,
    pub(crate) role: Role,
    /// Workers that steps wait for, and their settled steps; of all, if none
    /// counts any more.
    pub(crate) counted: Vec<bool>,
    clocks: Vec<u64>,
    pub(crate) blocks: BTreeMap<(u32, u32), Block>,
    pub(crate) settled: Vec<u64>,
    /// For each worker its present life; what former ones have said and comes late is not heard.
    pub(crate) lives: Vec<u32>,
    /// For each worker the steps that it has not settled; more than one only where steps may be
    /// left out.
    pub(crate) staged: Vec<Vec<Staged>>,
    /// Settled steps that have not closed.
    pub(crate) open: Vec<Open>,
    /// Lists that are used again: of updates, and of those of a step that closes.
    lists: Vec<Vec<Update>>,
    closing: Vec<(usize, Update)>,
    /// Blocks whose value may differ from the one before the last step, where steps are gathered.
    changed: Vec<(u32, u32)>,
    pub(crate) applied: u64,
    /// Of these, the steps that would survive a crash.
    pub(crate) applied_safe: u64,
    pub(crate) parked: Vec<Parked>,
    /// Pending snapshot requests, and snapshots that were taken but not fetched yet.
    pub(crate) saves: Vec<Save>,
    pub(crate) snapshots: Vec<Snapshot>,
    /// Settled steps that would survive a crash.
    pub(crate) safe: Vec<u64>,
    /// Whether everything that was here in epoch `held` is.
    pub(crate) synced: bool,
    pub(crate) held: u64,
    /// The epoch since which this server holds the partition.
    pub(crate) since: u64,
    /// The epoch since which its primary, as far as this server knows, has been that.
    pub(crate) term: u64,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    counters: Counters,
}

/// No job has more steps.
pub(crate) const CLOCK_MAX: u64 = 1 << 48;

impl Partition {
    /// A partition that knows nothing until it gets a map.
    pub fn new(id: u32, me: ServerId, workers: usize, rule: Arc<dyn Consistency>, apply: Box<dyn Apply>) -> Partition {
        Partition {
            id,
            me,
            rule,
            apply,
            epoch: 0,
            role: Role::None,
            counted: vec![true; workers],
            clocks: vec![0; workers],
            blocks: BTreeMap::new(),
            settled: vec![0; workers],
            lives: vec![0; workers],
            staged: vec![Vec::new(); workers],
            open: Vec::new(),
            lists: Vec::new(),
            closing: Vec::new(),
            changed: Vec::new(),
            applied: 0,
            applied_safe: 0,
            parked: Vec::new(),
            saves: Vec::new(),
            snapshots: Vec::new(),
            safe: vec![0; workers],
            synced: false,
            held: 0,
            since: 0,
            term: 0,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            counters: Counters::default(),
        }
    }
    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }
    /// What has happened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    /// How many steps each worker has settled.
    pub fn settled(&self) -> &[u64] {
        &self.settled
    }
    /// True if this server answers for the partition.
    pub fn is_primary(&self) -> bool {
        self.role == Role::Primary
    }
    /// The blocks with their versions and values, for comparing copies.
    pub fn contents(&self) -> impl Iterator<Item = ((u32, u32), u64, &Arc<Vec<f32>>)> {
        self.blocks.iter().map(|(k, b)| (*k, b.version, &b.value))
    }
    /// True if this copy is complete and belongs to that epoch.
    pub fn is_whole(&self, epoch: u64) -> bool {
        self.synced && self.epoch == epoch && self.held >= self.since
    }
    /// How far this copy is.
    pub fn position(&self) -> Position {
        Position { epoch: self.epoch, applied: self.applied, settled: self.settled.iter().sum() }
    }
    /// Closed steps that are applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Takes a message and adds what to send to `out`. A message that no correct peer would send is
    /// an error and changes nothing.
    pub fn handle(&mut self, from: Peer, e: Envelope, out: &mut Outbox) -> Result<(), String> {
        match (from, e.message) {
            (Peer::Coordinator, Message::Map(map)) => self.map(&map, out)?,
            (Peer::Server(s), Message::Record { stream, seq, record }) => {
                if e.epoch >= self.epoch && self.role != Role::Primary {
                    self.record(s, stream, seq, record, out)?;
                }
            }
            (Peer::Server(_) | Peer::Disk, Message::RecordAck { stream, seq }) => {
                self.acknowledged(from, stream, seq, out);
            }
            (Peer::Disk, Message::DiskFull) => self.disk_full(out),
            (Peer::Worker(w), message) => {
                if w as usize >= self.settled.len() {
                    return Err(format!("there is no worker {w}"));
                }
                // Without a complete copy it says so to the controller, whose next map has another primary or none.
                if self.role != Role::Primary || e.epoch != self.epoch || !self.synced {
                    self.say(out, from, Message::Moved);
                } else if self.is_present_life(w, &message) {
                    self.worker(w, message, out)?;
                }
            }
            (from, message) => return Err(format!("{from:?} must not send {message:?}")),
        }
        Ok(())
    }

    /// False if a former life of the worker speaks: what was on its way when it died must not mix
    /// with what its successor says of the same step. The first word of a new life ends the old one.
    fn is_present_life(&mut self, w: WorkerId, message: &Message) -> bool {
        let (Some(life), present) = (message.life(), self.lives[w as usize]) else { return true };
        if life > present {
            self.lives[w as usize] = life;
            self.forget_unfinished(w);
        }
        self.counters.repeated += u64::from(life < present);
        life >= present
    }

    pub(crate) fn say(&self, out: &mut Outbox, to: Peer, message: Message) {
        out.push((to, Envelope { partition: self.id, epoch: self.epoch, message }));
    }

    fn worker(&mut self, w: WorkerId, message: Message, out: &mut Outbox) -> Result<(), String> {
        if let Message::Push { clock, .. }
        | Message::Pull { clock, .. }
        | Message::Dump { clock, .. }
        | Message::Save { clock, .. } = message
            && clock > CLOCK_MAX
        {
            return Err(format!("worker {w} speaks of step {clock}"));
        }
        match message {
            Message::Create { table, block, width, data } => {
                if width == 0 || !data.len().is_multiple_of(width as usize) {
                    return Err(format!("{} elements are not rows of {width}", data.len()));
                }
                self.create(table, block, width as usize, data)?;
                self.commit(Some((w, Message::Created { table, block })));
                self.flush(out);
            }
            Message::Push { clock, index, last, update, .. } => self.push(w, clock, index, last, update, out)?,
            Message::Pull { clock, request, table, block, rows } => {
                self.read(Parked { worker: w, clock, request, table, block, rows, whole: false }, out)?;
            }
            Message::Dump { clock, request, table, block } => {
                self.read(Parked { worker: w, clock, request, table, block, rows: Rows::default(), whole: true }, out)?;
            }
            Message::Save { clock, request, to } => {
                self.saves.retain(|s| s.worker != w || s.request != request);
                self.saves.push(Save { worker: w, clock, request, to });
                self.take_snapshots(out);
            }
            Message::Restore { table, block, data } => {
                self.take_saved(table, block, &data)?;
                self.commit(Some((w, Message::Created { table, block })));
                self.flush(out);
            }
            Message::Join { life } => {
                // Said when the backups have it: a worker that starts over cannot repeat a step
                // that a crash takes back.
                self.commit(Some((w, Message::Joined { life, clock: self.settled[w as usize] })));
                self.flush(out);
            }
            other => return Err(format!("worker {w} must not send {other:?}")),
        }
        Ok(())
    }

    /// Drops what a worker's former life has left behind.
    fn forget_unfinished(&mut self, w: WorkerId) {
        self.blocks.values_mut().for_each(|b| {
            b.readers.remove(&w);
        });
        self.staged[w as usize].clear();
        self.parked.retain(|p| p.worker != w);
        self.saves.retain(|s| s.worker != w);
        if self.rule.gathers() {
            self.open.retain(|o| o.worker != w);
            self.settled[w as usize] = self.settled[w as usize].min(self.applied);
            self.recount();
        }
    }
    fn create(&mut self, table: u32, block: u32, width: usize, data: Arc<Vec<f32>>) -> Result<(), String> {
        if self.blocks.contains_key(&(table, block)) {
            return Ok(());
        }
        let state = if is_worker_state(table) { Vec::new() } else { self.apply.state(table, data.len())? };
        let state = state.into_iter().map(Arc::new).collect();
        let b = Block { before: data.clone(), value: data, state, version: 0, width, readers: BTreeMap::new() };
        self.log(b.record(table, block));
        self.blocks.insert((table, block), b);
        Ok(())
    }

    /// To be called when settled steps, or the workers that count, have changed.
    pub(crate) fn recount(&mut self) {
        let is_empty = !self.counted.contains(&true);
        self.clocks.clear();
        let counts = self.settled.iter().zip(&self.counted).filter(|(_, c)| **c || is_empty);
        self.clocks.extend(counts.map(|(s, _)| *s));
    }
    /// A read is admitted by what is applied, which is what it would see. Where steps are applied
    /// together it must also be safe: a crash that took it back would leave other partitions ahead.
    pub(crate) fn admits(&self, clock: u64) -> bool {
        // Steps that closed without a slow worker are closed, also when it is the last one left.
        let by_rule = self.rule.drops() || self.rule.admit(clock, &self.clocks);
        by_rule && (!self.rule.gathers() || clock <= self.applied_safe)
    }

    /// Replies to a read, or parks it.
    fn read(&mut self, r: Parked, out: &mut Outbox) -> Result<(), String> {
        self.check_read(&r)?;
        if self.admits(r.clock) {
            self.answer(&r, out);
        } else if !self.parked.iter().any(|p| p.worker == r.worker && p.request == r.request) {
            self.counters.parked += 1;
            self.parked.push(r);
        }
        Ok(())
    }
    /// Restores the values of a checkpoint, unless the block was changed already: of workers
    /// that all bring the same, only the first is heard.
    fn take_saved(&mut self, table: u32, block: u32, data: &[f32]) -> Result<(), String> {
        let b = self.blocks.get_mut(&(table, block));
        let b = b.ok_or_else(|| format!("there is no block {block} of table {table}"))?;
        if b.version > 0 {
            return Ok(());
        }
        b.take(data).ok_or_else(|| format!("a checkpoint of {} elements does not fit", data.len()))?;
        let record = b.record(table, block);
        self.log(record);
        Ok(())
    }

    fn check_read(&self, r: &Parked) -> Result<(), String> {
        let Some(b) = self.blocks.get(&(r.table, r.block)) else {
            return Err(format!("there is no block {} of table {}", r.block, r.table));
        };
        merge::check_rows(b.value.len(), b.width, &r.rows, None)
    }

    fn answer(&mut self, r: &Parked, out: &mut Outbox) {
        let Some(b) = self.blocks.get(&(r.table, r.block)) else { return };
        // A worker that repeats the last step, because it died in it, must see what it saw then.
        let again = self.rule.gathers() && !self.rule.drops() && r.clock < self.applied;
        let value = if again { &b.before } else { &b.value };
        let data = if r.whole {
            Arc::new(b.whole(value))
        } else if r.rows.is_empty() {
            value.clone()
        } else {
            let mut rows = pool::take(r.rows.len() * b.width);
            merge::take_rows(value, b.width, &r.rows, pool::make_mut(&mut rows));
            rows
        };
        let slowest = self.clocks.iter().copied().min().unwrap_or(0);
        let stale = r.clock.saturating_sub(slowest) as usize;
        self.counters.staleness[stale.min(16)] += 1;
        self.counters.reads += 1;
        let closed = if again { r.clock } else { self.rule.closed(&self.clocks) };
        if self.rule.pushes()
            && r.rows.is_empty()
            && let Some(b) = self.blocks.get_mut(&(r.table, r.block))
        {
            b.readers.insert(r.worker, b.version);
        }
        self.say(out, Peer::Worker(r.worker), Message::Value { request: r.request, closed, data });
    }

    fn push(
        &mut self,
        w: WorkerId,
        clock: u64,
        index: u32,
        last: bool,
        update: Option<Update>,
        out: &mut Outbox,
    ) -> Result<(), String> {
        if let Some(u) = &update {
            let block = self.blocks.get(&(u.table, u.block));
            let block = block.ok_or_else(|| format!("there is no block {} of table {}", u.block, u.table))?;
            merge::check_rows(block.value.len(), block.width, &u.rows, Some(u.data.len()))?;
        }
        let at = w as usize;
        let is_old = clock < self.settled[at];
        // Where steps close without the slowest, a worker may leave steps out to catch up.
        let furthest = if self.rule.drops() { self.applied + STEPS_MAX as u64 } else { 0 };
        let is_early = clock > self.settled[at].max(furthest);
        if is_old || is_early {
            self.counters.repeated += 1;
            self.say(out, Peer::Worker(w), Message::Settled { clock: self.safe[at], closed: self.applied });
            return Ok(());
        }
        let steps = &mut self.staged[at];
        let i = steps.iter().position(|s| s.clock == clock).unwrap_or(steps.len());
        if i == STEPS_MAX {
            return Err(format!("worker {w} has {STEPS_MAX} steps under way"));
        }
        if i == steps.len() {
            steps.push(Staged { clock, count: 0, updates: self.lists.pop().unwrap_or_default() });
        }
        let staged = &mut steps[i];
        if index != staged.count {
            // Known already, or one before it was lost: it comes again, in order.
            self.counters.repeated += 1;
            return Ok(());
        }
        staged.count += 1;
        staged.updates.extend(update);
        if last {
            let updates = steps.swap_remove(i).updates;
            steps.retain(|s| s.clock > clock);
            self.settle(w, clock, updates, out)?;
        }
        Ok(())
    }

    fn settle(&mut self, w: WorkerId, clock: u64, mut updates: Vec<Update>, out: &mut Outbox) -> Result<(), String> {
        assert!(self.role == Role::Primary && clock < CLOCK_MAX, "only a primary settles steps");
        self.settled[w as usize] = clock + 1;
        self.recount();
        if !self.rule.gathers() {
            for u in updates.drain(..) {
                self.change(&u)?;
                self.log_update(u);
            }
            self.lists.push(updates);
            self.commit(None);
        } else if clock < self.applied {
            self.counters.dropped += 1;
            self.commit(None);
        } else {
            self.open.push(Open { clock, worker: w, updates });
            self.close()?;
        }
        self.flush(out);
        self.release(out);
        Ok(())
    }

    /// Applies every step that is complete.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        while self.rule.closed(&self.clocks) > self.applied {
            self.open.sort_unstable_by_key(|o| (o.clock, o.worker));
            let count = self.open.partition_point(|o| o.clock <= self.applied);
            for mut o in self.open.drain(..count) {
                let at = self.closing.len();
                self.closing.extend(o.updates.drain(..).enumerate().map(|(i, u)| (at + i, u)));
                self.lists.push(o.updates);
            }
            let mut closing = std::mem::take(&mut self.closing);
            merge::merge(&mut closing);
            self.remember(!self.rule.drops());
            for (_, u) in closing.drain(..) {
                self.change(&u)?;
                self.log_update(u);
            }
            self.closing = closing;
            self.applied += 1;
            assert!(self.open.iter().all(|o| o.clock >= self.applied), "a closed step takes all of its updates");
            self.commit(None);
        }
        Ok(())
    }

    pub(crate) fn change(&mut self, u: &Update) -> Result<(), String> {
        let block = self.blocks.get_mut(&(u.table, u.block));
        let b = block.ok_or_else(|| format!("there is no block {} of table {}", u.block, u.table))?;
        b.version += 1;
        let (version, width) = (b.version, b.width);
        let to = Target { value: &mut b.value, state: &mut b.state, version, width };
        self.counters.applied += 1;
        let len = to.len();
        let done = if is_worker_state(u.table) { to.set_rows(u) } else { self.apply.apply(to, u) };
        assert_eq!(b.value.len(), len, "an update rule keeps the size of a block");
        self.changes((u.table, u.block));
        done
    }
    /// A block is no longer what it was before the step.
    pub(crate) fn changes(&mut self, block: (u32, u32)) {
        if self.rule.gathers() && self.changed.last() != Some(&block) {
            self.changed.push(block);
        }
    }
    /// A step begins to be applied: blocks that the last one has changed are kept as they are.
    pub(crate) fn remember(&mut self, is_needed: bool) {
        for block in self.changed.drain(..).filter(|_| is_needed) {
            self.blocks.get_mut(&block).into_iter().for_each(Block::remember);
        }
    }

    /// Sends what has changed to who has read it.
    fn refresh(&mut self, out: &mut Outbox) {
        if !self.rule.pushes() {
            return;
        }
        let closed = self.rule.closed(&self.clocks);
        let mut blocks = std::mem::take(&mut self.blocks);
        for ((table, block), b) in &mut blocks {
            for (worker, version) in b.readers.iter_mut().filter(|(_, v)| **v < b.version) {
                *version = b.version;
                let message = Message::Fresh { table: *table, block: *block, closed, data: b.value.clone() };
                self.say(out, Peer::Worker(*worker), message);
            }
        }
        self.blocks = blocks;
    }
    /// Replies to reads that are admitted now.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        self.refresh(out);
        self.take_snapshots(out);
        let mut parked = std::mem::take(&mut self.parked);
        parked.retain(|r| {
            let is_admitted = self.admits(r.clock);
            if is_admitted {
                self.answer(r, out);
            }
            !is_admitted
        });
        self.parked = parked;
    }
}
