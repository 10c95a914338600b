//! The line that carries collectives: joined at the first one, given up at the first error.

use super::pulse::{collective, kind};
use super::{failed, job, lock, setting};
use dist::collective::{
    Backend, Communicator, Element, Group, JoinOptions, Mesh, MeshCommunicator, Operation, Signature,
};
use dist::launch::listen_toward;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tensor::{DType, Error, Result};

/// Names the back end of collectives; `embedded` if it is not set.
const BACKEND: &str = "TALWEG_COLLECTIVES";
/// How long a call waits if `TALWEG_TIMEOUT` does not say so.
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);

/// What joins this process, or one of its threads, to other ranks.
pub(super) struct Line {
    pub rank: usize,
    pub world: usize,
    state: Mutex<State>,
}
enum State {
    New,
    Ready(Box<dyn Communicator>),
    Failed(String),
}

/// The back end that is asked for.
pub(super) fn asked() -> Result<Backend> {
    let name = std::env::var(BACKEND).ok();
    name.map_or(Ok(Backend::default()), |n| n.parse()).map_err(|e| failed(e).in_op(BACKEND))
}
/// How long a call waits at most.
pub(super) fn timeout() -> Result<Duration> {
    setting("TALWEG_TIMEOUT", TIMEOUT.as_secs()).map(Duration::from_secs)
}

impl Line {
    /// The line of this process.
    pub fn of_job() -> Result<Arc<Line>> {
        static LINE: OnceLock<Arc<Line>> = OnceLock::new();
        let place = job()?.map(|j| &j.place);
        let (rank, world) = place.map_or((0, 1), |p| (p.rank as usize, p.world as usize));
        Ok(LINE.get_or_init(|| Arc::new(Line { rank, world, state: Mutex::new(State::New) })).clone())
    }
    /// Lines of threads of this process.
    pub fn in_process(ranks: usize) -> Result<Vec<Arc<Line>>> {
        let links = Mesh::in_process(ranks).map_err(failed)?;
        let line = |(rank, g): (usize, Mesh)| {
            let state = Mutex::new(State::Ready(Box::new(MeshCommunicator::new(g))));
            Arc::new(Line { rank, world: ranks, state })
        };
        Ok(links.into_iter().enumerate().map(line).collect())
    }

    /// Carries one collective.
    pub fn carry<T>(
        &self,
        team: &Group,
        signature: Signature,
        element: Element,
        f: impl FnOnce(&mut dyn Communicator, &Operation) -> dist::Result<T>,
    ) -> Result<T> {
        let mut state = lock(&self.state);
        if let State::New = *state {
            *state = match join() {
                Ok(c) => State::Ready(c),
                Err(e) => State::Failed(e.to_string()),
            };
        }
        let carrier = match &mut *state {
            State::Ready(c) => c,
            State::Failed(e) => return Err(failed(dist::Error::Lost(format!("no more collectives after: {e}")))),
            State::New => return Err(Error::bug("joined above")),
        };
        let deal = Operation { team, signature, element, deadline: Instant::now() + timeout()? };
        collective(|| f(&mut **carrier, &deal)).map_err(|e| {
            let kind = kind(&e);
            let e = format!("over ranks {:?}: {e}", team.ranks());
            *state = State::Failed(e.clone());
            Error::new(kind, e)
        })
    }
}

/// Joins the other processes by the back end that is asked for.
fn join() -> Result<Box<dyn Communicator>> {
    let job = job()?.ok_or_else(|| Error::bug("a process alone needs nobody to carry"))?;
    let deadline = Instant::now() + timeout()?;
    let (by, place) = (asked()?, &job.place);
    let joining = || {
        Ok(JoinOptions {
            rank: place.rank as usize,
            world: place.world as usize,
            listen: listen_toward(&place.coordinator.address()?)?,
            member: job.member.duplicate(deadline)?,
            secret: place.secret.clone(),
            deadline,
        })
    };
    joining().and_then(|j| dist::collective::join(by, j)).map_err(failed)
}

/// A tensor's elements as collectives know them.
pub(super) fn element(dtype: DType) -> Result<Element> {
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
