//! GPUs of every maker by WebGPU: a device that runs the kernels of [`wgsl`].
//!
//! Vulkan, Metal and Direct3D 12 are found when the program runs; building needs nothing of them. Regions that WebGPU
//! cannot compute run on the host, and `explain` says so.

mod context;
mod device;
mod program;
mod storage;

pub use device::Wgpu;
