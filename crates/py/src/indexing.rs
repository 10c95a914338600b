//! PyTorch's indexing: `x[1, ..., None, ::2, mask]` and assignment to it.

use crate::convert::{Other, type_name};
use crate::error::{OrRaise, exception, index_error, type_error};
use crate::exchange;
use crate::site::here;
use crate::strict;
use crate::tensor::PyTensor;
use crate::view::Strides;
use ::tensor::{DType, Index, Literal, Shape, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};

/// The end of a slice: anything that is an index, or nothing.
fn end(s: &Bound<'_, PySlice>, name: &str) -> PyResult<Option<i64>> {
    let x = s.getattr(name)?;
    if x.is_none() { Ok(None) } else { x.extract().map(Some) }
}

fn part(p: &Bound<'_, PyAny>) -> PyResult<Index> {
    if p.is_none() {
        return Ok(Index::NewAxis);
    }
    if p.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if let Ok(s) = p.cast::<PySlice>() {
        return Ok(Index::slice(end(s, "start")?, end(s, "stop")?, end(s, "step")?.unwrap_or(1)));
    }
    if p.is_instance_of::<PyInt>() && !p.is_instance_of::<PyBool>() {
        return Ok(Index::At(p.extract()?));
    }
    if let Some(t) = exchange::tensor_of(p, None)? {
        let dtype = t.dtype().unwrap_or(DType::I64);
        if dtype == DType::U8 {
            // A number of NumPy is a place, whatever its type.
            if !p.is_instance_of::<PyTensor>()
                && t.rank() == Ok(0)
                && let Ok(i) = p.extract()
            {
                return Ok(Index::At(i));
            }
            let e = "an index of uint8 is a mask in PyTorch and a list of places elsewhere: write x[i.bool()] or x[i.long()]";
            return Err(index_error(e));
        }
        if dtype == DType::Bool || dtype.is_int() {
            return Ok(Index::Tensor(t));
        }
        // An empty list has no numbers to be of any type.
        if t.count().unwrap_or(1) == 0 {
            return Ok(Index::Tensor(t.cast(DType::I64)));
        }
        return Err(index_error(format!("an index must be integers or bool, not {dtype}")));
    }
    let e = format!("an index is made of ints, slices, ..., None and arrays, not {}", type_name(p));
    Err(type_error(e))
}

/// True for what makes a list of indices a tuple of them.
fn is_part(p: &Bound<'_, PyAny>) -> bool {
    let is_tensor = p.is_instance_of::<PyTensor>();
    let is_list = p.is_instance_of::<PyList>() || p.is_instance_of::<PyTuple>();
    is_tensor || is_list || p.is_none() || p.is_instance_of::<PySlice>() || p.is_instance_of::<PyEllipsis>()
}

fn parts(index: &Bound<'_, PyAny>) -> PyResult<Vec<Index>> {
    if let Ok(t) = index.cast::<PyTuple>() {
        return t.iter().map(|p| part(&p)).collect();
    }
    // As in PyTorch, a list of anything but numbers is a tuple.
    if let Ok(list) = index.cast::<PyList>()
        && list.len() < 32
        && list.iter().any(|p| is_part(&p))
    {
        return list.iter().map(|p| part(&p)).collect();
    }
    Ok(vec![part(index)?])
}

