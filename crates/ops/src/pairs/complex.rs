//! `complex`: a complex number of its two parts.

use super::Pair;
use crate::rules::{GradTensors, expand1, f64s, floats, grads, one};
use crate::{DType, Error, Tensor};
use ir::{Attrs, Case, Grad, Literal, Meaning, Op, Site, Value};

/// The row of `complex`.
pub static OP: Op = Op {
    name: "complex",
    doc: "Complex numbers with these real and imaginary parts, elementwise.",
    infer: |c| {
        c.arity(2)?;
        let (dtype, shape) = (crate::rules::one_dtype(c)?, c.shape(0));
        if shape != c.shape(1) {
            return Err(Error::shape(format!("the parts differ in shape: {shape} and {}", c.shape(1))));
        }
        match dtype {
            DType::F32 | DType::F64 => one(dtype.to_complex(), shape),
            _ => Err(Error::dtype(format!("the parts must be f32 or f64, not {dtype}"))),
        }
    },
    // Every element chooses its part: one loop with what computes the parts.
    meaning: Meaning::Composite(|_, parts| {
        expand1(parts, |t| {
            let is_real = Literal::generate([2], |i| i == 0);
            let is_real = Tensor::from(Value::constant(is_real, Site::here()));
            Tensor::where_(&is_real, &t[0].unsqueeze(-1), t[1].unsqueeze(-1)).view_as_complex()
        })
    }),
    grad: Grad::Rule(|c| {
        let g = Pair::of(&c.g(0));
        grads([g.re, g.im])
    }),
    complex: ir::OnComplex::Carry,
    cases: || {
        let z = f64s([2, 2], &[1.0, -2.0, 3.0, 0.5]);
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 3], 2)], Attrs::new()),
            Case::new(vec![f64s([2], &[1.0, 3.0]), f64s([2], &[-2.0, 0.5])], Attrs::new())
                .expect(vec![z.retyped(DType::C128, [2])], "by definition"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Complex numbers of their real and imaginary parts, which are promoted and broadcast.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let z = Tensor::complex(&Tensor::from([3.0f32]), &Tensor::from([4.0f32]));
    /// assert_eq!(z.abs().to_vec::<f32>().unwrap(), [5.0]);
    /// ```
    #[track_caller]
    pub fn complex(re: &Tensor, im: &Tensor) -> Tensor {
        re.then(|_| {
            let (a, b) = re.promoted(im)?;
            let (ta, tb) = (a.value()?.ty(), b.value()?.ty());
            let part = ta.dtype.to_complex().part();
            let shape = ir::broadcast_shapes(&[&ta.shape, &tb.shape]).map_err(|e| e.in_op("complex"))?;
            let (a, b) = (a.cast(part).broadcast_to(&shape), b.cast(part).broadcast_to(&shape));
            Ok(Tensor::apply1(&OP, &[&a, &b], Attrs::new()))
        })
    }
}
