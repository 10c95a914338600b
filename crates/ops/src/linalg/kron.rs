//! `kron`: the Kronecker product.

use crate::rules::{f64s, floats, product};
use crate::{Operand, Tensor};
use ir::{Attrs, Case, Shape};

super::composite!(
    "kron",
    "Kronecker product: every element of the first tensor replaced by itself times the second.",
    2,
    [],
    |c, t| {
        let rank = c.shape(0).rank().max(c.shape(1).rank());
        let full =
            |s: &Shape| -> Vec<usize> { std::iter::repeat_n(1, rank - s.rank()).chain(s.iter().copied()).collect() };
        let (a, b) = (full(c.shape(0)), full(c.shape(1)));
        let first: Shape = a.iter().flat_map(|&d| [d, 1]).collect();
        let second: Shape = b.iter().flat_map(|&d| [1, d]).collect();
        let shape: Shape = a.iter().zip(&b).map(|(&x, &y)| product(&[x, y])).collect::<ir::Result<_>>()?;
        Ok((t[0].reshape(first) * t[1].reshape(second)).reshape(shape))
    },
    || {
        let (a, b) = (f64s([3], &[1.0, 10.0, 100.0]), f64s([3], &[5.0, 6.0, 7.0]));
        let want = f64s([9], &[5.0, 6.0, 7.0, 50.0, 60.0, 70.0, 500.0, 600.0, 700.0]);
        vec![
            Case::new(vec![floats([2, 2], 1), floats([3], 2)], Attrs::new()),
            Case::new(vec![a, b], Attrs::new()).expect(vec![want], "NumPy manual: np.kron([1, 10, 100], [5, 6, 7])"),
        ]
    }
);

impl Tensor {
    /// Kronecker product: every element replaced by itself times the other tensor.
    #[track_caller]
    pub fn kron(&self, other: impl Operand) -> Tensor {
        self.product(&OP, other, Attrs::new())
    }
}
