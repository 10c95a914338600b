//! A worker's side of the parameter store: sockets around the [`Client`] state machine.
//!
//! The calling thread writes requests and reads replies itself; no thread sits in between. When a
//! server is lost, the next map names its successor and every unanswered request is sent again.

pub(crate) mod checkpoint;
mod map_watcher;
mod places;
mod rows;
pub(crate) mod state;
mod transport;

use crate::filter::{ResidualKey, Residuals};
use crate::membership::{Member, controller};
use crate::store::client::{Client, Table};
use crate::store::keys::SentLists;
use crate::store::message::{LIFE_MAX, Rows, Update};
use crate::store::server::partition::Outbox;
use crate::{Error, Filter, Result, Rule, pool};
use map_watcher::MapWatcher;
use net::{Address, Connection, Secret};
use places::{Places, Spot};
use rows::Order;
use state::Records;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Polling interval while waiting for other workers.
const POLL: Duration = Duration::from_millis(250);
/// Steps in progress that are not durable yet, at most.
pub(crate) const VOLATILE_MAX: u64 = 4;
/// A table of this many elements fits in no cache when it is sent whole.
const UNCACHED: usize = 4 << 20;
/// Requests in flight at most: a server that replies must not meet a worker that only asks.
pub(crate) const QUESTIONS_MAX: usize = 1024;

/// A worker's view of the store: tables of rows that are pushed to and pulled from.
pub struct Store {
    pub(crate) client: Client,
    links: BTreeMap<u32, Connection>,
    /// Where servers listened when they were last called.
    addresses: BTreeMap<u32, Address>,
    map_watcher: MapWatcher,
    /// Lists of rows that each link's other end knows.
    told: BTreeMap<u32, SentLists>,
    member: Member,
    secret: Option<Secret>,
    map_version: u64,
    resent: Instant,
    /// How updates of tables are packed, and what packing has left out so far.
    pub(crate) filters: BTreeMap<u32, Filter>,
    pub(crate) residuals: Residuals,
    /// Messages that wait to be sent with others.
    outbox: Outbox,
    /// Memory that is used again by each step.
    pub(crate) spots: Vec<Spot>,
    lent: Vec<usize>,
    pub(crate) order: Order,
    pub(crate) records: Records,
    /// No call waits longer.
    pub timeout: Duration,
}

