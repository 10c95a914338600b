//! Order of elements: sorting by radix and by merging, selection of a few.
//!
//! Elements become unsigned keys that sort as they do (NaN last, -0 as 0), together with their index: no two are
//! equal, so any sort is a stable one.

#![allow(unsafe_code)]

use super::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
use half::{bf16, f16};

/// An element with an order.
pub trait Ordered: Copy + Send + Sync + 'static {
    /// Unsigned, at most 64 bits.
    type Key: Key;
    /// Sorts as the element does.
    fn key(self) -> Self::Key;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// The element with a key; `original` where several have it.
    fn of_key(key: Self::Key, original: impl FnOnce() -> Self) -> Self;
    /// The keys of elements, or their complements, into `to`.
    fn keys(x: &[Self], is_reverse: bool, to: &mut Vec<Self::Key>) {
        to.clear();
        if is_reverse {
            to.extend(x.iter().map(|x| !x.key()));
        } else {
            to.extend(x.iter().map(|x| x.key()));
        }
    }
}

/// An unsigned number.
pub trait Key: Copy + Ord + Send + Sync + Default + 'static + std::ops::Not<Output = Self> {
    /// A key with its index, which sorts by the key first.
    type Item: Item;
    /// The two together.
    fn with(self, index: u32) -> Self::Item;
    /// That of an item.
    fn of(item: Self::Item) -> Self;
}

/// A key with an index.
pub trait Item: Copy + Ord + Send + Sync + Default + 'static {
    /// Bits of the key.
    const BITS: u32;
    /// The index.
    fn index(self) -> usize;
    /// Eight bits of the key from a bit on.
    fn digit(self, shift: u32) -> usize;
    /// With a key that is less by that of `least`.
    fn lowered(self, least: Self) -> Self;
}
impl Item for u64 {
    const BITS: u32 = 32;
    #[inline(always)]
    fn index(self) -> usize {
        self as u32 as usize
    }
    #[inline(always)]
    fn digit(self, shift: u32) -> usize {
        (self >> (32 + shift)) as usize & 255
    }
    #[inline(always)]
    fn lowered(self, least: u64) -> u64 {
        self - (least >> 32 << 32)
    }
}
impl Item for (u64, u32) {
    const BITS: u32 = 64;
    #[inline(always)]
    fn index(self) -> usize {
        self.1 as usize
    }
    #[inline(always)]
    fn digit(self, shift: u32) -> usize {
        (self.0 >> shift) as usize & 255
    }
    #[inline(always)]
    fn lowered(self, least: Self) -> Self {
        (self.0 - least.0, self.1)
    }
}
impl Key for u32 {
    type Item = u64;
    #[inline(always)]
    fn with(self, index: u32) -> u64 {
        u64::from(self) << 32 | u64::from(index)
    }
    #[inline(always)]
    fn of(item: u64) -> u32 {
        (item >> 32) as u32
    }
}
impl Key for u64 {
    type Item = (u64, u32);
    #[inline(always)]
    fn with(self, index: u32) -> (u64, u32) {
        (self, index)
    }
    #[inline(always)]
    fn of(item: (u64, u32)) -> u64 {
        item.0
    }
}

/// Writes keys with the instructions of the caller. Unsafe only as every body of [`dispatch!`] is.
#[inline(always)]
unsafe fn fill_keys<T: Ordered>(x: &[T], is_reverse: bool, to: &mut [T::Key]) {
    if is_reverse {
        to.iter_mut().zip(x).for_each(|(to, x)| *to = !x.key());
    } else {
        to.iter_mut().zip(x).for_each(|(to, x)| *to = x.key());
    }
}

macro_rules! float_order {
    ($t:ty, $bits:ty, $key:ty, $keys:ident) => {
        dispatch! {
            unsafe fn $keys(x: &[$t], is_reverse: bool, to: &mut [$key]) { _I => fill_keys(x, is_reverse, to) }
        }
        impl Ordered for $t {
            fn keys(x: &[$t], is_reverse: bool, to: &mut Vec<$key>) {
                to.resize(x.len(), 0);
                // SAFETY: no condition.
                unsafe { $keys(x, is_reverse, to) }
            }
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                const INFINITE: $bits = <$t>::INFINITY.to_bits();
                let bits = self.to_bits();
                let size = bits & !SIGN;
                let up = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                (if size > INFINITE {
                    <$bits>::MAX
                } else if size == 0 {
                    SIGN
                } else {
                    up
                }) as $key
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$t>::is_nan(self)
            }
            #[inline(always)]
            fn of_key(key: $key, original: impl FnOnce() -> $t) -> $t {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                match key as $bits {
                    // Both zeros, and every NaN.
                    SIGN | <$bits>::MAX => original(),
                    key => <$t>::from_bits(if key & SIGN == 0 { !key } else { key ^ SIGN }),
                }
            }
        }
    };
}
float_order!(f32, u32, u32, keys_f32);
float_order!(f64, u64, u64, keys_f64);
float_order!(f16, u16, u32, keys_f16);
float_order!(bf16, u16, u32, keys_bf16);

