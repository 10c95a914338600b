//! `quantize`: numbers as 8-bit integers and a scale for each slice.

use crate::rules::{by_expansion, expand, f64s, floats};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Value};

/// The largest integer in use: the smallest one has no negative.
const MOST: f64 = 127.0;

/// The row of `quantize`.
pub static OP: Op = Op {
    name: "quantize",
    doc: "x as i8 and an f32 scale for each slice along `axis`, so that their product is near x: the scale is the \
          maximum magnitude over 127.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        c.axis("axis")?;
        if !c.dtype(0).is_float() {
            return Err(Error::dtype(format!("floats are needed, not {}", c.dtype(0))));
        }
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Missing("it rounds to integers"),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let scale = Literal::from_f64(DType::F32, [2, 1], &[2.0, 1.0]);
        vec![
            Case::new(vec![floats([3, 4], 1)], along(1)),
            Case::new(vec![floats([2, 3, 2], 2)], along(0)),
            Case::new(vec![f64s([2, 3], &[254.0, -101.0, 3.0, 0.0, 0.0, 0.0])], along(1))
                .expect(vec![Literal::from_i64(DType::I8, [2, 3], &[127, -50, 2, 0, 0, 0]), scale], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let axis = c.axis("axis")?;
    expand(args, |v| {
        let x = v[0].cast(DType::F32);
        let most = x.abs().max_keep(axis);
        // A slice of zeros is as good with any scale.
        let scale = Tensor::where_(&most.gt(0.0), &(&most / MOST), &most.full_like(1.0));
        let q = (&x / &scale).round().clamp(-MOST, MOST).cast(DType::I8);
        Ok(vec![q, scale])
    })
}

impl Tensor {
    /// The numbers as `i8`, and an `f32` scale for each slice along an axis (which is kept, with size
    /// 1): their product is near the numbers, off by half a scale at most.
    ///
    /// ```
    /// # use talweg_ops::{DType, Tensor};
    /// let [q, scale] = Tensor::from([[1.0f32, -2.0, 0.5]]).quantize(-1);
    /// assert_eq!(q.to_vec::<i8>().unwrap(), [64, -127, 32]);
    /// assert!((q.cast(DType::F32) * scale).to_vec::<f32>().unwrap()[0] - 1.0 < 0.01);
    /// ```
    #[track_caller]
    pub fn quantize(&self, along: i64) -> [Tensor; 2] {
        self.then2(|t| {
            let (x, at) = self.at_axis("quantize", along)?;
            let [q, scale] = Tensor::apply_n(&OP, &[&x], Attrs::new().with("axis", at));
            Ok([q.reshape(&t.shape), scale])
        })
    }
}
