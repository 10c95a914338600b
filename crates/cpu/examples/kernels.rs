//! Times the CPU kernels: `cargo run --release -p talweg-cpu --example kernels [FILTER...]`.
//!
//! Prints the best of several runs, so that other load on the machine matters least.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};
use talweg_cpu::kernels::gemm::{Gemm, Mat};
use talweg_cpu::{pool, vmath::f32s};

/// Seconds of the fastest of many calls, within about half a second.
fn best(mut f: impl FnMut()) -> f64 {
    f();
    let start = Instant::now();
    let mut least = f64::INFINITY;
    let mut runs = 0;
    while runs < 5 || (start.elapsed() < Duration::from_millis(600) && runs < 100_000) {
        let t = Instant::now();
        f();
        least = least.min(t.elapsed().as_secs_f64());
        runs += 1;
    }
    least
}

fn fill(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2654435769) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

struct Report {
    filters: Vec<String>,
}

impl Report {
    /// Times `f` if its name is asked for; `work` in units a call, printed as a rate.
    fn time(&self, name: &str, work: f64, unit: &str, f: impl FnMut()) {
        if self.filters.is_empty() || self.filters.iter().any(|w| name.contains(w.as_str())) {
            let s = best(f);
            println!("{name:<36} {:>10.4} ms {:>9.1} {unit}", s * 1e3, work / s * 1e-9);
        }
    }
}

fn main() {
    let report = Report { filters: std::env::args().skip(1).collect() };
    println!("{} threads, {:?}", pool::threads(), talweg_cpu::vmath::level());
    report.time("pool empty job of 2", 1.0, "G/s", || {
        pool::parallel_for(2, &|i| {
            black_box(i);
        })
    });
    vector_functions(&report);
    products(&report);
}

fn vector_functions(report: &Report) {
    let n = 4096;
    let x = fill(n);
    let mut y = vec![0f32; n];
    let functions: &[(&str, fn(&[f32], &mut [f32]))] = &[
        ("neg", f32s::neg),
        ("exp", f32s::exp),
        ("expm1", f32s::expm1),
        ("log", f32s::log),
        ("log1p", f32s::log1p),
        ("sqrt", f32s::sqrt),
        ("rsqrt", f32s::rsqrt),
        ("sin", f32s::sin),
        ("tan", f32s::tan),
        ("tanh", f32s::tanh),
        ("sigmoid", f32s::sigmoid),
        ("erf", f32s::erf),
        ("erfc", f32s::erfc),
        ("silu", f32s::silu),
        ("gelu", f32s::gelu),
        ("gelu_tanh", f32s::gelu_tanh),
    ];
    for (name, f) in functions {
        report.time(&format!("vmath {name}"), n as f64, "G/s", || f(black_box(&x), black_box(&mut y)));
    }
    report.time("vmath pow", n as f64, "G/s", || f32s::pow(black_box(&x), &x, black_box(&mut y)));
    report.time("vmath add", n as f64, "G/s", || f32s::add(black_box(&x), &x, black_box(&mut y)));
    report.time("vmath sum", n as f64, "G/s", || {
        black_box(f32s::sum(black_box(&x)));
    });
    report.time("vmath dot", n as f64, "G/s", || {
        black_box(f32s::dot(black_box(&x), &x));
    });
}

fn products(report: &Report) {
    for (m, k, n) in [
        (256, 256, 256),
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (64, 4096, 4096),
        (1, 1024, 1024),
        (1, 4096, 4096),
        (32, 64, 32),
        (32, 784, 100),
        (128, 1024, 1024),
        (512, 768, 3072),
    ] {
        let (a, b) = (fill(m * k), fill(k * n));
        let mut c = vec![0f32; m * n];
        let flops = 2.0 * (m * n * k) as f64;
        let name = format!("gemm {m}x{k}x{n}");
        let (ma, mb) = (Mat::row_major(a.as_ptr(), k), Mat::row_major(b.as_ptr(), n));
        // SAFETY: row-major matrices of these sizes.
        report.time(&name, flops, "GFLOP/s", || unsafe { Gemm::new(m, n, k, ma, mb, c.as_mut_ptr()).run() });
        let mb = Mat::row_major(b.as_ptr(), k).t();
        // SAFETY: as above, with B transposed.
        report.time(&(name + " B^T"), flops, "GFLOP/s", || unsafe { Gemm::new(m, n, k, ma, mb, c.as_mut_ptr()).run() });
    }
}
