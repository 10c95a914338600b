//! Matrix products through cuBLASLt.

#![allow(unsafe_code)]

use crate::context::{Context, failed};
use crate::emit::kernels::Operand;
use cudarc::cublaslt::{result as lt, sys};
use ir::{DType, Error, ErrorKind, Layout, Result, Shape};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of working memory a product may use.
pub const WORKSPACE: usize = 32 << 20;

static TF32: AtomicBool = AtomicBool::new(false);

/// Whether products of f32 matrices may be computed with 10 bits of precision (TF32), which is
/// several times faster. Programs compiled from now on follow it; off unless asked for.
pub fn allow_tf32(yes: bool) {
    TF32.store(yes, Ordering::Relaxed);
}

/// The library.
pub struct Blas(sys::cublasLtHandle_t);
// SAFETY: cuBLASLt's handle may be used from several threads.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// Loads it; the context is current.
    pub fn new() -> Result<Blas> {
        // SAFETY: it only tries to load the library by its usual names.
        if !unsafe { sys::is_culib_present() } {
            let e = "cuBLASLt (libcublasLt.so) was not found; it comes with the CUDA toolkit or PyPI's nvidia-cublas";
            return Err(Error::new(ErrorKind::Device, e));
        }
        Ok(Blas(lt::create_handle().map_err(|e| failed("cuBLASLt does not start", e))?))
    }
}

/// How a matrix lies in memory: `ld` elements from one row (or column) to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrix {
    rows: usize,
    columns: usize,
    is_by_column: bool,
    ld: usize,
}

fn matrix(l: &Layout) -> Option<Matrix> {
    let r = l.shape.rank();
    let (rows, columns) = (l.shape[r - 2], l.shape[r - 1]);
    let (by_row, by_column) = (l.strides[r - 2], l.strides[r - 1]);
    let fits = |size: usize, other: usize, unit: isize, ld: isize| -> Option<usize> {
        if size > 1 && unit != 1 {
            return None;
        }
        if other == 1 {
            return Some(size.max(1));
        }
        (ld >= size as isize).then_some(ld as usize)
    };
    if let Some(ld) = fits(columns, rows, by_column, by_row) {
        return Some(Matrix { rows, columns, is_by_column: false, ld });
    }
    fits(rows, columns, by_row, by_column).map(|ld| Matrix { rows, columns, is_by_column: true, ld })
}

/// The leading dimensions as one: how many matrices, and the step between them.
fn batch(l: &Layout, lead: &Shape) -> Option<isize> {
    let r = l.shape.rank() - 2;
    let own = Layout { shape: Shape::new(&l.shape[..r]), strides: l.strides[..r].iter().copied().collect(), offset: 0 };
    let flat = own.broadcast_to(lead).reshape(&Shape::new(&[lead.count()]))?;
    (lead.count() <= 1 || flat.strides[0] >= 0).then_some(flat.strides[0])
}

/// True if cuBLASLt multiplies matrices of this type.
pub fn has(dtype: DType) -> bool {
    dtype.is_float()
}

/// True if an operand can be used as it lies.
pub fn accepts(l: &Layout, result: &Shape) -> bool {
    let lead = Shape::new(&result[..result.rank() - 2]);
    matrix(l).is_some() && batch(l, &lead).is_some()
}

/// A product, described without the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    dtype: DType,
    m: usize,
    n: usize,
    k: usize,
    count: usize,
    a: (Matrix, isize),
    b: (Matrix, isize),
    /// What the addresses of the operands and the result are multiples of.
    aligned: [u32; 3],
}

/// The product of two operands; `None` where there is nothing to add up, or strides do not fit.
pub fn product(a: &Operand, b: &Operand, c: &Operand) -> Option<Product> {
    let shape = &c.ty.shape;
    let lead = Shape::new(&shape[..shape.rank() - 2]);
    let (ma, mb) = (matrix(&a.layout)?, matrix(&b.layout)?);
    if ma.columns == 0 || !has(c.ty.dtype) {
        return None;
    }
    let aligned = |o: &Operand| 1u32 << ((o.layout.offset * o.ty.dtype.size()) | 64).trailing_zeros();
    Some(Product {
        dtype: c.ty.dtype,
        m: ma.rows,
        n: mb.columns,
        k: ma.columns,
        count: lead.count(),
        a: (ma, batch(&a.layout, &lead)?),
        b: (mb, batch(&b.layout, &lead)?),
        aligned: [aligned(b), aligned(a), aligned(c)],
    })
}

