//! Reductions over tiles: rows to one value each, and accumulation over a whole loop in `f64` or
//! `i64`, in an order that depends on the sizes alone.

#![allow(unsafe_code)]

use super::lane::{Lane, linked};
use crate::vmath::{dispatch, f32s, f64s};
use ir::{DType, Element, Monoid};
use std::any::TypeId;

/// Reduces `n` elements at `x` to one at `y`, of the same lane.
type One = unsafe fn(x: *const u8, y: *mut u8, n: usize);
/// Reduces `rows` rows of `n` elements.
type Many = unsafe fn(x: *const u8, y: *mut u8, rows: usize, n: usize);

/// The reduction of rows.
#[derive(Clone, Copy)]
pub struct Row {
    one: One,
    /// For rows of up to [`SHORT`] elements, which are not worth a call each.
    short: Option<Many>,
}

/// The longest rows that share a call.
const SHORT: usize = 8;

impl Row {
    /// Reduces `rows` rows of `n` elements of `size` bytes.
    ///
    /// # Safety
    /// So many elements behind `x`, and room for one a row behind `y`.
    #[inline]
    pub unsafe fn run(self, x: *const u8, y: *mut u8, rows: usize, n: usize, size: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.short {
                Some(many) if (1..=SHORT).contains(&n) => many(x, y, rows, n),
                _ => (0..rows).for_each(|r| (self.one)(x.add(r * n * size), y.add(r * size), n)),
            }
        }
    }
}

/// Rows of `N` elements.
#[inline(always)]
unsafe fn short_of<T: Copy, const N: usize>(x: *const T, y: *mut T, rows: usize, f: impl Fn(T, T) -> T) {
    for r in 0..rows {
        // SAFETY: the caller's promise.
        unsafe { *y.add(r) = (1..N).fold(*x.add(r * N), |a, k| f(a, *x.add(r * N + k))) };
    }
}

macro_rules! short_rows {
    ($name:ident, $t:ty, |$a:ident, $b:ident| $f:expr) => {
        dispatch! {
            unsafe fn $name(x: *const u8, y: *mut u8, rows: usize, n: usize) {
                _I => {
                    let (x, y, f) = (x.cast::<$t>(), y.cast::<$t>(), |$a: $t, $b: $t| $f);
                    match n {
                        1 => short_of::<$t, 1>(x, y, rows, f),
                        2 => short_of::<$t, 2>(x, y, rows, f),
                        3 => short_of::<$t, 3>(x, y, rows, f),
                        4 => short_of::<$t, 4>(x, y, rows, f),
                        5 => short_of::<$t, 5>(x, y, rows, f),
                        6 => short_of::<$t, 6>(x, y, rows, f),
                        7 => short_of::<$t, 7>(x, y, rows, f),
                        _ => short_of::<$t, 8>(x, y, rows, f),
                    }
                }
            }
        }
    };
}
/// Sums and extremes of short rows. Products of floats are computed in `f64`.
macro_rules! short {
    ($name:ident, $t:ty, $add:expr, $is_nan:expr) => {
        fn $name(monoid: Monoid) -> Option<Many> {
            short_rows!(sums, $t, |a, b| $add(a, b));
            short_rows!(maxima, $t, |a, b| if (b > a) | $is_nan(b) { b } else { a });
            short_rows!(minima, $t, |a, b| if (b < a) | $is_nan(b) { b } else { a });
            match monoid {
                Monoid::Sum => Some(sums),
                Monoid::Max => Some(maxima),
                Monoid::Min => Some(minima),
                Monoid::Prod => None,
            }
        }
    };
}
short!(short_f32, f32, |a: f32, b: f32| a + b, f32::is_nan);
short!(short_f64, f64, |a: f64, b: f64| a + b, f64::is_nan);
short!(short_i32, i32, i32::wrapping_add, |_| false);
short!(short_i64, i64, i64::wrapping_add, |_| false);

