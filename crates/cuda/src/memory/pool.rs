//! The caching allocator of device memory, as decisions without a device.
//!
//! All work of a device goes through one stream, so a block that was given back can be handed out
//! at once: what is launched next runs after what is still using it. Sizes are rounded, and of
//! several blocks the first in memory is taken, so that a step finds the blocks of an earlier one
//! in the same order, which lets a captured graph run again. Where a large block of the size is not kept, one
//! that is little larger will do: a program whose shapes change all the time does not keep memory for each.

use runtime::Memory;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Small blocks are multiples of this.
const SMALL: usize = 512;
/// Blocks from here on are multiples of it.
const LARGE: usize = 1 << 21;

/// A large block may be larger than what was asked for by this part of it.
const SPARE: usize = 8;

/// Blocks that were given back, by size and address.
#[derive(Default)]
pub struct Pool {
    free: BTreeMap<usize, BTreeSet<u64>>,
    /// Sizes of blocks in use that are larger than what was asked for.
    larger: FxHashMap<u64, usize>,
    memory: Memory,
}

/// The size of the block for a request.
pub fn rounded(bytes: usize) -> usize {
    let unit = if bytes >= LARGE { LARGE } else { SMALL };
    bytes.max(1).next_multiple_of(unit)
}

impl Pool {
    /// A block of at least `bytes`: a kept one of the size, or a new one from `take`. Where the
    /// device has no more, everything kept goes back through `release` first.
    pub fn take<E>(
        &mut self,
        bytes: usize,
        take: impl Fn(usize) -> Result<u64, E>,
        release: impl Fn(u64),
    ) -> Result<u64, E> {
        let mut size = rounded(bytes);
        let block = match self.kept(size) {
            Some((block, is)) => {
                if is > size {
                    self.larger.insert(block, is);
                    size = is;
                }
                block
            }
            None => {
                let block = match take(size) {
                    Ok(block) => block,
                    Err(_) => {
                        self.release_kept(release);
                        take(size)?
                    }
                };
                self.memory.held_bytes += size;
                block
            }
        };
        self.memory.used_bytes += size;
        self.memory.peak_bytes = self.memory.peak_bytes.max(self.memory.used_bytes);
        Ok(block)
    }
    /// A kept block of this size, or of the next one if it is large and not much larger.
    fn kept(&mut self, size: usize) -> Option<(u64, usize)> {
        let most = if size >= LARGE { size + size / SPARE } else { size };
        let fits = self.free.range_mut(size..=most);
        fits.into_iter().find_map(|(&is, blocks)| Some((blocks.pop_first()?, is)))
    }
    /// Takes a block of `bytes` back.
    pub fn give(&mut self, block: u64, bytes: usize) {
        let size = self.larger.remove(&block).unwrap_or_else(|| rounded(bytes));
        self.memory.used_bytes -= size;
        self.free.entry(size).or_default().insert(block);
    }
    /// Gives every kept block back to the device.
    pub fn release_kept(&mut self, release: impl Fn(u64)) {
        for (size, blocks) in std::mem::take(&mut self.free) {
            self.memory.held_bytes -= size * blocks.len();
            blocks.into_iter().for_each(&release);
        }
    }
    /// What is in use.
    pub fn memory(&self) -> Memory {
        self.memory
    }
    /// Forgets the highest use so far.
    pub fn reset_peak(&mut self) {
        self.memory.peak_bytes = self.memory.used_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn blocks_come_back_at_the_same_address() {
        let next = Cell::new(0);
        let take = |n: usize| -> Result<u64, ()> { Ok(next.replace(next.get() + n as u64)) };
        let mut p = Pool::default();
        let a = p.take(1000, take, |_| ()).unwrap();
        let b = p.take(1000, take, |_| ()).unwrap();
        assert_ne!(a, b);
        p.give(b, 1000);
        assert_eq!(p.take(700, take, |_| ()), Ok(b));
        assert_eq!(p.memory(), Memory { used_bytes: 2048, peak_bytes: 2048, held_bytes: 2048 });
        p.give(a, 1000);
        p.give(b, 700);
        assert_eq!(p.memory().used_bytes, 0);
    }

    #[test]
    fn changing_sizes_share_blocks() {
        let next = Cell::new(0);
        let take = |n: usize| -> Result<u64, ()> { Ok(next.replace(next.get() + n as u64)) };
        let mut p = Pool::default();
        for turn in 0..3 {
            for size in (16..=64).rev() {
                let bytes = size * LARGE;
                let block = p.take(bytes, take, |_| ()).unwrap();
                assert!(p.memory().used_bytes >= bytes, "turn {turn}");
                p.give(block, bytes);
            }
        }
        assert_eq!(p.memory().used_bytes, 0);
        // One block for each eighth, not one for each size, which would be 1960.
        assert!(p.memory().held_bytes < 600 * LARGE, "{} blocks", p.memory().held_bytes / LARGE);
    }

    #[test]
    fn kept_blocks_make_room() {
        let room = Cell::new(4096usize);
        let freed = RefCell::new(Vec::new());
        let take = |n: usize| match room.get().checked_sub(n) {
            Some(rest) => {
                room.set(rest);
                Ok(rest as u64)
            }
            None => Err("full"),
        };
        let release = |b: u64| {
            freed.borrow_mut().push(b);
            room.set(room.get() + 2048);
        };
        let mut p = Pool::default();
        let a = p.take(2048, take, release).unwrap();
        p.give(a, 2048);
        assert!(p.take(4096, take, release).is_ok(), "the kept block is released first");
        assert_eq!(*freed.borrow(), [a]);
        assert_eq!(p.take(512, take, release), Err("full"));
        assert_eq!(p.memory().held_bytes, 4096);
    }
}
