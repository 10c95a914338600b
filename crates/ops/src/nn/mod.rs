//! Layers as ops: convolution, pooling, resampling, normalization, attention.

crate::table! {}
