//! The matrix exponential: Taylor's polynomial of a scaled matrix by few products (Paterson and Stockmeyer), squared
//! as often as it was halved.

#![allow(unsafe_code)]

use super::{Real, multiply};
use crate::kernels::gemm::Mat;

fn product<T: Real>(a: &[T], b: &[T], n: usize) -> Vec<T> {
    let mut c = vec![T::ZERO; n * n];
    // SAFETY: three matrices of `n × n`.
    unsafe {
        let (a, b) = (Mat::row_major(a.as_ptr(), n), Mat::row_major(b.as_ptr(), n));
        multiply([n, n, n], 1.0, a, b, c.as_mut_ptr(), n, false);
    }
    c
}

/// `e^A`; NaN where an element is not finite.
pub fn exp<T: Real>(a: &[T], n: usize, out: &mut [T]) {
    if a.iter().any(|x| !x.to_f64().is_finite()) {
        return out.fill(T::from_f64(f64::NAN));
    }
    // The greatest row sum of magnitudes.
    let norm = a.chunks_exact(n.max(1)).map(|r| r.iter().map(|x| x.to_f64().abs()).sum()).fold(0.0, f64::max);
    let halvings = if norm > 0.5 { (norm.log2() + 1.0).ceil() as i32 } else { 0 };
    let scale = T::from_f64(0.5f64.powi(halvings));
    // Terms in groups of `width`. What is left out is below a rounding error: 0.5⁹ / 9! and 0.5¹⁶ / 16!.
    let (width, groups) = if size_of::<T>() == 4 { (3, 3) } else { (4, 4) };
    let mut powers: Vec<Vec<T>> = vec![a.iter().map(|x| *x * scale).collect()];
    while powers.len() < width {
        powers.push(product(&powers[0], &powers[powers.len() - 1], n));
    }
    let factorial = |k: usize| (1..=k).map(|k| k as f64).product::<f64>();
    let group = |g: usize, to: &mut [T]| {
        for (p, power) in powers.iter().take(width - 1).enumerate() {
            T::add_scaled(T::from_f64(1.0 / factorial(g * width + p + 1)), power, to);
        }
        let one = T::from_f64(1.0 / factorial(g * width));
        (0..n).for_each(|i| to[i * n + i] = to[i * n + i] + one);
    };
    let mut sum = vec![T::ZERO; n * n];
    for g in (0..groups).rev() {
        if g + 1 < groups {
            sum = product(&sum, &powers[width - 1], n);
        }
        group(g, &mut sum);
    }
    for _ in 0..halvings {
        sum = product(&sum, &sum, n);
    }
    out.copy_from_slice(&sum);
}
