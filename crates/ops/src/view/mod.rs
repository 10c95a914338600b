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

/// The attributes of a view that states the shape of its result, for parts.
fn to_shape(c: &ir::Call, _: &[ir::Type], outs: &[ir::Shape]) -> ir::Result<ir::Attrs> {
    Ok(c.attrs.clone().set("shape", &outs[0]))
}
