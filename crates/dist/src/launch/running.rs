//! A process of this machine, started by this launcher or by one before it, and the file by which
//! the next launcher finds it.
//!
//! Numbers of processes are given again; with the time at which a process began they are not.

use crate::{Error, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// A process that runs, or has run.
pub(crate) enum Running {
    /// Started by this one, which is told how it ends.
    Child(Child),
    /// Started by another.
    Adopted(Adopted),
}

/// A process that another launcher has started.
pub(crate) struct Adopted {
    id: u32,
    began: u64,
    /// Since when it has been missing.
    gone: Option<Instant>,
}

/// What a process has said last is known so long after its end.
const ECHO: Duration = Duration::from_secs(1);

/// State and beginning of a process, as the system knows them.
fn look(id: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.chars().next()?;
    Some((state, words.nth(18)?.parse().ok()?))
}

/// Whether that very process still runs.
fn is_there(id: u32, began: u64) -> bool {
    look(id).is_some_and(|(state, at)| at == began && state != 'Z')
}

impl Running {
    /// One that runs now, if it is still the same.
    pub fn find(id: u32, began: u64) -> Option<Running> {
        is_there(id, began).then(|| Running::adopt(id, began))
    }
    /// One that ran when that was written down.
    pub fn adopt(id: u32, began: u64) -> Running {
        Running::Adopted(Adopted { id, began, gone: None })
    }
    pub fn id(&self) -> u32 {
        match self {
            Running::Child(c) => c.id(),
            Running::Adopted(a) => a.id,
        }
    }
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.id() as i32)
    }
    /// When it began; `None` if it has ended.
    pub fn began(&self) -> Option<u64> {
        look(self.id()).map(|(_, began)| began)
    }
    pub fn has_ended(&mut self, is_done: impl FnOnce() -> bool) -> io::Result<Option<ExitStatus>> {
        match self {
            Running::Child(c) => c.try_wait(),
            Running::Adopted(a) => {
                let is_gone = !is_there(a.id, a.began);
                if !is_gone || a.gone.get_or_insert_with(Instant::now).elapsed() < ECHO {
                    return Ok(None);
                }
                // As if a signal had ended it, unless it was done.
                Ok(Some(ExitStatus::from_raw(if is_done() { 0 } else { Signal::KILL.as_raw() })))
            }
        }
    }
    pub fn is_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match self {
            Running::Child(_) => {
                let told = self.pid().map(|pid| waitid(WaitId::Pid(pid), options));
                matches!(told, Some(Ok(Some(s))) if s.stopped())
            }
            Running::Adopted(a) => look(a.id).is_some_and(|(state, at)| at == a.began && state == 'T'),
        }
    }
    /// It may have ended at this very moment, which is as good.
    pub fn signal(&self, signal: Signal) {
        // A child that was not waited for keeps its number.
        let is_same = |a: &Adopted| is_there(a.id, a.began);
        let is_own = if let Running::Adopted(a) = self { is_same(a) } else { true };
        if let Some(pid) = self.pid().filter(|_| is_own) {
            let _ = kill_process(pid, signal);
        }
    }
    pub fn kill(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::KILL);
        match self {
            Running::Child(c) => c.wait().ok(),
            Running::Adopted(..) => Some(ExitStatus::from_raw(Signal::KILL.as_raw())),
        }
    }
}

/// What the next launcher needs to take over a job. Only the user who started it may read it, as
/// the secret of the job is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PidFile {
    pub secret: String,
    pub master: u16,
    /// Number of the next server.
    pub server_next: u32,
    pub processes: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub role: String,
    pub number: u32,
    pub restarts: u32,
    pub id: u32,
    pub began: u64,
}

impl PidFile {
    fn path(folder: &Path) -> PathBuf {
        folder.join("processes")
    }
    pub fn write(&self, folder: &Path) -> Result<()> {
        let (path, fresh) = (PidFile::path(folder), folder.join("processes.new"));
        let mut text = format!("{} {} {}\n", self.secret, self.master, self.server_next);
        for e in &self.processes {
            text += &format!("{} {} {} {} {}\n", e.role, e.number, e.restarts, e.id, e.began);
        }
        let write = || {
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&fresh, &path)
        };
        write().map_err(Error::io(format!("writing {}", path.display())))
    }
    /// What a launcher before this one has left, if it is whole.
    pub fn read(folder: &Path) -> Option<PidFile> {
        let text = fs::read_to_string(PidFile::path(folder)).ok()?;
        let mut lines = text.lines();
        let mut head = lines.next()?.split(' ');
        let (secret, master) = (head.next()?.to_string(), head.next()?.parse().ok()?);
        let server_next = head.next()?.parse().ok()?;
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let role = words.next()?.to_string();
            let mut number = || words.next()?.parse::<u64>().ok();
            let (place, restarts, id) = (number()? as u32, number()? as u32, number()? as u32);
            Some(Entry { role, number: place, restarts, id, began: number()? })
        };
        let processes = lines.map(entry).collect::<Option<Vec<_>>>()?;
        Some(PidFile { secret, master, server_next, processes })
    }
    /// The job is over.
    pub fn remove(folder: &Path) {
        // One that is left behind names processes that have ended.
        let _ = fs::remove_file(PidFile::path(folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_ledger_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(PidFile::read(folder.path()), None);
        let entry = Entry { role: "worker".into(), number: 1, restarts: 2, id: 3, began: 1 << 40 };
        let pid_file = PidFile { secret: "abc".into(), master: 5, server_next: 7, processes: vec![entry] };
        pid_file.write(folder.path()).unwrap();
        assert_eq!(PidFile::read(folder.path()), Some(pid_file));
        fs::write(PidFile::path(folder.path()), "abc 5 7\nworker 1 2").unwrap();
        assert_eq!(PidFile::read(folder.path()), None);
    }

    #[test]
    fn a_process_of_another_is_watched_and_ended() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let (_, began) = look(child.id()).unwrap();
        assert!(Running::find(child.id(), began + 1).is_none(), "another with this number");
        let mut found = Running::find(child.id(), began).unwrap();
        assert!(found.has_ended(|| true).unwrap().is_none() && !found.is_stopped());
        found.signal(Signal::STOP);
        while !found.is_stopped() {}
        found.signal(Signal::KILL);
        child.wait().unwrap();
        let ended = loop {
            if let Some(status) = found.has_ended(|| false).unwrap() {
                break status;
            }
        };
        assert!(!ended.success());
    }
}
