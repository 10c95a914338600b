//! Processes of a job: on this machine, or on others through `ssh`.

use super::board::{ProcessState, say};
use super::running::Running;
use crate::{Error, Result};
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a log is looked at.
const TAIL: Duration = Duration::from_millis(20);
/// How long to wait for the last words of a process that has ended.
const HEAR_OUT: Duration = Duration::from_secs(2);

/// A machine and how many workers it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name or address.
    pub name: String,
    /// Workers it takes.
    pub slots: u32,
}

impl Machine {
    /// This machine, for so many workers.
    pub fn here(slots: u32) -> Machine {
        Machine { name: "localhost".to_string(), slots }
    }
    /// True if no other machine has to be called for it.
    pub fn is_here(&self) -> bool {
        matches!(self.name.as_str(), "localhost" | "127.0.0.1" | "::1")
    }
    /// Reads a file of machines: a line for each, `NAME` or `NAME slots=N`; `#` begins a comment.
    pub fn parse_all(text: &str) -> Result<Vec<Machine>> {
        let mut out: Vec<Machine> = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            let slots = match words.next().map(|w| w.strip_prefix("slots=").and_then(|n| n.parse::<u32>().ok())) {
                None => 1,
                Some(Some(n)) if n > 0 && words.next().is_none() => n,
                _ => {
                    let e = format!("line {} of the hosts file: `NAME slots=N` is expected, not {line:?}", i + 1);
                    return Err(Error::value(e));
                }
            };
            // `ssh` would take it for an option.
            if name.starts_with('-') {
                return Err(Error::value(format!("line {} of the hosts file: {name:?} is no machine", i + 1)));
            }
            out.push(Machine { name: name.to_string(), slots });
        }
        if out.is_empty() { Err(Error::value("the hosts file names no machine")) } else { Ok(out) }
    }
}

/// A process and its place in the job.
pub(crate) struct Process {
    pub name: String,
    pub number: u32,
    pub restarts: u32,
    /// When it was started.
    pub began: Instant,
    running: Running,
    /// Since when it has been stopped, if it is.
    stopped: Option<Instant>,
    /// How it ended, if it has.
    pub ended: Option<ExitStatus>,
    /// Whether its log grows no more, and who prints what it says.
    done: Arc<AtomicBool>,
    followers: Vec<JoinHandle<()>>,
}

/// What a process is started with.
pub(crate) struct Start<'a> {
    pub name: String,
    pub number: u32,
    pub restarts: u32,
    pub machine: &'a Machine,
    pub command: &'a [OsString],
    pub vars: Vec<(&'static str, String)>,
    /// What calls other machines.
    pub ssh: &'a OsStr,
    /// A folder for what the process says, if it is to go on without the launcher.
    pub logs: Option<&'a Path>,
}

/// A folder for what the processes of a job say.
pub(crate) fn logs(job: &str) -> Result<PathBuf> {
    let folder = Path::new("talweg-logs").join(job);
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(Error::io(format!("making {}", folder.display())))?;
    say(&format!("[launch] what the processes say is kept in {}", folder.display()));
    Ok(folder)
}

