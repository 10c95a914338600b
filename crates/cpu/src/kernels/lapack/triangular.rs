//! Triangular systems: diagonal blocks by substitution, the rest by GEMM.

#![allow(unsafe_code)]

use super::{Real, axpy, multiply};
use crate::kernels::gemm::Mat;
use crate::kernels::scratch::Scratch;
use crate::vmath::simd::{Scalar, Vector};

/// Rows of a diagonal block.
const BLOCK: usize = 32;

/// Which part of a matrix is read, and whether its diagonal counts as ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// The upper triangle.
    pub is_upper: bool,
    /// Ones on the diagonal.
    pub is_unit: bool,
}

impl Triangle {
    /// The lower factor of LU.
    pub const UNIT_LOWER: Triangle = Triangle { is_upper: false, is_unit: true };
    /// The lower triangle with its diagonal.
    pub const LOWER: Triangle = Triangle { is_upper: false, is_unit: false };
    /// The upper triangle with its diagonal.
    pub const UPPER: Triangle = Triangle { is_upper: true, is_unit: false };
}

/// A diagonal block, packed with inverted diagonal, and its right sides.
pub struct Block<T> {
    a: *const T,
    n: usize,
    is_upper: bool,
    x: *mut T,
    row: usize,
    k: usize,
}

/// Solves `A X = B` in place: A is `n × n` with any strides, X has `k` columns and rows `row` apart.
///
/// # Safety
/// The elements that sizes and strides name are valid; X lies apart from the triangle of A.
pub unsafe fn solve<T: Real>(a: Mat<T>, t: Triangle, n: usize, x: *mut T, row: usize, k: usize) {
    if n == 0 || k == 0 {
        return;
    }
    let diagonal = Scratch::<T>::new(BLOCK * BLOCK);
    let blocks = n.div_ceil(BLOCK);
    for b in 0..blocks {
        let first = BLOCK * if t.is_upper { blocks - 1 - b } else { b };
        let size = BLOCK.min(n - first);
        // SAFETY: blocks within the matrix; the rows that are read and written differ.
        unsafe {
            pack(a.down(first).right(first), t, size, diagonal.ptr());
            let own = x.add(first * row);
            T::substitute(&Block { a: diagonal.ptr(), n: size, is_upper: t.is_upper, x: own, row, k });
            // What is solved leaves the equations of the others.
            let (others, count) = if t.is_upper { (0, first) } else { (first + size, n - first - size) };
            if count > 0 {
                let left = a.down(others).right(first);
                let solved = Mat::row_major(own.cast_const(), row);
                multiply([count, k, size], -1.0, left, solved, x.add(others * row), row, true);
            }
        }
    }
}

/// Copies a diagonal block; its diagonal is inverted.
unsafe fn pack<T: Real>(a: Mat<T>, t: Triangle, n: usize, to: *mut T) {
    for i in 0..n {
        let columns = if t.is_upper { i..n } else { 0..i + 1 };
        for j in columns {
            // SAFETY: elements of the block.
            unsafe {
                let x = *a.p.offset(i as isize * a.row + j as isize * a.col);
                *to.add(i * n + j) = match i == j {
                    true if t.is_unit => T::ONE,
                    true => T::ONE / x,
                    false => x,
                };
            }
        }
    }
}

/// Substitution in a diagonal block.
#[inline(always)]
pub(super) unsafe fn block<V: Vector>(s: &Block<V::E>) {
    // Columns at a time, so that a strip of X stays in the first-level cache.
    const STRIP: usize = 256;
    for c in (0..s.k).step_by(STRIP) {
        let width = STRIP.min(s.k - c);
        for step in 0..s.n {
            let i = if s.is_upper { s.n - 1 - step } else { step };
            let others = if s.is_upper { i + 1..s.n } else { 0..i };
            // SAFETY: `n` rows of `k` elements, `n × n` of the block.
            unsafe {
                let to = s.x.add(i * s.row + c);
                for j in others {
                    axpy::<V>(V::E::default() - *s.a.add(i * s.n + j), s.x.add(j * s.row + c), to, width);
                }
                let inverse = *s.a.add(i * s.n + i);
                if inverse != V::E::from_f64(1.0) {
                    (0..width).for_each(|l| *to.add(l) = *to.add(l) * inverse);
                }
            }
        }
    }
}
