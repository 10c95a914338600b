//! Kernels that choose elements and slices by index, or put and add them there.
//!
//! Tasks own parts of the result that no other task writes, and go through the index in order: sums do not depend on
//! the number of threads.

#![allow(unsafe_code)]

use super::moves::{Bits, with_bits};
use super::{Claim, Operand, Prepared, always, each_task, index_of, rows, rows_mut};
use crate::pool::{self, Shared};
use crate::tile::access::Bases;
use crate::vmath::convert::{self, Narrow};
use crate::vmath::copy::copy_slice;
use crate::vmath::dispatch;
use half::{bf16, f16};
use ir::{Attrs, AxisSplit, DType, FlatNode, Layout, Result, Shape};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Choice by index.
pub static CLAIMS: &[Claim] = &[
    Claim::new("take", always, |n, args, outs| Ok(take(&n.attrs, args, outs))),
    Claim {
        accepts: |n, operand, layout| operand == 1 && is_repeated(n, layout),
        ..Claim::new("gather", always, |n, args, outs| Ok(gather(&n.attrs, args, outs)))
    },
    Claim::new("scatter", always, |n, args, outs| Ok(scatter(&n.attrs, args, outs))),
    Claim {
        accepts: |n, operand, layout| operand == 1 && is_repeated(n, layout),
        ..Claim::new("scatter_add", always, |n, args, outs| Ok(scatter_add(&n.attrs, args, outs)))
    },
    Claim::new("index_add", always, |n, args, outs| Ok(index_add(&n.attrs, args, outs))),
];

/// Elements of an index that a task goes through, about.
const TASK: usize = 8192;

dispatch! { unsafe fn any_beyond(index: &[i64], size: usize) -> bool { _I => is_any_beyond(index, size) } }

/// Whether any index is out of range: without branches, in vectors. Unsafe only as every body of [`dispatch!`] is.
#[inline(always)]
unsafe fn is_any_beyond(index: &[i64], size: usize) -> bool {
    index.iter().fold(false, |any, &i| any | (i as u64 >= size as u64))
}

/// Fails with the first index that is out of range.
fn check(index: &[i64], axis: usize, size: usize) -> Result<()> {
    let pieces = index.len().div_ceil(TASK);
    let is_fine = AtomicBool::new(true);
    pool::parallel_for(pieces, &|p| {
        let piece = &index[p * TASK..index.len().min((p + 1) * TASK)];
        // SAFETY: no condition.
        if unsafe { any_beyond(piece, size) } {
            is_fine.store(false, Relaxed);
        }
    });
    if is_fine.into_inner() {
        return Ok(());
    }
    index.iter().try_for_each(|&i| index_of(i, axis, size).map(|_| ()))
}

/// Slices chosen along an axis by an index of any shape.
fn take(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let axis = attrs.size("axis").ok()?;
    let (x, index, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&x.ty.shape, axis);
    if lanes.inner == 1 {
        return Some(with_bits!(x.ty.dtype, T => Box::new(move |bases| {
            // SAFETY: the result is apart from the operands.
            let (src, places, dst) =
                unsafe { (rows::<T>(&x, bases), rows::<i64>(&index, bases), rows_mut::<T>(&out, bases)) };
            check(places, axis, lanes.size)?;
            take_elements(src, places, dst, lanes);
            Ok(())
        })));
    }
    let bytes = lanes.inner * x.ty.dtype.size();
    Some(Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        let (src, places, dst) =
            unsafe { (rows::<u8>(&x, bases), rows::<i64>(&index, bases), rows_mut::<u8>(&out, bases)) };
        check(places, axis, lanes.size)?;
        each_task(lanes.outer * places.len(), bytes, &|k| {
            let (o, i) = (k / places.len(), places[k % places.len()] as usize);
            // SAFETY: each task writes its own slices.
            let to = unsafe { dst.slice(k * bytes, bytes) };
            copy_slice(&src[(o * lanes.size + i) * bytes..][..bytes], to);
        });
        Ok(())
    }))
}

