//! Eigenvalues and eigenvectors of square matrices of any kind, through Schur's triangular form.

use super::unitary::{adjoint, identity, reflect, reflector, scaled, settle, times};
use ir::Complex;

type C = Complex<f64>;

/// Iterations for one eigenvalue after which the method gives up; it needs about three.
const TURNS_MAX: usize = 60;

/// Eigenvalues and eigenvectors (columns of length 1, whose largest component is real and
/// positive), or that they were not found.
pub fn eig(a: &[C], n: usize) -> Result<(Vec<C>, Vec<C>), &'static str> {
    let nan = C::new(f64::NAN, f64::NAN);
    let Some((mut t, scale)) = scaled(a) else { return Ok((vec![nan; n], vec![nan; n * n])) };
    let mut q = identity(n, n);
    hessenberg(&mut t, &mut q, n);
    triangular(&mut t, &mut q, n)?;
    let values = (0..n).map(|i| times(t[i * n + i], scale)).collect();
    let mut vectors = product(&q, &of_triangular(&t, n), n);
    for j in 0..n {
        let length = (0..n).map(|i| vectors[i * n + j].norm_sqr()).sum::<f64>().sqrt();
        (0..n).for_each(|i| vectors[i * n + j] /= length);
        settle(&mut vectors, n, n, j);
    }
    Ok((values, vectors))
}

fn product(a: &[C], b: &[C], n: usize) -> Vec<C> {
    let mut out = vec![C::ZERO; n * n];
    for i in 0..n {
        for k in 0..n {
            (0..n).for_each(|j| out[i * n + j] += a[i * n + k] * b[k * n + j]);
        }
    }
    out
}

/// Makes everything below the first lower diagonal zero: `q t q*` stays what it was.
fn hessenberg(t: &mut Vec<C>, q: &mut Vec<C>, n: usize) {
    for k in 0..n.saturating_sub(2) {
        let column: Vec<C> = (k + 1..n).map(|i| t[i * n + k]).collect();
        let Some((v, factor)) = reflector(column) else { continue };
        reflect(t, n, k + 1, &v, factor.conj());
        (k + 2..n).for_each(|i| t[i * n + k] = C::ZERO);
        // From the right, as the adjoint sees it from the left.
        for x in [&mut *t, &mut *q] {
            let mut adjoint_x = adjoint(x, n, n);
            reflect(&mut adjoint_x, n, k + 1, &v, factor.conj());
            *x = adjoint(&adjoint_x, n, n);
        }
    }
}

/// A rotation that takes the pair to (r, 0): `[[c, s], [-s*, c]]`.
fn rotation(x: C, y: C) -> (f64, C) {
    let r = x.norm().hypot(y.norm());
    if r == 0.0 {
        return (1.0, C::ZERO);
    }
    if x == C::ZERO {
        return (0.0, y.conj() / y.norm());
    }
    let phase = x / x.norm();
    (x.norm() / r, phase * y.conj() / r)
}

