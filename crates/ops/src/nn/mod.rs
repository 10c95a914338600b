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
    embedding,
    float8_linear,
    grid_sample,
    group_norm,
    im2col,
    instance_norm,
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
    pairwise_distance,
    normalize,
    quantize,
    quantized_linear,
    rms_norm,
    rms_norm_grad,
    rope,
    scaled_matmul,
    softmax,
    softmax_grad,
    softmin,
}

mod distance;
pub(crate) mod forms;
mod norm;
mod window;

pub use attention::AttentionOptions;
pub(crate) use forms::FORMS;
pub use grid_sample::SampleOptions;
pub use interpolate::{InterpolateOptions, Interpolation, Resize};
pub use window::{AvgPoolOptions, ConvOptions, MaxPoolOptions, Padding, PerAxis};
