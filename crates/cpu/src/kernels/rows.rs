//! Row kernels on `f32[rows, n]`: softmax, log-softmax, layer norm, RMS norm and their gradients;
//! gathering and scattering of rows.
//!
//! A row is read once from memory and finished while it is in cache. Sums over rows (gradients of
//! weights) go over a fixed number of parts that are added in order.

#![allow(unsafe_code)]

use super::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::simd::{Isa, Vector};
use crate::vmath::{dispatch, f32s, math};

/// Elements that make a task.
const TASK: usize = 1 << 14;
/// Parts that sums over rows are cut into.
const PARTS: usize = 16;

#[track_caller]
fn check(what: &str, want: usize, got: usize) {
    assert!(want == got, "{what} of {want} elements expected, got {got}");
}

#[track_caller]
fn row_count(what: &str, n: usize, x: usize) -> usize {
    assert!(n > 0 && x.is_multiple_of(n), "{what}: rows of {n} elements expected, got {x} elements");
    x / n
}

/// Runs `f(row)` for all rows, several a task.
fn each_row(rows: usize, n: usize, f: &(dyn Fn(usize) + Sync)) {
    let each = (TASK / n.max(1)).max(1);
    pool::parallel_for(rows.div_ceil(each), &|task| (task * each..((task + 1) * each).min(rows)).for_each(f));
}

static COUNT: [f32; 16] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

/// Calls `f(position, lanes)` for whole vectors and then for the rest.
macro_rules! strip {
    ($v:ty, $n:expr, |$i:ident, $m:ident| $body:block) => {
        let mut $i = 0;
        while $i < $n {
            let $m = <$v>::N.min($n - $i);
            $body
            $i += $m;
        }
    };
}

/// Lanes `m..` replaced by `fill`.
#[inline(always)]
unsafe fn load_or<V: Vector<E = f32>>(p: *const f32, m: usize, fill: f32) -> V {
    // SAFETY: `m` elements, the caller's promise; the table has 16.
    unsafe {
        if m == V::N {
            return V::load(p);
        }
        V::select(V::load(COUNT.as_ptr()).lt(V::splat(m as f32)), V::load_n(p, m), V::splat(fill))
    }
}

/// One row of softmax (`LOG = false`) or log-softmax.
#[inline(always)]
unsafe fn softmax_row<V: Vector<E = f32>, const LOG: bool>(x: *const f32, y: *mut f32, n: usize) {
    // SAFETY: `n` elements behind each pointer; in place is allowed.
    unsafe {
        let mut top = V::splat(f32::NEG_INFINITY);
        strip!(V, n, |i, m| { top = top.maximum(load_or::<V>(x.add(i), m, f32::NEG_INFINITY)) });
        let top = top.fold(|a, b| if a > b || a.is_nan() { a } else { b });
        let shift = V::splat(top);
        let mut sum = V::zero();
        strip!(V, n, |i, m| {
            let d = load_or::<V>(x.add(i), m, f32::NEG_INFINITY) - shift;
            let e = math::exp(d);
            sum = sum + e;
            (if LOG { d } else { e }).store_n(y.add(i), m);
        });
        let sum = sum.sum();
        if LOG {
            let l = V::splat(sum.ln());
            strip!(V, n, |i, m| { (V::load_n(y.add(i), m) - l).store_n(y.add(i), m) });
        } else {
            let f = V::splat(1.0 / sum);
            strip!(V, n, |i, m| { (V::load_n(y.add(i), m) * f).store_n(y.add(i), m) });
        }
    }
}

dispatch! { unsafe fn softmax_one(x: *const f32, y: *mut f32, n: usize) { I => softmax_row::<<I as Isa>::S, false>(x, y, n) } }
dispatch! { unsafe fn log_softmax_one(x: *const f32, y: *mut f32, n: usize) { I => softmax_row::<<I as Isa>::S, true>(x, y, n) } }

fn map_rows(what: &str, n: usize, x: &[f32], y: &mut [f32], f: unsafe fn(*const f32, *mut f32, usize)) {
    let rows = row_count(what, n, x.len());
    check(what, x.len(), y.len());
    let p = Shared::new(y.as_mut_ptr());
    // SAFETY: row `r` of both, written by one task.
    each_row(rows, n, &|r| unsafe { f(x[r * n..].as_ptr(), p.get().add(r * n), n) });
}

/// `y = exp(x) / sum(exp(x))` along rows of `n`.
pub fn softmax(n: usize, x: &[f32], y: &mut [f32]) {
    map_rows("softmax", n, x, y, softmax_one);
}

