//! `conv_input_grad`: the gradient of a convolution for its image, and transposed convolution.

use super::conv::{self, Geometry, Role, add_bias, attrs, kernel_sizes};
use super::conv_weight_grad;
use super::window::{ConvOptions, Sizes, spatial};
use crate::rules::{GradTensors, f64s, float, floats, maybe_grads, one, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Literal, Meaning, Op, Shape};

/// The row of `conv_input_grad`.
pub static OP: Op = Op {
    name: "conv_input_grad",
    doc: "The gradient of `conv` for an image of shape `shape`, from the result's gradient g[N, O, *Q] and the \
          kernel w[O, C / groups, *K]; it is also the transposed convolution of g with w.",
    attrs: &[conv::ATTRS[0], conv::ATTRS[1], conv::ATTRS[2], conv::ATTRS[3], conv::ATTRS[4], ("shape", AttrKind::Ints)],
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        geometry(c)?;
        one(one_dtype(c)?, shape(c.attrs)?)
    },
    meaning: Meaning::Kernel(|c, args| {
        let (g, w) = (args[0].to_f64(), args[1].to_f64());
        let shape = shape(c.attrs)?;
        let mut x = vec![0.0; shape.count()];
        geometry(c)?.each(|i, k, o| x[i] += g[o] * w[k]);
        Ok(vec![Literal::from_f64(c.dtype(0), shape, &x)])
    }),
    grad: Grad::Rule(|c| {
        let (g, w, up) = (c.x(0), c.x(1), c.g(0));
        maybe_grads(vec![
            c.wanted[0].then(|| Tensor::apply1(&conv::OP, &[&up, &w], without_shape(c.attrs))),
            c.wanted[1].then(|| conv_weight_grad::apply(&up, &g, &c.inputs[1].ty().shape, c.attrs)),
        ])
    }),
    batch: Batch::Rule(|c| conv::batch(c, [Role::Image, Role::Weight], Role::Image)),
    autocast: ir::Autocast::Narrow,
    shard: ir::Shard::Rule(|c| conv::factors(c, ["no", "oc"], "nc")),
    linear_in: &[0, 1],
    resize: Some(conv::resize),
    cases: || {
        vec![
            Case::new(
                vec![floats([2, 2, 2], 1), floats([2, 2, 2], 2)],
                attrs(&[2], &[1], &[0], &[1], 1).with("shape", [2i64, 2, 4]),
            ),
            Case::new(
                vec![floats([1, 4, 2, 3], 1), floats([4, 1, 2, 2], 2)],
                attrs(&[1, 2], &[0, 1], &[1, 2], &[2, 1], 2).with("shape", [1i64, 2, 3, 4]),
            ),
            Case::new(
                vec![f64s([1, 1, 2], &[1.0, 2.0]), f64s([1, 1, 2], &[3.0, 4.0])],
                attrs(&[2], &[0], &[0], &[1], 1).with("shape", [1i64, 1, 5]),
            )
            .expect(
                vec![f64s([1, 1, 5], &[3.0, 4.0, 6.0, 8.0, 0.0])],
                "by hand: each element times the kernel, two apart",
            ),
        ]
    },
    ..Op::DEFAULT
};

/// The shape attribute of the two gradients.
pub(super) fn shape(attrs: &Attrs) -> Result<Shape> {
    Ok(attrs.sizes("shape")?.into_iter().collect())
}
/// The attributes of the convolution they belong to.
pub(super) fn without_shape(attrs: &Attrs) -> Attrs {
    attrs.iter().filter(|(n, _)| *n != "shape").fold(Attrs::new(), |all, (n, a)| all.with(n, a.clone()))
}

fn geometry(c: &Call) -> Result<Geometry> {
    let geometry = Geometry::new(c.attrs, &shape(c.attrs)?, c.shape(1))?;
    if geometry.out() != *c.shape(0) {
        let e = format!("the convolution's result is {}, but its gradient is {}", geometry.out(), c.shape(0));
        return Err(Error::shape(e));
    }
    Ok(geometry)
}

