//! Training on several processes: what `talweg launch` makes of a script that knows nothing of it.
//!
//! The environment says whether this process is alone. If it is not, an optimizer's gradients
//! become the mean over all workers (the op `mean_over_workers`, or where they are many two ops, which
//! begin and end it while the rest is computed), or the optimizer's whole step
//! moves to the parameter store (the op `step_in_store`). Both are nodes of the graph like any
//! other, so imperative code, `jit` and sessions need nothing special.

mod end;
mod exchange;
mod group;
mod home;
mod line;
mod part;
mod pulse;
mod rows;
mod rule;
mod same;
mod table;
mod update;
mod wire;

pub use end::{done, fail, finish, leave, settle};
pub use group::Group;
pub use part::{next_key, part};
pub use pulse::{ask_to_stop, goes_on, run_begins, saved, saving};
pub use rule::{RuleText, SlotText, Takes, rule_key};
pub use same::agree;
pub use table::{Table, clock, staleness_counts, step, wait};
pub use update::{Compiled, Pushed};
pub use wire::{Packed, Wire};

use crate::optim::Rule;
use crate::train::Progress;
use dist::launch::{BEGAN, WorkerConfig, listen_toward, progress_key};
use dist::{
    Consistency, Controller, Coordinator, EmbeddedCoordinator, Filter, Hello, Member, Overlap, Publisher, Reducer,
    Saving, Store,
};
use ir::{Node, Shape, Value};
use pulse::exchange;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};
use tensor::{Error, Result, Tensor, Variable, generator};

/// The table that holds the step which the store counts from; servers keep it as it is.
pub const ORIGIN: u32 = u32::MAX;
/// How often a worker tells how far it is.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Bytes of a piece of a parameter in the store.
const BLOCK_BYTES: usize = 1 << 20;
/// The logarithm of how many random draws a step may take.
const DRAWS_BITS: u32 = 32;
/// How long servers may take to write a checkpoint.
const SAVE_LIMIT: Duration = Duration::from_secs(3600);

/// What joins this process to the others.
struct Job {
    place: WorkerConfig,
    how: How,
    /// Publishes what the launcher reads; training never waits for a launcher that is stopped.
    publisher: Arc<Publisher>,
    /// For questions to the membership store.
    member: Member,
    told: Mutex<Told>,
    /// Kept alive: the membership store, if this process keeps it or takes part in that.
    _center: Option<Arc<dyn Coordinator>>,
}

/// What was last told of how far this worker is.
struct Told {
    at: Instant,
    /// Samples that this process has trained on.
    samples: u64,
}

enum How {
    /// With the thread that reduces while the rest is computed, once there is one.
    Reduce(Box<Mutex<Reducer>>, Mutex<Option<Overlap>>),
    Store(Box<Mutex<Shared>>),
}

/// The parameter store and the tables this process has in it.
struct Shared {
    store: Store,
    member: Member,
    tables: Vec<dist::Table>,
    /// How updates travel.
    wire: Option<Filter>,
    /// The step of the store that this process began with, and the one that the store counts from.
    began: u64,
    first: u64,
    /// What the worker whose place this one takes had given before that step.
    kept: Option<Vec<u8>>,
    /// What this worker gave before the step it is in, on its way to the store with that step.
    given: Option<Vec<u8>>,
}

/// Whether optimizers leave gradients and parameters alone, because the program averages them itself.
static IS_LOCAL: AtomicBool = AtomicBool::new(false);
/// Gradients that are means over all workers already, as clipped ones are.
static MEANS: Mutex<Vec<Weak<Node>>> = Mutex::new(Vec::new());
static JOB: OnceLock<Result<Option<Job>>> = OnceLock::new();

/// The job, joined at the first call; `None` if this process is alone.
fn job() -> Result<Option<&'static Job>> {
    match JOB.get_or_init(join) {
        Ok(job) => Ok(job.as_ref()),
        Err(e) => Err(Error { message: format!("joining the other workers: {}", e.message), ..e.clone() }),
    }
}

/// A number that a variable of the environment may set.
pub(crate) fn setting<T: std::str::FromStr>(name: &str, otherwise: T) -> Result<T> {
    let Ok(text) = std::env::var(name) else { return Ok(otherwise) };
    text.parse().map_err(|_| Error::value(format!("{name} must be a number, not {text:?}")))
}

