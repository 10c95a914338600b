//! The inference server: exported models behind the Open Inference Protocol (KServe v2) over REST and gRPC and behind
//! TensorFlow Serving's REST predict, with dynamic batching under a latency target.
//!
//! ```text
//! client ─ listen ─ guard ─ http / grpc ─ app ─ engine ─ batcher
//!          sockets  keys,   wire formats  find  one      pure state machine:
//!          and TLS  traces                and   thread   what runs next, at which size
//!                                         admit
//! ```
//!
//! Decisions are pure ([`batcher`]), execution has one thread and no lock ([`engine`]), everything else is I/O.

pub mod app;
pub mod batcher;
pub mod cache;
pub mod client;
pub mod cost;
pub mod engine;
mod failure;
mod grpc;
mod guard;
pub mod http;
pub mod listen;
pub mod load;
pub mod metrics;
mod openapi;
pub mod peers;
pub mod pin;
mod pipeline;
pub mod proto;
pub mod repository;
mod rest;
mod served;
pub mod wire;

pub use app::{App, Options};
pub use failure::{Answered, Failure, Kind};
pub use guard::Keys;
pub use listen::Server;
pub use peers::Peers;
pub use repository::{Keep, Refresh, Repository, Selector};
pub use served::{Executable, Run, Served};
