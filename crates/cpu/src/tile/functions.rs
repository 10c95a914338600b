//! The vector loops of elementwise code, by the C text of the rows: a function, an operator, or a whole expression that
//! has a faster or more accurate loop than its parts.
//!
//! A row whose text stands here runs by that loop. Other text is computed by the loops of its parts
//! ([`super::code`]), and only text with functions that are not here number by number.

#![allow(unsafe_code)]

use super::code::{self, Expr, Whole};
use super::lane::{F1, F2, Lane, linked, plain1};
use crate::vmath::ints::Divide;
use crate::vmath::loops::{each1, each2};
use crate::vmath::{dispatch, f32s, f64s};
use ir::{DType, Out};

/// The loops of a binary function.
#[derive(Clone, Copy)]
pub struct Binary {
    /// Both operands are vectors.
    pub vv: F2,
    /// The second operand is one number.
    pub vs: Option<F2>,
    /// The first operand is one number.
    pub sv: Option<F2>,
}
impl Binary {
    /// Loops for vectors alone.
    pub fn plain(vv: F2) -> Binary {
        Binary { vv, vs: None, sv: None }
    }
}

/// The texts that other parts of the tile compiler look for.
pub const ADD: &str = "({0} + {1})";
pub const SUB: &str = "({0} - {1})";
pub const MUL: &str = "({0} * {1})";
pub const MIN: &str = "fmin_nan({0}, {1})";
pub const MAX: &str = "fmax_nan({0}, {1})";
pub const NEG: &str = "(-{0})";
pub const RECIP: &str = "(1 / {0})";
pub const POW: &str = "pow({0}, {1})";
pub const ROUND: &str = "rint({0})";
pub const EQUAL: &str = "({0} == {1})";
pub const UNEQUAL: &str = "({0} != {1})";

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
/// The loop with this text, if there is one and the build links it.
macro_rules! choose {
    ($code:expr, { $($text:expr => $f:expr,)* }) => {{
        $(if linked!($text) && $code == $text {
            return Some($f);
        })*
        None
    }};
}

macro_rules! float_loops {
    ($unary:ident, $binary:ident, $m:ident, $t:ty) => {
        fn $unary(code: &str) -> Option<F1> {
            use $m::raw as r;
            choose!(code, {
                "exp({0})" => erase1::<$t>(r::exp),
                "exp2({0})" => erase1::<$t>(r::exp2),
                "expm1({0})" => erase1::<$t>(r::expm1),
                "log({0})" => erase1::<$t>(r::log),
                "log2({0})" => erase1::<$t>(r::log2),
                "log10({0})" => erase1::<$t>(r::log10),
                "log1p({0})" => erase1::<$t>(r::log1p),
                "sqrt({0})" => erase1::<$t>(r::sqrt),
                "rsqrt({0})" => erase1::<$t>(r::rsqrt),
                RECIP => erase1::<$t>(r::recip),
                "sin({0})" => erase1::<$t>(r::sin),
                "cos({0})" => erase1::<$t>(r::cos),
                "tan({0})" => erase1::<$t>(r::tan),
                "asin({0})" => erase1::<$t>(r::asin),
                "acos({0})" => erase1::<$t>(r::acos),
                "atan({0})" => erase1::<$t>(r::atan),
                "sinh({0})" => erase1::<$t>(r::sinh),
                "cosh({0})" => erase1::<$t>(r::cosh),
                "tanh({0})" => erase1::<$t>(r::tanh),
                "asinh({0})" => erase1::<$t>(r::asinh),
                "acosh({0})" => erase1::<$t>(r::acosh),
                "atanh({0})" => erase1::<$t>(r::atanh),
                "(1 / (1 + exp(-{0})))" => erase1::<$t>(r::sigmoid),
                "erf({0})" => erase1::<$t>(r::erf),
                "erfc({0})" => erase1::<$t>(r::erfc),
                "erfcx({0})" => erase1::<$t>(r::erfcx),
                "erfinv({0})" => erase1::<$t>(r::erfinv),
                "lgamma({0})" => erase1::<$t>(r::lgamma),
                "digamma({0})" => erase1::<$t>(r::digamma),
                "cyl_bessel_i0({0})" => erase1::<$t>(r::i0),
                "cyl_bessel_i1({0})" => erase1::<$t>(r::i1),
                NEG => erase1::<$t>(r::neg),
                "abs({0})" => erase1::<$t>(r::abs),
                "({0} * {0})" => erase1::<$t>(r::square),
                "floor({0})" => erase1::<$t>(r::floor),
                "ceil({0})" => erase1::<$t>(r::ceil),
                ROUND => erase1::<$t>(r::round),
            })
        }
        fn $binary(code: &str) -> Option<Binary> {
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
            macro_rules! plain {
                ($f:ident) => {
                    Binary::plain(erase2::<$t>($m::raw::$f))
                };
            }
            choose!(code, {
                ADD => entry!(add, add_scalar, scalar_add),
                SUB => entry!(sub, sub_scalar, scalar_sub),
                MUL => entry!(mul, mul_scalar, scalar_mul),
                "({0} / {1})" => entry!(div, div_scalar, scalar_div),
                MIN => entry!(min, min_scalar, scalar_min),
                MAX => entry!(max, max_scalar, scalar_max),
                POW => plain!(pow),
                "fmin({0}, {1})" => plain!(fmin),
                "fmax({0}, {1})" => plain!(fmax),
                "copysign({0}, {1})" => plain!(copysign),
                "atan2({0}, {1})" => plain!(atan2),
                "hypot({0}, {1})" => plain!(hypot),
                "fmod({0}, {1})" => plain!(fmod),
                "py_rem({0}, {1})" => plain!(rem),
                "floor_divide({0}, {1})" => plain!(floor_divide),
                "polygamma({0}, {1})" => plain!(polygamma),
            })
        }
    };
}
float_loops!(unary_f32, binary_f32, f32s, f32);
float_loops!(unary_f64, binary_f64, f64s, f64);

