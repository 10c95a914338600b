//! Matrix products: `C[m, n] (+)= alpha A[m, k] B[k, n]`, batched, with any strides of A and B.
//!
//! - [`Gemm`] describes a product of `f32`, `f64`, `bf16` or `f16`; [`Gemm::run`] computes it.
//!   Half types are summed in `f32`: they are converted while operands are packed, or, `bf16` on
//!   processors that can, multiplied in pairs ([`bf16_dot`]) or in tiles (`amx`).
//! - [`gemm_int`] multiplies integers, plainly; [`int8`] those of 8 bits, summed in 32.
//!
//! A GEMM is oriented (A B = C, or else Bᵀ Aᵀ = Cᵀ) so that least has to be packed ([`orient`]), cut
//! into blocks of C, whose operands are packed into panels where they do not lie well already
//! ([`drive`]), and multiplied by tiles in registers ([`micro`]). Products with one row or column
//! go to [`matvec`].
//!
//! Right sides that many products share are packed beforehand ([`packed`]).
//!
//! Every element of C is summed along `k` in an order that the shape alone fixes: neither the cut
//! nor the threads show in the result.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod amx;
mod bf16_dot;
mod drive;
mod element;
mod int;
pub mod int8;
mod matvec;
mod micro;
mod orient;
mod pack;
mod packed;
mod vector;

use super::scratch::Scratch;
use crate::pool::{self, Shared};
pub(crate) use bf16_dot::is_available as has_pairs;
pub(crate) use element::has_tiles;
pub use element::{Float, Multiply, Output, PlaneOf};
pub use int::{Integer, gemm_int};
pub(crate) use micro::{BESIDE, prefetch};
use orient::{Oriented, Way};
pub use pack::Operand;
pub(crate) use pack::transpose8;
pub use packed::Packed;
pub(crate) use packed::{Left, Target};

/// A matrix in memory: element `(i, j)` is at `p + i * row + j * col`, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Mat<T> {
    /// Element (0, 0).
    pub p: *const T,
    /// Elements between rows.
    pub row: isize,
    /// Elements between columns.
    pub col: isize,
}

impl<T> Mat<T> {
    /// A matrix whose rows are contiguous, `row` elements apart.
    pub fn row_major(p: *const T, row: usize) -> Mat<T> {
        Mat { p, row: row as isize, col: 1 }
    }

    /// The transpose, without moving anything.
    pub fn t(self) -> Mat<T> {
        Mat { p: self.p, row: self.col, col: self.row }
    }

    /// The matrix without its first `rows` rows.
    pub fn down(self, rows: usize) -> Mat<T> {
        Mat { p: self.p.wrapping_offset(rows as isize * self.row), row: self.row, col: self.col }
    }

    /// The matrix without its first `cols` columns.
    pub fn right(self, cols: usize) -> Mat<T> {
        let skip = cols as isize * self.col;
        self.moved(skip)
    }

    fn at(self, i: usize, j: usize) -> *const T {
        self.p.wrapping_offset(i as isize * self.row + j as isize * self.col)
    }

    fn moved(self, elements: isize) -> Mat<T> {
        Mat { p: self.p.wrapping_offset(elements), ..self }
    }
}

/// A batch of matrix products.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<S: Operand, C> {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Factor of the product.
    pub alpha: S::Acc,
    /// The left operand.
    pub a: Mat<S>,
    /// The right operand.
    pub b: Mat<S>,
    /// The result; its columns are contiguous.
    pub c: *mut C,
    /// Elements between rows of C.
    pub c_row: isize,
    /// Add to what is in C (`true`) or overwrite it.
    pub accumulate: bool,
    /// Number of products.
    pub batch: usize,
    /// Elements between the left operands of a batch; may be 0.
    pub a_batch: isize,
    /// Elements between the right operands; may be 0.
    pub b_batch: isize,
    /// Elements between the results.
    pub c_batch: isize,
}

impl<S: Operand, C> Gemm<S, C>
where
    S::Acc: Float,
{
    /// One plain product into a row-major C with `n` columns.
    pub fn new(m: usize, n: usize, k: usize, a: Mat<S>, b: Mat<S>, c: *mut C) -> Self {
        Gemm {
            m,
            n,
            k,
            alpha: S::Acc::ONE,
            a,
            b,
            c,
            c_row: n as isize,
            accumulate: false,
            batch: 1,
            a_batch: 0,
            b_batch: 0,
            c_batch: 0,
        }
    }
}

