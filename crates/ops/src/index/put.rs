//! `put`: values written or added at flat indices.

use crate::rules::{by_expansion, expand, f64s, floats, i64s};
use crate::{DType, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `put`.
pub static OP: Op = Op {
    name: "put",
    doc: "Values written, or added if `accumulate`, at indices of the flattened tensor; negative indices count from \
          the end.",
    attrs: &[("accumulate", AttrKind::Bool)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |a: bool| Attrs::new().with("accumulate", a);
        let x = f64s([2, 3], &[4.0, 3.0, 5.0, 6.0, 7.0, 8.0]);
        vec![
            Case::new(vec![floats([2, 2], 1), i64s([3], &[3, 0, -1]), floats([3], 2)], by(true)),
            Case::new(vec![floats([2, 2], 1), i64s([2], &[3, 0]), floats([2], 2)], by(false)),
            Case::new(vec![x, i64s([2], &[1, 3]), f64s([2], &[9.0, 10.0])], by(false)).expect(
                vec![f64s([2, 3], &[4.0, 9.0, 5.0, 10.0, 7.0, 8.0])],
                "PyTorch manual: src.put_(torch.tensor([1, 3]), torch.tensor([9, 10]))",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(3)?;
    let accumulate = c.attrs.bool("accumulate")?;
    expand(x, |x| {
        let (flat, index, src) = (x[0].ravel(), x[1].ravel().wrapped(c.shape(0).count())?, x[2].ravel());
        let y = if accumulate { flat.scatter_add(0, &index, &src) } else { flat.scatter(0, &index, &src) };
        Ok(vec![y.reshape(c.shape(0))])
    })
}

impl Tensor {
    /// Values written at indices of the flattened tensor; negative indices count from the end.
    #[track_caller]
    pub fn put(&self, index: &Tensor, src: &Tensor) -> Tensor {
        self.put_in(index, src, false)
    }
    /// Values added at indices of the flattened tensor; negative indices count from the end.
    #[track_caller]
    pub fn put_add(&self, index: &Tensor, src: &Tensor) -> Tensor {
        self.put_in(index, src, true)
    }
    #[track_caller]
    fn put_in(&self, index: &Tensor, src: &Tensor, accumulate: bool) -> Tensor {
        self.then(|t| {
            let (index, src) = (index.as_index("put")?, src.cast(t.dtype));
            Ok(Tensor::apply1(&OP, &[self, &index, &src], Attrs::new().with("accumulate", accumulate)))
        })
    }
    /// An index in which negative numbers count from the end of an axis of `size` elements.
    pub(crate) fn wrapped(&self, size: usize) -> Result<Tensor> {
        let index = self.cast(DType::I64);
        Ok(Tensor::where_(&index.lt(0i64), &(&index + size as i64), &index))
    }
}
