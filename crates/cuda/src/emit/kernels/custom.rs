//! Ops that the program defines, with CUDA C of their own.

use super::{Call, Text};
use crate::claims::Claim;
use crate::emit::Kernel;

/// The row of all of them.
pub static CLAIMS: &[Claim] = &[Claim::new("custom", custom)];

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

#[cfg(test)]
mod tests {
    use super::super::{Operand, kernels};
    use super::*;
    use ir::{Attrs, CudaSource, Custom, CustomOp, DType, FlatNode, Layout, Result, Site, Slot, Type, Types};
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
        kernels(&n, &[operand(0)], &[operand(1)], 9, [u32::MAX, 0])
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
