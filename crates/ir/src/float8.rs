//! fp8, as bits: conversions from and to `f32`, which hold every one of them exactly.
//!
//! Rounding is to nearest, ties to even, and what is too large becomes what PyTorch's cast makes of it:
//! the greatest number in the type that has no infinity, infinity in the other.

use std::fmt;

/// One sign bit, 4 bits of exponent (bias 7), 3 of mantissa: up to 448, down to 2⁻⁹. All ones is NaN;
/// there is no infinity.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct f8e4m3(u8);

/// One sign bit, 5 bits of exponent (bias 15), 2 of mantissa: up to 57344, down to 2⁻¹⁶, with infinity
/// and NaN as IEEE's types have them.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct f8e5m2(u8);

/// The code of a magnitude's bits, given by a type with `M` bits of mantissa whose exponent is biased by
/// `less` below that of `f32`; correct up to the first number beyond the type.
#[inline(always)]
const fn rounded<const M: u32>(magnitude: u32, less: u32) -> u32 {
    let cut = 23 - M;
    // Half of the last kept bit, less one unless that bit is odd.
    let half = (1 << (cut - 1)) - 1 + (magnitude >> cut & 1);
    magnitude.wrapping_sub(less << 23).wrapping_add(half) >> cut
}

/// The code of a magnitude below the normal numbers: adding a number whose last bit is worth as much as
/// the type's smallest rounds it there.
#[inline(always)]
fn subnormal(magnitude: u32, adder: f32) -> u32 {
    (f32::from_bits(magnitude) + adder).to_bits() - adder.to_bits()
}

impl f8e4m3 {
    /// The greatest number.
    pub const MAX: f32 = 448.0;
    /// From its bits.
    pub const fn from_bits(bits: u8) -> f8e4m3 {
        f8e4m3(bits)
    }
    /// Its bits.
    pub const fn to_bits(self) -> u8 {
        self.0
    }
    /// Rounded from `f32`; what would be more than 448, infinity too, is 448.
    #[inline(always)]
    pub fn from_f32(x: f32) -> f8e4m3 {
        let (sign, magnitude) = (x.to_bits() >> 24 & 0x80, x.to_bits() & 0x7fff_ffff);
        let normal = rounded::<3>(magnitude, 120);
        let small = subnormal(magnitude.min(0x3c80_0000), 16384.0);
        let code = if magnitude < 0x3c80_0000 { small } else { normal };
        // From 464 on, which rounds to even, all is the greatest, but for NaN.
        let large = if magnitude > 0x7f80_0000 { 0x7f } else { 0x7e };
        f8e4m3((sign | if magnitude >= 0x43e8_0000 { large } else { code }) as u8)
    }
    /// Widened, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let (sign, magnitude) = ((self.0 as u32 & 0x80) << 24, self.0 as u32 & 0x7f);
        // The exponent is rebased by multiplying with 2^120, which also normalizes subnormals.
        let scaled = f32::from_bits(magnitude << 20) * f32::from_bits(0x7b80_0000);
        f32::from_bits(sign | if magnitude == 0x7f { 0x7fc0_0000 } else { scaled.to_bits() })
    }
}

impl f8e5m2 {
    /// The greatest number.
    pub const MAX: f32 = 57344.0;
    /// From its bits.
    pub const fn from_bits(bits: u8) -> f8e5m2 {
        f8e5m2(bits)
    }
    /// Its bits.
    pub const fn to_bits(self) -> u8 {
        self.0
    }
    /// Rounded from `f32`; what would be more than 57344 is infinite.
    #[inline(always)]
    pub fn from_f32(x: f32) -> f8e5m2 {
        let (sign, magnitude) = (x.to_bits() >> 24 & 0x80, x.to_bits() & 0x7fff_ffff);
        let normal = rounded::<2>(magnitude, 112);
        let small = subnormal(magnitude.min(0x3880_0000), 128.0);
        let code = if magnitude < 0x3880_0000 { small } else { normal };
        // From 61440 on, which rounds to even, all is infinite, but for NaN.
        let large = if magnitude > 0x7f80_0000 { 0x7f } else { 0x7c };
        f8e5m2((sign | if magnitude >= 0x4770_0000 { large } else { code }) as u8)
    }
    /// Widened, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let (sign, magnitude) = ((self.0 as u32 & 0x80) << 24, self.0 as u32 & 0x7f);
        // As above, with 2^112.
        let scaled = f32::from_bits(magnitude << 21) * f32::from_bits(0x7780_0000);
        let special = if magnitude >= 0x7c { 0x7f80_0000 | (magnitude & 3) << 21 } else { scaled.to_bits() };
        f32::from_bits(sign | special)
    }
}