macro_rules! int_order {
    ($($t:ty, $wide:ty, $key:ty);* $(;)?) => {$(
        impl Ordered for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                // From the least on.
                (self as $wide).wrapping_sub(<$wide>::MIN) as $key
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn of_key(key: $key, _: impl FnOnce() -> $t) -> $t {
                (key as $wide).wrapping_add(<$wide>::MIN) as $t
            }
        }
    )*};
}
int_order!(i8, i32, u32; i16, i32, u32; i32, i32, u32; u8, u32, u32; u16, u32, u32; u32, u32, u32; i64, i64, u64; u64, u64, u64);

/// Elements below which comparing is faster than counting.
const RADIX_MIN: usize = 1024;
/// Elements of a piece of a long lane that one thread sorts.
const PIECE: usize = 1 << 16;

/// Sorts items. A long list is cut into pieces that threads sort and merge.
pub fn sort<I: Item>(items: &mut [I]) {
    let n = items.len();
    if n < 2 * PIECE || pool::is_inside_task() {
        return sort_piece(items);
    }
    // As no two items are equal, there is one result, however many pieces there are: as many as threads, for each
    // doubling is another merge.
    let pieces = (n / PIECE).next_power_of_two().min(pool::threads().next_power_of_two()).min(64);
    if pieces == 1 {
        return sort_piece(items);
    }
    let bound = |p: usize| p * n / pieces;
    let all = Shared::new(items.as_mut_ptr());
    // SAFETY: pieces do not overlap.
    pool::parallel_for(pieces, &|p| sort_piece(unsafe { all.slice(bound(p), bound(p + 1) - bound(p)) }));
    let spare = Scratch::<I>::new(n);
    let (mut from, mut to) = (all, Shared::new(spare.ptr()));
    let mut width = 1;
    while width < pieces {
        merge_round(from, to, n, &bound, pieces, width);
        (from, to) = (to, from);
        width *= 2;
    }
    if from.get() != all.get() {
        // SAFETY: both hold all items.
        unsafe { std::ptr::copy_nonoverlapping(from.get(), all.get(), n) };
    }
}

/// Merges neighbors of `width` pieces, all in tasks of equal size.
fn merge_round<I: Item>(
    from: Shared<I>,
    to: Shared<I>,
    n: usize,
    bound: &(dyn Fn(usize) -> usize + Sync),
    pieces: usize,
    width: usize,
) {
    let tasks = n.div_ceil(PIECE);
    pool::parallel_for(tasks, &|task| {
        let (mut start, end) = (task * n / tasks, (task + 1) * n / tasks);
        while start < end {
            // The pair that `start` lies in.
            let pair = (0..pieces / (2 * width)).find(|&k| bound((k + 1) * 2 * width) > start).unwrap_or(0);
            let [low, middle, high] = [0, 1, 2].map(|k| bound((pair * 2 + k) * width));
            let stop = end.min(high);
            // SAFETY: pieces are read only, and each task writes its own stretch.
            unsafe {
                let (a, b) = (from.slice(low, middle - low), from.slice(middle, high - middle));
                let (i, j) = (cut(a, b, start - low), cut(a, b, stop - low));
                let (a, b) = (&a[i..j], &b[start - low - i..stop - low - j]);
                merge(a, b, to.slice(start, stop - start));
            }
            start = stop;
        }
    });
}

/// How many of the first `count` items of the merged lists come from `a`.
fn cut<I: Item>(a: &[I], b: &[I], count: usize) -> usize {
    let (mut low, mut high) = (count.saturating_sub(b.len()), count.min(a.len()));
    while low < high {
        let i = (low + high) / 2;
        if a[i] < b[count - 1 - i] { low = i + 1 } else { high = i }
    }
    low
}

fn merge<I: Item>(a: &[I], b: &[I], to: &mut [I]) {
    let (mut i, mut j) = (0, 0);
    for x in to {
        let is_left = j == b.len() || (i < a.len() && a[i] < b[j]);
        *x = if is_left { a[i] } else { b[j] };
        i += usize::from(is_left);
        j += usize::from(!is_left);
    }
}

