//! `lu`: a permutation, a lower and an upper triangular factor.

use super::{dense, each, like, lower, matrix, upper};
use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{Result, Tensor};
use ir::{Attrs, Case, Grad, GradCall, Meaning, Op, Value};
use smallvec::SmallVec;

/// The row of `lu`.
pub static OP: Op = Op {
    name: "lu",
    doc: "A permutation matrix P, a unit lower triangular L and an upper triangular U with A = P L U, by partial \
          pivoting.",
    infer: |c| {
        c.arity(1)?;
        let (m, n) = matrix(c, 0)?;
        let k = m.min(n);
        Ok(SmallVec::from_iter([like(c, &[m, m]), like(c, &[m, k]), like(c, &[k, n])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let (m, n) = matrix(c, 0)?;
        let k = m.min(n);
        each(c, &args[0], [&[m, m], &[m, k], &[k, n]], |a, out| {
            let mut f = a.to_vec();
            let order = dense::lu(&mut f, m, n).order;
            out[0].extend((0..m * m).map(|at| (order[at % m] == at / m) as u8 as f64));
            out[1].extend((0..m * k).map(|at| match (at / k).cmp(&(at % k)) {
                std::cmp::Ordering::Greater => f[at / k * n + at % k],
                std::cmp::Ordering::Equal => 1.0,
                std::cmp::Ordering::Less => 0.0,
            }));
            out[2].extend((0..k * n).map(|at| if at / n <= at % n { f[at] } else { 0.0 }));
            Ok(())
        })
    }),
    grad: Grad::Rule(grad),
    batch: super::BATCH,
    shard: ir::Shard::Leading(2),
    cases: || {
        vec![
            Case::new(vec![super::definite(40)], Attrs::new()).kinked(),
            Case::new(vec![floats([2, 2, 2], 1)], Attrs::new()),
            Case::new(vec![floats([3, 2], 2)], Attrs::new()),
            Case::new(vec![floats([2, 3], 3)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[1.0, 3.0, 2.0, 4.0])], Attrs::new()).expect(
                vec![
                    f64s([2, 2], &[0.0, 1.0, 1.0, 0.0]),
                    f64s([2, 2], &[1.0, 0.0, 0.5, 1.0]),
                    f64s([2, 2], &[2.0, 4.0, 0.0, 1.0]),
                ],
                "by hand: rows swapped, then half of the first taken from the second",
            ),
        ]
    },
    ..Op::DEFAULT
};

/// P L⁻ᵀ [tril(Lᵀ gL, -1) + triu(gU Uᵀ)] U⁻ᵀ for the square part; the rest of a tall or wide
/// matrix depends on it linearly.
fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (p, l, u, gl, gu) = (c.y(0), c.y(1), c.y(2), c.g(1), c.g(2));
    let shape = &c.inputs[0].ty().shape;
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    let k = m.min(n);
    let (l1, gl1) = (l.narrow(-2, 0, k), gl.narrow(-2, 0, k));
    let (u1, gu1) = (u.narrow(-1, 0, k), gu.narrow(-1, 0, k));
    let (mut low, mut high) = (l1.t().matmul(&gl1), gu1.matmul(u1.t()));
    // X U⁻ᵀ = (U⁻¹ Xᵀ)ᵀ.
    let over_u = |x: &Tensor| u1.solve_upper(&x.t()).t();
    let mut rest = None;
    if m > k {
        let (l2, gl2) = (l.narrow(-2, k, m - k), gl.narrow(-2, k, m - k));
        high = high - l2.t().matmul(&gl2);
        rest = Some((over_u(&gl2), -2));
    } else if n > k {
        let (u2, gu2) = (u.narrow(-1, k, n - k), gu.narrow(-1, k, n - k));
        low = low - gu2.matmul(u2.t());
        rest = Some((l1.t().solve_upper(&gu2), -1));
    }
    let inner = lower(&low, -1)? + upper(&high, 0)?;
    let first = over_u(&l1.t().solve_upper(&inner));
    let whole = match rest {
        Some((more, along)) => Tensor::concat(&[first, more], along),
        None => first,
    };
    grads([p.matmul(whole)])
}

impl Tensor {
    /// A permutation matrix P, a unit lower triangular L and an upper triangular U with A = P L U.
    #[track_caller]
    pub fn lu(&self) -> [Tensor; 3] {
        Tensor::apply_n(&OP, &[self], Attrs::new())
    }
}
