//! What can go wrong between processes.

/// Why a distributed operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The link failed.
    #[error(transparent)]
    Net(#[from] net::Error),
    /// The caller asked for something that makes no sense.
    #[error("{0}")]
    Value(String),
    /// A message that a correct peer would not send.
    #[error("refused: {0}")]
    Refused(String),
    /// The deadline passed.
    #[error("the deadline passed while {0}")]
    Deadline(String),
    /// Data is gone: every copy was on processes that died.
    #[error("lost: {0}")]
    Lost(String),
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error about what the caller gave.
    pub fn value(text: impl Into<String>) -> Error {
        Error::Value(text.into())
    }
    /// An error about what a peer sent.
    pub fn refused(text: impl Into<String>) -> Error {
        Error::Refused(text.into())
    }
    /// True if a deadline passed, wherever it was watched.
    pub fn is_late(&self) -> bool {
        matches!(self, Error::Deadline(_) | Error::Net(net::Error::Deadline(_)))
    }
    /// True if another process is gone, or what only it knew.
    pub fn is_lost(&self) -> bool {
        matches!(self, Error::Lost(_) | Error::Net(net::Error::Gone(_)))
    }
    /// True if a peer said something that a correct one would not.
    pub fn is_refused(&self) -> bool {
        matches!(self, Error::Refused(_) | Error::Net(net::Error::Refused(_)))
    }
    /// Names what was attempted when the operating system said no.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}
