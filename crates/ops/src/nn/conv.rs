//! `conv`: convolution (cross-correlation) over one to three spatial dimensions, and what its two
//! gradients share with it.
//!
//! All three are the same sum of products `y[n, o, q] += x[n, c, q·stride + k·dilation − lo] ·
//! w[o, c, k]`, read for `y`, for `x` or for `w`.

use super::window::{ConvOptions, Sizes, spatial};
use super::{conv_input_grad, conv_weight_grad};
use crate::rules::{GradTensors, f64s, float, floats, maybe_grads, one, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, BatchCall, Call, Case, Factors, Grad, Literal, Meaning, Op, Shape, Value};

/// The attributes of a convolution; its gradients have `shape` as well.
pub(super) const ATTRS: [(&str, AttrKind); 5] = [
    ("stride", AttrKind::Ints),
    ("padding_lo", AttrKind::Ints),
    ("padding_hi", AttrKind::Ints),
    ("dilation", AttrKind::Ints),
    ("groups", AttrKind::Int),
];

/// The row of `conv`.
pub static OP: Op = Op {
    name: "conv",
    doc: "Convolution of x[N, C, *S] with w[O, C / groups, *K], as neural networks mean it (the kernel is not \
          flipped). Padding is zeros; a negative width crops.",
    attrs: &ATTRS,
    infer: |c| {
        c.arity(2)?;
        float(c, 0)?;
        one(one_dtype(c)?, Geometry::new(c.attrs, c.shape(0), c.shape(1))?.out())
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let (x, w, g) = (c.x(0), c.x(1), c.g(0));
        maybe_grads(vec![
            c.wanted[0].then(|| conv_input_grad::apply(&g, &w, &c.inputs[0].ty().shape, c.attrs)),
            c.wanted[1].then(|| conv_weight_grad::apply(&x, &g, &c.inputs[1].ty().shape, c.attrs)),
        ])
    }),
    batch: Batch::Rule(|c| batch(c, [Role::Image, Role::Weight], Role::Image)),
    autocast: ir::Autocast::Narrow,
    shard: ir::Shard::Rule(|c| factors(c, ["nc", "oc"], "no")),
    linear_in: &[0, 1],
    cases: || {
        let at = attrs;
        vec![
            Case::new(vec![floats([2, 2, 4], 1), floats([2, 2, 2], 2)], at(&[2], &[1], &[0], &[1], 1)),
            Case::new(
                vec![floats([1, 2, 3, 4], 1), floats([4, 1, 2, 2], 2)],
                at(&[1, 2], &[0, 1], &[1, 2], &[2, 1], 2),
            ),
            Case::new(
                vec![floats([1, 1, 2, 2, 3], 1), floats([1, 1, 1, 2, 2], 2)],
                at(&[1; 3], &[0, 0, -1], &[0; 3], &[1; 3], 1),
            ),
            Case::new(
                vec![f64s([1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]), f64s([1, 1, 3], &[1.0, 0.0, -1.0])],
                at(&[1], &[1], &[1], &[1], 1),
            )
            .expect(
                vec![f64s([1, 1, 5], &[-2.0, -2.0, -2.0, -2.0, 4.0])],
                "NumPy: np.correlate([1, 2, 3, 4, 5], [1, 0, -1], 'same')",
            ),
            Case::new(
                vec![
                    f64s([1, 1, 3, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
                    f64s([1, 1, 2, 2], &[1.0, 0.0, 0.0, 1.0]),
                ],
                at(&[1, 1], &[0, 0], &[0, 0], &[1, 1], 1),
            )
            .expect(vec![f64s([1, 1, 2, 2], &[6.0, 8.0, 12.0, 14.0])], "by hand: x[i, j] + x[i + 1, j + 1]"),
        ]
    },
    ..Op::DEFAULT
};

/// How a convolution or one of its gradients may be cut: along the batch `n` and, without groups, along the channels
/// of input `c` and output `o`, given the first two dimensions of both inputs and of the result.
pub(super) fn factors(c: &Call, inputs: [&str; 2], output: &str) -> Result<Factors> {
    let has_groups = c.attrs.int("groups")? != 1;
    let spatial = ".".repeat(c.shape(0).rank() - 2);
    let dims = |s: &str| -> String {
        let kept = |l: char| if has_groups && l != 'n' { '.' } else { l };
        s.chars().map(kept).chain(spatial.chars()).collect()
    };
    Ok(Factors::of(&[&dims(inputs[0]), &dims(inputs[1])], &[&dims(output)]))
}

/// The attributes of a gradient, which state the shape of its result, for parts.
pub(super) fn resize(c: &Call, _: &[ir::Type], outs: &[Shape]) -> Result<Attrs> {
    Ok(c.attrs.clone().set("shape", &outs[0]))
}

/// Attributes as a row of cases writes them.
pub(super) fn attrs(stride: &[i64], lo: &[i64], hi: &[i64], dilation: &[i64], groups: i64) -> Attrs {
    Attrs::new()
        .with("stride", stride)
        .with("padding_lo", lo)
        .with("padding_hi", hi)
        .with("dilation", dilation)
        .with("groups", groups)
}

/// The sizes of a convolution, checked.
pub(super) struct Geometry {
    batch: usize,
    groups: usize,
    /// Input and output channels in one group.
    channels: (usize, usize),
    x: Sizes,
    kernel: Sizes,
    y: Sizes,
    stride: Sizes,
    dilation: Sizes,
    lo: Vec<i64>,
}

impl Geometry {
    /// From the shapes of image and kernel.
    pub(super) fn new(attrs: &Attrs, x: &Shape, w: &Shape) -> Result<Geometry> {
        if !(3..=5).contains(&x.rank()) || w.rank() != x.rank() {
            return Err(Error::shape(format!(
                "takes an image [N, C, *S] and a kernel [O, C / groups, *K] of one to three spatial dimensions, not {x} and {w}"
            )));
        }
        let rank = x.rank() - 2;
        let (stride, dilation) = (attrs.sizes("stride")?, attrs.sizes("dilation")?);
        let (lo, hi) = (attrs.ints("padding_lo")?, attrs.ints("padding_hi")?);
        if [stride.len(), dilation.len(), lo.len(), hi.len()] != [rank; 4] {
            return Err(Error::value(format!(
                "stride, padding and dilation must have one entry for each of {rank} spatial dimensions"
            )));
        }
        if stride.contains(&0) || dilation.contains(&0) {
            return Err(Error::value(format!("stride {stride:?} and dilation {dilation:?} must be at least 1")));
        }
        let groups = attrs.size("groups")?;
        if groups == 0 || !w[0].is_multiple_of(groups) || Some(x[1]) != w[1].checked_mul(groups) {
            let is_last = x.last().copied() == w[1].checked_mul(groups);
            let layout = if is_last { ", and not the last, as here: move them with permute" } else { "" };
            return Err(Error::shape(format!(
                "an image {x} of {} channels and a kernel {w} do not fit with {groups} groups: the kernel must be \
                 [O, C / groups, …] with O a multiple of the groups, and channels are the second dimension of an image \
                 (NCHW){layout}",
                x[1]
            )));
        }
        let size = |i: usize| -> Result<usize> {
            let padded = x[i + 2] as i128 + lo[i] as i128 + hi[i] as i128;
            let span = dilation[i] as i128 * (w[i + 2] as i128 - 1) + 1;
            if w[i + 2] == 0 || padded < span {
                return Err(Error::shape(format!(
                    "a kernel {w} with dilation {dilation:?} does not fit into an image {x} padded by {lo:?} and {hi:?}"
                )));
            }
            Ok(((padded - span) / stride[i] as i128 + 1) as usize)
        };
        Ok(Geometry {
            batch: x[0],
            groups,
            channels: (w[1], w[0] / groups),
            x: x[2..].into(),
            kernel: w[2..].into(),
            y: (0..rank).map(size).collect::<Result<_>>()?,
            stride: stride.as_slice().into(),
            dilation: dilation.as_slice().into(),
            lo: lo.to_vec(),
        })
    }
    /// Shape of the result.
    pub(super) fn out(&self) -> Shape {
        [self.batch, self.groups * self.channels.1].into_iter().chain(self.y.iter().copied()).collect()
    }
    /// The position in the image plane that result `q` and kernel element `k` meet, unless it lies
    /// in the padding.
    fn meet(&self, mut q: usize, mut k: usize) -> Option<usize> {
        let (mut at, mut step) = (0, 1);
        for i in (0..self.x.len()).rev() {
            let p = (q % self.y[i] * self.stride[i] + k % self.kernel[i] * self.dilation[i]) as i64 - self.lo[i];
            (q, k) = (q / self.y[i], k / self.kernel[i]);
            if p < 0 || p >= self.x[i] as i64 {
                return None;
            }
            at += p as usize * step;
            step *= self.x[i];
        }
        Some(at)
    }
    /// Calls `f` with the flat positions in x, w and y of every product in the sum.
    pub(super) fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let plane = |s: &Sizes| s.iter().product::<usize>();
        let (px, pw, py) = (plane(&self.x), plane(&self.kernel), plane(&self.y));
        let (ci, co) = self.channels;
        for q in 0..py {
            for (k, p) in (0..pw).filter_map(|k| self.meet(q, k).map(|p| (k, p))) {
                for n in 0..self.batch {
                    for o in 0..self.groups * co {
                        let first = o / co * ci;
                        for c in 0..ci {
                            let x = (n * self.groups * ci + first + c) * px + p;
                            f(x, (o * ci + c) * pw + k, (n * self.groups * co + o) * py + q);
                        }
                    }
                }
            }
        }
    }
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let geometry = Geometry::new(c.attrs, c.shape(0), c.shape(1))?;
    let (x, w) = (args[0].to_f64(), args[1].to_f64());
    let mut y = vec![0.0; geometry.out().count()];
    geometry.each(|i, k, o| y[o] += x[i] * w[k]);
    Ok(vec![Literal::from_f64(c.dtype(0), geometry.out(), &y)])
}

