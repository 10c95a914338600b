//! A job: what joins this process to the other workers, and what training asks of it.

use crate::agree;
use crate::comm::{self, Comm};
use crate::mesh::is_meshed;
use crate::part::BatchPart;
use crate::status::{Counters, failed, kind, lock};
use crate::table::Local;
use data::Part;
use dist::launch::{BEGAN, WorkerConfig, listen_toward, progress_key};
use dist::status::{End, FAILED, SAVED, STOP, done_key};
use dist::{
    Consistency, Controller, Coordinator, EmbeddedCoordinator, FOREVER, Filter, Hello, Member, Overlap, Publisher,
    Reducer, Store,
};
use ir::{Node, PeersHandle, Shape, Value};
use nn::optim::Rule;
use nn::parallel::{self, Begin, Give, Grads, Home, Push, RuleText, Saving, rule_key, setting};
use nn::train::Progress;
use std::any::Any;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tensor::collective::workers::{self, Workers};
use tensor::{Error, Result, Tensor, Variable, generator};

/// The table that holds the step which the store counts from; servers keep it as it is.
pub const ORIGIN: u32 = u32::MAX;
/// How often a worker tells how far it is.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Bytes of a block of a parameter in the store.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of gradients that are worth a message; `TALWEG_BUCKET` says another number.
const BUCKET_BYTES: usize = 1 << 20;
/// The logarithm of how many random draws a step may take.
const DRAWS_BITS: u32 = 32;
/// How long servers may take to write a checkpoint.
const SAVE_LIMIT: Duration = Duration::from_secs(3600);
/// How long workers that are done wait for one that is being started again.
const STAY_LIMIT: Duration = Duration::from_secs(60);
/// Key that says that the store's last checkpoint is written, and how often to poll it.
const WRITTEN: &str = "written";
const POLL: Duration = Duration::from_millis(20);
/// How long saying that the job has failed may take.
const FAIL_LIMIT: Duration = Duration::from_secs(30);

/// A worker's part in a job; clones are the same.
#[derive(Clone)]
pub struct Job(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub rank: usize,
    pub world: usize,
    pub mode: Mode,
    /// What joins a worker to the others; `None` for a process alone.
    remote: Option<Remote>,
    pub counters: Arc<Counters>,
    pub comm: Arc<Comm>,
    batch: Mutex<Option<BatchPart>>,
    /// Gradients that are means over all workers already, as clipped ones are.
    means: Mutex<Vec<Weak<Node>>>,
    /// Whether optimizers leave gradients and parameters alone, because the program averages them itself.
    is_local: AtomicBool,
}

pub(crate) enum Mode {
    /// Alone, with the tables of the program.
    Alone(Mutex<Local>),
    /// With the thread that reduces while the rest is computed, once there is one.
    Reduce(Arc<Mutex<Reducer>>, Mutex<Option<Overlap>>),
    Store(Box<Mutex<Shared>>),
}

struct Remote {
    config: WorkerConfig,
    /// Publishes what the launcher reads; training never waits for a launcher that is stopped.
    publisher: Arc<Publisher>,
    /// For questions to the membership store.
    member: Arc<Member>,
    told: Mutex<Told>,
    /// Kept alive: the membership store, if this process runs it or takes part in that.
    _coordinator: Option<Arc<dyn Coordinator>>,
}

/// What was last told of how far this worker is.
struct Told {
    at: Instant,
    /// Samples that this worker has trained on.
    samples: u64,
}

/// The parameter store and the tables this worker has in it.
pub(crate) struct Shared {
    pub store: Store,
    member: Member,
    pub tables: Vec<dist::Table>,
    /// How updates are encoded.
    wire: Option<Filter>,
    /// The step of the store that this worker began with, and the one that the store counts from.
    began: u64,
    first: u64,
    /// What the worker whose place this one takes had given before that step.
    kept: Option<Vec<u8>>,
    /// What this worker gave before the step it is in, on its way to the store with that step.
    given: Option<Vec<u8>>,
}

/// The current job, of this crate.
pub fn current() -> Result<Job> {
    let job: Arc<dyn Any + Send + Sync> = parallel::current()?;
    // A program without the outermost crate has no job to find: it is alone.
    Ok(job.downcast::<Job>().map_or_else(|_| Job::alone(), |job| (*job).clone()))
}

