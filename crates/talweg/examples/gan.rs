//! A generative adversarial network (Goodfellow and others 2014) on the usual test: eight Gaussians on a
//! circle. A generator that has not learned covers only some of them, or draws points between them.
//!
//! `cargo run --release -p talweg --example gan` covers all 8 modes, with 94 % of 10 000 points within
//! three standard deviations of one (98.9 % for the true distribution), in half a minute.

use talweg::prelude::*;

const CLOUDS: usize = 8;
const SPREAD: f64 = 0.05;
const NOISE: usize = 8;
const BATCH: usize = 256;

/// The middles of the clouds, on the unit circle.
fn middles() -> Tensor {
    let angle = Tensor::arange(0..CLOUDS as i64).cast(DType::F32) * (std::f64::consts::TAU / CLOUDS as f64);
    Tensor::stack(&[angle.cos(), angle.sin()], 1)
}
/// Points of the true distribution.
fn real(n: usize) -> Tensor {
    middles().take(&Tensor::randint([n], 0..CLOUDS as i64), 0) + Tensor::randn([n, 2]) * SPREAD
}

fn network(inputs: usize, outputs: usize, activation: impl Layer + Copy + 'static) -> Result<Sequential> {
    Ok(Sequential::new()
        .with(Linear::new(inputs, 128)?)
        .with(activation)
        .with(Linear::new(128, 128)?)
        .with(activation)
        .with(Linear::new(128, outputs)?))
}

/// Mean of -log p that the judge's scores give to "real", or to "drawn".
fn unlikely(scores: &Tensor, is_real: bool) -> Tensor {
    -(if is_real { scores.log_sigmoid() } else { (-scores).log_sigmoid() }).mean(..)
}

fn main() -> Result<()> {
    let steps = if std::env::var("TALWEG_QUICK").is_ok() { 20 } else { 6000 };
    manual_seed(0);
    let generator = network(NOISE, 2, Relu)?;
    let judge = network(2, 1, Activation::new("leaky_relu", |x| x.leaky_relu(0.2)))?;
    let adam = |lr: f64| Adam { lr, betas: (0.5, 0.999), ..Adam::default() };
    let (of_generator, of_judge) = (Optimizer::new(adam(5e-4), &generator)?, Optimizer::new(adam(1e-3), &judge)?);

    // One step of each. The losses differ only in what the judge should have said, and each moves
    // the parameters of its own network alone.
    let step = jit(|_: &[Tensor]| {
        let drawn = generator.forward(&Tensor::randn([BATCH, NOISE]));
        let real_score = judge.forward(&real(BATCH));
        let drawn_score = judge.forward(&drawn.stop_gradient());
        let found_out = unlikely(&real_score, true) + unlikely(&drawn_score, false);
        of_judge.minimize(&found_out)?.apply()?;
        let fooled = unlikely(&judge.forward(&drawn), true);
        of_generator.minimize(&fooled)?.apply()?;
        Ok(vec![found_out, fooled])
    });
    for i in 0..steps {
        let losses = step.call(&[])?;
        if i % (steps / 6).max(1) == 0 || i + 1 == steps {
            let (hit, clouds) = quality(&generator)?;
            let (judge, generator) = (losses[0].item::<f32>()?, losses[1].item::<f32>()?);
            println!(
                "step {i:5}  judge {judge:.3}  generator {generator:.3}  {clouds} clouds, {:.1} % hits",
                100.0 * hit
            );
        }
    }
    Ok(())
}

/// The portion of drawn points that lie in a cloud, and how many clouds hold at least 1 % of them.
fn quality(generator: &Sequential) -> Result<(f64, usize)> {
    let n = 10_000;
    let drawn = no_grad(|| generator.forward(&Tensor::randn([n, NOISE])));
    let distance = (drawn.unsqueeze(1) - middles()).square().sum(-1).sqrt();
    let is_hit = distance.min(-1).le(3.0 * SPREAD);
    let nearest = distance.argmin(1).one_hot(CLOUDS, DType::F32);
    let counts = (nearest * is_hit.cast(DType::F32).unsqueeze(-1)).sum(0).to_vec::<f32>()?;
    let clouds = counts.iter().filter(|c| **c >= n as f32 / 100.0).count();
    Ok((f64::from(counts.iter().sum::<f32>()) / n as f64, clouds))
}
