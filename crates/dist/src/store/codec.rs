//! Messages of the store as frames: where each field stands in the header and the payload.

use crate::filter::{self, Filter};
use crate::kinds::store::*;
use crate::pool;
use crate::store::map::Map;
use crate::store::message::{Clocks, Envelope, Message, Record, Rows, Update};
use crate::store::wire::Parts;
use crate::{Error, Result};
use net::Header;
use std::sync::Arc;

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
    /// The header and payload; the data is not copied.
    pub fn encode(&self, sender: u32) -> (Header, Parts) {
        let mut h = Header { epoch: self.epoch, sender, key: u64::from(self.partition) << 32, ..Header::default() };
        let mut parts = Parts::default();
        put(&self.message, &mut h, &mut parts);
        (h, parts)
    }

    /// Reads a message from its header and the words of its payload, which become its elements.
    pub fn decode(h: &Header, payload: impl Into<Arc<Vec<f32>>>) -> Result<Envelope> {
        Envelope::decode_with(h, payload.into(), None)
    }
    /// As [`Envelope::decode`]; the list of rows, if there is one, stands in the place of the payload's.
    pub(crate) fn decode_with(h: &Header, payload: Arc<Vec<f32>>, rows: Option<Rows>) -> Result<Envelope> {
        Ok(Envelope { partition: (h.key >> 32) as u32, epoch: h.epoch, message: take(h, payload, rows)? })
    }
}

/// Writes a field of a message to its place: a field of the header, the low half of the key or of the request, or the
/// payload.
macro_rules! put_field {
    ($h:ident, $parts:ident, block, $value:ident) => {
        $h.key |= u64::from(*$value)
    };
    ($h:ident, $parts:ident, life, $value:ident) => {
        $h.request = u64::from(*$value)
    };
    ($h:ident, $parts:ident, payload, $value:ident) => {
        $parts.arrays.push($value.clone())
    };
    ($h:ident, $parts:ident, $place:ident, $value:ident) => {
        $h.$place = *$value
    };
}
/// Reads a field of a message from its place.
macro_rules! take_field {
    ($h:ident, $payload:ident, block) => {
        $h.key as u32
    };
    ($h:ident, $payload:ident, life) => {
        $h.request as u32
    };
    ($h:ident, $payload:ident, payload) => {
        $payload
    };
    ($h:ident, $payload:ident, $place:ident) => {
        $h.$place
    };
}
/// Messages whose fields each have one place, by kind; `put_other` and `take_other` know the others.
macro_rules! messages {
    ($($name:ident = $kind:ident { $($field:ident: $place:ident),* })*) => {
        fn put(message: &Message, h: &mut Header, parts: &mut Parts) {
            match message {
                $(Message::$name { $($field),* } => {
                    h.kind = $kind;
                    $(put_field!(h, parts, $place, $field);)*
                })*
                other => put_other(other, h, parts),
            }
        }
        fn take(h: &Header, payload: Arc<Vec<f32>>, rows: Option<Rows>) -> Result<Message> {
            Ok(match h.kind {
                $($kind => Message::$name { $($field: take_field!(h, payload, $place)),* },)*
                _ => return take_other(h, payload, rows),
            })
        }
    };
}
messages! {
    Create = CREATE { table: table, block: block, width: count, data: payload }
    Created = CREATED { table: table, block: block }
    Settled = SETTLED { clock: clock, closed: request }
    Dump = DUMP { clock: clock, request: request, table: table, block: block }
    Restore = RESTORE { table: table, block: block, data: payload }
    Value = VALUE { request: request, closed: clock, data: payload }
    Fresh = FRESH { table: table, block: block, closed: clock, data: payload }
    Join = JOIN { life: life }
    Joined = JOINED { life: life, clock: clock }
    RecordAck = RECORD_ACK { stream: clock, seq: request }
    Moved = MOVED {}
    DiskFull = DISK_FULL {}
}

fn put_other(message: &Message, h: &mut Header, parts: &mut Parts) {
    match message {
        Message::Map(m) => (h.kind, parts.bytes) = (MAP, m.encode().into()),
        Message::Push { life, clock, index, last, update } => {
            (h.kind, h.clock, h.request) = (PUSH, *clock, u64::from(*life) << 32 | u64::from(*index));
            h.flags |= if *last { LAST } else { 0 };
            match update {
                Some(u) => of_update(h, parts, u),
                None => h.flags |= EMPTY,
            }
        }
        Message::Pull { clock, request, table, block, rows } => {
            (h.kind, h.clock, h.request, h.table) = (PULL, *clock, *request, *table);
            h.key |= u64::from(*block);
            h.count = rows.len() as u32;
            parts.rows = rows.clone();
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
        Message::Record { stream, seq, record } => {
            (h.clock, h.request) = (*stream, *seq);
            of_record(h, parts, record);
        }
        plain => unreachable!("{plain:?} has a row"),
    }
}

fn take_other(h: &Header, payload: Arc<Vec<f32>>, rows: Option<Rows>) -> Result<Message> {
    Ok(match h.kind {
        MAP => Message::Map(Arc::new(Map::decode(bytemuck::cast_slice(&payload))?)),
        PUSH => {
            let update = if h.flags & EMPTY != 0 { None } else { Some(to_update(h, payload, rows)?) };
            let (life, index) = ((h.request >> 32) as u32, h.request as u32);
            Message::Push { life, clock: h.clock, index, last: h.flags & LAST != 0, update }
        }
        PULL => {
            let rows = rows.map_or_else(|| to_rows(&payload, h.count as usize), Ok)?;
            pool::give(payload);
            Message::Pull { clock: h.clock, request: h.request, table: h.table, block: h.key as u32, rows }
        }
        SAVE => Message::Save { clock: h.clock, request: h.request, to: text(h, &payload)? },
        SNAPPED => Message::Snapped { request: h.request, blocks: (h.flags & EMPTY == 0).then_some(h.count) },
        RECORD_RESET..=RECORD_COMMIT => {
            Message::Record { stream: h.clock, seq: h.request, record: to_record(h, payload)? }
        }
        other => return Err(Error::refused(format!("there is no message of kind {other}"))),
    })
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
