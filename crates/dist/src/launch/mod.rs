//! `talweg launch`: starts the processes of a job, watches them, replaces those that are lost.

mod dashboard;
mod environment;
mod health;
mod job;
mod lock;
mod policy;
mod process;
mod running;
mod summary;
mod watch;

pub use dashboard::{
    BEGAN, CLOCKS, Dashboard, Event, ProcessState, Sample, ServerState, Snapshot, WorkerState, load_key, progress_key,
};
pub use environment::{Service, Vars, WorkerConfig, listen_toward};
pub use health::Hang;
pub use process::Machine;

use crate::membership::Endpoint;
use crate::{Consistency, Error, Filter, Result, Rule};
use job::Job;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
    /// A file that says how many workers there are to be, for who changes it while the job runs.
    pub resize: Option<PathBuf>,
    /// Servers of the parameter store.
    pub servers: u32,
    /// Copies of each partition.
    pub copies: usize,
    /// Consistency of the parameter store: a built-in rule, or one that the servers' command knows.
    pub rule: Arc<dyn Consistency>,
    /// How gradients are packed on the wire, if they are.
    pub wire: Option<Filter>,
    /// Further variables of the environment of workers.
    pub vars: Vec<(&'static str, String)>,
    /// When a lost process is started again,
    pub restart: Restart,
    /// and how often.
    pub restarts_max: u32,
    /// How often the whole job is started again when what it has computed is lost with every copy, but for
    /// checkpoints and disks.
    pub job_restarts_max: u32,
    /// A process that was silent for so long is taken for dead and ended.
    pub silence: Duration,
    /// A worker that does not move for so long is ended and started again.
    pub hang: Hang,
    /// A worker whose training is done, and that then neither ends nor prints anything for so long, is ended, and
    /// the job fails; `None`: it may take its time.
    pub exit: Option<Duration>,
    /// How often the job is summed up in a line; zero: never.
    pub progress: Duration,
    /// Machines, for workers in their order and servers in turn.
    pub machines: Vec<Machine>,
    /// What calls other machines.
    pub ssh: OsString,
    /// Who keeps the membership store, if not this process: then the job goes on without it.
    pub membership: Option<Endpoint>,
    /// Whether servers forget what they find on their disks: the job goes on from a checkpoint that is newer.
    pub is_fresh: bool,
    /// A folder of certificates, the same on every machine: links speak TLS.
    pub tls: Option<PathBuf>,
    /// What runs a command so that it ends with this process: see [`guarded`]. Empty: nothing.
    pub guard: Vec<OsString>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// What runs a server.
    pub server: Vec<OsString>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As many workers as were wanted have done their part.
    Done,
    /// It was asked to stop.
    Stopped,
    /// It failed, for this reason.
    Failed(String),
}

/// How one try of a job ended.
enum Attempt {
    Ended(Outcome),
    /// What it had computed is lost, but can be taken up from checkpoints or disks.
    Lost,
    /// It has stopped at a checkpoint, from which this many workers go on.
    Resize(u32),
}

impl Launch {
    /// Starts everything, watches it, and answers how the job ended. When `stop` is set, workers are
    /// asked to stop after a common step. Processes of this machine end with the calling thread.
    pub fn run(&self, dashboard: &Arc<Dashboard>, stop: &AtomicBool) -> Result<Outcome> {
        let mut options = self.clone();
        let mut summary = summary::Summary::default();
        let servers: Vec<u32> = (0..self.servers).collect();
        loop {
            options.check()?;
            let mut job = Job::start(&options, dashboard, &servers, &mut summary)?;
            let ended = job.watch(stop);
            job.end();
            options.is_fresh = false;
            let outcome = match ended? {
                Attempt::Ended(outcome) => outcome,
                Attempt::Resize(_) if stop.load(Ordering::Relaxed) => Outcome::Stopped,
                Attempt::Resize(workers) => {
                    (options.workers, options.workers_min) = (workers, self.workers_min.min(workers));
                    if self.workers_min == self.workers {
                        options.workers_min = workers;
                    }
                    // What servers have on disk counts the steps of as many workers as there were.
                    options.is_fresh = true;
                    continue;
                }
                Attempt::Lost if summary.job_restarts < self.job_restarts_max => {
                    summary.job_restarts += 1;
                    let (n, max) = (summary.job_restarts, self.job_restarts_max);
                    dashboard.note(&format!("the whole job is started again ({n} of {max})"));
                    continue;
                }
                Attempt::Lost => Outcome::Failed("every copy of a part of the parameters is lost".to_string()),
            };
            dashboard::say(&format!("[launch] {}", summary.text(&outcome)));
            return Ok(outcome);
        }
    }

    fn check(&self) -> Result<()> {
        if self.workers == 0 || self.workers_min == 0 || self.workers_min > self.workers {
            let e = format!("a job needs at least one worker, and as many as its minimum: {} of", self.workers_min);
            return Err(Error::value(format!("{e} {} do not do", self.workers)));
        }
        if self.servers > 0 && self.copies == 0 {
            return Err(Error::value("--copies 0: a store needs a copy of each parameter at least"));
        }
        if self.silence.is_zero() {
            return Err(Error::value("--heartbeat-timeout 0: every process would be taken for dead at once"));
        }
        if self.program.is_empty() {
            return Err(Error::value("there is no program to launch"));
        }
        let slots: u32 = self.machines.iter().map(|m| m.slots).sum();
        if slots < self.workers {
            return Err(Error::value(format!("{} workers, but the machines take {slots}", self.workers)));
        }
        if self.servers == 0 && self.rule.text() != Rule::BSP.text() {
            let e = format!(
                "--consistency {} needs --servers: workers that reduce among themselves wait for each other",
                self.rule.text()
            );
            return Err(Error::value(e));
        }
        self.rule.worker_rule().check(self.workers as usize)
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

/// Becomes a command that ends with the process `parent`, which has started this one: by SIGKILL, and
/// also if that has ended already. Returns only if the command cannot be run.
pub fn guarded(parent: u32, command: &[OsString]) -> Error {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        if let Err(e) = set_parent_process_death_signal(Some(Signal::KILL)) {
            return Error::io("binding a process to its launcher")(e.into());
        }
        // From here on its death is noticed; before, another process has become the parent.
        if getppid().map(|p| p.as_raw_nonzero().get().unsigned_abs()) != Some(parent) {
            return Error::Lost("the launcher is gone".to_string());
        }
    }
    let Some((program, args)) = command.split_first() else { return Error::value("there is no program to run") };
    Error::io(format!("starting {program:?}"))(Command::new(program).args(args).exec())
}
