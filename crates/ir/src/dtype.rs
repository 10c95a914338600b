//! Element types, their one promotion rule, and the Rust types that stand for them.
//!
//! Promotion between two tensors: equal types stay; otherwise the higher category wins
//! (bool < integer < float < complex); within floats the wider wins and `bf16` with `f16` gives `f32`;
//! within integers the smallest type that holds both (`u8` with `i8` gives `i16`, `u32` with a
//! signed type gives `i64`; no integer type holds `u64` and a signed one, which give `f64` as in
//! NumPy); a complex type is as wide as the float it meets (`f64` with `c64` gives `c128`). A host
//! scalar only changes the category, never the width: `i32 + 0.5` is `f32`, `bf16 + 0.5` is `bf16`.
//!
//! The fp8 take no part in this: they are stored and multiplied, not computed with, so
//! that what meets one becomes one, and is refused by every op that computes.

use crate::float8::{f8e4m3, f8e5m2};
use crate::{Error, Result};
use half::{bf16, f16};
use num_complex::Complex;
use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Boolean, one byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    I64,
    /// 8 bits: 4 of exponent, 3 of mantissa, one NaN and no infinity (`float8_e4m3fn`).
    F8E4M3,
    /// 8 bits: 5 of exponent, 2 of mantissa, the upper half of an IEEE half (`float8_e5m2`).
    F8E5M2,
    /// IEEE half precision.
    F16,
    /// Brain float: f32's exponent, 8 bits of precision.
    BF16,
    /// IEEE single precision, the default.
    F32,
    /// IEEE double precision.
    F64,
    /// Complex: two `f32`, real and imaginary part.
    C64,
    /// Complex: two `f64`, real and imaginary part.
    C128,
}

impl DType {
    /// Every type, in the order of the enum.
    pub const ALL: [DType; 17] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::U16,
        DType::I16,
        DType::U32,
        DType::I32,
        DType::U64,
        DType::I64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// Bytes an element takes.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 | DType::F8E4M3 | DType::F8E5M2 => 1,
            DType::U16 | DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// True for the floating-point types.
    pub const fn is_float(self) -> bool {
        self.is_f8() || matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// True for the two fp8, which are converted, moved and multiplied, but not computed
    /// with.
    pub const fn is_f8(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }

    /// Fails for the types that nothing is computed in, with what to do.
    pub fn check_computes(self) -> Result<()> {
        if !self.is_f8() {
            return Ok(());
        }
        let e = format!("{self} is for storing and scaled_matmul, nothing is computed in it: cast it to f32 or bf16");
        Err(Error::dtype(e))
    }

    /// True for the two complex types.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// True for floats that are computed with, and complex numbers: what has gradients.
    pub const fn is_inexact(self) -> bool {
        self.is_float() && !self.is_f8() || self.is_complex()
    }

    /// The type of a complex number's parts; any other type itself.
    pub const fn part(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            d => d,
        }
    }

    /// The complex type for values of this type: `c128` for `f64`, else `c64`.
    pub const fn to_complex(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }

