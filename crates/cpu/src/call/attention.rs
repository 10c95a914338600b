//! Attention and its gradient as one kernel each, which never hold all scores at once.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, never, rows_mut};
use crate::kernels::attention::{Attended, Attention, Rows, RowsMut, Saved};
use crate::kernels::gemm::has_tiles;
use crate::pool::{self, Shared};
use crate::tile::access::Bases;
use crate::vmath::convert::Narrow;
use half::{bf16, f16};
use ir::{Attrs, DType, FlatNode, Layout, Shape, Type};
use passes::View;

/// Attention and its gradient.
pub static CLAIMS: &[Claim] = &[
    Claim {
        claims: |_, types| claims(types, 3),
        accepts: |n, operand, layout| operand < 3 && !is_half(n) && accepts(layout),
        writes: |n, result, layout| result == 0 && !is_half(n) && accepts(layout),
        flops,
        ..Claim::new("attention", never, |n, args, outs| Ok(forward(&n.attrs, args, outs)))
    },
    Claim {
        claims: |_, types| claims(types, 6),
        accepts: |n, operand, layout| operand < 6 && operand != 4 && !is_half(n) && accepts(layout),
        writes: |n, _, layout| !is_half(n) && accepts(layout),
        // Scores, and the gradients of weights, values, keys and queries: five GEMMs for two.
        flops: |n, args| flops(n, args) * 5 / 2,
        ..Claim::new("attention_grad", never, |n, args, outs| Ok(backward(&n.attrs, args, outs)))
    },
];

/// Whether operands are 16-bit floats: they lie in order, and are converted as a whole.
fn is_half(n: &FlatNode) -> bool {
    n.outs[0].dtype.size() == 2
}

/// Two GEMMs for every query and key that meet.
fn flops(n: &FlatNode, args: &[View]) -> usize {
    let [q, k, v] = [0, 1, 2].map(|i| &args[i].layout.shape);
    let [width, keys, outs] = [q.last(), k.iter().nth_back(1), v.last()].map(|d| d.copied().unwrap_or(1));
    let all = 2 * q.count() / width.max(1) * keys * (width + outs);
    if n.attrs.bool("causal").unwrap_or(false) { all / 2 } else { all }
}

/// A mask and lengths among the operands from `first` on, each if there is one; `None` if there is more:
/// dropout the kernels do not know.
fn beside(types: &[&Type], first: usize) -> Option<[Option<usize>; 2]> {
    let is_mask = |t: &&&Type| t.dtype == DType::Bool || t.dtype == DType::F32;
    let mask = types.get(first).filter(is_mask).map(|_| first);
    let next = first + usize::from(mask.is_some());
    let lengths = types.get(next).filter(|t| t.dtype == DType::I32).map(|_| next);
    (types.len() == next + usize::from(lengths.is_some())).then_some([mask, lengths])
}

/// Whether the kernels take these operands; what is optional begins with operand `first`.
fn claims(types: &[Type], first: usize) -> bool {
    let Some([mask, _]) = beside(&types.iter().collect::<Vec<_>>(), first) else { return false };
    // The fifth operand of the gradient, logarithms of sums, is always f32.
    let is_alike = |(i, t): (usize, &Type)| t.dtype == if i == 4 { DType::F32 } else { types[0].dtype };
    matches!(types[0].dtype, DType::F32 | DType::BF16 | DType::F16)
        && types[..first].iter().enumerate().all(is_alike)
        && Heads::new(&types[0].shape, &types[1].shape, &types[2].shape).is_some()
        && mask.map(|i| &types[i]).is_none_or(|m| {
            let (q, k) = (&types[0].shape, &types[1].shape);
            let keys = k[k.rank() - 2];
            let scores: Shape = q[..q.rank() - 1].iter().copied().chain([keys]).collect();
            m.shape[m.shape.rank() - 1] == keys && m.shape.broadcasts_to(&scores)
        })
}

/// Whether the kernels read a matrix for each head that lies like this: rows are contiguous.
fn accepts(layout: &Layout) -> bool {
    let rank = layout.shape.rank();
    rank >= 2 && layout.strides[rank - 1] == 1 && layout.strides.iter().all(|&s| s >= 0)
}

/// The sizes of an attention of `q[…, H, L, E]`, `k[…, G, S, E]`, `v[…, G, S, F]` with the same
/// leading dimensions, where G divides H.
struct Heads {
    queries: usize,
    keys: usize,
    d: usize,
    dv: usize,
    kv_of: Vec<usize>,
    kv_heads: usize,
}

