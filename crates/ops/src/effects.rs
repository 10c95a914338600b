//! Ops with effects: computed even if their value is not read.
//!
//! Imperative code computes it at once. Inside of a function that is traced it becomes one more result of the trace:
//! a trace collects the effects noted meanwhile, and notes what they become.

use crate::{Error, Result, Tensor, engine};
use ir::{Collect, Value, collect};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// What was noted, for each trace that is in progress.
    static OPEN: RefCell<Vec<Vec<Value>>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a value must be computed. Outside of all traces that happens now, unless it depends on a placeholder,
/// as in the graph of a session, which computes what is fetched.
pub fn note(value: &Tensor) -> Result<()> {
    let v = value.value()?;
    let is_collected = OPEN.with_borrow_mut(|open| open.last_mut().map(|l| l.push(v.clone())).is_some());
    if is_collected || v.node().is_symbolic() {
        return Ok(());
    }
    engine().evaluate(std::slice::from_ref(v))
}

/// Runs a trace; what it noted comes along.
pub fn collected<R>(f: impl FnOnce() -> R) -> (R, Vec<Value>) {
    struct Close;
    impl Drop for Close {
        fn drop(&mut self) {
            OPEN.with_borrow_mut(Vec::pop);
        }
    }
    OPEN.with_borrow_mut(|open| open.push(Vec::new()));
    let close = Close;
    let result = f();
    let noted = OPEN.with_borrow_mut(|open| open.last_mut().map(std::mem::take).unwrap_or_default());
    drop(close);
    (result, noted)
}

/// A function whose effects are among its results, behind the others; the number is theirs.
pub(crate) fn appended(
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    count: &mut usize,
) -> impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>> {
    move |x| {
        let (outs, noted) = collected(|| f(x));
        *count = noted.len();
        let mut outs = outs?;
        outs.extend(noted.into_iter().map(Tensor::from));
        Ok(outs)
    }
}

/// Notes the last results, which are effects, and leaves the others.
pub(crate) fn noted(mut outs: Vec<Tensor>, count: usize) -> Result<Vec<Tensor>> {
    let effects = outs.split_off(outs.len() - count);
    effects.iter().try_for_each(note)?;
    Ok(outs)
}

/// Fails if a body of control flow has effects that none of its results depends on: they would be lost.
pub(crate) fn check_used(outs: &[Value], effects: &[Value]) -> Result<()> {
    if effects.is_empty() {
        return Ok(());
    }
    let nodes = collect(outs, Collect::Later)?.nodes;
    if effects.iter().all(|e| nodes.iter().flatten().any(|n| Arc::ptr_eq(n, e.node()))) {
        return Ok(());
    }
    Err(Error::value(
        "an ordered callback inside of a loop, a branch or a checkpoint runs only where its result is used: let what \
         is returned depend on it",
    ))
}
