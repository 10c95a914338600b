//! Graph rewrites for NVIDIA's libraries, which run before fusion.

pub mod attention_layout;
pub mod fp8;
pub mod fuse_bias;
pub mod fuse_epilogue;
pub mod nhwc;
pub mod pooling;
