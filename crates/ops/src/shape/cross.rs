//! `cross`: the vector product in three dimensions.

use crate::rules::{by_expansion, expand1_wide, f64s, floats};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `cross`.
pub static OP: Op = Op {
    name: "cross",
    doc: "Vector product along `axis`, which must be of size 3; the other dimensions broadcast.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([3, 2], 1), floats([3, 1], 2)], along(0)),
            Case::new(vec![f64s([3], &[1., 2., 3.]), f64s([3], &[4., 5., 6.])], along(0))
                .expect(vec![f64s([3], &[-3., 6., -3.])], "NumPy manual: np.cross([1, 2, 3], [4, 5, 6])"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(2)?;
    let at = c.axis("axis")?;
    let (a, b) = (c.shape(0), c.shape(1));
    if a.rank() != b.rank() || a[at] != 3 || b[at] != 3 {
        return Err(Error::shape(format!("axis {at} of {a} and {b} must both be of size 3")));
    }
    let along = at as i64;
    expand1_wide(x, |x| {
        let rolled = |t: &Tensor, by: i64| t.roll(&[by], along);
        rolled(&x[0], -1) * rolled(&x[1], -2) - rolled(&x[0], -2) * rolled(&x[1], -1)
    })
}

impl Tensor {
    /// Vector product along an axis of size 3; the other dimensions broadcast.
    #[track_caller]
    pub fn cross(&self, other: &Tensor, along: i64) -> Tensor {
        self.then(|_| {
            let (a, b) = self.promoted(other)?;
            let at = axis(along, a.rank()?.max(b.rank()?)).map_err(|e| e.in_op("cross"))?;
            let deep = |t: &Tensor, rank: usize| -> Result<Tensor> {
                let mut shape = t.shape()?;
                while shape.rank() < rank {
                    shape.insert(0, 1);
                }
                Ok(t.reshape(shape))
            };
            let rank = a.rank()?.max(b.rank()?);
            Ok(Tensor::apply1(&OP, &[&deep(&a, rank)?, &deep(&b, rank)?], Attrs::new().with("axis", at)))
        })
    }
}
