//! Convolutions and pooling, by the kernels in [`crate::kernels`].

#![allow(unsafe_code)]

use super::{Claim, Fed, Operand, Prepared, always, never, rows, rows_mut};
use crate::kernels::conv::{Conv, Prepacked};
use crate::kernels::epilogue::Epilogue;
use crate::kernels::gemm::{Float, Multiply};
use crate::kernels::pooling::{self as kernels, Pooled};
use crate::kernels::scratch::Scratch;
use crate::kernels::window::{DIMS, Window};
use crate::pool::{Shared, parallel_for};
use crate::tile::access::{Bases, Spot};
use crate::vmath::convert::{Narrow, narrow, widen};
use ir::{Attrs, DType, FlatNode, Shape, Type, bf16, f16};
use passes::View;

/// Convolutions, pooling and their gradients.
pub static CLAIMS: &[Claim] = &[
    Claim {
        // Each output element takes every weight of its channel.
        flops: |n, args| 2 * n.outs[0].shape.count() * per_channel(&args[1].layout.shape),
        links,
        feeds: |n, args| feeds(n, args),
        fed_columns: |n| n.outs[0].shape.iter().skip(2).product(),
        feeds_rows: false,
        fed: Claim::linked("conv", |n, args, out, _| {
            fed(&n.attrs, args, out).ok_or_else(|| ir::Error::bug("a convolution without a kernel"))
        }),
        finished: if Claim::is_linked("conv") { finished } else { |_, _, _| None },
        ..Claim::new("conv", never, |n, args, outs| Ok(prepare::<Forward>(&n.attrs, args, outs)))
    },
    Claim {
        flops: |_, args| 2 * args[0].layout.shape.count() * per_channel(&args[1].layout.shape),
        ..Claim::new("conv_input_grad", never, |n, args, outs| Ok(prepare::<Input>(&n.attrs, args, outs)))
    },
    Claim {
        flops: |n, args| 2 * args[1].layout.shape.count() * per_channel(&n.outs[0].shape),
        ..Claim::new("conv_weight_grad", never, |n, args, outs| Ok(prepare::<Weight>(&n.attrs, args, outs)))
    },
    Claim {
        claims: |n, types| claims_pool(&n.attrs, &types[0]),
        ..Claim::new("max_pool", always, |n, args, outs| Ok(max_pool(&n.attrs, args, outs)))
    },
    Claim::new("max_pool_index", never, |n, args, outs| Ok(max_pool(&n.attrs, args, outs))),
    Claim {
        claims: |_, types| is_pooled(types[1].dtype),
        ..Claim::new("max_pool_grad", always, |_, args, outs| Ok(max_pool_grad(args, outs)))
    },
];

/// Weights of one output channel.
fn per_channel(weights: &Shape) -> usize {
    weights.iter().skip(1).product()
}

/// Which of the three sums a convolution is read for. A type each, so that a build links those it has.
trait Which {
    /// The places of x, w and y among two operands and the result.
    const PLACES: [usize; 3];
    fn sum<E: Multiply + Float>(conv: &Conv, a: &[E], b: &[E], out: &mut [E]);
    /// By products of `bf16`, for [`Conv::has_narrow_products`].
    fn sum_by_products(conv: &Conv, a: &[bf16], b: &[bf16], out: &Operand, bases: Bases);
}

/// `y` from `x, w`.
struct Forward;
/// `x`'s gradient from `y`'s and `w`.
struct Input;
/// `w`'s gradient from `x` and `y`'s.
struct Weight;

impl Which for Forward {
    const PLACES: [usize; 3] = [0, 1, 2];
    fn sum<E: Multiply + Float>(conv: &Conv, a: &[E], b: &[E], out: &mut [E]) {
        conv.forward(a, b, out);
    }
    fn sum_by_products(conv: &Conv, a: &[bf16], b: &[bf16], out: &Operand, bases: Bases) {
        // SAFETY: the result is apart from the operands.
        conv.forward_by_products(a, b, unsafe { rows_mut::<bf16>(out, bases).slice(0, out.ty.shape.count()) }, &|_| {});
    }
}
impl Which for Input {
    const PLACES: [usize; 3] = [2, 1, 0];
    fn sum<E: Multiply + Float>(conv: &Conv, a: &[E], b: &[E], out: &mut [E]) {
        conv.grad_input(a, b, out);
    }
    fn sum_by_products(conv: &Conv, a: &[bf16], b: &[bf16], out: &Operand, bases: Bases) {
        let wide = Scratch::<f32>::new(out.ty.shape.count());
        // SAFETY: the kernel writes all of its result.
        unsafe {
            conv.grad_input_by_products(a, b, wide.slice());
            narrowed::<bf16>(wide.slice(), out, bases);
        }
    }
}
impl Which for Weight {
    const PLACES: [usize; 3] = [0, 2, 1];
    fn sum<E: Multiply + Float>(conv: &Conv, a: &[E], b: &[E], out: &mut [E]) {
        conv.grad_weight(a, b, out);
    }
    fn sum_by_products(conv: &Conv, a: &[bf16], b: &[bf16], out: &Operand, bases: Bases) {
        let wide = Scratch::<f32>::new(out.ty.shape.count());
        // SAFETY: the kernel writes all of its result.
        unsafe {
            conv.grad_weight_by_products(a, b, wide.slice());
            narrowed::<bf16>(wide.slice(), out, bases);
        }
    }
}

