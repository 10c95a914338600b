//! A timeline of regions in Chrome's trace format, which Perfetto opens.
//!
//! Off, it costs one load a run. With the environment variable `TALWEG_TRACE=out.json`, every run
//! of every program is appended to that file; [`record`] collects what a function runs.

use parking_lot::Mutex;
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Instant;

static ON: AtomicBool = AtomicBool::new(false);
static EVENTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());
static FILE: OnceLock<Option<Mutex<std::fs::File>>> = OnceLock::new();

/// One region's run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The names of its ops.
    pub name: String,
    /// The user's lines.
    pub sites: String,
    /// When it began, in microseconds since the trace's start.
    pub start_us: f64,
    /// How long it took, in microseconds.
    pub duration_us: f64,
    /// The thread that ran it, numbered from 1.
    pub thread: u32,
    /// Bytes it reads and writes.
    pub bytes: usize,
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
        }
        n.get()
    })
}

/// Opens the file that `TALWEG_TRACE` names, once; called when a device is made.
pub(crate) fn init() {
    FILE.get_or_init(|| {
        let path = std::env::var_os("TALWEG_TRACE").filter(|p| !p.is_empty())?;
        match std::fs::File::create(&path).and_then(|mut f| f.write_all(b"[\n").map(|()| f)) {
            Ok(f) => {
                epoch();
                ON.store(true, Relaxed);
                Some(Mutex::new(f))
            }
            Err(e) => {
                eprintln!("TALWEG_TRACE: cannot write {}: {e}", path.display());
                None
            }
        }
    });
}

/// True if regions are to be timed.
#[inline]
pub(crate) fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Times `f` as one event.
pub(crate) fn time<R>(describe: impl FnOnce() -> (String, String, usize), f: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let r = f();
    let duration_us = start.elapsed().as_secs_f64() * 1e6;
    let start_us = start.duration_since(epoch()).as_secs_f64() * 1e6;
    let (name, sites, bytes) = describe();
    let event = Event { name, sites, start_us, duration_us, thread: thread(), bytes };
    if let Some(Some(file)) = FILE.get() {
        // A full disk must not stop the program it watches.
        let _ = file.lock().write_all((json(&event) + ",\n").as_bytes());
    } else {
        EVENTS.lock().push(event);
    }
    r
}

/// Runs `f` and returns the regions that ran meanwhile, on any thread.
///
/// With `TALWEG_TRACE` set they go to its file instead.
pub fn record<R>(f: impl FnOnce() -> R) -> (R, Vec<Event>) {
    epoch();
    let was = ON.swap(true, Relaxed);
    let r = f();
    ON.store(was, Relaxed);
    (r, std::mem::take(&mut *EVENTS.lock()))
}

/// Events as a file that Chrome and Perfetto open.
pub fn to_json(events: &[Event]) -> String {
    format!("[\n{}\n]\n", events.iter().map(json).collect::<Vec<_>>().join(",\n"))
}

fn json(e: &Event) -> String {
    let escape = |s: &str| {
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
    };
    format!(
        r#"{{"name":"{}","ph":"X","ts":{:.3},"dur":{:.3},"pid":1,"tid":{},"args":{{"bytes":{},"lines":"{}"}}}}"#,
        escape(&e.name),
        e.start_us,
        e.duration_us,
        e.thread,
        e.bytes,
        escape(&e.sites)
    )
}