/// A product ready to run.
pub struct Gemm {
    desc: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algo: sys::cublasLtMatmulAlgo_t,
    is_double: bool,
}
// SAFETY: the descriptors are only read once made.
unsafe impl Send for Gemm {}
// SAFETY: as above.
unsafe impl Sync for Gemm {}

fn set<T>(f: impl Fn(*const c_void, usize) -> Result<(), lt::CublasError>, value: T) -> Result<(), lt::CublasError> {
    f((&raw const value).cast(), size_of::<T>())
}

impl Gemm {
    /// Chooses how to compute a product.
    pub fn new(context: &Context, p: &Product) -> Result<Gemm> {
        let blas = context.blas()?;
        Gemm::build(blas, p).map_err(|e| failed(&format!("cuBLASLt has no way to compute {p:?}"), e))
    }

    fn build(blas: &Blas, p: &Product) -> Result<Gemm, lt::CublasError> {
        use sys::{cublasComputeType_t as C, cudaDataType as T};
        use sys::{cublasLtMatmulDescAttributes_t as D, cublasLtMatmulPreferenceAttributes_t as P};
        let (ty, compute, scale) = match p.dtype {
            DType::F64 => (T::CUDA_R_64F, C::CUBLAS_COMPUTE_64F, T::CUDA_R_64F),
            DType::BF16 => (T::CUDA_R_16BF, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F),
            DType::F16 => (T::CUDA_R_16F, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F),
            _ if TF32.load(Ordering::Relaxed) => (T::CUDA_R_32F, C::CUBLAS_COMPUTE_32F_FAST_TF32, T::CUDA_R_32F),
            _ => (T::CUDA_R_32F, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F),
        };
        // The library's matrices are stored by column, so the result's transpose is computed: its
        // first operand is b, its second a.
        let desc = lt::create_matmul_desc(compute, scale)?;
        let transposed = |m: &Matrix| i32::from(m.is_by_column);
        // SAFETY: the descriptors were just made; attributes have the library's types.
        unsafe {
            let d = |a| move |v, n| lt::set_matmul_desc_attribute(desc, a, v, n);
            set(d(D::CUBLASLT_MATMUL_DESC_TRANSA), transposed(&p.b.0))?;
            set(d(D::CUBLASLT_MATMUL_DESC_TRANSB), transposed(&p.a.0))?;
        }
        let layout = |m: &Matrix, step: isize| {
            let (rows, columns) = if m.is_by_column { (m.rows, m.columns) } else { (m.columns, m.rows) };
            Gemm::layout(ty, rows, columns, m.ld, p.count, step)
        };
        let layouts = [
            layout(&p.b.0, p.b.1)?,
            layout(&p.a.0, p.a.1)?,
            Gemm::layout(ty, p.n, p.m, p.n, p.count, (p.m * p.n) as isize)?,
        ];
        let preference = lt::create_matmul_pref()?;
        // SAFETY: as above; the preference is destroyed once.
        let found = unsafe {
            let s = |a| move |v, n| lt::set_matmul_pref_attribute(preference, a, v, n);
            set(s(P::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), WORKSPACE)?;
            set(s(P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), p.aligned[0])?;
            set(s(P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES), p.aligned[1])?;
            set(s(P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES), p.aligned[2])?;
            set(s(P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES), p.aligned[2])?;
            let [a, b, c] = layouts;
            let found = lt::get_matmul_algo_heuristic(blas.0, desc, a, b, c, c, preference);
            lt::destroy_matmul_pref(preference)?;
            found?
        };
        Ok(Gemm { desc, layouts, algo: found.algo, is_double: p.dtype == DType::F64 })
    }

