//! Block-quantized weights: GEMM, dequantization, rows of a table.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, always, index_of, never, rows, rows_mut};
use crate::kernels::quant::{Ends, QuantizedGemm, dequantize_rows};
use crate::pool::Shared;
use crate::vmath::convert::{Narrow, narrow, widen};
use ir::blocks::Format;
use ir::{Attrs, DType, FlatNode, bf16, f16};
use passes::View;

/// Ops on block-quantized weights.
pub static CLAIMS: &[Claim] = &[
    Claim { flops, ..Claim::new("quantized_matmul", never, |n, args, outs| Ok(matmul(&n.attrs, args, outs))) },
    Claim { flops, ..Claim::new("expert_matmul", never, |n, args, outs| Ok(expert_matmul(&n.attrs, args, outs))) },
    Claim::new("dequantize", never, |n, args, outs| Ok(dequantize(&n.attrs, args, outs))),
    Claim::new("quantized_embedding", always, |n, args, outs| Ok(embedding(&n.attrs, args, outs))),
];

fn flops(n: &FlatNode, args: &[View]) -> usize {
    2 * n.outs[0].shape.count() * args[0].layout.shape.last().copied().unwrap_or(1)
}

fn format(attrs: &Attrs) -> Option<Format> {
    Format::from_attr(attrs.str("format").ok()?).ok()
}

/// Floats that are computed with in f32.
trait Float: Copy + Send + Sync + 'static {
    fn read(from: &[Self], to: &mut [f32]);
    fn write(from: &[f32], to: &mut [Self]);
}
impl Float for f32 {
    fn read(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
    fn write(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
}
impl<T: Narrow + Send + Sync + 'static> Float for T {
    fn read(from: &[T], to: &mut [f32]) {
        widen(from, to);
    }
    fn write(from: &[f32], to: &mut [T]) {
        narrow(from, to);
    }
}

/// Runs `$body` with `$T` a type of floats that has kernels; `None` for others.
macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 if const { ir::is_linked("f32") } => {
                type $T = f32;
                $body
            }
            DType::F16 if const { ir::is_linked("f16") } => {
                type $T = f16;
                $body
            }
            DType::BF16 if const { ir::is_linked("bf16") } => {
                type $T = bf16;
                $body
            }
            _ => return None,
        }
    };
}

/// `quantized_matmul`.
fn matmul(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (format, int8, interleaved) = (format(attrs)?, attrs.bool("int8").ok()?, attrs.bool("interleaved").ok()?);
    let (x, w, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let (n, k) = (w.ty.shape[0], *x.ty.shape.last()?);
    let m = x.ty.shape[..x.ty.shape.rank() - 1].iter().product();
    if format.block() == 1 && !interleaved {
        return None;
    }
    let gemm = QuantizedGemm { format, m, n, k, int8, interleaved };
    Some(with_float!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands, and tasks write their own parts of it.
        unsafe {
            let (from, to): (&[T], Shared<T>) = (rows(&x, bases), rows_mut(&out, bases));
            let ends = Ends {
                read: &|i, row| Float::read(&from[i * k..][..k], row),
                write: &|i, j, sums| Float::write(sums, to.slice(i * n + j, sums.len())),
            };
            gemm.run(w.first::<u8>(bases), &ends);
        }
        Ok(())
    })))
}

/// `expert_matmul`: a GEMM for each matrix that is chosen, with the rows that choose it.
fn expert_matmul(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (format, int8, interleaved) = (format(attrs)?, attrs.bool("int8").ok()?, attrs.bool("interleaved").ok()?);
    let (x, w, index, out) = (args[0].clone(), args[1].clone(), args[2].clone(), outs[0].clone());
    let (n, k, experts) = (out.ty.shape[1], x.ty.shape[1], attrs.size("experts").ok()?);
    let bytes = n * w.ty.shape[1];
    if format.block() == 1 && !interleaved {
        return None;
    }
    Some(with_float!(x.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands, and tasks write their own parts of it.
        unsafe {
            let (from, to): (&[T], Shared<T>) = (rows(&x, bases), rows_mut(&out, bases));
            let (chosen, w) = (rows::<i64>(&index, bases), w.first::<u8>(bases));
            let of = |i: u32| usize::try_from(chosen[i as usize]).map_or(experts, |e| e.min(experts));
            let mut order: Vec<u32> = (0..chosen.len() as u32).collect();
            order.sort_by_key(|&i| of(i));
            for own in order.chunk_by(|&a, &b| of(a) == of(b)) {
                if of(own[0]) == experts {
                    let zeros = vec![0.0; n];
                    own.iter().for_each(|&i| Float::write(&zeros, to.slice(i as usize * n, n)));
                    continue;
                }
                let ends = Ends {
                    read: &|i, row| Float::read(&from[own[i] as usize * k..][..k], row),
                    write: &|i, j, sums| Float::write(sums, to.slice(own[i] as usize * n + j, sums.len())),
                };
                let gemm = QuantizedGemm { format, m: own.len(), n, k, int8, interleaved };
                gemm.run(w.add(of(own[0]) * bytes), &ends);
            }
        }
        Ok(())
    })))
}

/// `dequantize`.
fn dequantize(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (format, w, out) = (format(attrs)?, args[0].clone(), outs[0].clone());
    let (n, k) = (out.ty.shape[0], out.ty.shape[1]);
    Some(with_float!(out.ty.dtype, T => Box::new(move |bases| {
        let all: Vec<usize> = (0..n).collect();
        // SAFETY: the result is apart from the operand, and tasks write their own rows.
        unsafe {
            let to: Shared<T> = rows_mut(&out, bases);
            dequantize_rows(format, &all, k, w.first::<u8>(bases), &|i, row| Float::write(row, to.slice(i * k, k)));
        }
        Ok(())
    })))
}

/// `quantized_embedding`.
fn embedding(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (format, w, index, out) = (format(attrs)?, args[0].clone(), args[1].clone(), outs[0].clone());
    let (n, k) = (w.ty.shape[0], *out.ty.shape.last()?);
    Some(with_float!(out.ty.dtype, T => Box::new(move |bases| {
        // SAFETY: the result is apart from the operands, and tasks write their own rows.
        unsafe {
            let chosen = rows::<i64>(&index, bases).iter().map(|&i| index_of(i, 0, n));
            let chosen = chosen.collect::<ir::Result<Vec<usize>>>()?;
            let to: Shared<T> = rows_mut(&out, bases);
            dequantize_rows(format, &chosen, k, w.first::<u8>(bases), &|i, row| Float::write(row, to.slice(i * k, k)));
        }
        Ok(())
    })))
}
