//! Lanes: the element types tiles are computed in, and the vector loops for known ops.
//!
//! Narrow floats (`bf16`, `f16` and those of 8 bits) are computed as `f32`; everything else as itself. An op without a loop here
//! is computed number by number with the function in its row.

#![allow(unsafe_code)]

use crate::vmath::convert::Narrow;
use crate::vmath::{dispatch, f32s, f64s, ints};
use ir::{DType, Element, bf16, f8e4m3, f8e5m2, f16};

/// The type of a tile's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    F32,
    F64,
    I64,
    U64,
    I32,
    U32,
    I16,
    U16,
    I8,
    U8,
    Bool,
    /// A stored `bf16` or `f16`, not computed with.
    Half,
    /// A stored float of 8 bits, not computed with.
    Quarter,
}

impl Lane {
    /// What values of a type are computed in.
    pub fn of(dtype: DType) -> Lane {
        match dtype {
            DType::F32 | DType::BF16 | DType::F16 | DType::F8E4M3 | DType::F8E5M2 => Lane::F32,
            DType::F64 => Lane::F64,
            DType::I64 => Lane::I64,
            DType::I32 => Lane::I32,
            DType::U32 => Lane::U32,
            DType::U64 => Lane::U64,
            DType::I16 => Lane::I16,
            DType::U16 => Lane::U16,
            DType::U8 => Lane::U8,
            DType::I8 => Lane::I8,
            DType::Bool => Lane::Bool,
            DType::C64 | DType::C128 => unreachable!("complex numbers are pairs by now"),
        }
    }
    /// How values of a type are stored.
    pub fn stored(dtype: DType) -> Lane {
        match dtype {
            DType::BF16 | DType::F16 => Lane::Half,
            DType::F8E4M3 | DType::F8E5M2 => Lane::Quarter,
            _ => Lane::of(dtype),
        }
    }
    /// Bytes an element takes.
    pub fn size(self) -> usize {
        match self {
            Lane::U8 | Lane::I8 | Lane::Bool | Lane::Quarter => 1,
            Lane::I16 | Lane::U16 | Lane::Half => 2,
            Lane::F32 | Lane::I32 | Lane::U32 => 4,
            Lane::F64 | Lane::I64 | Lane::U64 => 8,
        }
    }
    /// The type it stands for.
    pub fn dtype(self) -> DType {
        match self {
            Lane::F32 => DType::F32,
            Lane::F64 => DType::F64,
            Lane::I64 => DType::I64,
            Lane::I32 => DType::I32,
            Lane::U32 => DType::U32,
            Lane::U64 => DType::U64,
            Lane::I16 => DType::I16,
            Lane::U16 => DType::U16,
            Lane::U8 => DType::U8,
            Lane::I8 => DType::I8,
            Lane::Bool => DType::Bool,
            Lane::Half | Lane::Quarter => unreachable!("narrow floats are not computed with as they are stored"),
        }
    }
}

/// True for the types that are stored in fewer bits than they are computed in.
pub fn is_narrow(dtype: DType) -> bool {
    matches!(Lane::stored(dtype), Lane::Half | Lane::Quarter)
}

/// `y[i] = f(x[i])` for `n` elements; `x` and `y` equal or apart where sizes are the same.
pub type F1 = unsafe fn(*const u8, *mut u8, usize);
/// `y[i] = f(a[i], b[i])`; `y` equal to an operand or apart where sizes are the same.
pub type F2 = unsafe fn(*const u8, *const u8, *mut u8, usize);
/// `y[i] = c[i] ? a[i] : b[i]`.
pub type F3 = unsafe fn(*const u8, *const u8, *const u8, *mut u8, usize);

/// The loops of a binary op.
#[derive(Clone, Copy)]
pub struct Binary {
    /// Both operands are vectors.
    pub vv: F2,
    /// The second operand is one number.
    pub vs: Option<F2>,
    /// The first operand is one number.
    pub sv: Option<F2>,
}

type Typed1<T> = unsafe fn(*const T, *mut T, usize);
type Typed2<T> = unsafe fn(*const T, *const T, *mut T, usize);

