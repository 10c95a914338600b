//! Paged KV caches: writing rows, and attention over them.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, never, rows, rows_mut};
use crate::kernels::gemm::prefetch;
use crate::kernels::paged::{Cache, Paged};
use crate::pool::Shared;
use crate::tile::access::Bases;
use crate::vmath::convert::{Narrow, narrow, widen};
use ir::{Attrs, DType, FlatNode, bf16, f8e4m3, f8e5m2, f16};
use passes::View;

/// Ops on paged KV caches.
pub static CLAIMS: &[Claim] = &[
    Claim { flops, ..Claim::new("paged_attention", never, |n, args, outs| Ok(attention(&n.attrs, args, outs))) },
    Claim { in_place: Some(0), ..Claim::new("paged_write", never, |_, args, outs| Ok(write(args, outs))) },
];

/// Bytes of a line of a CPU's caches.
const LINE: usize = 64;

/// As if every token saw all that its table can hold.
fn flops(n: &FlatNode, args: &[View]) -> usize {
    let keys = args[1].layout.shape[1] * args[3].layout.shape[1];
    4 * n.outs[0].shape.count() * keys
}

/// Floats that are computed with in f32, as slices of bytes that are a multiple of their size.
#[derive(Clone, Copy)]
struct Floats {
    size: usize,
    read: unsafe fn(*const u8, &mut [f32]),
    write: unsafe fn(&[f32], *mut u8),
}

impl Floats {
    /// `None` for types without a kernel.
    fn new(dtype: DType) -> Option<Floats> {
        fn of<T: Narrow>() -> Floats {
            Floats {
                size: size_of::<T>(),
                // SAFETY: the caller gives as many elements as there are floats.
                read: |from, to| unsafe { widen(std::slice::from_raw_parts(from.cast::<T>(), to.len()), to) },
                // SAFETY: as above.
                write: |from, to| unsafe { narrow(from, std::slice::from_raw_parts_mut(to.cast::<T>(), from.len())) },
            }
        }
        Some(match dtype {
            DType::F32 if const { ir::is_linked("f32") } => Floats {
                size: 4,
                // SAFETY: as in the function above.
                read: |from, to| unsafe { to.copy_from_slice(std::slice::from_raw_parts(from.cast(), to.len())) },
                // SAFETY: as above.
                write: |from, to| unsafe {
                    std::slice::from_raw_parts_mut(to.cast(), from.len()).copy_from_slice(from);
                },
            },
            DType::F16 if const { ir::is_linked("f16") } => of::<f16>(),
            DType::BF16 if const { ir::is_linked("bf16") } => of::<bf16>(),
            DType::F8E4M3 => of::<f8e4m3>(),
            DType::F8E5M2 => of::<f8e5m2>(),
            _ => return None,
        })
    }
}

/// How rows of a cache are read, and rows of heads written: floats, or 8 bits with a scale behind them.
#[derive(Clone, Copy)]
enum Stored {
    Floats(Floats),
    Bytes,
}

impl Stored {
    fn new(dtype: DType) -> Option<Stored> {
        if dtype == DType::I8 { Some(Stored::Bytes) } else { Floats::new(dtype).map(Stored::Floats) }
    }
    /// # Safety
    /// A stored row of as many numbers as there are floats.
    unsafe fn read(self, from: *const u8, to: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Stored::Floats(f) => (f.read)(from, to),
                Stored::Bytes => {
                    let scale = from.add(to.len()).cast::<f32>().read_unaligned();
                    let numbers = std::slice::from_raw_parts(from.cast::<i8>(), to.len());
                    to.iter_mut().zip(numbers).for_each(|(to, q)| *to = *q as f32 * scale);
                }
            }
        }
    }
    /// # Safety
    /// As for `read`.
    unsafe fn write(self, from: &[f32], to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Stored::Floats(f) => (f.write)(from, to),
                Stored::Bytes => {
                    let amax = from.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                    let inverse = if amax > 0.0 { 127.0 / amax } else { 0.0 };
                    let numbers = std::slice::from_raw_parts_mut(to, from.len());
                    // Adding this number rounds to the nearest integer, which is then in the low bits.
                    let round = |x: f32| (x * inverse + 12_582_912.0).to_bits() as u8;
                    numbers.iter_mut().zip(from).for_each(|(to, x)| *to = round(*x));
                    to.add(from.len()).cast::<f32>().write_unaligned(amax / 127.0);
                }
            }
        }
    }
}

