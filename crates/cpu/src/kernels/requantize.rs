//! The epilogue of a product of bytes: its sums as numbers, a residual sum, an activation, and bytes again for the next
//! layer, while the sums are still in the first-level cache.
//!
//! `v = (sum + offset[column]) * scale[column] + bias[column]`, perhaps quantized and dequantized, `(+ residual)`, held in
//! `[low, high]`; then for each result of bytes `round(v * by) + zero`, held in what it may be, and perhaps the numbers of
//! these bytes. These are the operations of the loop in the same order, so results are equal.
//! Where only bytes are kept, both ranges become one: products and rounding keep the order of numbers.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod x86;

use super::gemm::Patch;
use super::gemm::int8::windows::Place;
use crate::vmath::dispatch;
use smallvec::SmallVec;

/// Numbers of this size have no fraction, and a last byte of zero.
const WHOLE: f32 = 12_582_912.0;

/// A result of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantized<P> {
    /// Steps of a unit.
    pub by: f32,
    /// The least and the greatest number of steps, before `zero` is added.
    pub range: (f32, f32),
    /// The byte of no steps, an integer.
    pub zero: f32,
    /// Where it goes.
    pub to: P,
    /// The size of a step and the place, if the numbers of the bytes are kept as well.
    pub numbers: Option<(f32, P)>,
}

/// Numbers that become those of bytes before a residual is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Middle {
    /// Steps of a unit.
    pub by: f32,
    /// The least and the greatest number of steps.
    pub range: (f32, f32),
    /// The size of a step.
    pub scale: f32,
}

/// What is added to the numbers, laid out as the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Residual<P> {
    /// Numbers.
    Real(P),
    /// Bytes, of which each less the zero point counts steps of a size.
    Bytes {
        /// Where they are; perhaps results of bytes go there.
        at: P,
        /// Whether they are `i8`, or else `u8`.
        is_signed: bool,
        /// The byte of no steps.
        zero: f32,
        /// The size of a step.
        scale: f32,
    },
    /// The sums of another product, and what becomes of them.
    Sums {
        /// Where they are.
        at: P,
        /// Integers that are added to the sums of each column.
        offset: Option<P>,
        /// The factor of each column.
        scale: P,
        /// What is added to each column.
        bias: Option<P>,
        /// What happens to the numbers before they are added.
        middle: Option<Middle>,
    },
}

impl<P: Copy> Residual<P> {
    fn map<Q>(self, f: impl Fn(P) -> Q) -> Residual<Q> {
        match self {
            Residual::Real(at) => Residual::Real(f(at)),
            Residual::Bytes { at, is_signed, zero, scale } => Residual::Bytes { at: f(at), is_signed, zero, scale },
            Residual::Sums { at, offset, scale, bias, middle } => {
                Residual::Sums { at: f(at), offset: offset.map(&f), scale: f(scale), bias: bias.map(&f), middle }
            }
        }
    }
}

/// What becomes of sums `[rows, columns]`, with places of kind `P`.
#[derive(Clone, Debug, PartialEq)]
pub struct Requantize<P> {
    /// Columns of the result.
    pub columns: usize,
    /// Integers that are added to the sums of each column.
    pub offset: Option<P>,
    /// The factor of each column.
    pub scale: P,
    /// What is added to each column.
    pub bias: Option<P>,
    /// What happens to the numbers before a residual is added.
    pub middle: Option<Middle>,
    /// What is added then.
    pub residual: Option<Residual<P>>,
    /// What numbers are held in.
    pub range: (f32, f32),
    /// Where the numbers themselves go.
    pub real: Option<P>,
    /// Results of bytes.
    pub bytes: SmallVec<[Quantized<P>; 2]>,
}

impl<P: Copy> Requantize<P> {
    /// The same with other places.
    pub fn map<Q>(&self, f: impl Fn(P) -> Q) -> Requantize<Q> {
        let byte = |b: &Quantized<P>| Quantized {
            by: b.by,
            range: b.range,
            zero: b.zero,
            to: f(b.to),
            numbers: b.numbers.map(|(scale, at)| (scale, f(at))),
        };
        let bytes = self.bytes.iter().map(byte).collect();
        Requantize {
            columns: self.columns,
            offset: self.offset.map(&f),
            scale: f(self.scale),
            bias: self.bias.map(&f),
            middle: self.middle,
            residual: self.residual.map(|r| r.map(&f)),
            range: self.range,
            real: self.real.map(&f),
            bytes,
        }
    }
}

