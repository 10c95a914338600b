//! Scaled dot-product attention, forward and backward, block by block: no matrix of all queries
//! by all keys is ever held.
//!
//! `q[heads, queries, d]`, `k[kv_heads, keys, d]`, `v[kv_heads, keys, dv]`, `f32`, or `bf16` where the
//! processor multiplies it in tiles: scores are `f32`, weights are rounded for their product. "heads" counts
//! batch times heads. Rows are contiguous, but may lie apart ([`Rows`]), as they do where one
//! product made queries, keys and values of all heads. Several heads may share a key and value
//! head.

#![allow(unsafe_code)]

use super::gemm::{Gemm, Mat, Multiply};
use super::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::convert::Narrow;
use crate::vmath::simd::{Isa, Vector};
use crate::vmath::{dispatch, f32s, math};
use half::bf16;

/// The most queries of a block.
const QUERIES: usize = 128;
/// The most keys of a block.
const KEYS: usize = 256;

/// Heads from which on each is a task.
const HEADS: usize = 32;
/// Elements of a head's keys that are transposed at once; more are transposed block by block, as they are
/// multiplied.
const TURNED: usize = 1 << 16;

/// A type of queries, keys and values.
pub trait Attended: Multiply<Acc = f32> {
    /// Weights or scores in this type: where they lie, or in `room`.
    ///
    /// # Safety
    /// `n` elements behind `p`, and room for as many.
    #[doc(hidden)]
    unsafe fn from_f32s(p: *const f32, room: *mut Self, n: usize) -> *const Self;
}
impl Attended for f32 {
    unsafe fn from_f32s(p: *const f32, _: *mut f32, _: usize) -> *const f32 {
        p
    }
}
impl Attended for bf16 {
    unsafe fn from_f32s(p: *const f32, room: *mut bf16, n: usize) -> *const bf16 {
        // SAFETY: the caller's promise.
        unsafe { <bf16 as Narrow>::narrow(p, room, n) };
        room
    }
}

/// Room for [`Attended::from_f32s`] where it takes any.
fn room_for<S: Attended>(n: usize) -> Scratch<S> {
    Scratch::new(if S::SAME { 0 } else { n })
}

/// Keys or values of a head, transposed.
struct Turned<S> {
    mat: Mat<S>,
    /// Where they lie if they were moved.
    _room: Option<Scratch<f32>>,
}

impl<S: Attended> Turned<S> {
    /// The first `rows` rows of a matrix with `cols` columns.
    ///
    /// # Safety
    /// These elements can be read as long as the result is used.
    unsafe fn new(m: Mat<S>, rows: usize, cols: usize) -> Turned<S> {
        if !S::SAME || rows * cols > TURNED || rows == 0 {
            return Turned { mat: m.t(), _room: None };
        }
        let room = Scratch::<f32>::new(rows * cols);
        // SAFETY: the caller's promise.
        unsafe { S::pack(m.p, m.row, m.col, rows, cols, rows, room.ptr()) };
        // The type is that of the computation.
        Turned { mat: Mat::row_major(room.ptr().cast::<S>().cast_const(), rows), _room: Some(room) }
    }
}

/// A matrix for each head: row `i` of head `h` begins at `data[starts[h] + i * row]`.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, S = f32> {
    /// All of it.
    pub data: &'a [S],
    /// Where each head begins.
    pub starts: &'a [usize],
    /// Elements between rows; may be 0.
    pub row: usize,
}

impl<S> Rows<'_, S> {
    fn head(&self, h: usize) -> *const S {
        self.data[self.starts[h]..].as_ptr()
    }
    #[track_caller]
    fn check(&self, what: &str, heads: usize, rows: usize, cols: usize) {
        check(&format!("starts of {what}"), heads, self.starts.len());
        if rows * cols > 0 {
            let need = self.starts.iter().max().map_or(0, |s| s + (rows - 1) * self.row + cols);
            let got = self.data.len();
            assert!(got >= need, "attention: {what} of at least {need} elements expected, got {got}");
        }
    }
}

/// A matrix for each head to write to: row `i` of head `h` begins `starts[h] + i * row` elements
/// behind the first.
#[derive(Clone, Copy)]
pub struct RowsMut<'a> {
    p: Shared<f32>,
    starts: &'a [usize],
    row: usize,
}

