//! Element types in WGSL: what numbers are computed with, how elements lie in words, and conversions.
//!
//! Storage is `array<u32>`. Elements of 1 and 2 bytes are packed; 64-bit integers are two words and are computed with as
//! `vec2<u32>`. f64 is stored and moved, not computed with.

use ir::{DType, Literal};

/// What numbers of a type are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `f32`: f32 and the narrower floats.
    F32,
    /// `i32`: signed integers up to 32 bits, unsigned ones up to 16, bool.
    I32,
    /// `u32`.
    U32,
    /// `vec2<u32>`, two's complement.
    I64,
    /// `vec2<u32>`.
    U64,
}

impl Class {
    /// The class of an element type; `None` where the device does not compute with it.
    pub fn of(dtype: DType) -> Option<Class> {
        match dtype {
            DType::F64 | DType::C64 | DType::C128 => None,
            DType::U64 => Some(Class::U64),
            DType::I64 => Some(Class::I64),
            DType::U32 => Some(Class::U32),
            d if d.is_float() => Some(Class::F32),
            _ => Some(Class::I32),
        }
    }
    /// Its type in WGSL.
    pub fn ty(self) -> &'static str {
        match self {
            Class::F32 => "f32",
            Class::I32 => "i32",
            Class::U32 => "u32",
            Class::I64 | Class::U64 => "vec2<u32>",
        }
    }
    /// The suffix of its functions.
    pub fn suffix(self) -> &'static str {
        match self {
            Class::F32 => "f",
            Class::I32 => "i",
            Class::U32 => "u",
            Class::I64 => "l",
            Class::U64 => "ul",
        }
    }
    /// The element type that stores it whole.
    pub fn dtype(self) -> DType {
        match self {
            Class::F32 => DType::F32,
            Class::I32 => DType::I32,
            Class::U32 => DType::U32,
            Class::I64 => DType::I64,
            Class::U64 => DType::U64,
        }
    }
    /// True for numbers without a fraction.
    pub fn is_int(self) -> bool {
        self != Class::F32
    }
    fn is_wide(self) -> bool {
        matches!(self, Class::I64 | Class::U64)
    }
    /// A number as a literal.
    pub fn number(self, x: f64) -> String {
        match self {
            Class::F32 => float(x as f32),
            _ => self.int(x as i128),
        }
    }
    /// An integer as a literal.
    pub fn int(self, x: i128) -> String {
        match self {
            Class::F32 => float(x as f32),
            Class::I32 => format!("i32({})", x as i32),
            Class::U32 => format!("{}u", x as u32),
            Class::I64 | Class::U64 => format!("vec2<u32>({}u, {}u)", x as u32, (x >> 32) as u32),
        }
    }
    /// The least and the greatest number.
    pub fn limits(self) -> [String; 2] {
        match self {
            Class::F32 => ["-inf_f()".to_string(), "inf_f()".to_string()],
            Class::I32 => [i32::MIN, i32::MAX].map(|x| self.int(x.into())),
            Class::U32 => [u32::MIN, u32::MAX].map(|x| self.int(x.into())),
            Class::I64 => [i64::MIN, i64::MAX].map(|x| self.int(x.into())),
            Class::U64 => [u64::MIN, u64::MAX].map(|x| self.int(x.into())),
        }
    }
}

fn float(x: f32) -> String {
    match x {
        x if x.is_nan() => "nan_f()".to_string(),
        x if x.is_infinite() => (if x > 0.0 { "inf_f()" } else { "(-inf_f())" }).to_string(),
        x if x.is_subnormal() || (x == 0.0 && x.is_sign_negative()) => format!("bitcast<f32>({}u)", x.to_bits()),
        x => format!("f32({x:?})"),
    }
}

/// A constant of one element.
pub fn constant(c: &Literal, class: Class) -> String {
    if class.is_int() { class.int(c.to_ints()[0]) } else { class.number(c.to_f64()[0]) }
}

/// A value: an expression of a class, with the element type it stands for.
#[derive(Clone, Debug)]
pub struct Val {
    /// The expression.
    pub text: String,
    /// Its element type.
    pub dtype: DType,
}

/// A float rounded to what its type can hold.
pub fn round(text: String, to: DType) -> String {
    match to {
        DType::F16 | DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => format!("round_{to}({text})"),
        _ => text,
    }
}

/// A 32-bit integer brought into the range of a type that is computed with in i32.
pub fn wrap(text: &str, to: DType) -> String {
    match to {
        DType::Bool => format!("select(0, 1, {text} != 0)"),
        DType::U8 => format!("({text} & 255)"),
        DType::U16 => format!("({text} & 65535)"),
        DType::I8 => format!("extractBits({text}, 0u, 8u)"),
        DType::I16 => format!("extractBits({text}, 0u, 16u)"),
        _ => text.to_string(),
    }
}

/// The words of an integer as a class.
fn widen(text: &str, from: Class) -> String {
    match from {
        Class::I32 => format!("l_of_i({text})"),
        Class::U32 => format!("l_of_u({text})"),
        _ => text.to_string(),
    }
}

/// A value converted to another type.
pub fn cast(x: &Val, to: DType) -> Option<String> {
    let (from, class) = (Class::of(x.dtype)?, Class::of(to)?);
    let text = &x.text;
    if x.dtype == to {
        return Some(text.clone());
    }
    if class == Class::F32 {
        let wide = match from {
            Class::F32 => text.clone(),
            Class::I32 | Class::U32 => format!("f32({text})"),
            _ => format!("f_of_{}({text})", from.suffix()),
        };
        return Some(round(wide, to));
    }
    if to == DType::Bool {
        return Some(format!("select(0, 1, {})", truth(text, from)));
    }
    let words = match (from, class) {
        (Class::F32, Class::U64) => format!("ul_of_f({text})"),
        (Class::F32, _) => format!("l_of_f({text})"),
        _ if class.is_wide() => widen(text, from),
        _ if from.is_wide() => text.clone(),
        // Between integers of 32 bits and fewer.
        (_, Class::U32) => return Some(format!("bitcast<u32>({text})")),
        _ => return Some(wrap(&format!("bitcast<i32>({text})"), to)),
    };
    Some(match class {
        Class::U32 => format!("{words}.x"),
        Class::I32 => wrap(&format!("bitcast<i32>({words}.x)"), to),
        _ => words,
    })
}

/// Whether a number is not 0.
pub fn truth(text: &str, class: Class) -> String {
    match class {
        Class::F32 => format!("(bitcast<u32>({text}) << 1u != 0u)"),
        Class::I32 => format!("({text} != 0)"),
        Class::U32 => format!("({text} != 0u)"),
        _ => format!("(!is_zero_l({text}))"),
    }
}

/// The unsigned integers of the same size: elements that are only moved.
pub fn bits(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}
