//! What a run tells while it goes on, so that a command line can draw a bar or a notebook a curve.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The state of a run after a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Steps done, those before a resume included.
    pub step: u64,
    /// Steps to do in all.
    pub steps: u64,
    /// Epoch of the step, from 0.
    pub epoch: u64,
    /// The step's loss.
    pub loss: f64,
    /// Samples the step used.
    pub samples: usize,
    /// Samples in a second since this process began to train.
    pub samples_per_second: f64,
    /// Time since this process began to train.
    pub elapsed: Duration,
    /// Time left at the present speed.
    pub left: Duration,
}

/// Callbacks of a run; every method has a default.
pub trait Report {
    /// The run begins, after this many steps that were done before.
    fn begun(&mut self, _step: u64, _steps: u64) {}
    /// A step was done.
    fn step(&mut self, _progress: &Progress) {}
    /// The model was evaluated.
    fn evaluated(&mut self, _progress: &Progress, _metrics: &[(String, f64)]) {}
    /// A checkpoint was handed to the writer.
    fn saving(&mut self, _step: u64, _path: &Path) {}
    /// Something is wrong, but the run goes on: a damaged checkpoint was passed over.
    fn warn(&mut self, _what: &str) {}
    /// The run ended.
    fn ended(&mut self, _outcome: &Outcome) {}
}

/// Reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;
impl Report for Silent {}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All steps are done.
    Done,
    /// The watched metric stopped getting better.
    Early,
    /// The stop flag was set: the step was finished and saved.
    Interrupted,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Why.
    pub stop: Stop,
    /// Steps done.
    pub step: u64,
    /// Loss of the last step, if this process did one.
    pub loss: Option<f64>,
    /// Best value of the watched metric and the step it was seen at.
    pub best: Option<(f64, u64)>,
    /// The last checkpoint, if there are any.
    pub checkpoint: Option<PathBuf>,
}
