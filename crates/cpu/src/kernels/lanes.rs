//! Functions along one axis: running sums and products, indices of extremes. A lane that lies together is read as it
//! lies; lanes beside each other are computed side by side, in vectors.

#![allow(unsafe_code)]

use super::gemm::transpose8;
use crate::vmath::convert::Narrow;
use crate::vmath::dispatch;
use half::{bf16, f16};
use ir::Element;
use std::ops::Range;

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
    /// Running sums or products of lanes of `size` elements that lie one after the other.
    fn running_rows(x: &[Self], y: &mut [Self], size: usize, how: Running);
    /// The greatest or least element so far of one lane and its place: the last of equals, NaN from the first NaN on.
    fn extremes(x: &[Self], values: &mut [Self], places: &mut [i64], greatest: bool);
    /// The same for the lanes of a block.
    ///
    /// # Safety
    /// The pointers are the block's first elements, readable and writable, and apart.
    unsafe fn extreme_columns(x: *const Self, values: *mut Self, places: *mut i64, block: Block, greatest: bool);
    /// What elements are compared as: numbers of 16 bits as `f32`, for which there are instructions.
    type Compared: Element + PartialOrd;
    /// Elements as they are compared: where they lie, or in `room`, which has as many.
    fn compared<'a>(x: &'a [Self], room: &'a mut [Self::Compared]) -> &'a [Self::Compared];
    /// As `f64`.
    #[inline(always)]
    fn wide<const R: usize>(x: [Self; R]) -> [f64; R] {
        let mut y = [0.0; R];
        (0..R).for_each(|r| y[r] = x[r].to_f64());
        y
    }
    /// As an integer; only of integers.
    #[inline(always)]
    fn int(self) -> i64 {
        self.to_int() as i64
    }
    /// From an integer, which wraps around.
    #[inline(always)]
    fn of_int(x: i64) -> Self {
        Self::from_int(i128::from(x))
    }
    /// From `f64`.
    #[inline(always)]
    fn narrowed<const R: usize>(x: [f64; R]) -> [Self; R] {
        let mut y = [Self::from_int(0); R];
        (0..R).for_each(|r| y[r] = Self::from_f64(x[r]));
        y
    }
}

/// Types that are compared as they are.
macro_rules! as_it_is {
    () => {
        type Compared = Self;
        #[inline(always)]
        fn compared<'a>(x: &'a [Self], _: &'a mut [Self]) -> &'a [Self] {
            x
        }
    };
}

/// Types that the language converts: the conversions of [`Element`] are calls.
macro_rules! plain_lane {
    () => {
        as_it_is!();
        #[inline(always)]
        fn wide<const R: usize>(x: [Self; R]) -> [f64; R] {
            let mut y = [0.0; R];
            (0..R).for_each(|r| y[r] = x[r] as f64);
            y
        }
        #[inline(always)]
        fn narrowed<const R: usize>(x: [f64; R]) -> [Self; R] {
            let mut y = [0 as Self; R];
            (0..R).for_each(|r| y[r] = x[r] as Self);
            y
        }
        #[inline(always)]
        fn int(self) -> i64 {
            self as i64
        }
        #[inline(always)]
        fn of_int(x: i64) -> Self {
            x as Self
        }
    };
}

/// Types of 16 bits: through `f32`, for which there are instructions.
macro_rules! half_lane {
    () => {
        type Compared = f32;
        #[inline(always)]
        fn compared<'a>(x: &'a [Self], room: &'a mut [f32]) -> &'a [f32] {
            crate::vmath::convert::widen(x, room);
            room
        }
        #[inline(always)]
        fn wide<const R: usize>(x: [Self; R]) -> [f64; R] {
            let mut wide = [0f32; R];
            // SAFETY: both have `R` elements.
            unsafe { Narrow::widen(x.as_ptr(), wide.as_mut_ptr(), R) };
            let mut y = [0.0; R];
            (0..R).for_each(|r| y[r] = f64::from(wide[r]));
            y
        }
        #[inline(always)]
        fn narrowed<const R: usize>(x: [f64; R]) -> [Self; R] {
            let (mut wide, mut y) = ([0f32; R], [Self::ZERO; R]);
            (0..R).for_each(|r| wide[r] = x[r] as f32);
            // SAFETY: both have `R` elements.
            unsafe { Narrow::narrow(wide.as_ptr(), y.as_mut_ptr(), R) };
            y
        }
    };
}

