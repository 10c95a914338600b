//! Sorting and selection along an axis: see [`crate::kernels::order`].

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, each_task, never, rows, rows_mut};
use crate::kernels::order::{self, Item, Key, Ordered};
use crate::pool::{self, Shared};
use half::{bf16, f16};
use ir::{AxisSplit, DType, FlatNode, Result, Type};

/// Sorting and selection.
pub static CLAIMS: &[Claim] = &[
    Claim::new("sort", never, |n, args, outs| {
        let is_reverse = n.attrs.bool("descending")?;
        prepare(n, args, outs, Choice::All, is_reverse)
    }),
    Claim {
        claims: is_ordered,
        ..Claim::new("top_k", never, |n, args, outs| {
            prepare(n, args, outs, Choice::First(n.attrs.size("k")?), n.attrs.bool("largest")?)
        })
    },
    Claim {
        claims: is_ordered,
        ..Claim::new("kthvalue", never, |n, args, outs| {
            prepare(n, args, outs, Choice::Number(n.attrs.size("k")?), false)
        })
    },
    Claim {
        claims: is_ordered,
        ..Claim::new("median", never, |n, args, outs| prepare(n, args, outs, Choice::Middle, false))
    },
    Claim {
        claims: is_ordered,
        ..Claim::new("nanmedian", never, |n, args, outs| prepare(n, args, outs, Choice::MiddleNumber, false))
    },
    Claim::new("searchsorted", never, |n, args, outs| Ok(search(args, outs, n.attrs.bool("right")?))),
];

/// Runs `$body` with `$T` the element type; other types than numbers have no order.
macro_rules! with_order {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_order!(@ $dtype, $T, $body, F32 f32, F64 f64, BF16 bf16, F16 f16, I64 i64, U64 u64, I32 i32, U32 u32, I16 i16, U16 u16, I8 i8, U8 u8)
    };
    (@ $dtype:expr, $T:ident, $body:expr, $($d:ident $t:ident),*) => {
        match $dtype {
            $(DType::$d => {
                type $T = $t;
                Some($body)
            })*
            _ => None,
        }
    };
}

fn is_ordered(_: &FlatNode, types: &[Type]) -> bool {
    let size = types[0].shape.iter().max().copied().unwrap_or(0);
    size < u32::MAX as usize && with_order!(types[0].dtype, T => size_of::<T>()).is_some()
}

/// What is wanted of each lane.
#[derive(Clone, Copy)]
enum Choice {
    All,
    /// As many, in order.
    First(usize),
    /// One, counted from 1.
    Number(usize),
    /// The lower of the middle; NaN if there is one.
    Middle,
    /// The lower of the middle of what is not NaN.
    MiddleNumber,
}

fn prepare(
    n: &FlatNode,
    args: &[Operand],
    outs: &[Operand],
    choice: Choice,
    is_reverse: bool,
) -> Result<Option<Prepared>> {
    let (x, values, places) = (args[0].clone(), outs[0].clone(), outs[1].clone());
    let axis = n.attrs.size("axis")?;
    let lanes = AxisSplit::new(&x.ty.shape, axis);
    let kept = values.ty.shape[axis];
    if lanes.size >= u32::MAX as usize {
        return Ok(None);
    }
    Ok(with_order!(x.ty.dtype, T => Box::new(move |bases: crate::tile::access::Bases| {
        // SAFETY: the results lie apart from the operand and from each other.
        let (src, values, places) =
            unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&values, bases), rows_mut::<i64>(&places, bases)) };
        Lanes { src, values, places, lanes, kept, choice, is_reverse }.run();
        Ok(())
    }) as Prepared))
}

/// The lanes of one call.
struct Lanes<'a, T> {
    src: &'a [T],
    values: Shared<T>,
    places: Shared<i64>,
    lanes: AxisSplit,
    /// Elements of a lane of the results.
    kept: usize,
    choice: Choice,
    is_reverse: bool,
}

/// Elements of a lane from which on threads share it.
const LONG: usize = 1 << 17;

