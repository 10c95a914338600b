//! `int_conv`: the convolution of bytes, channels last, summed in 32 bits.

use super::conv::{self, Geometry};
use super::window::ConvOptions;
use crate::rules::{expand1, one};
use crate::{DType, Error, Result, Tensor};
use ir::{Call, Case, Grad, Literal, Meaning, Op, Shape, Value};

/// The row of `int_conv`.
pub static OP: Op = Op {
    name: "int_conv",
    doc: "Convolution of x[N, *S, C] of 8-bit integers, signed or not, with w[O, C / groups, *K] of signed ones, summed in \
          i32: [N, *S, O]. Padding is zeros; a negative width crops.",
    attrs: &conv::ATTRS,
    infer: |c| {
        c.arity(2)?;
        if !matches!(c.dtype(0), DType::I8 | DType::U8) || c.dtype(1) != DType::I8 {
            let got = format!("{} and {}", c.dtype(0), c.dtype(1));
            return Err(Error::dtype(format!("an input of i8 or u8 and a weight of i8 are needed, not {got}")));
        }
        let (x, w, groups) = (c.shape(0), c.shape(1), c.attrs.size("groups")?);
        if x.rank() != w.rank() || w.rank() < 3 || x.last().copied() != w[1].checked_mul(groups) {
            return Err(Error::shape(format!(
                "an input [N, *S, C], channels last, and a weight [O, C / {groups}, *K] are needed, not {x} and {w}"
            )));
        }
        let y = Geometry::new(c.attrs, &moved(x, x.rank() - 1, 1), w)?.out();
        one(DType::I32, moved(&y, 1, y.rank() - 1))
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Missing("integers have no gradient"),
    cases: || {
        let bytes = |dtype: DType, shape: &[usize], step: i64| {
            let count: usize = shape.iter().product();
            let data: Vec<i64> = (0..count as i64).map(|i| i * step % 256).collect();
            Literal::from_i64(dtype, shape, &data)
        };
        let at = conv::attrs;
        let by_hand = vec![
            Literal::from_i64(DType::U8, [1, 3, 1], &[200, 1, 2]),
            Literal::from_i64(DType::I8, [1, 1, 2], &[1, -3]),
        ];
        vec![
            Case::new(
                vec![bytes(DType::I8, &[2, 5, 3], 37), bytes(DType::I8, &[4, 3, 2], 91)],
                at(&[2], &[1], &[0], &[1], 1),
            ),
            Case::new(
                vec![bytes(DType::U8, &[1, 4, 5, 4], 53), bytes(DType::I8, &[6, 2, 2, 2], 71)],
                at(&[1, 2], &[0, 1], &[1, 2], &[2, 1], 2),
            ),
            Case::new(
                vec![bytes(DType::I8, &[1, 4, 4, 8], 29), bytes(DType::I8, &[8, 1, 3, 3], 83)],
                at(&[1, 1], &[1, 1], &[1, 1], &[1, 1], 8),
            ),
            Case::new(by_hand, at(&[1], &[1], &[0], &[1], 1))
                .expect(vec![Literal::from_i64(DType::I32, [1, 3, 1], &[-600, 197, -5])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

/// A shape with one dimension at another place.
fn moved(shape: &Shape, from: usize, to: usize) -> Shape {
    let mut dims = shape.dims().to_vec();
    let d = dims.remove(from);
    dims.insert(to, d);
    Shape::new(&dims)
}

/// In `f64`, which holds every sum.
fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    expand1(args, |v| {
        let last = c.shape(0).rank() as i64 - 1;
        let channels_first: Vec<i64> = [0, last].into_iter().chain(1..last).collect();
        let channels_last: Vec<i64> = std::iter::once(0).chain(2..=last).chain([1]).collect();
        let x = v[0].permute(&channels_first).cast(DType::F64);
        let y = Tensor::apply1(&conv::OP, &[&x, &v[1].cast(DType::F64)], c.attrs.clone());
        y.permute(&channels_last).cast(DType::I64).cast(DType::I32)
    })
}

impl Tensor {
    /// Convolution of 8-bit integers `[N, *S, C]`, channels last, with a weight `[O, C / groups, *K]` of signed ones,
    /// summed in `i32`: what quantized convolutional networks are made of.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::ConvOptions};
    /// let x = Tensor::from([[[200u8], [1], [2]]]);
    /// let y = x.int_conv(&Tensor::from([[[1i8, -3]]]), ConvOptions::new());
    /// assert_eq!(y.to_vec::<i32>().unwrap(), [197, -5]);
    /// ```
    #[track_caller]
    pub fn int_conv(&self, weight: &Tensor, options: ConvOptions) -> Tensor {
        weight.then(|w| {
            let kernel = w.shape.get(2..).unwrap_or_default();
            Ok(Tensor::apply1(&OP, &[self, weight], conv::attributes(kernel, &options).map_err(|e| e.in_op(OP.name))?))
        })
    }
}
