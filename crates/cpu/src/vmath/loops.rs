//! Loops over slices, written once for every vector type: maps, comparisons, reductions.
//!
//! Pointers rather than slices, so that an output may be one of the inputs.

#![allow(unsafe_code)]

use super::simd::Vector;
use std::mem::MaybeUninit;

/// A function of one vector. A trait and not a closure, because its `apply` must be inlined.
pub trait Op1<V: Vector> {
    /// Applies it.
    fn apply(x: V) -> V;
}

/// A function of two vectors.
pub trait Op2<V: Vector> {
    /// Applies it.
    fn apply(a: V, b: V) -> V;
}

/// `y[i] = f(x[i])`.
///
/// # Safety
/// `n` elements behind each pointer; `x` and `y` equal or apart.
#[inline(always)]
pub(crate) unsafe fn map1<V: Vector, F: Op1<V>>(x: *const V::E, y: *mut V::E, n: usize) {
    let mut i = 0;
    // SAFETY: `i + N <= n` inside the loop, and the rest is `n - i` elements.
    unsafe {
        while i + V::N <= n {
            F::apply(V::load(x.add(i))).store(y.add(i));
            i += V::N;
        }
        if i < n {
            F::apply(V::load_n(x.add(i), n - i)).store_n(y.add(i), n - i);
        }
    }
}

/// `y[i] = f(a[i], b[i])`; a step of 0 repeats an operand's first element.
///
/// # Safety
/// `n` elements behind each pointer (1 where the step is 0); `y` equal to an operand or apart.
#[inline(always)]
pub(crate) unsafe fn map2<V: Vector, F: Op2<V>>(a: *const V::E, b: *const V::E, y: *mut V::E, n: usize) {
    let mut i = 0;
    // SAFETY: as in `map1`.
    unsafe {
        while i + V::N <= n {
            F::apply(V::load(a.add(i)), V::load(b.add(i))).store(y.add(i));
            i += V::N;
        }
        if i < n {
            F::apply(V::load_n(a.add(i), n - i), V::load_n(b.add(i), n - i)).store_n(y.add(i), n - i);
        }
    }
}

/// `y[i] = f(a[i], b)`, or `f(b, a[i])` when `FLIP`.
///
/// # Safety
/// `n` elements behind each pointer; `a` and `y` equal or apart.
#[inline(always)]
pub(crate) unsafe fn map2_scalar<V: Vector, F: Op2<V>, const FLIP: bool>(
    a: *const V::E,
    b: V::E,
    y: *mut V::E,
    n: usize,
) {
    let b = V::splat(b);
    let mut i = 0;
    // SAFETY: as in `map1`.
    unsafe {
        while i + V::N <= n {
            let v = V::load(a.add(i));
            (if FLIP { F::apply(b, v) } else { F::apply(v, b) }).store(y.add(i));
            i += V::N;
        }
        if i < n {
            let v = V::load_n(a.add(i), n - i);
            (if FLIP { F::apply(b, v) } else { F::apply(v, b) }).store_n(y.add(i), n - i);
        }
    }
}

/// `y[i] = a[i] * b[i] + c[i]`.
///
/// # Safety
/// `n` elements behind each pointer; `y` equal to an operand or apart.
#[inline(always)]
pub(crate) unsafe fn fma<V: Vector>(a: *const V::E, b: *const V::E, c: *const V::E, y: *mut V::E, n: usize) {
    let mut i = 0;
    // SAFETY: as in `map1`.
    unsafe {
        while i + V::N <= n {
            V::load(a.add(i)).fma(V::load(b.add(i)), V::load(c.add(i))).store(y.add(i));
            i += V::N;
        }
        if i < n {
            let m = n - i;
            V::load_n(a.add(i), m).fma(V::load_n(b.add(i), m), V::load_n(c.add(i), m)).store_n(y.add(i), m);
        }
    }
}

