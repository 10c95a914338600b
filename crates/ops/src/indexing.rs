//! NumPy's indexing: numbers, slices, new axes, `..`, and index tensors or masks.
//!
//! ```
//! use talweg_ops::{NewAxis, Tensor, i};
//! let x = Tensor::arange(0..24).reshape([2, 3, 4]);
//! assert_eq!(x.i((0, .., 1..3)).dims().unwrap(), [3, 2]);
//! assert_eq!(x.i((NewAxis, 1)).dims().unwrap(), [1, 3, 4]);
//! assert_eq!(x.index(&i![.., 0..4; 2]).dims().unwrap(), [2, 3, 2]);
//! assert_eq!(x.index(&i![1, 2, ..; -1]).to_vec::<i32>().unwrap(), [23, 22, 21, 20]);
//! assert_eq!(x.i((0, 0, [3, -1, 0])).to_vec::<i32>().unwrap(), [3, 3, 0]);
//! assert_eq!(x.i(x.gt(21)).to_vec::<i32>().unwrap(), [22, 23]);
//! ```

use crate::{Error, Operand, Result, Tensor, index};
use ir::{Attrs, DType, Shape};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

/// One part of an index.
#[derive(Clone, Debug)]
pub enum Index {
    /// One element of an axis, which is removed; negative ones count from the end.
    At(i64),
    /// Every `step`-th element of a range of an axis, as in Python: negative ends count from the
    /// end of the axis, ends beyond it are cut off, a negative step walks backward.
    Slice {
        /// The first element.
        start: Option<i64>,
        /// The end, which is left out.
        stop: Option<i64>,
        /// Elements to advance.
        step: i64,
    },
    /// A new axis of size 1.
    NewAxis,
    /// As many whole axes as are left: Rust's `..`, Python's `...`. (One whole axis is `0..`.)
    Ellipsis,
    /// Integers: the elements at these indices of an axis. Bool: the elements where it holds, over
    /// as many axes as it has dimensions.
    Tensor(Tensor),
}

/// A new axis of size 1 in an index.
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

impl Index {
    /// A slice.
    pub fn slice(start: impl Into<Option<i64>>, stop: impl Into<Option<i64>>, step: i64) -> Index {
        Index::Slice { start: start.into(), stop: stop.into(), step }
    }
    /// The same part with another step, where it is a range or `..`, which then means one whole
    /// axis.
    pub fn step(self, step: i64) -> Index {
        match self {
            Index::Slice { start, stop, .. } => Index::Slice { start, stop, step },
            Index::Ellipsis => Index::slice(None, None, step),
            other => other,
        }
    }
}
impl From<NewAxis> for Index {
    fn from(_: NewAxis) -> Index {
        Index::NewAxis
    }
}
impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        Index::Ellipsis
    }
}
impl From<Tensor> for Index {
    fn from(t: Tensor) -> Index {
        Index::Tensor(t)
    }
}
impl From<&Tensor> for Index {
    fn from(t: &Tensor) -> Index {
        Index::Tensor(t.clone())
    }
}
macro_rules! from_integers {
    ($($t:ty),*) => {$(
        impl From<$t> for Index {
            fn from(i: $t) -> Index {
                Index::At(i as i64)
            }
        }
        impl From<Range<$t>> for Index {
            fn from(r: Range<$t>) -> Index {
                Index::slice(r.start as i64, r.end as i64, 1)
            }
        }
        impl From<RangeFrom<$t>> for Index {
            fn from(r: RangeFrom<$t>) -> Index {
                Index::slice(r.start as i64, None, 1)
            }
        }
        impl From<RangeTo<$t>> for Index {
            fn from(r: RangeTo<$t>) -> Index {
                Index::slice(None, r.end as i64, 1)
            }
        }
        impl From<RangeInclusive<$t>> for Index {
            /// Up to the last element named; `a..=-1` goes to the end of the axis.
            fn from(r: RangeInclusive<$t>) -> Index {
                let end = *r.end() as i64 + 1;
                Index::slice(*r.start() as i64, (end != 0).then_some(end), 1)
            }
        }
        impl From<Vec<$t>> for Index {
            #[track_caller]
            fn from(v: Vec<$t>) -> Index {
                Index::from(v.as_slice())
            }
        }
        impl From<&[$t]> for Index {
            #[track_caller]
            fn from(v: &[$t]) -> Index {
                let v: Vec<i64> = v.iter().map(|&i| i as i64).collect();
                Index::Tensor(Tensor::new(v.len(), &v))
            }
        }
        impl<const N: usize> From<[$t; N]> for Index {
            #[track_caller]
            fn from(v: [$t; N]) -> Index {
                Index::from(v.as_slice())
            }
        }
        single!($t, Range<$t>, RangeFrom<$t>, RangeTo<$t>, RangeInclusive<$t>, Vec<$t>);
        impl<const N: usize> Indices for [$t; N] {
            #[track_caller]
            fn indices(self) -> Vec<Index> {
                vec![self.into()]
            }
        }
    )*};
}
/// What stands alone as an index.
macro_rules! single {
    ($($t:ty),*) => {$(
        impl Indices for $t {
            #[track_caller]
            fn indices(self) -> Vec<Index> {
                vec![self.into()]
            }
        }
    )*};
}
macro_rules! tuples {
    ($($t:ident)*) => {
        impl<$($t: Into<Index>),*> Indices for ($($t,)*) {
            #[track_caller]
            #[allow(non_snake_case)]
            fn indices(self) -> Vec<Index> {
                let ($($t,)*) = self;
                vec![$($t.into()),*]
            }
        }
    };
}

