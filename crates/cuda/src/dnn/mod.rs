//! Graphs for cuDNN, described without the library: attention and convolution with their
//! gradients. [`backend`] builds and runs what is described here.

mod attention;
pub mod backend;
mod conv;

pub use conv::{Form, conv_last};

use crate::claims::{Claim, claim};
use crate::emit::Kernel;
use crate::emit::kernels::Operand;
use ir::{DType, FlatNode, Layout, Slot, Type};

/// The rows of ops that cuDNN computes.
pub static CLAIMS: &[&[Claim]] = &[attention::CLAIMS, conv::CLAIMS];

/// What addresses of operands are multiples of.
pub const ALIGN: usize = 16;

/// What a tensor's elements are computed or stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// bf16.
    Bf16,
    /// f16.
    F16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// True or false.
    Bool,
}

impl Kind {
    /// How elements of a type are stored; `None` for types the library does not take.
    pub fn of(dtype: DType) -> Option<Kind> {
        Some(match dtype {
            DType::F32 => Kind::F32,
            DType::F64 => Kind::F64,
            DType::BF16 => Kind::Bf16,
            DType::F16 => Kind::F16,
            _ => return None,
        })
    }
}

/// Where a tensor's elements are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    /// Nowhere: it exists inside the graph alone.
    Inside,
    /// With the operand or result of this number, results after operands.
    External(usize),
    /// At this byte of the scratch space.
    Scratch(usize),
    /// It is one number.
    Number(f32),
}

/// A tensor of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Sizes.
    pub dims: Vec<i64>,
    /// Elements to step in each dimension.
    pub strides: Vec<i64>,
    /// Its elements.
    pub kind: Kind,
    /// Where they are.
    pub at: At,
}

/// An elementwise operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// a + b.
    Add,
    /// a − b.
    Sub,
    /// a · b.
    Mul,
    /// a / b.
    Div,
    /// The exponential.
    Exp,
    /// The logarithm.
    Log,
    /// a, perhaps of another kind.
    Same,
    /// The place along an axis.
    Index(i64),
    /// a ≥ b.
    AtLeast,
    /// a < b.
    Less,
    /// Both.
    And,
    /// a where c, else b.
    Select,
}

/// One operation; tensors by their number.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A matrix product.
    Matmul {
        /// Operands and result.
        of: [usize; 3],
        /// How many rows, columns and products of each matrix count, where they say so.
        ends: [Option<usize>; 3],
        /// What does not count is 0.
        is_filled: bool,
    },
    /// Operands, result, and what is computed with.
    Point(Point, Vec<usize>, usize, Kind),
    /// Sums to a smaller tensor.
    Sum(usize, usize),
    /// Greatest elements, in a smaller tensor.
    Max(usize, usize),
    /// The same elements as another tensor.
    Reshape(usize, usize),
    /// 1 with a probability, else 0, by the library's generator.
    Random {
        /// One number.
        seed: usize,
        /// Another.
        offset: usize,
        /// Result.
        y: usize,
        /// Of 1.
        probability: f64,
    },
    /// A convolution.
    Conv {
        /// Which of the three is computed.
        form: Form,
        /// Image.
        x: usize,
        /// Kernel.
        w: usize,
        /// Result.
        y: usize,
        /// How the kernel is moved.
        window: Window,
    },
}

/// How a kernel is moved over an image, one number for each spatial dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// From one place of the kernel to the next.
    pub stride: Vec<i64>,
    /// Between the kernel's elements.
    pub dilation: Vec<i64>,
    /// Zeros before the image, and as many behind it.
    pub padding: Vec<i64>,
    /// What products are added up in.
    pub sum: Kind,
}

/// A graph for cuDNN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Its tensors.
    pub tensors: Vec<Tensor>,
    /// Its operations, in order.
    pub nodes: Vec<Node>,
    /// Bytes of scratch space its own tensors take.
    pub scratch: usize,
    /// Several ways to compute it are timed and the fastest is taken.
    pub is_measured: bool,
}

