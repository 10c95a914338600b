//! Two simple operations in one pass, `(a op b) op c`, or three, which saves the traffic between them.
//!
//! The result is the same as that of two passes: nothing is contracted.

#![allow(unsafe_code)]

use super::functions::{ADD, MAX, MIN, MUL, SUB};
use super::lane::{Lane, linked};
use crate::vmath::dispatch;
use crate::vmath::loops::{each1, each2, each3};
use crate::vmath::simd::{Isa, Vector};

/// A simple operation, `x` being the first operand of the chain so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simple {
    /// `x + b`
    Add,
    /// `x - b`
    Sub,
    /// `b - x`
    Rsub,
    /// `x * b`
    Mul,
    /// The greater of `x` and `b`, NaN if one is.
    Max,
    /// The lesser.
    Min,
}

impl Simple {
    /// The operation with that text with the chain as first (or else second) operand. A build for one model takes two
    /// passes instead, and has less code.
    pub fn new(code: &str, is_first: bool) -> Option<Simple> {
        if !const { ir::IS_GENERAL } {
            return None;
        }
        Some(match (code, is_first) {
            (ADD, _) => Simple::Add,
            (MUL, _) => Simple::Mul,
            (SUB, true) => Simple::Sub,
            (SUB, false) => Simple::Rsub,
            (MAX, true) => Simple::Max,
            (MIN, true) => Simple::Min,
            _ => return None,
        })
    }
}

/// An operation on vectors of floats, or on integers.
trait Op<T> {
    fn apply(x: T, b: T) -> T;
}
struct Add;
struct Sub;
struct Rsub;
struct Mul;
struct Max;
struct Min;

macro_rules! operations {
    ($($op:ident |$x:ident, $b:ident| $float:expr, $whole:expr;)*) => {
        $(
            impl<V: Vector> Op<V> for $op {
                #[inline(always)]
                fn apply($x: V, $b: V) -> V {
                    $float
                }
            }
            operations!(@whole $op |$x, $b| $whole, i8 u8 i16 u16 i32 u32 i64 u64);
        )*
    };
    (@whole $op:ident |$x:ident, $b:ident| $whole:expr, $($t:ty)*) => {
        $(
            impl Op<$t> for $op {
                #[inline(always)]
                fn apply($x: $t, $b: $t) -> $t {
                    $whole
                }
            }
        )*
    };
}
operations! {
    Add |x, b| x + b, x.wrapping_add(b);
    Sub |x, b| x - b, x.wrapping_sub(b);
    Rsub |x, b| b - x, b.wrapping_sub(x);
    Mul |x, b| x * b, x.wrapping_mul(b);
    Max |x, b| x.maximum(b), x.max(b);
    Min |x, b| x.minimum(b), x.min(b);
}

/// `y[i] = (a[i] op b[i]) op c[i]`; `b` and `c` may be one number.
pub type Chain = unsafe fn([*const u8; 3], *mut u8, usize);

#[inline(always)]
unsafe fn of_floats<V: Vector, P: Op<V>, Q: Op<V>, const B: bool, const C: bool>(
    args: [*const u8; 3],
    y: *mut u8,
    n: usize,
) {
    let ([a, b, c], y) = (args.map(|p| p.cast::<V::E>()), y.cast::<V::E>());
    // SAFETY: `n` elements behind each vector, one behind each number, the caller's promise.
    unsafe {
        let (b1, c1) = (V::splat(*b), V::splat(*c));
        let mut i = 0;
        while i + V::N <= n {
            let p = if B { V::load(b.add(i)) } else { b1 };
            let q = if C { V::load(c.add(i)) } else { c1 };
            Q::apply(P::apply(V::load(a.add(i)), p), q).store(y.add(i));
            i += V::N;
        }
        if i < n {
            let m = n - i;
            let p = if B { V::load_n(b.add(i), m) } else { b1 };
            let q = if C { V::load_n(c.add(i), m) } else { c1 };
            Q::apply(P::apply(V::load_n(a.add(i), m), p), q).store_n(y.add(i), m);
        }
    }
}

#[inline(always)]
unsafe fn of_integers<T: Copy, P: Op<T>, Q: Op<T>, const B: bool, const C: bool>(
    args: [*const u8; 3],
    y: *mut u8,
    n: usize,
) {
    let ([a, b, c], y) = (args.map(|p| p.cast::<T>()), y.cast::<T>());
    // SAFETY: as above.
    unsafe {
        let (b1, c1) = (*b, *c);
        match (B, C) {
            (false, false) => each1(a, y, n, |x| Q::apply(P::apply(x, b1), c1)),
            (true, false) => each2(a, b, y, n, |x, b| Q::apply(P::apply(x, b), c1)),
            (false, true) => each2(a, c, y, n, |x, c| Q::apply(P::apply(x, b1), c)),
            (true, true) => each3(a, b, c, y, n, |x, b, c| Q::apply(P::apply(x, b), c)),
        }
    }
}

