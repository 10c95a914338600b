//! Tensors inside of tuples, lists and dictionaries, as arguments and results of functions.

use crate::error::value_error;
use crate::exchange;
use crate::tensor::{PyTensor, wrap};
use ::tensor::Tensor;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Containers nested deeper than this are a mistake, such as a list that contains itself.
const DEPTH_MAX: usize = 64;

/// Where the tensors are in an object.
pub enum Tree {
    /// A tensor.
    Leaf,
    /// A list.
    List(Vec<Tree>),
    /// A tuple, of its class where that is not `tuple`.
    Tuple(Vec<Tree>, Option<Py<PyAny>>),
    /// A dictionary.
    Dict(Vec<(Py<PyAny>, Tree)>),
    /// Anything else.
    Other(Py<PyAny>),
}

/// Takes an object apart; its tensors are added to `leaves`.
pub fn flatten(obj: &Bound<'_, PyAny>, leaves: &mut Vec<Tensor>) -> PyResult<Tree> {
    at(obj, leaves, 0)
}

/// The handles of an object's tensors, in the order of `flatten`; `None` for arrays of other libraries.
pub fn handles(obj: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Py<PyTensor>>>> {
    fn at(obj: &Bound<'_, PyAny>, out: &mut Vec<Option<Py<PyTensor>>>) -> PyResult<()> {
        if let Ok(t) = obj.cast::<PyTensor>() {
            out.push(Some(t.clone().unbind()));
        } else if let Ok(t) = obj.cast::<PyTuple>() {
            t.iter().try_for_each(|x| at(&x, out))?;
        } else if let Ok(l) = obj.cast::<PyList>() {
            l.iter().try_for_each(|x| at(&x, out))?;
        } else if let Ok(d) = obj.cast::<PyDict>() {
            d.iter().try_for_each(|(_, v)| at(&v, out))?;
        } else if is_array(obj)? {
            out.push(None);
        }
        Ok(())
    }
    let mut out = Vec::new();
    at(obj, &mut out)?;
    Ok(out)
}

/// True for an array of another library.
fn is_array(obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(obj.hasattr("__array_interface__")? && obj.getattr("ndim").and_then(|n| n.extract::<usize>()).unwrap_or(0) > 0)
}

fn at(obj: &Bound<'_, PyAny>, leaves: &mut Vec<Tensor>, depth: usize) -> PyResult<Tree> {
    if let Ok(t) = obj.cast::<PyTensor>() {
        leaves.push(t.get().tensor());
        return Ok(Tree::Leaf);
    }
    if depth > DEPTH_MAX {
        return Err(value_error(format!("containers are nested more than {DEPTH_MAX} deep")));
    }
    if let Ok(t) = obj.cast::<PyTuple>() {
        let parts = t.iter().map(|x| at(&x, leaves, depth + 1)).collect::<PyResult<_>>()?;
        let class = (!t.is_exact_instance_of::<PyTuple>()).then(|| t.get_type().into_any().unbind());
        return Ok(Tree::Tuple(parts, class));
    }
    if let Ok(l) = obj.cast::<PyList>() {
        return Ok(Tree::List(l.iter().map(|x| at(&x, leaves, depth + 1)).collect::<PyResult<_>>()?));
    }
    if let Ok(d) = obj.cast::<PyDict>() {
        let parts = d.iter().map(|(k, v)| Ok((k.unbind(), at(&v, leaves, depth + 1)?))).collect::<PyResult<_>>()?;
        return Ok(Tree::Dict(parts));
    }
    // An array of another library is a tensor; a number or a word is part of the program.
    if is_array(obj)?
        && let Some(t) = exchange::tensor_of(obj, None)?
    {
        leaves.push(t);
        return Ok(Tree::Leaf);
    }
    Ok(Tree::Other(obj.clone().unbind()))
}

impl Tree {
    /// Shows the cycle collector what it refers to.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Tree::Leaf => Ok(()),
            Tree::List(parts) => parts.iter().try_for_each(|p| p.traverse(visit)),
            Tree::Tuple(parts, class) => {
                visit.call(class)?;
                parts.iter().try_for_each(|p| p.traverse(visit))
            }
            Tree::Dict(parts) => parts.iter().try_for_each(|(k, p)| {
                visit.call(k)?;
                p.traverse(visit)
            }),
            Tree::Other(x) => visit.call(x),
        }
    }
    /// Puts an object together again, with other tensors.
    pub fn build(&self, py: Python<'_>, leaves: &mut impl Iterator<Item = Tensor>) -> PyResult<Py<PyAny>> {
        self.build_of(py, &mut || match leaves.next() {
            Some(t) => wrap(py, t),
            None => Err(value_error("fewer tensors than leaves")),
        })
    }
    /// The same, with handles that are given one by one.
    pub fn build_of(&self, py: Python<'_>, next: &mut dyn FnMut() -> PyResult<Py<PyTensor>>) -> PyResult<Py<PyAny>> {
        let mut all = |parts: &[Tree]| parts.iter().map(|p| p.build_of(py, next)).collect::<PyResult<Vec<_>>>();
        Ok(match self {
            Tree::Leaf => next()?.into_any(),
            Tree::List(parts) => PyList::new(py, all(parts)?)?.into_any().unbind(),
            Tree::Tuple(parts, None) => PyTuple::new(py, all(parts)?)?.into_any().unbind(),
            Tree::Tuple(parts, Some(class)) => class.bind(py).call1(PyTuple::new(py, all(parts)?)?)?.unbind(),
            Tree::Dict(parts) => {
                let d = PyDict::new(py);
                for (k, v) in parts {
                    d.set_item(k, v.build_of(py, next)?)?;
                }
                d.into_any().unbind()
            }
            Tree::Other(x) => x.clone_ref(py),
        })
    }
    /// True if both have tensors at the same leaves and are equal elsewhere.
    pub fn is_like(&self, other: &Tree, py: Python<'_>) -> PyResult<bool> {
        let all = |a: &[Tree], b: &[Tree]| -> PyResult<bool> {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (x, y) in a.iter().zip(b) {
                if !x.is_like(y, py)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        match (self, other) {
            (Tree::Leaf, Tree::Leaf) => Ok(true),
            (Tree::List(a), Tree::List(b)) => all(a, b),
            (Tree::Tuple(a, c), Tree::Tuple(b, d)) => {
                let same = match (c, d) {
                    (None, None) => true,
                    (Some(c), Some(d)) => c.is(d),
                    _ => false,
                };
                Ok(same && all(a, b)?)
            }
            (Tree::Dict(a), Tree::Dict(b)) if a.len() == b.len() => {
                for ((j, x), (k, y)) in a.iter().zip(b) {
                    if !j.bind(py).eq(k)? || !x.is_like(y, py)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Tree::Other(a), Tree::Other(b)) => {
                // 1, 1.0 and True are equal, but not the same program.
                Ok(a.is(b) || (a.bind(py).get_type().is(&b.bind(py).get_type()) && a.bind(py).eq(b)?))
            }
            _ => Ok(false),
        }
    }
}
