//! Aligned host memory, with freed blocks kept for the next step.
//!
//! A training step frees and asks for the same sizes again and again. Fresh memory from the system
//! costs a page fault for each page and must be zeroed; a block that was just freed costs neither.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// 64 bytes on a 64-byte boundary: a cache line, and the widest vector load.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// How the panic begins that tells of too little memory: who runs programs for others catches it.
pub const OUT_OF_MEMORY: &str = "out of memory";
/// Smaller blocks are left to the allocator, which is as fast.
const KEEP_MIN: usize = 1 << 16;
/// Bytes kept at most.
const KEEP_MAX: usize = 1 << 30;

/// Freed blocks by their number of lines.
#[derive(Default)]
struct Kept {
    blocks: FxHashMap<usize, Vec<Vec<Line>>>,
    bytes: usize,
}
static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

/// Memory of somebody else's, such as another library's array: read, never written to.
pub trait Lent: Send + Sync {
    /// The bytes, which stay where they are as long as this lives.
    fn bytes(&self) -> &[u8];
}

/// A fixed-size run of bytes: aligned memory of its own, or lent memory.
pub struct Bytes {
    lines: Vec<Line>,
    len: usize,
    lent: Option<Box<dyn Lent>>,
}

impl Bytes {
    /// `len` zero bytes.
    ///
    /// # Panics
    /// If there is not so much memory, in words that begin with [`OUT_OF_MEMORY`].
    pub fn zeroed(len: usize) -> Bytes {
        let lines = bytemuck::try_zeroed_vec(len.div_ceil(64));
        let lines = lines.unwrap_or_else(|()| panic!("{OUT_OF_MEMORY}: {len} bytes were asked for"));
        Bytes { lines, len, lent: None }
    }
    /// `len` bytes of any content, for whoever writes all of them: from a freed block where one of
    /// this size is kept.
    pub fn any(len: usize) -> Bytes {
        let lines = len.div_ceil(64);
        if lines * 64 >= KEEP_MIN {
            let mut kept = KEPT.lock();
            if let Some(block) = kept.blocks.get_mut(&lines).and_then(Vec::pop) {
                kept.bytes -= lines * 64;
                return Bytes { lines: block, len, lent: None };
            }
        }
        let mut b = Bytes::zeroed(len);
        if cfg!(debug_assertions) {
            // Whoever relies on zeros shows in the tests.
            b.as_mut().fill(0xA5);
        }
        b
    }
    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Bytes {
        let mut b = Bytes::any(bytes.len());
        b.as_mut().copy_from_slice(bytes);
        b
    }
    /// Memory that is lent.
    pub fn lent(memory: Box<dyn Lent>) -> Bytes {
        Bytes { lines: Vec::new(), len: memory.bytes().len(), lent: Some(memory) }
    }
    /// Whether the memory is somebody else's.
    pub fn is_lent(&self) -> bool {
        self.lent.is_some()
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.lent {
            None => &bytemuck::cast_slice(&self.lines)[..self.len],
            Some(memory) => memory.bytes(),
        }
    }
}
impl AsMut<[u8]> for Bytes {
    fn as_mut(&mut self) -> &mut [u8] {
        if let Some(memory) = self.lent.take() {
            *self = Bytes::copy_of(memory.bytes());
        }
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}
impl Clone for Bytes {
    fn clone(&self) -> Bytes {
        Bytes::copy_of(self.as_slice())
    }
}
impl Drop for Bytes {
    fn drop(&mut self) {
        let size = self.lines.len() * 64;
        if size < KEEP_MIN {
            return;
        }
        let mut kept = KEPT.lock();
        if kept.bytes + size <= KEEP_MAX {
            kept.bytes += size;
            kept.blocks.entry(self.lines.len()).or_default().push(std::mem::take(&mut self.lines));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_memory_is_read_and_copied_before_it_is_written_to() {
        struct Owner(std::sync::Arc<Vec<u8>>);
        impl Lent for Owner {
            fn bytes(&self) -> &[u8] {
                &self.0
            }
        }
        let memory = std::sync::Arc::new(vec![1, 2, 3]);
        let mut b = Bytes::lent(Box::new(Owner(memory.clone())));
        assert!(b.is_lent() && b.as_slice().as_ptr() == memory.as_ptr());
        b.as_mut()[0] = 9;
        assert_eq!((b.as_slice(), &memory[..], b.is_lent()), (&[9, 2, 3][..], &[1, 2, 3][..], false));
        assert_eq!(std::sync::Arc::strong_count(&memory), 1, "it was given back");
    }

    #[test]
    fn a_freed_block_is_used_again_and_zeroed_is_zero() {
        let len = KEEP_MIN + 4096 + 64; // a size no other test uses
        let mut b = Bytes::any(len);
        b.as_mut().fill(7);
        let at = b.as_slice().as_ptr();
        drop(b);
        let again = Bytes::any(len);
        assert_eq!(again.as_slice().as_ptr(), at);
        assert!(Bytes::zeroed(len).as_slice().iter().all(|&x| x == 0));
        assert_eq!(again.clone().as_slice(), again.as_slice());
    }
}
