//! `static_conv`: the convolution of a statically quantized layer.

use super::conv::{self, Geometry};
use super::int_conv;
use super::quantize_static::step;
use super::static_linear::{check, scaled};
use super::window::ConvOptions;
use crate::rules::{expand1, one};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Value};

const ATTRS: [(&str, AttrKind); 6] = {
    let c = conv::ATTRS;
    [c[0], c[1], c[2], c[3], c[4], ("step", AttrKind::Float)]
};

/// The row of `static_conv`.
pub static OP: Op = Op {
    name: "static_conv",
    doc: "Convolution of x[N, C, *S] of i8 or u8 in steps of size `step` with w[O, C / groups, *K] of i8 in steps of \
          size scale[O], plus bias[O], in f32; sums are exact.",
    attrs: &ATTRS,
    infer: |c| {
        c.arity(4)?;
        check(c, c.shape(1).first().copied().unwrap_or(0))?;
        one(DType::F32, Geometry::new(c.attrs, c.shape(0), c.shape(1))?.out())
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Missing("it rounds to integers; train with `conv`, then quantize"),
    cases: || {
        let bytes = |dtype: DType, shape: &[usize], step: i64| {
            let count: usize = shape.iter().product();
            let data: Vec<i64> = (0..count as i64).map(|i| i * step % 256).collect();
            Literal::from_i64(dtype, shape, &data)
        };
        let f32s = |data: &[f64]| Literal::from_f64(DType::F32, [data.len()], data);
        let at = |a: Attrs| a.with("step", 0.5);
        let by_hand = vec![
            Literal::from_i64(DType::U8, [1, 1, 3], &[200, 1, 2]),
            Literal::from_i64(DType::I8, [1, 1, 2], &[1, -3]),
            f32s(&[2.0]),
            f32s(&[1.0]),
        ];
        vec![
            Case::new(
                vec![
                    bytes(DType::U8, &[1, 4, 5, 4], 53),
                    bytes(DType::I8, &[2, 2, 2, 2], 71),
                    f32s(&[0.1, 0.2]),
                    f32s(&[1.0, 2.0]),
                ],
                at(conv::attrs(&[1, 2], &[0, 1], &[1, 2], &[2, 1], 2)),
            ),
            Case::new(by_hand, at(conv::attrs(&[1], &[0], &[0], &[1], 1)))
                .expect(vec![Literal::from_f64(DType::F32, [1, 1, 2], &[198.0, -4.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let step = step(c)?;
    expand1(args, |v| {
        let last = c.shape(0).rank() as i64 - 1;
        let channels_last: Vec<i64> = std::iter::once(0).chain(2..=last).chain([1]).collect();
        let channels_first: Vec<i64> = [0, last].into_iter().chain(1..last).collect();
        let attrs = conv::ATTRS.iter().fold(Attrs::new(), |a, (name, _)| match c.attrs.get(name) {
            Some(value) => a.with(name, value.clone()),
            None => a,
        });
        let sums = Tensor::apply1(&int_conv::OP, &[&v[0].permute(&channels_last), &v[1]], attrs);
        scaled(&sums, step, &v[2], &v[3]).permute(&channels_first)
    })
}

impl Tensor {
    /// Convolution of bytes `[N, C, *S]` in steps of size `step` with a weight `[O, C / groups, *K]` of `i8` in steps of
    /// size `scale[O]`, plus a bias `[O]`.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::ConvOptions};
    /// let (x, w) = (Tensor::from([[[200u8, 1, 2]]]), Tensor::from([[[1i8, -3]]]));
    /// let y = x.static_conv(0.5, &w, &Tensor::from([2.0f32]), &Tensor::from([1.0f32]), ConvOptions::new());
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [198.0, -4.0]);
    /// ```
    #[track_caller]
    pub fn static_conv(
        &self,
        step: f64,
        weight: &Tensor,
        scale: &Tensor,
        bias: &Tensor,
        options: ConvOptions,
    ) -> Tensor {
        weight.then(|w| {
            let kernel =
                w.shape.get(2..).ok_or_else(|| Error::shape(format!("the kernel is {}", w.shape)).in_op(OP.name))?;
            let attrs = conv::attributes(kernel, &options).map_err(|e| e.in_op(OP.name))?.with("step", step);
            Ok(Tensor::apply1(&OP, &[self, weight, scale, bias], attrs))
        })
    }
}
