//! Other workers, as training sees them: the trait [`Job`] and one function for each of its methods.
//!
//! This crate knows no sockets. A process alone needs none of this: the trait's defaults are its answers. The crate
//! `parallel` implements the trait for jobs that `talweg launch` starts.
//!
//! The functions ask the current job: that of the innermost [`with_job`] on this thread, or else the one that the
//! program was started for, which the outermost crate keeps ([`Ambient`]).

mod home;
mod rule;

pub use home::Home;
pub use rule::{NUMBER, RuleText, SlotText, Takes, numbered, rule_key};
pub use tensor::collective::workers::Push;

use crate::optim::Rule;
use crate::train::Progress;
use data::Part;
use ir::Value;
use std::any::Any;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use tensor::{Error, Result, Tensor, Variable, generator};

/// Where a worker of a parameter store begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The step that the store counts from: that of the checkpoint with which its first job began.
    pub origin: u64,
    /// The first step of this worker.
    pub step: u64,
}

/// Makes the bytes of everything that decides the next step, for a worker that replaces a lost one.
pub type Give<'a> = &'a mut dyn FnMut() -> Result<Vec<u8>>;
/// Waits until servers have written their parts of a checkpoint; answers where.
pub type Saving = Box<dyn FnOnce() -> Result<Vec<String>> + Send>;
/// A gradient for each parameter, if it has one.
pub type Grads = Vec<Option<Tensor>>;