/// What an operand of the three ops is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// `[N, C, *S]`
    Image,
    /// `[O, C / groups, *K]`
    Weight,
}

/// The batching rule of the three: the batch goes into N while there is one kernel for all, else
/// each member becomes groups of its own.
pub(super) fn batch(c: &BatchCall, roles: [Role; 2], out: Role) -> Result<Vec<Value>> {
    let shared_weight = out == Role::Image && (0..2).all(|i| roles[i] == Role::Image || !c.batched[i]);
    let fold = |i: usize| {
        let x = Tensor::from(c.inputs[i].clone());
        x.then(|t| {
            let mut shape = t.shape.clone();
            if !c.batched[i] {
                if shared_weight {
                    return Ok(x.clone());
                }
                shape.insert(0, c.size);
            }
            let full = x.broadcast_to(shape);
            Ok(if shared_weight || roles[i] == Role::Weight {
                merge(&full, 0)?
            } else {
                merge(&full.transpose(0, 1), 1)?
            })
        })
    };
    let mut attrs = c.attrs.clone();
    let along = if out == Role::Image && !shared_weight { 1 } else { 0 };
    if let Ok(shape) = c.attrs.sizes("shape") {
        let mut shape = shape;
        shape[along] *= c.size;
        attrs = attrs.set("shape", shape.as_slice());
    }
    if !shared_weight {
        attrs = attrs.set("groups", c.attrs.size("groups")? * c.size);
    }
    let y = Tensor::apply1(c.op, &[&fold(0), &fold(1)], attrs);
    let y = y.then(|t| {
        let mut shape = t.shape.clone();
        shape.dims_mut()[along] /= c.size;
        shape.insert(along, c.size);
        Ok(y.reshape(shape).transpose(0, along as i64))
    });
    Ok(vec![y.value()?.clone()])
}

