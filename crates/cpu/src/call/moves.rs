//! Kernels that move elements without looking at them: concatenation, padding, choice by index.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, always, each_task, index_of, never, rows, rows_mut};
use ir::AxisSplit;
use ir::{Attrs, Element, Error, FlatNode, Literal, Result};

/// Kernels that move elements.
pub static CLAIMS: &[Claim] = &[
    Claim {
        joins: |n| n.attrs.size("axis").ok(),
        ..Claim::new("concat", never, |n, args, outs| Ok(concat(&n.attrs, args, outs)))
    },
    Claim::new("pad", never, |n, args, outs| Ok(pad(&n.attrs, args, outs))),
    Claim::new("take", always, |n, args, outs| Ok(take(&n.attrs, args, outs))),
    Claim::new("check_class", always, |n, args, outs| Ok(check_class(n, args, outs))),
    Claim::new("gather", always, |n, args, outs| Ok(gather(&n.attrs, args, outs))),
    Claim::new("scatter", always, |n, args, outs| Ok(scatter(&n.attrs, args, outs))),
    Claim::new("scatter_add", always, |n, args, outs| Ok(scatter_add(&n.attrs, args, outs))),
    Claim::new("index_add", always, |n, args, outs| Ok(index_add(&n.attrs, args, outs))),
    Claim::new("fold", never, |n, args, outs| Ok(fold(&n.attrs, args, outs))),
    Claim::new("iota", never, |_, _, outs| Ok(iota(outs))),
];

/// An element by its size: what is moved, whatever it means.
trait Bits: Copy + Send + Sync + 'static {}
impl Bits for u8 {}
impl Bits for u16 {}
impl Bits for u32 {}
impl Bits for u64 {}

/// Runs `$body` with `$T` the unsigned type of an element's size.
macro_rules! with_bits {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}

/// Tensors one after the other along an axis.
fn concat(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let axis = attrs.size("axis").ok()?;
    let out = outs[0].clone();
    let lanes = AxisSplit::new(&out.ty.shape, axis);
    let size = out.ty.dtype.size();
    let row = lanes.size * lanes.inner * size;
    let mut at = 0;
    let mut parts: Vec<(Operand, usize, usize)> = Vec::new();
    for a in args {
        let bytes = a.ty.shape[axis] * lanes.inner * size;
        parts.push((a.clone(), at, bytes));
        at += bytes;
    }
    Some(Box::new(move |bases| {
        for (a, at, bytes) in &parts {
            // SAFETY: the parts of the result are apart from each other and from the operands.
            let (src, dst) = unsafe { (rows::<u8>(a, bases), rows_mut::<u8>(&out, bases)) };
            each_task(lanes.outer, *bytes, &|i| {
                // SAFETY: each task writes its own rows.
                let dst = unsafe { dst.slice(i * row + at, *bytes) };
                dst.copy_from_slice(&src[i * bytes..][..*bytes]);
            });
        }
        Ok(())
    }))
}

/// A border of one value; negative widths crop.
fn pad(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let lo: Vec<i64> = attrs.ints("lo").ok()?.to_vec();
    let value = attrs.float("value").ok()?;
    let fill = Literal::scalar_f64(out.ty.dtype, value);
    Some(with_bits!(out.ty.dtype, T => Box::new(move |bases| {
        let mut word = [0u8; 8];
        word[..fill.bytes().len()].copy_from_slice(fill.bytes());
        // SAFETY: the buffer of 8 bytes holds any element.
        let fill: T = unsafe { std::ptr::read_unaligned(word.as_ptr().cast()) };
        // SAFETY: the result is apart from the operand.
        let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&out, bases)) };
        pad_rows(&x.ty.shape, &out.ty.shape, &lo, fill, src, dst);
        Ok(())
    })))
}

fn pad_rows<T: Bits>(x: &ir::Shape, out: &ir::Shape, lo: &[i64], fill: T, src: &[T], dst: crate::pool::Shared<T>) {
    let rank = out.rank();
    if rank == 0 {
        // SAFETY: one element.
        unsafe { dst.slice(0, 1)[0] = src[0] };
        return;
    }
    let width = out[rank - 1];
    let strides = x.strides();
    let last = lo[rank - 1];
    let first = (-last).max(0) as usize;
    let end = (width as i64 - last).clamp(first as i64, (x[rank - 1] as i64).max(first as i64)) as usize;
    each_task(out.count() / width.max(1), width * size_of::<T>(), &|r| {
        // SAFETY: each task writes its own row.
        let row = unsafe { dst.slice(r * width, width) };
        let (mut rest, mut at, mut is_inside) = (r, 0usize, true);
        for d in (0..rank - 1).rev() {
            let i = (rest % out[d]) as i64 - lo[d];
            rest /= out[d];
            is_inside &= i >= 0 && (i as usize) < x[d];
            at += i.max(0) as usize * strides[d] as usize;
        }
        row.fill(fill);
        if is_inside && first < end {
            let to = (first as i64 + last) as usize;
            row[to..to + end - first].copy_from_slice(&src[at + first..at + end]);
        }
    });
}

