//! Images to learn from: the built-in digits, and Fashion-MNIST where it is on the machine.

use crate::convert::arg;
use crate::error::OrRaise;
use crate::tensor::{PyTensor, run};
use ::tensor::{DType, Error, Literal, Tensor};
use data::fashion::{self, Part};
use data::{Digits, SIDE};
use pyo3::prelude::*;
use std::path::PathBuf;

/// `count` digits of a seed: images `uint8[count, 28, 28]` and labels `int64[count]`.
#[pyfunction]
#[pyo3(signature = (count, seed=0))]
fn digits(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] count: usize,
    #[pyo3(from_py_with = arg)] seed: u64,
) -> PyResult<(PyTensor, PyTensor)> {
    let (images, labels) = run(py, move || {
        let set = Digits::new(seed, count);
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        let bytes = count.checked_mul(SIDE * SIDE).filter(|&n| pixels.try_reserve_exact(n).is_ok());
        if bytes.is_none() || labels.try_reserve_exact(count).is_err() {
            return Err(Error::value(format!("{count} images do not fit in memory")).in_op("digits"));
        }
        for i in 0..count {
            let (image, label) = set.image(i);
            pixels.extend_from_slice(&image);
            labels.push(i64::from(label));
        }
        let images = Literal::from_bytes(DType::U8, [count, SIDE, SIDE], &pixels)?;
        Ok((Tensor::from(images), Tensor::from(Literal::new([count], &labels)?)))
    })?;
    Ok((PyTensor::from(images), PyTensor::from(labels)))
}

/// Images and labels of Fashion-MNIST, from a folder or from where `docs/examples.md` says.
#[pyfunction]
#[pyo3(signature = (train=true, folder=None))]
fn fashion_mnist(
    py: Python<'_>,
    #[pyo3(from_py_with = arg)] train: bool,
    #[pyo3(from_py_with = arg)] folder: Option<PathBuf>,
) -> PyResult<(PyTensor, PyTensor)> {
    let part = if train { Part::Train } else { Part::Test };
    let load = || -> ::tensor::Result<(Tensor, Tensor)> {
        let memory = match folder {
            Some(f) => fashion::load_from(&f, part)?,
            None => fashion::load(part)?,
        };
        Ok((nn::tensor_of(memory.array("image")?)?, nn::tensor_of(memory.array("label")?)?))
    };
    let (images, labels) = load().or_raise(py)?;
    Ok((PyTensor::from(images), PyTensor::from(labels)))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(digits, m)?)?;
    m.add_function(wrap_pyfunction!(fashion_mnist, m)?)
}