macro_rules! as_numbers {
    ($($t:ident),*) => {$(
        /// Numbers are compared, not bits.
        impl PartialEq for $t {
            fn eq(&self, other: &$t) -> bool {
                self.to_f32() == other.to_f32()
            }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.to_f32())
            }
        }
    )*};
}
as_numbers!(f8e4m3, f8e5m2);

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// What a code stands for, by the definition of its fields.
    fn value(code: u8, exponent_bits: i32, bias: i32) -> f64 {
        let mantissa_bits = 7 - exponent_bits;
        let sign = if code >= 0x80 { -1.0 } else { 1.0 };
        let (e, m) = ((code as i32 & 0x7f) >> mantissa_bits, (code as i32) & ((1 << mantissa_bits) - 1));
        let fraction = m as f64 / (1 << mantissa_bits) as f64;
        sign * if e == 0 { fraction * 2f64.powi(1 - bias) } else { (1.0 + fraction) * 2f64.powi(e - bias) }
    }

    #[test]
    fn every_code_is_the_number_its_fields_say_and_comes_back() {
        for code in 0..=255u8 {
            let (a, b) = (f8e4m3::from_bits(code), f8e5m2::from_bits(code));
            let x = a.to_f32();
            assert_eq!(x.is_nan(), code & 0x7f == 0x7f);
            if !x.is_nan() {
                assert_eq!(x as f64, value(code, 4, 7), "{code:#x}");
            }
            assert_eq!(f8e4m3::from_f32(x).to_bits(), code);
            let x = b.to_f32();
            match code & 0x7f {
                0..0x7c => assert_eq!(x as f64, value(code, 5, 15), "{code:#x}"),
                0x7c => assert!(x.is_infinite() && x.is_sign_negative() == (code >= 0x80)),
                _ => assert!(x.is_nan()),
            }
            // Every NaN becomes the one with all bits set.
            assert_eq!(f8e5m2::from_f32(x).to_bits(), if x.is_nan() { code | 0x7f } else { code });
        }
    }

    /// The nearest of all codes, the even one of two; `beyond` is what would come after the greatest.
    fn nearest(x: f32, of: impl Fn(u8) -> f64, greatest: u8, beyond: f64, above: u8) -> u8 {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        let magnitude = x.abs() as f64;
        let mut best = (f64::INFINITY, 0u8);
        for code in 0..=greatest {
            let off = (of(code) - magnitude).abs();
            if off < best.0 || off == best.0 && code % 2 == 0 {
                best = (off, code);
            }
        }
        // The place after the greatest is taken where it is nearer, or as near and even.
        let off = (beyond - magnitude).abs();
        let is_beyond = off < best.0 || off == best.0 && best.1 % 2 == 1;
        sign | if x.is_nan() {
            0x7f
        } else if x.is_infinite() || magnitude > beyond || is_beyond {
            above
        } else {
            best.1
        }
    }

    #[test]
    fn every_half_becomes_the_nearest() {
        let check = |x: f32| {
            let want = nearest(x, |c| value(c, 4, 7), 0x7e, 480.0, 0x7e);
            assert_eq!(f8e4m3::from_f32(x).to_bits(), want, "{x:e} as e4m3");
            let want = nearest(x, |c| value(c, 5, 15), 0x7b, 65536.0, 0x7c);
            assert_eq!(f8e5m2::from_f32(x).to_bits(), want, "{x:e} as e5m2");
        };
        for bits in 0..=u16::MAX {
            check(f16::from_bits(bits).to_f32());
            check(bf16::from_bits(bits).to_f32());
        }
        // Just beside what rounds to even.
        for x in [464.0f32, 61440.0, 0.001, 1.0 / 1024.0, 1.0 / 131072.0] {
            [x, x.next_up(), x.next_down(), -x.next_up()].into_iter().for_each(check);
        }
    }
}
