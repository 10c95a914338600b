//! `quantized_embedding`: rows of a block-quantized table, looked up by number.

use super::dequantize::{attrs, float_type, floats_as, sample_weights, weights, width};
use crate::rules::{i64s, integer, one};
use crate::{DType, Error, Tensor};
use ir::blocks::Format;
use ir::{AttrKind, Case, Grad, Literal, Meaning, Op};

/// The row of `quantized_embedding`.
pub static OP: Op = Op {
    name: "quantized_embedding",
    doc: "Rows of a table w, u8[V, B], of block-quantized weights at an index i64 of any shape, as floats […, K] of \
          type `dtype`. Formats are those of `dequantize`.",
    attrs: &[("format", AttrKind::Str), ("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(2)?;
        integer(c, 1)?;
        if c.dtype(1) != DType::I64 {
            return Err(Error::dtype(format!("the index must be i64, not {}", c.dtype(1))));
        }
        let mut shape = c.shape(1).clone();
        shape.push(width(c, 0)?);
        one(float_type(c)?, shape)
    },
    meaning: Meaning::Kernel(|c, args| {
        let (_, table) = weights(c, &args[0], 0)?;
        let (rows, k) = (c.shape(0)[0], width(c, 0)?);
        let mut out = Vec::new();
        for i in args[1].to_i64() {
            if i < 0 || i >= rows as i64 {
                return Err(Error::index(format!("index {i} is out of range for axis 0 of size {rows}")));
            }
            out.extend_from_slice(&table[i as usize * k..][..k]);
        }
        let mut shape = c.shape(1).clone();
        shape.push(k);
        Ok(vec![floats_as(c.attrs.dtype("dtype")?, shape, &out)])
    }),
    grad: Grad::Missing("quantized weights are integers; train adapters beside them"),
    cases: || {
        let mut all: Vec<Case> = Format::BLOCKS
            .into_iter()
            .map(|f| {
                let inputs = vec![sample_weights(f, 5, 256, 9), i64s([2, 2], &[4, 0, 0, 3])];
                Case::new(inputs, attrs(f).with("dtype", DType::F32))
            })
            .collect();
        let table = Literal::generate([2, 34], |i| [0x00, 0x3c + (i / 34 * 4) as u8, 5][(i % 34).min(2)]);
        let expect = Literal::from_f64(DType::BF16, [1, 32], &[10.0; 32]);
        let case = Case::new(vec![table, i64s([1], &[1])], attrs(Format::Q8_0).with("dtype", DType::BF16));
        all.push(case.expect(vec![expect], "by hand: 5 times a scale of 2"));
        all
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Rows of this block-quantized table, `u8[V, bytes of a row]`, at an index of any shape.
    #[track_caller]
    pub fn quantized_embedding(&self, index: &Tensor, format: Format, dtype: DType) -> Tensor {
        Tensor::apply1(&OP, &[self, &index.cast(DType::I64)], attrs(format).with("dtype", dtype))
    }
}
