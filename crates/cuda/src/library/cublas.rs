//! GEMM through cuBLASLt, autotuned.

#![allow(unsafe_code)]

use crate::driver::context::{Context, failed};
use crate::driver::nvrtc;
use crate::emit::kernels::Operand;
use crate::flags::{Flag, is_on};
use crate::library::epilogue::Epilogue;
use cudarc::cublaslt::{result as lt, sys};
use ir::{DType, Error, ErrorKind, FlatNode, Layout, Literal, Result, Shape};
use parking_lot::Mutex;
use passes::View;
use std::collections::HashMap;
use std::ffi::c_void;

/// Bytes of workspace that a GEMM may use.
pub const WORKSPACE: usize = 64 << 20;
/// Algorithms that are timed.
const TIMED: usize = 24;
/// Runs of each.
const RUNS: usize = 4;
/// With at most this many rows, a GEMM reads its second operand (weights) from DRAM, not from L2. It is timed
/// that way, and several times in a row, since one GEMM takes less time than its launch.
const ROWS_FEW: usize = 256;
const IN_A_ROW: usize = 8;
const CACHE: usize = 96 << 20;

/// An address that is aligned as all are.
const SOMEWHERE: u64 = 256;

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

/// A layout with its last two dimensions swapped.
fn transposed(l: &Layout) -> Layout {
    let mut l = l.clone();
    let r = l.shape.rank();
    l.shape.dims_mut().swap(r - 2, r - 1);
    l.strides.swap(r - 2, r - 1);
    l
}

/// How the library names an element type.
fn data_type(dtype: DType) -> sys::cudaDataType {
    use sys::cudaDataType as T;
    match dtype {
        DType::F64 => T::CUDA_R_64F,
        DType::BF16 => T::CUDA_R_16BF,
        DType::F16 => T::CUDA_R_16F,
        DType::F8E4M3 => T::CUDA_R_8F_E4M3,
        DType::F8E5M2 => T::CUDA_R_8F_E5M2,
        _ => T::CUDA_R_32F,
    }
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
    dtype.is_float() && !dtype.is_f8()
}

/// True if cuBLASLt multiplies matrices of these two types of 8 bits.
pub fn multiplies(of: [DType; 2]) -> bool {
    of.iter().all(|d| d.is_f8()) && of != [DType::F8E5M2; 2]
}

/// True if a row may be added to each row of a product on the way.
pub fn has_epilogues(dtype: DType) -> bool {
    has(dtype) && dtype != DType::F64
}

/// True if an operand can be used as it lies.
pub fn accepts(l: &Layout, result: &Shape) -> bool {
    let lead = Shape::new(&result[..result.rank() - 2]);
    matrix(l).is_some() && batch(l, &lead).is_some()
}

/// The floating-point operations of a GEMM.
pub fn gemm_flops(n: &FlatNode, args: &[View]) -> usize {
    2 * n.outs[0].shape.count() * args[0].layout.shape.last().copied().unwrap_or(1)
}

/// A GEMM, described without the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    dtype: DType,
    /// Types of the operands.
    of: [DType; 2],
    m: usize,
    n: usize,
    k: usize,
    count: usize,
    a: (Matrix, isize),
    b: (Matrix, isize),
    epilogue: Epilogue,
    /// Alignment in bytes of the operands and the result.
    aligned: [u32; 3],
}

/// The GEMM of two operands; `None` where the inner dimension is empty or strides do not fit.
pub fn gemm(a: &Operand, b: &Operand, c: &Operand, epilogue: Epilogue) -> Option<Gemm> {
    let shape = &c.ty.shape;
    let lead = Shape::new(&shape[..shape.rank() - 2]);
    let transposed = (epilogue == Epilogue::Scales).then(|| transposed(&b.layout));
    let b_layout = transposed.as_ref().unwrap_or(&b.layout);
    let (ma, mb) = (matrix(&a.layout)?, matrix(b_layout)?);
    if ma.columns == 0 || !has(c.ty.dtype) {
        return None;
    }
    let aligned = |o: &Operand| 1u32 << ((o.layout.offset * o.ty.dtype.size()) | 64).trailing_zeros();
    Some(Gemm {
        dtype: c.ty.dtype,
        of: [a.ty.dtype, b.ty.dtype],
        m: ma.rows,
        n: mb.columns,
        k: ma.columns,
        count: lead.count(),
        a: (ma, batch(&a.layout, &lead)?),
        b: (mb, batch(b_layout, &lead)?),
        epilogue,
        aligned: [aligned(b), aligned(a), aligned(c)],
    })
}

