//! Rotary position embedding of neighbors: pairs of two elements are too short for loops over rows.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, each_task, never, rows, rows_mut};
use crate::pool::Shared;
use crate::vmath::dispatch;
use ir::{DType, FlatNode, Layout, Type};
use smallvec::SmallVec;

/// Rotary position embedding.
pub static CLAIMS: &[Claim] = &[Claim {
    claims,
    accepts: |_, operand, layout| operand == 0 && has_whole_rows(layout),
    ..Claim::new("rope", never, |n, args, outs| Ok(prepare(n, args, outs)))
}];

/// Neighbors in f32, with an angle for every pair.
fn claims(n: &FlatNode, types: &[Type]) -> bool {
    let half = types[0].shape.last().map_or(0, |e| e / 2);
    n.attrs.bool("interleaved").unwrap_or(false)
        && types.iter().all(|t| t.dtype == DType::F32)
        && types[1..].iter().all(|t| half > 0 && t.shape.last() == Some(&half))
}

fn has_whole_rows(layout: &Layout) -> bool {
    let rank = layout.shape.rank();
    rank >= 1 && layout.strides[rank - 1] == 1 && layout.strides.iter().all(|&s| s >= 0)
}

/// Leading sizes with the distances of rows of x, cosines and sines, in elements.
type Rows = SmallVec<[(usize, [usize; 3]); 4]>;

fn prepare(n: &FlatNode, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let [x, cos, sin] = [0, 1, 2].map(|i| args[i].clone());
    let out = outs[0].clone();
    if !claims(n, &[&x, &cos, &sin].map(|o| o.ty.clone())) {
        return None;
    }
    let (shape, rank) = (x.ty.shape.clone(), x.ty.shape.rank());
    let (e, half) = (shape[rank - 1], shape[rank - 1] / 2);
    // Where a row of a table lies: tables lie in order, and are repeated along axes that they lack.
    let mut strides: Rows = SmallVec::new();
    let mut apart = [half; 2];
    for axis in (0..rank - 1).rev() {
        let mut at = [usize::try_from(x.layout.strides[axis]).ok()?, 0, 0];
        for (i, table) in [&cos, &sin].into_iter().enumerate() {
            let own = table.ty.shape.rank();
            let size = if axis + own >= rank { table.ty.shape[axis + own - rank] } else { 1 };
            at[i + 1] = if size == 1 { 0 } else { apart[i] };
            apart[i] *= size;
        }
        strides.push((shape[axis], at));
    }
    let count: usize = shape[..rank - 1].iter().product();
    Some(Box::new(move |bases| {
        // SAFETY: the result is apart from the operands, and each task writes its own rows.
        unsafe {
            let (from, to): (Shared<f32>, Shared<f32>) = (Shared::new(x.first(bases)), rows_mut(&out, bases));
            let (cos, sin): (&[f32], &[f32]) = (rows(&cos, bases), rows(&sin, bases));
            each_task(count, 8 * e, &|row| {
                let (mut rest, mut at) = (row, [0; 3]);
                for (size, apart) in &strides {
                    let i = rest % size;
                    rest /= size;
                    (0..3).for_each(|k| at[k] += i * apart[k]);
                }
                let (cos, sin) = (&cos[at[1]..][..half], &sin[at[2]..][..half]);
                rotate(from.get().add(at[0]), cos.as_ptr(), sin.as_ptr(), half, to.get().add(row * e));
            });
        }
        Ok(())
    }))
}

dispatch! {
    /// Turns pairs of neighbors, with the arithmetic of the op's row.
    unsafe fn rotate(x: *const f32, cos: *const f32, sin: *const f32, half: usize, y: *mut f32) {
        _I => {
            let x = std::slice::from_raw_parts(x, 2 * half);
            let (cos, sin) = (std::slice::from_raw_parts(cos, half), std::slice::from_raw_parts(sin, half));
            let y = std::slice::from_raw_parts_mut(y, 2 * half);
            for (((y, x), c), s) in y.chunks_exact_mut(2).zip(x.chunks_exact(2)).zip(cos).zip(sin) {
                let (a, b) = (x[0], x[1]);
                y[0] = a * c + b * -s;
                y[1] = b * c + a * s;
            }
        }
    }
}
