//! Embeddings, by an encoder where there is one, else by the language model.

use super::failure::Failure;
use super::request::{LABELS, known, prompts, text};
use super::routes::{Answered, Api, Held, json_response, parsed};
use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::{Value as Json, json};

/// Texts as tokens of the model that embeds them.
pub(super) fn inputs(api: &Api, body: &Json, key: &'static str) -> Result<Vec<Vec<u32>>, Failure> {
    match (&api.encoder, &api.handle) {
        (Some(encoder), _) => prompts(&|t| encoder.encode(t), body, key),
        (None, Some(handle)) => prompts(&|t| handle.model().tokenizer.encode(t), body, key),
        (None, None) => {
            let e = "no model embeds texts here: a cross-encoder scores pairs of texts (/v1/rerank, /v1/score)";
            Err(Failure::new(StatusCode::NOT_FOUND, e))
        }
    }
}

impl Api {
    /// The embedding of each text, of length one.
    pub(super) async fn embeddings(&self, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Failure> {
        match &self.encoder {
            Some(encoder) => {
                let encoder = encoder.clone();
                self.compute(move || encoder.embed(&texts)).await
            }
            None => self.evaluate(move |e| texts.iter().map(|t| e.embedding(t)).collect::<ir::Result<Vec<_>>>()).await,
        }
    }
}

pub async fn embed(State(api): Held, body: Bytes) -> Answered {
    let body = parsed(&body)?;
    known(&body, &[&["model", "input", "encoding_format", "dimensions"], LABELS])?;
    let name = api.check_embedder(&body)?;
    let inputs = inputs(&api, &body, "input")?;
    let count: usize = inputs.iter().map(Vec::len).sum();
    let is_base64 = match text(&body, "encoding_format")? {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => return Err(Failure::invalid("encoding_format", format!("{other:?} is not supported"))),
    };
    let mut rows = api.embeddings(inputs).await?;
    if !body["dimensions"].is_null() {
        let width = rows.first().map_or(0, Vec::len);
        let n = body["dimensions"].as_u64().filter(|n| (1..=width as u64).contains(n));
        let n = n.ok_or_else(|| Failure::invalid("dimensions", format!("dimensions must be 1 to {width}")))?;
        rows.iter_mut().for_each(|r| *r = scaled(&r[..n as usize]));
    }
    let one = |(i, row): (usize, &Vec<f32>)| {
        let embedding = if is_base64 { json!(base64(row)) } else { json!(row) };
        json!({"object": "embedding", "index": i, "embedding": embedding})
    };
    let data: Vec<Json> = rows.iter().enumerate().map(one).collect();
    let usage = json!({"prompt_tokens": count, "total_tokens": count});
    Ok(json_response(&json!({"object": "list", "model": name, "data": data, "usage": usage})))
}

fn scaled(row: &[f32]) -> Vec<f32> {
    let norm = row.iter().map(|x| (*x as f64).powi(2)).sum::<f64>().sqrt().max(1e-12);
    row.iter().map(|x| (*x as f64 / norm) as f32).collect()
}

/// Little-endian floats in base64, which OpenAI's clients ask for.
fn base64(row: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let n = (0..3).fold(0u32, |n, i| n << 8 | chunk.get(i).copied().unwrap_or(0) as u32);
        for i in 0..4 {
            let digit = DIGITS[(n >> (18 - 6 * i)) as usize & 63] as char;
            out.push(if i <= chunk.len() { digit } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn floats_in_base64() {
        // Python: base64.b64encode(struct.pack("<2f", 1.0, -2.5))
        assert_eq!(base64(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(base64(&[1.0]), "AACAPw==");
    }
}
