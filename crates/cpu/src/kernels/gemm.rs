//! Matrix products: `C[m, n] (+)= alpha A[m, k] B[k, n]`, batched, with any strides of A and B.
//!
//! - [`Gemm`] describes a product of `f32`, `f64`, `bf16` or `f16`; [`Gemm::run`] computes it.
//!   Half types are converted while operands are packed, and summed in `f32`.
//! - [`gemm_int`] multiplies integers, plainly.
//!
//! A product is cut into blocks of C by its shape alone; each block packs what it needs of A and
//! B into panels and multiplies them by the tile in [`super::micro`]. Every element of C is
//! summed along `k` in an order that the shape fixes, so threads do not show in the result.
//! Blocks of a kind that the `gemm` crate multiplies faster are given to it.
//! Products with one row go to [`super::matvec`].

#![allow(unsafe_code)]

use super::depthwise::{self, Plane};
use super::matvec::{self, MatVec};
use super::micro::{Tile, tile};
pub use super::pack::Operand;
use super::pack::panel;
use super::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::convert::Half;
use crate::vmath::simd::{Isa, Vector};
use crate::vmath::{dispatch, f32s, f64s};
use half::{bf16, f16};

/// A matrix in memory: element `(i, j)` is at `p + i * row + j * col`, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Mat<T> {
    /// Element (0, 0).
    pub p: *const T,
    /// Elements between rows.
    pub row: isize,
    /// Elements between columns.
    pub col: isize,
}

impl<T> Mat<T> {
    /// A matrix whose rows are contiguous, `row` elements apart.
    pub fn row_major(p: *const T, row: usize) -> Mat<T> {
        Mat { p, row: row as isize, col: 1 }
    }

    /// The transpose, without moving anything.
    pub fn t(self) -> Mat<T> {
        Mat { p: self.p, row: self.col, col: self.row }
    }

    /// The matrix without its first `rows` rows.
    pub fn down(self, rows: usize) -> Mat<T> {
        Mat { p: self.p.wrapping_offset(rows as isize * self.row), row: self.row, col: self.col }
    }

    fn at(self, i: usize, j: usize) -> *const T {
        self.p.wrapping_offset(i as isize * self.row + j as isize * self.col)
    }

    fn moved(self, elements: isize) -> Mat<T> {
        Mat { p: self.p.wrapping_offset(elements), ..self }
    }
}

/// What is applied to each element of C after the sum and the bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x` times the normal distribution function, by `erf`.
    Gelu,
    /// Its tanh form.
    GeluTanh,
    /// `x sigmoid(x)`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
}

/// What happens to C while it is still in cache: a bias a column is added, then the activation
/// applied. With `accumulate`, after the addition to what was in C.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a, E> {
    /// One number a column.
    pub bias: Option<&'a [E]>,
    /// Applied last.
    pub activation: Activation,
}

impl<E> Default for Epilogue<'_, E> {
    fn default() -> Self {
        Epilogue { bias: None, activation: Activation::None }
    }
}

/// A batch of matrix products.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a, S: Operand, C> {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Factor of the product.
    pub alpha: S::Acc,
    /// The left operand.
    pub a: Mat<S>,
    /// The right operand.
    pub b: Mat<S>,
    /// The result; its columns are contiguous.
    pub c: *mut C,
    /// Elements between rows of C.
    pub c_row: isize,
    /// Add to what is in C (`true`) or overwrite it.
    pub accumulate: bool,
    /// Bias and activation.
    pub epilogue: Epilogue<'a, S::Acc>,
    /// Number of products.
    pub batch: usize,
    /// Elements between the left operands of a batch; may be 0.
    pub a_batch: isize,
    /// Elements between the right operands; may be 0.
    pub b_batch: isize,
    /// Elements between the results.
    pub c_batch: isize,
}

