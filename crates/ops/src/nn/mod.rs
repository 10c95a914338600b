//! Layers as ops: convolution, pooling, resampling, normalization, attention.

crate::table! {
    attention,
    avg_pool,
    batch_norm,
    batch_norm_train,
    conv,
    conv_input_grad,
    conv_weight_grad,
    embedding,
    group_norm,
    instance_norm,
    layer_norm,
    linear,
    local_response_norm,
    log_softmax,
    logsumexp,
    max_pool,
    max_pool_index,
    rms_norm,
    softmax,
    softmin,
}

mod norm;
pub(crate) mod soft;
mod window;

pub use attention::AttentionOptions;
pub use window::{AvgPoolOptions, ConvOptions, MaxPoolOptions, Padding, PerAxis};
