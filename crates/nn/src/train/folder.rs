//! `Checkpoints`: the checkpoints of a run in one folder or bucket, by step; written in the
//! background, old ones removed, damaged ones passed over.

use super::checkpoint::Checkpoint;
use super::parts::{PART, part_name};
use crate::parallel;
use data::Place;
use ir::Reserve;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tensor::{Error, ErrorKind, Result, current_mesh};

/// Names are `step-NUMBER.safetensors`, with enough zeros to sort.
const BEGIN: &str = "step-";
const END: &str = ".safetensors";
/// The residual of a worker's compressed gradients is beside it: `step-NUMBER.owed-WORKER`.
const OWED: &str = ".owed-";

/// Whether a metric is minimized or maximized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// A loss.
    #[default]
    Min,
    /// An accuracy.
    Max,
}
impl Goal {
    /// Whether `a` is better than `b`; NaN is better than nothing.
    pub fn is_better(self, a: f64, b: f64) -> bool {
        match self {
            Goal::Min => a < b || (b.is_nan() && !a.is_nan()),
            Goal::Max => a > b || (b.is_nan() && !a.is_nan()),
        }
    }
}

/// The newest checkpoint that is whole.
#[derive(Debug)]
pub struct Loaded {
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// Its file.
    pub path: PathBuf,
    /// Why newer ones were passed over.
    pub refused: Vec<Error>,
}

/// A folder of checkpoints.
///
/// ```
/// # use talweg_nn::train::{Checkpoint, Checkpoints};
/// # let dir = tempfile::tempdir().unwrap();
/// let mut kept = Checkpoints::open(dir.path()).unwrap().keep_last(2);
/// for step in [10, 20, 30] {
///     kept.save_later(Checkpoint::new(step)).unwrap(); // training goes on meanwhile
/// }
/// kept.wait().unwrap();
/// assert_eq!(kept.steps().unwrap(), [20, 30]);
/// assert_eq!(kept.latest().unwrap().unwrap().checkpoint.step, 30);
/// ```
#[derive(Debug)]
pub struct Checkpoints {
    policy: Policy,
    /// Whether this process has removed what others left half-written.
    is_clean: bool,
    writing: Option<JoinHandle<Result<Option<Error>>>>,
    /// Memory for the steps that follow while something is written.
    reserve: Option<Arc<Reserve>>,
    given_up: Vec<Error>,
}

/// Where, and which ones stay.
#[derive(Clone, Debug)]
struct Policy {
    place: Place,
    last: usize,
    best: usize,
    goal: Goal,
}

