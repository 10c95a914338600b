//! talweg-ir