/// The loops of a text over stored floats of 16 bits, where the machine computes them in registers.
#[cfg(target_arch = "x86_64")]
mod stored {
    use super::*;
    use crate::vmath::halves::{Brain, Half, binary, compare, compare_number, is_available, unary, with_number};
    use std::arch::x86_64::{_CMP_EQ_OQ, _CMP_GE_OQ, _CMP_GT_OQ, _CMP_LE_OQ, _CMP_LT_OQ, _CMP_NEQ_UQ};

    macro_rules! of_type {
        ($unary:ident, $binary:ident, $compare:ident, $s:ident) => {
            fn $unary(code: &str) -> Option<F1> {
                choose!(code, {
                    "exp({0})" => unary::<$s, f32s::Exp>,
                    "log({0})" => unary::<$s, f32s::Log>,
                    "sqrt({0})" => unary::<$s, f32s::Sqrt>,
                    "rsqrt({0})" => unary::<$s, f32s::Rsqrt>,
                    RECIP => unary::<$s, f32s::Recip>,
                    "sin({0})" => unary::<$s, f32s::Sin>,
                    "cos({0})" => unary::<$s, f32s::Cos>,
                    "tanh({0})" => unary::<$s, f32s::Tanh>,
                    "(1 / (1 + exp(-{0})))" => unary::<$s, f32s::Sigmoid>,
                    "erf({0})" => unary::<$s, f32s::Erf>,
                    NEG => unary::<$s, f32s::Neg>,
                    "abs({0})" => unary::<$s, f32s::Abs>,
                    "({0} * {0})" => unary::<$s, f32s::Square>,
                    "floor({0})" => unary::<$s, f32s::Floor>,
                    "ceil({0})" => unary::<$s, f32s::Ceil>,
                    ROUND => unary::<$s, f32s::Round>,
                })
            }
            fn $binary(code: &str) -> Option<Binary> {
                macro_rules! entry {
                    ($f:ident) => {
                        Binary {
                            vv: binary::<$s, f32s::$f>,
                            vs: Some(with_number::<$s, f32s::$f, false>),
                            sv: Some(with_number::<$s, f32s::$f, true>),
                        }
                    };
                }
                choose!(code, {
                    ADD => entry!(Add),
                    SUB => entry!(Sub),
                    MUL => entry!(Mul),
                    "({0} / {1})" => entry!(Div),
                    MIN => entry!(Min),
                    MAX => entry!(Max),
                })
            }
            fn $compare(code: &str) -> Option<Binary> {
                macro_rules! entry {
                    ($how:ident) => {
                        Binary {
                            vv: compare::<$s, $how>,
                            vs: Some(compare_number::<$s, $how, false>),
                            sv: Some(compare_number::<$s, $how, true>),
                        }
                    };
                }
                choose!(code, {
                    EQUAL => entry!(_CMP_EQ_OQ),
                    UNEQUAL => entry!(_CMP_NEQ_UQ),
                    "({0} < {1})" => entry!(_CMP_LT_OQ),
                    "({0} <= {1})" => entry!(_CMP_LE_OQ),
                    "({0} > {1})" => entry!(_CMP_GT_OQ),
                    "({0} >= {1})" => entry!(_CMP_GE_OQ),
                })
            }
        };
    }
    of_type!(unary_bf16, binary_bf16, compare_bf16, Brain);
    of_type!(unary_f16, binary_f16, compare_f16, Half);