/// Declares the methods of [`Job`], each with the result of a single process, and a function for each that calls the
/// current job.
macro_rules! job {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty { $alone:expr })*) => {
        /// The job of a process. The defaults are the answers of a process alone.
        pub trait Job: Any + Send + Sync {
            $($(#[$doc])*
            fn $name(&self, $($arg: $ty),*) -> Result<$out> {
                $(let _ = &$arg;)*
                $alone
            })*
            /// Before each step; see the function [`meet`].
            fn meet(&self, give: Give<'_>) -> Result<Option<Vec<u8>>> {
                let _ = give;
                Ok(None)
            }
            /// After the last checkpoint; see the function [`finish`].
            fn finish(&self, give: Give<'_>) -> Result<()> {
                let _ = give;
                Ok(())
            }
            /// This worker starts or finishes writing a checkpoint, which may take its time.
            fn set_saving(&self, is_saving: bool) {
                let _ = is_saving;
            }
            /// The first row of this worker's shard in the global batch, if it has so many rows.
            fn first_row(&self, rows: usize) -> Option<Tensor> {
                let _ = rows;
                None
            }
            /// Makes the servers write a snapshot of the store, as this worker's step sees it, without waiting.
            fn save(&self, to: &dyn Fn(u32) -> String) -> Result<Saving> {
                let _ = to;
                Err(no_store())
            }
        }
        $($(#[$doc])*
        $vis fn $name($($arg: $ty),*) -> Result<$out> {
            current()?.$name($($arg),*)
        })*
    };
}

/// Whether this worker takes part in saving checkpoints: the one that [`writes_files`]; on a mesh all, each its blocks.
pub fn saves_checkpoints() -> Result<bool> {
    Ok(is_on_mesh()? || writes_files()?)
}
/// Whether the train step is cut over a mesh, all of whose ranks save and read at the same points of the program.
pub fn is_on_mesh() -> Result<bool> {
    Ok(tensor::current_mesh()?.is_some())
}

job! {
    /// Rank of this worker; 0 if the process is alone.
    pub fn rank() -> usize { Ok(0) }
    /// How many workers were started; 1 if the process is alone.
    pub fn world() -> usize { Ok(1) }
    /// True if parameters live in a parameter store.
    pub fn has_store() -> bool { Ok(false) }
    /// True if this worker replaces one that was lost and has not been told by [`meet`] how to go on.
    pub fn is_late() -> bool { Ok(false) }
    /// Whether this worker writes the job's files: the first of those that take part does. While worker 0
    /// is missing, or when it will not come back, that is another.
    pub fn writes_files() -> bool { Ok(true) }
    /// With a parameter store: where this worker has to begin, given the step that its checkpoint was
    /// taken at (0 without one). If it takes the place of a worker that was lost, or goes on with what
    /// servers had on disk, the checkpoint may be newer than the one that the store began with, and
    /// the store's files win.
    pub fn begin(restored: u64) -> Begin { Ok(Begin { origin: restored, step: restored }) }
    /// The step that follows, for a worker that has done so many: more than that if the others did not
    /// wait for it, as backup workers do not.
    pub fn next_step(done: u64) -> u64 { Ok(done) }
    /// Before a step that others may not wait for, as with backup workers: its random draws follow from its number,
    /// so that a worker that leaves steps out draws what the others draw.
    pub fn draw_for(step: u64) -> () { Ok(()) }
    /// Fails, on every worker, unless all workers of the job say the same settings: the step they begin at, the
    /// optimizer, the batches. The error names the workers and both values. Under all-reduce, a worker that
    /// replaces a lost one has nothing to compare with. `Trainer` calls it.
    ///
    /// ```
    /// # use talweg_nn::parallel;
    /// parallel::agree(&[("step", "35".to_string()), ("batch size", "64".to_string())])?; // alone
    /// # Ok::<(), tensor::Error>(())
    /// ```
    pub fn agree(settings: &[(&str, String)]) -> () { Ok(()) }
    /// Tells the launcher how far this worker is, a few times a second at most.
    pub fn tell(progress: &Progress) -> () { Ok(()) }
    /// A run begins at this step that asks [`goes_on`] before each of its steps and says when it is [`done`].
    pub fn run_begins(step: u64) -> () { Ok(()) }
    /// Called before a step: whether to run it. False if the job was asked to stop and the workers have
    /// agreed on an earlier one as the last.
    pub fn goes_on(step: u64) -> bool { Ok(true) }
    /// Asks all workers to stop after a common step; false if this process is alone.
    pub fn ask_to_stop() -> bool { Ok(false) }
    /// A checkpoint is on disk.
    pub fn saved(step: u64, path: &Path) -> () { Ok(()) }
    /// After this worker's last step, with a parameter store whose workers do not wait for each other in every
    /// step (`ssp:S`, `async`): a worker that has done all of its steps waits until all have done theirs. True if
    /// this worker's values are then older than the store's: read them again before they are saved. `Trainer` does.
    pub fn settle(has_done_all: bool) -> bool { Ok(false) }
    /// The run is complete, with everything that it had to save.
    pub fn done() -> () { Ok(()) }
    /// Tells the job that this worker's training has failed for good, as it has diverged: a process started in its
    /// place fails as well, with this reason, instead of training on after the bad step. `Trainer` calls it when the
    /// loss is NaN or infinite.
    pub fn fail(why: &str) -> () { Ok(()) }
    /// This worker's part of a batch of so many rows, which the optimizer's next steps are about: their
    /// gradients are those of a mean over the part's rows, and count accordingly. `Trainer` calls it, and
    /// [`crate::Columns::column`] does for batches of a loader that is shared; a loop that cuts its batches itself
    /// calls it before each step, or has parts of equal size.
    ///
    /// ```
    /// # use talweg_nn::parallel;
    /// let part = parallel::part(15)?;
    /// assert_eq!(part.given(), 0..15); // alone
    /// # Ok::<(), tensor::Error>(())
    /// ```
    pub fn part(total: usize) -> Part { Ok(Part::of(total, 0, 1)) }
    /// As [`part`], for a batch that was cut already.
    pub fn set_part(part: &Part) -> () { Ok(()) }
    /// Broadcasts the parameters of the first worker or of the store; returns where each lives.
    pub(crate) fn share(params: &[Variable], rule: &dyn Rule, weight_decay: f64) -> Vec<Option<Home>> {
        Ok(params.iter().map(|_| None).collect())
    }
    /// Sets whether optimizers step with this worker's gradients alone, as in a program that averages them itself
    /// with collectives. With a parameter store nothing changes.
    pub fn set_local(yes: bool) -> () { Ok(()) }
    /// True if optimizers average gradients over the workers, or the store does.
    pub fn averages() -> bool { Ok(false) }
    /// The mean of each gradient over all workers, of those that are not means yet; `None` if this process is
    /// alone, the store takes the gradients or the program averages them itself.
    pub(crate) fn mean(t: &Tensor, grads: &[Option<Tensor>]) -> Option<Grads> { Ok(None) }
    /// The same, also if the program averages them itself.
    pub(crate) fn mean_of_all(t: &Tensor, grads: &[Option<Tensor>]) -> Option<Grads> { Ok(None) }
    /// Marks a gradient as averaged over all workers, so that the optimizer does not average it again.
    pub(crate) fn note_mean(grad: &Value) -> () { Ok(()) }
    /// An error where no process sees the mean gradient of a step, which `what` needs: under a store that gathers
    /// steps it is made on the servers, each of which has a part of it.
    pub(crate) fn needs_mean(what: &str) -> () { Ok(()) }
    /// The parameters after a step in the store.
    pub(crate) fn step_in_store(t: &Tensor, pushes: &[Push]) -> Vec<Tensor> { Err(no_store()) }
    /// A table of the store with its state, and how often it has been changed.
    pub(crate) fn dump(table: u32) -> (Vec<Vec<f32>>, u64) { Err(no_store()) }
    /// Restores a table from a checkpoint, if the run has not begun.
    pub(crate) fn restore(table: u32, arrays: Vec<Vec<f32>>, version: u64) -> () { Err(no_store()) }
    /// A table's values.
    pub(crate) fn values(table: u32) -> Vec<f32> { Err(no_store()) }
    /// Bytes that a parameter store holds for this job's parameters, without the optimizer's state;
    /// 0 if there is none.
    pub(crate) fn stored_bytes() -> usize { Ok(0) }
    /// The residual that encoding has left out of this worker's gradients so far; `None` if nothing is encoded.
    pub(crate) fn owed() -> Option<Vec<u8>> { Ok(None) }
    /// Restores that residual.
    pub(crate) fn take_owed(bytes: &[u8]) -> () { Ok(()) }
}

fn no_store() -> Error {
    Error::bug("there is no parameter store")
}

/// A process alone.
pub struct Alone;
impl Job for Alone {}

/// The job that the program was started for. The outermost crate submits one, and keeps the job.
pub struct Ambient(pub fn() -> Result<Arc<dyn Job>>);
inventory::collect!(Ambient);

thread_local! {
    /// The jobs of the scopes that this thread is in, innermost last.
    static SCOPES: RefCell<Vec<Arc<dyn Job>>> = const { RefCell::new(Vec::new()) };
}

/// The current job.
pub fn current() -> Result<Arc<dyn Job>> {
    if let Some(job) = SCOPES.with_borrow(|s| s.last().cloned()) {
        return Ok(job);
    }
    inventory::iter::<Ambient>().next().map_or_else(|| Ok(Arc::new(Alone) as Arc<dyn Job>), |a| (a.0)())
}

/// Runs `f` within a job: on this thread, the functions of this module use that job.
pub fn with_job<T>(job: Arc<dyn Job>, f: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            SCOPES.with_borrow_mut(Vec::pop);
        }
    }
    SCOPES.with_borrow_mut(|s| s.push(job));
    let _leave = Leave;
    f()
}

