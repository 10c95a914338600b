//! Element types, their one promotion rule, and the Rust types that stand for them.
//!
//! Promotion between two tensors: equal types stay; otherwise the higher category wins
//! (bool < integer < float); within floats the wider wins and `bf16` with `f16` gives `f32`;
//! within integers the smallest type that holds both (`u8` with `i8` gives `i32` as no 16-bit
//! type exists, `u32` with a signed type gives `i64`). A host scalar only changes the category,
//! never the width: `i32 + 0.5` is `f32`, `bf16 + 0.5` is `bf16`.

use half::{bf16, f16};
use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Truth value, one byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer.
    I64,
    /// IEEE half precision.
    F16,
    /// Brain float: f32's exponent, 8 bits of precision.
    BF16,
    /// IEEE single precision, the default.
    F32,
    /// IEEE double precision.
    F64,
}

impl DType {
    /// Every type, in the order of the enum.
    pub const ALL: [DType; 10] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Bytes an element takes.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// True for the four floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// True for the integer types, `bool` excluded.
    pub const fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::I8 | DType::I32 | DType::U32 | DType::I64)
    }

    /// The name in text, Python and error messages.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The type with that name; PyTorch's spellings (`float32`, `half`, …) are understood too.
    pub fn parse(name: &str) -> Option<DType> {
        let short = match name {
            "float64" | "double" => "f64",
            "float32" | "float" => "f32",
            "bfloat16" => "bf16",
            "float16" | "half" => "f16",
            "int64" | "long" => "i64",
            "int32" | "int" => "i32",
            "uint32" => "u32",
            "uint8" => "u8",
            "int8" => "i8",
            other => other,
        };
        DType::ALL.into_iter().find(|d| d.name() == short)
    }

    const fn category(self) -> u8 {
        match self {
            DType::Bool => 0,
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
            std::cmp::Ordering::Less => return other,
            std::cmp::Ordering::Greater => return self,
            std::cmp::Ordering::Equal => {}
        }
        match (self.min(other), self.max(other)) {
            (F16, BF16) => F32,
            (U8, I8) => I32,
            (I8 | I32, U32) => I64,
            (_, wide) => wide,
        }
    }

    /// The type of a tensor of this type combined with a host scalar of the given category.
    pub fn promote_scalar(self, scalar: DType) -> DType {
        if scalar.category() > self.category() { scalar } else { self }
    }

    /// The float type that functions such as `exp` compute in: itself, or `f32` for integers.
    pub const fn to_float(self) -> DType {
        if self.is_float() { self } else { DType::F32 }
    }

    /// The type sums of this type accumulate and are returned in: `i64` for integers and bool.
    pub const fn sum_type(self) -> DType {
        if self.is_float() { self } else { DType::I64 }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that stands for a [`DType`].
pub trait Element: Copy + Send + Sync + PartialOrd + fmt::Debug + 'static {
    /// The type it stands for.
    const DTYPE: DType;
    /// How it is stored: itself, or `u8` for `bool`.
    type Stored: bytemuck::Pod;
    /// To its stored form.
    fn store(self) -> Self::Stored;
    /// From its stored form.
    fn load(stored: Self::Stored) -> Self;
    /// Widened to f64 (i64 beyond 2^53 loses bits).
    fn to_f64(self) -> f64;
    /// Rounded from f64; integers truncate toward zero and saturate.
    fn from_f64(x: f64) -> Self;
    /// Converted to i64; floats truncate.
    fn to_i64(self) -> i64;
    /// Converted from i64, wrapping.
    fn from_i64(x: i64) -> Self;
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
            fn to_i64(self) -> i64 {
                let $y = self;
                $toi
            }
            fn from_i64($i: i64) -> $t {
                $fromi
            }
        }
    };
}
element!(f64, F64, |x| x, |f| f, |y| y as i64, |i| i as f64);
element!(f32, F32, |x| x as f64, |f| f as f32, |y| y as i64, |i| i as f32);
element!(bf16, BF16, |x| x.to_f64(), |f| bf16::from_f64(f), |y| y.to_f64() as i64, |i| bf16::from_f64(i as f64));
element!(f16, F16, |x| x.to_f64(), |f| f16::from_f64(f), |y| y.to_f64() as i64, |i| f16::from_f64(i as f64));
element!(i64, I64, |x| x as f64, |f| f as i64, |y| y, |i| i);
element!(i32, I32, |x| x as f64, |f| f as i64 as i32, |y| y as i64, |i| i as i32);
element!(u32, U32, |x| x as f64, |f| f as i64 as u32, |y| y as i64, |i| i as u32);
element!(u8, U8, |x| x as f64, |f| f as i64 as u8, |y| y as i64, |i| i as u8);
element!(i8, I8, |x| x as f64, |f| f as i64 as i8, |y| y as i64, |i| i as i8);

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
    fn to_i64(self) -> i64 {
        self as i64
    }
    fn from_i64(x: i64) -> bool {
        x != 0
    }
}

/// Runs `$body` with the type alias `$T` bound to the Rust element type of a [`DType`].
#[macro_export]
macro_rules! with_dtype {
    ($d:expr, $T:ident => $body:expr) => {
        match $d {
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::DType::BF16 => {
                type $T = $crate::bf16;
                $body
            }
            $crate::DType::F16 => {
                type $T = $crate::f16;
                $body
            }
            $crate::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::DType::U32 => {
                type $T = u32;
                $body
            }
            $crate::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::DType::Bool => {
                type $T = bool;
                $body
            }
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
            (U8, I8, I32),
            (U32, I32, I64),
            (Bool, U8, U8),
            (U8, U32, U32),
            (F32, F64, F64),
        ];
        for (a, b, c) in table {
            assert_eq!(a.promote(b), c, "{a} {b}");
        }
        assert_eq!(I32.promote_scalar(F32), F32);
        assert_eq!(BF16.promote_scalar(F32), BF16);
        assert_eq!(U8.promote_scalar(I64), U8);
    }
}
