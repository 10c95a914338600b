//! Who sends what to whom in an all-reduce: pure functions of rank, number of ranks and length.
//!
//! All ways add in the same order, the tree of [`crate::merge`], so that the choice, which
//! depends on the size, never changes a bit. A ring would move as many bytes but add each part of
//! the data in another order, which is why there is none.

use smallvec::SmallVec;
use std::ops::Range;

/// How an all-reduce goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Powers of two, short data: exchange everything at distance 1, 2, 4…
    Doubling,
    /// Powers of two, long data: halve what is exchanged each time, then collect the parts.
    Halving,
    /// Any number: each rank gets its part of all ranks' data, adds it and sends it back.
    Direct,
}

/// Below this many bytes the number of messages counts, above it their length.
const SHORT_BYTES: usize = 32 << 10;

impl Algorithm {
    /// The best way for this many ranks and bytes.
    pub fn choose(ranks: usize, bytes: usize) -> Algorithm {
        match (ranks.is_power_of_two(), bytes < SHORT_BYTES) {
            (true, true) => Algorithm::Doubling,
            (true, false) => Algorithm::Halving,
            (false, _) => Algorithm::Direct,
        }
    }
}

/// One exchange with one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// With whom.
    pub peer: usize,
    /// Elements to send.
    pub send: Range<usize>,
    /// Elements to receive.
    pub receive: Range<usize>,
}

/// Part `i` of `len` elements cut into `n` nearly equal parts.
pub fn part(len: usize, n: usize, i: usize) -> Range<usize> {
    let (each, rest) = (len / n, len % n);
    let start = |i: usize| i * each + i.min(rest);
    start(i)..start(i + 1)
}

/// The exchanges of the first half of [`Algorithm::Halving`]: what is received is added. Afterwards the
/// rank holds the sum of the last exchange's `receive`; the second half goes backwards and copies.
pub fn halving(rank: usize, ranks: usize, len: usize) -> SmallVec<[Swap; 6]> {
    let (mut swaps, mut mine, mut distance) = (SmallVec::new(), 0..len, 1);
    while distance < ranks {
        let middle = mine.start + mine.len() / 2;
        let (low, high) = (mine.start..middle, middle..mine.end);
        let (keep, give) = if rank & distance == 0 { (low, high) } else { (high, low) };
        swaps.push(Swap { peer: rank ^ distance, send: give, receive: keep.clone() });
        mine = keep;
        distance *= 2;
    }
    swaps
}

/// Peers in the order in which a rank exchanges with all others: to whom it sends
/// and from whom it receives in each round.
pub fn rounds(rank: usize, ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..ranks).map(move |k| ((rank + k) % ranks, (rank + ranks - k) % ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_once() {
        for (len, n) in [(10, 3), (2, 4), (0, 2), (7, 7)] {
            let parts: Vec<_> = (0..n).map(|i| part(len, n, i)).collect();
            assert_eq!(parts.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_one_sends_the_other_receives() {
        for ranks in [2usize, 4, 8] {
            let all: Vec<_> = (0..ranks).map(|r| halving(r, ranks, 13)).collect();
            for (rank, swaps) in all.iter().enumerate() {
                for (i, s) in swaps.iter().enumerate() {
                    let other = &all[s.peer][i];
                    assert_eq!((other.peer, &other.send, &other.receive), (rank, &s.receive, &s.send));
                }
            }
            let held: usize = all.iter().map(|s| s.last().unwrap().receive.len()).sum();
            assert_eq!(held, 13);
        }
    }
}
