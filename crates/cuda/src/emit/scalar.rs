//! Elementwise nodes as C expressions: the row's text with its operands put in, between
//! conversions to and from the type that is computed with.

use ir::{DType, FlatNode, Literal, Meaning, Out};

// The C text of elementwise ops that are written in another way where that is faster.

/// A quotient.
pub const DIV: &str = "({0} / {1})";
/// A difference.
pub const SUB: &str = "({0} - {1})";
/// A comparison.
pub const EQUAL: &str = "({0} == {1})";
const EXP: &str = "exp({0})";
const POW: &str = "pow({0}, {1})";
const SIGMOID: &str = "(1 / (1 + exp(-{0})))";

/// Whether a node is the elementwise op with this text.
pub fn is(n: &FlatNode, code: &str) -> bool {
    n.op.scalar().is_some_and(|s| s.code == code)
}
/// Whether a node only copies its operand.
pub fn is_copy(n: &FlatNode) -> bool {
    is(n, "{0}") && !is_cast(n)
}
/// Whether a node converts to another element type.
pub fn is_cast(n: &FlatNode) -> bool {
    n.op.scalar().is_some_and(|s| s.out == Out::Cast)
}

/// The C type numbers are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `float`: f32 and the narrower floats.
    F32,
    /// `double`.
    F64,
    /// `long long`: integers and bool.
    Int,
    /// `unsigned long long`: u64.
    UInt,
}

impl Class {
    /// What numbers of an element type are computed with.
    pub fn of(dtype: DType) -> Class {
        match dtype {
            DType::F64 => Class::F64,
            DType::U64 => Class::UInt,
            d if d.is_float() => Class::F32,
            _ => Class::Int,
        }
    }
    /// Its name in C.
    pub fn c(self) -> &'static str {
        match self {
            Class::F32 => "float",
            Class::F64 => "double",
            Class::Int => "long long",
            Class::UInt => "unsigned long long",
        }
    }
    /// True for numbers without a fraction.
    pub fn is_int(self) -> bool {
        matches!(self, Class::Int | Class::UInt)
    }
    /// Bytes it takes.
    pub fn size(self) -> usize {
        if self == Class::F32 { 4 } else { 8 }
    }
}

/// How elements are stored.
pub fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::U16 => "unsigned short",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::U32 => "unsigned",
        DType::U64 => "unsigned long long",
        DType::I64 => "long long",
        DType::F8E4M3 => "f8e4m3",
        DType::F8E5M2 => "f8e5m2",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 | DType::C128 => unreachable!("complex numbers are pairs by now"),
    }
}

/// A value of a kernel: an expression without side effects, usually a name.
#[derive(Clone, Debug)]
pub struct Val {
    /// The expression, in the class of the type.
    pub text: String,
    /// Its element type.
    pub dtype: DType,
    /// The number it is, where that is known.
    pub number: Option<f64>,
}

/// A constant of one element.
pub fn constant(c: &Literal) -> Val {
    let (dtype, number) = (c.dtype(), c.to_f64()[0]);
    let text = match Class::of(dtype) {
        Class::Int => int(c.to_i64()[0]),
        Class::UInt => format!("({}ULL)", c.to_ints()[0]),
        class => float(class, number),
    };
    Val { text, dtype, number: Some(number) }
}

fn int(i: i64) -> String {
    if i == i64::MIN { "(-9223372036854775807LL - 1)".to_string() } else { format!("({i}LL)") }
}

/// A number as a literal of a class.
pub fn float(class: Class, x: f64) -> String {
    match class {
        Class::F32 if x.is_finite() => format!("({:?}f)", x as f32),
        Class::F32 => format!("__int_as_float(0x{:08x})", (x as f32).to_bits()),
        Class::F64 if x.is_finite() => format!("({x:?})"),
        Class::F64 => format!("__longlong_as_double(0x{:016x}LL)", x.to_bits()),
        Class::Int => int(x as i64),
        Class::UInt => format!("({}ULL)", x as u64),
    }
}

/// An integer expression brought into the range of a type.
fn wrap(text: &str, from: Class, to: DType) -> String {
    match to {
        DType::I64 if from == Class::Int => text.to_string(),
        DType::U64 if from == Class::UInt => text.to_string(),
        DType::I64 | DType::U64 => format!("({})({text})", stored(to)),
        DType::Bool => format!("(long long)({text} != 0)"),
        _ => format!("(long long)({})({text})", stored(to)),
    }
}

/// A float rounded to what its type can hold.
fn round(text: String, to: DType) -> String {
    match to {
        DType::F16 => format!("get(put_f16({text}))"),
        DType::BF16 => format!("get(put_bf16({text}))"),
        DType::F8E4M3 => format!("get(put_f8e4m3({text}))"),
        DType::F8E5M2 => format!("get(put_f8e5m2({text}))"),
        _ => text,
    }
}

