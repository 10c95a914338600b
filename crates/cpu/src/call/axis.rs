//! Kernels along one axis, and random bits: running sums, products and extremes, indices of extremes.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, each_task, never, rows, rows_mut};
use crate::kernels::lanes::{Block, Lane, Running, STRIP};
use crate::kernels::philox;
use crate::kernels::recurrence::{Recur, TOGETHER};
use crate::pool::{self, Shared};
use half::{bf16, f16};
use ir::AxisSplit;
use ir::{Attrs, DType, Element};

/// Kernels along one axis, and random bits.
pub static CLAIMS: &[Claim] = &[
    Claim::new("cumsum", never, |n, args, outs| {
        let how = if n.attrs.bool("reverse")? { Running::SumReverse } else { Running::Sum };
        Ok(running(&n.attrs, args, outs, how))
    }),
    Claim::new("cumprod", never, |n, args, outs| Ok(running(&n.attrs, args, outs, Running::Product))),
    Claim {
        claims: |_, types| matches!(types[0].dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16),
        ..Claim::new("recur_back", never, |n, args, outs| Ok(recurrence(&n.attrs, args, outs)))
    },
    Claim::new("cummax", never, |n, args, outs| Ok(running_extreme(&n.attrs, args, outs, true))),
    Claim::new("cummin", never, |n, args, outs| Ok(running_extreme(&n.attrs, args, outs, false))),
    Claim::new("argmax", never, |n, args, outs| Ok(extreme(&n.attrs, args, outs, true))),
    Claim::new("argmin", never, |n, args, outs| Ok(extreme(&n.attrs, args, outs, false))),
    Claim::new("random_bits", never, |_, args, outs| Ok(random_bits(args, outs))),
];

/// Runs `$body` with `$T` the element type; bool is left to the reference.
macro_rules! with_number {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_number!(@ $dtype, $T, $body, F32 f32, F64 f64, BF16 bf16, F16 f16, I64 i64, U64 u64, I32 i32, U32 u32, I16 i16, U16 u16, I8 i8, U8 u8)
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

/// Running sums or products along an axis; floats are accumulated in `f64`.
fn running(attrs: &Attrs, args: &[Operand], outs: &[Operand], how: Running) -> Option<Prepared> {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&x.ty.shape, attrs.size("axis").ok()?);
    Some(with_number!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operand.
        let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&out, bases)) };
        let AxisSplit { outer, size, inner } = lanes;
        if size == 0 {
            return Ok(());
        }
        if inner == 1 && outer == 1 && size >= 2 * LONG && how != Running::Product && T::DTYPE != DType::F64 {
            long_sums(src, dst, how);
            return Ok(());
        }
        if inner == 1 {
            const GROUP: usize = 8;
            each_task(outer.div_ceil(GROUP), GROUP * size * size_of::<T>(), &|task| {
                let (first, count) = (task * GROUP, GROUP.min(outer - task * GROUP));
                // SAFETY: each task writes its own lanes.
                let dst = unsafe { dst.slice(first * size, count * size) };
                T::running_rows(&src[first * size..(first + count) * size], dst, size, how);
            });
            return Ok(());
        }
        each_strip(lanes, size_of::<T>(), &|o, block| {
            // SAFETY: each task writes its own columns of its own block.
            unsafe {
                let at = o * size * inner;
                T::running(src.as_ptr().add(at), dst.get().add(at), block, how);
            }
        });
        Ok(())
    })))
}

/// `r[i] = b[i] + a[i] r[i + 1]` from the end of an axis, in `f64`.
fn recurrence(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (a, b, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&a.ty.shape, attrs.size("axis").ok()?);
    Some(with_number!(@ a.ty.dtype, T, Box::new(move |bases| {
        // SAFETY: the result is apart from the operands.
        let (a, b, dst) = unsafe { (rows::<T>(&a, bases), rows::<T>(&b, bases), rows_mut::<T>(&out, bases)) };
        let AxisSplit { outer, size, inner } = lanes;
        if size == 0 {
            return Ok(());
        }
        if inner == 1 {
            const GROUP: usize = TOGETHER;
            each_task(outer.div_ceil(GROUP), GROUP * size * size_of::<T>(), &|task| {
                let range = task * GROUP * size..(task * GROUP + GROUP.min(outer - task * GROUP)) * size;
                // SAFETY: each task writes its own lanes.
                let dst = unsafe { dst.slice(range.start, range.len()) };
                T::recur_rows(&a[range.clone()], &b[range], dst, size);
            });
            return Ok(());
        }
        each_strip(lanes, size_of::<T>(), &|o, block| {
            let at = o * size * inner;
            // SAFETY: each task writes its own columns of its own block.
            unsafe { T::recur_columns(a.as_ptr().add(at), b.as_ptr().add(at), dst.get().add(at), block) };
        });
        Ok(())
    }), F32 f32, F64 f64, BF16 bf16, F16 f16))
}

/// Elements of a piece of a long lane.
const LONG: usize = 1 << 15;