/// Number of this worker; 0 if the process is alone.
pub fn rank() -> Result<usize> {
    Ok(job()?.map_or(0, |j| j.place.rank as usize))
}
/// How many workers were started; 1 if the process is alone.
pub fn world() -> Result<usize> {
    Ok(job()?.map_or(1, |j| j.place.world as usize))
}
/// Sets whether optimizers step with this process's gradients alone, as in a program that averages them itself with
/// collectives. With a parameter store nothing changes.
pub fn set_local(yes: bool) {
    IS_LOCAL.store(yes, Ordering::Relaxed);
}
/// True if optimizers average gradients over the workers, or the store does.
pub fn averages() -> Result<bool> {
    Ok(job()?.is_some_and(|j| j.place.world > 1 && (matches!(j.how, How::Store(_)) || !is_local())))
}
fn is_local() -> bool {
    IS_LOCAL.load(Ordering::Relaxed)
}

/// Where a worker of a parameter store begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The step that the store counts from: that of the checkpoint with which its first job began.
    pub origin: u64,
    /// The step at which this worker has to begin.
    pub step: u64,
}

/// With a parameter store: where this worker has to begin, given the step that its checkpoint was
/// taken at (0 without one). If it takes the place of a worker that was lost, or goes on with what
/// servers had on disk, the checkpoint may be newer than the one that the store began with, and
/// the store's files win.
pub fn begin(restored: u64) -> Result<Begin> {
    let Some(How::Store(s)) = job()?.map(|j| &j.how) else { return Ok(Begin { origin: restored, step: restored }) };
    let mut shared = exchange(s);
    // In the store itself, so that it is where the steps are: on every copy and on disk.
    let table = dist::Table::new(ORIGIN, 1, 2, usize::MAX).map_err(failed)?;
    let halves = [restored as u32, (restored >> 32) as u32].map(f32::from_bits);
    shared.store.create(&table, &halves).map_err(failed)?;
    let kept = shared.store.pull(&[table]).map_err(failed)?;
    let [low, high] = *kept[0] else { return Err(Error::bug("the store's first step has two halves")) };
    let origin = u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32;
    let deadline = Instant::now() + shared.store.timeout;
    shared.member.set(BEGAN, origin.to_string().as_bytes(), deadline).map_err(failed)?;
    shared.first = origin;
    Ok(Begin { origin, step: origin + shared.began })
}
/// The step that follows, for a worker that has done so many: more than that if the others did not
/// wait for it, as backup workers do not.
pub fn next_step(done: u64) -> Result<u64> {
    let Some(How::Store(s)) = job()?.map(|j| &j.how) else { return Ok(done) };
    let shared = lock(s);
    Ok(done.max(shared.first + shared.store.step()))
}

/// Before a step that others may not wait for, as with backup workers: what it draws at random follows
/// from its number, so that a worker that leaves steps out draws what the others draw.
pub fn draw_for(step: u64) -> Result<()> {
    if job()?.is_some_and(|j| matches!(j.how, How::Store(_)) && j.place.rule.drops()) {
        let (seed, _) = generator::state();
        generator::set_state((seed, step << DRAWS_BITS));
    }
    Ok(())
}

/// Before each step: hands over the bytes that `give` makes of everything that decides the step, for
/// a worker that replaces a lost one. Such a replacement is answered these bytes at its first call and
/// must take them over. `Trainer` does all this itself; a loop of one's own calls it before each step.
///
/// Under all-reduce `give` is called only when somebody waits to be let in, and a loop that never
/// calls `meet` does without replacements. With a parameter store the bytes are kept in the store with
/// the step: `give` is called each time, and need not give what the store holds. The replacement does
/// the newest step again that the store has of its predecessor ([`step`] says which), from what that
/// one gave before it.
pub fn meet(mut give: impl FnMut() -> Result<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    match job()?.map(|j| &j.how) {
        None => Ok(None),
        Some(How::Reduce(r, _)) => {
            let mut give = || give().map_err(|e| dist::Error::value(e.to_string()));
            exchange(r).meet(&mut give).map_err(failed)
        }
        Some(How::Store(s)) => {
            let kept = lock(s).kept.take();
            let given = kept.clone().map_or_else(give, Ok)?;
            lock(s).given = Some(given);
            Ok(kept)
        }
    }
}
/// True if this worker replaces one that was lost and has not been told by [`meet`] how to go on.
pub fn is_late() -> Result<bool> {
    Ok(match job()?.map(|j| &j.how) {
        None => false,
        Some(How::Reduce(r, _)) => lock(r).is_late(),
        Some(How::Store(s)) => lock(s).kept.is_some(),
    })
}
/// Whether this worker writes the job's files: the first of those that take part does. While worker 0
/// is missing, or when it will not come back, that is another.
pub fn writes_files() -> Result<bool> {
    Ok(match job()?.map(|j| &j.how) {
        None => true,
        Some(How::Reduce(r, _)) => lock(r).is_first(),
        Some(How::Store(s)) => lock(s).store.is_first(),
    })
}

