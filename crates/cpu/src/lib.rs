//! talweg-cpu

mod call;
mod device;
mod explain;
pub mod kernels;
pub mod kernels;
pub mod pool;
mod program;
mod tile;
pub mod vmath;

pub use device::Cpu;
