//! `expert_matmul`: a GEMM in which each row of x chooses the matrix that it is multiplied with.

use super::dequantize::{attrs, format, sample_weights, weights, width};
use super::quantized_matmul::{in_rows, quantized_row, sample_floats};
use crate::rules::{f64s, floats, i64s, one, real};
use crate::{DType, Error, Result, Tensor};
use ir::blocks::{Format, INTERLEAVED, interleave};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op};

/// The row of `expert_matmul`.
pub static OP: Op = Op {
    name: "expert_matmul",
    doc: "x[i] w[e]ᵀ for x[T, K] and the matrices w[0], w[1]… of `experts`, where e is element i of an index, i64[T]. \
          They lie below each other, u8[experts · N, B], in a format of `quantized_matmul`, whose attributes `int8` and \
          `interleaved` it has. The result is [T, N] of x's type. An index outside of the experts gives zeros: nothing \
          fails. Only matrices that are chosen are read. A row of the result does not depend on the other rows of x.",
    attrs: &[
        ("format", AttrKind::Str),
        ("int8", AttrKind::Bool),
        ("interleaved", AttrKind::Bool),
        ("experts", AttrKind::Int),
    ],
    infer: |c| {
        c.arity(3)?;
        real(c, 0)?;
        let (x, k) = (c.shape(0), width(c, 1)?);
        if x.rank() != 2 || x[1] != k {
            return Err(Error::shape(format!("x[T, {k}] is needed for weights {}, not {x}", c.shape(1))));
        }
        if c.dtype(2) != DType::I64 || c.shape(2).dims() != [x[0]] {
            return Err(Error::shape(format!("the index of experts must be i64[{}], not {}", x[0], c.types[2])));
        }
        if c.attrs.bool("int8")? && format(c)?.block() == 1 {
            return Err(Error::value(format!("int8 needs quantized weights, not {}", format(c)?.attr())));
        }
        one(c.dtype(0), [x[0], rows(c)?])
    },
    meaning: Meaning::Kernel(|c, args| {
        let all = if c.attrs.bool("interleaved")? { in_rows(c, &args[1])? } else { args[1].clone() };
        let (format, w) = weights(c, &all, 1)?;
        let (n, k, experts) = (rows(c)?, width(c, 1)?, c.attrs.size("experts")?);
        let is_int8 = c.attrs.bool("int8")?;
        let mut out = Vec::new();
        for (x, e) in args[0].to_f64().chunks(k.max(1)).zip(args[2].to_i64()) {
            let x = if is_int8 { quantized_row(format, x) } else { x.to_vec() };
            let matrix = usize::try_from(e).ok().filter(|&e| e < experts).map(|e| &w[e * n * k..][..n * k]);
            out.extend((0..n).map(|j| match matrix {
                Some(m) => x.iter().zip(&m[j * k..]).map(|(a, b)| a * *b as f64).sum::<f64>(),
                None => 0.0,
            }));
        }
        Ok(vec![Literal::from_f64(c.dtype(0), [c.shape(0)[0], n], &out)])
    }),
    grad: Grad::Missing("it is for inference; train with every expert's `linear`"),
    cases: || {
        let call = |f: Format, int8: bool| settings(f, int8, false, 3);
        let index = || i64s([5], &[2, 0, 2, -1, 1]);
        let mut all = Vec::new();
        for f in Format::BLOCKS {
            let inputs = vec![floats([5, 256], 3), sample_weights(f, 3 * 4, 256, 7), index()];
            all.push(Case::new(inputs.clone(), call(f, true)).kinked());
            all.push(Case::new(inputs, call(f, false)).kinked());
        }
        for f in [Format::Q4_1, Format::Q6_K] {
            let w = sample_weights(f, 48, 256, 8);
            let packed = interleave(f, w.bytes(), 48).expect("three groups");
            let w = Literal::generate(w.shape().clone(), |i| packed[i]);
            all.push(Case::new(vec![floats([5, 256], 4), w, index()], settings(f, true, true, 3)).kinked());
        }
        for f in Format::FLOATS {
            let w = sample_floats(f, 48, 64);
            let packed = interleave(f, w.bytes(), 48).expect("three groups");
            let packed = Literal::generate(w.shape().clone(), |i| packed[i]);
            all.push(Case::new(vec![floats([5, 64], 5), w, index()], call(f, false)).kinked());
            all.push(Case::new(vec![floats([5, 64], 5), packed, index()], settings(f, false, true, 3)).kinked());
        }
        // Two experts of one row: 32 weights of 5, with scales of 1 and 2.
        let w = Literal::generate([2, 34], |i| [0x00, 0x3c + (i / 34 * 4) as u8, 5][(i % 34).min(2)]);
        let inputs = vec![f64s([3, 32], &[1.0; 96]), w, i64s([3], &[1, 0, 2])];
        let case = Case::new(inputs, settings(Format::Q8_0, false, false, 2)).kinked();
        all.push(case.expect(vec![f64s([3, 1], &[320.0, 160.0, 0.0])], "by hand: 32 × 5, times the scale"));
        all
    },
    ..Op::DEFAULT
};

fn settings(format: Format, int8: bool, interleaved: bool, experts: usize) -> Attrs {
    attrs(format).with("int8", int8).with("interleaved", interleaved).with("experts", experts as i64)
}

/// Rows of a matrix.
fn rows(c: &Call) -> Result<usize> {
    let (all, experts) = (c.shape(1)[0], c.attrs.size("experts")?);
    if experts == 0 || !all.is_multiple_of(experts) {
        return Err(Error::shape(format!("{all} rows of weights are not those of {experts} matrices")));
    }
    let n = all / experts;
    if c.attrs.bool("interleaved")? && !n.is_multiple_of(INTERLEAVED) {
        return Err(Error::shape(format!("interleaved matrices have a multiple of {INTERLEAVED} rows, not {n}")));
    }
    Ok(n)
}

impl Tensor {
    /// Row i of this tensor times the transposed matrix that element i of `index` (i64) names, out of `experts` matrices
    /// of block-quantized weights below each other. An index that names none gives zeros.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// use ir::blocks::Format;
    /// let mut blocks = [[3u8; 34], [4u8; 34]]; // two matrices of one row, 32 weights after a scale of 16 bits
    /// blocks.iter_mut().for_each(|b| b[..2].copy_from_slice(&[0x00, 0x3c])); // 1
    /// let (x, chosen) = (Tensor::from([[1.0f32; 32]; 2]), Tensor::from([1i64, 0]));
    /// let y = x.expert_matmul(&Tensor::from(blocks), &chosen, Format::Q8_0, false, 2);
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [128.0, 96.0]);
    /// ```
    #[track_caller]
    pub fn expert_matmul(&self, weight: &Tensor, index: &Tensor, format: Format, int8: bool, experts: usize) -> Tensor {
        Tensor::apply1(&OP, &[self, weight, index], settings(format, int8, false, experts))
    }
    /// The same with weights whose rows were interleaved in groups of 16 ([`ir::blocks::interleave`]), which CPUs read
    /// fastest.
    #[track_caller]
    pub fn expert_matmul_interleaved(
        &self,
        weight: &Tensor,
        index: &Tensor,
        format: Format,
        int8: bool,
        experts: usize,
    ) -> Tensor {
        Tensor::apply1(&OP, &[self, weight, index], settings(format, int8, true, experts))
    }
}