/// `paged_write`.
fn write(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (cache, x, slots, out) = (args[0].clone(), args[1].clone(), args[2].clone(), outs[0].clone());
    let (from, to) = (Floats::new(x.ty.dtype)?, Stored::new(cache.ty.dtype)?);
    let all = cache.ty.shape[0] * cache.ty.shape[1];
    let (heads, d) = (x.ty.shape[1], x.ty.shape[2]);
    let head = cache.ty.shape[3] * cache.ty.dtype.size();
    Some(Box::new(move |bases| {
        // SAFETY: the result is the cache, or apart from the operands; each row lies inside its buffer.
        unsafe {
            let (old, new) = (cache.first::<u8>(bases), out.first::<u8>(bases));
            if old != new {
                std::ptr::copy_nonoverlapping(old, new, cache.ty.bytes());
            }
            let source = x.first::<u8>(bases);
            let mut floats = vec![0.0f32; d];
            for (t, &slot) in rows::<i32>(&slots, bases).iter().enumerate() {
                let Some(slot) = usize::try_from(slot).ok().filter(|s| *s < all) else { continue };
                let to_row = new.add(slot * heads * head);
                let from_row = source.add(t * heads * d * from.size);
                if x.ty.dtype == cache.ty.dtype {
                    std::ptr::copy_nonoverlapping(from_row, to_row, heads * head);
                    continue;
                }
                for h in 0..heads {
                    (from.read)(from_row.add(h * d * from.size), &mut floats);
                    to.write(&floats, to_row.add(h * head));
                }
            }
        }
        Ok(())
    }))
}

/// A cache in memory.
struct Rows {
    p: Shared<u8>,
    stored: Stored,
    heads: usize,
    /// Bytes of a head.
    bytes: usize,
    dtype: DType,
}

impl Rows {
    fn new(o: &Operand, stored: Stored, bases: Bases) -> Rows {
        let bytes = o.ty.shape[3] * o.ty.dtype.size();
        Rows { p: Shared::new(o.first(bases)), stored, heads: o.ty.shape[2], bytes, dtype: o.ty.dtype }
    }
}

impl Rows {
    /// # Safety
    /// The rows of a cache from a slot on are valid for reading.
    unsafe fn widen_rows<T: Narrow>(&self, from: *const u8, count: usize, to: &mut [f32], [d, row]: [usize; 2]) {
        for (i, to) in to.chunks_mut(row).take(count).enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let from = from.add(i * self.heads * self.bytes).cast::<T>();
                T::widen(from, to[..d].as_mut_ptr(), d);
            }
        }
    }
}

impl Cache for Rows {
    fn read_rows(&self, [slot, count]: [usize; 2], head: usize, to: &mut [f32], [d, row]: [usize; 2]) {
        // The types of most caches are read without a call for every row.
        // SAFETY: as below.
        unsafe {
            let from = self.p.get().add((slot * self.heads + head) * self.bytes);
            match self.dtype {
                DType::F16 if const { ir::is_linked("f16") } => self.widen_rows::<f16>(from, count, to, [d, row]),
                DType::BF16 if const { ir::is_linked("bf16") } => self.widen_rows::<bf16>(from, count, to, [d, row]),
                _ => (0..count).for_each(|i| self.read(slot + i, head, &mut to[i * row..][..d])),
            }
        }
    }
    fn prefetch(&self, [slot, count]: [usize; 2], head: usize) {
        for i in slot..slot + count {
            let row = self.p.get().wrapping_add((i * self.heads + head) * self.bytes);
            (0..self.bytes).step_by(LINE).for_each(|at| prefetch(row.wrapping_add(at)));
        }
    }
    fn read(&self, slot: usize, head: usize, to: &mut [f32]) {
        let at = (slot * self.heads + head) * self.bytes;
        // SAFETY: slots and heads are those of the cache, which nothing writes meanwhile.
        unsafe { self.stored.read(self.p.get().add(at), to) }
    }
}

/// `paged_attention`.
fn attention(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (scale, softcap) = (attrs.float("scale").ok()? as f32, attrs.float("softcap").ok()? as f32);
    let window = attrs.size("window").ok()?;
    let (args, out) = (args.to_vec(), outs[0].clone());
    let (floats, cached) = (Floats::new(out.ty.dtype)?, Stored::new(args[1].ty.dtype)?);
    let (heads, d) = (out.ty.shape[1], out.ty.shape[2]);
    let [blocks, block_size, kv_heads] = [0, 1, 2].map(|i| args[1].ty.shape[i]);
    let reach = args[3].ty.shape[1];
    Some(Box::new(move |bases| {
        // SAFETY: the result is apart from the operands, and tasks write their own rows.
        unsafe {
            let [tables, sequences, positions] = [3, 4, 5].map(|i| rows::<i32>(&args[i], bases));
            let paged = Paged {
                heads,
                kv_heads,
                d,
                blocks,
                block_size,
                tables,
                reach,
                sequences,
                positions,
                scale,
                window,
                softcap,
            };
            let (k, v) = (Rows::new(&args[1], cached, bases), Rows::new(&args[2], cached, bases));
            let (q, y) = (Shared::new(args[0].first::<u8>(bases)), rows_mut::<u8>(&out, bases));
            let at = |t: usize, h: usize| (t * heads + h) * d * floats.size;
            paged.run([&k, &v], &|t, h, to| (floats.read)(q.get().add(at(t, h)), to), &|t, h, from| {
                (floats.write)(from, y.get().add(at(t, h)));
            });
        }
        Ok(())
    }))
}
