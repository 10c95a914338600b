//! Aligned host memory, with freed blocks kept for the next step.
//!
//! A training step frees and asks for the same sizes again and again. Fresh memory from the system
//! costs a page fault for each page and must be zeroed; a block that was just freed costs neither.

use memmap2::MmapMut;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// 64 bytes on a 64-byte boundary: a cache line, and the widest vector load.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// How the panic begins that tells of too little memory: who runs programs for others catches it.
pub const OUT_OF_MEMORY: &str = "out of memory";
/// Smaller blocks are left to the allocator, which is as fast.
const KEEP_MIN: usize = 1 << 16;
/// Bytes kept at most, besides what is held ready by a [`Reserve`].
const KEEP_MAX: usize = 1 << 30;
/// Pages of this size, where the system has them, hold a large block: a processor remembers where
/// few of them lie, which is quicker than many small ones.
const HUGE: usize = 1 << 21;
/// The smallest pages of any system.
const PAGE: usize = 4096;

/// Foreign memory, such as another library's array: read, never written to.
pub trait ForeignMemory: Send + Sync {
    /// The bytes, which stay where they are as long as this lives.
    fn bytes(&self) -> &[u8];
}

/// Where bytes lie.
enum Block {
    Lines(Vec<Line>),
    /// A private mapping, of which the bytes from the first boundary of huge pages on are used.
    Pages(MmapMut),
    Foreign(Box<dyn ForeignMemory>),
}

impl Block {
    /// At least `len` zero bytes.
    fn zeroed(len: usize) -> Block {
        if len >= HUGE
            && let Some(map) = pages(len)
        {
            return Block::Pages(map);
        }
        let lines = bytemuck::try_zeroed_vec(len.div_ceil(64));
        Block::Lines(lines.unwrap_or_else(|()| panic!("{OUT_OF_MEMORY}: {len} bytes were asked for")))
    }
    fn as_slice(&self) -> &[u8] {
        match self {
            Block::Lines(lines) => bytemuck::cast_slice(lines),
            Block::Pages(map) => &map[first_huge(map)..],
            Block::Foreign(memory) => memory.bytes(),
        }
    }
    /// The bytes to write to; lent ones are copied first.
    fn as_mut(&mut self) -> &mut [u8] {
        if let Block::Foreign(memory) = self {
            let mut own = Block::zeroed(memory.bytes().len());
            own.as_mut()[..memory.bytes().len()].copy_from_slice(memory.bytes());
            *self = own;
        }
        match self {
            Block::Foreign(_) => unreachable!("lent memory was copied"),
            Block::Lines(lines) => bytemuck::cast_slice_mut(lines),
            Block::Pages(map) => {
                let first = first_huge(map);
                &mut map[first..]
            }
        }
    }
}

/// How far the first boundary of huge pages is into a mapping.
fn first_huge(map: &[u8]) -> usize {
    map.as_ptr().addr().wrapping_neg() % HUGE
}

/// Memory from the system, in huge pages but for what is left at its end; `None` if the system
/// gives none in this way.
fn pages(len: usize) -> Option<MmapMut> {
    // What is mapped and never touched costs nothing.
    let map = MmapMut::map_anon(len.checked_add(HUGE)?).ok()?;
    #[cfg(target_os = "linux")]
    {
        // Without huge pages it is only slower.
        let _ = map.advise_range(memmap2::Advice::HugePage, first_huge(&map), len / HUGE * HUGE);
    }
    Some(map)
}

/// Freed blocks of one length.
#[derive(Default)]
struct Kept {
    blocks: Vec<Block>,
    /// How many of them reserves hold ready.
    reserved: usize,
    /// When one was asked for last.
    asked: u64,
}

/// Freed blocks by their length, in whole lines.
#[derive(Default)]
struct FreeList {
    kept: FxHashMap<usize, Kept>,
    bytes: usize,
    /// Bytes that reserves hold ready.
    reserved: usize,
    /// Counts what is asked for.
    clock: u64,
}

impl FreeList {
    /// Keeps a block, and hands back what there is no room for: blocks of lengths that were not asked for the longest.
    /// A program whose sizes change does not fill the list with those it has left behind.
    fn put(&mut self, size: usize, block: Block) -> Vec<Block> {
        let most = KEEP_MAX + self.reserved;
        let mut over = Vec::new();
        while size <= most && self.bytes + size > most {
            let is_free = |k: &Kept| k.blocks.len() > k.reserved;
            let free = self.kept.iter().filter(|(_, k)| is_free(k));
            let Some(length) = free.min_by_key(|(size, k)| (k.asked, **size)).map(|(size, _)| *size) else { break };
            let Some(kept) = self.kept.get_mut(&length) else { break };
            over.extend(kept.blocks.pop());
            if kept.blocks.is_empty() && kept.reserved == 0 {
                self.kept.remove(&length);
            }
            self.bytes -= length;
        }
        if self.bytes + size > most {
            over.push(block);
        } else {
            self.bytes += size;
            let new = || Kept { asked: self.clock, ..Kept::default() };
            self.kept.entry(size).or_insert_with(new).blocks.push(block);
        }
        over
    }
    /// A block of this length, if one is kept.
    fn take(&mut self, size: usize) -> Option<Block> {
        self.clock += 1;
        let kept = self.kept.get_mut(&size)?;
        kept.asked = self.clock;
        let block = kept.blocks.pop()?;
        self.bytes -= size;
        Some(block)
    }
}
static FREE: LazyLock<Mutex<FreeList>> = LazyLock::new(Mutex::default);

