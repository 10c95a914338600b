//! Distribution: the parameter store with its consistency rules, and how it survives crashes.
//!
//! Decisions are made by state machines ([`Partition`], [`Client`]) that are told what arrived
//! and say what to send; they read no clock and do no input or output, so the seeded simulation
//! of `net::sim` runs the very code that serves real sockets.
//!
//! This crate knows no tensors: a table is rows of `f32`, and how it is updated is the
//! [`Apply`] that the caller brings.

mod apply;
mod client;
pub mod collective;
mod consistency;
mod coordinator;
mod disk;
mod error;
mod etcd;
mod filter;
mod host;
mod keys;
pub mod launch;
mod lookout;
mod map;
mod membership;
pub mod merge;
mod mesh;
mod message;
mod orphan;
mod overlap;
mod partition;
pub mod pulse;
mod record;
mod reduce;
mod registry;
mod remote;
mod replica;
mod roster;
mod rows;
mod snapshot;
mod spare;
mod take_up;
mod teller;
mod wire;

pub use apply::{Add, Apply, Target};
pub use client::{Client, Table};
pub use consistency::{Consistency, Reads, Rule};
pub use coordinator::{Coordinator, SILENCE};
pub use disk::{Disk, Journal, Kept, Position};
pub use error::{Error, Result};
pub use filter::Filter;
pub use host::{AWAY_MAX, Host, HostOptions};
pub use map::{Map, Server, Worker};
pub use membership::{Center, Cluster, Hung, Meeting, Membership, Registrar, keep};
pub use message::{Clocks, Envelope, Message, Peer, Record, Rows, Update};
pub use net::{Address, Hello, NAME as TLS_NAME, Secret};
pub use overlap::Overlap;
pub use partition::{Counters, Outbox, Partition};
pub use reduce::{Give, Reducer};
pub use registry::{Answer, Answers, Ask, Caller, Change, Registry};
pub use remote::Store;
pub use roster::{Members, Roster, leave_key, left_key, server_key, worker_key};
pub use snapshot::{SavedBlock, Saver, Saving, Snapshot};
pub use spare::{List, Pooled};
pub use teller::{FOREVER, Teller};
pub use wire::Parts;
