//! `flatten`: neighboring dimensions made one.

use crate::rules::{expand1, f64s, floats, reshaped};
use crate::{Error, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Result, Shape};

/// The row of `flatten`.
pub static OP: Op = Op {
    name: "flatten",
    doc: "The dimensions from `start` to `end`, both included, made one.",
    attrs: &[("start", AttrKind::Int), ("end", AttrKind::Int)],
    infer: |c| reshaped(c, out_shape(c)?),
    meaning: Meaning::Composite(|c, x| {
        let shape = out_shape(c)?;
        expand1(x, |x| x[0].reshape(shape))
    }),
    cases: || {
        let over = |a: i64, b: i64| Attrs::new().with("start", a).with("end", b);
        let x: Vec<f64> = (1..9).map(f64::from).collect();
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], over(0, 1)),
            Case::new(vec![f64s([2, 2, 2], &x)], over(1, 2))
                .expect(vec![f64s([2, 4], &x)], "PyTorch manual: torch.flatten(t, start_dim=1)"),
        ]
    },
    ..Op::DEFAULT
};

fn out_shape(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let (start, end) = (c.axis("start")?, c.axis("end")?);
    if start > end {
        return Err(Error::value(format!("the first axis {start} comes after the last, {end}")));
    }
    let x = c.shape(0);
    let one = x[start..=end].iter().product();
    Ok(x[..start].iter().copied().chain([one]).chain(x[end + 1..].iter().copied()).collect())
}

impl Tensor {
    /// The dimensions from `start` to `end`, both included, made one; a scalar becomes a vector.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::zeros([2, 3, 4]).flatten(1, -1).shape().unwrap().dims(), [2, 12]);
    /// ```
    #[track_caller]
    pub fn flatten(&self, start: i64, end: i64) -> Tensor {
        self.then(|t| {
            let at = |a| axis(a, t.shape.rank().max(1)).map_err(|e| e.in_op("flatten"));
            let attrs = Attrs::new().with("start", at(start)?).with("end", at(end)?);
            if t.shape.rank() == 0 {
                return Ok(self.reshape([1]));
            }
            Ok(Tensor::apply1(&OP, &[self], attrs))
        })
    }
    /// All dimensions made one.
    #[track_caller]
    pub fn ravel(&self) -> Tensor {
        self.then(|t| Ok(self.reshape(t.shape.count())))
    }
}
