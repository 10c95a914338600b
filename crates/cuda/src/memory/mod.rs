//! Device memory: the pool, pinned staging buffers, values on the device.

pub mod pool;
pub mod staging;
pub mod storage;
