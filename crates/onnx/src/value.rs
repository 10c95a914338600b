//! What flows between nodes: tensors, strings, sequences and optionals.

use crate::element::Elem;
use crate::proto::{Decoder, SparseProto, TensorProto};
use crate::source::Source;
use ir::{DType, Error, Literal, Result, Shape, Site};
use std::sync::Arc;
use tensor::Tensor;

/// A value of an ONNX graph.
#[derive(Clone)]
pub enum Value {
    /// A tensor.
    Tensor(Item),
    /// A tensor of strings; they stay on the host.
    Strings(Shape, Arc<Vec<String>>),
    /// A list of values of one type.
    Sequence(Vec<Value>),
    /// A value or none.
    Optional(Option<Box<Value>>),
    /// An input that was left out.
    Missing,
}

/// A tensor with its ONNX type.
#[derive(Clone)]
pub struct Item {
    /// The values, in [`Elem::storage`].
    pub tensor: Tensor,
    /// Their type.
    pub elem: Elem,
    /// The same on the host, where that costs nothing.
    pub host: Option<Literal>,
    /// The bytes that numbers were dequantized from.
    pub steps: Option<Arc<Steps>>,
    /// Signed bytes as unsigned ones, 128 more: what kernels of integers read fastest.
    pub unsigned: Option<Tensor>,
    /// Whether it descends from sums of integers that were scaled.
    pub is_scaled: bool,
    /// Whether it is `[N, C, *S]` and was computed with channels last.
    pub is_channels_last: bool,
}

/// Integers in steps of known sizes: `(bytes - zero) * scale`.
pub struct Steps {
    /// The integers.
    pub bytes: Tensor,
    /// The same on the host, if they are constant.
    pub host: Option<Literal>,
    /// One size, or one for each index of `axis`.
    pub scale: Vec<f32>,
    /// One zero point, or one for each index of `axis`.
    pub zero: Vec<i64>,
    /// The axis that sizes and zero points belong to.
    pub axis: usize,
}

impl Steps {
    /// The size and the zero point, if there is one of each.
    pub fn whole(&self) -> Option<(f32, i64)> {
        match (&self.scale[..], &self.zero[..]) {
            ([scale], [zero]) => Some((*scale, *zero)),
            _ => None,
        }
    }
}

impl Item {
    /// A tensor of a type.
    pub fn new(tensor: Tensor, elem: Elem, host: Option<Literal>) -> Item {
        Item { tensor, elem, host, steps: None, unsigned: None, is_scaled: false, is_channels_last: false }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        let elem = tensor.dtype().map_or(Elem(0), Elem::of);
        Value::Tensor(Item::new(tensor, elem, None))
    }
}

impl From<Literal> for Value {
    fn from(l: Literal) -> Value {
        Value::known(Elem::of(l.dtype()), l)
    }
}

impl Value {
    /// A tensor whose values are known on the host, stored as `elem` is.
    pub fn known(elem: Elem, l: Literal) -> Value {
        let tensor = ir::Value::constant(l.clone(), Site::here()).into();
        Value::Tensor(Item::new(tensor, elem, Some(l)))
    }
    /// A tensor of a type that is kept in another.
    pub fn typed(tensor: Tensor, elem: Elem) -> Value {
        Value::Tensor(Item::new(tensor, elem, None))
    }
    /// Integers on the host.
    pub fn ints(data: &[i64]) -> Value {
        Literal::from_i64(DType::I64, [data.len()], data).into()
    }
    /// Strings.
    pub fn strings(shape: Shape, strings: Vec<String>) -> Value {
        Value::Strings(shape, Arc::new(strings))
    }
    /// What it is, for messages.
    pub fn describe(&self) -> String {
        match self {
            Value::Tensor(t) => match t.tensor.shape() {
                Ok(s) => format!("{}{s}", t.elem.name()),
                Err(e) => format!("an error: {e}"),
            },
            Value::Strings(s, _) => format!("string{s}"),
            Value::Sequence(v) => format!("a sequence of {}", v.len()),
            Value::Optional(None) => "an empty optional".into(),
            Value::Optional(Some(v)) => format!("optional {}", v.describe()),
            Value::Missing => "nothing".into(),
        }
    }
    /// Whether a call left it out.
    pub fn is_missing(&self) -> bool {
        matches!(self, Value::Missing)
    }
    /// Bytes it takes once it is computed.
    pub fn bytes(&self) -> u64 {
        match self {
            Value::Tensor(t) => t.tensor.value().map_or(0, |v| {
                let ty = v.ty();
                ty.shape.iter().try_fold(ty.dtype.size() as u64, |n, &d| n.checked_mul(d as u64)).unwrap_or(u64::MAX)
            }),
            Value::Strings(_, s) => s.iter().map(|s| s.len() as u64 + 24).sum(),
            Value::Sequence(v) => v.iter().map(Value::bytes).fold(0, u64::saturating_add),
            Value::Optional(v) => v.as_deref().map_or(0, Value::bytes),
            Value::Missing => 0,
        }
    }
    /// Every tensor in it.
    pub fn tensors<'a>(&'a self, out: &mut Vec<&'a Tensor>) {
        match self {
            Value::Tensor(t) => out.push(&t.tensor),
            Value::Sequence(v) => v.iter().for_each(|v| v.tensors(out)),
            Value::Optional(Some(v)) => v.tensors(out),
            _ => {}
        }
    }
}

