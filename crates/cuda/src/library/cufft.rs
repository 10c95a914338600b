//! Fourier transforms by cuFFT, which is loaded when it is first needed.

#![allow(unsafe_code)]

use crate::claims::Claim;
use crate::driver::context::{Context, failed};
use crate::emit::kernels::Operand;
use cudarc::cufft::{result as fft, sys};
use ir::{Attrs, AxisSplit, DType, Result, Shape};
use std::ffi::c_int;
use std::sync::LazyLock;

/// The transform.
pub static CLAIMS: &[Claim] = &[Claim { transform: Transform::of, ..Claim::new("fft", |_| None) }];

/// The signs of the exponent.
const FORWARD: c_int = -1;
const INVERSE: c_int = 1;

/// Whether the library can be loaded.
pub fn is_present() -> bool {
    // SAFETY: it only tries to load the library by its usual names.
    static PRESENT: LazyLock<bool> = LazyLock::new(|| unsafe { sys::is_culib_present() });
    *PRESENT
}

/// Transforms of pairs along an axis: `batch` lanes at a time, `repeats` times.
#[derive(Clone, Debug, PartialEq)]
pub struct Transform {
    size: c_int,
    /// Elements from one to the next of a lane, and from lane to lane.
    stride: c_int,
    distance: c_int,
    batch: c_int,
    repeats: usize,
    /// Bytes from one batch to the next.
    step: u64,
    is_double: bool,
    is_inverse: bool,
}

impl Transform {
    /// The transform of an operand; `None` if the library has none for it.
    pub fn of(attrs: &Attrs, args: &[Operand]) -> Option<Transform> {
        let ty = &args[0].ty;
        let is_double = match ty.dtype {
            DType::F32 => false,
            DType::F64 => true,
            _ => return None,
        };
        let complex: Shape = ty.shape[..ty.shape.rank() - 1].iter().copied().collect();
        let l = AxisSplit::new(&complex, attrs.size("axis").ok()?);
        let is_last = l.inner == 1;
        let (stride, distance) = if is_last { (1, l.size) } else { (l.inner, 1) };
        let (batch, repeats) = if is_last { (l.outer, 1) } else { (l.inner, l.outer) };
        let int = |n: usize| c_int::try_from(n).ok().filter(|&n| n > 0);
        Some(Transform {
            size: int(l.size)?,
            stride: int(stride)?,
            distance: int(distance)?,
            batch: int(batch)?,
            repeats,
            step: (2 * l.size * l.inner * ty.dtype.size()) as u64,
            is_double,
            is_inverse: attrs.bool("inverse").ok()?,
        })
    }
}

/// A transform that is ready to run.
pub struct Plan {
    transform: Transform,
    handle: sys::cufftHandle,
    /// Bytes of working memory.
    pub workspace: usize,
}

impl Plan {
    /// Prepares a transform on the context's stream.
    pub fn new(context: &Context, transform: &Transform) -> Result<Plan> {
        let bad = |e| failed("cuFFT", e);
        let handle = fft::create().map_err(bad)?;
        let mut plan = Plan { transform: transform.clone(), handle, workspace: 0 };
        let Transform { size, stride, distance, batch, is_double, .. } = *transform;
        let ty = if is_double { sys::cufftType::CUFFT_Z2Z } else { sys::cufftType::CUFFT_C2C };
        let mut n = [size];
        let n = n.as_mut_ptr();
        // SAFETY: the handle is new, the arrays have one element each, and the stream lives as long as the context.
        unsafe {
            fft::set_auto_allocation(handle, false).map_err(bad)?;
            plan.workspace =
                fft::make_plan_many(handle, 1, n, n, stride, distance, n, stride, distance, ty, batch).map_err(bad)?;
            fft::set_stream(handle, context.stream.cast()).map_err(bad)?;
        }
        Ok(plan)
    }

    /// Puts the transform on the stream.
    pub fn run(&self, from: u64, to: u64, workspace: u64) -> Result<()> {
        let bad = |e| failed("cuFFT", e);
        let direction = if self.transform.is_inverse { INVERSE } else { FORWARD };
        // SAFETY: operand, result and working memory are alive in the stream's order and as large as planned.
        unsafe {
            if self.workspace > 0 {
                fft::set_work_area(self.handle, workspace as *mut _).map_err(bad)?;
            }
            for k in 0..self.transform.repeats as u64 {
                let (from, to) = (from + k * self.transform.step, to + k * self.transform.step);
                match self.transform.is_double {
                    true => fft::exec_z2z(self.handle, from as *mut _, to as *mut _, direction),
                    false => fft::exec_c2c(self.handle, from as *mut _, to as *mut _, direction),
                }
                .map_err(bad)?;
            }
        }
        Ok(())
    }
}
impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        unsafe {
            let _ = fft::destroy(self.handle);
        }
    }
}