/// What packing has left out of this worker's gradients so far; `None` if nothing is packed.
pub(crate) fn owed() -> Result<Option<Vec<u8>>> {
    let Some(job) = job()?.filter(|j| j.place.wire.is_some()) else { return Ok(None) };
    Ok(Some(match &job.how {
        How::Reduce(r, _) => lock(r).residuals(),
        How::Store(s) => lock(s).store.residuals(),
    }))
}
/// Takes that up again.
pub(crate) fn take_owed(bytes: &[u8]) -> Result<()> {
    match job()?.map(|j| &j.how) {
        Some(How::Reduce(r, _)) => lock(r).restore_residuals(bytes).map_err(failed),
        Some(How::Store(s)) => lock(s).store.restore_residuals(bytes).map_err(failed),
        None => Ok(()),
    }
}

/// Tells the launcher how far this worker is, a few times a second at most.
pub fn tell(p: &Progress) -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    let mut told = lock(&job.told);
    told.samples += p.samples as u64;
    if told.at.elapsed() < TELL_EVERY && p.step < p.steps {
        return Ok(());
    }
    told.at = Instant::now();
    let mut text = format!("{} {} {} {}", p.step, p.steps, p.loss, told.samples);
    if let How::Store(s) = &job.how {
        lock(s).store.staleness_counts().iter().for_each(|n| text += &format!(" {n}"));
    }
    job.publisher.lease(&progress_key(job.place.rank), text.as_bytes()).map_err(failed)
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere ends the program anyway; what is guarded is used by one thread at a time.
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
fn failed(e: dist::Error) -> Error {
    pulse::error(&e, e.to_string())
}

fn join() -> Result<Option<Job>> {
    let place = WorkerConfig::from_env(|name| std::env::var(name).ok()).map_err(|e| Error::value(e.to_string()))?;
    let Some(place) = place else { return Ok(None) };
    let timeout = line::timeout()?;
    let (rank, world, at) = (place.rank, place.world, place.coordinator.address());
    let at = at.map_or_else(|e| e.to_string(), |a| a.to_string());
    pulse::exchanging(|| join_at(place, timeout)).map(Some).map_err(|e| {
        let seconds = timeout.as_secs();
        let who = format!("worker {rank} of {world}, all of which meet at {at} within {seconds} s (TALWEG_TIMEOUT)");
        pulse::error(&e, format!("{e}; this is {who}"))
    })
}
fn join_at(place: WorkerConfig, timeout: Duration) -> dist::Result<Job> {
    let deadline = Instant::now() + timeout;
    let (workers, servers, copies) = (place.world as usize, place.servers as usize, place.copies);
    let controller = move || Controller::new(workers, servers, copies);
    let report = |text: &str| tensor::log::info(text);
    let coordinator: Option<Arc<dyn Coordinator>> = if place.keeps {
        let at = place.coordinator.address()?;
        Some(Arc::new(EmbeddedCoordinator::start(&at, place.secret.clone(), controller(), report)?))
    } else {
        dist::coordinate(&place.coordinator, controller, report, deadline)?
    };
    let hello = Hello::new("worker", place.rank);
    let member = Member::connect(&place.coordinator, &hello, place.secret.clone(), deadline)?;
    end::check(&member, deadline)?;
    let publisher = Arc::new(Publisher::start(member.duplicate(deadline)?)?);
    let asking = member.duplicate(deadline)?;
    pulse::start(publisher.clone(), member.duplicate(deadline)?, place.rank, place.world)?;
    let how = if place.servers == 0 {
        let listen = listen_toward(&place.coordinator.address()?)?;
        let mut reducer = Reducer::join(place.rank, &listen, member, place.secret.clone(), timeout)?;
        place.wire.into_iter().for_each(|filter| reducer.pack(filter));
        // A worker that replaces a lost one has nobody to compare with.
        if !reducer.is_late() && reducer.done() == 0 {
            same::compare(&mut reducer, place.rank, &environment(&place))?;
        }
        How::Reduce(Box::new(Mutex::new(reducer)), Mutex::default())
    } else {
        let own = member.duplicate(deadline)?;
        let mut store = Store::join(place.rank, place.rule.drops(), member, place.secret.clone(), timeout)?;
        store.reuse(&place.rule);
        if store.workers() != workers {
            let e = format!("this worker was started as one of {workers}, the store's servers for {}", store.workers());
            return Err(dist::Error::value(e));
        }
        let kept = store.kept()?;
        let began = store.step();
        How::Store(Box::new(Mutex::new(Shared {
            store,
            member: own,
            tables: Vec::new(),
            wire: place.wire,
            began,
            first: 0,
            kept,
            given: None,
        })))
    };
    let told = Mutex::new(Told { at: Instant::now(), samples: 0 });
    Ok(Job { place, how, publisher, member: asking, told, _center: coordinator })
}

