//! What can go wrong on a link.

use std::io;

/// Why a link could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The deadline passed first.
    #[error("the deadline passed while {0}")]
    Deadline(&'static str),
    /// The other end is gone: it closed the connection, was killed, or the network reset it.
    #[error("the peer is gone: {0}")]
    Gone(String),
    /// What arrived is not a message of this protocol.
    #[error("refused: {0}")]
    Refused(String),
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Sorts an error of a read or write on a socket into a deadline, a lost peer or another.
    pub(crate) fn of(e: io::Error, doing: &'static str) -> Error {
        use io::ErrorKind::*;
        match e.kind() {
            WouldBlock | TimedOut => Error::Deadline(doing),
            UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected | ConnectionRefused => {
                Error::Gone(e.to_string())
            }
            InvalidData => Error::Refused(e.to_string()),
            _ => Error::Io { what: doing.to_string(), source: e },
        }
    }
    /// True if the other end is gone, as opposed to slow or wrong.
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Gone(_))
    }
}
