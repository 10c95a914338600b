//! `one_hot`: class numbers as rows with a single one.

use crate::rules::{by_expansion, expand1, f64s, i64s};
use crate::{DType, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Meaning, Op, Shape, Value};

/// The row of `one_hot`.
pub static OP: Op = Op {
    name: "one_hot",
    doc: "For each class label a row of `classes` elements of type `dtype` with a one at its index, as a new last \
          dimension; zeros for numbers beyond.",
    attrs: &[("classes", AttrKind::Int), ("dtype", AttrKind::DType)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    grad: Grad::Zero,
    cases: || {
        let attrs = Attrs::new().with("classes", 3i64).with("dtype", DType::F64);
        vec![
            Case::new(vec![i64s([2], &[2, 0])], attrs).expect(vec![f64s([2, 3], &[0., 0., 1., 1., 0., 0.])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    crate::rules::integer(c, 0)?;
    let (classes, dtype) = (c.attrs.size("classes")?, c.attrs.dtype("dtype")?);
    let column: Shape = c.shape(0).iter().copied().chain([1]).collect();
    expand1(x, |x| x[0].cast(DType::I64).reshape(column).eq(Tensor::iota(classes, DType::I64)).cast(dtype))
}

impl Tensor {
    /// For each class label a row of `classes` elements with a one at its index, as a new last
    /// dimension; zeros for numbers beyond.
    ///
    /// ```
    /// # use talweg_ops::{DType, Tensor};
    /// let y = Tensor::from([1, 0]).one_hot(2, DType::F32);
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 1.0, 1.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("classes", classes).with("dtype", dtype))
    }
}
