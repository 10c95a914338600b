//! Element types of collectives and how they are combined.

use crate::{Error, Result};
use bytemuck::{Pod, cast_slice_mut};
use half::{bf16, f16};

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// Brain floats, combined in f32 and rounded.
    Bf16,
    /// Half floats, combined in f32 and rounded.
    F16,
    /// 8-bit integers, wrapping like all integers.
    I8,
    /// 16-bit integers.
    I16,
    /// 32-bit integers.
    I32,
    /// 64-bit integers.
    I64,
    /// Unsigned 8-bit integers.
    U8,
    /// Unsigned 16-bit integers.
    U16,
    /// Unsigned 32-bit integers.
    U32,
    /// Unsigned 64-bit integers.
    U64,
}

/// Every element type, by its number.
const ELEMENTS: [(Element, &str); 12] = [
    (Element::F32, "f32"),
    (Element::F64, "f64"),
    (Element::Bf16, "bf16"),
    (Element::F16, "f16"),
    (Element::I8, "i8"),
    (Element::I16, "i16"),
    (Element::I32, "i32"),
    (Element::I64, "i64"),
    (Element::U8, "u8"),
    (Element::U16, "u16"),
    (Element::U32, "u32"),
    (Element::U64, "u64"),
];

/// How two values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Combine {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// The greater; NaN wins.
    Max,
    /// The lesser; NaN wins.
    Min,
}

/// Every combination, by its number.
const COMBINES: [(Combine, &str); 4] =
    [(Combine::Sum, "sum"), (Combine::Prod, "prod"), (Combine::Max, "max"), (Combine::Min, "min")];

impl Combine {
    /// `sum`, `prod`, `max`, `min`.
    pub fn name(self) -> &'static str {
        COMBINES[self as usize].1
    }
}
impl std::str::FromStr for Combine {
    type Err = Error;
    fn from_str(name: &str) -> Result<Combine> {
        let found = COMBINES.iter().find(|(_, n)| *n == name).map(|(c, _)| *c);
        found.ok_or_else(|| Error::value(format!("ranks combine by sum, prod, max or min, not {name:?}")))
    }
}

impl Element {
    /// Its name.
    pub fn name(self) -> &'static str {
        ELEMENTS[self as usize].1
    }
    /// The one with this number, for messages about what others do.
    pub(crate) fn named(number: u8) -> &'static str {
        ELEMENTS.get(number as usize).map_or("?", |(_, n)| n)
    }
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Element::I8 | Element::U8 => 1,
            Element::Bf16 | Element::F16 | Element::I16 | Element::U16 => 2,
            Element::F32 | Element::I32 | Element::U32 => 4,
            Element::F64 | Element::I64 | Element::U64 => 8,
        }
    }
    /// `to = to ∘ from`, element by element. Both must have one length, and `to` be aligned.
    pub fn combine(self, how: Combine, to: &mut [u8], from: &[u8]) {
        assert_eq!(to.len(), from.len(), "lengths");
        if to.is_empty() {
            // Nothing need not be aligned.
            return;
        }
        match self {
            Element::F32 => combine::<f32>(how, to, from),
            Element::F64 => combine::<f64>(how, to, from),
            Element::Bf16 => combine::<bf16>(how, to, from),
            Element::F16 => combine::<f16>(how, to, from),
            Element::I8 => combine::<i8>(how, to, from),
            Element::I16 => combine::<i16>(how, to, from),
            Element::I32 => combine::<i32>(how, to, from),
            Element::I64 => combine::<i64>(how, to, from),
            Element::U8 => combine::<u8>(how, to, from),
            Element::U16 => combine::<u16>(how, to, from),
            Element::U32 => combine::<u32>(how, to, from),
            Element::U64 => combine::<u64>(how, to, from),
        }
    }
}

/// A number that ranks combine.
trait Number: Pod {
    fn sum(self, other: Self) -> Self;
    fn prod(self, other: Self) -> Self;
    fn greater(self, other: Self) -> Self;
    fn lesser(self, other: Self) -> Self;
}

fn combine<T: Number>(how: Combine, to: &mut [u8], from: &[u8]) {
    let to = cast_slice_mut(to);
    match how {
        Combine::Sum => each(to, from, T::sum),
        Combine::Prod => each(to, from, T::prod),
        Combine::Max => each(to, from, T::greater),
        Combine::Min => each(to, from, T::lesser),
    }
}

#[inline(always)]
fn each<T: Pod>(to: &mut [T], from: &[u8], f: impl Fn(T, T) -> T) {
    for (a, b) in to.iter_mut().zip(from.chunks_exact(size_of::<T>())) {
        *a = f(*a, bytemuck::pod_read_unaligned(b));
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn sum(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            fn prod(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            fn greater(self, other: $t) -> $t {
                self.max(other)
            }
            fn lesser(self, other: $t) -> $t {
                self.min(other)
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn sum(self, other: $t) -> $t {
                self + other
            }
            fn prod(self, other: $t) -> $t {
                self * other
            }
            fn greater(self, other: $t) -> $t {
                if self > other || self.is_nan() { self } else { other }
            }
            fn lesser(self, other: $t) -> $t {
                if self < other || self.is_nan() { self } else { other }
            }
        }
    )*};
}
floats!(f32, f64);

macro_rules! halves {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn sum(self, other: $t) -> $t {
                <$t>::from_f32(self.to_f32() + other.to_f32())
            }
            fn prod(self, other: $t) -> $t {
                <$t>::from_f32(self.to_f32() * other.to_f32())
            }
            fn greater(self, other: $t) -> $t {
                if self > other || self.is_nan() { self } else { other }
            }
            fn lesser(self, other: $t) -> $t {
                if self < other || self.is_nan() { self } else { other }
            }
        }
    )*};
}
halves!(bf16, f16);

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::cast_slice;

    #[test]
    fn tables_are_in_the_order_of_their_numbers() {
        ELEMENTS.iter().enumerate().for_each(|(i, (e, _))| assert_eq!(*e as usize, i));
        COMBINES.iter().enumerate().for_each(|(i, (c, n))| assert!(*c as usize == i && n.parse::<Combine>().is_ok()));
    }

    #[test]
    fn nan_wins_and_integers_wrap() {
        let mut x = [f32::NAN, 1.0, 2.0];
        Element::F32.combine(Combine::Max, cast_slice_mut(&mut x), cast_slice(&[3f32, f32::NAN, 5.0]));
        assert!(x[0].is_nan() && x[1].is_nan() && x[2] == 5.0);
        let mut x = [250u8, 7];
        Element::U8.combine(Combine::Sum, &mut x, &[10, 1]);
        assert_eq!(x, [4, 8]);
        let mut x = [bf16::from_f32(1.5)];
        Element::Bf16.combine(Combine::Prod, cast_slice_mut(&mut x), cast_slice(&[bf16::from_f32(2.0)]));
        assert_eq!(x[0].to_f32(), 3.0);
    }
}
