//! What the normalizations share: the type they compute in, optional scale and shift, their place.

use crate::{Error, Result, Tensor};
use ir::{Call, DType, Shape};

impl Tensor {
    /// In a type wide enough for sums of many terms: 16-bit floats become f32.
    pub(crate) fn widened(&self) -> Tensor {
        match self.dtype() {
            Ok(DType::F16 | DType::BF16) => self.cast(DType::F32),
            _ => self.clone(),
        }
    }
}

/// The shape that lays one number for each channel (axis 1) over a tensor of this rank.
pub(crate) fn over_channels(rank: usize, channels: usize) -> Shape {
    (0..rank).map(|i| if i == 1 { channels } else { 1 }).collect()
}

/// Checks that inputs `from..` are one number for each channel of input 0.
pub(crate) fn check_channels(c: &Call, from: usize) -> Result<()> {
    if c.shape(0).rank() < 2 {
        return Err(Error::shape(format!("at least a batch and a channel axis are needed, not {}", c.shape(0))));
    }
    let channels = c.shape(0)[1];
    match c.types[from..].iter().find(|t| *t.shape.dims() != [channels]) {
        Some(t) => {
            Err(Error::shape(format!("one number for each of {channels} channels was expected, not {}", t.shape)))
        }
        None => Ok(()),
    }
}

/// `y` scaled and shifted by the tensors that are there, seen in `shape`.
pub(crate) fn affine(y: Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, shape: &Shape) -> Tensor {
    let y = match weight {
        Some(w) => y * w.widened().reshape(shape),
        None => y,
    };
    match bias {
        Some(b) => y + b.widened().reshape(shape),
        None => y,
    }
}

/// The inputs of a normalization: what is normalized, then scale and shift if they are there. A
/// shift without scale gets ones, so that the place of an input says what it is.
pub(crate) fn inputs(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Vec<Tensor>> {
    let dtype = x.dtype()?;
    let mut list = vec![x.clone()];
    match (weight, bias) {
        (Some(w), _) => list.push(w.cast(dtype)),
        (None, Some(b)) => list.push(b.cast(dtype).ones_like()),
        (None, None) => {}
    }
    list.extend(bias.map(|b| b.cast(dtype)));
    Ok(list)
}
