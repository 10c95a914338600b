//! `cast`: another element type.

use crate::Tensor;
use crate::pairs;
use crate::rules::{f64s, unary_grad};
use ir::{AttrKind, Attrs, Case, DType, Grad, Meaning, Op, Out, Scalar};

/// The row of `cast`.
pub static OP: Op = Op {
    name: "cast",
    doc: "Converts to another element type: floats round to nearest even, float to integer truncates toward zero, \
          any nonzero number is true.",
    attrs: &[("dtype", AttrKind::DType)],
    infer: |c| Scalar::infer(c, 1, Out::Cast, true),
    meaning: Meaning::Scalar(Scalar {
        arity: 1,
        out: Out::Cast,
        float: |v| v[0],
        int: Some(|v| v[0]),
        code: "{0}",
        cost: ir::Cost::Instruction,
        ..Scalar::DEFAULT
    }),
    grad: Grad::Rule(|c| {
        let dtype = c.inputs[0].ty().dtype;
        unary_grad(c, |_, _, g| g.cast(dtype))
    }),
    complex: on_complex!(pairs::cast),
    cases: || {
        let to = |d| Attrs::new().with("dtype", d);
        vec![
            Case::new(vec![f64s([3], &[1.5, -2.7, 3.0])], to(DType::I64))
                .expect(vec![crate::rules::i64s([3], &[1, -2, 3])], "by hand"),
            Case::new(vec![f64s([2], &[0.0, 0.5])], to(DType::F64)),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Converts to the element type of another tensor.
    #[track_caller]
    pub fn cast_like(&self, other: &Tensor) -> Tensor {
        match other.value() {
            Ok(v) => self.cast(v.ty().dtype),
            Err(_) => other.clone(),
        }
    }
}
