//! Among other processes: which worker this is, letting in those that replace lost ones, and
//! collectives on tensors.

use crate::convert::arg;
use crate::error::{OrRaise, index_error, value_error};
use crate::optim::PyOptimizer;
use crate::tensor::{Out, PyTensor, run};
use ::tensor::{Combine, Error, Tensor};
use nn::train::Progress;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use talweg::distributed::{Group, Wire};

/// Ranks that exchange tensors: all workers, or some of them.
#[pyclass(name = "Group", module = "talweg.distributed", frozen)]
struct PyGroup(Group);

#[pymethods]
impl PyGroup {
    /// This worker's number in the group.
    #[getter]
    fn rank(&self) -> usize {
        self.0.rank()
    }
    /// How many ranks it has.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }
    /// Its members' numbers in the job.
    #[getter]
    fn ranks(&self) -> Vec<usize> {
        self.0.ranks().to_vec()
    }
    fn __repr__(&self) -> String {
        format!("Group(rank={}, ranks={:?})", self.0.rank(), self.0.ranks())
    }
}

/// All workers.
#[pyfunction]
fn group_world(py: Python<'_>) -> PyResult<PyGroup> {
    py.detach(Group::world).map(PyGroup).or_raise(py)
}
/// Some ranks of a group.
#[pyfunction]
fn group_part(py: Python<'_>, group: &PyGroup, ranks: Vec<usize>) -> PyResult<PyGroup> {
    run(py, || group.0.part(&ranks)).map(PyGroup)
}
/// The ranks that say the same color.
#[pyfunction]
fn group_split(py: Python<'_>, group: &PyGroup, color: i64, key: i64) -> PyResult<PyGroup> {
    run(py, || group.0.split(color, key)).map(PyGroup)
}

/// Calls a collective without holding the interpreter: it may wait for others.
fn exchange(py: Python<'_>, f: impl FnOnce() -> Tensor + Send) -> PyResult<Py<PyAny>> {
    run(py, || Ok(f()))?.object(py)
}
/// A rank; the callee checks that it exists.
fn number(obj: &Bound<'_, PyAny>) -> PyResult<usize> {
    let rank: i64 = arg(obj)?;
    usize::try_from(rank).map_err(|_| index_error(format!("ranks are counted from 0: there is no {rank}")))
}
fn form(wire: &str) -> PyResult<Wire> {
    wire.parse().map_err(|e: Error| value_error(e.message))
}
fn combine(op: &str) -> PyResult<Combine> {
    Ok(match op {
        "sum" => Combine::Sum,
        "mean" => Combine::Mean,
        "prod" => Combine::Prod,
        "max" => Combine::Max,
        "min" => Combine::Min,
        _ => return Err(value_error(format!("op must be sum, mean, prod, max or min, not {op:?}"))),
    })
}
#[pyfunction]
fn group_all_reduce(py: Python<'_>, group: &PyGroup, x: &PyTensor, op: &str, wire: &str) -> PyResult<Py<PyAny>> {
    let (x, how, wire) = (x.tensor(), combine(op)?, form(wire)?);
    exchange(py, || group.0.compressed(wire).all_reduce(&x, how))
}
#[pyfunction]
fn group_reduce(
    py: Python<'_>,
    group: &PyGroup,
    x: &PyTensor,
    #[pyo3(from_py_with = number)] dst: usize,
    op: &str,
) -> PyResult<Py<PyAny>> {
    let (x, how) = (x.tensor(), combine(op)?);
    exchange(py, || group.0.reduce(&x, dst, how))
}
#[pyfunction]
fn group_reduce_scatter(
    py: Python<'_>,
    group: &PyGroup,
    x: &PyTensor,
    op: &str,
    axis: i64,
    wire: &str,
) -> PyResult<Py<PyAny>> {
    let (x, how, wire) = (x.tensor(), combine(op)?, form(wire)?);
    exchange(py, || group.0.compressed(wire).reduce_scatter(&x, how, axis))
}
#[pyfunction]
fn group_all_gather(py: Python<'_>, group: &PyGroup, x: &PyTensor, axis: i64, wire: &str) -> PyResult<Py<PyAny>> {
    let (x, wire) = (x.tensor(), form(wire)?);
    exchange(py, || group.0.compressed(wire).all_gather(&x, axis))
}
#[pyfunction]
fn group_broadcast(
    py: Python<'_>,
    group: &PyGroup,
    x: &PyTensor,
    #[pyo3(from_py_with = number)] src: usize,
) -> PyResult<Py<PyAny>> {
    let x = x.tensor();
    exchange(py, || group.0.broadcast(&x, src))
}
#[pyfunction]
fn group_all_to_all(py: Python<'_>, group: &PyGroup, x: &PyTensor, split: i64, concat: i64) -> PyResult<Py<PyAny>> {
    let x = x.tensor();
    exchange(py, || group.0.all_to_all(&x, split, concat))
}
#[pyfunction]
fn group_send(
    py: Python<'_>,
    group: &PyGroup,
    x: &PyTensor,
    #[pyo3(from_py_with = number)] dst: usize,
) -> PyResult<Py<PyAny>> {
    let x = x.tensor();
    exchange(py, || group.0.send(&x, dst))
}
#[pyfunction]
fn group_recv(
    py: Python<'_>,
    group: &PyGroup,
    like: &PyTensor,
    #[pyo3(from_py_with = number)] src: usize,
) -> PyResult<Py<PyAny>> {
    let x = like.tensor();
    exchange(py, || group.0.recv(&x, src))
}
#[pyfunction]
fn group_barrier(py: Python<'_>, group: &PyGroup) -> PyResult<()> {
    run(py, || group.0.barrier())
}

