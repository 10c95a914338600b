//! `check_class`: class numbers as they are, or an error that names the one that is out of range.

use super::is_index;
use crate::Tensor;
use crate::rules::{i64s, same};
use ir::{AttrKind, Attrs, Batch, Call, Case, Error, Grad, Literal, Meaning, Op, Result};

/// The row of `check_class`.
pub static OP: Op = Op {
    name: "check_class",
    doc: "The input, whose elements must be class labels from 0 to `classes` - 1, or `ignored`. Any other is an \
          error in the name of `op` when the value is computed.",
    attrs: &[("classes", AttrKind::Int), ("ignored", AttrKind::Int), ("op", AttrKind::Str)],
    infer: |c| {
        c.arity(1)?;
        is_index(c, 0)?;
        same(c, 0)
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Zero,
    // Each element is looked at alone: a batch of inputs is one more input.
    batch: Batch::Rule(|c| {
        let t = Tensor::from(c.inputs[0].clone());
        Ok(vec![Tensor::apply1(c.op, &[&t], c.attrs.clone()).value()?.clone()])
    }),
    shard: ir::Shard::Leading(0),
    cases: || {
        let attrs = Attrs::new().with("classes", 3i64).with("ignored", -100i64).with("op", "loss");
        let numbers = i64s([4], &[2, 0, -100, 1]);
        vec![Case::new(vec![numbers.clone()], attrs).expect(vec![numbers], "by definition")]
    },
    ..Op::DEFAULT
};

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (classes, ignored) = (c.attrs.int("classes")?, c.attrs.int("ignored")?);
    match args[0].to_i64().iter().find(|&&i| i != ignored && !(0..classes).contains(&i)) {
        None => Ok(vec![args[0].clone()]),
        Some(i) => {
            let nor =
                if (0..classes).contains(&ignored) { String::new() } else { format!(", nor the ignored {ignored}") };
            let e = format!("class {i} is not among 0..{classes}{nor}");
            Err(Error::index(e).in_op(c.attrs.str("op")?))
        }
    }
}

impl Tensor {
    /// These class labels, checked when they are computed.
    pub(crate) fn check_class(&self, classes: usize, ignored: i64, op: &'static str) -> Tensor {
        let attrs = Attrs::new().with("classes", classes as i64).with("ignored", ignored).with("op", op);
        Tensor::apply1(&OP, &[self], attrs)
    }
}
