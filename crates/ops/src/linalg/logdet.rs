//! `logdet`: the logarithm of the determinant.

use crate::Tensor;
use crate::rules::{f64s, sample};
use ir::{Attrs, Case, DType};

super::composite!(
    "logdet",
    "The logarithm of the determinant: NaN where it is negative.",
    1,
    [],
    |_, t| {
        let [sign, log] = t[0].slogdet();
        Ok(Tensor::where_(&sign.lt(0.0), &log.full_like(f64::NAN), &log))
    },
    || {
        vec![
            Case::new(vec![f64s([2, 2], &[2.0, 0.5, -0.3, 1.5])], Attrs::new()),
            Case::new(vec![sample(DType::F64, [2, 1, 1], 1, (0.5, 2.0))], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[2.0, 0.0, 0.0, 3.0])], Attrs::new())
                .expect(vec![f64s((), &[6f64.ln()])], "by hand"),
            Case::new(vec![f64s([1, 1], &[-1.0])], Attrs::new())
                .expect(vec![f64s((), &[f64::NAN])], "by definition")
                .kinked(),
        ]
    }
);

impl Tensor {
    /// The logarithm of the determinant: NaN where it is negative.
    #[track_caller]
    pub fn logdet(&self) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new())
    }
}
