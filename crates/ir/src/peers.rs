//! Other processes, as communication ops reach them: a handle in an attribute of the node. It lives in this process
//! only, so files cannot hold it.

use crate::{Call, Error, Literal, Result};
use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// The ranks that a communication op exchanges with.
pub trait Peers: Any + Send + Sync {
    /// This process's rank among them.
    fn rank(&self) -> usize;
    /// How many ranks there are.
    fn size(&self) -> usize;
    /// Runs a communication op on host memory.
    fn run(&self, op: &'static str, call: &Call, args: &[Literal]) -> Result<Vec<Literal>>;
    /// Runs a communication op over memory of the caller: its one operand, `None` where `out` holds it already, and its
    /// one result. Returns false if it does not, and has done nothing then.
    fn run_over(&self, op: &'static str, call: &Call, input: Option<&[u8]>, out: &mut [u8]) -> Result<bool> {
        let _ = (op, call, input, out);
        Ok(false)
    }
    /// Runs a job that exchanges with these ranks while the caller goes on, after all that this process has started
    /// before. What is exchanged otherwise waits for it.
    fn start(&self, job: Job) -> Box<dyn Pending> {
        Box::new(Done(Some(job())))
    }
    /// Gives up: what was started ends with an error, here and on the other ranks, and nothing more is exchanged.
    fn abandon(&self) {}
    /// How devices exchange without the host; `None` if they do not.
    fn devices(&self) -> Result<Option<&dyn DevicePeers>> {
        Ok(None)
    }
}

/// An exchange that is run by [`Peers::start`].
pub type Job = Box<dyn FnOnce() -> Result<()> + Send>;

/// An exchange that is under way.
pub trait Pending: Send {
    /// Waits for its end. Only the first call returns the error of one that failed.
    fn wait(&mut self) -> Result<()>;
}

/// An exchange that ended before its caller went on.
struct Done(Option<Result<()>>);
impl Pending for Done {
    fn wait(&mut self) -> Result<()> {
        self.0.take().unwrap_or(Ok(()))
    }
}

/// What a device needs to exchange with the devices of other ranks.
pub trait DevicePeers {
    /// Every rank's bytes, in the order of ranks; all bring the same number.
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// An error unless every rank is about to run this node.
    fn agree(&self, op: &str, call: &Call) -> Result<()>;
    /// How long an exchange may take.
    fn timeout(&self) -> Duration;
}

/// A shared handle; two handles are equal if they are of one object.
#[derive(Clone)]
pub struct PeersHandle(pub Arc<dyn Peers>);

impl PeersHandle {
    /// The address of the object, its identity while the handle lives.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>().addr()
    }
    /// The object, if it is of this type.
    pub fn downcast<T: Peers>(&self) -> Result<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self.0.clone();
        any.downcast().map_err(|_| Error::bug(format!("{self:?} is not what this op exchanges with")))
    }
}
impl PartialEq for PeersHandle {
    fn eq(&self, other: &PeersHandle) -> bool {
        self.address() == other.address()
    }
}
impl Hash for PeersHandle {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.address().hash(h);
    }
}
impl fmt::Debug for PeersHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.0.rank(), self.0.size())
    }
}

/// A process without peers: every op returns its own input, and rank 0 of 1 owns everything.
pub struct Alone;

impl Peers for Alone {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn run(&self, op: &'static str, _: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        match op {
            "mean_over_workers" => Ok(args[2..].to_vec()),
            "send" | "begin_mean_over_workers" | "end_mean_over_workers" | "step_in_store" => {
                Err(Error::value(format!("{op}: this process is alone")))
            }
            _ => Ok(args.to_vec()),
        }
    }
}