impl Store {
    /// Waits for the servers, and asks them how far this worker was.
    pub fn join(worker: u32, drops: bool, member: Member, secret: Option<Secret>, timeout: Duration) -> Result<Store> {
        let life = member.add(&controller::life_key(worker), 1, Instant::now() + timeout)?;
        let life = u32::try_from(life).ok().filter(|l| *l <= LIFE_MAX);
        let life = life.ok_or_else(|| Error::value(format!("worker {worker} was started too often")))?;
        let client = Client::new(worker, life, drops);
        let map_watcher = MapWatcher::start(member.duplicate(Instant::now() + timeout)?);
        let mut s = Store {
            client,
            links: BTreeMap::new(),
            addresses: BTreeMap::new(),
            map_watcher,
            told: BTreeMap::new(),
            member,
            secret,
            map_version: 0,
            resent: Instant::now(),
            filters: BTreeMap::new(),
            residuals: Residuals::default(),
            outbox: Outbox::new(),
            spots: Vec::new(),
            lent: Vec::new(),
            order: Order::new(),
            records: Records::new(),
            timeout,
        };
        let deadline = s.deadline();
        s.await_map(deadline)?;
        let out = s.client.join();
        s.send(out, deadline)?;
        s.pump(|c| c.joined().is_some(), deadline, "joining the store")?;
        Ok(s)
    }
    /// The step this worker is in: 0 at first, more if it takes over from one that died.
    pub fn step(&self) -> u64 {
        self.client.step()
    }
    /// Steps of which some partition has this worker's part: one more than [`Store::step`] if the worker that this one
    /// replaces has died while it ended a step.
    pub fn steps_in_store(&self) -> u64 {
        self.client.steps_in_store()
    }
    /// How many workers the store was made for.
    pub fn workers(&self) -> usize {
        self.client.map().workers.len()
    }
    /// True if steps wait for no worker of a lower number.
    pub fn is_first(&self) -> bool {
        let workers = &self.client.map().workers;
        !workers[..workers.len().min(self.client.worker() as usize)].contains(&true)
    }
    /// How many steps this worker's last read was ahead of the slowest worker.
    pub fn staleness(&self) -> u64 {
        self.client.step().saturating_sub(self.client.closed())
    }
    /// Reads what the worker has while it is fresh enough, if the rule says so (`ssp:S:lazy` and
    /// `ssp:S:eager`).
    pub fn reuse(&mut self, rule: &Rule) {
        self.client.reuse(rule);
    }
    /// How many reads were this many steps ahead of the slowest worker in what they saw; the last
    /// counts all beyond.
    pub fn staleness_counts(&self) -> &[u64; 17] {
        self.client.staleness_counts()
    }
    /// Packs updates of a table from now on; what that leaves out is added to the next ones of the
    /// same block, or of the same row.
    pub fn filter(&mut self, table: &Table, filter: Filter) {
        self.filters.insert(table.id, filter);
    }
    /// What filters have left out so far, for a checkpoint of this worker.
    pub fn residuals(&self) -> Vec<u8> {
        self.residuals.encode()
    }
    /// Takes up what filters had left out.
    pub fn restore_residuals(&mut self, bytes: &[u8]) -> Result<()> {
        self.residuals = Residuals::decode(bytes)?;
        Ok(())
    }
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Makes sure that a table exists in every copy, with this content if it is new.
    pub fn create(&mut self, table: &Table, values: &[f32]) -> Result<()> {
        if values.len() != table.rows * table.width {
            let e = format!(
                "table {} is {} × {}, but came with {} elements",
                table.id,
                table.rows,
                table.width,
                values.len()
            );
            return Err(Error::value(e));
        }
        let deadline = self.deadline();
        for b in 0..table.blocks() {
            let data = Arc::new(values[table.elements(b)].to_vec());
            let out = self.client.create(table, b, data);
            self.send(out, deadline)?;
        }
        self.pump(Client::is_created, deadline, "creating a table")
    }
    /// Adds to this step's updates of a whole table.
    pub fn push(&mut self, table: &Table, values: &[f32], rate: f32) -> Result<()> {
        self.push_with(table, values, rate, None)
    }
    /// As [`Store::push`], with further numbers that the table's update takes.
    pub fn push_with(
        &mut self,
        table: &Table,
        values: &[f32],
        rate: f32,
        numbers: Option<&Arc<Vec<f32>>>,
    ) -> Result<()> {
        if values.len() != table.rows * table.width {
            return Err(Error::value(format!(
                "table {} has {} elements, not {}",
                table.id,
                table.rows * table.width,
                values.len()
            )));
        }
        let (deadline, mut lent) = (self.deadline(), std::mem::take(&mut self.lent));
        lent.clear();
        let push = |b| self.push_block(table, b, values, (rate, numbers), &mut lent, deadline);
        let pushed = (0..table.blocks()).try_for_each(push);
        self.lent = lent;
        pushed
    }
    /// Pushes one block. What goes out is the one before it in its partition, read from the caller's
    /// memory: it was just copied from there, and the copy need not be in any cache. `lent` has the
    /// addresses of the copies by block, so that no other update of the step is taken for one of them.
    fn push_block(
        &mut self,
        table: &Table,
        block: u32,
        values: &[f32],
        (rate, numbers): (f32, Option<&Arc<Vec<f32>>>),
        lent: &mut Vec<usize>,
        deadline: Instant,
    ) -> Result<()> {
        let out = self.client.release(table.id, block);
        let elements = |u: &Update| {
            let is_it = u.table == table.id && lent.get(u.block as usize) == Some(&Arc::as_ptr(&u.data).addr());
            is_it.then(|| &values[table.elements(u.block)])
        };
        self.send_from(out, &elements, deadline)?;
        let part = &values[table.elements(block)];
        let filter = self.filters.get(&table.id).copied();
        let data = match filter {
            None if values.len() >= UNCACHED => pool::copy_past_caches(part),
            None => pool::copy(part),
            Some(f) => {
                let owed = self.residuals.0.entry(ResidualKey::Block(table.id, block.into()));
                f.packed(part, owed.or_insert_with(|| vec![0.0; part.len()]))?
            }
        };
        lent.push(if filter.is_none() { Arc::as_ptr(&data).addr() } else { 0 });
        let (rows, numbers) = (Rows::default(), numbers.cloned());
        let update = Update { table: table.id, block, rows, data, rate, numbers, count: 1, filter };
        let out = self.client.push(update);
        self.send(out, deadline)
    }
    /// Ends the step: its updates count from now on.
    pub fn clock(&mut self) -> Result<()> {
        let deadline = self.deadline();
        self.client.settle(&mut self.outbox);
        self.flush(deadline)?;
        // Not further ahead of what is safe than memory should hold.
        self.pump_volatile(VOLATILE_MAX, deadline)
    }
    /// Waits until every step so far would survive the loss of a server.
    pub fn wait(&mut self) -> Result<()> {
        let deadline = self.deadline();
        self.pump_volatile(0, deadline)
    }
    /// After the last step: says that this worker has done its steps, and if it `waits`, waits until
    /// all workers have, or will not come back; true if it did. What is read then is the store's final
    /// state.
    pub fn settle(&mut self, waits: bool) -> Result<bool> {
        self.wait()?;
        let deadline = self.deadline();
        self.member.set(&controller::ended_key(self.client.worker()), b"1", deadline)?;
        let mut others = 0..self.workers() as u32;
        let mut next = others.next();
        while let (true, Some(other)) = (waits, next) {
            // As slow as they may be: who hangs is ended, and who is lost is replaced or left out.
            self.look_for_map(self.deadline())?;
            let counts = self.client.map().workers.get(other as usize) == Some(&true);
            let ended = !counts
                || match self.member.wait(&controller::ended_key(other), 0, Instant::now() + POLL) {
                    Err(e) if e.is_late() => false,
                    answer => answer.map(|_| true)?,
                };
            if ended {
                next = others.next();
            }
        }
        self.client.forget();
        Ok(waits)
    }
    /// Reads whole tables, as fresh as the consistency rule demands.
    pub fn pull(&mut self, tables: &[Table]) -> Result<Vec<Vec<f32>>> {
        let mut out: Vec<Vec<f32>> = tables.iter().map(|t| vec![0.0; t.rows * t.width]).collect();
        let mut into: Vec<&mut [f32]> = out.iter_mut().map(Vec::as_mut_slice).collect();
        self.pull_into(tables, &mut into)?;
        Ok(out)
    }
    /// Reads whole tables to where they belong; what comes is written there without a copy between.
    pub fn pull_into(&mut self, tables: &[Table], into: &mut [&mut [f32]]) -> Result<()> {
        if tables.len() != into.len() {
            return Err(Error::value(format!("{} tables, but {} destinations", tables.len(), into.len())));
        }
        for (t, place) in tables.iter().zip(&*into) {
            if place.len() != t.rows * t.width {
                let e = format!("table {} has {} elements, the place for it {}", t.id, t.rows * t.width, place.len());
                return Err(Error::value(e));
            }
        }
        let deadline = self.deadline();
        if self.client.keeps() {
            self.listen(deadline)?;
        }
        let mut places = Places { first: 0, spots: std::mem::take(&mut self.spots), into };
        let read = self.read_blocks(tables, &mut places, deadline);
        self.spots = places.spots;
        read
    }
    fn read_blocks(&mut self, tables: &[Table], places: &mut Places<'_, '_>, deadline: Instant) -> Result<()> {
        let of = |(i, t): (usize, &Table)| {
            let t = *t;
            (0..t.blocks()).map(move |b| (i, t, b))
        };
        let mut blocks = tables.iter().enumerate().flat_map(of).peekable();
        while blocks.peek().is_some() {
            places.spots.clear();
            for (slice, table, block) in blocks.by_ref().take(QUESTIONS_MAX) {
                let (request, out) = self.client.pull(table.id, block, Rows::default());
                if places.spots.is_empty() {
                    places.first = request;
                }
                places.spots.push(Some((slice, table.elements(block))));
                if !self.fill(places, request) {
                    self.send(out, deadline)?;
                }
            }
            self.pump_from(|c| !c.is_waiting(), Client::debtors, places, deadline, "reading from the store")?;
            for request in places.first..places.first + places.spots.len() as u64 {
                if places.get(request).is_some() && !self.fill(places, request) {
                    return Err(Error::refused("a block came with another length than it has"));
                }
            }
            assert!(places.spots.iter().all(Option::is_none), "every read has its reply");
        }
        Ok(())
    }
    /// Puts an answer that is there where it belongs; false if there is none, or of another length.
    fn fill(&mut self, places: &mut Places<'_, '_>, request: u64) -> bool {
        let Some(data) = self.client.take(request) else { return false };
        let Some(place) = places.get(request).filter(|p| p.len() == data.len()) else { return false };
        place.copy_from_slice(&data);
        places.mark_filled(request);
        pool::give(data);
        true
    }
    /// Pushes whole tables, ends the step and reads them as the next step sees them.
    pub fn push_pull(&mut self, tables: &[Table], values: &[&[f32]], rate: f32, into: &mut [&mut [f32]]) -> Result<()> {
        if tables.len() != values.len() {
            return Err(Error::value(format!("{} tables, but the updates of {}", tables.len(), values.len())));
        }
        tables.iter().zip(values).try_for_each(|(t, v)| self.push(t, v, rate))?;
        self.clock()?;
        self.pull_into(tables, into)
    }
}
