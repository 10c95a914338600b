//! `alias`: the same value as a separate node.

use crate::rules::{floats, same};
use ir::{Attrs, Case, Grad, Meaning, Op};

/// The row of `alias`.
pub static OP: Op = Op {
    name: "alias",
    doc: "The same value as a separate node: gradients with respect to it are not those with respect to its input, \
          to which they flow on. What `clone` makes of a value that gradients flow through.",
    infer: |c| c.arity(1).and_then(|()| same(c, 0)),
    meaning: Meaning::Composite(|_, x| Ok(vec![x[0].clone()])),
    grad: Grad::Rule(|c| Ok(vec![c.grads[0].clone()])),
    cases: || {
        let x = floats([2], 1);
        vec![Case::new(vec![x.clone()], Attrs::new()).expect(vec![x], "by definition")]
    },
    ..Op::DEFAULT
};
