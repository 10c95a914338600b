//! `matrix_power`: a matrix multiplied with itself.

use super::square;
use crate::Tensor;
use crate::rules::{f64s, floats};
use ir::{Attrs, Case};

super::composite!(
    "matrix_power",
    "A square matrix multiplied with itself `n` times; a negative power is that of the inverse.",
    1,
    [("n", Int)],
    |c, t| {
        let size = square(c, 0)?;
        let n = c.attrs.int("n")?;
        let x = t[0].widened();
        let mut base = if n < 0 { x.inv() } else { x };
        let mut rest = n.unsigned_abs();
        let mut out: Option<Tensor> = None;
        while rest > 0 {
            if rest & 1 == 1 {
                out = Some(out.map_or_else(|| base.clone(), |o| o.matmul(&base)));
            }
            rest >>= 1;
            if rest > 0 {
                base = base.matmul(&base);
            }
        }
        let one = || Tensor::eye_of(size, size, c.dtype(0)).broadcast_to(c.shape(0));
        Ok(out.map_or_else(one, |y| y.cast(c.dtype(0))))
    },
    || {
        let by = |n: i64| Attrs::new().with("n", n);
        let i = || vec![f64s([2, 2], &[0.0, 1.0, -1.0, 0.0])];
        let source = "NumPy manual: np.linalg.matrix_power of the imaginary unit's matrix";
        vec![
            Case::new(vec![floats([2, 2], 1)], by(5)),
            Case::new(vec![floats([2, 2], 1)], by(-2)),
            Case::new(i(), by(3)).expect(vec![f64s([2, 2], &[0.0, -1.0, 1.0, 0.0])], source),
            Case::new(i(), by(0)).expect(vec![f64s([2, 2], &[1.0, 0.0, 0.0, 1.0])], source),
        ]
    }
);

impl Tensor {
    /// A square matrix multiplied with itself `n` times; a negative power is that of the inverse.
    #[track_caller]
    pub fn matrix_power(&self, n: i64) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("n", n))
    }
}