/// The loop for vectors of floats, named by the letter of their instruction set, or for integers.
macro_rules! entry {
    (@ $i:ident => $body:expr) => {{
        dispatch! {
            unsafe fn f(args: [*const u8; 3], y: *mut u8, n: usize) { $i => $body(args, y, n) }
        }
        f as Chain
    }};
    ($p:ident, $q:ident, $b:literal, $c:literal, S) => {
        entry!(@ I => of_floats::<<I as Isa>::S, $p, $q, $b, $c>)
    };
    ($p:ident, $q:ident, $b:literal, $c:literal, D) => {
        entry!(@ I => of_floats::<<I as Isa>::D, $p, $q, $b, $c>)
    };
    ($p:ident, $q:ident, $b:literal, $c:literal, $t:ident) => {
        entry!(@ _I => of_integers::<$t, $p, $q, $b, $c>)
    };
}
macro_rules! kinds {
    ($p:ident, $q:ident, $t:tt) => {
        [
            [entry!($p, $q, false, false, $t), entry!($p, $q, false, true, $t)],
            [entry!($p, $q, true, false, $t), entry!($p, $q, true, true, $t)],
        ]
    };
}
macro_rules! seconds {
    ($p:ident, $second:expr, $t:tt) => {
        match $second {
            Simple::Add if linked!(ADD) => kinds!($p, Add, $t),
            Simple::Sub if linked!(SUB) => kinds!($p, Sub, $t),
            Simple::Rsub if linked!(SUB) => kinds!($p, Rsub, $t),
            Simple::Mul if linked!(MUL) => kinds!($p, Mul, $t),
            _ => return None,
        }
    };
}
/// Those of sums and products.
macro_rules! sums {
    ($name:ident, $t:tt) => {
        fn $name(first: Simple, second: Simple) -> Option<[[Chain; 2]; 2]> {
            Some(match first {
                Simple::Add if linked!(ADD) => seconds!(Add, second, $t),
                Simple::Sub if linked!(SUB) => seconds!(Sub, second, $t),
                Simple::Rsub if linked!(SUB) => seconds!(Rsub, second, $t),
                Simple::Mul if second == Simple::Max && linked!(MUL) && linked!(MAX) => kinds!(Mul, Max, $t),
                Simple::Mul if linked!(MUL) => seconds!(Mul, second, $t),
                _ => return None,
            })
        }
    };
}
/// Those of extremes that hold a number between two others.
macro_rules! ranges {
    ($name:ident, $t:tt) => {
        fn $name(first: Simple, second: Simple) -> Option<[[Chain; 2]; 2]> {
            match (first, second) {
                _ if !linked!(MAX) || !linked!(MIN) => None,
                (Simple::Max, Simple::Min) => Some(kinds!(Max, Min, $t)),
                (Simple::Min, Simple::Max) => Some(kinds!(Min, Max, $t)),
                _ => None,
            }
        }
    };
}
sums!(sums_f32, S);
sums!(sums_f64, D);
sums!(sums_i32, i32);
sums!(sums_i64, i64);
ranges!(ranges_f32, S);
ranges!(ranges_f64, D);
ranges!(ranges_i8, i8);
ranges!(ranges_u8, u8);
ranges!(ranges_i16, i16);
ranges!(ranges_u16, u16);
ranges!(ranges_i32, i32);
ranges!(ranges_u32, u32);
ranges!(ranges_i64, i64);
ranges!(ranges_u64, u64);

