//! Layers as ops: convolution, pooling, resampling, normalization, attention.

crate::table! {
    attention,
    avg_pool,
    conv,
    conv_input_grad,
    conv_weight_grad,
    embedding,
    linear,
    max_pool,
    max_pool_index,
}

pub(crate) mod soft;
mod window;

pub use attention::AttentionOptions;
pub use window::{AvgPoolOptions, ConvOptions, MaxPoolOptions, Padding, PerAxis};
