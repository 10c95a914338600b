//! What a program attaches to a value for the time when its gradient is taken: hooks that see or replace the
//! gradient, gradients that are kept of computed values, a pullback written in the host language.

use crate::{Result, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sees a gradient; what it returns takes the gradient's place.
pub type GradHook = Arc<dyn Fn(&Value) -> Result<Option<Value>> + Send + Sync>;
/// Runs when a gradient has been added to a leaf.
pub type AfterHook = Arc<dyn Fn() -> Result<()> + Send + Sync>;
/// From the gradients of a node's outputs to those of its inputs.
pub type Pullback = Arc<dyn Fn(&[Option<Value>]) -> Result<Vec<Option<Value>>> + Send + Sync>;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// What is attached to a node or a variable.
#[derive(Default)]
pub struct Watch {
    hooks: Vec<(u64, usize, GradHook)>,
    after: Vec<(u64, AfterHook)>,
    /// Outputs whose gradient is kept, with what was collected so far.
    kept: Vec<(usize, Option<Value>)>,
    /// Takes the place of the op's gradient rule.
    pub pullback: Option<Pullback>,
}

impl Watch {
    /// Adds a hook to the gradient of output `out`; returns its number.
    pub fn add_hook(&mut self, out: usize, hook: GradHook) -> u64 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.hooks.push((number, out, hook));
        number
    }
    /// Adds a hook that runs when the gradient has been collected; returns its number.
    pub fn add_after(&mut self, hook: AfterHook) -> u64 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.after.push((number, hook));
        number
    }
    /// Removes a hook of either sort.
    pub fn remove(&mut self, number: u64) {
        self.hooks.retain(|h| h.0 != number);
        self.after.retain(|h| h.0 != number);
    }
    /// The hooks of an output, in the order they were added.
    pub fn hooks(&self, out: usize) -> Vec<GradHook> {
        self.hooks.iter().filter(|h| h.1 == out).map(|h| h.2.clone()).collect()
    }
    /// The hooks that run afterwards.
    pub fn after(&self) -> Vec<AfterHook> {
        self.after.iter().map(|h| h.1.clone()).collect()
    }
    /// Keeps the gradient of an output from now on.
    pub fn keep(&mut self, out: usize) {
        if !self.keeps(out) {
            self.kept.push((out, None));
        }
    }
    /// True if the gradient of an output is kept.
    pub fn keeps(&self, out: usize) -> bool {
        self.kept.iter().any(|k| k.0 == out)
    }
    /// The gradient that was kept of an output.
    pub fn kept(&self, out: usize) -> Option<Value> {
        self.kept.iter().find(|k| k.0 == out).and_then(|k| k.1.clone())
    }
    /// Replaces the gradient that is kept of an output.
    pub fn set_kept(&mut self, out: usize, grad: Option<Value>) {
        match self.kept.iter_mut().find(|k| k.0 == out) {
            Some(k) => k.1 = grad,
            None => self.kept.push((out, grad)),
        }
    }
}
