//! `leaf`: the same value, at which `backward` collects a gradient.

use crate::rules::{floats, same};
use ir::{Attrs, Case, Grad, Meaning, Op};

/// The row of `leaf`.
pub static OP: Op = Op {
    name: "leaf",
    doc: "The same value as a leaf: `backward` collects its gradient, which flows no further. What `requires_grad` \
          makes of a value that is not known while a graph is made.",
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
