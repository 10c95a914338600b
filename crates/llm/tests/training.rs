//! Training of every weight: of a GGUF file, of a folder, and from nothing; the saved folder is the same model.

use cpu as _;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use talweg_llm::finetune::FinetuneOptions;
use talweg_llm::gguf::Format;
use talweg_llm::models::attend::Sequences;
use talweg_llm::models::{Config, Decoder, Names};
use talweg_llm::{Evaluator, LanguageModel, LoraOptions, Scratch, Tokenizer, Trained, Training, TrainingOptions};
use tensor::Tensor;

mod tiny;

const TEXT: &str = "the quick brown fox jumps over the lazy dog. ";

fn scores(model: &LanguageModel) -> Vec<f32> {
    let tokens = model.tokenizer.encode(&TEXT[..40]).unwrap();
    Evaluator::new(model.decoder.clone()).scores(&tokens).unwrap().iter().map(|s| s.logprob).collect()
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4)
}

fn options(trained: Trained, lr: f64) -> TrainingOptions {
    let settings = FinetuneOptions { steps: 0, batch: 2, length: 32, lr, seed: 1 };
    TrainingOptions { trained, settings, held_out: 0.2, dpo: None, checkpoint: false }
}

/// Trains for some steps; the perplexity before and after.
fn train(run: &mut Training, steps: usize) -> (f64, f64) {
    let before = run.perplexity().unwrap().unwrap();
    for _ in 0..steps {
        assert!(run.step().unwrap().0.is_finite());
    }
    (before, run.perplexity().unwrap().unwrap())
}

#[test]
fn every_weight_of_a_gguf_file_learns_and_the_folder_is_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("text.txt"), TEXT.repeat(16)).unwrap();
    let file = tiny::file(&folder, Format::Q8_0);
    let mut run = Training::new(&file, at("text.txt"), &options(Trained::Full, 3e-3)).unwrap();
    assert!(run.is_full() && run.parameters > 90_000);
    // Before a step, the folder is the file: only activations of 8 bits tell them apart.
    run.save(at("plain")).unwrap();
    let (plain, stored) = (LanguageModel::load(at("plain")).unwrap(), LanguageModel::load(&file).unwrap());
    let far = scores(&plain).iter().zip(scores(&stored)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < 0.1, "{far}");
    assert_eq!(
        plain.tokenizer.encode("<|im_start|>user").unwrap(),
        stored.tokenizer.encode("<|im_start|>user").unwrap()
    );
    let chat =
        |m: &LanguageModel| m.chat_prompt(&json!([{"role": "user", "content": "Hi"}]), None, &Json::Null).unwrap();
    assert_eq!(chat(&plain), chat(&stored));
    assert_eq!(plain.tokenizer.eos(), stored.tokenizer.eos());
    let (before, after) = train(&mut run, 30);
    assert!(after < 0.5 * before, "{before} to {after}");
    run.save(at("learned")).unwrap();
    // The folder goes on, and is saved again with the same names.
    let mut again = Training::new(at("learned"), at("text.txt"), &options(Trained::Full, 1e-4)).unwrap();
    let loaded = again.perplexity().unwrap().unwrap();
    assert!((loaded / after - 1.0).abs() < 1e-3, "{after} came back as {loaded}");
    again.step().unwrap();
    again.save(at("more")).unwrap();
    let names = |f: &str| tensor::load(at(f).join("model.safetensors")).unwrap().into_keys().collect::<Vec<_>>();
    assert_eq!(names("learned"), names("more"));
    let e = again.save(at("learned")).unwrap_err().message;
    assert!(e.contains("cannot replace"), "{e}");
}

#[test]
fn an_adapter_merges_into_a_gguf_file_as_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("text.txt"), TEXT.repeat(16)).unwrap();
    let file = tiny::file(&folder, Format::F32);
    let lora = LoraOptions { rank: 4, alpha: 8.0, ..LoraOptions::default() };
    let mut run = Training::new(&file, at("text.txt"), &options(Trained::Lora(lora), 1e-2)).unwrap();
    let (before, after) = train(&mut run, 10);
    assert!(after < before);
    run.save(at("adapter")).unwrap();
    let mut model = LanguageModel::load(&file).unwrap();
    model.load_lora(at("adapter")).unwrap();
    let adapted = scores(&model);
    let mut model = LanguageModel::load(&file).unwrap();
    model.load_lora(at("adapter")).unwrap();
    let weights = model.learn().unwrap();
    assert_eq!(model.merge(&weights).unwrap(), 4 * tiny::LAYERS);
    model.save_folder(&file, &weights, &at("merged")).unwrap();
    assert!(close(&scores(&LanguageModel::load(at("merged")).unwrap()), &adapted));
}

