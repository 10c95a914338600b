//! The store on disk: after a crash at any point (between receiving, applying, logging, torn in the
//! middle of a write, and acknowledging) every settled step is there, once.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use talweg_dist::{
    Add, Client, Controller, Disk, EmbeddedCoordinator, Envelope, Error, Hello, Journal, Map, Member, Message, Outbox,
    Partition, Peer, Rows, Rule, ServerOptions, Store, StoreServer, Table, Update,
};

const STEPS: u64 = 3;
const TABLE: Table = Table { id: 0, rows: 2, width: 1, block_rows: 2 };

/// What happens to the message at which the server dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    Before,
    Torn,
    After,
}

struct Server {
    partition: Partition,
    journal: Journal,
}

/// A server with a disk, and a worker, joined by queues.
struct World<'a> {
    folder: &'a Path,
    rule: Rule,
    map: Map,
    server: Server,
    client: Client,
    to_server: VecDeque<Envelope>,
    to_client: VecDeque<Envelope>,
    /// Messages that servers have sent, and the one at which the server dies.
    sent: usize,
    crash: Option<(usize, Crash)>,
}

fn start(folder: &Path, rule: Rule) -> Server {
    let disk = Disk::new(folder);
    let mut partition = Partition::new(0, 0, 1, Arc::new(rule), Box::new(Add));
    partition.keep_on_disk();
    disk.positions(1).unwrap();
    disk.replay(0, |epoch, r| partition.restore(epoch, r).map_err(talweg_dist::Error::value)).unwrap();
    Server { partition, journal: disk.journal(0) }
}

