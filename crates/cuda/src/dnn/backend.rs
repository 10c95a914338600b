//! Networks as cuDNN's descriptors: built once, run many times.

#![allow(unsafe_code)]

use super::{ALIGN, At, Form, Kind, Network, Node, Point, Tensor, Window};
use crate::driver::context::{Context, failed};
use crate::flags::{Flag, is_on};
use crate::library::cublas::WORKSPACE;
use crate::library::cudnn as functions;
use cudarc::cudnn::sys;
use cudarc::driver::sys as driver;
use ir::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_void};
use sys::cudnnBackendAttributeName_t as A;
use sys::cudnnBackendAttributeType_t as T;
use sys::cudnnBackendDescriptorType_t as D;

/// Ways to compute a network that are timed at most.
const TIMED_MAX: usize = 6;
/// Ways the library is asked for.
const FOUND_MAX: usize = 24;
/// Notes about an engine that are read at most.
const NOTES_MAX: usize = 16;
/// A way that wants more working memory is not taken.
const WORKSPACE_MAX: i64 = 2 << 30;
/// From this version on the library clears what it adds up in.
const CLEARS: usize = 90600;

/// The library.
pub struct Dnn {
    handle: sys::cudnnHandle_t,
    version: usize,
}
// SAFETY: used only while the context's order is held.
unsafe impl Send for Dnn {}
// SAFETY: as above.
unsafe impl Sync for Dnn {}

impl Dnn {
    /// Loads it; the context is current.
    pub fn new(stream: driver::CUstream) -> Result<Dnn> {
        if !functions::is_present() {
            let e = "cuDNN (libcudnn.so) was not found; it comes from NVIDIA or PyPI's nvidia-cudnn-cu13";
            return Err(Error::new(ErrorKind::Device, e));
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is written before it is used and lives as long as the process.
        unsafe {
            ask("cuDNN does not start", functions::cudnnCreate(&mut handle))?;
            ask("cuDNN", functions::cudnnSetStream(handle, stream.cast()))?;
            Ok(Dnn { handle, version: functions::cudnnGetVersion() })
        }
    }
}

/// The library's answer as a result, with its own words where it has some.
fn ask(what: &str, status: sys::cudnnStatus_t) -> Result<()> {
    if status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS {
        return Ok(());
    }
    let mut text = [0u8; 512];
    // SAFETY: the buffer has the size that is said.
    let why = unsafe {
        functions::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len());
        CStr::from_bytes_until_nul(&text).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
    };
    Err(Error::new(ErrorKind::Device, format!("{what}: {status:?} {why}")))
}

/// A descriptor; it is destroyed once.
struct Desc(sys::cudnnBackendDescriptor_t);
impl Drop for Desc {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe {
            let _ = functions::cudnnBackendDestroyDescriptor(self.0);
        }
    }
}

impl Desc {
    fn new(kind: D) -> Result<Desc> {
        let mut d = std::ptr::null_mut();
        // SAFETY: the descriptor is written before it is used.
        ask("a descriptor of cuDNN", unsafe { functions::cudnnBackendCreateDescriptor(kind, &mut d) })?;
        Ok(Desc(d))
    }
    fn set<V>(&self, name: A, kind: T, values: &[V]) -> Result<()> {
        // SAFETY: the values have the library's type for this kind of attribute, and are copied.
        let status = unsafe {
            functions::cudnnBackendSetAttribute(
                self.0,
                name,
                kind,
                values.len() as i64,
                values.as_ptr().cast::<c_void>(),
            )
        };
        ask(&format!("cuDNN, {name:?}"), status)
    }
    fn int(&self, name: A, values: &[i64]) -> Result<()> {
        self.set(name, T::CUDNN_TYPE_INT64, values)
    }
    fn desc(&self, name: A, values: &[&Desc]) -> Result<()> {
        let values: Vec<sys::cudnnBackendDescriptor_t> = values.iter().map(|d| d.0).collect();
        self.set(name, T::CUDNN_TYPE_BACKEND_DESCRIPTOR, &values)
    }
    fn kind(&self, name: A, kind: Kind) -> Result<()> {
        self.set(name, T::CUDNN_TYPE_DATA_TYPE, &[data_type(kind)])
    }
    fn finalize(&self) -> Result<()> {
        // SAFETY: the descriptor is alive.
        ask("cuDNN", unsafe { functions::cudnnBackendFinalize(self.0) })
    }
    fn get_int(&self, name: A) -> Result<i64> {
        let (mut value, mut count) = (0i64, 0i64);
        // SAFETY: there is room for the one number that is asked for.
        let status = unsafe {
            let to = (&raw mut value).cast::<c_void>();
            functions::cudnnBackendGetAttribute(self.0, name, T::CUDNN_TYPE_INT64, 1, &mut count, to)
        };
        ask(&format!("cuDNN, {name:?}"), status)?;
        Ok(value)
    }
}