/// `y[i] += s * x[i]`.
///
/// # Safety
/// `n` elements behind each pointer; apart.
#[inline(always)]
pub(crate) unsafe fn axpy<V: Vector>(s: V::E, x: *const V::E, y: *mut V::E, n: usize) {
    let s = V::splat(s);
    let mut i = 0;
    // SAFETY: as in `map1`.
    unsafe {
        while i + V::N <= n {
            s.fma(V::load(x.add(i)), V::load(y.add(i))).store(y.add(i));
            i += V::N;
        }
        if i < n {
            s.fma(V::load_n(x.add(i), n - i), V::load_n(y.add(i), n - i)).store_n(y.add(i), n - i);
        }
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

#[inline(always)]
fn compare_bits<V: Vector>(op: Compare, a: V, b: V) -> u32 {
    match op {
        Compare::Eq => V::bits(a.eq(b)),
        Compare::Ne => !V::bits(a.eq(b)),
        Compare::Lt => V::bits(a.lt(b)),
        Compare::Le => V::bits(a.le(b)),
        Compare::Gt => V::bits(b.lt(a)),
        Compare::Ge => V::bits(b.le(a)),
    }
}

/// Writes the low `n <= 16` bits as bytes 0 or 1.
#[inline(always)]
unsafe fn store_bits<V: Vector>(bits: u32, y: *mut u8, n: usize) {
    let bytes = V::bytes(bits);
    // SAFETY: `n` bytes, the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), y, n) };
}

/// `y[i] = a[i] op b[i]` as 0 or 1.
///
/// # Safety
/// `n` elements behind each pointer; `y` apart from the others.
#[inline(always)]
pub(crate) unsafe fn compare<V: Vector>(op: Compare, a: *const V::E, b: *const V::E, y: *mut u8, n: usize) {
    let mut i = 0;
    // SAFETY: as in `map1`.
    unsafe {
        while i + V::N <= n {
            store_bits::<V>(compare_bits(op, V::load(a.add(i)), V::load(b.add(i))), y.add(i), V::N);
            i += V::N;
        }
        if i < n {
            store_bits::<V>(compare_bits(op, V::load_n(a.add(i), n - i), V::load_n(b.add(i), n - i)), y.add(i), n - i);
        }
    }
}

/// Elements that a plain loop reads before it writes. The compiler turns loops over so many into vectors. A loop over a
/// shorter array may become gathers, and `std::array::from_fn` is not always inlined, and then has no vectors.
const CHUNK: usize = 64;

/// Writes `f(0), f(1)…` to `y`: at first to an array, so that what `f` reads may be written over.
#[inline(always)]
unsafe fn write_chunk<T: Copy>(y: *mut T, f: impl Fn(usize) -> T) {
    let mut chunk = MaybeUninit::<[T; CHUNK]>::uninit();
    let to = chunk.as_mut_ptr().cast::<T>();
    // SAFETY: all elements of the array are written; room for them behind `y` is the caller's promise.
    unsafe {
        for k in 0..CHUNK {
            to.add(k).write(f(k));
        }
        y.cast::<[T; CHUNK]>().write_unaligned(chunk.assume_init());
    }
}

/// `y[i] = f(x[i])` for any types.
///
/// # Safety
/// `n` elements behind each pointer; `x` and `y` apart, or equal if elements have the same size.
#[inline(always)]
pub(crate) unsafe fn each1<A: Copy, B: Copy>(x: *const A, y: *mut B, n: usize, f: impl Fn(A) -> B) {
    let whole = n / CHUNK * CHUNK;
    // SAFETY: indexes stay below `n`, the caller's promise.
    unsafe {
        for i in (0..whole).step_by(CHUNK) {
            let a = x.add(i).cast::<[A; CHUNK]>().read_unaligned();
            write_chunk(y.add(i), |k| f(a[k]));
        }
        for i in whole..n {
            *y.add(i) = f(*x.add(i));
        }
    }
}

/// `y[i] = f(a[i], b[i])` for any types.
///
/// # Safety
/// As for [`each1`].
#[inline(always)]
pub(crate) unsafe fn each2<A: Copy, B: Copy>(a: *const A, b: *const A, y: *mut B, n: usize, f: impl Fn(A, A) -> B) {
    let whole = n / CHUNK * CHUNK;
    // SAFETY: indexes stay below `n`, the caller's promise.
    unsafe {
        for i in (0..whole).step_by(CHUNK) {
            let p = a.add(i).cast::<[A; CHUNK]>().read_unaligned();
            let q = b.add(i).cast::<[A; CHUNK]>().read_unaligned();
            write_chunk(y.add(i), |k| f(p[k], q[k]));
        }
        for i in whole..n {
            *y.add(i) = f(*a.add(i), *b.add(i));
        }
    }
}

/// `y[i] = f(a[i], b[i], c[i])`.
///
/// # Safety
/// As for [`each1`].
#[inline(always)]
pub(crate) unsafe fn each3<T: Copy>(
    a: *const T,
    b: *const T,
    c: *const T,
    y: *mut T,
    n: usize,
    f: impl Fn(T, T, T) -> T,
) {
    let whole = n / CHUNK * CHUNK;
    // SAFETY: indexes stay below `n`, the caller's promise.
    unsafe {
        for i in (0..whole).step_by(CHUNK) {
            let p = a.add(i).cast::<[T; CHUNK]>().read_unaligned();
            let q = b.add(i).cast::<[T; CHUNK]>().read_unaligned();
            let r = c.add(i).cast::<[T; CHUNK]>().read_unaligned();
            write_chunk(y.add(i), |k| f(p[k], q[k], r[k]));
        }
        for i in whole..n {
            *y.add(i) = f(*a.add(i), *b.add(i), *c.add(i));
        }
    }
}

/// `y[i] = if c[i] != 0 { a[i] } else { b[i] }`.
///
/// # Safety
/// `n` elements behind each pointer; `y` equal to an operand or apart.
#[inline(always)]
pub(crate) unsafe fn select<T: Copy>(c: *const u8, a: *const T, b: *const T, y: *mut T, n: usize) {
    const CHUNK: usize = 32;
    let whole = n / CHUNK * CHUNK;
    // SAFETY: indexes stay below `n`, the caller's promise.
    unsafe {
        for i in (0..whole).step_by(CHUNK) {
            let m = c.add(i).cast::<[u8; CHUNK]>().read_unaligned();
            let p = a.add(i).cast::<[T; CHUNK]>().read_unaligned();
            // Written over one of the operands: a choice between two arrays would become gathers.
            let mut chosen = b.add(i).cast::<[T; CHUNK]>().read_unaligned();
            for k in 0..CHUNK {
                chosen[k] = if m[k] != 0 { p[k] } else { chosen[k] };
            }
            y.add(i).cast::<[T; CHUNK]>().write_unaligned(chosen);
        }
        for i in whole..n {
            let (p, q) = (*a.add(i), *b.add(i));
            *y.add(i) = if *c.add(i) != 0 { p } else { q };
        }
    }
}

/// Elements that one leaf of a sum covers; sums of leaves are added pairwise.
const LEAF: usize = 4096;

/// Sums `f(chunk)` over leaves of [`LEAF`] elements as a balanced tree, so that the order depends
/// on `n` alone.
#[inline(always)]
unsafe fn pairwise<E: Copy + Default + std::ops::Add<Output = E>>(n: usize, leaf: impl Fn(usize, usize) -> E) -> E {
    // A binary counter: entry `k` holds the sum of 2^k leaves.
    let mut partial = [E::default(); 48];
    let mut filled = 0u64;
    let mut start = 0;
    loop {
        let len = LEAF.min(n - start);
        // The one call: a second one would keep the leaf from being inlined, and so from being vectors.
        let mut s = leaf(start, len);
        if n <= LEAF {
            return s;
        }
        let mut k = 0;
        while filled >> k & 1 == 1 {
            s = partial[k] + s;
            filled &= !(1 << k);
            k += 1;
        }
        partial[k] = s;
        filled |= 1 << k;
        start += len;
        if start >= n {
            break;
        }
    }
    let mut total = E::default();
    for k in 0..48 {
        if filled >> k & 1 == 1 {
            total = partial[k] + total;
        }
    }
    total
}

/// The sum: eight vectors of partial sums a leaf, leaves pairwise.
///
/// # Safety
/// `n` elements behind the pointer.
#[inline(always)]
pub(crate) unsafe fn sum<V: Vector>(x: *const V::E, n: usize) -> V::E {
    // SAFETY: the leaves lie inside `0..n`.
    unsafe { pairwise(n, |start, len| sum_leaf::<V>(x.add(start), len)) }
}

#[inline(always)]
unsafe fn sum_leaf<V: Vector>(x: *const V::E, n: usize) -> V::E {
    let mut acc = [V::zero(); 4];
    let mut i = 0;
    // SAFETY: as in `map1`.
    unsafe {
        while i + 4 * V::N <= n {
            for k in 0..4 {
                acc[k] = acc[k] + V::load(x.add(i + k * V::N));
            }
            i += 4 * V::N;
        }
        while i + V::N <= n {
            acc[0] = acc[0] + V::load(x.add(i));
            i += V::N;
        }
        if i < n {
            acc[1] = acc[1] + V::load_n(x.add(i), n - i);
        }
    }
    ((acc[0] + acc[1]) + (acc[2] + acc[3])).sum()
}

/// The sum of products.
///
/// # Safety
/// `n` elements behind each pointer.
#[inline(always)]
pub(crate) unsafe fn dot<V: Vector>(a: *const V::E, b: *const V::E, n: usize) -> V::E {
    // SAFETY: the leaves lie inside `0..n`.
    unsafe { pairwise(n, |start, len| dot_leaf::<V>(a.add(start), b.add(start), len)) }
}

#[inline(always)]
pub(crate) unsafe fn dot_leaf<V: Vector>(a: *const V::E, b: *const V::E, n: usize) -> V::E {
    let mut acc = [V::zero(); 4];
    let mut i = 0;
    // SAFETY: as in `map1`.
    unsafe {
        while i + 4 * V::N <= n {
            for k in 0..4 {
                let j = i + k * V::N;
                acc[k] = V::load(a.add(j)).fma(V::load(b.add(j)), acc[k]);
            }
            i += 4 * V::N;
        }
        while i + V::N <= n {
            acc[0] = V::load(a.add(i)).fma(V::load(b.add(i)), acc[0]);
            i += V::N;
        }
        if i < n {
            acc[1] = V::load_n(a.add(i), n - i).fma(V::load_n(b.add(i), n - i), acc[1]);
        }
    }
    ((acc[0] + acc[1]) + (acc[2] + acc[3])).sum()
}

/// The extreme of all elements under a NaN-propagating `F`, the greatest or the least; `start` for none.
///
/// # Safety
/// `n` elements behind the pointer.
#[inline(always)]
pub(crate) unsafe fn extreme<V: Vector, F: Op2<V>, const IS_MAX: bool>(start: V::E, x: *const V::E, n: usize) -> V::E {
    // So many that no step waits for the one before it.
    let mut acc = [V::splat(start); 8];
    let mut i = 0;
    // SAFETY: as in `map1`.
    unsafe {
        while i + 8 * V::N <= n {
            for k in 0..8 {
                acc[k] = F::apply(acc[k], V::load(x.add(i + k * V::N)));
            }
            i += 8 * V::N;
        }
        while i + V::N <= n {
            acc[0] = F::apply(acc[0], V::load(x.add(i)));
            i += V::N;
        }
        while i < n {
            acc[1] = F::apply(acc[1], V::splat(*x.add(i)));
            i += 1;
        }
    }
    for k in 0..4 {
        acc[k] = F::apply(acc[k], acc[k + 4]);
    }
    let all = F::apply(F::apply(acc[0], acc[1]), F::apply(acc[2], acc[3]));
    if V::bits(all.eq(all)) as u64 != (1 << V::N) - 1 {
        // A NaN among them.
        let lanes = all.lanes();
        let last = (1..V::N).fold(V::splat(lanes[0]), |m, k| F::apply(m, V::splat(lanes[k])));
        return last.lanes()[0];
    }
    all.fold(|a, b| if (a > b) == IS_MAX { a } else { b })
}