/// Single elements of each row, by an index that was checked.
fn take_elements<T: Bits>(src: &[T], places: &[i64], dst: Shared<T>, lanes: AxisSplit) {
    let (n, pieces) = (places.len(), places.len().div_ceil(TASK));
    each_task(lanes.outer * pieces, TASK.min(n) * 8, &|task| {
        let (o, first) = (task / pieces, task % pieces * TASK);
        let (row, piece) = (&src[o * lanes.size..(o + 1) * lanes.size], &places[first..n.min(first + TASK)]);
        // SAFETY: each task writes its own elements.
        let to = unsafe { dst.slice(o * n + first, piece.len()) };
        to.iter_mut().zip(piece).for_each(|(to, &i)| *to = row[i as usize]);
    });
}

/// Whether an index may stay as it lies: from the axis on in one piece, before it repeated in any way.
fn is_repeated(n: &FlatNode, index: &Layout) -> bool {
    let Ok(axis) = n.attrs.size("axis") else { return false };
    let (inner, before) = (&index.shape[axis..], &index.strides[..axis]);
    let tail = Layout { shape: inner.into(), strides: index.strides[axis..].into(), offset: 0 };
    before.contains(&0) && before.iter().all(|&s| s >= 0) && tail.is_contiguous()
}

/// How an index of a tensor's rank points into it along an axis.
struct Places {
    /// Strides of the tensor, and the axis.
    strides: Vec<usize>,
    axis: usize,
    size: usize,
    dims: Vec<usize>,
    /// Elements of the index before, along and after the axis, where the other sizes are the tensor's.
    lanes: Option<AxisSplit>,
    /// Sizes and strides of the index before the axis, where it does not lie in one piece.
    repeats: Option<Vec<(usize, usize)>>,
}

impl Places {
    fn new(x: &Shape, index: &Operand, axis: usize) -> Places {
        let shape = &index.ty.shape;
        let is_alike = x.iter().zip(shape.iter()).enumerate().all(|(d, (x, i))| d == axis || x == i);
        let steps = || shape[..axis].iter().zip(&index.layout.strides).map(|(&d, &s)| (d, s as usize)).collect();
        Places {
            strides: x.strides().iter().map(|&s| s as usize).collect(),
            axis,
            size: x[axis],
            dims: shape.to_vec(),
            lanes: is_alike.then(|| AxisSplit::new(shape, axis)),
            repeats: (!index.layout.is_contiguous()).then(steps),
        }
    }
    /// Where the index of block `o`, of `block` elements, begins.
    fn start(&self, o: usize, block: usize) -> usize {
        let Some(steps) = &self.repeats else { return o * block };
        let (mut rest, mut at) = (o, 0);
        for &(d, s) in steps.iter().rev() {
            at += rest % d * s;
            rest /= d;
        }
        at
    }
    /// The index as far as it lies in memory, checked, if it has lanes.
    ///
    /// # Safety
    /// The operand's buffer is alive and nothing writes it meanwhile.
    unsafe fn index<'a>(&self, index: &Operand, bases: Bases) -> Result<&'a [i64]> {
        let block: usize = self.dims[self.axis..].iter().product();
        let blocks: usize = self.dims[..self.axis].iter().product();
        let last = if block == 0 || blocks == 0 { 0 } else { self.start(blocks - 1, block) + block };
        // SAFETY: the last block lies furthest back, as no stride is negative.
        let all = unsafe { std::slice::from_raw_parts(index.first::<i64>(bases).cast_const(), last) };
        if self.lanes.is_some() {
            check(all, self.axis, self.size)?;
        }
        Ok(all)
    }
    /// Calls `f(number, place)` for each element of the index.
    fn each(&self, index: &[i64], mut f: impl FnMut(usize, usize)) -> Result<()> {
        let rank = self.dims.len();
        let mut at = vec![0usize; rank];
        let block: usize = self.dims[self.axis..].iter().product();
        for k in 0..self.dims.iter().product() {
            let i = index[self.start(k / block, block) + k % block];
            let mut place = index_of(i, self.axis, self.size)? * self.strides[self.axis];
            for d in (0..rank).filter(|&d| d != self.axis) {
                place += at[d] * self.strides[d];
            }
            f(k, place);
            for d in (0..rank).rev() {
                at[d] += 1;
                if at[d] < self.dims[d] {
                    break;
                }
                at[d] = 0;
            }
        }
        Ok(())
    }
    /// Calls `f(number, start of the block in the tensor, stretch)` for stretches of an index that was checked. Tasks
    /// take rows, or pieces of them.
    fn in_any_order(&self, lanes: AxisSplit, index: &[i64], f: &(dyn Fn(usize, usize, &[i64]) + Sync)) {
        let AxisSplit { outer, size, inner } = lanes;
        // Stretches along the last dimension: of the axis itself, or of one of its elements.
        let stretch = if inner == 1 { size.min(TASK) } else { inner };
        let per = if inner == 1 { size.div_ceil(stretch.max(1)) } else { size };
        each_task(outer * per, stretch * 8, &|task| {
            let (o, s) = (task / per, task % per);
            let len = if inner == 1 { stretch.min(size - s * stretch) } else { inner };
            let at = self.start(o, size * inner) + s * stretch;
            f(o * size * inner + s * stretch, o * self.size * inner, &index[at..at + len]);
        });
    }
    /// Calls `f(number, place)` for each element of an index that was checked, in order for every place: tasks take
    /// rows, or columns where the axis comes first.
    fn in_order(&self, lanes: AxisSplit, index: &[i64], f: impl Fn(usize, usize) + Sync) {
        const STRIP: usize = 64;
        let AxisSplit { outer, size, inner } = lanes;
        let strips = inner.div_ceil(STRIP);
        each_task(outer * strips, size * STRIP.min(inner) * 8, &|task| {
            let (o, first) = (task / strips, task % strips * STRIP);
            let index = &index[self.start(o, size * inner)..][..size * inner];
            if inner == 1 {
                return index.iter().enumerate().for_each(|(k, &i)| f(o * size + k, o * self.size + i as usize));
            }
            for k in 0..size {
                for i in first..inner.min(first + STRIP) {
                    let at = k * inner + i;
                    f(o * size * inner + at, (o * self.size + index[at] as usize) * inner + i);
                }
            }
        });
    }
}

