//! What ops accept beside tensors: host numbers, axes, nested arrays.

use crate::Tensor;
use ir::{Complex, DType, Element, Error, Literal, Result, Shape, Site, Value, bf16, f8e4m3, f8e5m2, f16};
use std::ops::RangeFull;

/// A host number. It takes the type of the tensor it meets and only changes its category:
/// `i32 + 0.5` is `f32`, `bf16 + 0.5` is `bf16`.
pub trait Number: Element {
    /// The weak type it has in promotion.
    const WEAK: DType;
}
macro_rules! numbers {
    ($($t:ty => $d:ident),*) => {$( impl Number for $t { const WEAK: DType = DType::$d; } )*};
}
numbers!(Complex<f64> => C64, Complex<f32> => C64, f64 => F32, f32 => F32, bf16 => F32, f16 => F32, f8e4m3 => F32, f8e5m2 => F32, i64 => I64, u64 => I64, i32 => I64, u32 => I64, i16 => I64, u16 => I64, i8 => I64, u8 => I64, bool => Bool);

/// A constant tensor of one element and a chosen type.
#[track_caller]
pub(crate) fn constant(dtype: DType, x: f64) -> Tensor {
    Value::constant(Literal::scalar_f64(dtype, x), Site::here()).into()
}

/// The other side of a binary op: a tensor or a host number.
pub trait Operand {
    /// As a tensor to meet one of type `dtype`.
    fn operand(self, dtype: DType) -> Tensor;
    /// Both sides of an op with `left`, before they are promoted to their common type.
    fn beside(self, left: &Tensor) -> Result<(Tensor, Tensor)>
    where
        Self: Sized,
    {
        let dtype = left.value()?.ty().dtype;
        Ok((left.clone(), self.operand(dtype)))
    }
}
impl Operand for Tensor {
    fn operand(self, _: DType) -> Tensor {
        self
    }
}
impl Operand for &Tensor {
    fn operand(self, _: DType) -> Tensor {
        self.clone()
    }
}
impl<N: Number> Operand for N {
    #[track_caller]
    fn operand(self, dtype: DType) -> Tensor {
        let dtype = dtype.promote_scalar(N::WEAK);
        let l = if dtype.is_complex() {
            Literal::from_complex(dtype, (), &[self.to_complex()])
        } else if dtype.is_float() {
            Literal::scalar_f64(dtype, self.to_f64())
        } else {
            Literal::from_ints(dtype, (), &[self.to_int()])
        };
        Value::constant(l, Site::here()).into()
    }
}

/// A list of axes: `..` for all, one number, or several; negative ones count from the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    /// Every axis.
    All,
    /// These.
    List(Vec<i64>),
}
impl From<RangeFull> for Axes {
    fn from(_: RangeFull) -> Axes {
        Axes::All
    }
}
impl From<i64> for Axes {
    fn from(a: i64) -> Axes {
        Axes::List(vec![a])
    }
}
impl From<i32> for Axes {
    fn from(a: i32) -> Axes {
        Axes::List(vec![a as i64])
    }
}
impl From<usize> for Axes {
    fn from(a: usize) -> Axes {
        Axes::List(vec![a as i64])
    }
}
impl<const N: usize> From<[i64; N]> for Axes {
    fn from(a: [i64; N]) -> Axes {
        Axes::List(a.to_vec())
    }
}
impl From<&Vec<i64>> for Axes {
    fn from(a: &Vec<i64>) -> Axes {
        Axes::List(a.clone())
    }
}
impl From<&[i64]> for Axes {
    fn from(a: &[i64]) -> Axes {
        Axes::List(a.to_vec())
    }
}
impl From<&[usize]> for Axes {
    fn from(a: &[usize]) -> Axes {
        Axes::List(a.iter().map(|&x| x as i64).collect())
    }
}
impl From<Vec<i64>> for Axes {
    fn from(a: Vec<i64>) -> Axes {
        Axes::List(a)
    }
}
impl From<Vec<usize>> for Axes {
    fn from(a: Vec<usize>) -> Axes {
        Axes::List(a.iter().map(|&x| x as i64).collect())
    }
}
impl Axes {
    /// Checked, made non-negative, sorted; an axis twice is an error. A scalar may be asked for its axis 0 or -1: there is
    /// nothing along it.
    pub fn resolve(&self, rank: usize) -> Result<Vec<usize>> {
        let Axes::List(list) = self else { return Ok((0..rank).collect()) };
        if rank == 0 && matches!(**list, [0 | -1]) {
            return Ok(Vec::new());
        }
        let mut out = list.iter().map(|&a| axis(a, rank)).collect::<Result<Vec<_>>>()?;
        out.sort_unstable();
        if out.windows(2).any(|w| w[0] == w[1]) {
            return Err(Error::value(format!("an axis is named twice in {list:?}")));
        }
        Ok(out)
    }
}

/// An axis counted from the end if negative, checked against the rank.
pub fn axis(a: i64, rank: usize) -> Result<usize> {
    let r = rank as i64;
    if a < -r || a >= r {
        return Err(Error::index(format!("axis {a} is out of range for a tensor of rank {rank}")));
    }
    Ok(if a < 0 { a + r } else { a } as usize)
}

