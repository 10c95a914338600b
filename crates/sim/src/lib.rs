//! What a training step costs on a cluster before anybody pays for it: time, memory, idle share, bytes and price of a
//! plan, and the search for the best one.
//!
//! | module | holds |
//! |---|---|
//! | `cluster` | devices, links and prices, read from a file |
//! | `model` | a GPT by its sizes: parameters, operations, activations |
//! | `schedule` | pipeline schedules as lists of actions, and the check that they neither deadlock nor hold too much |
//! | `events` | runs the lists against a clock |
//! | `estimate` | a plan's costs |
//! | `chance` | uneven devices and failures, from a seed |
//! | `search` | all plans, the best first |
//! | `step` | regions and exchanges of a real program |
//!
//! Everything is a pure function; the crate knows no tensors and opens no files.

mod chance;
mod cluster;
mod estimate;
mod events;
mod model;
mod schedule;
mod search;
mod step;

pub use chance::{Run, run_with_failures, uneven};
pub use cluster::{Cluster, Level, Per, clusters};
pub use estimate::{Estimate, Plan, Recompute, estimate, estimate_among};
pub use events::{Span, Timeline, run};
pub use model::Gpt;
pub use schedule::{Action, Kind, Part, Schedule, generate, verify};
pub use search::{Limits, search};
pub use step::{Bits, Exchange, Pattern, Region};

/// What is wrong with a description or a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Error {}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
