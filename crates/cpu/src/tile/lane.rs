//! Lanes: the element types that tiles are computed in, conversions between them, and `where`.
//!
//! Narrow floats (`bf16`, `f16` and those of 8 bits) are computed as `f32`; everything else as itself.

#![allow(unsafe_code)]

use crate::vmath::convert::Narrow;
use crate::vmath::{dispatch, ints};
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
pub(super) use plain1;
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
