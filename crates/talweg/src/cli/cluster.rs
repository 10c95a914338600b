//! Descriptions of clusters: included ones, files, and this machine as it is measured.

use super::Program;
use crate::{Error, Result, Tensor, engine, jit};
use parallel::Group;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tensor::Combine;

/// The cluster that is this machine.
const LOCAL: &str = "local";
/// Runs of which the fastest counts.
const RUNS: usize = 7;

/// The description of a cluster.
pub fn read(name: &str, own: &Program) -> Result<String> {
    if name == LOCAL {
        return measured(own);
    }
    if let Some((_, text)) = sim::clusters().into_iter().find(|(n, _)| *n == name) {
        return Ok(text.to_string());
    }
    let names = sim::clusters().map(|(n, _)| n).join(", ");
    let missing = |e| Error::value(format!("cluster {name}: {e}; included are {names} and {LOCAL}"));
    std::fs::read_to_string(name).map_err(missing)
}

/// Seconds of the fastest of some runs, after one that does not count.
fn fastest(mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    f()?;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        f()?;
        engine().device().synchronize()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Seconds of a product of square matrices.
fn product_s(n: usize) -> Result<f64> {
    let f = jit(|a: &[Tensor]| Ok(vec![a[0].matmul(&a[0])]));
    let x = Tensor::ones([n, n]);
    fastest(|| f.call(&[&x])?[0].eval().map(drop))
}

/// Seconds to start a kernel: what one more small product costs.
fn launch_s() -> Result<f64> {
    let chain = |count: usize| {
        let f = jit(move |a: &[Tensor]| Ok(vec![(0..count).fold(a[0].clone(), |x, _| x.matmul(&a[0]))]));
        let x = Tensor::ones([8, 8]);
        fastest(|| f.call(&[&x])?[0].eval().map(drop))
    };
    Ok(((chain(65)? - chain(1)?) / 64.0).max(1e-8))
}

/// Bytes a second that an elementwise op reads and writes.
fn stream_rate() -> Result<f64> {
    const COUNT: usize = 1 << 23;
    let f = jit(|a: &[Tensor]| Ok(vec![&a[0] + 1.0]));
    let x = Tensor::ones([COUNT]);
    Ok(8.0 * COUNT as f64 / fastest(|| f.call(&[&x])?[0].eval().map(drop))?)
}

/// Bytes of memory that this machine has.
fn memory_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    kib.map_or(16e9, |k: f64| k * 1024.0)
}

/// Latency and bytes a second of an all-reduce of two processes.
fn link(own: &Program) -> Result<(f64, f64)> {
    let file = std::env::temp_dir().join(format!("talweg-link-{}", std::process::id()));
    let failed = |e: std::io::Error| Error::value(format!("measuring links: {e}"));
    let mut c = Command::new(&own.own[0]);
    c.args(&own.own[1..]).args(["launch", "--workers", "2", "--progress", "0"]);
    c.args(&own.own).arg("measure-link").arg(&file);
    let done = c.output().map_err(failed)?;
    let text = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    let said = || Error::value(format!("measuring links: {}", String::from_utf8_lossy(&done.stderr)));
    let text = text.map_err(|_| said())?;
    let mut numbers = text.split_whitespace().filter_map(|n| n.parse::<f64>().ok());
    numbers.next().zip(numbers.next()).ok_or_else(said)
}

/// One of two processes that measure their link; rank 0 writes latency and bytes a second to a file.
pub fn measure_link(file: &Path) -> Result<()> {
    const COUNT: usize = 1 << 20;
    let world = Group::world()?;
    let time = |n: usize| {
        let x = Tensor::ones([n]);
        fastest(|| world.all_reduce(&x, Combine::Sum).eval().map(drop))
    };
    let (latency, long) = (time(1)?, time(COUNT)?);
    if world.rank() == 0 {
        let rate = 4.0 * COUNT as f64 / (long - latency).max(1e-9);
        std::fs::write(file, format!("{latency:e} {rate:e}")).map_err(|e| Error::value(e.to_string()))?;
    }
    Ok(())
}

/// This machine: one node whose processor all ranks share.
fn measured(own: &Program) -> Result<String> {
    let (few, many) = (96usize, 768usize);
    let operations = |n: usize| 2.0 * (n as f64).powi(3);
    let (short, long) = (product_s(few)?, product_s(many)?);
    let flops = (operations(many) - operations(few)) / (long - short).max(1e-9);
    let half = (short * flops - operations(few)).max(0.0);
    let (launch, bandwidth, memory, (latency, rate)) = (launch_s()?, stream_rate()?, memory_bytes(), link(own)?);
    Ok(format!(
        "# This machine, measured. Ranks share its processor.
[device]
flops = {flops:e}
flops_f32 = {flops:e}
memory = {memory:e}
bandwidth = {bandwidth:e}
product = 1.0
half = {half:e}
stream = 1.0
launch = {launch:e}
shared = true
measured = true
[[level]]
size = 4096
latency = {latency:e}
bandwidth = {rate:e}
share = 1.0
[run]
price = 0
mtbf_hours = 50000
checkpoint_s = 1
restart_s = 10
jitter = 0.0
"
    ))
}
