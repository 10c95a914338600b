//! The parameter store: tables of `f32` rows, cut into blocks, hashed to replicated partitions.
//!
//! `server` holds partitions (primary or backup), `worker` is the client that training uses. Both
//! speak [`message`]s about partitions that the [`map`] of an epoch places on servers.

pub(crate) mod apply;
pub(crate) mod client;
mod codec;
pub(crate) mod consistency;
pub(crate) mod keys;
pub(crate) mod map;
pub(crate) mod message;
pub(crate) mod server;
pub(crate) mod wire;
pub(crate) mod worker;
