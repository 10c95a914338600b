//! NVIDIA GPUs: a device that turns graphs into generated CUDA C, library calls and captured graphs.
//!
//! Building needs nothing of CUDA. The driver, NVRTC, cuBLASLt and cuDNN are loaded when a device is opened,
//! NCCL on its first use; an error names the missing library. Every decision is pure and tested without a GPU:
//! [`lower::Lowered`] turns a graph into kernels as text ([`emit`]), library calls and memory.

mod claims;
mod device;
pub mod dnn;
mod draw_in_loops;
mod driver;
pub mod emit;
mod failure_guard;
pub mod flags;
mod fuse_launches;
mod launch_order;
mod library;
pub mod lower;
mod memory;
mod offline;
mod program;
mod rewrite;
mod scan;
pub mod target;

pub use device::{Cuda, Properties, properties};
pub use driver::nvrtc;
pub use flags::{allow_tf32, always_epilogue};
