//! Running graphs: the device trait, the engine with its plan cache, and the reference that
//! everything fast is tested against.

mod backend;
mod complex_io;
mod device;
mod engine;
mod explain;
pub mod interrupt;
mod kept;
mod lift_constants;
pub mod log;
mod logical;
mod numerics;
mod placed;
mod placement;
mod profile;
pub mod reference;
pub mod trace;
mod work;

pub use backend::{Backend, devices, open, open_offline};
pub use device::{Device, DeviceShare, Memory, Program, Speed};
pub use engine::{Engine, FindEngine, Reference, Revision, note_assigned};
pub use explain::{describe, explain};
pub use inventory; // a device outside of this repository offers itself with `inventory::submit!`
pub use logical::{
    LogicalDevice, is_divided, is_logical, logical_devices, logical_names, logical_revision, parse_bytes,
    set_logical_devices,
};
pub use numerics::check_numerics;
pub use passes::MemoryUse;
pub use placed::{Placed, compile_placed};
pub use placement::{Origins, Placement, Placing, place_of, place_with, placement, placing};
pub use profile::{Profile, Share, profile};
pub use work::{Exchanged, RegionWork, Work, work};
