//! Who writes a checkpoint: this process, or with a large parameter store its servers; and what
//! every worker keeps with it. The trainers of Rust and of Python both save this way.

use super::checkpoint::Checkpoint;
use super::folder::{Checkpoints, Shelf};
use crate::optim::Optimizer;
use crate::parallel;
use std::path::{Path, PathBuf};
use tensor::{Error, Result, Variable};

/// Bytes of parameters from which servers of the parameter store write checkpoints themselves;
/// `TALWEG_PARTS` says another number.
const PARTS_MIN: usize = 32 << 20;

impl Checkpoints {
    /// Saves the state of a run in the background: `rest` and the variables of `state`, which have
    /// their whole paths. If the optimizer's parameters live in a large parameter store, the servers
    /// write what they hold and this process adds the rest when they have; otherwise, and after the
    /// last step of a run, they are brought here first.
    ///
    /// `None` if a server was lost at this very moment: the next checkpoint will do, and
    /// [`Checkpoints::given_up`] says why.
    pub fn save_run(
        &mut self,
        rest: Checkpoint,
        state: &[(String, Variable)],
        optimizer: &Optimizer,
        is_last: bool,
    ) -> Result<Option<PathBuf>> {
        if !is_last
            && parallel::has_store()?
            && parallel::stored_bytes()? >= parallel::setting("TALWEG_PARTS", PARTS_MIN)?
        {
            return self.save_in_parts(rest, state, optimizer);
        }
        optimizer.fetch()?;
        self.save_later(rest.with("", state)?).map(Some)
    }

    /// Makes the servers of the parameter store write a snapshot; training goes on meanwhile.
    fn save_in_parts(
        &mut self,
        rest: Checkpoint,
        state: &[(String, Variable)],
        optimizer: &Optimizer,
    ) -> Result<Option<PathBuf>> {
        self.wait()?;
        let saving = match parallel::save(self.part(rest.step)?) {
            Ok(saving) => saving,
            Err(e) => {
                let what = format!("a server was lost at step {}: {}", rest.step, e.message);
                self.give_up(Error { message: what, ..e });
                return Ok(None);
            }
        };
        let (stored, mut here, mut there) = (optimizer.stored(), Vec::new(), Vec::new());
        for (name, v) in state {
            match stored(v) {
                Some(place) => there.push((name.clone(), place)),
                None => here.push((name.clone(), v.clone())),
            }
        }
        let mut checkpoint = rest.with("", &here)?;
        checkpoint.stored.extend(there);
        let path = self.save_after(checkpoint, move |c| {
            let written = parallel::wait_for(saving)?;
            let name = |p: &String| Some(Path::new(p).file_name()?.to_str()?.to_string());
            c.parts = written.iter().filter_map(name).collect();
            Ok(())
        })?;
        Ok(Some(path))
    }

    /// Restores the residual of this worker's compressed gradients from when the checkpoint of a step
    /// was taken, and answers where it is kept from now on; `None` if nothing is compressed. A worker
    /// that had not come that far, or that there was none of, begins with nothing left out.
    pub fn residuals(&self, step: u64) -> Result<Option<Residuals>> {
        if parallel::owed()?.is_none() {
            return Ok(None);
        }
        let (shelf, worker) = (self.shelf(), parallel::rank()?);
        if step > 0
            && let Some(bytes) = shelf.get(step, worker)?
        {
            parallel::take_owed(&bytes)?;
        }
        Ok(Some(Residuals { shelf, worker }))
    }
}

/// Where a worker keeps the residual of its compressed gradients (`talweg launch --wire`): beside
/// the run's checkpoints, each worker in its own file.
#[derive(Clone, Debug)]
pub struct Residuals {
    shelf: Shelf,
    worker: usize,
}
impl Residuals {
    /// Keeps the current residual until the checkpoint of this step is removed.
    pub fn keep(&self, step: u64) -> Result<()> {
        match parallel::owed()? {
            Some(bytes) => self.shelf.put(step, self.worker, &bytes),
            None => Ok(()),
        }
    }
}
