//! Scratch memory that each thread keeps between calls, so that kernels do not allocate.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;

/// Bytes of alignment: a cache line, and a vector of AVX-512.
const ALIGN: usize = 64;

/// A block of raw memory.
struct Block {
    p: *mut u8,
    bytes: usize,
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated below with this layout.
            unsafe { dealloc(self.p, Layout::from_size_align_unchecked(self.bytes, ALIGN)) };
        }
    }
}

/// Blocks that nested uses on one thread may hold at the same time.
const DEPTH: usize = 12;

thread_local! {
    static KEPT: [Cell<Option<Block>>; DEPTH] = const { [const { Cell::new(None) }; DEPTH] };
}

/// Scratch memory for `len` elements, aligned to 64 bytes, not initialized; goes back to the
/// thread when dropped.
pub(crate) struct Scratch<T> {
    block: Option<Block>,
    len: usize,
    marker: std::marker::PhantomData<T>,
}

impl<T: Copy> Scratch<T> {
    /// Takes a block of the thread's, enlarged if need be.
    pub(crate) fn new(len: usize) -> Scratch<T> {
        let bytes = (len * size_of::<T>()).next_multiple_of(4096).max(4096);
        // The smallest kept block that is large enough, else any that can be replaced.
        let block = KEPT.with(|kept| {
            let blocks = kept.iter().filter_map(|slot| {
                let block = slot.take()?;
                let size = block.bytes;
                slot.set(Some(block));
                Some((size, slot))
            });
            let fit = blocks.filter(|(size, _)| *size >= bytes).min_by_key(|(size, _)| *size);
            fit.and_then(|(_, slot)| slot.take())
        });
        let block = block.unwrap_or_else(|| {
            let layout = Layout::from_size_align(bytes, ALIGN).expect("scratch memory within the address space");
            // SAFETY: the size is not zero.
            let p = unsafe { alloc(layout) };
            if p.is_null() {
                handle_alloc_error(layout);
            }
            Block { p, bytes }
        });
        Scratch { block: Some(block), len, marker: std::marker::PhantomData }
    }

    /// The first element.
    pub(crate) fn ptr(&self) -> *mut T {
        self.block.as_ref().map_or(std::ptr::null_mut(), |b| b.p).cast()
    }

    /// The elements.
    ///
    /// # Safety
    /// All must have been written before they are read.
    #[expect(clippy::mut_from_ref, reason = "scratch memory is handed out in parts")]
    pub(crate) unsafe fn slice(&self) -> &mut [T] {
        // SAFETY: the block holds `len` elements; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.len) }
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        let mut back = self.block.take();
        // A thread that is ending has nowhere to keep it.
        let _ = KEPT.try_with(|kept| {
            for slot in kept {
                match slot.take() {
                    None => {
                        slot.set(back.take());
                        return;
                    }
                    Some(block) => slot.set(Some(block)),
                }
            }
            // Full: the larger blocks are the more useful ones.
            for slot in kept {
                let Some(mine) = back.take() else { return };
                let kept = slot.take();
                let (large, small) = match kept {
                    Some(k) if k.bytes > mine.bytes => (k, Some(mine)),
                    other => (mine, other),
                };
                slot.set(Some(large));
                back = small;
            }
        });
    }
}
