//! One launcher a job: where others keep the membership store, a second launcher of the same job is
//! refused while the first one lives.

use super::running::Running;
use crate::membership::{Endpoint, Member};
use crate::{Error, Result};
use net::Hello;
use std::time::{Duration, Instant};

/// Key of the launcher that looks after the job.
const LAUNCHER: &str = "launcher";
/// How long the membership store may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much longer than its lease a lost launcher is waited for.
const SLACK: Duration = Duration::from_secs(2);

/// Held while a launcher looks after a job.
pub(crate) struct Lock {
    line: Member,
    own: String,
}

impl Lock {
    /// Takes the lock of a job. One that a lost launcher held is waited for until its lease lapses, or
    /// taken at once if that was a process of this machine and is gone.
    pub fn take(of: &Endpoint) -> Result<Lock> {
        let line = Member::connect(of, &Hello::new("launcher", 0), None, Instant::now() + PATIENCE)?;
        let lease = if let Endpoint::Etcd(c) = of { c.ttl } else { Duration::ZERO };
        let lock = Lock { line, own: name(std::process::id()) };
        lock.acquire(Instant::now() + lease + SLACK)?;
        Ok(lock)
    }
    fn acquire(&self, until: Instant) -> Result<()> {
        loop {
            let held = self.line.compare_set(LAUNCHER, None, self.own.as_bytes(), Instant::now() + PATIENCE)?;
            let held = String::from_utf8_lossy(&held.unwrap_or_default()).into_owned();
            if held == self.own {
                return self.hold();
            }
            if is_gone(&held) {
                self.line.delete(LAUNCHER, Instant::now() + PATIENCE)?;
            } else if Instant::now() > until {
                let e = "another launcher looks after this job already";
                return Err(Error::value(format!("{e} ({held}): wait for it, or choose another name")));
            } else {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
    /// Binds the lock to this process, with which it ends.
    pub fn hold(&self) -> Result<()> {
        self.line.lease(LAUNCHER, self.own.as_bytes(), Instant::now() + PATIENCE)
    }
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_string()
}
fn name(process: u32) -> String {
    let began = Running::adopt(process, 0).began().unwrap_or(0);
    format!("process {process} on {}, started at {began}", host())
}
/// Whether that was a process of this machine which has ended.
fn is_gone(held: &str) -> bool {
    let read = || {
        let (process, rest) = held.strip_prefix("process ")?.split_once(" on ")?;
        let (at, began) = rest.split_once(", started at ")?;
        let (process, began) = (process.parse::<u32>().ok()?, began.parse::<u64>().ok()?);
        Some(at == host() && Running::find(process, began).is_none())
    };
    read().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Controller, EmbeddedCoordinator};

    #[test]
    fn a_second_launcher_is_refused_while_the_first_lives() {
        let c = EmbeddedCoordinator::start(&"127.0.0.1:0".parse().unwrap(), None, Controller::new(1, 0, 1), |_| {})
            .unwrap();
        let lock = |own: &str| {
            let line = Member::connect(c.address(), &Hello::new("launcher", 0), None, Instant::now() + PATIENCE);
            Lock { line: line.unwrap(), own: own.to_string() }
        };
        let first = lock(&name(std::process::id()));
        first.acquire(Instant::now()).unwrap();
        let e = lock("process 1 on elsewhere, started at 5").acquire(Instant::now()).unwrap_err().to_string();
        assert!(e.contains("another launcher looks after this job already (process "), "{e}");
        drop(first);
        lock("process 1 on elsewhere, started at 5").acquire(Instant::now() + PATIENCE).unwrap();
    }

    #[test]
    fn the_lock_of_a_process_that_is_gone_is_taken_at_once() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let held = name(child.id());
        child.wait().unwrap();
        assert!(is_gone(&held) && !is_gone(&name(std::process::id())), "{held}");
        assert!(!is_gone("process 1 on elsewhere, started at 5") && !is_gone("nonsense"));
    }
}