/// Combines `rows` rows of `n` elements at `x`, `apart` elements from row to row, into `n` accumulators, each element on
/// its own.
pub type Columns = unsafe fn(x: *const u8, acc: *mut u8, rows: usize, n: usize, apart: usize);

macro_rules! float_product {
    ($name:ident, $t:ty) => {
        dispatch! {
            /// The product of `n` elements in `f64`: of every 32nd, then of those.
            unsafe fn $name(x: *const u8, n: usize) -> f64 {
                _I => {
                    let x = std::slice::from_raw_parts(x.cast::<$t>(), n);
                    let mut p = [1f64; 32];
                    let chunks = x.chunks_exact(32);
                    let rest = chunks.remainder();
                    for c in chunks {
                        for i in 0..32 {
                            p[i] *= c[i] as f64;
                        }
                    }
                    rest.iter().zip(&mut p).for_each(|(x, p)| *p *= *x as f64);
                    p.iter().product()
                }
            }
        }
    };
}
float_product!(product_f32, f32);
float_product!(product_f64, f64);

macro_rules! float_rows {
    ($name:ident, $m:ident, $t:ty, $prod:ident) => {
        fn $name(monoid: Monoid) -> One {
            unsafe fn sum(x: *const u8, y: *mut u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { *y.cast::<$t>() = $m::raw::sum(x.cast(), n) }
            }
            unsafe fn max(x: *const u8, y: *mut u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { *y.cast::<$t>() = $m::raw::reduce_max(x.cast(), n) }
            }
            unsafe fn min(x: *const u8, y: *mut u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { *y.cast::<$t>() = $m::raw::reduce_min(x.cast(), n) }
            }
            unsafe fn prod(x: *const u8, y: *mut u8, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { *y.cast::<$t>() = $prod(x, n) as $t }
            }
            match monoid {
                Monoid::Sum => sum,
                Monoid::Prod => prod,
                Monoid::Max => max,
                Monoid::Min => min,
            }
        }
    };
}
float_rows!(row_f32, f32s, f32, product_f32);
float_rows!(row_f64, f64s, f64, product_f64);

macro_rules! int_row {
    ($name:ident, $t:ty, $start:expr, |$a:ident, $b:ident| $f:expr) => {
        dispatch! {
            unsafe fn $name(x: *const u8, y: *mut u8, n: usize) {
                _I => {
                    let x = x.cast::<$t>();
                    let mut $a: $t = $start;
                    for i in 0..n {
                        let $b = *x.add(i);
                        $a = $f;
                    }
                    *y.cast::<$t>() = $a;
                }
            }
        }
    };
}
macro_rules! int_rows {
    ($name:ident, $t:ty) => {
        fn $name(monoid: Monoid) -> One {
            int_row!(sum, $t, 0, |a, b| a.wrapping_add(b));
            int_row!(prod, $t, 1, |a, b| a.wrapping_mul(b));
            int_row!(max, $t, <$t>::MIN, |a, b| a.max(b));
            int_row!(min, $t, <$t>::MAX, |a, b| a.min(b));
            match monoid {
                Monoid::Sum => sum,
                Monoid::Prod => prod,
                Monoid::Max => max,
                Monoid::Min => min,
            }
        }
    };
}
int_rows!(row_i64, i64);
int_rows!(row_i32, i32);
int_rows!(row_u32, u32);
int_rows!(row_u64, u64);
int_rows!(row_i16, i16);
int_rows!(row_u16, u16);
int_rows!(row_u8, u8);
int_rows!(row_i8, i8);

/// The reduction of rows.
pub fn row(monoid: Monoid, lane: Lane) -> Row {
    let short = match lane {
        Lane::F32 if linked!("f32") => short_f32(monoid),
        Lane::F64 if linked!("f64") => short_f64(monoid),
        Lane::I32 if linked!("i32") => short_i32(monoid),
        Lane::I64 if linked!("i64") => short_i64(monoid),
        _ => None,
    };
    Row { one: one(monoid, lane), short }
}

