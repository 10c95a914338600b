//! State and the three faces of one graph: variables, `Session::run` with feeds and fetches,
//! `jit`, and files.
//!
//! Imperative code needs none of this but [`Variable`]: tensors compute themselves when looked at.

mod bind;
mod exported;
pub mod files;
mod jit;
mod session;
mod trace;
mod variable;

#[cfg(test)]
use cpu as _;

pub use exported::{Exported, ExportedInput};
pub use files::{load, load_npy, save, save_npy};
pub use ir::Setting;
pub use jit::{Jit, Traces, jit};
pub use ops::*;
pub use runtime::log;
pub use runtime::{Profile, Program, check_numerics, profile};
pub use session::{Fetch, Session, placeholder};
pub use trace::{assignments, is_tracing, note_effect};
pub use variable::{Update, Variable};
