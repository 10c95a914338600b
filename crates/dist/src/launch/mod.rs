//! `talweg launch`: starts the processes of a job, watches them, replaces those that are lost.

mod board;
mod place;
mod process;
mod running;

pub use board::{
    BEGAN, Board, CLOCKS, Event, ProcessState, Sample, ServerState, Snapshot, WorkerState, load_key, progress_key,
};
pub use place::{Place, Service, Vars, listen_toward};
pub use process::Machine;

use crate::coordinator::Coordinator;
use crate::etcd::ETCD_VARS;
use crate::membership::{Center, Hung, Meeting, keep};
use crate::roster::{self, Members, Roster};
use crate::{Error, Filter, Map, Result, Rule};
use net::{Address, Secret};
use process::{Process, Start};
use running::{Entry, Ledger, Running};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How often the processes are looked at.
const TICK: Duration = Duration::from_millis(10);
/// How long workers that were asked to end may take to save what they have.
const FAREWELL: Duration = Duration::from_secs(30);

/// How long a membership store that others keep may take to answer at the beginning.
const PATIENCE: Duration = Duration::from_secs(10);

/// When a lost worker or server is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Whenever it ends with a failure.
    #[default]
    Failure,
    /// If a signal ended it; an error code is taken for the program's own decision.
    Signal,
    /// Never.
    Never,
}
impl Restart {
    fn wants(self, status: ExitStatus) -> bool {
        match self {
            Restart::Failure => !status.success(),
            Restart::Signal => status.code().is_none(),
            Restart::Never => false,
        }
    }
}

/// What to launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Workers.
    pub workers: u32,
    /// The job fails when fewer workers are left and none can be started again.
    pub workers_min: u32,
    /// Servers of the parameter store.
    pub servers: u32,
    /// Copies of each partition.
    pub copies: usize,
    /// Consistency of the parameter store.
    pub rule: Rule,
    /// How gradients are packed on the wire, if they are.
    pub wire: Option<Filter>,
    /// When a lost process is started again,
    pub restart: Restart,
    /// and how often.
    pub restarts_max: u32,
    /// A process that was silent for so long is taken for dead and ended.
    pub silence: Duration,
    /// How often the job is summed up in a line; zero: never.
    pub progress: Duration,
    /// Machines, for workers in their order and servers in turn.
    pub machines: Vec<Machine>,
    /// What calls other machines.
    pub ssh: OsString,
    /// Who keeps the membership store, if not this process: then the job goes on without it.
    pub membership: Option<Meeting>,
    /// A folder of certificates, the same on every machine: links speak TLS.
    pub tls: Option<PathBuf>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// What runs a server.
    pub server: Vec<OsString>,
}

impl Launch {
    /// Starts everything, watches it, and answers whether the job succeeded: some worker ended
    /// well, and the others ended well, were replaced, or were killed while the others went on.
    /// When `stop` is set, workers are asked to end.
    pub fn run(&self, board: &Arc<Board>, stop: &AtomicBool) -> Result<bool> {
        self.check()?;
        let mut job = Job::start(self, board)?;
        let done = job.watch(stop);
        job.end();
        done
    }

    fn check(&self) -> Result<()> {
        if self.workers == 0 || self.workers_min == 0 || self.workers_min > self.workers {
            let e = format!("a job needs at least one worker, and as many as its minimum: {} of", self.workers_min);
            return Err(Error::value(format!("{e} {} do not do", self.workers)));
        }
        if self.program.is_empty() {
            return Err(Error::value("there is no program to launch"));
        }
        let slots: u32 = self.machines.iter().map(|m| m.slots).sum();
        if slots < self.workers {
            return Err(Error::value(format!("{} workers, but the machines take {slots}", self.workers)));
        }
        if self.servers == 0 && self.rule != Rule::BSP {
            let e = format!(
                "--consistency {} needs --servers: workers that reduce among themselves wait for each other",
                self.rule
            );
            return Err(Error::value(e));
        }
        self.rule.check(self.workers as usize)
    }