    /// True for the integer types, `bool` excluded.
    pub const fn is_int(self) -> bool {
        self.is_unsigned() || matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// True for the integer types without a sign, `bool` excluded.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// The name in text, Python and error messages.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::U16 => "u16",
            DType::I16 => "i16",
            DType::U32 => "u32",
            DType::I32 => "i32",
            DType::U64 => "u64",
            DType::I64 => "i64",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "c64",
            DType::C128 => "c128",
        }
    }

    /// The type with that name; PyTorch's spellings (`float32`, `half`, …) are understood too.
    pub fn parse(name: &str) -> Option<DType> {
        let short = match name {
            "complex128" | "cdouble" => "c128",
            "complex64" | "cfloat" | "complex" => "c64",
            "float64" | "double" => "f64",
            "float32" | "float" => "f32",
            "bfloat16" => "bf16",
            "float16" | "half" => "f16",
            "float8_e4m3fn" => "f8e4m3",
            "float8_e5m2" => "f8e5m2",
            "int64" | "long" => "i64",
            "int32" | "int" => "i32",
            "int16" | "short" => "i16",
            "uint64" => "u64",
            "uint32" => "u32",
            "uint16" => "u16",
            "uint8" => "u8",
            "int8" => "i8",
            other => other,
        };
        DType::ALL.into_iter().find(|d| d.name() == short)
    }

    const fn category(self) -> u8 {
        match self {
            DType::Bool => 0,
            d if d.is_f8() => 4,
            d if d.is_complex() => 3,
            d if d.is_float() => 2,
            _ => 1,
        }
    }

    /// The common type of two tensors.
    pub fn promote(self, other: DType) -> DType {
        use DType::*;
        if self == other {
            return self;
        }
        match self.category().cmp(&other.category()) {
            std::cmp::Ordering::Less => return other.widened_by(self),
            std::cmp::Ordering::Greater => return self.widened_by(other),
            std::cmp::Ordering::Equal => {}
        }
        let wide = if self.size() >= other.size() { self } else { other };
        if self.is_complex() {
            return C128;
        }
        if self.is_f8() {
            return F8E5M2;
        }
        if self.is_float() {
            return if self.size() == other.size() { F32 } else { wide };
        }
        let (unsigned, signed) = if self.is_unsigned() { (self, other) } else { (other, self) };
        if !unsigned.is_unsigned() || signed.is_unsigned() || signed.size() > unsigned.size() {
            return wide;
        }
        match unsigned {
            U8 => I16,
            U16 => I32,
            U32 => I64,
            _ => F64,
        }
    }

    /// The type of a tensor of this type combined with a host scalar of the given category.
    pub fn promote_scalar(self, scalar: DType) -> DType {
        if scalar.category() > self.category() { scalar.widened_by(self) } else { self }
    }

    /// A type of a higher category, as wide as the other where both have parts that are floats.
    fn widened_by(self, lower: DType) -> DType {
        if self.is_complex() && lower == DType::F64 { DType::C128 } else { self }
    }

    /// The type that functions such as `exp` compute in: itself, or `f32` for integers.
    pub const fn to_float(self) -> DType {
        if self.is_float() || self.is_complex() { self } else { DType::F32 }
    }

    /// The type sums of this type accumulate and are returned in: `i64` for integers and bool,
    /// `u64` for those without a sign.
    pub const fn sum_type(self) -> DType {
        match self {
            d if d.is_float() || d.is_complex() => d,
            d if d.is_unsigned() => DType::U64,
            _ => DType::I64,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that stands for a [`DType`].
pub trait Element: Copy + Send + Sync + PartialEq + fmt::Debug + 'static {
    /// The type it stands for.
    const DTYPE: DType;
    /// How it is stored: itself, or `u8` for `bool`.
    type Stored: bytemuck::Pod;
    /// To its stored form.
    fn store(self) -> Self::Stored;
    /// From its stored form.
    fn load(stored: Self::Stored) -> Self;
    /// Widened to f64 (64-bit integers beyond 2^53 lose bits); the real part of a complex number.
    fn to_f64(self) -> f64;
    /// Rounded from f64; integers truncate toward zero, saturate as 64 bits and wrap to their own.
    fn from_f64(x: f64) -> Self;
    /// Converted to an integer of 128 bits, which holds every integer type; floats truncate.
    fn to_int(self) -> i128;
    /// Converted from an integer; integers wrap.
    fn from_int(x: i128) -> Self;
    /// Widened to a complex number.
    fn to_complex(self) -> Complex<f64> {
        Complex::new(self.to_f64(), 0.0)
    }
    /// Rounded from a complex number, of which real types take the real part.
    fn from_complex(z: Complex<f64>) -> Self {
        Self::from_f64(z.re)
    }
}

macro_rules! element {
    ($t:ty, $d:ident, |$x:ident| $to64:expr, |$f:ident| $from64:expr, |$y:ident| $toi:expr, |$i:ident| $fromi:expr) => {
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            type Stored = $t;
            fn store(self) -> $t {
                self
            }
            fn load(s: $t) -> $t {
                s
            }
            fn to_f64(self) -> f64 {
                let $x = self;
                $to64
            }
            fn from_f64($f: f64) -> $t {
                $from64
            }
            fn to_int(self) -> i128 {
                let $y = self;
                $toi
            }
            fn from_int($i: i128) -> $t {
                $fromi
            }
        }
    };
}
element!(f64, F64, |x| x, |f| f, |y| y as i128, |i| i as f64);
element!(f32, F32, |x| x as f64, |f| f as f32, |y| y as i128, |i| i as f32);
element!(bf16, BF16, |x| x.to_f64(), |f| bf16::from_f64(f), |y| y.to_f64() as i128, |i| bf16::from_f64(i as f64));
element!(f16, F16, |x| x.to_f64(), |f| f16::from_f64(f), |y| y.to_f64() as i128, |i| f16::from_f64(i as f64));

