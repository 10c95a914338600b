//! Fourier transforms by cuFFT, which is loaded when it is first needed.

#![allow(unsafe_code)]

use crate::claims::Claim;
use crate::driver::context::{Context, failed};
use crate::emit::Kernel;
use crate::emit::kernels::{Operand, moves};
use crate::rewrite::rows::FFT_AXES;
use cudarc::cufft::{result as fft, sys};
use ir::{Attrs, AxisSplit, DType, FlatNode, Result, Shape, Type};
use std::ffi::c_int;
use std::sync::LazyLock;

/// The transform.
pub static CLAIMS: &[Claim] = &[
    Claim { transform: Transform::of, ..Claim::new("fft", |_| None) },
    Claim { transform: Transform::of_axes, ..Claim::new(FFT_AXES.name, |_| None) },
    Claim { transform: Transform::of_real, is_whole: is_plain, ..Claim::new("rfft", |_| None) },
];

/// Whether a transform of real numbers is the library's: neither cut off, filled up nor scaled.
fn is_plain(n: &FlatNode, types: &[Type]) -> bool {
    let axis = n.attrs.size("axis").unwrap_or(usize::MAX);
    let is_whole = n.attrs.size("n").ok().is_some_and(|n| types[0].shape.get(axis) == Some(&n));
    let is_known = matches!(types[0].dtype, DType::F32 | DType::F64);
    is_present() && is_known && is_whole && n.attrs.str("norm") == Ok("backward") && types[0].shape.count() > 0
}

/// The signs of the exponent.
const FORWARD: c_int = -1;
const INVERSE: c_int = 1;

/// Whether the library can be loaded.
pub fn is_present() -> bool {
    // SAFETY: it only tries to load the library by its usual names.
    static PRESENT: LazyLock<bool> = LazyLock::new(|| unsafe { sys::is_culib_present() });
    *PRESENT
}

/// Transforms along an axis or several, of pairs or of real numbers to pairs: `batch` lanes at a time, `repeats` times.
#[derive(Clone, Debug, PartialEq)]
pub struct Transform {
    /// Of a lane, one for each axis.
    sizes: Vec<c_int>,
    /// Elements from one to the next of a lane.
    stride: c_int,
    /// Elements from lane to lane, of the operand and of the result.
    distances: [c_int; 2],
    batch: c_int,
    repeats: usize,
    /// Bytes from one batch to the next, of the operand and of the result.
    steps: [u64; 2],
    is_double: bool,
    is_real: bool,
    is_inverse: bool,
}

impl Transform {
    /// The transform of an operand; `None` if the library has none for it.
    pub fn of(attrs: &Attrs, args: &[Operand]) -> Option<Transform> {
        let ty = &args[0].ty;
        let is_double = match ty.dtype {
            DType::F32 | DType::F16 | DType::BF16 => false,
            DType::F64 => true,
            _ => return None,
        };
        let complex: Shape = ty.shape[..ty.shape.rank() - 1].iter().copied().collect();
        let l = AxisSplit::new(&complex, attrs.size("axis").ok()?);
        let (size, bytes) = (l.size, if is_double { 16 } else { 8 });
        Transform::along(l, [size; 2], [bytes; 2], is_double, attrs.bool("inverse").ok()?)
    }
    /// The transform along the last axes.
    fn of_axes(attrs: &Attrs, args: &[Operand]) -> Option<Transform> {
        let ty = &args[0].ty;
        let (axis, last) = (attrs.size("axis").ok()?, ty.shape.rank() - 1);
        let sizes: Vec<c_int> = ty.shape[axis..last].iter().map(|&n| c_int::try_from(n).ok()).collect::<Option<_>>()?;
        let l = AxisSplit {
            outer: ty.shape[..axis].iter().product(),
            size: ty.shape[axis..last].iter().product(),
            inner: 1,
        };
        let (size, bytes) = (l.size, 2 * ty.dtype.size());
        let t = Transform::along(l, [size; 2], [bytes; 2], ty.dtype == DType::F64, attrs.bool("inverse").ok()?)?;
        Some(Transform { sizes, ..t })
    }
    /// The transform of a real operand.
    fn of_real(attrs: &Attrs, args: &[Operand]) -> Option<Transform> {
        let ty = &args[0].ty;
        let l = AxisSplit::new(&ty.shape, attrs.size("axis").ok()?);
        let (size, bytes) = (l.size, ty.dtype.size());
        let t = Transform::along(l, [size, size / 2 + 1], [bytes, 2 * bytes], ty.dtype == DType::F64, false)?;
        Some(Transform { is_real: true, ..t })
    }
    /// `sizes` and `bytes`: of a lane and of an element, of the operand and of the result.
    fn along(
        l: AxisSplit,
        sizes: [usize; 2],
        bytes: [usize; 2],
        is_double: bool,
        is_inverse: bool,
    ) -> Option<Transform> {
        let is_last = l.inner == 1;
        let (stride, distances) = if is_last { (1, sizes) } else { (l.inner, [1, 1]) };
        let (batch, repeats) = if is_last { (l.outer, 1) } else { (l.inner, l.outer) };
        let int = |n: usize| c_int::try_from(n).ok().filter(|&n| n > 0);
        Some(Transform {
            sizes: vec![int(l.size)?],
            stride: int(stride)?,
            distances: [int(distances[0])?, int(distances[1])?],
            batch: int(batch)?,
            repeats,
            steps: [0, 1].map(|i| (sizes[i] * l.inner * bytes[i]) as u64),
            is_double,
            is_real: false,
            is_inverse,
        })
    }
}

fn is_short(o: &Operand) -> bool {
    matches!(o.ty.dtype, DType::F16 | DType::BF16)
}
/// The kernels that widen 16-bit floats to f32 in scratch space before a transform, and narrow them after it.
pub fn around(operands: &[Operand; 2]) -> [Vec<Kernel>; 2] {
    if is_short(&operands[0]) { moves::through_f32(&operands[0], &operands[1]) } else { Default::default() }
}
/// Bytes of the scratch space.
pub fn scratch(operands: &[Operand; 2]) -> usize {
    if is_short(&operands[0]) { 4 * operands[0].ty.shape.count() } else { 0 }
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
        let Transform { stride, distances: [from, to], batch, is_double, is_real, .. } = *transform;
        let ty = match (is_real, is_double) {
            (false, false) => sys::cufftType::CUFFT_C2C,
            (false, true) => sys::cufftType::CUFFT_Z2Z,
            (true, false) => sys::cufftType::CUFFT_R2C,
            (true, true) => sys::cufftType::CUFFT_D2Z,
        };
        let mut sizes = transform.sizes.clone();
        let (rank, n) = (sizes.len() as c_int, sizes.as_mut_ptr());
        // SAFETY: the handle is new, the arrays have an element for each axis, and the stream lives as long as the
        // context.
        unsafe {
            fft::set_auto_allocation(handle, false).map_err(bad)?;
            plan.workspace =
                fft::make_plan_many(handle, rank, n, n, stride, from, n, stride, to, ty, batch).map_err(bad)?;
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
                let (from, to) = (from + k * self.transform.steps[0], to + k * self.transform.steps[1]);
                match (self.transform.is_real, self.transform.is_double) {
                    (false, false) => fft::exec_c2c(self.handle, from as *mut _, to as *mut _, direction),
                    (false, true) => fft::exec_z2z(self.handle, from as *mut _, to as *mut _, direction),
                    (true, false) => fft::exec_r2c(self.handle, from as *mut _, to as *mut _),
                    (true, true) => fft::exec_d2z(self.handle, from as *mut _, to as *mut _),
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