/// The epilogue at its addresses.
pub struct Bound(Requantize<*mut u8>);
// SAFETY: tasks write parts of their own, as the caller of `Bound::new` promises.
unsafe impl Sync for Bound {}

impl Bound {
    /// An epilogue at these addresses.
    ///
    /// # Safety
    /// They have room for all rows while it is used, and no other thread writes there. The residual and the numbers may share
    /// memory.
    pub unsafe fn new(mut r: Requantize<*mut u8>) -> Bound {
        if r.real.is_none() {
            // Only bytes are kept: both ranges are one.
            for b in &mut r.bytes {
                b.range = (b.range.0.max(r.range.0 * b.by), b.range.1.min(r.range.1 * b.by));
            }
        }
        Bound(r)
    }
}

impl Place for Bound {
    fn direct(&self, _: usize, _: usize) -> Option<(*mut i32, usize)> {
        None
    }
    unsafe fn take(&self, tile: *const i32, width: usize, part: Patch) {
        // SAFETY: the caller's promise, and that of `Bound::new`.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if const { ir::is_linked("avx512") } && crate::vmath::level() == crate::vmath::Level::Avx512 {
                return x86::take(&self.0, tile, width, part);
            }
            take(&self.0, tile, width, part);
        }
    }
    fn done(&self, _: Patch) {}
}

dispatch! {
    /// Puts a tile of sums, rows `width` apart, where its bytes go.
    unsafe fn take(r: &Requantize<*mut u8>, tile: *const i32, width: usize, part: Patch) {
        _I => match (r.residual.is_some(), r.real.is_some()) {
            (false, false) => rows::<false, false>(r, tile, width, part),
            (false, true) => rows::<false, true>(r, tile, width, part),
            (true, false) => rows::<true, false>(r, tile, width, part),
            (true, true) => rows::<true, true>(r, tile, width, part),
        }
    }
}

#[inline(always)]
unsafe fn rows<const RESIDUAL: bool, const REAL: bool>(
    r: &Requantize<*mut u8>,
    tile: *const i32,
    width: usize,
    part: Patch,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut c = 0;
        while c < part.cols {
            let left = part.cols - c;
            match left {
                16.. => column::<16, RESIDUAL, REAL>(r, tile.add(c), width, part, c),
                8.. => column::<8, RESIDUAL, REAL>(r, tile.add(c), width, part, c),
                4.. => column::<4, RESIDUAL, REAL>(r, tile.add(c), width, part, c),
                _ => column::<1, RESIDUAL, REAL>(r, tile.add(c), width, part, c),
            }
            c += match left {
                16.. => 16,
                8.. => 8,
                4.. => 4,
                _ => 1,
            };
        }
    }
}

/// `N` columns of a tile: their factors stay in registers. All of it is loops over arrays: what closures compute might
/// not be compiled for the instructions.
#[inline(always)]
unsafe fn column<const N: usize, const RESIDUAL: bool, const REAL: bool>(
    r: &Requantize<*mut u8>,
    tile: *const i32,
    width: usize,
    part: Patch,
    first: usize,
) {
    let j = part.col + first;
    let (columns, range) = (r.columns, r.range);
    // SAFETY: the caller's promise.
    unsafe {
        let factors = Factors::<N>::new(j, r.offset, r.scale, r.bias, r.middle);
        let mut others = factors;
        if let Some(Residual::Sums { offset, scale, bias, middle, .. }) = r.residual {
            others = Factors::new(j, offset, scale, bias, middle);
        }
        for row in 0..part.rows {
            let at = (part.row + row) * columns + j;
            let mut v = factors.numbers(tile.add(row * width));
            if RESIDUAL {
                let x = beside::<N>(r.residual.unwrap_unchecked(), &others, at);
                for i in 0..N {
                    v[i] += x[i];
                }
            }
            if REAL {
                for i in 0..N {
                    // NaN stays.
                    let x = if range.0 > v[i] { range.0 } else { v[i] };
                    v[i] = if range.1 < x { range.1 } else { x };
                }
                let to = r.real.unwrap_unchecked().cast::<f32>().add(at);
                to.cast::<[f32; N]>().write_unaligned(v);
            }
            for b in &r.bytes {
                quantize::<N, RESIDUAL>(b, &v, at);
            }
        }
    }
}

/// What turns the sums of some columns into numbers.
#[derive(Clone, Copy)]
struct Factors<const N: usize> {
    offset: [i32; N],
    scale: [f32; N],
    bias: [f32; N],
    middle: Option<Middle>,
}

