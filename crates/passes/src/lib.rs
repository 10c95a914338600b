//! Functions from graph to graph, one verb-named file each, and the pipeline that names them in
//! order.
//!
//! Passes know the kinds of op (elementwise, view, reduction, kernel, composite), never an op by
//! name: what is special about an op stands in its row, what is special about a device in its
//! claims.

mod arrange;
mod check;
mod decompose;
mod deduplicate;
mod feed;
mod fold;
mod fuse;
mod hoist;
mod materialize;
mod pack;
mod pair;
mod pipeline;
mod prune;
mod recognize;
mod redirect;
mod region;
mod remake;
mod rewrite;
mod schedule;
mod simplify;
mod space;
mod weave;

pub use arrange::{ALIGN, Arrangement, Buffer as ResultBuffer, Home, Overwrites, arrange};
pub use check::check as check_arrangement;
pub use decompose::{Claims, body_of, captures_of, decompose, graph_of, splice};
pub use deduplicate::deduplicate;
pub use feed::{Feeds, feed};
pub use fold::{Eval, fold};
pub use fuse::{Fused, Target, fuse};
pub use hoist::{Split, hoist};
pub use materialize::{Accepts, COPY, Fences, Place, Places, materialize, place_of, places};
pub use pair::{has_complex, pair};
pub use pipeline::{Stage, optimize, optimize_with, stages};
pub use prune::prune;
pub use recognize::{Form, Found, Look, recognize};
pub use redirect::{Moves, redirect};
pub use region::{Along, Feed, Loop, Region, Step, Store};
pub use remake::remake;
pub use rewrite::Rewriter;
pub use schedule::schedule;
pub use simplify::simplify;