/// The loops of a chain in a lane: for `b` one number or a vector, then for `c`. Numbers that wrap around have the same
/// sums and products with and without sign, except that the greater of a product and a number is signed.
pub fn loops(lane: Lane, first: Simple, second: Simple) -> Option<[[Chain; 2]; 2]> {
    if !const { ir::IS_GENERAL } {
        return None;
    }
    let is_signed_only = matches!(lane, Lane::U32 | Lane::U64) && second == Simple::Max;
    let (sums, range) = match lane {
        Lane::F32 if linked!("f32") => (sums_f32(first, second), ranges_f32(first, second)),
        Lane::F64 if linked!("f64") => (sums_f64(first, second), ranges_f64(first, second)),
        Lane::I32 if linked!("i32") => (sums_i32(first, second), ranges_i32(first, second)),
        Lane::U32 if linked!("u32") => (sums_i32(first, second), ranges_u32(first, second)),
        Lane::I64 if linked!("i64") => (sums_i64(first, second), ranges_i64(first, second)),
        Lane::U64 if linked!("u64") => (sums_i64(first, second), ranges_u64(first, second)),
        Lane::I16 if linked!("i16") => (None, ranges_i16(first, second)),
        Lane::U16 if linked!("u16") => (None, ranges_u16(first, second)),
        Lane::I8 if linked!("i8") => (None, ranges_i8(first, second)),
        Lane::U8 if linked!("u8") => (None, ranges_u8(first, second)),
        _ => (None, None),
    };
    sums.filter(|_| !is_signed_only).or(range)
}

/// `y[i] = ((a[i] op b[i]) * c[i]) op d[i]`; `b`, `c` and `d` may be one number.
pub type Triple = unsafe fn([*const u8; 4], *mut u8, usize);

#[inline(always)]
unsafe fn triple<V: Vector, P: Op<V>, R: Op<V>, const B: bool, const C: bool, const D: bool>(
    args: [*const u8; 4],
    y: *mut u8,
    n: usize,
) {
    let ([a, b, c, d], y) = (args.map(|p| p.cast::<V::E>()), y.cast::<V::E>());
    // SAFETY: `n` elements behind each vector, one behind each number, the caller's promise.
    unsafe {
        let (b1, c1, d1) = (V::splat(*b), V::splat(*c), V::splat(*d));
        let mut i = 0;
        while i + V::N <= n {
            let p = if B { V::load(b.add(i)) } else { b1 };
            let q = if C { V::load(c.add(i)) } else { c1 };
            let r = if D { V::load(d.add(i)) } else { d1 };
            R::apply(P::apply(V::load(a.add(i)), p) * q, r).store(y.add(i));
            i += V::N;
        }
        if i < n {
            let m = n - i;
            let p = if B { V::load_n(b.add(i), m) } else { b1 };
            let q = if C { V::load_n(c.add(i), m) } else { c1 };
            let r = if D { V::load_n(d.add(i), m) } else { d1 };
            R::apply(P::apply(V::load_n(a.add(i), m), p) * q, r).store_n(y.add(i), m);
        }
    }
}

macro_rules! triple_entry {
    ($p:ident, $r:ident, $b:literal, $c:literal, $d:literal, $t:ident) => {{
        dispatch! {
            unsafe fn f(args: [*const u8; 4], y: *mut u8, n: usize) {
                I => triple::<<I as Isa>::$t, $p, $r, $b, $c, $d>(args, y, n)
            }
        }
        f as Triple
    }};
}
macro_rules! triples {
    ($p:ident, $r:ident, $t:ident) => {
        [
            triple_entry!($p, $r, false, false, false, $t),
            triple_entry!($p, $r, false, false, true, $t),
            triple_entry!($p, $r, false, true, false, $t),
            triple_entry!($p, $r, false, true, true, $t),
            triple_entry!($p, $r, true, false, false, $t),
            triple_entry!($p, $r, true, false, true, $t),
            triple_entry!($p, $r, true, true, false, $t),
            triple_entry!($p, $r, true, true, true, $t),
        ]
    };
}
macro_rules! products {
    ($name:ident, $t:ident) => {
        fn $name(first: Simple, third: Simple) -> Option<[Triple; 8]> {
            Some(match (first, third) {
                (Simple::Sub, Simple::Add) => triples!(Sub, Add, $t),
                (Simple::Mul, Simple::Add) => triples!(Mul, Add, $t),
                (Simple::Mul, Simple::Rsub) => triples!(Mul, Rsub, $t),
                (Simple::Sub, Simple::Rsub) => triples!(Sub, Rsub, $t),
                _ => return None,
            })
        }
    };
}
products!(products_f32, S);
products!(products_f64, D);

/// The loops of three operations, the second a product: the bits of the index say which of `b`, `c` and `d` are vectors.
/// Those of interpolations, scaled products and steps of optimizers.
pub fn triples(lane: Lane, first: Simple, second: Simple, third: Simple) -> Option<[Triple; 8]> {
    match lane {
        _ if !const { ir::IS_GENERAL } || second != Simple::Mul => None,
        Lane::F32 => products_f32(first, third),
        Lane::F64 => products_f64(first, third),
        _ => None,
    }
}