impl World<'_> {
    fn new(folder: &Path, rule: Rule, crash: Option<(usize, Crash)>) -> World<'_> {
        let map = Map::new(1, &[0], 1, 1).unwrap();
        let (server, client) = (start(folder, rule), Client::new(0, 1, false));
        let (to_server, to_client) = (VecDeque::new(), VecDeque::new());
        World { folder, rule, map, server, client, to_server, to_client, sent: 0, crash }
    }
    /// Tells both of the map.
    fn announce(&mut self) {
        let map = Arc::new(self.map.clone());
        let e = Envelope { partition: 0, epoch: map.epoch, message: Message::Map(map) };
        let out = self.client.handle(Peer::Coordinator, e.clone()).unwrap();
        self.to_server.extend(out.into_iter().map(|(_, e)| e));
        self.serve(Peer::Coordinator, e);
    }
    fn serve(&mut self, from: Peer, e: Envelope) {
        let mut out = Outbox::new();
        self.server.partition.handle(from, e, &mut out).unwrap();
        for (to, e) in out {
            self.sent += 1;
            let crash = self.crash.filter(|(at, _)| *at == self.sent).map(|(_, how)| how);
            if crash == Some(Crash::Before) {
                return self.die();
            }
            match to {
                Peer::Disk => {
                    let before = self.lengths();
                    let seq = self.server.journal.append(&e).unwrap();
                    if crash == Some(Crash::Torn) {
                        self.tear(&before);
                    }
                    if crash.is_some() {
                        return self.die();
                    }
                    let Message::Record { stream, .. } = e.message else { panic!("{e:?}") };
                    self.serve(Peer::Disk, Envelope { message: Message::RecordAck { stream, seq }, ..e });
                    if self.crash.is_some_and(|(at, _)| at <= self.sent) {
                        return;
                    }
                }
                Peer::Worker(_) => {
                    if crash != Some(Crash::Torn) {
                        self.to_client.push_back(e);
                    }
                    if crash.is_some() {
                        return self.die();
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    fn lengths(&self) -> Vec<(std::path::PathBuf, u64)> {
        let files = fs::read_dir(self.folder).unwrap().map(|f| f.unwrap().path());
        files.map(|p| (p.clone(), fs::metadata(&p).unwrap().len())).collect()
    }
    /// Takes back half of what the last write added, unless it has replaced the file.
    fn tear(&self, before: &[(std::path::PathBuf, u64)]) {
        for (path, old) in before.iter().filter(|(p, _)| p.exists()) {
            let new = fs::metadata(path).unwrap().len();
            if new > *old && path.extension().is_some_and(|e| e == "log") {
                OpenOptions::new().write(true).open(path).unwrap().set_len((old + new) / 2).unwrap();
            }
        }
    }
    /// The server dies and starts again from its disk; what was on its way is lost.
    fn die(&mut self) {
        self.crash = None;
        self.to_server.clear();
        self.map.epoch += 1;
        self.server = start(self.folder, self.rule);
        // Where nothing had reached the disk the store is as on the first day.
        if self.server.partition.position().epoch == 0 {
            self.server
                .partition
                .restore(1, talweg_dist::Record::Commit { settled: vec![0].into(), applied: 0 })
                .unwrap();
        }
        self.announce();
    }
    /// Lets messages flow until the worker is content.
    fn until(&mut self, done: impl Fn(&Client) -> bool) {
        for _ in 0..1000 {
            if done(&self.client) {
                return;
            }
            if let Some(e) = self.to_server.pop_front() {
                self.serve(Peer::Worker(0), e);
            } else if let Some(e) = self.to_client.pop_front() {
                let out = self.client.handle(Peer::Server(0), e).unwrap();
                self.to_server.extend(out.into_iter().map(|(_, e)| e));
            } else {
                let again = self.client.resend(None);
                self.to_server.extend(again.into_iter().map(|(_, e)| e));
            }
        }
        panic!("nothing moves any more, crash {:?}", self.crash);
    }
    fn ask(&mut self, out: Outbox) {
        self.to_server.extend(out.into_iter().map(|(_, e)| e));
    }
    fn run(&mut self) -> Vec<f32> {
        self.announce();
        let out = self.client.join();
        self.ask(out);
        self.until(|c| c.joined().is_some());
        let out = self.client.create(&TABLE, 0, Arc::new(vec![0.0; 2]));
        self.ask(out);
        self.until(Client::is_created);
        for step in 0..STEPS {
            let (request, out) = self.client.pull(0, 0, Rows::default());
            self.ask(out);
            self.until(|c| !c.is_waiting());
            assert_eq!(self.client.take(request).unwrap()[0], step as f32);
            for rows in [vec![0], vec![1]].map(Rows::from) {
                let update = Update {
                    table: 0,
                    block: 0,
                    rows,
                    data: Arc::new(vec![1.0]),
                    rate: 0.0,
                    numbers: None,
                    count: 1,
                    filter: None,
                };
                let out = self.client.push(update);
                self.ask(out);
            }
            let mut out = Outbox::new();
            self.client.settle(&mut out);
            self.ask(out);
        }
        self.until(|c| c.volatile_steps() == 0);
        self.server.partition.contents().next().unwrap().2.to_vec()
    }
}

fn crash_everywhere(rule: Rule) {
    let dir = tempfile::tempdir().unwrap();
    let mut calm = World::new(dir.path(), rule, None);
    assert_eq!(calm.run(), [STEPS as f32; 2]);
    let messages = calm.sent;
    assert!(messages > 20, "{messages}");
    for at in 1..=messages {
        for how in [Crash::Before, Crash::Torn, Crash::After] {
            let dir = tempfile::tempdir().unwrap();
            let mut world = World::new(dir.path(), rule, Some((at, how)));
            assert_eq!(world.run(), [STEPS as f32; 2], "{rule}, message {at}, {how:?}");
            assert!(world.crash.is_none(), "it has died");
            // And once more from disk, with no process alive.
            let again = start(dir.path(), rule);
            assert_eq!(again.partition.settled(), [STEPS], "{rule}, message {at}, {how:?}");
        }
    }
}

#[test]
fn a_crash_at_any_point_loses_and_doubles_nothing_under_bsp() {
    crash_everywhere(Rule::BSP);
}
#[test]
fn a_crash_at_any_point_loses_and_doubles_nothing_under_ssp() {
    crash_everywhere(Rule::ssp(1));
}

#[test]
fn a_changed_byte_ends_what_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    World::new(dir.path(), Rule::ASYNC, None).run();
    let path = dir.path().join("partition-0.log");
    let good = fs::read(&path).unwrap();
    let mut settled = Vec::new();
    for at in (0..good.len()).step_by(17) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        settled.push(start(dir.path(), Rule::ASYNC).partition.settled()[0]);
    }
    assert!(settled.is_sorted() && settled[0] == 0 && settled.contains(&1), "{settled:?}");
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}
/// A store of two servers with disks below `folder`, and a worker.
fn open(folder: &Path, bytes_max: u64, timeout: Duration) -> (EmbeddedCoordinator, Store) {
    let (coordinator, store) = open_by(Rule::ASYNC, folder, bytes_max, timeout);
    (coordinator, store.unwrap())
}
fn open_by(
    rule: Rule,
    folder: &Path,
    bytes_max: u64,
    timeout: Duration,
) -> (EmbeddedCoordinator, talweg_dist::Result<Store>) {
    let coordinator =
        EmbeddedCoordinator::start(&"127.0.0.1:0".parse().unwrap(), None, Controller::new(1, 2, 2), |_| {}).unwrap();
    let connect = |role, id| Member::connect(coordinator.address(), &Hello::new(role, id), None, soon()).unwrap();
    for server in 0..2 {
        let disk = Disk { bytes_max, ..Disk::new(folder.join(server.to_string())) };
        let (member, listen) = (connect("server", server), "127.0.0.1:0".parse().unwrap());
        let options = ServerOptions { disk: Some(disk), ..ServerOptions::new(server, 1, listen, Arc::new(rule)) };
        thread::spawn(move || StoreServer::run(options, member, || Ok(Box::new(Add)), |_| {}));
    }
    let store = Store::join(0, false, connect("worker", 0), None, timeout);
    (coordinator, store)
}

#[test]
fn a_store_is_taken_up_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::new(0, 1000, 3, 1024).unwrap();
    for life in 0..3u64 {
        let (_coordinator, mut store) = open(dir.path(), u64::MAX, Duration::from_secs(30));
        assert_eq!(store.step(), life * 5);
        store.create(&table, &[0.5; 3000]).unwrap();
        assert_eq!(store.pull(&[table]).unwrap()[0], [0.5 + 5.0 * life as f32; 3000]);
        for _ in 0..5 {
            store.push(&table, &[1.0; 3000], 0.0).unwrap();
            store.clock().unwrap();
        }
        store.wait().unwrap();
        // The newest copy counts, whichever server has it.
        if life == 0 {
            fs::remove_dir_all(dir.path().join("1")).unwrap();
        }
    }
}

#[test]
fn a_full_disk_says_so_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::new(0, 1000, 1, 1 << 20).unwrap();
    let (coordinator, mut store) = open(dir.path(), 14_000, Duration::from_secs(30));
    store.create(&table, &[0.0; 1000]).unwrap();
    store.timeout = Duration::from_millis(500);
    let mut settled = 0;
    let e = loop {
        store.push(&table, &[1.0; 1000], 0.0).unwrap();
        let mut done = store.clock().and_then(|()| store.wait());
        // A machine that is merely slow is waited for.
        while matches!(&done, Err(Error::Deadline(e)) if !e.contains("full")) {
            done = store.wait();
        }
        if let Err(e) = done {
            break e.to_string();
        }
        settled += 1;
        assert!(settled < 50, "the limit is never reached");
    };
    assert!(e.contains("disks of servers") && settled > 0, "{e}");
    drop((store, coordinator));
    let (_coordinator, mut store) = open(dir.path(), u64::MAX, Duration::from_secs(30));
    assert_eq!(store.step(), settled);
    assert_eq!(store.pull(&[table]).unwrap()[0], vec![settled as f32; 1000]);
}

