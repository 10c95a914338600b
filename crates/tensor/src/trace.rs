//! Tracing a function: its assignments are recorded and undone, to be carried out at each run.

use crate::Variable;
use ir::{Result, Value, Var};
use ops::{Tensor, generator};
use rustc_hash::FxHashSet;
use std::cell::RefCell;
use std::sync::Arc;

struct Trace {
    since: u64,
    /// Variables assigned during the trace, with the value they had before.
    old: Vec<(Arc<Var>, Value)>,
    /// Their numbers.
    seen: FxHashSet<u64>,
    /// What must be computed whether or not its value is asked for.
    effects: Vec<Value>,
}
thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// The value to assign; under a trace, notes what the variable was before.
pub(crate) fn assigned(var: &Arc<Var>, value: &Tensor) -> Result<Value> {
    let v = value.value()?.clone();
    TRACE.with_borrow_mut(|t| {
        let Some(t) = t else { return Ok(v) };
        if t.seen.insert(var.id()) {
            t.old.push((var.clone(), var.current()));
        }
        // A value from before the trace would look like the variable's own at the next read.
        if v.node().id() < t.since { value.stop_gradient().value().cloned() } else { Ok(v) }
    })
}

/// True while a function is traced, as [`crate::jit`] does: nothing is computed now.
pub fn is_tracing() -> bool {
    TRACE.with_borrow(Option::is_some)
}

/// Says that a value must be computed at every run of the function that is traced, whether or not
/// it is read: computing it is seen by other processes.
pub fn note_effect(value: &Tensor) {
    if let Ok(v) = value.value() {
        TRACE.with_borrow_mut(|t| t.iter_mut().for_each(|t| t.effects.push(v.clone())));
    }
}

/// What a traced function did.
pub(crate) struct Traced<R> {
    /// What it returned.
    pub result: R,
    /// The mark before the trace.
    pub since: u64,
    /// The variables it assigned, with their new values.
    pub assigned: Vec<(Arc<Var>, Value)>,
    /// What must be computed in any case.
    pub effects: Vec<Value>,
}

/// Runs `f`, then puts every variable back to what it was: what `f` returns, and the values it assigned. For functions
/// that become part of another graph, which assigns them where it runs.
pub fn assignments<R>(f: impl FnOnce() -> Result<R>) -> Result<(R, Vec<(Variable, Tensor)>)> {
    let start = Trace { since: ir::mark(), old: Vec::new(), seen: FxHashSet::default(), effects: Vec::new() };
    let outer = TRACE.replace(Some(start));
    let result = f();
    let trace = TRACE.replace(outer).expect("set above");
    let mut assigned = Vec::new();
    for (var, old) in trace.old {
        assigned.push((Variable::from(var.clone()), Tensor::from(var.current())));
        var.assign(old)?;
    }
    TRACE.with_borrow_mut(|t| t.iter_mut().for_each(|t| t.effects.extend(trace.effects.iter().cloned())));
    Ok((result?, assigned))
}

/// Runs `f`, then puts every variable back to what it was.
pub(crate) fn trace<R>(f: impl FnOnce() -> Result<R>) -> Result<Traced<R>> {
    let since = ir::mark();
    let outer = TRACE.replace(Some(Trace { since, old: Vec::new(), seen: FxHashSet::default(), effects: Vec::new() }));
    let drawn = generator::state();
    let (result, noted) = ops::effects::collected(|| generator::apart(f));
    // Tracing draws nothing: the first call draws what the program would have drawn.
    generator::set_state(drawn);
    let trace = TRACE.replace(outer).expect("set above");
    let mut assigned = Vec::new();
    for (var, old) in trace.old {
        assigned.push((var.clone(), var.current()));
        var.assign(old)?;
    }
    let effects = trace.effects.into_iter().chain(noted).collect();
    Ok(Traced { result: result?, since, assigned, effects })
}
