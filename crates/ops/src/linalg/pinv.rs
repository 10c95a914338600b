//! `pinv`: the pseudo-inverse.

use super::{dense, each, like, matrix, unitary};
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads};
use crate::{DType, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op};
use smallvec::SmallVec;

/// The row of `pinv`.
pub static OP: Op = Op {
    name: "pinv",
    doc: "The Moore–Penrose pseudoinverse. Singular values not above `rtol` times the largest count as zero.",
    attrs: &[("rtol", AttrKind::Float)],
    infer: |c| {
        c.arity(1)?;
        let (m, n) = matrix(c, 0)?;
        Ok(SmallVec::from_iter([like(c, &[n, m])]))
    },
    meaning: Meaning::Kernel(|c, args| {
        let ((m, n), rtol) = (matrix(c, 0)?, c.attrs.float("rtol")?);
        let k = m.min(n);
        each(c, &args[0], [&[n, m]], |a, out| {
            let (u, s, vt) = unitary::svd(a, m, n, false);
            let least = s.first().map_or(0.0, |s| s * rtol);
            let inverse: Vec<f64> = s.iter().map(|&s| if s > least { 1.0 / s } else { 0.0 }).collect();
            let v: Vec<f64> = unitary::adjoint(&vt, k, n).iter().enumerate().map(|(i, x)| x * inverse[i % k]).collect();
            out[0].extend(dense::matmul(&v, &unitary::adjoint(&u, m, k), n, k, m));
            Ok(())
        })
    }),
    // Golub and Pereyra, as PyTorch has it; the rank is taken as constant.
    grad: Grad::Rule(|c| {
        let (a, p, g) = (c.x(0), c.y(0), c.g(0).t());
        let pt = p.t();
        let shape = &c.inputs[0].ty().shape;
        let is_wide = shape[shape.rank() - 2] <= shape[shape.rank() - 1];
        grads([if is_wide {
            let k = g.matmul(&p);
            let kp = k.matmul(&pt);
            -p.matmul(&k).t() + &kp - a.matmul(&p).matmul(&kp) + pt.matmul(&p).matmul(&g - k.matmul(&a))
        } else {
            let k = p.matmul(&g);
            let pk = pt.matmul(&k);
            -k.matmul(&p).t() + (&g - a.matmul(&k)).matmul(&p).matmul(&pt) + &pk - pk.matmul(&p).matmul(&a)
        }])
    }),
    batch: super::BATCH,
    complex: on_complex!(pairs::by_block),
    shard: ir::Shard::Leading(2),
    cases: || {
        let by = |r: f64| Attrs::new().with("rtol", r);
        let a = f64s([3, 2], &[1.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
        vec![
            Case::new(vec![floats([3, 2], 1)], by(1e-12)),
            Case::new(vec![floats([2, 3], 2)], by(1e-12)),
            Case::new(vec![a], by(1e-12)).expect(vec![f64s([2, 3], &[1.0, 0.0, 0.0, 0.0, 0.5, 0.0])], "by hand"),
            Case::new(vec![f64s([2, 2], &[4.0, 0.0, 0.0, 1.0])], by(0.5))
                .expect(vec![f64s([2, 2], &[0.25, 0.0, 0.0, 0.0])], "by hand: 1 is not above 0.5 * 4")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Moore's and Penrose's inverse; singular values below the precision of the type times the
    /// larger size count as zero.
    #[track_caller]
    pub fn pinv(&self) -> Tensor {
        self.then(|t| {
            let epsilon = match t.dtype {
                DType::F64 | DType::C128 => f64::EPSILON,
                DType::F16 => 2f64.powi(-10),
                DType::BF16 => 2f64.powi(-7),
                _ => f32::EPSILON as f64,
            };
            let size = t.shape.iter().rev().take(2).max().copied().unwrap_or(0);
            Ok(self.pinv_rtol(size as f64 * epsilon))
        })
    }
    /// [`Tensor::pinv`] where singular values not above `rtol` times the largest count as zero.
    #[track_caller]
    pub fn pinv_rtol(&self, rtol: f64) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("rtol", rtol))
    }
}
