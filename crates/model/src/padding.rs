//! Free dimensions that may be padded: one program serves every size up to its own.
//!
//! A dimension is padded with zeros at the end of each axis that has it. Whether that is harmless, as it is under an
//! attention mask whose zeros hide the padding, is tried when the model is exported ([`is_harmless`]). Only dimensions
//! with a stated maximum are padded: beyond it a table of positions may end.

use crate::loaded::Model;
use crate::signature::{Axis, Dimension, Signature, TensorSpec};
use ir::{Bytes, DType, Literal, Result, Shape};
use std::sync::Arc;

/// Sizes up to this are padded to it.
const LEAST: usize = 8;
/// Dimensions with a greater maximum are not padded: they cannot be tried.
const MOST: usize = 1 << 13;
/// Outputs may differ by this part of the largest one: another size adds in another order.
const TOLERANCE: f64 = 1e-5;

/// The least power of two, or one and a half of one, that is not below `n`: two programs for each doubling.
///
/// ```
/// # use talweg_model::half_octave;
/// assert_eq!([1, 2, 3, 5, 17, 25, 33, 48, 49].map(half_octave), [1, 2, 3, 6, 24, 32, 48, 48, 64]);
/// ```
pub fn half_octave(n: usize) -> usize {
    let power = n.max(1).next_power_of_two();
    let between = power / 4 * 3;
    if n <= between { between.max(1) } else { power }
}

impl Dimension {
    /// The size of the program that runs this size: itself, unless the dimension may be padded.
    pub fn padded(&self, size: usize) -> usize {
        if !self.is_padded {
            return size;
        }
        let step = self.multiple_of.max(1);
        let wanted = half_octave(size.max(LEAST)).next_multiple_of(step);
        wanted.min(self.max / step * step).max(size)
    }
}

impl Signature {
    /// The sizes of the program that runs these.
    pub fn padded(&self, sizes: &[usize]) -> Vec<usize> {
        let first = usize::from(self.is_batched);
        let size = |(i, (d, &s)): (usize, (&Dimension, &usize))| if i < first { s } else { d.padded(s) };
        self.dims.iter().zip(sizes).enumerate().map(size).collect()
    }
    /// Inputs of some sizes, with zeros after them, for a program of the sizes `to`.
    pub fn pad(&self, inputs: &[Literal], to: &[usize]) -> Result<Vec<Literal>> {
        let pad = |(spec, l): (&TensorSpec, &Literal)| self.fit(spec, l.dtype(), l.shape().dims(), l.bytes(), to);
        self.inputs.iter().zip(inputs).map(pad).collect()
    }
    /// An output without what belongs to padding: sizes are `to`.
    pub fn trim(&self, output: usize, dtype: DType, shape: &[usize], bytes: &[u8], to: &[usize]) -> Result<Literal> {
        self.fit(&self.outputs[output], dtype, shape, bytes, to)
    }
    fn fit(&self, spec: &TensorSpec, dtype: DType, from: &[usize], bytes: &[u8], to: &[usize]) -> Result<Literal> {
        let size = |(axis, &n): (&Axis, &usize)| match axis {
            Axis::Free(name) => self.dims.iter().position(|d| d.name == *name).map_or(n, |d| to[d]),
            _ => n,
        };
        let shape: Vec<usize> = spec.shape.iter().zip(from).map(size).collect();
        if shape == from {
            return Literal::from_bytes(dtype, shape, bytes);
        }
        let mut out = Bytes::zeroed(shape.iter().product::<usize>() * dtype.size());
        copy(bytes, from, out.as_mut(), &shape, dtype.size());
        Ok(Literal::from_buffer(dtype, Shape::from(shape), Arc::new(out)))
    }
}

/// Copies what both shapes have.
fn copy(from: &[u8], sizes: &[usize], to: &mut [u8], into: &[usize], element: usize) {
    if sizes == into {
        return to.copy_from_slice(from);
    }
    let (Some((&n, rest)), Some((&m, inner))) = (sizes.split_first(), into.split_first()) else { return };
    let (step, stride) = (rest.iter().product::<usize>() * element, inner.iter().product::<usize>() * element);
    if rest == inner {
        let both = n.min(m) * step;
        return to[..both].copy_from_slice(&from[..both]);
    }
    for i in 0..n.min(m) {
        copy(&from[i * step..(i + 1) * step], rest, &mut to[i * stride..(i + 1) * stride], inner, element);
    }
}

