//! Rows on complex matrices as pairs: a last dimension of size 2 holds real and imaginary parts.
//!
//! Such a row says the same as its real twin, and shares its type rule and its gradient. Vectors
//! are determined up to a phase; the rows fix it, and the gradient holds for what they give.

use super::unitary::Number;
use crate::{DType, Error, Result, Tensor};
use ir::{Call, Complex, Op, Shape, Type, Types};

/// The type of the matrices whose parts input 0 holds, as one of real numbers.
pub fn matrices(c: &Call) -> Result<Type> {
    c.arity(1)?;
    match (c.dtype(0), c.shape(0).dims()) {
        (DType::F32 | DType::F64, [lead @ .., 2]) => Ok(Type::new(c.dtype(0), Shape::new(lead))),
        (DType::F32 | DType::F64, _) => {
            Err(Error::shape(format!("the last dimension must have size 2, but the shape is {}", c.shape(0))))
        }
        (dtype, _) => Err(Error::dtype(format!("the parts must be f32 or f64, not {dtype}"))),
    }
}
/// The types of the real twin, the `complex` ones of them with parts.
pub fn infer<const N: usize>(c: &Call, twin: &Op, complex: [bool; N]) -> Result<Types> {
    let mut types = (twin.infer)(&Call { types: &[matrices(c)?], attrs: c.attrs })?;
    for (ty, _) in types.iter_mut().zip(complex).filter(|(_, is_complex)| *is_complex) {
        ty.shape.push(2);
    }
    Ok(types)
}
/// Pairs as complex numbers.
pub fn numbers(pairs: &[f64]) -> Vec<Complex<f64>> {
    pairs.chunks_exact(2).map(|z| Complex::new(z[0], z[1])).collect()
}
/// Complex numbers as pairs.
pub fn parts(numbers: Vec<Complex<f64>>) -> impl Iterator<Item = f64> {
    numbers.into_iter().flat_map(|z| [z.re(), z.im])
}

/// The gradient of vectors whose phase follows from their largest component, as one of vectors of
/// any phase: `turn` is what turning each of them would do to the loss.
pub fn settled(vectors: &Tensor, g: &Tensor, turn: &Tensor) -> Result<Tensor> {
    let shape = vectors.shape()?;
    let (re, im) = (vectors.real(), vectors.imag());
    // The component is exactly real.
    let candidates = Tensor::where_(&im.eq(0.0), &re, &re.full_like(-1.0)).stop_gradient();
    let rows = shape[shape.rank() - 2];
    let at = Tensor::iota(rows, DType::I64).reshape([rows, 1]).eq(candidates.argmax_keep(-2));
    let pivot = Tensor::where_(&at, &re, 0.0).sum_keep(-2);
    let back = Tensor::where_(&at, &(turn.unsqueeze(-2) / pivot), 0.0);
    Ok(g - Tensor::complex(&back.zeros_like(), &back))
}
/// What turning each column of `x` does to a loss with the gradient `g`.
pub fn turning(x: &Tensor, g: &Tensor) -> Tensor {
    (x.conj() * g).imag().sum(-2)
}
