//! Elementwise operations and reductions over slices of integers; arithmetic wraps around.
//!
//! Plain loops over chunks that the compiler turns into vector instructions, in the clones of
//! `dispatch!`. Division by zero gives 0.

#![allow(unsafe_code)]

use super::dispatch;
use super::loops::{self, Compare};

/// Division of integers; by zero it gives 0.
pub(crate) trait Divide {
    /// What is left of `a` when the quotient is rounded toward zero.
    fn remainder(a: Self, b: Self) -> Self;
    /// The quotient, rounded down.
    fn floor(a: Self, b: Self) -> Self;
}
/// By floats with twice as many bits, which processors divide in vectors. Their quotient is next to an integer only if the
/// exact one is that integer: else it is off by `1 / b` or more.
macro_rules! divide_as_floats {
    ($($t:ident, $float:ident, $wide:ident;)*) => {
        $(
            impl Divide for $t {
                #[inline(always)]
                fn remainder(a: $t, b: $t) -> $t {
                    let (x, y) = (a as $float, if b == 0 { 1.0 } else { b as $float });
                    // SAFETY: as little as `b`, or 0.
                    unsafe { (x - (x / y).trunc() * y).to_int_unchecked() }
                }
                #[inline(always)]
                fn floor(a: $t, b: $t) -> $t {
                    let q = (a as $float / if b == 0 { 1.0 } else { b as $float }).floor();
                    // SAFETY: a quotient is one more than the greatest number at most.
                    let q = unsafe { q.to_int_unchecked::<$wide>() } as $t;
                    if b == 0 { 0 } else { q }
                }
            }
        )*
    };
}
divide_as_floats! {
    i32, f64, i64;
    u32, f64, i64;
    i16, f32, i32;
    u16, f32, i32;
    i8, f32, i32;
    u8, f32, i32;
}
macro_rules! divide {
    ($($t:ident)*) => {
        $(
            impl Divide for $t {
                #[inline(always)]
                fn remainder(a: $t, b: $t) -> $t {
                    if b == 0 { 0 } else { a.wrapping_rem(b) }
                }
                #[inline(always)]
                #[allow(unused_comparisons)]
                fn floor(a: $t, b: $t) -> $t {
                    if b == 0 {
                        return 0;
                    }
                    let is_above = (a < 0) != (b < 0) && a.wrapping_rem(b) != 0;
                    a.wrapping_div(b).wrapping_sub(is_above as $t)
                }
            }
        )*
    };
}
divide!(i64 u64);

trait Op2<T> {
    fn apply(a: T, b: T) -> T;
}

#[inline(always)]
unsafe fn map2<T: Copy, F: Op2<T>>(a: *const T, b: *const T, y: *mut T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { loops::each2(a, b, y, n, F::apply) }
}

trait Test<T> {
    fn holds(a: T, b: T) -> bool;
}

#[inline(always)]
unsafe fn compare<T: Copy, F: Test<T>>(a: *const T, b: *const T, y: *mut u8, n: usize) {
    for i in 0..n {
        // SAFETY: indexes stay below `n`, the caller's promise.
        unsafe { *y.add(i) = F::holds(*a.add(i), *b.add(i)) as u8 };
    }
}

struct Add;
struct Sub;
struct Mul;
struct Div;
struct Min;
struct Max;
struct Eq;
struct Ne;
struct Lt;
struct Le;

