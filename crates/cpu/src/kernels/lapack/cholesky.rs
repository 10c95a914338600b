//! Cholesky: diagonal blocks by definition, the panel below by substitution, the rest by GEMM.

#![allow(unsafe_code)]

use super::triangular::{self, Triangle};
use super::{Real, multiply, transpose};
use crate::kernels::gemm::Mat;
use crate::kernels::scratch::Scratch;

/// Rows of a diagonal block.
const BLOCK: usize = 32;

/// Replaces the lower triangle of an `n × n` matrix by its Cholesky factor and the upper one by zeros. The error
/// is the order of the first minor that is not positive.
pub fn factor<T: Real>(a: &mut [T], n: usize) -> Result<(), usize> {
    assert_eq!(a.len(), n * n);
    let panel = Scratch::<T>::new(BLOCK * n);
    for first in (0..n).step_by(BLOCK) {
        let size = BLOCK.min(n - first);
        diagonal(&mut a[first * n..(first + size) * n], n, first, size)?;
        let below = n - first - size;
        if below == 0 {
            continue;
        }
        // SAFETY: parts of the one matrix, which do not overlap.
        unsafe {
            let corner = a.as_mut_ptr().add(first * n + first);
            let under = corner.add(size * n);
            // X L* = A is L X* = A*, whose rows are long.
            transpose(under, n, below, size, panel.ptr(), below);
            triangular::solve(Mat::row_major(corner, n), Triangle::LOWER, size, panel.ptr(), below, below);
            transpose(panel.ptr(), below, size, below, under, n);
            // Only the lower triangle, in steps.
            for i in (0..below).step_by(4 * BLOCK) {
                let rows = (4 * BLOCK).min(below - i);
                let left = Mat::row_major(under.add(i * n), n);
                let rest = under.add(i * n + size);
                multiply([rows, i + rows, size], -1.0, left, Mat::row_major(panel.ptr(), below), rest, n, true);
            }
        }
    }
    (0..n).for_each(|i| a[i * n + i + 1..(i + 1) * n].fill(T::ZERO));
    Ok(())
}

/// The factor of a diagonal block, given its rows.
fn diagonal<T: Real>(rows: &mut [T], n: usize, first: usize, size: usize) -> Result<(), usize> {
    for i in 0..size {
        for j in 0..=i {
            let (a, b) = (&rows[i * n + first..][..j], &rows[j * n + first..][..j]);
            let rest = rows[i * n + first + j] - T::dot(a, b);
            rows[i * n + first + j] = if i != j {
                rest / rows[j * n + first + j]
            } else if rest > T::ZERO {
                rest.sqrt()
            } else {
                return Err(first + i + 1);
            };
        }
    }
    Ok(())
}
