//! Products of integer matrices, plainly.

#![allow(unsafe_code)]

use super::Mat;
use crate::pool::{self, Shared};

/// Multiplications below which a product is not cut.
const TASK_MIN: usize = 1 << 21;

/// An integer that matrices are made of.
pub trait Integer: Copy + Default + Send + Sync {
    /// `sum + a * b`, wrapping around.
    fn multiply_add(self, b: Self, sum: Self) -> Self;
}

macro_rules! integer {
    ($t:ty) => {
        impl Integer for $t {
            #[inline(always)]
            fn multiply_add(self, b: $t, sum: $t) -> $t {
                sum.wrapping_add(self.wrapping_mul(b))
            }
        }
    };
}
integer!(i16);
integer!(u16);
integer!(i32);
integer!(u32);
integer!(i64);
integer!(u64);

/// `C[m, n] (+)= A[m, k] B[k, n]` for integers; overflow wraps around. C is row-major with rows `c_row` apart.
///
/// # Safety
/// As for `Gemm::run`.
pub unsafe fn gemm_int<T: Integer>(
    m: usize,
    n: usize,
    k: usize,
    a: Mat<T>,
    b: Mat<T>,
    c: *mut T,
    c_row: isize,
    accumulate: bool,
) {
    const ROWS: usize = 16;
    let (pa, pb, pc) = (Shared::new(a.p.cast_mut()), Shared::new(b.p.cast_mut()), Shared::new(c));
    let rows_task = if m * n * k < TASK_MIN { m.max(1) } else { ROWS };
    pool::parallel_for(m.div_ceil(rows_task), &move |task| {
        for i in task * rows_task..((task + 1) * rows_task).min(m) {
            // SAFETY: row `i` belongs to this task; the rest is the caller's promise.
            unsafe {
                let row = pc.get().offset(i as isize * c_row);
                if !accumulate {
                    (0..n).for_each(|j| row.add(j).write(T::default()));
                }
                for p in 0..k as isize {
                    let x = *pa.get().offset(i as isize * a.row + p * a.col);
                    let line = pb.get().offset(p * b.row);
                    for j in 0..n {
                        let y = *line.offset(j as isize * b.col);
                        *row.add(j) = x.multiply_add(y, *row.add(j));
                    }
                }
            }
        }
    });
}
