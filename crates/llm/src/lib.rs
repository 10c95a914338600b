//! Language models: the files they come in, quantized weights, generation.

pub mod engine;
pub mod gguf;
mod sample;
mod text;
mod tokenizer;

pub use sample::{Sampled, Sampling};
pub use text::TextStream;
pub use tokenizer::Tokenizer;
