//! ONNX's element types. Those that Talweg has are themselves. Small integers are kept as bytes and small floats as
//! `f32`, exactly, and are packed where a tensor leaves.

use ir::{DType, Error, Result};

/// An element type by ONNX's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elem(pub i32);

macro_rules! elements {
    ($($name:ident = $n:literal, $text:literal, $storage:expr;)*) => {
        impl Elem {
            $(#[doc = $text] pub const $name: Elem = Elem($n);)*
            /// ONNX's name for it.
            pub fn name(self) -> &'static str {
                match self.0 { $($n => $text,)* _ => "unknown" }
            }
            /// The type that its values are kept in.
            pub fn storage(self) -> Option<DType> {
                match self.0 { $($n => $storage,)* _ => None }
            }
        }
    };
}
elements! {
    FLOAT = 1, "float", Some(DType::F32);
    UINT8 = 2, "uint8", Some(DType::U8);
    INT8 = 3, "int8", Some(DType::I8);
    UINT16 = 4, "uint16", Some(DType::U16);
    INT16 = 5, "int16", Some(DType::I16);
    INT32 = 6, "int32", Some(DType::I32);
    INT64 = 7, "int64", Some(DType::I64);
    STRING = 8, "string", None;
    BOOL = 9, "bool", Some(DType::Bool);
    FLOAT16 = 10, "float16", Some(DType::F16);
    DOUBLE = 11, "double", Some(DType::F64);
    UINT32 = 12, "uint32", Some(DType::U32);
    UINT64 = 13, "uint64", Some(DType::U64);
    COMPLEX64 = 14, "complex64", Some(DType::C64);
    COMPLEX128 = 15, "complex128", Some(DType::C128);
    BFLOAT16 = 16, "bfloat16", Some(DType::BF16);
    FLOAT8E4M3FN = 17, "float8e4m3fn", Some(DType::F32);
    FLOAT8E4M3FNUZ = 18, "float8e4m3fnuz", Some(DType::F32);
    FLOAT8E5M2 = 19, "float8e5m2", Some(DType::F32);
    FLOAT8E5M2FNUZ = 20, "float8e5m2fnuz", Some(DType::F32);
    UINT4 = 21, "uint4", Some(DType::U8);
    INT4 = 22, "int4", Some(DType::I8);
    FLOAT4E2M1 = 23, "float4e2m1", Some(DType::F32);
    FLOAT8E8M0 = 24, "float8e8m0", Some(DType::F32);
    UINT2 = 25, "uint2", Some(DType::U8);
    INT2 = 26, "int2", Some(DType::I8);
    FLOAT6E2M3 = 27, "float6e2m3", Some(DType::F32);
    FLOAT6E3M2 = 28, "float6e3m2", Some(DType::F32);
}

/// What happens above the largest number of a small float.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Top {
    Infinity,
    Nan,
    Largest,
}

/// A float of at most 8 bits.
#[derive(Clone, Copy)]
struct Small {
    bits: u32,
    mantissa: u32,
    bias: i32,
    /// The code of NaN that has no sign, if there is one.
    nan: Option<u8>,
    top: Top,
    /// Minus zero is NaN.
    is_unsigned_zero: bool,
}

