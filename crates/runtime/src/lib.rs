//! Running graphs: the device trait, the engine with its plan cache, and the reference that
//! everything fast is tested against.

mod backend;
mod complex_io;
mod device;
mod engine;
mod explain;
pub mod interrupt;
mod lift_constants;
pub mod log;
mod numerics;
mod placement;
mod profile;
pub mod reference;
pub mod trace;
mod work;

pub use backend::{Backend, devices, open, open_offline};
pub use device::{Device, Memory, Program};
pub use engine::{Engine, FindEngine, Reference, Revision, note_assigned};
pub use explain::{describe, explain};
pub use inventory; // a device outside of this repository offers itself with `inventory::submit!`
pub use numerics::check_numerics;
pub use passes::MemoryUse;
pub use placement::{Placement, place_of, placement};
pub use profile::{Profile, Share, profile};
pub use work::{Exchanged, RegionWork, Work, work};
