//! GPUs of every maker by WebGPU: a device that turns graphs into generated WGSL.
//!
//! Vulkan, Metal and Direct3D 12 are found when the program runs; building needs nothing of them. Every decision is
//! pure and tested without an adapter: [`lower::Lowered`] turns a graph into kernels as text. Regions that WebGPU cannot
//! compute (f64, functions it lacks, ops without a kernel) run on the host, and `explain` says so.
//! [ADR 14](../../../docs/adr/0014-webgpu-emulates-64-bit-integers.md) has the types.

mod claims;
mod context;
mod device;
pub mod element;
mod expression;
mod host;
pub mod kernel;
mod kernels;
mod loops;
pub mod lower;
mod program;
mod storage;

pub use device::Wgpu;
