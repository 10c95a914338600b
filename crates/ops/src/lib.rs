//! talweg-ops
