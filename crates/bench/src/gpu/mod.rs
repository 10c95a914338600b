//! `talweg bench --device cuda:0`: the workloads of the peers' GPU harness, one JSON line each.
//!
//! As there, f32 products may use TF32, large calls are timed by the device one at a time, and
//! small ones by the clock, many in a row.

mod attention;
mod follow;
mod language;
mod linear;
mod vision;

use crate::harness::{fill, labels};
use nn::optim::{Adam, Optimizer};
use std::time::Instant;
use tensor::{DType, Error, Jit, Result, Tensor, Variable, device, engine_named, jit};

/// A workload by its name's beginning, and what runs it.
const WORKLOADS: &[(&str, fn(&str) -> Result<()>)] = &[
    ("matmul", matmuls),
    ("linear", linear::train),
    ("gelu-ln-softmax", fused),
    ("mlp", perceptrons),
    ("attn-causal", attention::causal),
    ("attn-options", attention::options),
    ("attn-f32", attention::single),
    ("gpt2-124m", |at| language::train(at, DType::BF16)),
    ("gpt2-fp8", |at| language::train(at, DType::F8E4M3)),
    ("llama1b-decode-bf16-b1-pos512", |at| language::decode(at, 1)),
    ("llama1b-decode-bf16-b64-pos512", |at| language::decode(at, 64)),
    ("resnet50", vision::train),
    ("losses", follow::losses),
    ("soak", follow::soak),
];

/// Workloads that run only when they are asked for.
const ASKED: [&str; 4] = ["attn-options", "attn-f32", "gpt2-fp8", "soak"];

/// Runs every workload whose name begins with `only`, or all that need no asking.
pub fn run(only: &str, device_name: &str) -> Result<()> {
    let is_chosen = |n: &str| n.starts_with(only) || (only == "all" && !ASKED.contains(&n));
    let chosen: Vec<_> = WORKLOADS.iter().filter(|(n, _)| is_chosen(n)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = WORKLOADS.iter().map(|(n, _)| *n).collect();
        return Err(Error::value(format!("there is no workload {only} for {device_name}: all, {}", names.join(", "))));
    }
    cuda::allow_tf32(true);
    engine_named(device_name)?;
    for (name, f) in chosen {
        if let Err(e) = device(device_name, || f(device_name))? {
            println!("{}", serde_json::json!({"workload": name, "peer": "talweg", "ms": null, "note": e.to_string()}));
        }
    }
    Ok(())
}

fn emit(workload: &str, ms: f64, rate: Option<f64>, unit: &str, note: &str) {
    let line = serde_json::json!({
        "workload": workload, "peer": "talweg", "ms": (ms * 1e4).round() / 1e4, "rate": rate, "unit": unit, "note": note,
    });
    println!("{line}");
}

/// With `BENCH_EXPLAIN` set, says what a step consists of and where its time goes.
fn look<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>>(step: &Jit<F>, args: &[&Tensor]) -> Result<()> {
    if std::env::var_os("BENCH_EXPLAIN").is_some() {
        eprintln!("{}\n{}", step.explain(args)?, step.profile(args)?.1);
    }
    Ok(())
}