impl Elem {
    /// The type of values of a Talweg type.
    pub fn of(dtype: DType) -> Elem {
        match dtype {
            DType::F8E4M3 => Elem::FLOAT8E4M3FN,
            DType::F8E5M2 => Elem::FLOAT8E5M2,
            _ => {
                let n = (1..=16).find(|&n| Elem(n).storage() == Some(dtype));
                Elem(n.unwrap_or(0))
            }
        }
    }
    /// Checked: a type that values can have.
    pub fn known(n: i64) -> Result<Elem> {
        let e = Elem(i32::try_from(n).unwrap_or(0));
        if e == Elem::STRING || e.storage().is_some() {
            return Ok(e);
        }
        Err(Error::dtype(format!("there is no element type {n}")))
    }
    /// Whether its values are kept in another type than its own.
    pub fn is_small(self) -> bool {
        self.0 >= 17
    }
    /// Whether it is a float of at most 8 bits.
    pub fn is_small_float(self) -> bool {
        self.small().is_some()
    }
    /// Bits of an integer of less than a byte, and whether it has a sign.
    pub fn int_bits(self) -> Option<(u32, bool)> {
        match self {
            Elem::UINT4 => Some((4, false)),
            Elem::INT4 => Some((4, true)),
            Elem::UINT2 => Some((2, false)),
            Elem::INT2 => Some((2, true)),
            _ => None,
        }
    }
    /// The least and largest number of an integer type.
    pub fn range(self) -> Option<(i64, i64)> {
        if let Some((bits, is_signed)) = self.int_bits() {
            let n = 1i64 << bits;
            return Some(if is_signed { (-n / 2, n / 2 - 1) } else { (0, n - 1) });
        }
        Some(match self {
            Elem::UINT8 => (0, 255),
            Elem::INT8 => (-128, 127),
            Elem::UINT16 => (0, 65535),
            Elem::INT16 => (-32768, 32767),
            Elem::INT32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Elem::UINT32 => (0, i64::from(u32::MAX)),
            Elem::INT64 => (i64::MIN, i64::MAX),
            _ => return None,
        })
    }
    fn small(self) -> Option<Small> {
        let of = |bits, mantissa, bias, nan, top, is_unsigned_zero| {
            Some(Small { bits, mantissa, bias, nan, top, is_unsigned_zero })
        };
        match self {
            Elem::FLOAT8E4M3FN => of(8, 3, 7, Some(0x7f), Top::Nan, false),
            Elem::FLOAT8E4M3FNUZ => of(8, 3, 8, Some(0x80), Top::Nan, true),
            Elem::FLOAT8E5M2 => of(8, 2, 15, Some(0x7f), Top::Infinity, false),
            Elem::FLOAT8E5M2FNUZ => of(8, 2, 16, Some(0x80), Top::Nan, true),
            Elem::FLOAT4E2M1 => of(4, 1, 1, None, Top::Largest, false),
            Elem::FLOAT6E2M3 => of(6, 3, 1, None, Top::Largest, false),
            Elem::FLOAT6E3M2 => of(6, 2, 3, None, Top::Largest, false),
            Elem::FLOAT8E8M0 => of(8, 0, 127, Some(0xff), Top::Largest, false),
            _ => None,
        }
    }
    /// Bits that one element takes in a file.
    pub fn bits(self) -> usize {
        match (self.int_bits(), self.small(), self.storage()) {
            (Some((bits, _)), ..) => bits as usize,
            // Floats of six bits have a byte each.
            (_, Some(s), _) if s.bits == 6 => 8,
            (_, Some(s), _) => s.bits as usize,
            (_, _, Some(d)) => d.size() * 8,
            _ => 8,
        }
    }

    /// The number that a code of a small float stands for.
    pub fn decode(self, code: u8) -> f32 {
        let Some(s) = self.small() else { return f32::from(code) };
        if self == Elem::FLOAT8E8M0 {
            return if code == 0xff { f32::NAN } else { ((f64::from(code) - 127.0).exp2()) as f32 };
        }
        let sign_bit = 1u32 << (s.bits - 1);
        let (is_negative, magnitude) = (u32::from(code) & sign_bit != 0, u32::from(code) & (sign_bit - 1));
        if s.is_unsigned_zero && u32::from(code) == sign_bit {
            return f32::NAN;
        }
        let (exponent, fraction) = (magnitude >> s.mantissa, magnitude & ((1 << s.mantissa) - 1));
        if self == Elem::FLOAT8E4M3FN && magnitude == 0x7f {
            return f32::NAN;
        }
        if self == Elem::FLOAT8E5M2 && exponent == 31 {
            let top = if fraction == 0 { f32::INFINITY } else { f32::NAN };
            return if is_negative { -top } else { top };
        }
        let part = f64::from(fraction) / f64::from(1u32 << s.mantissa);
        let x = if exponent == 0 {
            part * f64::from(1 - s.bias).exp2()
        } else {
            (1.0 + part) * f64::from(exponent as i32 - s.bias).exp2()
        };
        (if is_negative { -x } else { x }) as f32
    }