impl<S: Operand, C> Gemm<'_, S, C>
where
    S::Acc: Float,
{
    /// One plain product into a row-major C with `n` columns.
    pub fn new(m: usize, n: usize, k: usize, a: Mat<S>, b: Mat<S>, c: *mut C) -> Self {
        Gemm {
            m,
            n,
            k,
            alpha: S::Acc::ONE,
            a,
            b,
            c,
            c_row: n as isize,
            accumulate: false,
            epilogue: Epilogue::default(),
            batch: 1,
            a_batch: 0,
            b_batch: 0,
            c_batch: 0,
        }
    }
}

/// A type that products are computed in.
pub trait Float: Operand<Acc = Self> + Output<Self> + crate::vmath::simd::Scalar {
    /// One.
    const ONE: Self;
    #[doc(hidden)]
    unsafe fn rows(q: &MatVecOf<Self>);
    #[doc(hidden)]
    unsafe fn dots(q: &MatVecOf<Self>);
    /// `y += s x`.
    #[doc(hidden)]
    unsafe fn axpy(s: Self, x: *const Self, y: *mut Self, n: usize);
    /// One plane of a depthwise convolution.
    #[doc(hidden)]
    unsafe fn plane(q: &PlaneOf<Self>);
    /// Bias and activation on one row.
    #[doc(hidden)]
    unsafe fn finish(row: *mut Self, n: usize, bias: Option<&[Self]>, activation: Activation);
}

/// Opaque to users of the crate.
#[doc(hidden)]
pub struct MatVecOf<E>(MatVec<E>);

/// Opaque to users of the crate.
#[doc(hidden)]
pub struct PlaneOf<'a, E>(pub(crate) Plane<'a, E>);

macro_rules! float {
    ($t:ident, $rows:ident, $dots:ident, $plane:ident, $module:ident) => {
        impl Float for $t {
            const ONE: $t = 1.0;
            unsafe fn rows(q: &MatVecOf<$t>) {
                // SAFETY: the caller's promise.
                unsafe { matvec::$rows(&q.0) }
            }
            unsafe fn dots(q: &MatVecOf<$t>) {
                // SAFETY: the caller's promise.
                unsafe { matvec::$dots(&q.0) }
            }
            unsafe fn axpy(s: $t, x: *const $t, y: *mut $t, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $module::raw::axpy(s, x, y, n) }
            }
            unsafe fn plane(q: &PlaneOf<$t>) {
                // SAFETY: the caller's promise.
                unsafe { depthwise::$plane(&q.0) }
            }
            unsafe fn finish(row: *mut $t, n: usize, bias: Option<&[$t]>, activation: Activation) {
                use $module::raw;
                // SAFETY: `n` elements in the row and in the bias; in place is allowed.
                unsafe {
                    if let Some(bias) = bias {
                        debug_assert!(bias.len() >= n);
                        raw::add(row, bias.as_ptr(), row, n);
                    }
                    match activation {
                        Activation::None => {}
                        Activation::Relu => raw::relu(row, row, n),
                        Activation::Gelu => raw::gelu(row, row, n),
                        Activation::GeluTanh => raw::gelu_tanh(row, row, n),
                        Activation::Silu => raw::silu(row, row, n),
                        Activation::Tanh => raw::tanh(row, row, n),
                        Activation::Sigmoid => raw::sigmoid(row, row, n),
                    }
                }
            }
        }
    };
}
float!(f32, rows_f32, dots_f32, plane_f32, f32s);
float!(f64, rows_f64, dots_f64, plane_f64, f64s);

/// Steps of `k` that one packing covers: panels of both operands fit the second-level cache.
const KC: usize = 512;
/// The largest block of C, in rows and columns.
const MC: usize = 256;
const NC: usize = 512;
/// Multiplications below which a product is not cut further.
const TASK_MIN: usize = 1 << 21;

