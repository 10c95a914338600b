//! The inference server: exported models behind the Open Inference Protocol (KServe v2) over REST and gRPC and behind
//! TensorFlow Serving's REST predict, with dynamic batching under a latency target.
//!
//! ```text
//!                   ┌──────── connection ───────┐
//!                   │    REST inference         │
//! client ─ listen ──┴─ hyper ─ guard ─ http/grpc ┴─ app ─ engine ─ batcher
//!          sockets             keys,   wire         find  one      pure state machine:
//!          and TLS             traces  formats      and   thread   what runs next, at which size
//!                                                   admit
//! ```
//!
//! Decisions are pure ([`batcher`], [`margin`]), execution has one thread and no lock ([`engine`]), everything else is I/O.
//! The answer to a request that is alone goes straight from the engine to the socket.

pub mod answer;
pub mod app;
mod attended;
pub mod batcher;
pub mod cache;
pub mod client;
mod connection;
pub mod cost;
mod direct;
pub mod engine;
mod failure;
mod grpc;
mod guard;
mod head;
pub mod http;
pub mod input;
pub mod listen;
pub mod load;
pub mod margin;
pub mod metrics;
mod openapi;
mod packing;
pub mod peers;
pub mod pin;
mod pipeline;
mod programs;
pub mod proto;
pub mod regions;
mod reply;
pub mod repository;
mod rest;
mod served;
mod stamped;
pub mod ticket;
pub mod wire;
mod write_timeout;

pub use app::{App, Options};
pub use failure::{Answered, Failure, Kind};
pub use guard::Keys;
pub use listen::Server;
pub use peers::Peers;
pub use repository::{Keep, Refresh, Repository, Selector};
pub use served::{Executable, Run, Served};
