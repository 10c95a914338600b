//! `nan_to_num`: numbers in place of NaN and infinities.

use crate::rules::{expand1, f64s, float, floats, same, unary_grad};
use crate::{DType, Result, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Meaning, Op};

/// The row of `nan_to_num`.
pub static OP: Op = Op {
    name: "nan_to_num",
    doc: "x with NaN, inf and -inf replaced by numbers, elementwise; finite numbers beyond the element type's \
          largest become that.",
    attrs: &[("nan", AttrKind::Float), ("posinf", AttrKind::Float), ("neginf", AttrKind::Float)],
    infer: |c| {
        c.arity(1)?;
        float(c, 0)?;
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, args| {
        let most = greatest(c.dtype(0));
        let number = |name: &str| -> Result<f64> {
            let x = c.attrs.float(name)?;
            Ok(if x.is_finite() { x.clamp(-most, most) } else { x })
        };
        let (nan, up, down) = (number("nan")?, number("posinf")?, number("neginf")?);
        expand1(args, |t| {
            let x = &t[0];
            let y = Tensor::where_(&x.is_nan(), &x.full_like(nan), x);
            let y = Tensor::where_(&x.eq(f64::INFINITY), &x.full_like(up), &y);
            Tensor::where_(&x.eq(f64::NEG_INFINITY), &x.full_like(down), &y)
        })
    }),
    grad: Grad::Rule(|c| unary_grad(c, |x, _, g| Tensor::where_(&x.is_finite(), &g, 0.0))),
    complex: ir::OnComplex::Parts,
    cases: || {
        let by = |nan: f64, up: f64, down: f64| Attrs::new().with("nan", nan).with("posinf", up).with("neginf", down);
        let (x, nan, inf) = (|x: &[f64]| vec![f64s([4], x)], f64::NAN, f64::INFINITY);
        vec![
            Case::new(vec![floats([2, 4], 3)], by(0.0, 1.0, -1.0)),
            Case::new(x(&[nan, inf, -inf, 2.0]), by(7.0, 1.0, -1.0))
                .expect(x(&[7.0, 1.0, -1.0, 2.0]), "by definition")
                .kinked(),
            Case::new(x(&[nan, inf, -inf, 2.0]), by(0.0, f64::MAX, f64::MIN))
                .expect(x(&[0.0, f64::MAX, f64::MIN, 2.0]), "NumPy manual: the greatest number of the type")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// The largest number of a float type.
fn greatest(dtype: DType) -> f64 {
    match dtype.part() {
        DType::F16 => ir::f16::MAX.to_f64(),
        DType::BF16 => ir::bf16::MAX.to_f64(),
        DType::F32 => f32::MAX.into(),
        _ => f64::MAX,
    }
}

impl Tensor {
    /// x with NaN, inf and -inf replaced by numbers, elementwise; finite numbers beyond the element
    /// type's largest become that.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([f32::NAN, f32::INFINITY]).nan_to_num(0.0, f64::MAX, f64::MIN);
    /// assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, f32::MAX]);
    /// ```
    #[track_caller]
    pub fn nan_to_num(&self, nan: f64, posinf: f64, neginf: f64) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("nan", nan).with("posinf", posinf).with("neginf", neginf))
    }
}
