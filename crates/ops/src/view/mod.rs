//! Views: the same elements seen through other strides; they cost nothing when run.

crate::table! {
    broadcast,
    flip,
    permute,
    reshape,
    slice,
}