/// Dimensions `at` and `at + 1` made one.
fn merge(x: &Tensor, at: usize) -> Result<Tensor> {
    let mut shape = x.shape()?;
    let d = shape.remove(at);
    shape.dims_mut()[at] *= d;
    Ok(x.reshape(shape))
}

impl Tensor {
    /// Convolution of `[N, C, L]` (or `[C, L]`) with a kernel `[O, C / groups, K]`, plus a bias `[O]`.
    #[track_caller]
    pub fn conv1d(&self, weight: &Tensor, bias: Option<&Tensor>, options: ConvOptions) -> Tensor {
        self.conv_nd(1, "conv1d", weight, bias, &options)
    }
    /// Convolution of `[N, C, H, W]` (or `[C, H, W]`) with a kernel `[O, C / groups, KH, KW]`, plus a
    /// bias `[O]`.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::ConvOptions};
    /// let (x, w) = (Tensor::ones([1, 1, 3, 3]), Tensor::ones([1, 1, 3, 3]));
    /// let y = x.conv2d(&w, None, ConvOptions::new().padding("same"));
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn conv2d(&self, weight: &Tensor, bias: Option<&Tensor>, options: ConvOptions) -> Tensor {
        self.conv_nd(2, "conv2d", weight, bias, &options)
    }
    /// Convolution of `[N, C, D, H, W]` (or `[C, D, H, W]`) with a kernel `[O, C / groups, KD, KH, KW]`,
    /// plus a bias `[O]`.
    #[track_caller]
    pub fn conv3d(&self, weight: &Tensor, bias: Option<&Tensor>, options: ConvOptions) -> Tensor {
        self.conv_nd(3, "conv3d", weight, bias, &options)
    }
    #[track_caller]
    fn conv_nd(&self, rank: usize, op: &str, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
        let [y] = spatial(self, rank, op, |x, _| {
            let (x, w) = x.promoted(weight)?;
            let kernel = kernel_sizes(&w, rank)?;
            Ok([add_bias(Tensor::apply1(&OP, &[&x, &w], attributes(&kernel, options)?), bias)?])
        });
        y
    }
}