/// `y = x - ln(sum(exp(x)))` along rows of `n`.
pub fn log_softmax(n: usize, x: &[f32], y: &mut [f32]) {
    map_rows("log_softmax", n, x, y, log_softmax_one);
}

#[inline(always)]
unsafe fn softmax_grad_row<V: Vector<E = f32>, const LOG: bool>(y: *const f32, dy: *const f32, dx: *mut f32, n: usize) {
    // SAFETY: `n` elements behind each pointer.
    unsafe {
        let mut sum = V::zero();
        strip!(V, n, |i, m| {
            let (v, g) = (V::load_n(y.add(i), m), V::load_n(dy.add(i), m));
            sum = if LOG { sum + g } else { v.fma(g, sum) };
        });
        let s = V::splat(sum.sum());
        strip!(V, n, |i, m| {
            let (v, g) = (V::load_n(y.add(i), m), V::load_n(dy.add(i), m));
            (if LOG { g - math::exp(v) * s } else { v * (g - s) }).store_n(dx.add(i), m);
        });
    }
}

dispatch! {
    unsafe fn softmax_grad_one(y: *const f32, dy: *const f32, dx: *mut f32, n: usize) {
        I => softmax_grad_row::<<I as Isa>::S, false>(y, dy, dx, n)
    }
}
dispatch! {
    unsafe fn log_softmax_grad_one(y: *const f32, dy: *const f32, dx: *mut f32, n: usize) {
        I => softmax_grad_row::<<I as Isa>::S, true>(y, dy, dx, n)
    }
}

fn grad_rows(
    what: &str,
    n: usize,
    y: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    f: unsafe fn(*const f32, *const f32, *mut f32, usize),
) {
    let rows = row_count(what, n, y.len());
    check(what, y.len(), dy.len());
    check(what, y.len(), dx.len());
    let p = Shared::new(dx.as_mut_ptr());
    // SAFETY: row `r` of all three, written by one task.
    each_row(rows, n, &|r| unsafe { f(y[r * n..].as_ptr(), dy[r * n..].as_ptr(), p.get().add(r * n), n) });
}

/// The gradient of [`softmax`] from its result.
pub fn softmax_grad(n: usize, y: &[f32], dy: &[f32], dx: &mut [f32]) {
    grad_rows("softmax_grad", n, y, dy, dx, softmax_grad_one);
}

/// The gradient of [`log_softmax`] from its result.
pub fn log_softmax_grad(n: usize, y: &[f32], dy: &[f32], dx: &mut [f32]) {
    grad_rows("log_softmax_grad", n, y, dy, dx, log_softmax_grad_one);
}

/// One row of a norm: returns its mean (0 unless `CENTER`) and the inverse of its deviation.
#[inline(always)]
unsafe fn norm_row<V: Vector<E = f32>, const CENTER: bool>(
    x: *const f32,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    eps: f32,
    y: *mut f32,
    n: usize,
) -> (f32, f32) {
    // SAFETY: `n` elements behind each pointer and in weight and bias.
    unsafe {
        let mut sum = V::zero();
        if CENTER {
            strip!(V, n, |i, m| { sum = sum + V::load_n(x.add(i), m) });
        }
        let mean = sum.sum() / n as f32;
        let center = V::splat(mean);
        let mut square = V::zero();
        strip!(V, n, |i, m| {
            let d = load_or::<V>(x.add(i), m, mean) - center;
            square = d.fma(d, square);
        });
        let rstd = 1.0 / (square.sum() / n as f32 + eps).sqrt();
        let scale = V::splat(rstd);
        strip!(V, n, |i, m| {
            let mut v = (V::load_n(x.add(i), m) - center) * scale;
            if let Some(w) = weight {
                v = v * V::load_n(w.as_ptr().add(i), m);
            }
            if let Some(b) = bias {
                v = v + V::load_n(b.as_ptr().add(i), m);
            }
            v.store_n(y.add(i), m);
        });
        (mean, rstd)
    }
}

dispatch! {
    unsafe fn layer_norm_one(x: *const f32, w: Option<&[f32]>, b: Option<&[f32]>, eps: f32, y: *mut f32, n: usize) -> (f32, f32) {
        I => norm_row::<<I as Isa>::S, true>(x, w, b, eps, y, n)
    }
}
dispatch! {
    unsafe fn rms_norm_one(x: *const f32, w: Option<&[f32]>, b: Option<&[f32]>, eps: f32, y: *mut f32, n: usize) -> (f32, f32) {
        I => norm_row::<<I as Isa>::S, false>(x, w, b, eps, y, n)
    }
}

