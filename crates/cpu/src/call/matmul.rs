//! `matmul` and `int_matmul` with strided operands, by the kernels in [`crate::kernels::gemm`]: by itself, or feeding
//! the loop that takes its result.

#![allow(unsafe_code)]

use super::{Claim, Fed, Operand, Prepared, never};
use crate::kernels::conv::Conv;
use crate::kernels::gemm::int8::{Right, Side};
use crate::kernels::gemm::{BESIDE, Float, Gemm, Integer, Mat, Multiply, Output, Patch, gemm_int};
use crate::kernels::int_conv::IntConv;
use crate::kernels::requantize::{Bound, Requantize};
use crate::kernels::window::Window;
use crate::tile::access::{Bases, Spot};
use ir::{DType, FlatNode, Layout, Shape, bf16, f16};
use passes::View;

/// Whether this build has products of bytes.
pub const IS_INT8_LINKED: bool = Claim::is_linked("int_matmul");

/// Products of several rows and columns, which a build for one model may not have.
const TILES: &str = "matmul in tiles";

/// GEMMs.
pub static CLAIMS: &[Claim] = &[
    Claim {
        accepts: |n, _, _| has_kernel(n.outs[0].dtype),
        feeds,
        fed: Claim::linked("matmul", |_, args, out, beside| Ok(prepare_fed(args, out, beside))),
        is_gemm: true,
        flops,
        links,
        ..Claim::new("matmul", never, |_, args, outs| Ok(prepare(args, outs)))
    },
    Claim {
        accepts: |_, _, _| true,
        feeds: |n, args| rows_of_bytes(&args[0].layout, &args[1].layout, &n.outs[0].shape).is_some(),
        fed: Claim::linked("int_matmul", |_, args, out, _| Ok(prepare_fed_int8(args, out))),
        requantized: if IS_INT8_LINKED { requantized_int8 } else { |_, _, _| None },
        flops,
        ..Claim::new("int_matmul", never, |_, args, outs| Ok(Some(prepare_int8(args, outs))))
    },
];

fn flops(n: &FlatNode, args: &[View]) -> usize {
    2 * n.outs[0].shape.count() * args[0].layout.shape.last().copied().unwrap_or(1)
}

/// Whether a product is computed in tiles.
fn links(n: &FlatNode, args: &[Operand]) -> Vec<&'static str> {
    let out = &n.outs[0];
    let p = product(&args[0].layout, &args[1].layout, &out.shape);
    let gemm = p.gemm::<f32>(std::ptr::null(), std::ptr::null(), std::ptr::null_mut());
    let is_vector = matches!(out.dtype, DType::F32 | DType::F64) && out.shape.count() > 0 && gemm.is_vector();
    if is_vector { Vec::new() } else { vec![TILES] }
}

/// Runs products, in tiles if this build has them.
///
/// # Safety
/// As for [`Gemm::run`].
unsafe fn run<S: Multiply, C: Output<S::Acc>>(q: &Gemm<S, C>) {
    // SAFETY: the caller's promise.
    unsafe {
        match q.is_vector() {
            _ if const { ir::is_linked(TILES) } => q.run(),
            true => q.run_vector(&|_| {}),
            false => ir::unlinked(TILES),
        }
    }
}

/// The sizes of a product, and for each of its batch the offsets of the operands in elements.
#[derive(Clone)]
struct Product {
    m: usize,
    n: usize,
    k: usize,
    a: (isize, isize),
    b: (isize, isize),
    batch: Batch,
}

#[derive(Clone)]
enum Batch {
    /// Evenly spaced.
    Even { count: usize, a: isize, b: isize },
    /// Anything else.
    Listed(Vec<(isize, isize)>),
}

impl Batch {
    fn offsets(&self) -> Vec<(isize, isize)> {
        match self {
            Batch::Even { count, a, b } => (0..*count as isize).map(|i| (i * a, i * b)).collect(),
            Batch::Listed(offsets) => offsets.clone(),
        }
    }
}

/// Whether there is a kernel for the type: the reference, which does the rest, takes no strides.
fn has_kernel(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_int() && dtype.size() > 1
}

