//! Vectors of floats, one type an instruction set, behind one trait.
//!
//! Every function here is `#[inline(always)]` and carries no target feature of its own: it
//! compiles to single instructions once it is inlined into one of the clones that the
//! [`dispatch!`](super::dispatch) macro makes. Kernels are written once against [`Isa`] and
//! [`Vector`].
//!
//! [`Portable`] is arrays and plain loops, in shapes that compilers turn into vectors.

#![allow(unsafe_code)]

use std::ops::{Add, Div, Mul, Neg, Sub};

/// An instruction set: the vector types that go together. `S` has twice as many lanes as `D`.
pub trait Isa: Copy + 'static {
    /// Vectors of `f32`.
    type S: Vector<E = f32>;
    /// Vectors of `f64`.
    type D: Vector<E = f64>;

    /// The lower and the upper half of a vector as doubles.
    fn widen(v: Self::S) -> (Self::D, Self::D);
    /// The inverse of [`Isa::widen`], rounding to nearest.
    fn narrow(low: Self::D, high: Self::D) -> Self::S;
}

/// A float type that vectors are made of.
pub trait Scalar:
    Copy
    + PartialOrd
    + Default
    + Send
    + Sync
    + std::fmt::Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + 'static
{
    /// Nearest value of this type.
    fn from_f64(x: f64) -> Self;
    /// The same value as a double.
    fn to_f64(self) -> f64;
}

impl Scalar for f32 {
    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
}

impl Scalar for f64 {
    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}

