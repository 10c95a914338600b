//! Kernels that move elements without looking at them: concatenation, padding, overlapping windows.

#![allow(unsafe_code)]

use super::indexed::{Sum, with_sum};
use super::{Claim, Operand, Prepared, always, each_task, never, rows, rows_mut};
use crate::vmath::copy::{copy_bytes, copy_slice};
use half::{bf16, f16};
use ir::AxisSplit;
use ir::{Attrs, DType, Element, Error, FlatNode, Layout, Literal, Shape};
use std::ops::Range;

/// Kernels that move elements.
pub static CLAIMS: &[Claim] = &[
    Claim {
        joins: |n| n.attrs.size("axis").ok(),
        accepts: |n, _, layout| n.attrs.size("axis").is_ok_and(|axis| row_distance(layout, axis).is_some()),
        ..Claim::new("concat", never, |n, args, outs| Ok(concat(&n.attrs, args, outs)))
    },
    Claim::new("pad", never, |n, args, outs| Ok(pad(&n.attrs, args, outs))),
    Claim {
        claims: |_, _| true,
        ..Claim::new("tril", never, |n, args, outs| Ok(triangle(&n.attrs, args, outs, true)))
    },
    Claim {
        claims: |_, _| true,
        ..Claim::new("triu", never, |n, args, outs| Ok(triangle(&n.attrs, args, outs, false)))
    },
    Claim::new("check_class", always, |n, args, outs| Ok(check_class(n, args, outs))),
    Claim::new("fold", never, |n, args, outs| Ok(fold(&n.attrs, args, outs))),
    Claim::new("iota", never, |_, _, outs| Ok(iota(outs))),
];

/// An element by its size: what is moved, whatever it means.
pub(super) trait Bits: Copy + Send + Sync + 'static {}
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
pub(super) use with_bits;

/// The distance from block to block of a tensor, where a block is what lies along `axis` and the axes after it, if
/// each block lies in one piece of more than an element.
fn row_distance(layout: &Layout, axis: usize) -> Option<isize> {
    let (lead, tail) = (layout.shape.dims().split_at_checked(axis)?, &layout.strides[axis..]);
    let mut size = 1;
    for (&d, &stride) in lead.1.iter().zip(tail).rev() {
        if d != 1 && stride != size {
            return None;
        }
        size *= d as isize;
    }
    let lead = Layout { shape: lead.0.into(), strides: layout.strides[..axis].into(), offset: 0 };
    let apart = lead.reshape(&Shape::new(&[lead.shape.count()]))?.strides[0];
    (size > 1).then_some(apart)
}

/// A part of a concatenation: where it begins in a row of the result, how many bytes it has there, and how many there
/// are from row to row of its own.
struct Part {
    x: Operand,
    at: usize,
    bytes: usize,
    apart: isize,
}

/// Tensors one after the other along an axis.
fn concat(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    /// Bytes of a task.
    const PIECE: usize = 1 << 18;
    let axis = attrs.size("axis").ok()?;
    let out = outs[0].clone();
    let lanes = AxisSplit::new(&out.ty.shape, axis);
    let size = out.ty.dtype.size();
    let row = lanes.size * lanes.inner * size;
    if lanes.inner == 1 && args.len() > 1 && args.iter().all(|a| a.ty.shape[axis] == 1) {
        let args = args.to_vec();
        return Some(with_bits!(out.ty.dtype, T => Box::new(move |bases| {
            // SAFETY: the result is apart from the operands.
            let (parts, dst) = unsafe {
                (args.iter().map(|a| rows::<T>(a, bases)).collect::<Vec<_>>(), rows_mut::<T>(&out, bases))
            };
            interleave(&parts, dst);
            Ok(())
        })));
    }
    let mut at = 0;
    let mut parts: Vec<Part> = Vec::new();
    for x in args {
        let bytes = x.ty.shape[axis] * lanes.inner * size;
        let apart = row_distance(&x.layout, axis).map_or(bytes as isize, |apart| apart * size as isize);
        if bytes > 0 {
            parts.push(Part { x: x.clone(), at, bytes, apart });
        }
        at += bytes;
    }
    Some(Box::new(move |bases| {
        // SAFETY: the parts of the result are apart from each other and from the operands.
        let dst = unsafe { rows_mut::<u8>(&out, bases) };
        let copy = |p: &Part, i: usize, range: Range<usize>| {
            let from = p.x.first::<u8>(bases).wrapping_offset(i as isize * p.apart).wrapping_add(range.start);
            // SAFETY: a piece of block `i` of the operand; each task writes its own bytes.
            unsafe {
                let to = dst.slice(i * row + p.at + range.start, range.len());
                copy_bytes(from.cast_const(), to.as_mut_ptr(), to.len());
            }
        };
        if row <= PIECE {
            // Whole rows of the result, one after the other.
            each_task(lanes.outer, row, &|i| parts.iter().for_each(|p| copy(p, i, 0..p.bytes)));
            return Ok(());
        }
        for p in &parts {
            let pieces = p.bytes.div_ceil(PIECE);
            each_task(lanes.outer * pieces, PIECE.min(p.bytes), &|task| {
                let first = task % pieces * PIECE;
                copy(p, task / pieces, first..p.bytes.min(first + PIECE));
            });
        }
        Ok(())
    }))
}

