//! What serves many requests from one model: the KV cache's blocks and the scheduler. Both are pure state machines;
//! time, tokens and failures come in as arguments, so that seeded simulations run the code that serves.

mod blocks;
mod scheduler;

pub use blocks::{BlockHash, BlockId, BlockPool, prefix_hashes};
pub use scheduler::{Config, Finish, Request, RequestId, Scheduler, Sequence, Step, Work};