fn erase1<T>(f: Typed1<T>) -> F1 {
    // SAFETY: thin pointers have one calling convention, whatever they point to.
    unsafe { std::mem::transmute::<Typed1<T>, F1>(f) }
}
fn erase2<T>(f: Typed2<T>) -> F2 {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<Typed2<T>, F2>(f) }
}

macro_rules! float_ops {
    ($unary:ident, $binary:ident, $m:ident, $t:ty) => {
        fn $unary(name: &str) -> Option<F1> {
            use $m::raw as r;
            Some(erase1::<$t>(match name {
                "exp" => r::exp,
                "exp2" => r::exp2,
                "expm1" => r::expm1,
                "log" => r::log,
                "log2" => r::log2,
                "log1p" => r::log1p,
                "sqrt" => r::sqrt,
                "rsqrt" => r::rsqrt,
                "recip" => r::recip,
                "sin" => r::sin,
                "cos" => r::cos,
                "tan" => r::tan,
                "tanh" => r::tanh,
                "sigmoid" => r::sigmoid,
                "erf" => r::erf,
                "erfc" => r::erfc,
                "neg" => r::neg,
                "abs" => r::abs,
                "square" => r::square,
                "floor" => r::floor,
                "ceil" => r::ceil,
                "round" => r::round,
                _ => return None,
            }))
        }
        fn $binary(name: &str) -> Option<Binary> {
            macro_rules! entry {
                ($vv:ident, $vs:ident, $sv:ident) => {{
                    unsafe fn vs(a: *const u8, b: *const u8, y: *mut u8, n: usize) {
                        // SAFETY: the caller's promise; `b` is one number.
                        unsafe { $m::raw::$vs(a.cast(), *b.cast::<$t>(), y.cast(), n) }
                    }
                    unsafe fn sv(a: *const u8, b: *const u8, y: *mut u8, n: usize) {
                        // SAFETY: the caller's promise; `a` is one number.
                        unsafe { $m::raw::$sv(b.cast(), *a.cast::<$t>(), y.cast(), n) }
                    }
                    Binary { vv: erase2::<$t>($m::raw::$vv), vs: Some(vs), sv: Some(sv) }
                }};
            }
            Some(match name {
                "add" => entry!(add, add_scalar, scalar_add),
                "sub" => entry!(sub, sub_scalar, scalar_sub),
                "mul" => entry!(mul, mul_scalar, scalar_mul),
                "div" => entry!(div, div_scalar, scalar_div),
                "minimum" => entry!(min, min_scalar, scalar_min),
                "maximum" => entry!(max, max_scalar, scalar_max),
                "pow" => Binary { vv: erase2::<$t>($m::raw::pow), vs: None, sv: None },
                _ => return None,
            })
        }
    };
}
float_ops!(unary_f32, binary_f32, f32s, f32);
float_ops!(unary_f64, binary_f64, f64s, f64);

/// A plain loop over two operands, compiled for each instruction set.
macro_rules! plain2 {
    ($name:ident, $t:ty, $u:ty, |$a:ident, $b:ident| $f:expr) => {
        dispatch! {
            unsafe fn $name(a: *const u8, b: *const u8, y: *mut u8, n: usize) {
                _I => {
                    let (a, b, y) = (a.cast::<$t>(), b.cast::<$t>(), y.cast::<$u>());
                    for i in 0..n {
                        let ($a, $b) = (*a.add(i), *b.add(i));
                        *y.add(i) = $f;
                    }
                }
            }
        }
    };
}

