//! NVIDIA GPUs: a device that turns graphs into generated CUDA C, matrix products and captured
//! graphs.
//!
//! Nothing of CUDA is needed to build: the driver, NVRTC, cuBLASLt and cuDNN are loaded when a device is
//! opened, NCCL when it is asked for, and what is missing is named. Everything that decides is pure and tested without a GPU:
//! [`plan::Plan`] turns a graph into kernels as text ([`emit`]), products and places in memory.

mod absorb;
mod activate;
mod along;
mod blas;
mod chain;
mod channels;
mod context;
mod device;
pub mod dnn;
mod eighths;
pub mod emit;
mod explain;
mod guard;
mod heads;
pub mod module;
mod nccl;
mod order;
pub mod plan;
pub mod policy;
mod pool;
mod pooling;
mod program;
mod settle;
mod staging;
mod storage;

pub use device::{Cuda, Properties, properties};
pub use policy::{allow_tf32, always_along};
