//! Distribution: the parameter store with its consistency rules, membership, collectives and the
//! launcher.
//!
//! | module | holds |
//! |---|---|
//! | `membership` | the key-value store with leases, the controller that publishes views and maps, sessions, embedded or in etcd |
//! | `store` | the parameter store: partitions, replication and recovery on servers, the worker's client |
//! | [`collective`] | all-reduce and the other collectives over a mesh of links, elastic or fixed |
//! | [`launch`] | starts the processes of a job, watches them and replaces lost ones |
//!
//! Decisions are made by state machines ([`Partition`], [`Client`], [`Kv`], [`Controller`]): they
//! take messages and return messages, read no clock and do no I/O. The seeded simulation of
//! `net::sim` therefore runs the same code that serves real sockets.
//!
//! This crate knows no tensors: a table is rows of `f32`, and the caller's [`Apply`] updates it.

pub mod collective;
mod error;
mod filter;
mod kinds;
pub mod launch;
mod membership;
pub mod merge;
mod pool;
mod store;

pub use collective::{Give, Overlap, Reducer};
pub use error::{Error, Result};
pub use filter::Filter;
pub use membership::controller::{Controller, View, leave_key, left_key, server_key, worker_key};
pub use membership::coordinator::{EmbeddedCoordinator, LEASE_TIMEOUT};
pub use membership::kv::{KeyEvent, Kv, Replies, Reply, Request, SessionId};
pub use membership::publisher::{FOREVER, Publisher};
pub use membership::status;
pub use membership::{Cluster, Coordinator, Endpoint, Expired, Member, Transport, coordinate};
pub use net::{Address, Hello, NAME as TLS_NAME, Secret};
pub use pool::{Pooled, PooledVec};
pub use store::apply::{Add, Apply, Target};
pub use store::client::{Client, Table};
pub use store::consistency::{Consistency, Reads, Rule};
pub use store::map::{Map, ServerId, WorkerId};
pub use store::message::{Clocks, Envelope, Message, Peer, Record, Rows, Update};
pub use store::server::disk::{Disk, Journal, Kept, Position};
pub use store::server::partition::{Counters, Outbox, Partition};
pub use store::server::snapshot::{SavedBlock, Saver, Snapshot};
pub use store::server::{AWAY_MAX, ServerOptions, StoreServer};
pub use store::wire::Parts;
pub use store::worker::Store;
pub use store::worker::checkpoint::Saving;
