//! Convolutions and pooling, by the kernels in [`crate::kernels`].

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, always, never, rows, rows_mut};
use crate::kernels::conv::{Conv, Prepacked};
use crate::kernels::gemm::{Float, Multiply};
use crate::kernels::pooling::{self as kernels, Pooled};
use crate::kernels::window::{DIMS, Window};
use crate::tile::access::Bases;
use crate::vmath::convert::{Narrow, narrow, widen};
use ir::{Attrs, DType, Shape, Type, bf16, f16};

/// Convolutions, pooling and their gradients.
pub static CLAIMS: &[Claim] = &[
    Claim {
        // Each output element takes every weight of its channel.
        flops: |n, args| 2 * n.outs[0].shape.count() * per_channel(&args[1].layout.shape),
        ..Claim::new("conv", never, |n, args, outs| Ok(prepare(&n.attrs, args, outs, Which::Forward)))
    },
    Claim {
        flops: |_, args| 2 * args[0].layout.shape.count() * per_channel(&args[1].layout.shape),
        ..Claim::new("conv_input_grad", never, |n, args, outs| Ok(prepare(&n.attrs, args, outs, Which::Input)))
    },
    Claim {
        flops: |n, args| 2 * args[1].layout.shape.count() * per_channel(&n.outs[0].shape),
        ..Claim::new("conv_weight_grad", never, |n, args, outs| Ok(prepare(&n.attrs, args, outs, Which::Weight)))
    },
    Claim {
        claims: |n, types| claims_pool(&n.attrs, &types[0]),
        ..Claim::new("max_pool", always, |n, args, outs| Ok(max_pool(&n.attrs, args, outs)))
    },
    Claim::new("max_pool_index", never, |n, args, outs| Ok(max_pool(&n.attrs, args, outs))),
    Claim {
        claims: |_, types| matches!(types[1].dtype, DType::F32 | DType::F64),
        ..Claim::new("max_pool_grad", always, |_, args, outs| Ok(max_pool_grad(args, outs)))
    },
];

/// Weights of one output channel.
fn per_channel(weights: &Shape) -> usize {
    weights.iter().skip(1).product()
}

/// Which of the three sums a convolution is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// `y` from `x, w`.
    Forward,
    /// `x`'s gradient from `y`'s and `w`.
    Input,
    /// `w`'s gradient from `x` and `y`'s.
    Weight,
}

fn window(attrs: &Attrs, input: &[usize], kernel: &[usize]) -> Option<Window> {
    let sizes = |name: &str| attrs.sizes(name).ok();
    let (stride, dilation) = (sizes("stride")?, sizes("dilation")?);
    // Negative widths crop, which windows cannot say.
    let (lo, hi) = (sizes("padding_lo")?, sizes("padding_hi")?);
    if input.is_empty() || input.len() > DIMS || kernel.iter().chain(input).any(|&d| d == 0) {
        return None;
    }
    let pad: Vec<(usize, usize)> = lo.iter().copied().zip(hi.iter().copied()).collect();
    Some(Window::new(input, kernel, &stride, &pad, &dilation))
}

