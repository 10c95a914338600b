//! `Array`: plain numbers with a shape, as data sets hand them out.
//!
//! It is a container, not a tensor: no arithmetic, no views, no devices. The
//! values are dense and row-major.

use crate::error::{Error, Result};

/// One kind of element, in both directions between `Vec<T>` and [`Values`].
///
/// Implemented for the element types of [`Kind`] and for nothing else.
pub trait Element: Copy + Send + Sync + 'static {
    /// The kind of this element.
    const KIND: Kind;
    /// Wraps a vector of this element.
    fn wrap(values: Vec<Self>) -> Values;
    /// The vector, if it is of this element.
    fn slice(values: &Values) -> Option<&[Self]>;
    /// The vector itself, if it is of this element.
    fn unwrap(values: Values) -> Option<Vec<Self>>;
    /// The nearest value to `x` (used for padding and for parsing numbers).
    fn from_f64(x: f64) -> Self;
}

/// Writes the enums and everything that is one line an element type.
macro_rules! elements {
    ($($variant:ident $type:ty, $name:literal, $from:expr;)*) => {
        /// The type of an array's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind { $(#[doc = concat!("`", $name, "`")] $variant,)* }

        /// Elements, tagged with their kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Values { $(#[doc = concat!("`", $name, "` elements")] $variant(Vec<$type>),)* }

        impl Kind {
            /// The kind's name, spelled as the Rust type.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* }
            }

            /// Size of one element in bytes.
            pub fn size_bytes(self) -> usize {
                match self { $(Kind::$variant => size_of::<$type>(),)* }
            }
        }

        impl Values {
            /// An empty vector of the given kind with room for `count` elements.
            pub fn with_capacity(kind: Kind, count: usize) -> Self {
                match kind { $(Kind::$variant => Values::$variant(Vec::with_capacity(count)),)* }
            }

            /// How many elements there are.
            pub fn len(&self) -> usize {
                match self { $(Values::$variant(values) => values.len(),)* }
            }

            /// The kind of the elements.
            pub fn kind(&self) -> Kind {
                match self { $(Values::$variant(_) => Kind::$variant,)* }
            }

            /// Appends elements `range` of `other`; false if the kinds differ.
            #[must_use]
            pub fn extend_from(&mut self, other: &Values, range: std::ops::Range<usize>) -> bool {
                match (self, other) {
                    $((Values::$variant(to), Values::$variant(from)) => to.extend_from_slice(&from[range]),)*
                    _ => return false,
                }
                true
            }

            /// Appends `count` times the value nearest to `x`.
            pub fn fill(&mut self, x: f64, count: usize) {
                match self {
                    $(Values::$variant(to) => to.resize(to.len() + count, <$type>::from_f64(x)),)*
                }
            }

            /// Element `index` as a double (integers beyond 2^53 lose digits).
            pub fn to_f64(&self, index: usize) -> f64 {
                match self { $(Values::$variant(values) => ToF64::to_f64(values[index]),)* }
            }
        }

        $(impl Element for $type {
            const KIND: Kind = Kind::$variant;
            fn wrap(values: Vec<Self>) -> Values { Values::$variant(values) }
            fn slice(values: &Values) -> Option<&[Self]> {
                match values { Values::$variant(values) => Some(values), _ => None }
            }
            fn unwrap(values: Values) -> Option<Vec<Self>> {
                match values { Values::$variant(values) => Some(values), _ => None }
            }
            #[allow(clippy::redundant_closure_call, clippy::unnecessary_cast)]
            fn from_f64(x: f64) -> Self { ($from)(x) }
        })*
    };
}

/// Like `as f64`, but for `bool` too.
trait ToF64 {
    fn to_f64(self) -> f64;
}

macro_rules! to_f64 {
    ($($type:ty)*) => { $(impl ToF64 for $type { fn to_f64(self) -> f64 { self as f64 } })* };
}
to_f64!(u8 i8 i16 i32 i64 f32 f64);

impl ToF64 for bool {
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }
}

elements! {
    Bool bool, "bool", |x: f64| x != 0.0;
    U8 u8, "u8", |x: f64| x as u8;
    I8 i8, "i8", |x: f64| x as i8;
    I16 i16, "i16", |x: f64| x as i16;
    I32 i32, "i32", |x: f64| x as i32;
    I64 i64, "i64", |x: f64| x as i64;
    F32 f32, "f32", |x: f64| x as f32;
    F64 f64, "f64", |x: f64| x;
}

impl Values {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Dense row-major numbers with a shape.
///
/// ```
/// use talweg_data::Array;
/// let a = Array::new(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
/// assert_eq!(a.shape(), [2, 3]);
/// assert_eq!(a.row(1)?.values::<f32>()?, [4.0, 5.0, 6.0]);
///
/// let wrong = Array::new(vec![1u8, 2, 3], &[2, 2]).unwrap_err();
/// assert_eq!(wrong.to_string(), "shape [2, 2] needs 4 elements, but 3 came");
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    values: Values,
    shape: Vec<usize>,
}

impl Array {
    /// An array of the given elements and shape.
    ///
    /// # Errors
    /// If the shape does not hold exactly that many elements.
    pub fn new<T: Element>(values: Vec<T>, shape: &[usize]) -> Result<Self> {
        Self::from_values(T::wrap(values), shape)
    }

