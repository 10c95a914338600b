//! Singular value decomposition: QR where there are more rows than columns, bidiagonal form by Householder
//! reflections, then QR steps with implicit shifts (Golub and Kahan, Reinsch).

#![allow(unsafe_code)]

use super::eigh::settle;
use super::householder::{Reflectors, qr, reflector};
use super::rotations::{Rotations, length};
use super::{Real, scale_of, transpose};
use crate::pool::{self, Shared};
use crate::vmath::simd::Vector;

/// Columns of a task, and elements of a step from which on threads share it.
const COLUMNS: usize = 128;
const SHARED_MIN: usize = 1 << 16;
/// QR steps for one singular value after which it gives up; two or three are usual.
const STEPS_MAX: usize = 75;

/// One pass over a column strip: `A -= u yᵀ + x vᵀ`, then `next = Aᵀ t`.
pub struct Update<T> {
    a: *mut T,
    row: usize,
    rows: usize,
    len: usize,
    u: *const T,
    y: *const T,
    x: *const T,
    v: *const T,
    t: *const T,
    next: *mut T,
}

/// The pass, a few vectors of columns at a time.
#[inline(always)]
pub(super) unsafe fn update<V: Vector>(q: &Update<V::E>) {
    let mut j = 0;
    // SAFETY: `rows` rows of `len` elements, vectors of as many.
    unsafe {
        while j + 4 * V::N <= q.len {
            update_columns::<V, 4>(q, j);
            j += 4 * V::N;
        }
        while j + V::N <= q.len {
            update_columns::<V, 1>(q, j);
            j += V::N;
        }
        if j < q.len {
            update_tail::<V>(q, j, q.len - j);
        }
    }
}

#[inline(always)]
unsafe fn update_columns<V: Vector, const W: usize>(q: &Update<V::E>, j: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (y, v): ([V; W], [V; W]) = (
            std::array::from_fn(|w| -V::load(q.y.add(j + w * V::N))),
            std::array::from_fn(|w| -V::load(q.v.add(j + w * V::N))),
        );
        let mut sums = [V::zero(); W];
        for i in 0..q.rows {
            let (u, x, t) = (V::splat(*q.u.add(i)), V::splat(*q.x.add(i)), V::splat(*q.t.add(i)));
            let at = q.a.add(i * q.row + j);
            for w in 0..W {
                let a = x.fma(v[w], u.fma(y[w], V::load(at.add(w * V::N))));
                a.store(at.add(w * V::N));
                sums[w] = t.fma(a, sums[w]);
            }
        }
        (0..W).for_each(|w| sums[w].store(q.next.add(j + w * V::N)));
    }
}

#[inline(always)]
unsafe fn update_tail<V: Vector>(q: &Update<V::E>, j: usize, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (y, v) = (-V::load_n(q.y.add(j), n), -V::load_n(q.v.add(j), n));
        let mut sum = V::zero();
        for i in 0..q.rows {
            let (u, x, t) = (V::splat(*q.u.add(i)), V::splat(*q.x.add(i)), V::splat(*q.t.add(i)));
            let at = q.a.add(i * q.row + j);
            let a = x.fma(v, u.fma(y, V::load_n(at, n)));
            a.store_n(at, n);
            sum = t.fma(a, sum);
        }
        sum.store_n(q.next.add(j), n);
    }
}

/// A square matrix as `H B Gᵀ` with an upper bidiagonal B.
struct Bidiagonal<T> {
    d: Vec<f64>,
    /// `e[i]` is above `d[i]`.
    e: Vec<f64>,
    left: Reflectors<T>,
    right: Reflectors<T>,
}

