//! A job: its processes, started or taken over from a launcher that was lost.

use super::health::Health;
use super::lock::Lock;
use super::process::{self, Process, Start};
use super::running::{Entry, PidFile, Running};
use super::summary::Summary;
use super::{Dashboard, Launch, dashboard, listen_toward};
use crate::membership::controller::Controller;
use crate::membership::coordinator::EmbeddedCoordinator;
use crate::membership::etcd::ETCD_VARS;
use crate::membership::{Coordinator, Endpoint, coordinate};
use crate::{Error, Result};
use net::{Address, Secret};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How long a membership store that others keep may take to answer at the beginning.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running job.
pub(super) struct Job<'a> {
    pub(super) options: &'a Launch,
    pub(super) dashboard: &'a Arc<Dashboard>,
    pub(super) coordinator: Arc<dyn Coordinator>,
    /// Where the others find it.
    meeting: Endpoint,
    /// Where the processes' words are kept, if the job is to go on without this process.
    pub(super) logs: Option<PathBuf>,
    /// The address of this machine that the others see.
    ip: IpAddr,
    /// A port that was free, for programs that bring a rendezvous.
    master: u16,
    secret: String,
    pub(super) notes: Receiver<String>,
    pub(super) workers: Vec<Slot>,
    pub(super) servers: Vec<Slot>,
    /// Number of the next server: a replacement holds nothing, so it is another server.
    pub(super) server_next: u32,
    pub(super) health: Health,
    pub(super) summary: &'a mut Summary,
    /// When the heartbeats were last checked.
    pub(super) looked: Instant,
    /// Something was lost to a signal, or hung.
    pub(super) any_lost: bool,
    /// When the file of `--resize` was last checked, and what it asked for in vain.
    pub(super) resized: Instant,
    pub(super) refused: Option<u32>,
    /// The workers were interrupted: how they end is no matter.
    pub(super) is_interrupted: bool,
    /// The program cannot start.
    pub(super) is_broken: bool,
    /// Since when those that still run have had no peer to reduce with, if so.
    pub(super) outside: Option<Instant>,
    /// Held while this process looks after a job that others might.
    lock: Option<Lock>,
}

