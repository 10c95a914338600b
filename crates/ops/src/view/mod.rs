//! Views: the same elements seen through other strides; they cost nothing when run.

crate::table! {
    broadcast,
    diagonal,
    flip,
    permute,
    reshape,
    slice,
    unfold,
}
