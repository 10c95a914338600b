//! Times the CPU kernels: `cargo run --release -p talweg-cpu --example kernels [FILTER...]`.
//!
//! Prints the best of several runs, so that other load on the machine matters least.

#![allow(unsafe_code)]

use ir::blocks::Format;
use std::hint::black_box;
use std::time::{Duration, Instant};
use talweg_cpu::kernels::attention::{Attention, Rows, RowsMut, Saved};
use talweg_cpu::kernels::conv::Conv;
use talweg_cpu::kernels::gemm::int8::{Right, Side};
use talweg_cpu::kernels::gemm::{Gemm, Mat};
use talweg_cpu::kernels::int_conv::IntConv;
use talweg_cpu::kernels::pooling;
use talweg_cpu::kernels::quant::{Ends, QuantizedGemm};
use talweg_cpu::kernels::window::Window;
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
    convolutions(&report);
    int_convolutions(&report);
    attentions(&report);
    quantized(&report);
}

/// GEMMs with block-quantized weights, one row (bytes of weights a second, beside plain reading) and many.
fn quantized(report: &Report) {
    let (n, k) = (1536 * 32, 2048);
    let words = vec![1u64; n * k / 8];
    report.time("quantized: read f8 weights once", (n * k) as f64, "GB/s", || {
        pool::parallel_for(64, &|i| {
            let part = &words[i * words.len() / 64..(i + 1) * words.len() / 64];
            black_box(part.iter().fold(0u64, |a, &b| a.wrapping_add(b)));
        });
    });
    for format in Format::BLOCKS {
        // Scales of 16 bits with an exponent in the middle: the bytes do not matter, but infinities do.
        let w = vec![0x2au8; format.bytes(n * k).unwrap_or(0)];
        for (m, interleaved) in [(1, false), (1, true), (8, false), (8, true), (256, false)] {
            let (x, mut y) = (fill(m * k), vec![0f32; m * n]);
            let gemm = QuantizedGemm { format, m, n, k, int8: true, interleaved };
            let to = pool::Shared::new(y.as_mut_ptr());
            let ends = Ends {
                read: &|i, row| row.copy_from_slice(&x[i * k..][..k]),
                // SAFETY: tasks write their own parts.
                write: &|i, j, sums| unsafe { to.slice(i * n + j, sums.len()) }.copy_from_slice(sums),
            };
            let layout = if interleaved { "interleaved" } else { "rows" };
            let name = format!("quantized {} {layout} m={m}", format.attr());
            let (work, unit) = if m == 1 { (w.len(), "GB/s") } else { (2 * m * n * k, "Gop/s") };
            // SAFETY: whole rows of weights.
            report.time(&name, work as f64, unit, || unsafe { gemm.run(w.as_ptr(), &ends) });
        }
    }
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
        (128, 784, 100),
        (100, 128, 784),
        (128, 784, 1024),
        (128, 1024, 1024),
        (1024, 128, 784),
        (128, 1024, 10),
        (8, 1024, 1024),
        (512, 768, 3072),
        (32, 1024, 256),
        (32, 256, 1024),
        (2048, 384, 1536),
        (1536, 2048, 384),
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
        report.time(&(name.clone() + " B^T"), flops, "GFLOP/s", || unsafe {
            Gemm::new(m, n, k, ma, mb, c.as_mut_ptr()).run()
        });
        let (ma, mb) = (Mat::row_major(a.as_ptr(), m).t(), Mat::row_major(b.as_ptr(), n));
        // SAFETY: as above, with A transposed.
        report.time(&(name + " A^T"), flops, "GFLOP/s", || unsafe { Gemm::new(m, n, k, ma, mb, c.as_mut_ptr()).run() });
    }
    let (m, k, n) = (1024, 1024, 1024);
    let [a, b] = [m * k, k * n].map(|n| fill(n).into_iter().map(half::bf16::from_f32).collect::<Vec<_>>());
    let mut c = vec![half::bf16::ZERO; m * n];
    let flops = 2.0 * (m * n * k) as f64;
    let ma = Mat::row_major(a.as_ptr(), k);
    for (name, mb) in [("", Mat::row_major(b.as_ptr(), n)), (" B^T", Mat::row_major(b.as_ptr(), k).t())] {
        // SAFETY: matrices of these sizes.
        report.time(&format!("gemm bf16 {m}x{k}x{n}{name}"), flops, "GFLOP/s", || unsafe {
            Gemm::new(m, n, k, ma, mb, c.as_mut_ptr()).run()
        });
    }
    for (m, k, n) in [(1024, 1024, 1024), (64, 4096, 4096), (1, 4096, 4096)] {
        let bytes = |n: usize| (0..n as u32).map(|i| (i.wrapping_mul(2654435769) >> 24) as u8).collect::<Vec<_>>();
        let (a, b) = (bytes(m * k), bytes(k * n));
        let mut c = vec![0i32; m * n];
        let flops = 2.0 * (m * n * k) as f64;
        let side = |p: &[u8], row: usize| Side { mat: Mat::row_major(p.as_ptr(), row), is_signed: true };
        // SAFETY: row-major matrices of these sizes.
        unsafe {
            report.time(&format!("gemm int8 {m}x{k}x{n}"), flops, "GOP/s", || {
                Right::new(k, n, side(&b, n)).multiply(m, side(&a, k), c.as_mut_ptr(), n as isize)
            });
            let right = Right::new(k, n, side(&b, n));
            report.time(&format!("gemm int8 {m}x{k}x{n} prepacked"), flops, "GOP/s", || {
                right.multiply(m, side(&a, k), c.as_mut_ptr(), n as isize)
            });
        }
    }
    // Of the products between the transforms of a convolution of 64 channels.
    let (batch, m, k, n) = (36, 64, 64, 224);
    let (a, b) = (fill(batch * m * k), fill(batch * k * n));
    let mut c = vec![0f32; batch * m * n];
    let (ma, mb) = (Mat::row_major(a.as_ptr(), k), Mat::row_major(b.as_ptr(), n));
    let (a_batch, b_batch, c_batch) = ((m * k) as isize, (k * n) as isize, (m * n) as isize);
    let q = Gemm { batch, a_batch, b_batch, c_batch, ..Gemm::new(m, n, k, ma, mb, c.as_mut_ptr()) };
    let flops = 2.0 * (batch * m * n * k) as f64;
    // SAFETY: row-major matrices of these sizes.
    report.time("gemm 36 of 64x64x224", flops, "GFLOP/s", || unsafe { q.run() });
}

