//! Scores of pairs of texts and re-ranking: by a cross-encoder where there is one, else by the cosine of embeddings.

use super::answer::call_id;
use super::embed::inputs;
use super::failure::Failure;
use super::request::{LABELS, flag_or, known, text, texts};
use super::routes::{Answered, Api, Held, json_response, now, parsed};
use axum::extract::State;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// What requests of both kinds may say besides their texts.
const COMMON: &[&str] = &["model", "truncate_prompt_tokens", "use_activation"];

/// A text, which many pairs may share.
type Text = Arc<str>;
/// Scores of pairs, and how many tokens they have.
type Scored = (Vec<f64>, usize);

/// How a request wants its pairs to be scored.
struct Wanted {
    /// Tokens of a pair at most; longer ones are cut.
    most: Option<usize>,
    /// Scores of a cross-encoder without its activation.
    is_raw: bool,
}

impl Wanted {
    fn read(api: &Api, body: &Json) -> Result<Wanted, Failure> {
        let wrong = |key: &'static str, e: &str| Failure::invalid(key, format!("{key} must be {e}"));
        let length = api.reranker.as_ref().map(|r| r.length_max());
        let most = match (&body["truncate_prompt_tokens"], length) {
            (Json::Null, _) => None,
            (_, None) => return Err(wrong("truncate_prompt_tokens", "absent where no cross-encoder ranks")),
            (v, Some(length)) if v.as_i64() == Some(-1) => Some(length),
            (v, Some(length)) => {
                let n = v.as_u64().filter(|n| (1..=length as u64).contains(n));
                Some(n.ok_or_else(|| wrong("truncate_prompt_tokens", &format!("-1, or 1 to {length}")))? as usize)
            }
        };
        let is_raw = match &body["use_activation"] {
            Json::Null => false,
            v => !v.as_bool().ok_or_else(|| wrong("use_activation", "true or false"))?,
        };
        Ok(Wanted { most, is_raw })
    }
}

impl Api {
    async fn scores(&self, pairs: Vec<(Text, Text)>, wanted: &Wanted) -> Result<Scored, Failure> {
        if let Some(reranker) = self.reranker.clone() {
            let (most, is_raw) = (wanted.most, wanted.is_raw);
            let scored = move || {
                let (scores, count) = reranker.score_texts(&pairs, most, is_raw)?;
                Ok((scores.into_iter().map(f64::from).collect(), count))
            };
            return self.compute(scored).await;
        }
        // Each text is embedded once.
        let mut all: Vec<&str> = pairs.iter().flat_map(|(a, b)| [&a[..], &b[..]]).collect();
        all.sort_unstable();
        all.dedup();
        let tokens = inputs(self, &json!({ "documents": all }), "documents")?;
        let count = tokens.iter().map(Vec::len).sum();
        let rows = self.embeddings(tokens).await?;
        let row = |text: &str| all.binary_search(&text).map_or(&[][..], |i| &rows[i]);
        let cosine = |(a, b): &(Text, Text)| row(a).iter().zip(row(b)).map(|(a, b)| *a as f64 * *b as f64).sum();
        Ok((pairs.iter().map(cosine).collect(), count))
    }
}

fn usage(count: usize) -> Json {
    json!({"prompt_tokens": count, "total_tokens": count})
}

/// Orders documents by what they say about a query.
pub async fn rerank(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    known(&body, &[COMMON, LABELS, &["query", "documents", "top_n", "return_documents"]])?;
    let name = api.check_ranker(&body)?;
    let of = |v: &Json| v.as_str().or(v["text"].as_str()).map(Text::from);
    let wrong = || Failure::invalid("documents", "documents must be a list of texts");
    let documents = body["documents"].as_array().filter(|d| !d.is_empty()).ok_or_else(wrong)?;
    let documents: Vec<Text> = documents.iter().map(|d| of(d).ok_or_else(wrong)).collect::<Result<_, _>>()?;
    let query = text(&body, "query")?.ok_or_else(|| Failure::invalid("query", "query must be a text"))?;
    let query = Text::from(query);
    let top = match &body["top_n"] {
        Json::Null => 0,
        v => v.as_u64().ok_or_else(|| Failure::invalid("top_n", "top_n must be a non-negative integer"))?,
    };
    let top = if top == 0 { documents.len() } else { top as usize };
    let returns = flag_or(&body, "return_documents", true)?;
    let pairs = documents.iter().map(|d| (query.clone(), d.clone())).collect();
    let (scores, count) = api.scores(pairs, &Wanted::read(&api, &body)?).await?;
    let mut order: Vec<(usize, f64)> = scores.into_iter().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let one = |(i, score): &(usize, f64)| {
        let mut result = json!({"index": i, "relevance_score": score});
        if returns {
            result["document"] = json!({"text": &*documents[*i]});
        }
        result
    };
    let results: Vec<Json> = order.iter().take(top).map(one).collect();
    let id = call_id().replace("call_", "rerank-");
    Ok(json_response(&json!({"id": id, "model": name, "results": results, "usage": usage(count)})))
}

/// The score of each pair: one text with each of several, or pairs of two lists.
pub async fn score(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    let is_ranking = ["queries", "documents"].iter().any(|key| !body[*key].is_null());
    let [a, b] = if is_ranking { ["queries", "documents"] } else { ["text_1", "text_2"] };
    known(&body, &[COMMON, LABELS, &[a, b, "encoding_format"]])?;
    let name = api.check_ranker(&body)?;
    if !matches!(text(&body, "encoding_format")?, None | Some("float")) {
        return Err(Failure::invalid("encoding_format", "encoding_format of scores must be float"));
    }
    let shared = |key| texts(&body, key).map(|all| all.into_iter().map(Text::from).collect::<Vec<Text>>());
    let (mut first, second) = (shared(a)?, shared(b)?);
    for (key, all) in [(a, &first), (b, &second)] {
        if all.is_empty() {
            return Err(Failure::invalid(key, format!("{key} must be a text, or a list of texts")));
        }
    }
    if first.len() == 1 {
        first = vec![first.remove(0); second.len()];
    }
    if first.len() != second.len() {
        let e = format!("{a} has {} texts and {b} has {}; they must be 1 and n, or n and n", first.len(), second.len());
        return Err(Failure::invalid(a, e));
    }
    let pairs = first.into_iter().zip(second).collect();
    let (scores, count) = api.scores(pairs, &Wanted::read(&api, &body)?).await?;
    let one = |(i, score): (usize, &f64)| json!({"index": i, "object": "score", "score": score});
    let data: Vec<Json> = scores.iter().enumerate().map(one).collect();
    let (id, created) = (call_id().replace("call_", "score-"), now());
    let answer =
        json!({"id": id, "object": "list", "created": created, "model": name, "data": data, "usage": usage(count)});
    Ok(json_response(&answer))
}
