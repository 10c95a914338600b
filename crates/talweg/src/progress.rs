//! `Bar`: a training run in the terminal.

use indicatif::{ProgressBar, ProgressStyle};
use nn::train::{Outcome, Progress, Report};
use std::path::Path;

/// Shows a run in the terminal: a bar with loss, speed and time left, and a line for each
/// evaluation. Where the output is no terminal, only the lines are left.
///
/// ```
/// # use talweg::{Bar, nn::train::Trainer, prelude::*};
/// # use talweg::data::{Digits, Loader};
/// # let model = Linear::new(784, 10)?;
/// # let optimizer = Optimizer::new(Sgd::default(), &model)?;
/// # let mut batches = Loader::builder(Digits::new(0, 64)).build()?;
/// let trainer = Trainer::new(&model, &optimizer, &mut batches).report(Bar::new());
/// # let _ = trainer;
/// # Ok::<(), talweg::Error>(())
/// ```
pub struct Bar(ProgressBar);

impl Default for Bar {
    fn default() -> Bar {
        Bar::new()
    }
}

impl Bar {
    /// Shown when the run begins.
    pub fn new() -> Bar {
        Bar(ProgressBar::hidden())
    }
    fn line(&self, text: &str) {
        self.0.suspend(|| println!("{text}"));
    }
}

impl Report for Bar {
    fn begun(&mut self, step: u64, steps: u64) {
        self.0 = ProgressBar::new(steps).with_position(step);
        // The template is fixed, and there is a default if it were wrong.
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len}  {msg}") {
            self.0.set_style(style);
        }
    }
    fn step(&mut self, p: &Progress) {
        let (speed, left) = (p.samples_per_second, p.left.as_secs());
        self.0.set_message(format!("loss {:.3}  {speed:.0}/s  {}:{:02} left", p.loss, left / 60, left % 60));
        self.0.set_position(p.step);
    }
    fn evaluated(&mut self, p: &Progress, metrics: &[(String, f64)]) {
        let metrics: String = metrics.iter().map(|(name, value)| format!("  {name} {value:.4}")).collect();
        self.line(&format!("step {:5}  {:5.0} s  loss {:.4}{metrics}", p.step, p.elapsed.as_secs_f64(), p.loss));
    }
    fn saving(&mut self, step: u64, path: &Path) {
        self.0.set_message(format!("saving step {step} to {}", path.display()));
    }
    fn warn(&mut self, what: &str) {
        self.line(&format!("warning: {what}"));
    }
    fn ended(&mut self, _: &Outcome) {
        self.0.finish_and_clear();
    }
}