impl Checkpoints {
    /// A folder, created if it is missing, or what a URL names: `s3://BUCKET/PREFIX` with the feature
    /// `s3`. Nothing in it changes before the first save, which removes what killed processes left
    /// half-written. Three checkpoints are kept unless said otherwise.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Checkpoints> {
        let place = Place::open(dir)?;
        Ok(Checkpoints {
            policy: Policy { place, last: 3, best: 0, goal: Goal::Min },
            is_clean: false,
            writing: None,
            reserve: None,
            given_up: Vec::new(),
        })
    }
    /// Keeps this many of the newest; at least one.
    #[must_use]
    pub fn keep_last(mut self, count: usize) -> Checkpoints {
        self.policy.last = count.max(1);
        self
    }
    /// Keeps, besides, this many of those with the best score.
    #[must_use]
    pub fn keep_best(mut self, count: usize, goal: Goal) -> Checkpoints {
        (self.policy.best, self.policy.goal) = (count, goal);
        self
    }
    /// Whether the best are kept.
    pub fn keeps_best(&self) -> bool {
        self.policy.best > 0
    }
    /// The folder, or the URL.
    pub fn dir(&self) -> &Path {
        self.policy.place.at()
    }
    /// The file of a step.
    pub fn path(&self, step: u64) -> PathBuf {
        self.policy.place.path(&name(step))
    }

    /// Writes a checkpoint and removes those that need not be kept.
    pub fn save(&mut self, checkpoint: &Checkpoint) -> Result<PathBuf> {
        self.wait()?;
        self.clean()?;
        self.policy.save(checkpoint)?;
        Ok(self.path(checkpoint.step))
    }

    /// As [`Checkpoints::save`], but in the background, except on a mesh. If the save before this one failed, its
    /// error comes now, and this one is not begun.
    pub fn save_later(&mut self, checkpoint: Checkpoint) -> Result<PathBuf> {
        self.save_after(checkpoint, |_| Ok(()))
    }

    /// As [`Checkpoints::save_later`], after something else is there that belongs to it. If that
    /// fails, the checkpoint is abandoned, and [`Checkpoints::given_up`] says why.
    pub(crate) fn save_after(
        &mut self,
        mut checkpoint: Checkpoint,
        before: impl FnOnce(&mut Checkpoint) -> Result<()> + Send + 'static,
    ) -> Result<PathBuf> {
        self.wait()?;
        self.clean()?;
        let path = self.path(checkpoint.step);
        if current_mesh()?.is_some() {
            // Ranks meet when they have written their blocks, which they do in the order of the program.
            before(&mut checkpoint)?;
            return self.policy.save(&checkpoint).map(|()| path);
        }
        let policy = self.policy.clone();
        let writing = data::background("checkpoint", move || match before(&mut checkpoint) {
            Ok(()) => policy.save(&checkpoint).map(|()| None),
            Err(e) => Ok(Some(e)),
        });
        self.writing = Some(writing.map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?);
        Ok(path)
    }

    fn clean(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_clean, true) {
            self.policy.place.clean()?;
        }
        Ok(())
    }

    /// Holds memory ready for checkpoints like this one, so that not even the step after the first
    /// has to wait for memory: it cannot change in place what is being written. It is taken from
    /// the system in the background and kept as long as this lives; without it the first of these
    /// steps takes it, and some of it each time beyond a gigabyte.
    pub fn prepare(&mut self, like: &Checkpoint) -> Result<()> {
        let reserve = Arc::new(Reserve::new(like.tensors.values().map(|l| l.bytes().len())));
        self.reserve = Some(reserve.clone());
        // Once, and it is to be there before the first checkpoint: this thread does not step back.
        let thread = std::thread::Builder::new().name("checkpoint memory".into());
        let filling = thread.spawn(move || reserve.fill());
        filling.map(drop).map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))
    }

    /// Whether something is being written in the background.
    pub fn is_writing(&self) -> bool {
        self.writing.as_ref().is_some_and(|w| !w.is_finished())
    }

    /// Says of a checkpoint that there is none.
    pub(super) fn give_up(&mut self, why: Error) {
        self.given_up.push(why);
    }
    /// Why checkpoints were abandoned since the last call.
    pub fn given_up(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.given_up)
    }

    /// The URL or absolute path of a part of a step's checkpoint that another process writes.
    pub(crate) fn part(&self, step: u64) -> Result<impl Fn(u32) -> String + use<>> {
        let place = &self.policy.place;
        let at = if place.is_folder() {
            std::path::absolute(place.at()).map_err(|e| data::Error::io("find", place.at(), e))?
        } else {
            place.at().to_path_buf()
        };
        let name = format!("{BEGIN}{step:010}");
        Ok(move |partition| at.join(part_name(&name, partition)).display().to_string())
    }

    /// Where workers keep their own parts of a step's checkpoint.
    pub(crate) fn shelf(&self) -> Shelf {
        Shelf(self.policy.place.clone())
    }

    /// Waits until what was begun is on disk; returns its error if it failed.
    pub fn wait(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let panicked = || Error::bug("the thread that writes checkpoints panicked");
        self.given_up.extend(parallel::saving(|| writing.join()).unwrap_or_else(|_| Err(panicked()))?);
        Ok(())
    }

    /// The steps there is a file of, in order; whether the files are whole is seen when loading.
    pub fn steps(&self) -> Result<Vec<u64>> {
        self.policy.steps()
    }

    /// The first complete checkpoint of a later step: a run that begins before it would be overtaken
    /// by it at the next resume. The launcher is told of the one of this step, from which the job can begin again.
    pub fn later(&mut self, step: u64) -> Result<Option<PathBuf>> {
        self.wait()?;
        let place = &self.policy.place;
        let steps = self.steps()?;
        if steps.contains(&step) {
            parallel::saved(step, &place.path(&name(step)))?;
        }
        let mut later = steps.into_iter().filter(|s| *s > step).map(name);
        Ok(later.find(|name| place.verify(name).is_ok()).map(|name| place.path(&name)))
    }

    /// The newest checkpoint that is whole, or `None` in an empty folder.
    ///
    /// # Errors
    /// If there are files, but none is whole; the error names them all.
    pub fn latest(&mut self) -> Result<Option<Loaded>> {
        // A failed write leaves the older ones, and those are what is asked for here.
        let mut refused: Vec<Error> = self.wait().err().into_iter().collect();
        let steps = self.steps()?;
        for &step in steps.iter().rev() {
            let path = self.path(step);
            match Checkpoint::load_from(&self.policy.place, &name(step)) {
                Ok(checkpoint) => return Ok(Some(Loaded { checkpoint, path, refused })),
                Err(e) => refused.push(e),
            }
        }
        if steps.is_empty() {
            return Ok(None);
        }
        let reasons: Vec<String> = refused.iter().map(|e| e.message.clone()).collect();
        let e = format!("{}: no checkpoint is whole: {}", self.dir().display(), reasons.join("; "));
        Err(Error::format(e))
    }

    /// The step with the best score, among those that have one.
    pub fn best(&mut self) -> Result<Option<u64>> {
        self.wait()?;
        Ok(self.policy.ranked(&self.steps()?).first().copied())
    }
}

