//! Functions along one axis: running sums and products, indices of extremes. A lane that lies together is read as it
//! lies; lanes beside each other are computed side by side, in vectors.

#![allow(unsafe_code)]

use crate::vmath::dispatch;
use half::{bf16, f16};
use ir::Element;

/// Lanes beside each other that a task computes.
pub const STRIP: usize = 128;

/// A block of lanes: `size` rows of `inner` elements, of which columns `first..first + width` are meant.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Elements of a lane.
    pub size: usize,
    /// Elements between neighbors of a lane.
    pub inner: usize,
    /// The first lane.
    pub first: usize,
    /// How many lanes, at most [`STRIP`].
    pub width: usize,
}

/// How elements are accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// Added, from the start.
    Sum,
    /// Added, from the end.
    SumReverse,
    /// Multiplied.
    Product,
}

/// An element type of lanes.
pub trait Lane: Element + PartialOrd {
    /// The index of the greatest or least element: of the first NaN, if there is one, the first of equals.
    fn place(x: &[Self], greatest: bool) -> usize;
    /// The same for the lanes of a block.
    ///
    /// # Safety
    /// `x` is the block's first element, and its elements are readable.
    unsafe fn places(x: *const Self, block: Block, greatest: bool, to: &mut [i64]);
    /// Running sums or products of the lanes of a block; floats in `f64`.
    ///
    /// # Safety
    /// `x` and `y` are the block's first elements, readable and writable.
    unsafe fn running(x: *const Self, y: *mut Self, block: Block, how: Running);
}

macro_rules! lane {
    ($($t:ident: $place:ident, $places:ident, $running:ident);* $(;)?) => {$(
        dispatch! { unsafe fn $place(x: &[$t], greatest: bool) -> usize { _I => place(x, greatest) } }
        dispatch! {
            unsafe fn $places(x: *const $t, block: Block, greatest: bool, to: &mut [i64]) {
                _I => if greatest { places::<$t, true>(x, block, to) } else { places::<$t, false>(x, block, to) }
            }
        }
        dispatch! { unsafe fn $running(x: *const $t, y: *mut $t, block: Block, how: Running) { _I => running(x, y, block, how) } }
        impl Lane for $t {
            fn place(x: &[$t], greatest: bool) -> usize {
                // SAFETY: no condition.
                unsafe { $place(x, greatest) }
            }
            unsafe fn places(x: *const $t, block: Block, greatest: bool, to: &mut [i64]) {
                // SAFETY: the caller's promise.
                unsafe { $places(x, block, greatest, to) }
            }
            unsafe fn running(x: *const $t, y: *mut $t, block: Block, how: Running) {
                // SAFETY: the caller's promise.
                unsafe { $running(x, y, block, how) }
            }
        }
    )*};
}
lane! {
    f32: place_f32, places_f32, running_f32;
    f64: place_f64, places_f64, running_f64;
    bf16: place_bf16, places_bf16, running_bf16;
    f16: place_f16, places_f16, running_f16;
    i64: place_i64, places_i64, running_i64;
    i32: place_i32, places_i32, running_i32;
}

/// Rare types are compiled once.
macro_rules! rare_lane {
    ($($t:ident),*) => {$(
        impl Lane for $t {
            fn place(x: &[$t], greatest: bool) -> usize {
                // SAFETY: no condition.
                unsafe { place(x, greatest) }
            }
            unsafe fn places(x: *const $t, block: Block, greatest: bool, to: &mut [i64]) {
                // SAFETY: the caller's promise.
                unsafe { if greatest { places::<$t, true>(x, block, to) } else { places::<$t, false>(x, block, to) } }
            }
            unsafe fn running(x: *const $t, y: *mut $t, block: Block, how: Running) {
                // SAFETY: the caller's promise.
                unsafe { running(x, y, block, how) }
            }
        }
    )*};
}
rare_lane!(u64, u32, i16, u16, i8, u8);

#[inline(always)]
fn is_nan<T: PartialOrd>(x: T) -> bool {
    x.partial_cmp(&x).is_none()
}
#[inline(always)]
fn beats<T: PartialOrd>(new: T, old: T, greatest: bool) -> bool {
    if greatest { new > old } else { new < old }
}

/// Elements that are looked through before the best of them is looked for.
const BLOCK: usize = 1024;
/// Extremes that are kept side by side.
const LANES: usize = 32;

/// Unsafe only as every body of [`dispatch!`] is.
#[inline(always)]
unsafe fn place<T: Lane>(x: &[T], greatest: bool) -> usize {
    let mut best = 0;
    for (b, block) in x.chunks(BLOCK).enumerate() {
        let mut most = [block[0]; LANES];
        let mut nans = [false; LANES];
        let chunks = block.chunks_exact(LANES);
        let rest = chunks.remainder();
        for c in chunks {
            for l in 0..LANES {
                most[l] = if beats(c[l], most[l], greatest) { c[l] } else { most[l] };
                nans[l] |= is_nan(c[l]);
            }
        }
        let most = most.iter().chain(rest).fold(block[0], |m, &x| if beats(x, m, greatest) { x } else { m });
        if nans.contains(&true) || is_nan(block[0]) || rest.iter().any(|&x| is_nan(x)) {
            return b * BLOCK + block.iter().position(|&x| is_nan(x)).unwrap_or(0);
        }
        if b == 0 || beats(most, x[best], greatest) {
            best = b * BLOCK + block.iter().position(|&x| x == most).unwrap_or(0);
        }
    }
    best
}

