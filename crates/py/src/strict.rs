//! What PyTorch refuses although it could be computed: subtraction of masks, products of several element types, integers
//! divided by the number 0. A program that does so has a mistake, which a result would hide.

use crate::convert::{Other, PyDType};
use crate::error::{type_error, value_error};
use crate::nested::{check_fits, truncated};
use crate::tensor::PyTensor;
use ::tensor::{DType, Tensor, autocast_dtype};
use pyo3::prelude::*;

/// Fails for an operator that a type does not have.
pub fn unary(op: &str, dtype: DType) -> PyResult<()> {
    if dtype != DType::Bool {
        return Ok(());
    }
    let instead = if op == "neg" { "use ~ or logical_not to invert a mask, or convert it: " } else { "convert it: " };
    Err(type_error(format!("{op}: not defined for bool tensors: {instead}mask.int()")))
}

/// Fails for an operator between `me` and another operand; `is_reflected` if that stands on the left.
#[inline]
pub fn operator(op: &str, me: impl Fn() -> DType, other: &Other, is_reflected: bool) -> PyResult<()> {
    match op {
        "sub" => difference(me(), other),
        "matmul" => match other {
            Other::Tensor(t) => same_type(op, &[Some(me()), t.dtype().ok()]),
            _ => Ok(()),
        },
        "floor_divide" | "fmod" | "rem" => quotient(op, me(), other, is_reflected),
        "pow" if !is_reflected => power(me(), other),
        _ => Ok(()),
    }
}

fn is_bool(x: &Other) -> bool {
    match x {
        Other::Tensor(t) => t.dtype() == Ok(DType::Bool),
        Other::Bool(_) => true,
        _ => false,
    }
}

fn difference(me: DType, other: &Other) -> PyResult<()> {
    if me != DType::Bool && !is_bool(other) {
        return Ok(());
    }
    let instead = "use ^ or logical_xor for two masks, ~ or logical_not to invert one, or convert it: mask.int()";
    Err(type_error(format!("sub: not defined for bool tensors: {instead}")))
}

fn quotient(op: &str, me: DType, other: &Other, is_reflected: bool) -> PyResult<()> {
    if me == DType::Bool && is_bool(other) {
        return Err(type_error(format!("{op}: not defined for bool tensors: convert one: mask.int()")));
    }
    let is_zero = matches!(other, Other::Int(0) | Other::Bool(false));
    if is_zero && !is_reflected && !me.is_inexact() {
        let e = "ZeroDivisionError: integers are divided by 0; convert them, x.float(), for infinity or NaN";
        return Err(value_error(format!("{op}: {e}")));
    }
    Ok(())
}

fn power(me: DType, other: &Other) -> PyResult<()> {
    match other {
        Other::Int(i) if *i < 0 && !me.is_inexact() => {
            Err(value_error(format!("pow: integers have no power {i}: convert them, x.float() ** {i}")))
        }
        _ => Ok(()),
    }
}

/// Fails if operands of a product differ in type. Under autocast they are converted.
pub fn same_type(op: &str, dtypes: &[Option<DType>]) -> PyResult<()> {
    let mut known = dtypes.iter().flatten();
    let Some(first) = known.next() else { return Ok(()) };
    match known.find(|d| *d != first) {
        Some(d) if autocast_dtype().is_none() => {
            let (a, b) = (PyDType(*first).long_name(), PyDType(*d).long_name());
            Err(type_error(format!(
                "{op}: operands must have the same dtype, but got {a} and {b}: convert one, x.to({a})"
            )))
        }
        _ => Ok(()),
    }
}

/// Fails if a layer's tensors differ in type. `of_parameters`: parameters of 32 bits may stand beside an input of 16.
#[pyfunction]
fn check_types(op: &str, tensors: Vec<Option<Py<PyTensor>>>, of_parameters: bool) -> PyResult<()> {
    let mut types: Vec<Option<DType>> =
        tensors.into_iter().map(|t| t.and_then(|t| t.get().tensor().dtype().ok())).collect();
    if of_parameters && matches!(types.first(), Some(Some(DType::F16 | DType::BF16))) {
        types.retain(|d| *d != Some(DType::F32));
    }
    same_type(op, &types)
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(check_types, m)?)
}

/// The element types of several tensors.
pub fn types_of(tensors: &[Tensor]) -> impl Iterator<Item = Option<DType>> + '_ {
    tensors.iter().map(|t| t.dtype().ok())
}

/// Fails for a number that a tensor of a type cannot hold.
pub fn fits(dtype: DType, x: &Other) -> PyResult<()> {
    match x {
        Other::Int(i) => check_fits(dtype, &[*i]),
        Other::Float(x) => check_fits(dtype, &[truncated(*x)]),
        Other::Complex(_) if !dtype.is_complex() => {
            Err(type_error(format!("complex numbers do not become {dtype}: take their real parts")))
        }
        _ => Ok(()),
    }
}
