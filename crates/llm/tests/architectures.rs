//! Every architecture, loaded as Hugging Face stores it, has the logits of `transformers`.
//!
//! `scripts/llm_reference.py` writes `architectures.json`. Weights are a function of their names.

use cpu as _;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use talweg_llm::models::attend::Sequences;
use talweg_llm::models::{Bert, Config, Decoder, Encoded, Folder};
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
    for (name, case) in all.iter().filter(|(_, case)| case["logits"].is_array()) {
        let folder = checkpoint(case);
        let kind = case["config"]["model_type"].as_str().unwrap();
        let source = Folder::open(folder.path(), kind).unwrap();
        let tokens: Vec<i32> = case["tokens"].as_array().unwrap().iter().map(|t| t.as_i64().unwrap() as i32).collect();
        let n = tokens.len();
        let positions: Vec<i32> = (0..n as i32).collect();
        let (tokens, positions) = (Tensor::from(&tokens[..]), Tensor::from(&positions[..]));
        let y = if kind == "bert" {
            let bert = Bert::load(&source, &case["config"]).unwrap();
            let tokens = tokens.reshape([1, n]);
            let y = bert.hidden(&tokens, &Tensor::zeros_like(&tokens), &Tensor::from(&[n as i32][..]));
            y.unwrap().reshape([n, bert.width()])
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

/// Pairs of different lengths, computed together, have the scores that `transformers` gives each.
#[test]
fn cross_encoders_have_the_scores_of_transformers() {
    let all: BTreeMap<String, Json> = serde_json::from_str(include_str!("architectures.json")).unwrap();
    for name in ["cross", "roberta"] {
        let case = &all[name];
        let folder = checkpoint(case);
        let kind = case["config"]["model_type"].as_str().unwrap();
        let bert = Bert::load(&Folder::open(folder.path(), kind).unwrap(), &case["config"]).unwrap();
        let tokens: Vec<u32> = serde_json::from_value(case["tokens"].clone()).unwrap();
        let lengths: Vec<(usize, usize)> = serde_json::from_value(case["lengths"].clone()).unwrap();
        let pair = |(first, all): &(usize, usize)| Encoded {
            tokens: tokens[..*all].to_vec(),
            segments: (0..*all).map(|i| u32::from(i >= *first)).collect(),
        };
        let pairs: Vec<Encoded> = lengths.iter().map(pair).collect();
        let got = bert.score(&pairs.iter().collect::<Vec<_>>()).unwrap();
        let want: Vec<f32> = serde_json::from_value(case["scores"].clone()).unwrap();
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 2e-5), "{name}: {got:?} ≠ {want:?}");
    }
}

/// Frequencies and magnitudes of every rope scaling at several lengths of a text.
#[test]
fn rope_scalings_have_the_frequencies_of_transformers() {
    let all: BTreeMap<String, Json> = serde_json::from_str(include_str!("frequencies.json")).unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["dynamic", "linear", "llama3", "longrope", "yarn"]);
    for (kind, case) in &all {
        let mut config = Config::from_json(&case["config"]).unwrap_or_else(|e| panic!("{kind}: {e}"));
        for row in case["rows"].as_array().unwrap() {
            config.set_rope_length(row["length"].as_u64().unwrap() as usize);
            let rope = config.rope.as_ref().unwrap();
            assert!(
                (rope.attention_factor - row["magnitude"].as_f64().unwrap()).abs() < 1e-12,
                "{kind}: {}",
                rope.attention_factor
            );
            let want: Vec<f32> = serde_json::from_value(row["frequencies"].clone()).unwrap();
            let got = rope.frequencies(rope.base);
            assert_eq!(got.len(), want.len(), "{kind}");
            for (i, (a, b)) in got.iter().zip(&want).enumerate() {
                assert!((a - b).abs() < 2e-6 * b, "{kind}, {}, {i}: {a} ≠ {b}", row["length"]);
            }
        }
    }
}

#[test]
fn rope_scalings_that_make_no_frequencies_are_errors() {
    let all: BTreeMap<String, Json> = serde_json::from_str(include_str!("frequencies.json")).unwrap();
    let refused = |kind: &str, key: &str, value: Json| {
        let mut config = all[kind]["config"].clone();
        config["rope_parameters"][key] = value;
        Config::from_json(&config).unwrap_err().message
    };
    assert!(refused("yarn", "factor", 0.into()).contains("positive"));
    assert!(refused("longrope", "long_factor", serde_json::json!([1.0, 2.0])).contains("32 short and 2 long"));
    assert!(refused("linear", "rope_type", "spiral".into()).contains("linear, dynamic, yarn, longrope, llama3"));
    assert!(refused("llama3", "low_freq_factor", Json::Null).contains("low_freq_factor"));
}

/// Which layers look back at a window only: `layer_types`, else Qwen's `max_window_layers`, else the period.
#[test]
fn layers_have_the_windows_of_their_file() {
    let json = |more: Json| {
        let mut json = serde_json::json!({
            "model_type": "qwen2", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
            "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "sliding_window": 16,
        });
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json
    };
    let windows = |more: Json| -> Vec<usize> {
        let config = Config::from_json(&json(more)).unwrap();
        (0..4).map(|l| config.layer_window(l)).collect()
    };
    assert_eq!(windows(serde_json::json!({})), [0; 4]);
    let on = |more: Json| {
        let mut more = more;
        more["use_sliding_window"] = true.into();
        windows(more)
    };
    assert_eq!(on(serde_json::json!({"max_window_layers": 3})), [0, 0, 0, 16]);
    let (full, sliding) = ("full_attention", "sliding_attention");
    assert_eq!(on(serde_json::json!({"layer_types": [full, sliding, full, sliding]})), [0, 16, 0, 16]);
    assert_eq!(windows(serde_json::json!({"model_type": "mistral"})), [16; 4]);
    let refused =
        |types: Json| Config::from_json(&json(serde_json::json!({"layer_types": types}))).unwrap_err().message;
    assert!(refused(serde_json::json!([full])).contains("1 layers of 4"));
    assert!(refused(serde_json::json!([full, full, full, "chunked_attention"])).contains("chunked_attention"));
}