/// The op from the attributes of its convolution.
pub(super) fn apply(g: &Tensor, w: &Tensor, shape: &Shape, attrs: &Attrs) -> Tensor {
    Tensor::apply1(&OP, &[g, w], without_shape(attrs).with("shape", shape))
}

impl Tensor {
    /// Transposed convolution of `[N, C, L]` (or `[C, L]`) with a kernel `[C, O / groups, K]`, plus a
    /// bias `[O]`.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::ConvOptions};
    /// let x = Tensor::from([[[1.0f32, 2.0]]]);
    /// let y = x.conv_transpose1d(&Tensor::ones([1, 1, 2]), None, ConvOptions::new().stride(2));
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 1.0, 2.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn conv_transpose1d(&self, weight: &Tensor, bias: Option<&Tensor>, options: ConvOptions) -> Tensor {
        self.conv_transpose_nd(1, "conv_transpose1d", weight, bias, &options)
    }
    /// Transposed convolution of `[N, C, H, W]` (or `[C, H, W]`) with a kernel `[C, O / groups, KH, KW]`,
    /// plus a bias `[O]`.
    #[track_caller]
    pub fn conv_transpose2d(&self, weight: &Tensor, bias: Option<&Tensor>, options: ConvOptions) -> Tensor {
        self.conv_transpose_nd(2, "conv_transpose2d", weight, bias, &options)
    }
    /// Transposed convolution of `[N, C, D, H, W]` (or `[C, D, H, W]`) with a kernel
    /// `[C, O / groups, KD, KH, KW]`, plus a bias `[O]`.
    #[track_caller]
    pub fn conv_transpose3d(&self, weight: &Tensor, bias: Option<&Tensor>, options: ConvOptions) -> Tensor {
        self.conv_transpose_nd(3, "conv_transpose3d", weight, bias, &options)
    }
    #[track_caller]
    fn conv_transpose_nd(
        &self,
        rank: usize,
        op: &str,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: &ConvOptions,
    ) -> Tensor {
        let [y] = spatial(self, rank, op, |x, _| {
            let (x, w) = x.promoted(weight)?;
            let kernel = kernel_sizes(&w, rank)?;
            if x.shape()?[1] != w.shape()?[0] {
                return Err(Error::shape(format!(
                    "the kernel must be [C, O / groups, …] with the image's {} channels, but is {}",
                    x.shape()?[1],
                    w.shape()?
                )));
            }
            let (attrs, out) = transposed(&x.shape()?, &w.shape()?, &kernel, options)?;
            Ok([add_bias(apply(&x, &w, &out, &attrs), bias)?])
        });
        y
    }
}

/// The convolution that a transposed one is the transpose of, and the shape of its image.
fn transposed(x: &Shape, w: &Shape, kernel: &Sizes, options: &ConvOptions) -> Result<(Attrs, Shape)> {
    let o = options.resolve(kernel)?;
    let mut out = vec![x[0], w[1].saturating_mul(o.groups)];
    let mut hi = o.hi.clone();
    for i in 0..kernel.len() {
        let (extra, stride, dilation) = (o.output_padding[i], o.stride[i], o.dilation[i]);
        if extra >= stride.max(dilation) {
            return Err(Error::value(format!(
                "output_padding {extra} must be smaller than the stride {stride} or the dilation {dilation}"
            )));
        }
        let span = dilation as i128 * (kernel[i] as i128 - 1) + 1;
        let size = (x[i + 2] as i128 - 1) * stride as i128 - o.lo[i] as i128 - o.hi[i] as i128 + span + extra as i128;
        if size <= 0 || size > isize::MAX as i128 {
            return Err(Error::shape(format!("the result would have size {size} in spatial dimension {i}")));
        }
        out.push(size as usize);
        // Up to a stride the rows at the end are those that the convolution does not reach; more
        // would be one result too many, so they are cropped first.
        if extra >= stride {
            hi[i] -= extra as i64;
        }
    }
    let attrs = Attrs::new()
        .with("stride", o.stride.as_slice())
        .with("padding_lo", &o.lo)
        .with("padding_hi", &hi)
        .with("dilation", o.dilation.as_slice())
        .with("groups", o.groups);
    Ok((attrs, out.into()))
}
