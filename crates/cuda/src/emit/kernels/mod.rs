//! Kernels by the name of their op, as CUDA C. An op without one runs its reference on the host.

pub mod attention;
pub mod attention_inputs;
mod axis;
mod conv;
mod moves;
mod nhwc;

pub use moves::place;
pub use passes::Operand;

use super::{Arg, Kernel};
use crate::emit::scalar::stored;
use ir::{Attrs, FlatNode};

/// One node as kernels.
pub struct Call<'a> {
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// Its operands; contiguous.
    pub args: &'a [Operand],
    /// Its results; contiguous.
    pub outs: &'a [Operand],
    /// The GPU's generation: the first number of its compute capability.
    pub major: u32,
    /// Of an attention whose keys and values were put into caches: at which keys. The others have been there
    /// since before the launch before, and so have the index and the mask.
    pub put: Option<&'a Operand>,
}

/// The kernels of a node, or `None` where there are none for it.
pub fn kernels(n: &FlatNode, args: &[Operand], outs: &[Operand], major: u32) -> Option<Vec<Kernel>> {
    let c = Call { attrs: &n.attrs, args, outs, major, put: None };
    match n.op.name {
        "matmul" | "int_matmul" => conv::matmul(&c),
        "conv" => conv::forward(&c),
        "conv_input_grad" => conv::input_grad(&c),
        "conv_weight_grad" => conv::weight_grad(&c),
        "max_pool_index" => conv::max_pool_index(&c),
        "attention" | "attention_turned" => attention::attention(&c),
        "max_pool_last" => nhwc::max_pool(&c),
        "max_pool_grad_last" => nhwc::max_pool_grad(&c),
        "sum_places" => nhwc::sum_places(&c),
        "to_depth" => nhwc::to_depth(&c),
        "from_depth" => nhwc::from_depth(&c),
        "concat" => moves::concat(&c),
        "barrier" => moves::barrier(&c),
        "pad" => moves::pad(&c),
        "check_class" => moves::check_class(&c),
        "take" => moves::take(&c),
        "gather" => moves::gather(&c),
        "scatter" => moves::scatter(&c, false),
        "scatter_add" => moves::scatter(&c, true),
        "index_add" => moves::index_add(&c),
        "fold" => moves::fold(&c),
        "iota" => moves::iota(&c),
        "random_bits" => moves::random_bits(&c),
        "cumsum" => axis::scan(&c, "Sum", "0"),
        "cumprod" => axis::scan(&c, "Prod", "1"),
        "cummax" => axis::running(&c, ">="),
        "cummin" => axis::running(&c, "<="),
        "argmax" => axis::extreme(&c, ">"),
        "argmin" => axis::extreme(&c, "<"),
        "sort" => axis::sort(&c),
        "custom" => custom(&c),
        _ => None,
    }
}

/// Bytes of scratch space that a node's kernels want.
pub fn scratch(n: &FlatNode, args: &[Operand]) -> usize {
    match n.op.name {
        "index_add" => moves::index_add_scratch(&n.attrs, args),
        _ => 0,
    }
}

/// Threads of a block.
const BLOCK: usize = 256;

/// A kernel being written: parameters by name.
struct Text {
    params: Vec<String>,
    args: Vec<Arg>,
    start: String,
}

impl Text {
    fn new() -> Text {
        Text { params: Vec::new(), args: Vec::new(), start: String::new() }
    }
    fn param(mut self, name: &str, o: &Operand, constant: &str) -> Text {
        let (ty, k) = (stored(o.ty.dtype), self.args.len());
        self.params.push(format!("{constant}{ty}* __restrict__ p{k}"));
        self.start += &format!("{constant}{ty}* __restrict__ {name} = p{k} + {};\n", o.layout.offset);
        self.args.push(Arg::Value(o.slot));
        self
    }
    /// An operand under a name.
    fn reads(self, name: &str, o: &Operand) -> Text {
        self.param(name, o, "const ")
    }
    /// A result under a name.
    fn writes(self, name: &str, o: &Operand) -> Text {
        self.param(name, o, "")
    }
    /// A parameter under a name of its own, for memory that is no operand.
    fn memory(mut self, name: &str, ty: &str, arg: Arg) -> Text {
        self.params.push(format!("{ty}* __restrict__ {name}"));
        self.args.push(arg);
        self
    }
    /// Parameters to report bad indices with.
    fn reports(mut self) -> Text {
        self.params.push("Report* report, long long launch".to_string());
        self.args.extend([Arg::Report, Arg::Launch]);
        self
    }
    /// One thread for each of `count` things, numbered `i`.
    fn each(self, count: usize, body: &str) -> Option<Vec<Kernel>> {
        let start =
            format!("const idx i = (idx)blockIdx.x * {BLOCK} + threadIdx.x;\nif (i >= {count}ull) return;\n{body}");
        self.blocks(count.div_ceil(BLOCK), BLOCK, &start)
    }
    /// So many blocks of so many threads.
    fn blocks(self, grid: usize, block: usize, body: &str) -> Option<Vec<Kernel>> {
        let source = format!(
            "typedef long long idx;\nextern \"C\" __global__ void __launch_bounds__({block}) run({}) {{\n{}{body}}}\n",
            self.params.join(", "),
            self.start
        );
        u32::try_from(grid).ok()?;
        Some(vec![Kernel::new(source, grid, block, self.args)])
    }
}