impl<'a> RowsMut<'a> {
    /// With the first element at `p`.
    pub fn new(p: *mut f32, starts: &'a [usize], row: usize) -> RowsMut<'a> {
        RowsMut { p: Shared::new(p), starts, row }
    }
    /// The first element of row `i` of a head.
    fn at(&self, head: usize, i: usize) -> *mut f32 {
        self.p.get().wrapping_add(self.starts[head] + i * self.row)
    }
    /// Sets rows of a head to zero.
    ///
    /// # Safety
    /// It has these rows, of so many columns, and no other thread uses them meanwhile.
    unsafe fn clear(&self, head: usize, first: usize, rows: usize, cols: usize) {
        for i in first..first + rows {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(self.at(head, i), cols) }.fill(0.0);
        }
    }
}

/// The sizes and the masking of an attention.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// The key and value head of each head.
    pub kv_of: &'a [usize],
    /// Number of key and value heads.
    pub kv_heads: usize,
    /// Queries a head.
    pub queries: usize,
    /// Keys a head.
    pub keys: usize,
    /// Elements of a query and a key.
    pub d: usize,
    /// Elements of a value.
    pub dv: usize,
    /// Factor of the scores, usually `1 / sqrt(d)`.
    pub scale: f32,
    /// With `Some(offset)`, query `i` sees keys up to `i + offset` only.
    pub causal: Option<isize>,
    /// Added to the scores of each head: `[queries, keys]`, minus infinity to hide a key.
    pub mask: Option<Rows<'a>>,
    /// How many queries and keys of each head count.
    pub lengths: Option<&'a [[usize; 2]]>,
}

/// What backward needs of forward, and the gradient of the output.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, S = f32> {
    /// Queries.
    pub q: Rows<'a, S>,
    /// Keys.
    pub k: Rows<'a, S>,
    /// Values.
    pub v: Rows<'a, S>,
    /// The output of forward.
    pub out: Rows<'a>,
    /// The logarithms of the sums of exponentials that forward returned.
    pub lse: &'a [f32],
    /// The gradient of the output.
    pub dout: Rows<'a, S>,
}

#[track_caller]
fn check(what: &str, want: usize, got: usize) {
    assert!(want == got, "attention: {what} of {want} elements expected, got {got}");
}

