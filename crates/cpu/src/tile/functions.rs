//! The vector loops of elementwise code, by the C text of the rows: a function, an operator, or a whole expression that
//! has a faster or more accurate loop than its parts.
//!
//! A row whose text stands here runs by that loop. Other text is computed by the loops of its parts
//! ([`super::code`]), and only text with functions that are not here number by number.

#![allow(unsafe_code)]

use super::code::{self, Expr};
use super::lane::{F1, F2, Lane, plain1};
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
pub const NEG: &str = "(-{0})";
pub const RECIP: &str = "(1 / {0})";
pub const POW: &str = "pow({0}, {1})";
pub const EQUAL: &str = "({0} == {1})";
const UNEQUAL: &str = "({0} != {1})";

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

macro_rules! float_loops {
    ($unary:ident, $binary:ident, $m:ident, $t:ty) => {
        fn $unary(code: &str) -> Option<F1> {
            use $m::raw as r;
            Some(erase1::<$t>(match code {
                "exp({0})" => r::exp,
                "exp2({0})" => r::exp2,
                "expm1({0})" => r::expm1,
                "log({0})" => r::log,
                "log2({0})" => r::log2,
                "log10({0})" => r::log10,
                "log1p({0})" => r::log1p,
                "sqrt({0})" => r::sqrt,
                "rsqrt({0})" => r::rsqrt,
                RECIP => r::recip,
                "sin({0})" => r::sin,
                "cos({0})" => r::cos,
                "tan({0})" => r::tan,
                "asin({0})" => r::asin,
                "acos({0})" => r::acos,
                "atan({0})" => r::atan,
                "sinh({0})" => r::sinh,
                "cosh({0})" => r::cosh,
                "tanh({0})" => r::tanh,
                "asinh({0})" => r::asinh,
                "acosh({0})" => r::acosh,
                "atanh({0})" => r::atanh,
                "(1 / (1 + exp(-{0})))" => r::sigmoid,
                "erf({0})" => r::erf,
                "erfc({0})" => r::erfc,
                "erfcx({0})" => r::erfcx,
                "erfinv({0})" => r::erfinv,
                "lgamma({0})" => r::lgamma,
                "digamma({0})" => r::digamma,
                "cyl_bessel_i0({0})" => r::i0,
                "cyl_bessel_i1({0})" => r::i1,
                NEG => r::neg,
                "abs({0})" => r::abs,
                "({0} * {0})" => r::square,
                "floor({0})" => r::floor,
                "ceil({0})" => r::ceil,
                "rint({0})" => r::round,
                _ => return None,
            }))
        }
        fn $binary(code: &str) -> Option<Binary> {
            use $m::raw as r;
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
                    return Some(Binary { vv: erase2::<$t>($m::raw::$vv), vs: Some(vs), sv: Some(sv) });
                }};
            }
            Some(Binary::plain(erase2::<$t>(match code {
                ADD => entry!(add, add_scalar, scalar_add),
                SUB => entry!(sub, sub_scalar, scalar_sub),
                MUL => entry!(mul, mul_scalar, scalar_mul),
                "({0} / {1})" => entry!(div, div_scalar, scalar_div),
                "fmin_nan({0}, {1})" => entry!(min, min_scalar, scalar_min),
                "fmax_nan({0}, {1})" => entry!(max, max_scalar, scalar_max),
                POW => r::pow,
                "fmin({0}, {1})" => r::fmin,
                "fmax({0}, {1})" => r::fmax,
                "copysign({0}, {1})" => r::copysign,
                "atan2({0}, {1})" => r::atan2,
                "hypot({0}, {1})" => r::hypot,
                "fmod({0}, {1})" => r::fmod,
                "py_rem({0}, {1})" => r::rem,
                "floor_divide({0}, {1})" => r::floor_divide,
                "polygamma({0}, {1})" => r::polygamma,
                _ => return None,
            })))
        }
    };
}
float_loops!(unary_f32, binary_f32, f32s, f32);
float_loops!(unary_f64, binary_f64, f64s, f64);

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

