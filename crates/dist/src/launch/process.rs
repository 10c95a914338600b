//! Processes of a job: on this machine, or on others through `ssh`.

use super::dashboard::{ProcessState, say};
use super::running::Running;
use crate::{Error, Result};
use parking_lot::Mutex;
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a log is read.
const TAIL: Duration = Duration::from_millis(20);
/// How long to wait for the last words of a process that has ended.
const HEAR_OUT: Duration = Duration::from_secs(2);

/// Longest line that is passed on as one.
const LINE_MAX: usize = 8 << 20;

/// A machine and how many workers it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name or address.
    pub name: String,
    /// Workers it takes.
    pub slots: u32,
}

impl Machine {
    /// This machine, for this many workers.
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

/// How a Python program says that it fails, and how long that is held back until it has ended.
const TRACEBACK: &[u8] = b"Traceback (most recent call last):";
const HOLD: Duration = Duration::from_secs(1);
const HELD_MAX: usize = 64 << 10;

/// A traceback that is held back until it is known what the process comes to: of a program that fails
/// to start, one is enough.
#[derive(Default)]
struct Held {
    lines: Vec<Vec<u8>>,
    since: Option<Instant>,
}
impl Held {
    /// Keeps a line if it belongs to a traceback.
    fn takes(&mut self, line: &[u8]) -> bool {
        if self.since.is_none() && !line.starts_with(TRACEBACK) {
            return false;
        }
        self.since.get_or_insert_with(Instant::now);
        self.lines.push(line.to_vec());
        self.lines.iter().map(Vec::len).sum::<usize>() < HELD_MAX
    }
    fn is_old(&self) -> bool {
        self.since.is_some_and(|at| at.elapsed() > HOLD)
    }
    fn pass_on(&mut self, name: &str) {
        self.since = None;
        self.lines.drain(..).for_each(|line| say_of(name, &line));
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
    /// On another machine: what is written here are signals for it, and its end is the process's end.
    signals: Option<ChildStdin>,
    /// Since when it has been stopped, if it is.
    stopped: Option<Instant>,
    /// How it ended, if it has.
    pub ended: Option<ExitStatus>,
    /// Whether its log grows no more, and who prints what it says.
    done: Arc<AtomicBool>,
    followers: Vec<JoinHandle<()>>,
    held: Arc<Mutex<Held>>,
    /// How often it has said something.
    words: Arc<AtomicU64>,
}

/// What a process is started with.
pub(crate) struct Start<'a> {
    pub name: String,
    pub number: u32,
    pub restarts: u32,
    pub machine: &'a Machine,
    pub command: &'a [OsString],
    /// What runs the command so that it ends with the launcher: see [`super::guarded`].
    pub guard: &'a [OsString],
    pub vars: Vec<(&'static str, String)>,
    /// What calls other machines.
    pub ssh: &'a OsStr,
    /// A folder for what the process says, if it is to go on without the launcher.
    pub logs: Option<&'a Path>,
}

/// A folder for what the processes of a job say.
pub(crate) fn logs(job: &str) -> Result<PathBuf> {
    let folder = Path::new("talweg-logs").join(job);
    // What processes say is for the eyes of who started them.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(Error::io(format!("making {}", folder.display())))?;
    say(&format!("[launch] what the processes say is kept in {}", folder.display()));
    Ok(folder)
}

impl Process {
    /// Starts it; what it says is printed with its name before each line.
    pub fn start(s: Start) -> Result<Process> {
        let mut command = if s.machine.is_here() {
            // A process that is to go on without the launcher is not bound to it.
            let guard = if s.logs.is_none() { s.guard } else { &[] };
            let words: Vec<&OsString> = guard.iter().chain(s.command).collect();
            let mut c = Command::new(words[0]);
            c.args(&words[1..]).envs(s.vars.iter().map(|(k, v)| (k, v))).stdin(Stdio::null());
            c
        } else {
            let mut c = Command::new(s.ssh);
            c.arg(&s.machine.name).arg("exec sh -s").stdin(Stdio::piped());
            c
        };
        let began = Instant::now();
        // In its own group: Ctrl-C reaches the launcher alone, which hands it on once.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = Arc::new(AtomicBool::new(false));
        let held = Arc::<Mutex<Held>>::default();
        let words = Arc::<AtomicU64>::default();
        let mut followers = Vec::new();
        if let Some(folder) = s.logs {
            let path = log(folder, &s.name);
            let failed = || Error::io(format!("writing {}", path.display()));
            let log = File::options().append(true).create(true).mode(0o600).open(&path).map_err(failed())?;
            command.stdout(log.try_clone().map_err(failed())?).stderr(log);
            followers.extend(follow(s.name.clone(), Some(Tail::open(&path, &done)?), &held, &words));
        }
        let child = command.spawn();
        let mut child = child.map_err(Error::io(format!("starting {:?}", s.command[0])))?;
        let mut signals = child.stdin.take();
        if let Some(to) = &mut signals {
            // Not as arguments, where every user of that machine could read the secret. If nothing
            // reads it, the process has ended, which is noticed.
            let _ = to.write_all(script(&s)?.as_bytes());
        }
        say(&format!("[launch] {} is process {}", s.name, child.id()));
        followers.extend(follow(s.name.clone(), child.stdout.take(), &Arc::default(), &words));
        followers.extend(follow(s.name.clone(), child.stderr.take(), &held, &words));
        let Start { name, number, restarts, .. } = s;
        let running = Running::Child(child);
        let (stopped, ended) = (None, None);
        Ok(Process { name, number, restarts, began, running, signals, stopped, ended, done, followers, held, words })
    }
    /// One that a launcher before this one has started; what it says from now on is printed.
    pub fn adopt(name: String, number: u32, restarts: u32, running: Running, logs: &Path) -> Result<Process> {
        let done = Arc::new(AtomicBool::new(false));
        let tail = Tail::open(&log(logs, &name), &done)?;
        let (held, words) = (Arc::default(), Arc::default());
        let followers = follow(name.clone(), Some(tail), &held, &words).into_iter().collect();
        let (began, signals, stopped, ended) = (Instant::now(), None, None, None);
        Ok(Process { name, number, restarts, began, running, signals, stopped, ended, done, followers, held, words })
    }
    /// How often it has said something.
    pub fn words(&self) -> u64 {
        self.words.load(Ordering::Relaxed)
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
    /// Prints a traceback that is held back: at once, or if the process lives on with it.
    pub fn pass_on(&mut self, at_once: bool) {
        if at_once && self.held.lock().since.is_some() {
            self.hear_out();
        }
        let mut held = self.held.lock();
        if at_once || held.is_old() {
            held.pass_on(&self.name);
        }
    }
    /// How it has ended, said once. The exit status of an adopted process is unknown: then `is_done` says
    /// whether it had said that it was done.
    pub fn has_ended(&mut self, is_done: impl FnOnce() -> bool) -> Result<Option<ExitStatus>> {
        if self.ended.is_some() {
            return Ok(None);
        }
        self.ended = self.running.has_ended(is_done).map_err(Error::io(format!("waiting for {}", self.name)))?;
        Ok(self.ended)
    }
    /// True if it has been stopped, as SIGSTOP does, for so long. A process that has joined the job is
    /// missed when its heartbeats stop; this finds a process that was stopped before it joined.
    pub fn is_stopped(&mut self, long: Duration) -> bool {
        let is_stopped = self.ended.is_none() && self.running.is_stopped();
        self.stopped = if is_stopped { self.stopped.or_else(|| Some(Instant::now())) } else { None };
        self.stopped.is_some_and(|since| since.elapsed() > long)
    }
    /// Ends it at once.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            self.signals = None;
            self.ended = self.running.kill();
        }
    }
    /// Ends it at once, and finds out later, as if another process had done it.
    pub fn strike(&mut self) {
        // On another machine it is the end of its input that ends it.
        self.signals = None;
        self.running.signal(Signal::KILL);
    }
    /// Asks it to end, as Ctrl-C does.
    pub fn interrupt(&mut self) {
        match &mut self.signals {
            _ if self.ended.is_some() => {}
            // If it is not read, the process has ended.
            Some(to) => drop(to.write_all(b"INT\n")),
            None => self.running.signal(Signal::INT),
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
        // Its replacement appends to the same log, and has its own reader.
        self.done.store(true, Ordering::Relaxed);
    }
}

/// What a shell on another machine has to do: the same folder, the same variables; then it hands on
/// the signals that come through its input, and kills the process when that ends, as it does when the
/// launcher is gone.
fn script(s: &Start) -> Result<String> {
    let folder = std::env::current_dir().map_err(Error::io("finding the current folder"))?;
    let mut out = format!("cd {} || exit 1\n", quote(folder.as_os_str())?);
    for (name, value) in &s.vars {
        out += &format!("export {name}={}\n", quote(OsStr::new(value))?);
    }
    let words = s.command.iter().map(|w| quote(w)).collect::<Result<Vec<_>>>()?.join(" ");
    if s.logs.is_some() {
        return Ok(out + &format!("exec {words} < /dev/null\n"));
    }
    // The watcher is in the background, where signals are ignored; the program takes the shell's place.
    // When the program has ended, the watcher is not its child any more and leaves the number alone.
    out += "exec 3<&0\np=$$\n";
    out += "{ while read -r s; do kill -$s $p; done; read -r a b c q d < /proc/self/stat; ";
    out += "[ \"$q\" = $p ] && kill -9 $p; } <&3 >/dev/null 2>&1 &\n";
    out += &format!("exec {words} < /dev/null 3<&-\n");
    Ok(out)
}
fn quote(word: &OsStr) -> Result<String> {
    let text = word.to_str().ok_or_else(|| Error::value(format!("{word:?} cannot be said to another machine")))?;
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

/// Prints what a process says as it comes, with its name before each line. A carriage return, with
/// which progress bars begin a line again, ends one too.
fn follow(
    name: String,
    from: Option<impl Read + Send + 'static>,
    held: &Arc<Mutex<Held>>,
    words: &Arc<AtomicU64>,
) -> Option<JoinHandle<()>> {
    let (mut from, held, words) = (from?, held.clone(), words.clone());
    Some(std::thread::spawn(move || {
        let (mut chunk, mut line) = (vec![0; 1 << 16], Vec::new());
        let mut hear = |line: &[u8]| {
            let mut held = held.lock();
            let is_held = held.takes(line);
            if !is_held && !held.lines.is_empty() {
                held.pass_on(&name);
            } else if !is_held {
                say_of(&name, line);
            }
        };
        loop {
            match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => {
                    words.fetch_add(1, Ordering::Relaxed);
                    cut_lines(&chunk[..n], &mut line, &mut hear);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if !line.is_empty() && line != b"\r" {
            hear(&line);
        }
    }))
}
fn say_of(name: &str, line: &[u8]) {
    say(&format!("[{name}] {}", String::from_utf8_lossy(line)));
}
/// Hands on the lines that have ended, and keeps what has not; never more than the longest line.
fn cut_lines(chunk: &[u8], line: &mut Vec<u8>, say: &mut impl FnMut(&[u8])) {
    for &byte in chunk {
        let is_drawn = line.last() == Some(&b'\r');
        if is_drawn {
            line.pop();
        }
        // What was before a carriage return is complete, and was said if nothing is left of it.
        if (byte == b'\n' && !is_drawn) || (!line.is_empty() && (is_drawn || line.len() >= LINE_MAX)) {
            say(line);
            line.clear();
        }
        if byte != b'\n' {
            line.push(byte);
        }
    }
    // A bar that is drawn now is seen now.
    if line.last() == Some(&b'\r') && line.len() > 1 {
        line.pop();
        say(line);
        line.clear();
        line.push(b'\r');
    }
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
        for bad in ["", "# a comment", "n1 2", "n1 slots=0", "n1 slots=2 more", "-oProxyCommand=x"] {
            assert!(Machine::parse_all(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn progress_bars_are_seen_as_they_are_drawn_and_lines_are_whole() {
        let mut line = Vec::new();
        let mut said: Vec<String> = Vec::new();
        for chunk in ["a\nb", "c\r\nd\n", "10 %\r", "20 %", "\r30 %\r", "\n", "e"] {
            cut_lines(chunk.as_bytes(), &mut line, &mut |l| said.push(String::from_utf8(l.to_vec()).unwrap()));
        }
        assert_eq!(said, ["a", "bc", "d", "10 %", "20 %", "30 %"]);
        assert_eq!(line, b"e");
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
