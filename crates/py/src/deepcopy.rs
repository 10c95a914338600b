//! `copy.deepcopy`: what shares elements in the original shares them in the copy.

use crate::exchange;
use crate::tensor::PyTensor;
use crate::view::{Cell, Kind};
use ::tensor::Tensor;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// The copy of a tensor whose elements, or those of its base, are copied already or are a view's; `None` for a variable
/// and for what shares its elements with nothing.
pub fn shared<'py>(slf: &Bound<'py, PyTensor>, memo: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, me) = (slf.py(), slf.get());
    if me.variable().is_some() {
        return Ok(None);
    }
    let key = |cell: &Arc<Cell>| ("talweg", Arc::as_ptr(cell) as usize);
    if let Some((base, again)) = me.0.base() {
        let copied = match memo.get_item(key(&base))? {
            Some(copied) => copied.cast_into::<PyTensor>().map_err(PyErr::from)?,
            None => {
                let original = Bound::new(py, PyTensor(base.clone()))?;
                let literal = original.get().literal(py)?;
                let copied = Bound::new(py, PyTensor(Cell::new(Kind::Value(Tensor::from(literal)))))?;
                memo.set_item(key(&base), &copied)?;
                copied
            }
        };
        return Ok(Some(Bound::new(py, PyTensor(again(&copied.get().0)))?.into_any()));
    }
    if let Some(copied) = memo.get_item(key(&me.0))? {
        return Ok(Some(copied));
    }
    let (make, args) = exchange::reduce(slf)?.extract::<(Bound<'py, PyAny>, Bound<'py, pyo3::types::PyTuple>)>()?;
    let copied = make.call1(args)?;
    memo.set_item(key(&me.0), &copied)?;
    Ok(Some(copied))
}
