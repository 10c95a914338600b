//! Factors multiply to the matrix, and orthogonal ones are orthogonal, at every size around the blocks.

use super::super::testing::Noise;
use super::*;

const SIZES: [usize; 12] = [1, 2, 3, 5, 16, 31, 32, 33, 64, 65, 97, 130];

fn noise<T: Real>(count: usize, seed: u64) -> Vec<T> {
    Noise::new(seed).f64s(count).into_iter().map(T::from_f64).collect()
}
fn product<T: Real>(a: &[T], b: &[T], [m, k, n]: [usize; 3]) -> Vec<T> {
    let mut out = vec![0f64; m * n];
    for i in 0..m {
        for l in 0..k {
            (0..n).for_each(|j| out[i * n + j] += a[i * k + l].to_f64() * b[l * n + j].to_f64());
        }
    }
    out.into_iter().map(T::from_f64).collect()
}
fn transposed<T: Real>(a: &[T], m: usize, n: usize) -> Vec<T> {
    (0..m * n).map(|at| a[at % m * n + at / m]).collect()
}
fn identity<T: Real>(n: usize) -> Vec<T> {
    (0..n * n).map(|at| if at / n == at % n { T::ONE } else { T::ZERO }).collect()
}
#[track_caller]
fn assert_near<T: Real>(got: &[T], want: &[T], factor: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let scale = want.iter().fold(1.0f64, |m, x| m.max(x.to_f64().abs()));
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let off = (g.to_f64() - w.to_f64()).abs();
        assert!(off <= factor * T::EPSILON.to_f64() * scale, "{what}: element {i} is {g:?}, want {w:?}");
    }
}
#[track_caller]
fn assert_orthogonal<T: Real>(q: &[T], m: usize, n: usize, what: &str) {
    assert_near(&product(&transposed(q, m, n), q, [n, m, n]), &identity(n), 200.0 + 4.0 * m as f64, what);
}
/// A symmetric matrix; `shift` on its diagonal.
fn symmetric<T: Real>(n: usize, seed: u64, shift: f64) -> Vec<T> {
    let a = noise::<T>(n * n, seed);
    let at = |at: usize| {
        let (i, j) = (at / n, at % n);
        let x = (a[at].to_f64() + a[j * n + i].to_f64()) * 0.5;
        T::from_f64(if i == j { x + shift } else { x })
    };
    (0..n * n).map(at).collect()
}

fn check_solves<T: Real>(n: usize, seed: u64) {
    let a = symmetric::<T>(n, seed, n as f64);
    let k = 1 + (seed as usize * 7) % 37;
    let b = noise::<T>(n * k, seed + 1);
    let mut f = a.clone();
    let pivots = lu::factor(&mut f, n, n);
    let mut x = vec![T::ZERO; n * k];
    lu::solve(&f, &pivots, n, &b, &mut x, k);
    assert_near(&product(&a, &x, [n, n, k]), &b, 100.0, &format!("solve {n} {k}"));
    let mut inverse = vec![T::ZERO; n * n];
    lu::invert(&f, &pivots, n, &mut inverse);
    assert_near(&product(&a, &inverse, [n, n, n]), &identity(n), 100.0, &format!("inverse {n}"));
    let mut l = a.clone();
    cholesky::factor(&mut l, n).unwrap();
    assert_near(&product(&l, &transposed(&l, n, n), [n, n, n]), &a, 100.0, &format!("cholesky {n}"));
    for t in [Triangle::LOWER, Triangle::UPPER, Triangle::UNIT_LOWER] {
        let at = |at: usize| match (at / n).cmp(&(at % n)) {
            std::cmp::Ordering::Equal if t.is_unit => T::ONE,
            std::cmp::Ordering::Less if !t.is_upper => T::ZERO,
            std::cmp::Ordering::Greater if t.is_upper => T::ZERO,
            std::cmp::Ordering::Equal => a[at],
            // Small, so that a unit triangle is well conditioned.
            _ => T::from_f64(a[at].to_f64() / n as f64),
        };
        let dense: Vec<T> = (0..n * n).map(at).collect();
        for strided in [false, true] {
            let stored = if strided { transposed(&dense, n, n) } else { dense.clone() };
            let m = Mat::row_major(stored.as_ptr(), n);
            let mut x = b.clone();
            // SAFETY: an `n × n` matrix and `n × k` right sides.
            unsafe { triangular::solve(if strided { m.t() } else { m }, t, n, x.as_mut_ptr(), k, k) };
            assert_near(&product(&dense, &x, [n, n, k]), &b, 100.0, &format!("triangular {n} {k} {t:?}"));
        }
    }
}
use triangular::Triangle;

