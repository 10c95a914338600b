//! Triton's system shared memory: tensors that a client of the same machine has put into a file of `/dev/shm` instead of
//! sending them. Off unless it is asked for (`--shared-memory`), and then only files of the server's own user.
//!
//! Regions are read and written with `pread` and `pwrite`, not mapped. A client can make its file shorter at any time:
//! reading memory behind its end would end the server (SIGBUS), while such a read is an error of one request. It is one
//! copy, into memory that a program reads, as from a socket but without the way through the network.

use crate::failure::{Answered, Failure};
use crate::input::Data;
use parking_lot::RwLock;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Regions at most.
const REGIONS_MAX: usize = 1024;
/// Bytes of the name of a region, or of its file, at most.
const NAME_MAX: usize = 255;

/// A part of a file in shared memory.
#[derive(Debug)]
pub struct Region {
    /// The name that requests use.
    pub name: String,
    /// The file, as `shm_open` takes it.
    pub key: String,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length.
    pub byte_size: u64,
    file: File,
}

impl Region {
    /// What the protocol says about it.
    pub fn json(&self) -> Value {
        json!({ "name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.byte_size })
    }
}

/// A tensor's place in a region, within its bounds.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The region.
    pub region: Arc<Region>,
    /// Where the tensor begins in the region.
    pub offset: u64,
    /// Bytes that it has, or has room for.
    pub byte_size: usize,
}

impl Slot {
    fn at(&self) -> u64 {
        self.region.offset + self.offset
    }
    fn failure(&self, tensor: &str, e: &io::Error) -> Failure {
        let name = &self.region.name;
        let why = match e.kind() {
            io::ErrorKind::UnexpectedEof => "its file has become shorter".to_string(),
            _ => e.to_string(),
        };
        Failure::invalid(format!("{tensor}: shared memory region {name:?}: {why}"))
    }
    /// The tensor that lies there.
    pub fn read(&self, tensor: &str) -> Answered<Data> {
        let mut out = ir::Bytes::any(self.byte_size);
        self.region.file.read_exact_at(out.as_mut(), self.at()).map_err(|e| self.failure(tensor, &e))?;
        Ok(Data::Whole(Arc::new(out)))
    }
    /// Puts a tensor there.
    pub fn write(&self, tensor: &str, bytes: &[u8]) -> Answered<()> {
        if bytes.len() > self.byte_size {
            let (need, name) = (bytes.len(), &self.region.name);
            let e =
                format!("{tensor}: {need} bytes do not fit the {} of shared memory region {name:?}", self.byte_size);
            return Err(Failure::invalid(e));
        }
        let written = self.region.file.metadata().and_then(|file| {
            // To write behind the end would make the file longer.
            let is_there = self.at() + bytes.len() as u64 <= file.len();
            if is_there { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        });
        let written = written.and_then(|()| self.region.file.write_all_at(bytes, self.at()));
        written.map_err(|e| self.failure(tensor, &e))
    }
}

/// The regions that clients have registered.
#[derive(Default)]
pub struct Regions {
    /// Where files of shared memory are; `None` if clients may not use them.
    directory: Option<PathBuf>,
    /// Bytes of a tensor at most.
    byte_max: usize,
    regions: RwLock<BTreeMap<String, Arc<Region>>>,
}

impl Regions {
    /// None, and clients may register none.
    pub fn off() -> Regions {
        Regions::default()
    }
    /// None yet. Clients may register files of `directory`, which is `/dev/shm` but in tests, and tensors in them have up to
    /// `byte_max` bytes.
    pub fn new(directory: &Path, byte_max: usize) -> Regions {
        Regions { directory: Some(directory.into()), byte_max, regions: RwLock::default() }
    }
    /// Whether clients may use shared memory.
    pub fn is_on(&self) -> bool {
        self.directory.is_some()
    }
    fn directory(&self) -> Answered<&Path> {
        let off = || Failure::not_found("shared memory is off: start the server with --shared-memory");
        self.directory.as_deref().ok_or_else(off)
    }

