//! talweg-cpu
