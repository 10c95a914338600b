//! GGUF, the file format of llama.cpp: metadata and tensors, quantized or not, in one memory-mapped file.
//!
//! Nothing in a file is trusted: counts, lengths and offsets are checked against the file's size before anything is
//! allocated, and a tensor's bytes must lie inside it.

mod read;

pub use ir::blocks::{Format, dequantize};
pub use read::{Gguf, Info, Value};