/// Running sums of one long lane: sums of pieces, then the pieces from there on. Each piece starts from the sum of
/// those before it, as `f64` or integers.
fn long_sums<T: Lane>(src: &[T], dst: Shared<T>, how: Running) {
    let pieces = src.len().div_ceil(LONG);
    let range = |p: usize| {
        let p = if how == Running::SumReverse { pieces - 1 - p } else { p };
        p * LONG..src.len().min((p + 1) * LONG)
    };
    let mut sums = vec![(0f64, 0i64); pieces + 1];
    let parts = Shared::new(sums.as_mut_ptr());
    pool::parallel_for(pieces, &|p| {
        let mut sum = (0f64, 0i64);
        for x in &src[range(p)] {
            if T::DTYPE.is_float() { sum.0 += x.to_f64() } else { sum.1 = sum.1.wrapping_add(x.to_int() as i64) }
        }
        // SAFETY: each task writes its own sum.
        unsafe { *parts.get().add(p + 1) = sum };
    });
    for p in 0..pieces {
        sums[p + 1] = (sums[p].0 + sums[p + 1].0, sums[p].1.wrapping_add(sums[p + 1].1));
    }
    pool::parallel_for(pieces, &|p| {
        let (mut sum, range) = (sums[p], range(p));
        // SAFETY: each task writes its own piece.
        let to = unsafe { dst.slice(range.start, range.len()) };
        let from = &src[range];
        for k in 0..from.len() {
            let k = if how == Running::SumReverse { from.len() - 1 - k } else { k };
            to[k] = if T::DTYPE.is_float() {
                sum.0 += from[k].to_f64();
                T::from_f64(sum.0)
            } else {
                sum.1 = sum.1.wrapping_add(from[k].to_int() as i64);
                T::from_int(i128::from(sum.1))
            };
        }
    });
}

/// Calls `f(outer, block)` for strips of lanes that lie beside each other.
fn each_strip(lanes: AxisSplit, bytes: usize, f: &(dyn Fn(usize, Block) + Sync)) {
    let AxisSplit { outer, size, inner } = lanes;
    let strips = inner.div_ceil(STRIP);
    each_task(outer * strips, size * STRIP.min(inner) * bytes, &|task| {
        let (o, first) = (task / strips, task % strips * STRIP);
        f(o, Block { size, inner, first, width: STRIP.min(inner - first) });
    });
}

/// The index of the greatest or least element along an axis.
fn extreme(attrs: &Attrs, args: &[Operand], outs: &[Operand], greatest: bool) -> Option<Prepared> {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let lanes = AxisSplit::new(&x.ty.shape, attrs.size("axis").ok()?);
    if lanes.size == 0 || i32::try_from(lanes.size).is_err() {
        return None;
    }
    Some(with_number!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operand.
        let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<i64>(&out, bases)) };
        let AxisSplit { outer, size, inner } = lanes;
        if inner == 1 && outer < 8 && size >= 2 * LONG {
            for o in 0..outer {
                // SAFETY: one element for each lane.
                unsafe { *dst.get().add(o) = long_place(&src[o * size..(o + 1) * size], greatest) as i64 };
            }
            return Ok(());
        }
        if inner == 1 {
            each_task(outer, size * size_of::<T>(), &|o| {
                // SAFETY: each task writes its own lanes.
                unsafe { *dst.get().add(o) = T::place(&src[o * size..(o + 1) * size], greatest) as i64 };
            });
            return Ok(());
        }
        each_strip(lanes, size_of::<T>(), &|o, block| {
            // SAFETY: each task writes its own lanes.
            unsafe {
                let to = dst.slice(o * inner + block.first, block.width);
                T::places(src.as_ptr().add(o * size * inner), block, greatest, to);
            }
        });
        Ok(())
    })))
}

/// The index of the extreme of a long lane: that of each piece, then the best of them.
fn long_place<T: Lane>(x: &[T], greatest: bool) -> usize {
    let mut found = vec![0; x.len().div_ceil(LONG)];
    let to = Shared::new(found.as_mut_ptr());
    pool::parallel_for(found.len(), &|p| {
        let first = p * LONG;
        // SAFETY: each task writes its own element.
        unsafe { *to.get().add(p) = first + T::place(&x[first..x.len().min(first + LONG)], greatest) };
    });
    let best: Vec<T> = found.iter().map(|&i| x[i]).collect();
    found[T::place(&best, greatest)]
}

/// The greatest or least element so far along an axis, and its index.
fn running_extreme(attrs: &Attrs, args: &[Operand], outs: &[Operand], greatest: bool) -> Option<Prepared> {
    let (x, values, places) = (args[0].clone(), outs[0].clone(), outs[1].clone());
    let lanes = AxisSplit::new(&x.ty.shape, attrs.size("axis").ok()?);
    Some(with_number!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the results are apart from the operand and from each other.
        let (src, values, places) =
            unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&values, bases), rows_mut::<i64>(&places, bases)) };
        let AxisSplit { outer, size, inner } = lanes;
        if inner == 1 {
            each_task(outer, size * 16, &|o| {
                // SAFETY: each row is written by one task.
                let (values, places) = unsafe { (values.slice(o * size, size), places.slice(o * size, size)) };
                T::extremes(&src[o * size..(o + 1) * size], values, places, greatest);
            });
            return Ok(());
        }
        each_strip(lanes, 16, &|o, block| {
            let at = o * size * inner;
            // SAFETY: each task writes its own columns of its own block.
            unsafe {
                T::extreme_columns(src.as_ptr().add(at), values.get().add(at), places.get().add(at), block, greatest);
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
