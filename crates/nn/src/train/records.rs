//! The figures of a run: a journal of JSON lines and event files for TensorBoard.

use data::events::Events;
use data::journal::Journal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tensor::Result;

/// How often events are handed to the operating system, so that TensorBoard sees them.
const FLUSH_EVERY: Duration = Duration::from_secs(2);

/// Where a run writes its figures.
#[derive(Debug)]
pub struct Records {
    journal: Option<Journal>,
    events: Option<Events>,
    flushed: Instant,
}

impl Records {
    /// Continues records after a step, and truncates later ones; starts new ones at step 0.
    pub fn open(journal: Option<PathBuf>, events: Option<PathBuf>, step: u64) -> Result<Records> {
        let journal = journal.map(|path| if step == 0 { Journal::create(path) } else { Journal::resume(path, step) });
        let events = events.map(|dir| if step == 0 { Events::create(dir) } else { Events::resume(dir, step) });
        Ok(Records { journal: journal.transpose()?, events: events.transpose()?, flushed: Instant::now() })
    }
    /// Adds the figures of a step.
    pub fn write(&mut self, step: u64, figures: &[(String, f64)]) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.write(step, &figures.iter().map(|(n, x)| (n.as_str(), *x)).collect::<Vec<_>>())?;
        }
        if let Some(events) = &mut self.events {
            figures.iter().try_for_each(|(n, x)| events.scalar(n, step, *x as f32))?;
            if self.flushed.elapsed() >= FLUSH_EVERY {
                events.flush()?;
                self.flushed = Instant::now();
            }
        }
        Ok(())
    }
    /// Hands everything to the operating system.
    pub fn flush(&mut self) -> Result<()> {
        self.journal.as_ref().map_or(Ok(()), Journal::sync)?;
        Ok(self.events.as_mut().map_or(Ok(()), Events::flush)?)
    }
}