/// An index: one part, or a tuple of parts for the axes from the first on.
pub trait Indices {
    /// The parts in order.
    fn indices(self) -> Vec<Index>;
}
from_integers!(i64, i32, usize);
single!(Index, NewAxis, RangeFull, Tensor, &Tensor);
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
impl Indices for &[Index] {
    fn indices(self) -> Vec<Index> {
        self.to_vec()
    }
}
impl Indices for Vec<Index> {
    fn indices(self) -> Vec<Index> {
        self
    }
}
impl<const N: usize> Indices for &[Index; N] {
    fn indices(self) -> Vec<Index> {
        self.to_vec()
    }
}

/// The parts of an index; a step follows a range after a semicolon: `i![.., 1..5; 2]`.
#[macro_export]
macro_rules! i {
    ($($part:expr $(; $step:expr)?),* $(,)?) => {
        [$( $crate::Index::from($part)$(.step($step))? ),*]
    };
}

/// An index in simple steps: one slice of every axis, a reshape that drops and inserts axes, then
/// the tensors of indices.
struct Plan {
    starts: Vec<i64>,
    sizes: Vec<i64>,
    steps: Vec<i64>,
    /// The axes after the reshape.
    shape: Shape,
    /// Axis after the reshape, axis of the tensor, places.
    places: Vec<(usize, usize, Tensor)>,
    /// True if something stands between the index tensors.
    apart: bool,
}

fn plan(shape: &Shape, parts: &[Index]) -> Result<Plan> {
    let (parts, split) = full(shape, parts)?;
    let advanced = parts.iter().any(|p| matches!(p, Index::Tensor(_)));
    let is_place = |p: &Index| matches!(p, Index::Tensor(_)) || advanced && matches!(p, Index::At(_));
    let held: Vec<usize> = (0..parts.len()).filter(|&k| is_place(&parts[k])).collect();
    let apart = split || held.windows(2).any(|w| w[1] != w[0] + 1);
    let mut p = Plan { starts: vec![], sizes: vec![], steps: vec![], shape: Shape::scalar(), places: vec![], apart };
    for part in &parts {
        let axis = p.starts.len();
        let take = |p: &mut Plan, start: i64, size: i64, step: i64| {
            p.starts.push(start);
            p.sizes.push(size);
            p.steps.push(step);
        };
        match part {
            Index::NewAxis => p.shape.push(1),
            Index::At(i) if !advanced => {
                let at = wrap(*i, axis, shape[axis])?;
                take(&mut p, at, 1, 1);
            }
            Index::At(i) => {
                wrap(*i, axis, shape[axis])?;
                take(&mut p, 0, shape[axis] as i64, 1);
                p.places.push((p.shape.rank(), axis, Tensor::from(*i)));
                p.shape.push(shape[axis]);
            }
            Index::Slice { start, stop, step } => {
                let (start, size) = python_slice(shape[axis] as i64, *start, *stop, *step)?;
                take(&mut p, start, size, *step);
                p.shape.push(size as usize);
            }
            Index::Tensor(t) => {
                take(&mut p, 0, shape[axis] as i64, 1);
                p.places.push((p.shape.rank(), axis, t.as_index("index")?));
                p.shape.push(shape[axis]);
            }
            Index::Ellipsis => return Err(Error::bug("replaced by slices before")),
        }
    }
    Ok(p)
}