macro_rules! integers {
    ($module:ident, $t:ty) => {
        impl Op2<$t> for Add {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                a.wrapping_add(b)
            }
        }
        impl Op2<$t> for Sub {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                a.wrapping_sub(b)
            }
        }
        impl Op2<$t> for Mul {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                a.wrapping_mul(b)
            }
        }
        impl Op2<$t> for Div {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                if b == 0 { 0 } else { a.wrapping_div(b) }
            }
        }
        impl Op2<$t> for Min {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                a.min(b)
            }
        }
        impl Op2<$t> for Max {
            #[inline(always)]
            fn apply(a: $t, b: $t) -> $t {
                a.max(b)
            }
        }
        impl Test<$t> for Eq {
            #[inline(always)]
            fn holds(a: $t, b: $t) -> bool {
                a == b
            }
        }
        impl Test<$t> for Ne {
            #[inline(always)]
            fn holds(a: $t, b: $t) -> bool {
                a != b
            }
        }
        impl Test<$t> for Lt {
            #[inline(always)]
            fn holds(a: $t, b: $t) -> bool {
                a < b
            }
        }
        impl Test<$t> for Le {
            #[inline(always)]
            fn holds(a: $t, b: $t) -> bool {
                a <= b
            }
        }

        #[doc = concat!("Slices of `", stringify!($t), "`.")]
        pub mod $module {
            use super::*;

            #[track_caller]
            fn check(x: usize, y: usize) {
                assert!(x == y, "slices of equal length expected, got {x} and {y}");
            }

            integers!(@binary $t, add Add "`a + b`.");
            integers!(@binary $t, sub Sub "`a - b`.");
            integers!(@binary $t, mul Mul "`a * b`.");
            integers!(@binary $t, div Div "`a / b`, toward zero; 0 where `b` is 0.");
            integers!(@binary $t, min Min "The smaller.");
            integers!(@binary $t, max Max "The larger.");

            /// `-x`.
            pub fn neg(x: &[$t], y: &mut [$t]) {
                check(x.len(), y.len());
                x.iter().zip(y).for_each(|(x, y)| *y = x.wrapping_neg());
            }

            /// `|x|`; the smallest number stays what it is.
            pub fn abs(x: &[$t], y: &mut [$t]) {
                check(x.len(), y.len());
                x.iter().zip(y).for_each(|(x, y)| *y = x.wrapping_abs());
            }

            /// A comparison as 0 or 1.
            pub fn compare(op: Compare, a: &[$t], b: &[$t], y: &mut [u8]) {
                check(a.len(), b.len());
                check(a.len(), y.len());
                // SAFETY: all slices have the length given.
                unsafe { raw::compare(op, a.as_ptr(), b.as_ptr(), y.as_mut_ptr(), a.len()) }
            }

            /// `a` where `c` is not 0, else `b`.
            pub fn select(c: &[u8], a: &[$t], b: &[$t], y: &mut [$t]) {
                check(c.len(), a.len());
                check(a.len(), b.len());
                check(a.len(), y.len());
                // SAFETY: all slices have the length given.
                unsafe { raw::select(c.as_ptr(), a.as_ptr(), b.as_ptr(), y.as_mut_ptr(), a.len()) }
            }

            /// The sum, wrapping around.
            pub fn sum(x: &[$t]) -> $t {
                x.iter().fold(0, |s, &v| s.wrapping_add(v))
            }

            /// The largest; the smallest number for none.
            pub fn reduce_max(x: &[$t]) -> $t {
                x.iter().fold(<$t>::MIN, |m, &v| m.max(v))
            }

            /// The smallest; the largest number for none.
            pub fn reduce_min(x: &[$t]) -> $t {
                x.iter().fold(<$t>::MAX, |m, &v| m.min(v))
            }

            /// The same on pointers; an output may be an operand.
            pub mod raw {
                use super::super::*;
                integers!(@raw $t, add Add);
                integers!(@raw $t, sub Sub);
                integers!(@raw $t, mul Mul);
                integers!(@raw $t, div Div);
                integers!(@raw $t, min Min);
                integers!(@raw $t, max Max);
                dispatch! {
                    /// A comparison as 0 or 1.
                    /// # Safety
                    /// `n` elements behind each pointer; `y` apart.
                    pub unsafe fn compare(op: Compare, a: *const $t, b: *const $t, y: *mut u8, n: usize) {
                        _I => match op {
                            Compare::Eq => super::super::compare::<$t, Eq>(a, b, y, n),
                            Compare::Ne => super::super::compare::<$t, Ne>(a, b, y, n),
                            Compare::Lt => super::super::compare::<$t, Lt>(a, b, y, n),
                            Compare::Le => super::super::compare::<$t, Le>(a, b, y, n),
                            Compare::Gt => super::super::compare::<$t, Lt>(b, a, y, n),
                            Compare::Ge => super::super::compare::<$t, Le>(b, a, y, n),
                        }
                    }
                }
                dispatch! {
                    /// `a` where `c` is not 0, else `b`.
                    /// # Safety
                    /// `n` elements behind each pointer; `y` equal to an operand or apart.
                    pub unsafe fn select(c: *const u8, a: *const $t, b: *const $t, y: *mut $t, n: usize) {
                        _I => loops::select(c, a, b, y, n)
                    }
                }
            }
        }
    };
    (@binary $t:ty, $name:ident $op:ident $doc:literal) => {
        #[doc = $doc]
        pub fn $name(a: &[$t], b: &[$t], y: &mut [$t]) {
            check(a.len(), b.len());
            check(a.len(), y.len());
            // SAFETY: all slices have the length given.
            unsafe { raw::$name(a.as_ptr(), b.as_ptr(), y.as_mut_ptr(), a.len()) }
        }
    };
    (@raw $t:ty, $name:ident $op:ident) => {
        dispatch! {
            /// See the function on slices.
            /// # Safety
            /// `n` elements behind each pointer; `y` equal to an operand or apart.
            pub unsafe fn $name(a: *const $t, b: *const $t, y: *mut $t, n: usize) { _I => map2::<$t, $op>(a, b, y, n) }
        }
    };
}

integers!(i32s, i32);
integers!(i64s, i64);
