//! Kernels that move elements by index: gathering, scattering, sorting, scanning.

crate::table! {}
