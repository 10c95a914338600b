//! A small GPT that knows nothing of other devices. Its train step is jitted, so that it can be cut over a mesh:
//! ```text
//! cargo build --release -p talweg --bins --example mesh
//! target/release/talweg launch --mesh data=2,tensor=2 --plan megatron target/release/examples/mesh
//! target/release/talweg launch --mesh pipe=2 --plan data,microbatches=4 target/release/examples/mesh
//! target/release/talweg explain --mesh tensor=2 --plan megatron target/release/examples/mesh
//! target/release/talweg launch --mesh data=2,context=2 target/release/examples/mesh
//! ```
//! It prints the losses and a fingerprint of the weights, which are those of one device but for rounding. With
//! `CHECKPOINTS=FOLDER` it saves every fifth step and resumes from the newest one. `STEPS` and `PAUSE_MS` set the
//! length of the run, and `GPT` the size of the model. `MEASURE=1` prints the time of a step.

use std::path::Path;
use talweg::nn::AttentionOptions;
use talweg::nn::train::Checkpoint;
use talweg::prelude::*;

/// The sizes of the model and of a batch.
#[derive(Clone, Copy)]
struct Sizes {
    layers: usize,
    width: usize,
    heads: usize,
    words: usize,
    length: usize,
    batch: usize,
}

impl Sizes {
    /// From `GPT=layers,width,heads,words,length,batch`.
    fn get() -> Sizes {
        let text = std::env::var("GPT").unwrap_or_else(|_| "2,32,4,23,16,8".to_string());
        let all: Vec<usize> = text.split(',').filter_map(|n| n.parse().ok()).collect();
        let [layers, width, heads, words, length, batch] = all[..] else { panic!("GPT is six numbers, not {text}") };
        Sizes { layers, width, heads, words, length, batch }
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
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(sizes: Sizes) -> Result<Block> {
        let width = sizes.width;
        let square = || Linear::new(width, width);
        Ok(Block {
            norm1: LayerNorm::new(&[width])?,
            q: square()?,
            k: square()?,
            v: square()?,
            o: square()?,
            norm2: LayerNorm::new(&[width])?,
            up: Linear::new(width, 4 * width)?,
            down: Linear::new(4 * width, width)?,
        })
    }
    fn forward(&self, x: &Tensor, heads: usize) -> Tensor {
        let heads = |l: &Linear, x: &Tensor| l.forward(x).unflatten(-1, &[heads as i64, -1]).transpose(1, 2);
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
    fn loss(&self, input: &Tensor, target: &Tensor, heads: usize) -> Tensor {
        let x = self.blocks.iter().fold(self.tokens.forward(input), |x, b| b.forward(&x, heads));
        let scores = self.norm.forward(&x).linear(&self.tokens.weight.tensor(), None);
        scores.flatten(0, 1).cross_entropy(&target.flatten(0, 1))
    }
}

/// Trains for some steps; returns the losses and the sum of all weights' bits.
pub fn train(steps: usize) -> Result<(Vec<f32>, u64)> {
    train_from(None, steps, |_| {})
}

/// The same from the newest checkpoint of a folder on, which gets one every fifth step; `after` sees each step.
pub fn train_from(folder: Option<&Path>, steps: usize, after: impl Fn(usize)) -> Result<(Vec<f32>, u64)> {
    manual_seed(0);
    let sizes = Sizes::get();
    let Sizes { width, words, length, batch, .. } = sizes;
    let model = Gpt {
        tokens: Embedding::new(words, width)?,
        blocks: (0..sizes.layers).map(|_| Block::new(sizes)).collect::<Result<_>>()?,
        norm: LayerNorm::new(&[width])?,
    };
    let optimizer = Optimizer::new(Adam { lr: 3e-3, ..Adam::default() }, &model)?;
    let step = jit(|a: &[Tensor]| {
        let loss = model.loss(&a[0], &a[1], sizes.heads);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let word = |i: usize| ((i * i * 7 + i * 3) % words) as i64;
    let text = |from: usize| -> Vec<i64> { (from..from + batch * length).map(word).collect() };
    let batch = |from: usize| Tensor::new([batch, length], &text(from));
    let state = || {
        let model = model.state().into_iter().map(|(name, v)| (format!("model.{name}"), v));
        model.chain(optimizer.state().into_iter().map(|(name, v)| (format!("optimizer.{name}"), v))).collect::<Vec<_>>()
    };
    let mut kept = folder.map(Checkpoints::open).transpose()?;
    let mut first = 0;
    if let Some(found) = kept.as_mut().map(|k| k.latest()).transpose()?.flatten() {
        found.checkpoint.restore("", &state())?;
        first = found.checkpoint.step as usize;
    }
    let mut losses = Vec::new();
    for i in first..steps {
        losses.push(step.call(&[&batch(5 * i), &batch(5 * i + 1)])?[0].item::<f32>()?);
        if let (Some(kept), 4) = (&mut kept, i % 5) {
            kept.save(&Checkpoint::new(i as u64 + 1).with("", &state())?)?;
        }
        after(i);
    }
    let mut bits = 0u64;
    for p in model.parameters() {
        bits = p.tensor().to_vec::<f32>()?.iter().fold(bits, |b, x| b.rotate_left(5) ^ u64::from(x.to_bits()));
    }
    Ok((losses, bits))
}

/// Megabytes of this process, where the system tells.
#[allow(dead_code, reason = "tests take `train` alone")]
fn memory(what: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix(what)?.strip_prefix(':'));
    line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0 / 1e6
}

#[allow(dead_code, reason = "tests take `train` alone")]
fn main() -> Result<()> {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let steps = number("STEPS").unwrap_or(if std::env::var("TALWEG_QUICK").is_ok() { 3 } else { 20 });
    let folder = std::env::var_os("CHECKPOINTS");
    let pause = std::time::Duration::from_millis(number("PAUSE_MS").unwrap_or(0) as u64);
    let (clock, before) = (std::time::Instant::now(), memory("VmRSS"));
    let ends = std::cell::RefCell::new(Vec::new());
    let after = |_| {
        ends.borrow_mut().push(clock.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(pause);
    };
    let (losses, bits) = train_from(folder.as_ref().map(Path::new), steps, after)?;
    if std::env::var("MEASURE").is_ok() {
        let ends = ends.into_inner();
        let mut all: Vec<f64> = ends.windows(2).map(|w| w[1] - w[0]).collect();
        all.sort_by(f64::total_cmp);
        let (median, peak) = (all.get(all.len() / 2).copied().unwrap_or(0.0), memory("VmHWM") - before);
        println!("median step {median:.3} ms, peak of memory {peak:.1} MB more than at the start");
    }
    for (i, loss) in losses.iter().enumerate() {
        println!("step {:2}  loss {loss}", steps - losses.len() + i);
    }
    println!("weights {bits:016x}");
    Ok(())
}