impl<T: Ordered> Lanes<'_, T> {
    fn run(&self) {
        let AxisSplit { outer, size, inner } = self.lanes;
        let count = outer * inner;
        if size >= LONG && count < pool::threads() {
            return (0..count).for_each(|l| self.one(l, &mut Room::default()));
        }
        // Several lanes a task, which share its memory.
        let group = (4096 / size.max(1)).max(1);
        each_task(count.div_ceil(group), group * size * 64, &|task| {
            let mut room = Room::default();
            (task * group..count.min((task + 1) * group)).for_each(|l| self.one(l, &mut room));
        });
    }
    fn one(&self, l: usize, room: &mut Room<T::Key>) {
        let AxisSplit { size, inner, .. } = self.lanes;
        let (o, i) = (l / inner, l % inner);
        let at = |k: usize| self.src[(o * size + k) * inner + i];
        let key = |x: T| if self.is_reverse { !x.key() } else { x.key() };
        let Room { keys, items } = room;
        if let Choice::First(k) = self.choice
            && k * 4 <= size
        {
            if inner == 1 {
                T::keys(&self.src[o * size..(o + 1) * size], self.is_reverse, keys);
            } else {
                keys.clear();
                keys.extend((0..size).map(|k| key(at(k))));
            }
            order::least(keys, k, items);
        } else {
            items.clear();
            items.extend((0..size).map(|k| key(at(k)).with(k as u32)));
            let nans = || (0..size).filter(|&k| at(k).is_nan()).count();
            let number = match self.choice {
                Choice::All | Choice::First(_) => None,
                Choice::Number(k) => Some(k - 1),
                Choice::Middle => Some(match nans() {
                    0 => (size - 1) / 2,
                    n => size - n,
                }),
                Choice::MiddleNumber => Some((size - nans()).saturating_sub(1) / 2),
            };
            match number {
                None => order::sort(items),
                Some(k) => items[0] = order::nth(items, k),
            }
        }
        for (k, item) in items[..self.kept].iter().enumerate() {
            let to = (o * self.kept + k) * inner + i;
            let key = T::Key::of(*item);
            let value = T::of_key(if self.is_reverse { !key } else { key }, || at(item.index()));
            // SAFETY: each lane is written by one task.
            unsafe {
                *self.values.get().add(to) = value;
                *self.places.get().add(to) = item.index() as i64;
            }
        }
    }
}

/// Memory of a task.
struct Room<K: Key> {
    keys: Vec<K>,
    items: Vec<K::Item>,
}
impl<K: Key> Default for Room<K> {
    fn default() -> Room<K> {
        Room { keys: Vec::new(), items: Vec::new() }
    }
}

/// Where values belong in ascending sequences.
fn search(args: &[Operand], outs: &[Operand], is_right: bool) -> Option<Prepared> {
    const TASK: usize = 2048;
    let (sorted, x, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let n = *sorted.ty.shape.last()?;
    let sequences = sorted.ty.shape.count() / n.max(1);
    let per = x.ty.shape.count() / sequences.max(1);
    if n == 0 || per == 0 {
        return None;
    }
    with_order!(x.ty.dtype, T => Box::new(move |bases: crate::tile::access::Bases| {
        // SAFETY: the result lies apart from the operands.
        let (sorted, x, dst) =
            unsafe { (rows::<T>(&sorted, bases), rows::<T>(&x, bases), rows_mut::<i64>(&out, bases)) };
        let keys: Vec<_> = sorted.iter().map(|x| x.key()).collect();
        let pieces = per.div_ceil(TASK);
        each_task(sequences * pieces, TASK.min(per) * 128, &|task| {
            let (s, first) = (task / pieces, task % pieces * TASK);
            let keys = &keys[s * n..(s + 1) * n];
            let range = s * per + first..s * per + per.min(first + TASK);
            // SAFETY: each task writes its own elements.
            let mut to = unsafe { dst.slice(range.start, range.len()) }.iter_mut();
            let searched = x[range].iter().map(|x| x.key());
            order::count_before(keys, searched, is_right, |place| {
                if let Some(to) = to.next() {
                    *to = place as i64;
                }
            });
        });
        Ok(())
    }) as Prepared)
}
