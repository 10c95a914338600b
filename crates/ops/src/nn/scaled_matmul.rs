//! `scaled_matmul`: the matrix product of 8-bit floats that stand for larger or smaller numbers.

use crate::kernel::matmul;
use crate::rules::{expand1, one};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Value};

/// The row of `scaled_matmul`.
pub static OP: Op = Op {
    name: "scaled_matmul",
    doc: "Matrix product of the last two dimensions of fp8 tensors (f8e4m3 both, or one of them f8e5m2) times the \
          f32 numbers `scale` and `other_scale`, as bf16, f16 or f32; leading dimensions broadcast.",
    attrs: &[("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(4)?;
        let (a, b) = (c.dtype(0), c.dtype(1));
        if !a.is_f8() || !b.is_f8() || (a, b) == (DType::F8E5M2, DType::F8E5M2) {
            let e = format!("both sides must be 8-bit floats, one at least f8e4m3, not {a} and {b}");
            return Err(Error::dtype(e));
        }
        if let Some(t) = c.types[2..].iter().find(|t| t.dtype != DType::F32 || t.shape.rank() != 0) {
            return Err(Error::dtype(format!("the scales must be single numbers of type f32, not {t}")));
        }
        let to = c.attrs.dtype("dtype")?;
        if !matches!(to, DType::BF16 | DType::F16 | DType::F32) {
            return Err(Error::dtype(format!("the result can be bf16, f16 or f32, not {to}")));
        }
        one(to, matmul::checked_shape(c)?)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Missing("8-bit floats have none; autocast in f8e4m3 and `float8_linear` train with them"),
    cases: || {
        let matrix = |dtype: DType, shape: &[usize], step: usize| {
            let data: Vec<f64> =
                (0..shape.iter().product()).map(|i: usize| (i * step % 29) as f64 / 8.0 - 1.5).collect();
            Literal::from_f64(dtype, shape, &data)
        };
        let (e4, e5) = (DType::F8E4M3, DType::F8E5M2);
        let scales = [0.5f32, 4.0].map(Literal::scalar);
        let case = |a: Literal, b: Literal, to: DType| {
            let inputs = [a, b].into_iter().chain(scales.clone()).collect();
            Case::new(inputs, Attrs::new().with("dtype", to))
        };
        let by_hand = [Literal::from_f64(e4, [1, 2], &[448.0, 0.5]), Literal::from_f64(e5, [2, 1], &[1.0, -16.0])];
        let [a, b] = by_hand;
        vec![
            case(matrix(e4, &[16, 32], 7), matrix(e4, &[32, 48], 11), DType::F32),
            case(matrix(e5, &[32, 16], 7), matrix(e4, &[16, 16], 5), DType::BF16),
            case(matrix(e4, &[2, 3, 5], 3), matrix(e5, &[5, 7], 5), DType::F16),
            // 448 - 8, times 0.5 and 4.
            case(a, b, DType::F32).expect(vec![Literal::from_f64(DType::F32, [1, 1], &[880.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let to = c.attrs.dtype("dtype")?;
    expand1(args, |v| {
        // Either holds every number of 8 bits, and sums are f32 in any case.
        let wide = if to == DType::BF16 { to } else { DType::F32 };
        let y = v[0].cast(wide).matmul(v[1].cast(wide));
        (y.cast(DType::F32) * (&v[2] * &v[3])).cast(to)
    })
}

impl Tensor {
    /// Matrix product of 8-bit floats, times a scale for each side: what the numbers were divided by
    /// before they were rounded to 8 bits. Summed in f32; the result is bf16, f16 or f32, and a bias is
    /// added to each row in that type.
    ///
    /// ```
    /// # use talweg_ops::{DType, Tensor};
    /// let (a, b) = (Tensor::from([[100.0f32, 200.0]]), Tensor::from([[3.0f32], [0.5]]));
    /// let (scale, other_scale) = (Tensor::from(0.5f32), Tensor::from(1.0f32));
    /// let (a8, b8) = ((&a / &scale).cast(DType::F8E4M3), b.cast(DType::F8E4M3));
    /// let y = a8.scaled_matmul(&b8, &scale, &other_scale, None, DType::F32);
    /// // 200 and 400 became 192 and 384: three bits of mantissa are no more exact.
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [384.0]);
    /// ```
    #[track_caller]
    pub fn scaled_matmul(
        &self,
        other: &Tensor,
        scale: &Tensor,
        other_scale: &Tensor,
        bias: Option<&Tensor>,
        dtype: DType,
    ) -> Tensor {
        let attrs = Attrs::new().with("dtype", dtype);
        let y = Tensor::apply1(&OP, &[self, other, scale, other_scale], attrs);
        match bias {
            Some(b) => y.then(|t| Ok(&y + b.cast(t.dtype))),
            None => y,
        }
    }
}