impl Gemm {
    /// Its epilogue.
    pub fn epilogue(&self) -> Epilogue {
        self.epilogue
    }
    /// Elements that each operand and the result reach over.
    fn spans(&self) -> [usize; 3] {
        let span = |(m, step): &(Matrix, isize)| {
            let (lines, each) = if m.is_by_column { (m.columns, m.rows) } else { (m.rows, m.columns) };
            (self.count.max(1) - 1) * step.unsigned_abs() + lines.saturating_sub(1) * m.ld + each
        };
        [span(&self.a), span(&self.b), self.count * self.m * self.n]
    }
}

/// The fastest algorithm of each GEMM so far, and whether its epilogue pays.
#[derive(Default)]
pub struct TunedAlgorithms(Mutex<HashMap<String, sys::cublasLtMatmulAlgo_t>>, Mutex<HashMap<String, bool>>);

impl TunedAlgorithms {
    /// The algorithm chosen in this process or an earlier one.
    fn get(&self, key: &str) -> Option<sys::cublasLtMatmulAlgo_t> {
        if let Some(known) = self.0.lock().get(key) {
            return Some(*known);
        }
        let bytes = std::fs::read(nvrtc::cached_at("products", key)?).ok()?;
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default())).collect();
        let algo = sys::cublasLtMatmulAlgo_t { data: words.try_into().ok()? };
        self.0.lock().insert(key.to_string(), algo);
        Some(algo)
    }
    /// Whether an epilogue was found to pay, in this process or an earlier one.
    fn decided(&self, key: &str) -> Option<bool> {
        if let Some(&known) = self.1.lock().get(key) {
            return Some(known);
        }
        let known = std::fs::read(nvrtc::cached_at("products", key)?).ok()? == b"yes";
        self.1.lock().insert(key.to_string(), known);
        Some(known)
    }
    fn decide(&self, key: String, is_faster: bool) {
        if let Some(path) = nvrtc::cached_at("products", &key) {
            nvrtc::keep(&path, if is_faster { b"yes" } else { b"no" });
        }
        self.1.lock().insert(key, is_faster);
    }
    fn put(&self, key: String, algo: sys::cublasLtMatmulAlgo_t) {
        if let Some(path) = nvrtc::cached_at("products", &key) {
            nvrtc::keep(&path, &algo.data.map(u64::to_le_bytes).concat());
        }
        self.0.lock().insert(key, algo);
    }
}

/// Uninitialized memory to time a GEMM with.
struct Trial<'a> {
    context: &'a Context,
    /// A second operand that is read from memory, not from the cache.
    is_low: bool,
    /// Copies of it, and their bytes.
    copies: usize,
    each: usize,
    blocks: Vec<(u64, usize)>,
}