macro_rules! int_ops {
    ($binary:ident, $t:ty) => {
        fn $binary(name: &str) -> Option<F2> {
            plain2!(add, $t, $t, |a, b| a.wrapping_add(b));
            plain2!(sub, $t, $t, |a, b| a.wrapping_sub(b));
            plain2!(mul, $t, $t, |a, b| a.wrapping_mul(b));
            plain2!(minimum, $t, $t, |a, b| a.min(b));
            plain2!(maximum, $t, $t, |a, b| a.max(b));
            plain2!(and, $t, $t, |a, b| a & b);
            plain2!(or, $t, $t, |a, b| a | b);
            plain2!(xor, $t, $t, |a, b| a ^ b);
            // Shifts are those of wider numbers: by nothing for less than 0, and out of the type.
            const LAST: i128 = <$t>::BITS as i128 - 1;
            plain2!(shl, $t, $t, |a, b| if (0..=LAST).contains(&(b as i128)) { a << b } else { 0 });
            plain2!(shr, $t, $t, |a, b| {
                let by = (b as i128).clamp(0, LAST) as u32;
                let is_out = <$t>::MIN == 0 && b as i128 > LAST;
                if is_out { 0 } else { a >> by }
            });
            Some(match name {
                "and" => and,
                "or" => or,
                "xor" => xor,
                "shl" => shl,
                "shr" => shr,
                "add" => add,
                "sub" => sub,
                "mul" => mul,
                "minimum" => minimum,
                "maximum" => maximum,
                _ => return None,
            })
        }
    };
}
int_ops!(binary_i64, i64);
int_ops!(binary_i32, i32);
int_ops!(binary_u32, u32);
int_ops!(binary_u64, u64);
int_ops!(binary_i16, i16);
int_ops!(binary_u16, u16);
int_ops!(binary_u8, u8);
int_ops!(binary_i8, i8);

macro_rules! compare_ops {
    ($compare:ident, $t:ty) => {
        fn $compare(name: &str) -> Option<F2> {
            plain2!(eq, $t, u8, |a, b| (a == b) as u8);
            plain2!(ne, $t, u8, |a, b| (a != b) as u8);
            plain2!(lt, $t, u8, |a, b| (a < b) as u8);
            plain2!(le, $t, u8, |a, b| (a <= b) as u8);
            plain2!(gt, $t, u8, |a, b| (a > b) as u8);
            plain2!(ge, $t, u8, |a, b| (a >= b) as u8);
            Some(match name {
                "eq" => eq,
                "ne" => ne,
                "lt" => lt,
                "le" => le,
                "gt" => gt,
                "ge" => ge,
                _ => return None,
            })
        }
    };
}
compare_ops!(compare_f32, f32);
compare_ops!(compare_f64, f64);
compare_ops!(compare_i64, i64);
compare_ops!(compare_i32, i32);
compare_ops!(compare_u32, u32);
compare_ops!(compare_u64, u64);
compare_ops!(compare_i16, i16);
compare_ops!(compare_u16, u16);
compare_ops!(compare_u8, u8);
compare_ops!(compare_i8, i8);

/// The loop of a known op of one operand.
pub fn unary(name: &str, lane: Lane) -> Option<F1> {
    match lane {
        Lane::F32 => match name {
            "sign" => Some(sign_f32),
            "trunc" => Some(trunc_f32),
            _ => unary_f32(name),
        },
        Lane::F64 => match name {
            "sign" => Some(sign_f64),
            "trunc" => Some(trunc_f64),
            _ => unary_f64(name),
        },
        Lane::Bool if name == "not" => Some(not),
        _ => None,
    }
}

/// The loop of a known op of one operand whose result is a truth value.
pub fn test(name: &str, lane: Lane) -> Option<F1> {
    Some(match (lane, name) {
        (Lane::F32, "is_nan") => is_nan_f32,
        (Lane::F32, "is_inf") => is_inf_f32,
        (Lane::F32, "is_finite") => is_finite_f32,
        (Lane::F64, "is_nan") => is_nan_f64,
        (Lane::F64, "is_inf") => is_inf_f64,
        (Lane::F64, "is_finite") => is_finite_f64,
        (Lane::Bool, "not") => not,
        _ => return None,
    })
}

/// The loops of a known op of two operands whose result has their type.
pub fn binary(name: &str, lane: Lane) -> Option<Binary> {
    let plain = |f: Option<F2>| f.map(|vv| Binary { vv, vs: None, sv: None });
    match lane {
        Lane::F32 => binary_f32(name),
        Lane::F64 => binary_f64(name),
        Lane::I64 => plain(binary_i64(name)),
        Lane::I32 => plain(binary_i32(name)),
        Lane::U32 => plain(binary_u32(name)),
        Lane::U64 => plain(binary_u64(name)),
        Lane::I16 => plain(binary_i16(name)),
        Lane::U16 => plain(binary_u16(name)),
        Lane::U8 => plain(binary_u8(name)),
        Lane::I8 => plain(binary_i8(name)),
        // 0 and 1 as bytes: the smaller is "and", the larger "or".
        Lane::Bool => match name {
            "minimum" | "and" | "mul" => plain(binary_u8("minimum")),
            "maximum" | "or" | "add" => plain(binary_u8("maximum")),
            "xor" => plain(binary_u8("xor")),
            _ => None,
        },
        Lane::Half | Lane::Quarter => None,
    }
}