/// The bidiagonal form of an `n × n` matrix, which is overwritten. What a step changes is applied in the next one.
fn bidiagonal<T: Real>(a: &mut [T], n: usize) -> Bidiagonal<T> {
    let mut b = Bidiagonal {
        d: vec![0.0; n],
        e: vec![0.0; n],
        left: Reflectors::new(n, n, 0),
        right: Reflectors::new(n.saturating_sub(1), n, 1),
    };
    // A -= u yᵀ + x vᵀ is pending, for rows and columns from `j` on.
    let zeros = || vec![T::ZERO; n];
    let (mut u, mut y, mut x, mut v) = (zeros(), zeros(), zeros(), zeros());
    for j in 0..n {
        let column = |i: usize| a[(j + i) * n + j] - u[i] * y[0] - x[i] * v[0];
        let mut t: Vec<T> = (0..n - j).map(column).collect();
        let (tau, beta) = reflector(&mut t);
        b.d[j] = beta.to_f64();
        b.left.set(j, &t, tau);
        if j + 1 == n {
            break;
        }
        let mut next = vec![T::ZERO; n - j - 1];
        pass(&mut a[j * n..], n, j + 1, [&u, &y[1..], &x, &v[1..], &t], &mut next);
        next.iter_mut().for_each(|y| *y = *y * tau);
        // The row's own reflection; its first element of `t` is 1.
        let mut r: Vec<T> = a[j * n + j + 1..(j + 1) * n].to_vec();
        T::add_scaled(-T::ONE, &next, &mut r);
        let (tau, beta) = reflector(&mut r);
        b.e[j + 1] = beta.to_f64();
        b.right.set(j, &r, tau);
        let across = T::dot(&next, &r);
        let rest = &a[(j + 1) * n..];
        x = times(rest, n, j + 1, &r);
        x.iter_mut().zip(&t[1..]).for_each(|(x, t)| *x = tau * (*x - *t * across));
        (u, y, v) = (t[1..].to_vec(), next, r);
    }
    b
}

/// The pass over the columns from `first` on, on all threads where that pays.
fn pass<T: Real>(a: &mut [T], n: usize, first: usize, [u, y, x, v, t]: [&[T]; 5], next: &mut [T]) {
    let (rows, len) = (u.len(), next.len());
    let tasks = if rows * len < SHARED_MIN { 1 } else { len.div_ceil(COLUMNS) };
    let width = len.div_ceil(tasks);
    let (a, next) = (Shared::new(a.as_mut_ptr()), Shared::new(next.as_mut_ptr()));
    pool::parallel_for(tasks, &|task| {
        let at = task * width;
        // SAFETY: each task has its own columns.
        unsafe {
            T::rank_one_pair(&Update {
                a: a.get().add(first + at),
                row: n,
                rows,
                len: width.min(len - at),
                u: u.as_ptr(),
                y: y.as_ptr().add(at),
                x: x.as_ptr(),
                v: v.as_ptr().add(at),
                t: t.as_ptr(),
                next: next.get().add(at),
            });
        }
    });
}

/// `A r` for the columns from `first` on of rows that are `n` apart.
fn times<T: Real>(a: &[T], n: usize, first: usize, r: &[T]) -> Vec<T> {
    let rows = a.len() / n;
    let mut out = vec![T::ZERO; rows];
    let tasks = if rows * r.len() < SHARED_MIN { 1 } else { rows.div_ceil(64) };
    let each = rows.div_ceil(tasks.max(1));
    let to = Shared::new(out.as_mut_ptr());
    pool::parallel_for(tasks, &|task| {
        for i in task * each..rows.min((task + 1) * each) {
            // SAFETY: each task has its own rows.
            unsafe { *to.get().add(i) = T::dot(&a[i * n + first..(i + 1) * n], r) };
        }
    });
    out
}