#[test]
fn a_model_is_trained_from_a_config() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("new")).unwrap();
    let config = json!({
        "model_type": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": true,
        "dtype": "bfloat16",
    });
    std::fs::write(at("new/config.json"), config.to_string()).unwrap();
    Tokenizer::of_bytes().unwrap().save(&at("new/tokenizer.json")).unwrap();
    std::fs::write(at("text.txt"), TEXT.repeat(16)).unwrap();
    assert!(LanguageModel::load(at("new")).is_err(), "there are no weights");
    let mut run = Training::new(at("new"), at("text.txt"), &options(Trained::Scratch, 1e-2)).unwrap();
    let (before, after) = train(&mut run, 40);
    assert!((200.0..300.0).contains(&before) && after < 20.0, "{before} to {after}");
    run.save(at("out")).unwrap();
    let stored = tensor::load(at("out/model.safetensors")).unwrap();
    assert!(stored.values().all(|t| t.dtype().unwrap() == ir::DType::BF16) && !stored.contains_key("lm_head.weight"));
    let model = LanguageModel::load(at("out")).unwrap();
    let tokens = model.tokenizer.encode(&TEXT.repeat(2)).unwrap();
    let perplexity = Evaluator::new(model.decoder.clone()).perplexity(&tokens, 32, None).unwrap();
    assert!(perplexity < 20.0, "{perplexity}");
    let missing = Training::new(at("new"), Path::new("nowhere.txt"), &options(Trained::Scratch, 1e-2));
    assert!(missing.is_err_and(|e| e.message.contains("nowhere.txt")));
}

/// Weights of every architecture are drawn under the names and with the shapes of `transformers`, and all learn.
#[test]
fn every_architecture_learns_from_scratch() {
    let all: BTreeMap<String, Json> = serde_json::from_str(include_str!("architectures.json")).unwrap();
    for (name, case) in all.iter().filter(|(name, case)| *name != "bert" && case["logits"].is_array()) {
        let json = &case["config"];
        let config = Config::from_json(json).unwrap();
        let mut decoder = Decoder::load(&Scratch::new(json).unwrap(), config).unwrap_or_else(|e| panic!("{name}: {e}"));
        let weights = decoder.learn().unwrap();
        let names = Names::new(json["model_type"].as_str().unwrap(), |_| true).unwrap();
        let mut shapes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (ours, variable) in &weights {
            let mut shape = variable.shape().dims().to_vec();
            if shape.len() == 2 && names.is_transposed(ours) {
                shape.reverse();
            }
            match names.expert(ours) {
                None => drop(shapes.insert(names.of(ours), shape)),
                Some(pattern) => {
                    let count = decoder.config.experts.unwrap().count;
                    for e in 0..count {
                        shapes.insert(pattern.replace("{e}", &e.to_string()), vec![shape[0] / count, shape[1]]);
                    }
                }
            }
        }
        let wanted: BTreeMap<String, Vec<usize>> = serde_json::from_value(case["tensors"].clone()).unwrap();
        assert_eq!(shapes, wanted, "{name}");
        let tokens: Vec<i32> = serde_json::from_value(case["tokens"].clone()).unwrap();
        let n = tokens.len();
        let positions: Vec<i32> = (0..n as i32).collect();
        let (tokens, positions) = (Tensor::from(&tokens[..]), Tensor::from(&positions[..]));
        let hidden = decoder.hidden(&tokens, &positions, &Sequences { count: 1, length: n }).unwrap();
        let loss = decoder.logits(&hidden).cross_entropy(&tokens);
        loss.backward().unwrap_or_else(|e| panic!("{name}: {e}"));
        for (ours, variable) in &weights {
            let grad = variable.grad().unwrap_or_else(|| panic!("{name}: {ours} has no gradient"));
            assert!(grad.to_vec::<f32>().unwrap().iter().all(|g| g.is_finite()), "{name}: {ours}");
        }
    }
}
