//! Attention and its gradient as one kernel each, which never hold all scores at once.

#![allow(unsafe_code)]

use super::{Operand, Prepared, rows_mut};
use crate::kernels::attention::{Attention, Rows, RowsMut, Saved};
use crate::tile::access::Bases;
use ir::{Attrs, DType, Layout, Shape, Type};

/// Whether the kernels take these operands; the mask, if there is one, is operand `mask`.
pub fn claims(types: &[Type], mask: usize) -> bool {
    types[..mask].iter().all(|t| t.dtype == DType::F32)
        && Heads::new(&types[0].shape, &types[1].shape, &types[2].shape).is_some()
        && types.get(mask).is_none_or(|m| {
            let (q, k) = (&types[0].shape, &types[1].shape);
            let keys = k[k.rank() - 2];
            let scores: Shape = q[..q.rank() - 1].iter().copied().chain([keys]).collect();
            m.shape[m.shape.rank() - 1] == keys && m.shape.broadcasts_to(&scores)
        })
}

/// Whether the kernels read a matrix for each head that lies like this: rows are contiguous.
pub fn accepts(layout: &Layout) -> bool {
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

    fn attention<'a>(&'a self, scale: f32, causal: bool, mask: Option<Rows<'a>>) -> Attention<'a> {
        let causal = causal.then_some(0);
        let Heads { queries, keys, d, dv, kv_heads, .. } = *self;
        Attention { kv_of: &self.kv_of, kv_heads, queries, keys, d, dv, scale, causal, mask }
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
    /// # Safety
    /// The buffer is alive and nobody writes it meanwhile.
    unsafe fn rows<'a>(&'a self, bases: Bases) -> Rows<'a> {
        // SAFETY: the layout lies inside the buffer.
        let data = unsafe { std::slice::from_raw_parts(self.operand.first::<f32>(bases), self.span) };
        Rows { data, starts: &self.starts, row: self.row }
    }
    fn rows_mut(&self, bases: Bases) -> RowsMut<'_> {
        RowsMut::new(self.operand.first::<f32>(bases), &self.starts, self.row)
    }
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
        unsafe { m.rows(bases) }
    }
}

/// What forward and backward share.
struct Call {
    heads: Heads,
    scale: f32,
    causal: bool,
    mask: Option<Mask>,
    qkv: [Matrices; 3],
}

impl Call {
    fn new(attrs: &Attrs, args: &[Operand], mask: usize) -> Option<Call> {
        let heads = Heads::new(&args[0].ty.shape, &args[1].ty.shape, &args[2].ty.shape)?;
        let mask = args.get(mask).map(|m| Mask::new(m, &args[0].ty.shape, heads.keys));
        let (scale, causal) = (attrs.float("scale").ok()? as f32, attrs.bool("causal").ok()?);
        Some(Call { heads, scale, causal, mask, qkv: [0, 1, 2].map(|i| Matrices::new(&args[i])) })
    }
    /// Calls `f` with the attention and its operands.
    ///
    /// # Safety
    /// As for [`Matrices::rows`].
    unsafe fn with(&self, bases: Bases, f: impl FnOnce(&Attention<'_>, [Rows<'_>; 3])) {
        // SAFETY: the caller's promise.
        unsafe {
            let numbers = self.mask.as_ref().map_or(Vec::new(), |m| m.numbers(bases));
            let mask = self.mask.as_ref().map(|m| m.rows(&numbers, bases));
            let attention = self.heads.attention(self.scale, self.causal, mask);
            f(&attention, self.qkv.each_ref().map(|m| m.rows(bases)));
        }
    }
}

/// `attention`.
pub fn forward(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let call = Call::new(attrs, args, 3)?;
    let (y, lse) = (Matrices::new(&outs[0]), outs[1].clone());
    Some(Box::new(move |bases| {
        // SAFETY: results are apart from the operands and from each other.
        unsafe {
            let lse = rows_mut::<f32>(&lse, bases).slice(0, lse.ty.shape.count());
            call.with(bases, |a, [q, k, v]| a.forward(&q, &k, &v, y.rows_mut(bases), lse));
        }
        Ok(())
    }))
}

/// `attention_grad`.
pub fn backward(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let call = Call::new(attrs, args, 6)?;
    let (out, dout, lse) = (Matrices::new(&args[3]), Matrices::new(&args[5]), args[4].clone());
    let grads = [0, 1, 2].map(|i| Matrices::new(&outs[i]));
    Some(Box::new(move |bases| {
        // SAFETY: results are apart from the operands and from each other.
        unsafe {
            let grads = grads.each_ref().map(|m| m.rows_mut(bases));
            let (out, dout, lse) = (out.rows(bases), dout.rows(bases), super::rows::<f32>(&lse, bases));
            call.with(bases, |a, [q, k, v]| a.backward(&Saved { q, k, v, out, lse, dout }, grads));
        }
        Ok(())
    }))
}