/// Rows and columns of the blocks that C is cut into; a function of the shape alone.
fn cut(m: usize, n: usize, k: usize) -> (usize, usize) {
    let mut parts_m = m.div_ceil(MC).next_power_of_two();
    let mut parts_n = n.div_ceil(NC).next_power_of_two();
    let size = |pm: usize, pn: usize| (m.div_ceil(pm), n.div_ceil(pn));
    loop {
        let (bm, bn) = size(parts_m, parts_n);
        // Small blocks pack more than they multiply.
        if parts_m * parts_n >= 16 || bm * bn * k < 2 * TASK_MIN || (bm <= 64 && bn <= 96) {
            break;
        }
        if bm > 2 * bn || (bn <= 96 && bm > 64) { parts_m *= 2 } else { parts_n *= 2 }
    }
    let (bm, bn) = size(parts_m, parts_n);
    (bm.next_multiple_of(8), bn.next_multiple_of(16))
}

/// One block of one product.
struct Block<'a, S: Operand> {
    m: usize,
    n: usize,
    k: usize,
    alpha: S::Acc,
    a: Mat<S>,
    b: Mat<S>,
    c: *mut S::Acc,
    c_row: isize,
    add: bool,
    epilogue: Epilogue<'a, S::Acc>,
}

/// An operand type with a compiled block function.
pub trait Multiply: Operand<Acc: Float> {
    #[doc(hidden)]
    unsafe fn block(q: &BlockOf<Self>);
}

/// Opaque to users of the crate.
#[doc(hidden)]
pub struct BlockOf<'a, S: Operand>(Block<'a, S>);

/// Whether the `gemm` crate computes a block faster than [`block`]: it leaves a row-major right
/// operand unpacked, which pays when that stays in cache.
fn prefers_crate<S: Operand>(q: &Block<'_, S>) -> bool {
    q.b.col == 1 && q.m > 16 && q.n > 1 && q.k > 0 && (q.m > 96 || q.k * q.n <= 1 << 20)
}