/// Number of this worker; 0 if the process is alone.
#[pyfunction]
fn worker_rank(py: Python<'_>) -> PyResult<usize> {
    py.detach(nn::parallel::rank).or_raise(py)
}
/// How many workers were started; 1 if the process is alone.
#[pyfunction]
fn worker_count(py: Python<'_>) -> PyResult<usize> {
    py.detach(nn::parallel::world).or_raise(py)
}
/// Sets whether optimizers step with this process's gradients alone.
#[pyfunction]
fn worker_set_local(py: Python<'_>, yes: bool) -> PyResult<()> {
    py.detach(|| nn::parallel::set_local(yes)).or_raise(py)
}
/// Which rows of a batch of this many are this worker's: the first, and the one after the last.
#[pyfunction]
fn worker_part(py: Python<'_>, total: usize) -> PyResult<(usize, usize)> {
    let part = nn::parallel::part(total).or_raise(py)?.given();
    Ok((part.start, part.end))
}
/// The key of the next draw for a tensor that may have a row for each row of this worker's part of a batch.
#[pyfunction]
fn batch_key(py: Python<'_>, x: &PyTensor) -> PyResult<Py<PyAny>> {
    // The generator is this thread's.
    nn::parallel::next_key(&x.tensor()).object(py)
}
/// Between two steps: lets in workers that wait, with the bytes that `give` answers; a worker that
/// waits is answered these bytes.
#[pyfunction]
fn worker_meet<'py>(py: Python<'py>, give: Py<PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let state = py.detach(|| nn::parallel::meet(|| given(&give))).or_raise(py)?;
    Ok(state.map(|s| PyBytes::new(py, &s)))
}
/// The bytes that a Python function answers.
fn given(give: &Py<PyAny>) -> ::tensor::Result<Vec<u8>> {
    Python::attach(|py| {
        let bytes = give.call0(py).and_then(|b| b.extract::<Vec<u8>>(py));
        bytes.map_err(|e| Error::value(format!("meet: what is to be given must be bytes: {e}")))
    })
}

