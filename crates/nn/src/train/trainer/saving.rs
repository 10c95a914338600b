//! When a trainer saves.

use super::Trainer;
use crate::parallel;
use std::path::PathBuf;
use tensor::Result;

impl Trainer<'_> {
    pub(super) fn save_if_due(&mut self, score: Option<f64>) -> Result<()> {
        let step = self.state.step;
        if let Some((owed, every)) = &self.owed
            && step.is_multiple_of(*every)
        {
            owed.keep(step)?;
        }
        let Some((folder, every)) = &self.checkpoints else { return Ok(()) };
        if !parallel::writes_files()? {
            return Ok(());
        }
        let is_best = folder.keeps_best() && self.state.best.is_some_and(|(_, at)| at == step);
        // The last step is saved here too: only here its score is known.
        if !step.is_multiple_of(*every) && !is_best && step < self.steps {
            return Ok(());
        }
        self.save(score, step >= self.steps)
    }

    fn save(&mut self, score: Option<f64>, is_last: bool) -> Result<()> {
        let (mut rest, state) = (self.beside(), self.variables());
        rest.score = score;
        let Some((folder, _)) = &mut self.checkpoints else { return Ok(()) };
        let step = rest.step;
        // Another worker may have ended before this one came to write files.
        if parallel::rank()? > 0 && folder.steps()?.iter().any(|s| *s >= step) {
            return Ok(());
        }
        if let Some(path) = folder.save_run(rest, &state, self.optimizer, is_last)? {
            self.state.saved = Some(step);
            self.report.saving(step, &path);
        }
        self.tell_given_up();
        Ok(())
    }

    fn tell_given_up(&mut self) {
        let Some((folder, _)) = &mut self.checkpoints else { return };
        for e in folder.given_up() {
            self.report.warn(&format!("a checkpoint was given up: {}", e.message));
        }
    }

    /// Saves what is not saved yet and waits until it is on disk: a run that could not write its last
    /// checkpoint has failed.
    pub(super) fn save_last(&mut self) -> Result<Option<PathBuf>> {
        if self.checkpoints.is_some() && self.state.saved != Some(self.state.step) && parallel::writes_files()? {
            self.save(None, true)?;
        }
        let Some((folder, _)) = &mut self.checkpoints else { return Ok(None) };
        folder.wait()?;
        let path = self.state.saved.map(|step| folder.path(step));
        self.tell_given_up();
        Ok(path)
    }
}
