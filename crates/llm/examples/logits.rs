//! The likeliest next tokens of a text: `logits MODEL TEXT`.

use cpu as _;
use talweg_llm::LanguageModel;
use talweg_llm::models::attend::Sequences;
use tensor::Tensor;

fn main() -> ir::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let model = LanguageModel::load(&args[1])?;
    let tokens = model.tokenizer.encode(&args[2])?;
    let ids: Vec<i32> = tokens.iter().map(|t| *t as i32).collect();
    let positions: Vec<i32> = (0..ids.len() as i32).collect();
    let attend = Sequences { count: 1, length: ids.len() };
    let hidden = model.decoder.hidden(&Tensor::from(&ids[..]), &Tensor::from(&positions[..]), &attend)?;
    let z = model.decoder.logits(&hidden.narrow(0, ids.len() - 1, 1)).to_vec::<f32>()?;
    let mut order: Vec<usize> = (0..z.len()).collect();
    order.sort_by(|a, b| z[*b].total_cmp(&z[*a]));
    println!("{tokens:?}");
    for t in &order[..5] {
        println!("{t} {:?} {}", model.tokenizer.decode(&[*t as u32]), z[*t]);
    }
    Ok(())
}
