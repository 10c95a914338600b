//! Running graphs: the device trait, the engine with its plan cache, and the reference that
//! everything fast is tested against.

mod device;
mod engine;
mod hoist;
pub mod interrupt;
mod numerics;
mod offer;
mod pair;
mod places;
mod profile;
pub mod reference;
pub mod trace;

pub use device::{Device, Memory, Program};
pub use engine::{Engine, Find, Reference, Revision, note_assigned};
pub use inventory; // a device outside of this repository offers itself with `inventory::submit!`
pub use numerics::check_numerics;
pub use offer::{Offer, devices, open};
pub use places::{Placement, place_of, placement};
pub use profile::{Profile, Share, profile};
