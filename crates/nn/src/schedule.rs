//! Learning rates that change with the step: pure functions of it, so that a resumed run needs to
//! know nothing but its step. Only [`Plateau`] looks at how training goes and has a state.

use crate::optim::settings::described;
use crate::optim::{Described, Optimizer};
use std::f64::consts::PI;
use tensor::Result;

/// A learning rate for each step, counted from 0. Any function of the step is one.
///
/// ```
/// # use talweg_nn::optim::{Optimizer, Sgd};
/// # use talweg_nn::schedule::{Cosine, Schedule, Warmup};
/// # use tensor::{Tensor, Variable};
/// # let w = Variable::new("w", Tensor::from([3.0f32])).unwrap();
/// # let optimizer = Optimizer::new(Sgd::default(), [w].as_slice()).unwrap();
/// let schedule = Warmup { steps: 10, start: 0.0, then: Cosine { lr: 0.1, lr_min: 0.0, steps: 90 } };
/// schedule.apply(&optimizer, 5).unwrap();
/// assert!((optimizer.lr().unwrap() - 0.05).abs() < 1e-8);
/// assert_eq!(schedule.lr(10), 0.1);
/// let own = |step: usize| 0.1 / (1.0 + step as f64).sqrt();
/// assert_eq!(own.lr(3), 0.05);
/// ```
pub trait Schedule {
    /// The learning rate of a step.
    fn lr(&self, step: usize) -> f64;
    /// Sets an optimizer's learning rate to that of this step.
    fn apply(&self, optimizer: &Optimizer, step: usize) -> Result<()> {
        optimizer.set_lr(self.lr(step))
    }
}
impl<F: Fn(usize) -> f64> Schedule for F {
    fn lr(&self, step: usize) -> f64 {
        self(step)
    }
}

/// Always the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The learning rate.
    pub lr: f64,
}
impl Schedule for Constant {
    fn lr(&self, _: usize) -> f64 {
        self.lr
    }
}

/// The schedules that PyTorch has, with the defaults of their settings.
pub static ROWS: &[Described] =
    &[StepDecay::DESCRIBED, Exponential::DESCRIBED, Cosine::DESCRIBED, OneCycle::DESCRIBED, Plateau::DESCRIBED];

described! {
    /// Multiplied by `gamma` after every `every` steps.
    StepDecay = "StepLR" {
        /// The first learning rate.
        lr: f64;
        /// Steps between two changes; 0 counts as 1.
        every: usize;
        ..
        /// Factor of each change.
        gamma: f64 = 0.1;
    }
}
impl Schedule for StepDecay {
    fn lr(&self, step: usize) -> f64 {
        self.lr * self.gamma.powf((step / self.every.max(1)) as f64)
    }
}

described! {
    /// Multiplied by `gamma` at every step.
    Exponential = "ExponentialLR" {
        /// The first learning rate.
        lr: f64;
        /// Factor of each step.
        gamma: f64;
        ..
    }
}
impl Schedule for Exponential {
    fn lr(&self, step: usize) -> f64 {
        self.lr * self.gamma.powf(step as f64)
    }
}

described! {
    /// Half a cosine from `lr` down to `lr_min` (Loshchilov and Hutter 2017), which then stays.
    Cosine = "CosineAnnealingLR" {
        /// The first learning rate.
        lr: f64;
        /// Steps until the last one is reached.
        steps: usize;
        ..
        /// The last learning rate.
        lr_min as "eta_min": f64 = 0.0;
    }
}
impl Schedule for Cosine {
    fn lr(&self, step: usize) -> f64 {
        half_cosine(self.lr, self.lr_min, portion(step as f64, self.steps as f64))
    }
}
/// From `a` (at 0) to `b` (at 1) along half a cosine.
fn half_cosine(a: f64, b: f64, at: f64) -> f64 {
    b + (a - b) * (1.0 + (PI * at).cos()) / 2.0
}
/// The fraction of the schedule that is done; 1 after its end.
fn portion(step: f64, steps: f64) -> f64 {
    if step >= steps { 1.0 } else { step / steps }
}