/// Before each step: hands over the bytes that `give` makes of everything that decides the step, for
/// a worker that replaces a lost one. Such a replacement is answered these bytes at its first call and
/// must take them over. `Trainer` does all this itself; a custom loop calls it before each step.
///
/// Under all-reduce `give` is called only when a worker waits to be let in, and a loop that never
/// calls `meet` does without replacements. With a parameter store the bytes are kept in the store with
/// the step: `give` is called each time, and need not give what the store holds. The replacement does
/// the newest step again that the store has of its predecessor, from what that one gave before it.
pub fn meet(mut give: impl FnMut() -> Result<Vec<u8>>) -> Result<Option<Vec<u8>>> {
    current()?.meet(&mut give)
}
/// After the last checkpoint, which the worker that [`writes_files`] has saved: the others wait until it is
/// there, or until its writer is lost and this worker has to save. Under all-reduce, lost workers that are
/// being started again are let in with the bytes that `give` makes, as [`meet`] does.
pub fn finish(mut give: impl FnMut() -> Result<Vec<u8>>) -> Result<()> {
    current()?.finish(&mut give)
}
/// Runs a function that writes a checkpoint: it may take its time.
pub fn saving<T>(f: impl FnOnce() -> T) -> T {
    struct Done(Option<Arc<dyn Job>>);
    impl Drop for Done {
        fn drop(&mut self) {
            self.0.iter().for_each(|j| j.set_saving(false));
        }
    }
    let job = current().ok();
    job.iter().for_each(|j| j.set_saving(true));
    let _done = Done(job);
    f()
}
/// Makes the servers write a snapshot of the store, as this worker's step sees it, without waiting.
pub(crate) fn save(to: impl Fn(u32) -> String) -> Result<Saving> {
    current()?.save(&to)
}
/// Waits until they have; answers where.
pub(crate) fn wait_for(saving: Saving) -> Result<Vec<String>> {
    saving()
}

/// The key of the next draw for a tensor like `x`. Where `x` has a row for each of this worker's rows
/// of the batch, the draw is that of these rows in a draw for the whole batch: workers draw together
/// what one process draws.
#[track_caller]
pub fn next_key(x: &Tensor) -> Tensor {
    let key = generator::next_key();
    let rows = x.shape().ok().and_then(|s| s.first().copied());
    let first = rows.and_then(|rows| current().ok()?.first_row(rows));
    first.map_or(key.clone(), |first| Tensor::concat(&[key, first], 0))
}

/// A number that a variable of the environment may set.
pub fn setting<T: std::str::FromStr>(name: &str, otherwise: T) -> Result<T> {
    let Ok(text) = std::env::var(name) else { return Ok(otherwise) };
    text.parse().map_err(|_| Error::value(format!("{name} must be a number, not {text:?}")))
}