impl<'a> Trial<'a> {
    fn new(context: &'a Context, p: &Gemm) -> Result<Trial<'a>> {
        let (spans, of) = (p.spans(), [p.of[0], p.of[1], p.dtype]);
        let [a, b, y] = [0, 1, 2].map(|i| (spans[i] * of[i].size()).next_multiple_of(256));
        let is_low = p.m <= ROWS_FEW && p.count == 1;
        let copies = if is_low { CACHE.div_ceil(b.max(1)).clamp(1, IN_A_ROW) } else { 1 };
        // Scales are there at least.
        let inner = if p.epilogue.has_aux() { p.m * p.epilogue.aux_row(p.n) * p.dtype.size() } else { 256 };
        let beside = (p.n.max(p.m) * p.dtype.size()).max(256);
        // What a loop after it would read and write, half and half.
        let read = if p.epilogue == Epilogue::BiasGrad { p.m * p.k } else { p.m * p.n };
        let half = (p.epilogue.simpler().1 * read * p.dtype.size()).div_ceil(2);
        let take = |bytes: usize| Ok((context.take(bytes)?, bytes));
        let blocks = [a, b * copies, y, beside, inner, half, half].into_iter().map(take).collect::<Result<_>>()?;
        Ok(Trial { context, is_low, copies, each: b, blocks })
    }
    /// Milliseconds of a GEMM, and of a loop after it if there is one.
    fn time(&self, gemm: &CublasGemm, has_loop: bool) -> Result<f32> {
        let c = self.context;
        let workspace = (c.workspace()?, WORKSPACE);
        let at = |i: usize| self.blocks[i].0;
        let runs = if self.is_low { IN_A_ROW } else { 1 };
        let run = || {
            (0..runs).try_for_each(|k| {
                let b = at(1) + (k % self.copies * self.each) as u64;
                gemm.run(c, [at(0), b, at(2), at(3), at(4)], workspace)?;
                if has_loop { c.copy(at(6), at(5), self.blocks[5].1) } else { Ok(()) }
            })
        };
        c.timed(RUNS, self.is_low.then_some(workspace), run)
    }
    /// Whether NaN is propagated.
    fn keeps_nan(&self, gemm: &CublasGemm, dtype: DType) -> Result<bool> {
        let c = self.context;
        let at = |i: usize| self.blocks[i].0;
        // All bits set are NaN in every type.
        c.fill(at(0), 0xff, self.blocks[0].1)?;
        gemm.run(c, [at(0), at(1), at(2), at(3), at(4)], (c.workspace()?, WORKSPACE))?;
        Ok(self.numbers(2, dtype, 1)?[0].is_nan())
    }
    /// Whether it is the first operand's rows that are summed: of ones, beside twos; and nothing else is written.
    fn sums_rows(&self, gemm: &CublasGemm, p: &Gemm) -> Result<bool> {
        let c = self.context;
        let at = |i: usize| self.blocks[i].0;
        let (size, all) = (p.dtype.size(), p.m.max(p.n));
        let [one, two] = [1.0, 2.0].map(|x| Literal::from_f64(p.dtype, Shape::new(&[1]), &[x]));
        for (i, x) in [(0, one), (1, two)] {
            let count = self.blocks[i].1 / size;
            c.upload(at(i), &x.bytes().repeat(count))?;
        }
        c.fill(at(3), 0xff, self.blocks[3].1)?;
        gemm.run(c, [at(0), at(1), at(2), at(3), at(4)], (c.workspace()?, WORKSPACE))?;
        let got = self.numbers(3, p.dtype, all)?;
        let is_sum = |x: &f64| (x / p.k as f64 - 1.0).abs() < 0.01;
        Ok(got[..p.m].iter().all(is_sum) && got[p.m..].iter().all(|x| x.is_nan()))
    }
    /// The first numbers of a block.
    fn numbers(&self, block: usize, dtype: DType, count: usize) -> Result<Vec<f64>> {
        let mut bytes = vec![0u8; count * dtype.size()];
        self.context.download(self.blocks[block].0, &mut bytes)?;
        Ok(Literal::from_bytes(dtype, Shape::new(&[count]), &bytes)?.to_f64())
    }
}
impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.blocks.iter().for_each(|&(at, bytes)| self.context.give(at, bytes));
    }
}

/// A GEMM with its cuBLASLt descriptors and algorithm.
pub struct CublasGemm {
    desc: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algo: sys::cublasLtMatmulAlgo_t,
    is_double: bool,
    epilogue: Epilogue,
}
// SAFETY: used only while the context's order is held.
unsafe impl Send for CublasGemm {}
// SAFETY: as above.
unsafe impl Sync for CublasGemm {}

fn set<T>(f: impl Fn(*const c_void, usize) -> Result<(), lt::CublasError>, value: T) -> Result<(), lt::CublasError> {
    f((&raw const value).cast(), size_of::<T>())
}

