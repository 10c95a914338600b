//! A small GPT that knows nothing of other devices. Its train step is jitted, so that it can be cut over a mesh:
//! ```text
//! cargo build --release -p talweg --bins --example mesh
//! target/release/talweg launch --mesh data=2,tensor=2 --plan megatron target/release/examples/mesh
//! target/release/talweg launch --mesh pipe=2 --plan data,microbatches=4 target/release/examples/mesh
//! target/release/talweg explain --mesh tensor=2 --plan megatron target/release/examples/mesh
//! ```
//! It prints the losses and a fingerprint of the weights, which are those of one device but for rounding.

use talweg::nn::AttentionOptions;
use talweg::prelude::*;

const WIDTH: usize = 32;
const HEADS: usize = 4;
const WORDS: usize = 23;
const LENGTH: usize = 16;
const BATCH: usize = 8;

#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new() -> Result<Block> {
        let square = || Linear::new(WIDTH, WIDTH);
        Ok(Block {
            norm1: LayerNorm::new(&[WIDTH])?,
            q: square()?,
            k: square()?,
            v: square()?,
            o: square()?,
            norm2: LayerNorm::new(&[WIDTH])?,
            up: Linear::new(WIDTH, 4 * WIDTH)?,
            down: Linear::new(4 * WIDTH, WIDTH)?,
        })
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let heads = |l: &Linear, x: &Tensor| l.forward(x).unflatten(-1, &[HEADS as i64, -1]).transpose(1, 2);
        let h = self.norm1.forward(x);
        let causal = AttentionOptions { causal: true, ..Default::default() };
        let y = heads(&self.q, &h).attention(&heads(&self.k, &h), &heads(&self.v, &h), causal);
        let x = x + self.o.forward(&y.transpose(1, 2).flatten(-2, -1));
        &x + self.down.forward(&self.up.forward(&self.norm2.forward(&x)).gelu())
    }
}

#[derive(Module)]
struct Gpt {
    tokens: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

impl Gpt {
    fn loss(&self, input: &Tensor, target: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold(self.tokens.forward(input), |x, b| b.forward(&x));
        let scores = self.norm.forward(&x).linear(&self.tokens.weight.tensor(), None);
        scores.flatten(0, 1).cross_entropy(&target.flatten(0, 1))
    }
}

/// Trains for some steps; returns the losses and the sum of all weights' bits.
pub fn train(steps: usize) -> Result<(Vec<f32>, u64)> {
    manual_seed(0);
    let model = Gpt {
        tokens: Embedding::new(WORDS, WIDTH)?,
        blocks: vec![Block::new()?, Block::new()?],
        norm: LayerNorm::new(&[WIDTH])?,
    };
    let optimizer = Optimizer::new(Adam { lr: 3e-3, ..Adam::default() }, &model)?;
    let step = jit(|a: &[Tensor]| {
        let loss = model.loss(&a[0], &a[1]);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let word = |i: usize| ((i * i * 7 + i * 3) % WORDS) as i64;
    let text = |from: usize| -> Vec<i64> { (from..from + BATCH * LENGTH).map(word).collect() };
    let batch = |from: usize| Tensor::new([BATCH, LENGTH], &text(from));
    let losses =
        (0..steps).map(|i| step.call(&[&batch(5 * i), &batch(5 * i + 1)])?[0].item::<f32>()).collect::<Result<_>>()?;
    let mut bits = 0u64;
    for p in model.parameters() {
        bits = p.tensor().to_vec::<f32>()?.iter().fold(bits, |b, x| b.rotate_left(5) ^ u64::from(x.to_bits()));
    }
    Ok((losses, bits))
}

#[allow(dead_code, reason = "tests take `train` alone")]
fn main() -> Result<()> {
    let (losses, bits) = train(if std::env::var("TALWEG_QUICK").is_ok() { 3 } else { 20 })?;
    for (i, loss) in losses.iter().enumerate() {
        println!("step {i:2}  loss {loss}");
    }
    println!("weights {bits:016x}");
    Ok(())
}
