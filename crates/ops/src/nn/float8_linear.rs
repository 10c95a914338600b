//! `float8_linear`: an affine map of the last dimension, multiplied in 8-bit floats.

use crate::rules::{GradTensors, expand, maybe_grads, one};
use crate::{DType, Error, Result, Tensor};
use ir::{Attrs, Call, Case, Grad, GradCall, Literal, Meaning, Op, Value, f8e4m3, f8e5m2};

/// The row of `float8_linear`.
pub static OP: Op = Op {
    name: "float8_linear",
    doc: "x wᵀ + b for x[…, I], w[O, I] and optionally b[O], in the type of x. The factors are scaled by their \
          maximum magnitudes and rounded to f8e4m3 for the product, gradients to f8e5m2 for theirs; sums are f32.",
    infer: |c| {
        if !(2..=3).contains(&c.types.len()) {
            return Err(Error::value(format!("takes 2 or 3 inputs, but {} were given", c.types.len())));
        }
        (0..c.types.len()).try_for_each(|i| crate::rules::real(c, i))?;
        let (x, w) = (c.shape(0), c.shape(1));
        if x.rank() == 0 || w.rank() != 2 || x[x.rank() - 1] != w[1] {
            return Err(Error::shape(format!("an input […, I] and a weight [O, I] are needed, but came {x} and {w}")));
        }
        if let Some(b) = c.types.get(2)
            && b.shape.dims() != [w[0]]
        {
            return Err(Error::shape(format!("a weight {w} needs a bias [{}], not {}", w[0], b.shape)));
        }
        let mut shape = x.clone();
        shape.dims_mut()[x.rank() - 1] = w[0];
        one(c.dtype(0), shape)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Rule(grad),
    cases: || {
        let f32s = |shape: &[usize], data: &[f64]| Literal::from_f64(DType::F32, shape, data);
        // The greatest magnitudes are 448, so that the scales are 1 and nothing is rounded.
        let (x, w) = (f32s(&[1, 2], &[448.0, -8.0]), f32s(&[2, 2], &[448.0, 0.5, -2.0, 0.25]));
        vec![
            Case::new(vec![f32s(&[2, 1, 2], &[1.0, 2.0, 0.5, -0.25]), w.clone()], Attrs::new()).kinked(),
            Case::new(vec![x, w, f32s(&[2], &[0.5, -1.0])], Attrs::new())
                .expect(vec![f32s(&[1, 2], &[200_700.5, -899.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// The smallest magnitude that a tensor is scaled for: reciprocals of scales stay finite.
const LEAST: f64 = 1e-30;

/// A tensor divided by a scale and rounded to 8 bits, and the scale: its maximum magnitude becomes
/// the largest number of the type.
fn rounded(x: &Tensor, to: DType) -> [Tensor; 2] {
    let greatest = if to == DType::F8E5M2 { f8e5m2::MAX } else { f8e4m3::MAX } as f64;
    let most = x.abs().max(..).cast(DType::F32).maximum(LEAST);
    let q = (x.cast(DType::F32) * (greatest / &most)).cast(to);
    [q, most / greatest]
}

/// What products come in: the type itself where they can.
fn product_type(dtype: DType) -> DType {
    if matches!(dtype, DType::BF16 | DType::F16) { dtype } else { DType::F32 }
}

/// All but the last dimension as one.
fn flat(x: &Tensor) -> Result<Tensor> {
    let shape = x.shape()?;
    let (last, lead) = shape.dims().split_last().ok_or_else(|| Error::bug("checked by the type rule"))?;
    Ok(x.reshape([lead.iter().product(), *last]))
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    expand(args, |v| {
        let mut shape = c.shape(0).clone();
        shape.dims_mut()[c.shape(0).rank() - 1] = c.shape(1)[0];
        let [x, x_scale] = rounded(&flat(&v[0])?, DType::F8E4M3);
        let [w, w_scale] = rounded(&v[1], DType::F8E4M3);
        let y = x.scaled_matmul(&w.t(), &x_scale, &w_scale, None, product_type(c.dtype(0)));
        let y = y.reshape(shape).cast(c.dtype(0));
        Ok(vec![if let Some(b) = v.get(2) { y + b.cast(c.dtype(0)) } else { y }])
    })
}

fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (x, w, g) = (flat(&c.x(0))?, c.x(1), flat(&c.g(0))?);
    let [g8, g_scale] = rounded(&g, DType::F8E5M2);
    let times = |g8: &Tensor, other: &Tensor, of: usize| {
        let ty = c.inputs[of].ty();
        // The same roundings as in the product itself.
        let [q, scale] = rounded(other, DType::F8E4M3);
        let y = g8.scaled_matmul(&q, &g_scale, &scale, None, product_type(ty.dtype));
        y.cast(ty.dtype).reshape(&ty.shape)
    };
    let mut all = vec![c.wanted[0].then(|| times(&g8, &w, 0)), c.wanted[1].then(|| times(&g8.t(), &x, 1))];
    if let Some(b) = c.inputs.get(2) {
        all.push(c.wanted[2].then(|| g.sum(0).cast(b.ty().dtype)));
    }
    maybe_grads(all)
}

impl Tensor {
    /// An affine map of the last dimension, x wᵀ + b for a weight `[O, I]` and a bias `[O]`, whose
    /// products are those of 8-bit floats: x and w as f8e4m3, gradients as f8e5m2, each divided by a
    /// scale that makes use of the whole type. What `autocast` in f8e4m3 makes of `linear`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let (w, b) = (Tensor::from([[3.0f32, 4.0]]), Tensor::from([0.5f32]));
    /// assert!((x.float8_linear(&w, Some(&b)).item::<f32>().unwrap() - 11.5).abs() < 0.5);
    /// ```
    #[track_caller]
    pub fn float8_linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let mut all = vec![self, weight];
        all.extend(bias);
        Tensor::apply1(&OP, &all, Attrs::new())
    }
}