fn check_lu<T: Real>(m: usize, n: usize, seed: u64) {
    let a = noise::<T>(m * n, seed);
    let (mut f, k) = (a.clone(), m.min(n));
    let pivots = lu::factor(&mut f, m, n);
    let low = |at: usize| match (at / k).cmp(&(at % k)) {
        std::cmp::Ordering::Greater => f[at / k * n + at % k],
        std::cmp::Ordering::Equal => T::ONE,
        std::cmp::Ordering::Less => T::ZERO,
    };
    let l: Vec<T> = (0..m * k).map(low).collect();
    assert!(l.iter().all(|x| x.abs() <= T::ONE), "pivots are largest");
    let u: Vec<T> = (0..k * n).map(|at| if at / n <= at % n { f[at] } else { T::ZERO }).collect();
    let ordered: Vec<T> = pivots.order.iter().flat_map(|&i| a[i * n..(i + 1) * n].to_vec()).collect();
    assert_near(&product(&l, &u, [m, k, n]), &ordered, 20.0 + n as f64, &format!("lu {m} {n}"));
}

fn check_qr<T: Real>(m: usize, n: usize, seed: u64) {
    let a = noise::<T>(m * n, seed);
    let mut f = a.clone();
    let reflectors = householder::qr(&mut f, m, n);
    for k in [m, m.min(n)] {
        let mut q: Vec<T> = (0..m * k).map(|at| if at / k == at % k { T::ONE } else { T::ZERO }).collect();
        reflectors.apply(&mut q, k, true);
        assert_orthogonal(&q, m, k, &format!("q {m} {n}"));
        let r: Vec<T> = (0..k * n).map(|at| if at / n <= at % n { f[at] } else { T::ZERO }).collect();
        assert_near(&product(&q, &r, [m, k, n]), &a, 200.0 + 4.0 * m as f64, &format!("qr {m} {n}"));
        let mut back = a.clone();
        reflectors.apply_transposed(&mut back, n);
        assert_near(&back[..k * n], &r, 200.0 + 4.0 * m as f64, &format!("qᵀ a {m} {n}"));
    }
}

fn check_eigh<T: Real>(a: &[T], n: usize, what: &str) {
    let (mut values, mut vectors, mut alone) = (vec![T::ZERO; n], vec![T::ZERO; n * n], vec![T::ZERO; n]);
    eigh::eigh(a, n, &mut values, Some(&mut vectors));
    eigh::eigh(a, n, &mut alone, None);
    assert_near(&alone, &values, 10.0, what);
    assert!(values.windows(2).all(|w| w[0] <= w[1]), "{what}: ascending");
    assert_orthogonal(&vectors, n, n, what);
    let scaled: Vec<T> = (0..n * n).map(|at| vectors[at] * values[at % n]).collect();
    let back = product(&scaled, &transposed(&vectors, n, n), [n, n, n]);
    assert_near(&back, a, 300.0 + 8.0 * n as f64, what);
}

fn check_svd<T: Real>(a: &[T], m: usize, n: usize, what: &str) {
    let k = m.min(n);
    for (left, right) in [(k, k), (m, n)] {
        let (mut u, mut s, mut vt) = (vec![T::ZERO; m * left], vec![T::ZERO; k], vec![T::ZERO; right * n]);
        svd::svd(a, m, n, &mut s, Some(svd::Factors { u: &mut u, left, vt: &mut vt, right }));
        let mut alone = vec![T::ZERO; k];
        svd::svd(a, m, n, &mut alone, None);
        assert_near(&alone, &s, 20.0, what);
        assert!(s.windows(2).all(|w| w[0] >= w[1]) && s.iter().all(|s| *s >= T::ZERO), "{what}: descending");
        assert_orthogonal(&u, m, left, what);
        assert_orthogonal(&transposed(&vt, right, n), n, right, what);
        let scaled: Vec<T> = (0..m * k).map(|at| u[at / k * left + at % k] * s[at % k]).collect();
        let back = product(&scaled, &vt[..k * n], [m, k, n]);
        assert_near(&back, a, 300.0 + 8.0 * m.max(n) as f64, what);
    }
}