/// The windows of a convolution; `None` for those without a kernel.
pub(super) fn window(attrs: &Attrs, input: &[usize], kernel: &[usize]) -> Option<Window> {
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

/// The sizes of a convolution; `None` for those without a kernel.
fn sizes(attrs: &Attrs, x: &Shape, w: &Shape, y: &Shape) -> Option<Conv> {
    if x.count() == 0 || w.count() == 0 || y.count() == 0 {
        return None;
    }
    let window = window(attrs, &x[2..], &w[2..])?;
    let conv = Conv { batch: x[0], channels: x[1], out_channels: w[0], groups: attrs.size("groups").ok()?, window };
    (window.output_len() == y[2..].iter().product::<usize>()).then_some(conv)
}

/// Whether a convolution hands over its result: that of one image, whose rows are its channels.
fn feeds(n: &FlatNode, args: &[View]) -> bool {
    let (x, w, y) = (&args[0].layout.shape, &args[1].layout.shape, &n.outs[0]);
    y.dtype == DType::F32 && y.shape[0] == 1 && sizes(&n.attrs, x, w, &y.shape).is_some()
}

/// The convolution for a loop that takes its result.
fn fed(attrs: &Attrs, args: &[Operand], out: &Operand) -> Option<Fed> {
    let (a, b, out) = (args[0].clone(), args[1].clone(), out.clone());
    let (conv, count) = (sizes(attrs, &a.ty.shape, &b.ty.shape, &out.ty.shape)?, out.ty.shape.count());
    let weight = prepacked::<Forward>(&conv, &b);
    Some(Box::new(move |bases, done| {
        // SAFETY: the result is apart from the operands.
        let (x, y) = unsafe { (rows::<f32>(&a, bases), rows_mut::<f32>(&out, bases).slice(0, count)) };
        match &weight {
            Some(weight) => conv.forward_prepacked_then(x, weight, y, done),
            // SAFETY: as above.
            None => conv.forward_then(x, unsafe { rows::<f32>(&b, bases) }, y, done),
        }
    }))
}

/// The convolution with its epilogue, where sums are finished in registers.
fn finished(n: &FlatNode, args: &[Operand], e: &Epilogue<Spot>) -> Option<Prepared> {
    let (x, w, e, y) = (args[0].clone(), args[1].clone(), *e, &n.outs[0]);
    let conv = sizes(&n.attrs, &x.ty.shape, &w.ty.shape, &y.shape).filter(|c| y.dtype == DType::F32 && c.finishes())?;
    Some(Box::new(move |bases| {
        // SAFETY: the operands are alive and contiguous, and results are apart from them.
        unsafe {
            let e = e.map(&|spot| Shared::new(bases.at(spot)));
            conv.forward_finished(rows::<f32>(&x, bases), rows::<f32>(&w, bases), &e);
        }
        Ok(())
    }))
}

/// A convolution or one of its gradients; `None` for what the kernels cannot do.
fn prepare<W: Which + 'static>(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (a, b, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let [x, w, y] = W::PLACES.map(|i| &[&a, &b, &out][i].ty.shape);
    let conv = sizes(attrs, x, w, y)?;
    if let Some(weight) = prepacked::<W>(&conv, &b) {
        return Some(Box::new(move |bases| {
            // SAFETY: the result is apart from the operand.
            let (x, y) = unsafe { (rows::<f32>(&a, bases), rows_mut::<f32>(&out, bases)) };
            // SAFETY: as above.
            conv.forward_prepacked(x, &weight, unsafe { y.slice(0, out.ty.shape.count()) });
            Ok(())
        }));
    }
    Some(match out.ty.dtype {
        DType::F32 if const { ir::is_linked("f32") } => {
            Box::new(move |bases| run::<W, f32>(&conv, &a, &b, &out, bases))
        }
        DType::F64 if const { ir::is_linked("f64") } => {
            Box::new(move |bases| run::<W, f64>(&conv, &a, &b, &out, bases))
        }
        DType::BF16 if const { ir::is_linked("bf16") } => Box::new(move |bases| {
            if conv.has_narrow_products() {
                // SAFETY: nothing writes an operand.
                let (x, y) = unsafe { (rows::<bf16>(&a, bases), rows::<bf16>(&b, bases)) };
                W::sum_by_products(&conv, x, y, &out, bases);
                return Ok(());
            }
            run_half::<W, bf16>(&conv, &a, &b, &out, bases)
        }),
        DType::F16 if const { ir::is_linked("f16") } => {
            Box::new(move |bases| run_half::<W, f16>(&conv, &a, &b, &out, bases))
        }
        _ => return None,
    })
}

