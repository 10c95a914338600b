//! `Bar`: a training run in the terminal.

use indicatif::{ProgressBar, ProgressStyle};
use nn::train::{Outcome, Progress, Report, Stop};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a line is written where there is no terminal to draw a bar in.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows a run in the terminal: a bar with loss, speed and time left, and a line for each
/// evaluation. Where the output is no terminal, a line every ten seconds takes the bar's place.
///
/// ```
/// # use data::{Digits, Loader};
/// # use nn::{Linear, optim::{Optimizer, Sgd}, train::Trainer};
/// # use talweg_quickstart::{Bar, interrupt};
/// # let model = Linear::new(784, 10)?;
/// # let optimizer = Optimizer::new(Sgd::default(), &model)?;
/// # let mut batches = Loader::builder(Digits::new(0, 64)).build()?;
/// let trainer = Trainer::new(&model, &optimizer, &mut batches).report(Bar::new()).stop_when(interrupt()?);
/// # let _ = trainer;
/// # Ok::<(), tensor::Error>(())
/// ```
pub struct Bar {
    bar: ProgressBar,
    said: Instant,
}

impl Default for Bar {
    fn default() -> Bar {
        Bar::new()
    }
}

impl Bar {
    /// Shown when the run begins.
    pub fn new() -> Bar {
        Bar { bar: ProgressBar::hidden(), said: Instant::now() }
    }
    fn line(&self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
    }
}

impl Report for Bar {
    fn begun(&mut self, step: u64, steps: u64) {
        self.bar = ProgressBar::new(steps).with_position(step);
        self.said = Instant::now();
        // The template is fixed, and there is a default if it were wrong.
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len}  {msg}") {
            self.bar.set_style(style);
        }
        if step > 0 {
            self.line(&format!("going on after step {step} of {steps}"));
        }
    }
    fn step(&mut self, p: &Progress) {
        let (speed, left) = (p.samples_per_second, p.left.as_secs());
        let text = format!("loss {:.3}  {speed:.0}/s  {}:{:02} left", p.loss, left / 60, left % 60);
        if !self.bar.is_hidden() {
            self.bar.set_message(text);
            self.bar.set_position(p.step);
        } else if self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            self.line(&format!("step {:5} of {}  {text}", p.step, p.steps));
        }
    }
    fn evaluated(&mut self, p: &Progress, metrics: &[(String, f64)]) {
        let metrics: String = metrics.iter().map(|(name, value)| format!("  {name} {value:.4}")).collect();
        self.line(&format!("step {:5}  {:5.0} s  loss {:.4}{metrics}", p.step, p.elapsed.as_secs_f64(), p.loss));
    }
    fn saving(&mut self, step: u64, path: &Path) {
        self.bar.set_message(format!("saving step {step} to {}", path.display()));
    }
    fn warn(&mut self, what: &str) {
        self.line(&format!("warning: {what}"));
    }
    fn ended(&mut self, outcome: &Outcome) {
        self.bar.finish_and_clear();
        let path = outcome.checkpoint.as_ref().map(|p| format!("saved as {}", p.display()));
        let kept = path.unwrap_or_else(|| "nothing was saved".to_string());
        match outcome.stop {
            Stop::Done => {}
            Stop::Early => self.line(&format!("stopped early after step {}; {kept}", outcome.step)),
            Stop::Interrupted => self.line(&format!("interrupted after step {}; {kept}", outcome.step)),
        }
    }
}
