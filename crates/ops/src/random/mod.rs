//! Random draws from explicit keys.

crate::table! {}