impl Job {
    /// The job that the environment describes, as launchers and schedulers do; a process alone if it describes none.
    pub fn from_env() -> Result<Job> {
        let config = WorkerConfig::from_env(|name| std::env::var(name).ok()).map_err(failed)?;
        config.map_or_else(|| Ok(Job::alone()), Job::join)
    }
    /// A process alone.
    pub fn alone() -> Job {
        Job::of(None, Mode::Alone(Mutex::default()), Arc::default(), Comm::alone())
    }
    /// Joins the other workers.
    pub fn join(config: WorkerConfig) -> Result<Job> {
        let timeout = comm::timeout()?;
        let (rank, world, at) = (config.rank, config.world, config.coordinator.address());
        let at = at.map_or_else(|e| e.to_string(), |a| a.to_string());
        join(config, timeout).map_err(|e| {
            let seconds = timeout.as_secs();
            let who =
                format!("worker {rank} of {world}, all of which meet at {at} within {seconds} s (TALWEG_TIMEOUT)");
            Error::new(kind(&e), format!("{e}; this is {who}"))
        })
    }
    /// Runs `f` as a part of this job, on this thread.
    pub fn scope<T>(&self, f: impl FnOnce() -> T) -> T {
        parallel::with_job(Arc::new(self.clone()), f)
    }
    /// The program ends. If it was in no run that says when it is done, the launcher compares the number
    /// of steps with that of the others.
    pub fn leave(&self) {
        if let (Some(remote), Some(steps)) = (&self.0.remote, self.0.counters.steps_outside_runs()) {
            remote.say(End::Left(steps), &self.0.counters);
        }
    }

    fn of(remote: Option<Remote>, mode: Mode, counters: Arc<Counters>, comm: Arc<Comm>) -> Job {
        let place = |r: &Remote| (r.config.rank as usize, r.config.world as usize);
        let (rank, world) = remote.as_ref().filter(|_| !is_meshed()).map_or((0, 1), place);
        let (batch, means, is_local) = (Mutex::default(), Mutex::default(), AtomicBool::default());
        Job(Arc::new(Inner { rank, world, mode, remote, counters, comm, batch, means, is_local }))
    }
    fn workers(&self) -> Result<Workers> {
        let weight = BatchPart::of(&mut lock(&self.0.batch))?.weight();
        let bucket_bytes = setting("TALWEG_BUCKET", BUCKET_BYTES)?;
        Ok(Workers { handle: PeersHandle(self.0.clone()), weight, bucket_bytes })
    }
    fn with_table<T>(&self, table: u32, f: impl FnOnce(&mut Shared, &dist::Table) -> Result<T>) -> Result<T> {
        let mut shared = self.0.counters.exchange(self.0.store()?);
        let t = shared.tables.get(table as usize).copied();
        let t = t.ok_or_else(|| Error::bug(format!("there is no table {table} in the store")))?;
        f(&mut shared, &t)
    }
}

impl Inner {
    pub fn store(&self) -> Result<&Mutex<Shared>> {
        match &self.mode {
            Mode::Store(s) => Ok(s),
            _ => Err(Error::bug("there is no parameter store")),
        }
    }
}

impl Remote {
    /// Waits until the launcher knows how this worker ends, and everything that was said before.
    fn say(&self, end: End, counters: &Arc<Counters>) {
        // Without a launcher worker 0 runs the membership store, and may have ended before.
        let told = self.publisher.set(&done_key(self.config.rank), end.encode().as_bytes());
        let _ = told.and_then(|()| counters.exchanging(|| self.publisher.flush()));
    }
}

