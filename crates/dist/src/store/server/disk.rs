//! Partitions on disk: for each a file with everything it holds, followed by a log of what changed.
//!
//! To a partition the disk is one more backup: it gets the same numbered records, and a worker is
//! told that a step is settled when the disk has it as well. A file is frames of the wire format,
//! each with a checksum; what follows the last whole commit (a torn write, half a step) does not
//! count. When the log has grown past what it describes, the partition is rewritten beside the
//! old file, which is replaced when the new one is complete.

use crate::store::message::{Envelope, Message, Record};
use crate::{Error, Result};
use net::{HEADER_BYTES, Header};
use smallvec::SmallVec;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, IoSlice, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A log shorter than this is never worth rewriting.
const LOG_MIN: u64 = 4 << 20;
/// A log is rewritten when it is this many times as long as what it describes, and not short.
const LOG_FACTOR: u64 = 4;

/// Where a server keeps its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The folder; each server needs one of its own.
    pub folder: PathBuf,
    /// Whether every commit waits for the device: what is settled then survives a power cut, not
    /// only the death of processes.
    pub sync: bool,
    /// Bytes that one partition may take.
    pub bytes_max: u64,
    /// Whether what a former job has left in the folder is removed first.
    pub is_fresh: bool,
    /// Servers of the job, for one of them: folders of later numbers beside its own are those of servers that are gone.
    pub servers: Option<u32>,
}

impl Disk {
    /// In that folder, without waiting for the device and without a limit.
    pub fn new(folder: impl Into<PathBuf>) -> Disk {
        Disk { folder: folder.into(), sync: false, bytes_max: u64::MAX, is_fresh: false, servers: None }
    }
    pub(crate) fn path(&self, partition: u32) -> PathBuf {
        self.folder.join(format!("partition-{partition}.log"))
    }
    /// How far each partition is that has a file here, and from which step on the file can be
    /// repeated, in a job of this many workers. The folder and the files are their owner's alone.
    pub fn positions(&self, workers: usize) -> Result<Vec<(u32, Kept)>> {
        let failed = || Error::io(format!("reading {}", self.folder.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed())?;
        let mut out = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if self.is_fresh && ["partition-", "rule-"].iter().any(|kind| name.starts_with(kind)) {
                fs::remove_file(entry.path()).map_err(failed())?;
                continue;
            }
            let number = name.strip_prefix("partition-").and_then(|n| n.strip_suffix(".log"));
            let Some(partition) = number.and_then(|n| n.parse::<u32>().ok()) else { continue };
            let (mut position, mut first) = (Position::default(), None);
            self.replay(partition, |epoch, record| {
                if let Record::Commit { settled, applied } = record {
                    if settled.len() != workers {
                        return Err(self.of_others(settled.len(), workers));
                    }
                    position = Position { epoch, applied, settled: settled.iter().sum() };
                    first.get_or_insert(applied);
                }
                Ok(())
            })?;
            out.push((partition, Kept { position, first: first.unwrap_or(0) }));
        }
        out.sort_unstable();
        Ok(out)
    }
    fn of_others(&self, found: usize, workers: usize) -> Error {
        let folder = self.folder.display();
        let e = format!("the store in {folder} is that of a job of {found} workers, and this one has {workers}");
        Error::value(format!("{e}: move it away, and the job starts from its newest checkpoint"))
    }
    /// Reads a partition's file, record after record with its epoch, up to the last whole one.
    pub fn replay(&self, partition: u32, mut to: impl FnMut(u64, Record) -> Result<()>) -> Result<()> {
        let path = self.path(partition);
        let failed = || Error::io(format!("reading {}", path.display()));
        let mut file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => BufReader::with_capacity(1 << 20, file.map_err(failed())?),
        };
        let mut left = file.get_ref().metadata().map_err(failed())?.len();
        let mut head = [0; HEADER_BYTES];
        while left >= HEADER_BYTES as u64 {
            file.read_exact(&mut head).map_err(failed())?;
            left -= HEADER_BYTES as u64;
            // From the first frame that is not whole, nothing was acknowledged.
            let Ok(h) = Header::decode(&head) else { break };
            if u64::from(h.length) > left || h.length % 4 != 0 {
                break;
            }
            left -= u64::from(h.length);
            let mut words = vec![0f32; h.length as usize / 4];
            file.read_exact(bytemuck::cast_slice_mut(&mut words)).map_err(failed())?;
            if crc32c::crc32c(bytemuck::cast_slice(&words)) != h.payload_crc {
                break;
            }
            let Ok(Envelope { epoch, message: Message::Record { record, .. }, .. }) = Envelope::decode(&h, words)
            else {
                break;
            };
            to(epoch, record)?;
        }
        Ok(())
    }
    /// What appends to a partition's file.
    pub fn journal(&self, partition: u32) -> Journal {
        Journal { disk: self.clone(), partition, file: None, is_new: false, good: 0, whole: 0, stream: 0, next: 0 }
    }
}