fn data_type(kind: Kind) -> sys::cudnnDataType_t {
    use sys::cudnnDataType_t as C;
    match kind {
        Kind::F32 => C::CUDNN_DATA_FLOAT,
        Kind::F64 => C::CUDNN_DATA_DOUBLE,
        Kind::Bf16 => C::CUDNN_DATA_BFLOAT16,
        Kind::F16 => C::CUDNN_DATA_HALF,
        Kind::I32 => C::CUDNN_DATA_INT32,
        Kind::I64 => C::CUDNN_DATA_INT64,
        Kind::Bool => C::CUDNN_DATA_BOOLEAN,
    }
}

/// A tensor's number for the library; 0 is not allowed.
fn uid(i: usize) -> i64 {
    i as i64 + 1
}

fn tensor(i: usize, t: &Tensor) -> Result<Desc> {
    let d = Desc::new(D::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    d.kind(A::CUDNN_ATTR_TENSOR_DATA_TYPE, t.kind)?;
    d.int(A::CUDNN_ATTR_TENSOR_DIMENSIONS, &t.dims)?;
    d.int(A::CUDNN_ATTR_TENSOR_STRIDES, &t.strides)?;
    d.int(A::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[uid(i)])?;
    d.int(A::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[ALIGN as i64])?;
    d.set(A::CUDNN_ATTR_TENSOR_IS_VIRTUAL, T::CUDNN_TYPE_BOOLEAN, &[t.at == At::Inside])?;
    d.set(A::CUDNN_ATTR_TENSOR_IS_BY_VALUE, T::CUDNN_TYPE_BOOLEAN, &[matches!(t.at, At::Number(_))])?;
    d.finalize()?;
    Ok(d)
}

/// An operation, with the descriptor of how it is done, which it refers to.
fn node(n: &Node, tensors: &[Desc]) -> Result<[Desc; 2]> {
    match n {
        Node::Matmul { of: [a, b, c], ends, is_filled } => {
            let how = Desc::new(D::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?;
            how.kind(A::CUDNN_ATTR_MATMUL_COMP_TYPE, Kind::F32)?;
            if *is_filled {
                how.set(A::CUDNN_ATTR_MATMUL_PADDING_VALUE, T::CUDNN_TYPE_DOUBLE, &[0.0f64])?;
            }
            how.finalize()?;
            let d = Desc::new(D::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)?;
            d.desc(A::CUDNN_ATTR_OPERATION_MATMUL_ADESC, &[&tensors[*a]])?;
            d.desc(A::CUDNN_ATTR_OPERATION_MATMUL_BDESC, &[&tensors[*b]])?;
            d.desc(A::CUDNN_ATTR_OPERATION_MATMUL_CDESC, &[&tensors[*c]])?;
            d.desc(A::CUDNN_ATTR_OPERATION_MATMUL_DESC, &[&how])?;
            let names = [
                A::CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                A::CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                A::CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
            ];
            for (name, end) in names.into_iter().zip(ends) {
                if let Some(end) = end {
                    d.desc(name, &[&tensors[*end]])?;
                }
            }
            d.finalize()?;
            Ok([d, how])
        }
        Node::Point(p, args, y, with) => point(*p, args, *y, *with, tensors),
        Node::Sum(x, y) => reduce(sys::cudnnReduceTensorOp_t::CUDNN_REDUCE_TENSOR_ADD, &tensors[*x], &tensors[*y]),
        Node::Max(x, y) => reduce(sys::cudnnReduceTensorOp_t::CUDNN_REDUCE_TENSOR_MAX, &tensors[*x], &tensors[*y]),
        Node::Reshape(x, y) => {
            let d = Desc::new(D::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)?;
            d.desc(A::CUDNN_ATTR_OPERATION_RESHAPE_XDESC, &[&tensors[*x]])?;
            d.desc(A::CUDNN_ATTR_OPERATION_RESHAPE_YDESC, &[&tensors[*y]])?;
            d.finalize()?;
            // It has no descriptor beside it; an unused one stands in its place.
            Ok([d, Desc::new(D::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?])
        }
        Node::Random { seed, offset, y, probability } => {
            let how = Desc::new(D::CUDNN_BACKEND_RNG_DESCRIPTOR)?;
            let what = sys::cudnnRngDistribution_t::CUDNN_RNG_DISTRIBUTION_BERNOULLI;
            how.set(A::CUDNN_ATTR_RNG_DISTRIBUTION, T::CUDNN_TYPE_RNG_DISTRIBUTION, &[what])?;
            how.set(A::CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, T::CUDNN_TYPE_DOUBLE, &[*probability])?;
            how.finalize()?;
            let d = Desc::new(D::CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR)?;
            d.desc(A::CUDNN_ATTR_OPERATION_RNG_YDESC, &[&tensors[*y]])?;
            d.desc(A::CUDNN_ATTR_OPERATION_RNG_SEED, &[&tensors[*seed]])?;
            d.desc(A::CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, &[&tensors[*offset]])?;
            d.desc(A::CUDNN_ATTR_OPERATION_RNG_DESC, &[&how])?;
            d.finalize()?;
            Ok([d, how])
        }
        Node::Conv { form, x, w, y, window } => conv(*form, [&tensors[*x], &tensors[*w], &tensors[*y]], window),
    }
}

fn point(p: Point, args: &[usize], y: usize, with: Kind, tensors: &[Desc]) -> Result<[Desc; 2]> {
    use sys::cudnnPointwiseMode_t as P;
    let mode = match p {
        Point::Add => P::CUDNN_POINTWISE_ADD,
        Point::Sub => P::CUDNN_POINTWISE_SUB,
        Point::Mul => P::CUDNN_POINTWISE_MUL,
        Point::Div => P::CUDNN_POINTWISE_DIV,
        Point::Exp => P::CUDNN_POINTWISE_EXP,
        Point::Log => P::CUDNN_POINTWISE_LOG,
        Point::Same => P::CUDNN_POINTWISE_IDENTITY,
        Point::Index(_) => P::CUDNN_POINTWISE_GEN_INDEX,
        Point::AtLeast => P::CUDNN_POINTWISE_CMP_GE,
        Point::Less => P::CUDNN_POINTWISE_CMP_LT,
        Point::And => P::CUDNN_POINTWISE_LOGICAL_AND,
        Point::Select => P::CUDNN_POINTWISE_BINARY_SELECT,
    };
    let how = Desc::new(D::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
    how.set(A::CUDNN_ATTR_POINTWISE_MODE, T::CUDNN_TYPE_POINTWISE_MODE, &[mode])?;
    how.kind(A::CUDNN_ATTR_POINTWISE_MATH_PREC, with)?;
    if let Point::Index(axis) = p {
        how.int(A::CUDNN_ATTR_POINTWISE_AXIS, &[axis])?;
    }
    how.finalize()?;
    let d = Desc::new(D::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
    d.desc(A::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&how])?;
    let names = [
        A::CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
        A::CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        A::CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
    ];
    for (name, &a) in names.into_iter().zip(args) {
        d.desc(name, &[&tensors[a]])?;
    }
    d.desc(A::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[&tensors[y]])?;
    d.finalize()?;
    Ok([d, how])
}

fn reduce(op: sys::cudnnReduceTensorOp_t, x: &Desc, y: &Desc) -> Result<[Desc; 2]> {
    let how = Desc::new(D::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)?;
    how.set(A::CUDNN_ATTR_REDUCTION_OPERATOR, T::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &[op])?;
    how.kind(A::CUDNN_ATTR_REDUCTION_COMP_TYPE, Kind::F32)?;
    how.finalize()?;
    let d = Desc::new(D::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)?;
    d.desc(A::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, &[x])?;
    d.desc(A::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, &[y])?;
    d.desc(A::CUDNN_ATTR_OPERATION_REDUCTION_DESC, &[&how])?;
    d.finalize()?;
    Ok([d, how])
}

fn conv(form: Form, [x, w, y]: [&Desc; 3], window: &Window) -> Result<[Desc; 2]> {
    let how = Desc::new(D::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
    how.kind(A::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, window.sum)?;
    let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    how.set(A::CUDNN_ATTR_CONVOLUTION_CONV_MODE, T::CUDNN_TYPE_CONVOLUTION_MODE, &[mode])?;
    how.int(A::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[window.stride.len() as i64])?;
    how.int(A::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &window.stride)?;
    how.int(A::CUDNN_ATTR_CONVOLUTION_DILATIONS, &window.dilation)?;
    how.int(A::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &window.padding)?;
    how.int(A::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &window.padding)?;
    how.finalize()?;
    let (kind, names, factors) = match form {
        Form::Forward => (
            D::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            ],
            [A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA],
        ),
        Form::Input => (
            D::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            ],
            [A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA],
        ),
        Form::Weight => (
            D::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            ],
            [A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA],
        ),
    };
    let d = Desc::new(kind)?;
    for (name, part) in names.into_iter().zip([&how, x, w, y]) {
        d.desc(name, &[part])?;
    }
    if window.sum == Kind::F64 {
        d.set(factors[0], T::CUDNN_TYPE_DOUBLE, &[1.0f64])?;
        d.set(factors[1], T::CUDNN_TYPE_DOUBLE, &[0.0f64])?;
    } else {
        d.set(factors[0], T::CUDNN_TYPE_FLOAT, &[1.0f32])?;
        d.set(factors[1], T::CUDNN_TYPE_FLOAT, &[0.0f32])?;
    }
    d.finalize()?;
    Ok([d, how])
}

/// A network ready to run.
pub struct Ready {
    network: Network,
    plan: Desc,
    /// Bytes of working memory it wants beside its own scratch space.
    pub workspace: usize,
}
// SAFETY: used only while the context's order is held.
unsafe impl Send for Ready {}
// SAFETY: as above.
unsafe impl Sync for Ready {}

impl Ready {
    /// Finds a way to compute a network.
    pub fn new(context: &Context, network: &Network) -> Result<Ready> {
        let dnn = context.dnn()?;
        let mut plans = plans(dnn, network)?;
        if is_timed(network) && plans.len() > 1 {
            let best = fastest(context, network, &plans)?;
            plans.swap(0, best);
        }
        let (plan, workspace) = plans.swap_remove(0);
        Ok(Ready { network: network.clone(), plan, workspace: workspace as usize })
    }

    /// Puts it on the stream: addresses of operands and results, of the scratch space and of the
    /// working memory.
    pub fn run(&self, context: &Context, given: &[u64], scratch: u64, workspace: u64) -> Result<()> {
        execute(context, &self.network, &self.plan, given, scratch, workspace)
    }
}

/// The library's ways to compute a network, best guess first, with the working memory of each.
fn plans(dnn: &Dnn, network: &Network) -> Result<Vec<(Desc, i64)>> {
    let tensors: Vec<Desc> = network.tensors.iter().enumerate().map(|(i, t)| tensor(i, t)).collect::<Result<_>>()?;
    let nodes: Vec<[Desc; 2]> = network.nodes.iter().map(|n| node(n, &tensors)).collect::<Result<_>>()?;
    let graph = Desc::new(D::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
    graph.desc(A::CUDNN_ATTR_OPERATIONGRAPH_OPS, &nodes.iter().map(|[d, _]| d).collect::<Vec<_>>())?;
    graph.set(A::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, T::CUDNN_TYPE_HANDLE, &[dnn.handle])?;
    graph.finalize()?;
    let wanted = if is_timed(network) { TIMED_MAX } else { 1 };
    let mut out = Vec::new();
    let mut why = None;
    for mode in [sys::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_A, sys::cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_FALLBACK]
    {
        if !out.is_empty() {
            break;
        }
        for config in configs(&graph, mode)? {
            if !is_admitted(&config, network)? {
                continue;
            }
            match plan(dnn, &config) {
                Ok((p, bytes)) if bytes <= WORKSPACE_MAX => out.push((p, bytes)),
                Ok(_) => {}
                Err(e) => why = Some(e),
            }
            if out.len() >= wanted {
                break;
            }
        }
    }
    match (out.is_empty(), why) {
        (false, _) => Ok(out),
        (true, Some(e)) => Err(e),
        (true, None) => Err(Error::new(ErrorKind::Device, "cuDNN knows no way to compute this")),
    }
}

/// Whether several ways are timed.
fn is_timed(network: &Network) -> bool {
    network.is_measured && is_on(Flag::Benchmark) && !is_on(Flag::Deterministic)
}

/// Whether the switches admit an engine, by what the library notes about it.
fn is_admitted(config: &Desc, network: &Network) -> Result<bool> {
    use sys::cudnnBackendNumericalNote_t as Note;
    let is_plain = network.tensors.iter().all(|t| !matches!(t.kind, Kind::Bf16 | Kind::F16));
    let mut refused = Vec::new();
    if is_plain && !is_on(Flag::DnnTf32) {
        refused.push(Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    }
    if is_on(Flag::Deterministic) {
        refused.push(Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    }
    if refused.is_empty() {
        return Ok(true);
    }
    let engine = Desc::new(D::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    let (mut raw, mut count) = (engine.0, 0i64);
    let mut notes = [Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE; NOTES_MAX];
    // SAFETY: there is room for one descriptor, made above, and for as many notes as are asked for.
    unsafe {
        let to = (&raw mut raw).cast::<c_void>();
        let kind = T::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        ask(
            "cuDNN",
            functions::cudnnBackendGetAttribute(config.0, A::CUDNN_ATTR_ENGINECFG_ENGINE, kind, 1, &mut count, to),
        )?;
        let (name, kind) = (A::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, T::CUDNN_TYPE_NUMERICAL_NOTE);
        let to = notes.as_mut_ptr().cast::<c_void>();
        ask("cuDNN", functions::cudnnBackendGetAttribute(engine.0, name, kind, NOTES_MAX as i64, &mut count, to))?;
    }
    let found = &notes[..count.clamp(0, NOTES_MAX as i64) as usize];
    Ok(!found.iter().any(|n| refused.contains(n)))
}

fn configs(graph: &Desc, mode: sys::cudnnBackendHeurMode_t) -> Result<Vec<Desc>> {
    let d = Desc::new(D::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    d.desc(A::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
    d.set(A::CUDNN_ATTR_ENGINEHEUR_MODE, T::CUDNN_TYPE_HEUR_MODE, &[mode])?;
    if d.finalize().is_err() {
        return Ok(Vec::new());
    }
    let new = |_| Desc::new(D::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    let mut found: Vec<Desc> = (0..FOUND_MAX).map(new).collect::<Result<_>>()?;
    let mut raw: Vec<sys::cudnnBackendDescriptor_t> = found.iter().map(|d| d.0).collect();
    let mut count = 0;
    // SAFETY: there is room for as many descriptors as are asked for, each made above.
    let status = unsafe {
        functions::cudnnBackendGetAttribute(
            d.0,
            A::CUDNN_ATTR_ENGINEHEUR_RESULTS,
            T::CUDNN_TYPE_BACKEND_DESCRIPTOR,
            FOUND_MAX as i64,
            &mut count,
            raw.as_mut_ptr().cast(),
        )
    };
    ask("cuDNN", status)?;
    found.truncate(count.clamp(0, FOUND_MAX as i64) as usize);
    Ok(found)
}

fn plan(dnn: &Dnn, config: &Desc) -> Result<(Desc, i64)> {
    let d = Desc::new(D::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
    d.set(A::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, T::CUDNN_TYPE_HANDLE, &[dnn.handle])?;
    d.desc(A::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[config])?;
    d.finalize()?;
    let bytes = d.get_int(A::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
    Ok((d, bytes))
}

fn execute(c: &Context, n: &Network, plan: &Desc, given: &[u64], scratch: u64, workspace: u64) -> Result<()> {
    let dnn = c.dnn()?;
    let (mut ids, mut pointers): (Vec<i64>, Vec<*const c_void>) = (Vec::new(), Vec::new());
    for (i, t) in n.tensors.iter().enumerate() {
        let at: *const c_void = match &t.at {
            At::Inside => continue,
            At::External(k) => given[*k] as *const c_void,
            At::Scratch(at) => (scratch + *at as u64) as *const c_void,
            At::Number(x) => (x as *const f32).cast(),
        };
        ids.push(uid(i));
        pointers.push(at);
    }
    if dnn.version < CLEARS && n.scratch > 0 {
        // SAFETY: the scratch space has these bytes.
        unsafe { driver::cuMemsetD8Async(scratch, 0, n.scratch, c.stream) }.result().map_err(|e| failed("cuDNN", e))?;
    }
    let pack = Desc::new(D::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
    pack.set(A::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, T::CUDNN_TYPE_VOID_PTR, &pointers)?;
    pack.int(A::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids)?;
    pack.set(A::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, T::CUDNN_TYPE_VOID_PTR, &[workspace as *const c_void])?;
    pack.finalize()?;
    // SAFETY: the pointers are to memory of the tensors' sizes, alive in the stream's order.
    ask("cuDNN", unsafe { functions::cudnnBackendExecute(dnn.handle, plan.0, pack.0) })
}

/// Which of several plans is fastest, on memory of any content.
fn fastest(c: &Context, n: &Network, plans: &[(Desc, i64)]) -> Result<usize> {
    let bytes = |t: &Tensor| {
        let last: i64 = t.dims.iter().zip(&t.strides).map(|(d, s)| (d - 1) * s).sum();
        (last as usize + 1) * if matches!(t.kind, Kind::F64) { 8 } else { 4 }
    };
    let sizes: Vec<usize> = n.tensors.iter().filter(|t| matches!(t.at, At::External(_))).map(bytes).collect();
    let most = plans.iter().map(|(_, w)| *w as usize).max().unwrap_or(0);
    let blocks = sizes.iter().map(|&b| c.take(b)).collect::<Result<Vec<u64>>>()?;
    let (scratch, workspace) = (c.take(n.scratch.max(1))?, c.take(most.max(1))?);
    // The tensors of a measured network stand in the order of their numbers' first mention.
    let mut given = vec![0; blocks.len()];
    let mut next = blocks.iter();
    for t in &n.tensors {
        if let At::External(k) = t.at {
            given[k] = next.next().copied().unwrap_or(0);
        }
    }
    let mut best = (f32::INFINITY, 0);
    for (i, (plan, _)) in plans.iter().enumerate() {
        let run = || execute(c, n, plan, &given, scratch, workspace);
        if let Ok(ms) = c.timed(3, Some((c.workspace()?, WORKSPACE)), run)
            && ms < best.0
        {
            best = (ms, i);
        }
    }
    c.give(scratch, n.scratch.max(1));
    c.give(workspace, most.max(1));
    blocks.iter().zip(&sizes).for_each(|(&b, &bytes)| c.give(b, bytes));
    if best.0.is_finite() { Ok(best.1) } else { Err(Error::new(ErrorKind::Device, "cuDNN: every way failed")) }
}