impl Attention<'_> {
    #[track_caller]
    fn check<S>(&self, q: &Rows<'_, S>, k: &Rows<'_, S>, v: &Rows<'_, S>) {
        let heads = self.kv_of.len();
        q.check("queries", heads, self.queries, self.d);
        k.check("keys", self.kv_heads, self.keys, self.d);
        v.check("values", self.kv_heads, self.keys, self.dv);
        if let Some(bad) = self.kv_of.iter().find(|&&h| h >= self.kv_heads) {
            panic!("attention: a key head below {} expected, got {bad}", self.kv_heads);
        }
        if let Some(m) = &self.mask {
            m.check("a mask", heads, self.queries, self.keys);
        }
        if let Some(l) = &self.lengths {
            check("lengths", heads, l.len());
        }
    }

    /// Queries of a block: `few` where a causal mask would hide much of a large one.
    fn block(&self, few: usize) -> usize {
        if self.causal.is_some() && self.keys <= 2 * KEYS { few } else { QUERIES }
    }

    /// Keys that queries before `end` may see.
    fn visible(&self, end: usize) -> usize {
        match self.causal {
            None => self.keys,
            Some(offset) => (end as isize + offset).clamp(0, self.keys as isize) as usize,
        }
    }

    /// Keys that queries `begin..end` of a head may see.
    fn seen(&self, head: usize, begin: usize, end: usize) -> usize {
        match self.lengths.map(|l| l[head]) {
            Some([queries, _]) if begin >= queries => 0,
            Some([_, keys]) => self.visible(end).min(keys),
            None => self.visible(end),
        }
    }

    /// The scores of a block, masked: `s[rows, cols]`.
    unsafe fn scores<S: Attended>(
        &self,
        head: usize,
        q: Mat<S>,
        k: &Turned<S>,
        i: usize,
        rows: usize,
        j: usize,
        cols: usize,
        s: *mut f32,
    ) {
        // SAFETY: blocks lie inside the matrices, whose lengths were checked.
        unsafe {
            Gemm { alpha: self.scale, ..Gemm::new(rows, cols, self.d, q.down(i), k.mat.right(j), s) }.run();
            for r in 0..rows {
                let row = s.add(r * cols);
                if let Some(m) = self.mask {
                    f32s::raw::add(row, m.head(head).add((i + r) * m.row + j), row, cols);
                }
                let seen = self.seen(head, i + r, i + r + 1).saturating_sub(j).min(cols);
                for c in seen..cols {
                    row.add(c).write(f32::NEG_INFINITY);
                }
            }
        }
    }

    /// `out[heads, queries, dv] = softmax(scale q k^T + mask) v`; `lse[heads, queries]` takes the
    /// logarithm of each row's sum. A query that sees no key gives zeros.
    ///
    /// # Safety
    /// Every row of `out` can be written to, by no other thread meanwhile, and lies apart from the others
    /// and from what is read.
    pub unsafe fn forward<S: Attended>(
        &self,
        q: &Rows<'_, S>,
        k: &Rows<'_, S>,
        v: &Rows<'_, S>,
        out: RowsMut<'_>,
        lse: &mut [f32],
    ) {
        self.check(q, k, v);
        check("starts of an output", self.kv_of.len(), out.starts.len());
        check("sums", self.kv_of.len() * self.queries, lse.len());
        let size = self.block(QUERIES / 4);
        let blocks = self.queries.div_ceil(size);
        // Blocks that one task takes, with the keys of their head transposed once.
        let each = if self.kv_of.len() >= HEADS { blocks } else { 1 };
        let chunks = blocks.div_ceil(each.max(1));
        let pl = Shared::new(lse.as_mut_ptr());
        pool::parallel_for(self.kv_of.len() * chunks, &|task| {
            let (h, first) = (task / chunks, task % chunks * each);
            let last = (first + each).min(blocks);
            let kv = self.kv_of[h];
            let of = |m: &Rows<'_, S>, h: usize| Mat::row_major(m.head(h), m.row);
            let (q, k, v) = (of(q, h), of(k, kv), of(v, kv));
            // SAFETY: each task writes its own queries; lengths were checked.
            unsafe {
                let k = Turned::new(k, self.visible((last * size).min(self.queries)), self.d);
                for i in (first..last).map(|b| b * size) {
                    let rows = size.min(self.queries - i);
                    let lse = pl.slice(h * self.queries + i, rows);
                    self.forward_block(h, q, &k, v, i, rows, &out, lse);
                }
            }
        });
    }

    /// The queries `i..i + rows` of one head, over all keys.
    unsafe fn forward_block<S: Attended>(
        &self,
        h: usize,
        q: Mat<S>,
        k: &Turned<S>,
        v: Mat<S>,
        i: usize,
        rows: usize,
        out: &RowsMut<'_>,
        lse: &mut [f32],
    ) {
        let keys = self.seen(h, i, i + rows);
        let s = Scratch::<f32>::new(rows * KEYS.min(keys.max(1)));
        let room = room_for::<S>(rows * KEYS.min(keys.max(1)));
        let (mut top, mut sum) = ([f32::NEG_INFINITY; QUERIES], [0f32; QUERIES]);
        if keys == 0 {
            // SAFETY: this task's own rows.
            unsafe { out.clear(h, i, rows, self.dv) };
        }
        for j in (0..keys).step_by(KEYS) {
            let cols = KEYS.min(keys - j);
            // SAFETY: the block lies inside the matrices.
            unsafe {
                self.scores(h, q, k, i, rows, j, cols, s.ptr());
                for r in 0..rows {
                    let (old, row) = (top[r], s.ptr().add(r * cols));
                    (top[r], sum[r]) = exp_row(row, cols, old, sum[r]);
                    if old != top[r] && j > 0 {
                        let f = (old - finite(top[r])).exp();
                        let o = out.at(h, i + r);
                        f32s::raw::mul_scalar(o, f, o, self.dv);
                    }
                }
                let a = Mat::row_major(S::from_f32s(s.ptr(), room.ptr(), rows * cols), cols);
                let to = Gemm::new(rows, self.dv, cols, a, v.down(j), out.at(h, i));
                Gemm { accumulate: j > 0, c_row: out.row as isize, ..to }.run();
            }
        }
        for r in 0..rows {
            let f = if sum[r] > 0.0 || sum[r].is_nan() { 1.0 / sum[r] } else { 0.0 };
            let o = out.at(h, i + r);
            // SAFETY: this task's own row.
            unsafe { f32s::raw::mul_scalar(o, f, o, self.dv) };
            lse[r] = if sum[r] == 0.0 { f32::NEG_INFINITY } else { top[r] + sum[r].ln() };
        }
    }

    /// Gradients of queries, keys and values.
    ///
    /// # Safety
    /// Every row of `grads` can be written to, by no other thread meanwhile, and lies apart from the
    /// others and from what is read.
    pub unsafe fn backward<S: Attended>(&self, saved: &Saved<'_, S>, grads: [RowsMut<'_>; 3]) {
        self.check(&saved.q, &saved.k, &saved.v);
        let heads = self.kv_of.len();
        saved.out.check("an output", heads, self.queries, self.dv);
        saved.dout.check("an output gradient", heads, self.queries, self.dv);
        check("sums", heads * self.queries, saved.lse.len());
        let [dq, dk, dv] = grads;
        check("starts of query gradients", heads, dq.starts.len());
        check("starts of key gradients", self.kv_heads, dk.starts.len());
        check("starts of value gradients", self.kv_heads, dv.starts.len());
        let task = |kv: usize| {
            // SAFETY: one task writes the key head's gradients and those of the queries that use it.
            unsafe {
                dk.clear(kv, 0, self.keys, self.d);
                dv.clear(kv, 0, self.keys, self.dv);
                let of = |m: &Rows<'_, S>, cols: usize| {
                    Turned::new(Mat::row_major(m.head(kv), m.row), self.visible(self.queries), cols)
                };
                let transposed = [of(&saved.k, self.d), of(&saved.v, self.dv)];
                let size = self.block(QUERIES / 2);
                for h in (0..self.kv_of.len()).filter(|&h| self.kv_of[h] == kv) {
                    dq.clear(h, 0, self.queries, self.d);
                    for i in (0..self.queries).step_by(size) {
                        self.backward_block(saved, &transposed, h, i, size.min(self.queries - i), &grads);
                    }
                }
            }
        };
        // Few key heads: one after the other, so that the products inside use the threads.
        if self.kv_heads >= 4 {
            pool::parallel_for(self.kv_heads, &task);
        } else {
            (0..self.kv_heads).for_each(task);
        }
    }

    unsafe fn backward_block<S: Attended>(
        &self,
        s: &Saved<'_, S>,
        [k_turned, v_turned]: &[Turned<S>; 2],
        h: usize,
        i: usize,
        rows: usize,
        [dq, dk, dv]: &[RowsMut<'_>; 3],
    ) {
        let keys = self.seen(h, i, i + rows);
        let (d, dvn, kv) = (self.d, self.dv, self.kv_of[h]);
        let of = |m: &Rows<'_, S>, h: usize| Mat::row_major(m.head(h), m.row);
        let (q, k) = (of(&s.q, h), of(&s.k, kv));
        let (grad, out) = (of(&s.dout, h).down(i), Mat::row_major(s.out.head(h), s.out.row).down(i));
        let lse = &s.lse[h * self.queries + i..][..rows];
        let mut dots = [0f32; QUERIES];
        let wide = Scratch::<f32>::new(dvn);
        for r in 0..rows {
            // SAFETY: the rows of a head have `dvn` elements each.
            unsafe {
                S::copy(grad.down(r).p, wide.ptr(), dvn);
                dots[r] = f32s::raw::dot(wide.ptr(), out.down(r).p, dvn);
            }
        }
        let p = Scratch::<f32>::new(rows * KEYS);
        let dp = Scratch::<f32>::new(rows * KEYS);
        let room = room_for::<S>(rows * KEYS);
        for j in (0..keys).step_by(KEYS) {
            let cols = KEYS.min(keys - j);
            // What the block holds now, in the type of the products.
            // SAFETY: both have room for a block.
            let narrowed = || unsafe { Mat::row_major(S::from_f32s(p.ptr(), room.ptr(), rows * cols), cols) };
            // SAFETY: blocks lie inside the matrices, whose lengths were checked.
            unsafe {
                self.scores(h, q, k_turned, i, rows, j, cols, p.ptr());
                for r in 0..rows {
                    shifted_exp(p.ptr().add(r * cols), finite(lse[r]), cols);
                }
                let add = |to: &RowsMut, head: usize, i: usize, m: usize, n: usize, k: usize, a: Mat<S>, b: Mat<S>| {
                    let c_row = to.row as isize;
                    Gemm { accumulate: true, c_row, ..Gemm::new(m, n, k, a, b, to.at(head, i)) }.run();
                };
                add(dv, kv, j, cols, dvn, rows, narrowed().t(), grad);
                Gemm::new(rows, cols, dvn, grad, v_turned.mat.right(j), dp.ptr()).run();
                for r in 0..rows {
                    score_grad(p.ptr().add(r * cols), dp.ptr().add(r * cols), dots[r], self.scale, cols);
                }
                let scores = narrowed();
                add(dq, h, i, rows, d, cols, scores, k.down(j));
                add(dk, kv, j, cols, d, rows, scores.t(), q.down(i));
            }
        }
    }
}

