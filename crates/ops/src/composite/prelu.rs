//! `prelu`: ReLU with a learned slope below 0.

use super::promote;
use crate::rules::{expand1, f64s, floats};
use crate::{Error, Tensor};
use ir::{Attrs, Case, Meaning, Op, Out, Scalar};

/// The row of `prelu`.
pub static OP: Op = Op {
    name: "prelu",
    doc: "x where it is positive, else x times a weight, elementwise.",
    infer: |c| Scalar::infer(c, 2, Out::Same, true),
    meaning: Meaning::Composite(|_, a| expand1(a, |a| Tensor::where_(&a[0].gt(0.0), &a[0], &a[0] * &a[1]))),
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![f64s([3], &[-2.0, 0.0, 2.0]), f64s((), &[0.25])], Attrs::new())
                .expect(vec![f64s([3], &[-0.5, 0.0, 2.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// x where it is positive, else x times a weight: a single one, or one for each channel, which
    /// is axis 1.
    #[track_caller]
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        self.then(|t| {
            let n = weight.count()?;
            let channels = if t.shape.rank() < 2 { 1 } else { t.shape[1] };
            if n != 1 && n != channels {
                let e = format!("{n} weights were given for {channels} channels of {}", t.shape);
                return Err(Error::shape(e).in_op("prelu"));
            }
            let mut shape = vec![1; t.shape.rank()];
            if n != 1 {
                shape[1] = n;
            }
            let [x, w] = promote([self, weight])?;
            Ok(Tensor::apply1(&OP, &[&x, &w.reshape(shape.as_slice())], Attrs::new()))
        })
    }
}