impl<const N: usize> Factors<N> {
    /// Those of columns `j..j + N`.
    #[inline(always)]
    unsafe fn new(
        j: usize,
        offset: Option<*mut u8>,
        scale: *mut u8,
        bias: Option<*mut u8>,
        middle: Option<Middle>,
    ) -> Factors<N> {
        // SAFETY: the caller's promise.
        unsafe {
            let scale = scale.cast::<f32>().add(j).cast::<[f32; N]>().read_unaligned();
            // Whatever is added to -0.0 stays as it is.
            let mut f = Factors { offset: [0; N], scale, bias: [-0.0; N], middle };
            if let Some(p) = offset {
                f.offset = p.cast::<i32>().add(j).cast::<[i32; N]>().read_unaligned();
            }
            if let Some(p) = bias {
                f.bias = p.cast::<f32>().add(j).cast::<[f32; N]>().read_unaligned();
            }
            f
        }
    }
    #[inline(always)]
    unsafe fn numbers(&self, sums: *const i32) -> [f32; N] {
        // SAFETY: the caller's promise.
        let sums = unsafe { sums.cast::<[i32; N]>().read_unaligned() };
        let mut v = [0f32; N];
        for i in 0..N {
            v[i] = sums[i].wrapping_add(self.offset[i]) as f32 * self.scale[i] + self.bias[i];
        }
        if let Some(m) = self.middle {
            for i in 0..N {
                v[i] = (held(v[i] * m.by, m.range) + WHOLE - WHOLE) * m.scale;
            }
        }
        v
    }
}

/// The numbers of a residual from element `at` on; `others` turns its sums into them.
#[inline(always)]
unsafe fn beside<const N: usize>(residual: Residual<*mut u8>, others: &Factors<N>, at: usize) -> [f32; N] {
    // SAFETY: the caller's promise.
    unsafe {
        match residual {
            Residual::Real(p) => p.cast::<f32>().add(at).cast::<[f32; N]>().read_unaligned(),
            Residual::Sums { at: p, .. } => others.numbers(p.cast::<i32>().add(at)),
            Residual::Bytes { at: p, is_signed, zero, scale } => {
                let (bytes, mut x) = (p.add(at).cast::<[u8; N]>().read_unaligned(), [0f32; N]);
                for i in 0..N {
                    let whole = if is_signed { bytes[i] as i8 as f32 } else { bytes[i] as f32 };
                    x[i] = (whole - zero) * scale;
                }
                x
            }
        }
    }
}

/// Stores numbers as bytes, and perhaps the numbers of these.
#[inline(always)]
unsafe fn quantize<const N: usize, const RESIDUAL: bool>(b: &Quantized<*mut u8>, v: &[f32; N], at: usize) {
    let (mut steps, mut bytes) = ([0f32; N], [0u8; N]);
    let zero = b.zero as i32 as u8;
    for i in 0..N {
        let q = v[i] * b.by;
        // NaN becomes the byte 0, as a cast makes it.
        let q = if RESIDUAL && q.is_nan() { -b.zero } else { q };
        steps[i] = held(q, b.range) + WHOLE;
    }
    for i in 0..N {
        // The sum is rounded to an integer, ties to even ones, and its last byte is that of the integer.
        bytes[i] = (steps[i].to_bits() as u8).wrapping_add(zero);
    }
    // SAFETY: the caller's promise.
    unsafe {
        b.to.add(at).cast::<[u8; N]>().write_unaligned(bytes);
        if let Some((scale, to)) = b.numbers {
            for i in 0..N {
                steps[i] = (steps[i] - WHOLE) * scale;
            }
            to.cast::<f32>().add(at).cast::<[f32; N]>().write_unaligned(steps);
        }
    }
}