impl Heads {
    fn new(q: &Shape, k: &Shape, v: &Shape) -> Option<Heads> {
        let rank = q.rank();
        if rank < 2 || k.rank() != rank || v.rank() != rank || [q, k, v].iter().any(|s| s.count() == 0) {
            return None;
        }
        let (outer, of_head) = q[..rank - 2].split_at(rank.saturating_sub(3));
        let heads = of_head.first().copied().unwrap_or(1);
        let kept = k[..rank - 2].get(rank.wrapping_sub(3)).copied().unwrap_or(1);
        if k[..rank - 2] != v[..rank - 2] || k[..outer.len()] != *outer || !heads.is_multiple_of(kept) {
            return None;
        }
        let batch: usize = outer.iter().product();
        let kv_of = (0..batch * heads).map(|h| h / heads * kept + h % heads / (heads / kept)).collect();
        let (queries, keys) = (q[rank - 2], k[rank - 2]);
        Some(Heads { queries, keys, d: q[rank - 1], dv: v[rank - 1], kv_of, kv_heads: batch * kept })
    }

    fn attention<'a>(&'a self, c: &Call, mask: Option<Rows<'a>>, lengths: Option<&'a [[usize; 2]]>) -> Attention<'a> {
        let (scale, causal) = (c.scale, c.causal.then_some(0));
        let Heads { queries, keys, d, dv, kv_heads, .. } = *self;
        Attention { kv_of: &self.kv_of, kv_heads, queries, keys, d, dv, scale, causal, mask, lengths }
    }
    /// Queries and keys of each head, from those of each sequence.
    fn lengths(&self, each: &[i32]) -> Vec<[usize; 2]> {
        let (queries, keys) = each.split_at(each.len() / 2);
        let heads = self.kv_of.len() / queries.len().max(1);
        let count = |n: i32| usize::try_from(n).unwrap_or(0);
        queries.iter().zip(keys).flat_map(|(&q, &k)| std::iter::repeat_n([count(q), count(k)], heads)).collect()
    }
}

/// An operand that is a matrix for each head.
struct Matrices {
    operand: Operand,
    starts: Vec<usize>,
    row: usize,
    /// Elements from the first to behind the last.
    span: usize,
}

impl Matrices {
    fn new(operand: &Operand) -> Matrices {
        Matrices::laid(operand, &operand.layout)
    }
    /// With another layout over the same buffer, in which matrices may be broadcast.
    fn laid(operand: &Operand, layout: &Layout) -> Matrices {
        let rank = layout.shape.rank();
        let heads: usize = layout.shape[..rank - 2].iter().product();
        let each = layout.shape[rank - 2] * layout.shape[rank - 1];
        let starts: Vec<usize> = (0..heads).map(|h| layout.position(h * each) - layout.offset).collect();
        let row = layout.strides[rank - 2] as usize;
        let last = (layout.shape[rank - 2] - 1) * row + layout.shape[rank - 1];
        let span = starts.iter().max().map_or(0, |s| s + last);
        Matrices { operand: operand.clone(), starts, row, span }
    }
    /// Room for 16-bit floats as f32; none for f32.
    fn room(&self) -> Vec<f32> {
        vec![0.0; if self.operand.ty.dtype == DType::F32 { 0 } else { self.span }]
    }
    /// 16-bit floats as f32; nothing for f32.
    ///
    /// # Safety
    /// The buffer is alive and nothing writes it meanwhile.
    unsafe fn widened(&self, bases: Bases) -> Vec<f32> {
        let mut room = self.room();
        let (from, to) = (Shared::new(self.operand.first::<u16>(bases)), Shared::new(room.as_mut_ptr()));
        in_pieces(room.len(), &|first, n| {
            // SAFETY: each task converts its own piece.
            unsafe {
                let (x, y) = (from.get().add(first), to.get().add(first));
                match self.operand.ty.dtype {
                    DType::BF16 if const { ir::is_linked("bf16") } => <bf16 as Narrow>::widen(x.cast(), y, n),
                    _ => <f16 as Narrow>::widen(x.cast(), y, n),
                }
            }
        });
        room
    }
    /// Stores what was computed in [`Matrices::room`].
    ///
    /// # Safety
    /// The buffer is alive and no other thread uses it meanwhile.
    unsafe fn narrow(&self, room: &[f32], bases: Bases) {
        let to = Shared::new(self.operand.first::<u16>(bases));
        in_pieces(room.len(), &|first, n| {
            // SAFETY: each task converts its own piece.
            unsafe {
                let (x, y) = (room.as_ptr().add(first), to.get().add(first));
                match self.operand.ty.dtype {
                    DType::BF16 if const { ir::is_linked("bf16") } => <bf16 as Narrow>::narrow(x, y.cast(), n),
                    _ => <f16 as Narrow>::narrow(x, y.cast(), n),
                }
            }
        });
    }
    /// `wide` is of [`Matrices::widened`].
    ///
    /// # Safety
    /// The buffer is alive and nothing writes it meanwhile.
    unsafe fn rows<'a>(&'a self, wide: &'a [f32], bases: Bases) -> Rows<'a> {
        let data = if self.operand.ty.dtype == DType::F32 {
            // SAFETY: the layout lies inside the buffer.
            unsafe { std::slice::from_raw_parts(self.operand.first::<f32>(bases), self.span) }
        } else {
            wide
        };
        Rows { data, starts: &self.starts, row: self.row }
    }
    /// 16-bit floats as they are.
    ///
    /// # Safety
    /// As for [`Matrices::rows`].
    unsafe fn stored<'a>(&'a self, bases: Bases) -> Rows<'a, bf16> {
        // SAFETY: the layout lies inside the buffer.
        let data = unsafe { std::slice::from_raw_parts(self.operand.first::<bf16>(bases), self.span) };
        Rows { data, starts: &self.starts, row: self.row }
    }
    fn rows_mut<'a>(&'a self, room: &'a mut [f32], bases: Bases) -> RowsMut<'a> {
        let is_own = self.operand.ty.dtype == DType::F32;
        let p = if is_own { self.operand.first::<f32>(bases) } else { room.as_mut_ptr() };
        RowsMut::new(p, &self.starts, self.row)
    }
}

