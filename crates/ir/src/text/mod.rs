//! The text form of a flat graph: one node a line, exact, readable, and read back.
//!
//! ```text
//! talweg graph 1
//! %0 = input "x" : f32[2, 3]  # src/main.rs:3:9
//! %1 = const [0.5, nan] : f32[2]
//! %2 = sort %0 {axis: 1, descending: false} : (f32[2, 3], i64[2, 3])  # src/main.rs:4:9
//! %3 = sum %2.0 {axes: [0, 1]} : f32[1, 1]  # src/main.rs:5:9
//! return %3, %2.1
//! ```
//! `%2` is the first output of node 2, `%2.1` its second. Sub-graphs stand as `graph { … }` among
//! the attributes. Floats are written with as many digits as distinguish them, other NaNs than
//! the usual one as `nan(0x…)` with their bits. White space means nothing but as a separator.

mod lex;
mod parse;
mod write;

pub use parse::Find;
pub(crate) use parse::checked;

/// The version this program writes, and the only one it reads.
pub const VERSION: u32 = 1;
