//! Checkpoints across servers: every partition as one worker's step sees it, written by the servers
//! themselves while training goes on.
//!
//! A worker asks each partition's primary. The primary holds the values as they are and says so,
//! which takes no longer than a question; a thread writes them, and what is updated meanwhile is
//! copied first. When it is written, the membership store is told. A server that dies before that
//! takes this checkpoint with it, not the job: its waiters get an error.

use crate::store::map::WorkerId;
use crate::store::message::{Message, Peer};
use crate::store::server::partition::{Block, Outbox, Partition};
use std::sync::Arc;

/// A worker's wish that the partition be written to a file, as that worker's step sees it.
#[derive(Clone, Debug)]
pub(crate) struct Save {
    pub worker: WorkerId,
    pub clock: u64,
    pub request: u64,
    pub to: String,
}

/// A partition as it was at a moment, for the thread that writes it to a file. It holds the values
/// themselves: those that change meanwhile are copied first.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which partition.
    pub partition: u32,
    /// The worker that has asked for it.
    pub worker: WorkerId,
    /// Number of the worker's question, which tells this snapshot from all others of the worker.
    pub request: u64,
    /// Where to write it, as the worker has said.
    pub to: String,
    /// The blocks, in order.
    pub blocks: Vec<SavedBlock>,
}

/// A block in a [`Snapshot`].
#[derive(Clone, Debug)]
pub struct SavedBlock {
    /// Which table.
    pub table: u32,
    /// Which block of it.
    pub block: u32,
    /// How many updates it has seen.
    pub version: u64,
    /// The value, then the state.
    pub arrays: Vec<Arc<Vec<f32>>>,
}

/// Writes snapshots to files. It is called in a separate thread and may take its time.
pub trait Saver: Send + Sync {
    /// Writes a snapshot where it says; the error says why not.
    fn save(&self, snapshot: Snapshot) -> std::result::Result<(), String>;
}

/// Key under which a server says that it has written a partition for a worker.
pub(crate) fn saved_key(worker: WorkerId, partition: u32) -> String {
    format!("saved/{worker}/{partition}")
}

impl Partition {
    /// Takes the snapshots that may be taken now. One whose moment has passed is refused.
    pub(crate) fn take_snapshots(&mut self, out: &mut Outbox) {
        for s in std::mem::take(&mut self.saves) {
            if !self.admits(s.clock) {
                self.saves.push(s);
                continue;
            }
            let is_past = self.rule.gathers() && !self.rule.drops() && s.clock < self.applied;
            let block = |((table, block), b): (&(u32, u32), &Block)| {
                let arrays = std::iter::once(&b.value).chain(&b.state).cloned().collect();
                SavedBlock { table: *table, block: *block, version: b.version, arrays }
            };
            let blocks = (!is_past).then(|| self.blocks.iter().map(block).collect::<Vec<_>>());
            let count = blocks.as_ref().map(|b| b.len() as u32);
            self.say(out, Peer::Worker(s.worker), Message::Snapped { request: s.request, blocks: count });
            if let Some(blocks) = blocks.filter(|b| !b.is_empty()) {
                let (partition, worker, request) = (self.id, s.worker, s.request);
                self.snapshots.push(Snapshot { partition, worker, request, to: s.to, blocks });
            }
        }
    }
    /// Snapshots that were taken since the last call.
    pub fn snapshots(&mut self) -> Vec<Snapshot> {
        std::mem::take(&mut self.snapshots)
    }
}
