//! Fourier transforms along one axis; complex numbers are pairs.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, each_task, never, rows, rows_mut};
use crate::kernels::scratch::Scratch;
use crate::pool::Shared;
use crate::vmath::simd::Scalar;
use fft::{Complex, Element, FftNum};
use ir::{AxisSplit, DType, FlatNode, Result, Shape, Type};

/// Fourier transforms.
pub static CLAIMS: &[Claim] = &[
    Claim::new("fft", never, |n, args, outs| {
        let is_inverse = n.attrs.bool("inverse")?;
        let shape = &args[0].ty.shape;
        let lanes = AxisSplit::new(&Shape::new(&shape[..shape.rank() - 1]), n.attrs.size("axis")?);
        Ok(match args[0].ty.dtype {
            DType::F32 if const { ir::is_linked("f32") } => Some(complex::<f32>(lanes, is_inverse, args, outs)),
            DType::F64 if const { ir::is_linked("f64") } => Some(complex::<f64>(lanes, is_inverse, args, outs)),
            _ => None,
        })
    }),
    Claim { claims: is_float, ..Claim::new("rfft", never, |n, args, outs| real(n, args, outs, true)) },
    Claim { claims: is_float, ..Claim::new("irfft", never, |n, args, outs| real(n, args, outs, false)) },
];

fn is_float(n: &FlatNode, types: &[Type]) -> bool {
    n.attrs.size("n").is_ok_and(|n| n > 0) && types.iter().all(|t| matches!(t.dtype, DType::F32 | DType::F64))
}

/// Lanes that are transformed together where they do not lie together: a cache line of pairs.
const TOGETHER: usize = 8;

/// What is done to lanes of one length: from `len_in` to `len_out` elements of types `A` and `B`.
struct Lanes<A, B> {
    outer: usize,
    inner: usize,
    len_in: usize,
    len_out: usize,
    src: Shared<A>,
    dst: Shared<B>,
}

impl<A: Copy + Send + Sync, B: Copy + Send + Sync> Lanes<A, B> {
    /// Calls `f` with each lane and room for its result, on all threads.
    fn each(&self, f: &(dyn Fn(&[A], &mut [B]) + Sync)) {
        if self.inner == 1 {
            each_task(self.outer, self.len_out * size_of::<B>() * 4, &|o| {
                // SAFETY: each task reads and writes its own lanes.
                unsafe {
                    f(self.src.slice(o * self.len_in, self.len_in), self.dst.slice(o * self.len_out, self.len_out))
                };
            });
            return;
        }
        let groups = self.inner.div_ceil(TOGETHER);
        each_task(self.outer * groups, self.len_out * TOGETHER * size_of::<B>() * 4, &|task| {
            let (o, first) = (task / groups, task % groups * TOGETHER);
            let width = TOGETHER.min(self.inner - first);
            let (from, to) = (Scratch::<A>::new(self.len_in * width), Scratch::<B>::new(self.len_out * width));
            // SAFETY: each task reads and writes its own lanes; the scratch is written before it is read.
            unsafe {
                for i in 0..self.len_in {
                    let row = self.src.get().add((o * self.len_in + i) * self.inner + first);
                    (0..width).for_each(|w| *from.ptr().add(w * self.len_in + i) = *row.add(w));
                }
                for w in 0..width {
                    let lane = std::slice::from_raw_parts(from.ptr().add(w * self.len_in), self.len_in);
                    f(lane, std::slice::from_raw_parts_mut(to.ptr().add(w * self.len_out), self.len_out));
                }
                for i in 0..self.len_out {
                    let row = self.dst.get().add((o * self.len_out + i) * self.inner + first);
                    (0..width).for_each(|w| *row.add(w) = *to.ptr().add(w * self.len_out + i));
                }
            }
        });
    }
}

fn complex<T: Element + Scalar>(lanes: AxisSplit, is_inverse: bool, args: &[Operand], outs: &[Operand]) -> Prepared {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let plan = T::plan(lanes.size, is_inverse);
    Box::new(move |bases| {
        // SAFETY: pairs are complex numbers; the result lies apart from the operand.
        let (src, dst) = unsafe { (rows::<Complex<T>>(&x, bases), rows_mut::<Complex<T>>(&out, bases)) };
        let AxisSplit { outer, size, inner } = lanes;
        let src = Shared::new(src.as_ptr().cast_mut());
        Lanes { outer, inner, len_in: size, len_out: size, src, dst }.each(&|x, y| {
            let scratch = Scratch::<Complex<T>>::new(plan.get_inplace_scratch_len());
            y.copy_from_slice(x);
            // SAFETY: any bits are complex numbers, and the transform writes its scratch first.
            plan.process_with_scratch(y, unsafe { scratch.slice() });
        });
        Ok(())
    })
}