/// Milliseconds the device takes for a call, the median of several.
fn timed(device_name: &str, warm: usize, calls: usize, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let engine = engine_named(device_name)?;
    for _ in 0..warm {
        f()?;
    }
    engine.device().synchronize()?;
    let mut times = (0..calls).map(|_| engine.device().time(&mut f)).collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Milliseconds a call, the median of rounds that each end when the device is idle.
fn timed_wall(device_name: &str, each: usize, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let engine = engine_named(device_name)?;
    for _ in 0..each.max(5) {
        f()?;
    }
    engine.device().synchronize()?;
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        for _ in 0..each {
            f()?;
        }
        engine.device().synchronize()?;
        times.push(start.elapsed().as_secs_f64() * 1e3 / each as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Normal numbers that lie on the device.
fn normal(shape: &[usize], dtype: DType) -> Result<Tensor> {
    let x = Tensor::randn(shape).cast(dtype).detach();
    x.eval()?;
    Ok(x.detach())
}

fn matmuls(at: &str) -> Result<()> {
    for n in [1024, 4096, 8192] {
        for (name, dtype) in [("bf16", DType::BF16), ("tf32", DType::F32)] {
            let (a, b) = (normal(&[n, n], dtype)?, normal(&[n, n], dtype)?);
            let product = jit(|x: &[Tensor]| Ok(vec![x[0].matmul(&x[1])]));
            let ms = timed(at, 5, 20, || product.call(&[&a, &b]).map(drop))?;
            let rate = 2.0 * (n as f64).powi(3) / ms / 1e9;
            emit(&format!("matmul-{name}-{n}"), ms, Some(rate), "TFLOP/s", "");
        }
        linear::product(at, n)?;
    }
    Ok(())
}

fn fused(at: &str) -> Result<()> {
    let (rows, n) = (16384, 4096);
    let (x, w, b) = (normal(&[rows, n], DType::F32)?, normal(&[n], DType::F32)?, normal(&[n], DType::F32)?);
    let g = normal(&[rows, n], DType::F32)?;
    let f = |x: &Tensor, w: &Tensor, b: &Tensor| (x * w + b).gelu().layer_norm(1, None, None, 1e-5).softmax(-1);
    let forward = jit(|a: &[Tensor]| Ok(vec![f(&a[0], &a[1], &a[2])]));
    let ms = timed(at, 5, 20, || forward.call(&[&x, &w, &b]).map(drop))?;
    emit("gelu-ln-softmax-fwd", ms, Some(2.0 * 4.0 * (rows * n) as f64 / ms / 1e9), "TB/s min traffic", "");
    let both = jit(|a: &[Tensor]| {
        let y = f(&a[0], &a[1], &a[2]);
        let grads = tensor::vjp(std::slice::from_ref(&y), &a[3..], &a[..1])?;
        Ok(vec![y, grads[0].clone()])
    });
    let ms = timed(at, 5, 20, || both.call(&[&x, &w, &b, &g]).map(drop))?;
    let explained = both.explain(&[&x, &w, &b, &g])?;
    emit("gelu-ln-softmax-fwdbwd", ms, None, "", &explained.replace('\n', "; "));
    Ok(())
}

fn perceptrons(at: &str) -> Result<()> {
    perceptron(at, &[784, 100, 10])?;
    perceptron(at, &[784, 1024, 1024, 10])
}

/// The parameters of a perceptron and its jitted training step.
fn losses(at: &str, sizes: &[usize], steps: usize) -> Result<(Vec<f64>, f64, String)> {
    let mut layers = Vec::new();
    for (k, w) in sizes.windows(2).enumerate() {
        let weight = fill(100 + k as u32, &[w[1], w[0]], 1.0 / (w[0] as f32).sqrt());
        layers.push((Variable::new("weight", weight.to(at))?, Variable::new("bias", Tensor::zeros([w[1]]).to(at))?));
    }
    let params: Vec<Variable> = layers.iter().flat_map(|(w, b)| [w.clone(), b.clone()]).collect();
    let optimizer = Optimizer::new(Adam::default(), params.as_slice())?;
    let step = jit(|a: &[Tensor]| {
        let mut h = a[0].clone();
        for (i, (w, b)) in layers.iter().enumerate() {
            h = h.linear(&w.tensor(), Some(&b.tensor()));
            h = if i + 1 < layers.len() { h.relu() } else { h };
        }
        let loss = h.cross_entropy(&a[1]);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let (x, y) = (fill(1, &[128, sizes[0]], 1.0).to(at), labels(2, &[128], 10).to(at));
    let losses = (0..steps).map(|_| step.call(&[&x, &y])?[0].item()).collect::<Result<Vec<f64>>>()?;
    let ms = if at == "cpu" { 0.0 } else { timed_wall(at, 200, || step.call(&[&x, &y]).map(drop))? };
    Ok((losses, ms, step.explain(&[&x, &y])?))
}

fn perceptron(at: &str, sizes: &[usize]) -> Result<()> {
    let (ours, ms, explained) = losses(at, sizes, 30)?;
    let (cpu, _, _) = device("cpu", || losses("cpu", sizes, 30))??;
    let off = ours.iter().zip(&cpu).map(|(a, b)| (a - b).abs() / b.abs().max(1e-3)).fold(0.0, f64::max);
    let name: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let note =
        format!("30 losses within {off:.1e} of the CPU's, the last {}; {}", ours[29], explained.replace('\n', "; "));
    emit(&format!("mlp-{}-b128-adam", name.join("-")), ms, None, "", &note);
    Ok(())
}
