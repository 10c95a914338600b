//! Training runs: checkpoints that survive crashes.

mod checkpoint;
mod folder;

pub use checkpoint::Checkpoint;
pub use folder::{Checkpoints, Goal, Loaded};
