//! `talweg bench`: workloads of the peers' benchmark harness, one JSON line each.
//!
//! Numbers are filled as the harness says: value i of stream `seed` is
//! h = lowbias32(seed · 0x9E3779B9 + i), mapped to [-bound, bound).

use nn::optim::{Adagrad, Adam, Optimizer, Rule, Sgd};
use std::time::Instant;
use talweg::{Error, Result, Tensor, Variable, jit};

/// What to measure.
#[derive(clap::Args)]
pub struct Options {
    /// A workload; `list` names them.
    workload: String,
}

fn lowbias32(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}
fn hash(seed: u32, i: usize) -> u32 {
    lowbias32(seed.wrapping_mul(0x9E37_79B9).wrapping_add(i as u32))
}
/// Uniform numbers in ±bound.
fn fill(seed: u32, shape: &[usize], bound: f32) -> Tensor {
    let n = shape.iter().product();
    let data: Vec<f32> =
        (0..n).map(|i| (2.0 * ((hash(seed, i) >> 8) as f32 / (1 << 24) as f32) - 1.0) * bound).collect();
    Tensor::new(shape, &data)
}
fn labels(seed: u32, n: usize, classes: u32) -> Tensor {
    Tensor::new([n], &(0..n).map(|i| (hash(seed, i) % classes) as i64).collect::<Vec<_>>())
}

/// Times one step by the harness's rule: warm up, then repeats that each fill a quarter second.
fn measure(mut step: impl FnMut() -> Result<f64>) -> Result<(Vec<f64>, f64)> {
    let quick = std::env::var("BENCH_QUICK").is_ok_and(|v| v == "1");
    let (repeats, fill_s, warm_s) = if quick { (2, 0.02, 0.02) } else { (9, 0.25, 0.5) };
    let mut check = 0.0;
    for i in 0..3 {
        let seen = step()?;
        check = if i == 2 { seen } else { check };
    }
    let (start, mut calls) = (Instant::now(), 0u32);
    while start.elapsed().as_secs_f64() < warm_s {
        step()?;
        calls += 1;
    }
    let each = start.elapsed().as_secs_f64() / calls.max(1) as f64;
    let n = ((fill_s / each).ceil() as usize).max(1);
    let mut times = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let start = Instant::now();
        for _ in 0..n {
            step()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e3 / n as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok((times, check))
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().split(' ').next()?.parse::<f64>().ok()).map_or(0.0, |kb| kb / 1024.0)
}

/// A perceptron with ReLU and cross-entropy: one full training step.
fn mlp(sizes: &[usize], batch: usize, rule: impl Rule + 'static, eager: bool) -> Result<(Vec<f64>, f64)> {
    let mut layers = Vec::new();
    for (k, w) in sizes.windows(2).enumerate() {
        let weight = fill(100 + k as u32, &[w[1], w[0]], 1.0 / (w[0] as f32).sqrt());
        layers.push((Variable::new("weight", weight)?, Variable::new("bias", Tensor::zeros([w[1]]))?));
    }
    let params: Vec<Variable> = layers.iter().flat_map(|(w, b)| [w.clone(), b.clone()]).collect();
    let optimizer = Optimizer::new(rule, params.as_slice())?;
    let run = |a: &[Tensor]| {
        let mut h = a[0].clone();
        for (i, (w, b)) in layers.iter().enumerate() {
            h = h.linear(&w.tensor(), Some(&b.tensor()));
            h = if i + 1 < layers.len() { h.relu() } else { h };
        }
        let loss = h.cross_entropy(&a[1], Default::default());
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    };
    let (x, y) = (fill(1, &[batch, sizes[0]], 1.0), labels(2, batch, sizes[sizes.len() - 1] as u32));
    if eager {
        return measure(|| run(&[x.clone(), y.clone()])?[0].item());
    }
    let step = jit(run);
    measure(|| step.call(&[&x, &y])?[0].item())
}

fn matmul(m: usize, k: usize, n: usize) -> Result<(Vec<f64>, f64)> {
    let (a, b) = (fill(1, &[m, k], 1.0), fill(2, &[k, n], 1.0));
    let product = jit(|x: &[Tensor]| Ok(vec![x[0].matmul(&x[1])]));
    let (times, _) = measure(|| {
        product.call(&[&a, &b])?;
        Ok(0.0)
    })?;
    let check = product.call(&[&a, &b])?[0].cast(talweg::DType::F64).square().sum(..).item()?;
    Ok((times, check))
}

/// softmax(layernorm(gelu(x w + b))) on 4096 × 1024, forward or with the gradients of all inputs.
fn fuse(backward: bool) -> Result<(Vec<f64>, f64)> {
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
        if backward { talweg::vjp(&[y], &a[5..], &a[..5]) } else { Ok(vec![y]) }
    });
    let refs: Vec<&Tensor> = args.iter().collect();
    let (times, _) = measure(|| {
        f.call(&refs)?;
        Ok(0.0)
    })?;
    let out = f.call(&refs)?[0].cast(talweg::DType::F64);
    let check = if backward { out.abs().sum(..) } else { out.square().sum(..) };
    Ok((times, check.item()?))
}

const WORKLOADS: &[&str] = &[
    "fuse_fwd",
    "fuse_fwdbwd",
    "matmul_256",
    "matmul_1024",
    "matmul_2048",
    "matmul_64x4096x4096",
    "mlp100_adagrad",
    "mlp100_adam",
    "mlp1024_adagrad",
    "mlp1024_adam",
    "tiny_mlp",
    "tiny_mlp_eager",
];

/// Measures and prints.
pub fn run(o: &Options) -> Result<()> {
    if let Some(n) = std::env::var("BENCH_THREADS").ok().and_then(|v| v.parse().ok()) {
        cpu::pool::set_threads(n);
    }
    let (times, check) = match o.workload.as_str() {
        "list" => {
            WORKLOADS.iter().for_each(|w| println!("{w}"));
            return Ok(());
        }
        "fuse_fwd" => fuse(false)?,
        "fuse_fwdbwd" => fuse(true)?,
        "matmul_256" => matmul(256, 256, 256)?,
        "matmul_1024" => matmul(1024, 1024, 1024)?,
        "matmul_2048" => matmul(2048, 2048, 2048)?,
        "matmul_64x4096x4096" => matmul(64, 4096, 4096)?,
        "mlp100_adagrad" => mlp(&[784, 100, 10], 128, Adagrad::default(), false)?,
        "mlp100_adam" => mlp(&[784, 100, 10], 128, Adam::default(), false)?,
        "mlp1024_adagrad" => mlp(&[784, 1024, 1024, 10], 128, Adagrad::default(), false)?,
        "mlp1024_adam" => mlp(&[784, 1024, 1024, 10], 128, Adam::default(), false)?,
        "tiny_mlp" => mlp(&[4, 8, 2], 1, Sgd::default(), false)?,
        "tiny_mlp_eager" => mlp(&[4, 8, 2], 1, Sgd::default(), true)?,
        other => {
            let line = serde_json::json!({"workload": other, "peer": "talweg", "ms": null, "rss_mb": peak_mb(), "na": "not written yet"});
            println!("{line}");
            return Err(Error::value(format!("there is no workload {other}; `talweg bench list` names them")));
        }
    };
    let line = serde_json::json!({
        "workload": o.workload, "peer": "talweg", "ms": times[times.len() / 2], "ms_min": times[0],
        "ms_p90": times[times.len() * 9 / 10], "repeats": times.len(), "rss_mb": peak_mb(), "check": check,
    });
    println!("{line}");
    Ok(())
}
