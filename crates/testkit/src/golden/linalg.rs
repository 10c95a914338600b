//! Adapters: linear algebra, einsum, Fourier transforms.

use super::GoldenCase;
use ops::{Result, Tensor};

/// The adapter of `case`'s operator, if it is one of these.
///
/// Complex results are recorded with a last axis of two: real and imaginary part.
pub fn call(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let x = || c.tensor(0);
    Some(Ok(vec![match c.operator.as_str() {
        "matmul" | "mm" | "bmm" | "mv" | "dot" => x().matmul(c.tensor(1)),
        _ => return None,
    }]))
}
