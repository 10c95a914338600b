//! The communicator of a job: joined at the first collective, given up at the first error.

use crate::group::Members;
use crate::status::{Counters, failed, kind, lock};
use crate::under_way::UnderWay;
use dist::collective::{
    Backend, Closer, Communicator, Element, Group, JoinOptions, Mesh, MeshCommunicator, Operation, Signature,
};
use dist::launch::{WorkerConfig, listen_toward};
use dist::{Member, collective};
use ir::{Job, Pending};
use nn::parallel::setting;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tensor::{DType, Error, Result};

/// Names the back end of collectives; `embedded` if it is not set.
const BACKEND: &str = "TALWEG_COLLECTIVES";
/// How long a call waits if `TALWEG_TIMEOUT` does not say so.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);

/// Why nothing is exchanged any more.
const ABANDONED: &str = "a step of this rank failed, and the other ranks do not know which values it still has";

/// What joins this process, or one of its threads, to other ranks.
pub(crate) struct Comm {
    pub rank: usize,
    pub world: usize,
    state: Mutex<State>,
    /// Ends what is under way.
    closer: Mutex<Option<Closer>>,
    /// Whether this rank has given up.
    is_abandoned: AtomicBool,
    counters: Arc<Counters>,
    /// Exchanges that go on while the process computes.
    under_way: UnderWay,
    /// The groups that are used, so that equal ones are the same to the plan cache.
    pub groups: Mutex<Vec<Weak<Members>>>,
}
enum State {
    New(Option<Join>),
    Ready(Box<dyn Communicator>),
    Failed(String),
}
type Join = Box<dyn FnOnce() -> Result<Box<dyn Communicator>> + Send>;

/// The back end that is asked for.
pub(crate) fn backend() -> Result<Backend> {
    let name = std::env::var(BACKEND).ok();
    name.map_or(Ok(Backend::default()), |n| n.parse()).map_err(|e| failed(e).in_op(BACKEND))
}
/// How long a call waits at most.
pub(crate) fn timeout() -> Result<Duration> {
    setting("TALWEG_TIMEOUT", TIMEOUT.as_secs()).map(Duration::from_secs)
}

impl Comm {
    fn new(rank: usize, world: usize, state: State, counters: Arc<Counters>) -> Arc<Comm> {
        let (under_way, groups, closer) = (UnderWay::default(), Mutex::default(), Mutex::default());
        let (state, is_abandoned) = (Mutex::new(state), AtomicBool::default());
        Arc::new(Comm { rank, world, state, closer, is_abandoned, counters, under_way, groups })
    }
    /// That of a process alone.
    pub fn alone() -> Arc<Comm> {
        Comm::new(0, 1, State::New(None), Arc::default())
    }
    /// That of a worker; it joins the others when it is first used.
    pub fn of_job(config: &WorkerConfig, member: Arc<Member>, counters: Arc<Counters>) -> Arc<Comm> {
        let (rank, world) = (config.rank as usize, config.world as usize);
        let (at, secret) = (config.coordinator.clone(), config.secret.clone());
        let join = move || {
            let (deadline, by) = (Instant::now() + timeout()?, backend()?);
            let options = || {
                let listen = listen_toward(&at.address()?)?;
                Ok(JoinOptions { rank, world, listen, member: member.duplicate(deadline)?, secret, deadline })
            };
            options().and_then(|o| collective::join(by, o)).map_err(failed)
        };
        Comm::new(rank, world, State::New(Some(Box::new(join))), counters)
    }
    /// Those of threads of this process.
    pub fn in_process(ranks: usize) -> Result<Vec<Arc<Comm>>> {
        let meshes = Mesh::in_process(ranks).map_err(failed)?;
        let comm = |(rank, mesh): (usize, Mesh)| {
            Comm::new(rank, ranks, State::Ready(Box::new(MeshCommunicator::new(mesh))), Arc::default())
        };
        Ok(meshes.into_iter().enumerate().map(comm).collect())
    }

    /// Runs a job on a thread of its own, after those that were started before.
    pub fn start(&self, job: Job) -> Box<dyn Pending> {
        self.under_way.start(job)
    }

    /// Ends what is under way, here and on the other ranks; nothing more is exchanged.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
        if let Some(close) = &*lock(&self.closer) {
            close();
        }
    }

    /// Runs one collective, after those that are under way.
    pub fn run<T>(
        &self,
        group: &Group,
        signature: Signature,
        element: Element,
        f: impl FnOnce(&mut dyn Communicator, &Operation) -> dist::Result<T>,
    ) -> Result<T> {
        self.under_way.wait_for_all();
        let mut state = lock(&self.state);
        if let State::New(join) = &mut *state {
            let join = join.take().ok_or_else(|| Error::bug("a single process has no peers to exchange with"))?;
            *state = join().map_or_else(|e| State::Failed(e.to_string()), State::Ready);
        }
        let communicator = match &mut *state {
            State::Ready(c) => c,
            State::Failed(e) => return Err(failed(dist::Error::Lost(format!("no more collectives after: {e}")))),
            State::New(_) => return Err(Error::bug("joined above")),
        };
        {
            let mut closer = lock(&self.closer);
            if closer.is_none() {
                *closer = communicator.closer().map_err(failed)?;
            }
        }
        if self.is_abandoned.load(Ordering::Acquire) {
            *state = State::Failed(ABANDONED.to_string());
            return Err(failed(dist::Error::Lost(ABANDONED.to_string())));
        }
        let operation = Operation { group, signature, element, deadline: Instant::now() + timeout()? };
        self.counters.collective(|| f(&mut **communicator, &operation)).map_err(|e| {
            let kind = kind(&e);
            let e = format!("over ranks {:?}: {e}", group.ranks());
            *state = State::Failed(e.clone());
            Error::new(kind, e)
        })
    }
}

/// A tensor's elements as collectives know them.
pub(crate) fn element(dtype: DType) -> Result<Element> {
    Ok(match dtype {
        DType::F32 => Element::F32,
        DType::F64 => Element::F64,
        DType::BF16 => Element::Bf16,
        DType::F16 => Element::F16,
        DType::I8 => Element::I8,
        DType::I16 => Element::I16,
        DType::I32 => Element::I32,
        DType::I64 => Element::I64,
        DType::U8 | DType::Bool => Element::U8,
        DType::U16 => Element::U16,
        DType::U32 => Element::U32,
        DType::U64 => Element::U64,
        d if d.is_f8() => return Err(Error::dtype(format!("ranks do not exchange {dtype}: cast it to bf16"))),
        _ => return Err(Error::dtype(format!("ranks do not exchange {dtype}: send its parts with view_as_real"))),
    })
}