/// A vector of floats. Comparisons give masks; `min` and `max` return their second operand when
/// either is NaN (as x86 does), see [`Vector::maximum`] for the propagating kind.
///
/// A value of a wide type may only be made on a machine that has the instructions; the
/// [`dispatch!`](super::dispatch) macro sees to that.
pub trait Vector:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The lanes' type.
    type E: super::math::Real;
    /// One boolean a lane.
    type M: Copy;
    /// The number of lanes.
    const N: usize;
    /// Whether [`Vector::fma`] rounds once.
    const FUSED: bool;

    /// All lanes equal.
    fn splat(x: Self::E) -> Self;

    /// Lanes from memory.
    ///
    /// # Safety
    /// `p` must be valid for reading `N` elements.
    unsafe fn load(p: *const Self::E) -> Self;

    /// Lanes to memory.
    ///
    /// # Safety
    /// `p` must be valid for writing `N` elements.
    unsafe fn store(self, p: *mut Self::E);

    /// The first `n <= N` lanes from memory, the others zero.
    ///
    /// # Safety
    /// `p` must be valid for reading `n` elements.
    unsafe fn load_n(p: *const Self::E, n: usize) -> Self;

    /// The first `n <= N` lanes to memory.
    ///
    /// # Safety
    /// `p` must be valid for writing `n` elements.
    unsafe fn store_n(self, p: *mut Self::E, n: usize);

    /// `self * b + c`, rounded once where [`Vector::FUSED`].
    fn fma(self, b: Self, c: Self) -> Self;
    /// The smaller; the second when either is NaN.
    fn min(self, b: Self) -> Self;
    /// The larger; the second when either is NaN.
    fn max(self, b: Self) -> Self;
    /// Without sign.
    fn abs(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// To the nearest integer, ties to even.
    fn round(self) -> Self;
    /// To the integer below.
    fn floor(self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// `self < b`.
    fn lt(self, b: Self) -> Self::M;
    /// `self <= b`.
    fn le(self, b: Self) -> Self::M;
    /// `self == b`.
    fn eq(self, b: Self) -> Self::M;
    /// Lanes of `a` where the mask holds, else of `b`.
    fn select(m: Self::M, a: Self, b: Self) -> Self;
    /// Both.
    fn both(a: Self::M, b: Self::M) -> Self::M;
    /// Bit `i` of the result is lane `i` of the mask.
    fn bits(m: Self::M) -> u32;
    /// The low 16 bits as bytes 0 or 1.
    #[inline(always)]
    fn bytes(bits: u32) -> [u8; 16] {
        // Eight bits at a time: a multiplication spreads them, one a byte.
        let spread = |b: u32| {
            ((b as u64 & 0x7f).wrapping_mul(0x0002_0408_1020_4081) & 0x0101_0101_0101_0101) | ((b as u64 & 0x80) << 49)
        };
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&spread(bits & 0xff).to_le_bytes());
        bytes[8..].copy_from_slice(&spread(bits >> 8 & 0xff).to_le_bytes());
        bytes
    }
    /// `self` times two to the power `n`, an integer within ±2000; results overflow to infinity
    /// and underflow gradually.
    fn ldexp(self, n: Self) -> Self;
    /// For normal positive lanes: `(m, e)` with `self == m * 2^e` and `low <= m < 2 * low`.
    fn split(self, low: Self::E) -> (Self, Self);

    /// All lanes equal to a constant.
    #[inline(always)]
    fn c(x: f64) -> Self {
        Self::splat(Self::E::from_f64(x))
    }
    /// All lanes zero.
    #[inline(always)]
    fn zero() -> Self {
        Self::c(0.0)
    }
    /// The larger, NaN if either is.
    #[inline(always)]
    fn maximum(self, b: Self) -> Self {
        Self::select(self.eq(self), self.max(b), self)
    }
    /// The smaller, NaN if either is.
    #[inline(always)]
    fn minimum(self, b: Self) -> Self {
        Self::select(self.eq(self), self.min(b), self)
    }
    /// The lanes as an array (the first `N` entries).
    #[inline(always)]
    fn lanes(self) -> [Self::E; 16] {
        let mut a = [Self::E::default(); 16];
        // SAFETY: no vector here has more than 16 lanes.
        unsafe { self.store(a.as_mut_ptr()) };
        a
    }
    /// Every other lane of `a`, then of `b`.
    #[inline(always)]
    fn evens(a: Self, b: Self) -> Self {
        let (mut from, mut to) = ([Self::E::default(); 32], [Self::E::default(); 16]);
        // SAFETY: no vector here has more than 16 lanes.
        unsafe {
            a.store(from.as_mut_ptr());
            b.store(from.as_mut_ptr().add(Self::N));
            for i in 0..Self::N {
                to[i] = from[2 * i];
            }
            Self::load(to.as_ptr())
        }
    }
    /// The lanes that [`Vector::evens`] leaves out.
    #[inline(always)]
    fn odds(a: Self, b: Self) -> Self {
        let mut from = [Self::E::default(); 33];
        // SAFETY: no vector here has more than 16 lanes.
        unsafe {
            a.store(from.as_mut_ptr());
            b.store(from.as_mut_ptr().add(Self::N));
            let from = from.as_ptr().add(1);
            Self::evens(Self::load(from), Self::load(from.add(Self::N)))
        }
    }
    /// Whether [`Vector::load_where`] takes one instruction.
    const HAS_MASKS: bool = false;
    /// Lanes from memory where the mask holds, which is all that is read, others zero; where [`Vector::HAS_MASKS`].
    ///
    /// # Safety
    /// The lanes where the mask holds must be valid for reading.
    #[inline(always)]
    unsafe fn load_where(_p: *const Self::E, _m: Self::M) -> Self {
        unreachable!("no loads with masks")
    }
    /// Lanes from memory, `S` elements apart; `S` is 1, 2 or 4.
    ///
    /// # Safety
    /// `p` must be valid for reading `S * N` elements.
    #[inline(always)]
    unsafe fn load_apart<const S: usize>(p: *const Self::E) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let two = |i: usize| Self::evens(Self::load(p.add(i * Self::N)), Self::load(p.add((i + 1) * Self::N)));
            match S {
                1 => Self::load(p),
                2 => two(0),
                _ => Self::evens(two(0), two(2)),
            }
        }
    }
    /// Whether [`Vector::entry`] takes one instruction.
    const HAS_TABLES: bool = false;
    /// For each lane the entry of a table whose number is in the low bits of the lane; where [`Vector::HAS_TABLES`]. A table
    /// has as many entries as two vectors.
    #[inline(always)]
    fn entry(self, _table: &[Self::E]) -> Self {
        unreachable!("no tables in registers")
    }
    /// A function applied to each lane.
    #[inline(always)]
    fn map(self, f: impl Fn(Self::E) -> Self::E) -> Self {
        let mut a = self.lanes();
        for x in &mut a[..Self::N] {
            *x = f(*x);
        }
        // SAFETY: the array holds at least `N` elements.
        unsafe { Self::load(a.as_ptr()) }
    }
    /// A function applied to each pair of lanes.
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(Self::E, Self::E) -> Self::E) -> Self {
        let (mut a, b) = (self.lanes(), b.lanes());
        (0..Self::N).for_each(|i| a[i] = f(a[i], b[i]));
        // SAFETY: the array holds at least `N` elements.
        unsafe { Self::load(a.as_ptr()) }
    }
    /// The lanes folded as a balanced tree, the upper half onto the lower.
    #[inline(always)]
    fn fold(self, f: impl Fn(Self::E, Self::E) -> Self::E) -> Self::E {
        let mut a = self.lanes();
        let mut n = Self::N;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                a[i] = f(a[i], a[i + n]);
            }
        }
        a[0]
    }
    /// The sum of the lanes, as a balanced tree.
    #[inline(always)]
    fn sum(self) -> Self::E {
        self.fold(|a, b| a + b)
    }
}