/// The algorithm of a convolution. Without a known weight, `f32` in strips is laid out as a matrix instead.
fn links(n: &FlatNode, args: &[Operand]) -> Vec<&'static str> {
    let (x, w) = (&args[0].ty, &args[1].ty);
    let (Some(window), Ok(groups)) = (window(&n.attrs, &x.shape[2..], &w.shape[2..]), n.attrs.size("groups")) else {
        return Vec::new();
    };
    let conv = Conv { batch: x.shape[0], channels: x.shape[1], out_channels: w.shape[0], groups, window };
    match (x.dtype, args[1].value()) {
        (DType::F32, Some(_)) => vec![conv.algorithm::<f32>()],
        (DType::F64, _) => vec![conv.algorithm::<f64>()],
        _ => vec![conv.algorithm::<f32>(), conv.algorithm::<f64>()],
    }
}

/// A constant weight, brought into its kernel's form once.
fn prepacked<W: Which>(conv: &Conv, weight: &Operand) -> Option<Prepacked> {
    let is_forward = W::PLACES == Forward::PLACES;
    conv.prepacked(weight.value().filter(|v| is_forward && v.dtype() == DType::F32)?)
}

fn run<W: Which, E: Multiply + Float>(
    conv: &Conv,
    a: &Operand,
    b: &Operand,
    out: &Operand,
    bases: Bases,
) -> ir::Result<()> {
    // SAFETY: the result is apart from the operands.
    let (a, b, y) = unsafe { (rows::<E>(a, bases), rows::<E>(b, bases), rows_mut::<E>(out, bases)) };
    // SAFETY: as above.
    W::sum(conv, a, b, unsafe { y.slice(0, out.ty.shape.count()) });
    Ok(())
}

fn run_half<W: Which, H: Narrow>(conv: &Conv, a: &Operand, b: &Operand, out: &Operand, bases: Bases) -> ir::Result<()> {
    let (a, b) = (widened::<H>(a, bases), widened::<H>(b, bases));
    let y = Scratch::new(out.ty.shape.count());
    // SAFETY: the operands were filled, and the kernel writes all of its result.
    unsafe {
        W::sum(conv, a.slice(), b.slice(), y.slice());
        narrowed::<H>(y.slice(), out, bases);
    }
    Ok(())
}

/// Elements that a thread converts at a time.
const PIECE: usize = 1 << 15;

/// The elements of a contiguous operand of 16 bits as `f32`.
fn widened<H: Narrow>(o: &Operand, bases: Bases) -> Scratch<f32> {
    let wide = Scratch::new(o.ty.shape.count());
    // SAFETY: nothing writes an operand; each task writes its own piece.
    let (x, y) = unsafe { (rows::<H>(o, bases), Shared::new(wide.slice().as_mut_ptr())) };
    parallel_for(x.len().div_ceil(PIECE), &|p| {
        let x = &x[p * PIECE..x.len().min((p + 1) * PIECE)];
        // SAFETY: as above.
        widen(x, unsafe { y.slice(p * PIECE, x.len()) });
    });
    wide
}

/// Stores numbers as the elements of a result of 16 bits.
fn narrowed<H: Narrow>(x: &[f32], out: &Operand, bases: Bases) {
    // SAFETY: no other thread uses the result.
    let y = unsafe { rows_mut::<H>(out, bases) };
    parallel_for(x.len().div_ceil(PIECE), &|p| {
        let x = &x[p * PIECE..x.len().min((p + 1) * PIECE)];
        // SAFETY: each task writes its own piece.
        narrow(x, unsafe { y.slice(p * PIECE, x.len()) });
    });
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

fn is_pooled(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16)
}

/// Whether max pooling of such an input has a kernel.
fn claims_pool(attrs: &Attrs, x: &Type) -> bool {
    is_pooled(x.dtype) && pool_window(attrs, &x.shape).is_some()
}

