//! `quantized_linear`: an affine map of the last dimension with a weight of 8-bit integers.

use crate::rules::{by_expansion, expand};
use crate::{DType, Error, Result, Tensor};
use ir::{Attrs, Call, Case, Grad, Literal, Meaning, Op, Value};

/// The row of `quantized_linear`.
pub static OP: Op = Op {
    name: "quantized_linear",
    doc: "x wᵀ + b for x[…, I], a weight w[O, I] given as i8 with scale[O, 1] as `quantize` makes them, and optionally \
          b[O]; each row of x is quantized on the way, and sums are exact.",
    infer: |c| {
        if !(3..=4).contains(&c.types.len()) {
            return Err(Error::value(format!("takes 3 or 4 inputs, but {} were given", c.types.len())));
        }
        let (x, w, s) = (c.shape(0), c.shape(1), c.shape(2));
        if !c.dtype(0).is_float() || c.dtype(1) != DType::I8 || !c.dtype(2).is_float() {
            let got = format!("{}, {} and {}", c.dtype(0), c.dtype(1), c.dtype(2));
            return Err(Error::dtype(format!("a float input, an i8 weight and a float scale are needed, not {got}")));
        }
        if x.rank() == 0 || w.rank() != 2 || x[x.rank() - 1] != w[1] || s.dims() != [w[0], 1] {
            let got = format!("{x}, {w} and {s}");
            return Err(Error::shape(format!(
                "an input […, I], a weight [O, I] and a scale [O, 1] are needed, not {got}"
            )));
        }
        if let Some(b) = c.types.get(3)
            && b.shape.dims() != [w[0]]
        {
            return Err(Error::shape(format!("a weight {w} needs a bias [{}], not {}", w[0], b.shape)));
        }
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Missing("it rounds to integers; train with `linear`, then quantize"),
    cases: || {
        let f32s = |shape: &[usize], data: &[f64]| Literal::from_f64(DType::F32, shape, data);
        let weight = Literal::from_i64(DType::I8, [2, 3], &[127, -127, 0, 1, 2, 3]);
        let x = f32s(&[1, 2, 3], &[127.0, 0.0, -3.0, 0.0, 0.0, 0.0]);
        let scale = f32s(&[2, 1], &[0.5, 2.0]);
        vec![
            Case::new(vec![x.clone(), weight.clone(), scale.clone()], Attrs::new()),
            Case::new(vec![x, weight, scale, f32s(&[2], &[1.0, -1.0])], Attrs::new())
                .expect(vec![f32s(&[1, 2, 2], &[8065.5, 235.0, 1.0, -1.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    expand(args, |v| {
        let (x, outputs) = (v[0].shape()?, c.shape(1)[0]);
        let inner = x[x.rank() - 1];
        let rows: usize = x[..x.rank() - 1].iter().product();
        let mut shape: ir::Shape = x[..x.rank() - 1].into();
        shape.push(outputs);
        let [q, scale] = v[0].reshape([rows, inner]).quantize(1);
        let sums = q.int_matmul(&v[1].t()).cast(DType::F32);
        let y = sums * scale * v[2].cast(DType::F32).reshape([1, outputs]);
        let y = if let Some(b) = v.get(3) { y + b.cast(DType::F32) } else { y };
        Ok(vec![y.cast(c.dtype(0)).reshape(shape)])
    })
}

impl Tensor {
    /// x wᵀ + b on the last dimension, with a weight and a scale from [`Tensor::quantize`] along the
    /// weight's last axis. Each row of x is quantized on the way (a dynamically quantized layer).
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [q, scale] = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).quantize(-1);
    /// let y = Tensor::from([1.0f32, 1.0]).quantized_linear(&q, &scale, None).to_vec::<f32>().unwrap();
    /// assert!((y[0] - 3.0).abs() < 0.02 && (y[1] - 7.0).abs() < 0.04);
    /// ```
    #[track_caller]
    pub fn quantized_linear(&self, weight: &Tensor, scale: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let mut args = vec![self, weight, scale];
        args.extend(bias);
        Tensor::apply1(&OP, &args, Attrs::new())
    }
}