/// One block by the `gemm` crate, on this thread.
unsafe fn block_by_crate<E: Float>(q: &Block<'_, E>) {
    // SAFETY: the caller's promise.
    unsafe {
        gemm::gemm(
            q.m,
            q.n,
            q.k,
            q.c,
            1,
            q.c_row,
            q.add,
            q.a.p,
            q.a.col,
            q.a.row,
            q.b.p,
            q.b.col,
            q.b.row,
            E::ONE,
            q.alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
        finish(q);
    }
}

macro_rules! multiply {
    (crate $t:ident, $name:ident, $v:ident) => {
        multiply!($t, $name, $v, |q: &Block<'_, $t>| if prefers_crate(q) { block_by_crate(q) } else { $name(q) });
    };
    ($t:ident, $name:ident, $v:ident) => {
        multiply!($t, $name, $v, |q: &Block<'_, $t>| $name(q));
    };
    ($t:ident, $name:ident, $v:ident, $run:expr) => {
        dispatch! {
            unsafe fn $name(q: &Block<'_, $t>) { I => {
                type V = <I as Isa>::$v;
                if size_of::<V>() == 64 { block::<$t, V, 8>(q) } else { block::<$t, V, 4>(q) }
            } }
        }
        impl Multiply for $t {
            unsafe fn block(q: &BlockOf<$t>) {
                // SAFETY: the caller's promise.
                unsafe { $run(&q.0) }
            }
        }
    };
}
multiply!(crate f32, block_f32, S);
multiply!(crate f64, block_f64, D);
multiply!(bf16, block_bf16, S);
multiply!(f16, block_f16, S);

/// Vectors a tile is wide.
const NV: usize = 3;

/// Computes one block: packs, multiplies, finishes. `R` is the tile's height.
#[inline(always)]
unsafe fn block<S: Operand<Acc = V::E>, V: Vector, const R: usize>(q: &Block<'_, S>)
where
    V::E: Float,
{
    let width = NV * V::N;
    let k_parts = q.k.div_ceil(KC).max(1);
    let kc = q.k.div_ceil(k_parts);
    // A row-major right operand that few rows use is not worth packing, but for its ragged edge.
    let direct = S::SAME && q.b.col == 1 && q.m <= 2 * R;
    let b_first = if direct { q.n / width * width } else { 0 };
    let packed_a = Scratch::<V::E>::new(q.m.next_multiple_of(R) * kc);
    let packed_b = Scratch::<V::E>::new((q.n - b_first).next_multiple_of(V::N) * kc);
    let mut k0 = 0;
    // SAFETY: panels lie inside the scratch memory, tiles inside the block.
    unsafe {
        while k0 < q.k {
            let k = kc.min(q.k - k0);
            for i in (0..q.m).step_by(R) {
                let rows = R.min(q.m - i);
                panel(q.a.at(i, k0), q.a.row, q.a.col, rows, k, rows, packed_a.ptr().add(i * k));
            }
            pack_columns::<S, V>(q, b_first, k0, k, packed_b.ptr());
            multiply_panels::<S, V, R>(q, k0, k, packed_a.ptr(), b_first, packed_b.ptr());
            k0 += k;
        }
        finish(q);
    }
}

/// Packs the columns from `first` on into panels of full tile width; the last one is as wide as
/// whole vectors need.
#[inline(always)]
unsafe fn pack_columns<S: Operand<Acc = V::E>, V: Vector>(
    q: &Block<'_, S>,
    first: usize,
    k0: usize,
    k: usize,
    to: *mut V::E,
) {
    let width = NV * V::N;
    let mut j = first;
    // SAFETY: the caller's promise.
    unsafe {
        while j < q.n {
            let cols = width.min(q.n - j);
            let w = cols.next_multiple_of(V::N);
            panel(q.b.at(k0, j), q.b.col, q.b.row, cols, k, w, to.add((j - first) * k));
            j += cols;
        }
    }
}

#[inline(always)]
unsafe fn multiply_panels<S: Operand<Acc = V::E>, V: Vector, const R: usize>(
    q: &Block<'_, S>,
    k0: usize,
    k: usize,
    a: *const V::E,
    b_first: usize,
    b: *const V::E,
) {
    let width = NV * V::N;
    // While this part of k is multiplied, the next part of B is brought closer, a line a step.
    let lines = if q.b.col == 1 { (q.n * size_of::<S>()).div_ceil(64) } else { 0 };
    let next = q.b.at((k0 + k).min(q.k.saturating_sub(1)), 0).cast::<u8>();
    let is_last = k0 + k >= q.k;
    let mut line = 0;
    // SAFETY: the caller's promise.
    unsafe {
        for j in (0..q.n).step_by(width) {
            let cols = width.min(q.n - j);
            let nv = cols.div_ceil(V::N);
            let (pb, step) = if j < b_first {
                (q.b.at(k0, j).cast::<V::E>(), q.b.row)
            } else {
                (b.add((j - b_first) * k), (nv * V::N) as isize)
            };
            for i in (0..q.m).step_by(R) {
                let fetch = !is_last && line < lines;
                let t = Tile {
                    c: q.c.offset(i as isize * q.c_row).add(j),
                    c_row: q.c_row,
                    cols,
                    alpha: q.alpha,
                    add: q.add || k0 > 0,
                    ahead: if fetch { next.wrapping_add(64 * line) } else { a.cast() },
                    ahead_step: if fetch { q.b.row * size_of::<S>() as isize } else { 0 },
                };
                line += 1;
                let pa = a.add(i * k);
                match nv {
                    1 => any_rows::<V, R, 1>(R.min(q.m - i), k, pa, pb, step, t),
                    2 => any_rows::<V, R, 2>(R.min(q.m - i), k, pa, pb, step, t),
                    _ => any_rows::<V, R, 3>(R.min(q.m - i), k, pa, pb, step, t),
                }
            }
        }
    }
}

/// A tile with as many rows as there are.
#[inline(always)]
unsafe fn any_rows<V: Vector, const R: usize, const W: usize>(
    rows: usize,
    k: usize,
    a: *const V::E,
    b: *const V::E,
    step: isize,
    t: Tile<V::E>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match rows {
            1 => tile::<V, 1, W>(k, a, b, step, t),
            2 => tile::<V, 2, W>(k, a, b, step, t),
            3 => tile::<V, 3, W>(k, a, b, step, t),
            4 => tile::<V, 4, W>(k, a, b, step, t),
            5 if R > 4 => tile::<V, 5, W>(k, a, b, step, t),
            6 if R > 4 => tile::<V, 6, W>(k, a, b, step, t),
            7 if R > 4 => tile::<V, 7, W>(k, a, b, step, t),
            _ => tile::<V, R, W>(k, a, b, step, t),
        }
    }
}

unsafe fn finish<S: Operand<Acc: Float>>(q: &Block<'_, S>) {
    // SAFETY: rows of `n` elements, the caller's promise.
    unsafe {
        for i in 0..q.m {
            let row = q.c.offset(i as isize * q.c_row);
            if q.k == 0 && !q.add {
                for j in 0..q.n {
                    *row.add(j) = S::Acc::default();
                }
            }
            if q.epilogue.bias.is_some() || q.epilogue.activation != Activation::None {
                S::Acc::finish(row, q.n, q.epilogue.bias, q.epilogue.activation);
            }
        }
    }
}

/// A type that results are stored in: the type of the computation, or a half type.
pub trait Output<E>: Copy + Send + Sync + 'static {
    /// Whether it is the type of the computation itself.
    const SAME: bool;
    #[doc(hidden)]
    unsafe fn load(x: *const Self, y: *mut E, n: usize);
    #[doc(hidden)]
    unsafe fn store(x: *const E, y: *mut Self, n: usize);
}

macro_rules! output {
    ($c:ty, $e:ty, $same:literal, $load:expr, $store:expr) => {
        impl Output<$e> for $c {
            const SAME: bool = $same;
            unsafe fn load(x: *const $c, y: *mut $e, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $load(x, y, n) }
            }
            unsafe fn store(x: *const $e, y: *mut $c, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { $store(x, y, n) }
            }
        }
    };
}
output!(f32, f32, true, std::ptr::copy_nonoverlapping, std::ptr::copy_nonoverlapping);
output!(f64, f64, true, std::ptr::copy_nonoverlapping, std::ptr::copy_nonoverlapping);
output!(bf16, f32, false, <bf16 as Half>::widen, <bf16 as Half>::narrow);
output!(f16, f32, false, <f16 as Half>::widen, <f16 as Half>::narrow);