/// Elements chosen along an axis by an index of the same rank.
fn gather(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, index, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let places = Places::new(&x.ty.shape, &index, attrs.size("axis").ok()?);
    Some(with_bits!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        let (src, index, dst) =
            unsafe { (rows::<T>(&x, bases), places.index(&index, bases)?, rows_mut::<T>(&out, bases)) };
        let Some(lanes) = places.lanes else {
            // SAFETY: no other thread writes the result.
            let dst = unsafe { dst.slice(0, out.ty.shape.count()) };
            return places.each(index, |k, p| dst[k] = src[p]);
        };
        places.in_any_order(lanes, index, &|first, base, index| {
            // SAFETY: each task writes its own stretch.
            let to = unsafe { dst.slice(first, index.len()) };
            if lanes.inner == 1 {
                let row = &src[base..base + places.size];
                to.iter_mut().zip(index).for_each(|(to, &i)| *to = row[i as usize]);
            } else {
                let at = |c: usize| base + index[c] as usize * lanes.inner + c;
                to.iter_mut().enumerate().for_each(|(c, to)| *to = src[at(c)]);
            }
        });
        Ok(())
    })))
}

/// A copy, by all threads.
fn copy<T: Copy + Send + Sync>(src: &[T], dst: Shared<T>) {
    const PIECE: usize = 1 << 16;
    pool::parallel_for(src.len().div_ceil(PIECE), &|p| {
        let piece = &src[p * PIECE..src.len().min((p + 1) * PIECE)];
        // SAFETY: each task writes its own piece.
        copy_slice(piece, unsafe { dst.slice(p * PIECE, piece.len()) });
    });
}

/// Elements put along an axis at the places of an index.
fn scatter(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, index, src, out) = (args[0].clone(), args[1].clone(), args[2].clone(), outs[0].clone());
    let places = Places::new(&x.ty.shape, &index, attrs.size("axis").ok()?);
    Some(with_bits!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        let (x, src, index, dst) = unsafe {
            (rows::<T>(&x, bases), rows::<T>(&src, bases), places.index(&index, bases)?, rows_mut::<T>(&out, bases))
        };
        copy(x, dst);
        let Some(lanes) = places.lanes else {
            // SAFETY: no other thread writes the result.
            let dst = unsafe { dst.slice(0, x.len()) };
            return places.each(index, |k, p| dst[p] = src[k]);
        };
        // SAFETY: indices were checked, and each task has its own lanes.
        places.in_order(lanes, index, |k, p| unsafe { *dst.get().add(p) = src[k] });
        Ok(())
    })))
}

