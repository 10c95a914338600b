//! ONNX models: a bounded reader, an importer and an exporter.
//!
//! An imported model is a function over tensors. It is traced once for each set of input sizes, so that every size is
//! known; shapes and other values known on the host are computed while tracing and become attributes. A model whose
//! sizes depend on values runs node by node instead.

mod cases;
mod convert;
pub mod element;
mod export;
mod graph;
mod loaded;
mod ops;
mod proto;
mod run;
mod source;
mod value;
mod wire;

pub use cases::{Tolerance, check_case};
pub use convert::Sizes;
pub use export::Export;
pub use graph::OPSET_MAX;
pub use loaded::{Model, Options, Port};
pub use value::{Item, Value};

#[cfg(test)]
use cpu as _;

/// Every operator that is supported: domain, name, and the versions since which it means something of its own.
pub fn operators() -> Vec<(&'static str, &'static str, Vec<i64>)> {
    let mut out: std::collections::BTreeMap<(&str, &str), Vec<i64>> = Default::default();
    for r in ops::table() {
        out.entry((r.domain, r.name)).or_default().push(r.since);
    }
    out.into_iter().map(|((d, n), v)| (d, n, v)).collect()
}