/// `y = (x - mean) / sqrt(variance + eps) * weight + bias` along rows of `n`; keeps the mean and
/// the inverse deviation of each row for the gradient.
pub fn layer_norm(
    n: usize,
    x: &[f32],
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    eps: f32,
    y: &mut [f32],
    mean: &mut [f32],
    rstd: &mut [f32],
) {
    let rows = row_count("layer_norm", n, x.len());
    check("layer_norm: an output", x.len(), y.len());
    check("layer_norm: a mean", rows, mean.len());
    check("layer_norm: a deviation", rows, rstd.len());
    for given in [weight, bias].into_iter().flatten() {
        check("layer_norm: a weight or bias", n, given.len());
    }
    let (py, pm, pr) = (Shared::new(y.as_mut_ptr()), Shared::new(mean.as_mut_ptr()), Shared::new(rstd.as_mut_ptr()));
    // SAFETY: row `r`, written by one task.
    each_row(rows, n, &|r| unsafe {
        let (m, s) = layer_norm_one(x[r * n..].as_ptr(), weight, bias, eps, py.get().add(r * n), n);
        pm.get().add(r).write(m);
        pr.get().add(r).write(s);
    });
}

/// `y = x / sqrt(mean(x^2) + eps) * weight` along rows of `n`; keeps the inverse root.
pub fn rms_norm(n: usize, x: &[f32], weight: Option<&[f32]>, eps: f32, y: &mut [f32], rstd: &mut [f32]) {
    let rows = row_count("rms_norm", n, x.len());
    check("rms_norm: an output", x.len(), y.len());
    check("rms_norm: a root", rows, rstd.len());
    if let Some(w) = weight {
        check("rms_norm: a weight", n, w.len());
    }
    let (py, pr) = (Shared::new(y.as_mut_ptr()), Shared::new(rstd.as_mut_ptr()));
    // SAFETY: row `r`, written by one task.
    each_row(rows, n, &|r| unsafe {
        let (_, s) = rms_norm_one(x[r * n..].as_ptr(), weight, None, eps, py.get().add(r * n), n);
        pr.get().add(r).write(s);
    });
}

/// One row of a norm's gradient; `dw` and `db` are added to.
#[inline(always)]
unsafe fn norm_grad_row<V: Vector<E = f32>, const CENTER: bool>(
    q: &NormGrad,
    r: usize,
    dx: *mut f32,
    dw: *mut f32,
    db: *mut f32,
) {
    let n = q.n;
    let (center, scale) = (V::splat(if CENTER { q.mean[r] } else { 0.0 }), V::splat(q.rstd[r]));
    let (x, dy) = (q.x[r * n..].as_ptr(), q.dy[r * n..].as_ptr());
    // SAFETY: `n` elements in each row; null pointers are not followed.
    unsafe {
        let (mut sum, mut dot) = (V::zero(), V::zero());
        strip!(V, n, |i, m| {
            let d = V::load_n(dy.add(i), m);
            let h = (V::load_n(x.add(i), m) - center) * scale;
            let g = q.weight.map_or(d, |w| d * V::load_n(w.as_ptr().add(i), m));
            sum = sum + g;
            dot = g.fma(h, dot);
            if !dw.is_null() {
                d.fma(h, V::load_n(dw.add(i), m)).store_n(dw.add(i), m);
            }
            if !db.is_null() {
                (d + V::load_n(db.add(i), m)).store_n(db.add(i), m);
            }
        });
        let sum = V::splat(if CENTER { sum.sum() / n as f32 } else { 0.0 });
        let dot = V::splat(dot.sum() / n as f32);
        strip!(V, n, |i, m| {
            let d = V::load_n(dy.add(i), m);
            let h = (V::load_n(x.add(i), m) - center) * scale;
            let g = q.weight.map_or(d, |w| d * V::load_n(w.as_ptr().add(i), m));
            ((g - sum - h * dot) * scale).store_n(dx.add(i), m);
        });
    }
}

dispatch! {
    unsafe fn layer_norm_grad_one(q: &NormGrad<'_>, r: usize, dx: *mut f32, dw: *mut f32, db: *mut f32) {
        I => norm_grad_row::<<I as Isa>::S, true>(q, r, dx, dw, db)
    }
}
dispatch! {
    unsafe fn rms_norm_grad_one(q: &NormGrad<'_>, r: usize, dx: *mut f32, dw: *mut f32, db: *mut f32) {
        I => norm_grad_row::<<I as Isa>::S, false>(q, r, dx, dw, db)
    }
}