/// The residuals of a worker's compressed gradients, by step.
#[derive(Clone, Debug)]
pub(crate) struct Shelf(Place);
impl Shelf {
    /// Keeps it until the checkpoint of the step goes.
    pub fn put(&self, step: u64, worker: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.0.write(&owed_name(step, worker), &mut |out| out.write_all(bytes))?)
    }
    /// What was kept, if the worker had come that far.
    pub fn get(&self, step: u64, worker: usize) -> Result<Option<Vec<u8>>> {
        let name = owed_name(step, worker);
        if !self.0.names()?.contains(&name) {
            return Ok(None);
        }
        Ok(Some(self.0.read(&name)?))
    }
}
fn owed_name(step: u64, worker: usize) -> String {
    format!("{BEGIN}{step:010}{OWED}{worker}")
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        // `wait` reports a failure.
        let _ = self.wait();
    }
}

fn name(step: u64) -> String {
    format!("{BEGIN}{step:010}{END}")
}

impl Policy {
    fn save(&self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.save_to(&self.place, &name(checkpoint.step))?;
        let Some(mesh) = current_mesh()? else { return self.saved(checkpoint) };
        let done = if mesh.rank == 0 { self.saved(checkpoint) } else { Ok(()) };
        // All ranks see the same files.
        mesh.all(done.is_ok())?;
        done
    }

    /// Tells the job, and removes what need not be kept.
    fn saved(&self, checkpoint: &Checkpoint) -> Result<()> {
        parallel::saved(checkpoint.step, &self.place.path(&name(checkpoint.step)))?;
        // Later steps belong to a run that was given up or damaged; they are not ours to remove.
        let steps: Vec<u64> = self.steps()?.into_iter().filter(|s| *s <= checkpoint.step).collect();
        let mut keep: Vec<u64> = steps.iter().rev().take(self.last).copied().collect();
        if self.best > 0 {
            keep.extend(self.ranked(&steps).into_iter().take(self.best));
        }
        // A checkpoint's own file goes before its parts: without them it is none. Parts of one that
        // was never finished go as well.
        let of = |n: &String| n.strip_prefix(BEGIN)?.split('.').next()?.parse::<u64>().ok();
        let is_over = |n: &String| of(n).is_some_and(|s| s <= checkpoint.step && !keep.contains(&s));
        let mut over: Vec<String> = self.place.names()?.into_iter().filter(is_over).collect();
        over.retain(|n| n.ends_with(END) || n.contains(OWED));
        over.sort_by_key(|n| (of(n), n.contains(PART)));
        over.iter().try_for_each(|n| Ok(self.place.remove(n)?))
    }

