//! Folders of servers on disk: each has one writer at a time, and those that no server of a job has are taken over.
//!
//! A server that takes a lost one's place has its own number, and a folder of that number, which the first servers of
//! the next job do not have. They take over what they find in such folders and is newer than their own.

use crate::store::server::disk::Disk;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a server waits for one that still writes in its folder, as one that is being killed, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// How the folder of a server begins.
pub(crate) const FOLDER: &str = "server-";

impl Disk {
    /// Makes the folder its own while the answer lives: a server that was given up may still write there.
    pub fn lock(&self) -> Result<File> {
        lock(&self.folder, Instant::now() + PATIENCE)?
            .ok_or_else(|| Error::value(format!("another server keeps its partitions in {}", self.folder.display())))
    }

    /// Takes over what servers have left that this job does not have, of a job of this many workers.
    pub fn adopt(&self, workers: usize) -> Result<()> {
        let (Some(first), Some(all)) = (self.servers, self.folder.parent()) else { return Ok(()) };
        let failed = || Error::io(format!("taking over what is in {}", all.display()));
        // Several servers of this machine may begin at once.
        let Some(_one_at_a_time) = lock(all, Instant::now() + PATIENCE)? else {
            return Err(Error::value(format!("other servers do not get done with {}", all.display())));
        };
        let mut own: BTreeMap<_, _> = self.positions(workers)?.into_iter().collect();
        for entry in fs::read_dir(all).map_err(failed())? {
            let folder = entry.map_err(failed())?.path();
            let name = folder.file_name().and_then(|n| n.to_str()?.strip_prefix(FOLDER)?.parse::<u32>().ok());
            if name.is_none_or(|n| n < first) {
                continue;
            }
            let orphan = Disk { folder, servers: None, ..self.clone() };
            let Some(_writer) = lock(&orphan.folder, Instant::now())? else { continue };
            for (p, kept) in orphan.positions(workers)? {
                if own.get(&p).is_none_or(|mine| mine.position < kept.position) {
                    fs::rename(orphan.path(p), self.path(p)).map_err(failed())?;
                    own.insert(p, kept);
                }
            }
            for rule in fs::read_dir(&orphan.folder).map_err(failed())? {
                let rule = rule.map_err(failed())?;
                let to = self.folder.join(rule.file_name());
                if rule.file_name().to_string_lossy().starts_with("rule-") && !to.exists() {
                    fs::rename(rule.path(), to).map_err(failed())?;
                }
            }
            File::open(&self.folder).and_then(|f| f.sync_all()).map_err(failed())?;
            fs::remove_dir_all(&orphan.folder).map_err(failed())?;
        }
        Ok(())
    }
}

/// Locks a folder, which is made if it is not there; `None` if another has it until then.
fn lock(folder: &Path, until: Instant) -> Result<Option<File>> {
    let failed = || Error::io(format!("locking {}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed())?;
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(folder.join("lock"));
    let file = file.map_err(failed())?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOOK),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(failed()(e)),
        }
    }
}