/// The product for these operands; `None` for types without a kernel.
fn prepare(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (a, b, c) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let p = product(&a.layout, &b.layout, &c.ty.shape);
    Some(match c.ty.dtype {
        DType::F32 if const { ir::is_linked("f32") } => {
            Box::new(move |bases| floats::<f32, f32>(&p, &a, &b, &c, bases))
        }
        DType::F64 if const { ir::is_linked("f64") } => {
            Box::new(move |bases| floats::<f64, f64>(&p, &a, &b, &c, bases))
        }
        DType::BF16 if const { ir::is_linked("bf16") } => {
            Box::new(move |bases| floats::<bf16, bf16>(&p, &a, &b, &c, bases))
        }
        DType::F16 if const { ir::is_linked("f16") } => {
            Box::new(move |bases| floats::<f16, f16>(&p, &a, &b, &c, bases))
        }
        DType::I32 if const { ir::is_linked("i32") } => Box::new(move |bases| ints::<i32>(&p, &a, &b, &c, bases)),
        DType::I64 if const { ir::is_linked("i64") } => Box::new(move |bases| ints::<i64>(&p, &a, &b, &c, bases)),
        DType::U64 if const { ir::is_linked("u64") } => Box::new(move |bases| ints::<u64>(&p, &a, &b, &c, bases)),
        DType::U32 if const { ir::is_linked("u32") } => Box::new(move |bases| ints::<u32>(&p, &a, &b, &c, bases)),
        DType::I16 if const { ir::is_linked("i16") } => Box::new(move |bases| ints::<i16>(&p, &a, &b, &c, bases)),
        DType::U16 if const { ir::is_linked("u16") } => Box::new(move |bases| ints::<u16>(&p, &a, &b, &c, bases)),
        _ => return None,
    })
}

/// Parts in which the sums of a product are handed over that is computed as a whole.
const FED_PARTS: usize = 64;

/// Multiplications below which a product and the loop behind it run one after the other.
const FEED_MIN: usize = 1 << 15;

/// Whether a product can hand over its result piece by piece: one, of full floats, in whole rows or
/// of a single one. (A loop over narrow pieces would reach for its other operands here and there.)
fn feeds(n: &FlatNode, args: &[View]) -> bool {
    fn in_rows<E: Multiply + Float>(p: &Product) -> bool {
        p.gemm::<E>(std::ptr::null(), std::ptr::null(), std::ptr::null_mut()).has_whole_rows()
    }
    let out = &n.outs[0];
    let p = product(&args[0].layout, &args[1].layout, &out.shape);
    let is_one = matches!(p.batch, Batch::Even { count: 1, .. });
    let is_large = p.n > 1 && p.m * p.n * p.k >= FEED_MIN;
    is_one
        && is_large
        && match out.dtype {
            DType::F32 if const { ir::is_linked("f32") } => in_rows::<f32>(&p),
            DType::F64 if const { ir::is_linked("f64") } => in_rows::<f64>(&p),
            _ => false,
        }
}

/// The product for a loop that it feeds and that reads or writes `beside`, which lies as the result
/// does.
fn prepare_fed(args: &[Operand], out: &Operand, beside: &[Spot]) -> Fed {
    fn of<E: Multiply + Float>(a: Operand, b: Operand, c: Operand, beside: [Option<Spot>; BESIDE]) -> Fed {
        let p = product(&a.layout, &b.layout, &c.ty.shape);
        // SAFETY: the layouts lie inside their buffers, and the result is apart from the operands.
        Box::new(move |bases, done| unsafe {
            let (a, b, c) = (a.first::<E>(bases), b.first::<E>(bases), c.first::<E>(bases));
            let beside = beside.map(|s| s.map_or(std::ptr::null(), |s| bases.at(s).cast::<E>().cast_const()));
            let q = p.gemm(a.cast_const(), b.cast_const(), c);
            match q.is_vector() {
                _ if const { ir::is_linked(TILES) } => q.run_then(beside, done),
                true => q.run_vector(done),
                false => ir::unlinked(TILES),
            }
        })
    }
    let (a, b, c) = (args[0].clone(), args[1].clone(), out.clone());
    let beside = std::array::from_fn(|i| beside.get(i).copied());
    match c.ty.dtype {
        DType::F64 if const { ir::is_linked("f64") } => of::<f64>(a, b, c, beside),
        _ => of::<f32>(a, b, c, beside),
    }
}

impl Product {
    /// The first product of the batch.
    fn gemm<E: Multiply + Float>(&self, a: *const E, b: *const E, c: *mut E) -> Gemm<E, E> {
        let (a, b) = (Mat { p: a, row: self.a.0, col: self.a.1 }, Mat { p: b, row: self.b.0, col: self.b.1 });
        Gemm::new(self.m, self.n, self.k, a, b, c)
    }
}