impl Process {
    /// Starts it; what it says is printed with its name before each line.
    pub fn start(s: Start) -> Result<Process> {
        let mut command = if s.machine.is_here() {
            let mut c = Command::new(&s.command[0]);
            c.args(&s.command[1..]).envs(s.vars.iter().map(|(k, v)| (k, v))).stdin(Stdio::null());
            c
        } else {
            let mut c = Command::new(s.ssh);
            c.arg(&s.machine.name).arg("exec sh -s").stdin(Stdio::piped());
            c
        };
        let began = Instant::now();
        // In a group of its own: Ctrl-C reaches the launcher alone, which hands it on once.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = Arc::new(AtomicBool::new(false));
        let mut followers = Vec::new();
        if let Some(folder) = s.logs {
            let path = log(folder, &s.name);
            let failed = || Error::io(format!("writing {}", path.display()));
            let log = File::options().append(true).create(true).open(&path).map_err(failed())?;
            command.stdout(log.try_clone().map_err(failed())?).stderr(log);
            followers.extend(follow(s.name.clone(), Some(Tail::open(&path, &done)?)));
        }
        let child = command.spawn();
        let mut child = child.map_err(Error::io(format!("starting {:?}", s.command[0])))?;
        if let Some(mut to) = child.stdin.take() {
            // Not as arguments, where everybody on that machine could read the secret. If nobody
            // reads it, the process has ended, which is noticed.
            let _ = to.write_all(script(&s)?.as_bytes());
        }
        say(&format!("[launch] {} is process {}", s.name, child.id()));
        followers.extend(follow(s.name.clone(), child.stdout.take()));
        followers.extend(follow(s.name.clone(), child.stderr.take()));
        let Start { name, number, restarts, .. } = s;
        let running = Running::Child(child);
        Ok(Process { name, number, restarts, began, running, stopped: None, ended: None, done, followers })
    }
    /// One that a launcher before this one has started; what it says from now on is printed.
    pub fn adopt(name: String, number: u32, restarts: u32, running: Running, logs: &Path) -> Result<Process> {
        let done = Arc::new(AtomicBool::new(false));
        let tail = Tail::open(&log(logs, &name), &done)?;
        let followers = follow(name.clone(), Some(tail)).into_iter().collect();
        let began = Instant::now();
        Ok(Process { name, number, restarts, began, running, stopped: None, ended: None, done, followers })
    }
    /// Which process it is.
    pub fn running(&self) -> &Running {
        &self.running
    }
    /// Waits until everything that an ended process has said is printed; not for long, as some
    /// process of its own may live on and hold its output open.
    pub fn hear_out(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        let until = Instant::now() + HEAR_OUT;
        while Instant::now() < until && !self.followers.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(TAIL / 10);
        }
    }
    /// How it has ended, said once. Of one that was adopted nobody is told how: then `is_done` says
    /// whether it had said that it was done.
    pub fn has_ended(&mut self, is_done: impl FnOnce() -> bool) -> Result<Option<ExitStatus>> {
        if self.ended.is_some() {
            return Ok(None);
        }
        self.ended = self.running.has_ended(is_done).map_err(Error::io(format!("waiting for {}", self.name)))?;
        Ok(self.ended)
    }
    /// True if it has been stopped, as SIGSTOP does, for so long. Whoever has joined the job is
    /// missed when its heartbeats stop; this finds a process that was stopped before it joined.
    pub fn is_stopped(&mut self, long: Duration) -> bool {
        let is_stopped = self.ended.is_none() && self.running.is_stopped();
        self.stopped = if is_stopped { self.stopped.or_else(|| Some(Instant::now())) } else { None };
        self.stopped.is_some_and(|since| since.elapsed() > long)
    }
    /// Ends it at once.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            self.ended = self.running.kill();
        }
    }
    /// Ends it at once, and finds out later, as if somebody else had done it.
    pub fn strike(&mut self) {
        self.running.signal(Signal::KILL);
    }
    /// Asks it to end, as Ctrl-C does.
    pub fn interrupt(&self) {
        if self.ended.is_none() {
            self.running.signal(Signal::INT);
        }
    }
    pub fn state(&self) -> ProcessState {
        ProcessState {
            name: self.name.clone(),
            id: self.running.id(),
            is_alive: self.ended.is_none(),
            restarts: self.restarts,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Whoever takes its place writes on in the same log, and has a reader of its own.
        self.done.store(true, Ordering::Relaxed);
    }
}

/// What a shell on another machine has to do: the same folder, the same variables.
fn script(s: &Start) -> Result<String> {
    let folder = std::env::current_dir().map_err(Error::io("finding the current folder"))?;
    let mut out = format!("cd {} || exit 1\n", quote(folder.as_os_str())?);
    for (name, value) in &s.vars {
        out += &format!("export {name}={}\n", quote(OsStr::new(value))?);
    }
    let words = s.command.iter().map(|w| quote(w)).collect::<Result<Vec<_>>>()?;
    out += &format!("exec {} < /dev/null\n", words.join(" "));
    Ok(out)
}
fn quote(word: &OsStr) -> Result<String> {
    let text = word.to_str().ok_or_else(|| Error::value(format!("{word:?} cannot be said to another machine")))?;
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

/// Prints what a process says, with its name before each line.
fn follow(name: String, from: Option<impl Read + Send + 'static>) -> Option<JoinHandle<()>> {
    let from = from?;
    Some(std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { break };
            say(&format!("[{name}] {}", String::from_utf8_lossy(&line)));
        }
    }))
}

/// Where a process's words go that must do without its launcher.
fn log(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{}.log", name.replace(' ', "-")))
}

/// A file that grows until its writer is done.
struct Tail {
    from: File,
    done: Arc<AtomicBool>,
}
impl Tail {
    /// What follows the present end.
    fn open(path: &Path, done: &Arc<AtomicBool>) -> Result<Tail> {
        let failed = || Error::io(format!("reading {}", path.display()));
        let mut from = File::open(path).map_err(failed())?;
        from.seek(SeekFrom::End(0)).map_err(failed())?;
        Ok(Tail { from, done: done.clone() })
    }
}
impl Read for Tail {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let is_done = self.done.load(Ordering::Relaxed);
            match self.from.read(into)? {
                0 if !is_done => std::thread::sleep(TAIL),
                n => return Ok(n),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_reads() {
        let machines = Machine::parse_all("# two\nlocalhost slots=2\n\n  n1 # one\n").unwrap();
        assert_eq!(machines, [Machine::here(2), Machine { name: "n1".into(), slots: 1 }]);
        for bad in ["", "# nobody", "n1 2", "n1 slots=0", "n1 slots=2 more", "-oProxyCommand=x"] {
            assert!(Machine::parse_all(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn words_survive_a_shell() {
        for word in ["plain", "with space", "it's", "$HOME `x` \"y\" \\"] {
            let text = format!("printf %s {}", quote(OsStr::new(word)).unwrap());
            let said = Command::new("sh").args(["-c", &text]).output().unwrap().stdout;
            assert_eq!(String::from_utf8(said).unwrap(), word);
        }
    }
}
