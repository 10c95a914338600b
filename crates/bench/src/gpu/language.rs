//! GPT-2 of 124 million parameters in training, and a Llama-shaped model of a billion writing.

use super::{emit, look, timed, timed_wall};
use crate::harness::labels;
use nn::optim::{AdamW, Optimizer};
use nn::{Layer, LayerNorm, Linear, Module};
use tensor::nn::AttentionOptions;
use tensor::{DType, Error, Result, Tensor, Variable, autocast, engine_named, jit};

/// Sizes of a GPT.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub vocabulary: usize,
    pub context: usize,
    pub layers: usize,
    pub heads: usize,
    pub width: usize,
}

#[derive(nn::Module)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    fc: Linear,
    out: Linear,
    heads: usize,
}

impl Block {
    fn new(s: Sizes) -> Result<Block> {
        let d = s.width;
        Ok(Block {
            ln1: LayerNorm::new(&[d])?,
            qkv: Linear::new(d, 3 * d)?,
            proj: Linear::new(d, d)?,
            ln2: LayerNorm::new(&[d])?,
            fc: Linear::new(d, 4 * d)?,
            out: Linear::new(4 * d, d)?,
            heads: s.heads,
        })
    }
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [batch, tokens, width] = x.dims()?;
        let each = width / self.heads;
        let parts = self.qkv.forward(&self.ln1.forward(x)).reshape([batch, tokens, 3, self.heads, each]);
        let split = parts.split_sizes(&[1, 1, 1], 2);
        let [q, k, v] = [0, 1, 2].map(|i| split[i].reshape([batch, tokens, self.heads, each]).transpose(1, 2));
        let seen = q.attention(&k, &v, AttentionOptions { causal: true, ..Default::default() });
        let x = x + self.proj.forward(&seen.transpose(1, 2).reshape([batch, tokens, width]));
        Ok(&x + self.out.forward(&self.fc.forward(&self.ln2.forward(&x)).gelu_tanh()))
    }
}

/// A GPT whose head is its table of tokens.
#[derive(nn::Module)]
pub struct Gpt {
    tokens: Variable,
    places: Variable,
    blocks: Vec<Block>,
    ln: LayerNorm,
}

impl Gpt {
    pub fn new(s: Sizes) -> Result<Gpt> {
        let table = |name: &str, rows: usize| Variable::new(name, Tensor::randn([rows, s.width]) * 0.02);
        Ok(Gpt {
            tokens: table("tokens", s.vocabulary)?,
            places: table("places", s.context)?,
            blocks: (0..s.layers).map(|_| Block::new(s)).collect::<Result<_>>()?,
            ln: LayerNorm::new(&[s.width])?,
        })
    }
    /// The mean loss of the next tokens; the head's weights are the table of tokens.
    pub fn loss(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let mut h = self.tokens.tensor().embedding(x) + self.places.tensor();
        for b in &self.blocks {
            h = b.forward(&h)?;
        }
        let logits = self.ln.forward(&h).linear(&self.tokens.tensor(), None);
        let [batch, tokens, vocabulary] = logits.dims()?;
        Ok(logits.reshape([batch * tokens, vocabulary]).cross_entropy(&y.reshape([batch * tokens])))
    }
}

