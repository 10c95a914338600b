//! Two simple operations in one pass, `(a op b) op c`, or three, which saves the traffic between them.
//!
//! The result is the same as that of two passes: nothing is contracted.

#![allow(unsafe_code)]

use super::functions::{ADD, MAX, MIN, MUL, SUB};
use super::lane::linked;
use crate::vmath::dispatch;
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

trait Op {
    fn apply<V: Vector>(x: V, b: V) -> V;
}
struct Add;
struct Sub;
struct Rsub;
struct Mul;
struct Max;
struct Min;
impl Op for Add {
    #[inline(always)]
    fn apply<V: Vector>(x: V, b: V) -> V {
        x + b
    }
}
impl Op for Sub {
    #[inline(always)]
    fn apply<V: Vector>(x: V, b: V) -> V {
        x - b
    }
}
impl Op for Rsub {
    #[inline(always)]
    fn apply<V: Vector>(x: V, b: V) -> V {
        b - x
    }
}
impl Op for Mul {
    #[inline(always)]
    fn apply<V: Vector>(x: V, b: V) -> V {
        x * b
    }
}

impl Op for Max {
    #[inline(always)]
    fn apply<V: Vector>(x: V, b: V) -> V {
        x.maximum(b)
    }
}
impl Op for Min {
    #[inline(always)]
    fn apply<V: Vector>(x: V, b: V) -> V {
        x.minimum(b)
    }
}

/// `y[i] = (a[i] op b[i]) op c[i]`; `b` and `c` may be one number.
pub type Chain = unsafe fn(*const f32, *const f32, *const f32, *mut f32, usize);

#[inline(always)]
unsafe fn chain<V: Vector<E = f32>, P: Op, Q: Op, const B: bool, const C: bool>(
    a: *const f32,
    b: *const f32,
    c: *const f32,
    y: *mut f32,
    n: usize,
) {
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

macro_rules! entry {
    ($p:ident, $q:ident, $b:literal, $c:literal) => {{
        dispatch! {
            unsafe fn f(a: *const f32, b: *const f32, c: *const f32, y: *mut f32, n: usize) {
                I => chain::<<I as Isa>::S, $p, $q, $b, $c>(a, b, c, y, n)
            }
        }
        f as Chain
    }};
}
macro_rules! kinds {
    ($p:ident, $q:ident) => {
        [
            [entry!($p, $q, false, false), entry!($p, $q, false, true)],
            [entry!($p, $q, true, false), entry!($p, $q, true, true)],
        ]
    };
}
macro_rules! seconds {
    ($p:ident, $second:expr) => {
        match $second {
            Simple::Add if linked!(ADD) => kinds!($p, Add),
            Simple::Sub if linked!(SUB) => kinds!($p, Sub),
            Simple::Rsub if linked!(SUB) => kinds!($p, Rsub),
            Simple::Mul if linked!(MUL) => kinds!($p, Mul),
            _ => return None,
        }
    };
}

/// The loops of a chain: for `b` one number or a vector, then for `c`. Of extremes there are only those that hold a
/// number between two others.
pub fn loops(first: Simple, second: Simple) -> Option<[[Chain; 2]; 2]> {
    Some(match first {
        _ if !const { ir::IS_GENERAL } => return None,
        Simple::Max if second == Simple::Min && linked!(MAX) && linked!(MIN) => kinds!(Max, Min),
        Simple::Min if second == Simple::Max && linked!(MAX) && linked!(MIN) => kinds!(Min, Max),
        Simple::Add if linked!(ADD) => seconds!(Add, second),
        Simple::Sub if linked!(SUB) => seconds!(Sub, second),
        Simple::Rsub if linked!(SUB) => seconds!(Rsub, second),
        Simple::Mul if second == Simple::Max && linked!(MUL) && linked!(MAX) => kinds!(Mul, Max),
        Simple::Mul if linked!(MUL) => seconds!(Mul, second),
        _ => return None,
    })
}

/// `y[i] = ((a[i] op b[i]) * c[i]) op d[i]`; `b`, `c` and `d` may be one number.
pub type Triple = unsafe fn(*const f32, *const f32, *const f32, *const f32, *mut f32, usize);

#[inline(always)]
unsafe fn triple<V: Vector<E = f32>, P: Op, R: Op, const B: bool, const C: bool, const D: bool>(
    [a, b, c, d]: [*const f32; 4],
    y: *mut f32,
    n: usize,
) {
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
    ($p:ident, $r:ident, $b:literal, $c:literal, $d:literal) => {{
        dispatch! {
            unsafe fn f(a: *const f32, b: *const f32, c: *const f32, d: *const f32, y: *mut f32, n: usize) {
                I => triple::<<I as Isa>::S, $p, $r, $b, $c, $d>([a, b, c, d], y, n)
            }
        }
        f as Triple
    }};
}
macro_rules! triples {
    ($p:ident, $r:ident) => {
        [
            triple_entry!($p, $r, false, false, false),
            triple_entry!($p, $r, false, false, true),
            triple_entry!($p, $r, false, true, false),
            triple_entry!($p, $r, false, true, true),
            triple_entry!($p, $r, true, false, false),
            triple_entry!($p, $r, true, false, true),
            triple_entry!($p, $r, true, true, false),
            triple_entry!($p, $r, true, true, true),
        ]
    };
}

/// The loops of three operations, the second a product: the bits of the index say which of `b`, `c` and `d` are vectors.
/// Those of interpolations, scaled products and steps of optimizers.
pub fn triples(first: Simple, second: Simple, third: Simple) -> Option<[Triple; 8]> {
    if !const { ir::IS_GENERAL } || second != Simple::Mul {
        return None;
    }
    Some(match (first, third) {
        (Simple::Sub, Simple::Add) => triples!(Sub, Add),
        (Simple::Mul, Simple::Add) => triples!(Mul, Add),
        (Simple::Mul, Simple::Rsub) => triples!(Mul, Rsub),
        (Simple::Sub, Simple::Rsub) => triples!(Sub, Rsub),
        _ => return None,
    })
}
