//! Images in another size (`interpolate`, linear and cubic; `adaptive_avg_pool` of uneven windows), without the tables
//! and intermediate tensors of their expansions. Gradients are those of the expansions.

#![allow(unsafe_code)]

use super::{Claim, Operand, Prepared, never, rows, rows_mut};
use crate::pool;
use crate::vmath::convert::Narrow;
use crate::vmath::dispatch;
use crate::vmath::simd::Scalar;
use half::{bf16, f16};
use ir::{Attrs, DType, FlatNode, Type};

/// Resampling.
pub static CLAIMS: &[Claim] = &[
    Claim {
        claims: is_interpolated,
        ..Claim::new("interpolate", never, |n, args, outs| Ok(interpolate(&n.attrs, args, outs)))
    },
    Claim {
        claims: is_uneven,
        ..Claim::new("adaptive_avg_pool", never, |_, args, outs| Ok(adaptive_means(args, outs)))
    },
];

/// An element of an image, and the type it is computed in.
pub(super) trait Pixel: Copy + Send + Sync + 'static {
    type Wide: Mixed;
    /// The row as wide numbers: where it lies, or in `room`.
    ///
    /// # Safety
    /// `n` elements behind each pointer.
    unsafe fn wide(x: *const Self, room: *mut Self::Wide, n: usize) -> *const Self::Wide;
    /// Stores a row.
    ///
    /// # Safety
    /// `n` elements behind each pointer, apart.
    unsafe fn store(x: *const Self::Wide, y: *mut Self, n: usize);
    fn get(self) -> Self::Wide;
}
macro_rules! plain_pixel {
    ($($t:ty),*) => {$(
        impl Pixel for $t {
            type Wide = $t;
            #[inline(always)]
            unsafe fn wide(x: *const $t, _: *mut $t, _: usize) -> *const $t {
                x
            }
            #[inline(always)]
            unsafe fn store(x: *const $t, y: *mut $t, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { std::ptr::copy_nonoverlapping(x, y, n) }
            }
            #[inline(always)]
            fn get(self) -> $t {
                self
            }
        }
    )*};
}
plain_pixel!(f32, f64);
macro_rules! half_pixel {
    ($($t:ty),*) => {$(
        impl Pixel for $t {
            type Wide = f32;
            #[inline(always)]
            unsafe fn wide(x: *const $t, room: *mut f32, n: usize) -> *const f32 {
                // SAFETY: the caller's promise.
                unsafe { <$t as Narrow>::widen(x, room, n) };
                room
            }
            #[inline(always)]
            unsafe fn store(x: *const f32, y: *mut $t, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { <$t as Narrow>::narrow(x, y, n) }
            }
            #[inline(always)]
            fn get(self) -> f32 {
                Narrow::to_f32(self)
            }
        }
    )*};
}
half_pixel!(bf16, f16);

/// Runs `$body` with `$T` the element type, one of four floats.
macro_rules! with_pixel {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 if const { ir::is_linked("f32") } => {
                type $T = f32;
                $body
            }
            DType::F64 if const { ir::is_linked("f64") } => {
                type $T = f64;
                $body
            }
            DType::BF16 if const { ir::is_linked("bf16") } => {
                type $T = bf16;
                $body
            }
            DType::F16 if const { ir::is_linked("f16") } => {
                type $T = f16;
                $body
            }
            _ => return None,
        }
    };
}

pub(super) use with_pixel;

fn is_pixel(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16)
}

/// Neighbors that an element of the output is a sum of, along one axis: as many for each.
struct Taps {
    /// How many for each.
    each: usize,
    places: Vec<u32>,
    weights: Vec<f64>,
}

/// The parameter of the cubic convolution kernel.
const CUBIC: f64 = -0.75;

impl Taps {
    /// One axis of `size` elements resampled to `out`.
    fn new(size: usize, out: usize, step: f64, align: bool, is_cubic: bool) -> Taps {
        let each = if is_cubic { 4 } else { 2 };
        let mut taps = Taps { each, places: Vec::new(), weights: Vec::new() };
        for i in 0..out {
            let center = match align {
                true if out > 1 => i as f64 * (size - 1) as f64 / (out - 1) as f64,
                true => 0.0,
                false => (i as f64 + 0.5) * step - 0.5,
            };
            let center = if is_cubic { center } else { center.max(0.0) };
            let (first, t) = (center.floor(), center - center.floor());
            let near = |x: f64| ((CUBIC + 2.0) * x - (CUBIC + 3.0)) * x * x + 1.0;
            let far = |x: f64| ((CUBIC * x - 5.0 * CUBIC) * x + 8.0 * CUBIC) * x - 4.0 * CUBIC;
            let cubic = [far(1.0 + t), near(t), near(1.0 - t), far(2.0 - t)];
            let (from, weights) = if is_cubic { (-1, &cubic[..]) } else { (0, &[1.0 - t, t][..]) };
            for (k, w) in weights.iter().enumerate() {
                // Beyond the border lies its last element.
                let place = (first as i64).saturating_add(from + k as i64).clamp(0, size as i64 - 1);
                taps.places.push(place as u32);
                taps.weights.push(*w);
            }
        }
        taps
    }
    fn is_identity(&self) -> bool {
        let (ones, places) = (self.weights.chunks(self.each), self.places.chunks(self.each));
        ones.zip(places).enumerate().all(|(i, (w, p))| {
            let at = |k: usize| if w[k] == 0.0 { i as u32 } else { p[k] };
            w.iter().sum::<f64>() == 1.0 && w.contains(&1.0) && (0..self.each).all(|k| at(k) == i as u32)
        })
    }
}