fn one(monoid: Monoid, lane: Lane) -> One {
    match lane {
        Lane::F32 if linked!("f32") => row_f32(monoid),
        Lane::F64 if linked!("f64") => row_f64(monoid),
        Lane::I64 if linked!("i64") => row_i64(monoid),
        Lane::I32 if linked!("i32") => row_i32(monoid),
        Lane::U32 if linked!("u32") => row_u32(monoid),
        Lane::U64 if linked!("u64") => row_u64(monoid),
        Lane::I16 if linked!("i16") => row_i16(monoid),
        Lane::U16 if linked!("u16") => row_u16(monoid),
        Lane::U8 if linked!("u8") => row_u8(monoid),
        Lane::I8 if linked!("i8") => row_i8(monoid),
        // A sum of booleans is true if any is, a product if all are.
        Lane::Bool | Lane::Half | Lane::Quarter if linked!("u8") => row_u8(match monoid {
            Monoid::Sum | Monoid::Max => Monoid::Max,
            Monoid::Prod | Monoid::Min => Monoid::Min,
        }),
        _ => ir::unlinked("a reduction"),
    }
}

#[inline(always)]
fn combine_f64(monoid: Monoid, a: f64, b: f64) -> f64 {
    match monoid {
        Monoid::Sum => a + b,
        Monoid::Prod => a * b,
        // A NaN stays. Without branches, for vectors.
        Monoid::Max if (b > a) | (b.is_nan() & !a.is_nan()) => b,
        Monoid::Min if (b < a) | (b.is_nan() & !a.is_nan()) => b,
        Monoid::Max | Monoid::Min => a,
    }
}
#[inline(always)]
fn combine_i64(monoid: Monoid, a: i64, b: i64) -> i64 {
    match monoid {
        Monoid::Sum => a.wrapping_add(b),
        Monoid::Prod => a.wrapping_mul(b),
        Monoid::Max => a.max(b),
        Monoid::Min => a.min(b),
    }
}

/// A number without a sign as one with a sign in the same order; and back.
#[inline(always)]
fn ordered(x: u64) -> i64 {
    x as i64 ^ i64::MIN
}

/// Accumulators of one reduction over a whole loop: 8 bytes each, `f64` for floats, else `i64`
/// (`u64` in the same order, where order matters).
#[derive(Clone, Copy)]
pub struct Wide {
    /// How values are combined.
    pub monoid: Monoid,
    /// What the tiles' elements are.
    pub lane: Lane,
    /// Combines columns.
    pub columns: Columns,
}

/// Rows that are combined among themselves before the accumulators are touched. Tiles begin at multiples of it, so a sum
/// is the same in every loop that it is a part of.
pub const ROWS: usize = 8;
/// Elements of a total that are combined among themselves, for the same reason.
pub const POINTS: usize = 1024;