element!(f8e4m3, F8E4M3, |x| x.to_f32() as f64, |f| f8e4m3::from_f32(f as f32), |y| y.to_f32() as i128, |i| {
    f8e4m3::from_f32(i as f32)
});
element!(f8e5m2, F8E5M2, |x| x.to_f32() as f64, |f| f8e5m2::from_f32(f as f32), |y| y.to_f32() as i128, |i| {
    f8e5m2::from_f32(i as f32)
});

macro_rules! integers {
    ($($t:ident $d:ident),*) => {$(
        element!($t, $d, |x| x as f64, |f| f as i64 as $t, |y| y as i128, |i| i as $t);
    )*};
}
integers!(i64 I64, i32 I32, u32 U32, i16 I16, u16 U16, i8 I8, u8 U8);
// Negative numbers wrap around as they do for narrower types; those above reach further.
element!(u64, U64, |x| x as f64, |f| if f < 0.0 { f as i64 as u64 } else { f as u64 }, |y| y as i128, |i| i as u64);

macro_rules! complex {
    ($($t:ident $d:ident),*) => {$(
        impl Element for Complex<$t> {
            const DTYPE: DType = DType::$d;
            type Stored = Complex<$t>;
            fn store(self) -> Complex<$t> {
                self
            }
            fn load(s: Complex<$t>) -> Complex<$t> {
                s
            }
            fn to_f64(self) -> f64 {
                self.re as f64
            }
            fn from_f64(x: f64) -> Complex<$t> {
                Complex::new(x as $t, 0.0)
            }
            fn to_int(self) -> i128 {
                self.re as i128
            }
            fn from_int(x: i128) -> Complex<$t> {
                Complex::new(x as $t, 0.0)
            }
            fn to_complex(self) -> Complex<f64> {
                Complex::new(self.re as f64, self.im as f64)
            }
            fn from_complex(z: Complex<f64>) -> Complex<$t> {
                Complex::new(z.re as $t, z.im as $t)
            }
        }
    )*};
}
complex!(f32 C64, f64 C128);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    type Stored = u8;
    fn store(self) -> u8 {
        self as u8
    }
    fn load(s: u8) -> bool {
        s != 0
    }
    fn to_f64(self) -> f64 {
        self as u8 as f64
    }
    fn from_f64(x: f64) -> bool {
        x != 0.0
    }
    fn to_int(self) -> i128 {
        self as i128
    }
    fn from_int(x: i128) -> bool {
        x != 0
    }
}

