//! Orthogonal and unitary factors of row-major matrices of f64 or complex numbers: short and
//! accurate rather than fast.
//!
//! A vector that is determined only up to its sign, or its phase, gets a real and positive largest
//! component.

use ir::Complex;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};

/// What matrices consist of: f64 or a complex number of them.
pub trait Number:
    Copy
    + From<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Mul<f64, Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + Sum
{
    /// The complex conjugate.
    fn conj(self) -> Self;
    /// The real part.
    fn re(self) -> f64;
    /// The squared magnitude.
    fn square(self) -> f64;
    /// The magnitude, without overflow on the way.
    fn size(self) -> f64;
}
impl Number for f64 {
    fn conj(self) -> f64 {
        self
    }
    fn re(self) -> f64 {
        self
    }
    fn square(self) -> f64 {
        self * self
    }
    fn size(self) -> f64 {
        self.abs()
    }
}
impl Number for Complex<f64> {
    fn conj(self) -> Self {
        Complex::new(self.re, -self.im)
    }
    fn re(self) -> f64 {
        self.re
    }
    fn square(self) -> f64 {
        self.norm_sqr()
    }
    fn size(self) -> f64 {
        self.re.hypot(self.im)
    }
}

/// The matrix with squares in range, and the power of two that was taken out; `None` where an
/// element is not finite.
pub fn scaled<T: Number>(a: &[T]) -> Option<(Vec<T>, i32)> {
    let most =
        a.iter().map(|x| x.size()).fold(0.0, |m: f64, x| if m.is_nan() || x.is_nan() { f64::NAN } else { m.max(x) });
    if !most.is_finite() {
        return None;
    }
    let exponent = if most == 0.0 { 0 } else { most.log2() as i32 };
    Some((a.iter().map(|&x| times(x, -exponent)).collect(), exponent))
}
/// A number times a power of two, in two steps: powers themselves may be out of range.
pub fn times<T: Number>(x: T, exponent: i32) -> T {
    x * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}
fn nans<T: Number>(count: usize) -> Vec<T> {
    vec![T::from(f64::NAN); count]
}
/// Ones on the diagonal, zeros elsewhere.
pub fn identity<T: Number>(rows: usize, columns: usize) -> Vec<T> {
    (0..rows * columns).map(|at| T::from(if at / columns == at % columns { 1.0 } else { 0.0 })).collect()
}
/// The conjugate transpose.
pub fn adjoint<T: Number>(a: &[T], m: usize, n: usize) -> Vec<T> {
    (0..m * n).map(|at| a[at % m * n + at / m].conj()).collect()
}