/// Runs `f(first, count)` for pieces of `n` elements.
fn in_pieces(n: usize, f: &(dyn Fn(usize, usize) + Sync)) {
    const PIECE: usize = 1 << 14;
    pool::parallel_for(n.div_ceil(PIECE), &|p| f(p * PIECE, PIECE.min(n - p * PIECE)));
}

/// A mask, of numbers or of flags, broadcast over the heads.
struct Mask {
    matrices: Matrices,
    is_bool: bool,
}

impl Mask {
    fn new(m: &Operand, q: &Shape, keys: usize) -> Mask {
        let scores: Shape = q[..q.rank() - 1].iter().copied().chain([keys]).collect();
        let matrices = Matrices::laid(m, &m.layout.broadcast_to(&scores));
        Mask { matrices, is_bool: m.ty.dtype == DType::Bool }
    }
    /// Flags as numbers to add.
    ///
    /// # Safety
    /// As for [`Matrices::rows`].
    unsafe fn numbers(&self, bases: Bases) -> Vec<f32> {
        if !self.is_bool {
            return Vec::new();
        }
        let p = self.matrices.operand.first::<u8>(bases);
        // SAFETY: the layout lies inside the buffer.
        let flags = unsafe { std::slice::from_raw_parts(p, self.matrices.span) };
        flags.iter().map(|&f| if f != 0 { 0.0 } else { f32::NEG_INFINITY }).collect()
    }
    /// # Safety
    /// As for [`Matrices::rows`].
    unsafe fn rows<'a>(&'a self, numbers: &'a [f32], bases: Bases) -> Rows<'a> {
        let m = &self.matrices;
        if self.is_bool {
            return Rows { data: numbers, starts: &m.starts, row: m.row };
        }
        // SAFETY: the caller's promise.
        unsafe { m.rows(&[], bases) }
    }
}

/// What forward and backward share.
struct Call {
    heads: Heads,
    scale: f32,
    causal: bool,
    mask: Option<Mask>,
    /// Queries, then keys of each sequence.
    lengths: Option<Operand>,
    qkv: [Matrices; 3],
}

