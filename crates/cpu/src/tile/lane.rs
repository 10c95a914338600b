//! Lanes: the element types that tiles are computed in, conversions between them, and `where`.
//!
//! Narrow floats (`bf16`, `f16` and those of 8 bits) are computed as `f32`; everything else as itself.

#![allow(unsafe_code)]

use crate::vmath::convert::Narrow;
use crate::vmath::{dispatch, ints};
use ir::{DType, Element, bf16, f8e4m3, f8e5m2, f16};

/// Whether a build has an element type.
macro_rules! linked {
    ($what:expr) => {
        const { ir::is_linked($what) }
    };
}
pub(super) use linked;

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
        _I => crate::vmath::loops::select(c, a, b, y, n)
    }
}

dispatch! {
    unsafe fn select_pairs(c: *const u8, a: *const u8, b: *const u8, y: *mut u8, n: usize) {
        _I => crate::vmath::loops::select(c, a.cast::<u16>(), b.cast::<u16>(), y.cast::<u16>(), n)
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
        DType::BF16 if linked!("bf16") => from::<bf16>,
        DType::F8E4M3 if linked!("f8e4m3") => from::<f8e4m3>,
        DType::F8E5M2 if linked!("f8e5m2") => from::<f8e5m2>,
        DType::F16 if linked!("f16") => from::<f16>,
        other => ir::unlinked(other.name()),
    }
}

/// The rounding of `f32` to a stored narrow float.
pub fn narrow(dtype: DType) -> F1 {
    unsafe fn to<H: Narrow>(x: *const u8, y: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { H::narrow(x.cast(), y.cast(), n) }
    }
    match dtype {
        DType::BF16 if linked!("bf16") => to::<bf16>,
        DType::F8E4M3 if linked!("f8e4m3") => to::<f8e4m3>,
        DType::F8E5M2 if linked!("f8e5m2") => to::<f8e5m2>,
        DType::F16 if linked!("f16") => to::<f16>,
        other => ir::unlinked(other.name()),
    }
}

/// The rounding of `f32` to what a narrow float can hold.
pub fn round(dtype: DType) -> F1 {
    unsafe fn of<H: Narrow>(x: *const u8, y: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { H::round(x.cast(), y.cast(), n) }
    }
    match dtype {
        DType::BF16 => of::<bf16>,
        DType::F8E4M3 => of::<f8e4m3>,
        DType::F8E5M2 => of::<f8e5m2>,
        _ => of::<f16>,
    }
}

