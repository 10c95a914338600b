//! Cross-encoders: pairs of texts as tokens, their scores, and the paths that rank documents by them.

use cpu as _;
use http::Server;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use talweg_llm::Encoder;
use talweg_llm::server::Api;
use tensor::Tensor;

mod http;

const WORDS: [&str; 14] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "river", "valley", "line", "of", "the", "cake", "sweet", "what", "is"];
const HIDDEN: usize = 16;

/// A number between −1 and 1 for each name and place.
fn unit(name: &str, i: usize) -> f32 {
    let seed = name.bytes().fold(i as u64 + 1, |h, b| (h ^ b as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ((seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

/// Writes a small model, with a classifier of so many labels if any.
fn folder(labels: usize, config: Json) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    let mut add = |name: String, shape: &[usize]| {
        let n: usize = shape.iter().product();
        let is_norm = name.contains("LayerNorm.weight");
        let data: Vec<f32> = (0..n).map(|i| unit(&name, i) * 0.5 + f32::from(is_norm)).collect();
        tensors.insert(name, ir::Literal::new(ir::Shape::new(shape), &data).unwrap().into());
    };
    let mut linear = |name: &str, rows: usize, columns: usize| {
        add(format!("{name}.weight"), &[rows, columns]);
        add(format!("{name}.bias"), &[rows]);
    };
    let layer = "bert.encoder.layer.0";
    for name in ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"] {
        linear(&format!("{layer}.{name}"), HIDDEN, HIDDEN);
    }
    linear(&format!("{layer}.intermediate.dense"), 24, HIDDEN);
    linear(&format!("{layer}.output.dense"), HIDDEN, 24);
    linear("bert.pooler.dense", HIDDEN, HIDDEN);
    if labels > 0 {
        linear("classifier", labels, HIDDEN);
    }
    for name in ["bert.embeddings.LayerNorm", "bert.encoder.layer.0.attention.output.LayerNorm"]
        .into_iter()
        .chain(["bert.encoder.layer.0.output.LayerNorm"])
    {
        add(format!("{name}.weight"), &[HIDDEN]);
        add(format!("{name}.bias"), &[HIDDEN]);
    }
    for (name, rows) in [("word", WORDS.len()), ("position", 12), ("token_type", 2)] {
        add(format!("bert.embeddings.{name}_embeddings.weight"), &[rows, HIDDEN]);
    }
    let all: Vec<(&str, &Tensor)> = tensors.iter().map(|(n, t)| (&n[..], t)).collect();
    tensor::save(folder.path().join("model.safetensors"), &all).unwrap();
    let mut whole = json!({"model_type": "bert", "hidden_size": HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 12, "hidden_act": "gelu"});
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let special = |id: usize| {
        json!({"id": id, "content": WORDS[id], "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true})
    };
    let vocabulary: BTreeMap<&str, usize> = WORDS.iter().enumerate().map(|(i, w)| (*w, i)).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special(0), special(1), special(2), special(3)],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    });
    write(folder.path(), "config.json", &whole);
    write(folder.path(), "tokenizer.json", &tokenizer);
    folder
}

fn write(folder: &Path, name: &str, json: &Json) {
    std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    std::fs::write(folder.join(name), json.to_string()).unwrap();
}

fn loaded(folder: &tempfile::TempDir) -> Encoder {
    Encoder::load(folder.path()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn pairs_are_encoded_as_bert_expects_them_and_cut_at_the_longer_text() {
    let folder = folder(1, json!({}));
    let model = loaded(&folder);
    let pair = model.encode_pair("what is a valley", "the line", None).unwrap();
    assert_eq!(pair.tokens, [2, 12, 13, 4, 6, 3, 9, 7, 3]);
    assert_eq!(pair.segments, [0, 0, 0, 0, 0, 0, 1, 1, 1]);
    let cut = model.encode_pair("what is a valley", "the line", Some(7)).unwrap();
    assert_eq!(cut.tokens, [2, 12, 13, 3, 9, 7, 3]);
    // Of an odd number, the longer text has one token more, the second one if none is longer.
    let cut = |a: &str, b: &str| model.encode_pair(a, b, Some(8)).unwrap().segments.iter().filter(|s| **s == 0).count();
    let (nine, ten) = ("a ".repeat(9), "a ".repeat(10));
    assert_eq!([cut(&ten, &nine), cut(&nine, &ten), cut(&nine, &nine)], [5, 4, 4]);
    assert!(model.encode_pair("a", "the", Some(2)).unwrap_err().message.contains("3 tokens of its own"));
    let long = model.encode_pair("the river of the valley is the line", "what is a cake", None).unwrap();
    assert!(model.score(&[long], false).unwrap_err().message.contains("1 to 12 tokens, not 15"));
}

#[test]
fn scores_are_those_of_each_pair_alone_and_have_the_stated_activation() {
    let (plain, raw) = (
        folder(1, json!({})),
        folder(
            1,
            json!({"sentence_transformers": {"activation_fn":
        "torch.nn.modules.linear.Identity"}}),
        ),
    );
    let (model, identity) = (loaded(&plain), loaded(&raw));
    let texts = [("what is a valley", "the line of a river"), ("cake", "sweet"), ("the valley", "a")];
    let pairs: Vec<_> = texts.iter().map(|(a, b)| model.encode_pair(a, b, None).unwrap()).collect();
    let scores = model.score(&pairs, false).unwrap();
    let raws = model.score(&pairs, true).unwrap();
    assert_eq!(identity.score(&pairs, false).unwrap(), raws);
    for (i, pair) in pairs.iter().enumerate() {
        let alone = model.score(std::slice::from_ref(pair), true).unwrap()[0];
        assert!((alone - raws[i]).abs() < 1e-5, "{alone} ≠ {}", raws[i]);
        assert!((scores[i] - 1.0 / (1.0 + (-raws[i]).exp())).abs() < 1e-6);
    }
    assert!(raws[0] != raws[1] && raws[1] != raws[2], "{raws:?}");
    // The segments of a pair count.
    let mut first = pairs[0].clone();
    first.segments.iter_mut().for_each(|s| *s = 0);
    assert!((model.score(&[first], true).unwrap()[0] - raws[0]).abs() > 1e-4);
}

#[test]
fn folders_that_mean_something_else_say_so() {
    let several = folder(3, json!({}));
    let e = Encoder::load(several.path()).err().unwrap().message;
    assert!(e.contains("3 labels"), "{e}");
    let relative = folder(1, json!({"position_embedding_type": "relative_key"}));
    assert!(Encoder::load(relative.path()).err().unwrap().message.contains("relative_key"));
    let other = folder(1, json!({"sbert_ce_default_activation_function": "torch.nn.modules.activation.Tanh"}));
    assert!(Encoder::load(other.path()).err().unwrap().message.contains("Tanh"));
    let embedder = folder(0, json!({}));
    let model = loaded(&embedder);
    let pair = model.encode_pair("a", "the", None).unwrap();
    assert!(model.score(&[pair], false).unwrap_err().message.contains("no classifier"));
    let cross = folder(1, json!({}));
    assert!(loaded(&cross).embed(&[vec![2, 4, 3]]).unwrap_err().message.contains("cross-encoder"));
    assert!(Encoder::is_at(cross.path()) && !Encoder::is_at(cross.path().join("none")));
}

/// The embedding is what the folder's sentence-transformers modules say.
#[test]
fn embeddings_are_pooled_as_the_folder_says() {
    let place = folder(0, json!({}));
    let tokens = vec![vec![2, 5, 8, 6, 3]];
    let mean = loaded(&place).embed(&tokens).unwrap();
    write(
        place.path(),
        "1_Pooling/config.json",
        &json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}),
    );
    let first = loaded(&place).embed(&tokens).unwrap();
    assert_ne!(mean, first);
    // A text of one token has the same embedding both ways.
    let one = vec![vec![2]];
    assert_eq!(loaded(&place).embed(&one).unwrap()[0].len(), HIDDEN);
    write(place.path(), "1_Pooling/config.json", &json!({"pooling_mode_max_tokens": true}));
    assert!(Encoder::load(place.path()).err().unwrap().message.contains("max_tokens"));
    write(place.path(), "1_Pooling/config.json", &json!({"pooling_mode_mean_tokens": true}));
    assert_eq!(loaded(&place).embed(&tokens).unwrap(), mean);
    write(place.path(), "modules.json", &json!([{"type": "sentence_transformers.models.Dense"}]));
    assert!(Encoder::load(place.path()).err().unwrap().message.contains("Dense"));
}

/// Texts of every length, more than are computed together.
#[test]
fn many_embeddings_are_those_of_each_text_alone() {
    let model = loaded(&folder(0, json!({})));
    let texts: Vec<Vec<u32>> =
        (0..70).map(|i| (0..1 + i % 12).map(|p| (i * 5 + p * 3) as u32 % 14).collect()).collect();
    let all = model.embed(&texts).unwrap();
    for (text, row) in texts.iter().zip(&all) {
        let alone = model.embed(std::slice::from_ref(text)).unwrap().remove(0);
        assert!(row.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-5), "{text:?}: {row:?} ≠ {alone:?}");
    }
    assert!(model.embed(&[]).unwrap().is_empty());
}

#[test]
fn documents_are_ranked_and_pairs_scored_over_http() {
    let place = folder(1, json!({}));
    let model = loaded(&place);
    let documents = ["the line of a river", "sweet cake", "a valley"];
    let score = |a: &str, b: &str| model.score(&[model.encode_pair(a, b, None).unwrap()], false).unwrap()[0] as f64;
    let want: Vec<f64> = documents.iter().map(|d| score("what is a line", d)).collect();
    let api = Server::start(Api::of_encoder(loaded(&place), "ranker", None));
    let near = |got: &Json, want: f64| (got.as_f64().unwrap() - want).abs() < 1e-5;
    let question = json!({"model": "ranker", "query": "what is a line", "documents": documents});
    for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        let (status, answer) = api.post(path, question.clone());
        assert_eq!(status, 200, "{answer}");
        let results = answer["results"].as_array().unwrap();
        let all: Vec<f64> = results.iter().map(|r| r["relevance_score"].as_f64().unwrap()).collect();
        assert!(results.len() == 3 && all.is_sorted_by(|a, b| a >= b), "{answer}");
        for r in results {
            let i = r["index"].as_u64().unwrap() as usize;
            assert!(near(&r["relevance_score"], want[i]) && r["document"]["text"] == documents[i], "{answer}");
        }
        assert_eq!(answer["usage"]["prompt_tokens"], 3 * (4 + 3) + 5 + 2 + 2);
    }
    let mut top = question.clone();
    (top["top_n"], top["return_documents"]) = (json!(1), json!(false));
    let (_, answer) = api.post("/rerank", top);
    assert!(answer["results"].as_array().unwrap().len() == 1 && answer["results"][0].get("document").is_none());

    let (status, answer) = api.post("/score", json!({"text_1": "what is a line", "text_2": documents}));
    assert!(status == 200 && answer["object"] == "list", "{answer}");
    assert!(want.iter().enumerate().all(|(i, w)| near(&answer["data"][i]["score"], *w)), "{answer} {want:?}");
    let both = json!({"queries": ["cake", "river"], "documents": ["sweet", "line"], "use_activation": false});
    let (_, answer) = api.post("/v1/score", both);
    let raw = model.score(&[model.encode_pair("river", "line", None).unwrap()], true).unwrap()[0];
    assert!(near(&answer["data"][1]["score"], raw as f64), "{answer}");

    let refused = |path: &str, body: Json, part: &str| {
        let (status, answer) = api.post(path, body);
        let message = answer["error"]["message"].as_str().unwrap_or_default().to_string();
        assert!(status >= 400 && message.contains(part), "{path}: {status} {answer}");
    };
    refused("/score", json!({"text_1": ["a", "the"], "text_2": ["cake"]}), "1 and n, or n and n");
    refused("/score", json!({"text_1": [], "text_2": ["cake"]}), "text_1");
    refused("/score", json!({"text_1": "a", "text_2": "the", "documents": ["cake"]}), "text_1 is not supported");
    refused("/rerank", json!({"query": "a", "documents": ["b"], "model": "other"}), "does not exist");
    refused("/rerank", json!({"query": "a", "documents": ["b"], "top_k": 1}), "top_k is not supported");
    refused("/rerank", json!({"query": "a", "documents": ["b"], "truncate_prompt_tokens": 13}), "1 to 12");
    let long = "the river of the valley is the line of the cake";
    refused("/rerank", json!({"query": "a", "documents": [long]}), "1 to 12 tokens, not 15");
    let cut = json!({"query": "a", "documents": [long], "truncate_prompt_tokens": -1});
    assert_eq!(api.post("/rerank", cut).1["usage"]["prompt_tokens"], 12);
    refused("/v1/embeddings", json!({"input": "a"}), "cross-encoder");
}