/// What the gradient of a norm needs. An empty `mean` says RMS norm, another layer norm.
#[derive(Clone, Copy, Debug)]
pub struct NormGrad<'a> {
    /// Elements of a row.
    pub n: usize,
    /// The input of the norm.
    pub x: &'a [f32],
    /// The gradient of its output.
    pub dy: &'a [f32],
    /// Its weight.
    pub weight: Option<&'a [f32]>,
    /// The mean that [`layer_norm`] kept, or empty.
    pub mean: &'a [f32],
    /// The inverse deviation or root that was kept.
    pub rstd: &'a [f32],
}

impl NormGrad<'_> {
    /// Writes `dx`, and the gradients of weight and bias where asked.
    pub fn run(&self, dx: &mut [f32], dweight: Option<&mut [f32]>, dbias: Option<&mut [f32]>) {
        let n = self.n;
        let rows = row_count("norm_grad", n, self.x.len());
        check("norm_grad: an output gradient", self.x.len(), self.dy.len());
        check("norm_grad: an input gradient", self.x.len(), dx.len());
        check("norm_grad: a deviation", rows, self.rstd.len());
        let is_rms = self.mean.is_empty();
        if !is_rms {
            check("norm_grad: a mean", rows, self.mean.len());
        }
        for given in [self.weight, dweight.as_deref(), dbias.as_deref()].into_iter().flatten() {
            check("norm_grad: a weight or bias", n, given.len());
        }
        let one = if is_rms { rms_norm_grad_one } else { layer_norm_grad_one };
        let parts = if dweight.is_some() || dbias.is_some() {
            PARTS.min(rows.max(1))
        } else {
            rows.div_ceil((TASK / n).max(1))
        };
        let sums = [&dweight, &dbias].map(|d| d.as_ref().map(|_| Scratch::filled(parts * n, 0f32)));
        let [pw, pb] = [0, 1].map(|i| Shared::new(sums[i].as_ref().map_or(std::ptr::null_mut(), |s| s.ptr())));
        let px = Shared::new(dx.as_mut_ptr());
        pool::parallel_for(parts, &|part| {
            let at = |p: Shared<f32>| if p.get().is_null() { p.get() } else { p.get().wrapping_add(part * n) };
            for r in rows * part / parts..rows * (part + 1) / parts {
                // SAFETY: rows and parts belong to one task each.
                unsafe { one(self, r, px.get().add(r * n), at(pw), at(pb)) };
            }
        });
        for (sum, to) in sums.iter().zip([dweight, dbias]) {
            if let (Some(sum), Some(to)) = (sum, to) {
                // SAFETY: filled above.
                let sum = unsafe { sum.slice() };
                to.copy_from_slice(&sum[..n]);
                sum.chunks_exact(n).skip(1).for_each(|part| f32s::axpy(1.0, part, to));
            }
        }
    }
}

/// `out[i, :] = table[index[i], :]`, rows of `n`.
///
/// # Panics
/// When an index is not a row of the table.
pub fn gather_rows<T: Copy + Send + Sync>(n: usize, table: &[T], index: &[i64], out: &mut [T]) {
    let rows = row_count("gather_rows", n, table.len());
    check("gather_rows: an output", index.len() * n, out.len());
    check_index("gather_rows", index, rows);
    let p = Shared::new(out.as_mut_ptr());
    each_row(index.len(), n, &|i| {
        // SAFETY: row `i` is written by one task.
        unsafe { p.slice(i * n, n) }.copy_from_slice(&table[index[i] as usize * n..][..n]);
    });
}

#[track_caller]
fn check_index(what: &str, index: &[i64], rows: usize) {
    if let Some(bad) = index.iter().find(|&&i| i < 0 || i as usize >= rows) {
        panic!("{what}: an index below {rows} expected, got {bad}");
    }
}

/// `table[index[i], :] += src[i, :]`, rows of `n`, in the order of `i` for each row: tasks take
/// columns, so the result does not depend on threads.
///
/// # Panics
/// When an index is not a row of the table.
pub fn scatter_add_rows(n: usize, table: &mut [f32], index: &[i64], src: &[f32]) {
    let rows = row_count("scatter_add_rows", n, table.len());
    check("scatter_add_rows: a source", index.len() * n, src.len());
    check_index("scatter_add_rows", index, rows);
    let strip = if index.len() * n < TASK { n } else { 64 };
    let p = Shared::new(table.as_mut_ptr());
    pool::parallel_for(n.div_ceil(strip), &|task| {
        let (first, count) = (task * strip, strip.min(n - task * strip));
        for (i, &row) in index.iter().enumerate() {
            // SAFETY: these columns belong to this task.
            let to = unsafe { p.slice(row as usize * n + first, count) };
            f32s::axpy(1.0, &src[i * n + first..][..count], to);
        }
    });
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
