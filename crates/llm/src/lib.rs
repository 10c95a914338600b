//! Language models: the files they come in, quantized weights, generation.

pub mod bench;
mod chat;
pub mod engine;
mod evaluate;
pub mod finetune;
pub mod gguf;
mod load;
mod lora;
pub mod models;
mod random;
mod sample;
#[cfg(feature = "server")]
pub mod server;
mod text;
mod tokenizer;

pub use chat::ChatTemplate;
pub use evaluate::Evaluator;
pub use load::LanguageModel;
pub use lora::LoraOptions;
pub use random::random_model;
pub use sample::{Sampled, Sampling};
pub use text::TextStream;
pub use tokenizer::Tokenizer;