/// Many documents share the tokens of a query that is refused, and what is cut off is not combined.
#[test]
fn long_texts_cost_little() {
    let place = folder(1, json!({}));
    let api = Server::start(Api::of_encoder(loaded(&place), "ranker", None));
    // With a copy of the query for each document, or pieces of one text combined with those of the other, these would
    // take all memory.
    let many = json!({"query": "a ".repeat(20_000), "documents": vec!["a"; 20_000]});
    let (status, answer) = api.post("/rerank", many);
    assert_eq!(status, 400);
    assert!(answer["error"]["message"].as_str().unwrap().contains("1 to 12 tokens, not 20004"), "{answer}");
    let long = "a ".repeat(40_000);
    let cut = json!({"query": long, "documents": [long], "truncate_prompt_tokens": -1});
    assert_eq!(api.post("/rerank", cut).1["usage"]["prompt_tokens"], 12);
    // The query is tokenized once.
    let cut = json!({"query": long, "documents": vec!["the line"; 1_000], "truncate_prompt_tokens": -1});
    assert_eq!(api.post("/rerank", cut).1["usage"]["prompt_tokens"], 12_000);
    let e = api.post("/rerank", json!({"query": "a", "documents": ["the"], "priority": 1}));
    assert!(e.0 == 400 && e.1["error"]["message"].as_str().unwrap().contains("priority is not supported"), "{e:?}");
}