/// QR by Householder reflections, with LAPACK's signs: `q` with `columns` columns, which are the
/// smaller size or `m`, and `r` with as many rows. The diagonal of `r` is real.
pub fn qr<T: Number>(a: &[T], m: usize, n: usize, columns: usize) -> (Vec<T>, Vec<T>) {
    let Some((mut r, scale)) = scaled(a) else { return (nans(m * columns), nans(columns * n)) };
    let mut reflectors: Vec<(usize, Vec<T>, T)> = Vec::new();
    for j in 0..m.min(n) {
        let Some((v, factor)) = reflector((j..m).map(|i| r[i * n + j]).collect()) else { continue };
        reflect(&mut r, n, j, &v, factor.conj());
        reflectors.push((j, v, factor));
    }
    let mut q = identity(m, columns);
    for (j, v, factor) in reflectors.iter().rev() {
        reflect(&mut q, columns, *j, v, *factor);
    }
    let at = |at: usize| match (at / n, at % n) {
        (i, j) if i > j => T::from(0.0),
        (i, j) if i == j => times(T::from(r[at].re()), scale),
        _ => times(r[at], scale),
    };
    let r = (0..columns * n).map(at).collect();
    (q, r)
}
/// `v` and `factor` so that `I - factor* v v*` takes the vector to a real multiple of its first
/// direction, and `I - factor v v*` takes it back; `None` if it is there already.
pub fn reflector<T: Number>(mut v: Vec<T>) -> Option<(Vec<T>, T)> {
    // Squares of small numbers must not vanish; a power of two changes no digit.
    let most = v.iter().fold(0.0, |m: f64, x| m.max(x.size()));
    if most > 0.0 && most.is_finite() {
        let scale = 2f64.powi(-(most.log2().floor() as i32).clamp(-1000, 1000));
        v.iter_mut().for_each(|x| *x = *x * scale);
    }
    let tail: f64 = v[1..].iter().map(|x| x.square()).sum();
    let alpha = v[0];
    if tail == 0.0 && alpha.size() == alpha.re().abs() {
        return None;
    }
    let beta = -(alpha.square() + tail).sqrt().copysign(alpha.re());
    v[0] = alpha - T::from(beta);
    let factor = v[0] * (-1.0 / (beta * v[0].square()));
    Some((v, factor))
}
/// Applies `I - factor v v*` to the rows from `from` on.
pub fn reflect<T: Number>(x: &mut [T], n: usize, from: usize, v: &[T], factor: T) {
    for c in 0..n {
        let dot: T = v.iter().enumerate().map(|(i, v)| v.conj() * x[(from + i) * n + c]).sum();
        for (i, &v) in v.iter().enumerate() {
            x[(from + i) * n + c] -= factor * dot * v;
        }
    }
}

/// A rotation of two vectors, of which the second is first rotated to the phase of the first.
struct Rotation<T> {
    cos: f64,
    sin: f64,
    turn: T,
}
impl<T: Number> Rotation<T> {
    /// The one of columns that makes the off-diagonal element `c` of `[[a, c], [c*, b]]` zero.
    fn new(a: f64, b: f64, c: T) -> Rotation<T> {
        let zeta = (b - a) / (2.0 * c.size());
        let t = 1.0f64.copysign(zeta) / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
        let cos = 1.0 / (1.0 + t * t).sqrt();
        Rotation { cos, sin: cos * t, turn: phase(c).conj() }
    }
    fn apply(&self, a: &mut T, b: &mut T, turn: T) {
        let (x, y) = (*a, *b * turn);
        *a = x * self.cos - y * self.sin;
        *b = x * self.sin + y * self.cos;
    }
    /// Of columns `p` and `q`.
    fn columns(&self, x: &mut [T], n: usize, p: usize, q: usize) {
        for row in x.chunks_exact_mut(n) {
            let (mut a, mut b) = (row[p], row[q]);
            self.apply(&mut a, &mut b, self.turn);
            (row[p], row[q]) = (a, b);
        }
    }
    /// Of rows `p` and `q`, which are columns of the transposed matrix, or of the adjoint one.
    fn rows(&self, x: &mut [T], n: usize, p: usize, q: usize, is_adjoint: bool) {
        let turn = if is_adjoint { self.turn.conj() } else { self.turn };
        let (front, back) = x.split_at_mut(q * n);
        front[p * n..(p + 1) * n].iter_mut().zip(&mut back[..n]).for_each(|(a, b)| self.apply(a, b, turn));
    }
}
/// The number over its magnitude; 1 for 0.
fn phase<T: Number>(x: T) -> T {
    let size = x.size();
    if size == 0.0 {
        return T::from(1.0);
    }
    // Twice: the inverse of the least numbers is out of range.
    let x = x * (1.0 / size.max(f64::MIN_POSITIVE));
    x * (1.0 / x.size())
}

/// Sweeps after which Jacobi's methods give up; they need about ten.
const SWEEPS_MAX: usize = 60;

/// Calls `rotated(p, q)` for all pairs, again and again, until it rotates none any more.
fn sweep(n: usize, mut rotated: impl FnMut(usize, usize) -> bool) {
    for _ in 0..SWEEPS_MAX {
        let mut is_done = true;
        for p in 0..n {
            for q in p + 1..n {
                is_done &= !rotated(p, q);
            }
        }
        if is_done {
            return;
        }
    }
}