/// Combines rows into accumulators. Some rows are combined by `start` and `join` first, and that is taken `into` an
/// accumulator.
#[inline(always)]
unsafe fn combine_columns<T: Copy, M: Copy, W: Copy + 'static>(
    (x, acc): (*const u8, *mut u8),
    (rows, n, apart): (usize, usize, usize),
    start: impl Fn(T) -> M,
    join: impl Fn(M, T) -> M,
    into: impl Fn(W, M) -> W,
) {
    /// Elements beside each other: so many that the compiler makes vectors of them.
    const BESIDE: usize = 32;
    let (x, acc) = (x.cast::<T>(), acc.cast::<W>());
    // SAFETY: the caller's promise.
    unsafe {
        // Integers have the same sum in every order.
        if n == 1 && apart == 1 && TypeId::of::<W>() == TypeId::of::<i64>() {
            *acc = (0..rows).fold(*acc, |a, r| into(a, start(*x.add(r))));
            return;
        }
        if n < BESIDE {
            for first in (0..if n == 0 { 0 } else { rows }).step_by(ROWS) {
                let (x, count) = (x.add(first * apart), ROWS.min(rows - first));
                let mut joined = [start(*x); BESIDE];
                (1..n).for_each(|i| joined[i] = start(*x.add(i)));
                for r in 1..count {
                    (0..n).for_each(|i| joined[i] = join(joined[i], *x.add(r * apart + i)));
                }
                (0..n).for_each(|i| *acc.add(i) = into(*acc.add(i), joined[i]));
            }
            return;
        }
        let whole = n / BESIDE * BESIDE;
        for first in (0..rows).step_by(ROWS) {
            let (x, count) = (x.add(first * apart), ROWS.min(rows - first));
            for i in (0..whole).step_by(BESIDE) {
                let block = |r: usize| x.add(r * apart + i).cast::<[T; BESIDE]>().read_unaligned();
                let head = block(0);
                let mut joined = [start(head[0]); BESIDE];
                (1..BESIDE).for_each(|l| joined[l] = start(head[l]));
                for r in 1..count {
                    let row = block(r);
                    (0..BESIDE).for_each(|l| joined[l] = join(joined[l], row[l]));
                }
                let to = acc.add(i).cast::<[W; BESIDE]>();
                let mut sums = to.read_unaligned();
                (0..BESIDE).for_each(|l| sums[l] = into(sums[l], joined[l]));
                to.write_unaligned(sums);
            }
            for i in whole..n {
                let joined = (1..count).fold(start(*x.add(i)), |m, r| join(m, *x.add(r * apart + i)));
                *acc.add(i) = into(*acc.add(i), joined);
            }
        }
    }
}

dispatch! {
    /// Sums of a few rows in their own type, which is as accurate as pairwise sums.
    unsafe fn sum_columns_f32(x: *const u8, acc: *mut u8, rows: usize, n: usize, apart: usize) {
        _I => combine_columns((x, acc), (rows, n, apart), |x: f32| x, |m, x| m + x, |a: f64, m| a + m as f64)
    }
}

/// Maxima or minima of columns: of a few rows in their own type, then with the accumulators.
macro_rules! extreme_columns {
    ($name:ident, $t:ty, $monoid:ident, $op:tt) => {
        dispatch! {
            unsafe fn $name(x: *const u8, acc: *mut u8, rows: usize, n: usize, apart: usize) {
                _I => combine_columns(
                    (x, acc),
                    (rows, n, apart),
                    |x: $t| x,
                    |a, b| if (b $op a) | (b.is_nan() & !a.is_nan()) { b } else { a },
                    |a: f64, m| combine_f64(Monoid::$monoid, a, m as f64),
                )
            }
        }
    };
}
extreme_columns!(max_columns_f32, f32, Max, >);
extreme_columns!(min_columns_f32, f32, Min, <);
extreme_columns!(max_columns_f64, f64, Max, >);
extreme_columns!(min_columns_f64, f64, Min, <);