    /// Of one operand.
    pub fn one(code: &str, dtype: DType) -> Option<F1> {
        match dtype {
            DType::BF16 if linked!("bf16") && is_available() => unary_bf16(code),
            DType::F16 if linked!("f16") && is_available() => unary_f16(code),
            _ => None,
        }
    }
    /// Comparisons: where one operand is a number, it is of `f32`.
    pub fn comparison(code: &str, dtype: DType) -> Option<Binary> {
        match dtype {
            DType::BF16 if linked!("bf16") && is_available() => compare_bf16(code),
            DType::F16 if linked!("f16") && is_available() => compare_f16(code),
            _ => None,
        }
    }
    /// Of two operands: where one is a number, it is of `f32`.
    pub fn two(code: &str, dtype: DType) -> Option<Binary> {
        match dtype {
            DType::BF16 if linked!("bf16") && is_available() => binary_bf16(code),
            DType::F16 if linked!("f16") && is_available() => binary_f16(code),
            _ => None,
        }
    }
}
#[cfg(not(target_arch = "x86_64"))]
mod stored {
    use super::*;
    pub fn one(_: &str, _: DType) -> Option<F1> {
        None
    }
    pub fn two(_: &str, _: DType) -> Option<Binary> {
        None
    }
    pub fn comparison(_: &str, _: DType) -> Option<Binary> {
        None
    }
}
pub use stored::{comparison as stored_compare, one as stored_unary, two as stored_binary};

/// A plain loop over two operands, compiled for each instruction set.
macro_rules! plain2 {
    ($name:ident, $t:ty, $u:ty, |$a:ident, $b:ident| $f:expr) => {
        dispatch! {
            unsafe fn $name(a: *const u8, b: *const u8, y: *mut u8, n: usize) {
                _I => each2(a.cast::<$t>(), b.cast::<$t>(), y.cast::<$u>(), n, |$a: $t, $b: $t| -> $u { $f })
            }
        }
    };
}

/// The same with loops for one number on either side, which short operations need.
macro_rules! short2 {
    ($name:ident, $t:ty, $u:ty, |$a:ident, $b:ident| $f:expr) => {
        fn $name() -> Binary {
            plain2!(vv, $t, $u, |$a, $b| $f);
            dispatch! {
                unsafe fn vs(a: *const u8, b: *const u8, y: *mut u8, n: usize) {
                    _I => {
                        let $b = *b.cast::<$t>();
                        each1(a.cast::<$t>(), y.cast::<$u>(), n, |$a: $t| -> $u { $f })
                    }
                }
            }
            dispatch! {
                unsafe fn sv(a: *const u8, b: *const u8, y: *mut u8, n: usize) {
                    _I => {
                        let $a = *a.cast::<$t>();
                        each1(b.cast::<$t>(), y.cast::<$u>(), n, |$b: $t| -> $u { $f })
                    }
                }
            }
            Binary { vv, vs: Some(vs), sv: Some(sv) }
        }
    };
}

/// Sign of a number: -1, 0 or 1.
const SIGN: &str = "({0} > 0 ? 1 : ({0} < 0 ? -1 : ({0} == 0 ? 0 : {0})))";

