//! JoinOptions the ranks of a job for collectives, by whichever back end is asked for.

use super::{Communicator, Mesh, MeshCommunicator};
use crate::collective::mesh::{Acceptor, links};
use crate::membership::Member;
use crate::membership::controller::View;
use crate::membership::coordinator::cut_max;
use crate::{Error, Result};
use net::{Address, Secret};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How often it is asked whether the others are still those who were called.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long to wait before calling again who did not answer.
const CALL_AGAIN: Duration = Duration::from_millis(50);

/// What a back end needs to know to join this process to the others.
pub struct JoinOptions {
    /// Number of this process.
    pub rank: usize,
    /// How many there are.
    pub world: usize,
    /// Where to listen.
    pub listen: Address,
    /// A line to the membership store.
    pub member: Member,
    /// What proves the processes to each other.
    pub secret: Option<Secret>,
    /// When it is given up.
    pub deadline: Instant,
}

/// Who carries collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The links of this crate.
    #[default]
    MeshCommunicator,
    /// MPI, which must have started the processes.
    Mpi,
    /// NCCL between GPUs, of which each rank has its own; values on the host go over the links.
    Nccl,
}

impl std::str::FromStr for Backend {
    type Err = Error;
    fn from_str(name: &str) -> Result<Backend> {
        match name {
            "embedded" => Ok(Backend::MeshCommunicator),
            "mpi" => Ok(Backend::Mpi),
            "nccl" => Ok(Backend::Nccl),
            _ => Err(Error::value(format!("collectives are carried by embedded, mpi or nccl, not by {name:?}"))),
        }
    }
}

/// Joins this process to the others.
pub fn join(by: Backend, j: JoinOptions) -> Result<Box<dyn Communicator>> {
    match by {
        Backend::MeshCommunicator | Backend::Nccl => embedded(j),
        #[cfg(feature = "mpi")]
        Backend::Mpi => Ok(Box::new(super::Mpi::join(j.rank, j.world)?)),
        #[cfg(not(feature = "mpi"))]
        Backend::Mpi => Err(Error::value("this program was built without MPI: build it with the feature `mpi`")),
    }
}

fn key(rank: usize) -> String {
    format!("collectives/{rank}")
}

/// A number for processes at these addresses: who is started again has another.
fn epoch(workers: &[(u32, String)]) -> u64 {
    let bytes = workers.iter().flat_map(|(_, a)| a.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)) | 1
}

/// Links every process to every other.
fn embedded(j: JoinOptions) -> Result<Box<dyn Communicator>> {
    let (acceptor, address) = Acceptor::open(&j.listen, j.secret.clone())?;
    j.member.lease(&key(j.rank), address.to_string().as_bytes(), j.deadline)?;
    loop {
        let mut workers = Vec::with_capacity(j.world);
        for r in 0..j.world {
            let (_, text) = j.member.wait(&key(r), 0, j.deadline).map_err(|e| missing(r, j.world, e))?;
            workers.push((r as u32, String::from_utf8_lossy(&text).into_owned()));
        }
        let view = View { epoch: epoch(&workers), workers };
        match form(&j, &view, &acceptor) {
            Ok(group) => return Ok(Box::new(MeshCommunicator::new(group).with_line(j.member))),
            Err(e) if Instant::now() >= j.deadline => return Err(e),
            // A member was restarted, or is not there yet: read the group again.
            Err(_) => std::thread::sleep(CALL_AGAIN),
        }
    }
}

fn missing(rank: usize, world: usize, e: Error) -> Error {
    match e {
        Error::Deadline(_) => Error::Deadline(format!(
            "waiting for rank {rank} of {world} to call its first collective: every rank must call the same ones"
        )),
        Error::Net(net::Error::Deadline(_)) => missing(rank, world, Error::Deadline(String::new())),
        e => e,
    }
}

fn form(j: &JoinOptions, view: &View, acceptor: &Acceptor) -> Result<Mesh> {
    let (asked, changed) = (Cell::new(Instant::now()), Cell::new(false));
    let is_over = || {
        if asked.get().elapsed() > LOOK_AGAIN {
            asked.set(Instant::now());
            let is_there = |(r, a): &(u32, String)| {
                let now = j.member.get(&key(*r as usize), j.deadline);
                now.is_ok_and(|(_, text)| text.as_deref() == Some(a.as_bytes()))
            };
            changed.set(!view.workers.iter().all(is_there));
        }
        changed.get()
    };
    let (me, links) = links(view, j.rank as u32, acceptor, j.secret.as_ref(), j.deadline, &is_over)?;
    links.iter().flatten().try_for_each(|l| l.detect_loss(cut_max()))?;
    let mut group = Mesh::new(me, view.epoch, links)?;
    group.barrier(j.deadline)?;
    Ok(group)
}
