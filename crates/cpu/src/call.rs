//! Single nodes: the kernels that the CPU claims, else the slow reference in the op's row. A kernel's
//! file says in a [`Claim`] all that the CPU knows about it.

#![allow(unsafe_code)]

/// Declares the files of kernels and lists their claims.
macro_rules! files {
    ($($(#[$if:meta])? $name:ident),* $(,)?) => {
        $( $(#[$if])? pub mod $name; )*
        static CLAIMS: &[&[Claim]] = &[$( $(#[$if])? $name::CLAIMS ),*];
    };
}
files! {
    attention,
    axis,
    control,
    conv,
    exchange,
    #[cfg(feature = "fourier")]
    fft,
    grid_sample,
    grouped,
    indexed,
    int_conv,
    linalg,
    matmul,
    moves,
    nonzero,
    order,
    paged,
    quant,
    resample,
    rope,
    scan,
}

use crate::kernels::epilogue::Epilogue;
use crate::kernels::gemm::Patch;
use crate::kernels::requantize::Requantize;
use crate::pool::{self, Shared};
use crate::tile::access::{Bases, Spot};
use ir::{Bytes, FlatNode, Layout, Literal, Meaning, Result, Type};
use passes::View;
use std::sync::Arc;

/// An operand or result in memory.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The first byte of its buffer.
    pub spot: Spot,
    /// Element type and shape.
    pub ty: Type,
    /// Where its elements lie in the buffer.
    pub layout: Layout,
    /// What the layout takes its elements from, if it is the same at every run: a constant or a weight.
    pub constant: Option<Literal>,
    /// Whether it is read; an unread result need not be written.
    pub is_read: bool,
}

impl Operand {
    /// Its value, if it is a constant that lies in order.
    fn value(&self) -> Option<&Literal> {
        let is_whole = self.layout == Layout::contiguous(&self.layout.shape);
        self.constant.as_ref().filter(|c| is_whole && c.count() == self.ty.shape.count())
    }
    /// The address of its first element.
    fn first<T>(&self, bases: Bases) -> *mut T {
        bases.at(self.spot).wrapping_add(self.layout.offset * self.ty.dtype.size()).cast()
    }
    /// Its bytes, if it is contiguous.
    ///
    /// # Safety
    /// The buffer is alive and nothing writes it meanwhile.
    unsafe fn bytes<'a>(&self, bases: Bases) -> &'a [u8] {
        debug_assert!(self.layout.is_contiguous());
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.first(bases), self.ty.bytes()) }
    }
}

/// A contiguous operand's elements.
///
/// # Safety
/// `T` has the size of its elements, the buffer is alive and nothing writes it meanwhile.
unsafe fn rows<'a, T>(o: &Operand, bases: Bases) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(o.first(bases), o.ty.bytes() / size_of::<T>()) }
}

/// A result's elements, for tasks that keep to their own parts.
///
/// # Safety
/// `T` has the size of its elements, or is bytes.
unsafe fn rows_mut<T>(o: &Operand, bases: Bases) -> Shared<T> {
    Shared::new(o.first(bases))
}

/// Runs `f` for `0..n`, in parallel where there is enough to do; each moves about `bytes`.
fn each_task(n: usize, bytes: usize, f: &(dyn Fn(usize) + Sync)) {
    const TASK: usize = 64 * 1024;
    let group = (TASK / bytes.max(1)).max(1);
    pool::parallel_for(n.div_ceil(group), &|t| (t * group..((t + 1) * group).min(n)).for_each(f));
}

/// An index checked against the size of the axis it points into.
fn index_of(i: i64, axis: usize, size: usize) -> Result<usize> {
    if i >= 0 && (i as u64) < size as u64 { Ok(i as usize) } else { Err(moves::out_of_range(i, axis, size)) }
}

/// A node ready to run.
pub type Prepared = Box<dyn Fn(Bases) -> Result<()> + Send + Sync>;

/// What the CPU knows about a kernel. A kernel's file has one for each op it computes; [`CLAIMS`] lists them.
pub struct Claim {
    /// The op's name.
    op: &'static str,
    /// Whether running it can be an error, such as an index out of range. Nothing is updated in place before a
    /// call that may fail.
    may_fail: fn(&FlatNode) -> bool,
    /// How it is run; `None` where the kernel does not fit, so that the row's reference runs.
    prepare: Prepare,
    /// Whether a composite of these input types is run by the kernel; otherwise it is expanded.
    claims: fn(&FlatNode, &[Type]) -> bool,
    /// Whether the kernel reads an operand with this layout; all read contiguous ones.
    accepts: fn(&FlatNode, usize, &Layout) -> bool,
    /// Whether the kernel writes a result with this layout; all write contiguous ones.
    writes: fn(&FlatNode, usize, &Layout) -> bool,
    /// The operand that the first result may overwrite: the kernel begins with a copy of it otherwise.
    in_place: Option<usize>,
    /// The axis along which it only concatenates its operands.
    joins: fn(&FlatNode) -> Option<usize>,
    /// Whether it hands its result over piece by piece to the loop that takes it.
    feeds: fn(&FlatNode, &[View]) -> bool,
    /// How many elements make a row for that loop, and whether pieces are whole rows. Others are finished by a kernel
    /// ([`crate::kernels::epilogue`]), or the loop runs after all of them.
    fed_columns: fn(&FlatNode) -> usize,
    feeds_rows: bool,
    /// The kernel for a loop that it feeds and that reads or writes values beside, which lie as the result does.
    fed: PrepareFed,
    /// The kernel with an epilogue that requantizes its sums, if it has one.
    requantized: PrepareRequantized,
    /// The kernel with an epilogue that takes its sums from registers, if it has one.
    finished: PrepareFinished,
    /// Whether its results are its operands, and it only holds back what uses them.
    is_fence: bool,
    /// Whether it is a GEMM.
    is_gemm: bool,
    /// What a build for one model must link for such operands, besides the op itself.
    links: fn(&FlatNode, &[Operand]) -> Vec<&'static str>,
    /// Its floating-point operations.
    flops: fn(&FlatNode, &[View]) -> usize,
}

/// A kernel that hands over its result piece by piece.
pub type Fed = Box<dyn Fn(Bases, &(dyn Fn(Patch) + Sync)) + Send + Sync>;

/// Makes a node ready to run.
type Prepare = fn(&FlatNode, &[Operand], &[Operand]) -> Result<Option<Prepared>>;

/// Makes a node ready that feeds a loop.
type PrepareFed = fn(&FlatNode, &[Operand], &Operand, &[Spot]) -> Result<Fed>;

/// Makes a node ready that requantizes its sums.
type PrepareRequantized = fn(&FlatNode, &[Operand], &Requantize<Spot>) -> Option<Prepared>;

/// Makes a node ready that finishes its sums.
type PrepareFinished = fn(&FlatNode, &[Operand], &Epilogue<Spot>) -> Option<Prepared>;

fn feeds_nothing(_: &FlatNode, _: &[Operand], _: &Operand, _: &[Spot]) -> Result<Fed> {
    Err(ir::Error::bug("a kernel that feeds no loop"))
}

/// A kernel that cannot fail.
fn never(_: &FlatNode) -> bool {
    false
}
/// A kernel that can fail, for instance because of an index out of range.
fn always(_: &FlatNode) -> bool {
    true
}

impl Claim {
    /// A claim of contiguous operands and results. Whether it may fail has no default.
    const fn new(op: &'static str, may_fail: fn(&FlatNode) -> bool, prepare: Prepare) -> Claim {
        Claim {
            op,
            may_fail,
            // A build for one model leaves out the kernels of other ops.
            prepare: if ir::is_linked(op) { prepare } else { |_, _, _| Ok(None) },
            claims: |_, _| false,
            accepts: |_, _, _| false,
            writes: |_, _, _| false,
            in_place: None,
            joins: |_| None,
            feeds: |_, _| false,
            fed_columns: |n| n.outs[0].shape.last().copied().unwrap_or(1),
            feeds_rows: true,
            fed: feeds_nothing,
            requantized: |_, _, _| None,
            finished: |_, _, _| None,
            is_fence: false,
            is_gemm: false,
            links: |_, _| Vec::new(),
            flops: |n, _| n.outs[0].shape.count(),
        }
    }
}

impl Claim {
    /// Whether this build links an op.
    const fn is_linked(op: &'static str) -> bool {
        ir::is_linked(op)
    }
    /// How an op feeds a loop, in builds that link the op.
    const fn linked(op: &'static str, fed: PrepareFed) -> PrepareFed {
        if ir::is_linked(op) { fed } else { feeds_nothing }
    }
}

fn claim(n: &FlatNode) -> Option<&'static Claim> {
    CLAIMS.iter().copied().flatten().find(|c| c.op == n.op.name)
}

/// Whether the CPU runs a composite itself.
pub fn claims(n: &FlatNode, types: &[Type]) -> bool {
    claim(n).is_some_and(|c| (c.claims)(n, types))
}
/// Whether a kernel takes an operand with this layout; all take contiguous ones.
pub fn accepts(n: &FlatNode, operand: usize, layout: &Layout) -> bool {
    claim(n).is_some_and(|c| (c.accepts)(n, operand, layout))
}
/// Whether a node only holds back what uses its results, which are its operands.
pub fn is_fence(n: &FlatNode) -> bool {
    claim(n).is_some_and(|c| c.is_fence)
}
/// The operand that a kernel's first result may overwrite.
pub fn overwrites(n: &FlatNode) -> Option<usize> {
    claim(n).and_then(|c| c.in_place)
}
/// The axis along which a kernel only concatenates its operands, if that is all it does.
pub fn joins(n: &FlatNode) -> Option<usize> {
    claim(n).and_then(|c| (c.joins)(n))
}
/// Whether a kernel writes a result with this layout; all write contiguous ones.
pub fn writes(n: &FlatNode, result: usize, layout: &Layout) -> bool {
    claim(n).is_some_and(|c| (c.writes)(n, result, layout))
}
/// Whether running a node can be an error. Nodes without a claim may fail.
pub fn may_fail(n: &FlatNode) -> bool {
    claim(n).is_none_or(|c| (c.may_fail)(n))
}
/// Whether a kernel hands over its result piece by piece.
pub fn feeds(n: &FlatNode, args: &[View]) -> bool {
    claim(n).is_some_and(|c| (c.feeds)(n, args))
}
/// How many elements of a result make a row of the loop that takes it.
pub fn fed_columns(n: &FlatNode) -> usize {
    claim(n).map_or(1, |c| (c.fed_columns)(n))
}
/// Whether the loop takes whole rows.
pub fn feeds_rows(n: &FlatNode) -> bool {
    claim(n).is_some_and(|c| c.feeds_rows)
}
/// A kernel that hands over its result to a loop that reads or writes `beside`.
pub fn prepare_fed(n: &FlatNode, args: &[Operand], out: &Operand, beside: &[Spot]) -> Result<Fed> {
    claim(n).map_or_else(|| Err(ir::Error::bug("an epilogue without a kernel")), |c| (c.fed)(n, args, out, beside))
}
/// A kernel that requantizes its sums.
pub fn prepare_requantized(n: &FlatNode, args: &[Operand], r: &Requantize<Spot>) -> Option<Prepared> {
    claim(n).and_then(|c| (c.requantized)(n, args, r))
}
/// A kernel that finishes its sums.
pub fn prepare_finished(n: &FlatNode, args: &[Operand], e: &Epilogue<Spot>) -> Option<Prepared> {
    claim(n).and_then(|c| (c.finished)(n, args, e))
}
/// Whether a node is a GEMM.
pub fn is_gemm(n: &FlatNode) -> bool {
    claim(n).is_some_and(|c| c.is_gemm)
}
/// What a build for one model must link for a node, besides its op.
pub fn links(n: &FlatNode, args: &[Operand]) -> Vec<&'static str> {
    claim(n).map_or_else(Vec::new, |c| (c.links)(n, args))
}
/// The floating-point operations of a node, one an element where nothing is known.
pub fn flops(n: &FlatNode, args: &[View]) -> usize {
    claim(n).map_or_else(|| n.outs[0].shape.count(), |c| (c.flops)(n, args))
}

/// Whether a kernel runs a node.
pub fn has_kernel(n: &FlatNode, args: &[Operand], outs: &[Operand]) -> Result<bool> {
    Ok(claim(n).map_or(Ok(None), |c| (c.prepare)(n, args, outs))?.is_some())
}

/// Chooses how a node is run.
pub fn prepare(n: &FlatNode, args: &[Operand], outs: &[Operand]) -> Result<Prepared> {
    let fast = match claim(n) {
        Some(c) => (c.prepare)(n, args, outs)?,
        None => None,
    };
    match (fast, n.op.meaning) {
        (Some(f), _) => Ok(f),
        (None, Meaning::Kernel(f)) => Ok(reference(n, args, outs, f)),
        (None, Meaning::Control(f)) if const { ir::IS_GENERAL } => control::prepare(n, args, outs, f),
        _ => Err(ir::Error::bug("neither a loop nor a kernel").in_op(n.op.name).at(n.site)),
    }
}

/// The value of a contiguous operand.
///
/// # Safety
/// As for [`Operand::bytes`].
unsafe fn literal(o: &Operand, bases: Bases) -> Literal {
    // SAFETY: the caller's promise.
    let bytes = unsafe { o.bytes(bases) };
    Literal::from_buffer(o.ty.dtype, o.ty.shape.clone(), Arc::new(Bytes::copy_of(bytes)))
}

/// Writes values to where a node's results are.
///
/// # Safety
/// The results' buffers are alive and no other thread uses them meanwhile.
unsafe fn write(outs: &[Operand], bases: Bases, values: &[Literal]) -> Result<()> {
    for (o, v) in outs.iter().zip(values) {
        if v.dtype() != o.ty.dtype || *v.shape() != o.ty.shape {
            return Err(ir::Error::bug(format!("a result should be {}, not {}{}", o.ty, v.dtype(), v.shape())));
        }
        // SAFETY: the caller's promise; the sizes agree.
        unsafe { std::ptr::copy_nonoverlapping(v.bytes().as_ptr(), o.first(bases), v.bytes().len()) };
    }
    Ok(())
}

type Reference = fn(&ir::Call, &[Literal]) -> Result<Vec<Literal>>;

/// The row's own function, on copies.
fn reference(n: &FlatNode, args: &[Operand], outs: &[Operand], f: Reference) -> Prepared {
    let (attrs, args, outs) = (n.attrs.clone(), args.to_vec(), outs.to_vec());
    let types: Vec<Type> = args.iter().map(|a| a.ty.clone()).collect();
    Box::new(move |bases| {
        // SAFETY: a program's regions run one after the other.
        let values: Vec<Literal> = args.iter().map(|a| unsafe { literal(a, bases) }).collect();
        let results = f(&ir::Call { types: &types, attrs: &attrs }, &values)?;
        // SAFETY: as above.
        unsafe { write(&outs, bases, &results) }
    })
}
