//! Training on several processes: what `talweg launch` makes of a program that knows nothing of it.
//!
//! A [`Job`] is an object: it joins this process, or one thread of it, to the other workers. Inside of
//! [`Job::scope`] an optimizer's gradients become the mean over all workers (the op `mean_over_workers`, or, where
//! they are many, two ops that begin and end it while the rest is computed), or the optimizer's whole step moves to
//! the parameter store (the op `step_in_store`). Both are nodes of the graph like any other, so imperative code,
//! `jit` and sessions need nothing special. The nodes hold the job; there is no process-wide state.
//!
//! | module | holds |
//! |---|---|
//! | `job` | joining, and what training asks of a job ([`nn::parallel::Job`]) |
//! | `exchange` | the mean of gradients and the step in the store, as ops run them |
//! | `group`, `comm`, `under_way` | collectives on tensors, the communicator that carries them, and those that go on meanwhile |
//! | `mesh` | ranks as a mesh, over which jitted functions are cut |
//! | `table` | tables of the parameter store that a program uses itself |
//! | `update`, `server` | the server's side: update rules that workers ship, compiled and applied |
//! | `status` | what a worker says of itself while it runs |

mod agree;
mod comm;
mod exchange;
mod group;
mod job;
mod mesh;
mod part;
mod server;
mod status;
mod table;
mod under_way;
mod update;

pub use group::{Compressed, Group};
pub use job::{Job, ORIGIN, current};
pub use mesh::{
    MESH, PLAN, REPORT, SEARCH, mesh_from_env, mesh_in_process, mesh_of, plan_lines, read_plan, write_search,
};
pub use nn::parallel::*;
pub use server::{Rules, serve};
pub use status::failed as error;
pub use table::{Table, clock, staleness_counts, step, wait};
pub use tensor::collective::Wire;
pub use update::{Compiled, Pushed};

#[cfg(test)]
use cpu as _;