/// A convolution or one of its gradients; `None` for what the kernels cannot do.
fn prepare(attrs: &Attrs, args: &[Operand], outs: &[Operand], which: Which) -> Option<Prepared> {
    let (a, b, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    // The shapes of x, w and y, wherever they stand.
    let [x, w, y]: [&Shape; 3] = match which {
        Which::Forward => [&a.ty.shape, &b.ty.shape, &out.ty.shape],
        Which::Input => [&out.ty.shape, &b.ty.shape, &a.ty.shape],
        Which::Weight => [&a.ty.shape, &out.ty.shape, &b.ty.shape],
    };
    if x.count() == 0 || w.count() == 0 || y.count() == 0 {
        return None;
    }
    let window = window(attrs, &x[2..], &w[2..])?;
    if window.output_len() != y[2..].iter().product::<usize>() {
        return None;
    }
    let groups = attrs.size("groups").ok()?;
    let conv = Conv { batch: x[0], channels: x[1], out_channels: w[0], groups, window };
    if let Some(weight) = prepacked(&conv, which, &b) {
        return Some(Box::new(move |bases| {
            // SAFETY: the result is apart from the operand.
            let (x, y) = unsafe { (rows::<f32>(&a, bases), rows_mut::<f32>(&out, bases)) };
            // SAFETY: as above.
            conv.forward_prepacked(x, &weight, unsafe { y.slice(0, out.ty.shape.count()) });
            Ok(())
        }));
    }
    Some(match out.ty.dtype {
        DType::F32 => Box::new(move |bases| run::<f32>(&conv, which, &a, &b, &out, bases)),
        DType::F64 => Box::new(move |bases| run::<f64>(&conv, which, &a, &b, &out, bases)),
        DType::BF16 => Box::new(move |bases| run_half::<bf16>(&conv, which, &a, &b, &out, bases)),
        DType::F16 => Box::new(move |bases| run_half::<f16>(&conv, which, &a, &b, &out, bases)),
        _ => return None,
    })
}

/// A constant weight, brought into its kernel's form once.
fn prepacked(conv: &Conv, which: Which, weight: &Operand) -> Option<Prepacked> {
    let value = weight.value().filter(|v| which == Which::Forward && v.dtype() == DType::F32)?;
    conv.prepacked(&value.to_vec::<f32>().ok()?)
}

fn sum<E: Multiply + Float>(conv: &Conv, which: Which, a: &[E], b: &[E], out: &mut [E]) {
    match which {
        Which::Forward => conv.forward(a, b, out),
        Which::Input => conv.grad_input(a, b, out),
        Which::Weight => conv.grad_weight(a, b, out),
    }
}

fn run<E: Multiply + Float>(
    conv: &Conv,
    which: Which,
    a: &Operand,
    b: &Operand,
    out: &Operand,
    bases: Bases,
) -> ir::Result<()> {
    // SAFETY: the result is apart from the operands.
    let (a, b, y) = unsafe { (rows::<E>(a, bases), rows::<E>(b, bases), rows_mut::<E>(out, bases)) };
    // SAFETY: as above.
    sum(conv, which, a, b, unsafe { y.slice(0, out.ty.shape.count()) });
    Ok(())
}

fn run_half<H: Narrow>(
    conv: &Conv,
    which: Which,
    a: &Operand,
    b: &Operand,
    out: &Operand,
    bases: Bases,
) -> ir::Result<()> {
    let wide = |o: &Operand| {
        let mut v = vec![0f32; o.ty.shape.count()];
        // SAFETY: nobody writes an operand.
        widen(unsafe { rows::<H>(o, bases) }, &mut v);
        v
    };
    let mut y = vec![0f32; out.ty.shape.count()];
    sum(conv, which, &wide(a), &wide(b), &mut y);
    // SAFETY: nobody else uses the result.
    narrow(&y, unsafe { rows_mut::<H>(out, bases).slice(0, y.len()) });
    Ok(())
}

/// The windows of a pooling of planes of these sizes.
fn pool_window(attrs: &Attrs, shape: &[usize]) -> Option<Window> {
    let sizes = |name: &str| attrs.sizes(name).ok();
    let (kernel, stride, lo, dilation, to) =
        (sizes("window")?, sizes("stride")?, sizes("padding_lo")?, sizes("dilation")?, sizes("out")?);
    let input = shape.get(2..)?;
    if input.is_empty() || input.len() > DIMS || input.contains(&0) || kernel.contains(&0) {
        return None;
    }
    // Room behind for any window; the sizes of the output are given.
    let reach = |i: usize| dilation[i] * (kernel[i] - 1) + 1;
    let pad: Vec<(usize, usize)> = (0..input.len()).map(|i| (lo[i], reach(i))).collect();
    Some(Window::new(input, &kernel, &stride, &pad, &dilation).with_output(&to))
}

/// Whether max pooling of such an input has a kernel.
fn claims_pool(attrs: &Attrs, x: &Type) -> bool {
    matches!(x.dtype, DType::F32 | DType::F64) && pool_window(attrs, &x.shape).is_some()
}

/// Max pooling: the greatest elements, if they are asked for, and their places.
fn max_pool(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, outs) = (args[0].clone(), outs.to_vec());
    let window = pool_window(attrs, &x.ty.shape)?;
    Some(match x.ty.dtype {
        DType::F32 => Box::new(move |bases| pool::<f32>(&window, &x, &outs, bases)),
        DType::F64 => Box::new(move |bases| pool::<f64>(&window, &x, &outs, bases)),
        _ => return None,
    })
}

fn pool<E: Pooled + Default>(w: &Window, x: &Operand, outs: &[Operand], bases: Bases) -> ir::Result<()> {
    let (n, planes) = (outs[0].ty.shape.count(), x.ty.shape[0] * x.ty.shape[1]);
    // SAFETY: results are apart from the operand and from each other.
    unsafe {
        let x = rows::<E>(x, bases);
        match outs {
            [y, index] if !index.is_read => {
                kernels::max_pool_values(w, planes, x, rows_mut::<E>(y, bases).slice(0, n));
            }
            [y, index] => {
                let (y, index) = (rows_mut::<E>(y, bases), rows_mut::<i64>(index, bases));
                kernels::max_pool(w, planes, x, y.slice(0, n), index.slice(0, n));
            }
            _ => {
                let mut y = vec![E::default(); n];
                kernels::max_pool(w, planes, x, &mut y, rows_mut::<i64>(&outs[0], bases).slice(0, n));
            }
        }
    }
    Ok(())
}

/// The gradient of max pooling, from the places it found.
fn max_pool_grad(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (index, g, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    Some(match out.ty.dtype {
        DType::F32 => Box::new(move |bases| unpool::<f32>(&index, &g, &out, bases)),
        DType::F64 => Box::new(move |bases| unpool::<f64>(&index, &g, &out, bases)),
        _ => return None,
    })
}

fn unpool<E: Pooled>(index: &Operand, g: &Operand, out: &Operand, bases: Bases) -> ir::Result<()> {
    let (n, planes) = (out.ty.shape.count(), out.ty.shape[0] * out.ty.shape[1]);
    // SAFETY: the result is apart from the operands.
    unsafe {
        let (index, g) = (rows::<i64>(index, bases), rows::<E>(g, bases));
        let size = n / planes.max(1);
        if let Some(&bad) = index.iter().find(|&&i| i < 0 || i as usize >= size) {
            return Err(super::moves::out_of_range(bad, 2, size));
        }
        kernels::max_pool_grad(planes, g, index, rows_mut::<E>(out, bases).slice(0, n));
    }
    Ok(())
}