/// Masks converted to indices, `..` into whole axes: one part for each axis and new axis. Also
/// whether a `..` that stands for no axis separates two index tensors.
fn full(shape: &Shape, parts: &[Index]) -> Result<(Vec<Index>, bool)> {
    let mut out = Vec::new();
    let mut used = 0;
    let mut gap = None;
    for part in parts {
        match part {
            Index::Ellipsis if gap.is_some() => return Err(Error::value("`..` may stand once in an index")),
            Index::Ellipsis => gap = Some((out.len(), used)),
            Index::Tensor(t) if t.dtype()? == DType::Bool => {
                let dims = t.shape()?;
                // The mask covers the axes from here on, or those that end with the last.
                let behind = if gap.is_some() { remaining(parts, part)? } else { 0 };
                let from = if gap.is_some() { shape.rank().checked_sub(behind) } else { Some(used) };
                let covered = from.and_then(|f| shape.get(f..f + dims.rank()));
                // As in NumPy, an empty mask selects nothing of any axis.
                let fits = |c: &[usize]| c.iter().zip(dims.dims()).all(|(c, d)| c == d || *d == 0);
                if dims.rank() == 0 || !covered.is_some_and(fits) {
                    return Err(Error::index(format!("a mask of shape {dims} does not fit {shape} from axis {used}")));
                }
                used += dims.rank();
                out.extend(t.held_all()?.into_iter().map(Index::Tensor));
            }
            Index::NewAxis => out.push(Index::NewAxis),
            other => {
                used += 1;
                out.push(other.clone());
            }
        }
    }
    let Some(rest) = shape.rank().checked_sub(used) else {
        return Err(Error::index(format!("{used} axes are indexed, but the shape is {shape}")));
    };
    let (at, _) = gap.unwrap_or((out.len(), used));
    let whole = std::iter::repeat_n(Index::slice(None, None, 1), rest);
    let is_place = |p: Option<&Index>| matches!(p, Some(Index::Tensor(_) | Index::At(_)));
    let split = rest == 0 && gap.is_some() && at > 0 && is_place(out.get(at - 1)) && is_place(out.get(at));
    out.splice(at..at, whole);
    Ok((out, split))
}

/// How many axes the parts from `from` on take.
fn remaining(parts: &[Index], from: &Index) -> Result<usize> {
    let at = parts.iter().position(|p| std::ptr::eq(p, from)).unwrap_or(0);
    let mut n = 0;
    for p in &parts[at..] {
        n += match p {
            Index::NewAxis | Index::Ellipsis => 0,
            Index::Tensor(t) if t.dtype()? == DType::Bool => t.rank()?,
            _ => 1,
        };
    }
    Ok(n)
}

/// An index that may count from the end, checked.
fn wrap(i: i64, axis: usize, size: usize) -> Result<i64> {
    let n = size as i64;
    if i < -n || i >= n {
        return Err(Error::index(format!("index {i} is out of range for axis {axis} of size {size}")));
    }
    Ok(if i < 0 { i + n } else { i })
}

