//! `take_along_axis`: gather with an index that broadcasts.

use crate::rules::{by_expansion, expand, f64s, floats, i64s};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Shape, Value};

/// The row of `take_along_axis`.
pub static OP: Op = Op {
    name: "take_along_axis",
    doc: "Elements chosen along `axis` by an index of the same rank, which broadcasts with the tensor beside the axis.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let x = f64s([2, 3], &[10.0, 30.0, 20.0, 60.0, 40.0, 50.0]);
        vec![
            Case::new(vec![floats([2, 3], 1), i64s([1, 2], &[2, 0])], along(1)),
            Case::new(vec![x, i64s([2, 3], &[0, 2, 1, 1, 2, 0])], along(1)).expect(
                vec![f64s([2, 3], &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0])],
                "NumPy manual: np.take_along_axis(a, np.argsort(a, axis=1), axis=1)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(2)?;
    super::is_index(c, 1)?;
    let at = c.axis("axis")?;
    let (mut whole, mut index) = (c.shape(0).clone(), c.shape(1).clone());
    let bad = || {
        Error::shape(format!(
            "an index of shape {} does not broadcast with {} beside axis {at}",
            c.shape(1),
            c.shape(0)
        ))
    };
    if whole.rank() != index.rank() {
        return Err(bad());
    }
    let (n, k) = (whole[at], index[at]);
    (whole.dims_mut()[at], index.dims_mut()[at]) = (1, 1);
    let both = whole.broadcast(&index).ok_or_else(bad)?;
    let with =
        |size: usize| -> Shape { both.iter().enumerate().map(|(d, &s)| if d == at { size } else { s }).collect() };
    expand(x, |x| Ok(vec![x[0].broadcast_to(with(n)).gather(at as i64, &x[1].wrapped(n)?.broadcast_to(with(k)))]))
}

impl Tensor {
    /// Elements chosen along an axis by an index of the same rank, which broadcasts with the
    /// tensor beside the axis; negative indices count from the end. Inverts `sort` and `argsort`.
    #[track_caller]
    pub fn take_along_axis(&self, index: &Tensor, along: i64) -> Tensor {
        self.then(|t| {
            let at = axis(along, t.shape.rank()).map_err(|e| e.in_op("take_along_axis"))?;
            Ok(Tensor::apply1(&OP, &[self, &index.as_index("take_along_axis")?], Attrs::new().with("axis", at)))
        })
    }
}
