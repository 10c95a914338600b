//! Control flow: sub-graphs that run conditionally or repeatedly.

crate::table! {}
