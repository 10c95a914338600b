//! talweg