/// A power cut without sync: the copies of one partition have lost their ends, those of another have
/// not. What is taken up is one step of all partitions, or nothing.
#[test]
fn partitions_that_lost_different_ends_are_not_mixed() {
    let table = Table::new(0, 1000, 3, 1024).unwrap();
    let steps = |store: &mut Store, until: u64| {
        while store.step() < until {
            let expected = store.step() as f32;
            assert_eq!(store.pull(&[table]).unwrap()[0], [expected; 3000], "step {}", store.step());
            store.push(&table, &[1.0; 3000], 0.0).unwrap();
            store.clock().unwrap();
        }
        store.wait().unwrap();
    };
    for rule in [Rule::BSP, Rule::ASYNC] {
        let dir = tempfile::tempdir().unwrap();
        let (coordinator, store) = open_by(rule, dir.path(), u64::MAX, Duration::from_secs(30));
        let mut store = store.unwrap();
        store.create(&table, &[0.0; 3000]).unwrap();
        steps(&mut store, 30);
        drop((store, coordinator));
        for server in 0..2 {
            let log = dir.path().join(server.to_string()).join("partition-1.log");
            let file = OpenOptions::new().write(true).open(&log).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600);
            file.set_len(file.metadata().unwrap().len() * 2 / 3).unwrap();
        }
        let (_coordinator, store) = open_by(rule, dir.path(), u64::MAX, Duration::from_secs(30));
        if rule == Rule::BSP {
            let mut store = store.unwrap();
            assert!((15..25).contains(&store.step()), "{}", store.step());
            steps(&mut store, 40);
            assert_eq!(store.pull(&[table]).unwrap()[0], [40.0; 3000]);
        } else {
            let e = store.err().expect("each worker's pace is its own").to_string();
            assert!(e.contains("the store on disk is torn") && e.contains("/partition-1.log from step 0 to"), "{e}");
        }
    }
}

