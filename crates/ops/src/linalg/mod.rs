//! Linear algebra and transforms.

crate::table! {}
