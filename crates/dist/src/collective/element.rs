//! Element types of collectives and how they are combined.

use half::{bf16, f16};

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// Brain floats, added in f32 and rounded.
    Bf16,
    /// Half floats, added in f32 and rounded.
    F16,
    /// 32-bit integers, wrapping.
    I32,
    /// 64-bit integers, wrapping.
    I64,
}

/// How two values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Sum.
    Sum,
    /// The greater; NaN loses against a number.
    Max,
    /// The lesser; NaN loses against a number.
    Min,
}

impl Element {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Element::Bf16 | Element::F16 => 2,
            Element::F32 | Element::I32 => 4,
            Element::F64 | Element::I64 => 8,
        }
    }
    /// `to = to ∘ from`, element by element. Both must be aligned and have one length.
    pub fn combine(self, how: Combine, to: &mut [u8], from: &[u8]) {
        use Combine::*;
        use bytemuck::{cast_slice as get, cast_slice_mut as set};
        assert_eq!(to.len(), from.len(), "lengths");
        match (self, how) {
            (Element::F32, Sum) => each(set::<_, f32>(to), get(from), |a, b| a + b),
            (Element::F32, Max) => each(set::<_, f32>(to), get(from), f32::max),
            (Element::F32, Min) => each(set::<_, f32>(to), get(from), f32::min),
            (Element::F64, Sum) => each(set::<_, f64>(to), get(from), |a, b| a + b),
            (Element::F64, Max) => each(set::<_, f64>(to), get(from), f64::max),
            (Element::F64, Min) => each(set::<_, f64>(to), get(from), f64::min),
            (Element::Bf16, Sum) => each(set::<_, bf16>(to), get(from), |a, b| bf16::from_f32(a.to_f32() + b.to_f32())),
            (Element::Bf16, Max) => each(set::<_, bf16>(to), get(from), bf16::max),
            (Element::Bf16, Min) => each(set::<_, bf16>(to), get(from), bf16::min),
            (Element::F16, Sum) => each(set::<_, f16>(to), get(from), |a, b| f16::from_f32(a.to_f32() + b.to_f32())),
            (Element::F16, Max) => each(set::<_, f16>(to), get(from), f16::max),
            (Element::F16, Min) => each(set::<_, f16>(to), get(from), f16::min),
            (Element::I32, Sum) => each(set::<_, i32>(to), get(from), i32::wrapping_add),
            (Element::I32, Max) => each(set::<_, i32>(to), get(from), i32::max),
            (Element::I32, Min) => each(set::<_, i32>(to), get(from), i32::min),
            (Element::I64, Sum) => each(set::<_, i64>(to), get(from), i64::wrapping_add),
            (Element::I64, Max) => each(set::<_, i64>(to), get(from), i64::max),
            (Element::I64, Min) => each(set::<_, i64>(to), get(from), i64::min),
        }
    }
}

#[inline(always)]
fn each<T: Copy>(to: &mut [T], from: &[T], f: impl Fn(T, T) -> T) {
    for (a, b) in to.iter_mut().zip(from) {
        *a = f(*a, *b);
    }
}
