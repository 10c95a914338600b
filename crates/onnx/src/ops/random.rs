//! Random numbers, from Talweg's generator: reproducible, but not those of another runtime.

use super::{Outs, Row, all, one, row, shape_of};
use crate::element::Elem;
use crate::run::Call;
use ir::{DType, Error, Result, Shape};
use tensor::Tensor;
use tensor::generator::next_key;

pub static ROWS: &[Row] = &[
    row("RandomNormal", 1, |c| normal(c, shape_of(&c.list("shape").unwrap_or_default())?, Elem::FLOAT)),
    row("RandomNormalLike", 1, |c| normal(c, c.shape(0)?, c.elem(0)?)),
    row("RandomUniform", 1, |c| uniform(c, shape_of(&c.list("shape").unwrap_or_default())?, Elem::FLOAT)),
    row("RandomUniformLike", 1, |c| uniform(c, c.shape(0)?, c.elem(0)?)),
    row("Bernoulli", 15, |c| {
        let x = c.x(0)?;
        let dtype = c.elem_attribute("dtype", c.elem(0)?)?.storage().unwrap_or(DType::F32);
        one(Tensor::random_bernoulli(&next_key(), &x).cast(dtype))
    }),
    row("Multinomial", 7, |c| {
        let x = c.x(0)?;
        let n = usize::try_from(c.int("sample_size", 1)).map_err(|_| Error::value("sample_size is negative"))?;
        let dtype = c.elem_attribute("dtype", Elem::INT32)?.storage().unwrap_or(DType::I32);
        one(Tensor::random_categorical(&next_key(), &x, n).t().cast(dtype))
    }),
];

fn dtype(c: &Call<'_>, like: Elem, shape: &Shape) -> Result<DType> {
    let d = c.elem_attribute("dtype", like)?.storage().filter(|d| d.is_float());
    let d = d.ok_or_else(|| Error::dtype("random numbers are floats"))?;
    c.check_count(shape.count(), d)?;
    Ok(d)
}

fn normal(c: &Call<'_>, shape: Shape, like: Elem) -> Outs {
    let d = dtype(c, like, &shape)?;
    one(Tensor::random_normal_of(&next_key(), shape, d) * c.float("scale", 1.0) + c.float("mean", 0.0))
}

fn uniform(c: &Call<'_>, shape: Shape, like: Elem) -> Outs {
    let d = dtype(c, like, &shape)?;
    one(Tensor::random_uniform_of(&next_key(), shape, c.float("low", 0.0), c.float("high", 1.0), d))
}

/// Dropout in training mode, with its mask.
pub fn dropout(c: &Call<'_>, x: &Tensor, ratio: f64) -> Outs {
    if !(0.0..1.0).contains(&ratio) {
        return Err(Error::value(format!("the ratio is {ratio}")));
    }
    debug_assert!(c.version() >= 12);
    let keep = Tensor::full_of(x.shape()?, 1.0 - ratio, DType::F32);
    let mask = Tensor::random_bernoulli(&next_key(), &keep);
    all([x * mask.cast(x.dtype()?) / (1.0 - ratio), mask])
}