/// One training step on 32 × 1024 tokens with AdamW, products in bf16, or linear layers in 8 bits.
pub fn train(at: &str, dtype: DType) -> Result<()> {
    let s = Sizes { vocabulary: 50304, context: 1024, layers: 12, heads: 12, width: 768 };
    let batch = 32;
    let m = Gpt::new(s)?;
    let optimizer = Optimizer::new(AdamW { lr: 3e-4, ..Default::default() }, &m)?;
    let count: usize = m.parameters().iter().map(|p| p.shape().count()).sum();
    let each = 6 * (count - s.context * s.width) + 12 * s.layers * s.width * s.context;
    let step = jit(|a: &[Tensor]| {
        let loss = autocast(dtype, || m.loss(&a[0], &a[1]))??;
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let new = |seed: u32| labels(seed, &[batch, s.context], s.vocabulary as u32).to(at);
    let (x, y) = (new(1), new(2));
    let first: f64 = step.call(&[&x, &y])?[0].item()?;
    look(&step, &[&x, &y])?;
    let device = engine_named(at)?.device();
    device.reset_peak();
    let ms = timed(at, 5, 15, || step.call(&[&x, &y]).map(drop))?;
    let last: f64 = step.call(&[&x, &y])?[0].item()?;
    let rate = (batch * s.context) as f64 / ms * 1e3;
    let used = (each as f64) * rate / 790e12;
    let peak = device.memory().map_or(0.0, |m| m.peak_bytes as f64 / f64::from(1 << 30));
    let note = format!("MFU vs 790 TF {used:.3}, peak {peak:.1} GiB, loss {first:.3} to {last:.3} in 21 steps");
    let name = if dtype.is_f8() { "fp8" } else { "bf16" };
    emit(&format!("gpt2-124m-train-{name}-b32x1024"), ms, Some(rate), "tokens/s", &note);
    Ok(())
}

const WIDTH: usize = 2048;
const LAYERS: usize = 16;
const HEADS: usize = 32;
const KEPT: usize = 8;
const HEAD: usize = WIDTH / HEADS;
const INNER: usize = 8192;
const VOCABULARY: usize = 128_256;
const CONTEXT: usize = 1024;

/// The weights of a Llama block, and what it has seen.
struct Layer1b {
    norms: [Variable; 2],
    qkv: Variable,
    out: Variable,
    gate_up: Variable,
    down: Variable,
    keys: Variable,
    values: Variable,
}

fn weight(shape: &[usize]) -> Result<Variable> {
    let scale = 1.0 / (shape[shape.len() - 1] as f64).sqrt();
    Variable::buffer("weight", (Tensor::randn(shape) * scale).cast(DType::BF16))
}

impl Layer1b {
    fn new(batch: usize) -> Result<Layer1b> {
        let ones = || Variable::buffer("norm", Tensor::ones([WIDTH]).cast(DType::BF16));
        let cache = || Variable::buffer("cache", Tensor::zeros([batch, KEPT, CONTEXT, HEAD]).cast(DType::BF16));
        Ok(Layer1b {
            norms: [ones()?, ones()?],
            qkv: weight(&[(HEADS + 2 * KEPT) * HEAD, WIDTH])?,
            out: weight(&[WIDTH, WIDTH])?,
            gate_up: weight(&[2 * INNER, WIDTH])?,
            down: weight(&[WIDTH, INNER])?,
            keys: cache()?,
            values: cache()?,
        })
    }
    fn forward(&self, x: &Tensor, place: &Tensor, [cos, sin]: &[Tensor; 2], mask: &Tensor) -> Result<Tensor> {
        let batch = x.shape()?[0];
        let normed = |x: &Tensor, w: &Variable| x.rms_norm(1, Some(&w.tensor()), 1e-5);
        let all = normed(x, &self.norms[0]).linear(&self.qkv.tensor(), None);
        let parts =
            all.reshape([batch, 1, HEADS + 2 * KEPT, HEAD]).transpose(1, 2).split_sizes(&[HEADS, KEPT, KEPT], 1);
        let [q, k, v]: [Tensor; 3] =
            parts.try_into().map_err(|p: Vec<Tensor>| Error::bug(format!("{} parts instead of 3", p.len())))?;
        let (q, k) = (q.rope(cos, sin, false), k.rope(cos, sin, false));
        let keys = self.keys.tensor().index_copy(2, place, &k);
        let values = self.values.tensor().index_copy(2, place, &v);
        self.keys.assign(&keys)?;
        self.values.assign(&values)?;
        let options = AttentionOptions { mask: Some(mask.clone()), grouped: true, ..Default::default() };
        let seen = q.attention(&keys, &values, options).transpose(1, 2).reshape([batch, 1, WIDTH]);
        let x = x + seen.linear(&self.out.tensor(), None);
        let both = normed(&x, &self.norms[1]).linear(&self.gate_up.tensor(), None).chunk(2, -1);
        Ok(&x + (both[0].silu() * &both[1]).linear(&self.down.tensor(), None))
    }
}

/// One token a row at position 512, with what came before in a cache of 1024.
pub fn decode(at: &str, batch: usize) -> Result<()> {
    let table = weight(&[VOCABULARY, WIDTH])?;
    let layers = (0..LAYERS).map(|_| Layer1b::new(batch)).collect::<Result<Vec<_>>>()?;
    let norm = Variable::buffer("norm", Tensor::ones([WIDTH]).cast(DType::BF16))?;
    let next = jit(|a: &[Tensor]| {
        let place = &a[1];
        let turns = Tensor::rope_table(place, HEAD, 500_000.0);
        let mask = Tensor::iota(CONTEXT, DType::I64).le(place).reshape([1, CONTEXT]);
        let mut x = table.tensor().embedding(&a[0]);
        for l in &layers {
            x = l.forward(&x, place, &turns, &mask)?;
        }
        let logits = x.rms_norm(1, Some(&norm.tensor()), 1e-5).linear(&table.tensor(), None);
        Ok(vec![logits.argmax(-1)])
    });
    let token = Tensor::full([batch, 1], 0i64).to(at);
    let place = Tensor::from([512i64]).to(at);
    let ms = timed_wall(at, 100, || next.call(&[&token, &place]).map(drop))?;
    look(&next, &[&token, &place])?;
    let weights = LAYERS * ((HEADS + 2 * KEPT) * HEAD * WIDTH + WIDTH * WIDTH + 3 * INNER * WIDTH) + VOCABULARY * WIDTH;
    let bytes = (weights * 2 + 2 * LAYERS * batch * KEPT * HEAD * 512 * 2) as f64;
    let note = format!("of 4.3 TB/s {:.3}", bytes / ms / 1e9 / 4.3);
    emit(&format!("llama1b-decode-bf16-b{batch}-pos512"), ms, Some(batch as f64 / ms * 1e3), "tokens/s", &note);
    Ok(())
}
