//! Single nodes: kernels by the name of their op, else the slow reference in the op's row;
//! control flow over programs of its own.

#![allow(unsafe_code)]

mod attention;
mod axis;
mod control;
mod conv;
pub mod matmul;
mod moves;
mod scan;

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
    /// The constant that the layout takes its elements from, if it is one.
    pub constant: Option<Literal>,
    /// Whether anybody reads it; a result that nobody reads need not be written.
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
    /// The buffer is alive and nobody writes it meanwhile.
    unsafe fn bytes<'a>(&self, bases: Bases) -> &'a [u8] {
        debug_assert!(self.layout.is_contiguous());
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.first(bases), self.ty.bytes()) }
    }
}

/// A contiguous operand's elements.
///
/// # Safety
/// `T` has the size of its elements, the buffer is alive and nobody writes it meanwhile.
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

/// Whether the CPU runs a composite itself.
pub fn claims(n: &FlatNode, types: &[Type]) -> bool {
    match n.op.name {
        "attention" => attention::claims(types, 3),
        "attention_grad" => attention::claims(types, 6),
        "max_pool" => conv::claims_pool(&n.attrs, &types[0]),
        "max_pool_grad" => matches!(types[1].dtype, ir::DType::F32 | ir::DType::F64),
        _ => false,
    }
}

/// Whether a kernel takes an operand with this layout; all take contiguous ones.
pub fn accepts(n: &FlatNode, operand: usize, layout: &Layout) -> bool {
    match n.op.name {
        "matmul" => matmul::has_kernel(n.outs[0].dtype),
        "int_matmul" => true,
        "attention" => operand < 3 && attention::accepts(layout),
        "attention_grad" => operand < 6 && operand != 4 && attention::accepts(layout),
        _ => false,
    }
}

/// Whether a node only holds back what uses its results, which are its operands.
pub fn is_fence(n: &FlatNode) -> bool {
    n.op.name == "barrier"
}

/// The axis along which a kernel puts its operands one behind the other, if that is all it does.
pub fn joins(n: &FlatNode) -> Option<usize> {
    if n.op.name == "concat" { n.attrs.size("axis").ok() } else { None }
}

/// Whether a kernel writes a result with this layout; all write contiguous ones.
pub fn writes(n: &FlatNode, result: usize, layout: &Layout) -> bool {
    match n.op.name {
        "attention" => result == 0 && attention::accepts(layout),
        "attention_grad" => attention::accepts(layout),
        _ => false,
    }
}

/// Whether running a node can be an error: indexes out of range, a loop without an end. What is
/// not known to be safe may fail.
pub fn may_fail(n: &FlatNode) -> bool {
    match n.op.name {
        "matmul" | "int_matmul" | "conv" | "conv_input_grad" | "conv_weight_grad" | "max_pool_index" | "concat"
        | "pad" | "fold" | "iota" | "cumsum" | "argmax" | "argmin" | "sort" | "random_bits" | "barrier"
        | "attention" | "attention_grad" => false,
        "scan" => n.attrs.graph("body").map_or(true, |g| g.nodes.iter().any(may_fail_inside)),
        _ => true,
    }
}

fn may_fail_inside(n: &FlatNode) -> bool {
    !matches!(
        n.op.meaning,
        Meaning::Input | Meaning::Const | Meaning::Scalar(_) | Meaning::View(_) | Meaning::Reduce(_)
    ) && may_fail(n)
}

/// Whether a kernel hands over its result piece by piece.
pub fn feeds(n: &FlatNode, args: &[View]) -> bool {
    n.op.name == "matmul" && matmul::feeds(n, args)
}

/// Chooses how a node is run.
pub fn prepare(n: &FlatNode, args: &[Operand], outs: &[Operand]) -> Result<Prepared> {
    let attrs = &n.attrs;
    let fast = match n.op.name {
        "attention" => attention::forward(attrs, args, outs),
        "attention_grad" => attention::backward(attrs, args, outs),
        "matmul" => matmul::prepare(args, outs),
        "int_matmul" => Some(matmul::prepare_int8(args, outs)),
        "conv" => conv::prepare(attrs, args, outs, conv::Which::Forward),
        "conv_input_grad" => conv::prepare(attrs, args, outs, conv::Which::Input),
        "conv_weight_grad" => conv::prepare(attrs, args, outs, conv::Which::Weight),
        "max_pool" | "max_pool_index" => conv::max_pool(attrs, args, outs),
        "max_pool_grad" => conv::max_pool_grad(args, outs),
        "concat" => moves::concat(attrs, args, outs),
        "pad" => moves::pad(attrs, args, outs),
        "take" => moves::take(attrs, args, outs),
        "check_class" => moves::check_class(n, args, outs),
        "gather" => moves::gather(attrs, args, outs),
        "scatter" => moves::scatter(attrs, args, outs),
        "scatter_add" => moves::scatter_add(attrs, args, outs),
        "index_add" => moves::index_add(attrs, args, outs),
        "fold" => moves::fold(attrs, args, outs),
        "iota" => moves::iota(outs),
        "cumsum" => axis::cumsum(attrs, args, outs),
        "argmax" => axis::extreme(attrs, args, outs, true),
        "argmin" => axis::extreme(attrs, args, outs, false),
        "sort" => axis::sort(attrs, args, outs),
        "random_bits" => axis::random_bits(args, outs),
        // Its results lie where its operands do.
        _ if is_fence(n) => Some(Box::new(|_: Bases| Ok(())) as Prepared),
        "scan" => Some(scan::prepare(attrs, args, outs)?),
        "custom" => Some(custom(attrs, args, outs)?),
        _ => None,
    };
    match (fast, n.op.meaning) {
        (Some(f), _) => Ok(f),
        (None, Meaning::Kernel(f)) => Ok(reference(n, args, outs, f)),
        (None, Meaning::Control(f)) => control::prepare(n, args, outs, f),
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
/// The results' buffers are alive and nobody else uses them meanwhile.
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

/// An op of the program's own, on the operands themselves.
fn custom(attrs: &ir::Attrs, args: &[Operand], outs: &[Operand]) -> Result<Prepared> {
    let (op, args, outs) = (attrs.custom("op")?.clone(), args.to_vec(), outs.to_vec());
    Ok(Box::new(move |bases| {
        // SAFETY: a program's regions run one after the other, and results lie apart from operands.
        let given: Vec<(&Type, &[u8])> = args.iter().map(|a| (&a.ty, unsafe { a.bytes(bases) })).collect();
        // SAFETY: as above.
        let room = |o: &Operand| unsafe { std::slice::from_raw_parts_mut(o.first::<u8>(bases), o.ty.bytes()) };
        let mut made: Vec<(&Type, &mut [u8])> = outs.iter().map(|o| (&o.ty, room(o))).collect();
        op.0.run(&given, &mut made).map_err(|e| e.in_op(op.0.name()))
    }))
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
