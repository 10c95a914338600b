//! What workers and servers of the store say to each other; `codec` frames it.

use crate::filter::Filter;
use crate::pool::{self, PooledVec};
use crate::store::map::{Map, WorkerId};
use std::sync::Arc;

/// A number for each worker.
pub type Clocks = PooledVec<u64>;
/// Rows of a block.
pub type Rows = PooledVec<u32>;

/// Elements of one block, whole or some of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Which table.
    pub table: u32,
    /// Which block of it.
    pub block: u32,
    /// Rows within the block; empty: all of them.
    pub rows: Rows,
    /// The elements, row after row.
    pub data: Arc<Vec<f32>>,
    /// Learning rate or whatever else the table's update takes beside the elements,
    pub rate: f32,
    /// and further numbers, 255 at most.
    pub numbers: Option<Arc<Vec<f32>>>,
    /// How many workers' updates are summed up in it.
    pub count: u32,
    /// On its way: how the elements are packed. The receiver unpacks them.
    pub filter: Option<Filter>,
}

/// What a primary tells a backup, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Forget everything: a full copy follows.
    Reset,
    /// A block as it is: its value, then the value before the last step, then the update's state.
    Block {
        /// Which table.
        table: u32,
        /// Which block.
        block: u32,
        /// How many updates it has seen.
        version: u64,
        /// Elements of a row.
        width: u32,
        /// Arrays of equal length.
        arrays: Vec<Arc<Vec<f32>>>,
    },
    /// An update to apply when the next commit comes.
    Update(Update),
    /// The updates since the last commit are final; how many steps each worker has settled.
    Commit {
        /// Settled steps, without those that are not final.
        settled: Clocks,
        /// Closed steps that are applied.
        applied: u64,
    },
}

/// A message about one partition.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The placement of an epoch.
    Map(Arc<Map>),
    /// A block with its first value; the first to come counts.
    Create {
        /// Which table.
        table: u32,
        /// Which block.
        block: u32,
        /// Elements of a row.
        width: u32,
        /// First value.
        data: Arc<Vec<f32>>,
    },
    /// The block exists.
    Created {
        /// Which table.
        table: u32,
        /// Which block.
        block: u32,
    },
    /// Part of a worker's updates of a step.
    Push {
        /// Which life of the worker speaks: its number among those who were this worker.
        life: u32,
        /// The step.
        clock: u64,
        /// Its number among the worker's updates of the step to this partition.
        index: u32,
        /// The worker has settled the step.
        last: bool,
        /// What to change; `None` if there is only the settling to say.
        update: Option<Update>,
    },
    /// Steps of the worker that will survive any one crash.
    Settled {
        /// How many.
        clock: u64,
        /// Steps that are closed and applied.
        closed: u64,
    },
    /// Asks for a block.
    Pull {
        /// The worker's step.
        clock: u64,
        /// Number of the question.
        request: u64,
        /// Which table.
        table: u32,
        /// Which block.
        block: u32,
        /// Rows within the block; empty: all.
        rows: Rows,
    },
    /// Asks for a block with everything that belongs to it: a checkpoint needs it.
    Dump {
        /// The worker's step.
        clock: u64,
        /// Number of the question.
        request: u64,
        /// Which table.
        table: u32,
        /// Which block.
        block: u32,
    },
    /// Asks for the whole partition to be written to a file, as the worker's step sees it.
    Save {
        /// The worker's step.
        clock: u64,
        /// Number of the question.
        request: u64,
        /// Where to: a path or a URL.
        to: String,
    },
    /// What is to be written is held, and the worker may go on.
    Snapped {
        /// Number of the question.
        request: u64,
        /// Blocks that will be written; `None` if the partition is past the worker's step.
        blocks: Option<u32>,
    },
    /// A block as a checkpoint had it: its value, its state and its version. It is taken over if
    /// the block was not changed yet.
    Restore {
        /// Which table.
        table: u32,
        /// Which block.
        block: u32,
        /// What a dump was answered.
        data: Arc<Vec<f32>>,
    },
    /// Reply to a pull.
    Value {
        /// Number of the question.
        request: u64,
        /// Steps that every worker has settled in what is answered.
        closed: u64,
        /// The elements.
        data: Arc<Vec<f32>>,
    },
    /// A block that the worker has read and that has changed.
    Fresh {
        /// Which table.
        table: u32,
        /// Which block.
        block: u32,
        /// Steps that every worker has settled in it.
        closed: u64,
        /// The elements.
        data: Arc<Vec<f32>>,
    },
    /// A worker begins, or begins again: how far was it?
    Join {
        /// Which life of the worker begins.
        life: u32,
    },
    /// So far.
    Joined {
        /// Which life was asked for.
        life: u32,
        /// Steps the worker has settled.
        clock: u64,
    },
    /// From primary to backup.
    Record {
        /// Which copy stream: the epoch it began in.
        stream: u64,
        /// Number within the stream.
        seq: u64,
        /// What happened.
        record: Record,
    },
    /// The backup has everything before this number.
    RecordAck {
        /// Which copy stream.
        stream: u64,
        /// Number of the first record it lacks.
        seq: u64,
    },
    /// Another server answers for the partition, or will: the epoch is over, or this server has no complete copy.
    Moved,
    /// The server's disk takes no more: steps settle when it does.
    DiskFull,
}

/// Numbers of questions begin with the life of the worker that asks, so that no two questions of a
/// worker have the same, however often it starts over.
const LIFE_SHIFT: u32 = 40;

/// Lives of a worker at most.
pub(crate) const LIFE_MAX: u32 = (1 << (64 - LIFE_SHIFT)) - 1;

/// The number of the first question of a life.
pub(crate) fn first_request(life: u32) -> u64 {
    u64::from(life) << LIFE_SHIFT
}

impl Message {
    /// Which life of a worker says it, if it matters.
    pub(crate) fn life(&self) -> Option<u32> {
        match self {
            Message::Push { life, .. } | Message::Join { life } => Some(*life),
            Message::Pull { request, .. } | Message::Dump { request, .. } | Message::Save { request, .. } => {
                Some((*request >> LIFE_SHIFT) as u32)
            }
            _ => None,
        }
    }
}

/// A message on its way: with the partition and the epoch it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Which partition.
    pub partition: u32,
    /// The sender's epoch.
    pub epoch: u64,
    /// What it says.
    pub message: Message,
}

/// Who sends or gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A worker.
    Worker(WorkerId),
    /// A server.
    Server(u32),
    /// The host of the membership store.
    Coordinator,
    /// The server's own disk.
    Disk,
}

impl Envelope {
    /// Keeps the memory of a message that was sent for the next.
    pub(crate) fn spare(self) {
        match self.message {
            Message::Value { data, .. } | Message::Fresh { data, .. } => pool::give(data),
            Message::Push { update: Some(u), .. } | Message::Record { record: Record::Update(u), .. } => {
                pool::give(u.data);
            }
            _ => {}
        }
    }
    /// Elements that it carries.
    pub(crate) fn elements(&self) -> usize {
        match &self.message {
            Message::Create { data, .. }
            | Message::Restore { data, .. }
            | Message::Value { data, .. }
            | Message::Fresh { data, .. } => data.len(),
            Message::Push { update: Some(u), .. } => u.data.len() + u.rows.len(),
            Message::Pull { rows, .. } => rows.len(),
            _ => 0,
        }
    }
}
