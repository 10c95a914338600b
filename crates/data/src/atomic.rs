//! Atomic files: a reader sees the old content or the
//! new one, after a crash or a full disk too.
//!
//! The way: a temporary file in the same folder, write, fsync, rename over the
//! target, fsync of the folder. When anything fails the temporary file is
//! removed and the old file is untouched; after a crash it may be left behind,
//! and [`clean`] removes it. A writer holds a lock (`flock`) on its temporary
//! file, which the system releases when the process ends, so that `clean`
//! removes no other writer's file.
//!
//! Checksums are XXH3-128 (crate `xxhash-rust`): as fast as memory, and far
//! beyond chance for truncation and flipped bits; no protection against people.
//! Formats of others cannot carry one inside, so it lies in a sidecar
//! (`NAME.xxh3`, [`write_checked`]); own formats carry it as a trailer
//! ([`write_sealed`]).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::error::{Error, Result};

/// Marks temporary files: `.NAME.PID-NUMBER.partial`.
const PARTIAL: &str = ".partial";

/// Ends a sealed file, after the length and the checksum.
const SEAL: &[u8; 8] = b"TLWGSEAL";

/// Bytes written at once: a kernel without preemption keeps the processor until a write is done.
const PIECE_BYTES: usize = 1 << 20;

/// Length of the trailer: length, checksum, mark.
const TRAILER_BYTES: usize = 8 + 16 + 8;

/// Replaces the content of a file.
///
/// ```
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("state.json");
/// talweg_data::atomic::write(&path, b"{}")?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"{}");
/// # Ok::<(), talweg_data::Error>(())
/// ```
///
/// # Errors
/// If the file cannot be written; then the old content is still there, and
/// nothing else.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    write_with(path, |writer| writer.write_all(bytes))
}

/// Replaces the content of a file by what a function writes.
///
/// # Errors
/// As [`write()`]; also if the function fails.
pub fn write_with(path: impl AsRef<Path>, content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    Partial::fill(path.as_ref(), content)?.commit()
}

/// Replaces the content of a file, with a checksum in the sidecar `NAME.xxh3`;
/// read it back with [`read_checked`].
///
/// The pair is safe against a crash at any moment: the sidecar is replaced
/// first and holds the sums of the new and of the old content, so that the file
/// agrees with it before and after its own replacement.
///
/// # Errors
/// As [`write()`].
pub fn write_checked(
    path: impl AsRef<Path>,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    let mut sum = Sum::default();
    let partial = Partial::fill(path, |writer| {
        let mut summing = Summing { writer, sum: &mut sum };
        content(&mut summing)
    })?;
    let mut lines = sum.line();
    if let Some(old) = present(path)? {
        lines += &old.line();
    }
    write(sidecar(path), lines.as_bytes())?;
    partial.commit()
}

/// Reads a file that [`write_checked`] wrote.
///
/// # Errors
/// If file or sidecar are missing, or the content is not what was written:
/// truncated, flipped bits, another file.
pub fn read_checked(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
    let mut sum = Sum::default();
    sum.update(&bytes);
    agree(path, &sum)?;
    Ok(bytes)
}

/// Checks a file that [`write_checked`] wrote without holding it in memory.
///
/// # Errors
/// As [`read_checked`].
pub fn verify(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
    agree(path, &Sum::of(file).map_err(|error| Error::io("read", path, error))?)
}

/// Removes a file and its sidecar; it is no error if they are absent.
///
/// # Errors
/// If the operating system refuses.
pub fn remove_checked(path: impl AsRef<Path>) -> Result<()> {
    // The file goes first: a sidecar alone is harmless.
    for path in [path.as_ref(), &sidecar(path.as_ref())] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Replaces the content of a file, followed by a trailer with its length and
/// checksum; read it back with [`read_sealed`].
///
/// # Errors
/// As [`write()`].
pub fn write_sealed(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    write_with(path, |writer| {
        writer.write_all(bytes)?;
        writer.write_all(&trailer(bytes))
    })
}

/// Reads a file that [`write_sealed`] wrote, without the trailer.
///
/// # Errors
/// If the file is missing, has no trailer, or does not agree with it.
pub fn read_sealed(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let mut bytes = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
    let end = bytes.len().checked_sub(TRAILER_BYTES).filter(|_| bytes.ends_with(SEAL));
    let Some(end) = end else {
        return Err(Error::format(path, "truncated or damaged: the file does not end with its seal"));
    };
    if bytes[end..] != trailer(&bytes[..end]) {
        return Err(Error::format(path, "damaged: the content does not agree with its checksum"));
    }
    bytes.truncate(end);
    Ok(bytes)
}

/// Removes temporary files that killed processes left in a folder; returns how
/// many. Those of living writers, on whatever machine, stay: they are locked.
/// Where the file system has no locks nothing is removed.
///
/// # Errors
/// If the folder cannot be listed or a file not removed.
pub fn clean(folder: impl AsRef<Path>) -> Result<usize> {
    let folder = folder.as_ref();
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io("list", folder, error))?;
    let mut removed = 0;
    for entry in entries {
        let path = entry.map_err(|error| Error::io("list", folder, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') || !name.ends_with(PARTIAL) {
            continue;
        }
        // Its writer may have finished since it was listed.
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path, error));
                }
                _ => removed += 1,
            }
        }
    }
    Ok(removed)
}