/// What begins the text of an op of the program's own.
pub const CUSTOM: &str = "// an op of the program's own\n";

/// An op of the program's own that has CUDA C: a thread for each element of the first result.
fn custom(c: &Call) -> Option<Vec<Kernel>> {
    let op = c.attrs.custom("op").ok()?;
    let cuda = op.0.cuda()?;
    let sizes: Vec<String> =
        c.args.iter().chain(c.outs).flat_map(|o| o.ty.shape.iter()).map(|d| format!("{d}ll")).collect();
    let mut text = Text::new();
    let mut names = vec!["i".to_string()];
    for (k, o) in c.args.iter().enumerate() {
        text = text.reads(&format!("in{k}"), o);
        names.push(format!("in{k}"));
    }
    for (k, o) in c.outs.iter().enumerate() {
        text = text.writes(&format!("out{k}"), o);
        names.push(format!("out{k}"));
    }
    let count = c.outs.first()?.ty.shape.count();
    let call = format!("{}({});\n", cuda.function, names.join(", "));
    let mut kernels = text.each(count, &call)?;
    let sizes = if sizes.is_empty() { vec!["0".to_string()] } else { sizes };
    let head = format!("{CUSTOM}constexpr long long sizes[] = {{{}}};\n{}\n", sizes.join(", "), cuda.source);
    kernels.iter_mut().for_each(|k| k.source.insert_str(0, &head));
    Some(kernels)
}

/// Statements that split `from` into places `{prefix}0`… of these sizes.
fn split(dims: &[usize], from: &str, prefix: &str) -> String {
    super::access::split(dims, from, prefix).0 + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{CudaSource, Custom, CustomOp, DType, Layout, Result, Site, Slot, Type, Types};
    use std::sync::Arc;

    struct Cube(Option<CudaSource>);
    impl CustomOp for Cube {
        fn name(&self) -> &str {
            "cube"
        }
        fn infer(&self, types: &[Type]) -> Result<Types> {
            Ok(types.into())
        }
        fn run(&self, _: &[(&Type, &[u8])], _: &mut [(&Type, &mut [u8])]) -> Result<()> {
            Ok(())
        }
        fn cuda(&self) -> Option<&CudaSource> {
            self.0.as_ref()
        }
    }

    static CUSTOM_ROW: ir::Op = ir::Op {
        name: "custom",
        doc: "",
        infer: |c| Ok(c.types.into()),
        meaning: ir::Meaning::Kernel(|_, _| Ok(vec![])),
        grad: ir::Grad::Zero,
        ..ir::Op::DEFAULT
    };

    fn emitted(cuda: Option<CudaSource>) -> Option<Vec<Kernel>> {
        let ty = Type::new(DType::F32, [30, 10]);
        let n = FlatNode {
            op: &CUSTOM_ROW,
            inputs: Default::default(),
            attrs: Attrs::new().with("op", Custom(Arc::new(Cube(cuda)))),
            outs: vec![ty.clone()].into(),
            site: Site::UNKNOWN,
        };
        let operand = |k| Operand { slot: Slot::new(k, 0), layout: Layout::contiguous(&ty.shape), ty: ty.clone() };
        kernels(&n, &[operand(0)], &[operand(1)], 9)
    }

    #[test]
    fn an_op_with_cuda_c_is_a_kernel_with_a_thread_an_element() {
        let source = "// does it run(1)?\n__device__ void cube(long long i, const float* x, float* y) { y[i] = x[i]; }";
        let cuda = CudaSource { source: source.into(), function: "cube".into() };
        let [k] = &emitted(Some(cuda)).unwrap()[..] else { panic!("one kernel") };
        assert_eq!((k.grid, k.block), (2, 256));
        assert!(k.source.contains("sizes[] = {30ll, 10ll, 30ll, 10ll};") && k.source.contains("cube(i, in0, out0);"));
        let unit = crate::emit::unit(&[&k.source]);
        assert!(unit.contains("// does it run(1)?") && unit.contains(") run0(const float*"), "{unit}");
        assert!(emitted(None).is_none(), "without it the host computes it");
    }
}