impl<'a> Job<'a> {
    pub fn start(
        options: &'a Launch,
        dashboard: &'a Arc<Dashboard>,
        servers: &[u32],
        summary: &'a mut Summary,
    ) -> Result<Job<'a>> {
        let logs = match &options.membership {
            Some(Endpoint::Etcd(c)) => Some(process::logs(&c.job)?),
            _ => None,
        };
        let mut lock = options.membership.as_ref().map(Lock::take).transpose()?;
        let before = match (&options.membership, &logs) {
            (Some(m), Some(folder)) => left_behind(m, folder)?,
            _ => None,
        };
        // What an earlier job of the name has left is forgotten by now, and the lock with it.
        lock.as_mut().map_or(Ok(()), |l| l.hold())?;
        let secret = before.as_ref().map_or_else(Secret::generate, |b| Ok(b.secret.clone()))?;
        let (w, s, c) = (options.workers as usize, options.servers as usize, options.copies);
        let controller = move || Controller::new(w, s, c);
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
        let (coordinator, meeting): (Arc<dyn Coordinator>, Endpoint) = match &options.membership {
            Some(m) => {
                let kept = coordinate(m, controller, report, Instant::now() + PATIENCE)?;
                (kept.ok_or_else(|| Error::value(format!("{m} keeps no membership store by itself")))?, m.clone())
            }
            None => {
                let proof = match &options.tls {
                    Some(folder) => Secret::new(&secret)?.with_certificates(folder)?,
                    None => Secret::new(&secret)?,
                };
                let coordinator = EmbeddedCoordinator::start(&at, Some(proof), controller(), report)?;
                coordinator.set_lease_timeout(options.silence);
                let meeting = Endpoint::from(coordinator.address());
                (Arc::new(coordinator), meeting)
            }
        };
        dashboard.begin(coordinator.clone());
        let server_next = servers.iter().max().map_or(0, |s| s + 1);
        let master = before.as_ref().map_or(master, |b| b.master);
        let mut job = Job {
            options,
            dashboard,
            coordinator,
            meeting,
            logs,
            ip: socket.ip(),
            master,
            secret,
            notes,
            workers: Vec::new(),
            servers: Vec::new(),
            server_next,
            health: Health::new(options.hang, options.exit, options.workers, Instant::now()),
            summary,
            looked: Instant::now(),
            any_lost: false,
            is_broken: false,
            resized: Instant::now(),
            refused: None,
            is_interrupted: false,
            outside: None,
            lock,
        };
        match &before {
            Some(before) => job.take_over(before)?,
            None => job.start_all(servers)?,
        }
        job.record()?;
        Ok(job)
    }

    fn start_all(&mut self, servers: &[u32]) -> Result<()> {
        for (place, number) in servers.iter().enumerate() {
            let server = self.first_server(place, *number)?;
            self.servers.push(Slot::new(server));
        }
        for i in 0..self.options.workers {
            let worker = self.worker(i, 0)?;
            self.workers.push(Slot::new(worker));
            self.health.begins(i, Instant::now());
        }
        Ok(())
    }
    /// Goes on with the processes of a launcher that was lost; those that ended meanwhile are
    /// found to have ended, and looked after like any other.
    fn take_over(&mut self, before: &PidFile) -> Result<()> {
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
            dashboard::say(&format!("[launch] {name} is process {}, started before", e.id));
            let p = Process::adopt(name, e.number, e.restarts, running, &logs)?;
            if e.role == "worker" { self.workers.push(Slot::new(p)) } else { self.servers.push(Slot::new(p)) }
        }
        Ok(())
    }

    /// Writes down what the next launcher needs, should this one be lost.
    pub fn record(&self) -> Result<()> {
        let Some(folder) = &self.logs else { return Ok(()) };
        let entry = |role: &str, s: &Slot| {
            let p = &s.process;
            // One that has ended before it was written down is found to have ended.
            let began = p.running().began().unwrap_or(0);
            Entry { role: role.to_string(), number: p.number, restarts: p.restarts, id: p.running().id(), began }
        };
        let servers = self.servers.iter().map(|p| entry("server", p));
        let processes = servers.chain(self.workers.iter().map(|p| entry("worker", p))).collect();
        let (secret, master, server_next) = (self.secret.clone(), self.master, self.server_next);
        PidFile { secret, master, server_next, processes }.write(folder)
    }

    pub fn worker(&self, rank: u32, restarts: u32) -> Result<Process> {
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
        let (command, guard, ssh) = (&o.program, &o.guard, &o.ssh);
        Process::start(Start { name, number: rank, restarts, machine, command, guard, vars, ssh, logs })
    }
    /// Starts a server; one that takes another's place is on the same machine, so that copies stay
    /// as far apart as they were.
    pub fn server(&self, place: usize, number: u32, restarts: u32) -> Result<Process> {
        self.server_with(place, number, restarts, self.vars(restarts))
    }
    /// A server with which the job begins.
    fn first_server(&self, place: usize, number: u32) -> Result<Process> {
        let mut vars = self.vars(0);
        vars.extend(self.options.is_fresh.then(|| ("TALWEG_STORE_FRESH", "1".to_string())));
        self.server_with(place, number, 0, vars)
    }
    fn server_with(&self, place: usize, number: u32, restarts: u32, mut vars: Vec<Var>) -> Result<Process> {
        let o = self.options;
        let machine = &o.machines[place % o.machines.len()];
        vars.push(("TALWEG_SERVER", number.to_string()));
        let (name, logs) = (format!("server {number}"), self.logs.as_deref());
        let (command, guard, ssh) = (&o.server, &o.guard, &o.ssh);
        Process::start(Start { name, number, restarts, machine, command, guard, vars, ssh, logs })
    }
    fn vars(&self, restarts: u32) -> Vec<Var> {
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
            ("TALWEG_CONSISTENCY", o.rule.worker_rule().to_string()),
            ("TALWEG_SECRET", self.secret.clone()),
            ("TALWEG_HEARTBEAT", o.silence.as_secs_f64().to_string()),
        ];
        // Other machines need what this one was given to speak to the cluster.
        let etcd = ETCD_VARS.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
        vars.into_iter().chain(tls).chain(wire).chain(etcd).chain(o.vars.iter().cloned()).collect()
    }

    pub fn end(mut self) {
        self.workers.iter_mut().chain(&mut self.servers).for_each(|s| s.process.kill());
        self.workers.iter_mut().chain(&mut self.servers).for_each(|s| s.process.hear_out());
        // Of a program that cannot start one traceback is enough, which was printed.
        if !self.is_broken {
            self.workers.iter_mut().for_each(|w| w.process.pass_on(true));
        }
        self.coordinator.end();
        if let Some(folder) = &self.logs {
            PidFile::remove(folder);
        }
        drop(self.lock);
    }
}

/// A variable of the environment.
type Var = (&'static str, String);

/// A place in the job, and the process that has it now.
pub(super) struct Slot {
    pub process: Process,
    /// Lives in a row in which it did nothing.
    pub fruitless: u32,
    /// When it is to be started again, and the number it will have.
    pub again: Option<(Instant, u32)>,
    /// How its part ended, if it will not be replaced any more.
    pub exit: Option<Exit>,
    /// It was ended because it hung when its training was done.
    pub hung_at_end: bool,
}
impl Slot {
    fn new(process: Process) -> Slot {
        Slot { process, fruitless: 0, again: None, exit: None, hung_at_end: false }
    }
}

/// How a worker's part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Done,
    /// It ended well after this many steps, if it said how many; whether it was done is seen when the
    /// others are.
    Left {
        said: Option<u64>,
        at: Instant,
        others: Option<u64>,
    },
    Lost,
}

/// What a launcher that was lost has left of a job that still runs; `None` if there is no such job,
/// of which then nothing is left.
fn left_behind(m: &Endpoint, logs: &Path) -> Result<Option<PidFile>> {
    let deadline = Instant::now() + PATIENCE;
    if !m.is_running(deadline)? {
        m.begin(deadline)?;
        return Ok(None);
    }
    let found = PidFile::read(logs);
    let lives = |l: &PidFile| l.processes.iter().any(|e| Running::find(e.id, e.began).is_some());
    match found.filter(lives) {
        Some(pid_file) => Ok(Some(pid_file)),
        // Its processes are on other machines, or it was begun in another folder.
        None => m.begin(deadline).map(|()| None),
    }
}