/// The combinations of an element type: compiled for every instruction set, or `plain` for rare types.
macro_rules! columns {
    ($name:ident, $t:ty, $wide:ty, $load:expr, $combine:ident) => {
        columns!(@all $name, fast $t, $wide, $load, $combine);
    };
    (plain $name:ident, $t:ty, $wide:ty, $load:expr, $combine:ident) => {
        columns!(@all $name, rare $t, $wide, $load, $combine);
    };
    (@all $name:ident, $kind:ident $t:ty, $wide:ty, $load:expr, $combine:ident) => {
        fn $name(monoid: Monoid) -> Columns {
            match monoid {
                Monoid::Sum => columns!(@$kind Sum, $t, $wide, $load, $combine),
                Monoid::Prod => columns!(@$kind Prod, $t, $wide, $load, $combine),
                Monoid::Max => columns!(@$kind Max, $t, $wide, $load, $combine),
                Monoid::Min => columns!(@$kind Min, $t, $wide, $load, $combine),
            }
        }
    };
    (@fast $m:ident, $t:ty, $wide:ty, $load:expr, $combine:ident) => {{
        dispatch! {
            unsafe fn f(x: *const u8, acc: *mut u8, rows: usize, n: usize, apart: usize) {
                _I => combine_columns(
                    (x, acc),
                    (rows, n, apart),
                    |x: $t| -> $wide { $load(x) },
                    |m, x| $combine(Monoid::$m, m, $load(x)),
                    |a: $wide, m| $combine(Monoid::$m, a, m),
                )
            }
        }
        f as Columns
    }};
    (@rare $m:ident, $t:ty, $wide:ty, $load:expr, $combine:ident) => {{
        unsafe fn f(x: *const u8, acc: *mut u8, rows: usize, n: usize, apart: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                combine_columns(
                    (x, acc),
                    (rows, n, apart),
                    |x: $t| -> $wide { $load(x) },
                    |m, x| $combine(Monoid::$m, m, $load(x)),
                    |a: $wide, m| $combine(Monoid::$m, a, m),
                )
            }
        }
        f as Columns
    }};
}
columns!(columns_f32, f32, f64, |x| x as f64, combine_f64);
columns!(columns_f64, f64, f64, |x| x, combine_f64);
columns!(columns_i64, i64, i64, |x| x, combine_i64);
columns!(columns_i32, i32, i64, |x| x as i64, combine_i64);
columns!(plain columns_u32, u32, i64, |x| x as i64, combine_i64);
columns!(plain columns_u64, u64, i64, |x| x as i64, combine_i64);
columns!(plain ordered_u64, u64, i64, ordered, combine_i64);
columns!(plain columns_i16, i16, i64, |x| x as i64, combine_i64);
columns!(plain columns_u16, u16, i64, |x| x as i64, combine_i64);
columns!(columns_u8, u8, i64, |x| x as i64, combine_i64);
columns!(plain columns_i8, i8, i64, |x| x as i64, combine_i64);

impl Wide {
    /// The accumulation of a reduction over elements of a lane.
    pub fn new(monoid: Monoid, lane: Lane) -> Wide {
        let columns = match (lane, monoid) {
            (Lane::F32, Monoid::Sum) if linked!("f32") => sum_columns_f32,
            (Lane::F32, Monoid::Max) if linked!("f32") => max_columns_f32,
            (Lane::F32, Monoid::Min) if linked!("f32") => min_columns_f32,
            (Lane::F64, Monoid::Max) if linked!("f64") => max_columns_f64,
            (Lane::F64, Monoid::Min) if linked!("f64") => min_columns_f64,
            (Lane::F32, _) if linked!("f32") => columns_f32(monoid),
            (Lane::F64, _) if linked!("f64") => columns_f64(monoid),
            (Lane::I64, _) if linked!("i64") => columns_i64(monoid),
            (Lane::I32, _) if linked!("i32") => columns_i32(monoid),
            (Lane::U32, _) if linked!("u32") => columns_u32(monoid),
            (Lane::U8 | Lane::Bool | Lane::Half | Lane::Quarter, _) if linked!("u8") => columns_u8(monoid),
            (Lane::U64, Monoid::Max | Monoid::Min) if linked!("u64") => ordered_u64(monoid),
            (Lane::U64, _) if linked!("u64") => columns_u64(monoid),
            (Lane::I16, _) if linked!("i16") => columns_i16(monoid),
            (Lane::U16, _) if linked!("u16") => columns_u16(monoid),
            (Lane::I8, _) if linked!("i8") => columns_i8(monoid),
            _ => ir::unlinked("a reduction"),
        };
        Wide { monoid, lane, columns }
    }

    fn is_float(&self) -> bool {
        matches!(self.lane, Lane::F32 | Lane::F64)
    }