/// A shift for exponentials: a row that sees nothing has no finite one.
fn finite(x: f32) -> f32 {
    if x == f32::NEG_INFINITY { 0.0 } else { x }
}

/// Exponentials of a row under the running maximum; returns the new maximum and sum.
#[inline(always)]
unsafe fn exp_row_body<V: Vector<E = f32>>(row: *mut f32, n: usize, top: f32, sum: f32) -> (f32, f32) {
    // SAFETY: `n` elements, the caller's promise.
    unsafe {
        let mut m = V::splat(top);
        let mut i = 0;
        while i + V::N <= n {
            m = m.maximum(V::load(row.add(i)));
            i += V::N;
        }
        let mut new = m.fold(|a, b| if a > b || a.is_nan() { a } else { b });
        for i in i..n {
            let x = *row.add(i);
            new = if x > new || x.is_nan() { x } else { new };
        }
        let shift = V::splat(finite(new));
        let mut acc = V::zero();
        let mut i = 0;
        while i + V::N <= n {
            let e = math::exp(V::load(row.add(i)) - shift);
            e.store(row.add(i));
            acc = acc + e;
            i += V::N;
        }
        let mut total = acc.sum();
        if i < n {
            let e = math::exp(V::load_n(row.add(i), n - i) - shift);
            e.store_n(row.add(i), n - i);
            for j in i..n {
                total += *row.add(j);
            }
        }
        let kept = if sum == 0.0 { 0.0 } else { sum * (top - finite(new)).exp() };
        (new, kept + total)
    }
}

