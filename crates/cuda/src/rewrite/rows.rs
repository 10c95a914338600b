//! Rows of ops that exist on this device alone: GEMM with an epilogue, and ops in the layouts that NVIDIA's libraries
//! want. Rewrites put them into graphs after differentiation.

use crate::claims::op;
use crate::library::epilogue;
use ir::{AttrKind, Call, DType, Error, Grad, Layout, Meaning, Op, Result, Shape, Type, Types};

/// Channels after space-to-depth: four times those before, padded with zeros.
pub const DEPTH_CHANNELS: usize = 16;
/// NCHW to NHWC.
pub const TO_NHWC: [i64; 4] = [0, 2, 3, 1];
/// `[N, H, L, F]` to `[N, L, H, F]`, and back.
pub const SWAP_HEADS: [i64; 4] = [0, 2, 1, 3];

type Attrs = &'static [(&'static str, AttrKind)];
type Infer = fn(&Call) -> Result<Types>;

const fn row(name: &'static str, doc: &'static str, attrs: Attrs, infer: Infer, meaning: Meaning) -> Op {
    let grad = Grad::Missing("it is put in after differentiation");
    Op { name, doc, attrs, infer, meaning, grad, ..Op::DEFAULT }
}
const fn kernel(name: &'static str, doc: &'static str, attrs: Attrs, infer: Infer) -> Op {
    let meaning = Meaning::Kernel(|_, _| Err(Error::bug("only a GPU computes it")));
    row(name, doc, attrs, infer, meaning)
}

/// The type of a value with its dimensions in another order.
pub fn permuted(t: &Type, axes: &[i64]) -> Type {
    Type::new(t.dtype, axes.iter().map(|&a| t.shape[a as usize]).collect::<Shape>())
}

pub static PERMUTE: Op = row(
    op::PERMUTE,
    "Dimensions in another order.",
    &[("axes", AttrKind::Ints)],
    |c| Ok(Types::from_iter([permuted(&c.types[0], c.attrs.ints("axes")?)])),
    Meaning::View(|c, l| {
        let axes = c.attrs.sizes("axes")?;
        Ok(Some(Layout {
            shape: axes.iter().map(|&a| l.shape[a]).collect(),
            strides: axes.iter().map(|&a| l.strides[a]).collect(),
            offset: l.offset,
        }))
    }),
);
pub static RESHAPE: Op = row(
    op::RESHAPE,
    "The same elements in another shape.",
    &[("shape", AttrKind::Ints)],
    |c| shaped(c.dtype(0), c),
    Meaning::View(|c, l| Ok(l.reshape(&c.attrs.sizes("shape")?.into_iter().collect()))),
);

/// A value of the shape that the attribute `shape` states.
fn shaped(dtype: DType, c: &Call) -> Result<Types> {
    Ok(Types::from_iter([Type::new(dtype, c.attrs.sizes("shape")?.into_iter().collect::<Shape>())]))
}

pub static CONCAT: Op = kernel(op::CONCAT, "Values one after the other.", &[("axis", AttrKind::Int)], |c| {
    let axis = c.attrs.size("axis")?;
    let along: usize = c.types.iter().map(|t| t.shape[axis]).sum();
    let shape: Shape = c.shape(0).iter().enumerate().map(|(d, &n)| if d == axis { along } else { n }).collect();
    Ok(Types::from_iter([Type::new(c.dtype(0), shape)]))
});

pub static FFT_AXES: Op = kernel(
    "fft_axes",
    "Fourier transform of pairs along `count` axes from `axis` on, which are the last ones.",
    &[("axis", AttrKind::Int), ("count", AttrKind::Int), ("inverse", AttrKind::Bool)],
    |c| Ok(Types::from_iter([c.types[0].clone()])),
);

pub static DRAW_KEY: Op =
    kernel("draw_key", "The key of random bits that loops draw.", &[("shape", AttrKind::Ints)], |_| {
        Ok(Types::from_iter([Type::new(DType::U32, [4])]))
    });

/// The result of a GEMM of two matrices.
fn product(c: &Call) -> Result<Type> {
    match (c.shape(0).dims(), c.shape(1).dims()) {
        ([m, k], [l, n]) if k == l => Ok(Type::new(c.dtype(0), [*m, *n])),
        _ => Err(Error::shape(format!("GEMM of {} and {}", c.types[0], c.types[1]))),
    }
}
/// The result of a GEMM, and one number for each column.
fn with_columns(c: &Call) -> Result<Types> {
    let y = product(c)?;
    let sums = Type::new(y.dtype, [y.shape[1]]);
    Ok(Types::from_iter([y, sums]))
}

