//! Elimination on row-major f64 slices: short and accurate rather than fast.

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

/// The exponential: of the matrix over a power of two, by its series, then squared as often.
pub fn exp(a: &[f64], n: usize) -> Vec<f64> {
    let eye = |at: usize| if at / n == at % n { 1.0 } else { 0.0 };
    // The greatest column sum of magnitudes.
    let norm = (0..n).map(|j| (0..n).map(|i| a[i * n + j].abs()).sum::<f64>()).fold(0.0, f64::max);
    if a.iter().any(|x| !x.is_finite()) {
        return vec![f64::NAN; n * n];
    }
    let halvings = if norm > 0.5 { (norm.log2() + 1.0).ceil() as i32 } else { 0 };
    let small: Vec<f64> = a.iter().map(|x| x * 0.5f64.powi(halvings)).collect();
    let mut sum: Vec<f64> = (0..n * n).map(eye).collect();
    // What is left out is below 0.5^17 / 17!, less than a rounding error.
    for k in (1..=16).rev() {
        let next = matmul(&small, &sum, n, n, n);
        sum = (0..n * n).map(|at| eye(at) + next[at] / f64::from(k)).collect();
    }
    (0..halvings).fold(sum, |x, _| matmul(&x, &x, n, n, n))
}