/// Sorts items on this thread: by counting digits from the lowest on, without those that are all equal. Digits are
/// those of the distance from the least key, so that a small range has few.
fn sort_piece<I: Item>(items: &mut [I]) {
    let n = items.len();
    if n < RADIX_MIN {
        return items.sort_unstable();
    }
    let (least, most) = items.iter().fold((items[0], items[0]), |(a, b), &x| (a.min(x), b.max(x)));
    let range = most.lowered(least);
    let digits = (0..I::BITS / 8).rev().find(|d| range.digit(8 * d) != 0).map_or(0, |d| d as usize + 1);
    let mut counts = vec![[0u32; 256]; digits];
    for item in items.iter() {
        let item = item.lowered(least);
        for (d, count) in counts.iter_mut().enumerate() {
            count[item.digit(8 * d as u32)] += 1;
        }
    }
    let spare = Scratch::<I>::new(n);
    let own = items.as_mut_ptr();
    let (mut from, mut to) = (own, spare.ptr());
    for (d, count) in counts.iter_mut().enumerate() {
        if count.iter().any(|&c| c as usize == n) {
            continue;
        }
        let mut at = 0;
        for c in count.iter_mut() {
            (*c, at) = (at, at + *c);
        }
        // SAFETY: both hold `n` items, and the counts are those of the digits.
        unsafe {
            for k in 0..n {
                let item = *from.add(k);
                let place = &mut count[item.lowered(least).digit(8 * d as u32)];
                *to.add(*place as usize) = item;
                *place += 1;
            }
        }
        (from, to) = (to, from);
    }
    if from != own {
        // SAFETY: both hold `n` items.
        unsafe { std::ptr::copy_nonoverlapping(from, own, n) };
    }
}

/// The `k` least items of an iteration, in order, into `room`.
pub fn least<K: Key>(keys: &[K], k: usize, room: &mut Vec<K::Item>) {
    room.clear();
    if k == 0 {
        return;
    }
    let first = (2 * k).max(64).min(keys.len());
    room.extend(keys[..first].iter().enumerate().map(|(i, key)| key.with(i as u32)));
    let keep = |room: &mut Vec<K::Item>| {
        if room.len() > k {
            room.select_nth_unstable(k - 1);
            room.truncate(k);
        }
        room[room.len() - 1].index()
    };
    // The greatest of those kept: what is not less does not come in, and later equals do not either.
    let mut limit = keys[keep(room)];
    for (i, &key) in keys.iter().enumerate().skip(first) {
        if key < limit {
            room.push(key.with(i as u32));
            if room.len() >= 2 * k + 64 {
                limit = keys[keep(room)];
            }
        }
    }
    keep(room);
    room.sort_unstable();
}

/// The item number `k` in order.
pub fn nth<I: Item>(items: &mut [I], k: usize) -> I {
    *items.select_nth_unstable(k).1
}

/// Keys whose places are looked for together: their loads do not wait for each other.
const SEARCHES: usize = 16;

/// For each key, how many of the ascending `sorted` come before it: those less or, if `is_right`, not greater.
pub fn count_before<K: Key>(sorted: &[K], keys: impl Iterator<Item = K>, is_right: bool, mut put: impl FnMut(usize)) {
    let mut room = [K::default(); SEARCHES];
    let mut keys = keys.peekable();
    while keys.peek().is_some() {
        let count = room.iter_mut().zip(&mut keys).map(|(to, key)| *to = key).count();
        let places = if is_right { places::<K, true>(sorted, &room) } else { places::<K, false>(sorted, &room) };
        places[..count].iter().for_each(|&place| put(place));
    }
}

#[inline(always)]
fn places<K: Key, const IS_RIGHT: bool>(sorted: &[K], keys: &[K; SEARCHES]) -> [usize; SEARCHES] {
    let is_before = |x: K, key: K| if IS_RIGHT { x <= key } else { x < key };
    let (mut bases, mut size) = ([0; SEARCHES], sorted.len());
    // Without branches: about as many steps as the logarithm, each one load.
    while size > 1 {
        let half = size / 2;
        for (base, &key) in bases.iter_mut().zip(keys) {
            *base += if is_before(sorted[*base + half - 1], key) { half } else { 0 };
        }
        size -= half;
    }
    for (base, &key) in bases.iter_mut().zip(keys) {
        *base += usize::from(sorted.get(*base).is_some_and(|&x| is_before(x, key)));
    }
    bases
}

#[cfg(test)]
mod tests {
    use super::super::testing::Noise;
    use super::*;
    use std::cmp::Ordering;

