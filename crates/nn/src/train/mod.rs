//! Training runs: the loop around a step, and checkpoints that survive crashes.

mod blocks;
mod checkpoint;
mod folder;
mod job;
mod parts;
mod records;
mod report;
mod run;
mod saving;
mod trainer;

pub use blocks::InBlocks;
pub use checkpoint::Checkpoint;
pub use folder::{Checkpoints, Goal, Loaded};
pub use parts::{Stored, write_part};
pub use records::Records;
pub use report::{Outcome, Progress, Report, Silent, Stop};
pub use run::{At, Event, Every, Facts, Length, Next, Plan, Question, Run, Task};
pub use saving::Residuals;
pub use trainer::{Metrics, Trainer};