/// The loop of a known comparison.
pub fn compare(name: &str, lane: Lane) -> Option<F2> {
    match lane {
        Lane::F32 => compare_f32(name),
        Lane::F64 => compare_f64(name),
        Lane::I64 => compare_i64(name),
        Lane::I32 => compare_i32(name),
        Lane::U32 => compare_u32(name),
        Lane::U64 => compare_u64(name),
        Lane::I16 => compare_i16(name),
        Lane::U16 => compare_u16(name),
        Lane::U8 | Lane::Bool => compare_u8(name),
        Lane::I8 => compare_i8(name),
        Lane::Half | Lane::Quarter => None,
    }
}

dispatch! {
    unsafe fn select_bytes(c: *const u8, a: *const u8, b: *const u8, y: *mut u8, n: usize) {
        _I => for i in 0..n {
            *y.add(i) = if *c.add(i) != 0 { *a.add(i) } else { *b.add(i) };
        }
    }
}

dispatch! {
    unsafe fn select_pairs(c: *const u8, a: *const u8, b: *const u8, y: *mut u8, n: usize) {
        _I => {
            let (a, b, y) = (a.cast::<u16>(), b.cast::<u16>(), y.cast::<u16>());
            for i in 0..n {
                *y.add(i) = if *c.add(i) != 0 { *a.add(i) } else { *b.add(i) };
            }
        }
    }
}

/// The loop of `where`, by the size of its values.
pub fn select(lane: Lane) -> F3 {
    unsafe fn four(c: *const u8, a: *const u8, b: *const u8, y: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { ints::i32s::raw::select(c, a.cast(), b.cast(), y.cast(), n) }
    }
    unsafe fn eight(c: *const u8, a: *const u8, b: *const u8, y: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { ints::i64s::raw::select(c, a.cast(), b.cast(), y.cast(), n) }
    }
    match lane.size() {
        1 => select_bytes,
        2 => select_pairs,
        4 => four,
        _ => eight,
    }
}

/// The conversion between a stored narrow float and `f32`.
pub fn widen(dtype: DType) -> F1 {
    unsafe fn from<H: Narrow>(x: *const u8, y: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { H::widen(x.cast(), y.cast(), n) }
    }
    match dtype {
        DType::BF16 => from::<bf16>,
        DType::F8E4M3 => from::<f8e4m3>,
        DType::F8E5M2 => from::<f8e5m2>,
        _ => from::<f16>,
    }
}

/// The rounding of `f32` to a stored narrow float.
pub fn narrow(dtype: DType) -> F1 {
    unsafe fn to<H: Narrow>(x: *const u8, y: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { H::narrow(x.cast(), y.cast(), n) }
    }
    match dtype {
        DType::BF16 => to::<bf16>,
        DType::F8E4M3 => to::<f8e4m3>,
        DType::F8E5M2 => to::<f8e5m2>,
        _ => to::<f16>,
    }
}