fn convolutions(report: &Report) {
    // Batch, channels, output channels, groups, size, kernel, stride: layers of LeNet, of ResNet-18
    // on 32x32 and on 224x224 images, depthwise ones of MobileNet and ConvNeXt, groups of ResNeXt.
    for (batch, c, o, groups, size, k, stride) in [
        (64, 1, 6, 1, 28, 5, 1),
        (64, 6, 16, 1, 14, 5, 1),
        (32, 64, 128, 1, 32, 3, 2),
        (32, 64, 64, 1, 32, 3, 1),
        (32, 128, 128, 1, 16, 3, 1),
        (32, 256, 256, 1, 8, 3, 1),
        (32, 512, 512, 1, 4, 3, 1),
        (1, 3, 64, 1, 224, 7, 2),
        (1, 64, 64, 1, 56, 3, 1),
        (1, 128, 128, 1, 28, 3, 1),
        (1, 256, 256, 1, 14, 3, 1),
        (1, 512, 512, 1, 7, 3, 1),
        (1, 64, 128, 1, 56, 1, 2),
        (1, 256, 256, 1, 14, 1, 1),
        (1, 64, 128, 1, 56, 3, 2),
        (1, 128, 256, 1, 28, 3, 2),
        (1, 256, 512, 1, 14, 3, 2),
        (8, 128, 128, 128, 28, 3, 1),
        (8, 128, 128, 128, 28, 3, 2),
        (8, 96, 96, 96, 56, 7, 1),
        (8, 128, 128, 32, 56, 3, 1),
        (8, 256, 256, 32, 28, 3, 1),
        (8, 256, 256, 32, 56, 3, 2),
        (8, 512, 512, 32, 14, 3, 1),
    ] {
        let pad = (k / 2, k / 2);
        let window = Window::new(&[size; 2], &[k; 2], &[stride; 2], &[pad; 2], &[1; 2]);
        let q = Conv { batch, channels: c, out_channels: o, groups, window };
        let (x, w) = (fill(batch * c * size * size), fill(o * c / groups * k * k));
        let mut y = fill(batch * o * window.output_len());
        let dy = y.clone();
        let (mut dx, mut dw) = (x.clone(), w.clone());
        let flops = 2.0 * (y.len() * c / groups * k * k) as f64;
        let name = format!("conv {batch}x{c}->{o} {size}x{size} k{k}/{stride} g{groups}");
        report.time(&name, flops, "GFLOP/s", || q.forward(&x, &w, &mut y));
        if let Some(w) = q.prepacked(&ir::Literal::new([w.len()], &w).unwrap()) {
            report.time(&(name.clone() + " prepacked"), flops, "GFLOP/s", || q.forward_prepacked(&x, &w, &mut y));
        }
        report.time(&(name.clone() + " dx"), flops, "GFLOP/s", || q.grad_input(&dy, &w, &mut dx));
        report.time(&(name + " dw"), flops, "GFLOP/s", || q.grad_weight(&x, &dy, &mut dw));
    }
    let window = Window::new(&[112; 2], &[3; 2], &[2; 2], &[(1, 1); 2], &[1; 2]);
    let x = fill(64 * 112 * 112);
    let (mut y, mut index) = (fill(64 * 56 * 56), vec![0i64; 64 * 56 * 56]);
    let bytes = (4 * x.len()) as f64;
    report.time("max_pool 64x112x112 k3/2", bytes, "GB/s", || pooling::max_pool(&window, 64, &x, &mut y, &mut index));
    report.time("max_pool 64x112x112 k3/2 values", bytes, "GB/s", || pooling::max_pool_values(&window, 64, &x, &mut y));
    let divisor = pooling::Divisor::Window;
    report.time("avg_pool 64x112x112 k3/2", bytes, "GB/s", || pooling::avg_pool(&window, 64, divisor, &x, &mut y));
}

