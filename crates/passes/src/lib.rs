//! Functions from graph to graph, one verb-named file each, and the pipeline that names them in
//! order.
//!
//! Passes know the kinds of op (elementwise, view, reduction, kernel, composite), never an op by
//! name: what is special about an op stands in its row, what is special about a device in its
//! claims.

mod decompose;
mod deduplicate;
mod pipeline;
mod prune;
mod rewrite;
mod simplify;

pub use decompose::{Claims, decompose, graph_of, splice};
pub use deduplicate::deduplicate;
pub use pipeline::{Stage, optimize, stages};
pub use prune::prune;
pub use rewrite::Rewriter;
pub use simplify::{Eval, simplify};