    /// Registers a region of a file.
    pub fn register(&self, name: &str, key: &str, offset: u64, byte_size: u64) -> Answered<()> {
        let directory = self.directory()?;
        let bad = |e: String| Failure::invalid(format!("shared memory region {name:?}: {e}"));
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Failure::invalid(format!("the name of a region has 1 to {NAME_MAX} bytes")));
        }
        let file_name = key.strip_prefix('/').unwrap_or(key);
        let is_plain = !file_name.is_empty() && file_name.len() <= NAME_MAX && !file_name.contains(['/', '\0']);
        if !is_plain || file_name == "." || file_name == ".." {
            return Err(bad(format!("the key {key:?} is not a name of shared memory, such as \"/inputs\"")));
        }
        // A link would lead elsewhere, and opening a pipe would wait for its other side.
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = options.open(directory.join(file_name)).map_err(|e| bad(format!("{key}: {e}")))?;
        let about = file.metadata().map_err(|e| bad(format!("{key}: {e}")))?;
        if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
            return Err(bad(format!("{key} is not a file of the user that runs the server")));
        }
        let is_inside = offset.checked_add(byte_size).is_some_and(|end| end <= about.len());
        if byte_size == 0 || !is_inside {
            let len = about.len();
            return Err(bad(format!("{byte_size} bytes from {offset} on are not in the {len} bytes of {key}")));
        }
        let mut regions = self.regions.write();
        if regions.contains_key(name) {
            return Err(bad("it is registered already".into()));
        }
        if regions.len() >= REGIONS_MAX {
            return Err(bad(format!("there are {REGIONS_MAX} regions already")));
        }
        let region = Region { name: name.into(), key: key.into(), offset, byte_size, file };
        regions.insert(name.into(), Arc::new(region));
        Ok(())
    }
    /// Forgets a region, or all of them. Requests that use it go on.
    pub fn unregister(&self, name: Option<&str>) {
        let mut regions = self.regions.write();
        match name {
            None => regions.clear(),
            // One that is not there is no error for Triton either.
            Some(name) => drop(regions.remove(name)),
        }
    }
    /// A region, or all of them.
    pub fn status(&self, name: Option<&str>) -> Answered<Vec<Arc<Region>>> {
        let regions = self.regions.read();
        match name {
            None => Ok(regions.values().cloned().collect()),
            Some(name) => {
                let missing = || Failure::not_found(missing(name));
                regions.get(name).cloned().map(|region| vec![region]).ok_or_else(missing)
            }
        }
    }
    /// The place of a tensor.
    pub fn slot(&self, tensor: &str, region: &str, offset: u64, byte_size: u64) -> Answered<Slot> {
        self.directory()?;
        let missing = || Failure::invalid(missing(region));
        let region = self.regions.read().get(region).cloned().ok_or_else(missing)?;
        let is_inside = offset.checked_add(byte_size).is_some_and(|end| end <= region.byte_size);
        let byte_size = usize::try_from(byte_size).ok().filter(|_| is_inside).ok_or_else(|| {
            let (name, len) = (&region.name, region.byte_size);
            Failure::invalid(format!(
                "{tensor}: {byte_size} bytes from {offset} on are not in the {len} of shared memory region {name:?}"
            ))
        })?;
        if byte_size > self.byte_max {
            return Err(crate::packing::too_large(self.byte_max));
        }
        Ok(Slot { region, offset, byte_size })
    }
}

fn missing(name: &str) -> String {
    format!("there is no shared memory region {name:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(data: &Data) -> Vec<u8> {
        data.slices().collect::<Vec<_>>().concat()
    }

    #[test]
    fn tensors_are_read_and_written_inside_of_their_region() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("in"), (0..100).collect::<Vec<u8>>()).unwrap();
        let regions = Regions::new(dir.path(), 1000);
        regions.register("a", "/in", 10, 50).unwrap();
        let slot = regions.slot("x", "a", 5, 8).unwrap();
        assert_eq!(bytes(&slot.read("x").unwrap()), (15..23).collect::<Vec<u8>>());
        slot.write("x", &[7; 8]).unwrap();
        assert!(slot.write("x", &[7; 9]).unwrap_err().message.contains("do not fit"));
        let file = std::fs::read(dir.path().join("in")).unwrap();
        assert_eq!((file.len(), file[14], &file[15..23], file[23]), (100, 14, &[7; 8][..], 23));
        assert_eq!(regions.status(None).unwrap().len(), 1);
        assert_eq!(regions.status(Some("a")).unwrap()[0].json()["byte_size"], 50);
        regions.unregister(Some("a"));
        assert!(regions.status(Some("a")).is_err() && regions.slot("x", "a", 0, 1).is_err());
        // Who has the region already keeps it.
        assert_eq!(bytes(&slot.read("x").unwrap()), [7; 8]);
    }

    #[test]
    fn what_is_not_in_a_file_of_the_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("in"), [0; 100]).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        std::os::unix::fs::symlink(at("in"), at("link")).unwrap();
        let regions = Regions::new(dir.path(), 64);
        for key in ["", "/", ".", "..", "/..", "../in", "//in", "folder/in", "/folder", "/link", "/none", "a\0b"] {
            assert!(regions.register("a", key, 0, 10).is_err(), "{key:?}");
        }
        for (offset, byte_size) in [(0, 101), (100, 1), (u64::MAX, 2), (1, u64::MAX), (0, 0), (101, 0)] {
            assert!(regions.register("a", "in", offset, byte_size).is_err(), "{offset} {byte_size}");
        }
        assert!(regions.register("", "in", 0, 1).is_err());
        regions.register("a", "in", 0, 100).unwrap();
        assert!(regions.register("a", "in", 0, 100).unwrap_err().message.contains("already"));
        for (offset, byte_size) in [(0, 101), (100, 1), (u64::MAX, 1), (1, u64::MAX), (0, 65)] {
            assert!(regions.slot("x", "a", offset, byte_size).is_err(), "{offset} {byte_size}");
        }
        let off = Regions::off();
        assert!(off.register("a", "in", 0, 1).unwrap_err().message.contains("--shared-memory"));
        assert!(off.slot("x", "a", 0, 1).unwrap_err().message.contains("--shared-memory"));
    }

    /// A mapping would end the process here.
    #[test]
    fn a_file_that_becomes_shorter_is_an_error_of_the_request() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("in"), [1; 9000]).unwrap();
        let regions = Regions::new(dir.path(), 1 << 20);
        regions.register("a", "in", 0, 9000).unwrap();
        let slot = regions.slot("x", "a", 4000, 5000).unwrap();
        assert!(slot.read("x").is_ok());
        let file = File::options().write(true).open(dir.path().join("in")).unwrap();
        file.set_len(4096).unwrap();
        assert!(slot.read("x").err().is_some_and(|e| e.message.contains("shorter")));
        assert!(slot.write("x", &[2; 5000]).unwrap_err().message.contains("shorter"));
        assert_eq!(file.metadata().unwrap().len(), 4096, "writing does not make it longer");
        file.set_len(0).unwrap();
        assert!(slot.read("x").is_err());
    }
}
