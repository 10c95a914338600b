//! talweg-nn