/// True if this worker replaces one that was lost and has not been told what the others know.
#[pyfunction]
fn worker_is_late(py: Python<'_>) -> PyResult<bool> {
    py.detach(nn::parallel::is_late).or_raise(py)
}
/// True if parameters live in a parameter store.
#[pyfunction]
fn worker_has_store(py: Python<'_>) -> PyResult<bool> {
    py.detach(nn::parallel::has_store).or_raise(py)
}
/// With a store: the step that it counts from and the one at which this worker begins, given that of
/// its checkpoint.
#[pyfunction]
fn worker_begin(py: Python<'_>, restored: u64) -> PyResult<(u64, u64)> {
    py.detach(|| nn::parallel::begin(restored)).map(|b| (b.origin, b.step)).or_raise(py)
}
/// With backup workers, before a step: what it draws at random follows from its number.
#[pyfunction]
fn worker_draw_for(py: Python<'_>, step: u64) -> PyResult<()> {
    // The generator is this thread's.
    nn::parallel::draw_for(step).or_raise(py)
}
/// The step that follows, more than was done if the others did not wait.
#[pyfunction]
fn worker_next_step(py: Python<'_>, done: u64) -> PyResult<u64> {
    py.detach(|| nn::parallel::next_step(done)).or_raise(py)
}
/// Before the first step: fails unless all workers say the same.
#[pyfunction]
fn worker_agree(py: Python<'_>, settings: Vec<(String, String)>, optimizer: &PyOptimizer) -> PyResult<()> {
    let agree = || {
        let mut all: Vec<(&str, String)> = settings.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        // The store keeps its rules when it is taken up again.
        if !nn::parallel::has_store()? {
            all.extend(optimizer.inner().settings()?);
        }
        nn::parallel::agree(&all)
    };
    py.detach(agree).or_raise(py)
}
/// Whether this worker writes the job's files: the first of those that take part does.
#[pyfunction]
fn worker_writes_files(py: Python<'_>) -> PyResult<bool> {
    py.detach(nn::parallel::writes_files).or_raise(py)
}
/// Whether this worker takes part in saving checkpoints: the one that writes files; on a mesh all, each its blocks.
#[pyfunction]
fn worker_saves_checkpoints(py: Python<'_>) -> PyResult<bool> {
    py.detach(nn::parallel::saves_checkpoints).or_raise(py)
}
/// Whether the train step is cut over a mesh.
#[pyfunction]
fn worker_is_on_mesh(py: Python<'_>) -> PyResult<bool> {
    py.detach(nn::parallel::is_on_mesh).or_raise(py)
}
/// After the last checkpoint: waits until it is there, and lets in lost workers that are started again.
#[pyfunction]
fn worker_finish(py: Python<'_>, give: Py<PyAny>) -> PyResult<()> {
    py.detach(|| nn::parallel::finish(|| given(&give))).or_raise(py)
}
/// After this worker's last step: waits until all have done theirs, if they may not have; true if the
/// store has newer parameters.
#[pyfunction]
fn worker_settle(py: Python<'_>, has_done_all: bool) -> PyResult<bool> {
    py.detach(|| nn::parallel::settle(has_done_all)).or_raise(py)
}
/// Tells the job that training has failed for good.
#[pyfunction]
fn worker_fail(py: Python<'_>, why: &str) -> PyResult<()> {
    py.detach(|| nn::parallel::fail(why)).or_raise(py)
}
/// A run begins that asks before each step and says when it is done.
#[pyfunction]
fn worker_run_begins(py: Python<'_>, step: u64) -> PyResult<()> {
    py.detach(|| nn::parallel::run_begins(step)).or_raise(py)
}
/// Before a step: whether it is to be done, or all workers have stopped after an earlier one.
#[pyfunction]
fn worker_goes_on(py: Python<'_>, step: u64) -> PyResult<bool> {
    py.detach(|| nn::parallel::goes_on(step)).or_raise(py)
}
/// Asks all workers to stop after a common step; false if this process is alone.
#[pyfunction]
fn worker_ask_to_stop(py: Python<'_>) -> PyResult<bool> {
    py.detach(nn::parallel::ask_to_stop).or_raise(py)
}
/// The run is complete, with everything that it had to save.
#[pyfunction]
fn worker_done(py: Python<'_>) -> PyResult<()> {
    py.detach(nn::parallel::done).or_raise(py)
}
/// The program ends.
#[pyfunction]
fn worker_leave(py: Python<'_>) {
    py.detach(talweg::distributed::leave);
}
/// Tells the launcher how far this worker is.
#[pyfunction]
fn worker_tell(py: Python<'_>, step: u64, steps: u64, loss: f64, samples: usize) -> PyResult<()> {
    let progress = Progress { step, steps, loss, samples, ..Progress::default() };
    py.detach(|| nn::parallel::tell(&progress)).or_raise(py)
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(worker_rank, m)?)?;
    m.add_function(wrap_pyfunction!(worker_count, m)?)?;
    m.add_function(wrap_pyfunction!(worker_set_local, m)?)?;
    m.add_function(wrap_pyfunction!(worker_is_late, m)?)?;
    m.add_function(wrap_pyfunction!(worker_has_store, m)?)?;
    m.add_function(wrap_pyfunction!(worker_begin, m)?)?;
    m.add_function(wrap_pyfunction!(worker_draw_for, m)?)?;
    m.add_function(wrap_pyfunction!(worker_next_step, m)?)?;
    m.add_function(wrap_pyfunction!(worker_agree, m)?)?;
    m.add_function(wrap_pyfunction!(worker_writes_files, m)?)?;
    m.add_function(wrap_pyfunction!(worker_saves_checkpoints, m)?)?;
    m.add_function(wrap_pyfunction!(worker_is_on_mesh, m)?)?;
    m.add_function(wrap_pyfunction!(worker_finish, m)?)?;
    m.add_function(wrap_pyfunction!(worker_settle, m)?)?;
    m.add_function(wrap_pyfunction!(worker_fail, m)?)?;
    m.add_function(wrap_pyfunction!(worker_run_begins, m)?)?;
    m.add_function(wrap_pyfunction!(worker_goes_on, m)?)?;
    m.add_function(wrap_pyfunction!(worker_ask_to_stop, m)?)?;
    m.add_function(wrap_pyfunction!(worker_done, m)?)?;
    m.add_function(wrap_pyfunction!(worker_leave, m)?)?;
    m.add_function(wrap_pyfunction!(worker_tell, m)?)?;
    m.add_function(wrap_pyfunction!(worker_meet, m)?)?;
    m.add_function(wrap_pyfunction!(worker_part, m)?)?;
    m.add_function(wrap_pyfunction!(batch_key, m)?)?;
    m.add_class::<PyGroup>()?;
    m.add_function(wrap_pyfunction!(group_world, m)?)?;
    m.add_function(wrap_pyfunction!(group_part, m)?)?;
    m.add_function(wrap_pyfunction!(group_split, m)?)?;
    m.add_function(wrap_pyfunction!(group_all_reduce, m)?)?;
    m.add_function(wrap_pyfunction!(group_reduce, m)?)?;
    m.add_function(wrap_pyfunction!(group_reduce_scatter, m)?)?;
    m.add_function(wrap_pyfunction!(group_all_gather, m)?)?;
    m.add_function(wrap_pyfunction!(group_broadcast, m)?)?;
    m.add_function(wrap_pyfunction!(group_all_to_all, m)?)?;
    m.add_function(wrap_pyfunction!(group_send, m)?)?;
    m.add_function(wrap_pyfunction!(group_recv, m)?)?;
    m.add_function(wrap_pyfunction!(group_barrier, m)?)
}