/// Eigenvalues, ascending, and eigenvectors (columns) of a Hermitian matrix by Jacobi's method.
pub fn eigh<T: Number>(a: &[T], n: usize) -> (Vec<f64>, Vec<T>) {
    let Some((mut a, scale)) = scaled(a) else { return (nans(n), nans(n * n)) };
    // Vectors are rows here, so that they lie together.
    let mut v = identity(n, n);
    sweep(n, |p, q| {
        let (off, first, last) = (a[p * n + q], a[p * n + p].re(), a[q * n + q].re());
        if off.size() <= 1e-17 * (first.abs() + last.abs()) || off.size() < f64::MIN_POSITIVE {
            return false;
        }
        let r = Rotation::new(first, last, off);
        r.columns(&mut a, n, p, q);
        r.rows(&mut a, n, p, q, true);
        r.rows(&mut v, n, p, q, false);
        // What rounding has left of it would never end.
        (a[p * n + q], a[q * n + p]) = (T::from(0.0), T::from(0.0));
        true
    });
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[i * n + i].re().total_cmp(&a[j * n + j].re()));
    let values = order.iter().map(|&i| times(a[i * n + i].re(), scale)).collect();
    let mut vectors: Vec<T> = (0..n * n).map(|at| v[order[at % n] * n + at / n]).collect();
    (0..n).for_each(|j| {
        settle(&mut vectors, n, n, j);
    });
    (values, vectors)
}
/// Turns column `j` so that its largest component is real and positive; gives the phase it had.
/// Of components that are equal but for rounding, the first counts.
pub fn settle<T: Number>(x: &mut [T], rows: usize, n: usize, j: usize) -> T {
    let largest = |b: usize, i: usize| if x[i * n + j].size() > x[b * n + j].size() * (1.0 + 1e-12) { i } else { b };
    if rows == 0 {
        return T::from(1.0);
    }
    let best = (0..rows).fold(0, largest);
    let phase = phase(x[best * n + j]);
    (0..rows).for_each(|i| x[i * n + j] = x[i * n + j] * phase.conj());
    x[best * n + j] = T::from(x[best * n + j].size());
    phase
}

