//! Convolution of bytes, channels last, by the kernel in [`crate::kernels::int_conv`]: by itself, feeding the loop that
//! scales its sums, or with that loop as its own epilogue.

#![allow(unsafe_code)]

use super::conv::window;
use super::{Claim, Fed, Operand, Prepared, never};
use crate::kernels::conv::Conv;
use crate::kernels::gemm::Patch;
use crate::kernels::int_conv::IntConv;
use crate::kernels::requantize::{Bound, Requantize};
use crate::tile::access::{Bases, Spot};
use ir::{Attrs, DType, FlatNode, Shape};

/// Whether this build has them.
pub const IS_LINKED: bool = Claim::is_linked("int_conv");

/// Convolutions of integers.
pub static CLAIMS: &[Claim] = &[Claim {
    claims: |n, types| sizes(&n.attrs, &types[0].shape, &types[1].shape).is_some(),
    feeds: |n, args| sizes(&n.attrs, &args[0].layout.shape, &args[1].layout.shape).is_some(),
    fed: Claim::linked("int_conv", |n, args, out, _| {
        prepare(&n.attrs, args, out).ok_or_else(|| ir::Error::bug("a convolution without a kernel"))
    }),
    requantized: if IS_LINKED { requantized } else { |_, _, _| None },
    flops: |n, args| 2 * n.outs[0].shape.count() * args[1].layout.shape.iter().skip(1).product::<usize>(),
    ..Claim::new("int_conv", never, |n, args, outs| {
        let run = |run: Fed| -> Prepared {
            Box::new(move |bases| {
                run(bases, &|_| {});
                Ok(())
            })
        };
        Ok(prepare(&n.attrs, args, &outs[0]).map(run))
    })
}];

/// The sizes of a convolution, if there is a kernel for it.
fn sizes(attrs: &Attrs, x: &Shape, w: &Shape) -> Option<Conv> {
    let (batch, channels) = (*x.first()?, *x.last()?);
    let window = window(attrs, x.get(1..x.rank() - 1)?, w.get(2..)?)?;
    let conv = Conv { batch, channels, out_channels: w[0], groups: attrs.size("groups").ok()?, window };
    IntConv::admits(&conv).then_some(conv)
}

/// The kernel. A constant weight is packed here, once.
fn prepare(attrs: &Attrs, args: &[Operand], out: &Operand) -> Option<Fed> {
    let (x, w, y) = (args[0].clone(), args[1].clone(), out.clone());
    let conv = sizes(attrs, &x.ty.shape, &w.ty.shape)?;
    let is_signed = x.ty.dtype == DType::I8;
    let packed = w.value().map(|v| IntConv::new(conv, v.bytes(), is_signed));
    // SAFETY: the operands are alive and contiguous, and the result is apart from them.
    let run = move |bases: Bases, kernel: &IntConv, done: &(dyn Fn(Patch) + Sync)| unsafe {
        kernel.run(x.first::<u8>(bases).cast_const(), y.first::<i32>(bases), done);
    };
    Some(Box::new(move |bases, done| match &packed {
        Some(kernel) => run(bases, kernel, done),
        // SAFETY: the weight is alive and contiguous.
        None => run(bases, &IntConv::new(conv, unsafe { w.bytes(bases) }, is_signed), done),
    }))
}

/// The kernel with its epilogue.
fn requantized(n: &FlatNode, args: &[Operand], r: &Requantize<Spot>) -> Option<Prepared> {
    let (x, w, r) = (args[0].clone(), args[1].clone(), r.clone());
    let conv = sizes(&n.attrs, &x.ty.shape, &w.ty.shape)?;
    let is_signed = x.ty.dtype == DType::I8;
    let kernel = IntConv::new(conv, w.value()?.bytes(), is_signed);
    Some(Box::new(move |bases| {
        // SAFETY: the operands are alive and contiguous, and results are apart from them.
        unsafe {
            let place = Bound::new(r.map(|spot| bases.at(spot)));
            kernel.run_into(x.first::<u8>(bases).cast_const(), &place);
        }
        Ok(())
    }))
}
