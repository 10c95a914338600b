//! talweg-runtime
