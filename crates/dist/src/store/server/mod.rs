//! A server of the parameter store: threads and sockets around its [`Partition`]s.
//!
//! Each connection has a thread that reads a message, hands it to the partition and writes the
//! answer. Messages to others go through a queue with a separate thread, so that a peer that
//! does not read blocks no other. Messages to servers are queued under the partition's lock,
//! which keeps a stream of records in order.

pub(crate) mod disk;
mod folder;
pub(crate) mod partition;
pub(crate) mod recovery;
mod replica;
pub(crate) mod snapshot;

pub(crate) use folder::FOLDER;

use crate::launch::{CLOCKS, load_key};
use crate::membership::Member;
use crate::membership::controller;
use crate::membership::coordinator::cut_max;
use crate::membership::publisher::{FOREVER, Publisher};
use crate::store::apply::Apply;
use crate::store::keys::KnownLists;
use crate::store::message::{Envelope, Message, Peer, Record};
use crate::store::server::disk::{Disk, Journal};
use crate::store::server::partition::{Outbox, Partition};
use crate::store::server::recovery::DiskReport;
use crate::store::server::snapshot::{Saver, Snapshot, saved_key};
use crate::store::wire::{self, Encoded};
use crate::{Consistency, Error, Map, Result};
use net::{Address, Connection, Hello, Listener, Secret, Sender, TOGETHER};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::mpsc::{self, Receiver as Queue, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a handshake or writing one message may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// A worker says something at least this often, or its connection has ended.
const IDLE: Duration = Duration::from_secs(24 * 3600);
/// How often a server says what it has done.
const LOAD_EVERY: Duration = Duration::from_millis(200);
/// Messages that wait for one peer at most; one that lags more is cut off and starts over.
const QUEUE_MAX: usize = 4096;
/// How long to wait for another server's address before the last known one is tried.
const LOOKUP: Duration = Duration::from_secs(1);
/// A membership store that has not answered for so long is given up, unless said otherwise.
pub const AWAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// A connection to write to: now, or through its queue.
#[derive(Clone)]
struct Line {
    now: Arc<Mutex<Sender>>,
    later: SyncSender<Envelope>,
}

/// A partition and its file, if it has one.
struct Slot {
    partition: Partition,
    journal: Option<Journal>,
}

/// A running server.
pub struct StoreServer {
    me: u32,
    partitions: OnceLock<Vec<Mutex<Slot>>>,
    workers: Mutex<HashMap<u32, Line>>,
    servers: Mutex<HashMap<u32, SyncSender<Envelope>>>,
    /// Where other servers listened when they were last called.
    addresses: Mutex<HashMap<u32, Address>>,
    member: Member,
    secret: Option<Secret>,
    report: Box<dyn Fn(&str) + Send + Sync>,
    /// Whether workers get messages that they have not asked for.
    pushes: bool,
    /// To the thread that writes checkpoints.
    snapshots: mpsc::Sender<Snapshot>,
}

/// Keys under which a server says how it is, and what it says, in memory that is used again.
struct Words {
    copied: String,
    unsynced: String,
    load: String,
    text: String,
}
impl Words {
    fn new(me: u32) -> Words {
        let (copied, unsynced) = (controller::copied_key(me), controller::unsynced_key(me));
        Words { copied, unsynced, load: load_key(me), text: String::new() }
    }
}
/// Adds a number to a text, after a space if it is not the first.
fn push(text: &mut String, number: u64) {
    let space = if text.is_empty() { "" } else { " " };
    // Writing to a string does not fail.
    let _ = write!(text, "{space}{number}");
}
fn numbers(text: &mut String, all: &[u64]) {
    text.clear();
    all.iter().for_each(|n| push(text, *n));
}

/// What a server needs to begin.
pub struct ServerOptions {
    /// Its number.
    pub server: u32,
    /// How many workers there are.
    pub workers: usize,
    /// Where to listen.
    pub listen: Address,
    /// The shared secret.
    pub secret: Option<Secret>,
    /// When reads are admitted.
    pub rule: Arc<dyn Consistency>,
    /// Where to keep what it holds; what is there already is taken up again.
    pub disk: Option<Disk>,
    /// What writes checkpoints, if it can.
    pub saver: Option<Arc<dyn Saver>>,
    /// It serves on under the last map while the membership store does not answer, for so long.
    pub away_max: Duration,
}

impl ServerOptions {
    /// A server on this machine, without a secret, a disk or the means to write checkpoints.
    pub fn new(server: u32, workers: usize, listen: Address, rule: Arc<dyn Consistency>) -> ServerOptions {
        ServerOptions { server, workers, listen, secret: None, rule, disk: None, saver: None, away_max: AWAY_MAX }
    }
}

/// What the membership store says to a server.
enum News {
    /// A map, whether this server is asked to leave, and the step at which disks are taken up.
    Map { map: Arc<Map>, leaves: bool, step: u64 },
    /// The store is gone, or has said something that no correct one would.
    Over(Error),
}

impl StoreServer {
    /// Serves until it is asked to leave or the membership store is gone. One that only does not
    /// answer (its process is stopped, its cluster has no leader) is waited for, and the last map
    /// served meanwhile. `apply` makes the update code of each partition.
    pub fn run(
        o: ServerOptions,
        member: Member,
        apply: impl Fn() -> Result<Box<dyn Apply>>,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<()> {
        let listener = Listener::bind(&o.listen, o.secret.clone())?;
        let soon = || Instant::now() + PATIENCE;
        let watch = member.duplicate(soon())?;
        let publisher = Publisher::start(member.duplicate(soon())?)?;
        let key = controller::server_key(o.server);
        let (snapshots, taken) = mpsc::channel();
        let (saver, told) = (o.saver.clone(), member.duplicate(soon())?);
        std::thread::spawn(move || write_snapshots(&taken, saver.as_deref(), &told));
        let host = Arc::new(StoreServer {
            me: o.server,
            partitions: OnceLock::new(),
            workers: Mutex::default(),
            servers: Mutex::default(),
            addresses: Mutex::default(),
            member,
            secret: o.secret,
            report: Box::new(report),
            pushes: o.rule.pushes(),
            snapshots,
        });
        let address = listener.address().to_string();
        let (accepting, refusing) = (host.clone(), host.clone());
        let serve = move |connection| accepting.clone().serve(connection);
        listener.serve(PATIENCE, move |text| (refusing.report)(text), serve)?;
        if let Some(disk) = &o.disk {
            let folder = std::path::absolute(&disk.folder).unwrap_or_else(|_| disk.folder.clone());
            let folder = folder.display().to_string().replace('\n', " ");
            let report = DiskReport { folder, gathers: o.rule.gathers(), partitions: disk.positions(o.workers)? };
            host.member.set(&controller::disk_key(o.server), &report.encode(), soon())?;
        }
        host.member.lease(&key, address.as_bytes(), soon())?;
        let mut words = Words::new(host.me);
        let (news, heard) = mpsc::channel();
        std::thread::spawn(move || watch_map(&watch, o.server, &news));
        loop {
            let (map, leaves, step) = match heard.recv_timeout(LOAD_EVERY) {
                Ok(News::Map { map, leaves, step }) => (map, leaves, step),
                // The job is over when its coordinator is.
                Ok(News::Over(Error::Net(e))) if e.is_gone() => return Ok(()),
                Ok(News::Over(e)) => return Err(e),
                Err(_) => {
                    host.try_disks_again();
                    // The map watcher notices a link that has ended.
                    let _ = host.tell(&publisher, &mut words);
                    if publisher.waits() > o.away_max {
                        let e = format!("waiting {:?} for the membership store to answer", o.away_max);
                        return Err(Error::Deadline(e));
                    }
                    continue;
                }
            };
            if host.partitions.get().is_none() {
                let make = |p| {
                    let mut partition = Partition::new(p, o.server, o.workers, o.rule.clone(), apply()?);
                    let journal = o.disk.as_ref().map(|d| d.journal(p));
                    if let Some(disk) = &o.disk {
                        partition.keep_on_disk();
                        let mut is_over = false;
                        disk.replay(p, |epoch, r| {
                            is_over |= matches!(&r, Record::Commit { applied, .. } if *applied > step);
                            if is_over { Ok(()) } else { partition.restore(epoch, r).map_err(Error::value) }
                        })?;
                    }
                    Ok(Mutex::new(Slot { partition, journal }))
                };
                let all = (0..map.replicas.len() as u32).map(make).collect::<Result<Vec<_>>>()?;
                let _ = host.partitions.set(all);
            }
            host.new_map(&map);
            // Requests for a partition without a complete copy wait for the map that follows from this.
            let _ = host.tell_unsynced(&publisher, &mut words);
            if leaves && !map.names(host.me) {
                // Everything it held is elsewhere.
                return Ok(());
            }
        }
    }
    /// Says which partitions every backup has, what this server has done, and if it answers for the
    /// first partition the step of every worker.
    fn tell(&self, publisher: &Publisher, words: &mut Words) -> Result<()> {
        self.tell_unsynced(publisher, words)?;
        let Words { copied, load, text, .. } = words;
        self.partitions_that(Partition::is_copied, text);
        publisher.set(copied, text.as_bytes())?;
        self.load(text);
        publisher.lease(load, text.as_bytes())?;
        if let Some(first) = self.partitions.get().and_then(|all| all.first()) {
            let p = first.lock();
            if p.partition.is_primary() {
                numbers(text, p.partition.settled());
                drop(p);
                publisher.set(CLOCKS, text.as_bytes())?;
            }
        }
        Ok(())
    }
    /// Says which partitions it answers for without a complete copy, if there are any.
    fn tell_unsynced(&self, publisher: &Publisher, words: &mut Words) -> Result<()> {
        if self.partitions_that(Partition::is_unsynced, &mut words.text) == 0 {
            return Ok(());
        }
        publisher.set(&words.unsynced, words.text.as_bytes())
    }
    /// Writes the epoch and the partitions of which something holds in it; how many these are.
    fn partitions_that(&self, holds: fn(&Partition) -> bool, text: &mut String) -> usize {
        let all = self.partitions.get().into_iter().flatten();
        text.clear();
        push(text, all.clone().last().map_or(0, |slot| slot.lock().partition.epoch()));
        let mut count = 0;
        for slot in all {
            let slot = slot.lock();
            if holds(&slot.partition) {
                push(text, slot.partition.id().into());
                count += 1;
            }
        }
        count
    }
    /// Partitions it answers for, bytes it holds, updates applied, reads, reads that had to wait.
    fn load(&self, text: &mut String) {
        let mut sums = [0u64; 5];
        for p in self.partitions.get().into_iter().flatten() {
            let p = &p.lock().partition;
            let bytes: usize = p.contents().map(|(_, _, value)| value.len() * 4).sum();
            let c = p.counters();
            let all = [u64::from(p.is_primary()), bytes as u64, c.applied, c.reads, c.parked];
            sums.iter_mut().zip(all).for_each(|(sum, n)| *sum += n);
        }
        numbers(text, &sums);
    }

    fn new_map(self: &Arc<Self>, map: &Arc<Map>) {
        // Servers that died must not be written to any more.
        self.servers.lock().retain(|s, _| map.names(*s));
        for p in self.partitions.get().into_iter().flatten() {
            let message = Message::Map(map.clone());
            let e = Envelope { partition: 0, epoch: map.epoch, message };
            self.handle(p, Peer::Coordinator, e, &mut Outbox::new(), &mut Vec::new());
        }
    }

    fn serve(self: Arc<Self>, connection: Connection) {
        let hello = connection.peer().clone();
        let peer = match hello.role.as_str() {
            "worker" => Peer::Worker(hello.id),
            "server" => Peer::Server(hello.id),
            other => return (self.report)(&format!("a connection of a {other:?} was rejected")),
        };
        if let Err(e) = connection.detect_loss(cut_max()) {
            return (self.report)(&format!("{peer:?} was cut off: {e}"));
        }
        let (sender, mut receiver) = connection.split();
        let sender = Arc::new(Mutex::new(sender));
        let line = match matches!(peer, Peer::Worker(_)).then(|| self.open_line(hello.id, sender.clone())).transpose() {
            Ok(line) => line,
            Err(e) => return (self.report)(&format!("{peer:?} was cut off: {e}")),
        };
        // Others may know the first map before this server does: what they say must not be lost.
        let partitions = self.partitions.wait();
        let (mut heard, mut out, mut replies) = (KnownLists::default(), Outbox::new(), Vec::new());
        loop {
            let message = receiver.header(Instant::now() + IDLE).map_err(Error::from).and_then(|mut h| {
                let mut payload = wire::receive(&mut receiver, &h, Instant::now() + PATIENCE)?;
                let rows = heard.rows(&mut h, &mut payload)?;
                Envelope::decode_with(&h, payload, rows)
            });
            let e = match message {
                Ok(e) => e,
                Err(Error::Net(e)) if e.is_gone() => break,
                Err(e) => {
                    (self.report)(&format!("{peer:?} was cut off: {e}"));
                    break;
                }
            };
            let Some(slot) = partitions.get(e.partition as usize) else {
                (self.report)(&format!("{peer:?} was cut off: there is no partition {}", e.partition));
                break;
            };
            if matches!(peer, Peer::Server(_)) {
                await_epoch(slot, e.epoch);
            }
            if !self.handle(slot, peer, e, &mut out, &mut replies) {
                break;
            }
            // What it has to say to the next message, which is here, goes along.
            let waits = receiver.has_frame() && replies.len() < TOGETHER;
            if !waits && !self.reply(&mut replies, line.as_ref()) {
                break;
            }
        }
        sender.lock().close();
    }

    /// A worker's line; an older one of the same worker is closed.
    fn open_line(self: &Arc<Self>, worker: u32, now: Arc<Mutex<Sender>>) -> Result<Line> {
        let (later, queue) = sync_channel(QUEUE_MAX);
        let line = Line { now, later };
        let (writer, me) = (line.now.clone(), self.me);
        let written = move || {
            let mut some = Vec::with_capacity(TOGETHER);
            while next(&queue, &mut some) && write(&writer, me, &mut some) {}
        };
        std::thread::Builder::new().spawn(written).map_err(Error::io("starting a thread that writes"))?;
        if let Some(old) = self.workers.lock().insert(worker, line.clone()) {
            old.now.lock().close();
        }
        Ok(line)
    }

    /// Lets a partition handle a message and sends what it says to others, what it says to the
    /// sender is added to `replies`; false if the sender is to be cut off. `out` is memory to use.
    fn handle(
        self: &Arc<Self>,
        slot: &Mutex<Slot>,
        from: Peer,
        e: Envelope,
        out: &mut Outbox,
        replies: &mut Vec<Envelope>,
    ) -> bool {
        let mut slot = slot.lock();
        if let Err(e) = slot.partition.handle(from, e, out) {
            (self.report)(&format!("{from:?} was cut off: {e}"));
            return false;
        }
        self.store(&mut slot, out);
        // The thread that takes them lives as long as the process.
        slot.partition.snapshots().into_iter().for_each(|s| drop(self.snapshots.send(s)));
        self.route(out, from, replies);
        true
    }
    /// Replies to a worker; false if it is gone.
    fn reply(&self, replies: &mut Vec<Envelope>, line: Option<&Line>) -> bool {
        let Some(line) = line else { return true };
        if self.pushes {
            // What waits for a worker that sends must not keep this thread from receiving.
            return replies.drain(..).all(|e| line.later.try_send(e).is_ok());
        }
        write(&line.now, self.me, replies)
    }

    /// Writes what goes to the disk; leaves the other messages, and adds those that the disk's
    /// answer leads to.
    fn store(&self, slot: &mut Slot, out: &mut Outbox) {
        let Slot { partition, journal: Some(journal) } = slot else { return };
        loop {
            let mut answer = None;
            for (_, e) in out.iter().filter(|(to, _)| *to == Peer::Disk) {
                let Message::Record { stream, .. } = &e.message else { continue };
                let message = journal.append(e).map(|seq| Message::RecordAck { stream: *stream, seq });
                let is_full = message.is_err();
                let message = message.unwrap_or_else(|e| {
                    if !partition.is_disk_full() {
                        (self.report)(&format!("{e}: steps are not acknowledged until there is room"));
                    }
                    Message::DiskFull
                });
                answer = Some(Envelope { partition: e.partition, epoch: e.epoch, message });
                if is_full {
                    break;
                }
            }
            out.retain(|(to, _)| *to != Peer::Disk);
            let Some(answer) = answer else { break };
            if let Err(e) = partition.handle(Peer::Disk, answer, out) {
                (self.report)(&e);
            }
        }
        if journal.is_long() {
            let again = partition.rewrite();
            if !again.is_empty() {
                out.extend(again);
                self.store(slot, out);
            }
        }
    }
    /// Disks that were full may have room again.
    fn try_disks_again(self: &Arc<Self>) {
        for slot in self.partitions.get().into_iter().flatten() {
            let mut slot = slot.lock();
            if slot.partition.is_disk_full() {
                let mut out = slot.partition.resend(Some(Peer::Disk));
                self.store(&mut slot, &mut out);
                self.route(&mut out, Peer::Disk, &mut Vec::new());
            }
        }
    }

    /// Queues messages for others; those for `from` are the caller's to write.
    fn route(self: &Arc<Self>, out: &mut Outbox, from: Peer, replies: &mut Vec<Envelope>) {
        for (to, e) in out.drain(..) {
            match to {
                _ if to == from && matches!(to, Peer::Worker(_)) => replies.push(e),
                Peer::Worker(w) => {
                    let line = self.workers.lock().get(&w).cloned();
                    // A worker that is away asks again when it is back.
                    if let Some(line) = line
                        && line.later.try_send(e).is_err()
                    {
                        line.now.lock().close();
                        self.workers.lock().remove(&w);
                    }
                }
                Peer::Server(s) => {
                    let mut servers = self.servers.lock();
                    let queue = servers.entry(s).or_insert_with(|| self.open_queue(s));
                    if queue.try_send(e).is_err() {
                        servers.remove(&s);
                    }
                }
                Peer::Coordinator | Peer::Disk => {}
            }
        }
    }

    /// A thread that connects to another server and writes what is queued.
    fn open_queue(self: &Arc<Self>, server: u32) -> SyncSender<Envelope> {
        let (sender, queue) = sync_channel(QUEUE_MAX);
        let host = self.clone();
        let writes = move || {
            let mut is_again = false;
            // While the map names the server, a broken link is mended and what was lost repeated.
            while let Err(e) = host.write_to_server(server, &queue, is_again) {
                if !host.servers.lock().contains_key(&server) {
                    break;
                }
                (host.report)(&format!("the link to server {server} ended: {e}"));
                std::thread::sleep(Duration::from_millis(50));
                is_again = true;
            }
        };
        // Without a thread the queue is not drained: the next message tries again.
        if let Err(e) = std::thread::Builder::new().spawn(writes) {
            (self.report)(&format!("no thread writes to server {server}: {e}"));
        }
        sender
    }
    /// Where a server listens; while the membership store does not answer, where it last did.
    fn address_of(&self, server: u32) -> Result<Address> {
        let known = self.addresses.lock().get(&server).cloned();
        let found = match self.member.wait(&controller::server_key(server), 0, Instant::now() + LOOKUP) {
            Ok((_, text)) => String::from_utf8_lossy(&text).parse()?,
            Err(e) if e.is_late() => return known.ok_or(e),
            Err(e) => return Err(e),
        };
        self.addresses.lock().insert(server, Address::clone(&found));
        Ok(found)
    }
    fn write_to_server(self: &Arc<Self>, server: u32, queue: &Queue<Envelope>, is_again: bool) -> Result<()> {
        let soon = || Instant::now() + PATIENCE;
        let address = self.address_of(server)?;
        let hello = Hello::new("server", self.me);
        let connection = Connection::connect(&address, &hello, self.secret.as_ref(), soon())?;
        connection.detect_loss(cut_max())?;
        let (mut sender, _receiver) = connection.split();
        if is_again {
            for p in self.partitions.get().into_iter().flatten() {
                let lost = p.lock().partition.resend(Some(Peer::Server(server)));
                wire::send_together(&mut sender, lost.iter().map(|(_, e)| encoded(e, self.me)), soon())?;
            }
        }
        let mut some = Vec::with_capacity(TOGETHER);
        while next(queue, &mut some) {
            wire::send_together(&mut sender, some.iter().map(|e| encoded(e, self.me)), soon())?;
            some.drain(..).for_each(Envelope::spare);
        }
        Ok(())
    }
}

/// Hears of every map, and whether this server is to leave.
fn watch_map(watch: &Member, me: u32, news: &mpsc::Sender<News>) {
    let (mut version, leave) = (0, controller::leave_key(me));
    loop {
        let forever = Instant::now() + FOREVER;
        let heard = watch.wait(controller::MAP, version, forever).and_then(|(newer, bytes)| {
            version = newer;
            let leaves = watch.get(&leave, forever)?.1.is_some();
            let step =
                watch.get(controller::RECOVERY_STEP, forever)?.1.and_then(|b| String::from_utf8(b).ok()?.parse().ok());
            Ok(News::Map { map: Arc::new(Map::decode(&bytes)?), leaves, step: step.unwrap_or(u64::MAX) })
        });
        let is_over = heard.is_err();
        if news.send(heard.unwrap_or_else(News::Over)).is_err() || is_over {
            return;
        }
    }
}

/// Writes checkpoints, one after the other, and tells the membership store of each.
fn write_snapshots(taken: &Queue<Snapshot>, saver: Option<&dyn Saver>, told: &Member) {
    for s in taken {
        let (key, request) = (saved_key(s.worker, s.partition), s.request);
        let done = match saver {
            Some(saver) => saver.save(s),
            None => Err("it was not given the means to write checkpoints".to_string()),
        };
        let said = format!("{request} {}", done.err().unwrap_or_default());
        // Without a membership store there is no recipient, and the job ends.
        if told.set(&key, said.as_bytes(), Instant::now() + FOREVER).is_err() {
            return;
        }
    }
}

/// Another server may hear of a new epoch first. What it says then must not be lost: a primary that
/// is to become its backup would not listen, and it would not say it again.
fn await_epoch(slot: &Mutex<Slot>, epoch: u64) {
    let deadline = Instant::now() + PATIENCE;
    while slot.lock().partition.epoch() < epoch && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn encoded(e: &Envelope, me: u32) -> Encoded<'static> {
    let (h, parts) = e.encode(me);
    (h, parts, None)
}

/// Waits for messages and takes those that are there; false if none will come.
fn next(queue: &Queue<Envelope>, some: &mut Vec<Envelope>) -> bool {
    some.extend(queue.recv());
    some.extend(queue.try_iter().take(TOGETHER - 1));
    !some.is_empty()
}

/// Writes messages and keeps their memory; false if the reader is gone.
fn write(sender: &Mutex<Sender>, me: u32, messages: &mut Vec<Envelope>) -> bool {
    let mut sender = sender.lock();
    let encoded = messages.iter().map(|e| encoded(e, me));
    let sent = wire::send_together(&mut sender, encoded, Instant::now() + PATIENCE);
    if sent.is_err() {
        sender.close();
    }
    drop(sender);
    messages.drain(..).for_each(Envelope::spare);
    sent.is_ok()
}