/// `Some(is_cubic)` for modes that mix neighbors.
fn mixing(attrs: &Attrs) -> Option<bool> {
    match attrs.str("mode").ok()? {
        "linear" | "bilinear" => Some(false),
        "cubic" | "bicubic" => Some(true),
        _ => None,
    }
}

/// Elements of rows that a task computes, about.
const ROWS: usize = 1 << 14;

fn is_interpolated(n: &FlatNode, types: &[Type]) -> bool {
    mixing(&n.attrs).is_some() && is_pixel(types[0].dtype) && matches!(types[0].shape.rank(), 3 | 4)
}

/// An image `[N, C, (H,) W]` in another size, plane by plane: a row of the output at a time, first mixed from rows, then
/// along itself.
fn interpolate(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let (is_cubic, align) = (mixing(attrs)?, attrs.bool("align_corners").ok()?);
    let step = attrs.literal("step").ok()?.to_f64();
    let ((h, w), (oh, ow)) = (spatial(&x)?, spatial(&out)?);
    let planes = x.ty.shape[0] * x.ty.shape[1];
    let along = *step.last()?;
    let columns = Taps::new(w, ow, along, align, is_cubic);
    let down =
        if step.len() == 2 { Taps::new(h, oh, step[0], align, is_cubic) } else { Taps::new(1, 1, 1.0, true, false) };
    let (skips_rows, skips_columns) = (down.is_identity(), columns.is_identity());
    Some(with_pixel!(x.ty.dtype, T => {
        type W = <T as Pixel>::Wide;
        let narrowed = |t: &Taps| t.weights.iter().map(|&w| <W as Scalar>::from_f64(w)).collect::<Vec<W>>();
        let (wy, wx) = (narrowed(&down), narrowed(&columns));
        Box::new(move |bases| {
            // SAFETY: the result is apart from the operand.
            let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&out, bases)) };
            // Some rows share the memory of a task.
            let group = (ROWS / (w + ow)).max(1);
            pool::parallel_for((planes * oh).div_ceil(group), &|task| {
                let (mut mixed, mut room) = (vec![W::default(); w], vec![W::default(); w]);
                let mut made = vec![W::default(); ow];
                for at in task * group..(planes * oh).min((task + 1) * group) {
                    let (p, r) = (at / oh, at % oh);
                    let row = |i: usize| &src[(p * h + i) * w..][..w];
                    // SAFETY: each task writes its own rows.
                    let to = unsafe { dst.slice(at * ow, ow) };
                    // SAFETY: rows of `w` and `ow` elements; places lie within a row.
                    unsafe {
                        let from = if skips_rows {
                            T::wide(row(r).as_ptr(), room.as_mut_ptr(), w)
                        } else {
                            for k in 0..down.each {
                                let tap = r * down.each + k;
                                let x = T::wide(row(down.places[tap] as usize).as_ptr(), room.as_mut_ptr(), w);
                                W::mix(x, wy[tap], &mut mixed, k > 0);
                            }
                            mixed.as_ptr()
                        };
                        if skips_columns {
                            T::store(from, to.as_mut_ptr(), ow);
                            continue;
                        }
                        W::choose(from, &columns.places, &wx, columns.each, &mut made);
                        T::store(made.as_ptr(), to.as_mut_ptr(), ow);
                    }
                }
            });
            Ok(())
        })
    }))
}

/// Height and width of the planes of `[N, C, (H,) W]`.
fn spatial(o: &Operand) -> Option<(usize, usize)> {
    match o.ty.shape.dims() {
        [_, _, h, w] => Some((*h, *w)),
        [_, _, w] => Some((1, *w)),
        _ => None,
    }
}

/// Whether windows of an adaptive pooling overlap or differ in size; others are reductions.
fn is_uneven(n: &FlatNode, types: &[Type]) -> bool {
    let (from, to) = (&types[0].shape, &n.outs[0].shape);
    let differs = from.iter().zip(to.iter()).skip(2).any(|(size, out)| *out > 0 && size % out > 0);
    differs && is_pixel(types[0].dtype) && matches!(from.rank(), 3 | 4)
}

