//! `slogdet`: sign and logarithm of the determinant.

use super::{dense, each, like, per_matrix, square};
use crate::Tensor;
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads};
use ir::{Attrs, Case, Grad, Meaning, Op};
use smallvec::SmallVec;

/// The row of `slogdet`.
pub static OP: Op = Op {
    name: "slogdet",
    doc: "The sign of the determinant (0 for a singular matrix) and the logarithm of its magnitude.",
    infer: |c| {
        c.arity(1)?;
        square(c, 0)?;
        Ok(SmallVec::from_iter([like(c, &[]), like(c, &[])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let n = square(c, 0)?;
        each(c, &args[0], [&[], &[]], |a, out| {
            let mut f = a.to_vec();
            let p = dense::lu(&mut f, n, n);
            let pivots = (0..n).map(|i| f[i * n + i]);
            out[0].push(if p.singular.is_some() {
                0.0
            } else {
                pivots.clone().map(f64::signum).product::<f64>() * p.sign
            });
            out[1].push(pivots.map(|x| x.abs().ln()).sum());
            Ok(())
        })
    }),
    grad: Grad::Rule(|c| grads([per_matrix(&c.g(1)) * c.x(0).inv().t()])),
    batch: super::BATCH,
    complex: on_complex!(|u| pairs::eliminated(u).map(|e| vec![e.phase, e.log])),
    shard: ir::Shard::Leading(2),
    cases: || {
        vec![
            Case::new(vec![floats([2, 2, 2], 1)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0])], Attrs::new()).expect(
                vec![f64s((), &[-1.0]), f64s((), &[std::f64::consts::LN_2])],
                "NumPy manual: np.linalg.slogdet([[1, 2], [3, 4]])",
            ),
            Case::new(vec![f64s([2, 2], &[1.0, 2.0, 2.0, 4.0])], Attrs::new())
                .expect(vec![f64s((), &[0.0]), f64s((), &[f64::NEG_INFINITY])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The sign of the determinant and the logarithm of its magnitude.
    #[track_caller]
    pub fn slogdet(&self) -> [Tensor; 2] {
        Tensor::apply_n(&OP, &[self], Attrs::new())
    }
}