/// The layers of ResNet-18 and some of MobileNet v2 in bytes, beside the same in `f32` with weights packed beforehand.
fn int_convolutions(report: &Report) {
    for (channels, outputs, size, k, stride, groups) in [
        (3, 64, 224, 7, 2, 1),
        (64, 64, 56, 3, 1, 1),
        (64, 128, 56, 3, 2, 1),
        (64, 128, 56, 1, 2, 1),
        (128, 128, 28, 3, 1, 1),
        (128, 256, 28, 3, 2, 1),
        (256, 256, 14, 3, 1, 1),
        (256, 512, 14, 3, 2, 1),
        (512, 512, 7, 3, 1, 1),
        (3, 32, 224, 3, 2, 1),
        (16, 96, 112, 1, 1, 1),
        (96, 96, 112, 3, 2, 96),
        (144, 144, 56, 3, 2, 144),
        (192, 192, 28, 3, 1, 192),
        (384, 64, 14, 1, 1, 1),
        (576, 576, 14, 3, 2, 576),
        (160, 960, 7, 1, 1, 1),
        (960, 960, 7, 3, 1, 960),
    ] {
        let window = Window::new(&[size; 2], &[k; 2], &[stride; 2], &[(k / 2, k / 2); 2], &[1; 2]);
        let conv = Conv { batch: 1, channels, out_channels: outputs, groups, window };
        let name = format!("int8 1x{channels}->{outputs} {size}x{size} k{k}/{stride} g{groups}");
        let count = outputs * window.output_len();
        let work = 2.0 * (count * channels / groups * k * k) as f64;
        let (x, mut y) = (fill(channels * size * size), vec![0f32; count]);
        let w = ir::Literal::generate([outputs * channels / groups * k * k], |i| (i % 7) as f32);
        let packed = conv.prepacked(&w);
        report.time(&format!("{name} f32"), work, "GFLOP/s", || match &packed {
            Some(w) => conv.forward_prepacked(&x, w, &mut y),
            None => conv.forward(&x, w.stored::<f32>(), &mut y),
        });
        let (bytes, mut sums) = (vec![3u8; x.len()], vec![0i32; count]);
        let kernel = IntConv::new(conv, &vec![5u8; w.count()], false);
        // SAFETY: the sizes are those of the convolution.
        report.time(&name, work, "Gop/s", || unsafe { kernel.run(bytes.as_ptr(), sums.as_mut_ptr(), &|_| {}) });
    }
}

fn attentions(report: &Report) {
    for (heads, t, d, causal) in [(48, 256, 64, true), (12, 1024, 64, true), (12, 1024, 64, false)] {
        let kv_of: Vec<usize> = (0..heads).collect();
        let a = Attention {
            kv_of: &kv_of,
            kv_heads: heads,
            queries: t,
            keys: t,
            d,
            dv: d,
            scale: 1.0 / (d as f32).sqrt(),
            causal: causal.then_some(0),
            mask: None,
            lengths: None,
        };
        let x = fill(heads * t * d);
        let (mut out, mut lse) = (x.clone(), vec![0f32; heads * t]);
        let starts: Vec<usize> = (0..heads).map(|h| h * t * d).collect();
        let rows = Rows { data: &x, starts: &starts, row: d };
        let to = |y: &mut [f32]| RowsMut::new(y.as_mut_ptr(), &starts, d);
        // SAFETY: the output has a vector of its own, here and below.
        unsafe { a.forward(&rows, &rows, &rows, to(&mut out), &mut lse) };
        let flops = 4.0 * (heads * t * t * d) as f64 * if causal { 0.5 } else { 1.0 };
        let name = format!("attention {heads}x{t}x{d}{}", if causal { " causal" } else { "" });
        let (mut y, mut sums) = (out.clone(), lse.clone());
        // SAFETY: as above.
        report.time(&name, flops, "GFLOP/s", || unsafe {
            a.forward(&rows, &rows, &rows, to(&mut y), &mut sums);
        });
        let (mut dq, mut dk, mut dv) = (x.clone(), x.clone(), x.clone());
        let out = Rows { data: &out, ..rows };
        let saved = Saved { q: rows, k: rows, v: rows, out, lse: &lse, dout: rows };
        let grads = [&mut dq, &mut dk, &mut dv].map(|g| to(g));
        // SAFETY: each gradient has a vector of its own.
        report.time(&(name + " backward"), 2.5 * flops, "GFLOP/s", || unsafe { a.backward(&saved, grads) });
    }
}
