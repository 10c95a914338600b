//! Values on the host: the bytes of a tensor with their type and shape.

use crate::{Bytes, Complex, DType, Element, Error, Layout, Result, Shape, with_dtype};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// A tensor's value in host memory, row-major; clones share the bytes.
#[derive(Clone)]
pub struct Literal {
    dtype: DType,
    shape: Shape,
    bytes: Arc<Bytes>,
}

impl Literal {
    /// From elements in row-major order.
    ///
    /// ```
    /// # use talweg_ir::Literal;
    /// let x = Literal::new([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    /// assert_eq!(x.to_f64(), [1.0, 2.0, 3.0, 4.0]);
    /// assert!(Literal::new([3], &[1i64]).is_err());
    /// ```
    pub fn new<T: Element>(shape: impl Into<Shape>, data: &[T]) -> Result<Literal> {
        let shape = shape.into();
        if shape.count() != data.len() {
            return Err(Error::shape(format!(
                "shape {shape} holds {} elements, but {} were given",
                shape.count(),
                data.len()
            )));
        }
        Ok(Literal::generate(shape, |i| data[i]))
    }
    /// From a function of the row-major position.
    pub fn generate<T: Element>(shape: impl Into<Shape>, mut f: impl FnMut(usize) -> T) -> Literal {
        let mut out = Literal::zeros(T::DTYPE, shape);
        for (i, slot) in out.stored_mut::<T>().iter_mut().enumerate() {
            *slot = f(i).store();
        }
        out
    }
    /// A scalar.
    pub fn scalar<T: Element>(x: T) -> Literal {
        Literal::generate((), |_| x)
    }
    /// A scalar of a type chosen at run time, converted from f64.
    pub fn scalar_f64(dtype: DType, x: f64) -> Literal {
        with_dtype!(dtype, T => Literal::scalar(<T as Element>::from_f64(x)))
    }
    /// Zeros.
    pub fn zeros(dtype: DType, shape: impl Into<Shape>) -> Literal {
        let shape = shape.into();
        let bytes = Arc::new(Bytes::zeroed(shape.count() * dtype.size()));
        Literal { dtype, shape, bytes }
    }
    /// Nothing: stands where a value was taken out.
    pub fn nothing() -> Literal {
        static NOTHING: LazyLock<Literal> = LazyLock::new(|| Literal::zeros(DType::U8, [0]));
        NOTHING.clone()
    }
    /// From raw little-endian bytes.
    pub fn from_bytes(dtype: DType, shape: impl Into<Shape>, bytes: &[u8]) -> Result<Literal> {
        let shape = shape.into();
        let need = shape.count().checked_mul(dtype.size());
        if need != Some(bytes.len()) {
            return Err(Error::format(format!(
                "{dtype}{shape} takes {} bytes, but {} were given",
                need.map_or("too many".to_string(), |n| n.to_string()),
                bytes.len()
            )));
        }
        if dtype == DType::Bool && bytes.iter().any(|&b| b > 1) {
            return Err(Error::format("a bool must be the byte 0 or 1"));
        }
        Ok(Literal { dtype, shape, bytes: Arc::new(Bytes::copy_of(bytes)) })
    }
    /// From a buffer that holds at least the elements; takes it over without copying.
    pub fn from_buffer(dtype: DType, shape: Shape, bytes: Arc<Bytes>) -> Literal {
        assert!(bytes.as_slice().len() >= shape.count() * dtype.size(), "buffer shorter than its shape");
        Literal { dtype, shape, bytes }
    }
    /// From f64 values, rounded to `dtype`.
    pub fn from_f64(dtype: DType, shape: impl Into<Shape>, data: &[f64]) -> Literal {
        let shape = shape.into();
        assert_eq!(shape.count(), data.len(), "element count");
        with_dtype!(dtype, T => Literal::generate(shape, |i| <T as Element>::from_f64(data[i])))
    }
    /// From i64 values, wrapped to `dtype`.
    pub fn from_i64(dtype: DType, shape: impl Into<Shape>, data: &[i64]) -> Literal {
        let shape = shape.into();
        assert_eq!(shape.count(), data.len(), "element count");
        with_dtype!(dtype, T => Literal::generate(shape, |i| <T as Element>::from_int(data[i] as i128)))
    }
    /// From complex numbers, rounded to `dtype`; real types take the real parts.
    pub fn from_complex(dtype: DType, shape: impl Into<Shape>, data: &[Complex<f64>]) -> Literal {
        let shape = shape.into();
        assert_eq!(shape.count(), data.len(), "element count");
        with_dtype!(dtype, T => Literal::generate(shape, |i| <T as Element>::from_complex(data[i])))
    }
    /// From integers of any type, wrapped to `dtype`.
    pub fn from_ints(dtype: DType, shape: impl Into<Shape>, data: &[i128]) -> Literal {
        let shape = shape.into();
        assert_eq!(shape.count(), data.len(), "element count");
        with_dtype!(dtype, T => Literal::generate(shape, |i| <T as Element>::from_int(data[i])))
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// How many elements.
    pub fn count(&self) -> usize {
        self.shape.count()
    }
    /// Raw little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes.as_slice()[..self.count() * self.dtype.size()]
    }
    /// The shared buffer.
    pub fn buffer(&self) -> &Arc<Bytes> {
        &self.bytes
    }
    /// How many values lie in the buffer, this one included; arrays of other libraries do not count.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.bytes).saturating_sub(self.bytes.outside())
    }
    /// The buffer for writing, if it is neither shared nor lent.
    pub fn buffer_mut(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(&mut self.bytes).filter(|b| !b.is_foreign()).map(AsMut::as_mut)
    }
    /// Takes the shared buffer out.
    pub fn into_buffer(self) -> Arc<Bytes> {
        self.bytes
    }
    /// The elements as they are stored (`u8` for bool). Panics if `T` is not the literal's type.
    pub fn stored<T: Element>(&self) -> &[T::Stored] {
        assert_eq!(T::DTYPE, self.dtype, "element type");
        bytemuck::cast_slice(self.bytes())
    }
    /// The stored elements for writing; copies first if the bytes are shared.
    pub fn stored_mut<T: Element>(&mut self) -> &mut [T::Stored] {
        assert_eq!(T::DTYPE, self.dtype, "element type");
        let n = self.count() * self.dtype.size();
        bytemuck::cast_slice_mut(&mut Arc::make_mut(&mut self.bytes).as_mut()[..n])
    }
    /// The elements, if `T` is the literal's type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype {
            return Err(Error::dtype(format!("the tensor is {}, not {}; cast it first", self.dtype, T::DTYPE)));
        }
        Ok(self.stored::<T>().iter().map(|&s| T::load(s)).collect())
    }
    /// Every element as a complex number.
    pub fn to_complex(&self) -> Vec<Complex<f64>> {
        with_dtype!(self.dtype, T => self.stored::<T>().iter().map(|&s| <T as Element>::load(s).to_complex()).collect())
    }
    /// Every element as f64; of complex numbers the real parts.
    pub fn to_f64(&self) -> Vec<f64> {
        with_dtype!(self.dtype, T => self.stored::<T>().iter().map(|&s| <T as Element>::load(s).to_f64()).collect())
    }
    /// Every element as i64, wrapping where a `u64` is greater.
    pub fn to_i64(&self) -> Vec<i64> {
        with_dtype!(self.dtype, T => self.stored::<T>().iter().map(|&s| <T as Element>::load(s).to_int() as i64).collect())
    }
    /// Every element as an integer that holds those of every type.
    pub fn to_ints(&self) -> Vec<i128> {
        with_dtype!(self.dtype, T => self.stored::<T>().iter().map(|&s| <T as Element>::load(s).to_int()).collect())
    }
    /// The elements converted to another type.
    pub fn cast(&self, dtype: DType) -> Literal {
        if dtype == self.dtype {
            return self.clone();
        }
        if self.dtype.is_complex() {
            Literal::from_complex(dtype, self.shape.clone(), &self.to_complex())
        } else if self.dtype.is_float() {
            Literal::from_f64(dtype, self.shape.clone(), &self.to_f64())
        } else {
            Literal::from_ints(dtype, self.shape.clone(), &self.to_ints())
        }
    }
    /// The same bytes as elements of another type.
    pub fn retyped(&self, dtype: DType, shape: impl Into<Shape>) -> Literal {
        let shape = shape.into();
        assert_eq!(shape.count() * dtype.size(), self.count() * self.dtype.size(), "byte count");
        Literal { dtype, shape, bytes: self.bytes.clone() }
    }
    /// Complex numbers as their parts: a new last dimension of size 2. Real ones as they are.
    pub fn paired(&self) -> Literal {
        let t = crate::Type::new(self.dtype, self.shape.clone()).paired();
        self.retyped(t.dtype, t.shape)
    }
    /// The same elements in another shape of the same size.
    pub fn reshaped(&self, shape: impl Into<Shape>) -> Literal {
        let shape = shape.into();
        assert_eq!(shape.count(), self.count(), "element count");
        Literal { shape, ..self.clone() }
    }
    /// The elements a layout over this literal's buffer selects, made contiguous.
    pub fn gather(&self, layout: &Layout) -> Literal {
        self.pick(&layout.shape, |i| Some(layout.position(i)))
    }
    /// A new literal whose element `i` is this one's element `f(i)`, or zero for `None`.
    pub fn pick(&self, shape: &Shape, f: impl Fn(usize) -> Option<usize>) -> Literal {
        let size = self.dtype.size();
        let mut out = Bytes::zeroed(shape.count() * size);
        let src = self.bytes.as_slice();
        for (i, slot) in out.as_mut().chunks_exact_mut(size).enumerate() {
            if let Some(j) = f(i) {
                slot.copy_from_slice(&src[j * size..(j + 1) * size]);
            }
        }
        Literal { dtype: self.dtype, shape: shape.clone(), bytes: Arc::new(out) }
    }
}

impl PartialEq for Literal {
    /// Same type, shape and bits.
    fn eq(&self, other: &Literal) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}
impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)?;
        if self.count() <= 64 {
            if self.dtype.is_complex() {
                write!(f, " {:?}", self.to_complex())?;
            } else if self.dtype.is_float() {
                write!(f, " {:?}", self.to_f64())?;
            } else {
                write!(f, " {:?}", self.to_ints())?;
            }
        }
        Ok(())
    }
}
