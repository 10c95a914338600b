//! Matrix algorithms on row-major f64 slices: short and accurate rather than fast.

/// Rows of a matrix in another order, and the parity of that order.
pub struct Pivots {
    /// Row `order[i]` of the input stands at `i`.
    pub order: Vec<usize>,
    /// 1 or -1.
    pub sign: f64,
    /// A column without a usable pivot, if there is one.
    pub singular: Option<usize>,
}

/// LU with partial pivoting, in place: unit lower and upper factor share the matrix.
pub fn lu(a: &mut [f64], m: usize, n: usize) -> Pivots {
    let mut p = Pivots { order: (0..m).collect(), sign: 1.0, singular: None };
    for k in 0..m.min(n) {
        let best = (k..m).fold(k, |b, i| if a[i * n + k].abs() > a[b * n + k].abs() { i } else { b });
        if a[best * n + k] == 0.0 {
            p.singular.get_or_insert(k);
            continue;
        }
        if best != k {
            (0..n).for_each(|j| a.swap(k * n + j, best * n + j));
            p.order.swap(k, best);
            p.sign = -p.sign;
        }
        for i in k + 1..m {
            let f = a[i * n + k] / a[k * n + k];
            a[i * n + k] = f;
            for j in k + 1..n {
                a[i * n + j] -= f * a[k * n + j];
            }
        }
    }
    p
}

/// Solves `a x = b` for `k` right sides; `None` if `a` is singular.
pub fn solve(a: &[f64], b: &[f64], n: usize, k: usize) -> Option<Vec<f64>> {
    let mut f = a.to_vec();
    let p = lu(&mut f, n, n);
    if p.singular.is_some() {
        return None;
    }
    let mut x: Vec<f64> = p.order.iter().flat_map(|&i| b[i * k..(i + 1) * k].iter().copied()).collect();
    substitute(&f, &mut x, n, k, false, true);
    substitute(&f, &mut x, n, k, true, false);
    Some(x)
}

/// Solves a triangular system in place; false if a diagonal element is zero.
pub fn substitute(a: &[f64], x: &mut [f64], n: usize, k: usize, is_upper: bool, is_unit: bool) -> bool {
    for step in 0..n {
        let i = if is_upper { n - 1 - step } else { step };
        let others = if is_upper { i + 1..n } else { 0..i };
        for j in others {
            for c in 0..k {
                x[i * k + c] -= a[i * n + j] * x[j * k + c];
            }
        }
        if !is_unit {
            if a[i * n + i] == 0.0 {
                return false;
            }
            (0..k).for_each(|c| x[i * k + c] /= a[i * n + i]);
        }
    }
    true
}

/// Lower Cholesky factor; the error is the order of the first minor that is not positive.
pub fn cholesky(a: &[f64], n: usize) -> Result<Vec<f64>, usize> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum();
            let rest = a[i * n + j] - dot;
            if i != j {
                l[i * n + j] = rest / l[j * n + j];
            } else if rest > 0.0 {
                l[i * n + i] = rest.sqrt();
            } else {
                return Err(i + 1);
            }
        }
    }
    Ok(l)
}

/// Reduced QR by Householder reflections, with LAPACK's signs: `(q, r)`.
pub fn qr(a: &[f64], m: usize, n: usize) -> (Vec<f64>, Vec<f64>) {
    let k = m.min(n);
    let mut r = a.to_vec();
    let mut reflectors: Vec<(Vec<f64>, f64)> = Vec::new();
    for j in 0..k {
        let mut v: Vec<f64> = (j..m).map(|i| r[i * n + j]).collect();
        let tail: f64 = v[1..].iter().map(|x| x * x).sum();
        let alpha = v[0];
        if tail == 0.0 {
            reflectors.push((v, 0.0));
            continue;
        }
        let beta = -(alpha * alpha + tail).sqrt().copysign(alpha);
        v[0] = alpha - beta;
        let norm = v[0] * v[0] + tail;
        reflect(&mut r, n, j, &v, 2.0 / norm);
        reflectors.push((v, 2.0 / norm));
    }
    let mut q = vec![0.0; m * k];
    (0..k).for_each(|i| q[i * k + i] = 1.0);
    for (j, (v, scale)) in reflectors.iter().enumerate().rev() {
        reflect(&mut q, k, j, v, *scale);
    }
    let r = (0..k * n).map(|at| if at % n >= at / n { r[at] } else { 0.0 }).collect();
    (q, r)
}
/// Applies `I - scale v vᵀ` to the rows from `from` on.
fn reflect(x: &mut [f64], n: usize, from: usize, v: &[f64], scale: f64) {
    for c in 0..n {
        let dot: f64 = v.iter().enumerate().map(|(i, v)| v * x[(from + i) * n + c]).sum();
        for (i, v) in v.iter().enumerate() {
            x[(from + i) * n + c] -= scale * dot * v;
        }
    }
}