    fn layout(
        ty: sys::cudaDataType,
        rows: usize,
        columns: usize,
        ld: usize,
        count: usize,
        step: isize,
    ) -> Result<sys::cublasLtMatrixLayout_t, lt::CublasError> {
        use sys::cublasLtMatrixLayoutAttribute_t as L;
        let layout = lt::create_matrix_layout(ty, rows as u64, columns as u64, ld as i64)?;
        // SAFETY: the layout was just made; attributes have the library's types.
        unsafe {
            let s = |a| move |v, n| lt::set_matrix_layout_attribute(layout, a, v, n);
            set(s(L::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT), count as i32)?;
            set(s(L::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET), step as i64)?;
        }
        Ok(layout)
    }

    /// Puts the product on the stream: addresses of a, b, the result and the working memory.
    pub fn run(&self, context: &Context, [a, b, c, workspace]: [u64; 4]) -> Result<()> {
        let blas = context.blas()?;
        let (one, zero) = ((1.0f32, 1.0f64), (0.0f32, 0.0f64));
        let scalar = |x: &(f32, f64)| -> *const c_void {
            if self.is_double { (&raw const x.1).cast() } else { (&raw const x.0).cast() }
        };
        let [la, lb, lc] = self.layouts;
        // SAFETY: the layouts lie inside the caller's blocks, which are alive in stream order.
        let done = unsafe {
            lt::matmul(
                blas.0,
                self.desc,
                scalar(&one),
                scalar(&zero),
                b as *const c_void,
                la,
                a as *const c_void,
                lb,
                c as *const c_void,
                lc,
                c as *mut c_void,
                lc,
                &self.algo,
                workspace as *mut c_void,
                WORKSPACE,
                context.stream.cast(),
            )
        };
        done.map_err(|e| failed("cuBLASLt", e))
    }
}
impl Drop for Gemm {
    fn drop(&mut self) {
        // SAFETY: made by `build`, destroyed once.
        unsafe {
            let _ = lt::destroy_matmul_desc(self.desc);
            self.layouts.iter().for_each(|&l| {
                let _ = lt::destroy_matrix_layout(l);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Slot;

    fn operand(shape: &[usize], strides: &[isize], offset: usize) -> Operand {
        let layout = Layout { shape: Shape::new(shape), strides: strides.iter().copied().collect(), offset };
        Operand { slot: Slot::new(0, 0), ty: ir::Type::new(DType::BF16, shape), layout }
    }

    #[test]
    fn layouts_become_leading_dimensions() {
        // [2, 4, 3] × [3, 5], the first transposed in memory, the second a slice.
        let a = operand(&[2, 4, 3], &[12, 1, 4], 0);
        let b = operand(&[3, 5], &[8, 1], 3);
        let c = operand(&[2, 4, 5], &[20, 5, 1], 0);
        let p = product(&a, &b, &c).unwrap();
        assert_eq!((p.m, p.n, p.k, p.count), (4, 5, 3, 2));
        assert_eq!(p.a, (Matrix { rows: 4, columns: 3, is_by_column: true, ld: 4 }, 12));
        assert_eq!(p.b, (Matrix { rows: 3, columns: 5, is_by_column: false, ld: 8 }, 0));
        assert_eq!(p.aligned, [2, 64, 64]);
    }

    #[test]
    fn layouts_that_need_a_copy() {
        let result = Shape::new(&[4, 5]);
        let fits = |strides: &[isize]| accepts(&operand(&[4, 3], strides, 0).layout, &result);
        assert!(fits(&[3, 1]) && fits(&[1, 4]) && fits(&[30, 1]));
        assert!(!fits(&[0, 1]), "one row repeated");
        assert!(!fits(&[6, 2]), "every second column");
        assert!(!fits(&[-3, 1]), "upside down");
        // Batches whose step changes.
        let l = Layout { shape: Shape::new(&[2, 3, 4, 3]), strides: [12, 100, 3, 1].into_iter().collect(), offset: 0 };
        assert!(!accepts(&l, &Shape::new(&[2, 3, 4, 5])));
    }
}