/// Max pooling: the greatest elements, if they are asked for, and their places.
fn max_pool(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, outs) = (args[0].clone(), outs.to_vec());
    let window = pool_window(attrs, &x.ty.shape)?;
    Some(match x.ty.dtype {
        DType::F32 if const { ir::is_linked("f32") } => Box::new(move |bases| pool::<f32>(&window, &x, &outs, bases)),
        DType::F64 if const { ir::is_linked("f64") } => Box::new(move |bases| pool::<f64>(&window, &x, &outs, bases)),
        DType::BF16 if const { ir::is_linked("bf16") } => {
            Box::new(move |bases| pool_half::<bf16>(&window, &x, &outs, bases))
        }
        DType::F16 if const { ir::is_linked("f16") } => {
            Box::new(move |bases| pool_half::<f16>(&window, &x, &outs, bases))
        }
        _ => return None,
    })
}

fn pool<E: Pooled>(w: &Window, x: &Operand, outs: &[Operand], bases: Bases) -> ir::Result<()> {
    let n = outs[0].ty.shape.count();
    // SAFETY: results are apart from the operand and from each other; room for this call alone.
    unsafe {
        let room = Scratch::<E>::new(if outs.len() == 1 { n } else { 0 });
        let y = if outs.len() == 1 { room.slice() } else { rows_mut::<E>(&outs[0], bases).slice(0, n) };
        pool_planes(w, x, rows::<E>(x, bases), y, outs, bases);
    }
    Ok(())
}

/// In `f32`, which holds every number of 16 bits.
fn pool_half<H: Narrow>(w: &Window, x: &Operand, outs: &[Operand], bases: Bases) -> ir::Result<()> {
    let (wide, y) = (widened::<H>(x, bases), Scratch::new(outs[0].ty.shape.count()));
    // SAFETY: the operand was filled, and the kernel writes all of its result.
    unsafe {
        pool_planes(w, x, wide.slice(), y.slice(), outs, bases);
        if outs.len() == 2 {
            narrowed::<H>(y.slice(), &outs[0], bases);
        }
    }
    Ok(())
}

/// The greatest elements of the planes of `x`, and their places in the last of the results if anybody reads them.
///
/// # Safety
/// Results are apart from each other and from the operand, and no other thread uses them.
unsafe fn pool_planes<E: Pooled>(w: &Window, x: &Operand, from: &[E], y: &mut [E], outs: &[Operand], bases: Bases) {
    let planes = x.ty.shape[0] * x.ty.shape[1];
    match outs {
        [_, index] if !index.is_read => kernels::max_pool_values(w, planes, from, y),
        [.., index] => {
            // SAFETY: the caller's promise.
            let index = unsafe { rows_mut::<i64>(index, bases).slice(0, y.len()) };
            kernels::max_pool(w, planes, from, y, index);
        }
        [] => {}
    }
}

/// The gradient of max pooling, from the places it found.
fn max_pool_grad(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (index, g, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    Some(match out.ty.dtype {
        DType::F32 if const { ir::is_linked("f32") } => Box::new(move |bases| unpool::<f32>(&index, &g, &out, bases)),
        DType::F64 if const { ir::is_linked("f64") } => Box::new(move |bases| unpool::<f64>(&index, &g, &out, bases)),
        DType::BF16 if const { ir::is_linked("bf16") } => {
            Box::new(move |bases| unpool_half::<bf16>(&index, &g, &out, bases))
        }
        DType::F16 if const { ir::is_linked("f16") } => {
            Box::new(move |bases| unpool_half::<f16>(&index, &g, &out, bases))
        }
        _ => return None,
    })
}

fn unpool<E: Pooled>(index: &Operand, g: &Operand, out: &Operand, bases: Bases) -> ir::Result<()> {
    // SAFETY: the result is apart from the operands.
    let (g, dx) = unsafe { (rows::<E>(g, bases), rows_mut::<E>(out, bases).slice(0, out.ty.shape.count())) };
    unpool_planes(index, g, out, dx, bases)
}

/// Gradients of 16 bits are added up in `f32`.
fn unpool_half<H: Narrow>(index: &Operand, g: &Operand, out: &Operand, bases: Bases) -> ir::Result<()> {
    let (g, dx) = (widened::<H>(g, bases), Scratch::new(out.ty.shape.count()));
    // SAFETY: the operand was filled, and the kernel writes all of its result.
    unsafe {
        unpool_planes::<f32>(index, g.slice(), out, dx.slice(), bases)?;
        narrowed::<H>(dx.slice(), out, bases);
    }
    Ok(())
}

fn unpool_planes<E: Pooled>(index: &Operand, g: &[E], out: &Operand, dx: &mut [E], bases: Bases) -> ir::Result<()> {
    let planes = out.ty.shape[0] * out.ty.shape[1];
    // SAFETY: nothing writes an operand.
    let index = unsafe { rows::<i64>(index, bases) };
    let size = dx.len() / planes.max(1);
    if let Some(&bad) = index.iter().find(|&&i| i < 0 || i as usize >= size) {
        return Err(super::moves::out_of_range(bad, 2, size));
    }
    kernels::max_pool_grad(planes, g, index, dx);
    Ok(())
}