    /// The code of the nearest number, ties to even. Beyond the largest, `saturate` takes that.
    pub fn encode(self, x: f32, saturate: bool) -> u8 {
        let Some(s) = self.small() else { return x as u8 };
        if self == Elem::FLOAT8E8M0 {
            return encode_e8m0(x, saturate);
        }
        let sign_bit = 1u8 << (s.bits - 1);
        if x.is_nan() {
            let sign = if x.is_sign_negative() && !s.is_unsigned_zero { sign_bit } else { 0 };
            return s.nan.map_or(sign_bit, |n| n | sign);
        }
        let largest = self.largest_code();
        let value = |code: u8| f64::from(self.decode(code));
        let a = f64::from(x.abs());
        // Codes of one sign are in the order of their numbers.
        let (mut lo, mut hi) = (0u8, largest);
        while lo < hi {
            let mid = lo + (hi - lo).div_ceil(2);
            if value(mid) <= a { lo = mid } else { hi = mid - 1 }
        }
        let code = if lo == largest {
            let step = value(largest) - value(largest - 1);
            let is_beyond = a >= value(largest) + step / 2.0;
            match (is_beyond, saturate || s.top == Top::Largest, s.top) {
                (false, ..) | (_, true, _) => largest,
                (.., Top::Infinity) => largest + 1,
                _ => s.nan.unwrap_or(largest),
            }
        } else {
            let (below, above) = (a - value(lo), value(lo + 1) - a);
            if below < above || (below == above && lo % 2 == 0) { lo } else { lo + 1 }
        };
        let is_negative = x.is_sign_negative() && code & sign_bit == 0 && !(s.is_unsigned_zero && code == 0);
        if is_negative { code | sign_bit } else { code }
    }

    /// The code of the largest finite number.
    fn largest_code(self) -> u8 {
        match self {
            Elem::FLOAT8E4M3FN => 0x7e,
            Elem::FLOAT8E5M2 => 0x7b,
            Elem::FLOAT4E2M1 => 7,
            Elem::FLOAT6E2M3 | Elem::FLOAT6E3M2 => 31,
            _ => 0x7f,
        }
    }

    /// The nearest number of this type.
    pub fn round(self, x: f32, saturate: bool) -> f32 {
        self.decode(self.encode(x, saturate))
    }
}

/// The nearest power of two, ties to the larger one.
fn encode_e8m0(x: f32, saturate: bool) -> u8 {
    if x.is_nan() || x <= 0.0 {
        return if x == 0.0 { 0 } else { 0xff };
    }
    if x.is_infinite() {
        return if saturate { 0xfe } else { 0xff };
    }
    let exponent = f64::from(x).log2().floor();
    let up = f64::from(x) / exponent.exp2() >= 1.5;
    let code = exponent + 127.0 + f64::from(u8::from(up));
    if code > 254.0 && !saturate { 0xff } else { code.clamp(0.0, 254.0) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_its_own_nearest() {
        for n in [17, 18, 19, 20, 23, 24, 27, 28] {
            let e = Elem(n);
            let bits = e.small().unwrap().bits;
            for code in 0..=(((1u32 << bits) - 1) as u8) {
                let x = e.decode(code);
                if !x.is_nan() {
                    assert_eq!(e.decode(e.encode(x, false)).to_bits(), x.to_bits(), "{} {code:#x} {x}", e.name());
                }
            }
        }
    }

    #[test]
    fn rounds_to_even_and_saturates() {
        assert_eq!(Elem::FLOAT8E4M3FN.round(1e6, true), 448.0);
        assert!(Elem::FLOAT8E4M3FN.round(1e6, false).is_nan());
        assert_eq!(Elem::FLOAT8E5M2.round(1e6, false), f32::INFINITY);
        assert_eq!(Elem::FLOAT4E2M1.round(2.5, true), 2.0);
        assert_eq!(Elem::FLOAT4E2M1.round(-5.0, true), -4.0);
    }
}
