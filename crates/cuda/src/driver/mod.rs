//! The CUDA driver: contexts, compiled modules and captured graphs.

pub mod context;
pub mod memsets;
pub mod nvrtc;
