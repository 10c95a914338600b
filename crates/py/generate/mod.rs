//! From the op table's Rust signatures to Python: what the methods are (`read`), how a parameter
//! is spelled and converted (`params`), the PyO3 code (`rust`), the type stubs (`stubs`), and what
//! `python/talweg/_functions` adds to them (`functions`).

pub mod functions;
pub mod params;
pub mod read;
pub mod rust;
pub mod stubs;
