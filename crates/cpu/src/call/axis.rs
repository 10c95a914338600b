//! Kernels along one axis, and random bits: running sums, places of extremes, order.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, each_task, never, rows, rows_mut};
use crate::kernels::philox;
use ir::AxisSplit;
use ir::{Attrs, DType, Element};
use std::cmp::Ordering;

/// Kernels along one axis, and random bits.
pub static CLAIMS: &[Claim] = &[
    Claim::new("cumsum", never, |n, args, outs| Ok(cumsum(&n.attrs, args, outs))),
    Claim::new("argmax", never, |n, args, outs| Ok(extreme(&n.attrs, args, outs, true))),
    Claim::new("argmin", never, |n, args, outs| Ok(extreme(&n.attrs, args, outs, false))),
    Claim::new("sort", never, |n, args, outs| Ok(sort(&n.attrs, args, outs))),
    Claim::new("random_bits", never, |_, args, outs| Ok(random_bits(args, outs))),
];

macro_rules! with_number {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::U64 => {
                type $T = u64;
                $body
            }
            DType::I32 => {
                type $T = i32;
                $body
            }
            DType::U32 => {
                type $T = u32;
                $body
            }
            DType::I16 => {
                type $T = i16;
                $body
            }
            DType::U16 => {
                type $T = u16;
                $body
            }
            DType::I8 => {
                type $T = i8;
                $body
            }
            DType::U8 => {
                type $T = u8;
                $body
            }
            // Halves and bool are left to the reference.
            _ => return None,
        }
    };
}

/// Running sums along an axis; floats are added up in `f64`.
fn cumsum(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&x.ty.shape, attrs.size("axis").ok()?);
    let reverse = attrs.bool("reverse").ok()?;
    Some(with_number!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operand.
        let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&out, bases)) };
        each_task(lanes.outer, lanes.size * lanes.inner * size_of::<T>(), &|o| {
            let first = o * lanes.size * lanes.inner;
            // SAFETY: each task writes its own block.
            let dst = unsafe { dst.slice(first, lanes.size * lanes.inner) };
            for l in 0..lanes.inner {
                let (mut float, mut int) = (0f64, 0i64);
                for k in 0..lanes.size {
                    let at = (if reverse { lanes.size - 1 - k } else { k }) * lanes.inner + l;
                    dst[at] = if T::DTYPE.is_float() {
                        float += src[first + at].to_f64();
                        <T as Element>::from_f64(float)
                    } else {
                        int = int.wrapping_add(src[first + at].to_int() as i64);
                        <T as Element>::from_int(int as i128)
                    };
                }
            }
        });
        Ok(())
    })))
}

/// True if `new` is a greater (or lesser) element than `best`: a NaN before all, the first of
/// equals.
fn wins<T: PartialOrd>(new: T, best: T, greatest: bool) -> bool {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    if is_nan(&best) {
        return false;
    }
    is_nan(&new) || if greatest { new > best } else { new < best }
}

/// The place of the greatest or least element along an axis.
fn extreme(attrs: &Attrs, args: &[Operand], outs: &[Operand], greatest: bool) -> Option<Prepared> {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&x.ty.shape, attrs.size("axis").ok()?);
    Some(with_number!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operand.
        let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<i64>(&out, bases)) };
        each_task(lanes.outer, lanes.size * lanes.inner * size_of::<T>(), &|o| {
            // SAFETY: each task writes its own lanes.
            let dst = unsafe { dst.slice(o * lanes.inner, lanes.inner) };
            for (l, place) in dst.iter_mut().enumerate() {
                let at = |k: usize| src[(o * lanes.size + k) * lanes.inner + l];
                let mut best = 0;
                for k in 1..lanes.size {
                    if wins(at(k), at(best), greatest) {
                        best = k;
                    }
                }
                *place = best as i64;
            }
        });
        Ok(())
    })))
}

/// The elements along an axis in order, and where each came from; equal ones keep their order,
/// NaN is the greatest.
fn sort(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, values, places) = (args[0].clone(), outs[0].clone(), outs[1].clone());
    let lanes = AxisSplit::new(&x.ty.shape, attrs.size("axis").ok()?);
    let descending = attrs.bool("descending").ok()?;
    fn compare<T: PartialOrd>(a: &T, b: &T) -> Ordering {
        let is_nan = |x: &T| x.partial_cmp(x).is_none();
        a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
    }
    Some(with_number!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the results are apart from the operand and from each other.
        let (src, values, places) =
            unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&values, bases), rows_mut::<i64>(&places, bases)) };
        each_task(lanes.outer, lanes.size * lanes.inner * 64, &|o| {
            let block = lanes.size * lanes.inner;
            // SAFETY: each task writes its own block.
            let (values, places) = unsafe { (values.slice(o * block, block), places.slice(o * block, block)) };
            let mut lane: Vec<(T, i64)> = Vec::with_capacity(lanes.size);
            for l in 0..lanes.inner {
                lane.clear();
                lane.extend((0..lanes.size).map(|k| (src[o * block + k * lanes.inner + l], k as i64)));
                lane.sort_by(|a, b| if descending { compare(&b.0, &a.0) } else { compare(&a.0, &b.0) });
                for (k, (v, place)) in lane.iter().enumerate() {
                    (values[k * lanes.inner + l], places[k * lanes.inner + l]) = (*v, *place);
                }
            }
        });
        Ok(())
    })))
}

/// 32 random bits an element by Philox4x32-10, of the element's key and its place.
fn random_bits(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    const TASK: usize = 4096;
    let (key, out) = (args[0].clone(), outs[0].clone());
    let (width, lead) = key.ty.shape.split_last().map(|(w, lead)| (*w, lead.len()))?;
    // Elements of a row: a third number of a key says how many rows of a larger draw come before.
    let row: usize = out.ty.shape.iter().skip(lead + 1).product();
    Some(Box::new(move |bases| {
        let keys = key.ty.shape.count() / width;
        let each = out.ty.shape.count().checked_div(keys).unwrap_or(0);
        if each == 0 {
            return Ok(());
        }
        // SAFETY: the result is apart from the keys.
        let (key, dst) = unsafe { (rows::<i64>(&key, bases), rows_mut::<u32>(&out, bases)) };
        // Several short keys a task, or several tasks a long key.
        let (group, pieces) = ((TASK / each).max(1), each.div_ceil(TASK));
        each_task(keys.div_ceil(group) * pieces, 4 * TASK, &|task| {
            let (from, first) = (task / pieces * group, task % pieces * TASK);
            for k in from..keys.min(from + group) {
                // SAFETY: each task writes its own stretch.
                let dst = unsafe { dst.slice(k * each + first, TASK.min(each - first)) };
                let key = &key[width * k..][..width];
                let before = key.get(2).map_or(0, |rows| (*rows as u64).wrapping_mul(row as u64));
                fill_from(key[0] as u64, key[1] as u64, before.wrapping_add(first as u64), dst);
            }
        });
        Ok(())
    }))
}
/// Bits from a place on that may lie within a block of four.
fn fill_from(seed: u64, counter: u64, place: u64, dst: &mut [u32]) {
    let (skipped, mut block) = ((place % 4) as usize, [0; 4]);
    let head = if skipped == 0 { 0 } else { (4 - skipped).min(dst.len()) };
    if head > 0 {
        philox::fill(seed, counter, place - skipped as u64, &mut block);
        dst[..head].copy_from_slice(&block[skipped..][..head]);
    }
    if head < dst.len() {
        philox::fill(seed, counter, place.wrapping_add(head as u64), &mut dst[head..]);
    }
}