impl<S: Multiply, C: Output<S::Acc>> Gemm<'_, S, C> {
    /// Computes the products, on all threads if that pays.
    ///
    /// # Safety
    /// Every element that the sizes and strides name must be valid for reading (A, B, and C when
    /// accumulating) or writing (C); elements of C must be distinct and apart from A and B. The
    /// bias, if any, must have `n` elements.
    pub unsafe fn run(&self) {
        if self.m == 0 || self.n == 0 || self.batch == 0 {
            return;
        }
        if let Some(bias) = self.epilogue.bias {
            assert!(bias.len() == self.n, "gemm: a bias of {} numbers expected, got {}", self.n, bias.len());
        }
        // SAFETY: the caller's promise.
        unsafe {
            if S::SAME && C::SAME && (self.m == 1 || (self.n == 1 && self.epilogue.bias.is_none())) && self.run_vector()
            {
                return;
            }
            self.run_blocks()
        }
    }

    unsafe fn run_blocks(&self) {
        let (bm, bn) = cut(self.m, self.n, self.k);
        let (tm, tn) = (self.m.div_ceil(bm), self.n.div_ceil(bn));
        let blocks = tm * tn;
        // Small products of a batch share a task.
        let group = if blocks > 1 { 1 } else { (TASK_MIN / (self.m * self.n * self.k).max(1)).clamp(1, self.batch) };
        let this = Shared::new((self as *const Self).cast_mut());
        pool::parallel_for(self.batch.div_ceil(group) * blocks, &move |task| {
            // SAFETY: only read, and alive until `parallel_for` returns.
            let this = unsafe { &*this.get() };
            let (first, block) = (task / blocks * group, task % blocks);
            let (i, j) = (block / tn * bm, block % tn * bn);
            for item in first..(first + group).min(this.batch) {
                // SAFETY: blocks are apart from one another.
                unsafe { this.block(item, i, bm.min(this.m - i), j, bn.min(this.n - j)) };
            }
        });
    }

    unsafe fn block(&self, item: usize, i: usize, m: usize, j: usize, n: usize) {
        let item = item as isize;
        let a = self.a.moved(item * self.a_batch + i as isize * self.a.row);
        let b = self.b.moved(item * self.b_batch + j as isize * self.b.col);
        let c = self.c.wrapping_offset(item * self.c_batch + i as isize * self.c_row + j as isize);
        let bias = self.epilogue.bias.map(|bias| &bias[j..j + n]);
        let epilogue = Epilogue { bias, ..self.epilogue };
        let q = Block {
            m,
            n,
            k: self.k,
            alpha: self.alpha,
            a,
            b,
            c: c.cast(),
            c_row: self.c_row,
            add: self.accumulate,
            epilogue,
        };
        // SAFETY: the caller's promise; `C` is the type of the computation where it says so.
        unsafe {
            if C::SAME {
                return S::block(&BlockOf(q));
            }
            let wide = Scratch::<S::Acc>::new(m * n);
            if self.accumulate {
                for r in 0..m {
                    C::load(c.offset(r as isize * self.c_row), wide.ptr().add(r * n), n);
                }
            }
            S::block(&BlockOf(Block { c: wide.ptr(), c_row: n as isize, ..q }));
            for r in 0..m {
                C::store(wide.ptr().add(r * n), c.offset(r as isize * self.c_row), n);
            }
        }
    }

    /// A product with one row or one column, when strides allow; `S`, `C` and the type of the
    /// computation are the same.
    unsafe fn run_vector(&self) -> bool {
        // One column: the transposed problem has one row.
        let is_row = self.m == 1;
        let (a, b, n) = if is_row { (self.a, self.b, self.n) } else { (self.b.t(), self.a.t(), self.m) };
        let (a_batch, b_batch) = if is_row { (self.a_batch, self.b_batch) } else { (self.b_batch, self.a_batch) };
        let y_step = if is_row { 1 } else { self.c_row };
        let by_rows = b.col == 1;
        let by_columns = b.row == 1 && a.col == 1;
        if !by_rows && !by_columns {
            return false;
        }
        // By rows: strips wide enough for long runs. By columns: any number will do.
        let strip = if self.k * n < 1 << 17 {
            n
        } else if by_rows {
            n.div_ceil(8).clamp(512, 4096).next_multiple_of(64)
        } else {
            ((1 << 17) / self.k.max(1)).clamp(64, 4096).next_multiple_of(64)
        };
        let strips = n.div_ceil(strip);
        let group = ((1 << 16) / (self.k * n.min(strip)).max(1)).clamp(1, self.batch);
        let group = if strips > 1 { 1 } else { group };
        let this = Shared::new((self as *const Self).cast_mut());
        let (pa, pb) = (Shared::new(a.p.cast_mut()), Shared::new(b.p.cast_mut()));
        pool::parallel_for(self.batch.div_ceil(group) * strips, &move |task| {
            // SAFETY: only read, and alive until `parallel_for` returns.
            let this = unsafe { &*this.get() };
            let first = task / strips * group;
            let j = task % strips * strip;
            let n = strip.min(n - j);
            for item in (first..(first + group).min(this.batch)).map(|i| i as isize) {
                let q = MatVec {
                    n,
                    k: this.k,
                    alpha: this.alpha,
                    x: pa.get().wrapping_offset(item * a_batch).cast(),
                    x_step: a.col,
                    b: pb.get().wrapping_offset(item * b_batch + j as isize * b.col).cast(),
                    b_step: if by_rows { b.row } else { b.col },
                    y: this.c.wrapping_offset(item * this.c_batch + j as isize * y_step).cast(),
                    y_step,
                    add: this.accumulate,
                };
                // SAFETY: the caller's promise; strips are apart.
                unsafe {
                    let q = MatVecOf(q);
                    if by_rows {
                        S::Acc::rows(&q)
                    } else {
                        S::Acc::dots(&q)
                    }
                    this.finish_vector(&q.0, j);
                }
            }
        });
        true
    }

    unsafe fn finish_vector(&self, q: &MatVec<S::Acc>, j: usize) {
        if self.epilogue.bias.is_none() && self.epilogue.activation == Activation::None {
            return;
        }
        let bias = self.epilogue.bias.map(|bias| &bias[j..j + q.n]);
        // SAFETY: `n` outputs, one at a time where they are not contiguous.
        unsafe {
            if q.y_step == 1 {
                return S::Acc::finish(q.y, q.n, bias, self.epilogue.activation);
            }
            for i in 0..q.n {
                S::Acc::finish(q.y.offset(i as isize * q.y_step), 1, None, self.epilogue.activation);
            }
        }
    }
}

