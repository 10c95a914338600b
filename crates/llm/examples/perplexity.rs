//! The perplexity of a text, as llama.cpp computes it: `perplexity MODEL TEXT LENGTH WINDOWS`. Prints a JSON line.

use cpu as _;
use talweg_llm::{Evaluator, LanguageModel};

fn main() -> ir::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, path, text, length, windows] = &args[..] else {
        return Err(ir::Error::value("MODEL TEXT LENGTH WINDOWS are needed"));
    };
    let bad = |e: String| ir::Error::format(e);
    let text = std::fs::read_to_string(text).map_err(|e| bad(e.to_string()))?;
    let number = |s: &str| s.parse::<usize>().map_err(|_| bad(format!("{s} is no count")));
    let (length, windows) = (number(length)?, number(windows)?);
    let model = LanguageModel::load(path)?;
    let mut tokens = model.tokenizer.encode_more(&text)?;
    tokens.truncate(length * windows);
    // Every window begins as a text does, as in llama.cpp.
    if let Some(bos) = model.tokenizer.bos().filter(|b| model.tokenizer.encode("").is_ok_and(|t| t.contains(b))) {
        tokens.iter_mut().step_by(length).for_each(|t| *t = bos);
    }
    let perplexity = Evaluator::new(model.decoder.clone()).perplexity(&tokens, length)?;
    println!("{}", serde_json::json!({"perplexity": perplexity, "tokens": tokens.len(), "window": length}));
    Ok(())
}
