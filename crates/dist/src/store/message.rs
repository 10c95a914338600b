//! What workers and servers of the store say to each other, and how it is framed.

use crate::filter::{self, Filter};
use crate::kinds::store::*;
use crate::pool::{self, PooledVec};
use crate::store::map::{Map, WorkerId};
use crate::store::wire::Parts;
use crate::{Error, Result};
use net::Header;
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
    /// On its way: how the elements are packed. Whoever receives it has them unpacked.
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
    /// nobody has changed the block yet.
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
    /// Somebody else answers for the partition, or the epoch is over.
    Moved,
    /// Every copy of the partition is lost.
    Lost,
    /// The server's disk takes no more: steps settle when it does.
    DiskFull,
}

/// Numbers of questions begin with the life of the worker that asks, so that no two questions of a
/// worker have the same, however often it begins anew.
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
    /// Whoever keeps the membership.
    Coordinator,
    /// The server's own disk.
    Disk,
}

const LAST: u16 = 2;
const EMPTY: u16 = 4;
/// Where in the flags the filter of an update stands.
const PACKED: u16 = 4;

/// The last word of an update: how many are summed up in it, and above that how many numbers it has.
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

/// Arrays that belong to a block at most: the value and the state of its rule.
const ARRAYS_MAX: usize = 256;

/// Bytes of a path or URL at most.
const NAME_MAX: usize = 4096;