/// A number in a range; NaN becomes its beginning.
#[inline(always)]
fn held(x: f32, range: (f32, f32)) -> f32 {
    let x = if x > range.0 { x } else { range.0 };
    if x < range.1 { x } else { range.1 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Noise;
    use super::*;
    use crate::vmath::{Level, limit_level};

    /// Every width of columns, with and without a residual, at the ends of the ranges, and NaN.
    #[test]
    fn as_one_number_at_a_time() {
        let mut noise = Noise::new(3);
        for (level, columns) in Level::ALL.iter().flat_map(|l| [1, 7, 31, 48].map(|c| (*l, c))) {
            limit_level(level);
            let rows = 3;
            let float = |noise: &mut Noise| noise.range(0, 2000) as f32 / 1000.0 - 1.0;
            let tile: Vec<i32> = (0..rows * columns).map(|_| noise.range(0, 200_000) as i32 - 100_000).collect();
            let mut scale: Vec<f32> = (0..columns).map(|_| float(&mut noise) * 1e-3).collect();
            let mut bias: Vec<f32> = (0..columns).map(|_| float(&mut noise)).collect();
            let mut residual: Vec<f32> = (0..rows * columns).map(|_| float(&mut noise)).collect();
            residual[0] = f32::NAN;
            let mut offset: Vec<i32> = (0..columns).map(|_| noise.range(0, 2000) as i32 - 1000).collect();
            let mut other: Vec<i32> = (0..rows * columns).map(|_| noise.range(0, 2000) as i32 - 1000).collect();
            let mut some: Vec<u8> = (0..rows * columns).map(|_| noise.range(0, 255) as u8).collect();
            for which in 0..10 {
                let (has_residual, is_kept) = (which >= 2, which % 2 == 1);
                let (mut real, mut back) = (vec![0f32; rows * columns], vec![0f32; rows * columns]);
                let (mut low, mut high) = (vec![0u8; rows * columns], vec![0u8; rows * columns]);
                // Convolutions of other libraries come with integers to add and zero points.
                let is_shifted = is_kept != has_residual;
                let middle = Some(Middle { by: 20.0, range: (-90.0, 100.0), scale: 0.05 });
                let kind = match which / 2 {
                    1 => Residual::Real(residual.as_mut_ptr().cast()),
                    2 => Residual::Sums {
                        at: other.as_mut_ptr().cast(),
                        offset: is_kept.then(|| offset.as_mut_ptr().cast()),
                        scale: scale.as_mut_ptr().cast(),
                        bias: (!is_kept).then(|| bias.as_mut_ptr().cast()),
                        middle: middle.filter(|_| is_kept),
                    },
                    of => Residual::Bytes { at: some.as_mut_ptr(), is_signed: of == 3, zero: 7.0, scale: 0.01 },
                };
                let r = Requantize {
                    columns,
                    offset: is_shifted.then(|| offset.as_mut_ptr().cast()),
                    scale: scale.as_mut_ptr().cast(),
                    bias: (!is_shifted).then(|| bias.as_mut_ptr().cast()),
                    middle: middle.filter(|_| is_shifted),
                    residual: has_residual.then_some(kind),
                    range: (-50.0, 60.0),
                    real: is_kept.then(|| real.as_mut_ptr().cast()),
                    bytes: smallvec::smallvec![
                        Quantized { by: 3.0, range: (-28.0, 227.0), zero: -100.0, to: low.as_mut_ptr(), numbers: None },
                        Quantized {
                            by: 7.0,
                            range: (-9.0, 246.0),
                            zero: 9.0,
                            to: high.as_mut_ptr(),
                            numbers: Some((0.25, back.as_mut_ptr().cast())),
                        },
                    ],
                };
                // SAFETY: the vectors have room for all rows.
                unsafe { Bound::new(r).take(tile.as_ptr(), columns, Patch { row: 0, rows, col: 0, cols: columns }) };
                for i in 0..rows * columns {
                    let j = i % columns;
                    let numbers = |sum: i32, is_shifted: bool| match is_shifted {
                        true => {
                            let v = (sum + offset[j]) as f32 * scale[j];
                            (v * 20.0).round_ties_even().clamp(-90.0, 100.0) * 0.05
                        }
                        false => sum as f32 * scale[j] + bias[j],
                    };
                    let v = match which / 2 {
                        0 => 0.0,
                        1 => residual[i],
                        2 => numbers(other[i], is_kept),
                        3 => (some[i] as i8 as f32 - 7.0) * 0.01,
                        _ => (some[i] as f32 - 7.0) * 0.01,
                    } + numbers(tile[i], is_shifted);
                    let v = if v.is_nan() { v } else { v.clamp(-50.0, 60.0) };
                    assert!(!is_kept || real[i] == v || v.is_nan() && real[i].is_nan(), "{level:?} {columns} at {i}");
                    assert_eq!(low[i] as i8, ((v * 3.0).round_ties_even() - 100.0) as i8, "{level:?} {columns} at {i}");
                    assert_eq!(back[i], (f32::from(high[i]) - 9.0) * 0.25, "{level:?} {columns} at {i}");
                    assert_eq!(high[i], ((v * 7.0).round_ties_even() + 9.0) as u8, "{level:?} {columns} at {i}");
                }
            }
        }
    }
}