fn join(config: WorkerConfig, timeout: Duration) -> dist::Result<Job> {
    let deadline = Instant::now() + timeout;
    let (workers, servers, copies) = (config.world as usize, config.servers as usize, config.copies);
    let controller = move || Controller::new(workers, servers, copies);
    let report = |text: &str| tensor::log::info(text);
    let coordinator: Option<Arc<dyn Coordinator>> = if config.keeps {
        let at = config.coordinator.address()?;
        Some(Arc::new(EmbeddedCoordinator::start(&at, config.secret.clone(), controller(), report)?))
    } else {
        dist::coordinate(&config.coordinator, controller, report, deadline)?
    };
    let hello = Hello::new("worker", config.rank);
    let member = Member::connect(&config.coordinator, &hello, config.secret.clone(), deadline)?;
    if let Some(why) = member.get(FAILED, deadline)?.1 {
        return Err(dist::Error::Lost(format!("the job has failed: {}", String::from_utf8_lossy(&why))));
    }
    let publisher = Arc::new(Publisher::start(member.duplicate(deadline)?)?);
    let asking = Arc::new(member.duplicate(deadline)?);
    let counters = Counters::new(publisher.clone());
    counters.start(publisher.clone(), member.duplicate(deadline)?, &config)?;
    let joining = counters.wait();
    let mode = if is_meshed() {
        Mode::Alone(Mutex::default())
    } else if config.servers == 0 {
        let listen = listen_toward(&config.coordinator.address()?)?;
        let mut reducer = Reducer::join(config.rank, &listen, member, config.secret.clone(), timeout)?;
        config.wire.into_iter().for_each(|filter| reducer.pack(filter));
        // A worker that replaces a lost one has nothing to compare with.
        if !reducer.is_late() && reducer.done() == 0 {
            agree::compare(&mut reducer, config.rank, &agree::environment(&config))?;
        }
        Mode::Reduce(Arc::new(Mutex::new(reducer)), Mutex::default())
    } else {
        Mode::Store(Box::new(Mutex::new(Shared::join(&config, member, timeout, &counters)?)))
    };
    drop(joining);
    let told = Mutex::new(Told { at: Instant::now(), samples: 0 });
    let comm = Comm::of_job(&config, asking.clone(), counters.clone());
    let remote = Remote { config, publisher, member: asking, told, _coordinator: coordinator };
    Ok(Job::of(Some(remote), mode, counters, comm))
}

/// Elements of a parameter from which on it is cut into blocks of this size, so that several servers share it;
/// `TALWEG_BLOCK` says another number of bytes.
fn block_len() -> Result<usize> {
    Ok((setting("TALWEG_BLOCK", BLOCK_BYTES)? / 4).max(1))
}

fn assign(p: &Variable, values: &[f32]) -> Result<()> {
    p.assign(&Tensor::new(p.shape(), values))
}