macro_rules! int_loops {
    ($unary:ident, $binary:ident, $t:ty) => {
        #[allow(unused_comparisons)]
        fn $unary(code: &str) -> Option<F1> {
            plain1!(abs, $t, $t, |a| if a < 0 { a.wrapping_neg() } else { a });
            plain1!(sign, $t, $t, |a| if <$t>::MIN == 0 { a.min(1) } else { a.min(1).max((0 as $t).wrapping_sub(1)) });
            plain1!(neg, $t, $t, |a| a.wrapping_neg());
            choose!(code, {
                "abs({0})" => abs,
                SIGN => sign,
                NEG => neg,
            })
        }
        #[allow(unused_comparisons)]
        fn $binary(code: &str) -> Option<Binary> {
            short2!(add, $t, $t, |a, b| a.wrapping_add(b));
            short2!(sub, $t, $t, |a, b| a.wrapping_sub(b));
            short2!(mul, $t, $t, |a, b| a.wrapping_mul(b));
            short2!(min, $t, $t, |a, b| a.min(b));
            short2!(max, $t, $t, |a, b| a.max(b));
            short2!(and, $t, $t, |a, b| a & b);
            short2!(or, $t, $t, |a, b| a | b);
            short2!(xor, $t, $t, |a, b| a ^ b);
            // Shifts are those of wider numbers: by nothing for less than 0, and out of the type.
            const LAST: i128 = <$t>::BITS as i128 - 1;
            plain2!(shl, $t, $t, |a, b| if (0..=LAST).contains(&(b as i128)) { a << b } else { 0 });
            plain2!(shr, $t, $t, |a, b| {
                let by = (b as i128).clamp(0, LAST) as u32;
                let is_out = <$t>::MIN == 0 && b as i128 > LAST;
                if is_out { 0 } else { a >> by }
            });
            plain2!(fmod, $t, $t, |a, b| <$t as Divide>::remainder(a, b));
            plain2!(rem, $t, $t, |a, b| {
                let r = <$t as Divide>::remainder(a, b);
                if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
            });
            plain2!(floor_divide, $t, $t, |a, b| <$t as Divide>::floor(a, b));
            plain2!(pow, $t, $t, |a, b| match b as i128 {
                b if b >= 0 => a.wrapping_pow(b.min(u32::MAX as i128) as u32),
                _ if a == 1 => 1,
                b if a as i128 == -1 && b % 2 == 0 => 1,
                _ if a as i128 == -1 => a,
                _ => 0,
            });
            choose!(code, {
                ADD => add(),
                SUB => sub(),
                MUL => mul(),
                "({0} & {1})" => and(),
                "({0} | {1})" => or(),
                "({0} ^ {1})" => xor(),
                "shl({0}, {1})" => Binary::plain(shl),
                "shr({0}, {1})" => Binary::plain(shr),
                MIN => min(),
                "fmin({0}, {1})" => min(),
                MAX => max(),
                "fmax({0}, {1})" => max(),
                "fmod({0}, {1})" => Binary::plain(fmod),
                "py_rem({0}, {1})" => Binary::plain(rem),
                "floor_divide({0}, {1})" => Binary::plain(floor_divide),
                POW => Binary::plain(pow),
            })
        }
    };
}
int_loops!(unary_i64, binary_i64, i64);
int_loops!(unary_i32, binary_i32, i32);
int_loops!(unary_u32, binary_u32, u32);
int_loops!(unary_u64, binary_u64, u64);
int_loops!(unary_i16, binary_i16, i16);
int_loops!(unary_u16, binary_u16, u16);
int_loops!(unary_u8, binary_u8, u8);
int_loops!(unary_i8, binary_i8, i8);