macro_rules! lane {
    ($($t:ident: $place:ident, $places:ident, $running:ident, $rows:ident, $extremes:ident, $columns:ident, $more:ident);* $(;)?) => {$(
        dispatch! {
            unsafe fn $extremes(x: &[$t], values: &mut [$t], places: &mut [i64], greatest: bool) {
                _I => if greatest { extremes::<$t, true>(x, values, places) } else { extremes::<$t, false>(x, values, places) }
            }
        }
        dispatch! {
            unsafe fn $columns(x: *const $t, values: *mut $t, places: *mut i64, block: Block, greatest: bool) {
                _I => if greatest {
                    extreme_columns::<$t, true>(x, values, places, block)
                } else {
                    extreme_columns::<$t, false>(x, values, places, block)
                }
            }
        }
        dispatch! { unsafe fn $place(x: &[$t], greatest: bool) -> usize { _I => place(x, greatest) } }
        dispatch! {
            unsafe fn $places(x: *const $t, block: Block, greatest: bool, to: &mut [i64]) {
                _I => if greatest { places::<$t, true>(x, block, to) } else { places::<$t, false>(x, block, to) }
            }
        }
        dispatch! { unsafe fn $running(x: *const $t, y: *mut $t, block: Block, how: Running) { _I => running(x, y, block, how) } }
        dispatch! { unsafe fn $rows(x: &[$t], y: &mut [$t], size: usize, how: Running) { _I => running_rows(x, y, size, how) } }
        impl Lane for $t {
            $more!();
            fn extremes(x: &[$t], values: &mut [$t], places: &mut [i64], greatest: bool) {
                // SAFETY: no condition.
                unsafe { $extremes(x, values, places, greatest) }
            }
            unsafe fn extreme_columns(x: *const $t, values: *mut $t, places: *mut i64, block: Block, greatest: bool) {
                // SAFETY: the caller's promise.
                unsafe { $columns(x, values, places, block, greatest) }
            }
            fn place(x: &[$t], greatest: bool) -> usize {
                // SAFETY: no condition.
                unsafe { $place(x, greatest) }
            }
            fn running_rows(x: &[$t], y: &mut [$t], size: usize, how: Running) {
                // SAFETY: no condition.
                unsafe { $rows(x, y, size, how) }
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
    f32: place_f32, places_f32, running_f32, rows_f32, extremes_f32, extreme_columns_f32, plain_lane;
    f64: place_f64, places_f64, running_f64, rows_f64, extremes_f64, extreme_columns_f64, plain_lane;
    bf16: place_bf16, places_bf16, running_bf16, rows_bf16, extremes_bf16, extreme_columns_bf16, half_lane;
    f16: place_f16, places_f16, running_f16, rows_f16, extremes_f16, extreme_columns_f16, half_lane;
    i64: place_i64, places_i64, running_i64, rows_i64, extremes_i64, extreme_columns_i64, plain_lane;
    i32: place_i32, places_i32, running_i32, rows_i32, extremes_i32, extreme_columns_i32, plain_lane;
}

/// Rare types are compiled once.
macro_rules! rare_lane {
    ($($t:ident),*) => {$(
        impl Lane for $t {
            as_it_is!();
            fn extremes(x: &[$t], values: &mut [$t], places: &mut [i64], greatest: bool) {
                // SAFETY: no condition.
                unsafe {
                    if greatest { extremes::<$t, true>(x, values, places) } else { extremes::<$t, false>(x, values, places) }
                }
            }
            unsafe fn extreme_columns(x: *const $t, values: *mut $t, places: *mut i64, block: Block, greatest: bool) {
                // SAFETY: the caller's promise.
                unsafe {
                    if greatest {
                        extreme_columns::<$t, true>(x, values, places, block)
                    } else {
                        extreme_columns::<$t, false>(x, values, places, block)
                    }
                }
            }
            fn place(x: &[$t], greatest: bool) -> usize {
                // SAFETY: no condition.
                unsafe { place(x, greatest) }
            }
            fn running_rows(x: &[$t], y: &mut [$t], size: usize, how: Running) {
                // SAFETY: no condition.
                unsafe { running_rows(x, y, size, how) }
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
    let mut room = [T::Compared::from_int(0); BLOCK];
    let (mut best, mut best_value) = (0, room[0]);
    for (b, block) in x.chunks(BLOCK).enumerate() {
        let block = T::compared(block, &mut room[..block.len()]);
        let most = if T::DTYPE.is_float() {
            let (mut most, mut nans) = ([block[0]; LANES], [false; LANES]);
            let chunks = block.chunks_exact(LANES);
            let rest = chunks.remainder();
            for c in chunks {
                (0..LANES).for_each(|l| most[l] = if beats(c[l], most[l], greatest) { c[l] } else { most[l] });
                (0..LANES).for_each(|l| nans[l] |= is_nan(c[l]));
            }
            if nans.contains(&true) || is_nan(block[0]) || rest.iter().any(|&x| is_nan(x)) {
                return b * BLOCK + block.iter().position(|&x| is_nan(x)).unwrap_or(0);
            }
            most.iter().chain(rest).fold(block[0], |m, &x| if beats(x, m, greatest) { x } else { m })
        } else if greatest {
            // Compilers know this reduction of integers.
            block.iter().fold(block[0], |m, &x| if x > m { x } else { m })
        } else {
            block.iter().fold(block[0], |m, &x| if x < m { x } else { m })
        };
        if b == 0 || beats(most, best_value, greatest) {
            (best, best_value) = (b * BLOCK + block.iter().position(|&x| x == most).unwrap_or(0), most);
        }
    }
    best
}

#[inline(always)]
unsafe fn places<T: Lane, const GREATEST: bool>(x: *const T, block: Block, to: &mut [i64]) {
    let Block { size, inner, first, width } = block;
    // SAFETY: rows of the block, the caller's promise.
    let row = |k: usize| unsafe { std::slice::from_raw_parts(x.add(k * inner + first), width) };
    let mut room = [T::Compared::from_int(0); STRIP];
    let (mut best, mut at) = ([T::Compared::from_int(0); STRIP], [0i32; STRIP]);
    best[..width].copy_from_slice(T::compared(row(0), &mut room[..width]));
    for k in 1..size {
        let row = T::compared(row(k), &mut room[..width]);
        for ((&x, best), at) in row.iter().zip(&mut best[..width]).zip(&mut at[..width]) {
            // A NaN stays.
            let wins = (beats(x, *best, GREATEST) | is_nan(x)) & !is_nan(*best);
            *best = if wins { x } else { *best };
            *at = if wins { k as i32 } else { *at };
        }
    }
    to.iter_mut().zip(&at).for_each(|(to, at)| *to = i64::from(*at));
}

/// Whether an element takes the place of the best one so far: an equal one does, after a NaN only another.
#[inline(always)]
fn follows<T: PartialOrd + Copy>(x: T, best: T, greatest: bool) -> bool {
    is_nan(x) | (!is_nan(best) & !beats(best, x, greatest))
}

/// Most elements are no new extreme: those that none is among are found in vectors.
#[inline(always)]
unsafe fn extremes<T: Lane, const GREATEST: bool>(x: &[T], values: &mut [T], places: &mut [i64]) {
    let Some(&first) = x.first() else { return };
    let mut room = [T::Compared::from_int(0); LANES];
    let (mut value, mut place) = (first, 0);
    let mut best = T::compared(std::slice::from_ref(&first), &mut room[..1])[0];
    let chunks = x.chunks(LANES).zip(values.chunks_mut(LANES)).zip(places.chunks_mut(LANES));
    for (c, ((x, values), places)) in chunks.enumerate() {
        let compared = T::compared(x, &mut room[..x.len()]);
        if !compared.iter().fold(false, |any, &x| any | follows(x, best, GREATEST)) {
            values.fill(value);
            places.fill(place);
            continue;
        }
        for k in 0..x.len() {
            if follows(compared[k], best, GREATEST) {
                (best, value, place) = (compared[k], x[k], (c * LANES + k) as i64);
            }
            (values[k], places[k]) = (value, place);
        }
    }
}

#[inline(always)]
unsafe fn extreme_columns<T: Lane, const GREATEST: bool>(x: *const T, values: *mut T, places: *mut i64, block: Block) {
    let Block { size, inner, first, width } = block;
    let mut room = [T::Compared::from_int(0); STRIP];
    let (mut best, mut value) = (room, [T::from_int(0); STRIP]);
    let mut place = [0i64; STRIP];
    for k in 0..size {
        // SAFETY: rows of the block, the caller's promise.
        let (x, values, places) = unsafe {
            let at = k * inner + first;
            let row = std::slice::from_raw_parts(x.add(at), width);
            let values = std::slice::from_raw_parts_mut(values.add(at), width);
            (row, values, std::slice::from_raw_parts_mut(places.add(at), width))
        };
        let compared = T::compared(x, &mut room[..width]);
        for i in 0..width {
            let wins = k == 0 || follows(compared[i], best[i], GREATEST);
            best[i] = if wins { compared[i] } else { best[i] };
            value[i] = if wins { x[i] } else { value[i] };
            place[i] = if wins { k as i64 } else { place[i] };
        }
        values.copy_from_slice(&value[..width]);
        places.copy_from_slice(&place[..width]);
    }
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
            let is_product = how == Running::Product;
            let whole = width / TOGETHER * TOGETHER;
            let sums = floats.chunks_exact_mut(TOGETHER);
            for ((x, y), sums) in x.chunks_exact(TOGETHER).zip(y.chunks_exact_mut(TOGETHER)).zip(sums) {
                let mut lanes = [T::from_int(0); TOGETHER];
                lanes.copy_from_slice(x);
                let mut next = T::wide(lanes);
                (0..TOGETHER).for_each(|i| next[i] = if is_product { sums[i] * next[i] } else { sums[i] + next[i] });
                sums.copy_from_slice(&next);
                y.copy_from_slice(&T::narrowed(next));
            }
            for ((x, y), sum) in x[whole..].iter().zip(&mut y[whole..]).zip(&mut floats[whole..width]) {
                *sum = if is_product { *sum * x.to_f64() } else { *sum + x.to_f64() };
                *y = T::from_f64(*sum);
            }
        } else {
            for ((x, y), sum) in x.iter().zip(y).zip(&mut ints[..width]) {
                let x = x.int();
                *sum = if how == Running::Product { sum.wrapping_mul(x) } else { sum.wrapping_add(x) };
                *y = T::of_int(*sum);
            }
        }
    }
}

/// Rows whose running sums are formed side by side: each alone waits for its own last sum.
const TOGETHER: usize = 8;

/// Lanes whose sums are computed side by side where elements are not transposed: none waits for another.
const ABREAST: usize = 4;

/// Running sums or products of lanes of `size` elements that lie one after the other: eight at a time where elements
/// have the size that blocks of eight by eight are transposed in.
#[inline(always)]
unsafe fn running_rows<T: Lane>(x: &[T], y: &mut [T], size: usize, how: Running) {
    for (x, y) in x.chunks(TOGETHER * size).zip(y.chunks_mut(TOGETHER * size)) {
        if x.len() == TOGETHER * size && size_of::<T>() == 4 {
            Sums::<TOGETHER>::new(how).rows(x, y, size);
            continue;
        }
        for (x, y) in x.chunks(ABREAST * size).zip(y.chunks_mut(ABREAST * size)) {
            if x.len() == ABREAST * size {
                Sums::<ABREAST>::new(how).columns(x, y, size, 0..size);
                continue;
            }
            for (x, y) in x.chunks(size).zip(y.chunks_mut(size)) {
                Sums::<1>::new(how).row(x, y);
            }
        }
    }
}

/// The sums or products so far of `R` lanes.
struct Sums<const R: usize> {
    how: Running,
    floats: [f64; R],
    ints: [i64; R],
}

impl<const R: usize> Sums<R> {
    fn new(how: Running) -> Self {
        let start = i32::from(how == Running::Product);
        Sums { how, floats: [f64::from(start); R], ints: [i64::from(start); R] }
    }

    /// The next element of each lane.
    #[inline(always)]
    fn next<T: Lane>(&mut self, x: [T; R]) -> [T; R] {
        let is_product = self.how == Running::Product;
        if T::DTYPE.is_float() {
            let x = T::wide(x);
            for r in 0..R {
                self.floats[r] = if is_product { self.floats[r] * x[r] } else { self.floats[r] + x[r] };
            }
            return T::narrowed(self.floats);
        }
        for r in 0..R {
            let (sum, x) = (self.ints[r], x[r].int());
            self.ints[r] = if is_product { sum.wrapping_mul(x) } else { sum.wrapping_add(x) };
        }
        let mut y = x;
        (0..R).for_each(|r| y[r] = T::of_int(self.ints[r]));
        y
    }

    /// Some columns of `R` rows of `size` elements.
    #[inline(always)]
    fn columns<T: Lane>(&mut self, x: &[T], y: &mut [T], size: usize, range: Range<usize>) {
        for k in range.clone() {
            let k = if self.how == Running::SumReverse { range.start + range.end - 1 - k } else { k };
            let mut next = [T::from_int(0); R];
            (0..R).for_each(|r| next[r] = x[r * size + k]);
            next = self.next(next);
            (0..R).for_each(|r| y[r * size + k] = next[r]);
        }
    }

    /// Calls `f` for each of `blocks` pieces of a row, and for what is left: in the order of the sums.
    #[inline(always)]
    fn in_order(&mut self, blocks: usize, rest: impl FnOnce(&mut Self), mut f: impl FnMut(&mut Self, usize)) {
        if self.how == Running::SumReverse {
            rest(self);
            (0..blocks).rev().for_each(|b| f(self, b));
        } else {
            (0..blocks).for_each(|b| f(self, b));
            rest(self);
        }
    }
}

impl Sums<TOGETHER> {
    /// Whole rows, in blocks that are transposed: the next elements of all rows then lie together.
    #[inline(always)]
    fn rows<T: Lane>(&mut self, x: &[T], y: &mut [T], size: usize) {
        assert!(x.len() == TOGETHER * size && y.len() == x.len());
        let (blocks, is_reverse) = (size / TOGETHER, self.how == Running::SumReverse);
        let to = y.as_mut_ptr();
        // The ends of rows, which the blocks do not cover.
        let rest = |s: &mut Self| {
            // SAFETY: as many elements as `x` has, which no other thread uses meanwhile.
            let y = unsafe { std::slice::from_raw_parts_mut(to, x.len()) };
            s.columns(x, y, size, blocks * TOGETHER..size);
        };
        self.in_order(blocks, rest, |s, b| {
            let mut block = [[T::from_int(0); TOGETHER]; TOGETHER];
            // SAFETY: eight rows of eight elements each lie in `x` and in `y`, and the block has as many.
            unsafe {
                transpose8(x.as_ptr().add(b * TOGETHER), size as isize, block.as_mut_ptr().cast::<T>(), TOGETHER);
                for k in 0..TOGETHER {
                    let k = if is_reverse { TOGETHER - 1 - k } else { k };
                    block[k] = s.next(block[k]);
                }
                transpose8(block.as_ptr().cast::<T>(), TOGETHER as isize, to.add(b * TOGETHER), size);
            }
        });
    }
}

/// Elements of one row that are converted at a time.
const PIECE: usize = 64;

impl Sums<1> {
    /// A whole row.
    #[inline(always)]
    fn row<T: Lane>(&mut self, x: &[T], y: &mut [T]) {
        let (size, pieces) = (x.len(), x.len() / PIECE);
        let (is_product, is_reverse) = (self.how == Running::Product, self.how == Running::SumReverse);
        if !T::DTYPE.is_float() {
            return self.columns(x, y, size, 0..size);
        }
        let (whole, end) = y.split_at_mut(pieces * PIECE);
        let rest = |s: &mut Self| s.columns(&x[pieces * PIECE..], end, end.len(), 0..size - pieces * PIECE);
        self.in_order(pieces, rest, |s, p| {
            let mut piece = [T::from_int(0); PIECE];
            piece.copy_from_slice(&x[p * PIECE..][..PIECE]);
            let mut wide = T::wide(piece);
            let mut sum = s.floats[0];
            for k in 0..PIECE {
                let k = if is_reverse { PIECE - 1 - k } else { k };
                sum = if is_product { sum * wide[k] } else { sum + wide[k] };
                wide[k] = sum;
            }
            s.floats[0] = sum;
            whole[p * PIECE..][..PIECE].copy_from_slice(&T::narrowed(wide));
        });
    }
}