    /// Sets `n` accumulators to the neutral value.
    ///
    /// # Safety
    /// `n` accumulators behind the pointer.
    pub unsafe fn clear(&self, acc: *mut u8, n: usize) {
        let float = match self.monoid {
            Monoid::Sum => 0.0,
            Monoid::Prod => 1.0,
            Monoid::Max => f64::NEG_INFINITY,
            Monoid::Min => f64::INFINITY,
        };
        let int = match self.monoid {
            Monoid::Sum => 0,
            Monoid::Prod => 1,
            Monoid::Max => i64::MIN,
            Monoid::Min => i64::MAX,
        };
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe {
                if self.is_float() {
                    *acc.cast::<f64>().add(i) = float;
                } else {
                    *acc.cast::<i64>().add(i) = int;
                }
            }
        }
    }

    /// Combines `n` elements of a tile into one accumulator, some at a time.
    ///
    /// # Safety
    /// `n` elements behind `x`, one accumulator behind `acc`.
    pub unsafe fn points(&self, x: *const u8, acc: *mut u8, n: usize) {
        for first in (0..n).step_by(POINTS) {
            // SAFETY: the caller's promise.
            unsafe { self.all(x.add(first * self.lane.size()), acc, POINTS.min(n - first)) };
        }
    }

    /// Combines `n` elements of a row into one accumulator: first among themselves.
    ///
    /// # Safety
    /// As for [`Wide::points`].
    pub unsafe fn all(&self, x: *const u8, acc: *mut u8, n: usize) {
        if self.is_float() && self.monoid == Monoid::Prod {
            // SAFETY: the caller's promise.
            unsafe {
                let product = if self.lane == Lane::F32 { product_f32(x, n) } else { product_f64(x, n) };
                *acc.cast::<f64>() *= product;
            }
        } else if self.is_float() {
            let mut y = 0u64;
            let y = (&raw mut y).cast::<u8>();
            // SAFETY: the caller's promise; `y` has room for any element.
            unsafe {
                one(self.monoid, self.lane)(x, y, n);
                (self.columns)(y, acc, 1, 1, 1);
            }
        } else {
            // SAFETY: the caller's promise: `n` rows of one element.
            unsafe { (self.columns)(x, acc, n, 1, 1) };
        }
    }

    /// Combines `n` accumulators at `b` into those at `a`, one by one.
    ///
    /// # Safety
    /// `n` accumulators behind each pointer.
    pub unsafe fn join(&self, a: *mut u8, b: *const u8, n: usize) {
        macro_rules! each {
            ($m:ident, $t:ty, $combine:ident) => {
                for i in 0..n {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let x = &mut *a.cast::<$t>().add(i);
                        *x = $combine(Monoid::$m, *x, *b.cast::<$t>().add(i));
                    }
                }
            };
        }
        match (self.monoid, self.is_float()) {
            (Monoid::Sum, true) => each!(Sum, f64, combine_f64),
            (Monoid::Prod, true) => each!(Prod, f64, combine_f64),
            (Monoid::Max, true) => each!(Max, f64, combine_f64),
            (Monoid::Min, true) => each!(Min, f64, combine_f64),
            (Monoid::Sum, false) => each!(Sum, i64, combine_i64),
            (Monoid::Prod, false) => each!(Prod, i64, combine_i64),
            (Monoid::Max, false) => each!(Max, i64, combine_i64),
            (Monoid::Min, false) => each!(Min, i64, combine_i64),
        }
    }

    /// Writes `n` accumulators as the elements of a value.
    ///
    /// # Safety
    /// `n` accumulators behind `acc`, `n` elements behind `out`.
    pub unsafe fn finish(&self, acc: *const u8, dtype: DType, out: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            ir::with_dtype!(dtype, T => {
                let out = out.cast::<<T as Element>::Stored>();
                if self.is_float() {
                    (0..n).for_each(|i| *out.add(i) = <T as Element>::from_f64(*acc.cast::<f64>().add(i)).store());
                } else {
                    let is_ordered = self.lane == Lane::U64 && matches!(self.monoid, Monoid::Max | Monoid::Min);
                    for i in 0..n {
                        let x = *acc.cast::<i64>().add(i);
                        let x = if is_ordered { ordered(x as u64) } else { x };
                        *out.add(i) = <T as Element>::from_int(x as i128).store();
                    }
                }
            })
        }
    }
}