/// `row = exp(row - shift)`.
#[inline(always)]
unsafe fn shifted_exp_body<V: Vector<E = f32>>(row: *mut f32, shift: f32, n: usize) {
    let shift = V::splat(shift);
    let mut i = 0;
    // SAFETY: `n` elements, the caller's promise.
    unsafe {
        while i < n {
            let m = V::N.min(n - i);
            math::exp(V::load_n(row.add(i), m) - shift).store_n(row.add(i), m);
            i += m;
        }
    }
}

/// `p = p (dp - dot) scale`.
#[inline(always)]
unsafe fn score_grad_body<V: Vector<E = f32>>(p: *mut f32, dp: *const f32, dot: f32, scale: f32, n: usize) {
    let (dot, scale) = (V::splat(dot), V::splat(scale));
    let mut i = 0;
    // SAFETY: `n` elements, the caller's promise.
    unsafe {
        while i < n {
            let m = V::N.min(n - i);
            let v = V::load_n(p.add(i), m) * (V::load_n(dp.add(i), m) - dot) * scale;
            v.store_n(p.add(i), m);
            i += m;
        }
    }
}

dispatch! {
    unsafe fn exp_row(row: *mut f32, n: usize, top: f32, sum: f32) -> (f32, f32) { I => exp_row_body::<<I as Isa>::S>(row, n, top, sum) }
}
dispatch! {
    unsafe fn shifted_exp(row: *mut f32, shift: f32, n: usize) { I => shifted_exp_body::<<I as Isa>::S>(row, shift, n) }
}
dispatch! {
    unsafe fn score_grad(p: *mut f32, dp: *const f32, dot: f32, scale: f32, n: usize) {
        I => score_grad_body::<<I as Isa>::S>(p, dp, dot, scale, n)
    }
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
