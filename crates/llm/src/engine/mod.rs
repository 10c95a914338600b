//! What serves many requests from one model. The KV cache's blocks and the scheduler are pure state machines; time,
//! tokens and failures come in as arguments, so that seeded simulations run the code that serves.

mod admission;
mod blocks;
mod core;
mod draft;
mod generation;
mod guided;
mod handle;
mod pace;
mod runner;
mod scheduler;
mod stats;

pub use admission::Admission;
pub use blocks::{BlockHash, BlockId, BlockPool, prefix_hashes};
pub use core::{Engine, Options, cache_type};
pub use generation::{Event, Generation, Reason, Sink, Usage};
pub use handle::{Events, Handle, Refused, Ticket};
pub use runner::{Batch, CacheSizes, Chosen, Runner};
pub use scheduler::{Config, Finish, Request, RequestId, Scheduler, Sequence, Step, Work};
pub use stats::{Histogram, Stats};
