//! A small GPT trained on characters: nanoGPT's configuration for a laptop (4 layers, 4 heads, width
//! 128, context 64, batch 12, 2000 steps).
//!
//! ```text
//! cargo run --release -p talweg --example char_gpt -- input.txt
//! cargo run --release -p talweg --example char_gpt -- input.txt models/gpt    # exports it too
//! talweg build models/gpt --target wasm32 -o web/model.wasm
//! ```
//! The page `crates/edge/web/text.html` writes text with the last of them.
//!
//! Without a file it reads this project's own description, which is short. On
//! [Tiny Shakespeare](https://github.com/karpathy/char-rnn/tree/master/data/tinyshakespeare) it takes
//! 65 s on two cores. The loss on the last tenth of the text is **1.89** by nanoGPT's estimate over 20
//! batches (nanoGPT states 1.88). Over all of it the loss is **1.901** (PyTorch with the same settings:
//! 1.908). Then it generates text:
//! ```text
//! NERWARD:
//! How it the not shough of thou so post thou trude
//! Care: thou rush stiong the the awn thy drow.
//! ```

use talweg::data::{Batch, Chars, Text, Tokenizer};
use talweg::export::Export;
use talweg::generator::next_key;
use talweg::nn::AttentionOptions;
use talweg::nn::schedule::{Cosine, Warmup};
use talweg::{Bar, prelude::*};

const LAYERS: usize = 4;
const HEADS: usize = 4;
const WIDTH: usize = 128;
const CONTEXT: usize = 64;
const BATCH: usize = 12;

/// Attention to what came before and a perceptron for each place, each with a way around it.
#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    attend: Linear,
    attended: Linear,
    norm2: LayerNorm,
    widen: Linear,
    narrow: Linear,
}

impl Block {
    fn new() -> Result<Block> {
        Ok(Block {
            norm1: LayerNorm::without_bias(&[WIDTH])?,
            attend: Linear::without_bias(WIDTH, 3 * WIDTH)?,
            attended: Linear::without_bias(WIDTH, WIDTH)?,
            norm2: LayerNorm::without_bias(&[WIDTH])?,
            widen: Linear::without_bias(WIDTH, 4 * WIDTH)?,
            narrow: Linear::without_bias(4 * WIDTH, WIDTH)?,
        })
    }
    /// `attention` takes queries, keys and values, each [N, HEADS, places, WIDTH / HEADS].
    fn forward(&self, x: &Tensor, attention: impl FnOnce(&[Tensor]) -> Tensor) -> Tensor {
        let heads = |x: &Tensor| x.unflatten(-1, &[HEADS as i64, -1]).transpose(1, 2);
        let qkv: Vec<Tensor> = self.attend.forward(&self.norm1.forward(x)).chunk(3, -1).iter().map(heads).collect();
        let x = x + self.attended.forward(&attention(&qkv).transpose(1, 2).flatten(-2, -1));
        &x + self.narrow.forward(&self.widen.forward(&self.norm2.forward(&x)).gelu())
    }
}

#[derive(Module)]
struct Gpt {
    tokens: Embedding,
    places: Variable,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

impl Gpt {
    fn new(alphabet: usize) -> Result<Gpt> {
        let model = Gpt {
            tokens: Embedding::new(alphabet, WIDTH)?,
            places: Variable::new("places", Tensor::zeros([CONTEXT, WIDTH]))?,
            blocks: (0..LAYERS).map(|_| Block::new()).collect::<Result<_>>()?,
            norm: LayerNorm::without_bias(&[WIDTH])?,
        };
        // GPT-2's first values: what is added to the residual stream starts smaller.
        for (name, weight) in model.named_parameters().iter().filter(|(_, v)| v.shape().rank() == 2) {
            let is_residual = name.ends_with("attended.weight") || name.ends_with("narrow.weight");
            let spread = if is_residual { 0.02 / (2.0 * LAYERS as f64).sqrt() } else { 0.02 };
            weight.assign(&(Tensor::randn(weight.shape()) * spread))?;
        }
        Ok(model)
    }
    /// Characters `[N, CONTEXT]` to scores of the next one, `[N, CONTEXT, alphabet]`.
    fn forward(&self, characters: &Tensor) -> Tensor {
        let causal = || AttentionOptions { causal: true, ..Default::default() };
        let attention = |qkv: &[Tensor]| qkv[0].attention(&qkv[1], &qkv[2], causal());
        let x = self.tokens.forward(characters) + self.places.tensor();
        self.scores(&self.blocks.iter().fold(x, |x, block| block.forward(&x, attention)))
    }
    /// The embedding's table is used once more: a character is likely if its row is close.
    fn scores(&self, x: &Tensor) -> Tensor {
        self.norm.forward(x).linear(&self.tokens.weight.tensor(), None)
    }
    /// One character `[1, 1]` and its place `[1]`, with the keys and values of those before,
    /// `[LAYERS, HEADS, CONTEXT, WIDTH / HEADS]` each: scores of the next one, `[1, 1, alphabet]`, and keys and values
    /// with its own.
    fn step(&self, [character, place, keys, values]: [&Tensor; 4]) -> Vec<Tensor> {
        let places = Tensor::iota(CONTEXT, DType::I64);
        let (is_here, is_seen) = (places.eq(place).unsqueeze(-1), places.le(place).unsqueeze(0));
        let mut x = self.tokens.forward(character) + self.places.tensor().index_select(0, place);
        let mut caches = [Vec::new(), Vec::new()];
        for (i, block) in self.blocks.iter().enumerate() {
            x = block.forward(&x, |qkv| {
                let [k, v] = [(keys, &qkv[1]), (values, &qkv[2])]
                    .map(|(cache, new)| Tensor::where_(&is_here, new, cache.select(0, i as i64).unsqueeze(0)));
                let options = AttentionOptions { mask: Some(is_seen.clone()), ..Default::default() };
                let y = qkv[0].attention(&k, &v, options);
                caches[0].push(k.squeeze(0));
                caches[1].push(v.squeeze(0));
                y
            });
        }
        let [keys, values] = caches.map(|c| Tensor::stack(&c, 0));
        vec![self.scores(&x), keys, values]
    }
    fn loss(&self, input: &Tensor, target: &Tensor) -> Tensor {
        self.forward(input).flatten(0, 1).cross_entropy(&target.flatten(0, 1))
    }
}

fn main() -> Result<()> {
    manual_seed(1337);
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    let (steps, letters) = if is_quick { (6, 10) } else { (2_000, 500) };
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(&path).map_err(|e| Error::value(format!("{path}: {e}")))?,
        None => {
            println!("No text was given: reading ARCHITECTURE.md.");
            include_str!("../../../ARCHITECTURE.md").to_string()
        }
    };
    let alphabet = Chars::of(&text);
    let (train, rest) = Text::new(&text, &alphabet, CONTEXT)?.cut(0.9)?;
    let mut batches = Loader::builder(train.stride(1)?).batch(BATCH).shuffle(0).build()?;
    let mut samples = Loader::builder(rest.clone().stride(1)?).batch(BATCH).shuffle(0).build()?;
    let mut all = Loader::builder(rest).batch(BATCH).build()?;

