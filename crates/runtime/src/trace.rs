//! A timeline of what devices run, in Chrome's trace format, which Perfetto opens.
//!
//! Off, it costs one load a run. With the environment variable `TALWEG_TRACE=out.json` or after
//! [`write_to`], every run of every program is added to a file, which is whole JSON at any time;
//! [`record`] collects what a function runs.

use ir::{Result, Site};
use parking_lot::Mutex;
pub use passes::MemoryUse as Memory;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// How many want events: the file, and each [`record`] that is running.
static LISTENERS: AtomicU32 = AtomicU32::new(0);
static EVENTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());
static MEMORY: Mutex<Memory> = Mutex::new(Memory { given: 0, arena: 0, results: 0, in_place: 0 });
static RECORDERS: AtomicU32 = AtomicU32::new(0);
static FILE: Mutex<Option<File>> = Mutex::new(None);
/// Names of threads, by number.
static THREADS: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());

/// What a region is, said once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// The names of its ops.
    pub name: String,
    /// The user's lines, each with its part of the region's ops.
    pub lines: Vec<(Site, f64)>,
    /// Bytes it reads and writes.
    pub bytes: usize,
    /// Operations on numbers, where they are known.
    pub flops: usize,
}

/// One region's run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The region.
    pub region: Arc<Region>,
    /// When it began, in microseconds since the trace's start.
    pub start_us: f64,
    /// How long it took, in microseconds.
    pub duration_us: f64,
    /// The thread that ran it, numbered from 1.
    pub thread: u32,
}

/// What ran.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Every region's run.
    pub events: Vec<Event>,
    /// The memory of the program that needed most.
    pub memory: Memory,
}

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

fn thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }
    NUMBER.with(|n| {
        if n.get() == 0 {
            n.set(NEXT.fetch_add(1, Relaxed));
            let current = std::thread::current();
            let name = current.name().map_or_else(|| format!("thread {}", n.get()), str::to_string);
            let line = thread_line(n.get(), &name);
            if let Some(file) = FILE.lock().as_mut() {
                let _ = append(file, &line);
            }
            THREADS.lock().insert(n.get(), name);
        }
        n.get()
    })
}

/// Opens the file that `TALWEG_TRACE` names, once; a device calls it when it is made.
pub fn init() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        if let Some(path) = std::env::var_os("TALWEG_TRACE").filter(|p| !p.is_empty())
            && let Err(e) = write_to(Path::new(&path))
        {
            crate::log::warn(format_args!("TALWEG_TRACE: {e}"));
        }
    });
}