    fn plain(a: f32, b: f32) -> Ordering {
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }
    fn sample(n: usize, seed: u64) -> Vec<f32> {
        let mut noise = Noise::new(seed);
        let special = [f32::NAN, -f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e-40, -1e-40];
        (0..n)
            .map(|_| match noise.range(0, 9) {
                0 => special[noise.range(0, 7)],
                1..=4 => (noise.next() * 8.0).round() as f32,
                _ => noise.next() as f32,
            })
            .collect()
    }
    fn order(x: &[f32]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|&i, &j| plain(x[i], x[j]));
        order
    }

    #[test]
    fn sorts_are_stable_at_every_size() {
        pool::set_threads(3);
        for (seed, n) in [0, 1, 2, 63, 1023, 1024, 5000, 2 * PIECE, 5 * PIECE + 77].into_iter().enumerate() {
            let x = sample(n, seed as u64 + 1);
            let want = order(&x);
            let mut items: Vec<u64> = x.iter().enumerate().map(|(i, x)| x.key().with(i as u32)).collect();
            sort(&mut items);
            assert!(items.iter().map(|i| i.index()).eq(want.iter().copied()), "f32, {n} elements");
            let wide = |x: f32| f64::from(x);
            let mut items: Vec<(u64, u32)> = x.iter().enumerate().map(|(i, &x)| wide(x).key().with(i as u32)).collect();
            sort(&mut items);
            assert!(items.iter().map(|i| i.index()).eq(want), "f64, {n} elements");
        }
    }
    #[test]
    fn selection_agrees_with_sorting() {
        let mut room = Vec::new();
        for seed in 1..60 {
            let n = Noise::new(seed).range(1, 700);
            let x = sample(n, seed);
            let want = order(&x);
            let keys: Vec<u32> = x.iter().map(|x| x.key()).collect();
            let k = Noise::new(seed + 100).range(1, n);
            least(&keys, k, &mut room);
            assert!(room.iter().map(|i| i.index()).eq(want[..k].iter().copied()), "{k} of {n}, seed {seed}");
            let mut items: Vec<u64> = keys.iter().enumerate().map(|(i, k)| k.with(i as u32)).collect();
            assert_eq!(nth(&mut items, k - 1).index(), want[k - 1]);
        }
    }
    #[test]
    fn keys_lead_back_to_elements() {
        for x in [f32::NAN, -f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e-40, -1e-40, 1.5, -1.5] {
            assert_eq!(f32::of_key(x.key(), || x).to_bits(), x.to_bits());
            let (wide, half) = (f64::from(x), f16::from_f32(x));
            assert_eq!(f64::of_key(wide.key(), || wide).to_bits(), wide.to_bits());
            assert_eq!(f16::of_key(half.key(), || half).to_bits(), half.to_bits());
        }
        let unknown = || unreachable!("integers have a key each");
        assert!([i64::MIN, -5, 0, i64::MAX].iter().all(|&x| i64::of_key(x.key(), unknown) == x));
        assert!([i8::MIN, -5, 0, i8::MAX].iter().all(|&x| i8::of_key(x.key(), || 0) == x));
        assert!([0, 7, u16::MAX].iter().all(|&x| u16::of_key(x.key(), || 0) == x));
    }
    #[test]
    fn keys_sort_as_numbers_do() {
        let ints = [i64::MIN, -5, 0, 7, i64::MAX];
        assert!(ints.windows(2).all(|w| w[0].key() < w[1].key()));
        assert!([i8::MIN, -1, 0, 1, i8::MAX].windows(2).all(|w| w[0].key() < w[1].key()));
        assert!([0u32, 1, u32::MAX].windows(2).all(|w| w[0].key() < w[1].key()));
        let halves = [f16::NEG_INFINITY, f16::from_f32(-2.0), f16::ZERO, f16::ONE, f16::INFINITY, f16::NAN];
        assert!(halves.windows(2).all(|w| w[0].key() < w[1].key()));
        assert_eq!(f16::NEG_ZERO.key(), f16::ZERO.key());
    }
    #[test]
    fn places_in_sorted_sequences() {
        for n in 0..40 {
            let mut noise = Noise::new(n as u64 + 1);
            let mut sorted: Vec<u32> = (0..n).map(|_| noise.range(0, 20) as u32).collect();
            sorted.sort_unstable();
            for is_right in [false, true] {
                let before = |key: u32| sorted.partition_point(|&x| x < key || (is_right && x == key));
                let mut places = Vec::new();
                count_before(&sorted, 0..22, is_right, |place| places.push(place));
                assert_eq!(places, (0..22).map(before).collect::<Vec<usize>>());
            }
        }
    }
}
