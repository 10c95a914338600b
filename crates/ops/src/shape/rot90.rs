//! `rot90`: a quarter turn in the plane of two axes.

use crate::rules::{by_expansion, expand1, f64s, floats};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `rot90`.
pub static OP: Op = Op {
    name: "rot90",
    doc: "Rotated by `k` quarter turns from the first of two axes toward the second.",
    attrs: &[("k", AttrKind::Int), ("axes", AttrKind::Ints)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |k: i64, a: &[i64]| Attrs::new().with("k", k).with("axes", a);
        let x = f64s([2, 2], &[1., 2., 3., 4.]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], by(3, &[2, 1])),
            Case::new(vec![x.clone()], by(1, &[0, 1]))
                .expect(vec![f64s([2, 2], &[2., 4., 1., 3.])], "NumPy manual: np.rot90(m)"),
            Case::new(vec![x], by(2, &[0, 1]))
                .expect(vec![f64s([2, 2], &[4., 3., 2., 1.])], "NumPy manual: np.rot90(m, 2)"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (k, axes) = (c.attrs.int("k")?, c.attrs.ints("axes")?);
    if axes.len() != 2 || axes[0] == axes[1] {
        return Err(Error::value(format!("two different axes are needed, not {axes:?}")));
    }
    let (a, b) = (axes[0], axes[1]);
    expand1(x, |x| match k.rem_euclid(4) {
        0 => x[0].clone(),
        1 => x[0].flip(b).transpose(a, b),
        2 => x[0].flip([a, b]),
        _ => x[0].transpose(a, b).flip(b),
    })
}

impl Tensor {
    /// Rotated by `k` quarter turns from the first axis toward the second.
    #[track_caller]
    pub fn rot90(&self, k: i64, axes: [i64; 2]) -> Tensor {
        self.then(|t| {
            let at = |a| axis(a, t.shape.rank()).map_err(|e| e.in_op("rot90"));
            let axes = [at(axes[0])?, at(axes[1])?];
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("k", k).with("axes", axes)))
        })
    }
}
