//! `linear`: an affine map of the last dimension.

use crate::rules::{by_expansion, expand, f64s, floats, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{Attrs, Call, Case, Meaning, Op, Value};

/// The row of `linear`.
pub static OP: Op = Op {
    name: "linear",
    doc: "x wᵀ + b for x[…, I], w[O, I] (or [I]) and optionally b[O].",
    infer: |c| {
        if !(2..=3).contains(&c.types.len()) {
            return Err(Error::value(format!("takes 2 or 3 inputs, but {} were given", c.types.len())));
        }
        one_dtype(c)?;
        let (x, w) = (c.shape(0), c.shape(1));
        if x.rank() == 0 || !(1..=2).contains(&w.rank()) || x[x.rank() - 1] != w[w.rank() - 1] {
            return Err(Error::shape(format!("an input […, I] and a weight [O, I] are needed, but came {x} and {w}")));
        }
        if let Some(b) = c.types.get(2)
            && b.shape.dims() != &w[..w.rank() - 1]
        {
            return Err(Error::shape(format!("a weight {w} needs a bias {:?}, not {}", &w[..w.rank() - 1], b.shape)));
        }
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    autocast: ir::Autocast::Narrow,
    cases: || {
        vec![
            Case::new(vec![floats([2, 2, 3], 1), floats([2, 3], 2), floats([2], 3)], Attrs::new()),
            Case::new(vec![floats([3], 4), floats([2, 3], 5)], Attrs::new()),
            Case::new(vec![floats([2, 3], 4), floats([3], 5)], Attrs::new()),
            Case::new(
                vec![f64s([1, 2], &[1.0, 2.0]), f64s([2, 2], &[3.0, 4.0, 5.0, 6.0]), f64s([2], &[0.5, -0.5])],
                Attrs::new(),
            )
            .expect(vec![f64s([1, 2], &[11.5, 16.5])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(_: &Call, args: &[Value]) -> Result<Vec<Value>> {
    expand(args, |v| {
        let (x, w) = (v[0].shape()?, v[1].shape()?);
        // One matrix product, whatever the leading dimensions.
        let inner = x[x.rank() - 1];
        let rows: usize = x[..x.rank() - 1].iter().product();
        let columns = if w.rank() == 2 { w[0] } else { 1 };
        let mut shape: ir::Shape = x[..x.rank() - 1].into();
        if w.rank() == 2 {
            shape.push(columns);
        }
        let y = v[0].reshape([rows, inner]).matmul(v[1].reshape([columns, inner]).t()).reshape(shape);
        Ok(vec![if let Some(b) = v.get(2) { y + b } else { y }])
    })
}

impl Tensor {
    /// An affine map of the last dimension: x wᵀ + b for a weight `[O, I]` and a bias `[O]`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let (w, b) = (Tensor::from([[3.0f32, 4.0]]), Tensor::from([0.5f32]));
    /// assert_eq!(x.linear(&w, Some(&b)).to_vec::<f32>().unwrap(), [11.5]);
    /// ```
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        self.then(|t| {
            let mut all = vec![self, weight];
            all.extend(bias);
            let mut dtype = t.dtype;
            for t in &all {
                dtype = dtype.promote(t.dtype()?);
            }
            let all: Vec<Tensor> = all.into_iter().map(|t| t.cast(dtype)).collect();
            Ok(Tensor::apply1(&OP, &all.iter().collect::<Vec<_>>(), Attrs::new()))
        })
    }
}
