//! Training on several processes: the crate `parallel`, and the job that this program was started for.
//!
//! The job is joined when it is first needed. This is the only place that holds one for the whole process; a program
//! that wants several makes them itself ([`Job::join`]) and enters them ([`Job::scope`]).

pub use parallel::*;

use crate::{Error, Result};
use std::sync::{Arc, OnceLock};
use tensor::{AmbientMesh, MeshScope};

static JOB: OnceLock<Result<Arc<Job>>> = OnceLock::new();

inventory::submit! {
    Ambient(|| match JOB.get_or_init(|| Job::from_env().map(Arc::new)) {
        Ok(job) => Ok(job.clone()),
        Err(e) => Err(Error { message: format!("joining the other workers: {}", e.message), ..e.clone() }),
    })
}

static MESH_SCOPE: OnceLock<Result<Option<Arc<MeshScope>>>> = OnceLock::new();

inventory::submit! {
    AmbientMesh(|| MESH_SCOPE.get_or_init(mesh_from_env).clone())
}

/// The program ends: tells the launcher, if it has joined a job.
pub fn leave() {
    if let Some(Ok(job)) = JOB.get() {
        job.leave();
    }
}
