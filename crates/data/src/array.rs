//! `Array`: a host array as data sets hand it out. It is an [`ir::Literal`], the host array of tensors, with the errors
//! and the few methods of data sets: a batch becomes a tensor without a copy.

use crate::error::{Error, Result};
use bytemuck::CheckedBitPattern;
use ir::{DType, Element, Literal};

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
pub struct Array(Literal);

impl From<Literal> for Array {
    fn from(literal: Literal) -> Array {
        Array(literal)
    }
}
impl From<Array> for Literal {
    fn from(array: Array) -> Literal {
        array.0
    }
}

impl Array {
    /// An array of the given elements and shape.
    ///
    /// # Errors
    /// If the shape does not hold exactly that many elements.
    pub fn new<T: Element>(values: Vec<T>, shape: &[usize]) -> Result<Self> {
        fits(shape, values.len())?;
        Ok(Array(Literal::generate(shape, |i| values[i])))
    }

    /// A vector: one axis, as long as the values.
    pub fn vector<T: Element>(values: Vec<T>) -> Self {
        Array(Literal::generate([values.len()], |i| values[i]))
    }

    /// A scalar: no axes.
    pub fn scalar<T: Element>(value: T) -> Self {
        Array(Literal::scalar(value))
    }

    /// An array whose bytes a function writes, little-endian and row-major, over zeros.
    pub(crate) fn written(dtype: DType, shape: &[usize], write: impl FnOnce(&mut [u8])) -> Array {
        let mut literal = Literal::zeros(dtype, shape);
        if let Some(bytes) = literal.buffer_mut() {
            write(bytes);
        }
        Array(literal)
    }

    /// The host array; a clone shares the elements.
    pub fn literal(&self) -> &Literal {
        &self.0
    }

    /// The sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        self.0.shape().dims()
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.0.dtype()
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// The elements as a slice of `T`.
    ///
    /// # Errors
    /// If the elements are of another type.
    pub fn values<T: Element + CheckedBitPattern>(&self) -> Result<&[T]> {
        let wrong = || Error::mismatch(format!("expected {} elements, found {}", T::DTYPE, self.dtype()));
        if T::DTYPE != self.dtype() {
            return Err(wrong());
        }
        let bytes = &self.0.bytes()[..self.count() * self.dtype().size()];
        bytemuck::checked::try_cast_slice(bytes).map_err(|_| wrong())
    }

    /// The only element of an array that has one, as an integer: a label.
    ///
    /// # Errors
    /// If there is not exactly one element, or it is not an integer.
    pub fn integer(&self) -> Result<i64> {
        if self.count() != 1 {
            let (dtype, shape) = (self.dtype(), self.shape());
            return Err(Error::mismatch(format!("expected one number, found {dtype} of shape {shape:?}")));
        }
        self.integer_at(0)
    }

    /// Element `index` as an integer.
    pub(crate) fn integer_at(&self, index: usize) -> Result<i64> {
        if let Ok(values) = self.values::<i64>() {
            return Ok(values[index]);
        }
        let x = self.part(index, &[])?.0.to_f64()[0];
        if x.fract() == 0.0 && x.abs() < 9.0e15 {
            return Ok(x as i64);
        }
        Err(Error::mismatch(format!("expected an integer, found {x}")))
    }

    /// Entry `index` along the first axis, copied.
    ///
    /// # Errors
    /// If there is no such entry, or no axis at all.
    pub fn row(&self, index: usize) -> Result<Array> {
        let Some((&len, shape)) = self.shape().split_first() else {
            return Err(Error::mismatch("a scalar has no rows"));
        };
        if index >= len {
            return Err(Error::OutOfRange { index, len });
        }
        self.part(index, shape)
    }
    /// The elements that follow `index` arrays of a shape, as one of them.
    fn part(&self, index: usize, shape: &[usize]) -> Result<Array> {
        let size = shape.iter().product::<usize>() * self.dtype().size();
        let bytes = &self.0.bytes()[index * size..(index + 1) * size];
        Literal::from_bytes(self.dtype(), shape, bytes).map(Array).map_err(|e| Error::mismatch(e.message))
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// If the number of elements differs.
    pub fn reshape(self, shape: &[usize]) -> Result<Array> {
        fits(shape, self.count())?;
        Ok(Array(self.0.reshaped(shape)))
    }
}

fn fits(shape: &[usize], count: usize) -> Result<()> {
    let needed = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    if needed == Some(count) {
        return Ok(());
    }
    let needed = needed.map_or("too many".into(), |n| n.to_string());
    Err(Error::mismatch(format!("shape {shape:?} needs {needed} elements, but {count} came")))
}

/// Elements that are still being added: a column of a table, a list of numbers.
#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) dtype: DType,
    bytes: Vec<u8>,
}

impl Growing {
    /// None yet.
    pub(crate) fn new(dtype: DType) -> Growing {
        Growing { dtype, bytes: Vec::new() }
    }
    /// Adds an element, which must be of the type.
    pub(crate) fn push<T: Element>(&mut self, x: T) {
        assert_eq!(T::DTYPE, self.dtype, "an element of another type");
        self.bytes.extend_from_slice(bytemuck::bytes_of(&x.store()));
    }
    /// How many there are.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code))]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }
    /// All of them.
    pub(crate) fn finish(self, shape: &[usize]) -> Result<Array> {
        fits(shape, self.bytes.len() / self.dtype.size())?;
        Literal::from_bytes(self.dtype, shape, &self.bytes).map(Array).map_err(|e| Error::mismatch(e.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_types() {
        let a = Array::new(vec![1u8, 2, 3, 4], &[2, 2]).unwrap();
        assert_eq!(a.row(1).unwrap(), Array::vector(vec![3u8, 4]));
        assert_eq!(a.row(2).unwrap_err().to_string(), "sample 2 does not exist: the data set has 2");
        assert_eq!(a.values::<f32>().unwrap_err().to_string(), "expected f32 elements, found u8");
        assert!(Array::scalar(1.0f32).row(0).is_err());
        assert_eq!(a.reshape(&[4]).unwrap().shape(), [4]);
        assert_eq!(Array::vector(vec![true, false]).values::<bool>().unwrap(), [true, false]);
        let none: Vec<i16> = vec![];
        assert_eq!(Array::new(none, &[0, 3]).unwrap().values::<i16>().unwrap(), [] as [i16; 0]);
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