/// One element of each part in turn.
fn interleave<T: Bits>(parts: &[&[T]], dst: crate::pool::Shared<T>) {
    /// So many parts that the compiler knows the distance of their elements.
    fn of<T: Bits, const N: usize>(parts: &[&[T]], dst: &mut [T]) {
        let parts: [&[T]; N] = std::array::from_fn(|k| &parts[k][..dst.len() / N]);
        for (i, to) in dst.chunks_exact_mut(N).enumerate() {
            (0..N).for_each(|k| to[k] = parts[k][i]);
        }
    }
    const PIECE: usize = 4096;
    let (n, count) = (parts[0].len(), parts.len());
    each_task(n.div_ceil(PIECE), PIECE * count * size_of::<T>(), &|task| {
        let range = task * PIECE..n.min((task + 1) * PIECE);
        // SAFETY: each task writes its own rows.
        let dst = unsafe { dst.slice(range.start * count, range.len() * count) };
        let parts: Vec<&[T]> = parts.iter().map(|p| &p[range.clone()]).collect();
        match count {
            2 => of::<T, 2>(&parts, dst),
            3 => of::<T, 3>(&parts, dst),
            4 => of::<T, 4>(&parts, dst),
            _ => {
                for (k, part) in parts.iter().enumerate() {
                    dst.chunks_exact_mut(count).zip(*part).for_each(|(to, x)| to[k] = *x);
                }
            }
        }
    });
}

/// What lies on and below a diagonal of each matrix, or on and above it; zeros elsewhere.
fn triangle(attrs: &Attrs, args: &[Operand], outs: &[Operand], is_lower: bool) -> Option<Prepared> {
    let (x, out, k) = (args[0].clone(), outs[0].clone(), attrs.int("k").ok()?);
    let [.., rows, columns] = *x.ty.shape.dims() else { return None };
    let count = x.ty.shape.count().checked_div(columns).unwrap_or(0);
    Some(with_bits!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operand.
        let (src, dst) = unsafe { (super::rows::<T>(&x, bases), rows_mut::<T>(&out, bases)) };
        each_task(count, columns * size_of::<T>(), &|r| {
            // Where the row crosses the diagonal.
            let at = (r % rows) as i64;
            let end = at.saturating_add(k).saturating_add(i64::from(is_lower)).clamp(0, columns as i64) as usize;
            let kept = if is_lower { 0..end } else { end..columns };
            // SAFETY: each task writes its own rows.
            let to = unsafe { dst.slice(r * columns, columns) };
            to[..kept.start].fill(0);
            copy_slice(&src[r * columns..][kept.clone()], &mut to[kept.clone()]);
            to[kept.end..].fill(0);
        });
        Ok(())
    })))
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
    let to = (first as i64 + last).max(0) as usize;
    let rows = out.count() / width.max(1);
    if x[rank - 1] == 1 && first < end && lo[..rank - 1].iter().all(|&l| l == 0) && x[..rank - 1] == out[..rank - 1] {
        return spread(src, fill, width, to, dst);
    }
    // Rows may be of one element: many of them share a task.
    let group = (8192 / width.max(1)).max(1);
    each_task(rows.div_ceil(group), group * width * size_of::<T>(), &|task| {
        let range = task * group..rows.min((task + 1) * group);
        let mut index = vec![0usize; rank - 1];
        let mut rest = range.start;
        for d in (0..rank - 1).rev() {
            (index[d], rest) = (rest % out[d], rest / out[d]);
        }
        // SAFETY: each task writes its own rows.
        let dst = unsafe { dst.slice(range.start * width, range.len() * width) };
        for row in dst.chunks_exact_mut(width.max(1)) {
            let (mut at, mut is_inside) = (0usize, true);
            for d in 0..rank - 1 {
                let i = index[d] as i64 - lo[d];
                is_inside &= i >= 0 && (i as usize) < x[d];
                at += i.max(0) as usize * strides[d] as usize;
            }
            pad_row(row, fill, if is_inside && first < end { &src[at + first..at + end] } else { &[] }, to);
            for d in (0..rank - 1).rev() {
                index[d] += 1;
                if index[d] < out[d] {
                    break;
                }
                index[d] = 0;
            }
        }
    });
}

