//! Which device computes which node: constraints first, then colocation, then the earliest finish in a simulation.
//!
//! The graph is that of a whole step, optimized by [`crate::placed_stages`]: gradients and the optimizer's rule are nodes
//! like others. [`ir::Site::place`] names a node's constraint, [`ir::Site::origin`] the op that it was expanded from or
//! that it differentiates. Nodes are visited once, in order, and each looks at its inputs on each device: the time is
//! linear in nodes and devices.
//!
//! | node | its device |
//! |---|---|
//! | with a constraint | the device that the constraint allows; several: as below |
//! | of an op that was expanded | that of the op's first node |
//! | made by differentiation | that of its forward op |
//! | the update of a variable, its optimizer state | that of the variable |
//! | otherwise | where a greedy simulation finishes it first, among devices whose memory has room for it |
//! | constants | wherever they are used |

mod cost;
mod groups;
mod walk;

use ir::{FlatNode, Graph, Result, Slot, Type};

/// A device that nodes may be placed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Operations a second.
    pub flops: f64,
    /// Bytes a second that loops read and write.
    pub bandwidth: f64,
    /// Seconds to start a region.
    pub launch: f64,
    /// Seconds before the first byte that is sent to it or from it.
    pub latency: f64,
    /// Bytes a second that are sent.
    pub rate: f64,
    /// Whether values on the host need not be sent to it.
    pub is_host: bool,
    /// Bytes of memory that a program may use; `None`: not limited.
    pub memory: Option<usize>,
}

impl Candidate {
    /// Seconds to do some work.
    pub fn seconds(&self, w: Work) -> f64 {
        if w.flops == 0.0 && w.bytes == 0.0 {
            return 0.0;
        }
        (w.flops / self.flops).max(w.bytes / self.bandwidth) + self.launch
    }
    /// Seconds to send bytes to another one.
    pub fn send_s(&self, to: &Candidate, bytes: usize) -> f64 {
        self.latency.max(to.latency) + bytes as f64 / self.rate.min(to.rate)
    }
}

/// What a node does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Operations on numbers.
    pub flops: f64,
    /// Bytes that it reads and writes.
    pub bytes: f64,
}

/// What a number in [`ir::Site::place`] stands for.
#[derive(Clone, Debug)]
pub struct Place {
    /// A bit for each device that is allowed.
    pub allowed: u64,
    /// Whether all nodes with the number are computed on one device.
    pub is_one: bool,
    /// The constraint, for people.
    pub text: String,
}

/// What an input is.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    /// The device it lives on.
    pub home: Option<usize>,
    /// Whether it stays on one device between runs: a variable.
    pub is_variable: bool,
}

/// Says why a device does not run a node, if it does not.
pub type Refuses<'a> = &'a dyn Fn(usize, &FlatNode, &[Type]) -> Option<String>;

/// What is known about the devices and the inputs.
pub struct Request<'a> {
    /// The devices, 64 at most.
    pub devices: &'a [Candidate],
    /// Constraints, by number from 1.
    pub places: &'a [Place],
    /// By input.
    pub inputs: &'a [Holding],
    /// Whether some device refuses nodes.
    pub refuses: Option<Refuses<'a>>,
}

/// Why a node is where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its own constraint, by number.
    Constraint(u32),
    /// It is computed with another node: of its op, of its colocation group.
    Colocated,
    /// A variable that lives there, or one that it updates.
    Variable,
    /// It belongs to the gradient of an op.
    Gradient,
    /// The simulation.
    Cost,
    /// It is computed wherever it is used.
    Anywhere,
}

/// Where everything is computed.
#[derive(Clone, Debug)]
pub struct Placement {
    /// By node; `None` for inputs and constants.
    pub device: Vec<Option<usize>>,
    /// By node.
    pub why: Vec<Why>,
    /// The device that each variable lives on from now on; `None`: where it is.
    pub homes: Vec<Option<usize>>,
    /// What each node does.
    pub work: Vec<Work>,
    /// Seconds of a run, as simulated.
    pub seconds: f64,
    /// Bytes on each device, as estimated.
    pub bytes: Vec<usize>,
    /// How many pairs of an input and a device were looked at.
    pub considered: usize,
}

/// Places a graph.
///
/// # Errors
/// Where a node has no device that its constraint allows and that runs it.
pub fn place(graph: &Graph, request: &Request) -> Result<Placement> {
    let work = cost::work(graph);
    let groups = groups::groups(graph, request)?;
    Ok(walk::walk(graph, request, groups, work))
}

/// Whether a node is an input or a constant, which are computed nowhere.
pub(crate) fn is_given(n: &FlatNode) -> bool {
    n.op == &ir::INPUT || n.op == &ir::CONST
}

/// Bytes of a value.
pub(crate) fn bytes(graph: &Graph, s: Slot) -> usize {
    graph.ty(s).bytes()
}
