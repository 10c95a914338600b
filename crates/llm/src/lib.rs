//! Language models: the files they come in, quantized weights, generation.

mod adapters;
mod beam;
pub mod bench;
mod chat;
mod constrain;
pub mod data;
mod encoder;
pub mod engine;
mod evaluate;
pub mod finetune;
mod folder;
pub mod gguf;
mod load;
mod lora;
pub mod models;
mod random;
mod sample;
mod scratch;
#[cfg(feature = "server")]
pub mod server;
mod text;
mod tokenizer;
pub mod tools;
mod training;

pub use adapters::Adapters;
pub use beam::{Beam, BeamOptions, beam_search};
pub use chat::ChatTemplate;
pub use constrain::{Constraint, Guide, Mask};
pub use encoder::Encoder;
pub use evaluate::{Answers, Evaluator, Score};
pub use load::LanguageModel;
pub use lora::{LoraOptions, merge_lora};
pub use random::{is_random_model, random_model};
pub use sample::{Limits, Sampled, Sampling};
pub use scratch::Scratch;
pub use text::TextStream;
pub use tokenizer::Tokenizer;
pub use training::{Trained, Training, TrainingOptions};