/// A freed block for this many bytes, if one is kept.
fn take(len: usize) -> Option<Block> {
    let size = len.next_multiple_of(64);
    if size < KEEP_MIN {
        return None;
    }
    FREE.lock().take(size)
}

/// Memory held ready for a second copy of some values: while a checkpoint is written, the steps
/// that follow cannot change in place what is in it, and memory fresh from the system would keep
/// them waiting. As long as it lives, that much more is kept of what is freed.
#[derive(Debug)]
pub struct Reserve {
    sizes: Vec<usize>,
}

impl Reserve {
    /// For values of these lengths.
    pub fn new(lengths: impl IntoIterator<Item = usize>) -> Reserve {
        let sizes: Vec<usize> =
            lengths.into_iter().map(|n| n.next_multiple_of(64)).filter(|n| *n >= KEEP_MIN).collect();
        let mut free = FREE.lock();
        for &size in &sizes {
            free.reserved += size;
            free.kept.entry(size).or_default().reserved += 1;
        }
        drop(free);
        Reserve { sizes }
    }
    /// Takes the memory from the system, which takes as long as writing to all of it: for a thread
    /// of its own.
    pub fn fill(&self) {
        for &size in &self.sizes {
            let mut block = Block::zeroed(size);
            // A page is there once something was written to it.
            block.as_mut()[..size].iter_mut().step_by(PAGE).for_each(|b| *b = 0);
            FREE.lock().put(size, block);
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let mut over = Vec::new();
        let mut free = FREE.lock();
        for size in &self.sizes {
            free.reserved -= size;
            if let Some(kept) = free.kept.get_mut(size) {
                kept.reserved -= 1;
            }
        }
        for size in &self.sizes {
            if free.bytes <= KEEP_MAX + free.reserved {
                break;
            }
            if let Some(block) = free.kept.get_mut(size).and_then(|k| k.blocks.pop()) {
                free.bytes -= size;
                over.push(block);
            }
        }
        // The system takes back what is over without the lock.
        drop(free);
    }
}

/// A fixed-size run of bytes: aligned its own memory, or lent memory.
pub struct Bytes {
    block: Block,
    len: usize,
    /// How many arrays of other libraries lie in it.
    outside: AtomicUsize,
}

/// Memory that another library has until this is dropped. It may write there, whatever it was told.
pub struct Outside(Arc<Bytes>);

impl Outside {
    /// Hands memory out.
    pub fn new(bytes: Arc<Bytes>) -> Outside {
        bytes.outside.fetch_add(1, Ordering::Relaxed);
        Outside(bytes)
    }
}
impl Drop for Outside {
    fn drop(&mut self) {
        self.0.outside.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bytes {
    /// `len` zero bytes: a freed block of this size, where one is kept, so that a loop which frees
    /// what it asks for here does not fill memory with blocks that are kept for others.
    ///
    /// # Panics
    /// If there is not so much memory, in words that begin with [`OUT_OF_MEMORY`].
    pub fn zeroed(len: usize) -> Bytes {
        match take(len) {
            Some(block) => {
                let mut b = Bytes::of(block, len);
                b.as_mut().fill(0);
                b
            }
            None => Bytes::of(Block::zeroed(len), len),
        }
    }
    /// `len` uninitialized bytes, for callers that write all of them: from a freed block where one of
    /// this size is kept.
    pub fn any(len: usize) -> Bytes {
        if let Some(block) = take(len) {
            return Bytes::of(block, len);
        }
        let mut b = Bytes::of(Block::zeroed(len), len);
        if cfg!(debug_assertions) {
            // Code that relies on zeros fails in the tests.
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
    /// Gives the memory back to the system instead of keeping it for the next who asks for as much.
    pub fn release(mut self) {
        (self.block, self.len) = (Block::Lines(Vec::new()), 0);
    }
    /// Memory that is lent.
    pub fn foreign(memory: Box<dyn ForeignMemory>) -> Bytes {
        let len = memory.bytes().len();
        Bytes::of(Block::Foreign(memory), len)
    }
    fn of(block: Block, len: usize) -> Bytes {
        Bytes { block, len, outside: AtomicUsize::new(0) }
    }
    /// How many arrays of other libraries lie in it.
    pub fn outside(&self) -> usize {
        self.outside.load(Ordering::Relaxed)
    }
    /// True if the memory is foreign.
    pub fn is_foreign(&self) -> bool {
        matches!(self.block, Block::Foreign(_))
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.block.as_slice()[..self.len]
    }
}
impl AsMut<[u8]> for Bytes {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.block.as_mut()[..self.len]
    }
}
impl Clone for Bytes {
    fn clone(&self) -> Bytes {
        Bytes::copy_of(self.as_slice())
    }
}
impl Drop for Bytes {
    fn drop(&mut self) {
        let size = self.len.next_multiple_of(64);
        if size < KEEP_MIN || self.is_foreign() {
            return;
        }
        let block = std::mem::replace(&mut self.block, Block::Lines(Vec::new()));
        // What is not kept goes back to the system without the lock.
        let _over = FREE.lock().put(size, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_memory_is_read_and_copied_before_it_is_written_to() {
        struct Owner(std::sync::Arc<Vec<u8>>);
        impl ForeignMemory for Owner {
            fn bytes(&self) -> &[u8] {
                &self.0
            }
        }
        let memory = std::sync::Arc::new(vec![1, 2, 3]);
        let mut b = Bytes::foreign(Box::new(Owner(memory.clone())));
        assert!(b.is_foreign() && b.as_slice().as_ptr() == memory.as_ptr());
        b.as_mut()[0] = 9;
        assert_eq!((b.as_slice(), &memory[..], b.is_foreign()), (&[9, 2, 3][..], &[1, 2, 3][..], false));
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
        drop(again);
        let again = Bytes::zeroed(len);
        assert_eq!(again.as_slice().as_ptr(), at, "what is kept does not pile up");
        assert!(again.as_slice().iter().all(|&x| x == 0));
        assert_eq!(again.clone().as_slice(), again.as_slice());
        let kept = || FREE.lock().kept.get(&len).map_or(0, |k| k.blocks.len());
        let before = kept();
        again.release();
        assert_eq!(kept(), before, "what is given back is not kept");
    }

    #[test]
    fn lengths_that_nobody_asks_for_make_room() {
        // Mapped, never touched.
        let block = |len: usize| Block::Pages(pages(len).expect("address space"));
        let part = KEEP_MAX / 4;
        let mut list = FreeList::default();
        assert!((0..4).all(|k| list.put(part - 64 * k, block(part)).is_empty()));
        assert!(list.take(part).is_some() && list.put(part, block(part)).is_empty(), "asked for last");
        list.kept.entry(part - 64).or_default().reserved = 1;
        assert_eq!(list.put(part + 64, block(part)).len(), 1);
        let left: Vec<bool> = (0..4).map(|k| list.kept.contains_key(&(part - 64 * k))).collect();
        assert_eq!(
            left,
            [true, true, true, false],
            "the shortest of those never asked for went first, not the reserved one"
        );
        assert_eq!(list.put(2 * KEEP_MAX, block(part)).len(), 1, "more than all there is room for is not kept");
    }

    #[test]
    fn a_reserve_holds_memory_ready_and_gives_it_back() {
        let len = 3 * KEEP_MIN + 320; // a size no other test uses
        let kept = || FREE.lock().kept.get(&len).map_or(0, |k| k.blocks.len());
        let reserve = Reserve::new([len, 8, len]);
        assert!(FREE.lock().reserved >= 2 * len);
        reserve.fill();
        assert_eq!(kept(), 2);
        let b = Bytes::any(len);
        assert_eq!(kept(), 1, "it is what is taken next");
        drop((reserve, b));
        assert_eq!(kept(), 2, "within what is kept anyway");
        let mut over = FreeList { bytes: KEEP_MAX, ..FreeList::default() };
        assert_eq!(over.put(len, Block::zeroed(len)).len(), 1);
        over.reserved = len;
        assert!(over.put(len, Block::zeroed(len)).is_empty());
    }

    #[test]
    fn large_blocks_begin_on_huge_pages() {
        for len in [HUGE - 64, HUGE, 2 * HUGE + 100] {
            let mut b = Bytes::zeroed(len);
            assert_eq!(b.as_slice().len(), len);
            assert!(b.as_slice().iter().all(|&x| x == 0));
            b.as_mut().fill(3);
            let step = if len < HUGE { 64 } else { HUGE };
            assert_eq!(b.as_slice().as_ptr().addr() % step, 0);
            assert_eq!(Bytes::copy_of(b.as_slice()).as_slice(), b.as_slice());
        }
    }
}