/// The instruction set that every machine has: arrays of lanes.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

/// Lanes as an array.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<T, const N: usize>([T; N]);

impl Isa for Portable {
    type S = Lanes<f32, 8>;
    type D = Lanes<f64, 4>;

    #[inline(always)]
    fn widen(v: Self::S) -> (Self::D, Self::D) {
        (Lanes(std::array::from_fn(|i| v.0[i] as f64)), Lanes(std::array::from_fn(|i| v.0[i + 4] as f64)))
    }

    #[inline(always)]
    fn narrow(low: Self::D, high: Self::D) -> Self::S {
        Lanes(std::array::from_fn(|i| if i < 4 { low.0[i] as f32 } else { high.0[i - 4] as f32 }))
    }
}

macro_rules! lanes_operator {
    ($trait:ident $name:ident $op:tt) => {
        impl<T: Copy + $trait<Output = T>, const N: usize> $trait for Lanes<T, N> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| self.0[i] $op b.0[i]))
            }
        }
    };
}
lanes_operator!(Add add +);
lanes_operator!(Sub sub -);
lanes_operator!(Mul mul *);
lanes_operator!(Div div /);

impl<T: Copy + Neg<Output = T>, const N: usize> Neg for Lanes<T, N> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Lanes(self.0.map(|x| -x))
    }
}

/// Whether the build's own target has a fused multiply-add; calling a library function for it
/// would cost a hundred times as much.
const HAS_FMA: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

