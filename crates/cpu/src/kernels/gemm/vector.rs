//! Products with one row or one column: see [`super::matvec`].

#![allow(unsafe_code)]

use super::element::{Float, MatVecOf, Multiply, Output};
use super::matvec::MatVec;
use super::{Gemm, Patch};
use crate::pool::{self, Shared};

impl<S: Multiply, C: Output<S::Acc>> Gemm<S, C> {
    /// A product with one row or one column, if [`Gemm::is_vector`]. Calls `done` for each part of C of the first product of
    /// the batch.
    ///
    /// # Safety
    /// As for [`Gemm::run`].
    pub unsafe fn run_vector(&self, done: &(dyn Fn(Patch) + Sync)) {
        // One column: the transposed problem has one row.
        let is_row = self.m == 1;
        let (a, b, n) = if is_row { (self.a, self.b, self.n) } else { (self.b.t(), self.a.t(), self.m) };
        let (a_batch, b_batch) = if is_row { (self.a_batch, self.b_batch) } else { (self.b_batch, self.a_batch) };
        let by_rows = b.col == 1;
        let y_step = if is_row { 1 } else { self.c_row };
        // By rows: strips wide enough for long runs. By columns: a power of two of equal ones, which
        // any usual number of threads shares evenly.
        let strip = if self.k * n < 1 << 17 {
            n
        } else if by_rows {
            n.div_ceil(8).clamp(512, 4096).next_multiple_of(64)
        } else {
            let strips = (self.k * n).div_ceil(1 << 17).next_power_of_two();
            n.div_ceil(strips).max(64).next_multiple_of(4)
        };
        let (strips, n_all) = (n.div_ceil(strip), n);
        let group = ((1 << 16) / (self.k * n.min(strip)).max(1)).clamp(1, self.batch);
        let group = if strips > 1 { 1 } else { group };
        let this = Shared::new((self as *const Self).cast_mut());
        let (pa, pb) = (Shared::new(a.p.cast_mut()), Shared::new(b.p.cast_mut()));
        pool::parallel_for(self.batch.div_ceil(group) * strips, &move |task| {
            // SAFETY: only read, and alive until `parallel_for` returns.
            let this = unsafe { &*this.get() };
            let first = task / strips * group;
            let j = task % strips * strip;
            let n = strip.min(n - j);
            for item in (first..(first + group).min(this.batch)).map(|i| i as isize) {
                let q = MatVec {
                    n,
                    k: this.k,
                    alpha: this.alpha,
                    x: pa.get().wrapping_offset(item * a_batch).cast(),
                    x_step: a.col,
                    b: pb.get().wrapping_offset(item * b_batch + j as isize * b.col).cast(),
                    b_step: if by_rows { b.row } else { b.col },
                    y: this.c.wrapping_offset(item * this.c_batch + j as isize * y_step).cast(),
                    y_step,
                    add: this.accumulate,
                    bytes: this.k * n_all * size_of::<S>(),
                };
                // SAFETY: the caller's promise; strips are apart.
                unsafe {
                    let q = MatVecOf(q);
                    if by_rows { S::Acc::rows(&q) } else { S::Acc::dots(&q) }
                }
            }
            if first == 0 {
                let part = Patch { row: 0, rows: 1, col: j, cols: n };
                done(if is_row { part } else { Patch { row: j, rows: n, col: 0, cols: 1 } });
            }
        });
    }
}
