//! Iteration spaces: lists of sizes greater than 1, split until two shapes agree.
//!
//! A value over some dimensions of a space is named by a bit mask of them; its elements are in
//! row-major order over those dimensions.

use ir::{Layout, Shape};
use smallvec::SmallVec;

/// A set of a space's dimensions, as bits.
pub type Mask = u64;

/// The most dimensions a space may have.
pub const DIMS_MAX: usize = 24;

/// The sizes of a shape that matter.
pub fn dims_of(shape: &Shape) -> Vec<usize> {
    shape.iter().copied().filter(|&d| d != 1).collect()
}

/// All dimensions.
pub fn full(dims: &[usize]) -> Mask {
    (1 << dims.len()) - 1
}

/// How many points the dimensions in `mask` span.
pub fn count(dims: &[usize], mask: Mask) -> usize {
    (0..dims.len()).filter(|i| mask >> i & 1 == 1).map(|i| dims[i]).product()
}

/// A space split further, and what each new dimension was a part of.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// The new sizes.
    pub dims: Vec<usize>,
    /// For each new dimension, the old one it is a part of.
    pub parent: Vec<usize>,
    /// For each new dimension, the dimension of the other shape it is a part of, if any.
    pub other: Vec<Option<usize>>,
}

impl Split {
    /// The same dimensions in the new space.
    pub fn remap(&self, mask: Mask) -> Mask {
        self.bits(|k| mask >> self.parent[k] & 1 == 1)
    }
    /// The new dimensions that make up those of the other shape.
    pub fn of_other(&self, is_in: impl Fn(usize) -> bool) -> Mask {
        self.bits(|k| self.other[k].is_some_and(&is_in))
    }
    fn bits(&self, f: impl Fn(usize) -> bool) -> Mask {
        (0..self.dims.len()).filter(|&k| f(k)).map(|k| 1 << k).sum()
    }
}

/// Splits the dimensions in `mask` of a space until each is a part of one size of `other`, whose
/// elements are the same in the same order; `None` where sizes do not divide.
pub fn split(dims: &[usize], mask: Mask, other: &[usize]) -> Option<Split> {
    let mut out = Split { dims: Vec::new(), parent: Vec::new(), other: Vec::new() };
    let mut j = 0;
    let mut rest = other.first().copied().unwrap_or(1);
    for (i, &d) in dims.iter().enumerate() {
        if mask >> i & 1 == 0 {
            out.dims.push(d);
            out.parent.push(i);
            out.other.push(None);
            continue;
        }
        let mut left = d;
        while left > 1 {
            let part = left.min(rest);
            if j >= other.len() || left % part != 0 || rest % part != 0 {
                return None;
            }
            out.dims.push(part);
            out.parent.push(i);
            out.other.push(Some(j));
            left /= part;
            rest /= part;
            if rest == 1 {
                j += 1;
                rest = other.get(j).copied().unwrap_or(1);
            }
        }
    }
    (j >= other.len() && out.dims.len() <= DIMS_MAX).then_some(out)
}

/// Row-major strides over the dimensions in `mask`, 0 elsewhere.
pub fn strides(dims: &[usize], mask: Mask) -> SmallVec<[isize; 4]> {
    let mut s = SmallVec::from_elem(0, dims.len());
    let mut step = 1;
    for i in (0..dims.len()).rev().filter(|i| mask >> i & 1 == 1) {
        s[i] = step;
        step *= dims[i] as isize;
    }
    s
}

/// The strides with which a layout is read in a space whose dimensions in `mask` hold the same
/// elements in the same order; `None` where strides cannot say it.
pub fn embed(layout: &Layout, dims: &[usize], mask: Mask) -> Option<SmallVec<[isize; 4]>> {
    let is_in = |i: &usize| mask >> i & 1 == 1;
    let shape: Shape = (0..dims.len()).filter(is_in).map(|i| dims[i]).collect();
    let inner = layout.reshape(&shape)?;
    let mut s = SmallVec::from_elem(0, dims.len());
    for (k, i) in (0..dims.len()).filter(is_in).enumerate() {
        s[i] = inner.strides[k];
    }
    Some(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_until_sizes_agree() {
        let s = split(&[6, 4], 0b11, &[3, 8]).unwrap();
        assert_eq!((s.dims.as_slice(), s.parent.as_slice()), ([3, 2, 4].as_slice(), [0, 0, 1].as_slice()));
        assert_eq!(s.other, [Some(0), Some(1), Some(1)]);
        assert_eq!(s.remap(0b10), 0b100);
        assert_eq!(s.of_other(|j| j == 1), 0b110);
        assert_eq!(split(&[4, 6], 0b11, &[6, 4]), None);
        // Only the masked dimensions are matched.
        let s = split(&[6, 4], 0b01, &[2, 3]).unwrap();
        assert_eq!(s.dims, [2, 3, 4]);
        assert_eq!(s.other, [Some(0), Some(1), None]);
    }

    #[test]
    fn embeds_broadcasts_and_refuses_what_strides_cannot_say() {
        let row = Layout::contiguous(&Shape::new(&[5, 1])).broadcast_to(&Shape::new(&[5, 4]));
        assert_eq!(embed(&row, &[5, 4], 0b11).unwrap().as_slice(), [1, 0]);
        assert_eq!(embed(&row, &[5, 2, 2], 0b111).unwrap().as_slice(), [1, 0, 0]);
        assert_eq!(embed(&row, &[20], 0b1), None);
        assert_eq!(strides(&[2, 3, 4], 0b101).as_slice(), [4, 0, 1]);
    }
}