fn product(a: &Layout, b: &Layout, out: &Shape) -> Product {
    let rank = out.rank();
    let (m, n) = (out[rank - 2], out[rank - 1]);
    let k = a.shape[a.shape.rank() - 1];
    let lead: Shape = out[..rank - 2].into();
    // The layout of the batch dimensions alone, broadcast.
    let batch = |l: &Layout| {
        let r = l.shape.rank() - 2;
        Layout { shape: l.shape[..r].into(), strides: l.strides[..r].into(), offset: 0 }.broadcast_to(&lead)
    };
    let (la, lb) = (batch(a), batch(b));
    let count = lead.count();
    let flat = Shape::new(&[count]);
    let batch = match (la.reshape(&flat), lb.reshape(&flat)) {
        (Some(x), Some(y)) => Batch::Even { count, a: x.strides[0], b: y.strides[0] },
        _ => {
            let at = |l: &Layout, i: usize| {
                // Offsets may be negative, which `Layout::position` cannot say.
                let mut rest = i;
                let mut sum = 0;
                for d in (0..lead.rank()).rev() {
                    sum += (rest % lead[d]) as isize * l.strides[d];
                    rest /= lead[d];
                }
                sum
            };
            Batch::Listed((0..count).map(|i| (at(&la, i), at(&lb, i))).collect())
        }
    };
    let last = |l: &Layout| {
        let r = l.shape.rank();
        (l.strides[r - 2], l.strides[r - 1])
    };
    Product { m, n, k, a: last(a), b: last(b), batch }
}

fn floats<S: Multiply, C: Output<S::Acc>>(
    p: &Product,
    a: &Operand,
    b: &Operand,
    c: &Operand,
    bases: Bases,
) -> ir::Result<()> {
    let a = Mat { p: a.first::<S>(bases).cast_const(), row: p.a.0, col: p.a.1 };
    let b = Mat { p: b.first::<S>(bases).cast_const(), row: p.b.0, col: p.b.1 };
    let c = c.first::<C>(bases);
    let each = (p.m * p.n) as isize;
    let one = Gemm::<S, C>::new(p.m, p.n, p.k, a, b, c);
    // SAFETY: the layouts lie inside their buffers, and the result is apart from the operands.
    unsafe {
        match &p.batch {
            Batch::Even { count, a, b } => {
                run(&Gemm { batch: *count, a_batch: *a, b_batch: *b, c_batch: each, ..one });
            }
            Batch::Listed(offsets) => {
                for (i, (oa, ob)) in offsets.iter().enumerate() {
                    let a = Mat { p: a.p.wrapping_offset(*oa), ..a };
                    let b = Mat { p: b.p.wrapping_offset(*ob), ..b };
                    run(&Gemm::<S, C>::new(p.m, p.n, p.k, a, b, c.wrapping_offset(i as isize * each)));
                }
            }
        }
    }
    Ok(())
}

fn ints<T: Integer>(p: &Product, a: &Operand, b: &Operand, c: &Operand, bases: Bases) -> ir::Result<()> {
    for (i, (oa, ob)) in p.batch.offsets().into_iter().enumerate() {
        let a = Mat { p: a.first::<T>(bases).cast_const().wrapping_offset(oa), row: p.a.0, col: p.a.1 };
        let b = Mat { p: b.first::<T>(bases).cast_const().wrapping_offset(ob), row: p.b.0, col: p.b.1 };
        let c = c.first::<T>(bases).wrapping_add(i * p.m * p.n);
        // SAFETY: the layouts lie inside their buffers, and the result is apart from the operands.
        unsafe { gemm_int(p.m, p.n, p.k, a, b, c, p.n as isize, false) };
    }
    Ok(())
}

/// A product of bytes as a convolution of windows of one element, if its rows lie one after the other.
fn rows_of_bytes(a: &Layout, b: &Layout, out: &Shape) -> Option<Conv> {
    let mut p = product(a, b, out);
    if let Batch::Even { count, a, b: 0 } = p.batch
        && a == p.m as isize * p.a.0
    {
        (p.m, p.batch) = (p.m * count, Batch::Even { count: 1, a: 0, b: 0 });
    }
    let is_one = matches!(p.batch, Batch::Even { count: 1, .. }) && p.a == (p.k as isize, 1);
    if !is_one || p.m * p.n * p.k == 0 {
        return None;
    }
    let window = Window::new(&[p.m], &[1], &[1], &[(0, 0)], &[1]);
    Some(Conv { batch: 1, channels: p.k, out_channels: p.n, groups: 1, window })
}