fn check_all<T: Real>(seed: u64) {
    for &n in &SIZES {
        check_solves::<T>(n, seed + n as u64);
        check_eigh(&symmetric::<T>(n, seed, 0.0), n, &format!("eigh {n}"));
    }
    for (m, n) in [(1, 1), (1, 7), (7, 1), (33, 20), (20, 33), (64, 64), (100, 65), (65, 100), (130, 31)] {
        check_lu::<T>(m, n, seed);
        check_qr::<T>(m, n, seed);
        check_svd(&noise::<T>(m * n, seed), m, n, &format!("svd {m} {n}"));
    }
}

#[test]
fn factors_in_f32() {
    check_all::<f32>(1);
}
#[test]
fn factors_in_f64() {
    check_all::<f64>(2);
}

#[test]
fn degenerate_matrices() {
    for n in [1, 4, 33, 70] {
        let zeros = vec![0f64; n * n];
        check_eigh(&zeros, n, "eigh of zeros");
        check_svd(&zeros, n, n, "svd of zeros");
        check_eigh(&identity::<f32>(n), n, "eigh of the identity");
        check_svd(&identity::<f32>(n), n, n, "svd of the identity");
        // Rank 2.
        let a = product(&noise::<f64>(n * 2, 5), &noise::<f64>(2 * n, 6), [n, 2, n]);
        check_svd(&a, n, n, "svd of rank 2");
        let ata = product(&transposed(&a, n, n), &a, [n, n, n]);
        let half: Vec<f64> = (0..n * n).map(|at| (ata[at] + ata[at % n * n + at / n]) * 0.5).collect();
        check_eigh(&half, n, "eigh of rank 2");
        // Bidiagonal with a zero on the diagonal.
        let is_one = |i: usize, j: usize| j == i + 1 || (i == j && i != n / 2);
        let b: Vec<f64> = (0..n * n).map(|at| if is_one(at / n, at % n) { 1.0 } else { 0.0 }).collect();
        check_svd(&b, n, n, "svd with a zero on the diagonal");
    }
    let mut singular = [1.0f64, 2.0, 2.0, 4.0];
    assert!(lu::factor(&mut singular, 2, 2).is_singular);
    assert_eq!(cholesky::factor(&mut [1.0f64, 0.0, 2.0, 1.0], 2), Err(2));
}

#[test]
fn the_range_of_numbers_is_the_types_own() {
    for factor in [1e-30f32, 1e30] {
        let a: Vec<f32> = noise::<f32>(30, 7).iter().map(|x| x * factor).collect();
        let (mut s, mut t) = (vec![0.0; 5], vec![0.0; 5]);
        svd::svd(&a, 6, 5, &mut s, None);
        svd::svd(&noise::<f32>(30, 7), 6, 5, &mut t, None);
        s.iter().zip(&t).for_each(|(s, t)| assert!((s / factor - t).abs() < 1e-5 * t, "{s} {t}"));
    }
    let mut values = [0.0f32; 2];
    eigh::eigh(&[f32::NAN, 0.0, 0.0, 1.0], 2, &mut values, None);
    assert!(values.iter().all(|x| x.is_nan()));
}

#[test]
fn exponentials_of_opposite_matrices_cancel() {
    for n in [1, 2, 5, 16, 33] {
        for scale in [0.01, 1.0, 3.0] {
            let a: Vec<f64> = noise::<f64>(n * n, n as u64).iter().map(|x| x * scale / n as f64).collect();
            let minus: Vec<f64> = a.iter().map(|x| -x).collect();
            let (mut e, mut f) = (vec![0.0; n * n], vec![0.0; n * n]);
            exp::exp(&a, n, &mut e);
            exp::exp(&minus, n, &mut f);
            assert_near(&product(&e, &f, [n, n, n]), &identity(n), 2000.0, &format!("exp {n} {scale}"));
        }
    }
}
