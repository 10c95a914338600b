//! Adapters: they change nothing at first, learn a text, and survive a round trip in PEFT's format.

use cpu as _;
use std::sync::Arc;
use talweg_llm::finetune::{Example, Finetune, FinetuneOptions, perplexity};
use talweg_llm::gguf::Format;
use talweg_llm::{Evaluator, LanguageModel, LoraOptions};

mod tiny;

fn scores(model: &LanguageModel, tokens: &[u32]) -> Vec<f32> {
    let evaluator = Evaluator::new(model.decoder.clone());
    evaluator.scores(tokens).unwrap().iter().map(|s| s.logprob).collect()
}

#[test]
fn an_adapter_learns_a_text_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = tiny::file(&folder, Format::Q8_0);
    let mut model = LanguageModel::load(&path).unwrap();
    let text = "the quick brown fox jumps over the lazy dog. ".repeat(8);
    let tokens = model.tokenizer.encode(&text).unwrap();
    let plain = perplexity(&model, &tokens, 64).unwrap();
    let options = LoraOptions { rank: 4, alpha: 8.0, ..LoraOptions::default() };
    let variables = model.add_lora(&options).unwrap();
    assert_eq!(variables.len(), 2 * 4 * tiny::LAYERS);
    assert!((perplexity(&model, &tokens, 64).unwrap() / plain - 1.0).abs() < 1e-4, "B is zero");
    let example = Example { tokens: tokens.clone(), is_target: vec![] };
    let settings = FinetuneOptions { steps: 30, batch: 2, length: 32, lr: 1e-2, seed: 1 };
    let mut run = Finetune::new(&model, variables, &[example], settings).unwrap();
    let losses: Vec<f64> = (0..30).map(|_| run.step().unwrap().0).collect();
    drop(run);
    let learned = perplexity(&model, &tokens, 64).unwrap();
    assert!(learned < plain * 0.7 && losses[29] < losses[0], "{plain} to {learned}, {losses:?}");
    // As a file, onto a fresh model. The decoder must not be shared meanwhile.
    assert!(Arc::strong_count(&model.decoder) == 1);
    let adapter = folder.path().join("adapter");
    model.save_lora(&adapter, &options).unwrap();
    let mut fresh = LanguageModel::load(&path).unwrap();
    assert_eq!(fresh.load_lora(&adapter).unwrap(), options);
    assert_eq!(scores(&fresh, &tokens[..40]), scores(&model, &tokens[..40]));
    let names = tensor::load(adapter.join("adapter_model.safetensors")).unwrap();
    let key = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
    assert_eq!(names[key].shape().unwrap().dims(), [tiny::HIDDEN, 4]);
    // Hostile or wrong files.
    std::fs::write(adapter.join("adapter_config.json"), r#"{"r": 8, "lora_alpha": 8}"#).unwrap();
    let e = LanguageModel::load(&path).unwrap().load_lora(&adapter).unwrap_err().message;
    assert!(e.contains("do not fit"), "{e}");
}
