//! talweg-tensor
