//! Layers as ops: convolution, pooling, resampling, normalization, attention.

crate::table! {
    adaptive_avg_pool,
    adaptive_max_pool,
    attention,
    attention_grad,
    avg_pool,
    avg_pool_grad,
    batch_norm,
    batch_norm_train,
    bilinear,
    cdist,
    col2im,
    conv,
    conv_input_grad,
    conv_weight_grad,
    cosine_similarity,
    dequantize,
    embedding,
    expert_matmul,
    float8_linear,
    grid_sample,
    grid_sample_grad,
    group_norm,
    im2col,
    instance_norm,
    int_conv,
    interpolate,
    layer_norm,
    layer_norm_grad,
    linear,
    local_response_norm,
    log_softmax,
    log_softmax_grad,
    logsumexp,
    max_pool,
    max_pool_grad,
    max_pool_index,
    paged_attention,
    paged_write,
    pairwise_distance,
    normalize,
    quantize,
    quantize_static,
    quantized_embedding,
    quantized_linear,
    quantized_matmul,
    rms_norm,
    rms_norm_grad,
    rope,
    scaled_matmul,
    softmax,
    softmax_grad,
    softmin,
    static_conv,
    static_linear,
}

/// What `softmax`, `log_softmax` and `softmin` have in common: floats to floats of the same shape, along an axis.
const ALONG_AXIS: ir::Op = ir::Op {
    attrs: &[("axis", ir::AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        crate::rules::float(c, 0)?;
        c.axis("axis")?;
        crate::rules::same(c, 0)
    },
    batch: crate::kernel::BATCH_AXIS,
    autocast: ir::Autocast::Wide,
    ..ir::Op::DEFAULT
};

impl crate::Tensor {
    #[track_caller]
    fn normalized_along(&self, op: &'static ir::Op, along: i64) -> crate::Tensor {
        self.then(|t| {
            let (x, at) = self.cast(t.dtype.to_float()).at_axis(op.name, along)?;
            Ok(crate::Tensor::apply1(op, &[&x], ir::Attrs::new().with("axis", at)).reshape(&t.shape))
        })
    }
}

/// What the gradients of `softmax` and `log_softmax` have in common: result and gradient of one shape, along an axis.
const GRAD_ALONG_AXIS: ir::Op = ir::Op {
    attrs: &[("axis", ir::AttrKind::Int)],
    infer: |c| {
        c.arity(2)?;
        crate::rules::float(c, 0)?;
        crate::rules::one_dtype(c)?;
        c.axis("axis")?;
        if c.shape(0) != c.shape(1) {
            return Err(ir::Error::shape(format!("the gradient of {} has shape {}", c.shape(0), c.shape(1))));
        }
        crate::rules::same(c, 0)
    },
    batch: crate::kernel::BATCH_AXIS,
    ..ir::Op::DEFAULT
};

mod attention_part;
mod distance;
pub(crate) mod forms;
mod norm;
mod window;

pub use attention::AttentionOptions;
pub(crate) use forms::FORMS;
pub use grid_sample::SampleOptions;
pub use interpolate::{InterpolateOptions, Interpolation, Resize};
pub use paged_attention::PagedOptions;
pub use window::{AvgPoolOptions, ConvOptions, MaxPoolOptions, Padding, PerAxis};