/// The attributes of a convolution with these options and a kernel of these sizes.
pub(super) fn attributes(kernel: &[usize], options: &ConvOptions) -> Result<Attrs> {
    let o = options.resolve(kernel)?;
    if o.output_padding.iter().any(|&p| p != 0) {
        return Err(Error::value("output_padding is for transposed convolutions"));
    }
    Ok(Attrs::new()
        .with("stride", o.stride.as_slice())
        .with("padding_lo", &o.lo)
        .with("padding_hi", &o.hi)
        .with("dilation", o.dilation.as_slice())
        .with("groups", o.groups))
}

/// The spatial sizes of a kernel.
pub(super) fn kernel_sizes(w: &Tensor, rank: usize) -> Result<Sizes> {
    let shape = w.shape()?;
    if shape.rank() != rank + 2 {
        return Err(Error::shape(format!("the kernel must have {} dimensions, but its shape is {shape}", rank + 2)));
    }
    Ok(shape[2..].into())
}

/// Adds a bias, one number for each channel.
pub(super) fn add_bias(y: Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let Some(b) = bias else { return Ok(y) };
    let (shape, given) = (y.shape()?, b.shape()?);
    if given.dims() != [shape[1]] {
        return Err(Error::shape(format!("the bias must have shape [{}], not {given}", shape[1])));
    }
    let mut wide = Shape::new(&vec![1; shape.rank()]);
    wide.dims_mut()[1] = shape[1];
    Ok(y + b.reshape(wide))
}