/// A type whose values are added, and the wider one they are added up in.
pub(super) trait Sum: Copy + Send + Sync + 'static {
    /// What is added up.
    type Wide: Copy + Default + Send + Sync + 'static;
    fn plus(a: Self::Wide, b: Self) -> Self::Wide;
    fn join(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Wide values, if they are of another type than what is stored.
    fn widen(x: &[Self]) -> Option<Vec<Self::Wide>>;
    /// Wide zeros, likewise.
    fn zeros(count: usize) -> Option<Vec<Self::Wide>>;
    fn narrow(x: &[Self::Wide], y: &mut [Self]);
    fn widen_to(x: &[Self], y: &mut [Self::Wide]);
    /// Adds elements to wide sums.
    fn add(sums: &mut [Self::Wide], x: &[Self]);
}
macro_rules! plain_sum {
    ($($t:ty, |$a:ident, $b:ident| $sum:expr);*) => {$(
        impl Sum for $t {
            type Wide = $t;
            #[inline(always)]
            fn plus($a: $t, $b: $t) -> $t {
                $sum
            }
            #[inline(always)]
            fn join($a: $t, $b: $t) -> $t {
                $sum
            }
            fn widen(_: &[$t]) -> Option<Vec<$t>> {
                None
            }
            fn zeros(_: usize) -> Option<Vec<$t>> {
                None
            }
            fn narrow(x: &[$t], y: &mut [$t]) {
                y.copy_from_slice(x);
            }
            fn widen_to(x: &[$t], y: &mut [$t]) {
                y.copy_from_slice(x);
            }
            fn add(sums: &mut [$t], x: &[$t]) {
                sums.iter_mut().zip(x).for_each(|(s, &x)| *s = <$t as Sum>::plus(*s, x));
            }
        }
    )*};
}
plain_sum!(f32, |a, b| a + b; f64, |a, b| a + b; i64, |a, b| a.wrapping_add(b); u64, |a, b| a.wrapping_add(b);
    i32, |a, b| a.wrapping_add(b); u32, |a, b| a.wrapping_add(b); i16, |a, b| a.wrapping_add(b);
    u16, |a, b| a.wrapping_add(b); i8, |a, b| a.wrapping_add(b); u8, |a, b| a.wrapping_add(b));
macro_rules! half_sum {
    ($t:ty) => {
        impl Sum for $t {
            type Wide = f32;
            #[inline(always)]
            fn plus(a: f32, b: $t) -> f32 {
                a + b.to_f32()
            }
            #[inline(always)]
            fn join(a: f32, b: f32) -> f32 {
                a + b
            }
            fn widen(x: &[$t]) -> Option<Vec<f32>> {
                let mut wide = vec![0.0; x.len()];
                // SAFETY: both have as many elements.
                unsafe { <$t as Narrow>::widen(x.as_ptr(), wide.as_mut_ptr(), x.len()) };
                Some(wide)
            }
            fn zeros(count: usize) -> Option<Vec<f32>> {
                Some(vec![0.0; count])
            }
            fn widen_to(x: &[$t], y: &mut [f32]) {
                convert::widen(x, y);
            }
            fn add(sums: &mut [f32], x: &[$t]) {
                let mut wide = [0f32; ROW];
                for (sums, x) in sums.chunks_mut(ROW).zip(x.chunks(ROW)) {
                    let wide = &mut wide[..x.len()];
                    convert::widen(x, wide);
                    sums.iter_mut().zip(wide).for_each(|(s, x)| *s += *x);
                }
            }
            fn narrow(x: &[f32], y: &mut [$t]) {
                // SAFETY: both have as many elements.
                unsafe { <$t as Narrow>::narrow(x.as_ptr(), y.as_mut_ptr(), x.len()) };
            }
        }
    };
}
half_sum!(bf16);
half_sum!(f16);

/// Runs `$body` with `$T` the element type; bool is left to the reference.
macro_rules! with_sum {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_sum!(@ $dtype, $T, $body, F32 f32, F64 f64, BF16 bf16, F16 f16, I64 i64, U64 u64, I32 i32, U32 u32, I16 i16, U16 u16, I8 i8, U8 u8)
    };
    (@ $dtype:expr, $T:ident, $body:expr, $($d:ident $t:ident),*) => {
        match $dtype {
            $(DType::$d => {
                type $T = $t;
                $body
            })*
            _ => return None,
        }
    };
}

