//! Recorded cases: a folder with `model.onnx` and `test_data_set_0/input_0.pb`, `output_0.pb` and so on, as ONNX's own
//! tests have them.

use crate::loaded::{Model, Port};
use crate::value::Value;
use ir::{Error, ErrorKind, Literal, Result};
use std::path::Path;

/// How near results must be.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// In proportion to the value.
    pub relative: f64,
    /// Beside that.
    pub absolute: f64,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { relative: 1e-3, absolute: 1e-7 }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))
}

/// The values `NAME_0.pb`, `NAME_1.pb`, … of a data set.
fn values(model: &Model, dir: &Path, name: &str, ports: &[Port]) -> Result<Vec<Value>> {
    let mut out = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let path = dir.join(format!("{name}_{i}.pb"));
        if !path.exists() {
            break;
        }
        out.push(model.read_data(read(&path)?, port)?);
    }
    Ok(out)
}

/// Runs a recorded case and compares every result; returns how many data sets there were.
pub fn check_case(dir: &Path, tolerance: Tolerance) -> Result<usize> {
    let model = Model::open(dir.join("model.onnx"))?;
    let mut sets = 0;
    loop {
        let set = dir.join(format!("test_data_set_{sets}"));
        if !set.exists() {
            return Ok(sets);
        }
        let inputs = values(&model, &set, "input", model.inputs())?;
        let want = values(&model, &set, "output", model.outputs())?;
        let got = model.run(&inputs)?;
        for ((port, got), want) in model.outputs().iter().zip(&got).zip(&want) {
            let differs = |e: Error| Error { message: format!("output {:?}: {}", port.name, e.message), ..e };
            compare(got, want, tolerance).map_err(differs)?;
        }
        sets += 1;
    }
}

fn compare(got: &Value, want: &Value, tolerance: Tolerance) -> Result<()> {
    let differ = || Error::value(format!("got {}, expected {}", got.describe(), want.describe()));
    match (got, want) {
        (Value::Tensor(a), Value::Tensor(b)) => {
            if a.elem != b.elem {
                return Err(differ());
            }
            compare_numbers(&a.tensor.literal()?, &b.tensor.literal()?, tolerance)
        }
        (Value::Strings(sa, a), Value::Strings(sb, b)) if sa == sb && a == b => Ok(()),
        (Value::Strings(_, a), Value::Strings(_, b)) => Err(Error::value(format!("got {a:?}, expected {b:?}"))),
        (Value::Sequence(a), Value::Sequence(b)) if a.len() == b.len() => {
            a.iter().zip(b).try_for_each(|(a, b)| compare(a, b, tolerance))
        }
        (Value::Optional(Some(a)), b) | (b, Value::Optional(Some(a))) => compare(a, b, tolerance),
        (Value::Optional(None), Value::Optional(None)) => Ok(()),
        _ => Err(differ()),
    }
}

fn compare_numbers(got: &Literal, want: &Literal, tolerance: Tolerance) -> Result<()> {
    if got.shape() != want.shape() {
        return Err(Error::shape(format!("got shape {}, expected {}", got.shape(), want.shape())));
    }
    if got.dtype().is_complex() {
        let (a, b) = (got.to_complex(), want.to_complex());
        return match a
            .iter()
            .zip(&b)
            .find(|(a, b)| (*a - *b).norm() > tolerance.absolute + tolerance.relative * b.norm())
        {
            Some((a, b)) => Err(Error::value(format!("got {a}, expected {b}"))),
            None => Ok(()),
        };
    }
    let (a, b) = (got.to_f64(), want.to_f64());
    let is_near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance.absolute + tolerance.relative * b.abs()
    };
    match a.iter().zip(&b).position(|(a, b)| !is_near(*a, *b)) {
        Some(i) => {
            let n = a.iter().zip(&b).filter(|(a, b)| !is_near(**a, **b)).count();
            Err(Error::value(format!("{n} of {} differ, the first at {i}: got {}, expected {}", a.len(), a[i], b[i])))
        }
        None => Ok(()),
    }
}