/// First element and count of a Python slice of an axis of `n` elements.
fn python_slice(n: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Result<(i64, i64)> {
    if step == 0 {
        return Err(Error::value("the step of a slice must not be 0"));
    }
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let end = |x: Option<i64>, default: i64| match x {
        None => default,
        Some(x) if x < 0 => (x.saturating_add(n)).clamp(low, high),
        Some(x) => x.clamp(low, high),
    };
    let (a, b) = if step > 0 { (end(start, low), end(stop, high)) } else { (end(start, high), end(stop, low)) };
    let span = if step > 0 { b - a } else { a - b };
    let size = if span <= 0 { 0 } else { (span - 1) / step.abs() + 1 };
    Ok(if size == 0 { (0, 0) } else { (a, size) })
}

/// A single boolean alone, as a mask over a new first axis: NumPy's rule.
fn lone_mask(parts: &[Index]) -> Option<Index> {
    match parts {
        [Index::Tensor(t)] if t.dtype() == Ok(DType::Bool) && t.rank() == Ok(0) => Some(t.reshape([1]).into()),
        _ => None,
    }
}

/// Applies the plan.
fn read(x: &Tensor, p: &Plan) -> Result<Tensor> {
    let whole = x.shape()?.iter().zip(&p.sizes).all(|(&d, &s)| d as i64 == s) && p.steps.iter().all(|&s| s == 1);
    let sliced = if whole { x.clone() } else { x.slice_raw(&p.starts, &p.sizes, &p.steps) };
    let y = sliced.reshape(&p.shape);
    let Some(&(first, _, _)) = p.places.first() else { return Ok(y) };
    // The indexed axes go first and become one; then it is a single take.
    let axes: Vec<usize> = p.places.iter().map(|&(d, _, _)| d).collect();
    let rest: Vec<usize> = (0..p.shape.rank()).filter(|d| !axes.contains(d)).collect();
    let order: Vec<i64> = axes.iter().chain(&rest).map(|&d| d as i64).collect();
    let sizes: Vec<usize> = axes.iter().map(|&d| p.shape[d]).collect();
    let flat: Shape = std::iter::once(sizes.iter().product()).chain(rest.iter().map(|&d| p.shape[d])).collect();
    let named: Vec<usize> = p.places.iter().map(|&(_, axis, _)| axis).collect();
    let inputs: Vec<&Tensor> = p.places.iter().map(|(_, _, t)| t).collect();
    let attrs = Attrs::new().with("sizes", &sizes).with("axes", &named);
    let places = Tensor::apply1(&index::ravel_index::OP, &inputs, attrs);
    let rank = places.rank()?;
    let taken = y.permute(&order).reshape(flat).take(&places, 0);
    if p.apart || first == 0 {
        return Ok(taken);
    }
    // The dimensions of the indices come first; they belong where the first of the axes was.
    let before = rest.iter().filter(|&&d| d < first).count();
    let order: Vec<usize> = (rank..rank + before).chain(0..rank).chain(rank + before..rank + rest.len()).collect();
    Ok(taken.permute(&order.iter().map(|&d| d as i64).collect::<Vec<_>>()))
}

impl Tensor {
    /// The elements an index names, by NumPy's rules. Tensors of indices broadcast with each other;
    /// their dimensions stand where the first of their axes was, or first if other parts stand
    /// between them.
    ///
    /// A mask is computed at once, as the shape of the result depends on it.
    #[track_caller]
    pub fn index(&self, parts: &[Index]) -> Tensor {
        self.then(|t| {
            if let Some(mask) = lone_mask(parts) {
                return Ok(self.unsqueeze(0).index(&[mask]));
            }
            plan(&t.shape, parts).and_then(|p| read(self, &p)).map_err(|e| e.in_op("index"))
        })
    }
    /// `index` with a single part or a tuple of parts.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.i((.., 0)).to_vec::<i32>().unwrap(), [1, 4]);
    /// assert_eq!(x.i(-1).to_vec::<i32>().unwrap(), [4, 5, 6]);
    /// ```
    #[track_caller]
    pub fn i(&self, parts: impl Indices) -> Tensor {
        self.index(&parts.indices())
    }
    /// A copy in which the elements that an index names have other values, which broadcast to
    /// what `i` gives for the index.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(x.index_put((.., 0), 9).to_vec::<i32>().unwrap(), [9, 2, 9, 4]);
    /// assert_eq!(x.index_put(x.gt(2), 0).to_vec::<i32>().unwrap(), [1, 2, 0, 0]);
    /// ```
    #[track_caller]
    pub fn index_put(&self, parts: impl Indices, values: impl Operand) -> Tensor {
        self.write(&parts.indices(), values, false)
    }
    /// A copy in which values are added to the elements that an index names; an element named
    /// several times gets all of them.
    #[track_caller]
    pub fn index_put_add(&self, parts: impl Indices, values: impl Operand) -> Tensor {
        self.write(&parts.indices(), values, true)
    }
    #[track_caller]
    fn write(&self, parts: &[Index], values: impl Operand, accumulate: bool) -> Tensor {
        self.then(|t| {
            if let Some(mask) = lone_mask(parts) {
                return Ok(self.unsqueeze(0).write(&[mask], values, accumulate).reshape(&t.shape));
            }
            let fail = |e: Error| e.in_op("index_put");
            let p = plan(&t.shape, parts).map_err(fail)?;
            // Indexing the elements' numbers in the same way says where the values go.
            let count = t.shape.count();
            let places = read(&Tensor::iota(count, DType::I64).reshape(&t.shape), &p).map_err(fail)?;
            let (shape, values) = (places.shape()?, values.operand(t.dtype).cast(t.dtype));
            if !values.shape()?.broadcasts_to(&shape) {
                let e = format!("values of shape {} do not broadcast to {shape}", values.shape()?);
                return Err(fail(Error::shape(e)));
            }
            let (places, values) = (places.ravel(), values.broadcast_to(shape).ravel());
            let flat = self.ravel();
            let y = if accumulate { flat.index_add(0, &places, &values) } else { flat.scatter(0, &places, &values) };
            Ok(y.reshape(&t.shape))
        })
    }
}
