//! The line of the Python program that makes a call.

use ::tensor::Site;
use parking_lot::Mutex;
use pyo3::{ffi, intern, prelude::*};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, OnceLock};

/// Code objects remembered at most; programs that make code without end are looked up each time.
const CODES_MAX: usize = 1 << 16;

/// The folder of the package: its own frames are not the user's program.
static PACKAGE: OnceLock<String> = OnceLock::new();
/// The file of each code object, `None` for the package's own. The objects are kept alive, so that
/// an address stands for one of them.
static CODES: LazyLock<Mutex<HashMap<usize, Option<&'static str>>>> = LazyLock::new(Mutex::default);
static FILES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
thread_local! {
    static LAST: Cell<(usize, Option<&'static str>)> = const { Cell::new((0, None)) };
}

/// Lines that are remembered on each thread: a line is found by a scan of the code object's table.
const LINES: usize = 256;
/// A code object, an instruction of it, and the line of that.
type Line = Cell<(usize, i32, u32)>;
thread_local! {
    static LINES_SEEN: [Line; LINES] = const { [const { Cell::new((0, 0, 0)) }; LINES] };
}

/// `PyFrame_GetLasti`, which every version from 3.11 on has but the stable ABI does not promise.
type LastInstruction = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> std::ffi::c_int;
static LAST_INSTRUCTION: LazyLock<Option<LastInstruction>> = LazyLock::new(|| {
    // SAFETY: the name ends in a zero byte. The function has had this signature since it exists.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"PyFrame_GetLasti".as_ptr());
        (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, LastInstruction>(found))
    }
});

/// The line that a frame is at. Only code objects that are kept alive are remembered: their address is not used again.
fn line(frame: *mut ffi::PyFrameObject, code: usize) -> u32 {
    // SAFETY: the caller holds the frame, and the interpreter is attached.
    let scan = || unsafe { ffi::PyFrame_GetLineNumber(frame) }.max(0) as u32;
    let is_kept = LAST.get().0 == code;
    let Some(last) = LAST_INSTRUCTION.filter(|_| is_kept) else { return scan() };
    // SAFETY: as above.
    let at = unsafe { last(frame) };
    LINES_SEEN.with(|seen| {
        let slot = &seen[((code >> 4) ^ (at as usize >> 1)) % LINES];
        let (known, instruction, line) = slot.get();
        if (known, instruction) == (code, at) {
            return line;
        }
        let line = scan();
        slot.set((code, at, line));
        line
    })
}

/// Whether lines have columns, which are slow to find.
static COLUMNS: AtomicBool = AtomicBool::new(false);

/// Finds columns from now on, or no more.
pub fn with_columns(on: bool) {
    COLUMNS.store(on, Ordering::Relaxed);
}

/// The column of a frame's running instruction, counted from 1; 0 where it is not known.
fn column(frame: &Bound<'_, PyAny>, code: &Bound<'_, PyAny>) -> Option<u32> {
    let at: usize = frame.getattr("f_lasti").ok()?.extract().ok()?;
    let positions = code.call_method0("co_positions").ok()?;
    // A position for each instruction, which takes two bytes.
    let (_, _, column, _): (Option<u32>, Option<u32>, Option<u32>, Option<u32>) =
        positions.try_iter().ok()?.nth(at / 2)?.ok()?.extract().ok()?;
    Some(column? + 1)
}

/// Says where the package lies.
#[pyfunction]
fn set_package(folder: String) {
    // The first import wins.
    let _ = PACKAGE.set(folder);
}

/// A name that lives as long as the program.
fn interned(name: &str) -> &'static str {
    let mut files = FILES.lock();
    if let Some(f) = files.get(name) {
        return f;
    }
    let leaked: &'static str = Box::leak(name.to_string().into_boxed_str());
    files.insert(leaked);
    leaked
}

/// The file of a code object, unless it is the package's own.
fn file(code: &Bound<'_, PyAny>) -> Option<&'static str> {
    let key = code.as_ptr() as usize;
    let (last, found) = LAST.get();
    if last == key {
        return found;
    }
    if let Some(found) = CODES.lock().get(&key) {
        LAST.set((key, *found));
        return *found;
    }
    let py = code.py();
    let name = code.getattr(intern!(py, "co_filename")).and_then(|n| n.extract::<String>());
    let name = name.unwrap_or_default();
    let is_own = PACKAGE.get().is_some_and(|p| name.starts_with(p.as_str()));
    let found = if is_own { None } else { Some(interned(&name)) };
    let mut codes = CODES.lock();
    if codes.len() < CODES_MAX {
        codes.insert(key, found);
        std::mem::forget(code.clone());
        LAST.set((key, found));
    }
    found
}

/// The innermost line that is not the package's own.
pub fn here(py: Python<'_>) -> Site {
    // SAFETY: the interpreter is attached; the frame is borrowed from the running thread and made
    // a counted reference at once, the code object comes as a new reference.
    let mut frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    while let Some(f) = frame {
        let raw = f.as_ptr().cast::<ffi::PyFrameObject>();
        // SAFETY: as above; `f` keeps the frame alive.
        let code = unsafe { Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(raw).cast()) };
        if let Some(file) = file(&code) {
            let line = line(raw, code.as_ptr() as usize);
            let has_columns = COLUMNS.load(Ordering::Relaxed);
            let column = if has_columns { column(&f, &code).unwrap_or(0) } else { 0 };
            return Site::new(file, line, column);
        }
        frame = f.getattr(intern!(py, "f_back")).ok().filter(|b| !b.is_none());
    }
    Site::UNKNOWN
}

/// A message with the line of the program, as all errors end.
#[pyfunction]
fn located(py: Python<'_>, what: &str) -> String {
    ir::Error::value(what).at(here(py)).to_string()
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(located, m)?)?;
    m.add_function(wrap_pyfunction!(set_package, m)?)
}