/// The signs of the values that are tried. Zeros after values of both signs seldom change a maximum or a minimum.
#[derive(Clone, Copy)]
enum Sign {
    Both,
    Negative,
    Positive,
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    /// Values like the example's: floats of its scale, or integers that it has, zeros and ones.
    fn like(&mut self, example: &Literal, sign: Sign) -> Literal {
        let dtype = example.dtype();
        if dtype.is_float() {
            let scale = example.to_f64().iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
            let value = |_| {
                let value = ((self.next() % 2_000_003) as f64 / 1e6 - 1.0) * scale;
                match sign {
                    Sign::Both => value,
                    Sign::Negative => -value.abs(),
                    Sign::Positive => value.abs(),
                }
            };
            return Literal::from_f64(
                dtype,
                example.shape().clone(),
                &(0..example.count()).map(value).collect::<Vec<_>>(),
            );
        }
        let known = example.to_i64();
        let value = |_| match self.next() as usize % (known.len() + 2) {
            k if k < known.len() => known[k],
            k => (k - known.len()) as i64,
        };
        Literal::from_i64(dtype, example.shape().clone(), &(0..example.count()).map(value).collect::<Vec<_>>())
    }
}

/// Whether zeros after the inputs along a dimension leave every output as it is, but for rounding: tried with values
/// like those of the examples. A model that fails with them is not padded.
pub(crate) fn is_harmless(model: &Model, examples: &[Literal], dim: usize) -> bool {
    let signature = model.signature();
    let is_derived = |s: &TensorSpec| s.shape.contains(&Axis::Derived);
    let Dimension { max, multiple_of, .. } = signature.dims[dim];
    let is_complex = examples.iter().any(|l| l.dtype().is_complex());
    if signature.outputs.iter().any(is_derived) || is_complex || max > MOST {
        return false;
    }
    let Ok(sizes) = model.check(examples) else { return false };
    let (step, own) = (multiple_of.max(1), sizes[dim]);
    let is_same = |seed: u64, size: usize, sign: Sign| -> Result<bool> {
        let mut dice = Dice(seed);
        let inputs: Vec<Literal> = examples.iter().map(|l| dice.like(l, sign)).collect();
        let mut longer = sizes.clone();
        longer[dim] = size;
        let (want, got) = (model.run(&inputs)?, model.run(&signature.pad(&inputs, &longer)?)?);
        for (o, (a, b)) in want.iter().zip(&got).enumerate() {
            let b = signature.trim(o, b.dtype(), b.shape().dims(), b.bytes(), &sizes)?;
            if a.shape() != b.shape() || !is_near(a, &b) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let greatest = max / step * step;
    let longer = [own + step, own + 3 * step, greatest].into_iter().filter(|s| (own + 1..=greatest).contains(s));
    let signs = [Sign::Both, Sign::Negative, Sign::Positive];
    let is_always = |(size, seed)| signs.into_iter().all(|sign| is_same(seed, size, sign).unwrap_or(false));
    greatest > own && longer.zip(1..).all(is_always)
}

fn is_near(a: &Literal, b: &Literal) -> bool {
    if !a.dtype().is_float() {
        return a.bytes() == b.bytes();
    }
    let (a, b) = (a.to_f64(), b.to_f64());
    let scale = a.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
    a.iter().zip(&b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= TOLERANCE * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_climb_two_steps_each_doubling() {
        let dim = Dimension { max: 100, is_padded: true, ..Dimension::new("length") };
        let sizes: Vec<usize> = (1..=100).map(|n| dim.padded(n)).collect();
        let mut distinct = sizes.clone();
        distinct.dedup();
        assert_eq!(distinct, [8, 12, 16, 24, 32, 48, 64, 96, 100]);
        assert!(sizes.iter().enumerate().all(|(i, s)| *s > i));
        let pairs = Dimension { max: 50, multiple_of: 5, ..dim };
        assert_eq!([5, 10, 35, 50].map(|n| pairs.padded(n)), [10, 15, 50, 50]);
        assert_eq!(Dimension::new("length").padded(9), 9);
    }

    #[test]
    fn what_is_padded_is_trimmed_again() {
        let from: Vec<u8> = (1..=12).collect();
        let mut padded = vec![0; 2 * 3 * 4];
        copy(&from, &[2, 3, 2], &mut padded, &[2, 3, 4], 1);
        assert_eq!(padded[..8], [1, 2, 0, 0, 3, 4, 0, 0]);
        let mut back = vec![0; 12];
        copy(&padded, &[2, 3, 4], &mut back, &[2, 3, 2], 1);
        assert_eq!(back, from);
        let mut middle = vec![0; 2 * 4 * 2];
        copy(&from, &[2, 3, 2], &mut middle, &[2, 4, 2], 1);
        assert_eq!(middle, [1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12, 0, 0]);
    }
}