/// The same where the number itself is used; of one that is only stored nothing but its bits is made.
pub fn used(v: Val) -> Val {
    let inner = v.text.strip_prefix("get(put_bf16(").and_then(|t| t.strip_suffix("))"));
    let text = inner.map(|t| format!("round_bf16({t})"));
    Val { text: text.unwrap_or(v.text), ..v }
}

/// A value converted to another type.
fn cast(x: &Val, to: DType) -> String {
    let (from, class) = (Class::of(x.dtype), Class::of(to));
    match (from, class) {
        _ if x.dtype == to => x.text.clone(),
        (a, b) if a.is_int() && b.is_int() => wrap(&x.text, a, to),
        (_, Class::UInt) => format!("to_uint({})", x.text),
        (_, Class::Int) if to == DType::Bool => format!("(long long)({} != 0)", x.text),
        (_, Class::Int) => wrap(&format!("to_int({})", x.text), Class::Int, to),
        (a, b) => {
            let text = if a == b { x.text.clone() } else { format!("({})({})", b.c(), x.text) };
            // A wider float or integer may not fit a half.
            round(text, to)
        }
    }
}

/// The row's text with the operands put in.
fn fill(code: &str, args: &[String]) -> String {
    let mut out = code.to_string();
    for (i, a) in args.iter().enumerate() {
        out = out.replace(&format!("{{{i}}}"), a);
    }
    out
}

/// The quotient of a value that changes along a row by one that does not: its reciprocal is found
/// once, which makes a product of a division and costs a bit of precision at most.
pub fn quotient(n: &FlatNode, x: &Val, by: &Val) -> Val {
    let dtype = n.outs[0].dtype;
    if Class::of(dtype) != Class::F32 {
        return apply(n, &[x, by]);
    }
    Val { text: round(format!("({} * (1.0f / {}))", x.text, by.text), dtype), dtype, number: None }
}

/// The exponential or the sigmoid of what was computed from 16-bit floats: its last bits would be noise, and
/// take three times as long. `below`: the difference it is of, where that is one of a number and the greatest
/// of its row; beside the sum of these, which is 1 and more, the smallest are nothing.
pub fn of_halves(n: &FlatNode, x: &Val, below: Option<[Val; 2]>) -> Val {
    let dtype = n.outs[0].dtype;
    let code = n.op.scalar().map_or("", |s| s.code);
    let text = match (code, below) {
        _ if Class::of(dtype) != Class::F32 => return apply(n, &[x]),
        (SIGMOID, _) => format!("near_sigmoid({})", x.text),
        (EXP, Some([x, most])) => format!("near_exp_below({}, {})", x.text, most.text),
        (EXP, None) => format!("__expf({})", x.text),
        _ => return apply(n, &[x]),
    };
    Val { text: round(text, dtype), dtype, number: None }
}

/// The value of an elementwise node.
pub fn apply(n: &FlatNode, args: &[&Val]) -> Val {
    let Meaning::Scalar(s) = n.op.meaning else { unreachable!("loops hold elementwise nodes and reductions") };
    let dtype = n.outs[0].dtype;
    let done = |text: String| Val { text, dtype, number: None };
    if s.out == Out::Cast {
        return done(cast(args[0], dtype));
    }
    if s.code == "{0}" {
        return done(args[0].text.clone());
    }
    let of = args.last().map_or(dtype, |a| a.dtype);
    let is_int = Class::of(of).is_int();
    if s.out == Out::Float && is_int {
        let wide: Vec<String> = args.iter().map(|a| format!("(double)({})", a.text)).collect();
        return done(round(format!("(float)({})", fill(s.code, &wide)), dtype));
    }
    let texts: Vec<String> = args.iter().map(|a| a.text.clone()).collect();
    let text = match (s.code, args) {
        (POW, [x, p]) if !is_int && p.number == Some(2.0) => format!("({0} * {0})", x.text),
        (POW, [x, p]) if !is_int && p.number == Some(3.0) => format!("({0} * {0} * {0})", x.text),
        (POW, [x, p]) if !is_int && p.number == Some(-1.0) => format!("(1 / {})", x.text),
        // A quotient of this kind needs no rounding to the last bit, which takes long.
        (SIGMOID, [x]) if Class::of(dtype) == Class::F32 => format!("__fdividef(1.0f, 1.0f + expf(-{}))", x.text),
        _ => fill(s.code, &texts),
    };
    done(match s.out {
        Out::Bool => format!("(long long)({text})"),
        _ if is_int => wrap(&text, Class::of(of), dtype),
        _ => round(text, dtype),
    })
}