fn of_update(h: &mut Header, parts: &mut Parts, u: &Update) {
    h.table = u.table;
    h.key |= u64::from(u.block);
    h.count = u.rows.len() as u32;
    h.flags |= u.filter.map_or(0, Filter::code) << PACKED;
    parts.bytes.extend_from_slice(&u.rate.to_le_bytes());
    let numbers = u.numbers.as_ref().map_or(0, |n| n.len() as u32);
    debug_assert!(numbers < 256, "{numbers} numbers");
    parts.bytes.extend_from_slice(&(numbers << COUNT_BITS | u.count & COUNT_MASK).to_le_bytes());
    parts.rows = u.rows.clone();
    parts.arrays.push(u.data.clone());
    parts.arrays.extend(u.numbers.clone());
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
    /// The header and payload; the data is not copied.
    pub fn encode(&self, sender: u32) -> (Header, Parts) {
        let mut h = Header { epoch: self.epoch, sender, key: u64::from(self.partition) << 32, ..Header::default() };
        let mut parts = Parts::default();
        match &self.message {
            Message::Map(m) => (h.kind, parts.bytes) = (MAP, m.encode().into()),
            Message::Create { table, block, width, data } => {
                (h.kind, h.table, h.count) = (CREATE, *table, *width);
                h.key |= u64::from(*block);
                parts.arrays.push(data.clone());
            }
            Message::Created { table, block } => {
                (h.kind, h.table) = (CREATED, *table);
                h.key |= u64::from(*block);
            }
            Message::Push { life, clock, index, last, update } => {
                (h.kind, h.clock, h.request) = (PUSH, *clock, u64::from(*life) << 32 | u64::from(*index));
                h.flags |= if *last { LAST } else { 0 };
                match update {
                    Some(u) => of_update(&mut h, &mut parts, u),
                    None => h.flags |= EMPTY,
                }
            }
            Message::Settled { clock, closed } => (h.kind, h.clock, h.request) = (SETTLED, *clock, *closed),
            Message::Pull { clock, request, table, block, rows } => {
                (h.kind, h.clock, h.request, h.table) = (PULL, *clock, *request, *table);
                h.key |= u64::from(*block);
                h.count = rows.len() as u32;
                parts.rows = rows.clone();
            }
            Message::Dump { clock, request, table, block } => {
                (h.kind, h.clock, h.request, h.table) = (DUMP, *clock, *request, *table);
                h.key |= u64::from(*block);
            }
            Message::Save { clock, request, to } => {
                (h.kind, h.clock, h.request, h.count) = (SAVE, *clock, *request, to.len() as u32);
                parts.bytes.extend_from_slice(to.as_bytes());
                parts.bytes.resize(to.len().next_multiple_of(4), 0);
            }
            Message::Snapped { request, blocks } => {
                (h.kind, h.request, h.count) = (SNAPPED, *request, blocks.unwrap_or(0));
                h.flags |= if blocks.is_none() { EMPTY } else { 0 };
            }
            Message::Restore { table, block, data } => {
                (h.kind, h.table) = (RESTORE, *table);
                h.key |= u64::from(*block);
                parts.arrays.push(data.clone());
            }
            Message::Value { request, closed, data } => {
                (h.kind, h.request, h.clock) = (VALUE, *request, *closed);
                parts.arrays.push(data.clone());
            }
            Message::Fresh { table, block, closed, data } => {
                (h.kind, h.table, h.clock) = (FRESH, *table, *closed);
                h.key |= u64::from(*block);
                parts.arrays.push(data.clone());
            }
            Message::Join { life } => (h.kind, h.request) = (JOIN, u64::from(*life)),
            Message::Joined { life, clock } => (h.kind, h.request, h.clock) = (JOINED, u64::from(*life), *clock),
            Message::Record { stream, seq, record } => {
                (h.clock, h.request) = (*stream, *seq);
                of_record(&mut h, &mut parts, record);
            }
            Message::RecordAck { stream, seq } => (h.kind, h.clock, h.request) = (RECORD_ACK, *stream, *seq),
            Message::Moved => h.kind = MOVED,
            Message::Lost => h.kind = LOST,
            Message::DiskFull => h.kind = DISK_FULL,
        }
        (h, parts)
    }

    /// Reads a message from its header and the words of its payload, which become its elements.
    pub fn decode(h: &Header, payload: impl Into<Arc<Vec<f32>>>) -> Result<Envelope> {
        Envelope::decode_with(h, payload.into(), None)
    }
    /// As [`Envelope::decode`]; the list of rows, if there is one, stands in the place of the payload's.
    pub(crate) fn decode_with(h: &Header, payload: Arc<Vec<f32>>, rows: Option<Rows>) -> Result<Envelope> {
        let (partition, block) = ((h.key >> 32) as u32, h.key as u32);
        let table = h.table;
        let message = match h.kind {
            MAP => Message::Map(Arc::new(Map::decode(bytemuck::cast_slice(&payload))?)),
            CREATE => Message::Create { table, block, width: h.count, data: payload },
            CREATED => Message::Created { table, block },
            PUSH => {
                let update = if h.flags & EMPTY != 0 { None } else { Some(to_update(h, payload, rows)?) };
                let (life, index) = ((h.request >> 32) as u32, h.request as u32);
                Message::Push { life, clock: h.clock, index, last: h.flags & LAST != 0, update }
            }
            SETTLED => Message::Settled { clock: h.clock, closed: h.request },
            PULL => {
                let rows = rows.map_or_else(|| to_rows(&payload, h.count as usize), Ok)?;
                pool::give(payload);
                Message::Pull { clock: h.clock, request: h.request, table, block, rows }
            }
            DUMP => Message::Dump { clock: h.clock, request: h.request, table, block },
            SAVE => Message::Save { clock: h.clock, request: h.request, to: text(h, &payload)? },
            SNAPPED => Message::Snapped { request: h.request, blocks: (h.flags & EMPTY == 0).then_some(h.count) },
            RESTORE => Message::Restore { table, block, data: payload },
            VALUE => Message::Value { request: h.request, closed: h.clock, data: payload },
            FRESH => Message::Fresh { table, block, closed: h.clock, data: payload },
            JOIN => Message::Join { life: h.request as u32 },
            JOINED => Message::Joined { life: h.request as u32, clock: h.clock },
            RECORD_RESET..=RECORD_COMMIT => {
                Message::Record { stream: h.clock, seq: h.request, record: to_record(h, payload)? }
            }
            RECORD_ACK => Message::RecordAck { stream: h.clock, seq: h.request },
            MOVED => Message::Moved,
            LOST => Message::Lost,
            DISK_FULL => Message::DiskFull,
            other => return Err(Error::refused(format!("there is no message of kind {other}"))),
        };
        Ok(Envelope { partition, epoch: h.epoch, message })
    }
}