impl Network {
    fn tensor(&mut self, dims: &[i64], strides: &[i64], kind: Kind, at: At) -> usize {
        self.tensors.push(Tensor { dims: dims.to_vec(), strides: strides.to_vec(), kind, at });
        self.tensors.len() - 1
    }
    /// A tensor inside the graph, row by row.
    fn inside(&mut self, dims: &[i64], kind: Kind) -> usize {
        self.tensor(dims, &row_major(dims), kind, At::Inside)
    }
    fn number(&mut self, x: f32) -> usize {
        self.tensor(&[1; 4], &[1; 4], Kind::F32, At::Number(x))
    }
    /// An f32 tensor in scratch space.
    fn kept(&mut self, dims: &[i64]) -> usize {
        let at = self.scratch;
        self.scratch += (dims.iter().product::<i64>() as usize * 4).next_multiple_of(256);
        self.tensor(dims, &row_major(dims), Kind::F32, At::Scratch(at))
    }
    /// An elementwise operation in f32 with a result inside the graph, of the first operand's shape.
    fn point(&mut self, p: Point, args: &[usize]) -> usize {
        let dims = self.tensors[args[0]].dims.clone();
        let y = self.inside(&dims, Kind::F32);
        self.nodes.push(Node::Point(p, args.to_vec(), y, Kind::F32));
        y
    }
}

fn row_major(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for d in (0..dims.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * dims[d + 1];
    }
    strides
}

/// Sizes and strides of an operand's layout.
fn laid(l: &Layout) -> (Vec<i64>, Vec<i64>) {
    (l.shape.iter().map(|&d| d as i64).collect(), l.strides.iter().map(|&s| s as i64).collect())
}

/// True if an operand can be used as it lies: whole lines of its last dimension, aligned.
pub fn accepts(l: &Layout, size: usize) -> bool {
    let each = (ALIGN / size) as isize;
    let Some((&last, rest)) = l.strides.split_last() else { return false };
    last == 1 && rest.iter().all(|&s| s > 0 && s % each == 0) && l.offset.is_multiple_of(each as usize)
}

/// A network; `None` where the library has no operation for it.
pub type Planned = Option<Network>;

/// True if a composite of these types may run as one network.
pub fn claims(name: &str, types: &[Type]) -> bool {
    claim(name).is_some_and(|c| (c.claims)(types))
}

/// The network of a composite whose operands lie one element after the other.
pub fn whole(n: &FlatNode, types: &[Type]) -> Planned {
    let operand = |ty: &Type| Operand { slot: Slot::new(0, 0), layout: Layout::contiguous(&ty.shape), ty: ty.clone() };
    let list = |types: &[Type]| types.iter().map(operand).collect::<Vec<_>>();
    network(n.op.name, &n.attrs, &list(types), &list(&n.outs))
}

/// The first results, stored as `[N, L, H, F]`, in the order `[N, H, L, F]`.
fn transposed(outs: &[Operand], count: usize) -> Vec<Operand> {
    let mut outs = outs.to_vec();
    for o in outs.iter_mut().take(count) {
        o.layout.shape.dims_mut().swap(1, 2);
        o.layout.strides.swap(1, 2);
        o.ty.shape.dims_mut().swap(1, 2);
    }
    outs
}

/// The parts `[N, H, L, F]` of a result that has all of a query side by side.
fn joined(attrs: &ir::Attrs, outs: &[Operand]) -> Option<Vec<Operand>> {
    let sizes = attrs.sizes("parts").ok()?;
    let all: usize = sizes.chunks(4).map(|d| d[2] * d[3]).sum();
    let mut first = 0;
    let part = |d: &[usize]| {
        let [batch, rows, heads, width] = *d else { return None };
        let shape = ir::Shape::new(&[batch, heads, rows, width]);
        let strides = [rows * all, width, all, 1].iter().map(|&s| s as isize).collect();
        let layout = Layout { shape: shape.clone(), strides, offset: first };
        first += heads * width;
        Some(Operand { slot: outs[0].slot, ty: Type::new(outs[0].ty.dtype, shape), layout })
    };
    sizes.chunks(4).map(part).collect()
}

/// Operands and results in the order a network knows them by.
pub fn given(name: &str, attrs: &ir::Attrs, args: &[Operand], outs: &[Operand]) -> Vec<Operand> {
    let parts = claim(name).and_then(|c| (c.results)(attrs, outs));
    args.iter().cloned().chain(parts.unwrap_or_else(|| outs.to_vec())).collect()
}

/// The network of an op.
pub fn network(name: &str, attrs: &ir::Attrs, args: &[Operand], outs: &[Operand]) -> Planned {
    claim(name).and_then(|c| (c.network)(attrs, args, outs))
}

/// The kernels before and after the network of an op.
pub fn around(name: &str, args: &[Operand], outs: &[Operand]) -> Option<[Vec<Kernel>; 2]> {
    claim(name).and_then(|c| (c.around)(args, outs))
}
