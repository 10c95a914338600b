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

#[inline(always)]
unsafe fn rows<V: Vector<E = f32>>(e: &Epilogue<Shared<u8>>, part: Patch) {
    let (low, high) = (V::splat(e.range.0), V::splat(e.range.1));
    let (is_raised, is_lowered) = (e.range.0 > f32::NEG_INFINITY, e.range.1 < f32::INFINITY);
    for row in part.row..part.row + part.rows {
        let first = row * e.columns + part.col;
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (e.sums.get().cast::<f32>().add(first), e.to.get().cast::<f32>().add(first));
            let bias = e.bias.map(|b| V::splat(*b.get().cast::<f32>().add(row)));
            let beside = e.residual.map(|r| r.get().cast::<f32>().add(first));
            let mut i = 0;
            while i < part.cols {
                let n = V::N.min(part.cols - i);
                let mut x = V::load_n(from.add(i), n);
                if let Some(b) = bias {
                    x = x + b;
                }
                if let Some(p) = beside {
                    x = x + V::load_n(p.add(i), n);
                }
                if is_raised {
                    x = x.maximum(low);
                }
                if is_lowered {
                    x = x.minimum(high);
                }
                x.store_n(to.add(i), n);
                i += n;
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
