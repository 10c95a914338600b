//! The CPU: a device that compiles graphs to tile programs and kernel calls, the kernels, and
//! the threads they run on.

pub mod arenas;
mod call;
mod device;
pub mod kernels;
mod needs;
mod packed_weights;
pub mod peak;
pub mod pool;
mod program;
mod target;
mod tile;
pub mod vmath;

pub use device::Cpu;
pub use needs::needs;
pub use program::Compiled;
pub use tile::has_vector_loop;