/// The sidecar of a file.
pub fn sidecar(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".xxh3");
    name.into()
}

fn trailer(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &xxh3_128(bytes).to_le_bytes(), SEAL].concat()
}

/// A temporary file, complete and on disk but not yet in place; removed on
/// drop.
struct Partial<'a> {
    target: &'a Path,
    temporary: PathBuf,
    /// Holds the lock.
    file: Option<File>,
}

impl<'a> Partial<'a> {
    fn fill(target: &'a Path, content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(Error::format(target, "is no name of a file"));
        };
        let failed = |error| Error::io("write", target, error);
        let (temporary, file) = create_locked(target, &name.to_string_lossy()).map_err(failed)?;
        // From here on the file goes when `partial` does.
        let mut partial = Partial { target, temporary, file: None };
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        content(&mut writer).map_err(failed)?;
        let file = writer.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        partial.file = Some(file);
        Ok(partial)
    }

    fn commit(self) -> Result<()> {
        let failed = |error| Error::io("write", self.target, error);
        std::fs::rename(&self.temporary, self.target).map_err(failed)?;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // The rename is on disk only after the folder is.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }
}

/// Creates a temporary file beside `target` that [`clean`] leaves alone, if the file system has
/// locks, and that no other process writes: a process of another machine may have the same number.
fn create_locked(target: &Path, name: &str) -> std::io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = target.with_file_name(format!(".{name}.{}-{number}{PARTIAL}", std::process::id()));
        let file = match File::create_new(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        // Until the lock is held, `clean` may hold it, and has removed the file when it lets go.
        if file.lock().is_err() || path.exists() {
            return Ok((path, file));
        }
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        // After a commit there is nothing to remove; after a failure there is
        // nothing better to do than to try.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// A running checksum with the length.
#[derive(Clone, Default)]
pub(crate) struct Sum {
    hash: Xxh3,
    bytes: u64,
}

impl Sum {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    fn of(mut reader: impl std::io::Read) -> std::io::Result<Sum> {
        let (mut sum, mut buffer) = (Sum::default(), vec![0; 1 << 20]);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(sum),
                Ok(count) => sum.update(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The sidecar's line for this content.
    pub(crate) fn line(&self) -> String {
        format!("{:032x} {}\n", self.hash.digest128(), self.bytes)
    }
}

/// The sum of the present content, if there is a file.
fn present(path: &Path) -> Result<Option<Sum>> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        file => file.and_then(Sum::of).map(Some).map_err(|error| Error::io("read", path, error)),
    }
}

/// Refuses a content that the sidecar does not list.
fn agree(path: &Path, sum: &Sum) -> Result<()> {
    let sidecar = sidecar(path);
    let lines = std::fs::read(&sidecar).map_err(|error| Error::io("read", &sidecar, error))?;
    agree_with(path, sum, &lines)
}

/// Refuses a content that these lines of a sidecar do not list.
pub(crate) fn agree_with(path: &Path, sum: &Sum, lines: &[u8]) -> Result<()> {
    let sidecar = sidecar(path);
    let line = sum.line();
    if lines.split_inclusive(|byte| *byte == b'\n').any(|known| known == line.as_bytes()) {
        return Ok(());
    }
    Err(Error::format(
        path,
        format!(
            "damaged: {} bytes that do not agree with the checksum in {}",
            sum.bytes(),
            sidecar.file_name().unwrap_or_default().to_string_lossy()
        ),
    ))
}

/// Sums what passes through.
struct Summing<'a> {
    writer: &'a mut dyn Write,
    sum: &'a mut Sum,
}

impl Write for Summing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.writer.write(&bytes[..bytes.len().min(PIECE_BYTES)])?;
        self.sum.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}
