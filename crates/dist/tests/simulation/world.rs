//! Servers, workers and a coordinator in a simulated network.

mod loss;
mod stopping;

pub use loss::Victims;
use net::sim::{Event, Faults, Micros, Network, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use talweg_dist::{
    Add, Client, Consistency, Envelope, Map, Message, Outbox, Partition, Peer, Rows, Rule, Table, Update,
};

const PARTITIONS: usize = 4;
const COPIES: usize = 2;
const COUNT_TABLES: u32 = 4;
/// Table of weights that depend on the order of additions.
const WEIGHTS: u32 = 9;
const WEIGHT_ROWS: usize = 12;
const COORDINATOR: Node = 1000;
const WORKER: Node = 100;
const TICK: Micros = 3_000;
const COMPUTE: u64 = 1;
const RESEND: u64 = 2;

/// Whose steps take eight times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    Never,
    /// Always the same worker's.
    First,
    /// Another worker's in each step.
    InTurn,
    /// One step in eight, of any worker.
    Sometimes,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub struct Plan {
    pub faults: Faults,
    pub workers: u32,
    pub servers: u32,
    pub worker_crashes: u32,
    pub server_crashes: u32,
    /// A server is believed dead that is alive.
    pub suspect: bool,
    pub cuts: u32,
    pub slow: Slow,
    /// Steps of each worker.
    pub steps: u64,
    /// Servers that come while the others work.
    pub additions: u32,
    /// Servers that hand over what they hold and leave.
    pub removals: u32,
    /// When the keeper of the membership store is stopped, and until when.
    pub pauses: Vec<Range<Micros>>,
    /// Servers die while another is still to get its copy from them.
    pub loss: Option<loss::Victims>,
    /// All workers are asked to stop, while a worker is dead.
    pub stops: bool,
}

impl Plan {
    /// Nothing.
    pub fn calm() -> Plan {
        Plan {
            faults: Faults::default(),
            workers: 3,
            servers: 3,
            worker_crashes: 0,
            server_crashes: 0,
            suspect: false,
            cuts: 0,
            slow: Slow::Never,
            steps: 12,
            additions: 0,
            removals: 0,
            pauses: Vec::new(),
            loss: None,
            stops: false,
        }
    }
    /// Everything, differently for each seed.
    pub fn storm(seed: u64) -> Plan {
        let faults = Faults { loss: 0.02, double: 0.03, delay: 50..900, late: 0.03, skew: 30 };
        Plan {
            faults,
            worker_crashes: (seed % 4) as u32,
            server_crashes: (seed % 3) as u32,
            suspect: seed % 5 == 4,
            cuts: (seed % 7) as u32,
            slow: if seed % 2 == 1 { Slow::First } else { Slow::Never },
            additions: (seed / 3 % 3) as u32,
            removals: (seed / 5 % 2) as u32,
            ..Plan::calm()
        }
    }
}

enum Phase {
    Joining,
    Creating,
    /// Questions under way: (table, block, request).
    Reading(Vec<(u32, u32, u64)>),
    Computing(BTreeMap<(u32, u32), Arc<Vec<f32>>>),
    Settling,
    /// It waits until the workers have agreed on a last step.
    AtGate,
    Done,
}

struct Worker {
    client: Client,
    phase: Phase,
    life: u32,
}

pub struct World {
    network: Network<(Peer, Vec<u8>)>,
    rule: Rule,
    plan: Plan,
    map: Map,
    servers: BTreeMap<u32, Vec<Partition>>,
    dead: BTreeSet<u32>,
    leaving: BTreeSet<u32>,
    /// Where partitions are on their way to.
    target: Option<Map>,
    pub moves: u64,
    workers: Vec<Worker>,
    tables: Vec<Table>,
    pub reads: u64,
    pub events: u64,
    pub ahead_most: u64,
    /// Steps that reads were behind, summed over reads and workers, and how many were summed.
    pub behind: (u64, u64),
    /// Steps that reads were behind in the oldest of what they saw, summed over reads.
    pub oldest: u64,
    /// Of these, steps that the other worker had done when it was read: what waiting could not
    /// have helped against, but asking.
    pub unseen: u64,
    /// Replies and news that the store has sent.
    pub values: u64,
    /// Steps that were computed while the keeper was stopped.
    pub steps_paused: u64,
    trouble: Vec<(Micros, Trouble)>,
    /// Partitions whose primary had no complete copy, and was passed over.
    pub passed: u64,
    stop: Option<stopping::Stopping>,
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    KillWorker(u32),
    StartWorker(u32),
    KillServer,
    Suspect,
    NoticeDead(u32),
    Cut(Node, Node, bool),
    Add,
    Remove,
    KillSources(loss::Victims),
    Stop,
    Hear(u32),
}

fn peer_of(node: Node) -> Peer {
    match node {
        COORDINATOR => Peer::Coordinator,
        n if n >= WORKER => Peer::Worker(n - WORKER),
        n => Peer::Server(n),
    }
}
fn node_of(peer: Peer) -> Node {
    match peer {
        Peer::Coordinator => COORDINATOR,
        Peer::Worker(w) => WORKER + w,
        Peer::Server(s) => s,
        Peer::Disk => unreachable!("these servers have no disk"),
    }
}

impl World {
    /// Runs until every worker has done its steps.
    pub fn run(seed: u64, rule: Rule, plan: &Plan) -> World {
        let _failed = Failed(seed, rule);
        let mut w = World::new(seed, rule, plan);
        w.run_on();
        w
    }
    fn run_on(&mut self) {
        while !self.is_done() {
            assert!(self.network.now() < 2_000_000, "{}: not done after two seconds of simulated time", self.rule);
            let event = self.network.next_event().expect("timers never end");
            self.events += 1;
            self.step_trouble();
            self.event(event);
            self.agree();
        }
    }

    fn new(seed: u64, rule: Rule, plan: &Plan) -> World {
        let n = plan.workers as usize;
        let servers: Vec<u32> = (0..plan.servers).collect();
        let map = Map::new(PARTITIONS, &servers, COPIES, n).unwrap();
        let mut tables: Vec<Table> =
            (0..COUNT_TABLES).map(|id| Table { id, rows: n, width: 1, block_rows: n }).collect();
        tables.push(Table { id: WEIGHTS, rows: WEIGHT_ROWS, width: 2, block_rows: 5 });
        let mut w = World {
            network: Network::new(seed, plan.faults.clone()),
            rule,
            plan: plan.clone(),
            map,
            servers: BTreeMap::new(),
            dead: BTreeSet::new(),
            leaving: BTreeSet::new(),
            target: None,
            moves: 0,
            workers: Vec::new(),
            tables,
            reads: 0,
            events: 0,
            ahead_most: 0,
            behind: (0, 0),
            oldest: 0,
            unseen: 0,
            values: 0,
            steps_paused: 0,
            trouble: Vec::new(),
            passed: 0,
            stop: None,
        };
        servers.into_iter().for_each(|s| w.start_server(s));
        for i in 0..plan.workers {
            w.workers.push(new_worker(i, rule, 1));
            w.network.timer(WORKER + i, TICK, RESEND);
        }
        w.network.timer(COORDINATOR, 1, RESEND);
        w.plan_trouble();
        w
    }

    fn start_server(&mut self, s: u32) {
        let (rule, n) = (self.rule, self.plan.workers as usize);
        let make = |p| Partition::new(p as u32, s, n, Arc::new(rule), Box::new(Add));
        self.servers.insert(s, (0..PARTITIONS).map(make).collect());
        self.network.timer(s, TICK, RESEND);
    }
    /// Servers that should hold something.
    fn staying(&self) -> Vec<u32> {
        self.servers.keys().filter(|s| !self.dead.contains(s) && !self.leaving.contains(s)).copied().collect()
    }
    /// Moves partitions as the controller does.
    fn rebalance(&mut self) {
        self.pass_over_unsynced();
        let Some(target) = &self.target else { return };
        let copied = |p: u32| {
            let primary = self.map.primary(p).and_then(|s| self.servers.get(&s)).map(|l| &l[p as usize]);
            primary.is_some_and(|p| p.epoch() == self.map.epoch && p.is_copied())
        };
        if let Some(next) = self.map.toward(target, copied) {
            self.map = next;
            self.moves += 1;
        }
    }
    fn aim(&mut self) {
        self.target = Some(Map::new(PARTITIONS, &self.staying(), COPIES, self.plan.workers as usize).unwrap());
    }

    fn plan_trouble(&mut self) {
        let plan = self.plan.clone();
        let mut list = Vec::new();
        let random = self.network.random();
        for _ in 0..plan.worker_crashes {
            let (at, who) = (random.within(2_000..60_000), random.within(0..plan.workers.into()) as u32);
            list.push((at, Trouble::KillWorker(who)));
            list.push((at + random.within(100..8_000), Trouble::StartWorker(who)));
        }
        for _ in 0..plan.server_crashes.min(plan.servers - 1) {
            list.push((random.within(2_000..60_000), Trouble::KillServer));
        }
        if plan.suspect && plan.server_crashes + 1 < plan.servers {
            list.push((random.within(2_000..60_000), Trouble::Suspect));
        }
        for _ in 0..plan.cuts {
            let any = |random: &mut net::sim::Random| match random.within(0..u64::from(plan.servers + plan.workers)) {
                n if n < u64::from(plan.servers) => n as u32,
                n => WORKER + (n as u32 - plan.servers),
            };
            let (a, b, at) = (any(random), any(random), random.within(2_000..60_000));
            list.push((at, Trouble::Cut(a, b, true)));
            list.push((at + random.within(1_000..15_000), Trouble::Cut(a, b, false)));
        }
        (0..plan.additions).for_each(|_| list.push((random.within(2_000..40_000), Trouble::Add)));
        (0..plan.removals).for_each(|_| list.push((random.within(2_000..40_000), Trouble::Remove)));
        self.trouble = list;
        self.plan_loss();
        self.plan_stop();
    }

    fn step_trouble(&mut self) {
        let now = self.network.now();
        let due: Vec<_> = self.trouble.iter().filter(|(at, _)| *at <= now).map(|(_, t)| *t).collect();
        self.trouble.retain(|(at, _)| *at > now);
        for t in due {
            match t {
                Trouble::KillWorker(i) => self.network.crash(WORKER + i),
                Trouble::StartWorker(i) if self.network.is_down(WORKER + i) => {
                    self.network.restart(WORKER + i);
                    self.workers[i as usize] = new_worker(i, self.rule, self.workers[i as usize].life + 1);
                    self.network.timer(WORKER + i, 10, RESEND);
                    self.hears_of_stop(i);
                }
                Trouble::StartWorker(_) => {}
                Trouble::KillServer | Trouble::Suspect if !self.is_copied() => {
                    // A second crash before the copies are whole again would lose data by right.
                    self.trouble.push((now + 2_000, t));
                }
                Trouble::KillServer => {
                    if let Some(s) = self.victim() {
                        self.network.crash(s);
                        self.dead.insert(s);
                        let delay = self.network.random().within(500..5_000);
                        self.trouble.push((now + delay, Trouble::NoticeDead(s)));
                    }
                }
                Trouble::Suspect => {
                    if let Some(s) = self.victim() {
                        // It goes on serving processes that have not learned of the new epoch.
                        self.dead.insert(s);
                        self.network.cut(COORDINATOR, s);
                        self.trouble.push((now, Trouble::NoticeDead(s)));
                    }
                }
                // Who is stopped notices nothing, and moves nothing.
                Trouble::NoticeDead(_) | Trouble::Add | Trouble::Remove if self.is_paused().is_some() => {
                    self.trouble.push((self.is_paused().unwrap_or(now), t));
                }
                Trouble::NoticeDead(s) => {
                    let alive: Vec<u32> = self.servers.keys().filter(|s| !self.dead.contains(s)).copied().collect();
                    self.map = self.map.without(&[s], &alive, COPIES);
                    if self.target.is_some() {
                        self.aim();
                    }
                }
                Trouble::Add => {
                    self.start_server(self.servers.len() as u32);
                    self.aim();
                }
                Trouble::Remove => {
                    if let Some(s) = self.victim().filter(|_| self.staying().len() > COPIES) {
                        self.leaving.insert(s);
                        self.aim();
                    }
                }
                Trouble::KillSources(victims) => self.kill_sources(victims),
                Trouble::Stop => self.asks_to_stop(),
                Trouble::Hear(i) => self.hears_of_stop(i),
                Trouble::Cut(a, b, true) => self.network.cut(a, b),
                Trouble::Cut(a, b, false) => self.network.restore(a, b),
            }
        }
    }

    /// Until when the keeper is stopped, if it is.
    fn is_paused(&self) -> Option<Micros> {
        let now = self.network.now();
        self.plan.pauses.iter().find(|p| p.contains(&now)).map(|p| p.end)
    }
    fn victim(&mut self) -> Option<u32> {
        let alive: Vec<u32> = self.servers.keys().filter(|s| !self.dead.contains(s)).copied().collect();
        // A single copy, with the rest on a server that has left, would be lost by right.
        if alive.len() < 2 || (!self.leaving.is_empty() && self.staying().len() <= COPIES) {
            return None;
        }
        let i = self.network.random().within(0..alive.len() as u64) as usize;
        Some(alive[i])
    }
    /// True if every backup of the present map holds a complete copy of the present epoch.
    fn is_copied(&self) -> bool {
        let holds = |p: usize, s: &u32| !self.dead.contains(s) && self.servers[s][p].is_whole(self.map.epoch);
        self.map.replicas.iter().enumerate().all(|(p, list)| list.iter().all(|s| holds(p, s)))
    }
    fn is_done(&self) -> bool {
        // The launcher ends a job of which something is lost.
        self.map.has_lost() || self.workers.iter().all(|w| matches!(w.phase, Phase::Done))
    }

    fn send(&mut self, from: Node, out: Outbox) {
        for (to, e) in out {
            // Through the wire format and back, as on a socket.
            let (header, parts) = e.encode(from);
            let mut bytes = header.encode().to_vec();
            parts.slices().into_iter().for_each(|s| bytes.extend_from_slice(s));
            self.network.send(from, node_of(to), (peer_of(from), bytes));
        }
    }
    fn event(&mut self, event: Event<(Peer, Vec<u8>)>) {
        match event {
            Event::Message { to, message: (from, bytes), .. } => {
                let header = net::Header::decode(bytes[..64].try_into().unwrap()).unwrap();
                let words: Vec<f32> = bytes[64..].as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
                let e = Envelope::decode(&header, words).unwrap();
                self.deliver(from, to, e);
            }
            Event::Timer { node: COORDINATOR, .. } if self.is_paused().is_some() => {
                self.network.timer(COORDINATOR, TICK, RESEND);
            }
            Event::Timer { node: COORDINATOR, .. } => {
                self.rebalance();
                let map = Arc::new(self.map.clone());
                let nodes: Vec<Node> =
                    self.servers.keys().copied().chain((0..self.plan.workers).map(|w| WORKER + w)).collect();
                for node in nodes {
                    let e = Envelope { partition: 0, epoch: map.epoch, message: Message::Map(map.clone()) };
                    self.send(COORDINATOR, Outbox::from_iter([(peer_of(node), e)]));
                }
                self.network.timer(COORDINATOR, TICK, RESEND);
            }
            Event::Timer { node, token: COMPUTE } => self.compute((node - WORKER) as usize),
            Event::Timer { node, .. } => {
                let out = if node >= WORKER {
                    self.workers[(node - WORKER) as usize].client.resend(None)
                } else {
                    self.servers.get_mut(&node).unwrap().iter_mut().flat_map(|p| p.resend(None)).collect()
                };
                self.send(node, out);
                self.network.timer(node, TICK, RESEND);
            }
        }
    }
    fn deliver(&mut self, from: Peer, to: Node, e: Envelope) {
        if to >= WORKER {
            self.values += u64::from(matches!(e.message, Message::Value { .. } | Message::Fresh { .. }));
            let i = (to - WORKER) as usize;
            let first = self.workers[i].client.map().epoch == 0 && matches!(e.message, Message::Map(_));
            let mut out = self.workers[i].client.handle(from, e).unwrap();
            if first {
                out.extend(self.workers[i].client.join());
            }
            self.send(to, out);
            self.progress(i);
            return;
        }
        let partitions = self.servers.get_mut(&to).unwrap();
        let mut out = Outbox::new();
        match &e.message {
            Message::Map(_) => {
                for p in partitions {
                    p.handle(from, e.clone(), &mut out).unwrap();
                }
            }
            _ => partitions[e.partition as usize].handle(from, e, &mut out).unwrap(),
        }
        self.send(to, out);
    }

    /// Moves a worker on as far as it can go.
    fn progress(&mut self, i: usize) {
        let node = WORKER + i as u32;
        let (tables, steps) = (self.tables.clone(), self.steps_of(i));
        let w = &mut self.workers[i];
        let mut out = Outbox::new();
        match &mut w.phase {
            Phase::Joining if w.client.joined().is_some() => {
                for t in &tables {
                    for b in 0..t.blocks() {
                        let data = Arc::new(vec![0.0; t.elements(b).len()]);
                        out.extend(w.client.create(t, b, data));
                    }
                }
                w.phase = Phase::Creating;
            }
            Phase::Creating if w.client.is_created() => out = begin(w, &tables, steps),
            Phase::AtGate if steps.is_some() => out = begin(w, &tables, steps),
            Phase::Reading(asked) if !w.client.is_waiting() => {
                let mut got = BTreeMap::new();
                for (t, b, request) in asked.iter() {
                    got.insert((*t, *b), w.client.take(*request).unwrap());
                }
                let step = w.client.step();
                w.phase = Phase::Computing(got);
                self.check_read(i, step);
                let is_slow = match self.plan.slow {
                    Slow::Never => false,
                    Slow::First => i == 0,
                    Slow::InTurn => step % u64::from(self.plan.workers) == i as u64,
                    Slow::Sometimes => self.network.random().within(0..8) == 0,
                };
                let slow = if is_slow { 8 } else { 1 };
                let time = self.network.random().within(200..1_200) * slow;
                self.network.timer(node, time, COMPUTE);
            }
            Phase::Settling if w.client.volatile_steps() <= 3 => out = begin(w, &tables, steps),
            _ => {}
        }
        self.send(node, out);
        // Reads may need no answer.
        let w = &self.workers[i];
        if matches!(w.phase, Phase::Reading(_)) && !w.client.is_waiting() {
            self.progress(i);
        }
    }

    /// The content of what a worker has read says how stale it is.
    fn check_read(&mut self, i: usize, step: u64) {
        let Phase::Computing(got) = &self.workers[i].phase else { return };
        for t in 0..COUNT_TABLES {
            let counts = &got[&(t, 0)];
            self.reads += 1;
            let others = counts.iter().enumerate().filter(|(w, _)| *w != i);
            let oldest = others.map(|(_, count)| *count as u64).min().unwrap_or(step);
            self.oldest += step.saturating_sub(oldest);
            for (w, count) in counts.iter().enumerate() {
                let count = *count as u64;
                self.behind = (self.behind.0 + step.saturating_sub(count), self.behind.1 + 1);
                self.unseen += self.workers[w].client.step().saturating_sub(count);
                self.ahead_most = self.ahead_most.max(step.saturating_sub(count));
                let least = self.rule.bound.map_or(0, |b| step.saturating_sub(b));
                if !self.rule.drops() {
                    assert!(count >= least, "{}: worker {i} at step {step} has read {count} of worker {w}", self.rule);
                }
                if self.rule == Rule::BSP {
                    assert_eq!(count, step, "worker {i} read worker {w}");
                }
            }
        }
    }

    fn compute(&mut self, i: usize) {
        let tables = self.tables.clone();
        self.steps_paused += u64::from(self.is_paused().is_some());
        let w = &mut self.workers[i];
        let Phase::Computing(got) = &w.phase else { return };
        let (step, mut out) = (w.client.step(), Outbox::new());
        let update = |table, block, rows: Vec<u32>, data| Update {
            table,
            block,
            rows: rows.into(),
            data: Arc::new(data),
            rate: 0.0,
            numbers: None,
            count: 1,
            filter: None,
        };
        let mut updates = Vec::new();
        for t in 0..COUNT_TABLES {
            updates.push(update(t, 0, vec![i as u32], vec![1.0]));
        }
        for b in 0..tables.last().unwrap().blocks() {
            let x = &got[&(WEIGHTS, b)];
            // Numbers whose sum depends on the order in which they are added.
            let next = |(j, v): (usize, &f32)| (0.37 + i as f32 * 1e3 + j as f32 * 0.11 + step as f32).sin() - 0.3 * v;
            updates.push(update(WEIGHTS, b, vec![], x.iter().enumerate().map(next).collect()));
        }
        // A worker that starts over need not say things in the order of the one before.
        let turn = w.life as usize % updates.len();
        updates.rotate_left(turn);
        for u in updates {
            out.extend(w.client.push(u));
        }
        w.client.settle(&mut out);
        w.phase = Phase::Settling;
        self.send(WORKER + i as u32, out);
        self.progress(i);
    }

    /// Every step of every worker counts once.
    pub fn check_counts(&self) {
        let steps = self.last().unwrap_or(self.plan.steps);
        for (p, list) in self.map.replicas.iter().enumerate() {
            for ((table, _), _, value) in self.servers[&list[0]][p].contents().filter(|(k, _, _)| k.0 < COUNT_TABLES) {
                for count in value.iter() {
                    if self.rule.drops() {
                        assert!(*count <= steps as f32, "table {table}: {count}");
                    } else {
                        assert_eq!(*count, steps as f32, "table {table}: {value:?}");
                    }
                }
            }
        }
    }
    /// A copy at the same version has the same bits.
    pub fn check_copies(&self) {
        for (p, list) in self.map.replicas.iter().enumerate() {
            for s in &list[1..] {
                let (a, b) = (&self.servers[&list[0]][p], &self.servers[s][p]);
                for (x, y) in a.contents().zip(b.contents()) {
                    assert!(x.0 == y.0 || !b.is_whole(self.map.epoch));
                    if x.1 == y.1 {
                        assert_eq!(x.2, y.2, "partition {p}, block {:?}, version {}", x.0, x.1);
                    }
                }
            }
        }
    }
    /// The final weights, by block.
    pub fn weights(&self) -> Vec<Vec<u32>> {
        let mut all = BTreeMap::new();
        for (p, list) in self.map.replicas.iter().enumerate() {
            for (key, _, value) in self.servers[&list[0]][p].contents().filter(|(k, _, _)| k.0 == WEIGHTS) {
                all.insert(key, value.iter().map(|x| x.to_bits()).collect());
            }
        }
        assert_eq!(all.len(), 3);
        all.into_values().collect()
    }
}

/// Says which run it was that failed.
struct Failed(u64, Rule);
impl Drop for Failed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was seed {}, {}", self.0, self.1);
        }
    }
}

fn new_worker(i: u32, rule: Rule, life: u32) -> Worker {
    let mut client = Client::new(i, life, rule.drops());
    client.reuse(&rule);
    Worker { client, phase: Phase::Joining, life }
}

/// Starts a step, or ends the run after so many; waits if the number is undecided.
fn begin(w: &mut Worker, tables: &[Table], steps: Option<u64>) -> Outbox {
    let Some(steps) = steps else {
        w.phase = Phase::AtGate;
        return Outbox::new();
    };
    if w.client.step() >= steps {
        w.phase = if w.client.volatile_steps() == 0 { Phase::Done } else { Phase::Settling };
        return Outbox::new();
    }
    let (mut asked, mut out) = (Vec::new(), Outbox::new());
    for t in tables {
        for b in 0..t.blocks() {
            let (request, messages) = w.client.pull(t.id, b, Rows::default());
            out.extend(messages);
            asked.push((t.id, b, request));
        }
    }
    w.phase = Phase::Reading(asked);
    out
}
