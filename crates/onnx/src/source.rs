//! Where the bytes of a model lie: the mapped file, or memory; and external data beside it.

use ir::{Bytes, Error, ErrorKind, ForeignMemory, Result};
use memmap2::Mmap;
use parking_lot::Mutex;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Mapped tensors begin on a cache line, as those in memory do.
const ALIGNMENT: usize = 64;
/// Smaller tensors are copied.
const MAP_MIN: usize = 1 << 16;

/// Bytes that stay where they are.
enum Memory {
    Mapped(Arc<Mmap>),
    Owned(Vec<u8>),
}

/// A model's file and what lies beside it.
pub struct Source {
    memory: Arc<Memory>,
    /// The folder of external data.
    folder: Option<PathBuf>,
    beside: Mutex<BTreeMap<String, Arc<Memory>>>,
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Mapped(m) => m,
            Memory::Owned(v) => v,
        }
    }
}

/// Part of some bytes.
struct Part(Arc<Memory>, Range<usize>);

impl ForeignMemory for Part {
    fn bytes(&self) -> &[u8] {
        &self.0.bytes()[self.1.clone()]
    }
}

/// Bytes that hold a tensor.
pub struct Blob {
    memory: Arc<Memory>,
    range: Range<usize>,
}

impl Blob {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[self.range.clone()]
    }
    /// The bytes where they lie, if a tensor can be there.
    pub fn shared(&self) -> Option<Arc<Bytes>> {
        let is_fit = self.range.len() >= MAP_MIN && self.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT);
        let part = || Box::new(Part(self.memory.clone(), self.range.clone()));
        is_fit.then(|| Arc::new(Bytes::foreign(part())))
    }
}

fn io(path: &Path, e: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {e}", path.display()))
}

impl Source {
    /// Maps a file.
    pub fn open(path: &Path) -> Result<Source> {
        let memory = Arc::new(Memory::Mapped(model::map_file(path).map_err(|e| io(path, e))?));
        let folder = path.parent().map(|p| if p.as_os_str().is_empty() { PathBuf::from(".") } else { p.to_path_buf() });
        Ok(Source { memory, folder, beside: Mutex::default() })
    }
    /// A model in memory; external data are in `folder`, if it may have any.
    pub fn of(bytes: Vec<u8>, folder: Option<PathBuf>) -> Source {
        Source { memory: Arc::new(Memory::Owned(bytes)), folder, beside: Mutex::default() }
    }
    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }
    /// Part of it.
    pub fn blob(&self, range: Range<usize>) -> Result<Blob> {
        if range.start > range.end || range.end > self.bytes().len() {
            return Err(Error::bug("a range beyond the file"));
        }
        Ok(Blob { memory: self.memory.clone(), range })
    }
    /// Part of a file in the model's folder.
    pub fn external(&self, entries: &[(String, String)]) -> Result<Blob> {
        let entry = |key: &str| entries.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let number = |key: &str| {
            let bad = |v: &str| Error::format(format!("external data: {key} is {v:?}, not a number of bytes"));
            entry(key).map(|v| v.parse::<usize>().map_err(|_| bad(v))).transpose()
        };
        let location = entry("location").ok_or_else(|| Error::format("external data have no location"))?;
        let memory = self.file_beside(location)?;
        let all = memory.bytes().len();
        let start = number("offset")?.unwrap_or(0);
        let end = match number("length")? {
            Some(n) => start.checked_add(n),
            None => Some(all),
        };
        match end {
            Some(end) if start <= end && end <= all => Ok(Blob { memory, range: start..end }),
            _ => {
                Err(Error::format(format!("external data: {location:?} has {all} bytes, fewer than offset and length")))
            }
        }
    }

    fn file_beside(&self, location: &str) -> Result<Arc<Memory>> {
        let mut beside = self.beside.lock();
        if let Some(m) = beside.get(location) {
            return Ok(m.clone());
        }
        let none = || Error::value("the model has external data, but it was given as bytes: load it by its path");
        let folder = self.folder.as_deref().ok_or_else(none)?;
        let file = open_below(folder, Path::new(location))?;
        let mapped = model::map_opened(&file).map_err(|e| io(&folder.join(location), e))?;
        let memory = Arc::new(Memory::Mapped(mapped));
        beside.insert(location.to_string(), memory.clone());
        Ok(memory)
    }
}

/// Opens a regular file below a folder. No part of the path may be a link or lead upward, and the file may have no
/// second name: a model decides which files of its folder are read, and no others.
fn open_below(folder: &Path, path: &Path) -> Result<File> {
    let refuse = |why: &str| Error::format(format!("external data {:?}: {why}", path.display().to_string()));
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(p) => parts.push(p),
            Component::CurDir => {}
            _ => return Err(refuse("the path must stay inside the model's folder")),
        }
    }
    let (name, folders) = parts.split_last().ok_or_else(|| refuse("it has no name"))?;
    let failed = |e: rustix::io::Errno| match e {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => refuse("links are not followed"),
        e => io(&folder.join(path), e),
    };
    let base = File::open(folder).map_err(|e| io(folder, e))?;
    let mut at: std::os::fd::OwnedFd = base.into();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for part in folders {
        at = openat(&at, *part, flags | OFlags::DIRECTORY, Mode::empty()).map_err(failed)?;
    }
    let file = openat(&at, *name, flags | OFlags::NONBLOCK, Mode::empty()).map_err(failed)?;
    let stat = fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refuse("it is not a regular file"));
    }
    if stat.st_nlink != 1 {
        return Err(refuse("the file has several names (hard links)"));
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn external_data_stay_in_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("model");
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::write(dir.path().join("secret"), b"secret").unwrap();
        fs::write(inside.join("data"), b"0123456789").unwrap();
        fs::write(inside.join("sub/data"), b"sub").unwrap();
        std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
        std::os::unix::fs::symlink("..", inside.join("up")).unwrap();
        fs::hard_link(dir.path().join("secret"), inside.join("hard")).unwrap();
        let source = Source::of(Vec::new(), Some(inside));
        let read = |location: &str, offset: &str, length: &str| {
            let e = [("location", location), ("offset", offset), ("length", length)];
            let e: Vec<_> =
                e.iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_string(), v.to_string())).collect();
            source.external(&e).map(|b| b.bytes().to_vec()).map_err(|e| e.to_string())
        };
        assert_eq!(read("data", "2", "3").unwrap(), b"234");
        assert_eq!(read("./sub/data", "", "").unwrap(), b"sub");
        for bad in ["../secret", "sub/../../secret", "/etc/passwd", "link", "up/secret", "hard", "sub", "", "absent"] {
            assert!(read(bad, "", "").is_err(), "{bad}");
        }
        assert!(read("data", "8", "3").unwrap_err().contains("fewer"));
        assert!(read("data", "18446744073709551615", "2").is_err());
    }
}
