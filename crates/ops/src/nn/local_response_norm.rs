//! `local_response_norm`: each value damped by its neighbors in other channels.

use crate::rules::{expand1, f64s, float, floats, same};
use crate::{Error, Tensor};
use ir::{AttrKind, Attrs, Case, Meaning, Op};

/// The row of `local_response_norm`.
pub static OP: Op = Op {
    name: "local_response_norm",
    doc: "x divided by (k + alpha m)^beta, where m is the mean square over `size` neighboring channels (axis 1), counting \
          missing ones as 0.",
    attrs: &[("size", AttrKind::Int), ("alpha", AttrKind::Float), ("beta", AttrKind::Float), ("k", AttrKind::Float)],
    infer: |c| {
        c.arity(1)?;
        float(c, 0)?;
        if c.shape(0).rank() < 3 {
            return Err(Error::shape(format!("a batch, a channel and other axes are needed, not {}", c.shape(0))));
        }
        if c.attrs.int("size")? < 1 {
            return Err(Error::value(format!("size must be at least 1, not {}", c.attrs.int("size")?)));
        }
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        let (alpha, beta, k) = (c.attrs.float("alpha")?, c.attrs.float("beta")?, c.attrs.float("k")?);
        let (size, shape) = (c.attrs.size("size")?, c.shape(0));
        if shape.count() == 0 {
            return Ok(vec![args[0].clone()]);
        }
        let border = |n: usize| -> Vec<i64> { (0..shape.rank()).map(|i| if i == 1 { n as i64 } else { 0 }).collect() };
        expand1(args, |t| {
            let x = t[0].widened();
            let square = x.square().pad_raw(&border(size / 2), &border((size - 1) / 2), 0.0);
            let mean = square.unfold(1, size, 1).sum(-1) / size as f64;
            (x / (mean * alpha + k).pow(beta)).cast(c.dtype(0))
        })
    }),
    cases: || {
        let by = |size: i64, alpha: f64, beta: f64, k: f64| {
            Attrs::new().with("size", size).with("alpha", alpha).with("beta", beta).with("k", k)
        };
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], by(2, 0.5, 0.75, 1.0)),
            Case::new(vec![floats([1, 4, 2], 2)], by(3, 1e-2, 0.5, 1.25)),
            Case::new(vec![f64s([1, 2, 1], &[3.0, 4.0])], by(3, 3.0, 0.5, 0.0))
                .expect(vec![f64s([1, 2, 1], &[0.6, 0.8])], "by hand: both see the mean square 25/3"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// x divided by (k + alpha m)^beta, where m is the mean square over `size` neighboring
    /// channels (axis 1), counting missing ones as 0.
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Tensor {
        let attrs = Attrs::new().with("size", size).with("alpha", alpha).with("beta", beta).with("k", k);
        Tensor::apply1(&OP, &[self], attrs)
    }
}
