//! Shapes, broadcasting and strided layouts.

use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// The sizes of a tensor's dimensions; empty for a scalar.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

/// A block copy: `SmallVec`'s own `clone` pushes element by element.
impl Clone for Shape {
    fn clone(&self) -> Shape {
        Shape::new(&self.0)
    }
}

impl Shape {
    /// From a list of sizes.
    pub fn new(dims: &[usize]) -> Shape {
        Shape(SmallVec::from_slice(dims))
    }
    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape(SmallVec::new())
    }
    /// The sizes.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }
    /// How many dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }
    /// How many elements, saturating.
    pub fn count(&self) -> usize {
        self.0.iter().fold(1usize, |a, &d| a.saturating_mul(d))
    }
    /// Row-major strides, in elements.
    pub fn strides(&self) -> SmallVec<[isize; 4]> {
        let mut s: SmallVec<[isize; 4]> = SmallVec::from_elem(1, self.rank());
        for i in (0..self.rank().saturating_sub(1)).rev() {
            s[i] = s[i + 1] * self.0[i + 1].max(1) as isize;
        }
        s
    }
    /// NumPy's broadcast of two shapes, or `None` where sizes clash.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let mut out = SmallVec::from_elem(1, rank);
        for i in 0..rank {
            let a = if i + self.rank() < rank { 1 } else { self.0[i + self.rank() - rank] };
            let b = if i + other.rank() < rank { 1 } else { other.0[i + other.rank() - rank] };
            out[i] = match (a, b) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return None,
            };
        }
        Some(Shape(out))
    }
    /// True if NumPy would broadcast this shape to `to`.
    pub fn broadcasts_to(&self, to: &Shape) -> bool {
        self.broadcast(to).as_ref() == Some(to)
    }
    /// A copy with one size appended.
    pub fn push(&mut self, d: usize) {
        self.0.push(d);
    }
    /// Inserts a size at `at`.
    pub fn insert(&mut self, at: usize, d: usize) {
        self.0.insert(at, d);
    }
    /// Removes the dimension `at`.
    pub fn remove(&mut self, at: usize) -> usize {
        self.0.remove(at)
    }
    /// Mutable sizes.
    pub fn dims_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }
    /// The shape with the given axes reduced away, or kept as 1.
    pub fn reduce(&self, axes: &[usize], keep: bool) -> Shape {
        let it = self.0.iter().enumerate();
        if keep {
            it.map(|(i, &d)| if axes.contains(&i) { 1 } else { d }).collect()
        } else {
            it.filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d).collect()
        }
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}
impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(it: I) -> Shape {
        Shape(it.into_iter().collect())
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(d: [usize; N]) -> Shape {
        Shape::new(&d)
    }
}
impl From<&[usize]> for Shape {
    fn from(d: &[usize]) -> Shape {
        Shape::new(d)
    }
}
impl From<Vec<usize>> for Shape {
    fn from(d: Vec<usize>) -> Shape {
        Shape::new(&d)
    }
}
impl From<&Vec<usize>> for Shape {
    fn from(d: &Vec<usize>) -> Shape {
        Shape::new(d)
    }
}
impl From<&Shape> for Shape {
    fn from(s: &Shape) -> Shape {
        s.clone()
    }
}
impl From<()> for Shape {
    fn from(_: ()) -> Shape {
        Shape::scalar()
    }
}
impl From<usize> for Shape {
    fn from(d: usize) -> Shape {
        Shape::new(&[d])
    }
}
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}
impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

/// Where the elements of a tensor lie in a buffer: strides and an offset, in elements.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Layout {
    /// Sizes.
    pub shape: Shape,
    /// Elements to step in each dimension; 0 for a broadcast one, negative for a flipped one.
    pub strides: SmallVec<[isize; 4]>,
    /// Position of the first element.
    pub offset: usize,
}

