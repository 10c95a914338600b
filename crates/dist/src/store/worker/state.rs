//! A worker's record: the bytes that it keeps with each of its steps, from which a replacement goes on.
//!
//! A record travels with the updates of its step and counts when they do. A worker that is killed may
//! have settled its last step in some partitions and not in others, so every partition holds a copy:
//! the one that is furthest has the record of the newest step that any process has seen. The replacement
//! takes that record and does that step again. Where the step is known already its updates are
//! dropped, and reads see what they saw the first time; so whatever follows a step and was lost with
//! the worker, such as an evaluation, is done again too.

use crate::store::client::Table;
use crate::store::map::{Map, WorkerId};
use crate::store::worker::Store;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Tables from this number on hold records; it is followed by the worker, the size class, and a
/// number that selects the partition.
const RECORDS: u32 = 1 << 31;
const CLASS_BITS: u32 = 4;
const CHOICE_BITS: u32 = 14;
const WORKER_MAX: u32 = 1 << (31 - CLASS_BITS - CHOICE_BITS);

/// The table of the job's note; no worker's.
const NOTE: u32 = u32::MAX - 1;

/// Elements of a row, and bytes that they hold.
const WIDTH: usize = 64;
const ROW_BYTES: usize = 4 * WIDTH;
/// Rows of the smallest class; each class has four times the rows of the one before.
const CLASS_ROWS: usize = 16;
const CLASSES: u32 = 8;

/// True if a table holds records: what is pushed replaces rows, whatever the store's update rule.
pub(crate) fn is_worker_state(table: u32) -> bool {
    table >= RECORDS && table != u32::MAX
}

/// The tables of this worker's records that exist, by partition and class.
pub(crate) type Records = BTreeMap<(u32, u32), Table>;

/// The first row of class 0: the step that the record belongs to, from 1, its bytes, and its class.
struct Header {
    step: u64,
    len: usize,
    class: u32,
}
impl Header {
    fn encode(&self) -> [u32; 4] {
        [self.step as u32, (self.step >> 32) as u32, self.len as u32, self.class]
    }
    fn decode(row: &[f32]) -> Header {
        let word = |i: usize| row[i].to_bits();
        Header { step: u64::from(word(0)) | u64::from(word(1)) << 32, len: word(2) as usize, class: word(3) }
    }
}

fn class_rows(class: u32) -> usize {
    CLASS_ROWS << (2 * class)
}
fn class_of(len: usize) -> Result<u32> {
    let fits = |c: &u32| len <= class_rows(*c) * ROW_BYTES;
    (0..CLASSES).find(fits).ok_or_else(|| {
        let most = class_rows(CLASSES - 1) * ROW_BYTES;
        Error::value(format!("a worker's record has {len} bytes, more than {most}"))
    })
}

/// The table of a worker's records in a partition: a header, then the rows of the class, in one block.
fn table(map: &Map, worker: WorkerId, partition: u32, class: u32) -> Result<Table> {
    let id = |choice: u32| RECORDS | (worker << CLASS_BITS | class) << CHOICE_BITS | choice;
    let mut ids = (0..1 << CHOICE_BITS).map(id);
    let id = ids.find(|id| worker < WORKER_MAX && map.partition(*id, 0) == partition);
    let id = id.ok_or_else(|| Error::value(format!("worker {worker} has no room for a record")))?;
    Table::new(id, 1 + class_rows(class), WIDTH, usize::MAX)
}

