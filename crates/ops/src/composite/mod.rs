//! Composites: ops made of other ops; devices may claim them.

crate::table! {
    relu,
    stop_gradient,
}
