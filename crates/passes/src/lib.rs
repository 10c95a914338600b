//! Functions from graph to graph, one verb-named file each, and the recipe that names them in order, up to the
//! plan that a device lowers.
//!
//! Passes know the kinds of op (elementwise, view, reduction, kernel, composite), never an op by name: what is
//! special about an op stands in its row, what is special about a device in its [`Target`].

mod build_loop;
mod cancel_permutations;
mod check_memory;
mod decompose;
mod deduplicate;
mod elide_copies;
mod fold;
mod fuse;
mod fuse_epilogues;
mod fused;
mod hoist_invariants;
mod iteration_space;
mod iterations;
mod materialize;
mod pack;
pub mod partition;
pub mod place;
mod plan;
mod plan_memory;
mod prune;
mod recipe;
mod recognize;
mod region;
mod rematerialize;
mod rewrite;
mod schedule;
mod simplify;
mod slice_operands;
pub mod split;
mod split_complex;
pub mod stage;
pub mod stored;
mod target;

pub use cancel_permutations::cancel_permutations;
pub use check_memory::check as check_memory_plan;
pub use decompose::{Claims, body_of, captures_of, decompose, graph_of, splice};
pub use deduplicate::{deduplicate, deduplicate_placed};
pub use elide_copies::elide_copies;
pub use fold::{Eval, fold};
pub use fuse::fuse;
pub use fuse_epilogues::fuse_epilogues;
pub use fused::{Fused, Operand};
pub use hoist_invariants::{Hoisted, hoist_invariants};
pub use iterations::{Iterations, LoopMemory, Pointer, Transfer};
pub use materialize::{COPY, View, Views, materialize, view_of, views};
pub use plan::{Address, MemoryUse, Plan, Source, plan};
pub use plan_memory::{ALIGN, Buffer as ResultBuffer, Location, MemoryPlan, plan_memory};
pub use prune::prune;
pub use recipe::{
    Report, Snapshot, Stage, State, Watch, optimize, placed_stages, portable_stages, run, staged_graphs, target_stages,
};
pub use recognize::{Match, Matcher, Pattern, recognize, recognize_placed};
pub use region::{Along, Loop, Producer, Region, Step, Store};
pub use rematerialize::{rematerialize, rematerialize_narrow};
pub use rewrite::Rewriter;
pub use schedule::schedule;
pub use simplify::simplify;
pub use slice_operands::slice_operands;
pub use split_complex::{has_complex, split_complex};
pub use target::Target;