/// Elements `width` apart, the first at `to`, and `fill` between them.
fn spread<T: Bits>(src: &[T], fill: T, width: usize, to: usize, dst: crate::pool::Shared<T>) {
    fn spread_by<T: Bits, const W: usize>(src: &[T], fill: T, to: usize, dst: &mut [T]) {
        for (x, y) in src.iter().zip(dst.chunks_exact_mut(W)) {
            (0..W).for_each(|k| y[k] = if k == to { *x } else { fill });
        }
    }
    const PIECE: usize = 4096;
    each_task(src.len().div_ceil(PIECE), PIECE * width * size_of::<T>(), &|task| {
        let src = &src[task * PIECE..src.len().min((task + 1) * PIECE)];
        // SAFETY: each task writes its own rows.
        let dst = unsafe { dst.slice(task * PIECE * width, src.len() * width) };
        match width {
            2 => spread_by::<T, 2>(src, fill, to, dst),
            3 => spread_by::<T, 3>(src, fill, to, dst),
            4 => spread_by::<T, 4>(src, fill, to, dst),
            _ => {
                dst.fill(fill);
                src.iter().zip(dst.chunks_exact_mut(width)).for_each(|(x, y)| y[to] = *x);
            }
        }
    });
}

/// A row with elements from `to` on, filled up on both sides.
fn pad_row<T: Bits>(row: &mut [T], fill: T, from: &[T], to: usize) {
    if from.is_empty() {
        return row.fill(fill);
    }
    let end = to + from.len();
    if row.len() <= 16 {
        // Too short for calls of library functions.
        for (c, y) in row.iter_mut().enumerate() {
            *y = if (to..end).contains(&c) { from[c - to] } else { fill };
        }
        return;
    }
    row[..to].fill(fill);
    copy_slice(from, &mut row[to..end]);
    row[end..].fill(fill);
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

/// The numbers 0, 1, 2….
fn iota(outs: &[Operand]) -> Option<Prepared> {
    let out = outs[0].clone();
    Some(Box::new(move |bases| {
        let n = out.ty.shape.count();
        ir::with_dtype!(out.ty.dtype, T => {
            // SAFETY: no other thread uses the result.
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
            let mut wide = <T as Sum>::zeros(dst.len());
            let sums = match &mut wide {
                Some(wide) => wide.as_mut_slice(),
                None => {
                    dst.fill(<T>::default());
                    // SAFETY: what is added up is of the result's own type.
                    unsafe { std::slice::from_raw_parts_mut(dst.as_mut_ptr().cast(), dst.len()) }
                }
            };
            for w in 0..windows {
                for i in 0..lanes.inner {
                    let from = &src[((o * windows + w) * lanes.inner + i) * size..][..size];
                    for (k, v) in from.iter().enumerate() {
                        let to = &mut sums[(w * step + k) * lanes.inner + i];
                        *to = <T as Sum>::plus(*to, *v);
                    }
                }
            }
            if let Some(wide) = &wide {
                <T as Sum>::narrow(wide, dst);
            }
        });
        Ok(())
    })))
}

/// The error of an index that points nowhere.
pub(super) fn out_of_range(i: i64, axis: usize, size: usize) -> Error {
    Error::index(format!("index {i} is out of range for axis {axis} of size {size}"))
}
