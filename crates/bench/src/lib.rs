//! The workloads of `talweg bench`: those of the peers' benchmark harness, and those of a GPU.

// `derive(Module)` writes the façade's paths.
extern crate self as talweg;
#[doc(hidden)]
pub use ::nn;

mod dense;
mod gpu;
mod harness;
mod language;
pub mod nets;
mod roofline;
mod vision;

use harness::Measured;
pub use harness::{peak_mb, resident_mb};
pub use language::Size;
use nn::optim::{Adagrad, Adam, Sgd};
use tensor::{Error, Result};

type Workload = (&'static str, fn() -> Result<Measured>);

const WORKLOADS: &[Workload] = &[
    ("fuse_fwd", || dense::fuse(false)),
    ("fuse_fwdbwd", || dense::fuse(true)),
    ("matmul_256", || dense::matmul(256, 256, 256)),
    ("matmul_1024", || dense::matmul(1024, 1024, 1024)),
    ("matmul_2048", || dense::matmul(2048, 2048, 2048)),
    ("matmul_64x4096x4096", || dense::matmul(64, 4096, 4096)),
    ("mlp100_adagrad", || dense::mlp(&[784, 100, 10], 128, Adagrad::default(), false)),
    ("mlp100_adam", || dense::mlp(&[784, 100, 10], 128, Adam::default(), false)),
    ("mlp1024_adagrad", || dense::mlp(&[784, 1024, 1024, 10], 128, Adagrad::default(), false)),
    ("mlp1024_adam", || dense::mlp(&[784, 1024, 1024, 10], 128, Adam::default(), false)),
    ("tiny_mlp", || dense::mlp(&[4, 8, 2], 1, Sgd { lr: 0.01, ..Sgd::default() }, false)),
    ("tiny_mlp_eager", || dense::mlp(&[4, 8, 2], 1, Sgd { lr: 0.01, ..Sgd::default() }, true)),
    ("lenet", vision::lenet),
    ("resnet18_cifar", vision::resnet_train),
    ("lstm", language::lstm),
    ("gpt_train", language::gpt_train),
    ("infer_mlp100_b1", || dense::infer_mlp(&[784, 100, 10])),
    ("infer_mlp1024_b1", || dense::infer_mlp(&[784, 1024, 1024, 10])),
    ("infer_resnet18_224", vision::resnet_infer),
    ("gpt_decode", language::gpt_decode),
];

/// Measures a workload on a device and prints one JSON line; `list` names the workloads.
pub fn run(name: &str, device: &str) -> Result<()> {
    if device != "cpu" {
        return gpu::run(name, device);
    }
    if let Some(n) = std::env::var("BENCH_THREADS").ok().and_then(|v| v.parse().ok()) {
        cpu::pool::set_threads(n);
    }
    if name == "list" {
        WORKLOADS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    }
    let known = WORKLOADS.iter().find(|(n, _)| *n == name).map(|(_, f)| f());
    let Some(measured) = known.or_else(|| Size::parse(name).map(language::gpt_step)) else {
        let line = serde_json::json!({
            "workload": name, "peer": "talweg", "ms": null, "rss_mb": peak_mb(), "na": "no such workload",
        });
        println!("{line}");
        return Err(Error::value(format!("there is no workload {name}; `talweg bench list` names them")));
    };
    let Measured { times, check } = measured?;
    let (ms, rss_mb) = (&times.ms, peak_mb());
    let planned_mb = times.work.memory.peak() as f64 / (1 << 20) as f64;
    let line = serde_json::json!({
        "workload": name, "peer": "talweg", "ms": times.median(), "ms_min": ms[0], "ms_p90": ms[ms.len() * 9 / 10],
        "repeats": ms.len(), "rss_mb": rss_mb, "planned_mb": planned_mb, "check": check,
        "roofline": roofline::report(&times),
    });
    println!("{line}");
    Ok(())
}
