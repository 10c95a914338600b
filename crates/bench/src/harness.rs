//! What every workload shares: the harness's numbers, its timing rules and its line.
//!
//! Value i of stream `seed` is h = lowbias32(seed · 0x9E3779B9 + i), mapped to [-bound, bound).

use crate::roofline::Work;
use runtime::trace;
use std::time::Instant;
use tensor::{Result, Tensor, Variable};

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
pub fn fill(seed: u32, shape: &[usize], bound: f32) -> Tensor {
    let n = shape.iter().product();
    let data: Vec<f32> =
        (0..n).map(|i| (2.0 * ((hash(seed, i) >> 8) as f32 / (1 << 24) as f32) - 1.0) * bound).collect();
    Tensor::new(shape, &data)
}

/// Class numbers.
pub fn labels(seed: u32, shape: &[usize], classes: u32) -> Tensor {
    let n = shape.iter().product();
    Tensor::new(shape, &(0..n).map(|i| (hash(seed, i) % classes) as i64).collect::<Vec<_>>())
}

/// First values of parameters: each random one takes the next seed from 100 on.
pub struct Init(u32);
impl Init {
    pub fn new() -> Init {
        Init(100)
    }
    /// Uniform in ±bound.
    pub fn bound(&mut self, v: &Variable, bound: f32) -> Result<()> {
        v.assign(&fill(self.0, &v.shape(), bound))?;
        self.0 += 1;
        Ok(())
    }
    /// A linear layer: weight uniform in ±1/√inputs, bias 0.
    pub fn linear(&mut self, l: &nn::Linear) -> Result<()> {
        self.affine(&l.weight, l.bias.as_ref())
    }
    /// A weight `[out, …]`, uniform in ±1/√(what an output sums over), and a bias of zeros.
    pub fn affine(&mut self, weight: &Variable, bias: Option<&Variable>) -> Result<()> {
        let fan_in: usize = weight.shape()[1..].iter().product();
        self.bound(weight, (1.0 / (fan_in as f64).sqrt()) as f32)?;
        bias.map_or(Ok(()), |b| b.assign(&Tensor::zeros(b.shape())))
    }
}

/// Times of a workload and the number that peers must agree on.
pub struct Measured {
    pub times: Times,
    pub check: f64,
}

/// Times of a call, sorted, in milliseconds, and what it does.
pub struct Times {
    pub ms: Vec<f64>,
    pub work: Work,
}
impl Times {
    fn new(mut ms: Vec<f64>, call: impl FnOnce() -> Result<()>) -> Result<Times> {
        ms.sort_by(f64::total_cmp);
        let (done, recording) = trace::record(call);
        done.map(|()| Times { ms, work: Work::of(&recording) })
    }
    /// For a call that does a thing `n` times: the times of one.
    pub fn divided(self, n: usize) -> Times {
        let n = n as f64;
        Times { ms: self.ms.into_iter().map(|t| t / n).collect(), work: self.work.divided(n) }
    }
    /// The median.
    pub fn median(&self) -> f64 {
        self.ms[self.ms.len() / 2]
    }
}

fn is_quick() -> bool {
    std::env::var("BENCH_QUICK").is_ok_and(|v| v == "1")
}
fn setting(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Times a training step, which returns its loss; `check` is the loss the third step saw.
pub fn steps(mut step: impl FnMut() -> Result<f64>) -> Result<Measured> {
    step()?;
    step()?;
    let check = step()?;
    let times = repeats(|| step().map(drop))?;
    Ok(Measured { times, check })
}

/// Times a call by the harness's rule: warm up, then repeats that each fill a quarter second.
pub fn repeats(mut call: impl FnMut() -> Result<()>) -> Result<Times> {
    let (repeats, fill_s, warm_s) = if is_quick() {
        (2, 0.02, 0.02)
    } else {
        (setting("BENCH_REPEATS", 9.0) as usize, setting("BENCH_MIN_S", 0.25), 0.5)
    };
    let (start, mut calls, mut last) = (Instant::now(), 0u32, f64::INFINITY);
    while calls < 2 || start.elapsed().as_secs_f64() < warm_s {
        let one = Instant::now();
        call()?;
        last = last.min(one.elapsed().as_secs_f64());
        calls += 1;
    }
    let n = ((fill_s / last) as usize).max(1);
    let repeats = if last > 4.0 { repeats.min(5) } else { repeats };
    let mut times = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let start = Instant::now();
        for _ in 0..n {
            call()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e3 / n as f64);
    }
    Times::new(times, call)
}

/// Times single calls, each on its own.
pub fn latency(mut call: impl FnMut() -> Result<()>) -> Result<Times> {
    let budget_s = if is_quick() { 0.2 } else { setting("BENCH_LATENCY_S", 4.0) };
    let (start, mut calls) = (Instant::now(), 0);
    while calls < 5 || start.elapsed().as_secs_f64() < budget_s / 4.0 {
        call()?;
        calls += 1;
    }
    let least = if is_quick() { 5 } else { 50 };
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < least || (start.elapsed().as_secs_f64() < budget_s && times.len() < 20_000) {
        let one = Instant::now();
        call()?;
        times.push(one.elapsed().as_secs_f64() * 1e3);
    }
    Times::new(times, call)
}

/// The most memory the process has held, in mebibytes.
pub fn peak_mb() -> f64 {
    status_mb("VmHWM:")
}

/// The memory the process holds, in mebibytes.
pub fn resident_mb() -> f64 {
    status_mb("VmRSS:")
}

fn status_mb(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(field));
    line.and_then(|l| l.trim().split(' ').next()?.parse::<f64>().ok()).map_or(0.0, |kb| kb / 1024.0)
}

/// The sum of the squares of a result.
pub fn sum_of_squares(y: &Tensor) -> Result<f64> {
    y.cast(tensor::DType::F64).square().sum(..).item()
}
