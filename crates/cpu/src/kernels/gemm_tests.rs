//! Matrix products against three loops in double precision: random shapes, strides and batches.

use super::super::testing::{Noise, assert_close};
use super::*;

/// A matrix with random strides around `rows * cols` elements: contiguous, transposed or padded.
fn layout(noise: &mut Noise, rows: usize, cols: usize) -> (isize, isize, usize) {
    let pad = noise.range(0, 5);
    match noise.range(0, 3) {
        0 => ((cols + pad) as isize, 1, rows * (cols + pad)),
        1 => (1, (rows + pad) as isize, cols * (rows + pad)),
        2 => (2 * (cols + pad) as isize, 2, 2 * rows * (cols + pad)),
        _ => (cols as isize, 1, rows * cols),
    }
}

struct Shape {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
}

fn reference(
    s: &Shape,
    a: &dyn Fn(usize, usize, usize) -> f64,
    b: &dyn Fn(usize, usize, usize) -> f64,
    alpha: f64,
    before: &[f64],
    bias: Option<&[f64]>,
    activation: fn(f64) -> f64,
) -> Vec<f64> {
    let mut c = Vec::new();
    for t in 0..s.batch {
        for i in 0..s.m {
            for j in 0..s.n {
                let sum: f64 = (0..s.k).map(|p| a(t, i, p) * b(t, p, j)).sum();
                let at = (t * s.m + i) * s.n + j;
                c.push(activation(alpha * sum + before[at] + bias.map_or(0.0, |b| b[j])));
            }
        }
    }
    c
}

fn shape(noise: &mut Noise, round: usize) -> Shape {
    let size = |noise: &mut Noise| match noise.range(0, 3) {
        0 => noise.range(1, 4),
        1 => noise.range(1, 40),
        2 => noise.range(1, 130),
        _ => noise.range(1, 17),
    };
    let (m, n, k) = match round % 5 {
        0 => (1, size(noise), size(noise)),
        1 => (size(noise), 1, size(noise)),
        2 => (size(noise), size(noise), noise.range(380, 800)),
        _ => (size(noise), size(noise), size(noise)),
    };
    Shape { m, n, k, batch: if noise.flip() { 1 } else { noise.range(1, 4) } }
}

#[test]
fn f32_products() {
    let mut noise = Noise::new(1);
    for round in 0..400 {
        let s = shape(&mut noise, round);
        let (ar, ac, alen) = layout(&mut noise, s.m, s.k);
        let (br, bc, blen) = layout(&mut noise, s.k, s.n);
        let share_b = noise.flip();
        let a = noise.f32s(alen * s.batch);
        let b = noise.f32s(blen * s.batch);
        let bias = noise.f32s(s.n);
        let before = noise.f32s(s.batch * s.m * s.n);
        let (accumulate, with_bias, relu) = (noise.flip(), noise.flip(), noise.flip());
        let alpha = if noise.flip() { 1.0 } else { -0.5 };
        let mut c = before.clone();
        let q = Gemm {
            alpha,
            accumulate,
            batch: s.batch,
            a_batch: alen as isize,
            b_batch: if share_b { 0 } else { blen as isize },
            c_batch: (s.m * s.n) as isize,
            epilogue: Epilogue {
                bias: with_bias.then_some(&bias[..]),
                activation: if relu { Activation::Relu } else { Activation::None },
            },
            ..Gemm::new(
                s.m,
                s.n,
                s.k,
                Mat { p: a.as_ptr(), row: ar, col: ac },
                Mat { p: b.as_ptr(), row: br, col: bc },
                c.as_mut_ptr(),
            )
        };
        // SAFETY: strides and lengths come from `layout`.
        unsafe { q.run() };
        let at = |t: usize, i: usize, j: usize| a[t * alen + i * ar as usize + j * ac as usize] as f64;
        let bt = |t: usize, i: usize, j: usize| {
            b[if share_b { 0 } else { t * blen } + i * br as usize + j * bc as usize] as f64
        };
        let old: Vec<f64> = before.iter().map(|&x| if accumulate { x as f64 } else { 0.0 }).collect();
        let wide_bias: Vec<f64> = bias.iter().map(|&x| x as f64).collect();
        let activation = if relu { |x: f64| x.max(0.0) } else { |x| x };
        let want = reference(&s, &at, &bt, alpha as f64, &old, with_bias.then_some(&wide_bias[..]), activation);
        assert_close(&c, &want, 2e-5, &format!("round {round}: {}x{}x{}", s.m, s.n, s.k));
    }
}