fn of_record(h: &mut Header, parts: &mut Parts, record: &Record) {
    match record {
        Record::Reset => h.kind = RECORD_RESET,
        Record::Block { table, block, version, width, arrays } => {
            (h.kind, h.table, h.count) = (RECORD_BLOCK, *table, arrays.len() as u32);
            h.key |= u64::from(*block);
            parts.bytes.extend_from_slice(&version.to_le_bytes());
            parts.bytes.extend_from_slice(&width.to_le_bytes());
            parts.arrays.extend(arrays.iter().cloned());
        }
        Record::Update(u) => {
            h.kind = RECORD_UPDATE;
            of_update(h, parts, u);
        }
        Record::Commit { settled, applied } => {
            h.kind = RECORD_COMMIT;
            parts.bytes.extend_from_slice(&applied.to_le_bytes());
            parts.clocks = settled.clone();
        }
    }
}

fn to_record(h: &Header, mut payload: Arc<Vec<f32>>) -> Result<Record> {
    let short = || Error::refused("a record is cut short");
    Ok(match h.kind {
        RECORD_RESET => Record::Reset,
        RECORD_UPDATE => Record::Update(to_update(h, payload, None)?),
        RECORD_BLOCK => {
            let at = payload.len().checked_sub(3).ok_or_else(short)?;
            let (version, width) = (long(&payload[at..at + 2]), payload[at + 2].to_bits());
            pool::make_mut(&mut payload).truncate(at);
            let n = h.count as usize;
            if n == 0 || n > ARRAYS_MAX || !payload.len().is_multiple_of(n) || width == 0 {
                return Err(Error::refused(format!("{at} elements are not {n} arrays of equal length")));
            }
            let arrays = if at == 0 {
                vec![Arc::default(); n]
            } else {
                payload.chunks_exact(at / n).map(|a| Arc::new(a.to_vec())).collect()
            };
            Record::Block { table: h.table, block: h.key as u32, version, width, arrays }
        }
        _ => {
            if payload.len() < 2 || !payload.len().is_multiple_of(2) {
                return Err(short());
            }
            let mut numbers = payload.chunks_exact(2).map(long);
            let applied = numbers.next().ok_or_else(short)?;
            let settled = Clocks::of(numbers);
            pool::give(payload);
            Record::Commit { settled, applied }
        }
    })
}

fn to_update(h: &Header, mut payload: Arc<Vec<f32>>, rows: Option<Rows>) -> Result<Update> {
    let listed = if rows.is_some() { 0 } else { h.count as usize };
    let at = payload.len().checked_sub(2).and_then(|n| n.checked_sub(listed));
    let short = || Error::refused("an update is cut short");
    let at = at.ok_or_else(short)?;
    let (rate, last) = (payload[at + listed], payload[at + listed + 1].to_bits());
    let rows = rows.map_or_else(|| to_rows(&payload[at..at + listed], listed), Ok)?;
    let (count, numbers) = (last & COUNT_MASK, (last >> COUNT_BITS) as usize);
    let end = at.checked_sub(numbers).ok_or_else(short)?;
    let numbers = (numbers > 0).then(|| Arc::new(payload[end..at].to_vec()));
    pool::make_mut(&mut payload).truncate(end);
    let data = match h.flags >> PACKED {
        0 => payload,
        code => {
            let data = filter::unpacked(code, &payload);
            pool::give(payload);
            data?
        }
    };
    Ok(Update { table: h.table, block: h.key as u32, rows, data, rate, numbers, count, filter: None })
}

