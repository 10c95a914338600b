//! `talweg bench-model`: how fast the engine decodes and reads prompts.

use super::load;
use crate::Result;
use ::llm::bench::{Bench, decode, prefill};
use ::llm::engine::cache_type;
use std::path::PathBuf;
use std::sync::Arc;

/// What to measure.
#[derive(clap::Args)]
pub struct BenchOptions {
    /// A GGUF file, a folder, or `llama-1b` or `llama-8b` with random weights.
    model: PathBuf,
    /// Sequences that are decoded together; one line for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    batch: Vec<usize>,
    /// Tokens of the prompt before decoding.
    #[arg(long, default_value_t = 128)]
    prompt: usize,
    /// Steps that are timed.
    #[arg(long, default_value_t = 64)]
    tokens: usize,
    /// Tokens of a prompt that is read in one step and timed; several are possible.
    #[arg(long, value_delimiter = ',', default_value = "512")]
    prefill: Vec<usize>,
    /// Prompts that are timed, after one that compiles.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// How keys and values are stored: f32, f16, bf16, fp8 or int8.
    #[arg(long, default_value = "f16")]
    cache_type: String,
}

/// Prints a line for each measurement.
pub fn bench(o: &BenchOptions) -> Result<()> {
    let model = Arc::new(load(&o.model, None)?);
    let cache_dtype = cache_type(&o.cache_type)?;
    let what = Bench { prompt: o.prompt, tokens: o.tokens, repeats: o.repeats, cache_dtype };
    for n in &o.prefill {
        println!("{}", prefill(&model, &what, *n)?);
    }
    for batch in &o.batch {
        println!("{}", decode(&model, &what, *batch)?);
    }
    Ok(())
}
