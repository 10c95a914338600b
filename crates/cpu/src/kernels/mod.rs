//! Kernels on slices and strided memory: matrix products, convolutions, pooling, attention, random
//! bits. They know nothing of graphs or tensors.
//!
//! All of them run on [`crate::pool`], split by the size of the problem alone, and give the same
//! bits for any number of threads.

pub mod attention;
pub mod conv;
mod depthwise;
mod depthwise_lines;
mod direct;
pub mod epilogue;
pub mod gemm;
pub mod int_conv;
mod int_depthwise;
pub mod lanes;
pub mod lapack;
pub mod order;
mod packed_conv;
pub mod paged;
pub mod philox;
mod pointwise;
pub mod pooling;
pub mod quant;
pub mod recurrence;
pub mod requantize;
pub(crate) mod scratch;

mod im2col;
#[cfg(test)]
mod testing;
pub mod window;
mod winograd;
