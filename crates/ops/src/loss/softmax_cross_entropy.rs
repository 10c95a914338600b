//! `softmax_cross_entropy`: cross entropy of a softmax with a target distribution, along one axis.

use crate::Tensor;
use crate::rules::{GradTensors, expand1, f64s, float, floats, maybe_grads, one, one_dtype, sample};
use crate::{Error, axis};
use ir::{AttrKind, Attrs, Case, DType, Grad, Meaning, Op};

/// The row of `softmax_cross_entropy`.
pub static OP: Op = Op {
    name: "softmax_cross_entropy",
    doc: "−Σ p log softmax(x) along an axis, which keeps size 1. Where p is 0 the term is 0, even for x = −∞.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        let dtype = one_dtype(c)?;
        if c.shape(0) != c.shape(1) {
            return Err(Error::shape(format!("logits {} and target {} differ in shape", c.shape(0), c.shape(1))));
        }
        one(dtype, c.shape(0).reduce(&[c.axis("axis")?], true))
    },
    meaning: Meaning::Composite(|c, v| {
        let along = c.attrs.int("axis")?;
        expand1(v, |v| {
            let (x, p) = (&v[0].widened(), &v[1].widened());
            // Relative to the greatest logit, so that nothing overflows and little cancels.
            let z = x - x.max_keep(along);
            let terms = Tensor::where_(&p.eq(0.0), &p.zeros_like(), p * &z);
            (p.sum_keep(along) * z.exp().sum_keep(along).log() - terms.sum_keep(along)).cast(c.dtype(0))
        })
    }),
    grad: Grad::Rule(|c| {
        let along = c.attrs.int("axis")?;
        let (x, p, g) = (c.x(0), c.x(1), c.g(0));
        maybe_grads(vec![
            c.wanted[0].then(|| (x.softmax(along) * p.sum_keep(along) - &p) * &g),
            c.wanted[1].then(|| -(x.log_softmax(along) * &g)),
        ])
    }),
    autocast: ir::Autocast::Wide,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let p = |shape: [usize; 2]| sample(DType::F64, shape, 5, (0.1, 0.9));
        let ln3 = 3f64.ln();
        vec![
            Case::new(vec![floats([2, 3], 1), p([2, 3])], along(1)),
            Case::new(vec![floats([3, 2], 2), p([3, 2])], along(0)),
            Case::new(
                vec![
                    f64s([2, 3], &[0.0, 0.0, 0.0, 1e4, 0.0, f64::NEG_INFINITY]),
                    f64s([2, 3], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]),
                ],
                along(1),
            )
            .expect(vec![f64s([2, 1], &[ln3, 1e4])], "by hand")
            .kinked(),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// −Σ p log softmax(x) along an axis, which is removed, for these logits x and a target
    /// distribution p of the same shape.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let y = Tensor::from([0.0f64, 0.0]).softmax_cross_entropy(&Tensor::from([0.3f64, 0.7]), 0);
    /// assert!((y.item::<f64>().unwrap() - 2f64.ln()).abs() < 1e-12);
    /// ```
    #[track_caller]
    pub fn softmax_cross_entropy(&self, target: &Tensor, along: i64) -> Tensor {
        self.then(|t| {
            let a = axis(along, t.shape.rank()).map_err(|e| e.in_op("softmax_cross_entropy"))?;
            let (x, p) = self.promoted(target)?;
            let y = Tensor::apply1(&OP, &[&x, &p], Attrs::new().with("axis", a));
            Ok(y.reshape(t.shape.reduce(&[a], false)))
        })
    }
}