impl Shared {
    fn join(config: &WorkerConfig, member: Member, timeout: Duration, counters: &Counters) -> dist::Result<Shared> {
        let (own, workers) = (member.duplicate(Instant::now() + timeout)?, config.world as usize);
        let mut store = Store::join(config.rank, config.rule.drops(), member, config.secret.clone(), timeout)?;
        store.reuse(&config.rule);
        if store.workers() != workers {
            let e = format!("this worker was started as one of {workers}, the store's servers for {}", store.workers());
            return Err(dist::Error::value(e));
        }
        // Before anything is read, which may wait for others: they may wait for this worker's step, to stop.
        counters.gate.rejoin(&own, config.rank, store.steps_in_store(), Instant::now() + timeout)?;
        let kept = store.kept()?;
        let began = store.step();
        Ok(Shared { store, member: own, tables: Vec::new(), wire: config.wire, began, first: 0, kept, given: None })
    }
    /// Ends this worker's step, with what it gave before it.
    pub fn clock(&mut self, counters: &Counters) -> dist::Result<()> {
        if let Some(given) = self.given.take() {
            self.store.keep(&given)?;
        }
        self.store.clock()?;
        counters.stepped(self.store.step(), 0);
        Ok(())
    }
    /// Sends a parameter and its update rule to the store.
    fn register(&mut self, p: &Variable, values: &[f32], rule: &dyn Rule, weight_decay: f64) -> Result<RuleText> {
        let whole = RuleText::of(rule, &p.shape(), weight_decay)?;
        let part = |len: usize| RuleText::of(rule, &Shape::from([len]), weight_decay);
        let block = block_len()?;
        let is_cut = values.len() > block && part(block).is_ok_and(|part| whole.is_cut_by(&part));
        // A rule may look at the whole parameter, as Adafactor does: then it stays in one block.
        let (rows, width, bytes) = if is_cut { (values.len(), 1, 4 * block) } else { (1, values.len(), usize::MAX) };
        let text = |len: usize| if is_cut { part(len).map(|p| p.encode()) } else { Ok(whole.encode()) };
        let table = self.add(rows, width, bytes, values, text)?;
        self.wire.into_iter().for_each(|filter| self.store.filter(&table, filter));
        Ok(whole)
    }
    /// Adds a table, in blocks of so many bytes, with the text of its rule for blocks of a length.
    pub fn add(
        &mut self,
        rows: usize,
        width: usize,
        bytes: usize,
        values: &[f32],
        text: impl Fn(usize) -> Result<Vec<u8>>,
    ) -> Result<dist::Table> {
        let id = self.tables.len() as u32;
        let table = dist::Table::new(id, rows, width, bytes).map_err(failed)?;
        let deadline = Instant::now() + self.store.timeout;
        for len in BTreeSet::from([0, table.blocks() - 1].map(|b| table.elements(b).len())) {
            self.member.set(&rule_key(id, len), &text(len)?, deadline).map_err(failed)?;
        }
        self.store.create(&table, values).map_err(failed)?;
        self.tables.push(table);
        Ok(table)
    }
    /// The step that the store counts from: `restored`, unless another worker said another before.
    fn origin(&mut self, restored: u64) -> Result<u64> {
        // In the store itself, so that it is where the steps are: on every copy and on disk.
        let table = dist::Table::new(ORIGIN, 1, 2, usize::MAX).map_err(failed)?;
        let halves = [restored as u32, (restored >> 32) as u32].map(f32::from_bits);
        self.store.create(&table, &halves).map_err(failed)?;
        let kept = self.store.pull(&[table]).map_err(failed)?;
        let [low, high] = *kept[0] else { return Err(Error::bug("the store's first step has two halves")) };
        let origin = u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32;
        let deadline = Instant::now() + self.store.timeout;
        self.member.set(BEGAN, origin.to_string().as_bytes(), deadline).map_err(failed)?;
        self.first = origin;
        Ok(origin)
    }
}

