//! The places of the true elements of a mask: pieces of it are counted, then each writes its own stretch of the result.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, never, rows, rows_mut};
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
use ir::Attrs;

/// Places of true elements.
pub static CLAIMS: &[Claim] =
    &[Claim::new("flat_nonzero", never, |n, args, outs| Ok(flat_nonzero(&n.attrs, args, outs)))];

/// Elements of a mask that a task goes through.
const PIECE: usize = 1 << 14;

/// Elements that are looked at together.
const GROUP: usize = 8;

/// For each set of true elements among eight, where they are.
static OFFSETS: [[u8; GROUP]; 256] = {
    let mut offsets = [[0; GROUP]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut k, mut count) = (0, 0);
        while k < GROUP {
            if set >> k & 1 == 1 {
                offsets[set][count] = k as u8;
                count += 1;
            }
            k += 1;
        }
        set += 1;
    }
    offsets
};

fn flat_nonzero(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (mask, out) = (args[0].clone(), outs[0].clone());
    let (size, fill) = (attrs.size("size").ok()?, attrs.int("fill").ok()?);
    Some(Box::new(move |bases| {
        // SAFETY: the result is apart from the operand.
        let (mask, dst) = unsafe { (rows::<u8>(&mask, bases), rows_mut::<i64>(&out, bases)) };
        let pieces = mask.len().div_ceil(PIECE);
        let piece = |p: usize| &mask[p * PIECE..mask.len().min((p + 1) * PIECE)];
        // Where each piece begins in the result.
        let mut starts = vec![0usize; pieces + 1];
        let counts = Shared::new(starts.as_mut_ptr());
        // SAFETY: each task writes its own count.
        pool::parallel_for(pieces, &|p| unsafe { *counts.get().add(p + 1) = count_true(piece(p)) });
        (0..pieces).for_each(|p| starts[p + 1] += starts[p]);
        pool::parallel_for(pieces, &|p| {
            let range = starts[p].min(size)..starts[p + 1].min(size);
            // SAFETY: each task writes its own stretch.
            unsafe { put_places(piece(p), (p * PIECE) as i64, dst.slice(range.start, range.len())) };
        });
        let found = starts[pieces].min(size);
        // SAFETY: no other thread writes what is left.
        unsafe { dst.slice(found, size - found) }.fill(fill);
        Ok(())
    }))
}

dispatch! { unsafe fn count_true(mask: &[u8]) -> usize { _I => count_in_bytes(mask) } }
dispatch! { unsafe fn put_places(mask: &[u8], first: i64, to: &mut [i64]) { _I => places(mask, first, to) } }

/// How many elements are true. Unsafe only as every body of [`dispatch!`] is.
#[inline(always)]
unsafe fn count_in_bytes(mask: &[u8]) -> usize {
    // So many that a byte holds their number.
    mask.chunks(255).map(|c| c.iter().fold(0u8, |n, &b| n + u8::from(b != 0)) as usize).sum()
}

/// Writes the places of the first true elements, as many as there is room for; `first` is that of the first element.
/// Unsafe as above.
#[inline(always)]
unsafe fn places(mask: &[u8], first: i64, to: &mut [i64]) {
    let (groups, rest) = mask.as_chunks::<GROUP>();
    let mut done = 0;
    for (g, group) in groups.iter().enumerate() {
        let set = truths(u64::from_le_bytes(*group));
        let (offsets, base) = (&OFFSETS[set as usize], first + (g * GROUP) as i64);
        let count = set.count_ones() as usize;
        // Eight are written at once where there is room; the next ones write over those that are too many.
        if let Some(to) = to.get_mut(done..done + GROUP) {
            (0..GROUP).for_each(|k| to[k] = base + i64::from(offsets[k]));
            done += count;
        } else {
            for &k in &offsets[..count.min(to.len() - done)] {
                to[done] = base + i64::from(k);
                done += 1;
            }
        }
    }
    let base = first + (groups.len() * GROUP) as i64;
    for k in (0..rest.len()).filter(|&k| rest[k] != 0).take(to.len() - done) {
        to[done] = base + k as i64;
        done += 1;
    }
}

/// A bit for each of eight bytes that is not 0.
#[inline(always)]
fn truths(bytes: u64) -> u8 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let tops = (((bytes & LOW) + LOW) | bytes) & !LOW;
    // The product gathers a bit of each byte in the topmost one.
    ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}
