//! The one error type, and the source line it names.

use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;

/// A line of the user's program.
#[derive(Clone, Copy)]
pub struct Site {
    /// File as the compiler or the interpreter names it.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 where unknown.
    pub column: u32,
    /// Whether a node of this line came about by differentiation. Neither compared nor stored in files.
    pub is_gradient: bool,
    /// Where a node of this line is to be computed, as a number that [`crate::set_place`] was given; 0 is anywhere.
    /// Gradients are computed where their forward op is. Neither compared nor stored in files.
    pub place: u32,
    /// The op that a node belongs to: what it is expanded to and what differentiation makes of it have its number; 0 is
    /// unknown. Neither compared nor stored in files.
    pub origin: u32,
}

impl PartialEq for Site {
    fn eq(&self, other: &Site) -> bool {
        (self.line, self.column, self.file) == (other.line, other.column, other.file)
    }
}
impl Eq for Site {}
impl Hash for Site {
    fn hash<H: Hasher>(&self, h: &mut H) {
        (self.file, self.line, self.column).hash(h);
    }
}

thread_local! {
    static SITE: Cell<Option<Site>> = const { Cell::new(None) };
}

impl Site {
    /// No known line: nodes read from a file.
    pub const UNKNOWN: Site = Site::new("", 0, 0);

    /// A line of the program.
    pub const fn new(file: &'static str, line: u32, column: u32) -> Site {
        Site { file, line, column, is_gradient: false, place: 0, origin: 0 }
    }
    /// The same line, for what comes about by differentiation.
    #[must_use]
    pub fn of_gradient(self) -> Site {
        Site { is_gradient: true, ..self }
    }

    /// The caller's line, or the one set by [`Site::scope`].
    #[track_caller]
    pub fn here() -> Site {
        // Not in a closure: a closure would be its own caller.
        if let Some(site) = SITE.get() {
            return site;
        }
        let l = Location::caller();
        Site::new(l.file(), l.line(), l.column())
    }

    /// Runs `f` with every node it makes attributed to this line: gradients carry the line of
    /// their forward op, Python calls the line of the Python program.
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<Site>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SITE.set(self.0);
            }
        }
        let _restore = Restore(SITE.replace(Some(self)));
        f()
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file, self.column) {
            ("", _) => f.write_str("unknown line"),
            (file, 0) => write!(f, "{file}:{}", self.line),
            (file, column) => write!(f, "{file}:{}:{column}", self.line),
        }
    }
}
impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What sort of mistake an error is; `docs/errors.md` has a section for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Sizes or ranks that do not fit.
    Shape,
    /// Element types that do not fit.
    DType,
    /// An argument out of its range or not among the allowed words.
    Value,
    /// An index beyond the end.
    Index,
    /// A placeholder without a value, or a feed that does not fit.
    Feed,
    /// A gradient that does not exist.
    Gradient,
    /// Text or bytes that are not what they should be.
    Format,
    /// A file that cannot be read or written.
    Io,
    /// Another process of the job is gone, or what only it knew.
    Lost,
    /// Another process did not answer in time.
    Deadline,
    /// Another process said something that a correct one would not, or ranks disagree.
    Refused,
    /// A device that is missing or failed.
    Device,
    /// NaN or infinity where `check_numerics` forbids it.
    Numerics,
    /// A mistake of ours, not of the user's program.
    Bug,
}

/// Why a tensor has no value: what was expected, what came, and where.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// What sort of mistake.
    pub kind: ErrorKind,
    /// The op that found it, where one did.
    pub op: Option<String>,
    /// What was expected and what came.
    pub message: String,
    /// The user's line.
    pub site: Option<Site>,
}

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without op or line; the caller adds them.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, op: None, message: message.into(), site: None }
    }
    /// Shapes that do not fit.
    pub fn shape(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Shape, message)
    }
    /// Element types that do not fit.
    pub fn dtype(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::DType, message)
    }
    /// A bad argument.
    pub fn value(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Value, message)
    }
    /// An index out of range.
    pub fn index(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Index, message)
    }
    /// Malformed text or bytes.
    pub fn format(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Format, message)
    }
    /// A mistake of ours.
    pub fn bug(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Bug, message)
    }
    /// Names the op, unless one is named already: the first cause wins.
    pub fn in_op(mut self, op: &str) -> Error {
        self.op.get_or_insert_with(|| op.to_string());
        self
    }
    /// Names the line, unless one is named already.
    pub fn at(mut self, site: Site) -> Error {
        self.site.get_or_insert(site);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = &self.op {
            write!(f, "{op}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(site) = &self.site {
            write!(f, " (at {site})")?;
        }
        Ok(())
    }
}
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error::new(ErrorKind::Io, e.to_string())
    }
}