impl Store {
    /// Keeps bytes with the current step of this worker, for its replacement.
    pub fn keep(&mut self, bytes: &[u8]) -> Result<()> {
        let class = class_of(bytes.len())?;
        let header = Header { step: self.client.step() + 1, len: bytes.len(), class };
        let rows = 1 + bytes.len().div_ceil(ROW_BYTES);
        let mut values = vec![0.0f32; rows * WIDTH];
        values[..4].copy_from_slice(&header.encode().map(f32::from_bits));
        bytemuck::cast_slice_mut(&mut values[WIDTH..])[..bytes.len()].copy_from_slice(bytes);
        let rows: Vec<usize> = (0..rows).collect();
        for partition in 0..self.client.map().replicas.len() as u32 {
            let first = self.record(partition, 0)?;
            if class == 0 {
                self.push_rows(&first, &rows, &values, 0.0)?;
                continue;
            }
            self.push_rows(&first, &[0], &values[..WIDTH], 0.0)?;
            let rest = self.record(partition, class)?;
            self.push_rows(&rest, &rows[1..], &values[WIDTH..], 0.0)?;
        }
        Ok(())
    }

    /// After joining: what a former life of this worker kept with its newest step. This worker is in
    /// that step then, and must do it again. `None`, and nothing changes, if there is no record of it.
    pub fn kept(&mut self) -> Result<Option<Vec<u8>>> {
        let joined = self.client.step();
        let (partition, clock) = self.client.furthest();
        if clock == 0 || self.client.worker() >= WORKER_MAX {
            return Ok(None);
        }
        self.client.move_to(clock);
        let found = self.record_at(partition, clock);
        self.client.move_to(if matches!(found, Ok(Some(_))) { clock - 1 } else { joined });
        found
    }
    /// The job's note: what the first worker that called this said; all must say as many values.
    pub fn note(&mut self, values: &[f32]) -> Result<Vec<f32>> {
        let table = Table::new(NOTE, 1, values.len(), usize::MAX)?;
        self.create(&table, values)?;
        Ok(self.pull(&[table])?.remove(0))
    }
    fn record_at(&mut self, partition: u32, clock: u64) -> Result<Option<Vec<u8>>> {
        let first = self.record(partition, 0)?;
        let header = Header::decode(&self.pull_rows(&first, &[0])?);
        if header.step != clock || header.class >= CLASSES || header.len > class_rows(header.class) * ROW_BYTES {
            return Ok(None);
        }
        let table = self.record(partition, header.class)?;
        let rows: Vec<usize> = (1..=header.len.div_ceil(ROW_BYTES)).collect();
        let values = self.pull_rows(&table, &rows)?;
        Ok(Some(bytemuck::cast_slice(&values)[..header.len].to_vec()))
    }
    /// The table of a partition and class, created if it is not there.
    fn record(&mut self, partition: u32, class: u32) -> Result<Table> {
        if let Some(t) = self.records.get(&(partition, class)) {
            return Ok(*t);
        }
        let t = table(self.client.map(), self.client.worker(), partition, class)?;
        self.create(&t, &vec![0.0; t.rows * t.width])?;
        self.records.insert((partition, class), t);
        Ok(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_has_a_table_for_each_worker_and_class() {
        let map = Map::new(40, &[0, 1, 2], 2, 3).unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for (worker, class) in [(0, 0), (1, 0), (WORKER_MAX - 1, CLASSES - 1), (1, 3)] {
            for p in 0..40 {
                let t = table(&map, worker, p, class).unwrap();
                assert!(is_worker_state(t.id) && map.partition(t.id, 0) == p && t.blocks() == 1);
                assert!(ids.insert(t.id), "{} is given twice", t.id);
            }
        }
        assert!(table(&map, WORKER_MAX, 0, 0).is_err() && !is_worker_state(u32::MAX) && !is_worker_state(7));
        assert_eq!([0, 4096, 4097, 64 << 20].map(|n| class_of(n).unwrap()), [0, 0, 1, 7]);
        assert!(class_of((64 << 20) + 1).is_err());
    }

    #[test]
    fn headers_read_back() {
        let row = Header { step: 5 << 32 | 7, len: 1000, class: 3 }.encode().map(f32::from_bits);
        let h = Header::decode(&row);
        assert_eq!((h.step, h.len, h.class), (5 << 32 | 7, 1000, 3));
    }
}