pub(super) use with_sum;

/// Starts sums from `x`, has `add` add to them, and stores what they have become in the result.
fn summed<T: Sum>(x: &[T], dst: Shared<T>, add: impl FnOnce(Shared<T::Wide>) -> Result<()>) -> Result<()> {
    match T::widen(x) {
        Some(mut wide) => {
            add(Shared::new(wide.as_mut_ptr()))?;
            // SAFETY: no other thread writes the result.
            T::narrow(&wide, unsafe { dst.slice(0, x.len()) });
            Ok(())
        }
        None => {
            copy(x, dst);
            // The wide type is the stored one.
            add(Shared::new(dst.get().cast()))
        }
    }
}

/// Elements added along an axis at the places of an index, in order.
fn scatter_add(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, index, src, out) = (args[0].clone(), args[1].clone(), args[2].clone(), outs[0].clone());
    let places = Places::new(&x.ty.shape, &index, attrs.size("axis").ok()?);
    Some(with_sum!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        let (x, src, index, dst) = unsafe {
            (rows::<T>(&x, bases), rows::<T>(&src, bases), places.index(&index, bases)?, rows_mut::<T>(&out, bases))
        };
        summed::<T>(x, dst, |sums| {
            // SAFETY: places lie within the tensor.
            let add = |k: usize, p: usize| unsafe {
                let to = sums.get().add(p);
                *to = <T as Sum>::plus(*to, src[k]);
            };
            let Some(lanes) = places.lanes else { return places.each(index, add) };
            if lanes.inner == 1 {
                each_task(lanes.outer, lanes.size * 8, &|o| {
                    let index = &index[places.start(o, lanes.size)..][..lanes.size];
                    // SAFETY: this row belongs to this task, and indices were checked.
                    let to = unsafe { sums.slice(o * places.size, places.size) };
                    for (&i, &x) in index.iter().zip(&src[o * lanes.size..][..lanes.size]) {
                        // SAFETY: as above.
                        let to = unsafe { to.get_unchecked_mut(i as usize) };
                        *to = <T as Sum>::plus(*to, x);
                    }
                });
                return Ok(());
            }
            places.in_order(lanes, index, add);
            Ok(())
        })
    })))
}

/// Slices added along an axis at the places of an index, in order: tasks take columns and rows of the result.
fn index_add(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let axis = attrs.size("axis").ok()?;
    let (x, index, src, out) = (args[0].clone(), args[1].clone(), args[2].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&x.ty.shape, axis);
    Some(with_sum!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        let (x, places, src, dst) = unsafe {
            (rows::<T>(&x, bases), rows::<i64>(&index, bases), rows::<T>(&src, bases), rows_mut::<T>(&out, bases))
        };
        check(places, axis, lanes.size)?;
        if size_of::<T>() != size_of::<<T as Sum>::Wide>() && lanes.inner > 1 && u32::try_from(places.len()).is_ok() {
            add_rows::<T>(lanes, places, (x, src), dst);
            return Ok(());
        }
        summed::<T>(x, dst, |sums| {
            add_slices(lanes, places, src, sums);
            Ok(())
        })
    })))
}

/// Slices added in a wider type than they are stored in: the index is sorted by place, in its order for every place, so
/// that each row of the result is widened once and no tensor of the wide type is needed.
fn add_rows<T: Sum>(lanes: AxisSplit, places: &[i64], (x, src): (&[T], &[T]), dst: Shared<T>) {
    let AxisSplit { outer, size, inner } = lanes;
    let n = places.len();
    let mut ends = vec![0u32; size + 1];
    places.iter().for_each(|&i| ends[i as usize + 1] += 1);
    (0..size).for_each(|i| ends[i + 1] += ends[i]);
    // Where the next number of each place goes: in the end, where the place after it begins.
    let mut order = vec![0u32; n];
    let mut next = ends[..size].to_vec();
    for (k, &i) in places.iter().enumerate() {
        let to = &mut next[i as usize];
        order[*to as usize] = k as u32;
        *to += 1;
    }
    each_task(outer * size, inner * size_of::<T>() * (1 + n / size.max(1)), &|row| {
        let (o, i) = (row / size, row % size);
        let from = &x[row * inner..][..inner];
        // SAFETY: each task writes its own rows.
        let to = unsafe { dst.slice(row * inner, inner) };
        let numbers = &order[ends[i] as usize..ends[i + 1] as usize];
        if numbers.is_empty() {
            return copy_slice(from, to);
        }
        for first in (0..inner).step_by(ROW) {
            let width = ROW.min(inner - first);
            let mut sums = [T::Wide::default(); ROW];
            T::widen_to(&from[first..][..width], &mut sums[..width]);
            for &k in numbers {
                let more = &src[(o * n + k as usize) * inner + first..][..width];
                T::add(&mut sums[..width], more);
            }
            T::narrow(&sums[..width], &mut to[first..][..width]);
        }
    });
}