/// Bytes of all files below a folder.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap());
    entries.map(|e| if e.path().is_dir() { bytes_below(&e.path()) } else { e.metadata().map_or(0, |m| m.len()) }).sum()
}

/// What a worker keeps with each step replaces what it kept before: the logs are rewritten before they are longer
/// than four times what they describe, or 4 MiB.
#[test]
fn two_thousand_steps_with_records_stay_within_a_bound() {
    const RECORD: usize = 8 << 10;
    let dir = tempfile::tempdir().unwrap();
    let table = Table::new(0, 1000, 1, 1 << 20).unwrap();
    let (_coordinator, mut store) = open(dir.path(), u64::MAX, Duration::from_secs(60));
    store.create(&table, &[0.0; 1000]).unwrap();
    let (mut most, mut written) = (0, 0);
    for step in 0..2_000u32 {
        store.keep(&vec![step as u8; RECORD]).unwrap();
        store.push(&table, &[1.0; 1000], 0.0).unwrap();
        store.clock().unwrap();
        written += RECORD as u64;
        if step % 50 == 49 {
            store.wait().unwrap();
            most = most.max(bytes_below(dir.path()));
        }
    }
    // Four partitions on each of two servers. A file has its content, the log after it, and while it is rewritten
    // its content once more.
    let content = (64 << 10) + 2 * 4 * 1000;
    let bound = 2 * 4 * (2 * content + (4 << 20) + (64 << 10));
    assert!(most < bound, "{most} bytes, not {bound} at most");
    assert!(2 * 4 * written > 3 * bound, "the steps were too few to show it");
}

/// A server that took a lost one's place has kept its partitions under a number that no server of the next job has.
#[test]
fn what_replaced_servers_have_left_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |n: u32| dir.path().join(format!("server-{n}"));
    let of = |n: u32, servers: Option<u32>| Disk { servers, ..Disk::new(folder(n)) };
    World::new(&folder(0), Rule::BSP, None).run();
    World::new(&folder(2), Rule::BSP, None).run();
    let (old, new) = (folder(0).join("partition-0.log"), folder(2).join("partition-0.log"));
    let whole = fs::read(&new).unwrap();
    let file = OpenOptions::new().write(true).open(&old).unwrap();
    file.set_len(whole.len() as u64 / 2).unwrap();
    fs::write(folder(2).join("rule-0.2"), b"rule").unwrap();
    let steps = |d: &Disk| d.positions(1).unwrap()[0].1.position.applied;
    let mine = of(0, Some(2));
    assert!(steps(&mine) < STEPS);
    // One that still lives keeps what it has.
    let lives = of(2, None).lock().unwrap();
    mine.adopt(1).unwrap();
    assert!(steps(&mine) < STEPS && folder(2).exists());
    drop(lives);
    of(0, Some(3)).adopt(1).unwrap();
    assert!(folder(2).exists(), "of a job of three servers it is the third's");
    mine.adopt(1).unwrap();
    assert_eq!((steps(&mine), fs::read(&old).unwrap()), (STEPS, whole));
    assert!(!folder(2).exists() && folder(0).join("rule-0.2").exists());
    // Nothing older comes back.
    World::new(&folder(3), Rule::BSP, None).run();
    let file = OpenOptions::new().write(true).open(folder(3).join("partition-0.log")).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    mine.adopt(1).unwrap();
    assert_eq!(steps(&mine), STEPS);
    let e = mine.positions(2).unwrap_err().to_string();
    assert!(e.contains("is that of a job of 1 workers, and this one has 2"), "{e}");
    let fresh = Disk { is_fresh: true, ..mine };
    World::new(&folder(4), Rule::BSP, None).run();
    fresh.adopt(2).unwrap();
    assert!(fresh.positions(2).unwrap().is_empty() && !folder(4).exists());
}