/// How far a copy of a partition is: of two, the greater has everything that the other has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The epoch it was last written in.
    pub epoch: u64,
    /// Closed steps that are applied.
    pub applied: u64,
    /// Settled steps of all workers.
    pub settled: u64,
}

/// What a file holds of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// How far it is.
    pub position: Position,
    /// Applied steps of the whole content with which it begins: every later step can be taken up.
    pub first: u64,
}

/// Appends records to a partition's file.
#[derive(Debug)]
pub struct Journal {
    disk: Disk,
    partition: u32,
    file: Option<File>,
    /// The file is complete only after its first commit, and then takes the old one's place.
    is_new: bool,
    /// Bytes of whole frames.
    good: u64,
    /// Bytes of the content at the file's beginning.
    whole: u64,
    stream: u64,
    next: u64,
}

impl Journal {
    /// Appends one record; returns the number of the first one it lacks. After an error the file
    /// is as it was, and the same record can be tried again.
    pub fn append(&mut self, e: &Envelope) -> Result<u64> {
        let Message::Record { stream, seq, record } = &e.message else {
            return Err(Error::value("only records are kept on disk"));
        };
        if *record == Record::Reset && *seq == 0 && *stream > self.stream {
            let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(fresh(&self.path()));
            self.file = Some(file.map_err(|e| self.failed(e))?);
            (self.is_new, self.good, self.stream, self.next) = (true, 0, *stream, 0);
        }
        if *stream != self.stream || *seq != self.next {
            return Ok(self.next);
        }
        assert!(self.is_new || self.whole <= self.good, "the content precedes the log");
        match self.write(e) {
            Ok(n) => self.good += n,
            Err(e) => {
                // Nothing half-written stays; where even that fails, the checksum tells.
                if let Some(file) = &mut self.file {
                    let _ = file.set_len(self.good);
                    let _ = io::Seek::seek(file, io::SeekFrom::Start(self.good));
                }
                return Err(self.failed(e));
            }
        }
        if matches!(record, Record::Commit { .. }) {
            self.commit().map_err(|e| self.failed(e))?;
        }
        self.next += 1;
        Ok(self.next)
    }
    fn path(&self) -> PathBuf {
        self.disk.path(self.partition)
    }
    fn failed(&self, e: io::Error) -> Error {
        Error::io(format!("writing {}", self.path().display()))(e)
    }
    /// After a commit: the first makes a new file the partition's.
    fn commit(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if self.is_new {
            let path = self.disk.path(self.partition);
            file.sync_all()?;
            fs::rename(fresh(&path), &path)?;
            File::open(&self.disk.folder).and_then(|d| d.sync_all())?;
            (self.is_new, self.whole) = (false, self.good);
        } else if self.disk.sync {
            file.sync_data()?;
        }
        Ok(())
    }
    fn write(&mut self, e: &Envelope) -> io::Result<u64> {
        let (mut h, parts) = e.encode(0);
        let slices = parts.slices();
        h.length = slices.iter().map(|s| s.len()).sum::<usize>() as u32;
        h.payload_crc = slices.iter().fold(0, |crc, s| crc32c::crc32c_append(crc, s));
        let total = HEADER_BYTES as u64 + u64::from(h.length);
        if self.good + total > self.disk.bytes_max {
            let e = format!("{} bytes are allowed, {} would be needed", self.disk.bytes_max, self.good + total);
            return Err(io::Error::new(io::ErrorKind::StorageFull, e));
        }
        let without = || io::Error::other("a log does not begin with its content");
        let file = self.file.as_mut().ok_or_else(without)?;
        let head = h.encode();
        let mut all: SmallVec<[IoSlice; 8]> = std::iter::once(IoSlice::new(&head)).collect();
        all.extend(slices.iter().filter(|s| !s.is_empty()).map(|s| IoSlice::new(s)));
        let mut rest = &mut all[..];
        while !rest.is_empty() {
            match file.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut rest, n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(total)
    }
    /// True if the log is longer than it is worth: the content should be rewritten.
    pub fn is_long(&self) -> bool {
        !self.is_new && self.good - self.whole > (LOG_FACTOR * self.whole).max(LOG_MIN).min(self.disk.bytes_max / 2)
    }
}

/// Where a file is written that is not complete yet.
fn fresh(path: &Path) -> PathBuf {
    path.with_extension("new")
}