    /// The machine of a worker, its number there, how many there are, and the machine's number.
    fn seat(&self, rank: u32) -> (&Machine, u32, u32, usize) {
        let (mut first, mut at) = (0, 0);
        while at + 1 < self.machines.len() && rank >= first + self.machines[at].slots {
            first += self.machines[at].slots;
            at += 1;
        }
        let machine = &self.machines[at];
        (machine, rank - first, machine.slots.min(self.workers - first), at)
    }
}

/// A running job.
struct Job<'a> {
    options: &'a Launch,
    board: &'a Arc<Board>,
    coordinator: Arc<dyn Center>,
    /// Where the others find it.
    meeting: Meeting,
    /// Where the processes' words are kept, if the job is to go on without this process.
    logs: Option<PathBuf>,
    /// The address of this machine that the others see.
    ip: IpAddr,
    /// A port that was free, for programs that bring a meeting place of their own.
    master: u16,
    secret: String,
    notes: Receiver<String>,
    workers: Vec<Process>,
    servers: Vec<Process>,
    /// Number of the next server: a replacement holds nothing, so it is another server.
    server_next: u32,
    /// A worker has ended well: who leaves now is done.
    is_ending: bool,
    /// Since when those that still run have had nobody to reduce with, if so.
    outside: Option<Instant>,
}