/// Window `i` of `out` that cover `size` elements.
fn window(i: usize, size: usize, out: usize) -> std::ops::Range<usize> {
    i * size / out..((i + 1) * size).div_ceil(out)
}

/// The means of windows of planes, a row of the output at a time: of rows, then along the row.
fn adaptive_means(args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, out) = (args[0].clone(), outs[0].clone());
    let ((h, w), (oh, ow)) = (spatial(&x)?, spatial(&out)?);
    let planes = x.ty.shape[0] * x.ty.shape[1];
    Some(with_pixel!(x.ty.dtype, T => {
        type W = <T as Pixel>::Wide;
        let part = |count: usize| <W as Scalar>::from_f64(1.0 / count as f64);
        let columns: Vec<_> = (0..ow).map(|j| window(j, w, ow)).map(|r| (part(r.len()), r)).collect();
        let down: Vec<_> = (0..oh).map(|i| window(i, h, oh)).map(|r| (part(r.len()), r)).collect();
        Box::new(move |bases| {
            // SAFETY: the result is apart from the operand.
            let (src, dst) = unsafe { (rows::<T>(&x, bases), rows_mut::<T>(&out, bases)) };
            let group = (ROWS / (w * h.div_ceil(oh.max(1)) + ow).max(1)).max(1);
            pool::parallel_for((planes * oh).div_ceil(group), &|task| {
                let (mut mean, mut room) = (vec![W::default(); w], vec![W::default(); w]);
                let mut made = vec![W::default(); ow];
                for at in task * group..(planes * oh).min((task + 1) * group) {
                    let (p, (weight, lines)) = (at / oh, &down[at % oh]);
                    // SAFETY: rows of `w` and `ow` elements; each task writes its own.
                    unsafe {
                        for (k, i) in lines.clone().enumerate() {
                            let line = T::wide(src[(p * h + i) * w..][..w].as_ptr(), room.as_mut_ptr(), w);
                            W::mix(line, *weight, &mut mean, k > 0);
                        }
                        for (y, (weight, range)) in made.iter_mut().zip(&columns) {
                            *y = mean[range.clone()].iter().fold(W::default(), |sum, x| sum + *x) * *weight;
                        }
                        T::store(made.as_ptr(), dst.slice(at * ow, ow).as_mut_ptr(), ow);
                    }
                }
            });
            Ok(())
        })
    }))
}

/// Numbers that rows are computed in.
pub(super) trait Mixed: Scalar {
    /// `y (+)= weight x`.
    ///
    /// # Safety
    /// As many elements behind `x` as `y` has.
    unsafe fn mix(x: *const Self, weight: Self, y: &mut [Self], adds: bool);
    /// Each element the sum of `each` weighted ones.
    ///
    /// # Safety
    /// Places lie within the row behind `x`.
    unsafe fn choose(x: *const Self, places: &[u32], weights: &[Self], each: usize, y: &mut [Self]);
}
macro_rules! mixed {
    ($($t:ty: $mix:ident, $choose:ident);*) => {$(
        dispatch! {
            unsafe fn $mix(x: *const $t, weight: $t, y: &mut [$t], adds: bool) { _I => {
                let x = std::slice::from_raw_parts(x, y.len());
                if adds {
                    y.iter_mut().zip(x).for_each(|(y, x)| *y += weight * x);
                } else {
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = weight * x);
                }
            } }
        }
        dispatch! {
            unsafe fn $choose(x: *const $t, places: &[u32], weights: &[$t], each: usize, y: &mut [$t]) { _I => {
                let at = |p: &[u32], w: &[$t], k: usize| w[k] * *x.add(p[k] as usize);
                if each == 2 {
                    let pairs = places.chunks_exact(2).zip(weights.chunks_exact(2));
                    y.iter_mut().zip(pairs).for_each(|(y, (p, w))| *y = at(p, w, 0) + at(p, w, 1));
                } else {
                    let groups = places.chunks_exact(each).zip(weights.chunks_exact(each));
                    y.iter_mut().zip(groups).for_each(|(y, (p, w))| {
                        *y = (1..each).fold(at(p, w, 0), |s, k| s + at(p, w, k));
                    });
                }
            } }
        }
        impl Mixed for $t {
            unsafe fn mix(x: *const $t, weight: $t, y: &mut [$t], adds: bool) {
                // SAFETY: the caller's promise.
                unsafe { $mix(x, weight, y, adds) }
            }
            unsafe fn choose(x: *const $t, places: &[u32], weights: &[$t], each: usize, y: &mut [$t]) {
                // SAFETY: the caller's promise.
                unsafe { $choose(x, places, weights, each, y) }
            }
        }
    )*};
}
mixed!(f32: mix_f32, choose_f32; f64: mix_f64, choose_f64);
