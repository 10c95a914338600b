//! talweg-cpu

pub mod pool;
pub mod vmath;