macro_rules! compare_loops {
    ($compare:ident, $t:ty) => {
        fn $compare(code: &str) -> Option<Binary> {
            short2!(eq, $t, u8, |a, b| (a == b) as u8);
            short2!(ne, $t, u8, |a, b| (a != b) as u8);
            short2!(lt, $t, u8, |a, b| (a < b) as u8);
            short2!(le, $t, u8, |a, b| (a <= b) as u8);
            short2!(gt, $t, u8, |a, b| (a > b) as u8);
            short2!(ge, $t, u8, |a, b| (a >= b) as u8);
            choose!(code, {
                EQUAL => eq(),
                UNEQUAL => ne(),
                "({0} < {1})" => lt(),
                "({0} <= {1})" => le(),
                "({0} > {1})" => gt(),
                "({0} >= {1})" => ge(),
            })
        }
    };
}
compare_loops!(compare_f32, f32);
compare_loops!(compare_f64, f64);
compare_loops!(compare_i64, i64);
compare_loops!(compare_i32, i32);
compare_loops!(compare_u32, u32);
compare_loops!(compare_u64, u64);
compare_loops!(compare_i16, i16);
compare_loops!(compare_u16, u16);
compare_loops!(compare_u8, u8);
compare_loops!(compare_i8, i8);

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
plain1!(not_u8, u8, u8, |a| (a == 0) as u8);
plain1!(not_f32, f32, u8, |a| (a == 0.0) as u8);
plain1!(not_f64, f64, u8, |a| (a == 0.0) as u8);

/// The loop of one operand whose result has its type.
pub fn unary(code: &str, lane: Lane) -> Option<F1> {
    match (lane, code) {
        (Lane::F32, SIGN) if linked!("f32") && linked!(SIGN) => Some(sign_f32),
        (Lane::F32, "trunc({0})") if linked!("f32") && linked!("trunc({0})") => Some(trunc_f32),
        (Lane::F32, _) if linked!("f32") => unary_f32(code),
        (Lane::F64, SIGN) if linked!("f64") && linked!(SIGN) => Some(sign_f64),
        (Lane::F64, "trunc({0})") if linked!("f64") && linked!("trunc({0})") => Some(trunc_f64),
        (Lane::F64, _) if linked!("f64") => unary_f64(code),
        (Lane::I64, _) if linked!("i64") => unary_i64(code),
        (Lane::I32, _) if linked!("i32") => unary_i32(code),
        (Lane::U32, _) if linked!("u32") => unary_u32(code),
        (Lane::U64, _) if linked!("u64") => unary_u64(code),
        (Lane::I16, _) if linked!("i16") => unary_i16(code),
        (Lane::U16, _) if linked!("u16") => unary_u16(code),
        (Lane::U8, _) if linked!("u8") => unary_u8(code),
        (Lane::I8, _) if linked!("i8") => unary_i8(code),
        _ => None,
    }
}

/// The loop of one operand whose result is a boolean.
pub fn test(code: &str, lane: Lane) -> Option<F1> {
    Some(match (lane, code) {
        (Lane::F32, "({0} != {0})") if linked!("f32") && linked!("({0} != {0})") => is_nan_f32,
        (Lane::F32, "is_inf({0})") if linked!("f32") && linked!("is_inf({0})") => is_inf_f32,
        (Lane::F32, "is_finite({0})") if linked!("f32") && linked!("is_finite({0})") => is_finite_f32,
        (Lane::F32, "(!{0})") if linked!("f32") && linked!("(!{0})") => not_f32,
        (Lane::F64, "({0} != {0})") if linked!("f64") && linked!("({0} != {0})") => is_nan_f64,
        (Lane::F64, "is_inf({0})") if linked!("f64") && linked!("is_inf({0})") => is_inf_f64,
        (Lane::F64, "is_finite({0})") if linked!("f64") && linked!("is_finite({0})") => is_finite_f64,
        (Lane::F64, "(!{0})") if linked!("f64") && linked!("(!{0})") => not_f64,
        (Lane::Bool | Lane::U8, "(!{0})") => not_u8,
        _ => return None,
    })
}

/// The loops of two operands whose result has their type.
pub fn binary(code: &str, lane: Lane) -> Option<Binary> {
    match lane {
        Lane::F32 if linked!("f32") => binary_f32(code),
        Lane::F64 if linked!("f64") => binary_f64(code),
        Lane::I64 if linked!("i64") => binary_i64(code),
        Lane::I32 if linked!("i32") => binary_i32(code),
        Lane::U32 if linked!("u32") => binary_u32(code),
        Lane::U64 if linked!("u64") => binary_u64(code),
        Lane::I16 if linked!("i16") => binary_i16(code),
        Lane::U16 if linked!("u16") => binary_u16(code),
        Lane::U8 if linked!("u8") => binary_u8(code),
        Lane::I8 if linked!("i8") => binary_i8(code),
        // 0 and 1 as bytes: a product is "and", a sum "or".
        Lane::Bool => match code {
            MUL => binary_u8("({0} & {1})"),
            ADD => binary_u8("({0} | {1})"),
            "({0} & {1})" | "({0} | {1})" | "({0} ^ {1})" => binary_u8(code),
            MIN | MAX => binary_u8(code),
            _ => None,
        },
        _ => None,
    }
}