/// Columns that are added up at a time.
const ROW: usize = 256;

/// Elements of an index that are added up apart from the others, at least.
const SHARE: usize = 1 << 14;
/// How many of them there are at least for each sum.
const SPARE: usize = 4;

/// Many elements added to few sums: each share of them to sums of its own, which are then joined in order.
fn add_elements<T: Sum>(places: &[i64], src: &[T], to: &mut [T::Wide]) {
    const SHARES_MAX: usize = 16;
    let size = to.len();
    let shares = (places.len() / SHARE.max(SPARE * size)).clamp(1, SHARES_MAX);
    let share = places.len().div_ceil(shares);
    let mut own = vec![T::Wide::default(); shares * size];
    let sums = Shared::new(own.as_mut_ptr());
    pool::parallel_for(shares, &|s| {
        let range = (s * share).min(places.len())..((s + 1) * share).min(places.len());
        // SAFETY: each task has its own sums.
        let to = unsafe { sums.slice(s * size, size) };
        for (&i, &x) in places[range.clone()].iter().zip(&src[range]) {
            to[i as usize] = T::plus(to[i as usize], x);
        }
    });
    for own in own.chunks(size.max(1)) {
        to.iter_mut().zip(own).for_each(|(to, own)| *to = T::join(*to, *own));
    }
}

fn add_slices<T: Sum>(lanes: AxisSplit, places: &[i64], src: &[T], sums: Shared<T::Wide>) {
    const STRIP: usize = 64;
    /// Tasks that the work of few lanes is cut into.
    const PARTS: usize = 16;
    let AxisSplit { outer, size, inner } = lanes;
    let n = places.len();
    if inner == 1 && outer < PARTS && n >= 2 * SHARE.max(SPARE * size) {
        return (0..outer).for_each(|o| {
            // SAFETY: no other thread uses this row.
            let to = unsafe { sums.slice(o * size, size) };
            add_elements(places, &src[o * n..(o + 1) * n], to);
        });
    }
    if inner == 1 {
        return each_task(outer, n * 8, &|o| {
            // SAFETY: this row belongs to this task.
            let to = unsafe { sums.slice(o * size, size) };
            for (&i, &x) in places.iter().zip(&src[o * n..(o + 1) * n]) {
                to[i as usize] = <T as Sum>::plus(to[i as usize], x);
            }
        });
    }
    let strips = inner.div_ceil(STRIP);
    // Each part of the rows costs another look at the index.
    let parts =
        if n * inner < 1 << 14 || inner < 16 { 1 } else { (PARTS / (outer * strips)).clamp(1, 4).min(size.max(1)) };
    each_task(outer * strips * parts, n * STRIP.min(inner) * size_of::<T>() / parts, &|task| {
        let (o, rest) = (task / (strips * parts), task % (strips * parts));
        let (first, part) = (rest / parts * STRIP, rest % parts);
        let rows = part * size / parts..(part + 1) * size / parts;
        let width = STRIP.min(inner - first);
        for (k, &i) in places.iter().enumerate() {
            let i = i as usize;
            if parts > 1 && !rows.contains(&i) {
                continue;
            }
            // SAFETY: these rows and columns belong to this task.
            let to = unsafe { sums.slice((o * size + i) * inner + first, width) };
            let from = &src[(o * n + k) * inner + first..][..width];
            to.iter_mut().zip(from).for_each(|(t, f)| *t = <T as Sum>::plus(*t, *f));
        }
    });
}