impl parallel::Job for Job {
    fn rank(&self) -> Result<usize> {
        Ok(self.0.rank)
    }
    fn world(&self) -> Result<usize> {
        Ok(self.0.world)
    }
    fn has_store(&self) -> Result<bool> {
        Ok(matches!(self.0.mode, Mode::Store(_)))
    }
    fn is_late(&self) -> Result<bool> {
        Ok(match &self.0.mode {
            Mode::Alone(_) => false,
            Mode::Reduce(r, _) => lock(r).is_late(),
            Mode::Store(s) => lock(s).kept.is_some(),
        })
    }
    fn writes_files(&self) -> Result<bool> {
        Ok(match &self.0.mode {
            Mode::Alone(_) => self.0.comm.rank == 0,
            Mode::Reduce(r, _) => lock(r).is_first(),
            Mode::Store(s) => lock(s).store.is_first(),
        })
    }
    fn begin(&self, restored: u64) -> Result<Begin> {
        let Mode::Store(s) = &self.0.mode else { return Ok(Begin { origin: restored, step: restored }) };
        let mut shared = self.0.counters.exchange(s);
        let origin = shared.origin(restored)?;
        let step = origin + shared.began;
        self.0.counters.gate.enter(step);
        Ok(Begin { origin, step })
    }
    fn next_step(&self, done: u64) -> Result<u64> {
        let Mode::Store(s) = &self.0.mode else { return Ok(done) };
        let shared = lock(s);
        Ok(done.max(shared.first + shared.store.step()))
    }
    fn draw_for(&self, step: u64) -> Result<()> {
        if let (Some(r), Mode::Store(_)) = (&self.0.remote, &self.0.mode)
            && r.config.rule.drops()
        {
            let (seed, _) = generator::state();
            generator::set_state((seed, step << DRAWS_BITS));
        }
        Ok(())
    }
    fn agree(&self, settings: &[(&str, String)]) -> Result<()> {
        let (rank, counters) = (self.0.rank as u32, &self.0.counters);
        let done = match &self.0.mode {
            Mode::Alone(_) => Ok(()),
            Mode::Reduce(r, _) if lock(r).is_late() => Ok(()),
            Mode::Reduce(r, _) => agree::compare(&mut counters.exchange(r), rank, settings),
            Mode::Store(s) => agree::compare_in_store(&mut counters.exchange(s).store, rank, settings),
        };
        done.map_err(|e| failed(e).in_op("train"))
    }
    fn tell(&self, p: &Progress) -> Result<()> {
        let Some(remote) = &self.0.remote else { return Ok(()) };
        let mut told = lock(&remote.told);
        told.samples += p.samples as u64;
        if told.at.elapsed() < TELL_EVERY && p.step < p.steps {
            return Ok(());
        }
        told.at = Instant::now();
        let mut text = format!("{} {} {} {}", p.step, p.steps, p.loss, told.samples);
        if let Mode::Store(s) = &self.0.mode {
            lock(s).store.staleness_counts().iter().for_each(|n| text += &format!(" {n}"));
        }
        remote.publisher.lease(&progress_key(remote.config.rank), text.as_bytes()).map_err(failed)
    }
    fn run_begins(&self, step: u64) -> Result<()> {
        let Some(remote) = &self.0.remote else { return Ok(()) };
        self.0.counters.enter_run(step);
        let told = remote.publisher.set(&done_key(remote.config.rank), End::Going.encode().as_bytes());
        told.and_then(|()| remote.publisher.flush()).map_err(failed)
    }
    fn goes_on(&self, step: u64) -> Result<bool> {
        let counters = &self.0.counters;
        Ok(self.0.remote.is_none() || counters.exchanging(|| counters.gate.goes_on(step)))
    }
    fn ask_to_stop(&self) -> Result<bool> {
        let Some(remote) = &self.0.remote else { return Ok(false) };
        if !self.0.counters.asked_to_stop.swap(true, Relaxed) {
            remote.publisher.set(STOP, b"1").map_err(failed)?;
        }
        Ok(true)
    }
    fn saved(&self, step: u64, path: &Path) -> Result<()> {
        let Some(remote) = &self.0.remote else { return Ok(()) };
        let text = format!("{step} {}", path.display());
        remote.publisher.set(SAVED, text.as_bytes()).map_err(failed)
    }
    fn settle(&self, has_done_all: bool) -> Result<bool> {
        let (Some(remote), Mode::Store(s)) = (&self.0.remote, &self.0.mode) else { return Ok(false) };
        // After a stop that all workers have agreed on, all workers come to the same last step.
        let all_come = has_done_all || self.0.counters.gate.is_decided();
        let waits = all_come && !remote.config.rule.gathers();
        self.0.counters.exchange(s).store.settle(waits).map_err(failed)
    }
    fn done(&self) -> Result<()> {
        let Some(remote) = &self.0.remote else { return Ok(()) };
        self.0.counters.leave_run();
        // Before it is known that this worker is done: readers of that need not wait for the other.
        let _ = remote.publisher.set(WRITTEN, b"1");
        remote.say(End::Done, &self.0.counters);
        Ok(())
    }
    fn fail(&self, why: &str) -> Result<()> {
        let Some(remote) = &self.0.remote else { return Ok(()) };
        let why = format!("worker {}: {why}", remote.config.rank);
        let told = remote.member.compare_set(FAILED, None, why.as_bytes(), Instant::now() + FAIL_LIMIT);
        told.map(drop).map_err(failed)
    }
    fn meet(&self, give: Give<'_>) -> Result<Option<Vec<u8>>> {
        match &self.0.mode {
            Mode::Alone(_) => Ok(None),
            Mode::Reduce(r, _) => {
                let mut give = || give().map_err(|e| dist::Error::value(e.to_string()));
                self.0.counters.exchange(r).meet(&mut give).map_err(failed)
            }
            Mode::Store(s) => {
                let kept = lock(s).kept.take();
                let given = kept.clone().map_or_else(give, Ok)?;
                lock(s).given = Some(given);
                Ok(kept)
            }
        }
    }
    fn finish(&self, give: Give<'_>) -> Result<()> {
        let Some(remote) = &self.0.remote else { return Ok(()) };
        match &self.0.mode {
            Mode::Alone(_) => Ok(()),
            Mode::Reduce(r, _) => {
                let mut give = || give().map_err(|e| dist::Error::value(e.to_string()));
                let missing = if remote.config.replaces { STAY_LIMIT } else { Duration::ZERO };
                self.0.counters.exchange(r).finish(&mut give, missing, SAVE_LIMIT).map_err(failed)
            }
            Mode::Store(s) => {
                let is_written = || remote.member.get(WRITTEN, Instant::now() + FOREVER).map_err(failed);
                // The writer may be far behind, where the rule allows that; or be lost, which the map says.
                while !self.writes_files()? && is_written()?.1.is_none() {
                    self.0.counters.exchanging(|| std::thread::sleep(POLL));
                    lock(s).store.look().map_err(failed)?;
                }
                Ok(())
            }
        }
    }
    fn set_saving(&self, is_saving: bool) {
        self.0.counters.set_saving(is_saving);
    }

