//! Collectives that go on while the rest is computed: one op begins them, another waits for their end. Partitioning puts
//! them in the place of collectives whose result is not needed at once.
//!
//! The result of the op that begins is the memory of the result, which nothing may read before the end. Devices that know
//! nothing of it exchange at the beginning.

use super::{ALL_GATHER, ALL_REDUCE, GROUP, HOW, Outs, REDUCE_SCATTER, WIRE, by};
use crate::rules::f64s;
use crate::{Result, Tensor};
use ir::{Alone, Attrs, Call, Case, Effect, FlatNode, Grad, Graph, Meaning, Op, PeersHandle, Slot, Types};
use smallvec::SmallVec;
use std::sync::Arc;

/// What the rows share. Inputs after the first are only waited for.
const BEGIN: Op =
    Op { grad: Grad::Missing("partitioning follows differentiation"), effect: Effect::StartsInOrder, ..Op::DEFAULT };

/// The row of `begin_all_reduce`.
pub(super) static BEGIN_ALL_REDUCE: Op = Op {
    name: "begin_all_reduce",
    doc: "Begins `all_reduce`, while the rest is computed. Other inputs are waited for. `end_exchange` gives the result.",
    attrs: &[HOW, WIRE, GROUP],
    infer: |c| begun(c, &ALL_REDUCE),
    meaning: Meaning::Kernel(|c, args| run(c, args, &ALL_REDUCE)),
    cases: || alone(by("sum").with("wire", "exact")),
    ..BEGIN
};

/// The row of `begin_reduce_scatter`.
pub(super) static BEGIN_REDUCE_SCATTER: Op = Op {
    name: "begin_reduce_scatter",
    doc: "Begins `reduce_scatter`, while the rest is computed. Other inputs are waited for. `end_exchange` gives the \
          result.",
    attrs: &[HOW, WIRE, GROUP],
    infer: |c| begun(c, &REDUCE_SCATTER),
    meaning: Meaning::Kernel(|c, args| run(c, args, &REDUCE_SCATTER)),
    cases: || alone(by("sum").with("wire", "exact")),
    ..BEGIN
};

/// The row of `begin_all_gather`.
pub(super) static BEGIN_ALL_GATHER: Op = Op {
    name: "begin_all_gather",
    doc: "Begins `all_gather`, while the rest is computed. Other inputs are waited for. `end_exchange` gives the result.",
    attrs: &[WIRE, GROUP],
    infer: |c| begun(c, &ALL_GATHER),
    meaning: Meaning::Kernel(|c, args| run(c, args, &ALL_GATHER)),
    cases: || alone(Attrs::new().with("wire", "exact")),
    ..BEGIN
};

/// The row of `end_exchange`.
pub(super) static END: Op = Op {
    name: "end_exchange",
    doc: "Waits for what an op began, and gives its result. A second input is the operand, which is kept until then.",
    infer: |c| {
        let none = || crate::Error::value("takes what was begun, but nothing was given");
        Ok(Types::from_iter([c.types.first().ok_or_else(none)?.clone()]))
    },
    meaning: Meaning::Kernel(|_, args| Ok(vec![args[0].clone()])),
    grad: Grad::Missing("partitioning follows differentiation"),
    cases: || {
        let x = f64s([2], &[1.0, 2.0]);
        vec![Case::new(vec![x.clone()], Attrs::new()).expect(vec![x], "what was begun").kinked()]
    },
    ..Op::DEFAULT
};

/// The type of what is begun.
fn begun(c: &Call, op: &Op) -> Result<Types> {
    (op.infer)(&Call { types: &c.types[..c.types.len().min(1)], attrs: c.attrs })
}
/// The exchange at once.
fn run(c: &Call, args: &[ir::Literal], op: &Op) -> Outs {
    let Meaning::Kernel(f) = op.meaning else { return Err(crate::Error::bug("a collective is a kernel")) };
    f(&Call { types: &c.types[..1], attrs: c.attrs }, &args[..1])
}
fn alone(attrs: Attrs) -> Vec<Case> {
    let x = f64s([2], &[1.0, 2.0]);
    let attrs = attrs.with("group", PeersHandle(Arc::new(Alone)));
    vec![Case::new(vec![x.clone()], attrs).expect(vec![x], "a group of one").kinked()]
}

/// The op that begins a collective, if there is one.
fn beginning(op: &Op) -> Option<&'static Op> {
    let all =
        [(&ALL_REDUCE, &BEGIN_ALL_REDUCE), (&REDUCE_SCATTER, &BEGIN_REDUCE_SCATTER), (&ALL_GATHER, &BEGIN_ALL_GATHER)];
    all.into_iter().find(|(o, _)| *o == op).map(|(_, b)| b)
}
/// The collective that an op begins, or that it is.
pub(super) fn collective(op: &Op) -> Option<&'static Op> {
    let all =
        [(&BEGIN_ALL_REDUCE, &ALL_REDUCE), (&BEGIN_REDUCE_SCATTER, &REDUCE_SCATTER), (&BEGIN_ALL_GATHER, &ALL_GATHER)];
    all.into_iter().find(|(b, _)| *b == op).map(|(_, o)| o)
}

/// Appends the op that begins a collective on `x`, once the others are computed.
pub(super) fn begin(g: &mut Graph, n: &FlatNode, x: Slot, after: &[Slot]) -> Result<Slot> {
    let op = beginning(n.op).ok_or_else(|| crate::Error::bug(format!("{} does not go on meanwhile", n.op.name)))?;
    let inputs: SmallVec<[Slot; 3]> = [x].into_iter().chain(after.iter().copied()).collect();
    g.push(op, &inputs, n.attrs.clone(), n.site)
}
/// Appends the op that waits for its end.
pub(super) fn end(g: &mut Graph, n: &FlatNode, begun: Slot, x: Slot) -> Result<Slot> {
    let is_in_place = n.op == &ALL_REDUCE;
    let inputs = if is_in_place { vec![begun] } else { vec![begun, x] };
    g.push(&END, &inputs, Attrs::new(), n.site)
}
/// What a node exchanges, if that can go on meanwhile.
pub(super) fn kind(n: &FlatNode) -> Option<passes::partition::Kind> {
    use passes::partition::Kind;
    if n.op == &ALL_REDUCE {
        Some(Kind::Reduce)
    } else if n.op == &REDUCE_SCATTER {
        Some(Kind::Scatter)
    } else if n.op == &ALL_GATHER {
        Some(Kind::Gather)
    } else {
        None
    }
}

/// The elements of several values one after the other.
pub(super) fn flat(values: &[Tensor]) -> Tensor {
    Tensor::concat(&values.iter().map(|v| v.reshape([v.shape().map_or(0, |s| s.count())])).collect::<Vec<_>>(), 0)
}