/// What the environment has set for this worker, and must have set for all.
fn environment(place: &WorkerConfig) -> [(&'static str, String); 3] {
    let wire = place.wire.map_or("f32".to_string(), |f| f.to_string());
    let bucket = std::env::var("TALWEG_BUCKET").unwrap_or_else(|_| "unset".to_string());
    [("WORLD_SIZE", place.world.to_string()), ("TALWEG_WIRE", wire), ("TALWEG_BUCKET", bucket)]
}

/// Gives all workers the same parameters: those of the first worker, or of the store.
pub(crate) fn share(params: &[Variable], rule: &dyn Rule, weight_decay: f64) -> Result<Vec<Option<Home>>> {
    let nowhere = || params.iter().map(|_| None).collect();
    // An optimizer of no parameters is none's affair.
    let Some(job) = (if params.is_empty() { None } else { job()? }) else { return Ok(nowhere()) };
    if matches!(job.how, How::Reduce(..)) && is_local() {
        return Ok(nowhere());
    }
    if let Some(p) = params.iter().find(|p| p.dtype() != tensor::DType::F32) {
        let e = format!("parameter {} is {}; several workers train f32 parameters", p.name(), p.dtype());
        return Err(Error::dtype(e).in_op("optimizer"));
    }
    let values = params.iter().map(|p| p.tensor().to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
    match &job.how {
        // A worker that came late is told the values with everything else.
        How::Reduce(r, _) if lock(r).is_late() => Ok(nowhere()),
        How::Reduce(r, _) => {
            let mut all: Vec<f32> = values.concat();
            exchange(r).broadcast(&mut all).map_err(failed)?;
            let mut at = 0;
            for (p, v) in params.iter().zip(&values) {
                assign(p, &all[at..at + v.len()])?;
                at += v.len();
            }
            Ok(nowhere())
        }
        How::Store(s) => {
            let mut shared = exchange(s);
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

/// Elements of a parameter from which on it is cut into pieces of this size, so that several servers share it;
/// `TALWEG_BLOCK` says another number of bytes.
fn block_len() -> Result<usize> {
    Ok((setting("TALWEG_BLOCK", BLOCK_BYTES)? / 4).max(1))
}

fn assign(p: &Variable, values: &[f32]) -> Result<()> {
    p.assign(&Tensor::new(p.shape(), values))
}

impl Shared {
    /// Ends this worker's step, with what it gave before it.
    fn clock(&mut self) -> dist::Result<()> {
        if let Some(given) = self.given.take() {
            self.store.keep(&given)?;
        }
        self.store.clock()?;
        pulse::stepped(self.store.step(), 0);
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
    fn add(
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
}

/// The mean of each gradient over all workers, of those that are none yet; `None` if this process is
/// alone, the store takes the gradients or the program averages them itself.
pub(crate) fn mean(t: &Tensor, grads: &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> {
    if is_local() { Ok(None) } else { mean_of_all(t, grads) }
}
/// The same, whoever averages.
pub(crate) fn mean_of_all(t: &Tensor, grads: &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> {
    let Some(How::Reduce(..)) = job()?.map(|j| &j.how) else { return Ok(None) };
    let known = lock(&MEANS);
    let is_mean = |g: &Tensor| g.value().is_ok_and(|v| known.iter().any(|m| m.as_ptr() == Arc::as_ptr(v.node())));
    let own: Vec<Option<Tensor>> = grads.iter().map(|g| g.clone().filter(|g| !is_mean(g))).collect();
    let means = if own.iter().any(Option::is_some) { exchange::mean(t, &own)? } else { own };
    Ok(Some(means.into_iter().zip(grads).map(|(mean, g)| mean.or_else(|| g.clone())).collect()))
}
/// Remembers that a gradient was made of means over all workers, so that the optimizer takes it as it is.
pub(crate) fn note_mean(grad: &Value) -> Result<()> {
    if let Some(How::Reduce(..)) = job()?.map(|j| &j.how) {
        let mut known = lock(&MEANS);
        known.retain(|m| m.strong_count() > 0);
        known.push(Arc::downgrade(grad.node()));
    }
    Ok(())
}

/// A table of the store with its state, and how often it has been changed.
pub(crate) fn dump(table: u32) -> Result<(Vec<Vec<f32>>, u64)> {
    with_table(table, |shared, t| shared.store.dump(t).map_err(failed))
}
/// Brings a table as a checkpoint had it, if the run has not begun. The store keeps arrays of the
/// parameter's size, whatever the state's.
pub(crate) fn restore(table: u32, mut arrays: Vec<Vec<f32>>, version: u64) -> Result<()> {
    with_table(table, |shared, t| {
        arrays.iter_mut().for_each(|a| a.resize(t.rows * t.width, 0.0));
        shared.store.restore(t, &arrays, version).map_err(failed)
    })
}
/// A table's values.
pub(crate) fn values(table: u32) -> Result<Vec<f32>> {
    with_table(table, |shared, t| Ok(shared.store.pull(&[*t]).map_err(failed)?.remove(0)))
}
/// Lets the servers write what the store holds, as this worker's step sees it, and goes on.
pub(crate) fn save(to: impl Fn(u32) -> String) -> Result<Saving> {
    let Some(How::Store(shared)) = job()?.map(|j| &j.how) else {
        return Err(Error::bug("there is no parameter store"));
    };
    exchange(shared).store.save(to).map_err(failed)
}
/// Waits until they have; answers where.
pub(crate) fn wait_for(saving: Saving) -> Result<Vec<String>> {
    saving.wait(Instant::now() + SAVE_LIMIT).map_err(failed)
}
/// Bytes that a parameter store holds for this job's parameters, without the optimizer's state;
/// 0 if there is none.
pub(crate) fn stored_bytes() -> Result<usize> {
    let Some(How::Store(shared)) = job()?.map(|j| &j.how) else { return Ok(0) };
    Ok(lock(shared).tables.iter().map(|t| 4 * t.rows * t.width).sum())
}
fn with_table<T>(table: u32, f: impl FnOnce(&mut Shared, &dist::Table) -> Result<T>) -> Result<T> {
    let Some(How::Store(shared)) = job()?.map(|j| &j.how) else {
        return Err(Error::bug("there is no parameter store"));
    };
    let mut shared = exchange(shared);
    let t = shared.tables.get(table as usize).copied();
    let t = t.ok_or_else(|| Error::bug(format!("there is no table {table} in the store")))?;
    f(&mut shared, &t)
}

/// An error where nobody sees the mean gradient of a step, which `what` needs: it is made on the servers, each of which
/// has a part of it.
pub(crate) fn needs_mean(what: &str) -> Result<()> {
    let Some(job) = job()? else { return Ok(()) };
    if !matches!(job.how, How::Store(_)) || !job.place.rule.gathers() || job.place.world == 1 {
        return Ok(());
    }
    let rule = job.place.rule;
    let e =
        format!("{what}: under {rule} the gradients of a step are averaged on the servers, and no process sees all of");
    let e =
        format!("{e} the mean. Launch without --servers, where the mean is clipped, or with --consistency ssp:S or");
    Err(Error::value(format!("{e} async, where each worker's gradient makes a step of its own")).in_op("clip"))
}

pub(crate) use exchange::{Push, step_in_store};
pub(crate) use home::Home;
pub(crate) use part::set_part;
/// True if parameters live in the store.
pub fn has_store() -> Result<bool> {
    Ok(matches!(job()?.map(|j| &j.how), Some(How::Store(_))))
}