/// From now on adds every region that runs to a new file.
pub fn write_to(path: &Path) -> Result<()> {
    let file = File::create(path).and_then(|mut f| f.write_all(b"[\n]\n").and_then(|()| named(&mut f)).map(|()| f));
    let file = file.map_err(|e| ir::Error::value(format!("cannot write {}: {e}", path.display())))?;
    epoch();
    if FILE.lock().replace(file).is_none() {
        LISTENERS.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Names the process and the threads that are known so far.
fn named(file: &mut File) -> std::io::Result<()> {
    append(file, &process_line())?;
    let threads = THREADS.lock().clone();
    threads.iter().try_for_each(|(&n, name)| append(file, &thread_line(n, name)))
}

/// True if regions are to be timed.
#[inline]
pub fn is_on() -> bool {
    LISTENERS.load(Relaxed) > 0
}

/// Times `f` as one event.
pub fn time<R>(region: &Arc<Region>, f: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let r = f();
    let duration_us = start.elapsed().as_secs_f64() * 1e6;
    let start_us = start.duration_since(epoch()).as_secs_f64() * 1e6;
    add(Event { region: region.clone(), start_us, duration_us, thread: thread() });
    r
}

fn add(event: Event) {
    if let Some(file) = FILE.lock().as_mut() {
        // A full disk must not stop the program it watches.
        let _ = append(file, &json(&event));
    }
    if RECORDERS.load(Relaxed) > 0 {
        EVENTS.lock().push(event);
    }
}

/// A part of the user's program that is being timed; [`Span::end`] adds it as an event.
pub struct Span {
    region: Arc<Region>,
    start: Instant,
    thread: u32,
}

impl Span {
    /// Begins a part with this name.
    pub fn begin(name: &str, site: Site) -> Span {
        epoch();
        let region = Region { name: name.into(), lines: vec![(site, 1.0)], bytes: 0, flops: 0 };
        Span { region: Arc::new(region), start: Instant::now(), thread: thread() }
    }
    /// Ends it; a no-op unless a recording is active.
    pub fn end(self) {
        if is_on() {
            let duration_us = self.start.elapsed().as_secs_f64() * 1e6;
            let start_us = self.start.duration_since(epoch()).as_secs_f64() * 1e6;
            add(Event { region: self.region, start_us, duration_us, thread: self.thread });
        }
    }
}

/// Notes that a program runs which needs this memory.
pub fn note_memory(memory: Memory) {
    if RECORDERS.load(Relaxed) > 0 {
        let mut most = MEMORY.lock();
        if memory.peak() > most.peak() {
            *most = memory;
        }
    }
}

/// Adds an element to a file that ends with `]`.
fn append(file: &mut File, element: &str) -> std::io::Result<()> {
    let end = file.seek(SeekFrom::End(-2))?;
    let comma = if end == 2 { "" } else { ",\n" };
    // Over the line break before the bracket, if something stands there.
    file.seek(SeekFrom::Start(if end == 2 { end } else { end - 1 }))?;
    file.write_all(format!("{comma}{element}\n]\n").as_bytes())
}

/// Runs `f` and returns what ran during it, on any thread.
pub fn record<R>(f: impl FnOnce() -> R) -> (R, Recording) {
    let recorder = Recorder::start();
    let r = f();
    (r, recorder.finish())
}

/// Collects what runs, on any thread, from when it is made until it is finished or dropped.
pub struct Recorder(());

impl Recorder {
    /// Begins to collect.
    pub fn start() -> Recorder {
        epoch();
        RECORDERS.fetch_add(1, Relaxed);
        LISTENERS.fetch_add(1, Relaxed);
        Recorder(())
    }
    /// What has run since it was made, or since this was last asked for.
    pub fn take(&self) -> Recording {
        let memory = std::mem::take(&mut *MEMORY.lock());
        Recording { events: std::mem::take(&mut *EVENTS.lock()), memory }
    }
    /// Ends the collection.
    pub fn finish(self) -> Recording {
        let recording = self.take();
        drop(self);
        recording
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if RECORDERS.fetch_sub(1, Relaxed) == 1 {
            EVENTS.lock().clear();
        }
        LISTENERS.fetch_sub(1, Relaxed);
    }
}

/// Events as a file that Chrome and Perfetto open, with the names of the process and of the threads.
pub fn to_json(events: &[Event]) -> String {
    let threads = THREADS.lock().clone();
    let names = threads.iter().map(|(&n, name)| thread_line(n, name));
    let lines: Vec<String> = std::iter::once(process_line()).chain(names).chain(events.iter().map(json)).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// The line that names this process: its program and, under `talweg launch`, which worker it is.
fn process_line() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let rank = std::env::var("RANK").map_or(String::new(), |r| format!(" worker {r}"));
    let (id, name) = (std::process::id(), escape(&format!("{program}{rank}")));
    format!(r#"{{"name":"process_name","ph":"M","pid":{id},"tid":0,"args":{{"name":"{name}"}}}}"#)
}

/// The line that names a thread.
fn thread_line(number: u32, name: &str) -> String {
    let id = std::process::id();
    format!(r#"{{"name":"thread_name","ph":"M","pid":{id},"tid":{number},"args":{{"name":"{}"}}}}"#, escape(name))
}

fn escape(s: &str) -> String {
    let mut out = String::new();
    for c in s.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

fn json(e: &Event) -> String {
    let lines: Vec<String> = e.region.lines.iter().map(|(s, _)| s.to_string()).collect();
    format!(
        r#"{{"name":"{}","ph":"X","ts":{:.3},"dur":{:.3},"pid":{},"tid":{},"args":{{"bytes":{},"flops":{},"lines":"{}"}}}}"#,
        escape(&e.region.name),
        e.start_us,
        e.duration_us,
        std::process::id(),
        e.thread,
        e.region.bytes,
        e.region.flops,
        escape(&lines.join(" "))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_after_every_event() {
        let path = std::env::temp_dir().join(format!("talweg-trace-{}.json", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"[\n]\n").unwrap();
        let mut want = vec!["[\n]\n".to_string()];
        for n in ["1", "2", "3"] {
            append(&mut file, n).unwrap();
            let list = ["1", "2", "3"].iter().filter(|m| **m <= n).copied().collect::<Vec<_>>().join(",\n");
            want.push(format!("[\n{list}\n]\n"));
            assert_eq!(&std::fs::read_to_string(&path).unwrap(), want.last().unwrap());
        }
        std::fs::remove_file(path).unwrap();
    }
}