macro_rules! plain1 {
    ($name:ident, $t:ty, $u:ty, |$a:ident| $f:expr) => {
        dispatch! {
            unsafe fn $name(x: *const u8, y: *mut u8, n: usize) {
                _I => {
                    let (x, y) = (x.cast::<$t>(), y.cast::<$u>());
                    for i in 0..n {
                        let $a = *x.add(i);
                        *y.add(i) = $f;
                    }
                }
            }
        }
    };
}
plain1!(sign_f32, f32, f32, |a| if a > 0.0 {
    1.0
} else if a < 0.0 {
    -1.0
} else if a == 0.0 {
    0.0
} else {
    a
});
plain1!(sign_f64, f64, f64, |a| if a > 0.0 {
    1.0
} else if a < 0.0 {
    -1.0
} else if a == 0.0 {
    0.0
} else {
    a
});
plain1!(trunc_f32, f32, f32, |a| a.trunc());
plain1!(trunc_f64, f64, f64, |a| a.trunc());
plain1!(is_nan_f32, f32, u8, |a| a.is_nan() as u8);
plain1!(is_inf_f32, f32, u8, |a| a.is_infinite() as u8);
plain1!(is_finite_f32, f32, u8, |a| a.is_finite() as u8);
plain1!(is_nan_f64, f64, u8, |a| a.is_nan() as u8);
plain1!(is_inf_f64, f64, u8, |a| a.is_infinite() as u8);
plain1!(is_finite_f64, f64, u8, |a| a.is_finite() as u8);
plain1!(not, u8, u8, |a| (a == 0) as u8);
plain1!(u32_to_f32, u32, f32, |a| a as f32);
plain1!(u32_to_i64, u32, i64, |a| a as i64);
plain1!(f32_to_f64, f32, f64, |a| a as f64);
plain1!(f64_to_f32, f64, f32, |a| a as f32);
plain1!(i64_to_f32, i64, f32, |a| a as f32);
plain1!(i32_to_f32, i32, f32, |a| a as f32);
plain1!(u8_to_f32, u8, f32, |a| a as f32);
plain1!(f32_to_bool, f32, u8, |a| (a != 0.0) as u8);
plain1!(f32_to_i64, f32, i64, |a| a as i64);
plain1!(u8_to_i64, u8, i64, |a| a as i64);
plain1!(i32_to_i64, i32, i64, |a| a as i64);
plain1!(i64_to_i32, i64, i32, |a| a as i32);
plain1!(i64_to_f64, i64, f64, |a| a as f64);

/// The conversion between two lanes; `None` where they are the same.
pub fn cast(from: Lane, to: Lane) -> Option<F1> {
    use Lane::*;
    unsafe fn any<A: Element, B: Element>(x: *const u8, y: *mut u8, n: usize) {
        let (x, y) = (x.cast::<A::Stored>(), y.cast::<B::Stored>());
        for i in 0..n {
            // SAFETY: the caller's promise.
            unsafe {
                let a = A::load(*x.add(i));
                *y.add(i) =
                    (if A::DTYPE.is_float() { B::from_f64(a.to_f64()) } else { B::from_int(a.to_int()) }).store();
            }
        }
    }
    fn to_any<A: Element>(to: Lane) -> F1 {
        match to {
            F32 => any::<A, f32>,
            F64 => any::<A, f64>,
            I64 => any::<A, i64>,
            I32 => any::<A, i32>,
            U32 => any::<A, u32>,
            U64 => any::<A, u64>,
            I16 => any::<A, i16>,
            U16 => any::<A, u16>,
            U8 => any::<A, u8>,
            I8 => any::<A, i8>,
            Bool | Half | Quarter => any::<A, bool>,
        }
    }
    Some(match (from, to) {
        _ if from == to => return None,
        (F32, F64) => f32_to_f64,
        (F64, F32) => f64_to_f32,
        (I64, F32) => i64_to_f32,
        (I32, F32) => i32_to_f32,
        (U32, F32) => u32_to_f32,
        (U32, I64) => u32_to_i64,
        (U8 | Bool, F32) => u8_to_f32,
        (F32, Bool) => f32_to_bool,
        (F32, I64) => f32_to_i64,
        (U8 | Bool, I64) => u8_to_i64,
        (I32, I64) => i32_to_i64,
        (I64, I32) => i64_to_i32,
        (I64, F64) => i64_to_f64,
        (F32, _) => to_any::<f32>(to),
        (F64, _) => to_any::<f64>(to),
        (I64, _) => to_any::<i64>(to),
        (I32, _) => to_any::<i32>(to),
        (U32, _) => to_any::<u32>(to),
        (U64, _) => to_any::<u64>(to),
        (I16, _) => to_any::<i16>(to),
        (U16, _) => to_any::<u16>(to),
        (U8, _) => to_any::<u8>(to),
        (I8, _) => to_any::<i8>(to),
        (Bool | Half | Quarter, _) => to_any::<bool>(to),
    })
}
