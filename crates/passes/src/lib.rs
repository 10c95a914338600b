//! Functions from graph to graph, one verb-named file each, and the pipeline that names them in
//! order.
//!
//! Passes know the kinds of op (elementwise, view, reduction, kernel, composite), never an op by
//! name: what is special about an op stands in its row, what is special about a device in its
//! claims.

mod build_loop;
mod check_memory;
mod decompose;
mod deduplicate;
mod elide_copies;
mod fold;
mod fuse;
mod fuse_epilogues;
mod hoist_invariants;
mod iteration_space;
mod materialize;
mod pack;
mod pipeline;
mod plan_memory;
mod prune;
mod recognize;
mod region;
mod rematerialize;
mod rewrite;
mod schedule;
mod simplify;
mod split_complex;

pub use check_memory::check as check_memory_plan;
pub use decompose::{Claims, body_of, captures_of, decompose, graph_of, splice};
pub use deduplicate::deduplicate;
pub use elide_copies::{Moves, elide_copies};
pub use fold::{Eval, fold};
pub use fuse::{Fused, Target, fuse};
pub use fuse_epilogues::{Feeds, fuse_epilogues};
pub use hoist_invariants::{Hoisted, hoist_invariants};
pub use materialize::{Accepts, Barriers, COPY, View, Views, materialize, view_of, views};
pub use pipeline::{Stage, optimize, optimize_with, stages};
pub use plan_memory::{ALIGN, Buffer as ResultBuffer, Location, MemoryPlan, Overwrites, plan_memory};
pub use prune::prune;
pub use recognize::{Match, Matcher, Pattern, recognize};
pub use region::{Along, Loop, Producer, Region, Step, Store};
pub use rematerialize::rematerialize;
pub use rewrite::Rewriter;
pub use schedule::schedule;
pub use simplify::simplify;
pub use split_complex::{has_complex, split_complex};
