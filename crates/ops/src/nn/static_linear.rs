//! `static_linear`: the product of a statically quantized layer.

use super::quantize_static::step;
use crate::rules::{by_expansion, expand1};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Value};

/// The row of `static_linear`.
pub static OP: Op = Op {
    name: "static_linear",
    doc: "x w + bias for x[…, I] of i8 or u8 in steps of size `step` and w[I, O] of i8 in steps of size scale[O], in f32; \
          sums are exact.",
    attrs: &[("step", AttrKind::Float)],
    infer: |c| {
        c.arity(4)?;
        check(c, c.shape(1).last().copied().unwrap_or(0))?;
        let (x, w) = (c.shape(0), c.shape(1));
        if x.rank() == 0 || w.rank() != 2 || x.last() != w.first() {
            return Err(Error::shape(format!("an input […, I] and a weight [I, O] are needed, not {x} and {w}")));
        }
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Missing("it rounds to integers; train with `linear`, then quantize"),
    cases: || {
        let f32s = |shape: &[usize], data: &[f64]| Literal::from_f64(DType::F32, shape, data);
        let x = Literal::from_i64(DType::U8, [1, 2, 2], &[1, 2, 200, 0]);
        let w = Literal::from_i64(DType::I8, [2, 2], &[1, -1, 3, 0]);
        let all = vec![x, w, f32s(&[2], &[2.0, 4.0]), f32s(&[2], &[0.0, 1.0])];
        vec![
            Case::new(all, Attrs::new().with("step", 0.5))
                .expect(vec![f32s(&[1, 2, 2], &[7.0, -1.0, 200.0, -399.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

/// Fails unless there are bytes, a weight of signed ones, and a scale and a bias of this many outputs.
pub(super) fn check(c: &Call, outputs: usize) -> Result<()> {
    step(c)?;
    if !matches!(c.dtype(0), DType::I8 | DType::U8) || c.dtype(1) != DType::I8 {
        let got = format!("{} and {}", c.dtype(0), c.dtype(1));
        return Err(Error::dtype(format!("an input of i8 or u8 and a weight of i8 are needed, not {got}")));
    }
    for (i, what) in [(2, "scale"), (3, "bias")] {
        if c.shape(i).dims() != [outputs] || c.dtype(i) != DType::F32 {
            let got = format!("{}{}", c.dtype(i), c.shape(i));
            return Err(Error::shape(format!("a {what} f32[{outputs}] is needed, not {got}")));
        }
    }
    Ok(())
}

/// Sums of products, whose last dimension is the outputs, as numbers.
pub(super) fn scaled(sums: &Tensor, step: f64, scale: &Tensor, bias: &Tensor) -> Tensor {
    sums.cast(DType::F32) * (scale * step) + bias
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let step = step(c)?;
    expand1(args, |v| {
        let (x, w) = (c.shape(0), c.shape(1));
        let rows: usize = x[..x.rank() - 1].iter().product();
        let mut shape: ir::Shape = x[..x.rank() - 1].into();
        shape.push(w[1]);
        let sums = v[0].reshape([rows, w[0]]).int_matmul(&v[1]);
        scaled(&sums, step, &v[2], &v[3]).reshape(shape)
    })
}

impl Tensor {
    /// The product of bytes `[…, I]` in steps of size `step` with a weight `[I, O]` of `i8` in steps of size `scale[O]`,
    /// plus a bias `[O]`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let (x, w) = (Tensor::from([[1u8, 2]]), Tensor::from([[1i8], [3]]));
    /// let y = x.static_linear(0.5, &w, &Tensor::from([2.0f32]), &Tensor::from([1.0f32]));
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [8.0]);
    /// ```
    #[track_caller]
    pub fn static_linear(&self, step: f64, weight: &Tensor, scale: &Tensor, bias: &Tensor) -> Tensor {
        Tensor::apply1(&OP, &[self, weight, scale, bias], Attrs::new().with("step", step))
    }
}
