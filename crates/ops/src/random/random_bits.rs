//! `random_bits`: 32 random bits an element, by Philox4x32-10.
//!
//! J. K. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3" (2011). The generator
//! is a function from a counter of four words and a key of two words to four words. Here the
//! counter is the element's place divided by 4 (low word first), then the key tensor's counter;
//! the key is the seed; the place modulo 4 selects the word. A key tensor of three numbers says besides
//! how many rows (of the first axis) of a larger draw come before: the indices of these elements follow theirs.

use super::shape_of;
use crate::rules::{expand1, i64s, one};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Literal, Meaning, Op, Shape, Value};
use std::ops::Range;

/// The row of `random_bits`.
pub static OP: Op = Op {
    name: "random_bits",
    doc: "32 random bits for each element by Philox4x32-10, a function of the key and the element's index alone. \
          Keys i64[…, 2], or i64[…, 3] with the number of rows that come before, give bits of `shape` each.",
    attrs: &[("shape", AttrKind::Ints)],
    infer: |c| {
        c.arity(1)?;
        one(DType::U32, out_shape(c)?)
    },
    meaning: Meaning::Kernel(|c, args| {
        let (keys, shape, out) = (args[0].to_i64(), shape_of(c)?, out_shape(c)?);
        let width = width_of(c)?;
        let (each, row) = (shape.count() as u64, shape.iter().skip(1).product::<usize>() as u64);
        let mut block = (u64::MAX, u64::MAX, [0; 4]);
        let bits = |i: usize| {
            let key = &keys[width * (i as u64 / each) as usize..][..width];
            let before = key.get(2).map_or(0, |rows| (*rows as u64).wrapping_mul(row));
            let (k, place) = (i as u64 / each, before.wrapping_add(i as u64 % each));
            if (block.0, block.1) != (k, place / 4) {
                block = (k, place / 4, philox(&words(place / 4, key[1] as u64), &halves(key[0] as u64)));
            }
            block.2[place as usize % 4]
        };
        Ok(vec![Literal::generate(out, bits)])
    }),
    grad: Grad::Zero,
    generate: Some(generate),
    batch: Batch::Rule(|c| {
        let keys = Tensor::from(c.inputs[0].clone());
        Ok(vec![Tensor::apply1(c.op, &[&keys], c.attrs.clone()).value()?.clone()])
    }),
    cases: || {
        let of = |shape: &[usize]| Attrs::new().with("shape", shape);
        let u32s = |x: &[u32]| Literal::generate([x.len()], |i| x[i]);
        vec![
            Case::new(vec![i64s([2], &[7, 9])], of(&[2, 3])),
            Case::new(vec![i64s([2, 2], &[7, 9, 8, 9])], of(&[3, 3])),
            Case::new(vec![i64s([3], &[7, 9, 5])], of(&[2, 3])),
            Case::new(vec![i64s([2, 3], &[7, 9, 5, 8, 9, 2])], of(&[3, 3])),
            Case::new(vec![i64s([3], &[0, 0, 1])], of(&[3])).expect(
                vec![u32s(&[0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8])],
                "the words after the first of Random123's answer for zeros",
            ),
            Case::new(vec![i64s([2], &[0, 0])], of(&[4])).expect(
                vec![u32s(&[0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8])],
                "Random123, kat_vectors: philox4x32 10 of zeros",
            ),
        ]
    },
    ..Op::DEFAULT
};

