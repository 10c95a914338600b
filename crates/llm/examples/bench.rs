//! Decode and prefill rates of a model file: `cargo run --release -p talweg-llm --example bench MODEL.gguf`.

use cpu as _;
use std::sync::Arc;
use talweg_llm::bench::{Bench, decode, prefill};
use talweg_llm::{LanguageModel, random_model};

fn main() -> ir::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "llama-tiny".to_string());
    let exists = std::path::Path::new(&path).exists();
    let model = Arc::new(if exists { LanguageModel::load(&path)? } else { random_model(&path)? });
    let bench = Bench { prompt: 128, tokens: 64, repeats: 3, cache_dtype: ir::DType::F16 };
    println!("{}", prefill(&model, &bench, 512)?);
    for batch in [1, 8, 32] {
        println!("{}", decode(&model, &bench, batch)?);
    }
    Ok(())
}
