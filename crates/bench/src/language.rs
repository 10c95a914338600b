//! Sequence models: an LSTM, and a small GPT in training and writing token by token.

use crate::harness::{Init, Measured, fill, labels, repeats, steps};
use nn::optim::{Adam, AdamW, Optimizer};
use nn::{Layer, LayerNorm, Linear, Lstm, Module, RecurrentOptions};
use std::fmt;
use tensor::nn::AttentionOptions;
use tensor::{DType, Error, Result, Tensor, Variable, jit};

/// One training step of an LSTM of 256 cells on 64 inputs, batch 32.
pub fn lstm() -> Result<Measured> {
    const HIDDEN: usize = 256;
    let rnn = Lstm::with(128, HIDDEN, RecurrentOptions { batch_first: true, ..Default::default() })?;
    let last = Linear::new(HIDDEN, 10)?;
    let mut init = Init::new();
    let mut params = Vec::new();
    for (name, v) in rnn.named_parameters() {
        match name.as_str() {
            "weight_ih_l0" | "weight_hh_l0" => init.bound(&v, 1.0 / 16.0)?,
            _ => v.assign(&Tensor::zeros(v.shape()))?,
        }
        // One bias is trained; the second would only double its steps.
        v.set_trainable(name != "bias_hh_l0");
        params.extend((name != "bias_hh_l0").then_some(v));
    }
    init.linear(&last)?;
    params.extend(last.parameters());
    let optimizer = Optimizer::new(Adam::default(), params.as_slice())?;
    let step = jit(|a: &[Tensor]| {
        let seen = rnn.forward(&a[0]).select(1, -1);
        let loss = last.forward(&seen).cross_entropy(&a[1]);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let (x, y) = (fill(1, &[32, 64, 128], 1.0), labels(2, &[32], 10));
    steps(|| step.call(&[&x, &y])?[0].item())
}

/// The size of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Sequences.
    pub batch: usize,
    /// Elements of a token.
    pub width: usize,
    /// Blocks.
    pub layers: usize,
    /// Tokens of a sequence.
    pub context: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpt:{}x{}x{}x{}", self.batch, self.width, self.layers, self.context)
    }
}

impl Size {
    /// From a name such as `gpt:8x384x6x256`: batch, width, layers, context.
    pub fn parse(name: &str) -> Option<Size> {
        let parts: Option<Vec<usize>> = name.strip_prefix("gpt:")?.split('x').map(|p| p.parse().ok()).collect();
        let [batch, width, layers, context] = parts?[..] else { return None };
        let is_fit = batch > 0 && width > 0 && width % HEAD == 0 && layers > 0 && context > 0;
        is_fit.then_some(Size { batch, width, layers, context })
    }
}

/// nanoGPT's small configuration.
const SMALL: Size = Size { batch: 8, width: 384, layers: 6, context: 256 };
/// The width of a head.
const HEAD: usize = 64;
const VOCABULARY: usize = 65;

#[derive(nn::Module)]
struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(width: usize, init: &mut Init) -> Result<Block> {
        let b = Block {
            norm1: LayerNorm::new(&[width])?,
            qkv: Linear::new(width, 3 * width)?,
            out: Linear::new(width, width)?,
            norm2: LayerNorm::new(&[width])?,
            up: Linear::new(width, 4 * width)?,
            down: Linear::new(4 * width, width)?,
        };
        [&b.qkv, &b.out, &b.up, &b.down].into_iter().try_for_each(|l| init.linear(l))?;
        Ok(b)
    }
    /// Queries, keys and values, each `[batch, heads, tokens, width of a head]`.
    fn heads(&self, x: &Tensor) -> Result<[Tensor; 3]> {
        let [batch, tokens, width] = x.dims()?;
        let parts = self.qkv.forward(&self.norm1.forward(x)).chunk(3, -1);
        let split = |t: Tensor| t.reshape([batch, tokens, width / HEAD, HEAD]).transpose(1, 2);
        parts
            .into_iter()
            .map(split)
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|p: Vec<Tensor>| Error::bug(format!("{} parts instead of 3", p.len())))
    }
    /// What follows the attention `seen`.
    fn rest(&self, x: &Tensor, seen: &Tensor) -> Result<Tensor> {
        let x = x + self.out.forward(&seen.transpose(1, 2).reshape(x.shape()?));
        let h = self.up.forward(&self.norm2.forward(&x)).gelu_tanh();
        Ok(&x + self.down.forward(&h))
    }
}

