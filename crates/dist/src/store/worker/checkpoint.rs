//! Checkpoints of the store: whole tables read and restored by a worker, or written by the servers.

use super::Store;
use crate::membership::{Member, controller};
use crate::store::client::{Client, Table};
use crate::store::map::{Map, WorkerId};
use crate::store::server::snapshot::saved_key;
use crate::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a writer is checked for being in the map.
const POLL: Duration = Duration::from_secs(1);

impl Store {
    /// Reads a table with everything that belongs to it: the value first, then the state, and how
    /// often it has been changed. Where steps are gathered it is exactly what this worker's step
    /// sees; otherwise each block is whole, but others may be further.
    pub fn dump(&mut self, table: &Table) -> Result<(Vec<Vec<f32>>, u64)> {
        let deadline = self.deadline();
        let (mut asked, mut arrays, mut version) = (Vec::new(), Vec::<Vec<f32>>::new(), 0);
        for block in 0..table.blocks() {
            let (request, out) = self.client.dump(table.id, block);
            self.send(out, deadline)?;
            asked.push(request);
        }
        self.pump(|c| !c.is_waiting(), deadline, "reading a table for a checkpoint")?;
        for (block, request) in asked.into_iter().enumerate() {
            let data = self.client.take(request).unwrap_or_default();
            let len = table.elements(block as u32).len();
            let all = data.len().checked_sub(2).filter(|n| *n > 0 && n.is_multiple_of(len));
            let all = all.ok_or_else(|| Error::refused(format!("a block of {len} came as {}", data.len())))?;
            arrays.resize(arrays.len().max(all / len), Vec::new());
            arrays.iter_mut().zip(data[..all].chunks_exact(len)).for_each(|(a, part)| a.extend_from_slice(part));
            let (low, high) = (data[all].to_bits(), data[all + 1].to_bits());
            version = version.max(u64::from(low) | u64::from(high) << 32);
        }
        Ok((arrays, version))
    }
    /// Lets the servers write everything that the store holds, each partition to its file (`to`
    /// names it), as this worker's step sees it where steps are gathered; otherwise each block is
    /// whole, but others may be further. Returns when they hold it; training goes on while they
    /// write. Memory: what is updated meanwhile is there twice.
    pub fn save(&mut self, to: impl Fn(u32) -> String) -> Result<Saving> {
        let deadline = self.deadline();
        let mut asked = Vec::new();
        for (partition, server) in self.client.all_primaries().into_iter().enumerate() {
            let (partition, to) = (partition as u32, to(partition as u32));
            let (request, out) = self.client.save(partition, to.clone());
            self.send(out, deadline)?;
            asked.push(Part { partition, server, request, to });
        }
        self.pump(|c| !c.is_waiting(), deadline, "taking a checkpoint")?;
        let mut parts = Vec::new();
        let now = self.client.all_primaries();
        for part in asked {
            let blocks = self.client.take(part.request).unwrap_or_default();
            match blocks.first().map(|b| b.to_bits()) {
                Some(0) => {}
                // Another server may have taken over while the question was in flight.
                Some(_) => parts.push(Part { server: now[part.partition as usize], ..part }),
                None => {
                    return Err(Error::Lost(format!("partition {} is past this worker's step", part.partition)));
                }
            }
        }
        Ok(Saving { member: self.member.duplicate(deadline)?, worker: self.client.worker(), parts })
    }
    /// Restores a table from a checkpoint, if it was not changed yet; every worker may call it.
    pub fn restore(&mut self, table: &Table, arrays: &[Vec<f32>], version: u64) -> Result<()> {
        if let Some(a) = arrays.iter().find(|a| a.len() != table.rows * table.width) {
            return Err(Error::value(format!("table {} with {} elements in a checkpoint", table.id, a.len())));
        }
        let deadline = self.deadline();
        for block in 0..table.blocks() {
            let mut data: Vec<f32> = arrays.iter().flat_map(|a| &a[table.elements(block)]).copied().collect();
            data.extend([version as u32, (version >> 32) as u32].map(f32::from_bits));
            let out = self.client.restore(table.id, block, Arc::new(data));
            self.send(out, deadline)?;
        }
        self.pump(Client::is_created, deadline, "restoring a table")
    }
}

/// A checkpoint that servers are writing.
pub struct Saving {
    pub(crate) member: Member,
    pub(crate) worker: WorkerId,
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
            let said = match self.member.wait(&key, version, deadline.min(Instant::now() + POLL)) {
                Ok((newer, said)) => {
                    version = newer;
                    String::from_utf8_lossy(&said).into_owned()
                }
                Err(e) if e.is_late() && Instant::now() < deadline => {
                    let (_, map) = self.member.get(controller::MAP, deadline)?;
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
