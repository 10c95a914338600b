//! State and the three faces of one graph: variables, `Session::run` with feeds and fetches,
//! `jit`, and files.
//!
//! Imperative code needs none of this but [`Variable`]: tensors compute themselves when looked at.

mod bind;
mod blocks;
mod cost;
mod exported;
pub mod files;
mod jit;
mod mesh;
mod pipeline;
mod placing;
mod plan;
mod rehearse;
mod search;
mod session;
mod trace;
mod variable;

#[cfg(test)]
use cpu as _;

pub use blocks::{BlockFile, Blocks, FileBlock, OnDisk, Ranges, decode_layout, encode_layout};
pub use exported::{Exported, ExportedInput};
pub use files::{load, load_npy, save, save_npy};
pub use ir::Mesh;
pub use ir::Setting;
pub use jit::{Jit, Traces, jit};
pub use mesh::{AmbientMesh, MeshScope, blocks_of, current_mesh, report, with_mesh};
pub use ops::*;
pub use passes::partition::{Inserted, Step};
pub use plan::{PIPE, Plan};
pub use runtime::log;
pub use runtime::{Placed, Profile, Program, check_numerics, profile};
pub use search::{Ranks as RanksOfMesh, Search};
pub use session::{Fetch, Session, placeholder};
pub use trace::{assignments, is_tracing, note_effect};
pub use variable::{Update, Variable};