/// Slices chosen along an axis by an index of any shape.
fn take(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let axis = attrs.size("axis").ok()?;
    let (x, index, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&x.ty.shape, axis);
    let bytes = lanes.inner * x.ty.dtype.size();
    Some(Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        let (src, places, dst) =
            unsafe { (rows::<u8>(&x, bases), rows::<i64>(&index, bases), rows_mut::<u8>(&out, bases)) };
        for &i in places {
            index_of(i, axis, lanes.size)?;
        }
        each_task(lanes.outer * places.len(), bytes, &|k| {
            let (o, i) = (k / places.len(), places[k % places.len()] as usize);
            // SAFETY: each task writes its own slices.
            let to = unsafe { dst.slice(k * bytes, bytes) };
            to.copy_from_slice(&src[(o * lanes.size + i) * bytes..][..bytes]);
        });
        Ok(())
    }))
}

/// Class numbers as they are; if one is no class, the row's reference says so.
fn check_class(n: &FlatNode, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let classes = 0..n.attrs.int("classes").ok()?;
    let ignored = n.attrs.int("ignored").ok()?;
    let ir::Meaning::Kernel(reference) = n.op.meaning else { return None };
    let slow = super::reference(n, args, outs, reference);
    let (x, out) = (args[0].clone(), outs[0].clone());
    Some(Box::new(move |bases| {
        // SAFETY: the result is apart from the operand.
        let (numbers, dst) = unsafe { (rows::<i64>(&x, bases), rows_mut::<i64>(&out, bases)) };
        if !numbers.iter().all(|i| classes.contains(i) | (*i == ignored)) {
            return slow(bases);
        }
        // SAFETY: as above.
        unsafe { dst.slice(0, numbers.len()) }.copy_from_slice(numbers);
        Ok(())
    }))
}

/// Where each element of an index (as `gather` means it) points to in a tensor of shape `x`: the
/// strides of the other dimensions, and the axis' own.
struct Places {
    dims: Vec<usize>,
    strides: Vec<usize>,
    axis: usize,
    size: usize,
}

impl Places {
    fn new(x: &ir::Shape, index: &ir::Shape, axis: usize) -> Places {
        let strides = x.strides().iter().map(|&s| s as usize).collect();
        Places { dims: index.to_vec(), strides, axis, size: x[axis] }
    }
    /// Calls `f(number, place)` for each element of the index.
    fn each(&self, index: &[i64], mut f: impl FnMut(usize, usize)) -> Result<()> {
        let rank = self.dims.len();
        let mut at = vec![0usize; rank];
        for (k, &i) in index.iter().enumerate() {
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
}

/// Elements chosen along an axis by an index of the same rank.
fn gather(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, index, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let places = Places::new(&x.ty.shape, &index.ty.shape, attrs.size("axis").ok()?);
    Some(with_bits!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        unsafe {
            let (src, dst) = (rows::<T>(&x, bases), rows_mut::<T>(&out, bases).slice(0, out.ty.shape.count()));
            places.each(rows::<i64>(&index, bases), |k, p| dst[k] = src[p])
        }
    })))
}

/// Elements put along an axis at the places of an index.
fn scatter(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, index, src, out) = (args[0].clone(), args[1].clone(), args[2].clone(), outs[0].clone());
    let places = Places::new(&x.ty.shape, &index.ty.shape, attrs.size("axis").ok()?);
    Some(with_bits!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        unsafe {
            let (src, dst) = (rows::<T>(&src, bases), rows_mut::<T>(&out, bases).slice(0, out.ty.shape.count()));
            dst.copy_from_slice(rows::<T>(&x, bases));
            places.each(rows::<i64>(&index, bases), |k, p| dst[p] = src[k])
        }
    })))
}

/// A number that values are added up in.
trait Sum: Copy + Send + Sync + 'static {
    fn plus(self, other: Self) -> Self;
}
impl Sum for f32 {
    fn plus(self, other: f32) -> f32 {
        self + other
    }
}
impl Sum for f64 {
    fn plus(self, other: f64) -> f64 {
        self + other
    }
}
macro_rules! wrapping_sum {
    ($($t:ty),*) => {$(
        impl Sum for $t {
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
        }
    )*};
}
wrapping_sum!(i64, u64, i32, u32, i16, u16, i8, u8);

