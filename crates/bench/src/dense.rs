//! Matrix products, perceptrons, and chains of elementwise ops and reductions.

use crate::harness::{Init, Measured, fill, labels, latency, repeats, steps, sum_of_squares};
use nn::optim::{Optimizer, Rule};
use nn::{Layer, Linear};
use tensor::{Result, Tensor, jit};

fn layers(sizes: &[usize]) -> Result<Vec<Linear>> {
    let mut init = Init::new();
    sizes
        .windows(2)
        .map(|w| {
            let l = Linear::new(w[0], w[1])?;
            init.linear(&l)?;
            Ok(l)
        })
        .collect()
}

/// Linear layers with ReLU between them.
pub fn perceptron(layers: &[Linear], x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for (i, l) in layers.iter().enumerate() {
        h = l.forward(&h);
        h = if i + 1 < layers.len() { h.relu() } else { h };
    }
    h
}

/// A perceptron with ReLU and cross-entropy: one full training step.
pub fn mlp(sizes: &[usize], batch: usize, rule: impl Rule + 'static, eager: bool) -> Result<Measured> {
    let layers = layers(sizes)?;
    let optimizer = Optimizer::new(rule, &layers)?;
    let run = |a: &[Tensor]| {
        let loss = perceptron(&layers, &a[0]).cross_entropy(&a[1]);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    };
    let (x, y) = (fill(1, &[batch, sizes[0]], 1.0), labels(2, &[batch], sizes[sizes.len() - 1] as u32));
    if eager {
        return steps(|| run(&[x.clone(), y.clone()])?[0].item());
    }
    let step = jit(run);
    steps(|| step.call(&[&x, &y])?[0].item())
}

/// A perceptron's answer to one input.
pub fn infer_mlp(sizes: &[usize]) -> Result<Measured> {
    let layers = layers(sizes)?;
    let x = fill(1, &[1, sizes[0]], 1.0);
    let f = jit(|a: &[Tensor]| Ok(vec![perceptron(&layers, &a[0])]));
    let check = sum_of_squares(&f.call(&[&x])?[0])?;
    let times = latency(|| f.call(&[&x]).map(drop))?;
    Ok(Measured { times, check })
}

/// C = A B.
pub fn matmul(m: usize, k: usize, n: usize) -> Result<Measured> {
    let (a, b) = (fill(1, &[m, k], 1.0), fill(2, &[k, n], 1.0));
    let product = jit(|x: &[Tensor]| Ok(vec![x[0].matmul(&x[1])]));
    let times = repeats(|| product.call(&[&a, &b]).map(drop))?;
    let check = sum_of_squares(&product.call(&[&a, &b])?[0])?;
    Ok(Measured { times, check })
}

/// softmax(layernorm(gelu(x w + b))) on 4096 × 1024, forward or with the gradients of all inputs.
pub fn fuse(backward: bool) -> Result<Measured> {
    let (rows, n) = (4096, 1024);
    let near = |seed, at: f64| fill(seed, &[n], 0.1) + at;
    let args = [
        fill(1, &[rows, n], 1.0),
        near(100, 1.0),
        near(101, 0.0),
        near(102, 1.0),
        near(103, 0.0),
        fill(2, &[rows, n], 1.0),
    ];
    Tensor::eval_all(&args.iter().collect::<Vec<_>>())?;
    let f = jit(move |a: &[Tensor]| {
        let y = (&a[0] * &a[1] + &a[2]).gelu_tanh().layer_norm(1, Some(&a[3]), Some(&a[4]), 1e-5).softmax(-1);
        if backward { tensor::vjp(&[y], &a[5..], &a[..5]) } else { Ok(vec![y]) }
    });
    let refs: Vec<&Tensor> = args.iter().collect();
    let times = repeats(|| f.call(&refs).map(drop))?;
    let out = &f.call(&refs)?[0];
    let check = if backward { out.cast(tensor::DType::F64).abs().sum(..).item()? } else { sum_of_squares(out)? };
    Ok(Measured { times, check })
}
