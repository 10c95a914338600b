//! Scratch memory that each thread keeps between calls, so that kernels do not allocate.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;

/// Bytes of alignment: a cache line, and a vector of AVX-512.
const ALIGN: usize = 64;
/// Blocks from this size on take whole huge pages: a processor remembers where few of them lie, and
/// what lies in one finds room in the second-level cache, wherever the system has put the page.
const LARGE: usize = 1 << 20;
const HUGE: usize = 1 << 21;

/// Size and alignment of a block for at least `bytes`.
fn layout(bytes: usize) -> Layout {
    let (unit, align) = if bytes >= LARGE { (HUGE, HUGE) } else { (4096, ALIGN) };
    let bytes = bytes.next_multiple_of(unit).max(unit);
    Layout::from_size_align(bytes, align).expect("scratch memory within the address space")
}

/// A block of raw memory.
struct Block {
    p: *mut u8,
    bytes: usize,
}

impl Block {
    fn new(bytes: usize) -> Block {
        let layout = layout(bytes);
        // SAFETY: the size is not zero.
        let p = unsafe { alloc(layout) };
        if p.is_null() {
            handle_alloc_error(layout);
        }
        #[cfg(target_os = "linux")]
        if layout.align() == HUGE {
            // SAFETY: whole pages of the block's own; without huge pages it is only slower.
            unsafe { libc::madvise(p.cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        Block { p, bytes: layout.size() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated below with this layout, which its own size gives again.
            unsafe { dealloc(self.p, layout(self.bytes)) };
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
        let bytes = len * size_of::<T>();
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
        let block = block.unwrap_or_else(|| Block::new(bytes));
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