/// The number of elements of declared sizes.
pub fn checked_shape(dims: &[i64]) -> Result<Shape> {
    let sizes = dims.iter().map(|&d| usize::try_from(d).map_err(|_| Error::format(format!("a size is {d}"))));
    let sizes = sizes.collect::<Result<Vec<usize>>>()?;
    let count = sizes.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
    if count.is_none_or(|n| n > isize::MAX as usize / 16) {
        return Err(Error::format(format!("a tensor of shape {dims:?} has too many elements")));
    }
    Ok(Shape::new(&sizes))
}

impl Source {
    /// A tensor of the file.
    pub fn value(&self, t: &TensorProto) -> Result<Value> {
        self.tensor_value(t).map_err(|e| Error { message: format!("tensor {:?}: {}", t.name, e.message), ..e })
    }

    fn tensor_value(&self, t: &TensorProto) -> Result<Value> {
        let shape = checked_shape(&t.dims)?;
        let (elem, count) = (Elem::known(i64::from(t.elem))?, shape.count());
        let short = |got: usize| Error::format(format!("shape {shape} needs {count} elements, but the file has {got}"));
        if elem == Elem::STRING {
            if t.strings.len() != count {
                return Err(short(t.strings.len()));
            }
            let text = |s: &Vec<u8>| String::from_utf8_lossy(s).into_owned();
            return Ok(Value::strings(shape.clone(), t.strings.iter().map(text).collect()));
        }
        let dtype = elem.storage().ok_or_else(|| Error::bug("a type without storage"))?;
        let blob = match &t.raw {
            _ if t.is_external => Some(self.external(&t.external)?),
            Some(range) => Some(self.blob(range.clone())?),
            None => None,
        };
        let literal = match blob {
            Some(blob) => {
                let need = (count * elem.bits()).div_ceil(8);
                if blob.bytes().len() != need {
                    let got = blob.bytes().len();
                    return Err(Error::format(format!(
                        "{}{shape} needs {need} bytes, but there are {got}",
                        elem.name()
                    )));
                }
                match blob.shared() {
                    Some(bytes) if !elem.is_small() && dtype != DType::Bool => {
                        Literal::from_buffer(dtype, shape, bytes)
                    }
                    _ => unpack(elem, dtype, shape, blob.bytes())?,
                }
            }
            None => typed_data(t, elem, dtype, shape.clone()).ok_or_else(|| short(0))?,
        };
        Ok(Value::known(elem, literal))
    }

    /// A sparse tensor, written out; `limit` bounds the bytes.
    pub fn dense(&self, s: &SparseProto, limit: u64) -> Result<(String, Value)> {
        let shape = checked_shape(&s.dims)?;
        let (Value::Tensor(values), Value::Tensor(places)) = (self.value(&s.values)?, self.value(&s.indices)?) else {
            return Err(Error::format("a sparse tensor has strings"));
        };
        let (Some(values), Some(places), elem) = (values.host, places.host, values.elem) else {
            return Err(Error::bug("a tensor of the file is not known"));
        };
        if shape.count() as u64 * 16 > limit {
            return Err(Error::value(format!("a sparse tensor of shape {shape} is larger than the memory limit")));
        }
        let strides = shape.strides();
        let index = places.to_i64();
        let flat: Vec<i64> = if places.shape().rank() == 2 {
            let row = |r: &[i64]| r.iter().zip(&strides).map(|(i, &s)| i.saturating_mul(s as i64)).sum();
            index.chunks(shape.rank().max(1)).map(row).collect()
        } else {
            index
        };
        let mut at = vec![None; shape.count()];
        for (k, &i) in flat.iter().enumerate() {
            let slot = usize::try_from(i).ok().and_then(|i| at.get_mut(i));
            *slot.ok_or_else(|| Error::format(format!("a sparse tensor of shape {shape} has the index {i}")))? =
                Some(k);
        }
        if flat.len() != values.count() {
            return Err(Error::format("a sparse tensor has a different number of values and indices"));
        }
        Ok((s.values.name.clone(), Value::known(elem, values.pick(&shape, |i| at[i]))))
    }
}