macro_rules! with_sum {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ir::DType::F32 => {
                type $T = f32;
                $body
            }
            ir::DType::F64 => {
                type $T = f64;
                $body
            }
            ir::DType::I64 => {
                type $T = i64;
                $body
            }
            ir::DType::U64 => {
                type $T = u64;
                $body
            }
            ir::DType::I32 => {
                type $T = i32;
                $body
            }
            ir::DType::U32 => {
                type $T = u32;
                $body
            }
            ir::DType::I16 => {
                type $T = i16;
                $body
            }
            ir::DType::U16 => {
                type $T = u16;
                $body
            }
            ir::DType::I8 => {
                type $T = i8;
                $body
            }
            ir::DType::U8 => {
                type $T = u8;
                $body
            }
            // Halves are added up wide, by the reference.
            _ => return None,
        }
    };
}

/// Elements added along an axis at the places of an index, in order.
fn scatter_add(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, index, src, out) = (args[0].clone(), args[1].clone(), args[2].clone(), outs[0].clone());
    let places = Places::new(&x.ty.shape, &index.ty.shape, attrs.size("axis").ok()?);
    Some(with_sum!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        unsafe {
            let (src, dst) = (rows::<T>(&src, bases), rows_mut::<T>(&out, bases).slice(0, out.ty.shape.count()));
            dst.copy_from_slice(rows::<T>(&x, bases));
            places.each(rows::<i64>(&index, bases), |k, p| dst[p] = Sum::plus(dst[p], src[k]))
        }
    })))
}

/// Slices added along an axis at the places of an index, in order; tasks take columns, so that
/// threads do not show in the sums.
fn index_add(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let axis = attrs.size("axis").ok()?;
    let (x, index, src, out) = (args[0].clone(), args[1].clone(), args[2].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&x.ty.shape, axis);
    Some(with_sum!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        let (places, src, dst) =
            unsafe { (rows::<i64>(&index, bases), rows::<T>(&src, bases), rows_mut::<T>(&out, bases)) };
        // SAFETY: as above; nobody else writes yet.
        unsafe { dst.slice(0, out.ty.shape.count()).copy_from_slice(rows::<T>(&x, bases)) };
        for &i in places {
            index_of(i, axis, lanes.size)?;
        }
        let n = places.len();
        let strip = lanes.inner.clamp(1, 64);
        let strips = lanes.inner.div_ceil(strip);
        each_task(lanes.outer * strips, n * strip * size_of::<T>(), &|task| {
            let (o, first) = (task / strips, task % strips * strip);
            let width = strip.min(lanes.inner - first);
            for (k, &i) in places.iter().enumerate() {
                // SAFETY: these columns belong to this task.
                let to = unsafe { dst.slice((o * lanes.size + i as usize) * lanes.inner + first, width) };
                let from = &src[(o * n + k) * lanes.inner + first..][..width];
                to.iter_mut().zip(from).for_each(|(t, f)| *t = Sum::plus(*t, *f));
            }
        });
        Ok(())
    })))
}

/// The numbers 0, 1, 2….
fn iota(outs: &[Operand]) -> Option<Prepared> {
    let out = outs[0].clone();
    Some(Box::new(move |bases| {
        let n = out.ty.shape.count();
        ir::with_dtype!(out.ty.dtype, T => {
            // SAFETY: nobody else uses the result.
            let dst = unsafe { rows_mut::<<T as Element>::Stored>(&out, bases).slice(0, n) };
            dst.iter_mut().enumerate().for_each(|(i, y)| *y = <T as Element>::from_int(i as i128).store());
        });
        Ok(())
    }))
}

/// Transposed sliding windows: overlapping ones are added.
fn fold(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let (axis, step) = (attrs.size("axis").ok()?, attrs.size("step").ok()?);
    let lanes = AxisSplit::new(&out.ty.shape, axis);
    let windows = *x.ty.shape.get(axis)?;
    let size = *x.ty.shape.last()?;
    if windows > 0 && (windows - 1) * step + size > lanes.size {
        return None;
    }
    Some(with_sum!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operand.
        let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&out, bases)) };
        each_task(lanes.outer, lanes.size * lanes.inner * size_of::<T>(), &|o| {
            // SAFETY: each task writes its own block.
            let dst = unsafe { dst.slice(o * lanes.size * lanes.inner, lanes.size * lanes.inner) };
            dst.fill(<T>::default());
            for w in 0..windows {
                for i in 0..lanes.inner {
                    let from = &src[((o * windows + w) * lanes.inner + i) * size..][..size];
                    for (k, v) in from.iter().enumerate() {
                        let to = &mut dst[(w * step + k) * lanes.inner + i];
                        *to = Sum::plus(*to, *v);
                    }
                }
            }
        });
        Ok(())
    })))
}

/// The error of an index that points nowhere.
pub(super) fn out_of_range(i: i64, axis: usize, size: usize) -> Error {
    Error::index(format!("index {i} is out of range for axis {axis} of size {size}"))
}