fn text(h: &Header, payload: &[f32]) -> Result<String> {
    let bytes = bytemuck::cast_slice::<f32, u8>(payload).get(..h.count as usize).filter(|b| b.len() <= NAME_MAX);
    let text = bytes.and_then(|b| std::str::from_utf8(b).ok());
    text.map(str::to_string).ok_or_else(|| Error::refused("the name of a file is cut short, too long or no text"))
}
fn long(words: &[f32]) -> u64 {
    u64::from(words[0].to_bits()) | u64::from(words[1].to_bits()) << 32
}
fn to_rows(words: &[f32], count: usize) -> Result<Rows> {
    if words.len() != count {
        return Err(Error::refused(format!("{count} rows were announced, but {} came", words.len())));
    }
    Ok(Rows::of(words.iter().map(|w| w.to_bits())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(e: &Envelope) -> (Header, Vec<f32>) {
        let (h, parts) = e.encode(3);
        let bytes = parts.slices().concat();
        assert_eq!(bytes.len() % 4, 0, "{e:?}");
        (h, bytes.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect())
    }

    #[test]
    fn every_message_reads_back_and_shorter_ones_are_refused_or_smaller() {
        let data = Arc::new(vec![1.0, f32::MIN, 0.5]);
        let update = Update {
            table: 1,
            block: 2,
            rows: vec![4, 9, 1].into(),
            data: data.clone(),
            rate: 0.1,
            numbers: None,
            count: 7,
            filter: None,
        };
        let tuned = Update { numbers: Some(Arc::new(vec![0.9, 0.5])), ..update.clone() };
        let record = |record| Message::Record { stream: 5, seq: 6, record };
        let messages = [
            Message::Map(Arc::new(Map::new(2, &[0, 1], 2, 3).unwrap())),
            Message::Create { table: 1, block: 2, width: 3, data: data.clone() },
            Message::Created { table: 1, block: 2 },
            Message::Push { life: 3, clock: 8, index: 2, last: true, update: Some(update.clone()) },
            Message::Push { life: 3, clock: 8, index: 2, last: true, update: Some(tuned.clone()) },
            Message::Push { life: 3, clock: 8, index: 2, last: false, update: None },
            Message::Settled { clock: 8, closed: 9 },
            Message::Pull { clock: 8, request: 1, table: 1, block: 2, rows: vec![4, 9].into() },
            Message::Dump { clock: 8, request: 1, table: 1, block: 2 },
            Message::Save { clock: 8, request: 1, to: "s3://a/b".to_string() },
            Message::Save { clock: 8, request: 1, to: "ä".to_string() },
            Message::Snapped { request: 1, blocks: Some(3) },
            Message::Snapped { request: 1, blocks: None },
            Message::Restore { table: 1, block: 2, data: data.clone() },
            Message::Value { request: 1, closed: 2, data: data.clone() },
            Message::Fresh { table: 1, block: 2, closed: 5, data: data.clone() },
            Message::Join { life: 2 },
            Message::Joined { life: 2, clock: 3 },
            record(Record::Reset),
            record(Record::Block { table: 1, block: 2, version: 1 << 40, width: 3, arrays: vec![data.clone(), data] }),
            record(Record::Update(update)),
            record(Record::Update(tuned)),
            record(Record::Commit { settled: vec![1, 1 << 50].into(), applied: 3 }),
            Message::RecordAck { stream: 1, seq: 2 },
            Message::Moved,
            Message::Lost,
            Message::DiskFull,
        ];
        for message in messages {
            let e = Envelope { partition: 11, epoch: 12, message };
            let (h, payload) = words(&e);
            assert_eq!(Envelope::decode(&h, payload.clone()).unwrap(), e);
            // Whatever is cut off, nothing panics.
            for n in 0..payload.len() {
                let _ = Envelope::decode(&h, payload[..n].to_vec());
            }
        }
        assert!(Envelope::decode(&Header::new(99), Vec::new()).is_err());
    }
}
