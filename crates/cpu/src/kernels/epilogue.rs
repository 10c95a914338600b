//! The epilogue of a convolution, while a part of its result is still in cache: `y = clamp(sum + bias[row] + residual)`.
//!
//! These are the operations of the loop it stands for, in the same order, so results are equal.

#![allow(unsafe_code)]

use super::gemm::Patch;
use crate::pool::Shared;
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};

/// What becomes of sums `[rows, columns]` of `f32`, with places of kind `P`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue<P> {
    /// Columns of the sums and of all that lies as they do.
    pub columns: usize,
    /// The sums.
    pub sums: P,
    /// One number for each row, which is added.
    pub bias: Option<P>,
    /// Numbers that are added, laid out as the sums.
    pub residual: Option<P>,
    /// What results are held in.
    pub range: (f32, f32),
    /// Where they go; perhaps over the sums or the residual.
    pub to: P,
}

impl<P: Copy> Epilogue<P> {
    /// The same with other places.
    pub fn map<Q>(&self, f: &dyn Fn(P) -> Q) -> Epilogue<Q> {
        Epilogue {
            columns: self.columns,
            sums: f(self.sums),
            bias: self.bias.map(f),
            residual: self.residual.map(f),
            range: self.range,
            to: f(self.to),
        }
    }
}

impl Epilogue<Shared<u8>> {
    /// The epilogue that stores sums as they are.
    pub fn plain(columns: usize, to: *mut f32) -> Epilogue<Shared<u8>> {
        let to = Shared::new(to.cast());
        Epilogue { columns, sums: to, bias: None, residual: None, range: (f32::NEG_INFINITY, f32::INFINITY), to }
    }

    /// What becomes of the sums of a row.
    ///
    /// # Safety
    /// As for [`Epilogue::run`], but that no sums are read.
    #[inline(always)]
    pub(super) unsafe fn row<V: Vector<E = f32>>(&self, row: usize) -> Row<V> {
        let at = |p: Shared<u8>| p.get().cast::<f32>().wrapping_add(row * self.columns);
        // SAFETY: the caller's promise.
        let bias = self.bias.map(|b| unsafe { *b.get().cast::<f32>().add(row) });
        Row {
            // Whatever is added to -0.0 stays as it is.
            bias: V::splat(bias.unwrap_or(-0.0)),
            residual: self.residual.map_or(std::ptr::null(), |r| at(r).cast_const()),
            low: V::splat(self.range.0),
            high: V::splat(self.range.1),
            is_raised: self.range.0 > f32::NEG_INFINITY,
            is_lowered: self.range.1 < f32::INFINITY,
            to: at(self.to),
        }
    }

    /// Finishes a tile of sums from a row and column on, of whose last vectors `last` lanes are meant.
    ///
    /// Straight-line code only touches the sums: were they indexed by a variable, they would live in memory while they are
    /// summed.
    ///
    /// # Safety
    /// As for [`Epilogue::row`].
    #[inline(always)]
    pub unsafe fn finish_tile<V: Vector<E = f32>, const R: usize, const NV: usize>(
        &self,
        sums: &[[V; NV]; R],
        row: usize,
        col: usize,
        last: usize,
    ) {
        let mut room = [[V::zero(); NV]; R];
        let flat = room.as_mut_ptr().cast::<f32>();
        // SAFETY: the caller's promise; the room holds the tile.
        unsafe {
            for r in 0..R {
                for v in 0..NV {
                    sums[r][v].store(flat.add((r * NV + v) * V::N));
                }
            }
            for r in 0..R {
                let to = self.row::<V>(row + r);
                for v in 0..NV {
                    let n = if v + 1 == NV { last } else { V::N };
                    to.put(V::load(flat.add((r * NV + v) * V::N)), col + v * V::N, n);
                }
            }
        }
    }

    /// Computes a part.
    ///
    /// # Safety
    /// All places hold so many rows, the sums of the part are there, and no other thread uses the part.
    pub unsafe fn run(&self, part: Patch) {
        // SAFETY: the caller's promise.
        unsafe { run(self, part) }
    }
}

dispatch! {
    unsafe fn run(e: &Epilogue<Shared<u8>>, part: Patch) {
        I => rows::<<I as Isa>::S>(e, part)
    }
}

/// [`Epilogue`] of one row, in registers.
pub(super) struct Row<V> {
    bias: V,
    residual: *const f32,
    low: V,
    high: V,
    is_raised: bool,
    is_lowered: bool,
    to: *mut f32,
}

impl<V: Vector<E = f32>> Row<V> {
    /// Finishes the first `n` lanes of sums, those from a column on.
    ///
    /// # Safety
    /// The row has these columns.
    #[inline(always)]
    pub(super) unsafe fn put(&self, sums: V, col: usize, n: usize) {
        let mut x = sums + self.bias;
        // SAFETY: the caller's promise.
        unsafe {
            if !self.residual.is_null() {
                let p = self.residual.add(col);
                x = x + if n == V::N { V::load(p) } else { V::load_n(p, n) };
            }
            if self.is_raised {
                x = x.maximum(self.low);
            }
            if self.is_lowered {
                x = x.minimum(self.high);
            }
            let to = self.to.add(col);
            if n == V::N { x.store(to) } else { x.store_n(to, n) }
        }
    }
}

#[inline(always)]
unsafe fn rows<V: Vector<E = f32>>(e: &Epilogue<Shared<u8>>, part: Patch) {
    for row in part.row..part.row + part.rows {
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (e.sums.get().cast::<f32>().add(row * e.columns), e.row::<V>(row));
            for col in (part.col..part.col + part.cols).step_by(V::N) {
                let n = V::N.min(part.col + part.cols - col);
                to.put(V::load_n(from.add(col), n), col, n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of parts, on a part of the rows and columns; NaN stays NaN, and nothing else is written.
    #[test]
    fn parts_equal_the_definition() {
        let (rows, columns) = (5usize, 37usize);
        let part = Patch { row: 1, rows: 3, col: 2, cols: 33 };
        for which in 0..8 {
            let mut sums: Vec<f32> = (0..rows * columns).map(|i| (i as f32 * 0.37).sin() * 4.0).collect();
            sums[columns + 5] = f32::NAN;
            let mut bias: Vec<f32> = (0..rows).map(|i| i as f32 - 2.0).collect();
            let mut beside: Vec<f32> = (0..rows * columns).map(|i| (i as f32 * 0.11).cos()).collect();
            let range = if which & 4 == 0 { (f32::NEG_INFINITY, f32::INFINITY) } else { (0.0, 3.0) };
            let mut want = sums.clone();
            for r in part.row..part.row + part.rows {
                for c in part.col..part.col + part.cols {
                    let at = r * columns + c;
                    let mut x = sums[at];
                    if which & 1 != 0 {
                        x += bias[r];
                    }
                    if which & 2 != 0 {
                        x += beside[at];
                    }
                    want[at] = if x.is_nan() { x } else { x.max(range.0).min(range.1) };
                }
            }
            let place = |v: &mut Vec<f32>| Shared::new(v.as_mut_ptr().cast::<u8>());
            let at = place(&mut sums);
            let e = Epilogue {
                columns,
                sums: at,
                bias: (which & 1 != 0).then(|| place(&mut bias)),
                residual: (which & 2 != 0).then(|| place(&mut beside)),
                range,
                to: at,
            };
            // SAFETY: all vectors have so many elements.
            unsafe { e.run(part) };
            let is_equal = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
            assert!(sums.iter().zip(&want).all(is_equal), "{which}: {sums:?} {want:?}");
        }
    }
}