/// Sign of a number: -1, 0 or 1.
const SIGN: &str = "({0} > 0 ? 1 : ({0} < 0 ? -1 : ({0} == 0 ? 0 : {0})))";

macro_rules! int_loops {
    ($unary:ident, $binary:ident, $t:ty) => {
        #[allow(unused_comparisons)]
        fn $unary(code: &str) -> Option<F1> {
            plain1!(abs, $t, $t, |a| if a < 0 { a.wrapping_neg() } else { a });
            plain1!(sign, $t, $t, |a| (a > 0) as $t - (a < 0) as $t);
            plain1!(neg, $t, $t, |a| a.wrapping_neg());
            Some(match code {
                "abs({0})" => abs,
                SIGN => sign,
                NEG => neg,
                _ => return None,
            })
        }
        #[allow(unused_comparisons)]
        fn $binary(code: &str) -> Option<F2> {
            plain2!(add, $t, $t, |a, b| a.wrapping_add(b));
            plain2!(sub, $t, $t, |a, b| a.wrapping_sub(b));
            plain2!(mul, $t, $t, |a, b| a.wrapping_mul(b));
            plain2!(min, $t, $t, |a, b| a.min(b));
            plain2!(max, $t, $t, |a, b| a.max(b));
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
            plain2!(fmod, $t, $t, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) });
            plain2!(rem, $t, $t, |a, b| {
                let r = if b == 0 { 0 } else { a.wrapping_rem(b) };
                if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
            });
            plain2!(floor_divide, $t, $t, |a, b| {
                let q = if b == 0 { 0 } else { a.wrapping_div(b) };
                let is_above = b != 0 && (a < 0) != (b < 0) && a.wrapping_rem(b) != 0;
                q.wrapping_sub(is_above as $t)
            });
            plain2!(pow, $t, $t, |a, b| match b as i128 {
                b if b >= 0 => a.wrapping_pow(b.min(u32::MAX as i128) as u32),
                _ if a == 1 => 1,
                b if a as i128 == -1 =>
                    if b % 2 == 0 {
                        1
                    } else {
                        a
                    },
                _ => 0,
            });
            Some(match code {
                ADD => add,
                SUB => sub,
                MUL => mul,
                "({0} & {1})" => and,
                "({0} | {1})" => or,
                "({0} ^ {1})" => xor,
                "shl({0}, {1})" => shl,
                "shr({0}, {1})" => shr,
                "fmin_nan({0}, {1})" | "fmin({0}, {1})" => min,
                "fmax_nan({0}, {1})" | "fmax({0}, {1})" => max,
                "fmod({0}, {1})" => fmod,
                "py_rem({0}, {1})" => rem,
                "floor_divide({0}, {1})" => floor_divide,
                POW => pow,
                _ => return None,
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
        fn $compare(code: &str) -> Option<F2> {
            plain2!(eq, $t, u8, |a, b| (a == b) as u8);
            plain2!(ne, $t, u8, |a, b| (a != b) as u8);
            plain2!(lt, $t, u8, |a, b| (a < b) as u8);
            plain2!(le, $t, u8, |a, b| (a <= b) as u8);
            plain2!(gt, $t, u8, |a, b| (a > b) as u8);
            plain2!(ge, $t, u8, |a, b| (a >= b) as u8);
            Some(match code {
                EQUAL => eq,
                UNEQUAL => ne,
                "({0} < {1})" => lt,
                "({0} <= {1})" => le,
                "({0} > {1})" => gt,
                "({0} >= {1})" => ge,
                _ => return None,
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
        (Lane::F32, SIGN) => Some(sign_f32),
        (Lane::F32, "trunc({0})") => Some(trunc_f32),
        (Lane::F32, _) => unary_f32(code),
        (Lane::F64, SIGN) => Some(sign_f64),
        (Lane::F64, "trunc({0})") => Some(trunc_f64),
        (Lane::F64, _) => unary_f64(code),
        (Lane::I64, _) => unary_i64(code),
        (Lane::I32, _) => unary_i32(code),
        (Lane::U32, _) => unary_u32(code),
        (Lane::U64, _) => unary_u64(code),
        (Lane::I16, _) => unary_i16(code),
        (Lane::U16, _) => unary_u16(code),
        (Lane::U8, _) => unary_u8(code),
        (Lane::I8, _) => unary_i8(code),
        (Lane::Bool | Lane::Half | Lane::Quarter, _) => None,
    }
}

/// The loop of one operand whose result is a truth value.
pub fn test(code: &str, lane: Lane) -> Option<F1> {
    Some(match (lane, code) {
        (Lane::F32, "({0} != {0})") => is_nan_f32,
        (Lane::F32, "is_inf({0})") => is_inf_f32,
        (Lane::F32, "is_finite({0})") => is_finite_f32,
        (Lane::F32, "(!{0})") => not_f32,
        (Lane::F64, "({0} != {0})") => is_nan_f64,
        (Lane::F64, "is_inf({0})") => is_inf_f64,
        (Lane::F64, "is_finite({0})") => is_finite_f64,
        (Lane::F64, "(!{0})") => not_f64,
        (Lane::Bool | Lane::U8, "(!{0})") => not_u8,
        _ => return None,
    })
}

/// The loops of two operands whose result has their type.
pub fn binary(code: &str, lane: Lane) -> Option<Binary> {
    let f = match lane {
        Lane::F32 => return binary_f32(code),
        Lane::F64 => return binary_f64(code),
        Lane::I64 => binary_i64(code),
        Lane::I32 => binary_i32(code),
        Lane::U32 => binary_u32(code),
        Lane::U64 => binary_u64(code),
        Lane::I16 => binary_i16(code),
        Lane::U16 => binary_u16(code),
        Lane::U8 => binary_u8(code),
        Lane::I8 => binary_i8(code),
        // 0 and 1 as bytes: a product is "and", a sum "or".
        Lane::Bool => match code {
            MUL => binary_u8("({0} & {1})"),
            ADD => binary_u8("({0} | {1})"),
            "({0} & {1})" | "({0} | {1})" | "({0} ^ {1})" => binary_u8(code),
            "fmin_nan({0}, {1})" | "fmax_nan({0}, {1})" => binary_u8(code),
            _ => None,
        },
        Lane::Half | Lane::Quarter => None,
    };
    f.map(Binary::plain)
}

/// The loop of a comparison.
pub fn compare(code: &str, lane: Lane) -> Option<F2> {
    match lane {
        Lane::F32 => compare_f32(code),
        Lane::F64 => compare_f64(code),
        Lane::I64 => compare_i64(code),
        Lane::I32 => compare_i32(code),
        Lane::U32 => compare_u32(code),
        Lane::U64 => compare_u64(code),
        Lane::I16 => compare_i16(code),
        Lane::U16 => compare_u16(code),
        Lane::U8 | Lane::Bool => compare_u8(code),
        Lane::I8 => compare_i8(code),
        Lane::Half | Lane::Quarter => None,
    }
}

/// What a float function is on integers.
pub enum Whole {
    /// The operand.
    Same,
    /// The comparison of it with itself.
    Compared(&'static str),
    /// Whether it is 0.
    IsZero,
}
impl Whole {
    /// By the text.
    pub fn of(code: &str) -> Option<Whole> {
        Some(match code {
            "floor({0})" | "ceil({0})" | "rint({0})" | "trunc({0})" => Whole::Same,
            "is_finite({0})" => Whole::Compared(EQUAL),
            "is_inf({0})" => Whole::Compared(UNEQUAL),
            "(!{0})" => Whole::IsZero,
            _ => return None,
        })
    }
}

/// The text of an operation that [`super::peephole`] joins with others; empty for other ones.
pub fn simple(code: &str) -> &'static str {
    [ADD, SUB, MUL].into_iter().find(|c| *c == code).unwrap_or("")
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