#[inline(always)]
unsafe fn places<T: Lane, const GREATEST: bool>(x: *const T, block: Block, to: &mut [i64]) {
    let Block { size, inner, first, width } = block;
    // SAFETY: rows of the block, the caller's promise.
    let row = |k: usize| unsafe { std::slice::from_raw_parts(x.add(k * inner + first), width) };
    let (mut best, mut at) = ([T::from_int(0); STRIP], [0i32; STRIP]);
    best[..width].copy_from_slice(row(0));
    for k in 1..size {
        for ((&x, best), at) in row(k).iter().zip(&mut best[..width]).zip(&mut at[..width]) {
            // A NaN stays.
            let wins = (beats(x, *best, GREATEST) | is_nan(x)) & !is_nan(*best);
            *best = if wins { x } else { *best };
            *at = if wins { k as i32 } else { *at };
        }
    }
    to.iter_mut().zip(&at).for_each(|(to, at)| *to = i64::from(*at));
}

#[inline(always)]
unsafe fn running<T: Lane>(x: *const T, y: *mut T, block: Block, how: Running) {
    let Block { size, inner, first, width } = block;
    let (mut floats, mut ints) = ([0f64; STRIP], [0i64; STRIP]);
    if how == Running::Product {
        (floats, ints) = ([1.0; STRIP], [1; STRIP]);
    }
    for k in 0..size {
        let k = if how == Running::SumReverse { size - 1 - k } else { k };
        // SAFETY: rows of the block, the caller's promise.
        let (x, y) = unsafe {
            let at = k * inner + first;
            (std::slice::from_raw_parts(x.add(at), width), std::slice::from_raw_parts_mut(y.add(at), width))
        };
        if T::DTYPE.is_float() {
            for ((x, y), sum) in x.iter().zip(y).zip(&mut floats[..width]) {
                *sum = if how == Running::Product { *sum * x.to_f64() } else { *sum + x.to_f64() };
                *y = T::from_f64(*sum);
            }
        } else {
            for ((x, y), sum) in x.iter().zip(y).zip(&mut ints[..width]) {
                let x = x.to_int() as i64;
                *sum = if how == Running::Product { sum.wrapping_mul(x) } else { sum.wrapping_add(x) };
                *y = T::from_int(i128::from(*sum));
            }
        }
    }
}

/// Rows whose running sums are formed side by side: each alone waits for its own last sum.
const TOGETHER: usize = 8;

/// Running sums or products of `count` lanes that lie one after the other.
pub fn running_rows<T: Lane>(x: &[T], y: &mut [T], size: usize, how: Running) {
    for (x, y) in x.chunks(TOGETHER * size).zip(y.chunks_mut(TOGETHER * size)) {
        if x.len() == TOGETHER * size {
            running_together::<T, TOGETHER>(x, y, size, how);
        } else {
            x.chunks(size).zip(y.chunks_mut(size)).for_each(|(x, y)| running_together::<T, 1>(x, y, size, how));
        }
    }
}
fn running_together<T: Lane, const R: usize>(x: &[T], y: &mut [T], size: usize, how: Running) {
    let rows: [&[T]; R] = std::array::from_fn(|r| &x[r * size..(r + 1) * size]);
    let start = if how == Running::Product { 1 } else { 0 };
    let (mut floats, mut ints) = ([f64::from(start); R], [i64::from(start); R]);
    for k in 0..size {
        let k = if how == Running::SumReverse { size - 1 - k } else { k };
        for r in 0..R {
            y[r * size + k] = if T::DTYPE.is_float() {
                let x = rows[r][k].to_f64();
                floats[r] = if how == Running::Product { floats[r] * x } else { floats[r] + x };
                T::from_f64(floats[r])
            } else {
                let x = rows[r][k].to_int() as i64;
                ints[r] = if how == Running::Product { ints[r].wrapping_mul(x) } else { ints[r].wrapping_add(x) };
                T::from_int(i128::from(ints[r]))
            };
        }
    }
}

/// The greatest or least element so far of a lane and its index: the last of equals, NaN from the first NaN on.
pub fn running_extreme<T: Lane>(x: impl Iterator<Item = T>, greatest: bool, mut put: impl FnMut(usize, T, i64)) {
    let mut best: Option<(T, i64)> = None;
    for (k, x) in x.enumerate() {
        let (value, place) = match best {
            Some((b, at)) if !(is_nan(x) || x == b || (!is_nan(b) && beats(x, b, greatest))) => (b, at),
            _ => (x, k as i64),
        };
        best = Some((value, place));
        put(k, value, place);
    }
}
