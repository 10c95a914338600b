//! What the normalizations share: the type they compute in, optional scale and shift, their place.

use crate::rules::{float, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{Batch, Call, DType, Shape, Types};

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
/// shift without scale gets ones, so that the index of an input says what it is.
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

/// The last `axes` dimensions of input 0, which are to be normalized.
fn normalized_dimensions(c: &Call) -> Result<Shape> {
    float(c, 0)?;
    one_dtype(c)?;
    let (n, rank) = (c.attrs.size("axes")?, c.shape(0).rank());
    if n == 0 || n > rank {
        return Err(Error::value(format!("the last {n} dimensions of {} cannot be normalized", c.shape(0))));
    }
    Ok(Shape::new(&c.shape(0).dims()[rank - n..]))
}

/// The normalized dimensions of a call with at most `most` inputs, whose parameters must have their shape.
pub(super) fn last_dimensions(c: &Call, most: usize) -> Result<Shape> {
    if c.types.is_empty() || c.types.len() > most {
        return Err(Error::value(format!("takes 1 to {most} inputs, but {} were given", c.types.len())));
    }
    let shape = normalized_dimensions(c)?;
    match c.types[1..].iter().find(|t| t.shape != shape) {
        Some(t) => {
            Err(Error::shape(format!("a parameter has shape {}, but the normalized dimensions are {shape}", t.shape)))
        }
        None => Ok(shape),
    }
}

/// The types of the gradients from x, the gradient of the result and perhaps the weight: that of x,
/// and with the weight those of `parameters` parameters.
pub(super) fn gradients(c: &Call, parameters: usize) -> Result<Types> {
    if c.types.len() < 2 || c.types.len() > 3 {
        return Err(Error::value(format!("takes 2 or 3 inputs, but {} were given", c.types.len())));
    }
    let inner = normalized_dimensions(c)?;
    if c.shape(0) != c.shape(1) {
        return Err(Error::shape(format!("{} has no gradient of shape {}", c.shape(0), c.shape(1))));
    }
    match c.types.get(2) {
        Some(w) if w.shape != inner => {
            Err(Error::shape(format!("the weight is {}, but the normalized dimensions are {inner}", w.shape)))
        }
        weight => {
            let parameters = weight.into_iter().flat_map(|w| std::iter::repeat_n(w.clone(), parameters));
            Ok(std::iter::once(c.types[0].clone()).chain(parameters).collect())
        }
    }
}

/// `vmap` of a normalization of the last dimensions: leading ones are many already, and only a
/// batched scale or shift needs its index found.
pub(super) const BATCH_LAST: Batch = Batch::Rule(|c| {
    let t: Vec<Tensor> = c.inputs.iter().cloned().map(Tensor::from).collect();
    let x = if c.batched[0] {
        t[0].clone()
    } else {
        let mut shape = t[0].shape()?;
        shape.insert(0, c.size);
        t[0].broadcast_to(shape)
    };
    if c.batched[1..].iter().all(|&b| !b) {
        let all: Vec<&Tensor> = std::iter::once(&x).chain(&t[1..]).collect();
        return Ok(vec![Tensor::apply1(c.op, &all, c.attrs.clone()).value()?.clone()]);
    }
    let rank = x.rank()?;
    let placed = |i: usize| -> Result<Option<Tensor>> {
        let Some(p) = t.get(i) else { return Ok(None) };
        let mut shape = p.shape()?;
        while c.batched[i] && shape.rank() < rank {
            shape.insert(1, 1);
        }
        Ok(Some(p.widened().reshape(shape)))
    };
    let mut y = Tensor::apply1(c.op, &[&x.widened()], c.attrs.clone());
    if let Some(w) = placed(1)? {
        y = y * w;
    }
    if let Some(b) = placed(2)? {
        y = y + b;
    }
    Ok(vec![y.cast_like(&x).value()?.clone()])
});