/// Runs `$body` with the type alias `$T` bound to the Rust element type of a [`DType`].
#[macro_export]
macro_rules! with_dtype {
    ($d:expr, $T:ident => $body:expr) => {
        match $d {
            $crate::DType::F64 if const { $crate::is_linked("f64") } => {
                type $T = f64;
                $body
            }
            $crate::DType::F32 if const { $crate::is_linked("f32") } => {
                type $T = f32;
                $body
            }
            $crate::DType::BF16 if const { $crate::is_linked("bf16") } => {
                type $T = $crate::bf16;
                $body
            }
            $crate::DType::F16 if const { $crate::is_linked("f16") } => {
                type $T = $crate::f16;
                $body
            }
            $crate::DType::F8E4M3 if const { $crate::is_linked("f8e4m3") } => {
                type $T = $crate::f8e4m3;
                $body
            }
            $crate::DType::F8E5M2 if const { $crate::is_linked("f8e5m2") } => {
                type $T = $crate::f8e5m2;
                $body
            }
            $crate::DType::I64 if const { $crate::is_linked("i64") } => {
                type $T = i64;
                $body
            }
            $crate::DType::U64 if const { $crate::is_linked("u64") } => {
                type $T = u64;
                $body
            }
            $crate::DType::I32 if const { $crate::is_linked("i32") } => {
                type $T = i32;
                $body
            }
            $crate::DType::U32 if const { $crate::is_linked("u32") } => {
                type $T = u32;
                $body
            }
            $crate::DType::I16 if const { $crate::is_linked("i16") } => {
                type $T = i16;
                $body
            }
            $crate::DType::U16 if const { $crate::is_linked("u16") } => {
                type $T = u16;
                $body
            }
            $crate::DType::I8 if const { $crate::is_linked("i8") } => {
                type $T = i8;
                $body
            }
            $crate::DType::U8 if const { $crate::is_linked("u8") } => {
                type $T = u8;
                $body
            }
            $crate::DType::C64 if const { $crate::is_linked("c64") } => {
                type $T = $crate::Complex<f32>;
                $body
            }
            $crate::DType::C128 if const { $crate::is_linked("c128") } => {
                type $T = $crate::Complex<f64>;
                $body
            }
            $crate::DType::Bool if const { $crate::is_linked("bool") } => {
                type $T = bool;
                $body
            }
            other => $crate::unlinked(other.name()),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::DType::*;
    use super::*;

    #[test]
    fn promotion_is_commutative_and_matches_the_table() {
        for a in DType::ALL {
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a), "{a} {b}");
            }
        }
        let table = [
            (I64, F16, F16),
            (F16, BF16, F32),
            (U8, I8, I16),
            (U8, I16, I16),
            (U16, I8, I32),
            (U32, I32, I64),
            (U32, I64, I64),
            (I16, I64, I64),
            (U64, I8, F64),
            (U64, U8, U64),
            (U64, F16, F16),
            (F32, C64, C64),
            (F64, C64, C128),
            (BF16, C128, C128),
            (I64, C64, C64),
            (C64, C128, C128),
            (Bool, U8, U8),
            (U8, U32, U32),
            (F32, F64, F64),
            (F8E4M3, F32, F8E4M3),
            (F8E4M3, F8E5M2, F8E5M2),
        ];
        for (a, b, c) in table {
            assert_eq!(a.promote(b), c, "{a} {b}");
        }
        assert_eq!(I32.promote_scalar(F32), F32);
        assert_eq!(BF16.promote_scalar(F32), BF16);
        assert_eq!(U8.promote_scalar(I64), U8);
        assert_eq!((F32.promote_scalar(C64), F64.promote_scalar(C64)), (C64, C128));
    }

    #[test]
    fn unsigned_64_bit_numbers_keep_their_upper_half() {
        assert_eq!(u64::from_f64(1.0e19), 10_000_000_000_000_000_000);
        assert_eq!((u64::from_f64(-1.0), u64::from_f64(1e30)), (u64::MAX, u64::MAX));
        assert_eq!(u64::from_int(u64::MAX.to_int()), u64::MAX);
        assert_eq!(f32::from_int(u64::MAX.to_int()), 18_446_744_073_709_551_615.0);
        assert_eq!((U8.sum_type(), I8.sum_type(), Bool.sum_type()), (U64, I64, I64));
    }
}