/// An integer that matrices are made of, and the type its products are summed in.
pub trait Integer: Copy + Send + Sync {
    /// The type of sums and results.
    type Sum: Copy + Default + Send + Sync;
    /// `sum + a * b`, wrapping around.
    fn multiply_add(self, b: Self, sum: Self::Sum) -> Self::Sum;
}

macro_rules! integer {
    ($t:ty, $sum:ty) => {
        impl Integer for $t {
            type Sum = $sum;
            #[inline(always)]
            fn multiply_add(self, b: $t, sum: $sum) -> $sum {
                sum.wrapping_add((self as $sum).wrapping_mul(b as $sum))
            }
        }
    };
}
integer!(i8, i32);
integer!(u8, i32);
integer!(i32, i32);
integer!(i64, i64);

/// `C[m, n] (+)= A[m, k] B[k, n]` for integers (8-bit ones are summed in 32 bits); overflow wraps
/// around. C is row-major with rows `c_row` apart.
///
/// # Safety
/// As for [`Gemm::run`].
pub unsafe fn gemm_int<T: Integer>(
    m: usize,
    n: usize,
    k: usize,
    a: Mat<T>,
    b: Mat<T>,
    c: *mut T::Sum,
    c_row: isize,
    accumulate: bool,
) {
    const ROWS: usize = 16;
    let (pa, pb, pc) = (Shared::new(a.p.cast_mut()), Shared::new(b.p.cast_mut()), Shared::new(c));
    let rows_task = if m * n * k < TASK_MIN { m.max(1) } else { ROWS };
    pool::parallel_for(m.div_ceil(rows_task), &move |task| {
        for i in task * rows_task..((task + 1) * rows_task).min(m) {
            // SAFETY: row `i` belongs to this task; the rest is the caller's promise.
            unsafe {
                let row = pc.get().offset(i as isize * c_row);
                if !accumulate {
                    (0..n).for_each(|j| row.add(j).write(T::Sum::default()));
                }
                for p in 0..k as isize {
                    let x = *pa.get().offset(i as isize * a.row + p * a.col);
                    let line = pb.get().offset(p * b.row);
                    for j in 0..n {
                        let y = *line.offset(j as isize * b.col);
                        *row.add(j) = x.multiply_add(y, *row.add(j));
                    }
                }
            }
        }
    });
}

#[cfg(test)]
#[path = "gemm_tests.rs"]
mod tests;
