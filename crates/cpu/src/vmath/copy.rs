//! Copies of bytes by vectors.
//!
//! The C library's `memcpy` uses `rep movsb` from some kilobytes on. On AMD processors that is ten times slower where
//! source and destination lie some bytes apart from each other modulo a page.

#![allow(unsafe_code)]

use super::dispatch;
use super::simd::{Isa, Vector};

/// Pieces below and above are left to `memcpy`: it takes vectors for short ones, and stores around the caches for long
/// ones.
const PIECE: std::ops::Range<usize> = 1 << 10..1 << 20;

dispatch! {
    unsafe fn copy(from: *const u8, to: *mut u8, n: usize) { I => by_vectors::<<I as Isa>::S>(from, to, n) }
}

#[inline(always)]
unsafe fn by_vectors<V: Vector<E = f32>>(from: *const u8, to: *mut u8, n: usize) {
    // Four at a time: the compiler would turn a loop of one into a call of `memcpy`.
    let (size, mut i) = (size_of::<f32>() * V::N, 0);
    // SAFETY: indexes stay below `n`, the caller's promise; vectors need no alignment.
    unsafe {
        while i + 4 * size <= n {
            let (p, q) = (from.add(i).cast::<f32>(), to.add(i).cast::<f32>());
            let (a, b) = (V::load(p), V::load(p.add(V::N)));
            let (c, d) = (V::load(p.add(2 * V::N)), V::load(p.add(3 * V::N)));
            a.store(q);
            b.store(q.add(V::N));
            c.store(q.add(2 * V::N));
            d.store(q.add(3 * V::N));
            i += 4 * size;
        }
        std::ptr::copy_nonoverlapping(from.add(i), to.add(i), n - i);
    }
}

/// Copies `n` bytes.
///
/// # Safety
/// `n` bytes behind each pointer, apart.
#[inline]
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { if PIECE.contains(&n) { copy(from, to, n) } else { std::ptr::copy_nonoverlapping(from, to, n) } }
}

/// Copies a slice to another of its length.
pub fn copy_slice<T: Copy>(from: &[T], to: &mut [T]) {
    assert!(from.len() == to.len(), "slices of equal length expected, got {} and {}", from.len(), to.len());
    // SAFETY: both have as many bytes, and a slice that is written is apart from others.
    unsafe { copy_bytes(from.as_ptr().cast(), to.as_mut_ptr().cast(), size_of_val(from)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_and_no_other_changes() {
        let from: Vec<u8> = (0..5000u32).map(|i| (i * 31 % 251) as u8).collect();
        for (start, n) in [(0, 1023), (1, 1024), (3, 1027), (10, 4090), (63, 4096), (7, 1279), (0, 0)] {
            let mut to = vec![255u8; n + 20];
            copy_slice(&from[start..start + n], &mut to[10..10 + n]);
            assert!(to[10..10 + n] == from[start..start + n]);
            assert!(to[..10].iter().chain(&to[10 + n..]).all(|&b| b == 255));
        }
    }
}
