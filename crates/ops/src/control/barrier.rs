//! `barrier`: values as they are, through which no pass looks.

use crate::Tensor;
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, maybe_grads};
use ir::{Attrs, Batch, Case, Error, Grad, Meaning, Op, Result, Site, Value};

/// The row of `barrier`.
pub static OP: Op = Op {
    name: "barrier",
    doc: "Its inputs unchanged. Nothing behind it is computed before all inputs are there, and nothing behind it is \
          merged with an equal computation before it.",
    infer: |c| {
        if c.types.is_empty() {
            return Err(Error::value("at least one input is needed"));
        }
        Ok(c.types.iter().cloned().collect())
    },
    meaning: Meaning::Kernel(|_, args| Ok(args.to_vec())),
    grad: Grad::Rule(|c| {
        maybe_grads((0..c.inputs.len()).map(|i| c.inputs[i].ty().dtype.is_inexact().then(|| c.g(i))).collect())
    }),
    batch: Batch::Rule(|c| {
        let all = c.inputs.iter().zip(c.batched).map(|(v, &b)| super::batched(v, b, c.size));
        Ok(Value::apply(&OP, all.collect::<Result<_>>()?, Attrs::new(), Site::here())?.into_vec())
    }),
    complex: on_complex!(pairs::barrier),
    cases: || {
        let x = f64s([2], &[1.0, 2.0]);
        vec![
            Case::new(vec![floats([2], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![x.clone()], Attrs::new()).expect(vec![x], "by definition"),
        ]
    },
    ..Op::DEFAULT
};

/// The tensors unchanged, computed all before anything that uses the results.
#[track_caller]
pub(crate) fn barrier(xs: &[Tensor]) -> Vec<Tensor> {
    Tensor::apply(&OP, &xs.iter().collect::<Vec<_>>(), Attrs::new()).into_vec()
}