/// The loop of a comparison.
pub fn compare(code: &str, lane: Lane) -> Option<Binary> {
    match lane {
        Lane::F32 if linked!("f32") => compare_f32(code),
        Lane::F64 if linked!("f64") => compare_f64(code),
        Lane::I64 if linked!("i64") => compare_i64(code),
        Lane::I32 if linked!("i32") => compare_i32(code),
        Lane::U32 if linked!("u32") => compare_u32(code),
        Lane::U64 if linked!("u64") => compare_u64(code),
        Lane::I16 if linked!("i16") => compare_i16(code),
        Lane::U16 if linked!("u16") => compare_u16(code),
        Lane::U8 | Lane::Bool if linked!("u8") => compare_u8(code),
        Lane::I8 if linked!("i8") => compare_i8(code),
        _ => None,
    }
}

/// The text of an operation that [`super::peephole`] joins with others; empty for other ones.
pub fn simple(code: &str) -> &'static str {
    [ADD, SUB, MUL, MAX, MIN].into_iter().find(|c| *c == code).unwrap_or("")
}

/// The texts whose loops may compute a text: itself, its parts, and what stands for it in special cases.
pub fn texts(code: &str) -> Vec<String> {
    fn add(e: &Expr, to: &mut Vec<String>) {
        match e {
            Expr::Arg(_) | Expr::Number(_) => {}
            Expr::Apply(code, parts) => {
                to.push(code.clone());
                parts.iter().for_each(|p| add(p, to));
            }
            Expr::Select(parts) => parts.iter().for_each(|p| add(p, to)),
        }
    }
    let mut all = vec![code.to_string()];
    if let Some(e) = code::parse(code) {
        add(&e, &mut all);
    }
    let special = |t: &String| match (t.as_str(), Whole::of(t)) {
        (POW, _) => &[MUL, RECIP][..],
        (_, Some(Whole::Compared(_) | Whole::IsZero)) => &[EQUAL, UNEQUAL],
        // Bool has its own spelling of sums and products.
        (ADD, _) => &["({0} | {1})"],
        (MUL, _) => &["({0} & {1})"],
        _ => &[],
    };
    let more: Vec<String> = all.iter().flat_map(special).map(|t| t.to_string()).collect();
    all.extend(more);
    all
}

/// Whether a text as a whole has a loop.
pub fn has_loop(code: &str, lane: Lane, out: Out) -> bool {
    match out {
        Out::Bool => test(code, lane).is_some() || compare(code, lane).is_some(),
        _ => unary(code, lane).is_some() || binary(code, lane).is_some(),
    }
}

/// Whether an elementwise row is computed by vector loops in an element type that it takes.
pub fn has_vector_loop(s: &ir::Scalar, dtype: DType) -> bool {
    fn is_known(e: &Expr, lane: Lane) -> bool {
        match e {
            Expr::Arg(_) | Expr::Number(_) => true,
            Expr::Select(parts) => parts.iter().all(|p| is_known(p, lane)),
            Expr::Apply(code, parts) => {
                let is_int = !matches!(lane, Lane::F32 | Lane::F64);
                let is_loop = has_loop(code, lane, Out::Same) || has_loop(code, lane, Out::Bool);
                (is_loop || is_int && Whole::of(code).is_some()) && parts.iter().all(|p| is_known(p, lane))
            }
        }
    }
    let lane = Lane::of(dtype);
    let work = match (s.out, lane) {
        (Out::Cast | Out::Select, _) => return true,
        (Out::Float, l) if l != Lane::F32 => Lane::F64,
        (_, Lane::Bool) if !has_loop(s.code, Lane::Bool, s.out) => Lane::I32,
        (_, l) => l,
    };
    s.code == "{0}" || has_loop(s.code, work, s.out) || code::parse(s.code).is_some_and(|e| is_known(&e, work))
}
