//! A small GPT with a mixture of experts: each token goes to two of four experts, and none is dropped. The train step is
//! jitted, so that experts can be spread over processes:
//! ```text
//! cargo build --release -p talweg --bins --example moe
//! target/release/talweg launch --mesh expert=2 target/release/examples/moe
//! target/release/talweg explain --mesh data=2,expert=2 target/release/examples/moe
//! ```
//! It prints the losses, which are those of one device but for rounding.

use talweg::nn::AttentionOptions;
use talweg::prelude::*;

const WIDTH: usize = 32;
const HEADS: usize = 4;
const EXPERTS: usize = 4;
const WORDS: usize = 23;
const LENGTH: usize = 16;
const BATCH: usize = 8;

/// The weights of all experts, one after the other. Plans know them by the name `experts`.
#[derive(Module)]
struct Experts {
    widen: Variable,
    narrow: Variable,
}

impl Experts {
    fn new() -> Result<Experts> {
        let start = |from: usize, to: usize| Tensor::randn([EXPERTS, from, to]) * (1.0 / (from as f64).sqrt());
        Ok(Experts {
            widen: Variable::new("widen", start(WIDTH, 2 * WIDTH))?,
            narrow: Variable::new("narrow", start(2 * WIDTH, WIDTH))?,
        })
    }
    /// What every expert makes of all tokens: `[tokens, width]` becomes `[experts, tokens, width]`.
    fn forward(&self, x: &Tensor) -> Tensor {
        x.unsqueeze(0).matmul(&self.widen.tensor()).gelu().matmul(&self.narrow.tensor())
    }
}

#[derive(Module)]
struct Block {
    norm1: LayerNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    norm2: LayerNorm,
    router: Linear,
    experts: Experts,
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
            router: Linear::new(WIDTH, EXPERTS)?,
            experts: Experts::new()?,
        })
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let heads = |l: &Linear, x: &Tensor| l.forward(x).unflatten(-1, &[HEADS as i64, -1]).transpose(1, 2);
        let h = self.norm1.forward(x);
        let causal = AttentionOptions { causal: true, ..Default::default() };
        let y = heads(&self.q, &h).attention(&heads(&self.k, &h), &heads(&self.v, &h), causal);
        let x = x + self.o.forward(&y.transpose(1, 2).flatten(-2, -1));
        &x + self.mixture(&self.norm2.forward(&x).flatten(0, 1)).unflatten(0, &[-1, LENGTH as i64])
    }
    /// The answers of each token's two experts, weighted.
    fn mixture(&self, x: &Tensor) -> Tensor {
        let scores = self.router.forward(x);
        let [best, _] = scores.top_k(2, -1);
        let is_chosen = scores.ge(best.narrow(-1, 1, 1));
        let share = Tensor::where_(&is_chosen, &scores.softmax(-1), 0.0);
        let share = &share / share.sum_keep(-1);
        (self.experts.forward(x) * share.transpose(0, 1).unsqueeze(-1)).sum(0)
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

fn main() -> Result<()> {
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
    for i in 0..if std::env::var("TALWEG_QUICK").is_ok() { 3 } else { 20 } {
        let loss = step.call(&[&batch(5 * i), &batch(5 * i + 1)])?;
        println!("step {i:2}  loss {:.5}", loss[0].item::<f32>()?);
    }
    Ok(())
}
