//! Elementwise functions and reductions over slices of floats; the same file serves both widths,
//! `T` and its vectors `V` being named by the module around it.
//!
//! `max` and `min` give NaN when an operand is NaN. Slices of different lengths are a panic that
//! names both.

#![allow(unsafe_code)]

use super::super::dispatch;
use super::super::loops::{self, Op1, Op2};
use super::super::math::{self, Real};
use super::super::simd::{Isa, Vector};
use super::super::{inverse, special};
use super::{T, V, double1, double2};

pub use super::super::loops::Compare;

#[track_caller]
fn check(x: usize, y: usize) {
    assert!(x == y, "slices of equal length expected, got {x} and {y}");
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $op:ident |$v:ident| $f:expr;)*) => {
        $(
            pub(crate) struct $op;
            impl<W: Vector<E = T>> Op1<W> for $op {
                #[inline(always)]
                fn apply($v: W) -> W {
                    $f
                }
            }
            $(#[$doc])*
            pub fn $name(x: &[T], y: &mut [T]) {
                check(x.len(), y.len());
                // SAFETY: both slices have the length given.
                unsafe { raw::$name(x.as_ptr(), y.as_mut_ptr(), x.len()) }
            }
        )*
        /// Functions over their input.
        pub mod inplace {
            use super::T;
            $(
                $(#[$doc])*
                pub fn $name(x: &mut [T]) {
                    let p = x.as_mut_ptr();
                    // SAFETY: equal pointers are allowed.
                    unsafe { super::raw::$name(p, p, x.len()) }
                }
            )*
        }
        mod raw_unary {
            use super::*;
            $(
                dispatch! {
                    $(#[$doc])*
                    /// # Safety
                    /// `n` elements behind each pointer; the pointers equal or the ranges apart.
                    pub unsafe fn $name(x: *const T, y: *mut T, n: usize) {
                        I => loops::map1::<V<I>, $op>(x, y, n)
                    }
                }
            )*
        }
    };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $scalar:ident $flipped:ident $op:ident |$a:ident, $b:ident| $f:expr;)*) => {
        $(
            pub(crate) struct $op;
            impl<W: Vector<E = T>> Op2<W> for $op {
                #[inline(always)]
                fn apply($a: W, $b: W) -> W {
                    $f
                }
            }
            $(#[$doc])*
            pub fn $name(a: &[T], b: &[T], y: &mut [T]) {
                check(a.len(), b.len());
                check(a.len(), y.len());
                // SAFETY: all slices have the length given.
                unsafe { raw::$name(a.as_ptr(), b.as_ptr(), y.as_mut_ptr(), a.len()) }
            }
        )*
        mod raw_binary {
            use super::*;
            $(
                dispatch! {
                    $(#[$doc])*
                    /// # Safety
                    /// `n` elements behind each pointer; `y` equal to an operand or apart.
                    pub unsafe fn $name(a: *const T, b: *const T, y: *mut T, n: usize) {
                        I => loops::map2::<V<I>, $op>(a, b, y, n)
                    }
                }
                dispatch! {
                    $(#[$doc])*
                    /// The second operand is one number.
                    /// # Safety
                    /// `n` elements behind each pointer; `y` equal to `a` or apart.
                    pub unsafe fn $scalar(a: *const T, b: T, y: *mut T, n: usize) {
                        I => loops::map2_scalar::<V<I>, $op, false>(a, b, y, n)
                    }
                }
                dispatch! {
                    $(#[$doc])*
                    /// The first operand is one number: `b op a[i]`.
                    /// # Safety
                    /// `n` elements behind each pointer; `y` equal to `a` or apart.
                    pub unsafe fn $flipped(a: *const T, b: T, y: *mut T, n: usize) {
                        I => loops::map2_scalar::<V<I>, $op, true>(a, b, y, n)
                    }
                }
            )*
        }
    };
}

unary! {
    /// `e^x`.
    exp Exp |v| math::exp(v);
    /// `2^x`.
    exp2 Exp2 |v| math::exp2(v);
    /// `e^x - 1`.
    expm1 Expm1 |v| math::expm1(v);
    /// Natural logarithm.
    log Log |v| math::log(v);
    /// Logarithm to base 2.
    log2 Log2 |v| math::log2(v);
    /// `ln(1 + x)`.
    log1p Log1p |v| math::log1p(v);
    /// Square root.
    sqrt Sqrt |v| v.sqrt();
    /// `1 / sqrt(x)`.
    rsqrt Rsqrt |v| math::rsqrt(v);
    /// `1 / x`.
    recip Recip |v| math::recip(v);
    /// Sine.
    sin Sin |v| <T as Real>::sin(v);
    /// Cosine.
    cos Cos |v| <T as Real>::cos(v);
    /// Tangent.
    tan Tan |v| <T as Real>::tan(v);
    /// Hyperbolic tangent.
    tanh Tanh |v| <T as Real>::tanh(v);
    /// `1 / (1 + e^-x)`.
    sigmoid Sigmoid |v| math::sigmoid(v);
    /// Error function.
    erf Erf |v| <T as Real>::erf(v);
    /// `1 - erf(x)`.
    erfc Erfc |v| <T as Real>::erfc(v);
    /// `x sigmoid(x)`.
    silu Silu |v| math::silu(v);
    /// Derivative of `silu`.
    silu_grad SiluGrad |v| math::silu_grad(v);
    /// `x` times the normal distribution function, by `erf`.
    gelu Gelu |v| math::gelu(v);
    /// Derivative of `gelu`.
    gelu_grad GeluGrad |v| math::gelu_grad(v);
    /// The tanh form of `gelu`.
    gelu_tanh GeluTanh |v| math::gelu_tanh(v);
    /// Derivative of `gelu_tanh`.
    gelu_tanh_grad GeluTanhGrad |v| math::gelu_tanh_grad(v);
    /// `max(x, 0)`, NaN kept.
    relu Relu |v| W::zero().max(v);
    /// Negation.
    neg Neg |v| -v;
    /// Absolute value.
    abs Abs |v| v.abs();
    /// `x * x`.
    square Square |v| v * v;
    /// To the nearest integer, ties to even.
    round Round |v| v.round();
    /// To the integer below.
    floor Floor |v| v.floor();
    /// To the integer above.
    ceil Ceil |v| -((-v).floor());
    /// Logarithm to base 10.
    log10 Log10 |v| inverse::log10(v);
    /// Hyperbolic sine.
    sinh Sinh |v| inverse::sinh(v);
    /// Hyperbolic cosine.
    cosh Cosh |v| inverse::cosh(v);
    /// Inverse sine.
    asin Asin |v| inverse::asin(v);
    /// Inverse cosine.
    acos Acos |v| inverse::acos(v);
    /// Inverse tangent.
    atan Atan |v| inverse::atan(v);
    /// Inverse hyperbolic sine.
    asinh Asinh |v| inverse::asinh(v);
    /// Inverse hyperbolic cosine.
    acosh Acosh |v| inverse::acosh(v);
    /// Inverse hyperbolic tangent.
    atanh Atanh |v| inverse::atanh(v);
}

/// Functions of one or two operands that are computed in `f64`, and functions of two operands without a form for
/// one number.
macro_rules! others {
    ($($(#[$doc:meta])* $name:ident $op:ident $trait:ident $width:ty, $map:ident, |$($v:ident),*| $f:expr;)*) => {
        $(
            struct $op;
            impl<W: Vector<E = $width>> $trait<W> for $op {
                #[inline(always)]
                fn apply($($v: W),*) -> W {
                    $f
                }
            }
            $(#[$doc])*
            pub fn $name($($v: &[T],)* y: &mut [T]) {
                $( check($v.len(), y.len()); )*
                // SAFETY: all slices have the length given.
                unsafe { raw::$name($($v.as_ptr(),)* y.as_mut_ptr(), y.len()) }
            }
        )*
        mod raw_others {
            use super::*;
            $(
                dispatch! {
                    $(#[$doc])*
                    /// # Safety
                    /// `n` elements behind each pointer; `y` equal to an operand or apart.
                    pub unsafe fn $name($($v: *const T,)* y: *mut T, n: usize) {
                        I => $map::<I, $op>($($v,)* y, n)
                    }
                }
            )*
        }
    };
}
/// Functions of two operands in their own width.
#[inline(always)]
unsafe fn own2<I: Isa, F: Op2<V<I>>>(a: *const T, b: *const T, y: *mut T, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { loops::map2::<V<I>, F>(a, b, y, n) }
}

others! {
    /// The angle of the point `(b, a)`.
    atan2 Atan2 Op2 T, own2, |a, b| inverse::atan2(a, b);
    /// The magnitude of `a` with the sign of `b`.
    copysign Copysign Op2 T, own2, |a, b| a.copysign(b);
    /// The larger; a NaN is ignored where the other is a number.
    fmax Fmax Op2 T, own2, |a, b| W::select(b.eq(b), a.max(b), a);
    /// The smaller; a NaN is ignored where the other is a number.
    fmin Fmin Op2 T, own2, |a, b| W::select(b.eq(b), a.min(b), a);
    /// `sqrt(a² + b²)`.
    hypot Hypot Op2 f64, double2, |a, b| special::hypot::<W, { size_of::<T>() == 4 }>(a, b);
    /// The remainder with the sign of the dividend.
    fmod Fmod Op2 f64, double2, |a, b| special::fmod(a, b);
    /// The remainder with the sign of the divisor.
    rem Rem Op2 f64, double2, |a, b| special::rem(a, b);
    /// The quotient rounded down.
    floor_divide FloorDivide Op2 f64, double2, |a, b| special::floor_divide(a, b);
    /// The derivative of order `a` of the digamma function at `b`.
    polygamma Polygamma Op2 f64, double2, |a, b| special::polygamma(a, b);
    /// The logarithm of the absolute value of the gamma function.
    lgamma Lgamma Op1 f64, double1, |x| special::lgamma(x);
    /// The slope of the logarithm of the gamma function.
    digamma Digamma Op1 f64, double1, |x| special::digamma(x);
    /// The inverse of the error function.
    erfinv Erfinv Op1 f64, double1, |x| special::erfinv::<W, { size_of::<T>() == 4 }>(x);
    /// `exp(x²) erfc(x)`.
    erfcx Erfcx Op1 f64, double1, |x| special::erfcx(x);
    /// The modified Bessel function of the first kind of order 0.
    i0 I0 Op1 f64, double1, |x| special::i0(x);
    /// The modified Bessel function of the first kind of order 1.
    i1 I1 Op1 f64, double1, |x| special::i1(x);
}

binary! {
    /// `a + b`.
    add add_scalar scalar_add Add |a, b| a + b;
    /// `a - b`.
    sub sub_scalar scalar_sub Sub |a, b| a - b;
    /// `a * b`.
    mul mul_scalar scalar_mul Mul |a, b| a * b;
    /// `a / b`.
    div div_scalar scalar_div Div |a, b| a / b;
    /// The smaller.
    min min_scalar scalar_min Min |a, b| a.minimum(b);
    /// The larger.
    max max_scalar scalar_max Max |a, b| a.maximum(b);
}

/// Functions on pointers: tables of functions, operands that are also outputs, one operand a
/// number.
pub mod raw {
    pub use super::raw_binary::*;
    pub use super::raw_other::*;
    pub use super::raw_others::*;
    pub use super::raw_unary::*;
}

mod raw_other {
    use super::*;

    /// `a` to the power `b`.
    /// # Safety
    /// `n` elements behind each pointer; `y` equal to an operand or apart.
    pub unsafe fn pow(a: *const T, b: *const T, y: *mut T, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { super::super::pow_raw(a, b, y, n) }
    }
    dispatch! {
        /// `a * b + c`, rounded once where the machine can.
        /// # Safety
        /// `n` elements behind each pointer; `y` equal to an operand or apart.
        pub unsafe fn fma(a: *const T, b: *const T, c: *const T, y: *mut T, n: usize) {
            I => loops::fma::<V<I>>(a, b, c, y, n)
        }
    }
    dispatch! {
        /// `y += s x`.
        /// # Safety
        /// `n` elements behind each pointer, apart.
        pub unsafe fn axpy(s: T, x: *const T, y: *mut T, n: usize) {
            I => loops::axpy::<V<I>>(s, x, y, n)
        }
    }
    dispatch! {
        /// A comparison as 0 or 1.
        /// # Safety
        /// `n` elements behind each pointer; `y` apart.
        pub unsafe fn compare(op: Compare, a: *const T, b: *const T, y: *mut u8, n: usize) {
            I => match op {
                Compare::Eq => loops::compare::<V<I>>(Compare::Eq, a, b, y, n),
                Compare::Ne => loops::compare::<V<I>>(Compare::Ne, a, b, y, n),
                Compare::Lt => loops::compare::<V<I>>(Compare::Lt, a, b, y, n),
                Compare::Le => loops::compare::<V<I>>(Compare::Le, a, b, y, n),
                Compare::Gt => loops::compare::<V<I>>(Compare::Gt, a, b, y, n),
                Compare::Ge => loops::compare::<V<I>>(Compare::Ge, a, b, y, n),
            }
        }
    }
    dispatch! {
        /// `a` where `c` is not 0, else `b`.
        /// # Safety
        /// `n` elements behind each pointer; `y` equal to an operand or apart.
        pub unsafe fn select(c: *const u8, a: *const T, b: *const T, y: *mut T, n: usize) {
            I => { let _ = std::marker::PhantomData::<I>; loops::select(c, a, b, y, n) }
        }
    }
    dispatch! {
        /// The sum, in an order that depends on `n` and the instruction set alone.
        /// # Safety
        /// `n` elements behind the pointer.
        pub unsafe fn sum(x: *const T, n: usize) -> T { I => loops::sum::<V<I>>(x, n) }
    }
    dispatch! {
        /// The sum of products, ordered like `sum`.
        /// # Safety
        /// `n` elements behind each pointer.
        pub unsafe fn dot(a: *const T, b: *const T, n: usize) -> T { I => loops::dot::<V<I>>(a, b, n) }
    }
    dispatch! {
        /// The largest, NaN if any is.
        /// # Safety
        /// `n` elements behind the pointer.
        pub unsafe fn reduce_max(x: *const T, n: usize) -> T {
            I => loops::extreme::<V<I>, Max, true>(<T>::NEG_INFINITY, x, n)
        }
    }
    dispatch! {
        /// The smallest, NaN if any is.
        /// # Safety
        /// `n` elements behind the pointer.
        pub unsafe fn reduce_min(x: *const T, n: usize) -> T {
            I => loops::extreme::<V<I>, Min, false>(<T>::INFINITY, x, n)
        }
    }
}

/// `a` to the power `b`.
pub fn pow(a: &[T], b: &[T], y: &mut [T]) {
    check(a.len(), b.len());
    check(a.len(), y.len());
    // SAFETY: all slices have the length given.
    unsafe { raw::pow(a.as_ptr(), b.as_ptr(), y.as_mut_ptr(), a.len()) }
}

/// `y = a * b + c`.
pub fn fma(a: &[T], b: &[T], c: &[T], y: &mut [T]) {
    check(a.len(), b.len());
    check(a.len(), c.len());
    check(a.len(), y.len());
    // SAFETY: all slices have the length given.
    unsafe { raw::fma(a.as_ptr(), b.as_ptr(), c.as_ptr(), y.as_mut_ptr(), a.len()) }
}

/// `y += s x`.
pub fn axpy(s: T, x: &[T], y: &mut [T]) {
    check(x.len(), y.len());
    // SAFETY: both slices have the length given.
    unsafe { raw::axpy(s, x.as_ptr(), y.as_mut_ptr(), x.len()) }
}

/// A comparison as 0 or 1.
pub fn compare(op: Compare, a: &[T], b: &[T], y: &mut [u8]) {
    check(a.len(), b.len());
    check(a.len(), y.len());
    // SAFETY: all slices have the length given.
    unsafe { raw::compare(op, a.as_ptr(), b.as_ptr(), y.as_mut_ptr(), a.len()) }
}

/// `a` where `c` is not 0, else `b`.
pub fn select(c: &[u8], a: &[T], b: &[T], y: &mut [T]) {
    check(c.len(), a.len());
    check(a.len(), b.len());
    check(a.len(), y.len());
    // SAFETY: all slices have the length given.
    unsafe { raw::select(c.as_ptr(), a.as_ptr(), b.as_ptr(), y.as_mut_ptr(), a.len()) }
}

/// The sum, pairwise; the order depends on the length and the instruction set alone.
pub fn sum(x: &[T]) -> T {
    // SAFETY: the slice has the length given.
    unsafe { raw::sum(x.as_ptr(), x.len()) }
}

/// The sum of products, ordered like [`sum`].
pub fn dot(a: &[T], b: &[T]) -> T {
    check(a.len(), b.len());
    // SAFETY: both slices have the length given.
    unsafe { raw::dot(a.as_ptr(), b.as_ptr(), a.len()) }
}

/// The largest element, NaN if any is; minus infinity for none.
pub fn reduce_max(x: &[T]) -> T {
    // SAFETY: the slice has the length given.
    unsafe { raw::reduce_max(x.as_ptr(), x.len()) }
}

/// The smallest element, NaN if any is; infinity for none.
pub fn reduce_min(x: &[T]) -> T {
    // SAFETY: the slice has the length given.
    unsafe { raw::reduce_min(x.as_ptr(), x.len()) }
}