    let model = Gpt::new(alphabet.size())?;
    println!("{} parameters, {} different characters", model.parameter_count(), alphabet.size());
    let (matrices, scales): (Vec<Variable>, Vec<Variable>) =
        model.parameters().into_iter().partition(|v| v.shape().rank() > 1);
    let rule = AdamW { lr: 1e-3, betas: (0.9, 0.99), weight_decay: 0.1, ..AdamW::default() };
    let mut optimizer = Optimizer::new(rule, matrices.as_slice())?;
    optimizer.add_group(scales.as_slice(), 1e-3, 0.0)?;
    let cosine = Cosine { lr: 1e-3, lr_min: 1e-4, steps: steps - steps / 20 };
    Trainer::new(&model, &optimizer, &mut batches)
        .steps(steps)
        .schedule(Warmup { steps: steps / 20, start: 0.01, then: cosine })
        .clip_norm(1.0)
        .evaluate(250, || {
            let estimate = mean_loss(&model, (&mut samples).take(20))?;
            Ok(vec![("validation_of_20_batches".into(), estimate)])
        })
        .report(Bar::new())
        .fit_jit(&["input", "target"], |batch| Ok(model.loss(&batch[0], &batch[1])))?;
    println!("loss over the whole validation part: {:.4}\n", no_grad(|| mean_loss(&model, &mut all))?);
    write(&model, &alphabet, letters)?;
    match std::env::args().nth(2) {
        Some(dir) => export(&model, &alphabet, &dir),
        None => Ok(()),
    }
}

/// Writes a step of the model, with a KV cache, and beside it its alphabet as a list of characters.
fn export(model: &Gpt, alphabet: &Chars, dir: &str) -> Result<()> {
    let cache = Tensor::zeros([LAYERS, HEADS, CONTEXT, WIDTH / HEADS]);
    let export = Export::new("gpt")
        .input("character", &Tensor::zeros_of([1, 1], DType::I64), &["", ""])
        .input("place", &Tensor::zeros_of([1], DType::I64), &[""])
        .input("keys", &cache, &[""; 4])
        .input("values", &cache, &[""; 4])
        .outputs(&["scores", "next_keys", "next_values"]);
    export.write(dir, |x| Ok(model.step([&x[0], &x[1], &x[2], &x[3]])))?;
    let characters =
        (0..alphabet.size() as u32).map(|c| alphabet.decode(&[c])).collect::<talweg::data::Result<Vec<_>>>()?;
    let list = serde_json::to_string(&characters).map_err(|e| Error::value(e.to_string()))?;
    std::fs::write(format!("{dir}/alphabet.json"), list)?;
    println!("talweg build {dir} --target wasm32");
    Ok(())
}

/// Mean loss a character.
fn mean_loss(model: &Gpt, batches: impl Iterator<Item = talweg::data::Result<Batch>>) -> Result<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for batch in batches {
        let batch = batch?;
        let loss = model.loss(&batch.column("input")?, &batch.column("target")?);
        sum += loss.item::<f64>()? * batch.len() as f64;
        count += batch.len();
    }
    Ok(sum / count as f64)
}

/// Prints characters that the model draws one after the other.
fn write(model: &Gpt, alphabet: &Chars, letters: usize) -> Result<()> {
    // Always a whole context, filled up at the end, where causal attention does not look: so one
    // trace serves all lengths.
    let next = jit(|a: &[Tensor]| {
        let scores = no_grad(|| model.forward(&a[0])).squeeze(0).index_select(0, &a[1]);
        Ok(vec![Tensor::random_categorical(&next_key(), &(scores / 0.8), 1)])
    });
    let mut written = vec![0]; // the first character in order: a line's end, if the text has lines
    for _ in 0..letters {
        let seen = &written[written.len().saturating_sub(CONTEXT)..];
        let mut context: Vec<i64> = seen.iter().map(|c| *c as i64).collect();
        let last = Tensor::from([context.len() as i64 - 1]);
        context.resize(CONTEXT, 0);
        let drawn = next.call(&[&Tensor::new([1, CONTEXT], &context), &last])?;
        written.push(drawn[0].item::<i64>()? as u32);
    }
    println!("{}", alphabet.decode(&written)?);
    Ok(())
}
