//! The block pool of a paged KV cache: reference counts, prefix sharing by block hash, eviction in LRU order.
//!
//! A block that no sequence uses stays in the cache under its hash until its memory is needed: the list of free blocks
//! is also the LRU list of evictable ones.

use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// A block of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// The hash of a full block: of its tokens and of everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockHash(u128);

/// The hashes of all full blocks of a sequence. Sequences with another `salt` (a tenant, an adapter) share nothing.
pub fn prefix_hashes(tokens: &[u32], block_tokens: usize, salt: &[u8]) -> Vec<BlockHash> {
    let mut parent = BlockHash::root(salt);
    let chained = |chunk| {
        parent = parent.child(chunk);
        parent
    };
    tokens.chunks_exact(block_tokens).map(chained).collect()
}

impl BlockHash {
    /// What the first block of a sequence is chained to.
    pub fn root(salt: &[u8]) -> BlockHash {
        BlockHash::of(Sha256::new().chain_update(b"root").chain_update(salt))
    }
    /// The hash of a block with these tokens after the block with this hash.
    pub fn child(self, tokens: &[u32]) -> BlockHash {
        let mut h = Sha256::new().chain_update(self.0.to_le_bytes());
        for t in tokens {
            h.update(t.to_le_bytes());
        }
        BlockHash::of(h)
    }
    fn of(h: Sha256) -> BlockHash {
        let digest = h.finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        BlockHash(u128::from_le_bytes(first))
    }
}

const NONE: u32 = u32::MAX;

#[derive(Clone)]
struct Block {
    references: u32,
    hash: Option<BlockHash>,
    /// Neighbors in the list of free blocks.
    before: u32,
    after: u32,
}

/// All blocks of a KV cache.
pub struct BlockPool {
    blocks: Vec<Block>,
    cached: HashMap<BlockHash, BlockId>,
    /// The next block to be used, and the last.
    head: u32,
    tail: u32,
    free: usize,
}

impl BlockPool {
    /// A pool of free blocks.
    pub fn new(blocks: usize) -> BlockPool {
        assert!(blocks < NONE as usize, "{blocks} blocks");
        let block = Block { references: 0, hash: None, before: NONE, after: NONE };
        let cached = HashMap::new();
        let mut pool = BlockPool { blocks: vec![block; blocks], cached, head: NONE, tail: NONE, free: 0 };
        (0..blocks as u32).for_each(|b| pool.link_last(b));
        pool
    }
    /// How many blocks there are.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }
    /// Blocks that no sequence uses.
    pub fn free_count(&self) -> usize {
        self.free
    }
    /// The share of blocks that sequences use, from 0 to 1.
    pub fn usage(&self) -> f64 {
        if self.blocks.is_empty() { 0.0 } else { 1.0 - self.free as f64 / self.blocks.len() as f64 }
    }

    fn link_last(&mut self, b: u32) {
        let last = self.tail;
        (self.blocks[b as usize].before, self.blocks[b as usize].after) = (last, NONE);
        if last == NONE {
            self.head = b
        } else {
            self.blocks[last as usize].after = b
        }
        self.tail = b;
        self.free += 1;
    }
    fn link_first(&mut self, b: u32) {
        let first = self.head;
        (self.blocks[b as usize].before, self.blocks[b as usize].after) = (NONE, first);
        if first == NONE {
            self.tail = b
        } else {
            self.blocks[first as usize].before = b
        }
        self.head = b;
        self.free += 1;
    }
    fn unlink(&mut self, b: u32) {
        let Block { before, after, .. } = self.blocks[b as usize];
        if before == NONE {
            self.head = after
        } else {
            self.blocks[before as usize].after = after
        }
        if after == NONE {
            self.tail = before
        } else {
            self.blocks[after as usize].before = before
        }
        self.free -= 1;
    }