impl<'a> Job<'a> {
    fn start(options: &'a Launch, board: &'a Arc<Board>) -> Result<Job<'a>> {
        let logs = match &options.membership {
            Some(Meeting::Etcd(c)) => Some(process::logs(&c.job)?),
            _ => None,
        };
        let before = match (&options.membership, &logs) {
            (Some(m), Some(folder)) => left_behind(m, folder)?,
            _ => None,
        };
        let secret = before.as_ref().map_or_else(Secret::generate, |b| Ok(b.secret.clone()))?;
        let (w, s, c) = (options.workers as usize, options.servers as usize, options.copies);
        let roster = move || Roster::new(w, s, c);
        let (note, notes) = std::sync::mpsc::channel();
        let report = move |text: &str| drop(note.send(text.to_string()));
        // Other machines must reach it; only this machine, if there are no others.
        let elsewhere = options.machines.iter().find(|m| !m.is_here());
        let at: Address = match elsewhere {
            Some(m) => listen_toward(&format!("{}:1", m.name).parse()?)?,
            None => "127.0.0.1:0".parse()?,
        };
        let Address::Tcp(socket) = at else { return Err(Error::value("the launcher listens on TCP")) };
        let free = std::net::TcpListener::bind((socket.ip(), 0)).and_then(|l| l.local_addr());
        let master = free.map_err(Error::io("finding a free port"))?.port();
        let (coordinator, meeting): (Arc<dyn Center>, Meeting) = match &options.membership {
            Some(m) => {
                let kept = keep(m, roster, report, Instant::now() + PATIENCE)?;
                (kept.ok_or_else(|| Error::value(format!("{m} keeps no membership store by itself")))?, m.clone())
            }
            None => {
                let proof = match &options.tls {
                    Some(folder) => Secret::new(&secret)?.with_certificates(folder)?,
                    None => Secret::new(&secret)?,
                };
                let coordinator = Coordinator::start(&at, Some(proof), roster(), report)?;
                coordinator.set_silence(options.silence);
                let meeting = Meeting::from(coordinator.address());
                (Arc::new(coordinator), meeting)
            }
        };
        board.begin(coordinator.clone());
        let (workers, servers) = (Vec::new(), Vec::new());
        let (server_next, is_ending) = (options.servers, false);
        let master = before.as_ref().map_or(master, |b| b.master);
        let mut job = Job {
            options,
            board,
            coordinator,
            meeting,
            logs,
            ip: socket.ip(),
            master,
            secret,
            notes,
            workers,
            servers,
            server_next,
            is_ending,
            outside: None,
        };
        match &before {
            Some(before) => job.take_over(before)?,
            None => job.start_all()?,
        }
        job.record()?;
        Ok(job)
    }

    fn start_all(&mut self) -> Result<()> {
        for i in 0..self.options.servers {
            let server = self.server(i as usize, i, 0)?;
            self.servers.push(server);
        }
        for i in 0..self.options.workers {
            let worker = self.worker(i, 0)?;
            self.workers.push(worker);
        }
        Ok(())
    }

    /// Goes on with the processes of a launcher that was lost; those that ended meanwhile are
    /// found to have ended, and looked after like any other.
    fn take_over(&mut self, before: &Ledger) -> Result<()> {
        let count = |role: &str| before.processes.iter().filter(|e| e.role == role).count() as u32;
        if (count("worker"), count("server")) != (self.options.workers, self.options.servers) {
            let e = format!(
                "the job that runs has {} workers and {} servers, not {} and {}",
                count("worker"),
                count("server"),
                self.options.workers,
                self.options.servers
            );
            return Err(Error::value(e));
        }
        self.server_next = before.server_next;
        let logs = self.logs.clone().unwrap_or_default();
        for e in &before.processes {
            let name = format!("{} {}", e.role, e.number);
            let running = Running::adopt(e.id, e.began);
            board::say(&format!("[launch] {name} is process {}, started before", e.id));
            let p = Process::adopt(name, e.number, e.restarts, running, &logs)?;
            if e.role == "worker" { self.workers.push(p) } else { self.servers.push(p) }
        }
        Ok(())
    }

    /// Writes down what the next launcher needs, should this one be lost.
    fn record(&self) -> Result<()> {
        let Some(folder) = &self.logs else { return Ok(()) };
        let entry = |role: &str, p: &Process| {
            // One that has ended before it was written down is found to have ended.
            let began = p.running().began().unwrap_or(0);
            Entry { role: role.to_string(), number: p.number, restarts: p.restarts, id: p.running().id(), began }
        };
        let servers = self.servers.iter().map(|p| entry("server", p));
        let processes = servers.chain(self.workers.iter().map(|p| entry("worker", p))).collect();
        let (secret, master, server_next) = (self.secret.clone(), self.master, self.server_next);
        Ledger { secret, master, server_next, processes }.write(folder)
    }

    fn worker(&self, rank: u32, restarts: u32) -> Result<Process> {
        let o = self.options;
        let (machine, local, locals, node) = o.seat(rank);
        let mut vars = self.vars(restarts);
        let mut set = |name, value: u64| vars.push((name, value.to_string()));
        set("RANK", rank.into());
        set("LOCAL_RANK", local.into());
        set("LOCAL_WORLD_SIZE", locals.into());
        set("GROUP_RANK", node as u64);
        set("GROUP_WORLD_SIZE", o.machines.len() as u64);
        set("ROLE_RANK", rank.into());
        set("ROLE_WORLD_SIZE", o.workers.into());
        vars.push(("ROLE_NAME", "worker".to_string()));
        let (name, logs) = (format!("worker {rank}"), self.logs.as_deref());
        Process::start(Start { name, number: rank, restarts, machine, command: &o.program, vars, ssh: &o.ssh, logs })
    }
    /// Starts a server; one that takes another's place is on the same machine, so that copies stay
    /// as far apart as they were.
    fn server(&self, place: usize, number: u32, restarts: u32) -> Result<Process> {
        let o = self.options;
        let machine = &o.machines[place % o.machines.len()];
        let mut vars = self.vars(restarts);
        vars.push(("TALWEG_SERVER", number.to_string()));
        let (name, logs) = (format!("server {number}"), self.logs.as_deref());
        Process::start(Start { name, number, restarts, machine, command: &o.server, vars, ssh: &o.ssh, logs })
    }
    fn vars(&self, restarts: u32) -> Vec<(&'static str, String)> {
        let o = self.options;
        let tls = o.tls.iter().map(|folder| ("TALWEG_TLS", folder.display().to_string()));
        let wire = o.wire.iter().map(|filter| ("TALWEG_WIRE", filter.to_string()));
        let vars = [
            ("WORLD_SIZE", o.workers.to_string()),
            ("MASTER_ADDR", self.ip.to_string()),
            ("MASTER_PORT", self.master.to_string()),
            ("TORCHELASTIC_RUN_ID", format!("talweg-{}", std::process::id())),
            ("TORCHELASTIC_RESTART_COUNT", restarts.to_string()),
            ("TORCHELASTIC_MAX_RESTARTS", o.restarts_max.to_string()),
            ("TALWEG_COORDINATOR", self.meeting.to_string()),
            ("TALWEG_COPIES", o.copies.to_string()),
            ("TALWEG_SERVERS", o.servers.to_string()),
            ("TALWEG_CONSISTENCY", o.rule.to_string()),
            ("TALWEG_SECRET", self.secret.clone()),
            ("TALWEG_HEARTBEAT", o.silence.as_secs_f64().to_string()),
        ];
        // Other machines need what this one was given to speak to the cluster.
        let etcd = ETCD_VARS.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
        vars.into_iter().chain(tls).chain(wire).chain(etcd).collect()
    }

    /// Until every worker has ended; answers whether the job succeeded.
    fn watch(&mut self, stop: &AtomicBool) -> Result<bool> {
        let (mut news, mut said): (Vec<String>, Instant) = (Vec::new(), Instant::now());
        let mut farewell = None;
        while self.workers.iter().any(|w| w.ended.is_none()) {
            std::thread::sleep(TICK);
            // Said one round later: that processes leave because they are done is no news.
            news.drain(..).filter(|_| !self.is_ending).for_each(|n| self.board.note(&n));
            news.extend(self.notes.try_iter());
            self.strike_hung();
            self.strike_outsiders();
            self.look_after_workers()?;
            self.look_after_servers()?;
            self.board.look(self.servers.iter().chain(&self.workers).map(Process::state));
            if !self.options.progress.is_zero() && said.elapsed() > self.options.progress {
                said = Instant::now();
                self.board.line().iter().for_each(|l| board::say(&format!("[launch] {l}")));
            }
            if farewell.is_none() && stop.load(Ordering::Relaxed) {
                (farewell, self.is_ending) = (Some(Instant::now() + FAREWELL), true);
                self.board.note("the workers are asked to end");
                self.workers.iter().for_each(Process::interrupt);
            }
            let running = self.workers.iter().filter(|w| w.ended.is_none()).count() as u32;
            if !self.is_ending && running > 0 && running < self.options.workers_min {
                let least = self.options.workers_min;
                self.board.note(&format!("{running} workers are left, fewer than {least}: the job ends"));
                return Ok(false);
            }
            if farewell.is_some_and(|at| Instant::now() > at) {
                return Ok(false);
            }
        }
        let succeeded = self.workers.iter().any(|w| w.ended.is_some_and(|s| s.success()));
        // A replacement that the others could not let in before they were done has not failed.
        let counts = |w: &&Process| w.restarts == 0 || !succeeded;
        let has_failed = |w: &Process| w.ended.is_some_and(|s| s.code().is_some_and(|c| c != 0));
        Ok(succeeded && !self.workers.iter().filter(counts).any(has_failed))
    }

    /// Ends processes that hang, and that a replacement must not meet: the coordinator has taken
    /// them for dead, or they were stopped before it knew them.
    fn strike_hung(&mut self) {
        let hung = self.coordinator.hung();
        for (role, all) in [("server", &mut self.servers), ("worker", &mut self.workers)] {
            for p in all.iter_mut().filter(|p| p.ended.is_none()) {
                let is_named = |h: &Hung| h.role == role && h.id == p.number && h.since >= p.began;
                if hung.iter().any(is_named) || p.is_stopped(self.options.silence) {
                    self.board.note(&format!("{} says nothing any more: it is ended", p.name));
                    p.strike();
                }
            }
        }
    }

    /// Ends replacements that the others could not let in before they were done: what they wait
    /// for will not come. (Somebody who ends leaves the group a moment before, so not at once.)
    fn strike_outsiders(&mut self) {
        let group = self.coordinator.get(roster::GROUP).and_then(|g| Members::decode(&g).ok());
        let is_over = self.is_ending && group.is_some_and(|g| g.workers.is_empty());
        self.outside = if is_over { self.outside.or_else(|| Some(Instant::now())) } else { None };
        if self.outside.is_some_and(|since| since.elapsed() > self.options.silence) {
            for w in self.workers.iter_mut().filter(|w| w.ended.is_none()) {
                self.board.note(&format!("{} came when the others were done: it is ended", w.name));
                w.strike();
            }
            self.outside = None;
        }
    }

    fn look_after_workers(&mut self) -> Result<()> {
        for i in 0..self.workers.len() {
            let w = &mut self.workers[i];
            let (center, number) = (&self.coordinator, w.number);
            let Some(status) = w.has_ended(|| center.get(&done_key(number)).is_some())? else { continue };
            let (rank, restarts) = (w.number, w.restarts);
            let map = self.coordinator.get(roster::MAP).and_then(|m| Map::decode(&m).ok());
            let is_hopeless = self.is_ending || map.is_some_and(|m| m.has_lost());
            if status.success() {
                self.is_ending = true;
                self.coordinator.left(rank, true)?;
            } else if self.options.restart.wants(status) && restarts < self.options.restarts_max && !is_hopeless {
                self.board.note(&format!("{} ended with {status}: it is started again", w.name));
                self.workers[i] = self.worker(rank, restarts + 1)?;
                self.record()?;
            } else {
                self.board.note(&format!("{} ended with {status}", w.name));
                self.coordinator.left(rank, false)?;
            }
        }
        Ok(())
    }

    fn look_after_servers(&mut self) -> Result<()> {
        for i in 0..self.servers.len() {
            let s = &mut self.servers[i];
            let Some(status) = s.has_ended(|| false)? else { continue };
            let restarts = s.restarts + 1;
            if self.options.restart.wants(status) && restarts <= self.options.restarts_max && !self.is_ending {
                let number = self.server_next;
                self.board.note(&format!("{} ended with {status}: server {number} takes its place", s.name));
                self.server_next += 1;
                self.servers[i] = self.server(i, number, restarts)?;
                self.record()?;
            } else {
                self.board.note(&format!("{} ended with {status}", s.name));
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.workers.iter_mut().chain(&mut self.servers).for_each(Process::kill);
        self.workers.iter_mut().chain(&mut self.servers).for_each(Process::hear_out);
        self.coordinator.end();
        if let Some(folder) = &self.logs {
            Ledger::remove(folder);
        }
    }
}

/// Key under which a worker says that it has done everything, for a launcher that is not told how
/// it ended.
pub fn done_key(rank: u32) -> String {
    format!("done/{rank}")
}

/// What a launcher that was lost has left of a job that still runs; `None` if there is no such job,
/// of which then nothing is left.
fn left_behind(m: &Meeting, logs: &Path) -> Result<Option<Ledger>> {
    let deadline = Instant::now() + PATIENCE;
    if !m.is_running(deadline)? {
        m.begin(deadline)?;
        return Ok(None);
    }
    let found = Ledger::read(logs);
    let lives = |l: &Ledger| l.processes.iter().any(|e| Running::find(e.id, e.began).is_some());
    match found.filter(lives) {
        Some(ledger) => Ok(Some(ledger)),
        // Its processes are on other machines, or it was begun in another folder.
        None => m.begin(deadline).map(|()| None),
    }
}
