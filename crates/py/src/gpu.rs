//! GPUs from Python: memory, properties, timers, and the switches that decide how programs are compiled; threads of
//! the host.

use crate::error::{OrRaise, value_error};
use crate::tensor::run;
use ::tensor::engine_named;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use talweg::gpu::{self, Flag};

/// Bytes of a device's memory: in use, the most that were in use, held.
#[pyfunction]
fn device_memory(py: Python<'_>, device: &str) -> PyResult<Option<(usize, usize, usize)>> {
    let memory = run(py, || Ok(engine_named(device)?.device().memory()))?;
    Ok(memory.map(|m| (m.used_bytes, m.peak_bytes, m.held_bytes)))
}
/// Forgets the highest use so far.
#[pyfunction]
fn reset_peak(py: Python<'_>, device: &str) -> PyResult<()> {
    run(py, || {
        engine_named(device)?.device().reset_peak();
        Ok(())
    })
}
/// Gives memory that is not used back to the driver.
#[pyfunction]
fn release_kept(py: Python<'_>, device: &str) -> PyResult<()> {
    run(py, || engine_named(device)?.device().release_kept())
}
/// Bytes that are free on a device, and all of them.
#[pyfunction]
fn free_and_total(py: Python<'_>, device: &str) -> PyResult<Option<(usize, usize)>> {
    run(py, || engine_named(device)?.device().free_and_total())
}
/// Waits for a device; what was assigned before is computed first.
#[pyfunction]
fn synchronize(py: Python<'_>, device: &str) -> PyResult<()> {
    run(py, || {
        ::tensor::engine().evaluate(&[])?;
        engine_named(device)?.device().synchronize()
    })
}
/// What the driver says about a GPU, by name.
#[pyfunction]
fn device_properties<'py>(py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyDict>> {
    let p = gpu::properties(number).or_raise(py)?;
    let d = PyDict::new(py);
    d.set_item("name", p.name)?;
    d.set_item("major", p.major)?;
    d.set_item("minor", p.minor)?;
    d.set_item("total_memory", p.total_memory)?;
    d.set_item("multi_processor_count", p.multi_processor_count)?;
    d.set_item("warp_size", p.warp_size)?;
    d.set_item("max_threads_per_multi_processor", p.max_threads_per_multi_processor)?;
    d.set_item("shared_memory_per_multiprocessor", p.shared_memory_per_multiprocessor)?;
    d.set_item("L2_cache_size", p.l2_cache_size)?;
    Ok(d)
}

fn switch(name: &str) -> PyResult<Flag> {
    Ok(match name {
        "matmul_tf32" => Flag::MatmulTf32,
        "cudnn_tf32" => Flag::DnnTf32,
        "benchmark" => Flag::Benchmark,
        "deterministic" => Flag::Deterministic,
        "cudnn" => Flag::Dnn,
        _ => return Err(value_error(format!("there is no switch {name}"))),
    })
}
/// Whether a switch of the GPU's compiler is on.
#[pyfunction]
fn get_switch(name: &str) -> PyResult<bool> {
    Ok(gpu::is_on(switch(name)?))
}
/// Turns it on or off. Programs compiled for another setting are not used.
#[pyfunction]
fn set_switch(name: &str, on: bool) -> PyResult<()> {
    gpu::set(switch(name)?, on);
    Ok(())
}
/// How many threads compute on the host.
#[pyfunction]
fn get_num_threads() -> usize {
    talweg::threads()
}
/// Computes with this many threads from now on; results do not depend on it.
#[pyfunction]
fn set_num_threads(py: Python<'_>, count: usize) {
    py.detach(|| talweg::set_threads(count));
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($f:ident)*) => {$( m.add_function(wrap_pyfunction!($f, m)?)?; )*};
    }
    add!(device_memory reset_peak release_kept free_and_total synchronize device_properties);
    add!(get_switch set_switch get_num_threads set_num_threads);
    Ok(())
}