pub static MATMUL_BIAS: Op = kernel("matmul_bias", "a × b + bias.", &[], |c| Ok(Types::from_iter([product(c)?])));
pub static MATMUL_GELU: Op = kernel("matmul_gelu", "gelu_tanh(a × b + bias), and the input of gelu_tanh.", &[], |c| {
    let y = product(c)?;
    Ok(Types::from_iter([y.clone(), y]))
});
pub static MATMUL_RELU: Op = kernel(
    "matmul_relu",
    "relu(a × b + bias) and, if `mask`, a bit mask of the positive elements.",
    &[("mask", AttrKind::Bool)],
    |c| {
        let y = product(c)?;
        let mask = Type::new(DType::U8, [y.shape[0], epilogue::bits(y.shape[1]) / 8]);
        Ok(if c.attrs.bool("mask")? { Types::from_iter([y, mask]) } else { Types::from_iter([y]) })
    },
);
pub static MATMUL_DGELU: Op = kernel(
    "matmul_gelu_slope",
    "a × b times the derivative of gelu_tanh at the third input, and the sums of columns.",
    &[],
    with_columns,
);
pub static MATMUL_DRELU: Op = kernel(
    "matmul_relu_slope",
    "a × b where the bit mask of the third input is set, and the sums of columns.",
    &[],
    with_columns,
);
pub static MATMUL_SUMS: Op = kernel("matmul_sums", "a × b, and the sums of the rows of a.", &[], |c| {
    let y = product(c)?;
    let sums = Type::new(y.dtype, [y.shape[0]]);
    Ok(Types::from_iter([y, sums]))
});
pub static SCALED_GEMM: Op =
    kernel("scaled_product", "a × bᵀ of fp8 matrices, times two scales.", &[("dtype", AttrKind::DType)], |c| {
        let (m, n) = (c.shape(0)[0], c.shape(1)[0]);
        Ok(Types::from_iter([Type::new(c.attrs.dtype("dtype")?, [m, n])]))
    });

const ATTENTION_ATTRS: [(&str, AttrKind); 3] =
    [("causal", AttrKind::Bool), ("scale", AttrKind::Float), ("dropout", AttrKind::Float)];

pub static ATTENTION: Op =
    kernel("attention_transposed", "Attention whose result is [N, L, H, F] in memory.", &ATTENTION_ATTRS, |c| {
        let (q, v) = (&c.types[0], &c.types[2]);
        let (rows, width) = (&q.shape[..3], v.shape[3]);
        let y = Type::new(q.dtype, [rows[0], rows[2], rows[1], width]);
        let is_half = matches!(q.dtype, DType::BF16 | DType::F16);
        Ok(Types::from_iter([y, Type::new(if is_half { DType::F32 } else { q.dtype }, rows)]))
    });
pub static ATTENTION_GRAD: Op = kernel(
    "attention_grad_transposed",
    "The gradients of attention, each [N, L, H, F] in memory.",
    &ATTENTION_ATTRS,
    |c| Ok(c.types[..3].iter().map(|t| permuted(t, &SWAP_HEADS)).collect()),
);
pub static ATTENTION_GRAD_JOINED: Op = kernel(
    "attention_grad_joined",
    "The gradients of attention, concatenated for each token; `parts` are their sizes.",
    &[ATTENTION_ATTRS[0], ATTENTION_ATTRS[1], ATTENTION_ATTRS[2], ("parts", AttrKind::Ints), ("shape", AttrKind::Ints)],
    |c| shaped(c.dtype(0), c),
);

const CONV_ATTRS: [(&str, AttrKind); 5] = [
    ("stride", AttrKind::Ints),
    ("padding_lo", AttrKind::Ints),
    ("padding_hi", AttrKind::Ints),
    ("dilation", AttrKind::Ints),
    ("groups", AttrKind::Int),
];
const CONV_GRAD_ATTRS: [(&str, AttrKind); 6] =
    [CONV_ATTRS[0], CONV_ATTRS[1], CONV_ATTRS[2], CONV_ATTRS[3], CONV_ATTRS[4], ("shape", AttrKind::Ints)];