/// Elements from a file's bytes, as they are kept.
fn unpack(elem: Elem, dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Literal> {
    if !elem.is_small() {
        return Literal::from_bytes(dtype, shape, bytes);
    }
    let bits = elem.bits();
    let code = |i: usize| (bytes[i * bits / 8] >> (i * bits % 8)) & (((1u16 << bits) - 1) as u8);
    Ok(match elem.int_bits() {
        Some((_, false)) => Literal::generate::<u8>(shape, code),
        Some((b, true)) => Literal::generate::<i8>(shape, |i| ((code(i) << (8 - b)) as i8) >> (8 - b)),
        None => Literal::generate::<f32>(shape, |i| elem.decode(code(i))),
    })
}

/// Elements from the field that a type uses if there are no raw bytes.
fn typed_data(t: &TensorProto, elem: Elem, dtype: DType, shape: Shape) -> Option<Literal> {
    let count = shape.count();
    let exact = |n: usize| (n == count).then_some(());
    match elem {
        Elem::FLOAT => exact(t.floats.len()).map(|()| Literal::generate::<f32>(shape, |i| t.floats[i])),
        Elem::DOUBLE => exact(t.doubles.len()).map(|()| Literal::generate::<f64>(shape, |i| t.doubles[i])),
        Elem::INT64 => exact(t.ints64.len()).map(|()| Literal::generate::<i64>(shape, |i| t.ints64[i])),
        Elem::UINT64 => exact(t.uints64.len()).map(|()| Literal::generate::<u64>(shape, |i| t.uints64[i] as u64)),
        Elem::UINT32 => exact(t.uints64.len()).map(|()| Literal::generate::<u32>(shape, |i| t.uints64[i] as u32)),
        Elem::COMPLEX64 => {
            exact(t.floats.len() / 2)?;
            let bytes: Vec<u8> = t.floats.iter().flat_map(|x| x.to_le_bytes()).collect();
            Literal::from_bytes(dtype, shape, &bytes).ok()
        }
        Elem::COMPLEX128 => {
            exact(t.doubles.len() / 2)?;
            let bytes: Vec<u8> = t.doubles.iter().flat_map(|x| x.to_le_bytes()).collect();
            Literal::from_bytes(dtype, shape, &bytes).ok()
        }
        Elem::FLOAT16 | Elem::BFLOAT16 => {
            exact(t.ints32.len())?;
            let bytes: Vec<u8> = t.ints32.iter().flat_map(|&x| (x as u16).to_le_bytes()).collect();
            Literal::from_bytes(dtype, shape, &bytes).ok()
        }
        e if e.is_small() => {
            let bytes: Vec<u8> = t.ints32.iter().map(|&x| x as u8).collect();
            (bytes.len() == (count * elem.bits()).div_ceil(8)).then(|| unpack(elem, dtype, shape, &bytes).ok())?
        }
        _ => exact(t.ints32.len()).map(|()| Literal::from_i64(dtype, shape, &t.ints32)),
    }
}

/// A tensor, sequence or optional in a file of its own, as test data are.
pub fn read_value(bytes: Vec<u8>, ty: &crate::proto::TypeProto) -> Result<Value> {
    use crate::proto::TypeProto as T;
    let source = Source::of(bytes, None);
    fn one(d: &Decoder, s: &Source, bytes: &[u8], ty: &T, depth: usize) -> Result<Value> {
        if depth > 8 {
            return Err(Error::format("values are nested deeper than 8"));
        }
        match ty {
            T::Sequence(inner) => {
                let (_, parts) = d.parts(bytes)?;
                let parts = parts.iter().map(|(_, b)| one(d, s, b, inner, depth + 1));
                Ok(Value::Sequence(parts.collect::<Result<_>>()?))
            }
            T::Optional(inner) => {
                let (_, parts) = d.parts(bytes)?;
                let inner = parts.first().map(|(_, b)| one(d, s, b, inner, depth + 1)).transpose()?;
                Ok(Value::Optional(inner.map(Box::new)))
            }
            _ => s.value(&d.tensor(bytes)?),
        }
    }
    one(&Decoder::new(source.bytes()), &source, source.bytes(), ty, 0)
}
