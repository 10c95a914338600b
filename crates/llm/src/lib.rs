//! Language models: the files they come in, quantized weights, generation.

pub mod engine;
pub mod gguf;
