//! `dropout`: some elements put to zero, the others scaled up.

use super::{check_key, unit};
use crate::rules::{GradTensors, expand1, f64s, float, floats, i64s, maybe_grads, same};
use crate::{DType, Error, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op};

/// The row of `dropout`.
pub static OP: Op = Op {
    name: "dropout",
    doc: "Each element 0 with probability p, else divided by 1 - p, from a key.",
    attrs: &[("p", AttrKind::Float)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        check_key(c, 1)?;
        let p = c.attrs.float("p")?;
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::value(format!("p is a probability, from 0 to 1, not {p}")));
        }
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        let p = c.attrs.float("p")?;
        expand1(args, |t| {
            if p == 0.0 {
                return t[0].clone();
            }
            if p == 1.0 {
                return t[0].zeros_like();
            }
            let keep = unit(&t[1], c.shape(0), DType::F32).ge(p);
            Tensor::where_(&keep, &(&t[0] * (1.0 / (1.0 - p))), 0.0)
        })
    }),
    // The same elements of the gradient pass: the key says which.
    grad: Grad::Rule(|c| maybe_grads(vec![Some(c.g(0).dropout(c.attrs.float("p")?, &c.x(1))), None])),
    cases: || {
        let by = |p: f64| Attrs::new().with("p", p);
        vec![
            Case::new(vec![floats([2, 4], 1), i64s([2], &[3, 4])], by(0.4)),
            Case::new(vec![floats([3], 2), i64s([2], &[3, 4])], by(0.0)),
            Case::new(vec![f64s([4], &[1.0, 2.0, 3.0, 4.0]), i64s([2], &[0, 0])], by(0.75)).expect(
                vec![f64s([4], &[0.0, 8.0, 0.0, 0.0])],
                "the Random123 answer for zeros gives 0.40, 0.88, 0.74, 0.61",
            ),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Each element 0 with probability `p`, else divided by `1 - p`, from a key: i64, a seed and a
    /// counter.
    #[track_caller]
    pub fn dropout(&self, p: f64, key: &Tensor) -> Tensor {
        Tensor::apply1(&OP, &[self, key], Attrs::new().with("p", p))
    }
    /// Each channel (axis 1) of each example as a whole 0 with probability `p`, else divided by
    /// `1 - p`.
    #[track_caller]
    pub fn dropout_channels(&self, p: f64, key: &Tensor) -> Tensor {
        self.then(|t| {
            if t.shape.rank() < 2 {
                let e = format!("at least a batch and a channel axis are needed, not {}", t.shape);
                return Err(Error::shape(e).in_op("dropout_channels"));
            }
            let mut shape = t.shape.clone();
            shape.dims_mut()[2..].fill(1);
            Ok(self * Tensor::full_of(shape, 1.0, t.dtype).dropout(p, key))
        })
    }
}