    /// Like [`Array::new`] for elements whose kind is known only at run time.
    ///
    /// # Errors
    /// If the shape does not hold exactly that many elements.
    pub fn from_values(values: Values, shape: &[usize]) -> Result<Self> {
        let needed = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if needed != Some(values.len()) {
            let needed = needed.map_or("too many".into(), |n| n.to_string());
            return Err(Error::mismatch(format!("shape {shape:?} needs {needed} elements, but {} came", values.len())));
        }
        Ok(Array { values, shape: shape.to_vec() })
    }

    /// A vector: one axis, as long as the values.
    pub fn vector<T: Element>(values: Vec<T>) -> Self {
        let shape = vec![values.len()];
        Array { values: T::wrap(values), shape }
    }

    /// A scalar: no axes.
    pub fn scalar<T: Element>(value: T) -> Self {
        Array { values: T::wrap(vec![value]), shape: Vec::new() }
    }

    /// The sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The kind of the elements.
    pub fn kind(&self) -> Kind {
        self.values.kind()
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// The elements with their tag.
    pub fn data(&self) -> &Values {
        &self.values
    }

    /// The elements and the shape, without a copy.
    pub fn into_parts(self) -> (Values, Vec<usize>) {
        (self.values, self.shape)
    }

    /// The elements as a slice of `T`.
    ///
    /// # Errors
    /// If the elements are of another kind.
    pub fn values<T: Element>(&self) -> Result<&[T]> {
        T::slice(&self.values).ok_or_else(|| self.wrong_kind(T::KIND))
    }

    /// The elements as a vector of `T`, without a copy.
    ///
    /// # Errors
    /// If the elements are of another kind.
    pub fn into_values<T: Element>(self) -> Result<Vec<T>> {
        let wrong = self.wrong_kind(T::KIND);
        T::unwrap(self.values).ok_or(wrong)
    }

    /// The only element of an array that has one, as an integer: a label.
    ///
    /// # Errors
    /// If there is not exactly one element, or it is not a whole number.
    pub fn integer(&self) -> Result<i64> {
        if self.count() != 1 {
            return Err(Error::mismatch(format!(
                "expected one number, found {} of shape {:?}",
                self.kind(),
                self.shape
            )));
        }
        self.integer_at(0)
    }

    /// Element `index` as an integer.
    pub(crate) fn integer_at(&self, index: usize) -> Result<i64> {
        if let Values::I64(values) = &self.values {
            return Ok(values[index]);
        }
        let x = self.values.to_f64(index);
        if x.fract() == 0.0 && x.abs() < 9.0e15 {
            return Ok(x as i64);
        }
        Err(Error::mismatch(format!("expected a whole number, found {x}")))
    }

    /// Entry `index` along the first axis, copied.
    ///
    /// # Errors
    /// If there is no such entry, or no axis at all.
    pub fn row(&self, index: usize) -> Result<Array> {
        let Some((&len, shape)) = self.shape.split_first() else {
            return Err(Error::mismatch("a scalar has no rows"));
        };
        if index >= len {
            return Err(Error::OutOfRange { index, len });
        }
        let size: usize = shape.iter().product();
        let mut values = Values::with_capacity(self.kind(), size);
        let same = values.extend_from(&self.values, index * size..(index + 1) * size);
        debug_assert!(same, "a row has the kind of its array");
        Ok(Array { values, shape: shape.to_vec() })
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// If the number of elements differs.
    pub fn reshape(self, shape: &[usize]) -> Result<Array> {
        Self::from_values(self.values, shape)
    }

    fn wrong_kind(&self, expected: Kind) -> Error {
        Error::mismatch(format!("expected {expected} elements, found {}", self.kind()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_kinds() {
        let a = Array::new(vec![1u8, 2, 3, 4], &[2, 2]).unwrap();
        assert_eq!(a.row(1).unwrap(), Array::vector(vec![3u8, 4]));
        assert_eq!(a.row(2).unwrap_err().to_string(), "sample 2 does not exist: the data set has 2");
        assert_eq!(a.values::<f32>().unwrap_err().to_string(), "expected f32 elements, found u8");
        assert!(Array::scalar(1.0f32).row(0).is_err());
        assert_eq!(a.reshape(&[4]).unwrap().shape(), [4]);
    }

    #[test]
    fn shapes_that_overflow_are_refused() {
        let wrong = Array::new(vec![0u8; 4], &[usize::MAX, 2]).unwrap_err();
        assert!(wrong.to_string().contains("too many"), "{wrong}");
    }

    #[test]
    fn integers() {
        assert_eq!(Array::scalar(3u8).integer().unwrap(), 3);
        assert_eq!(Array::scalar(-2.0f32).integer().unwrap(), -2);
        assert_eq!(Array::scalar(i64::MAX).integer().unwrap(), i64::MAX);
        assert!(Array::scalar(0.5f32).integer().is_err());
        assert!(Array::scalar(f64::NAN).integer().is_err());
        assert!(Array::vector(vec![1i32, 2]).integer().is_err());
    }
}
