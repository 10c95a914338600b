//! Training runs: the loop around a step, and checkpoints that survive crashes.

mod checkpoint;
mod folder;
mod parts;
mod report;
mod saving;
mod trainer;

pub use checkpoint::Checkpoint;
pub use folder::{Checkpoints, Goal, Loaded};
pub use parts::{Stored, write_part};
pub use report::{Outcome, Progress, Report, Silent, Stop};
pub use saving::Owed;
pub use trainer::{Metrics, Trainer};
