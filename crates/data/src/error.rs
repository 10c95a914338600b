//! What can go wrong with data, in words that say what was expected and what
//! came.
//!
//! Every variant that concerns a file names it. Nothing here panics on bad
//! input: a panic in this crate is a bug of this crate.

use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a data set, loader or record file could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused: missing file, full disk, no permission.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `read`, `write`, `list`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },

    /// A file is there but its content is not what its format promises.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected and what came.
        what: String,
    },

    /// One cell of a table does not fit its column.
    #[error("{}: line {line}, column {column}: expected {expected}, found {found}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// Line in the file (tables with lines) or row number, from 1.
        line: u64,
        /// The column's name, or its number when there is no header.
        column: String,
        /// What the column promises.
        expected: String,
        /// What stands there, quoted.
        found: String,
    },

    /// A sample beyond the end of its data set was asked for.
    #[error("sample {index} does not exist: the data set has {len}")]
    OutOfRange {
        /// The index asked for.
        index: usize,
        /// How many samples there are.
        len: usize,
    },

    /// A label does not name one of the classes.
    #[error("label {label} of sample {index} is out of range: {classes} classes are 0 to {}", classes.saturating_sub(1))]
    Label {
        /// The sample.
        index: usize,
        /// Its label.
        label: i64,
        /// How many classes there are.
        classes: usize,
    },

    /// A sample failed while the loader assembled a batch.
    #[error("epoch {epoch}, batch {batch}, sample {index}: {source}")]
    Sample {
        /// Epoch, from 0.
        epoch: u64,
        /// Batch within the epoch, from 0.
        batch: u64,
        /// Index of the sample in the data set.
        index: usize,
        /// What happened to it.
        source: Box<Error>,
    },

    /// Samples that were read one by one could not be put into one batch.
    #[error("epoch {epoch}, batch {batch}: {source}")]
    Batch {
        /// Epoch, from 0.
        epoch: u64,
        /// Batch within the epoch, from 0.
        batch: u64,
        /// Why they do not fit together.
        source: Box<Error>,
    },

    /// The code of a data set panicked in a worker.
    #[error("the data set panicked: {0}")]
    Panic(String),

    /// Values, shapes or settings that do not fit together.
    #[error("{0}")]
    Mismatch(String),

    /// Data that must be fetched first; the text says how.
    #[error("{what} not found.\n{hint}")]
    Missing {
        /// What was looked for.
        what: String,
        /// Where it was looked for and how to get it.
        hint: String,
    },
}

impl Error {
    /// An I/O error at `path`.
    pub fn io(action: &'static str, path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Error::Io { action, path: path.as_ref().to_path_buf(), source }
    }

    /// Content that does not follow its format.
    pub fn format(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Error::Format { path: path.as_ref().to_path_buf(), what: what.into() }
    }

    /// Things that do not fit together.
    pub fn mismatch(what: impl Into<String>) -> Self {
        Error::Mismatch(what.into())
    }
}

/// So that `?` works in programs that compute with what they read.
impl From<Error> for ir::Error {
    fn from(error: Error) -> ir::Error {
        let kind = match &error {
            Error::Io { .. } => ir::ErrorKind::Io,
            Error::Format { .. } => ir::ErrorKind::Format,
            _ => ir::ErrorKind::Value,
        };
        ir::Error::new(kind, error.to_string())
    }
}

/// Cell content for messages: quoted, and short even if the cell is not.
pub(crate) fn quote(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}