impl CublasGemm {
    /// Chooses the algorithm: the one chosen before, or the fastest of those that cuBLASLt proposes.
    pub fn new(context: &Context, p: &Gemm) -> Result<CublasGemm> {
        let blas = context.blas()?;
        let none = |e| failed(&format!("cuBLASLt has no algorithm for {p:?}"), e);
        let (mut gemm, ways) = CublasGemm::build(blas, p).map_err(none)?;
        // SAFETY: it only asks for a number.
        let version = unsafe { sys::cublasLtGetVersion() };
        let key = format!("{p:?} tf32 {} {} {version}", is_on(Flag::MatmulTf32), context.arch);
        if is_on(Flag::Deterministic) {
            return Ok(gemm);
        }
        if let Some(algo) = context.choices.get(&key) {
            gemm.algo = algo;
            return Ok(gemm);
        }
        if ways.len() > 1 {
            gemm.algo = gemm.fastest(context, p, &ways)?;
        }
        context.choices.put(key, gemm.algo);
        Ok(gemm)
    }

    /// Bytes of workspace that it needs, as far as cuBLASLt says.
    pub fn needs(&self, context: &Context) -> Result<usize> {
        let blas = context.blas()?;
        let [a, b, c] = self.layouts;
        let mut found = std::mem::MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit();
        // SAFETY: everything is alive, and the answer is there if it is good.
        unsafe {
            let to = found.as_mut_ptr();
            let done = sys::cublasLtMatmulAlgoCheck(blas.0, self.desc, a, b, c, c, &raw const self.algo, to).result();
            Ok(done.map_or(WORKSPACE, |()| found.assume_init().workspaceSize))
        }
    }

    /// The fastest of several algorithms, timed on uninitialized memory.
    fn fastest(
        &mut self,
        c: &Context,
        p: &Gemm,
        ways: &[sys::cublasLtMatmulAlgo_t],
    ) -> Result<sys::cublasLtMatmulAlgo_t> {
        let _order = c.order.lock();
        let trial = Trial::new(c, p)?;
        let mut best = (f32::INFINITY, ways[0]);
        for &way in ways {
            self.algo = way;
            if let Ok(ms) = trial.time(self, false)
                && ms < best.0
            {
                best = (ms, way);
            }
        }
        Ok(best.1)
    }

    /// Whether a GEMM with its epilogue is faster than a simpler GEMM and a loop after it, as measured now or
    /// before. False where cuBLASLt has no algorithm.
    pub fn wins(context: &Context, p: &Gemm) -> bool {
        let is_always = is_on(Flag::AlwaysEpilogue);
        if is_on(Flag::Deterministic) && !is_always {
            return false;
        }
        let key = format!("epilogue {p:?} tf32 {} {}", is_on(Flag::MatmulTf32), context.arch);
        if let Some(known) = context.choices.decided(&key).filter(|_| !is_always) {
            return known;
        }
        let measure = || -> Result<bool> {
            let simpler = Gemm { epilogue: p.epilogue.simpler().0, ..p.clone() };
            let (with, without) = (CublasGemm::new(context, p)?, CublasGemm::new(context, &simpler)?);
            let _order = context.order.lock();
            let trial = Trial::new(context, p)?;
            let is_right = match p.epilogue {
                Epilogue::Relu | Epilogue::ReluMask => trial.keeps_nan(&with, p.dtype)?,
                Epilogue::BiasGrad => trial.sums_rows(&with, p)?,
                _ => true,
            };
            Ok(is_right && (is_always || trial.time(&with, false)? < trial.time(&without, true)?))
        };
        let wins = context.enter().and_then(|()| measure()).unwrap_or(false);
        if !is_always {
            context.choices.decide(key, wins);
        }
        wins
    }