/// Makes a Hessenberg matrix triangular by steps of the QR method with Wilkinson's shifts.
fn triangular(t: &mut [C], q: &mut [C], n: usize) -> Result<(), &'static str> {
    let (mut last, mut turns) = (n.saturating_sub(1), 0);
    while last > 0 {
        let is_small = |k: usize| {
            let beside = t[(k - 1) * n + k - 1].norm() + t[k * n + k].norm();
            t[k * n + k - 1].norm() <= f64::EPSILON * if beside == 0.0 { 1.0 } else { beside }
        };
        let first = (1..=last).rev().find(|&k| is_small(k)).unwrap_or(0);
        if first > 0 {
            t[first * n + first - 1] = C::ZERO;
        }
        if first == last {
            (last, turns) = (last - 1, 0);
            continue;
        }
        if turns == TURNS_MAX {
            return Err("has eigenvalues that were not found");
        }
        turns += 1;
        step(t, q, n, first, last, shift(t, n, last, turns));
    }
    Ok(())
}
/// The eigenvalue of the last two rows that is nearer to the last element; now and then another
/// number, which ends circles.
fn shift(t: &[C], n: usize, last: usize, turns: usize) -> C {
    let at = |i: usize, j: usize| t[(last - 1 + i) * n + last - 1 + j];
    if turns.is_multiple_of(10) {
        return at(1, 1) + at(1, 0).norm();
    }
    let half = (at(0, 0) - at(1, 1)) * 0.5;
    let root = (half * half + at(0, 1) * at(1, 0)).sqrt();
    let far = if (half + root).norm() > (half - root).norm() { half + root } else { half - root };
    if far == C::ZERO { at(1, 1) } else { at(1, 1) - at(0, 1) * at(1, 0) / far }
}
/// One step on the rows from `first` to `last`.
fn step(t: &mut [C], q: &mut [C], n: usize, first: usize, last: usize, shift: C) {
    (first..=last).for_each(|i| t[i * n + i] -= shift);
    let mut rotations = Vec::with_capacity(last - first);
    for k in first..last {
        let (c, s) = rotation(t[k * n + k], t[(k + 1) * n + k]);
        for j in k..n {
            let (x, y) = (t[k * n + j], t[(k + 1) * n + j]);
            t[k * n + j] = x * c + s * y;
            t[(k + 1) * n + j] = y * c - s.conj() * x;
        }
        t[(k + 1) * n + k] = C::ZERO;
        rotations.push((k, c, s));
    }
    for (k, c, s) in rotations {
        let right = |x: &mut [C], rows: usize| {
            for i in 0..rows {
                let (a, b) = (x[i * n + k], x[i * n + k + 1]);
                x[i * n + k] = a * c + b * s.conj();
                x[i * n + k + 1] = b * c - a * s;
            }
        };
        right(t, (k + 2).min(last + 1));
        right(q, n);
    }
    (first..=last).for_each(|i| t[i * n + i] += shift);
}

/// Eigenvectors of a triangular matrix, as columns.
fn of_triangular(t: &[C], n: usize) -> Vec<C> {
    let most = t.iter().map(|x| x.norm()).fold(0.0, f64::max);
    let least = (most * f64::EPSILON).max(f64::MIN_POSITIVE);
    let mut x = vec![C::ZERO; n * n];
    for k in 0..n {
        x[k * n + k] = C::ONE;
        for i in (0..k).rev() {
            let sum: C = (i + 1..=k).map(|j| t[i * n + j] * x[j * n + k]).sum();
            let gap = t[k * n + k] - t[i * n + i];
            // Equal values: some vector close to the others.
            x[i * n + k] = sum / if gap.norm() < least { C::from(least) } else { gap };
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::floats;

    #[test]
    fn vectors_are_only_made_longer() {
        for n in [0, 1, 2, 3, 5, 12] {
            let a: Vec<C> = floats([n, n, 2], 5).to_f64().chunks(2).map(|z| C::new(z[0], z[1])).collect();
            let (w, v) = eig(&a, n).unwrap();
            let left = product(&a, &v, n);
            let far = (0..n * n).map(|at| (left[at] - v[at] * w[at % n]).norm()).fold(0.0, f64::max);
            assert!(far < 1e-12, "{n}: {far:e}");
        }
    }
    #[test]
    fn special_matrices() {
        // A cyclic shift, whose eigenvalues are roots of one, and on which plain shifts go in circles.
        for n in [2, 3, 4, 7] {
            let a: Vec<C> = (0..n * n).map(|at| C::from(((at / n + 1) % n == at % n) as u8 as f64)).collect();
            let (w, _) = eig(&a, n).unwrap();
            assert!(w.iter().all(|w| (w.powi(n as i32) - 1.0).norm() < 1e-12), "{w:?}");
        }
        // Not diagonalizable: both vectors are the one there is.
        let (w, v) = eig(&[C::ONE, C::ONE, C::ZERO, C::ONE], 2).unwrap();
        assert!(w.iter().all(|w| (w - 1.0).norm() < 1e-12) && (v[1] - 1.0).norm() < 1e-12);
        let (w, _) = eig(&[C::ZERO; 9], 3).unwrap();
        assert!(w.iter().all(|w| *w == C::ZERO));
        assert!(eig(&[C::new(f64::NAN, 0.0)], 1).unwrap().0[0].is_nan());
    }
}
