//! Training on the device follows training on the CPU, and goes on for minutes in the same memory.

use super::language::{Gpt, Sizes};
use super::{emit, losses as perceptron};
use crate::harness::{Init, fill, labels};
use nn::optim::{Adam, Optimizer};
use nn::{Conv2d, Layer, Linear, Module};
use std::time::{Duration, Instant};
use tensor::nn::MaxPoolOptions;
use tensor::{DType, Error, Result, Tensor, autocast, device, engine_named, jit, manual_seed};

/// Losses compared, and how far they may be apart.
const STEPS: usize = 40;
const APART: f64 = 2e-3;

#[derive(nn::Module)]
struct Images {
    convs: Vec<Conv2d>,
    last: Linear,
}

/// Losses of a convolutional network on images of noise.
fn images() -> Result<Vec<f64>> {
    let m = Images {
        convs: vec![Conv2d::new(1, 8, [3, 3])?, Conv2d::new(8, 16, [3, 3])?],
        last: Linear::new(16 * 5 * 5, 10)?,
    };
    let mut init = Init::new();
    m.convs.iter().try_for_each(|c| init.affine(&c.weight, c.bias.as_ref()))?;
    init.linear(&m.last)?;
    let forward = |x: &Tensor| {
        let h = m.convs.iter().fold(x.clone(), |h, c| c.forward(&h).relu().max_pool2d(2, MaxPoolOptions::new()));
        m.last.forward(&h.flatten(1, -1))
    };
    train(&m, fill(1, &[32, 1, 28, 28], 1.0), labels(2, &[32], 10), |x, y| Ok(forward(x).cross_entropy(y)))
}

fn small() -> Sizes {
    Sizes { vocabulary: 65, context: 64, layers: 2, heads: 4, width: 64 }
}

/// Losses of a small GPT on random characters.
fn characters() -> Result<Vec<f64>> {
    manual_seed(7);
    let (s, m) = (small(), Gpt::new(small())?);
    let text = |seed| labels(seed, &[8, s.context], s.vocabulary as u32);
    train(&m, text(1), text(2), |x, y| m.loss(x, y))
}

fn train(m: &impl Module, x: Tensor, y: Tensor, loss: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Vec<f64>> {
    let optimizer = Optimizer::new(Adam::default(), m.parameters().as_slice())?;
    let step = jit(|a: &[Tensor]| {
        let loss = loss(&a[0], &a[1])?;
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    (0..STEPS).map(|_| step.call(&[&x, &y])?[0].item()).collect()
}

/// The models of the examples, in f32, on the device and on the CPU.
pub fn losses(at: &str) -> Result<()> {
    cuda::allow_tf32(false);
    let models: [(&str, &dyn Fn(&str) -> Result<Vec<f64>>); 3] = [
        ("mlp", &|at| Ok(perceptron(at, &[784, 100, 10], STEPS)?.0)),
        ("cnn", &|_| images()),
        ("char-gpt", &|_| characters()),
    ];
    for (name, f) in models {
        let start = Instant::now();
        let ours = device(at, || f(at))??;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let cpu = device("cpu", || f("cpu"))??;
        let off = ours.iter().zip(&cpu).map(|(a, b)| (a - b).abs() / b.abs().max(0.1)).fold(0.0, f64::max);
        let (first, last) = (ours[0], ours[STEPS - 1]);
        let note = format!("{STEPS} losses from {first:.4} to {last:.4}, apart from the CPU's by {off:.1e} at most");
        emit(&format!("losses-{name}"), ms, None, "", &note);
        if off > APART || off.is_nan() {
            return Err(Error::value(format!("{name}: losses are {off:e} apart")));
        }
    }
    cuda::allow_tf32(true);
    Ok(())
}

/// Trains for `BENCH_SOAK_S` seconds (600 unless set), with new graphs and old ones, and says how
/// memory goes.
pub fn soak(at: &str) -> Result<()> {
    let seconds = std::env::var("BENCH_SOAK_S").ok().and_then(|v| v.parse().ok()).unwrap_or(600);
    let device = engine_named(at)?.device();
    let (s, m) = (small(), Gpt::new(small())?);
    let optimizer = Optimizer::new(Adam::default(), m.parameters().as_slice())?;
    let loss = |x: &Tensor, y: &Tensor| autocast(DType::BF16, || m.loss(x, y))?;
    let step = jit(|a: &[Tensor]| {
        let loss = loss(&a[0], &a[1])?;
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let (start, mut shown, mut steps) = (Instant::now(), Instant::now(), 0u32);
    let mut held = Vec::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        // Batches of several sizes, from the host each time; every eighth step without a graph kept.
        let batch = 4 + (steps % 5) as usize * 4;
        let text = |seed: u32| labels(seed, &[batch, s.context], s.vocabulary as u32);
        let (x, y) = (text(2 * steps), text(2 * steps + 1));
        if steps % 8 == 7 {
            let l = loss(&x.to(at), &y.to(at))?;
            l.backward()?;
            optimizer.step()?;
            l.item::<f64>()?;
        } else {
            step.call(&[&x, &y])?;
        }
        steps += 1;
        if shown.elapsed() > Duration::from_secs(seconds.div_ceil(10)) {
            device.synchronize()?;
            let m = device.memory().unwrap_or_default();
            held.push(m.held_bytes);
            let mb = |n: usize| n as f64 / 1e6;
            let note = format!("{:.1} MB used, {:.1} MB held after {steps} steps", mb(m.used_bytes), mb(m.held_bytes));
            emit("soak", start.elapsed().as_secs_f64() * 1e3, Some(steps.into()), "steps", &note);
            shown = Instant::now();
        }
    }
    // The first tenth may still meet new sizes.
    match held.as_slice() {
        [_, first, .., last] if last > first => Err(Error::value(format!("memory grew from {first} to {last} bytes"))),
        _ => Ok(()),
    }
}