    fn part(&self, total: usize) -> Result<Part> {
        let part = Part::of(total, self.0.rank, self.0.world);
        self.set_part(&part)?;
        Ok(part)
    }
    fn set_part(&self, part: &Part) -> Result<()> {
        if part.world == 1 { Ok(()) } else { BatchPart::of(&mut lock(&self.0.batch))?.set(part) }
    }
    fn first_row(&self, rows: usize) -> Option<Tensor> {
        let batch = lock(&self.0.batch);
        if self.0.rank == 0 { None } else { batch.as_ref()?.first_row(rows) }
    }

    fn share(&self, params: &[Variable], rule: &dyn Rule, weight_decay: f64) -> Result<Vec<Option<Home>>> {
        let nowhere = || params.iter().map(|_| None).collect();
        let is_own = match self.0.mode {
            Mode::Alone(_) => true,
            Mode::Reduce(..) => self.0.is_local.load(Relaxed),
            Mode::Store(_) => false,
        };
        if params.is_empty() || is_own {
            return Ok(nowhere());
        }
        if let Some(p) = params.iter().find(|p| p.dtype() != tensor::DType::F32) {
            let e = format!("parameter {} is {}; several workers train f32 parameters", p.name(), p.dtype());
            return Err(Error::dtype(e).in_op("optimizer"));
        }
        let values = params.iter().map(|p| p.tensor().to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
        match &self.0.mode {
            Mode::Alone(_) => Ok(nowhere()),
            // A worker that came late is told the values with everything else.
            Mode::Reduce(r, _) if lock(r).is_late() => Ok(nowhere()),
            Mode::Reduce(r, _) => {
                let mut all: Vec<f32> = values.concat();
                self.0.counters.exchange(r).broadcast(&mut all).map_err(failed)?;
                let mut at = 0;
                for (p, v) in params.iter().zip(&values) {
                    assign(p, &all[at..at + v.len()])?;
                    at += v.len();
                }
                Ok(nowhere())
            }
            Mode::Store(s) => {
                let mut shared = self.0.counters.exchange(s);
                let first = shared.tables.len();
                let register = |(p, v): (&Variable, &Vec<f32>)| shared.register(p, v, rule, weight_decay);
                let texts = params.iter().zip(&values).map(register).collect::<Result<Vec<_>>>()?;
                let tables = shared.tables[first..].to_vec();
                let now = shared.store.pull(&tables).map_err(failed)?;
                params.iter().zip(&now).try_for_each(|(p, v)| assign(p, v))?;
                Ok(tables.iter().zip(texts).map(|(t, text)| Some(Home::new(t.id, text))).collect())
            }
        }
    }
    fn set_local(&self, yes: bool) -> Result<()> {
        self.0.is_local.store(yes, Relaxed);
        Ok(())
    }
    fn averages(&self) -> Result<bool> {
        Ok(self.0.world > 1 && (matches!(self.0.mode, Mode::Store(_)) || !self.0.is_local.load(Relaxed)))
    }
    fn mean(&self, t: &Tensor, grads: &[Option<Tensor>]) -> Result<Option<Grads>> {
        if self.0.is_local.load(Relaxed) { Ok(None) } else { self.mean_of_all(t, grads) }
    }
    fn mean_of_all(&self, t: &Tensor, grads: &[Option<Tensor>]) -> Result<Option<Grads>> {
        let Mode::Reduce(..) = &self.0.mode else { return Ok(None) };
        let known = lock(&self.0.means);
        let is_mean = |g: &Tensor| g.value().is_ok_and(|v| known.iter().any(|m| m.as_ptr() == Arc::as_ptr(v.node())));
        let own: Grads = grads.iter().map(|g| g.clone().filter(|g| !is_mean(g))).collect();
        let means = if own.iter().any(Option::is_some) { workers::mean(&self.workers()?, t, &own)? } else { own };
        Ok(Some(means.into_iter().zip(grads).map(|(mean, g)| mean.or_else(|| g.clone())).collect()))
    }
    fn note_mean(&self, grad: &Value) -> Result<()> {
        if let Mode::Reduce(..) = &self.0.mode {
            let mut known = lock(&self.0.means);
            known.retain(|m| m.strong_count() > 0);
            known.push(Arc::downgrade(grad.node()));
        }
        Ok(())
    }
    fn needs_mean(&self, what: &str) -> Result<()> {
        let (Some(remote), Mode::Store(_)) = (&self.0.remote, &self.0.mode) else { return Ok(()) };
        let rule = &remote.config.rule;
        if !rule.gathers() || self.0.world == 1 {
            return Ok(());
        }
        let e = format!(
            "{what}: under {rule} the gradients of a step are averaged on the servers, and no process sees all of"
        );
        let e = format!(
            "{e} the mean. Launch without --servers, where the mean is clipped, or with --consistency ssp:S or"
        );
        Err(Error::value(format!("{e} async, where each worker's gradient makes a step of its own")).in_op("clip"))
    }
    fn step_in_store(&self, t: &Tensor, pushes: &[Push]) -> Result<Vec<Tensor>> {
        workers::step_in_store(&self.workers()?, t, pushes)
    }
    fn dump(&self, table: u32) -> Result<(Vec<Vec<f32>>, u64)> {
        self.with_table(table, |shared, t| shared.store.dump(t).map_err(failed))
    }
    fn restore(&self, table: u32, mut arrays: Vec<Vec<f32>>, version: u64) -> Result<()> {
        self.with_table(table, |shared, t| {
            // The store keeps arrays of the parameter's size, whatever the state's.
            arrays.iter_mut().for_each(|a| a.resize(t.rows * t.width, 0.0));
            shared.store.restore(t, &arrays, version).map_err(failed)
        })
    }
    fn values(&self, table: u32) -> Result<Vec<f32>> {
        self.with_table(table, |shared, t| Ok(shared.store.pull(&[*t]).map_err(failed)?.remove(0)))
    }
    fn save(&self, to: &dyn Fn(u32) -> String) -> Result<Saving> {
        let saving = self.0.counters.exchange(self.0.store()?).store.save(to).map_err(failed)?;
        Ok(Box::new(move || saving.wait(Instant::now() + SAVE_LIMIT).map_err(failed)))
    }
    fn stored_bytes(&self) -> Result<usize> {
        let Mode::Store(s) = &self.0.mode else { return Ok(0) };
        Ok(lock(s).tables.iter().map(|t| 4 * t.rows * t.width).sum())
    }
    fn owed(&self) -> Result<Option<Vec<u8>>> {
        if self.0.remote.as_ref().is_none_or(|r| r.config.wire.is_none()) {
            return Ok(None);
        }
        Ok(match &self.0.mode {
            Mode::Alone(_) => None,
            Mode::Reduce(r, _) => Some(lock(r).residuals()),
            Mode::Store(s) => Some(lock(s).store.residuals()),
        })
    }
    fn take_owed(&self, bytes: &[u8]) -> Result<()> {
        match &self.0.mode {
            Mode::Alone(_) => Ok(()),
            Mode::Reduce(r, _) => lock(r).restore_residuals(bytes).map_err(failed),
            Mode::Store(s) => lock(s).store.restore_residuals(bytes).map_err(failed),
        }
    }
}