/// Singular value decomposition `(u, s, v*)` by one-sided Jacobi; values descend. With `is_full`,
/// `u` and `v` are square.
pub fn svd<T: Number>(a: &[T], m: usize, n: usize, is_full: bool) -> (Vec<T>, Vec<f64>, Vec<T>) {
    let k = m.min(n);
    let (left, right) = if is_full { (m, n) } else { (k, k) };
    let Some((w, scale)) = scaled(a) else { return (nans(m * left), nans(k), nans(right * n)) };
    let (mut u, s, mut v) = if m >= n {
        tall(&w, m, n)
    } else {
        let (v, s, u) = tall(&adjoint(&w, m, n), n, m);
        (u, s, v)
    };
    for j in 0..k {
        let phase = settle(&mut u, m, k, j);
        (0..n).for_each(|i| v[i * k + j] = v[i * k + j] * phase.conj());
    }
    let s = s.iter().map(|&s| times(s, scale)).collect();
    (completed(&u, m, k, k, left), s, adjoint(&completed(&v, n, k, k, right), n, right))
}
/// `u` (m × n), values and `v` (n × n) of a matrix with no more columns than rows.
fn tall<T: Number>(a: &[T], m: usize, n: usize) -> (Vec<T>, Vec<f64>, Vec<T>) {
    // Columns are rows here, so that they lie together.
    let mut w: Vec<T> = (0..m * n).map(|at| a[at % m * n + at / m]).collect();
    let mut v = identity(n, n);
    let size = |w: &[T], j: usize| w[j * m..(j + 1) * m].iter().map(|x| x.square()).sum::<f64>();
    let mut sizes: Vec<f64> = (0..n).map(|j| size(&w, j)).collect();
    let tolerance = f64::EPSILON * (m as f64).sqrt();
    sweep(n, |p, q| {
        let (first, last) = (&w[p * m..(p + 1) * m], &w[q * m..(q + 1) * m]);
        let dot: T = first.iter().zip(last).map(|(&x, &y)| x.conj() * y).sum();
        if dot.size() == 0.0 || dot.size() <= tolerance * (sizes[p] * sizes[q]).sqrt() {
            return false;
        }
        let r = Rotation::new(sizes[p], sizes[q], dot);
        r.rows(&mut w, m, p, q, false);
        r.rows(&mut v, n, p, q, false);
        (sizes[p], sizes[q]) = (size(&w, p), size(&w, q));
        true
    });
    let norms: Vec<f64> = sizes.iter().map(|s| s.sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| norms[j].total_cmp(&norms[i]));
    let s: Vec<f64> = order.iter().map(|&j| norms[j]).collect();
    let tiny = s.first().map_or(0.0, |s| s * 1e-15);
    let rank = s.iter().filter(|&&s| s > tiny).count();
    let u: Vec<T> = (0..m * n).map(|at| w[order[at % n] * m + at / n] * (1.0 / s[at % n].max(1e-300))).collect();
    let v = (0..n * n).map(|at| v[order[at % n] * n + at / n]).collect();
    (completed(&u, m, n, rank, n), s, v)
}
/// The first `rank` columns of the `m × n` matrix `u`, which are orthonormal, and others up to
/// `columns` that make an orthonormal set with them.
fn completed<T: Number>(u: &[T], m: usize, n: usize, rank: usize, columns: usize) -> Vec<T> {
    if rank == columns {
        return u.to_vec();
    }
    let basis: Vec<T> = (0..m * rank).map(|at| u[at / rank * n + at % rank]).collect();
    // All of an orthogonal matrix that begins with these columns, up to their signs.
    let (all, _) = qr(&basis, m, rank, m);
    let at = |at: usize| match (at / columns, at % columns) {
        (i, j) if j < rank => basis[i * rank + j],
        (i, j) => all[i * m + j],
    };
    let mut out: Vec<T> = (0..m * columns).map(at).collect();
    (rank..columns).for_each(|j| {
        settle(&mut out, m, columns, j);
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::floats;

    fn matmul<T: Number>(a: &[T], b: &[T], m: usize, k: usize, n: usize) -> Vec<T> {
        (0..m * n).map(|at| (0..k).map(|l| a[at / n * k + l] * b[l * n + at % n]).sum()).collect()
    }
    fn far<T: Number>(a: &[T], b: &[T]) -> f64 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(&x, &y)| (x - y).size()).fold(0.0, f64::max)
    }
    fn complex(m: usize, n: usize, seed: u64) -> Vec<Complex<f64>> {
        floats([m, n, 2], seed).to_f64().chunks(2).map(|z| Complex::new(z[0], z[1])).collect()
    }
    fn assert_unitary<T: Number>(x: &[T], m: usize, k: usize, what: &str) {
        assert!(far(&matmul(&adjoint(x, m, k), x, k, m, k), &identity(k, k)) < 1e-13, "{what} is not unitary");
    }
    fn check_factors<T: Number>(a: &[T], m: usize, n: usize) {
        let size = a.iter().map(|x| x.size()).fold(1e-300, f64::max);
        for is_full in [false, true] {
            let (left, right) = if is_full { (m, n) } else { (m.min(n), m.min(n)) };
            let (u, s, vh) = svd(a, m, n, is_full);
            assert!(s.windows(2).all(|w| w[0] >= w[1]) && s.iter().all(|&s| s >= 0.0));
            let value = |i: usize, j: usize| if i == j { s[i] } else { 0.0 };
            let d: Vec<T> = (0..left * right).map(|at| T::from(value(at / right, at % right))).collect();
            let back = matmul(&matmul(&u, &d, m, left, right), &vh, m, right, n);
            assert!(far(&back, a) < 1e-13 * size, "svd {m} {n}: off by {:e}", far(&back, a));
            assert_unitary(&u, m, left, "u");
            assert_unitary(&adjoint(&vh, right, n), n, right, "v");
            let (q, r) = qr(a, m, n, left);
            assert!(far(&matmul(&q, &r, m, left, n), a) < 1e-13 * size, "qr {m} {n}");
            assert_unitary(&q, m, left, "q");
            assert!((0..left * n).all(|at| at / n <= at % n || r[at].size() == 0.0), "r is not triangular");
        }
    }

    #[test]
    fn factors_give_the_matrix_back() {
        for (m, n) in [(5, 5), (6, 3), (3, 6), (1, 4), (4, 1), (1, 1), (2, 0), (0, 2), (0, 0)] {
            check_factors(&floats([m, n], 3).to_f64(), m, n);
            check_factors(&complex(m, n, 3), m, n);
        }
    }
    #[test]
    fn matrices_of_low_rank_have_full_bases() {
        for (m, n, rank) in [(4, 4, 2), (5, 3, 1), (3, 5, 2), (3, 3, 0)] {
            check_factors(&matmul(&complex(m, rank, 1), &complex(rank, n, 2), m, rank, n), m, n);
            let (a, b) = (floats([m, rank], 1).to_f64(), floats([rank, n], 2).to_f64());
            check_factors(&matmul(&a, &b, m, rank, n), m, n);
        }
    }
    #[test]
    fn the_range_of_numbers_is_the_types_own() {
        for factor in [1e-200, 1e200] {
            let a: Vec<_> = complex(4, 3, 5).iter().map(|z| z * factor).collect();
            check_factors(&a, 4, 3);
        }
        let least = [5e-324, 0.0, 0.0, 1e-323];
        assert_eq!(svd(&least, 2, 2, false).1, [1e-323, 5e-324]);
        assert!(svd(&[f64::NAN, 1.0], 1, 2, true).0[0].is_nan() && eigh(&[f64::INFINITY], 1).0[0].is_nan());
    }
    #[test]
    fn eigenvalues_of_known_matrices() {
        // The second difference matrix: 2 - 2 cos(k pi / 4).
        let (w, v) = eigh(&[2.0, -1.0, 0.0, -1.0, 2.0, -1.0, 0.0, -1.0, 2.0], 3);
        let want = [2.0 - 2f64.sqrt(), 2.0, 2.0 + 2f64.sqrt()];
        assert!(far(&w, &want) < 1e-14, "{w:?}");
        assert!(v[2] > 0.0 || v[5] > 0.0);
    }
    #[test]
    fn eigenvectors_are_unitary_where_values_repeat() {
        // A reflection: -1 once, 1 as often as the rest.
        for n in 0..7 {
            let x = complex(n, 1, 7);
            let length: f64 = x.iter().map(|x| x.square()).sum();
            let reflection = |at: usize| {
                let (i, j) = (at / n, at % n);
                Complex::from((i == j) as u8 as f64) - x[i] * x[j].conj() * (2.0 / length)
            };
            let a: Vec<_> = (0..n * n).map(reflection).collect();
            let (w, v) = eigh(&a, n);
            let want: Vec<f64> = (0..n).map(|i| if i == 0 { -1.0 } else { 1.0 }).collect();
            assert!(far(&w, &want) < 1e-14, "{w:?}");
            assert_unitary(&v, n, n, "v");
            let scaled: Vec<_> = (0..n * n).map(|at| v[at] * w[at % n]).collect();
            assert!(far(&matmul(&scaled, &adjoint(&v, n, n), n, n, n), &a) < 1e-13);
        }
    }
}