#[test]
fn f64_products() {
    let mut noise = Noise::new(2);
    for round in 0..100 {
        let s = Shape { batch: 1, ..shape(&mut noise, round) };
        let (ar, ac, alen) = layout(&mut noise, s.m, s.k);
        let (br, bc, blen) = layout(&mut noise, s.k, s.n);
        let (a, b) = (noise.f64s(alen), noise.f64s(blen));
        let mut c = vec![0.0; s.m * s.n];
        let (ma, mb) = (Mat { p: a.as_ptr(), row: ar, col: ac }, Mat { p: b.as_ptr(), row: br, col: bc });
        // SAFETY: strides and lengths come from `layout`.
        unsafe { Gemm::new(s.m, s.n, s.k, ma, mb, c.as_mut_ptr()).run() };
        let at = |_: usize, i: usize, j: usize| a[i * ar as usize + j * ac as usize];
        let bt = |_: usize, i: usize, j: usize| b[i * br as usize + j * bc as usize];
        let want = reference(&s, &at, &bt, 1.0, &vec![0.0; c.len()], None, |x| x);
        assert!(c.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-11), "{}x{}x{}", s.m, s.n, s.k);
    }
}

#[test]
fn half_products_sum_in_f32() {
    let mut noise = Noise::new(3);
    for round in 0..60 {
        let s = Shape { batch: 1, ..shape(&mut noise, round) };
        let (ar, ac, alen) = layout(&mut noise, s.m, s.k);
        let (br, bc, blen) = layout(&mut noise, s.k, s.n);
        let a: Vec<bf16> = noise.f32s(alen).into_iter().map(bf16::from_f32).collect();
        let b: Vec<bf16> = noise.f32s(blen).into_iter().map(bf16::from_f32).collect();
        let (ma, mb) = (Mat { p: a.as_ptr(), row: ar, col: ac }, Mat { p: b.as_ptr(), row: br, col: bc });
        let mut c = vec![0f32; s.m * s.n];
        let mut h = vec![bf16::ONE; s.m * s.n];
        // SAFETY: strides and lengths come from `layout`.
        unsafe {
            Gemm::new(s.m, s.n, s.k, ma, mb, c.as_mut_ptr()).run();
            Gemm { accumulate: true, ..Gemm::new(s.m, s.n, s.k, ma, mb, h.as_mut_ptr()) }.run();
        }
        let at = |_: usize, i: usize, j: usize| a[i * ar as usize + j * ac as usize].to_f64();
        let bt = |_: usize, i: usize, j: usize| b[i * br as usize + j * bc as usize].to_f64();
        let want = reference(&s, &at, &bt, 1.0, &vec![0.0; c.len()], None, |x| x);
        assert_close(&c, &want, 2e-5, "bf16 to f32");
        for (h, w) in h.iter().zip(&want) {
            assert!((h.to_f64() - (w + 1.0)).abs() <= 0.01 * (w + 1.0).abs().max(1.0), "{h} {w}");
        }
    }
}

#[test]
fn integers_wrap() {
    let a: Vec<i8> = (0..35).map(|i| (i * 37 % 256) as u8 as i8).collect();
    let b: Vec<i8> = (0..28).map(|i| (i * 91 % 256) as u8 as i8).collect();
    let mut c = vec![1i32; 20];
    // SAFETY: 5x7 times 7x4.
    unsafe {
        gemm_int(5, 4, 7, Mat::row_major(a.as_ptr(), 7), Mat::row_major(b.as_ptr(), 4), c.as_mut_ptr(), 4, true);
    }
    for i in 0..5 {
        for j in 0..4 {
            let want: i32 = 1 + (0..7).map(|p| a[i * 7 + p] as i32 * b[p * 4 + j] as i32).sum::<i32>();
            assert_eq!(c[i * 4 + j], want);
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let mut noise = Noise::new(4);
    for (m, n, k) in [(200, 700, 500), (1, 3000, 900), (64, 512, 2048)] {
        let (a, b) = (noise.f32s(m * k), noise.f32s(k * n));
        let run = |threads| {
            pool::set_threads(threads);
            let mut c = vec![0f32; m * n];
            let (a, b) = (Mat::row_major(a.as_ptr(), k), Mat::row_major(b.as_ptr(), n));
            // SAFETY: row-major matrices of these sizes.
            unsafe { Gemm::new(m, n, k, a, b, c.as_mut_ptr()).run() };
            pool::set_threads(0);
            c
        };
        assert!(run(1) == run(4));
    }
}

#[test]
fn empty_products() {
    let a = [1f32; 4];
    let mut c = [7f32; 4];
    // SAFETY: nothing is read for k = 0.
    unsafe { Gemm::new(2, 2, 0, Mat::row_major(a.as_ptr(), 0), Mat::row_major(a.as_ptr(), 2), c.as_mut_ptr()).run() };
    assert_eq!(c, [0.0; 4]);
    // SAFETY: as above; one row goes another way.
    unsafe { Gemm::new(1, 4, 0, Mat::row_major(a.as_ptr(), 0), Mat::row_major(a.as_ptr(), 4), c.as_mut_ptr()).run() };
    assert_eq!(c, [0.0; 4]);
}