impl Layout {
    /// Row-major from the start of the buffer.
    pub fn contiguous(shape: &Shape) -> Layout {
        Layout { shape: shape.clone(), strides: shape.strides(), offset: 0 }
    }
    /// True if the elements lie in row-major order without gaps, from any offset.
    pub fn is_contiguous(&self) -> bool {
        // No elements lie in any order.
        if self.shape.count() == 0 {
            return true;
        }
        let mut expect = 1isize;
        for i in (0..self.shape.rank()).rev() {
            if self.shape[i] != 1 {
                if self.strides[i] != expect {
                    return false;
                }
                expect *= self.shape[i] as isize;
            }
        }
        true
    }
    /// Position in the buffer of the element with row-major number `flat`.
    pub fn position(&self, flat: usize) -> usize {
        let mut rest = flat;
        let mut at = self.offset as isize;
        for i in (0..self.shape.rank()).rev() {
            let d = self.shape[i];
            at += (rest % d) as isize * self.strides[i];
            rest /= d;
        }
        at as usize
    }
    /// The same elements seen as broadcast to `shape`, which this layout's shape must broadcast to.
    pub fn broadcast_to(&self, shape: &Shape) -> Layout {
        let lead = shape.rank() - self.shape.rank();
        let strides = (0..shape.rank())
            .map(|i| if i < lead || self.shape[i - lead] == 1 { 0 } else { self.strides[i - lead] })
            .collect();
        Layout { shape: shape.clone(), strides, offset: self.offset }
    }
    /// The same elements in another shape without moving them, where that can be said with strides.
    pub fn reshape(&self, shape: &Shape) -> Option<Layout> {
        if self.shape.count() != shape.count() {
            return None;
        }
        if self.is_contiguous() || shape.count() == 0 {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape) });
        }
        // Match groups of old dimensions with groups of new ones that hold as many elements;
        // each old group must be contiguous in itself.
        let old: Vec<(usize, isize)> =
            self.shape.iter().copied().zip(self.strides.iter().copied()).filter(|&(d, _)| d != 1).collect();
        let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(1, shape.rank());
        let (mut oi, mut ni) = (0, 0);
        while oi < old.len() {
            let (mut op, mut np) = (old[oi].0, 1);
            let (o0, n0) = (oi, ni);
            oi += 1;
            loop {
                if np == op && (ni == shape.rank() || shape[ni] != 1) {
                    break;
                }
                if np < op || (np == op && ni < shape.rank() && shape[ni] == 1) {
                    np *= shape[ni];
                    ni += 1;
                } else {
                    op *= old[oi].0;
                    oi += 1;
                }
            }
            for k in o0..oi - 1 {
                if old[k].1 != old[k + 1].1 * old[k + 1].0 as isize {
                    return None;
                }
            }
            let mut s = old[oi - 1].1;
            for k in (n0..ni).rev() {
                strides[k] = s;
                s *= shape[k] as isize;
            }
        }
        Some(Layout { shape: shape.clone(), strides, offset: self.offset })
    }
}

/// A row-major tensor cut along one axis: `outer` × `size` × `inner`.
#[derive(Clone, Copy, Debug)]
pub struct AxisSplit {
    /// The product of the sizes before the axis.
    pub outer: usize,
    /// The size of the axis.
    pub size: usize,
    /// The product of the sizes after the axis.
    pub inner: usize,
}
impl AxisSplit {
    /// Splits a shape at an axis.
    pub fn new(shape: &Shape, axis: usize) -> AxisSplit {
        let outer = shape[..axis].iter().product();
        AxisSplit { outer, size: shape[axis], inner: shape[axis + 1..].iter().product() }
    }
    /// The positions of the elements along the axis, for each outer and inner index.
    pub fn each(self) -> impl Iterator<Item = impl DoubleEndedIterator<Item = usize> + ExactSizeIterator + Clone> {
        let AxisSplit { outer, size, inner } = self;
        (0..outer * inner).map(move |l| (0..size).map(move |i| (l / inner * size + i) * inner + l % inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_follows_numpy() {
        let s = |d: &[usize]| Shape::new(d);
        assert_eq!(s(&[3, 1]).broadcast(&s(&[4])), Some(s(&[3, 4])));
        assert_eq!(s(&[]).broadcast(&s(&[2, 0])), Some(s(&[2, 0])));
        assert_eq!(s(&[3]).broadcast(&s(&[4])), None);
        assert!(!s(&[3, 4]).broadcasts_to(&s(&[4])));
    }

    #[test]
    fn layouts_without_elements_are_contiguous() {
        for dims in [&[0][..], &[3, 0, 0], &[0, 5], &[2, 0, 3]] {
            assert!(Layout::contiguous(&Shape::new(dims)).is_contiguous(), "{dims:?}");
        }
    }

    #[test]
    fn reshape_of_views() {
        let l = Layout::contiguous(&Shape::new(&[2, 3, 4]));
        let t = Layout { shape: Shape::new(&[3, 2, 4]), strides: SmallVec::from_slice(&[4, 12, 1]), offset: 0 };
        assert_eq!(l.reshape(&Shape::new(&[6, 4])).unwrap().strides.as_slice(), &[4, 1]);
        assert!(t.reshape(&Shape::new(&[6, 4])).is_none());
        let r = t.reshape(&Shape::new(&[3, 1, 2, 2, 2])).unwrap();
        for i in 0..24 {
            assert_eq!(r.position(i), t.position(i));
        }
        let b = Layout::contiguous(&Shape::new(&[1, 4])).broadcast_to(&Shape::new(&[3, 4]));
        assert!(b.reshape(&Shape::new(&[12])).is_none());
        assert_eq!(b.reshape(&Shape::new(&[3, 2, 2])).unwrap().strides.as_slice(), &[0, 2, 1]);
    }
}
