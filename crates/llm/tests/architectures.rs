//! Every architecture, loaded as Hugging Face stores it, has the logits of `transformers`.
//!
//! `scripts/llm_reference.py` writes `architectures.json`. Weights are a function of their names.

use cpu as _;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use talweg_llm::models::attend::Sequences;
use talweg_llm::models::{Bert, Config, Decoder, Folder};
use tensor::Tensor;

/// Numbers between −1 and 1: FNV-1a of the name seeds xorshift.
fn unit(name: &str, n: usize) -> Vec<f32> {
    let fnv = |h: u64, b: u8| (h ^ b as u64).wrapping_mul(0x0100_0000_01b3);
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn weight(name: &str, shape: &[usize]) -> Tensor {
    let x = unit(name, shape.iter().product());
    let is_norm = name.to_lowercase().contains("norm") || name.contains("ln_");
    let (scale, offset) = match shape {
        [_] => (0.1, if is_norm { 1.0 } else { 0.0 }),
        _ => ((2.0 / (shape[shape.len() - 1] as f64).sqrt()) as f32, 0.0),
    };
    let x: Vec<f32> = x.into_iter().map(|x| x * scale + offset).collect();
    ir::Literal::new(ir::Shape::new(shape), &x).unwrap().into()
}

/// Writes a checkpoint in two files.
fn checkpoint(case: &Json) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    for (name, shape) in case["tensors"].as_object().unwrap() {
        let shape: Vec<usize> = shape.as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
        tensors.insert(name.clone(), weight(name, &shape));
    }
    let all: Vec<(&str, &Tensor)> = tensors.iter().map(|(n, t)| (&n[..], t)).collect();
    let (a, b) = all.split_at(all.len() / 2);
    tensor::save(folder.path().join("model-00001-of-00002.safetensors"), a).unwrap();
    tensor::save(folder.path().join("model-00002-of-00002.safetensors"), b).unwrap();
    folder
}

#[test]
fn every_architecture_has_the_logits_of_transformers() {
    let all: BTreeMap<String, Json> = serde_json::from_str(include_str!("architectures.json")).unwrap();
    assert!(all.len() >= 13, "{:?}", all.keys());
    for (name, case) in &all {
        let folder = checkpoint(case);
        let kind = case["config"]["model_type"].as_str().unwrap();
        let source = Folder::open(folder.path(), kind).unwrap();
        let tokens: Vec<i32> = case["tokens"].as_array().unwrap().iter().map(|t| t.as_i64().unwrap() as i32).collect();
        let n = tokens.len();
        let positions: Vec<i32> = (0..n as i32).collect();
        let (tokens, positions) = (Tensor::from(&tokens[..]), Tensor::from(&positions[..]));
        let y = if kind == "bert" {
            let bert = Bert::load(&source, &case["config"]).unwrap();
            bert.hidden(&tokens.reshape([1, n]), &Tensor::from(&[n as i32][..])).unwrap().reshape([n, bert.width()])
        } else {
            let config = Config::from_json(&case["config"]).unwrap_or_else(|e| panic!("{name}: {e}"));
            let decoder = Decoder::load(&source, config).unwrap_or_else(|e| panic!("{name}: {e}"));
            let attend = Sequences { count: 1, length: n };
            decoder.logits(&decoder.hidden(&tokens, &positions, &attend).unwrap())
        };
        let got = y.to_vec::<f32>().unwrap_or_else(|e| panic!("{name}: {e}"));
        let width = got.len() / n;
        for (row, want) in [0, 5, n - 1].into_iter().zip(case["logits"].as_array().unwrap()) {
            for (j, want) in want.as_array().unwrap().iter().enumerate() {
                let (got, want) = (got[row * width + j], want.as_f64().unwrap() as f32);
                assert!((got - want).abs() < 2e-4 * want.abs().max(1.0), "{name}, token {row}, {j}: {got} ≠ {want}");
            }
        }
    }
}
