//! Moving bytes between processes: fixed frames over links, with a deadline on everything.
//!
//! A [`Header`] of 64 bytes goes before each payload; both are bounded before a byte is trusted.
//! A [`Connection`] is a TCP or Unix socket whose ends have proved that they know the same
//! [`Secret`], or that hold certificates of one authority and speak TLS; between processes of one
//! machine the bytes go through shared memory beside the socket. Between machines every frame is
//! authenticated, by the secret or by TLS. [`Connection::pair`] connects two threads of one process the same way. The
//! [`sim`] module carries the same messages through a seeded simulation of a bad network.
//!
//! This crate knows no tensors, no servers and no workers.

mod address;
mod auth;
mod callers;
mod connection;
mod error;
mod frame;
mod pump;
mod seal;
mod shared;
pub mod sim;
mod stream;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

pub use address::Address;
pub use auth::{Hello, Secret};
pub use callers::HANDSHAKES_MAX;
pub use connection::{Connection, Listener, Pending, Receiver, Sender, TOGETHER};
pub use error::{Error, Result};
pub use frame::{HANDSHAKE_KINDS, HEADER_BYTES, Header, PAYLOAD_MAX, VERSION};
pub use pump::Pump;
pub use shared::copy_past_caches;
pub use tls::NAME;