/// The kernel of a product whose right side is a constant of signed bytes, packed here.
fn windows_int8(args: &[Operand], out: &Shape) -> Option<IntConv> {
    let (a, b) = (&args[0], &args[1]);
    let conv = rows_of_bytes(&a.layout, &b.layout, out)?;
    let value = b.constant.as_ref().filter(|_| b.ty.dtype == DType::I8)?;
    let strides = [b.layout.strides.len() - 2, b.layout.strides.len() - 1].map(|d| b.layout.strides[d]);
    // A line for each column.
    let (k, bytes) = (conv.channels, value.bytes());
    let at = |i: usize| b.layout.offset as isize + (i / k) as isize * strides[1] + (i % k) as isize * strides[0];
    let lines: Vec<u8> = (0..k * conv.out_channels).map(|i| bytes[at(i) as usize]).collect();
    Some(IntConv::new(conv, &lines, a.ty.dtype == DType::I8))
}

/// A product of bytes for a loop that takes its sums in whole rows.
fn prepare_fed_int8(args: &[Operand], out: &Operand) -> Fed {
    let (a, c) = (args[0].clone(), out.clone());
    if let Some(kernel) = windows_int8(args, &c.ty.shape) {
        return Box::new(move |bases, done| {
            // SAFETY: the operands are alive, rows lie one after the other, and the result is apart from them.
            unsafe { kernel.run(a.first::<u8>(bases).cast_const(), c.first::<i32>(bases), done) }
        });
    }
    let columns = c.ty.shape.last().copied().unwrap_or(1);
    let rows = c.ty.shape.count() / columns.max(1);
    let run = prepare_int8(args, std::slice::from_ref(out));
    Box::new(move |bases, done| {
        // A product of bytes cannot fail.
        let _ = run(bases);
        let each = rows.div_ceil(FED_PARTS).max(1);
        crate::pool::parallel_for(rows.div_ceil(each), &|i| {
            done(Patch { row: i * each, rows: each.min(rows - i * each), col: 0, cols: columns });
        });
    })
}

/// The kernel with its epilogue.
fn requantized_int8(n: &FlatNode, args: &[Operand], r: &Requantize<Spot>) -> Option<Prepared> {
    let (a, r, kernel) = (args[0].clone(), r.clone(), windows_int8(args, &n.outs[0].shape)?);
    Some(Box::new(move |bases| {
        // SAFETY: the operands are alive, rows lie one after the other, and results are apart from them.
        unsafe {
            let place = Bound::new(r.map(|spot| bases.at(spot)));
            kernel.run_into(a.first::<u8>(bases).cast_const(), &place);
        }
        Ok(())
    }))
}

/// A product of bytes summed in 32 bits. A constant right side is packed here, once.
fn prepare_int8(args: &[Operand], outs: &[Operand]) -> Prepared {
    let (a, b, c) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let mut p = product(&a.layout, &b.layout, &c.ty.shape);
    if let Batch::Even { count, a, b: 0 } = p.batch
        && a == p.m as isize * p.a.0
    {
        // One right side for rows that lie evenly: one product.
        p = Product { m: p.m * count, batch: Batch::Even { count: 1, a: 0, b: 0 }, ..p };
    }
    let side = |o: &Operand, at: *const u8, (row, col): (isize, isize)| Side {
        mat: Mat { p: at, row, col },
        is_signed: o.ty.dtype == DType::I8,
    };
    let packed = match (&b.constant, &p.batch) {
        // SAFETY: the layout lies inside the constant.
        (Some(v), Batch::Even { count: 1, .. }) => unsafe {
            Some(Right::new(p.k, p.n, side(&b, v.bytes().as_ptr().add(b.layout.offset), p.b)))
        },
        _ => None,
    };
    Box::new(move |bases| {
        let mut last: Option<(isize, Right)> = None;
        for (i, (oa, ob)) in p.batch.offsets().into_iter().enumerate() {
            let left = side(&a, a.first::<u8>(bases).cast_const().wrapping_offset(oa), p.a);
            // SAFETY: the layouts lie inside their buffers, and the result is apart from the operands.
            unsafe {
                let to = c.first::<i32>(bases).add(i * p.m * p.n);
                if let Some(right) = &packed {
                    right.multiply(p.m, left, to, p.n as isize);
                    continue;
                }
                let right = match last.take() {
                    Some((at, right)) if at == ob => right,
                    _ => Right::new(p.k, p.n, side(&b, b.first::<u8>(bases).cast_const().wrapping_offset(ob), p.b)),
                };
                right.multiply(p.m, left, to, p.n as isize);
                last = Some((ob, right));
            }
        }
        Ok(())
    })
}
