//! Greedy texts of several prompts in one batch: `generate MODEL PROMPTS.json TOKENS`. Prints one JSON line for each,
//! as `talweg generate --prompts` does.

use cpu as _;
use std::sync::Arc;
use std::time::Instant;
use talweg_llm::engine::{Event, Generation, Handle, Options};
use talweg_llm::{LanguageModel, Sampling};

fn main() -> ir::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, path, prompts, tokens] = &args[..] else {
        return Err(ir::Error::value("MODEL PROMPTS.json TOKENS are needed"));
    };
    let bad = |e: String| ir::Error::format(e);
    let text = std::fs::read_to_string(prompts).map_err(|e| bad(e.to_string()))?;
    let prompts: Vec<String> = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let tokens_max = Some(tokens.parse().map_err(|_| bad(format!("{tokens} is no count")))?);
    let model = Arc::new(LanguageModel::load(path)?);
    let handle = Handle::start(model.clone(), Options::default(), usize::MAX)?;
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let began = Instant::now();
    let mut open = Vec::new();
    for p in &prompts {
        let g =
            Generation { prompt: model.tokenizer.encode(p)?, tokens_max, ignores_eos: true, ..Generation::default() };
        open.push(handle.generate(Generation { sampling: sampling.clone(), ..g })?);
    }
    for (prompt, events) in prompts.iter().zip(open) {
        let (mut tokens, mut logprobs) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                Event::Token { token, logprob, .. } => {
                    tokens.push(token);
                    logprobs.push(logprob);
                }
                Event::Failed(e) => return Err(bad(e)),
                Event::Refused => return Err(bad("refused: the first token would come too late".to_string())),
                Event::Done { .. } => break,
            }
        }
        let (text, seconds) = (model.tokenizer.decode(&tokens), began.elapsed().as_secs_f64());
        println!(
            "{}",
            serde_json::json!({"prompt": prompt, "text": text, "tokens": tokens, "logprobs": logprobs, "seconds": seconds})
        );
    }
    Ok(())
}
