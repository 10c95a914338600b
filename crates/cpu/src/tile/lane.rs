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
/// `a as i64`, in a way that becomes vectors: conversions that saturate do not.
macro_rules! whole {
    ($name:ident, $t:ty) => {
        #[inline(always)]
        fn $name(a: $t) -> i64 {
            const END: $t = i64::MAX as $t;
            let inside = if a.abs() < END { a } else { 0.0 };
            // SAFETY: the number is in range.
            let i = unsafe { inside.to_int_unchecked::<i64>() };
            if a >= END {
                i64::MAX
            } else if a <= -END {
                i64::MIN
            } else {
                i
            }
        }
    };
}
whole!(whole_f32, f32);
whole!(whole_f64, f64);

/// A number whose lowest byte is that of `a as i64`, in 32 bits: beyond them, the lowest byte of a `f32` is zero up to
/// where `i64` saturates.
#[inline(always)]
fn low_byte(a: f32) -> i32 {
    let inside = if a.abs() < i32::MAX as f32 { a } else { 0.0 };
    // SAFETY: the number is in range.
    let low = unsafe { inside.to_int_unchecked::<i32>() };
    if a >= i64::MAX as f32 { -1 } else { low }
}

/// Conversions from a type, by what they are to. Of integers, the sign of the result makes no difference: they wrap
/// around.
macro_rules! casts {
    ($name:ident, $t:ty, |$a:ident| $byte:expr, $whole:expr, $zero:expr) => {
        fn $name(to: Lane) -> Option<F1> {
            plain1!(single, $t, f32, |a| a as f32);
            plain1!(double, $t, f64, |a| a as f64);
            plain1!(bytes, $t, u8, |$a| $byte as u8);
            plain1!(pairs, $t, u16, |$a| $whole as u16);
            plain1!(fours, $t, u32, |$a| $whole as u32);
            plain1!(eights, $t, u64, |$a| $whole as u64);
            plain1!(truth, $t, u8, |a| (a != $zero) as u8);
            Some(match to {
                Lane::F32 if linked!("f32") => single,
                Lane::F64 if linked!("f64") => double,
                Lane::I64 if linked!("i64") => eights,
                Lane::U64 if linked!("u64") => eights,
                Lane::I32 if linked!("i32") => fours,
                Lane::U32 if linked!("u32") => fours,
                Lane::I16 if linked!("i16") => pairs,
                Lane::U16 if linked!("u16") => pairs,
                Lane::I8 if linked!("i8") => bytes,
                Lane::U8 if linked!("u8") => bytes,
                Lane::Bool if linked!("bool") => truth,
                _ => return None,
            })
        }
    };
    ($($name:ident $t:ty;)*) => {
        $(casts!($name, $t, |a| a, a, 0);)*
    };
}
casts!(from_f32, f32, |a| low_byte(a), whole_f32(a), 0.0);
casts!(from_f64, f64, |a| whole_f64(a), whole_f64(a), 0.0);
casts! {
    from_i64 i64;
    from_u64 u64;
    from_i32 i32;
    from_u32 u32;
    from_i16 i16;
    from_u16 u16;
    from_i8 i8;
    from_u8 u8;
}

/// Floats as `u64`, which has numbers that `i64` does not.
unsafe fn floats_to_u64<A: Element>(x: *const u8, y: *mut u8, n: usize) {
    let (x, y) = (x.cast::<A::Stored>(), y.cast::<u64>());
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe { *y.add(i) = <u64 as Element>::from_f64(A::load(*x.add(i)).to_f64()) };
    }
}

/// The conversion between two lanes; `None` where they are the same.
pub fn cast(from: Lane, to: Lane) -> Option<F1> {
    let found = match from {
        _ if from == to => return None,
        Lane::F32 if to == Lane::U64 && linked!("f32") => Some(floats_to_u64::<f32> as F1),
        Lane::F64 if to == Lane::U64 && linked!("f64") => Some(floats_to_u64::<f64> as F1),
        Lane::F32 if linked!("f32") => from_f32(to),
        Lane::F64 if linked!("f64") => from_f64(to),
        Lane::I64 if linked!("i64") => from_i64(to),
        Lane::U64 if linked!("u64") => from_u64(to),
        Lane::I32 if linked!("i32") => from_i32(to),
        Lane::U32 if linked!("u32") => from_u32(to),
        Lane::I16 if linked!("i16") => from_i16(to),
        Lane::U16 if linked!("u16") => from_u16(to),
        Lane::I8 if linked!("i8") => from_i8(to),
        // A boolean is a byte, 0 or 1.
        Lane::U8 if linked!("u8") => from_u8(to),
        Lane::Bool if linked!("bool") => from_u8(to),
        _ => None,
    };
    Some(found.unwrap_or_else(|| ir::unlinked("a conversion")))
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

    /// Every conversion is that of the elements, at the ends of each type and around them.
    #[test]
    fn conversions_are_those_of_elements() {
        use Lane::*;
        let lanes = [F32, F64, I64, U64, I32, U32, I16, U16, I8, U8, Bool];
        let powers = (0..=64).map(|p| 2f64.powi(p));
        let around = powers.flat_map(|x| [x, -x, x - 1.0, 1.0 - x, x + 1.5, x * 1.37, -x * 1.37]);
        let floats: Vec<f64> = around.chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.3, -0.3, 0.0]).collect();
        for from in lanes {
            let x = ir::Literal::from_f64(from.dtype(), ir::Shape::new(&[floats.len()]), &floats);
            for to in lanes.into_iter().filter(|&to| to != from) {
                let want = x.cast(to.dtype());
                let mut got = vec![0u8; want.bytes().len()];
                // SAFETY: as many elements on both sides.
                unsafe { cast(from, to).unwrap()(x.bytes().as_ptr(), got.as_mut_ptr(), floats.len()) };
                assert!(got == want.bytes(), "{from:?} to {to:?}");
            }
        }
    }
}