    fn build(blas: &Blas, p: &Gemm) -> Result<(CublasGemm, Vec<sys::cublasLtMatmulAlgo_t>), lt::CublasError> {
        use sys::{cublasComputeType_t as C, cudaDataType as T};
        use sys::{cublasLtMatmulDescAttributes_t as D, cublasLtMatmulPreferenceAttributes_t as P};
        let (compute, scale) = match p.of[0] {
            DType::F64 => (C::CUBLAS_COMPUTE_64F, T::CUDA_R_64F),
            DType::F32 if is_on(Flag::MatmulTf32) => (C::CUBLAS_COMPUTE_32F_FAST_TF32, T::CUDA_R_32F),
            _ => (C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F),
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
            if p.epilogue == Epilogue::Scales {
                set(d(D::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), SOMEWHERE)?;
                set(d(D::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER), SOMEWHERE)?;
            } else if p.epilogue != Epilogue::None {
                set(d(D::CUBLASLT_MATMUL_DESC_EPILOGUE), p.epilogue.cublas())?;
            }
            // Algorithms are chosen before memory is allocated; it will have this alignment.
            if p.epilogue.has_aux() {
                set(d(D::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), p.epilogue.aux_row(p.n) as i64)?;
                set(d(D::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER), SOMEWHERE)?;
            }
            if p.epilogue.has_bias() && p.epilogue != Epilogue::Bias {
                set(d(D::CUBLASLT_MATMUL_DESC_BIAS_POINTER), SOMEWHERE)?;
            }
        }
        let layout = |m: &Matrix, step: isize, of: DType| {
            let (rows, columns) = if m.is_by_column { (m.rows, m.columns) } else { (m.columns, m.rows) };
            CublasGemm::layout(data_type(of), rows, columns, m.ld, p.count, step)
        };
        let layouts = [
            layout(&p.b.0, p.b.1, p.of[1])?,
            layout(&p.a.0, p.a.1, p.of[0])?,
            CublasGemm::layout(data_type(p.dtype), p.n, p.m, p.n, p.count, (p.m * p.n) as isize)?,
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
            let found = CublasGemm::ways(blas, desc, layouts, preference);
            lt::destroy_matmul_pref(preference)?;
            found?
        };
        let is_double = p.dtype == DType::F64;
        Ok((CublasGemm { desc, layouts, algo: found[0], is_double, epilogue: p.epilogue }, found))
    }

    /// The algorithms that cuBLASLt proposes, its favorite first; at least one.
    fn ways(
        blas: &Blas,
        desc: sys::cublasLtMatmulDesc_t,
        [a, b, c]: [sys::cublasLtMatrixLayout_t; 3],
        preference: sys::cublasLtMatmulPreference_t,
    ) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, lt::CublasError> {
        let mut found = Vec::with_capacity(TIMED);
        let mut count = 0;
        // SAFETY: there is room for as many as are asked for; those counted are written.
        unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                blas.0,
                desc,
                a,
                b,
                c,
                c,
                preference,
                TIMED as i32,
                found.as_mut_ptr(),
                &mut count,
            )
            .result()?;
            found.set_len(count.clamp(0, TIMED as i32) as usize);
        }
        let good = sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS;
        let ways: Vec<_> = found.iter().filter(|f| f.state == good).map(|f| f.algo).collect();
        if ways.is_empty() {
            return Err(lt::CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED));
        }
        Ok(ways)
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

    /// Enqueues the GEMM: addresses of a, b, the result, the bias and the auxiliary tensor (or the scales of a and
    /// b), and the address and size of the workspace.
    pub fn run(&self, context: &Context, [a, b, c, bias, inner]: [u64; 5], workspace: (u64, usize)) -> Result<()> {
        use sys::cublasLtMatmulDescAttributes_t as D;
        let blas = context.blas()?;
        let beside = [
            (self.epilogue.has_bias(), D::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias),
            (self.epilogue.has_aux(), D::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, inner),
            // The library's first operand is b.
            (self.epilogue == Epilogue::Scales, D::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, bias),
            (self.epilogue == Epilogue::Scales, D::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, inner),
        ];
        for (_, name, at) in beside.into_iter().filter(|(is_there, ..)| *is_there) {
            // SAFETY: the descriptor is alive, and the attribute is an address.
            let done = set(|v, n| unsafe { lt::set_matmul_desc_attribute(self.desc, name, v, n) }, at);
            done.map_err(|e| failed("cuBLASLt", e))?;
        }
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
                workspace.0 as *mut c_void,
                workspace.1,
                context.stream.cast(),
            )
        };
        done.map_err(|e| failed("cuBLASLt", e))
    }
}
impl Drop for CublasGemm {
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
        let p = gemm(&a, &b, &c, Epilogue::None).unwrap();
        assert_eq!((p.m, p.n, p.k, p.count), (4, 5, 3, 2));
        assert_eq!(p.a, (Matrix { rows: 4, columns: 3, is_by_column: true, ld: 4 }, 12));
        assert_eq!(p.b, (Matrix { rows: 3, columns: 5, is_by_column: false, ld: 8 }, 0));
        assert_eq!(p.aligned, [2, 64, 64]);
        assert_eq!(p.spans(), [24, 21, 40]);
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