/// Ranges of the bits: inside the last dimension that is cut, elements are consecutive, and the key of each such run
/// states where it starts.
fn generate(c: &Call, args: &[Value], ranges: &[Range<usize>]) -> Result<Vec<Value>> {
    let (shape, width) = (shape_of(c)?, width_of(c)?);
    let (lead, own) = ranges.split_at(ranges.len() - shape.rank());
    let cut = (0..own.len()).rfind(|&d| own[d] != (0..shape[d]));
    expand1(args, |v| {
        let keys = lead.iter().enumerate().fold(v[0].clone(), |keys, (i, r)| keys.narrow(i as i64, r.start, r.len()));
        let Some(cut) = cut else { return Tensor::random_bits(&keys, shape) };
        let rows = |dims: Range<usize>| shape.dims()[dims].iter().product::<usize>() as i64;
        let mut of_key: Vec<usize> = lead.iter().map(Range::len).collect();
        of_key.resize(lead.len() + cut, 1);
        let mut runs: Vec<usize> = lead.iter().chain(&own[..cut]).map(Range::len).collect();
        of_key.push(width);
        let keys = keys.reshape(of_key.as_slice());
        let mut first = Tensor::from([own[cut].start as i64]);
        for (i, r) in own[..cut].iter().enumerate() {
            let mut along = vec![1; cut + 1];
            along[i] = r.len();
            let index = Tensor::iota(r.len(), DType::I64) + r.start as i64;
            first = first + (index * rows(i + 1..cut + 1)).reshape(along.as_slice());
        }
        if width == 3 {
            first = first + keys.narrow(-1, 2, 1) * rows(1..cut + 1);
        }
        runs.push(1);
        let first = first.broadcast_to(runs.as_slice());
        runs[lead.len() + cut] = 2;
        let keys = Tensor::concat(&[keys.narrow(-1, 0, 2).broadcast_to(runs.as_slice()), first], -1);
        let each: Shape = std::iter::once(own[cut].len()).chain(shape[cut + 1..].iter().copied()).collect();
        Tensor::random_bits(&keys, each)
    })
}

/// Numbers of a key.
fn width_of(c: &Call) -> Result<usize> {
    let keys = &c.types[0];
    match keys.shape.last() {
        Some(width @ (2 | 3)) if keys.dtype == DType::I64 => Ok(*width),
        _ => {
            let what = "keys are i64[…, 2], a seed and a counter each, or i64[…, 3] with the rows before";
            Err(Error::value(format!("{what}; this is {keys}")))
        }
    }
}
/// The dimensions of the keys, then those of the bits of each.
fn out_shape(c: &Call) -> Result<Shape> {
    width_of(c)?;
    let lead = c.types[0].shape.split_last().map_or(&[][..], |(_, lead)| lead);
    Ok(lead.iter().chain(shape_of(c)?.dims()).copied().collect())
}

/// Low and high word.
fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}
fn words(at: u64, counter: u64) -> [u32; 4] {
    let ([a, b], [c, d]) = (halves(at), halves(counter));
    [a, b, c, d]
}

/// Philox4x32-10: four random words from a counter and a key.
///
/// ```
/// # use talweg_ops::random::philox;
/// assert_eq!(philox(&[0; 4], &[0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
/// ```
pub fn philox(counter: &[u32; 4], key: &[u32; 2]) -> [u32; 4] {
    let (mut c, mut k) = (*counter, *key);
    for _ in 0..10 {
        let a = 0xD251_1F53_u64 * u64::from(c[0]);
        let b = 0xCD9E_8D57_u64 * u64::from(c[2]);
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

impl Tensor {
    /// 32 random bits for each element, u32, a function of the key and the element's index alone.
    /// A key is an i64 tensor of a seed and a counter, and perhaps the number of rows that come before
    /// these in a larger draw.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let whole = Tensor::random_bits(&Tensor::from([7i64, 9]), [5, 3]).to_vec::<u32>().unwrap();
    /// let rest = Tensor::random_bits(&Tensor::from([7i64, 9, 2]), [3, 3]).to_vec::<u32>().unwrap();
    /// assert_eq!(whole[6..], rest);
    /// ```
    #[track_caller]
    pub fn random_bits(key: &Tensor, shape: impl Into<Shape>) -> Tensor {
        Tensor::apply1(&OP, &[key], Attrs::new().with("shape", &shape.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // Random123, kat_vectors.
        assert_eq!(philox(&[u32::MAX; 4], &[u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox(&[0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], &[0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
    #[test]
    fn key_and_place_are_laid_out_low_word_first() {
        let key = Tensor::from([0x299f_31d0_a409_3822_i64, 0x0370_7344_1319_8a2e]);
        let got = Tensor::random_bits(&key, [6]).to_vec::<u32>().unwrap();
        assert_eq!(got[..4], philox(&[0, 0, 0x1319_8a2e, 0x0370_7344], &[0xa409_3822, 0x299f_31d0]));
        assert_eq!(got[4..], philox(&[1, 0, 0x1319_8a2e, 0x0370_7344], &[0xa409_3822, 0x299f_31d0])[..2]);
    }
}
