//! `cov`: the covariance matrix.

use crate::rules::{by_expansion, expand1_wide, f64s, float, floats};
use crate::{Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `cov`.
pub static OP: Op = Op {
    name: "cov",
    doc: "Covariances of the rows of a matrix: a variable a row, an observation a column; divided by the number of \
          observations less `correction`.",
    attrs: &[("correction", AttrKind::Float)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    complex: ir::OnComplex::Refuse,
    cases: || {
        let by = |k: f64| Attrs::new().with("correction", k);
        let x = f64s([2, 3], &[0., 1., 2., 2., 1., 0.]);
        vec![
            Case::new(vec![floats([2, 4], 1)], by(0.0)),
            Case::new(vec![x], by(1.0)).expect(vec![f64s([2, 2], &[1., -1., -1., 1.])], "NumPy manual: np.cov(x)"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    float(c, 0)?;
    let [_, n] = super::matrix(c)?;
    let divisor = (n as f64 - c.attrs.float("correction")?).max(0.0);
    expand1_wide(x, |x| {
        let centered = &x[0] - x[0].mean_keep(-1);
        centered.matmul(centered.t()) / divisor
    })
}

impl Tensor {
    /// Covariances of the rows of a matrix: a variable a row, an observation a column; divided by
    /// the number of observations less `correction`.
    #[track_caller]
    pub fn cov(&self, correction: f64) -> Tensor {
        self.then(|t| {
            Ok(Tensor::apply1(&OP, &[&self.cast(t.dtype.to_float())], Attrs::new().with("correction", correction)))
        })
    }
}