#[derive(nn::Module)]
struct Gpt {
    tokens: Variable,
    places: Variable,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Gpt {
    fn new(size: Size) -> Result<Gpt> {
        let Size { width, layers, context, .. } = size;
        let mut init = Init::new();
        let table = |init: &mut Init, name: &str, rows: usize| -> Result<Variable> {
            let v = Variable::new(name, Tensor::zeros([rows, width]))?;
            init.bound(&v, 0.05)?;
            Ok(v)
        };
        let tokens = table(&mut init, "tokens", VOCABULARY)?;
        let places = table(&mut init, "places", context)?;
        let blocks = (0..layers).map(|_| Block::new(width, &mut init)).collect::<Result<_>>()?;
        let head = Linear::without_bias(width, VOCABULARY)?;
        init.linear(&head)?;
        Ok(Gpt { tokens, places, blocks, norm: LayerNorm::new(&[width])?, head })
    }
    /// Logits for tokens `[batch, context]`.
    fn forward(&self, index: &Tensor) -> Result<Tensor> {
        let mut x = self.tokens.tensor().embedding(index) + self.places.tensor();
        for b in &self.blocks {
            let [q, k, v] = b.heads(&x)?;
            let seen = q.attention(&k, &v, AttentionOptions { causal: true, ..Default::default() });
            x = b.rest(&x, &seen)?;
        }
        Ok(self.head.forward(&self.norm.forward(&x)))
    }
    /// Logits for the `token` at `place`, given what the caches hold of the tokens before it.
    fn decode(&self, token: &Tensor, place: &Tensor, caches: &[[Variable; 2]]) -> Result<Tensor> {
        let mut x = (self.tokens.tensor().embedding(token) + self.places.tensor().embedding(place)).unsqueeze(0);
        let context = self.places.shape()[0];
        let mask = Tensor::iota(context, DType::I64).le(place).reshape([1, context]);
        for (b, [keys, values]) in self.blocks.iter().zip(caches) {
            let [q, k, v] = b.heads(&x)?;
            let [k, v] = [(keys, k), (values, v)].map(|(cache, new)| cache.tensor().index_copy(2, place, &new));
            keys.assign(&k)?;
            values.assign(&v)?;
            let seen = q.attention(&k, &v, AttentionOptions { mask: Some(mask.clone()), ..Default::default() });
            x = b.rest(&x, &seen)?;
        }
        Ok(self.head.forward(&self.norm.forward(&x)).reshape([VOCABULARY]))
    }
}

/// One training step of the small model on 256 tokens, batch 8.
pub fn gpt_train() -> Result<Measured> {
    gpt_step(SMALL)
}

/// One training step.
pub fn gpt_step(size: Size) -> Result<Measured> {
    let m = Gpt::new(size)?;
    let rule = AdamW { lr: 3e-4, betas: (0.9, 0.95), weight_decay: 0.1, ..Default::default() };
    let optimizer = Optimizer::new(rule, &m)?;
    let Size { batch, context, .. } = size;
    let tokens = labels(1, &[batch, context + 1], VOCABULARY as u32);
    let (x, y) = (tokens.narrow(1, 0, context), tokens.narrow(1, 1, context));
    let step = jit(|a: &[Tensor]| {
        let logits = m.forward(&a[0])?.reshape([batch * context, VOCABULARY]);
        let loss = logits.cross_entropy(&a[1].reshape([batch * context]));
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    steps(|| step.call(&[&x, &y])?[0].item())
}

/// Greedy writing from token 0 over the whole context, batch 1; milliseconds a token.
pub fn gpt_decode() -> Result<Measured> {
    const STEPS: usize = SMALL.context - 1;
    let m = Gpt::new(SMALL)?;
    let cache = || Variable::buffer("cache", Tensor::zeros([1, SMALL.width / HEAD, SMALL.context, HEAD]));
    let caches = (0..SMALL.layers).map(|_| Ok([cache()?, cache()?])).collect::<Result<Vec<_>>>()?;
    let next = jit(|a: &[Tensor]| {
        let logits = m.decode(&a[0], &a[1], &caches)?;
        Ok(vec![logits.argmax(-1).reshape([1]), logits.max(..)])
    });
    let places: Vec<Tensor> = (0..STEPS).map(|i| Tensor::from([i as i64])).collect();
    let generate = || -> Result<f64> {
        let (mut token, mut sum) = (Tensor::from([0i64]), 0.0);
        for place in &places {
            let mut out = next.call(&[&token, place])?;
            sum += out[1].item::<f64>()?;
            token = out.swap_remove(0);
        }
        Ok(sum / STEPS as f64)
    };
    let check = generate()?;
    let times = repeats(|| generate().map(drop))?;
    Ok(Measured { times: times.divided(STEPS), check })
}
