//! The native half of the Python package `talweg`.
//!
//! The methods of `Tensor` are generated from the op table's signatures (`build.rs`); written by
//! hand is what has no row: conversion of Python's objects, indexing, exchange with NumPy and
//! DLPack, and the transformations that take Python functions. What is easier said in Python is in
//! `python/talweg`.

// Python's C interface is unsafe, and so is what PyO3's macros write. Our own is in six files.
#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]

mod autograd;
mod command;
mod convert;
mod creation;
mod custom;
mod deepcopy;
mod device;
mod display;
mod dlpack;
mod error;
mod exchange;
mod export;
mod foreign;
mod gpu;
mod gradient;
mod graph;
mod graph_file;
mod images;
mod indexing;
mod interrupt;
mod jit;
mod layers;
#[cfg(feature = "llm")]
mod llm;
mod methods;
mod metrics;
mod nested;
mod observe;
mod onnx_model;
mod optim;
mod parallel;
mod passes;
mod readers;
mod records;
mod row;
mod shaping;
mod site;
mod strict;
mod table;
mod tensor;
mod trainer;
mod transform;
mod tree;
mod view;

use pyo3::prelude::*;

/// The module `talweg._native`.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("OPS", methods::NAMES.to_vec())?;
    m.add_class::<tensor::PyTensor>()?;
    convert::register(m)?;
    command::register(m)?;
    interrupt::register(m)?;
    custom::register(m)?;
    gpu::register(m)?;
    observe::register(m)?;
    onnx_model::register(m)?;
    site::register(m)?;
    strict::register(m)?;
    creation::register(m)?;
    exchange::register(m)?;
    export::register(m)?;
    foreign::register(m)?;
    autograd::register(m)?;
    transform::register(m)?;
    jit::register(m)?;
    graph::register(m)?;
    layers::register(m)?;
    #[cfg(feature = "llm")]
    llm::register(m)?;
    optim::register(m)?;
    parallel::register(m)?;
    table::register(m)?;
    metrics::register(m)?;
    readers::register(m)?;
    records::register(m)?;
    row::register(m)?;
    trainer::register(m)?;
    display::register(m)?;
    passes::register(m)?;
    device::register(m)?;
    images::register(m)
}