impl Call {
    fn new(attrs: &Attrs, args: &[Operand], first: usize) -> Option<Call> {
        let heads = Heads::new(&args[0].ty.shape, &args[1].ty.shape, &args[2].ty.shape)?;
        let [mask, lengths] = beside(&args.iter().map(|o| &o.ty).collect::<Vec<_>>(), first)?;
        let mask = mask.map(|i| Mask::new(&args[i], &args[0].ty.shape, heads.keys));
        let lengths = lengths.map(|i| args[i].clone());
        let (scale, causal) = (attrs.float("scale").ok()? as f32, attrs.bool("causal").ok()?);
        Some(Call { heads, scale, causal, mask, lengths, qkv: [0, 1, 2].map(|i| Matrices::new(&args[i])) })
    }
    /// Whether operands are multiplied as they are, by the processor's matrix unit.
    fn has_tiles(&self) -> bool {
        let Heads { queries, keys, d, dv, .. } = self.heads;
        let least = queries.min(keys).min(d).min(dv);
        self.qkv[0].operand.ty.dtype == DType::BF16 && const { ir::is_linked("bf16") } && has_tiles(least, least, least)
    }
    /// Calls `f` with the attention and its operands as `f32`, or `by_tiles` with them as they are.
    ///
    /// # Safety
    /// As for [`Matrices::rows`].
    unsafe fn with(
        &self,
        bases: Bases,
        f: impl FnOnce(&Attention<'_>, [Rows<'_>; 3]),
        by_tiles: impl FnOnce(&Attention<'_>, [Rows<'_, bf16>; 3]),
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let numbers = self.mask.as_ref().map_or(Vec::new(), |m| m.numbers(bases));
            let mask = self.mask.as_ref().map(|m| m.rows(&numbers, bases));
            let lengths = self.lengths.as_ref().map(|o| self.heads.lengths(super::rows::<i32>(o, bases)));
            let attention = self.heads.attention(self, mask, lengths.as_deref());
            if self.has_tiles() {
                return by_tiles(&attention, self.qkv.each_ref().map(|m| m.stored(bases)));
            }
            let wide = self.qkv.each_ref().map(|m| m.widened(bases));
            f(&attention, [0, 1, 2].map(|i| self.qkv[i].rows(&wide[i], bases)));
        }
    }
}

/// `attention`.
fn forward(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let call = Call::new(attrs, args, 3)?;
    let (y, lse) = (Matrices::new(&outs[0]), outs[1].clone());
    Some(Box::new(move |bases| {
        // SAFETY: results are apart from the operands and from each other.
        unsafe {
            let lse = rows_mut::<f32>(&lse, bases).slice(0, lse.ty.shape.count());
            let mut room = y.room();
            let to = y.rows_mut(&mut room, bases);
            fn run<S: Attended>(a: &Attention<'_>, [q, k, v]: [Rows<'_, S>; 3], to: RowsMut<'_>, lse: &mut [f32]) {
                // SAFETY: results are apart from the operands and from each other.
                unsafe { a.forward(&q, &k, &v, to, lse) }
            }
            let sums = Shared::new(lse.as_mut_ptr());
            let n = lse.len();
            call.with(bases, |a, qkv| run(a, qkv, to, sums.slice(0, n)), |a, qkv| run(a, qkv, to, sums.slice(0, n)));
            y.narrow(&room, bases);
        }
        Ok(())
    }))
}

/// `attention_grad`.
fn backward(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let call = Call::new(attrs, args, 6)?;
    let (out, dout, lse) = (Matrices::new(&args[3]), Matrices::new(&args[5]), args[4].clone());
    let grads = [0, 1, 2].map(|i| Matrices::new(&outs[i]));
    Some(Box::new(move |bases| {
        // SAFETY: results are apart from the operands and from each other.
        unsafe {
            let wide_out = out.widened(bases);
            let [mut dq, mut dk, mut dv] = grads.each_ref().map(Matrices::room);
            let to = [
                grads[0].rows_mut(&mut dq, bases),
                grads[1].rows_mut(&mut dk, bases),
                grads[2].rows_mut(&mut dv, bases),
            ];
            let out = out.rows(&wide_out, bases);
            let lse = super::rows::<f32>(&lse, bases);
            call.with(
                bases,
                |a, [q, k, v]| {
                    let wide = dout.widened(bases);
                    a.backward(&Saved { q, k, v, out, lse, dout: dout.rows(&wide, bases) }, to);
                },
                |a, [q, k, v]| a.backward(&Saved { q, k, v, out, lse, dout: dout.stored(bases) }, to),
            );
            grads.iter().zip([&dq, &dk, &dv]).for_each(|(m, room)| m.narrow(room, bases));
        }
        Ok(())
    }))
}
