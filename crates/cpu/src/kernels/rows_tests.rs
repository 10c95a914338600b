//! Row kernels against their definitions in double precision.

use super::super::testing::{Noise, assert_close};
use super::*;

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&v| v as f64).collect()
}

#[test]
fn softmax_and_gradient() {
    let mut noise = Noise::new(31);
    for n in [1, 2, 5, 15, 16, 17, 33, 100, 1000] {
        let rows = 7;
        let x: Vec<f32> = noise.f32s(rows * n).iter().map(|v| v * 20.0).collect();
        let dy = noise.f32s(rows * n);
        let (mut y, mut l, mut dx, mut dl) =
            (vec![0f32; rows * n], vec![0f32; rows * n], vec![0f32; rows * n], vec![0f32; rows * n]);
        softmax(n, &x, &mut y);
        log_softmax(n, &x, &mut l);
        softmax_grad(n, &y, &dy, &mut dx);
        log_softmax_grad(n, &l, &dy, &mut dl);
        for r in 0..rows {
            let at = r * n..(r + 1) * n;
            let (x, dy) = (wide(&x[at.clone()]), wide(&dy[at.clone()]));
            let top = x.iter().copied().fold(f64::MIN, f64::max);
            let total: f64 = x.iter().map(|v| (v - top).exp()).sum();
            let p: Vec<f64> = x.iter().map(|v| (v - top).exp() / total).collect();
            let dot: f64 = p.iter().zip(&dy).map(|(p, d)| p * d).sum();
            let sum: f64 = dy.iter().sum();
            assert_close(&y[at.clone()], &p, 1e-6, "softmax");
            assert_close(
                &l[at.clone()],
                &x.iter().map(|v| v - top - total.ln()).collect::<Vec<_>>(),
                1e-6,
                "log_softmax",
            );
            assert_close(
                &dx[at.clone()],
                &(0..n).map(|i| p[i] * (dy[i] - dot)).collect::<Vec<_>>(),
                1e-5,
                "softmax_grad",
            );
            assert_close(&dl[at], &(0..n).map(|i| dy[i] - p[i] * sum).collect::<Vec<_>>(), 1e-5, "log_softmax_grad");
        }
    }
}

#[test]
fn softmax_of_masked_rows() {
    let x = [f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY];
    let mut y = [0f32; 3];
    softmax(3, &x, &mut y);
    assert_eq!(y, [0.0, 1.0, 0.0]);
}

/// The loss `sum(dy * norm(x))` in double precision, for finite differences.
fn loss(n: usize, is_rms: bool, x: &[f64], w: &[f64], b: &[f64], dy: &[f64], eps: f64) -> f64 {
    let mut total = 0.0;
    for (x, dy) in x.chunks(n).zip(dy.chunks(n)) {
        let mean = if is_rms { 0.0 } else { x.iter().sum::<f64>() / n as f64 };
        let var = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        for i in 0..n {
            total += dy[i] * ((x[i] - mean) / (var + eps).sqrt() * w[i] + b[i]);
        }
    }
    total
}

#[test]
fn norms_and_gradients() {
    let mut noise = Noise::new(32);
    for (n, rows) in [(1, 3), (5, 40), (16, 4), (37, 9), (64, 33)] {
        for is_rms in [false, true] {
            let (x, dy, w) = (noise.f32s(rows * n), noise.f32s(rows * n), noise.f32s(n));
            let b = if is_rms { vec![0.0; n] } else { noise.f32s(n) };
            let (mut y, mut rstd) = (vec![0f32; rows * n], vec![0f32; rows]);
            let mut mean = vec![0f32; if is_rms { 0 } else { rows }];
            if is_rms {
                rms_norm(n, &x, Some(&w), 1e-2, &mut y, &mut rstd);
            } else {
                layer_norm(n, &x, Some(&w), Some(&b), 1e-2, &mut y, &mut mean, &mut rstd);
            }
            let (mut dx, mut dw, mut db) = (vec![0f32; rows * n], vec![0f32; n], vec![0f32; n]);
            NormGrad { n, x: &x, dy: &dy, weight: Some(&w), mean: &mean, rstd: &rstd }.run(
                &mut dx,
                Some(&mut dw),
                Some(&mut db),
            );
            let (x, dy, w, b) = (wide(&x), wide(&dy), wide(&w), wide(&b));
            let value: f64 = y.iter().zip(&dy).map(|(&y, d)| y as f64 * d).sum();
            assert!((value - loss(n, is_rms, &x, &w, &b, &dy, 1e-2)).abs() < 1e-3);
            let slope = |v: &[f64], at: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
                (0..v.len())
                    .map(|i| {
                        let (mut up, mut down) = (v.to_vec(), v.to_vec());
                        up[i] += 1e-5;
                        down[i] -= 1e-5;
                        (at(&up) - at(&down)) / 2e-5
                    })
                    .collect()
            };
            assert_close(&dx, &slope(&x, &|x| loss(n, is_rms, x, &w, &b, &dy, 1e-2)), 1e-4, "dx");
            assert_close(&dw, &slope(&w, &|w| loss(n, is_rms, &x, w, &b, &dy, 1e-2)), 1e-4, "dw");
            assert_close(&db, &slope(&b, &|b| loss(n, is_rms, &x, &w, b, &dy, 1e-2)), 1e-4, "db");
        }
    }
}

#[test]
fn rows_gather_and_scatter() {
    let mut noise = Noise::new(33);
    for n in [1, 3, 70, 200] {
        let table = noise.f32s(11 * n);
        let index: Vec<i64> = (0..300).map(|_| noise.range(0, 10) as i64).collect();
        let mut out = vec![0f32; 300 * n];
        gather_rows(n, &table, &index, &mut out);
        let mut sums = table.clone();
        scatter_add_rows(n, &mut sums, &index, &out);
        let mut want = wide(&table);
        for (i, &r) in index.iter().enumerate() {
            for j in 0..n {
                assert_eq!(out[i * n + j], table[r as usize * n + j]);
                want[r as usize * n + j] += out[i * n + j] as f64;
            }
        }
        assert_close(&sums, &want, 1e-5, "scatter");
    }
}

#[test]
#[should_panic(expected = "an index below 2 expected, got 5")]
fn gather_checks_its_index() {
    gather_rows(2, &[0f32; 4], &[1, 5], &mut [0f32; 4]);
}
