//! A worker's connection to the parameter store: sockets around the [`Client`].
//!
//! The calling thread writes requests and reads the answers itself; there is no thread between.
//! When a server is lost, the next map says who took over, and whatever is unanswered is repeated.

use crate::client::{Client, Servers, Table};
use crate::coordinator::cut_max;
use crate::filter::{Owed, Residuals};
use crate::keys::Told;
use crate::lookout::Lookout;
use crate::membership::Registrar;
use crate::message::{Envelope, LIFE_MAX, Message, Peer, Rows, Update};
use crate::partition::Outbox;
use crate::record::Records;
use crate::rows::Order;
use crate::snapshot::{Part, Saving};
use crate::{Error, Filter, Map, Result, Rule, message, roster, spare, wire};
use net::{Address, Connection, Hello, Secret};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one message may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long calling a server may take before it is asked whether it is still one.
const CALLING: Duration = Duration::from_secs(2);
/// How long to wait for a server before asking whether it is still one.
const GLANCE: Duration = Duration::from_millis(250);
/// How long to wait before saying again what a server would not answer.
const AGAIN: Duration = Duration::from_millis(50);
/// Steps that may be under way without being safe.
pub(crate) const UNSAFE_MAX: u64 = 4;

/// A table of so many elements is in no cache when all of it is sent.
const UNCACHED: usize = 4 << 20;
/// Elements of a message that is sent with others, and messages that wait for others at most.
const SHORT: usize = 2048;
const WAITING_MAX: usize = 64;

/// Questions under way at most: a server that answers must not meet a worker that only asks.
pub(crate) const QUESTIONS_MAX: usize = 1024;

/// Where the answer to a question belongs: in which of the caller's slices, and where there.
pub(crate) type Spot = Option<(usize, Range<usize>)>;

/// Where the answers to questions belong that follow each other.
#[derive(Default)]
pub(crate) struct Places<'a, 'b> {
    /// Number of the first question.
    pub first: u64,
    pub spots: Vec<Spot>,
    pub into: &'a mut [&'b mut [f32]],
}

impl Places<'_, '_> {
    fn spot(&mut self, request: u64) -> Option<&mut Spot> {
        self.spots.get_mut(request.checked_sub(self.first)? as usize)
    }
    /// The place that the answer to a question belongs to, if it has not been filled.
    fn get(&mut self, request: u64) -> Option<&mut [f32]> {
        let (slice, range) = self.spot(request)?.clone()?;
        self.into.get_mut(slice)?.get_mut(range)
    }
    fn is_filled(&mut self, request: u64) {
        if let Some(spot) = self.spot(request) {
            *spot = None;
        }
    }
}

