//! Kernels on slices and strided memory: matrix products, convolutions, pooling, attention, random
//! bits. They know nothing of graphs or tensors.
//!
//! All of them run on [`crate::pool`], split by the size of the problem alone, and give the same
//! bits for any number of threads.

pub mod attention;
pub mod conv;
mod depthwise;
mod direct;
pub mod gemm;
pub mod philox;
pub mod pooling;
mod scratch;
mod strips;

#[cfg(test)]
mod testing;
mod unfold;
pub mod window;
mod winograd;