/// QR steps on a bidiagonal matrix: `d` becomes the singular values, in any order. `u` and `v` take the rotations of
/// the left and right vectors. Returns which right vectors change their sign.
fn diagonalize<T: Real>(d: &mut [f64], e: &mut [f64], mut uv: Option<[&mut Rotations<T>; 2]>) -> Vec<bool> {
    let n = d.len();
    let norm = (0..n).map(|i| d[i].abs() + e[i].abs()).fold(0.0, f64::max);
    let tiny = norm * f64::EPSILON.max(T::EPSILON.to_f64() * 1e-3);
    let mut is_flipped = vec![false; n];
    for k in (0..n).rev() {
        for _ in 0..STEPS_MAX {
            // The block `l..=k` that does not fall apart, and whether `d[l - 1]` is zero above it.
            let split = |l: &usize| *l == 0 || e[*l].abs() <= tiny || d[*l - 1].abs() <= tiny;
            let l = (0..=k).rev().find(split).unwrap_or(0);
            if l > 0 && e[l].abs() > tiny {
                cancel(d, e, l, k, tiny, uv.as_mut().map(|uv| &mut *uv[0]));
            }
            if l == k {
                break;
            }
            step(d, e, l, k, uv.as_mut());
        }
        if d[k] < 0.0 {
            (d[k], is_flipped[k]) = (-d[k], true);
        }
    }
    is_flipped
}

/// Rotates `e[l]` away, whose `d[l - 1]` is zero.
fn cancel<T: Real>(d: &mut [f64], e: &mut [f64], l: usize, k: usize, tiny: f64, mut u: Option<&mut Rotations<T>>) {
    let (mut c, mut s) = (0.0, 1.0);
    for i in l..=k {
        let f = s * e[i];
        e[i] *= c;
        if f.abs() <= tiny {
            break;
        }
        let (g, h) = (d[i], length(f, d[i]));
        d[i] = h;
        (c, s) = (g / h, -f / h);
        if let Some(u) = u.as_deref_mut() {
            u.begin(l - 1, (i + 1 - l) as isize);
            u.turn(c, s);
        }
    }
}

/// One QR step on the block `l..=k`.
fn step<T: Real>(d: &mut [f64], e: &mut [f64], l: usize, k: usize, mut uv: Option<&mut [&mut Rotations<T>; 2]>) {
    let (mut x, y, z, g, h) = (d[l], d[k - 1], d[k], e[k - 1], e[k]);
    let g = if k - 1 > l { g } else { 0.0 };
    let f = ((y - z) * (y + z) + (g - h) * (g + h)) / (2.0 * h * y);
    let mut f = ((x - z) * (x + z) + h * (y / (f + length(f, 1.0).copysign(f)) - h)) / x;
    let (mut c, mut s) = (1.0, 1.0);
    if let Some(uv) = uv.as_deref_mut() {
        uv.iter_mut().for_each(|r| r.begin(l, 1));
    }
    for j in l..k {
        let (g, y) = (e[j + 1], d[j + 1]);
        let (h, g) = (s * g, c * g);
        let z = length(f, h);
        if j > l {
            e[j] = z;
        }
        (c, s) = if z > 0.0 { (f / z, h / z) } else { (1.0, 0.0) };
        f = x * c + g * s;
        let (g, h, y) = (g * c - x * s, y * s, y * c);
        if let Some(uv) = uv.as_deref_mut() {
            uv[1].turn(c, s);
        }
        let z = length(f, h);
        d[j] = z;
        (c, s) = if z > 0.0 { (f / z, h / z) } else { (c, s) };
        f = c * g + s * y;
        x = c * y - s * g;
        if let Some(uv) = uv.as_deref_mut() {
            uv[0].turn(c, s);
        }
    }
    e[k] = f;
    d[k] = x;
}

/// Where the factors of an `m × n` matrix go: `u` with `left` columns, `v*` with `right` rows.
pub struct Factors<'a, T> {
    /// Left vectors as columns.
    pub u: &'a mut [T],
    /// How many.
    pub left: usize,
    /// Right vectors as rows.
    pub vt: &'a mut [T],
    /// How many.
    pub right: usize,
}

