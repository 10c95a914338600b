//! Looking inside: what ran when and where the time went, values that are not finite, what was compiled.

use crate::display::PyGraph;
use crate::error::{OrRaise, value_error};
use crate::site::{self, here};
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use runtime::trace::{self, Event, Recorder, Recording, Span};

/// A line of the program: file, line, column.
type Line = (&'static str, u32, u32);
/// A region's name, its lines with their parts of it, its bytes and operations.
type Region = (String, Vec<(Line, f64)>, usize, usize);

fn line(s: &::tensor::Site) -> Line {
    (s.file, s.line, s.column)
}
fn region(r: &trace::Region) -> Region {
    (r.name.clone(), r.lines.iter().map(|(s, part)| (line(s), *part)).collect(), r.bytes, r.flops)
}

/// Collects what runs, on any thread.
#[pyclass(name = "Recorder", module = "talweg._native", frozen)]
struct PyRecorder(Mutex<Option<Recorder>>);

#[pymethods]
impl PyRecorder {
    /// Begins to collect.
    #[new]
    fn new() -> PyRecorder {
        PyRecorder(Mutex::new(Some(Recorder::start())))
    }
    /// Ends the collection; what ran.
    fn finish(&self) -> PyResult<PyRecording> {
        match self.0.lock().take() {
            Some(r) => Ok(PyRecording(r.finish())),
            None => Err(value_error("the profiler was stopped already")),
        }
    }
}

/// What ran.
#[pyclass(name = "Recording", module = "talweg._native", frozen)]
struct PyRecording(Recording);

#[pymethods]
impl PyRecording {
    /// Every region's run: the region, begin and duration in microseconds, thread.
    fn events(&self) -> Vec<(Region, f64, f64, u32)> {
        let one = |e: &Event| (region(&e.region), e.start_us, e.duration_us, e.thread);
        self.0.events.iter().map(one).collect()
    }
    /// Every region, the costliest first: how often it ran, and the microseconds in it and not in regions inside it.
    fn regions(&self) -> Vec<(Region, usize, f64)> {
        let p = runtime::Profile::new(&self.0);
        p.regions.iter().map(|s| (region(&s.region), s.runs, s.self_us)).collect()
    }
    /// Microseconds of each line, the costliest first.
    fn lines(&self) -> Vec<(Line, f64)> {
        runtime::Profile::new(&self.0).lines.iter().map(|(s, us)| (line(s), *us)).collect()
    }
    /// Bytes of the program that needed most, as planned: given, arena, results, in place, peak.
    fn memory(&self) -> (usize, usize, usize, usize, usize) {
        let m = self.0.memory;
        (m.given, m.arena, m.results, m.in_place, m.peak())
    }
    /// The profile as `talweg explain --profile` prints it.
    fn text(&self) -> String {
        runtime::Profile::new(&self.0).to_string()
    }
    /// The timeline as Chrome and Perfetto read it.
    fn json(&self) -> String {
        trace::to_json(&self.0.events)
    }
    fn __len__(&self) -> usize {
        self.0.events.len()
    }
}

/// A part of the program that is being timed.
#[pyclass(name = "Span", module = "talweg._native", frozen)]
struct PySpan(Mutex<Option<Span>>);

#[pymethods]
impl PySpan {
    /// Begins it.
    #[new]
    fn new(py: Python<'_>, name: &str) -> PySpan {
        PySpan(Mutex::new(Some(Span::begin(name, here(py)))))
    }
    /// Ends it.
    fn end(&self) {
        if let Some(s) = self.0.lock().take() {
            s.end();
        }
    }
}

/// Whether every computed float is checked for NaN and infinity; what it was before. While it is on, lines of errors
/// have columns.
#[pyfunction]
fn check_numerics(on: bool) -> bool {
    site::with_columns(on);
    ::tensor::check_numerics(on)
}

/// Computes what this thread's assignments are waiting for.
#[pyfunction]
fn flush(py: Python<'_>) -> PyResult<()> {
    crate::tensor::run(py, || ::tensor::engine().evaluate(&[]))
}

#[pymethods]
impl PyGraph {
    /// What becomes of it: as written, after each pass, as compiled, with memory and lines.
    #[pyo3(signature = (stages=true))]
    fn explain(&self, py: Python<'_>, stages: bool) -> PyResult<String> {
        py.detach(|| talweg::explain(&self.0, stages)).or_raise(py)
    }
}

/// Names a variable, for graphs, drawings and messages.
#[pyfunction]
fn name_variable(tensor: &PyTensor, name: &str) {
    if let Some(v) = tensor.variable() {
        v.var().rename(name);
    }
}

/// Adds the classes and functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyRecorder>()?;
    m.add_class::<PyRecording>()?;
    m.add_class::<PySpan>()?;
    m.add_function(wrap_pyfunction!(check_numerics, m)?)?;
    m.add_function(wrap_pyfunction!(flush, m)?)?;
    m.add_function(wrap_pyfunction!(name_variable, m)?)
}
