//! `int_matmul`: the matrix product of bytes, summed in 32 bits.

use super::matmul;
use crate::rules::one;
use crate::{DType, Error, Tensor};
use ir::{Attrs, Batch, Case, Grad, Literal, Meaning, Op};

/// The row of `int_matmul`.
pub static OP: Op = Op {
    name: "int_matmul",
    doc: "Matrix product of the last two dimensions of 8-bit integers, signed or not, summed in i32 (which wraps \
          around); leading dimensions broadcast.",
    infer: |c| {
        c.arity(2)?;
        if let Some(t) = c.types.iter().find(|t| !matches!(t.dtype, DType::I8 | DType::U8)) {
            return Err(Error::dtype(format!("both sides must be i8 or u8, not {}", t.dtype)));
        }
        one(DType::I32, matmul::checked_shape(c)?)
    },
    meaning: Meaning::Kernel(|c, args| matmul::reference(c, args, DType::I32)),
    grad: Grad::Missing("integers have no gradient"),
    batch: Batch::Rule(matmul::batch),
    shard: ir::Shard::Rule(super::matmul::factors),
    cases: || {
        let bytes = |dtype: DType, shape: &[usize], step: i64| {
            let count: usize = shape.iter().product();
            let data: Vec<i64> = (0..count as i64).map(|i| i * step % 256).collect();
            Literal::from_i64(dtype, shape, &data)
        };
        let by_hand = vec![bytes(DType::U8, &[1, 3], 100), Literal::from_i64(DType::I8, [3, 1], &[5, -128, 127])];
        vec![
            Case::new(vec![bytes(DType::I8, &[2, 9], 37), bytes(DType::I8, &[9, 3], 91)], Attrs::new()),
            Case::new(vec![bytes(DType::U8, &[2, 1, 2, 5], 53), bytes(DType::U8, &[3, 5, 2], 71)], Attrs::new()),
            Case::new(vec![bytes(DType::I8, &[3, 4], 67), bytes(DType::U8, &[4, 20], 29)], Attrs::new()),
            Case::new(by_hand, Attrs::new()).expect(vec![Literal::from_i64(DType::I32, [1, 1], &[12600])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Matrix product of matrices of 8-bit integers (`i8` or `u8`, each side its own), summed in `i32`:
    /// what quantized models are made of.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let (a, b) = (Tensor::from([[100u8, 200]]), Tensor::from([[-1i8], [100]]));
    /// assert_eq!(a.int_matmul(&b).to_vec::<i32>().unwrap(), [19_900]);
    /// ```
    #[track_caller]
    pub fn int_matmul(&self, other: &Tensor) -> Tensor {
        Tensor::apply1(&OP, &[self, other], Attrs::new())
    }
}