/// A part of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its first row.
    pub row: usize,
    /// How many rows.
    pub rows: usize,
    /// Its first column.
    pub col: usize,
    /// How many columns.
    pub cols: usize,
}

/// Multiplications below which products of a batch share a task.
const GROUP_MIN: usize = 1 << 19;
/// Products in a batch from which on each is computed by one thread.
const MANY: usize = 8;

impl<S: Multiply, C: Output<S::Acc>> Gemm<S, C> {
    /// Computes the products, on all threads if that pays.
    ///
    /// # Safety
    /// Every element that the sizes and strides name must be valid for reading (A, B, and C when
    /// accumulating) or writing (C); elements of C must be distinct and apart from A and B.
    pub unsafe fn run(&self) {
        if self.m == 0 || self.n == 0 || self.batch == 0 {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_vector() {
                return self.run_vector(&|_| {});
            }
            if S::SAME == C::SAME && self.k == 1 && self.b.col == 1 && !self.accumulate {
                return self.run_outer();
            }
            let work = self.m * self.n * self.k;
            if self.batch < MANY && (self.batch == 1 || work >= GROUP_MIN) {
                return (0..self.batch).for_each(|item| self.one(item));
            }
            let group = (GROUP_MIN / work.max(1)).clamp(1, self.batch);
            let this = Shared::new((self as *const Self).cast_mut());
            pool::parallel_for(self.batch.div_ceil(group), &move |task| {
                // Only read, and alive until `parallel_for` returns.
                let this = &*this.get();
                (task * group..((task + 1) * group).min(this.batch)).for_each(|item| this.one(item));
            });
        }
    }