macro_rules! lanes_vector {
    ($t:ty, $n:literal, $u:ty, $shift:literal, $bias:literal, $magic:expr) => {
        impl Vector for Lanes<$t, $n> {
            type E = $t;
            type M = [bool; $n];
            const N: usize = $n;
            const FUSED: bool = HAS_FMA;

            #[inline(always)]
            fn splat(x: $t) -> Self {
                Lanes([x; $n])
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller's promise.
                Lanes(unsafe { p.cast::<[$t; $n]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { p.cast::<[$t; $n]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn load_n(p: *const $t, n: usize) -> Self {
                debug_assert!(n <= $n);
                // SAFETY: only indexes below `n` are read.
                Lanes(std::array::from_fn(|i| if i < n { unsafe { p.add(i).read() } } else { 0.0 }))
            }
            #[inline(always)]
            unsafe fn store_n(self, p: *mut $t, n: usize) {
                debug_assert!(n <= $n);
                for i in 0..n.min($n) {
                    // SAFETY: only indexes below `n` are written.
                    unsafe { p.add(i).write(self.0[i]) };
                }
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                Lanes(std::array::from_fn(|i| {
                    if HAS_FMA { self.0[i].mul_add(b.0[i], c.0[i]) } else { self.0[i] * b.0[i] + c.0[i] }
                }))
            }
            #[inline(always)]
            fn min(self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| if self.0[i] < b.0[i] { self.0[i] } else { b.0[i] }))
            }
            #[inline(always)]
            fn max(self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| if self.0[i] > b.0[i] { self.0[i] } else { b.0[i] }))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                Lanes(self.0.map(<$t>::abs))
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                Lanes(self.0.map(<$t>::sqrt))
            }
            #[inline(always)]
            fn round(self) -> Self {
                if cfg!(any(target_feature = "sse4.1", target_arch = "aarch64")) {
                    return Lanes(self.0.map(<$t>::round_ties_even));
                }
                // No instruction for it: adding a number without fraction bits rounds.
                let big = Self::splat(1.0 / <$t>::EPSILON);
                let shift = big.copysign(self);
                Self::select(self.abs().lt(big), ((self + shift) - shift).copysign(self), self)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                if cfg!(any(target_feature = "sse4.1", target_arch = "aarch64")) {
                    return Lanes(self.0.map(<$t>::floor));
                }
                let r = self.round();
                Self::select(self.lt(r), r - Self::splat(1.0), r)
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                Lanes(std::array::from_fn(|i| self.0[i].copysign(sign.0[i])))
            }
            #[inline(always)]
            fn lt(self, b: Self) -> Self::M {
                std::array::from_fn(|i| self.0[i] < b.0[i])
            }
            #[inline(always)]
            fn le(self, b: Self) -> Self::M {
                std::array::from_fn(|i| self.0[i] <= b.0[i])
            }
            #[inline(always)]
            fn eq(self, b: Self) -> Self::M {
                std::array::from_fn(|i| self.0[i] == b.0[i])
            }
            #[inline(always)]
            fn select(m: Self::M, a: Self, b: Self) -> Self {
                Lanes(std::array::from_fn(|i| if m[i] { a.0[i] } else { b.0[i] }))
            }
            #[inline(always)]
            fn both(a: Self::M, b: Self::M) -> Self::M {
                std::array::from_fn(|i| a[i] & b[i])
            }
            #[inline(always)]
            fn bits(m: Self::M) -> u32 {
                (0..$n).fold(0, |bits, i| bits | (m[i] as u32) << i)
            }
            #[inline(always)]
            fn ldexp(self, n: Self) -> Self {
                // Two factors, so that neither leaves the range of normal numbers.
                let n = Self::c(-2.0 * ($bias as f64 - 1.0)).max(Self::c(2.0 * ($bias as f64 - 1.0)).min(n));
                let half = (n * Self::c(0.5)).floor();
                let power = |v: Self| {
                    Lanes(v.0.map(|x| {
                        let biased = (x + ($magic + $bias as $t)).to_bits();
                        <$t>::from_bits(biased << $shift)
                    }))
                };
                self * power(half) * power(n - half)
            }
            #[inline(always)]
            fn split(self, low: $t) -> (Self, Self) {
                let one = (1.0 as $t).to_bits();
                // The exponent, biased so that it stays positive.
                let e: [$u; $n] = std::array::from_fn(|i| {
                    self.0[i].to_bits().wrapping_sub(low.to_bits()).wrapping_add(one) >> $shift
                });
                let m = std::array::from_fn(|i| {
                    <$t>::from_bits(self.0[i].to_bits().wrapping_sub(e[i] << $shift).wrapping_add(one))
                });
                (Lanes(m), Lanes(e.map(|e| e as $t - $bias as $t)))
            }
        }
    };
}
lanes_vector!(f32, 8, u32, 23, 127, 12582912.0f32);
lanes_vector!(f64, 4, u64, 52, 1023, 6755399441055744.0f64);