    fn steps(&self) -> Result<Vec<u64>> {
        let names = self.place.names()?;
        let number = |n: &String| n.strip_prefix(BEGIN)?.strip_suffix(END)?.parse::<u64>().ok();
        let mut steps: Vec<u64> = names.iter().filter_map(number).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// Steps with a score, the best first; of equals the newest.
    fn ranked(&self, steps: &[u64]) -> Vec<u64> {
        let scored = steps.iter().rev().filter_map(|s| Some((*s, score(&self.place, &name(*s))?)));
        let mut scored: Vec<(u64, f64)> = scored.filter(|(_, x)| !x.is_nan()).collect();
        scored.sort_by(|a, b| match self.goal {
            Goal::Min => a.1.total_cmp(&b.1),
            Goal::Max => b.1.total_cmp(&a.1),
        });
        scored.into_iter().map(|(s, _)| s).collect()
    }
}

/// The score in a file's header; the tensors are not read.
fn score(place: &Place, name: &str) -> Option<f64> {
    let size = place.start(name, 8).ok()?;
    let size = u64::from_le_bytes(size.try_into().ok()?);
    let start = place.start(name, size.checked_add(8)?).ok()?;
    let header: serde_json::Value = serde_json::from_slice(start.get(8..)?).ok()?;
    header.get("__metadata__")?.get("score")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(step: u64, score: f64) -> Checkpoint {
        Checkpoint { score: Some(score), ..Checkpoint::new(step) }
    }

    #[test]
    fn the_last_and_the_best_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = Checkpoints::open(dir.path()).unwrap().keep_last(1).keep_best(2, Goal::Max);
        for (step, score) in [(1, 0.5), (2, 0.9), (3, f64::NAN), (4, 0.7), (5, 0.1)] {
            kept.save(&scored(step, score)).unwrap();
        }
        kept.save(&Checkpoint::new(6)).unwrap();
        assert_eq!(kept.steps().unwrap(), [2, 4, 6]);
        assert_eq!(kept.best().unwrap(), Some(2));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 6, "three files with a sidecar each");
    }

    #[test]
    fn a_failed_save_is_told_at_the_next_call() {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = Checkpoints::open(dir.path().join("a")).unwrap();
        kept.save(&Checkpoint::new(1)).unwrap();
        std::fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        kept.save_later(Checkpoint::new(2)).unwrap();
        let e = kept.save_later(Checkpoint::new(3)).unwrap_err().to_string();
        assert!(e.contains("step-0000000002.safetensors"), "{e}");
        kept.wait().unwrap();
    }

    #[test]
    fn later_steps_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = Checkpoints::open(dir.path()).unwrap().keep_last(1);
        for step in [10, 20] {
            kept.save(&Checkpoint::new(step)).unwrap();
        }
        std::fs::write(kept.path(20), b"damaged").unwrap();
        kept.save(&Checkpoint::new(15)).unwrap();
        assert_eq!(kept.later(10).unwrap(), Some(kept.path(15)));
        assert_eq!(kept.later(15).unwrap(), None, "the later one is damaged");
        let found = kept.latest().unwrap().unwrap();
        assert_eq!((found.checkpoint.step, found.refused.len()), (15, 1));
        assert!(found.refused[0].to_string().contains("step-0000000020.safetensors"), "{}", found.refused[0]);
        kept.save(&Checkpoint::new(20)).unwrap();
        assert_eq!(kept.steps().unwrap(), [20]);
        assert!(Checkpoints::open(dir.path().join("new")).unwrap().latest().unwrap().is_none());
    }
}