pub static CONV: Op = kernel("conv_last", "Convolution, NHWC.", &CONV_ATTRS, |c| {
    let (x, w) = (c.shape(0), c.shape(1));
    let list = |name: &str| c.attrs.ints(name);
    let (stride, lo, hi, dilation) = (list("stride")?, list("padding_lo")?, list("padding_hi")?, list("dilation")?);
    let size = |d: usize| {
        let reach = dilation[d] * (w[d + 1] as i64 - 1) + 1;
        ((x[d + 1] as i64 + lo[d] + hi[d] - reach) / stride[d] + 1) as usize
    };
    Ok(Types::from_iter([Type::new(c.dtype(0), [x[0], size(0), size(1), w[0]])]))
});
pub static CONV_INPUT_GRAD: Op =
    kernel("conv_input_grad_last", "The gradient of a convolution's input, NHWC.", &CONV_GRAD_ATTRS, nhwc_shaped);
pub static CONV_WEIGHT_GRAD: Op =
    kernel("conv_weight_grad_last", "The gradient of a convolution's weight, OHWI.", &CONV_GRAD_ATTRS, nhwc_shaped);

/// An NHWC value of the shape that the attribute `shape` states in NCHW.
fn nhwc_shaped(c: &Call) -> Result<Types> {
    Ok(Types::from_iter([permuted(&shaped(c.dtype(0), c)?[0], &TO_NHWC)]))
}

const POOL_ATTRS: [(&str, AttrKind); 5] = [
    ("window", AttrKind::Ints),
    ("stride", AttrKind::Ints),
    ("padding_lo", AttrKind::Ints),
    ("dilation", AttrKind::Ints),
    ("out", AttrKind::Ints),
];

pub static POOL: Op = kernel(
    "max_pool_last",
    "The maximum of each window of [N, H, W, C], and its number in the window.",
    &POOL_ATTRS,
    |c| {
        let (x, out) = (c.shape(0), c.attrs.sizes("out")?);
        let shape = [x[0], out[0], out[1], x[3]];
        Ok(Types::from_iter([Type::new(c.dtype(0), shape), Type::new(DType::U8, shape)]))
    },
);
pub static POOL_GRAD: Op = kernel(
    "max_pool_grad_last",
    "The gradient of that, from the numbers in the windows and the result's gradient.",
    &[POOL_ATTRS[0], POOL_ATTRS[1], POOL_ATTRS[2], POOL_ATTRS[3], POOL_ATTRS[4], ("shape", AttrKind::Ints)],
    |c| shaped(c.dtype(1), c),
);
pub static POOL_GRAD_FIRST: Op = kernel(
    "max_pool_grad_first",
    "The gradient of max pooling of [N, C, *S], from the places found and the result's gradient.",
    &[POOL_ATTRS[0], POOL_ATTRS[1], POOL_ATTRS[2], POOL_ATTRS[3], POOL_ATTRS[4], ("shape", AttrKind::Ints)],
    |c| shaped(c.dtype(1), c),
);
pub static SUM: Op = kernel("sum_places", "Sums of [N, H, W, C] over H and W.", &[], |c| {
    let x = c.shape(0);
    Ok(Types::from_iter([Type::new(c.dtype(0), [x[0], 1, 1, x[3]])]))
});
pub static SPACE_TO_DEPTH: Op = kernel(
    "to_depth",
    "[N, C, H, W] as [N, h, w, D]: element (2i + a − off, 2j + b − off) of channel c becomes element (i, j) of channel \
     (2a + b) C + c; elements outside and further channels are zero.",
    &[("off", AttrKind::Int), ("sizes", AttrKind::Ints), ("dtype", AttrKind::DType)],
    |c| {
        let sizes = c.attrs.sizes("sizes")?;
        let shape = [c.shape(0)[0], sizes[0], sizes[1], DEPTH_CHANNELS];
        Ok(Types::from_iter([Type::new(c.attrs.dtype("dtype")?, shape)]))
    },
);
pub static DEPTH_TO_SPACE: Op = kernel(
    "from_depth",
    "The inverse of `to_depth`, for elements inside.",
    &[("off", AttrKind::Int), ("shape", AttrKind::Ints)],
    |c| shaped(c.dtype(0), c),
);
