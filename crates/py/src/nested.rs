//! Numbers and nested lists of numbers and tensors as tensors.

use crate::convert::{default_complex, default_float, refused};
use crate::error::{OrRaise, value_error};
use crate::exchange::{converted, required, whole, whole_type};
use crate::site::here;
use ::tensor::{DType, Literal, Shape, Tensor};
use ir::Complex;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyTuple};

/// Nested lists deeper than this are a mistake, such as a list that contains itself.
const NESTING_MAX: usize = 32;

/// Fails if a number lies outside of an integer type. A negative number of an unsigned type wraps, as in PyTorch.
pub fn check_fits(dtype: DType, numbers: &[i128]) -> PyResult<()> {
    if !dtype.is_int() {
        return Ok(());
    }
    let limit = 1i128 << (dtype.size() * 8 - usize::from(!dtype.is_unsigned()));
    match numbers.iter().find(|x| !(-limit..limit).contains(x)) {
        Some(&(i128::MAX | i128::MIN)) => {
            Err(value_error(format!("a number that is not finite does not fit in {dtype}")))
        }
        Some(x) => Err(value_error(format!("{x} does not fit in {dtype}"))),
        None => Ok(()),
    }
}

/// The whole part of a number, if it is one: of NaN and infinities the greatest that there is.
pub fn number_of(obj: &Bound<'_, PyAny>) -> PyResult<Option<i128>> {
    if obj.is_instance_of::<PyInt>() {
        return whole(obj).map(Some);
    }
    Ok(if obj.is_instance_of::<PyFloat>() { Some(truncated(obj.extract()?)) } else { None })
}
/// The whole part of a number; of NaN and infinities the greatest that there is.
pub fn truncated(x: f64) -> i128 {
    if x.is_nan() { i128::MAX } else { x as i128 }
}

/// What the leaves of nested lists are.
#[derive(Default)]
struct Leaves {
    numbers: Vec<Complex<f64>>,
    integers: Vec<i128>,
    /// Each with the number of leaves before it.
    tensors: Vec<(usize, Tensor)>,
    has_complex: bool,
    has_float: bool,
    has_double: bool,
    has_int: bool,
}

impl Leaves {
    /// The type of the numbers.
    fn natural(&self) -> DType {
        match (self.has_float || self.numbers.is_empty(), self.has_int) {
            _ if self.has_complex => default_complex(),
            (true, _) if self.has_double => DType::F64,
            (true, _) => default_float(),
            (false, true) => whole_type(self.integers.iter().copied().max().unwrap_or(0)),
            (false, false) => DType::Bool,
        }
    }
}

/// Tensors and the numbers among them, all as tensors of one type that holds each.
fn in_order(leaves: Leaves) -> ::tensor::Result<Vec<Tensor>> {
    if leaves.numbers.is_empty() {
        return Ok(leaves.tensors.into_iter().map(|(_, t)| t).collect());
    }
    let mut dtype = leaves.natural();
    for (_, t) in &leaves.tensors {
        dtype = dtype.promote(t.dtype()?);
    }
    let number = |(&x, &i): (&Complex<f64>, &i128)| {
        let is_whole = !dtype.is_inexact();
        Tensor::from(if is_whole {
            Literal::from_ints(dtype, (), &[i])
        } else {
            Literal::from_complex(dtype, (), &[x])
        })
    };
    let mut numbers = leaves.numbers.iter().zip(&leaves.integers).map(number);
    let mut out = Vec::with_capacity(leaves.numbers.len() + leaves.tensors.len());
    for (place, t) in leaves.tensors {
        out.extend(numbers.by_ref().take(place - out.len()));
        out.push(t.cast(dtype));
    }
    out.extend(numbers);
    Ok(out)
}

pub fn nested(obj: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    let mut leaves = Leaves::default();
    let mut shape = Vec::new();
    walk(obj, 0, &mut shape, &mut leaves)?;
    if !leaves.tensors.is_empty() {
        let site = here(obj.py());
        let dims: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
        let parts = site.scope(|| in_order(leaves)).or_raise(obj.py())?;
        return Ok(site.scope(|| {
            let all = Tensor::stack(&parts, 0);
            let rest: Vec<i64> = all.shape().map_or(vec![], |s| s[1..].iter().map(|&d| d as i64).collect());
            let t = all.view(&[dims, rest].concat());
            dtype.map_or(t.clone(), |d| t.cast(d))
        }));
    }
    if leaves.has_complex {
        let l = Literal::from_complex(
            dtype.unwrap_or_else(default_complex).to_complex(),
            Shape::new(&shape),
            &leaves.numbers,
        );
        let l = converted(l, dtype)?;
        return Ok(here(obj.py()).scope(|| Tensor::from(l)));
    }
    let dtype = dtype.unwrap_or(leaves.natural());
    let shape = Shape::new(&shape);
    check_fits(dtype, &leaves.integers)?;
    let l = if dtype.is_inexact() || leaves.has_float {
        Literal::from_complex(dtype, shape, &leaves.numbers)
    } else {
        Literal::from_ints(dtype, shape, &leaves.integers)
    };
    Ok(here(obj.py()).scope(|| Tensor::from(l)))
}

fn walk(obj: &Bound<'_, PyAny>, depth: usize, shape: &mut Vec<usize>, out: &mut Leaves) -> PyResult<()> {
    if depth > NESTING_MAX {
        return Err(refused(obj.py(), format!("lists are nested more than {NESTING_MAX} deep")));
    }
    if !obj.is_instance_of::<PyList>() && !obj.is_instance_of::<PyTuple>() {
        return leaf(obj, depth, shape, out);
    }
    let n = obj.len()?;
    match shape.get(depth) {
        Some(&d) if d != n => {
            return Err(refused(obj.py(), format!("rows differ in length: {d} and {n}")));
        }
        Some(_) => {}
        None if out.numbers.is_empty() && out.tensors.is_empty() => shape.push(n),
        None => return Err(refused(obj.py(), "a list stands beside numbers".into())),
    }
    for item in obj.try_iter()? {
        walk(&item?, depth + 1, shape, out)?;
    }
    Ok(())
}

fn leaf(obj: &Bound<'_, PyAny>, depth: usize, shape: &[usize], out: &mut Leaves) -> PyResult<()> {
    if depth != shape.len() {
        return Err(refused(obj.py(), "numbers stand at different depths of the lists".into()));
    }
    let is_bool = obj.is_instance_of::<PyBool>();
    if is_bool || obj.is_instance_of::<PyInt>() {
        out.has_int |= !is_bool;
        out.integers.push(whole(obj)?);
        out.numbers.push(Complex::new(obj.extract()?, 0.0));
    } else if obj.is_instance_of::<PyFloat>() {
        let x: f64 = obj.extract()?;
        out.has_float = true;
        // NumPy's float64 is a Python float as well.
        out.has_double |= !obj.is_exact_instance_of::<PyFloat>();
        out.numbers.push(Complex::new(x, 0.0));
        out.integers.push(truncated(x));
    } else if let Ok(z) = obj.cast::<PyComplex>() {
        out.has_complex = true;
        out.numbers.push(Complex::new(z.real(), z.imag()));
        out.integers.push(0);
    } else {
        out.tensors.push((out.numbers.len() + out.tensors.len(), required(obj, None)?));
    }
    Ok(())
}