    /// Computes the only product of the batch, and calls `done` for each part of C as soon as it
    /// is finished, on the thread that has it in cache. What `done` works with beside C lies as C
    /// does, element for element, at the addresses `beside` (null: no more): where that pays, it is
    /// brought closer while products are computed.
    ///
    /// # Safety
    /// As for [`Gemm::run`]; `C` is the type of the computation.
    pub unsafe fn run_then(&self, beside: [*const C; BESIDE], done: &(dyn Fn(Patch) + Sync)) {
        debug_assert!(C::SAME && self.batch == 1);
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_vector() {
                return self.run_vector(done);
            }
            let mut oriented = Oriented::new(self, self.a, self.b, self.c.cast(), self.c_row);
            oriented.beside = beside.map(|p| p.cast());
            oriented.run(done);
        }
    }

    /// Computes the only product of the batch, and calls `done` for each part of C when it is finished; parts may have any
    /// shape.
    ///
    /// # Safety
    /// As for [`Gemm::run`].
    pub unsafe fn run_parts(&self, done: &(dyn Fn(Patch) + Sync)) {
        // SAFETY: the caller's promise; `C` is the type of the computation where it says so.
        unsafe {
            if C::SAME && self.m > 1 && self.n > 1 && self.k > 0 {
                let q = Gemm::<S, S::Acc> {
                    alpha: self.alpha,
                    accumulate: self.accumulate,
                    c_row: self.c_row,
                    ..Gemm::new(self.m, self.n, self.k, self.a, self.b, self.c.cast())
                };
                return S::one(&q, done);
            }
            self.run();
            done(Patch { row: 0, rows: self.m, col: 0, cols: self.n });
        }
    }

    /// Products of a column and a row: each row of C is a multiple of B's. Rows of a narrower type are computed in
    /// pieces beside C.
    unsafe fn run_outer(&self) {
        const TASK: usize = 1 << 14;
        const PIECE: usize = 1024;
        let group = (TASK / self.n).max(1);
        let this = Shared::new((self as *const Self).cast_mut());
        pool::parallel_for((self.batch * self.m).div_ceil(group), &move |task| {
            // SAFETY: only read, and alive until `parallel_for` returns; rows of C are apart, the caller's promise.
            unsafe {
                let this = &*this.get();
                let rows = task * group..((task + 1) * group).min(this.batch * this.m);
                let place = |at: usize| ((at / this.m) as isize, (at % this.m) as isize);
                let factor = |(item, r): (isize, isize)| {
                    this.alpha * (*this.a.p.offset(item * this.a_batch + r * this.a.row)).acc()
                };
                let row = |(item, r): (isize, isize)| this.c.offset(item * this.c_batch + r * this.c_row);
                if S::SAME && C::SAME {
                    for at in rows.map(place) {
                        let b = this.b.p.offset(at.0 * this.b_batch).cast::<S::Acc>();
                        S::Acc::scaled(factor(at), b, row(at).cast(), this.n);
                    }
                    return;
                }
                let (mut wide, mut scaled) = ([S::Acc::default(); PIECE], [S::Acc::default(); PIECE]);
                for first in (0..this.n).step_by(PIECE) {
                    let (count, mut last) = (PIECE.min(this.n - first), -1);
                    // Rows that follow each other are stored together.
                    let is_dense = count == this.n && this.c_row == this.n as isize;
                    let many = if is_dense { PIECE / count } else { 1 };
                    let mut at = rows.start;
                    while at < rows.end {
                        let (item, r) = place(at);
                        let some = many.min(rows.end - at).min(this.m - r as usize);
                        if item != last {
                            S::copy(this.b.p.offset(item * this.b_batch).add(first), wide.as_mut_ptr(), count);
                            last = item;
                        }
                        for i in 0..some {
                            let to = scaled.as_mut_ptr().add(i * count);
                            S::Acc::scaled(factor((item, r + i as isize)), wide.as_ptr(), to, count);
                        }
                        C::store(scaled.as_ptr(), row((item, r)).add(first), some * count);
                        at += some;
                    }
                }
            }
        });
    }

    /// Whether it has one row or one column, and strides that its own kernel takes: then nothing is computed in tiles.
    pub fn is_vector(&self) -> bool {
        let (a, b) = if self.m == 1 { (self.a, self.b) } else { (self.b.t(), self.a.t()) };
        let is_one = self.m.min(self.n) == 1 && self.batch > 0;
        S::SAME && C::SAME && is_one && (b.col == 1 || b.row == 1 && a.col == 1)
    }

    /// Whether the parts that [`Gemm::run_then`] reports are whole rows, whatever the number of
    /// threads, or of the only row.
    pub fn has_whole_rows(&self) -> bool {
        if self.m == 1 {
            return true;
        }
        let oriented = Oriented::new(self, self.a, self.b, self.c.cast(), self.c_row);
        match oriented.way() {
            Way::Whole => true,
            Way::Columns(_) => !oriented.is_straight(),
            Way::Rows(_) => oriented.is_straight() && self.n <= drive::COLUMNS,
            Way::Grid(..) => false,
        }
    }

    /// Computes one product of the batch.
    unsafe fn one(&self, item: usize) {
        let item = item as isize;
        let (a, b) = (self.a.moved(item * self.a_batch), self.b.moved(item * self.b_batch));
        let c = self.c.wrapping_offset(item * self.c_batch);
        // SAFETY: the caller's promise; `C` is the type of the computation where it says so.
        unsafe {
            let of = |c: *mut S::Acc, c_row: isize| Gemm {
                alpha: self.alpha,
                accumulate: self.accumulate,
                c_row,
                ..Gemm::new(self.m, self.n, self.k, a, b, c)
            };
            if C::SAME {
                return S::one(&of(c.cast(), self.c_row), &|_| {});
            }
            let this = Gemm { a, b, c, batch: 1, ..*self };
            if S::one_into(&this) {
                return;
            }
            let wide = Scratch::<S::Acc>::new(self.m * self.n);
            let (to, from) = (Shared::new(c), Shared::new(wide.ptr()));
            if self.accumulate {
                for r in 0..self.m {
                    C::load(c.offset(r as isize * self.c_row), wide.ptr().add(r * self.n), self.n);
                }
            }
            let (n, c_row) = (self.n, self.c_row);
            S::one(&of(wide.ptr(), n as isize), &move |p| {
                // Whole rows that follow each other are one.
                if p.cols == n && c_row == n as isize {
                    return C::store(from.get().add(p.row * n), to.get().add(p.row * n), p.rows * n);
                }
                for r in p.row..p.row + p.rows {
                    let to = to.get().offset(r as isize * c_row).add(p.col);
                    C::store(from.get().add(r * n + p.col), to, p.cols);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
