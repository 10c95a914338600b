//! Vector mathematics: elementwise functions, reductions and conversions over slices, compiled
//! for AVX-512, for AVX2 with FMA, for NEON, for WebAssembly's vectors and portably, and chosen at run time.
//!
//! - [`simd`] the vector trait; [`math`], [`trig`], [`inverse`], [`power`] and [`special`] the functions on vectors;
//! - [`f32s`] and [`f64s`] slices of floats, [`ints`] of integers, [`convert`] between types.
//!
//! `f32s::exp(x, y)` writes to another slice, `f32s::inplace::exp(x)` over its input, and
//! `f32s::raw::exp` takes pointers (equal ones allowed), for callers that keep a table of
//! functions.
//!
//! Everything here runs on the calling thread, and an element's result does not depend on its
//! place in the slice, so slices may be cut anywhere. (Reductions have an order of their own.) NEON
//! gives the bits that portable code gives on the same machine, reductions included.
//!
//! Largest errors seen against double precision, in units in the last place:
//!
//! | function | `f32` wide | `f32` portable without FMA | `f64` |
//! |---|---|---|---|
//! | `exp` `exp2` | 1.5 | 2 | 1.5 |
//! | `expm1` `log1p` | 2 | 3 | 3 |
//! | `log` `log2` | 2 | 3 | 3 |
//! | `sqrt` | 0.5 | 0.5 | 0.5 |
//! | `rsqrt` | 1.5 | 1.5 | 1.5 |
//! | `sin` `cos` | 1.5 | 2.5 | 2 |
//! | `tan` | 3 | 4 | 3 |
//! | `tanh` `sigmoid` | 2.5 | 3 | 4 |
//! | `erf` | 1.5 | 3 | 2 |
//! | `erfc` | 3 | 8 | 4 |
//! | `pow` | 1 | 1 | 1.5 (portable: libm) |
//! | `sinh` `cosh` `asinh` `acosh` `atanh` | 3.5 | 4.5 | 5 |
//! | `asin` `acos` `atan` `atan2` `log10` | 3 | 3 | 3 |
//! | `hypot` `fmod` `rem` `floor_divide` | 0.5 | 0.5 | 1.5 |
//! | `lgamma` `digamma` `erfinv` `erfcx` `i0` `i1` `polygamma` | 1 | 1 | 1e-14 |

mod coefficients;
pub mod convert;
pub mod copy;
pub mod f32s;
pub mod f64s;
#[cfg(target_arch = "x86_64")]
pub mod halves;
pub mod ints;
pub mod inverse;
pub mod math;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod power;
pub mod simd;
pub mod special;
pub mod trig;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub mod wasm;
#[cfg(target_arch = "x86_64")]
pub mod x86;

/// The vectors of [`Level::Portable`]: what the build's target has.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub use simd::Portable as Base;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use wasm::Simd128 as Base;

pub(crate) mod loops;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// An instruction set to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// What the build's target has.
    Portable = 1,
    /// NEON, on 64-bit ARM.
    Neon = 2,
    /// AVX2, FMA, F16C.
    Avx2 = 3,
    /// AVX-512 F, BW, DQ, VL.
    Avx512 = 4,
}

impl Level {
    /// Those of the build's architecture, the narrowest first.
    pub const ALL: &[Level] = if cfg!(target_arch = "x86_64") {
        &[Level::Portable, Level::Avx2, Level::Avx512]
    } else if cfg!(target_arch = "aarch64") {
        &[Level::Portable, Level::Neon]
    } else {
        &[Level::Portable]
    };

    /// Whether this build has loops for it; every build has portable ones.
    const fn is_linked(self) -> bool {
        match self {
            Level::Portable | Level::Neon => true,
            Level::Avx2 => ir::is_linked("avx2"),
            Level::Avx512 => ir::is_linked("avx512"),
        }
    }
}

#[cfg(not(test))]
static LEVEL: AtomicU8 = AtomicU8::new(0);
// Tests run side by side: one that limits itself must not change the numbers of another.
#[cfg(test)]
thread_local!(static LEVEL: AtomicU8 = const { AtomicU8::new(0) });

#[inline]
fn with_level<R>(f: impl FnOnce(&AtomicU8) -> R) -> R {
    #[cfg(not(test))]
    return f(&LEVEL);
    #[cfg(test)]
    return LEVEL.with(f);
}

/// The instruction set in use: the widest the machine has, or a narrower one named by the
/// environment variable `TALWEG_ISA` (`portable`, `neon`, `avx2`, `avx512`).
#[inline]
pub fn level() -> Level {
    match with_level(|l| l.load(Relaxed)) {
        0 => choose_level(),
        1 => Level::Portable,
        2 => Level::Neon,
        3 => Level::Avx2,
        _ => Level::Avx512,
    }
}

#[cold]
fn choose_level() -> Level {
    let limit = match std::env::var("TALWEG_ISA").as_deref() {
        Ok("portable") => Level::Portable,
        Ok("neon") => Level::Neon,
        Ok("avx2") => Level::Avx2,
        _ => Level::Avx512,
    };
    limit_level(limit)
}

/// Uses nothing wider than `limit` from now on; returns what is used. For tests and comparisons.
pub fn limit_level(limit: Level) -> Level {
    let most = machine_level().min(limit);
    let level = Level::ALL.iter().copied().filter(|l| *l <= most && l.is_linked()).max().unwrap_or(Level::Portable);
    with_level(|l| l.store(level as u8, Relaxed));
    level
}

/// The widest instruction set of this machine.
pub fn machine_level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi1") && has!("bmi2");
        let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
        if avx2 && avx512 {
            return Level::Avx512;
        }
        if avx2 {
            return Level::Avx2;
        }
    }
    if cfg!(target_arch = "aarch64") { Level::Neon } else { Level::Portable }
}

/// Defines a function that runs `body::<I>(…)` for the instruction set `I` in use.
///
/// The body must be `#[inline(always)]`, and so must everything in it that touches vectors: it is
/// compiled once inside each of the functions with the right target features.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $t:ty),* $(,)?) $(-> $ret:ty)? { $isa:ident => $body:expr }) => {
        $(#[$meta])*
        $vis unsafe fn $name($($arg: $t),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512($($arg: $t),*) $(-> $ret)? {
                type $isa = $crate::vmath::x86::Avx512;
                // SAFETY: the caller's promise, passed on.
                unsafe { $body }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2($($arg: $t),*) $(-> $ret)? {
                type $isa = $crate::vmath::x86::Avx2;
                // SAFETY: the caller's promise, passed on.
                unsafe { $body }
            }
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            unsafe fn neon($($arg: $t),*) $(-> $ret)? {
                type $isa = $crate::vmath::neon::Neon;
                // SAFETY: the caller's promise, passed on.
                unsafe { $body }
            }
            unsafe fn portable($($arg: $t),*) $(-> $ret)? {
                type $isa = $crate::vmath::Base;
                // SAFETY: the caller's promise, passed on.
                unsafe { $body }
            }
            // SAFETY: the level never exceeds what the machine has; the rest is the caller's
            // promise.
            unsafe {
                match $crate::vmath::level() {
                    #[cfg(target_arch = "x86_64")]
                    $crate::vmath::Level::Avx512 if const { ir::is_linked("avx512") } => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::vmath::Level::Avx2 if const { ir::is_linked("avx2") } => avx2($($arg),*),
                    #[cfg(target_arch = "aarch64")]
                    $crate::vmath::Level::Neon => neon($($arg),*),
                    _ => portable($($arg),*),
                }
            }
        }
    };
}
pub(crate) use dispatch;
