//! Language models: the files they come in, quantized weights, generation.

mod chat;
pub mod engine;
pub mod gguf;
mod load;
pub mod models;
mod sample;
mod text;
mod tokenizer;

pub use chat::ChatTemplate;
pub use load::LanguageModel;
pub use sample::{Sampled, Sampling};
pub use text::TextStream;
pub use tokenizer::Tokenizer;
