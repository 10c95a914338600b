//! Composites that rearrange elements.

crate::table! {}