#[test]
fn an_encoder_ranks_by_the_cosine_and_a_cross_encoder_beside_it_by_its_scores() {
    let (embeds, scores) = (folder(0, json!({})), folder(1, json!({})));
    let model = loaded(&embeds);
    let of = |text: &str| model.embed(&[model.encode(text).unwrap()]).unwrap().remove(0);
    let cosine: f64 = of("river").iter().zip(of("line")).map(|(a, b)| *a as f64 * b as f64).sum();
    let api = Server::start(Api::of_encoder(loaded(&embeds), "e", None));
    let body = json!({"text_1": "river", "text_2": "line"});
    let (_, answer) = api.post("/score", body.clone());
    assert!((answer["data"][0]["score"].as_f64().unwrap() - cosine).abs() < 1e-6, "{answer}");
    let cut = json!({"text_1": "river", "text_2": "line", "truncate_prompt_tokens": 8});
    assert_eq!(api.post("/score", cut).0, 400);

    let both = Api::of_encoder(loaded(&embeds), "e", None).with_encoder(loaded(&scores)).unwrap();
    let both = Server::start(both);
    let cross = loaded(&scores);
    let want = cross.score(&[cross.encode_pair("river", "line", None).unwrap()], false).unwrap()[0] as f64;
    let (_, answer) = both.post("/score", body);
    assert!((answer["data"][0]["score"].as_f64().unwrap() - want).abs() < 1e-6, "{answer}");
    let (status, answer) = both.post("/v1/embeddings", json!({"input": "river"}));
    assert_eq!((status, &answer["model"]), (200, &json!("e")));
    let (_, _, list) = both.ask("GET", "/v1/models", "", "");
    let list: Json = serde_json::from_str(&list).unwrap();
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["e", &cross.name]);
    let again = Api::of_encoder(loaded(&scores), "e", None).with_encoder(loaded(&scores));
    assert!(again.err().unwrap().message.contains("both cross-encoders"));
}
