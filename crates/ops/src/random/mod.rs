//! Random numbers: every one is a pure function of a key and its place.
//!
//! A key is a tensor of two i64: a seed and a counter. The same key gives the same numbers on
//! every device and in every order of evaluation; different counters give independent ones. The
//! first elements of a longer sample equal those of a shorter one. A third number says how many rows of
//! a larger sample come before: so processes draw parts of one sample, each its own.
//! In loops and under `vmap`, `fold` makes a key for each iteration and example out of one.

crate::table! {
    dropout,
    random_bernoulli,
    random_bits,
    random_categorical,
    random_exponential,
    random_integers,
    random_normal,
    random_permutation,
    random_truncated_normal,
    random_uniform,
}

pub use random_bits::philox;

use crate::{DType, Error, Result, Tensor};
use ir::{Call, Literal, Shape, Site, Value};

/// Checks that input `i` is a key.
fn check_key(c: &Call, i: usize) -> Result<()> {
    let t = &c.types[i];
    if t.dtype == DType::I64 && matches!(*t.shape.dims(), [2 | 3]) {
        return Ok(());
    }
    Err(Error::value(format!("a key is i64[2], a seed and a counter, or i64[3] with the rows before; this is {t}")))
}

/// The key of iteration or example `index`, an i64 scalar, of a draw: bits of the draw's key are the
/// seed and the first counter of a stream of keys.
#[track_caller]
pub(crate) fn fold(key: &Tensor, index: &Tensor) -> Tensor {
    let words = Tensor::random_bits(key, [2, 2]).cast(DType::I64);
    let stream = words.select(-1, 0).shl(32).or(words.select(-1, 1));
    let counter = Value::constant(Literal::generate([2], |i| i as i64), Site::here());
    stream + Tensor::from(counter) * index
}

/// The shape in attribute `shape`.
fn shape_of(c: &Call) -> Result<Shape> {
    Ok(c.attrs.sizes("shape")?.into_iter().collect())
}

/// Fails unless attribute `dtype` is a float.
fn float_of(c: &Call) -> Result<DType> {
    let dtype = c.attrs.dtype("dtype")?;
    dtype.check_computes()?;
    if dtype.is_float() { Ok(dtype) } else { Err(Error::dtype(format!("random floats cannot be {dtype}"))) }
}

/// `count` words for each element of `shape`.
fn words<const N: usize>(key: &Tensor, shape: &Shape) -> [Tensor; N] {
    let mut all = shape.clone();
    all.push(N);
    let bits = Tensor::random_bits(key, all);
    std::array::from_fn(|i| bits.select(-1, i as i64))
}

/// an integer from 0 to 2⁶³ - 1, as i64.
fn long([high, low]: [Tensor; 2]) -> Tensor {
    high.cast(DType::I64).shl(31).or(low.shr(1).cast(DType::I64))
}

/// The type samples are computed in.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// 53 bits of two words as f64.
fn double([a, b]: [Tensor; 2]) -> Tensor {
    a.shr(5).cast(DType::F64) * (1u64 << 26) as f64 + b.shr(6).cast(DType::F64)
}

/// Evenly distributed in [0, 1), with as many bits as `dtype` holds exactly.
fn unit(key: &Tensor, shape: &Shape, dtype: DType) -> Tensor {
    let digits = match dtype {
        DType::F64 => return double(words(key, shape)) * 2f64.powi(-53),
        DType::F32 => 24,
        DType::F16 => 11,
        _ => 8,
    };
    let bits = Tensor::random_bits(key, shape).shr(32 - digits);
    (bits.cast(DType::F32) * 2f64.powi(-digits)).cast(dtype)
}

/// `N` numbers for each element, f32 or f64, evenly distributed in (0, 1], fine near 0.
fn fine<const N: usize>(key: &Tensor, shape: &Shape, dtype: DType) -> [Tensor; N] {
    let mut all = shape.clone();
    all.push(N);
    let x = if dtype == DType::F64 {
        (double(words(key, &all)) + 0.5) * 2f64.powi(-53)
    } else {
        (Tensor::random_bits(key, all).cast(DType::F32) + 0.5) * 2f64.powi(-32)
    };
    std::array::from_fn(|i| x.select(-1, i as i64))
}

/// Exponentially distributed with mean 1, positive and finite.
fn exponential(key: &Tensor, shape: &Shape, dtype: DType) -> Tensor {
    let [u] = fine(key, shape, dtype);
    let below_one = if dtype == DType::F64 { 1.0 - 2f64.powi(-53) } else { 1.0 - 2f64.powi(-24) };
    // Small results come from small u, of which there are many different ones.
    -(-u.minimum(below_one)).log1p()
}
