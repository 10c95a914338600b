//! Kernels: ops with a slow obvious reference that devices claim.

crate::table! {
    concat,
    matmul,
    pad,
}
