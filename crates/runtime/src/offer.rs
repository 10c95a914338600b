//! The devices that are linked into the program. A device crate offers itself; nobody above it
//! has to name it, so the language does not wait for a device to compile.
//!
//! A program of the façade has the CPU. A program of the inner crates alone, such as one of their
//! documentation tests, names a device crate (`use talweg_cpu as _;`) or runs on the reference.

use crate::{Device, Reference};
use std::sync::Arc;

/// What a device crate says about itself with `inventory::submit!`.
pub struct Offer {
    /// Which kind of device: `cpu`.
    pub kind: &'static str,
    /// Opens it.
    pub open: fn() -> Arc<dyn Device>,
}
inventory::collect!(Offer);

/// The device that computes tensors: the CPU where it is linked, else the reference.
pub fn default_device() -> Arc<dyn Device> {
    match inventory::iter::<Offer>().find(|o| o.kind == "cpu") {
        Some(offer) => (offer.open)(),
        None => Arc::new(Reference),
    }
}