    /// How many of these hashes, from the first on, are cached.
    pub fn hits(&self, hashes: &[BlockHash]) -> usize {
        hashes.iter().take_while(|h| self.cached.contains_key(h)).count()
    }
    /// How many of the cached blocks under these hashes are free: sharing them takes so many from the free list.
    pub fn idle(&self, hashes: &[BlockHash]) -> usize {
        let is_idle = |h: &&BlockHash| self.cached.get(h).is_some_and(|b| self.blocks[b.0 as usize].references == 0);
        hashes.iter().filter(is_idle).count()
    }
    /// Shares a cached block.
    pub fn share(&mut self, hash: BlockHash) -> Option<BlockId> {
        let id = *self.cached.get(&hash)?;
        if self.blocks[id.0 as usize].references == 0 {
            self.unlink(id.0);
        }
        self.blocks[id.0 as usize].references += 1;
        Some(id)
    }
    /// Takes `n` blocks, or none if there are fewer. What they held is forgotten.
    pub fn allocate(&mut self, n: usize) -> Option<Vec<BlockId>> {
        if n > self.free {
            return None;
        }
        let mut out = Vec::with_capacity(n);
        for _ in 0..n {
            let b = self.head;
            self.unlink(b);
            let block = &mut self.blocks[b as usize];
            assert_eq!(block.references, 0, "block {b} is free and in use");
            block.references = 1;
            if let Some(hash) = block.hash.take() {
                self.cached.remove(&hash);
            }
            out.push(BlockId(b));
        }
        Some(out)
    }
    /// Says that a block is full and what it holds. A hash that another block has stays with that block.
    pub fn publish(&mut self, id: BlockId, hash: BlockHash) {
        let block = &mut self.blocks[id.0 as usize];
        assert!(block.references > 0, "block {} is published, but free", id.0);
        if block.hash.is_none() && !self.cached.contains_key(&hash) {
            block.hash = Some(hash);
            self.cached.insert(hash, id);
        }
    }
    /// Gives blocks of a sequence back, the last first: the ends of sequences are evicted before their beginnings.
    pub fn free(&mut self, blocks: &[BlockId]) {
        for id in blocks.iter().rev() {
            let block = &mut self.blocks[id.0 as usize];
            assert!(block.references > 0, "block {} is freed twice", id.0);
            block.references -= 1;
            match (block.references, block.hash) {
                (0, None) => self.link_first(id.0),
                (0, Some(_)) => self.link_last(id.0),
                _ => {}
            }
        }
    }

    /// Panics unless the pool and these sequences agree about every block.
    pub fn check<'a>(&self, sequences: impl Iterator<Item = &'a [BlockId]>) {
        let mut uses = vec![0u32; self.blocks.len()];
        sequences.flatten().for_each(|id| uses[id.0 as usize] += 1);
        for (i, block) in self.blocks.iter().enumerate() {
            assert_eq!(block.references, uses[i], "references of block {i}");
        }
        let (mut at, mut before, mut seen) = (self.head, NONE, 0);
        while at != NONE {
            let block = &self.blocks[at as usize];
            assert_eq!((block.before, block.references), (before, 0), "block {at} in the free list");
            (before, at, seen) = (at, block.after, seen + 1);
            assert!(seen <= self.blocks.len(), "the free list is a ring");
        }
        assert_eq!((before, seen), (self.tail, self.free), "the end of the free list");
        assert_eq!(self.free, uses.iter().filter(|u| **u == 0).count(), "free blocks");
        for (hash, id) in &self.cached {
            assert_eq!(self.blocks[id.0 as usize].hash, Some(*hash), "the hash of block {}", id.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_outlive_ends() {
        let mut pool = BlockPool::new(3);
        let hashes = prefix_hashes(&[1, 2, 3, 4, 5, 6], 2, b"");
        let blocks = pool.allocate(3).unwrap();
        blocks.iter().zip(&hashes).for_each(|(b, h)| pool.publish(*b, *h));
        pool.free(&blocks);
        assert_eq!((pool.free_count(), pool.hits(&hashes)), (3, 3));
        let other = pool.allocate(1).unwrap();
        assert_eq!(pool.hits(&hashes), 2, "the end of the sequence went first");
        let shared = pool.share(hashes[0]).unwrap();
        assert_eq!((pool.free_count(), pool.hits(&hashes[..1])), (1, 1));
        pool.check([&other[..], &[shared]].into_iter());
        assert!(pool.allocate(2).is_none());
    }

    #[test]
    fn salts_and_prefixes_tell_sequences_apart() {
        let a = prefix_hashes(&[1, 2, 3, 4, 9], 2, b"a");
        assert_eq!(a.len(), 2, "only full blocks");
        assert_ne!(a, prefix_hashes(&[1, 2, 3, 4], 2, b"b"));
        assert_ne!(a[1], prefix_hashes(&[0, 2, 3, 4], 2, b"a")[1], "a hash covers what came before");
    }
}
