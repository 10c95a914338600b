//! Checkpoints across servers: every partition as one worker's step sees it, written by the servers
//! themselves while everybody goes on.
//!
//! A worker asks each partition's primary. The primary holds the values as they are and says so,
//! which takes no longer than a question; a thread writes them, and what is updated meanwhile is
//! copied first. When it is written, the membership store is told. A server that dies before that
//! takes this checkpoint with it, not the job: whoever waits for it is told.

use crate::map::{Map, Worker};
use crate::membership::Registrar;
use crate::message::{Message, Peer};
use crate::partition::{Block, Outbox, Partition};
use crate::{Error, Result, roster};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often somebody who waits for a server asks whether it is still there.
const GLANCE: Duration = Duration::from_secs(1);

/// A worker's wish that the partition be written to a file, as that worker's step sees it.
#[derive(Clone, Debug)]
pub(crate) struct Save {
    pub worker: Worker,
    pub clock: u64,
    pub request: u64,
    pub to: String,
}

/// A partition as it was at a moment, for whoever writes it to a file. It holds the values
/// themselves: those that change meanwhile are copied first.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which partition.
    pub partition: u32,
    /// The worker that has asked for it.
    pub worker: Worker,
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

/// Writes snapshots to files. It is called in a thread of its own and may take its time.
pub trait Saver: Send + Sync {
    /// Writes a snapshot where it says; the error says why not.
    fn save(&self, snapshot: Snapshot) -> std::result::Result<(), String>;
}

/// Key under which a server says that it has written a partition for a worker.
pub(crate) fn saved_key(worker: Worker, partition: u32) -> String {
    format!("saved/{worker}/{partition}")
}

/// A checkpoint that servers are writing.
pub struct Saving {
    pub(crate) registrar: Registrar,
    pub(crate) worker: Worker,
    pub(crate) parts: Vec<Part>,
}

/// A part of it.
pub(crate) struct Part {
    pub partition: u32,
    pub server: u32,
    pub request: u64,
    pub to: String,
}

impl Saving {
    /// Waits until everything is written; answers where. An error says which server was lost or
    /// could not write.
    pub fn wait(self, deadline: Instant) -> Result<Vec<String>> {
        self.parts.iter().try_for_each(|p| self.wait_for(p, deadline))?;
        Ok(self.parts.into_iter().map(|p| p.to).collect())
    }
    fn wait_for(&self, part: &Part, deadline: Instant) -> Result<()> {
        let (key, mut version) = (saved_key(self.worker, part.partition), 0);
        loop {
            let said = match self.registrar.wait(&key, version, deadline.min(Instant::now() + GLANCE)) {
                Ok((newer, said)) => {
                    version = newer;
                    String::from_utf8_lossy(&said).into_owned()
                }
                Err(e) if e.is_late() && Instant::now() < deadline => {
                    let (_, map) = self.registrar.get(roster::MAP, deadline)?;
                    let map = map.map(|m| Map::decode(&m)).transpose()?;
                    if map.is_some_and(|m| !m.names(part.server)) {
                        return Err(Error::Lost(format!(
                            "server {} was lost before it had written {}",
                            part.server, part.to
                        )));
                    }
                    continue;
                }
                Err(e) => return Err(e),
            };
            // What was said of an earlier checkpoint does not count.
            match said.split_once(' ') {
                Some((request, "")) if request == part.request.to_string() => return Ok(()),
                Some((request, why)) if request == part.request.to_string() => {
                    return Err(Error::value(format!("server {}: {why}", part.server)));
                }
                _ => {}
            }
        }
    }
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