/// Singular values of an `m × n` matrix, descending, into `s`, and its vectors. The largest component of a left vector
/// is positive.
pub fn svd<T: Real>(a: &[T], m: usize, n: usize, s: &mut [T], factors: Option<Factors<T>>) {
    let nan = T::from_f64(f64::NAN);
    let Some((scale, back)) = scale_of(a) else {
        s.fill(nan);
        if let Some(f) = factors {
            f.u.fill(nan);
            f.vt.fill(nan);
        }
        return;
    };
    let scaled: Vec<T> = a.iter().map(|x| *x * scale).collect();
    if m >= n {
        let got = tall(scaled, m, n, s, factors.as_ref().map(|f| [f.left, f.right]));
        if let (Some(f), Some([u, v])) = (factors, got) {
            f.u.copy_from_slice(&u);
            flip(&v, n, f.right, f.vt);
            turn(f, m, n);
        }
    } else {
        let mut t = vec![T::ZERO; m * n];
        // SAFETY: both hold `m n` elements.
        unsafe { transpose(scaled.as_ptr(), n, m, n, t.as_mut_ptr(), m) };
        let got = tall(t, n, m, s, factors.as_ref().map(|f| [f.right, f.left]));
        if let (Some(f), Some([v, u])) = (factors, got) {
            f.u.copy_from_slice(&u);
            flip(&v, n, f.right, f.vt);
            turn(f, m, n);
        }
    }
    s.iter_mut().for_each(|s| *s = *s * back);
}

/// The transpose of an `m × n` matrix.
fn flip<T: Real>(from: &[T], m: usize, n: usize, to: &mut [T]) {
    // SAFETY: both hold `m n` elements.
    unsafe { transpose(from.as_ptr(), n, m, n, to.as_mut_ptr(), m) };
}

/// Gives left vectors a positive largest component, and right ones that have no partner.
fn turn<T: Real>(f: Factors<T>, m: usize, n: usize) {
    let flipped = settle(f.u, m, f.left);
    for (j, row) in f.vt.chunks_exact_mut(n.max(1)).enumerate() {
        let is_flipped = if j < m.min(n) { flipped[j] } else { super::rotations::is_flipped(row.iter().copied()) };
        if is_flipped {
            row.iter_mut().for_each(|x| *x = -*x);
        }
    }
}

/// Values and, with their counts of columns, left and right vectors of a matrix with no more columns than rows.
fn tall<T: Real>(mut a: Vec<T>, m: usize, n: usize, s: &mut [T], counts: Option<[usize; 2]>) -> Option<[Vec<T>; 2]> {
    let first = (m > n).then(|| qr(&mut a, m, n));
    if first.is_some() {
        a.truncate(n * n);
        (0..n).for_each(|i| a[i * n..i * n + i].fill(T::ZERO));
    }
    let mut b = bidiagonal(&mut a, n);
    let mut rotations = counts.map(|_| [Rotations::<T>::new(n), Rotations::<T>::new(n)]);
    let is_flipped = diagonalize(&mut b.d, &mut b.e, rotations.as_mut().map(|[u, v]| [u, v]));
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| b.d[j].total_cmp(&b.d[i]));
    s.iter_mut().zip(&order).for_each(|(s, &i)| *s = T::from_f64(b.d[i]));
    let ([left, right], [u, v]) = (counts?, rotations?);
    // The vectors as columns of a larger matrix, which goes on with the identity.
    let spread = |rows: Vec<T>, len: usize, columns: usize, is_flipped: &dyn Fn(usize) -> bool| {
        let mut x = vec![T::ZERO; len * columns];
        for (j, &from) in order.iter().enumerate() {
            let sign = if is_flipped(from) { -T::ONE } else { T::ONE };
            (0..n).for_each(|i| x[i * columns + j] = rows[from * n + i] * sign);
        }
        (n..columns.min(len)).for_each(|i| x[i * columns + i] = T::ONE);
        x
    };
    let mut u = spread(u.finish(), m, left, &|_| false);
    b.left.apply(&mut u[..n * left], left, false);
    first.iter().for_each(|q| q.apply(&mut u, left, false));
    let mut v = spread(v.finish(), n, right, &|i| is_flipped[i]);
    b.right.apply(&mut v, right, false);
    Some([u, v])
}
