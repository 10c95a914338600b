//! Linear recurrences from the end of lanes: `r[i] = b[i] + a[i] r[i + 1]`, in `f64`.

#![allow(unsafe_code)]

use super::lanes::{Block, Lane, STRIP};
use crate::vmath::dispatch;
use half::{bf16, f16};

/// Lanes that are solved side by side: each alone waits for its own last number.
pub const TOGETHER: usize = 8;

/// A float type of lanes.
pub trait Recur: Lane {
    /// Solves lanes of `size` elements that lie one after the other.
    fn recur_rows(a: &[Self], b: &[Self], y: &mut [Self], size: usize);
    /// Solves the lanes of a block.
    ///
    /// # Safety
    /// The pointers are the block's first elements, readable and writable, and `y` apart.
    unsafe fn recur_columns(a: *const Self, b: *const Self, y: *mut Self, block: Block);
}

#[inline(always)]
unsafe fn rows<T: Lane>(a: &[T], b: &[T], y: &mut [T], size: usize) {
    let each = a.chunks(TOGETHER * size).zip(b.chunks(TOGETHER * size)).zip(y.chunks_mut(TOGETHER * size));
    for ((a, b), y) in each {
        if a.len() == TOGETHER * size {
            some_rows::<T, TOGETHER>(a, b, y, size);
        } else {
            let each = a.chunks(size).zip(b.chunks(size)).zip(y.chunks_mut(size));
            each.for_each(|((a, b), y)| some_rows::<T, 1>(a, b, y, size));
        }
    }
}

/// Elements of a lane that are copied at a time: lanes may lie so that their elements share places in the cache.
const PIECE: usize = 16;

/// `R` lanes of `size` elements.
#[inline(always)]
fn some_rows<T: Lane, const R: usize>(a: &[T], b: &[T], y: &mut [T], size: usize) {
    assert!(a.len() == R * size && b.len() == a.len() && y.len() == a.len());
    let mut r = [0f64; R];
    let mut end = size;
    while end > 0 {
        let count = PIECE.min(end);
        let first = end - count;
        let (mut p, mut q) = ([[T::from_int(0); PIECE]; R], [[T::from_int(0); PIECE]; R]);
        for i in 0..R {
            p[i][..count].copy_from_slice(&a[i * size + first..][..count]);
            q[i][..count].copy_from_slice(&b[i * size + first..][..count]);
        }
        for k in (0..count).rev() {
            let (mut pk, mut qk) = ([T::from_int(0); R], [T::from_int(0); R]);
            (0..R).for_each(|i| (pk[i], qk[i]) = (p[i][k], q[i][k]));
            let (pk, qk) = (T::wide(pk), T::wide(qk));
            (0..R).for_each(|i| r[i] = qk[i] + pk[i] * r[i]);
            let next = T::narrowed(r);
            (0..R).for_each(|i| q[i][k] = next[i]);
        }
        (0..R).for_each(|i| y[i * size + first..][..count].copy_from_slice(&q[i][..count]));
        end = first;
    }
}

#[inline(always)]
unsafe fn columns<T: Lane>(a: *const T, b: *const T, y: *mut T, block: Block) {
    let Block { size, inner, first, width } = block;
    let mut r = [0f64; STRIP];
    for k in (0..size).rev() {
        let mut at = 0;
        while at < width {
            let count = TOGETHER.min(width - at);
            let (mut p, mut q) = ([T::from_int(0); TOGETHER], [T::from_int(0); TOGETHER]);
            let place = k * inner + first + at;
            // SAFETY: elements of the block, the caller's promise.
            unsafe {
                std::ptr::copy_nonoverlapping(a.add(place), p.as_mut_ptr(), count);
                std::ptr::copy_nonoverlapping(b.add(place), q.as_mut_ptr(), count);
            }
            let (p, q) = (T::wide(p), T::wide(q));
            let mut next = [0f64; TOGETHER];
            next.copy_from_slice(&r[at..at + TOGETHER]);
            (0..TOGETHER).for_each(|i| next[i] = q[i] + p[i] * next[i]);
            r[at..at + TOGETHER].copy_from_slice(&next);
            let next = T::narrowed(next);
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(next.as_ptr(), y.add(place), count) };
            at += count;
        }
    }
}

macro_rules! recur {
    ($($t:ident: $rows:ident, $columns:ident);*) => {$(
        dispatch! { unsafe fn $rows(a: &[$t], b: &[$t], y: &mut [$t], size: usize) { _I => rows(a, b, y, size) } }
        dispatch! {
            unsafe fn $columns(a: *const $t, b: *const $t, y: *mut $t, block: Block) { _I => columns(a, b, y, block) }
        }
        impl Recur for $t {
            fn recur_rows(a: &[$t], b: &[$t], y: &mut [$t], size: usize) {
                // SAFETY: no condition.
                unsafe { $rows(a, b, y, size) }
            }
            unsafe fn recur_columns(a: *const $t, b: *const $t, y: *mut $t, block: Block) {
                // SAFETY: the caller's promise.
                unsafe { $columns(a, b, y, block) }
            }
        }
    )*};
}
recur!(f32: rows_f32, columns_f32; f64: rows_f64, columns_f64; bf16: rows_bf16, columns_bf16; f16: rows_f16, columns_f16);