/// PyTorch's order of integers beside lists of indices: integers select first, so that `x[0, :, [1, 2]]` is
/// `x[0][:, [1, 2]]`, where NumPy puts the dimension of the list to the front. A bool without dimensions is a new
/// dimension with a list of one index or none. The two indices to apply, if that differs.
fn selected_first(parts: &[Index]) -> PyResult<Option<[Vec<Index>; 2]>> {
    let is_bool = |t: &Tensor| t.dtype().is_ok_and(|d| d == DType::Bool);
    let is_flag = |p: &Index| matches!(p, Index::Tensor(t) if t.rank() == Ok(0) && is_bool(t));
    let is_one = |p: &Index| match p {
        Index::At(_) => true,
        Index::Tensor(t) => t.rank() == Ok(0) && !is_bool(t),
        _ => false,
    };
    let is_list = |p: &Index| matches!(p, Index::Tensor(_)) && !is_one(p);
    let places: Vec<usize> = (0..parts.len()).filter(|&k| is_one(&parts[k]) || is_list(&parts[k])).collect();
    let is_apart = places.windows(2).any(|w| w[1] != w[0] + 1);
    let is_mixed = is_apart && parts.iter().any(is_one) && parts.iter().any(is_list);
    if !is_mixed && !parts.iter().any(is_flag) {
        return Ok(None);
    }
    let all = || Index::slice(None, None, 1);
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for p in parts {
        match p {
            Index::At(_) => first.push(p.clone()),
            Index::Tensor(_) if is_one(p) => first.push(p.clone()),
            Index::Tensor(t) if is_flag(p) => {
                first.push(Index::NewAxis);
                let chosen: &[i128] = if Python::attach(|py| t.item::<bool>().or_raise(py))? { &[0] } else { &[] };
                rest.push(Index::Tensor(Literal::from_ints(DType::I64, Shape::new(&[chosen.len()]), chosen).into()));
            }
            Index::Tensor(t) => {
                first.extend(vec![all(); if is_bool(t) { t.rank().unwrap_or(0) } else { 1 }]);
                rest.push(p.clone());
            }
            Index::Ellipsis => {
                first.push(Index::Ellipsis);
                rest.push(Index::Ellipsis);
            }
            Index::NewAxis | Index::Slice { .. } => {
                first.push(p.clone());
                rest.push(all());
            }
        }
    }
    Ok(Some([first, rest]))
}

/// A value as an assignment broadcasts it: dimensions of size 1 in front count as none.
fn without_leading_ones(t: Tensor) -> Tensor {
    let Ok(shape) = t.shape() else { return t };
    let ones = shape.iter().take_while(|&&d| d == 1).count();
    if ones == 0 { t } else { t.reshape(Shape::new(&shape[ones..])) }
}

#[pymethods]
impl PyTensor {
    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<Py<PyTensor>> {
        let parts = parts(index)?;
        let t = self.tensor();
        let site = here(py);
        // A mask is computed at once; that must not hold the interpreter.
        let has_mask = parts.iter().any(|p| matches!(p, Index::Tensor(t) if t.dtype().is_ok_and(|d| d == DType::Bool)));
        let order = site.scope(|| selected_first(&parts))?;
        let read = || {
            site.scope(|| match &order {
                Some([first, rest]) => t.index(first).index(rest),
                None => t.index(&parts),
            })
        };
        let y = if has_mask { py.detach(read) } else { read() };
        if let Some(e) = y.error() {
            return Err(exception(py, e));
        }
        Py::new(py, PyTensor(self.0.derive(&t, y, Strides::Any)))
    }
    fn __setitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let parts = parts(index)?;
        let t = self.tensor();
        let site = here(py);
        // `x[i] += 1` has written to the view already when it stores it here.
        let is_basic = !parts.iter().any(|p| matches!(p, Index::Tensor(_)));
        if is_basic && let Ok(view) = value.cast::<PyTensor>() {
            let y = site.scope(|| t.index(&parts));
            if self.0.shows(&t, &y, &view.get().0) {
                return Ok(());
            }
        }
        let value = match value.extract::<Other>()? {
            Other::Tensor(t) => Other::Tensor(site.scope(|| without_leading_ones(t))),
            number => {
                strict::fits(t.dtype().unwrap_or(DType::F32), &number)?;
                number
            }
        };
        let order = site.scope(|| selected_first(&parts))?;
        let write = || match &order {
            Some([first, rest]) => t.index_put(&**first, t.index(first).index_put(&**rest, value)),
            None => t.index_put(&*parts, value),
        };
        let y = py.detach(|| site.scope(write));
        self.change(py, y)
    }
}