described! {
    /// Up to `lr_max` and down to almost nothing in one run (Smith and Topin 2018), along half cosines.
    OneCycle = "OneCycleLR" {
        /// The largest learning rate.
        lr_max: f64;
        /// Steps of the whole run.
        steps: usize;
        ..
        /// Portion of the run that goes up.
        rise as "pct_start": f64 = 0.3;
        /// The largest learning rate divided by the first.
        div as "div_factor": f64 = 25.0;
        /// The first learning rate divided by the last.
        final_div as "final_div_factor": f64 = 1e4;
    }
}
impl Schedule for OneCycle {
    fn lr(&self, step: usize) -> f64 {
        let (step, last) = (step as f64, self.steps as f64 - 1.0);
        let top = self.rise * self.steps as f64 - 1.0;
        let first = self.lr_max / self.div;
        if step <= top {
            half_cosine(first, self.lr_max, portion(step, top))
        } else {
            half_cosine(self.lr_max, first / self.final_div, portion(step - top, last - top))
        }
    }
}

/// Linear warmup to the first learning rate of another schedule, which then begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Warmup<S> {
    /// Steps of the rise.
    pub steps: usize,
    /// Portion of the first learning rate to start with.
    pub start: f64,
    /// What follows.
    pub then: S,
}
impl<S: Schedule> Schedule for Warmup<S> {
    fn lr(&self, step: usize) -> f64 {
        match step.checked_sub(self.steps) {
            Some(step) => self.then.lr(step),
            None => self.then.lr(0) * (self.start + (1.0 - self.start) * step as f64 / self.steps as f64),
        }
    }
}

described! {
    /// Smaller by `factor` whenever a figure has not improved for a while.
    ///
    /// ```
    /// # use talweg_nn::schedule::Plateau;
    /// let mut plateau = Plateau { patience: 1, ..Plateau::new(0.1) };
    /// let rates: Vec<f64> = [1.0, 0.9, 0.9, 0.9, 0.9].iter().map(|&loss| plateau.observe(loss)).collect();
    /// assert_eq!(rates, [0.1, 0.1, 0.1, 0.1 * 0.1, 0.1 * 0.1]);
    /// ```
    Plateau = "ReduceLROnPlateau" {
        /// The learning rate now.
        lr: f64;
        ..
        /// Factor of each change.
        factor: f64 = 0.1;
        /// Figures without improvement that are put up with.
        patience: usize = 10;
        /// Portion of the best figure that counts as improvement.
        threshold: f64 = 1e-4;
        /// Figures after a change that do not count.
        cooldown: usize = 0;
        /// The smallest learning rate.
        lr_min as "min_lr": f64 = 0.0;
        ..
        /// Larger figures are better: an accuracy instead of a loss.
        maximize: bool = false;
        /// The best figure so far.
        best: Option<f64> = None;
        /// Figures since then without improvement.
        bad: usize = 0;
        /// Figures left that do not count.
        cooling: usize = 0;
    }
}
impl Plateau {
    /// Takes the newest value of the metric and returns the next learning rate. NaN is no improvement.
    pub fn observe(&mut self, figure: f64) -> f64 {
        let is_better = match self.best {
            None => !figure.is_nan(),
            Some(best) if self.maximize => figure > best * (1.0 + self.threshold),
            Some(best) => figure < best * (1.0 - self.threshold),
        };
        if is_better {
            (self.best, self.bad) = (Some(figure), 0);
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            (self.cooling, self.bad) = (self.cooling - 1, 0);
        }
        if self.bad > self.patience {
            let next = (self.lr * self.factor).max(self.lr_min);
            // PyTorch does not bother with smaller changes.
            if self.lr - next > 1e-8 {
                self.lr = next;
            }
            (self.cooling, self.bad) = (self.cooldown, 0);
        }
        self.lr
    }
}
