//! talweg-cpu

pub mod pool;
