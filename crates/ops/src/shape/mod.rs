//! Rearrangements that users know by name, made of views, concat and pad.

crate::table! {
    flatten,
    squeeze,
    unflatten,
    unsqueeze,
}
