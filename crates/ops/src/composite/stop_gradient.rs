//! `stop_gradient`: the same value, through which no gradient flows.

use crate::Tensor;
use crate::rules::{floats, same};
use ir::{Attrs, Case, Grad, Meaning, Op};

/// The row of `stop_gradient`.
pub static OP: Op = Op {
    name: "stop_gradient",
    doc: "The same value; no gradient flows through it.",
    infer: |c| c.arity(1).and_then(|()| same(c, 0)),
    meaning: Meaning::Composite(|_, x| Ok(vec![x[0].clone()])),
    grad: Grad::Zero,
    complex: ir::OnComplex::Carry,
    cases: || {
        let x = floats([2], 1);
        vec![Case::new(vec![x.clone()], Attrs::new()).expect(vec![x], "by definition").kinked()]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The same value; no gradient flows through it.
    #[track_caller]
    pub fn stop_gradient(&self) -> Tensor {
        let was_on = ir::set_grad(false);
        let stopped = Tensor::apply1(&OP, &[self], Attrs::new());
        ir::set_grad(was_on);
        stopped
    }
}