/// The rotation that makes the off-diagonal element `c` of `[[a, c], [c, b]]` zero: (cos, sin).
fn rotation(a: f64, b: f64, c: f64) -> (f64, f64) {
    let zeta = (b - a) / (2.0 * c);
    let t = 1.0f64.copysign(zeta) / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
    let cos = 1.0 / (1.0 + t * t).sqrt();
    (cos, cos * t)
}
/// Rotates columns `p` and `q`.
fn rotate(x: &mut [f64], rows: usize, n: usize, p: usize, q: usize, (c, s): (f64, f64)) {
    for i in 0..rows {
        let (a, b) = (x[i * n + p], x[i * n + q]);
        x[i * n + p] = c * a - s * b;
        x[i * n + q] = s * a + c * b;
    }
}

/// Sweeps after which Jacobi's methods give up; they need about ten.
const SWEEPS_MAX: usize = 60;

/// Eigenvalues, ascending, and eigenvectors (columns) of a symmetric matrix by Jacobi's method.
/// The largest component of each vector is positive.
pub fn eigh(a: &[f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut a = a.to_vec();
    let mut v = vec![0.0; n * n];
    (0..n).for_each(|i| v[i * n + i] = 1.0);
    for _ in 0..SWEEPS_MAX {
        let mut is_done = true;
        for p in 0..n {
            for q in p + 1..n {
                let off = a[p * n + q];
                if off.abs() <= 1e-17 * (a[p * n + p].abs() + a[q * n + q].abs()) || off.abs() < f64::MIN_POSITIVE {
                    continue;
                }
                is_done = false;
                let r = rotation(a[p * n + p], a[q * n + q], off);
                rotate(&mut a, n, n, p, q, r);
                for j in 0..n {
                    let (x, y) = (a[p * n + j], a[q * n + j]);
                    a[p * n + j] = r.0 * x - r.1 * y;
                    a[q * n + j] = r.1 * x + r.0 * y;
                }
                rotate(&mut v, n, n, p, q, r);
            }
        }
        if is_done {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[i * n + i].total_cmp(&a[j * n + j]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    let signs: Vec<f64> = order.iter().map(|&j| sign_of_largest(&v, n, n, j)).collect();
    let vectors = (0..n * n).map(|at| v[at / n * n + order[at % n]] * signs[at % n]).collect();
    (values, vectors)
}
/// The sign of the largest component of column `j`.
fn sign_of_largest(x: &[f64], rows: usize, n: usize, j: usize) -> f64 {
    let best = (0..rows).fold(0, |b, i| if x[i * n + j].abs() > x[b * n + j].abs() { i } else { b });
    if rows > 0 && x[best * n + j] < 0.0 { -1.0 } else { 1.0 }
}

/// A transposed copy.
pub fn transposed(a: &[f64], m: usize, n: usize) -> Vec<f64> {
    (0..m * n).map(|at| a[at % m * n + at / m]).collect()
}

/// Reduced singular value decomposition `(u, s, vᵀ)` by one-sided Jacobi; values descend.
pub fn svd(a: &[f64], m: usize, n: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    if m < n {
        let (u, s, vt) = svd(&transposed(a, m, n), n, m);
        let (mut u, mut vt) = (transposed(&vt, m, m), transposed(&u, n, m));
        for j in 0..m {
            // The signs go by the left vectors whatever the orientation.
            if sign_of_largest(&u, m, m, j) < 0.0 {
                (0..m).for_each(|i| u[i * m + j] = -u[i * m + j]);
                (0..n).for_each(|i| vt[j * n + i] = -vt[j * n + i]);
            }
        }
        return (u, s, vt);
    }
    let mut w = a.to_vec();
    let mut v = vec![0.0; n * n];
    (0..n).for_each(|i| v[i * n + i] = 1.0);
    for _ in 0..SWEEPS_MAX {
        let mut is_done = true;
        for p in 0..n {
            for q in p + 1..n {
                let dot = |x: usize, y: usize| (0..m).map(|i| w[i * n + x] * w[i * n + y]).sum::<f64>();
                let (aa, bb, ab) = (dot(p, p), dot(q, q), dot(p, q));
                if ab == 0.0 || ab.abs() <= 1e-16 * (aa * bb).sqrt() {
                    continue;
                }
                is_done = false;
                let r = rotation(aa, bb, ab);
                rotate(&mut w, m, n, p, q, r);
                rotate(&mut v, n, n, p, q, r);
            }
        }
        if is_done {
            break;
        }
    }
    let norms: Vec<f64> = (0..n).map(|j| (0..m).map(|i| w[i * n + j] * w[i * n + j]).sum::<f64>().sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| norms[j].total_cmp(&norms[i]));
    let s: Vec<f64> = order.iter().map(|&j| norms[j]).collect();
    let mut u = vec![0.0; m * n];
    let mut vt = vec![0.0; n * n];
    let tiny = s.first().map_or(0.0, |s| s * 1e-15);
    for (k, &j) in order.iter().enumerate() {
        (0..m).for_each(|i| u[i * n + k] = if s[k] > tiny { w[i * n + j] / s[k] } else { 0.0 });
        if s[k] <= tiny {
            complete(&mut u, m, n, k);
        }
        let sign = sign_of_largest(&u, m, n, k);
        (0..m).for_each(|i| u[i * n + k] *= sign);
        (0..n).for_each(|i| vt[k * n + i] = v[i * n + j] * sign);
    }
    (u, s, vt)
}
/// Makes column `k` a unit vector orthogonal to the columns before it.
fn complete(u: &mut [f64], m: usize, n: usize, k: usize) {
    let mut best = (0.0, vec![0.0; m]);
    for e in 0..m {
        let mut x: Vec<f64> = (0..m).map(|i| (i == e) as u8 as f64).collect();
        // Twice: once is not enough in finite precision.
        for _ in 0..2 {
            for j in 0..k {
                let dot: f64 = (0..m).map(|i| x[i] * u[i * n + j]).sum();
                (0..m).for_each(|i| x[i] -= dot * u[i * n + j]);
            }
        }
        let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
        if norm > best.0 {
            best = (norm, x);
        }
    }
    (0..m).for_each(|i| u[i * n + k] = best.1[i] / best.0);
}

/// The product of an `m × k` and a `k × n` matrix.
pub fn matmul(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                out[i * n + j] += a[i * k + l] * b[l * n + j];
            }
        }
    }
    out
}
/// The determinant.
pub fn det(a: &[f64], n: usize) -> f64 {
    let mut f = a.to_vec();
    let p = lu(&mut f, n, n);
    (0..n).map(|i| f[i * n + i]).product::<f64>() * p.sign
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::floats;

    fn far(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn factors_give_the_matrix_back() {
        for (m, n) in [(5, 5), (6, 3), (3, 6), (1, 4), (4, 1), (2, 0), (0, 2)] {
            let a = floats([m, n], 3).to_f64();
            let k = m.min(n);
            let (u, s, vt) = svd(&a, m, n);
            let us: Vec<f64> = (0..m * k).map(|i| u[i] * s[i % k.max(1)]).collect();
            assert!(far(&matmul(&us, &vt, m, k, n), &a) < 1e-13, "svd {m} {n}");
            assert!(s.windows(2).all(|w| w[0] >= w[1]));
            let (q, r) = qr(&a, m, n);
            assert!(far(&matmul(&q, &r, m, k, n), &a) < 1e-13, "qr {m} {n}");
            let eye: Vec<f64> = (0..k * k).map(|i| (i / k.max(1) == i % k.max(1)) as u8 as f64).collect();
            for x in [&q, &u] {
                assert!(far(&matmul(&transposed(x, m, k), x, k, m, k), &eye) < 1e-13, "orthogonal {m} {n}");
            }
        }
    }

    #[test]
    fn a_matrix_of_low_rank_has_full_bases() {
        // Rank one: the second left vector is made up, and must still be orthogonal.
        let (u, s, _) = svd(&[1.0, 2.0, 2.0, 4.0, 0.0, 0.0], 3, 2);
        assert!((s[0] - 5.0).abs() < 1e-14 && s[1] < 1e-14, "{s:?}");
        let dot = u[0] * u[1] + u[2] * u[3] + u[4] * u[5];
        assert!(dot.abs() < 1e-14);
        assert!((u[1] * u[1] + u[3] * u[3] + u[5] * u[5] - 1.0).abs() < 1e-14);
    }

    #[test]
    fn eigenvalues_of_a_known_matrix() {
        // The second difference matrix: 2 - 2 cos(k pi / 4).
        let (w, v) = eigh(&[2.0, -1.0, 0.0, -1.0, 2.0, -1.0, 0.0, -1.0, 2.0], 3);
        let want = [2.0 - 2f64.sqrt(), 2.0, 2.0 + 2f64.sqrt()];
        assert!(far(&w, &want) < 1e-14, "{w:?}");
        assert!(v[2] > 0.0 || v[5] > 0.0);
    }
}
