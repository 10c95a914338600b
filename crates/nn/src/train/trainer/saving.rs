//! When a trainer saves, and who writes: this process, or with a large parameter store its servers.

use super::{Checkpoint, Trainer};
use crate::parallel;
use std::path::{Path, PathBuf};
use tensor::{Result, Variable};

/// Bytes of parameters from which servers of the parameter store write checkpoints themselves;
/// `TALWEG_PARTS` says another number.
const PARTS_MIN: usize = 32 << 20;

fn parts_min() -> usize {
    std::env::var("TALWEG_PARTS").ok().and_then(|n| n.parse().ok()).unwrap_or(PARTS_MIN)
}

impl Trainer<'_> {
    pub(super) fn save_if_due(&mut self, score: Option<f64>) -> Result<()> {
        if self.shelf.as_ref().is_some_and(|(_, every)| self.state.step.is_multiple_of(*every)) {
            self.keep_owed()?;
        }
        let Some((folder, every)) = &self.checkpoints else { return Ok(()) };
        let step = self.state.step;
        let is_best = folder.keeps_best() && self.state.best.is_some_and(|(_, at)| at == step);
        // The last step is saved here too: only here its score is known.
        if !step.is_multiple_of(*every) && !is_best && step < self.steps {
            return Ok(());
        }
        if step < self.steps && parallel::has_store()? && parallel::stored_bytes()? >= parts_min() {
            return self.save_in_parts(score);
        }
        self.optimizer.fetch()?;
        let mut checkpoint = self.checkpoint()?;
        checkpoint.score = score;
        self.save(checkpoint)
    }

    /// Every worker keeps what packing has left out of its own gradients.
    pub(super) fn keep_owed(&self) -> Result<()> {
        let Some((shelf, _)) = &self.shelf else { return Ok(()) };
        match parallel::owed()? {
            Some(bytes) => shelf.put(self.state.step, parallel::rank()?, &bytes),
            None => Ok(()),
        }
    }
    /// Takes up what was kept with the checkpoint that this run goes on with. A worker that had not
    /// come that far, or that there was none of, begins with nothing left out.
    pub(super) fn take_owed(&mut self) -> Result<()> {
        let Some((folder, every)) = &self.checkpoints else { return Ok(()) };
        if parallel::owed()?.is_none() {
            return Ok(());
        }
        let shelf = folder.shelf();
        if self.state.step > 0
            && let Some(bytes) = shelf.get(self.state.step, parallel::rank()?)?
        {
            parallel::take_owed(&bytes)?;
        }
        self.shelf = Some((shelf, *every));
        Ok(())
    }

    /// Lets the servers of the parameter store write what they hold; this worker adds the rest when
    /// they are done. Training goes on meanwhile.
    fn save_in_parts(&mut self, score: Option<f64>) -> Result<()> {
        let Some((folder, _)) = &mut self.checkpoints else { return Ok(()) };
        folder.wait()?;
        let step = self.state.step;
        let saving = match parallel::save(folder.part(step)?) {
            Ok(saving) => saving,
            // A server was lost at this very moment: the next checkpoint will do.
            Err(e) => {
                self.report.warn(&format!("no checkpoint was taken at step {step}: {}", e.message));
                return Ok(());
            }
        };
        let mut checkpoint = self.checkpoint()?;
        checkpoint.score = score;
        let stored = self.optimizer.stored();
        let places = |prefix: &str, state: Vec<(String, Variable)>| {
            let all = state.into_iter().filter_map(|(n, v)| Some((format!("{prefix}.{n}"), stored(&v)?)));
            all.collect::<Vec<_>>()
        };
        checkpoint.stored.extend(places("model", self.model.state()));
        checkpoint.stored.extend(places("optimizer", self.optimizer.state()));
        checkpoint.tensors.retain(|name, _| !checkpoint.stored.contains_key(name));
        let Some((folder, _)) = &mut self.checkpoints else { return Ok(()) };
        let path = folder.save_after(checkpoint, move |c| {
            let written = parallel::wait_for(saving)?;
            let name = |p: &String| Some(Path::new(p).file_name()?.to_str()?.to_string());
            c.parts = written.iter().filter_map(name).collect();
            Ok(())
        })?;
        self.saved(step, &path);
        Ok(())
    }

    pub(super) fn save(&mut self, checkpoint: Checkpoint) -> Result<()> {
        let Some((folder, _)) = &mut self.checkpoints else { return Ok(()) };
        let step = checkpoint.step;
        let path = folder.save_later(checkpoint)?;
        self.saved(step, &path);
        Ok(())
    }

    fn saved(&mut self, step: u64, path: &Path) {
        self.state.saved = Some(step);
        self.report.saving(step, path);
        self.tell_given_up();
    }

    fn tell_given_up(&mut self) {
        let Some((folder, _)) = &mut self.checkpoints else { return };
        for e in folder.given_up() {
            self.report.warn(&format!("a checkpoint was given up: {}", e.message));
        }
    }

    /// Saves what is not saved yet and waits until it is on disk.
    pub(super) fn save_last(&mut self) -> Result<Option<PathBuf>> {
        if self.checkpoints.is_some() && self.state.saved != Some(self.state.step) {
            self.optimizer.fetch()?;
            self.save(self.checkpoint()?)?;
        }
        let Some((folder, _)) = &mut self.checkpoints else { return Ok(None) };
        folder.wait()?;
        let path = self.state.saved.map(|step| folder.path(step));
        self.tell_given_up();
        Ok(path)
    }
}