/// A worker's view of the store: tables of rows that are pushed to and pulled from.
pub struct Store {
    pub(crate) client: Client,
    links: BTreeMap<u32, Connection>,
    /// Where servers listened when they were last called.
    addresses: BTreeMap<u32, Address>,
    lookout: Lookout,
    /// Lists of rows that each link's other end knows.
    told: BTreeMap<u32, Told>,
    registrar: Registrar,
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
    pub fn join(
        worker: u32,
        drops: bool,
        registrar: Registrar,
        secret: Option<Secret>,
        timeout: Duration,
    ) -> Result<Store> {
        let life = registrar.add(&roster::life_key(worker), 1, Instant::now() + timeout)?;
        let life = u32::try_from(life).ok().filter(|l| *l <= LIFE_MAX);
        let life = life.ok_or_else(|| Error::value(format!("worker {worker} was started too often")))?;
        let client = Client::new(worker, life, drops);
        let lookout = Lookout::start(registrar.another(Instant::now() + timeout)?);
        let mut s = Store {
            client,
            links: BTreeMap::new(),
            addresses: BTreeMap::new(),
            lookout,
            told: BTreeMap::new(),
            registrar,
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
    /// How many reads were so many steps ahead of the slowest worker in what they saw; the last
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
    /// Takes what servers have sent of their own accord.
    fn listen(&mut self, deadline: Instant) -> Result<()> {
        let servers: Servers = self.links.keys().copied().collect();
        for server in servers {
            while self.hear_by(server, &mut Places::default(), Instant::now(), deadline)? {}
        }
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
            None if values.len() >= UNCACHED => spare::copy_past_caches(part),
            None => spare::copy(part),
            Some(f) => {
                let owed = self.residuals.0.entry(Owed::Block(table.id, block.into()));
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
        self.pump_unsafe(UNSAFE_MAX, deadline)
    }
    /// Waits until every step so far would survive the loss of a server.
    pub fn wait(&mut self) -> Result<()> {
        let deadline = self.deadline();
        self.pump_unsafe(0, deadline)
    }
    /// After the last step: says that this worker has done its steps, and if it `waits`, waits until
    /// all workers have, or will not come back; true if it did. What is read then is the store's final
    /// state.
    pub fn settle(&mut self, waits: bool) -> Result<bool> {
        self.wait()?;
        let deadline = self.deadline();
        self.registrar.set(&roster::ended_key(self.client.worker()), b"1", deadline)?;
        let mut others = 0..self.workers() as u32;
        let mut next = others.next();
        while let (true, Some(other)) = (waits, next) {
            // As slow as they may be: who hangs is ended, and who is lost is replaced or left out.
            self.look_for_map(self.deadline())?;
            let counts = self.client.map().workers.get(other as usize) == Some(&true);
            let ended = !counts
                || match self.registrar.wait(&roster::ended_key(other), 0, Instant::now() + GLANCE) {
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
            return Err(Error::value(format!("{} tables, but {} places to put them", tables.len(), into.len())));
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
        }
        Ok(())
    }
    /// Puts an answer that is there where it belongs; false if there is none, or of another length.
    fn fill(&mut self, places: &mut Places<'_, '_>, request: u64) -> bool {
        let Some(data) = self.client.take(request) else { return false };
        let Some(place) = places.get(request).filter(|p| p.len() == data.len()) else { return false };
        place.copy_from_slice(&data);
        places.is_filled(request);
        spare::give(data);
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
    /// Reads a table with everything that belongs to it: the value first, then the state, and how
    /// often it has been changed. Where steps are gathered it is exactly what this worker's step
    /// sees; otherwise each block is whole, but others may be further.
    pub fn dump(&mut self, table: &Table) -> Result<(Vec<Vec<f32>>, u64)> {
        let deadline = self.deadline();
        let (mut asked, mut arrays, mut version) = (Vec::new(), Vec::<Vec<f32>>::new(), 0);
        for block in 0..table.blocks() {
            let (request, out) = self.client.dump(table.id, block);
            self.send(out, deadline)?;
            asked.push(request);
        }
        self.pump(|c| !c.is_waiting(), deadline, "reading a table for a checkpoint")?;
        for (block, request) in asked.into_iter().enumerate() {
            let data = self.client.take(request).unwrap_or_default();
            let len = table.elements(block as u32).len();
            let all = data.len().checked_sub(2).filter(|n| *n > 0 && n.is_multiple_of(len));
            let all = all.ok_or_else(|| Error::refused(format!("a block of {len} came as {}", data.len())))?;
            arrays.resize(arrays.len().max(all / len), Vec::new());
            arrays.iter_mut().zip(data[..all].chunks_exact(len)).for_each(|(a, part)| a.extend_from_slice(part));
            let (low, high) = (data[all].to_bits(), data[all + 1].to_bits());
            version = version.max(u64::from(low) | u64::from(high) << 32);
        }
        Ok((arrays, version))
    }
    /// Lets the servers write everything that the store holds, each partition to its file (`to`
    /// names it), as this worker's step sees it where steps are gathered; otherwise each block is
    /// whole, but others may be further. Answers when they hold it; training goes on while they
    /// write. Memory: what is updated meanwhile is there twice.
    pub fn save(&mut self, to: impl Fn(u32) -> String) -> Result<Saving> {
        let deadline = self.deadline();
        let mut asked = Vec::new();
        for (partition, server) in self.client.all_primaries().into_iter().enumerate() {
            let (partition, to) = (partition as u32, to(partition as u32));
            let (request, out) = self.client.save(partition, to.clone());
            self.send(out, deadline)?;
            asked.push(Part { partition, server, request, to });
        }
        self.pump(|c| !c.is_waiting(), deadline, "taking a checkpoint")?;
        let mut parts = Vec::new();
        let now = self.client.all_primaries();
        for part in asked {
            let blocks = self.client.take(part.request).unwrap_or_default();
            match blocks.first().map(|b| b.to_bits()) {
                Some(0) => {}
                // Another server may have taken over while the question was under way.
                Some(_) => parts.push(Part { server: now[part.partition as usize], ..part }),
                None => {
                    return Err(Error::Lost(format!("partition {} is past this worker's step", part.partition)));
                }
            }
        }
        Ok(Saving { registrar: self.registrar.another(deadline)?, worker: self.client.worker(), parts })
    }
    /// Brings a table as a checkpoint had it, if nobody has changed it yet; every worker may.
    pub fn restore(&mut self, table: &Table, arrays: &[Vec<f32>], version: u64) -> Result<()> {
        if let Some(a) = arrays.iter().find(|a| a.len() != table.rows * table.width) {
            return Err(Error::value(format!("table {} with {} elements in a checkpoint", table.id, a.len())));
        }
        let deadline = self.deadline();
        for block in 0..table.blocks() {
            let mut data: Vec<f32> = arrays.iter().flat_map(|a| &a[table.elements(block)]).copied().collect();
            data.extend([version as u32, (version >> 32) as u32].map(f32::from_bits));
            let out = self.client.restore(table.id, block, Arc::new(data));
            self.send(out, deadline)?;
        }
        self.pump(Client::is_created, deadline, "restoring a table")
    }

    /// Sends, at the latest when somebody waits for what comes of it; few and short messages go
    /// together.
    pub(crate) fn send(&mut self, out: Outbox, deadline: Instant) -> Result<()> {
        self.send_from(out, &|_| None, deadline)
    }
    /// As [`Store::send`]; `elements` says where else the elements of an update lie, if they do.
    fn send_from<'a>(
        &mut self,
        out: Outbox,
        elements: &dyn Fn(&Update) -> Option<&'a [f32]>,
        deadline: Instant,
    ) -> Result<()> {
        let is_long = out.iter().any(|(_, e)| e.elements() > SHORT);
        self.outbox.extend(out);
        if is_long || self.outbox.len() >= WAITING_MAX { self.flush_from(elements, deadline) } else { Ok(()) }
    }
    /// Sends what waits; a server that cannot be reached is left out, and found missing when it
    /// should answer.
    fn flush(&mut self, deadline: Instant) -> Result<()> {
        self.flush_from(&|_| None, deadline)
    }
    fn flush_from<'a>(&mut self, elements: &dyn Fn(&Update) -> Option<&'a [f32]>, deadline: Instant) -> Result<()> {
        while let Some((to, _)) = self.outbox.first() {
            let to = *to;
            let Peer::Server(server) = to else { return Err(Error::refused(format!("{to:?} is no server"))) };
            if self.links.contains_key(&server) || self.connect(server, deadline)? {
                let (worker, told) = (self.client.worker(), self.told.entry(server).or_default());
                let messages = self.outbox.iter().filter(|(peer, _)| *peer == to).map(|(_, e)| {
                    let (mut h, mut parts) = e.encode(worker);
                    told.shorten(&mut h, &mut parts);
                    let update = if let Message::Push { update, .. } = &e.message { update.as_ref() } else { None };
                    (h, parts, update.and_then(elements))
                });
                let link = self.links.get_mut(&server);
                let sent = link.map(|link| wire::send_together(link.halves().0, messages, deadline));
                if sent.is_some_and(|sent| sent.is_err()) {
                    self.links.remove(&server);
                }
            }
            self.outbox.retain(|(peer, _)| *peer != to);
        }
        Ok(())
    }
    /// Where a server listens, if it does; while the membership store does not answer, where it
    /// last did.
    fn address_of(&mut self, server: u32, deadline: Instant) -> Result<Option<Address>> {
        let known = self.addresses.get(&server).cloned();
        let until = if known.is_some() { deadline.min(Instant::now() + CALLING) } else { deadline };
        let address = match self.registrar.get(&roster::server_key(server), until) {
            Ok((_, text)) => text.map(|t| String::from_utf8_lossy(&t).parse::<Address>()).transpose()?,
            Err(e) if e.is_late() && known.is_some() => return Ok(known),
            Err(e) => return Err(e),
        };
        address.iter().for_each(|a| drop(self.addresses.insert(server, a.clone())));
        Ok(address)
    }
    fn connect(&mut self, server: u32, deadline: Instant) -> Result<bool> {
        let Some(address) = self.address_of(server, deadline)? else { return Ok(false) };
        let hello = Hello::new("worker", self.client.worker());
        let soon = deadline.min(Instant::now() + CALLING);
        match Connection::connect(&address, &hello, self.secret.as_ref(), soon) {
            Ok(mut c) => {
                c.detect_loss(cut_max())?;
                self.lookout.watch(server, &mut c)?;
                self.links.insert(server, c);
                self.told.insert(server, Told::default());
                Ok(true)
            }
            Err(net::Error::Refused(e)) => Err(Error::refused(format!("server {server}: {e}"))),
            Err(_) => Ok(false),
        }
    }

    /// Takes a newer map, if there is one; true if there was.
    fn look_for_map(&mut self, deadline: Instant) -> Result<bool> {
        let Some((version, bytes)) = self.lookout.newer(self.map_version)? else { return Ok(false) };
        self.take_map(version, &bytes, deadline)?;
        Ok(true)
    }
    /// Takes the newest map, for one who has nothing to ask the servers.
    pub fn look(&mut self) -> Result<()> {
        let deadline = self.deadline();
        match self.registrar.get(roster::MAP, deadline)? {
            (version, Some(bytes)) if version > self.map_version => self.take_map(version, &bytes, deadline),
            _ => Ok(()),
        }
    }
    fn await_map(&mut self, deadline: Instant) -> Result<()> {
        let (version, bytes) = self.registrar.wait(roster::MAP, self.map_version, deadline)?;
        self.take_map(version, &bytes, deadline)
    }
    fn take_map(&mut self, version: u64, bytes: &[u8], deadline: Instant) -> Result<()> {
        self.map_version = version;
        let map = Arc::new(Map::decode(bytes)?);
        // Whatever waits is unanswered, and is said again.
        self.outbox.clear();
        self.links.retain(|s, _| map.names(*s));
        self.hang_up_on_answers();
        let e = Envelope { partition: 0, epoch: map.epoch, message: Message::Map(map) };
        let out = self.client.handle(Peer::Coordinator, e)?;
        self.send(out, deadline)
    }

    /// Ends links on which answers may be on their way, before everything is said again: a server
    /// that writes does not read, and the two would wait for each other.
    fn hang_up_on_answers(&mut self) {
        let owing = self.client.questioned();
        self.links.retain(|s, _| !owing.contains(s));
    }

    fn pump_unsafe(&mut self, most: u64, deadline: Instant) -> Result<()> {
        let done = move |c: &Client| c.unsafe_steps() <= most;
        self.pump_from(done, Client::unsafe_servers, &mut Places::default(), deadline, "waiting for copies")
    }
    fn pump(&mut self, done: impl Fn(&Client) -> bool, deadline: Instant, doing: &str) -> Result<()> {
        self.pump_from(done, Client::debtors, &mut Places::default(), deadline, doing)
    }
    /// Reads answers until `done`; `owing` says who has to answer.
    pub(crate) fn pump_from(
        &mut self,
        done: impl Fn(&Client) -> bool,
        owing: impl Fn(&Client) -> Servers,
        places: &mut Places<'_, '_>,
        deadline: Instant,
        doing: &str,
    ) -> Result<()> {
        while !done(&self.client) {
            let moved =
                if Instant::now() < deadline { self.pump_once(&done, &owing, places, deadline) } else { Ok(()) };
            match moved {
                Ok(()) => {}
                Err(e) if e.is_late() => {}
                failed => return failed,
            }
            if Instant::now() >= deadline && !done(&self.client) {
                let full = self.client.full();
                let why =
                    if full.is_empty() { String::new() } else { format!("; the disks of servers {full:?} are full") };
                return Err(Error::Deadline(format!("{doing} ({:?} owe an answer{why})", owing(&self.client))));
            }
        }
        Ok(())
    }
    /// One round: a message from each server that owes one.
    fn pump_once(
        &mut self,
        done: &impl Fn(&Client) -> bool,
        owing: &impl Fn(&Client) -> Servers,
        places: &mut Places<'_, '_>,
        deadline: Instant,
    ) -> Result<()> {
        if self.client.needs_map() && !self.look_for_map(deadline)? && self.resent.elapsed() > AGAIN {
            self.resent = Instant::now();
            self.hang_up_on_answers();
            self.outbox.clear();
            let out = self.client.resend(None);
            self.send(out, deadline)?;
        }
        self.flush(deadline)?;
        for server in owing(&self.client) {
            if !self.hear(server, places, deadline)? {
                return self.mend(server, deadline);
            }
            if done(&self.client) {
                break;
            }
        }
        Ok(())
    }
    /// Reads one message from a server; false if it is lost or says nothing.
    fn hear(&mut self, server: u32, places: &mut Places<'_, '_>, deadline: Instant) -> Result<bool> {
        self.hear_by(server, places, deadline.min(Instant::now() + GLANCE), deadline)
    }
    fn hear_by(&mut self, server: u32, places: &mut Places<'_, '_>, until: Instant, deadline: Instant) -> Result<bool> {
        let Some(link) = self.links.get_mut(&server) else { return Ok(false) };
        let receiver = link.receiver();
        let soon = deadline.min(Instant::now() + PATIENCE);
        let h = match receiver.header(until) {
            Ok(h) => h,
            Err(net::Error::Deadline(_)) => return Ok(false),
            Err(_) => {
                self.links.remove(&server);
                return Ok(false);
            }
        };
        if h.kind == message::VALUE
            && !self.client.keeps()
            && let Some(place) = places.get(h.request).filter(|p| 4 * p.len() == h.length as usize)
        {
            let read = receiver.payload_into(bytemuck::cast_slice_mut(place), soon);
            if read.is_err() {
                self.links.remove(&server);
            } else {
                places.is_filled(h.request);
                self.client.answered(h.request, h.clock);
            }
            return Ok(read.is_ok());
        }
        let Ok(payload) = wire::receive(receiver, &h, soon) else {
            self.links.remove(&server);
            return Ok(false);
        };
        let out = self.client.handle(Peer::Server(server), Envelope::decode(&h, payload)?)?;
        self.send(out, deadline)?;
        Ok(true)
    }
    /// A server did not answer: perhaps another has taken over, perhaps only the link was lost.
    fn mend(&mut self, server: u32, deadline: Instant) -> Result<()> {
        if self.look_for_map(deadline)? || self.links.contains_key(&server) {
            return Ok(());
        }
        if self.connect(server, deadline)? {
            self.outbox.retain(|(to, _)| *to != Peer::Server(server));
            let out = self.client.resend(Some(server));
            self.send(out, deadline)
        } else {
            std::thread::sleep(Duration::from_millis(10));
            Ok(())
        }
    }
}
