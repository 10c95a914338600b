//! talweg-passes