/// `rfft` and `irfft`: the axis of the real side is cut off or filled up with zeros to `n`.
fn real(n: &FlatNode, args: &[Operand], outs: &[Operand], is_forward: bool) -> Result<Option<Prepared>> {
    let (axis, len) = (n.attrs.size("axis")?, n.attrs.size("n")?);
    let factor = match (n.attrs.str("norm")?, is_forward) {
        ("ortho", _) => 1.0 / (len as f64).sqrt(),
        ("backward", false) | ("forward", true) => 1.0 / len as f64,
        _ => 1.0,
    };
    Ok(match (args[0].ty.dtype, is_forward) {
        (DType::F32, true) => Some(forward::<f32>(axis, len, factor, args, outs)),
        (DType::F64, true) => Some(forward::<f64>(axis, len, factor, args, outs)),
        (DType::F32, false) => Some(inverse::<f32>(axis, len, factor, args, outs)),
        (DType::F64, false) => Some(inverse::<f64>(axis, len, factor, args, outs)),
        _ => None,
    })
}

fn forward<T: Element + Scalar>(axis: usize, n: usize, factor: f64, args: &[Operand], outs: &[Operand]) -> Prepared {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let AxisSplit { outer, size, inner } = AxisSplit::new(&x.ty.shape, axis);
    let plan = T::plan_real(n);
    let factor = <T as Scalar>::from_f64(factor);
    Box::new(move |bases| {
        // SAFETY: pairs are complex numbers; the result lies apart from the operand.
        let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<Complex<T>>(&out, bases)) };
        let src = Shared::new(src.as_ptr().cast_mut());
        Lanes { outer, inner, len_in: size, len_out: n / 2 + 1, src, dst }.each(&|x, y| {
            let (lane, scratch) = (Scratch::<T>::new(n), Scratch::<Complex<T>>::new(plan.get_scratch_len()));
            // SAFETY: any bits are numbers; the lane is written here, the scratch by the transform.
            let (lane, scratch) = unsafe { (lane.slice(), scratch.slice()) };
            let given = n.min(x.len());
            lane[..given].copy_from_slice(&x[..given]);
            lane[given..].fill(T::zero());
            // Lengths fit, so there is no error.
            let _ = plan.process_with_scratch(lane, y, scratch);
            scale(y, factor, |z, f| Complex::new(z.re * f, z.im * f));
        });
        Ok(())
    })
}

fn inverse<T: Element + Scalar>(axis: usize, n: usize, factor: f64, args: &[Operand], outs: &[Operand]) -> Prepared {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let pairs = Shape::new(&x.ty.shape[..x.ty.shape.rank() - 1]);
    let AxisSplit { outer, size, inner } = AxisSplit::new(&pairs, axis);
    let plan = T::plan_real_inverse(n);
    let factor = <T as Scalar>::from_f64(factor);
    Box::new(move |bases| {
        // SAFETY: pairs are complex numbers; the result lies apart from the operand.
        let (src, dst) = unsafe { (rows::<Complex<T>>(&x, bases), rows_mut::<T>(&out, bases)) };
        let src = Shared::new(src.as_ptr().cast_mut());
        Lanes { outer, inner, len_in: size, len_out: n, src, dst }.each(&|x, y| {
            let half = n / 2 + 1;
            let (lane, scratch) = (Scratch::<Complex<T>>::new(half), Scratch::new(plan.get_scratch_len()));
            // SAFETY: any bits are numbers; the lane is written here, the scratch by the transform.
            let (lane, scratch) = unsafe { (lane.slice(), scratch.slice()) };
            let given = half.min(x.len());
            lane[..given].copy_from_slice(&x[..given]);
            lane[given..].fill(Complex::new(T::zero(), T::zero()));
            // The imaginary parts that real numbers do not have count for nothing.
            lane[0].im = T::zero();
            if n.is_multiple_of(2) {
                lane[half - 1].im = T::zero();
            }
            let _ = plan.process_with_scratch(lane, y, scratch);
            scale(y, factor, |x, f| x * f);
        });
        Ok(())
    })
}

fn scale<T: FftNum, A: Copy>(y: &mut [A], factor: T, times: impl Fn(A, T) -> A) {
    if factor != T::one() {
        y.iter_mut().for_each(|y| *y = times(*y, factor));
    }
}