/// Nested Rust arrays and vectors that a tensor can be made of.
pub trait Nested {
    /// The innermost element type.
    type Item: Element;
    /// Adds the sizes from this level on; unequal lengths are an error.
    fn shape(&self, out: &mut Shape) -> Result<()>;
    /// Appends the elements.
    fn flatten(&self, out: &mut Vec<Self::Item>);
}
macro_rules! nested_scalar {
    ($($t:ty),*) => {$(
        impl Nested for $t {
            type Item = $t;
            fn shape(&self, _: &mut Shape) -> Result<()> { Ok(()) }
            fn flatten(&self, out: &mut Vec<$t>) { out.push(*self) }
        }
    )*};
}
nested_scalar!(
    Complex<f64>,
    Complex<f32>,
    f64,
    f32,
    bf16,
    f16,
    f8e4m3,
    f8e5m2,
    i64,
    u64,
    i32,
    u32,
    i16,
    u16,
    i8,
    u8,
    bool
);
impl<T: Nested> Nested for [T] {
    type Item = T::Item;
    fn shape(&self, out: &mut Shape) -> Result<()> {
        out.push(self.len());
        let Some(first) = self.first() else { return Ok(()) };
        let mut inner = Shape::scalar();
        first.shape(&mut inner)?;
        for x in self {
            let mut s = Shape::scalar();
            x.shape(&mut s)?;
            if s != inner {
                return Err(Error::shape(format!("rows differ in shape: {inner} and {s}")));
            }
        }
        inner.iter().for_each(|&d| out.push(d));
        Ok(())
    }
    fn flatten(&self, out: &mut Vec<T::Item>) {
        self.iter().for_each(|x| x.flatten(out));
    }
}
impl<T: Nested, const N: usize> Nested for [T; N] {
    type Item = T::Item;
    fn shape(&self, out: &mut Shape) -> Result<()> {
        self.as_slice().shape(out)
    }
    fn flatten(&self, out: &mut Vec<T::Item>) {
        self.as_slice().flatten(out)
    }
}
impl<T: Nested> Nested for Vec<T> {
    type Item = T::Item;
    fn shape(&self, out: &mut Shape) -> Result<()> {
        self.as_slice().shape(out)
    }
    fn flatten(&self, out: &mut Vec<T::Item>) {
        self.as_slice().flatten(out)
    }
}
impl<T: Nested + ?Sized> Nested for &T {
    type Item = T::Item;
    fn shape(&self, out: &mut Shape) -> Result<()> {
        (**self).shape(out)
    }
    fn flatten(&self, out: &mut Vec<T::Item>) {
        (**self).flatten(out)
    }
}

impl<T: Nested> From<T> for Tensor {
    /// A tensor with these elements. Ragged rows give a tensor that carries the error.
    #[track_caller]
    fn from(data: T) -> Tensor {
        let site = Site::here();
        let mut shape = Shape::scalar();
        let mut flat = Vec::new();
        let made = data.shape(&mut shape).and_then(|()| {
            data.flatten(&mut flat);
            Literal::new(shape, &flat)
        });
        match made {
            Ok(l) => Value::data(l, false, site).into(),
            Err(e) => e.in_op("tensor").at(site).into(),
        }
    }
}
impl From<Literal> for Tensor {
    #[track_caller]
    fn from(l: Literal) -> Tensor {
        Value::data(l, false, Site::here()).into()
    }
}

impl Tensor {
    /// A tensor of the given shape from elements in row-major order.
    #[track_caller]
    pub fn new<T: Element>(shape: impl Into<Shape>, data: &[T]) -> Tensor {
        let site = Site::here();
        match Literal::new(shape, data) {
            Ok(l) => Value::data(l, false, site).into(),
            Err(e) => e.in_op("tensor").at(site).into(),
        }
    }
    /// Filled with one number, whose type it has.
    #[track_caller]
    pub fn full<N: Number>(shape: impl Into<Shape>, x: N) -> Tensor {
        Tensor::from(Value::constant(Literal::scalar(x), Site::here())).broadcast_to(shape)
    }
    /// Filled with one number converted to `dtype`.
    #[track_caller]
    pub fn full_of(shape: impl Into<Shape>, x: f64, dtype: DType) -> Tensor {
        constant(dtype, x).broadcast_to(shape)
    }
    /// Zeros of type f32.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>) -> Tensor {
        Tensor::full_of(shape, 0.0, DType::F32)
    }
    /// Ones of type f32.
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>) -> Tensor {
        Tensor::full_of(shape, 1.0, DType::F32)
    }
    /// Zeros of any type.
    #[track_caller]
    pub fn zeros_of(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::full_of(shape, 0.0, dtype)
    }
    /// Ones of any type.
    #[track_caller]
    pub fn ones_of(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        Tensor::full_of(shape, 1.0, dtype)
    }
    /// Zeros of this tensor's shape and type.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0.0)
    }
    /// Ones of this tensor's shape and type.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1.0)
    }
    /// One number in this tensor's shape and type.
    #[track_caller]
    pub fn full_like(&self, x: f64) -> Tensor {
        self.then(|t| Ok(Tensor::full_of(&t.shape, x, t.dtype)))
    }
}