macro_rules! plain1 {
    ($name:ident, $t:ty, $u:ty, |$a:ident| $f:expr) => {
        dispatch! {
            unsafe fn $name(x: *const u8, y: *mut u8, n: usize) {
                _I => crate::vmath::loops::each1(x.cast::<$t>(), y.cast::<$u>(), n, |$a: $t| -> $u { $f })
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
plain1!(i32_to_f64, i32, f64, |a| a as f64);
plain1!(u8_to_f64, u8, f64, |a| a as f64);
plain1!(f64_to_i64, f64, i64, |a| a as i64);
plain1!(f64_to_i32, f64, i32, |a| a as i64 as i32);
plain1!(f32_to_i32, f32, i32, |a| a as i64 as i32);
plain1!(f32_to_u8, f32, u8, |a| low_byte(a) as u8);
plain1!(f32_to_i8, f32, i8, |a| low_byte(a) as i8);
plain1!(i8_to_f32, i8, f32, |a| a as f32);
plain1!(u8_to_i32, u8, i32, |a| a as i32);
plain1!(f64_to_bool, f64, u8, |a| (a != 0.0) as u8);
plain1!(i64_to_bool, i64, u8, |a| (a != 0) as u8);
plain1!(i32_to_bool, i32, u8, |a| (a != 0) as u8);

/// A number whose lowest byte is that of `a as i64`, in 32 bits: beyond them, the lowest byte of a `f32` is zero up to
/// where `i64` saturates.
#[inline(always)]
fn low_byte(a: f32) -> i32 {
    let inside = if a.abs() < i32::MAX as f32 { a } else { 0.0 };
    // SAFETY: the number is in range. (Conversions that saturate do not become vectors.)
    let low = unsafe { inside.to_int_unchecked::<i32>() };
    if a >= i64::MAX as f32 { -1 } else { low }
}

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
            F32 if linked!("f32") => any::<A, f32>,
            F64 if linked!("f64") => any::<A, f64>,
            I64 if linked!("i64") => any::<A, i64>,
            I32 if linked!("i32") => any::<A, i32>,
            U32 if linked!("u32") => any::<A, u32>,
            U64 if linked!("u64") => any::<A, u64>,
            I16 if linked!("i16") => any::<A, i16>,
            U16 if linked!("u16") => any::<A, u16>,
            U8 if linked!("u8") => any::<A, u8>,
            I8 if linked!("i8") => any::<A, i8>,
            Bool | Half | Quarter if linked!("bool") => any::<A, bool>,
            _ => ir::unlinked("a conversion"),
        }
    }
    Some(match (from, to) {
        _ if from == to => return None,
        (F32, F64) if linked!("f32") && linked!("f64") => f32_to_f64,
        (F64, F32) if linked!("f64") && linked!("f32") => f64_to_f32,
        (I64, F32) if linked!("i64") && linked!("f32") => i64_to_f32,
        (I32, F32) if linked!("i32") && linked!("f32") => i32_to_f32,
        (U32, F32) if linked!("u32") && linked!("f32") => u32_to_f32,
        (U32, I64) if linked!("u32") && linked!("i64") => u32_to_i64,
        (U8 | Bool, F32) if linked!("u8") && linked!("f32") => u8_to_f32,
        (F32, Bool) if linked!("f32") && linked!("bool") => f32_to_bool,
        (F32, I64) if linked!("f32") && linked!("i64") => f32_to_i64,
        (U8 | Bool, I64) if linked!("u8") && linked!("i64") => u8_to_i64,
        (I32, I64) if linked!("i32") && linked!("i64") => i32_to_i64,
        (I64, I32) if linked!("i64") && linked!("i32") => i64_to_i32,
        (I64, F64) if linked!("i64") && linked!("f64") => i64_to_f64,
        (I32, F64) if linked!("i32") && linked!("f64") => i32_to_f64,
        (U8 | Bool, F64) if linked!("u8") && linked!("f64") => u8_to_f64,
        (F64, I64) if linked!("f64") && linked!("i64") => f64_to_i64,
        (F64, I32) if linked!("f64") && linked!("i32") => f64_to_i32,
        (F32, I32) if linked!("f32") && linked!("i32") => f32_to_i32,
        (F32, U8) if linked!("f32") && linked!("u8") => f32_to_u8,
        (F32, I8) if linked!("f32") && linked!("i8") => f32_to_i8,
        (I8, F32) if linked!("i8") && linked!("f32") => i8_to_f32,
        (U8 | Bool, I32) if linked!("u8") && linked!("i32") => u8_to_i32,
        (F64, Bool) if linked!("f64") && linked!("bool") => f64_to_bool,
        (I64, Bool) if linked!("i64") && linked!("bool") => i64_to_bool,
        (I32, Bool) if linked!("i32") && linked!("bool") => i32_to_bool,
        (F32, _) if linked!("f32") => to_any::<f32>(to),
        (F64, _) if linked!("f64") => to_any::<f64>(to),
        (I64, _) if linked!("i64") => to_any::<i64>(to),
        (I32, _) if linked!("i32") => to_any::<i32>(to),
        (U32, _) if linked!("u32") => to_any::<u32>(to),
        (U64, _) if linked!("u64") => to_any::<u64>(to),
        (I16, _) if linked!("i16") => to_any::<i16>(to),
        (U16, _) if linked!("u16") => to_any::<u16>(to),
        (U8, _) if linked!("u8") => to_any::<u8>(to),
        (I8, _) if linked!("i8") => to_any::<i8>(to),
        (Bool | Half | Quarter, _) if linked!("bool") => to_any::<bool>(to),
        _ => ir::unlinked("a conversion"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_floats_are_those_of_the_definition() {
        let some = [0.0f32, -0.5, 1.99, -1.99, 127.0, 128.0, 255.0, 300.7, -129.0, 2e9, -2e9, 2147483648.0, 3e9, -3e9];
        let more = [1e18, -1e18, 9.3e18, -9.3e18, 1e30, -1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX];
        let x: Vec<f32> = some.into_iter().chain(more).chain((0..40).map(|i| i as f32 * 7.3 - 99.0)).collect();
        let convert = |to: Lane| {
            let mut y = vec![0u8; x.len()];
            // SAFETY: as many elements on both sides.
            unsafe { cast(Lane::F32, to).unwrap()(x.as_ptr().cast(), y.as_mut_ptr(), x.len()) };
            y
        };
        let unsigned: Vec<u8> = x.iter().map(|&a| u8::from_f64(a as f64)).collect();
        let signed: Vec<u8> = x.iter().map(|&a| i8::from_f64(a as f64) as u8).collect();
        assert_eq!(convert(Lane::U8), unsigned);
        assert_eq!(convert(Lane::I8), signed);
    }
}
