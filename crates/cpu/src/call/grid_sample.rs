//! Images read at given places (`grid_sample`, bilinear) and the gradients of that. Channels lie side by side meanwhile:
//! a neighbor is a vector of a block of them, wherever it is.

#![allow(unsafe_code)]

use super::resample::{Pixel, with_pixel};
use super::{Claim, Operand, Prepared, never, rows, rows_mut};
use crate::kernels::scratch::Scratch;
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
use crate::vmath::simd::Scalar;
use half::{bf16, f16};
use ir::{Attrs, DType, FlatNode, Type};

/// Sampling.
pub static CLAIMS: &[Claim] = &[
    Claim { claims: is_sampled, ..Claim::new("grid_sample", never, |n, args, outs| Ok(sample(&n.attrs, args, outs))) },
    Claim {
        claims: is_sampled,
        ..Claim::new("grid_sample_grad", never, |n, args, outs| Ok(gradients(&n.attrs, args, outs)))
    },
];

fn is_sampled(n: &FlatNode, types: &[Type]) -> bool {
    let is_small = types[0].shape.iter().skip(2).product::<usize>() < i32::MAX as usize;
    let dtype = types[0].dtype;
    n.attrs.str("mode") == Ok("bilinear")
        && matches!(n.attrs.str("padding"), Ok("zeros" | "border"))
        && matches!(dtype, DType::F32 | DType::F64 | DType::BF16)
        && types[0].shape.rank() == 4
        && is_small
}

/// One dimension of a sampled image.
#[derive(Clone, Copy)]
struct Side {
    size: usize,
    align: bool,
    is_border: bool,
}

/// A neighbor along one dimension: its place, its weight, how that changes with the coordinate, and whether it exists.
#[derive(Clone, Copy)]
struct Tap<W> {
    place: usize,
    weight: W,
    slope: W,
    is_inside: bool,
}

impl Side {
    /// The two neighbors of a coordinate, in -1 to 1.
    #[inline(always)]
    fn taps<W: Scalar>(self, g: W) -> [Tap<W>; 2] {
        let (n, last) = (self.size as f64, self.size as f64 - 1.0);
        let c = |x: f64| W::from_f64(x);
        let x = if self.align { (g + c(1.0)) * c(last / 2.0) } else { ((g + c(1.0)) * c(n) - c(1.0)) * c(0.5) };
        // NaN stays.
        let clamp = |x: W| {
            if x < c(0.0) {
                c(0.0)
            } else if x > c(last) {
                c(last)
            } else {
                x
            }
        };
        let step = if self.align { last / 2.0 } else { n / 2.0 };
        let is_held = self.is_border && !(x > c(0.0) && x < c(last));
        let slope = c(if is_held { 0.0 } else { step });
        let x = if self.is_border { clamp(x) } else { x };
        let first = c(x.to_f64().floor());
        let t = x - first;
        let tap = |place: W, weight: W, slope: W| {
            let is_inside = self.is_border || (place >= c(0.0) && place <= c(last));
            Tap { place: (clamp(place).to_f64() as usize).min(self.size - 1), weight, slope, is_inside }
        };
        [tap(first, c(1.0) - t, c(0.0) - slope), tap(first + c(1.0), t, slope)]
    }
}

/// A corner around a place: where it lies in a plane, or [`NOWHERE`], its weight, and how that changes with the two
/// coordinates of the place.
#[derive(Clone, Copy)]
struct Corner<W> {
    at: u32,
    weight: W,
    slopes: [W; 2],
}
const NOWHERE: u32 = u32::MAX;

/// The corners around a coordinate, whose last dimension comes first.
#[inline(always)]
fn corners<W: Scalar>(g: [W; 2], [down, along]: [Side; 2]) -> [Corner<W>; 4] {
    let (x, y) = (along.taps(g[0]), down.taps(g[1]));
    let corner = |k: usize| {
        let (row, column) = (y[k % 2], x[k / 2]);
        let is_inside = row.is_inside && column.is_inside;
        Corner {
            at: if is_inside { (row.place * along.size + column.place) as u32 } else { NOWHERE },
            weight: row.weight * column.weight,
            slopes: [column.slope * row.weight, row.slope * column.weight],
        }
    };
    [corner(0), corner(1), corner(2), corner(3)]
}

/// Channels that lie side by side.
const BLOCK: usize = 16;
/// Channels that are not worth a block.
const FEW: usize = 8;
/// Places that a task samples.
const PLACES: usize = 256;

/// Numbers that are computed with, [`BLOCK`] at a time.
trait Blocks: Scalar {
    /// `planes` of `len` elements to blocks, of which the last channels are zero.
    ///
    /// # Safety
    /// So many elements behind `x`, and `len` blocks behind `to`.
    unsafe fn interleave<T: Pixel<Wide = Self>>(x: *const T, planes: usize, len: usize, to: *mut [Self; BLOCK]) {
        // A stretch of blocks at a time, which stays in the first-level cache.
        const STRETCH: usize = 128;
        for first in (0..len).step_by(STRETCH) {
            for c in 0..BLOCK {
                for p in first..len.min(first + STRETCH) {
                    // SAFETY: the caller's promise.
                    unsafe { (*to.add(p))[c] = if c < planes { (*x.add(c * len + p)).get() } else { Self::default() } };
                }
            }
        }
    }
    /// The first `planes` channels of blocks to planes, whose rows are `apart`.
    ///
    /// # Safety
    /// `len` blocks behind `x`, and so many elements in each row behind `to`.
    unsafe fn deinterleave<T: Pixel<Wide = Self>>(
        x: *const [Self; BLOCK],
        planes: usize,
        len: usize,
        to: *mut T,
        apart: usize,
    ) {
        let mut row = [Self::default(); PLACES];
        for first in (0..len).step_by(PLACES) {
            let count = PLACES.min(len - first);
            for c in 0..planes {
                // SAFETY: the caller's promise.
                unsafe {
                    (0..count).for_each(|i| row[i] = (*x.add(first + i))[c]);
                    T::store(row.as_ptr(), to.add(c * apart + first), count);
                }
            }
        }
    }
    /// The weighted sums of corners.
    ///
    /// # Safety
    /// Corners lie within the image, and `to` has a block for each place.
    unsafe fn sums(image: *const [Self; BLOCK], corners: &[[Corner<Self>; 4]], to: *mut [Self; BLOCK]);
    /// Adds weighted gradients to the corners, and what the places' coordinates change to `slopes`.
    ///
    /// # Safety
    /// Corners lie within the image and `sums`; there is a gradient and a pair of slopes for each place.
    unsafe fn spread(
        image: *const [Self; BLOCK],
        corners: &[[Corner<Self>; 4]],
        g: *const [Self; BLOCK],
        sums: *mut [Self; BLOCK],
        slopes: *mut [Self; 2],
    );
}
macro_rules! blocks {
    ($($t:ty: $sums:ident, $spread:ident);*) => {$(
        dispatch! {
            unsafe fn $sums(image: *const [$t; BLOCK], corners: &[[Corner<$t>; 4]], to: *mut [$t; BLOCK]) { _I => {
                for (i, four) in corners.iter().enumerate() {
                    let mut sum = [0.0; BLOCK];
                    for c in four.iter().filter(|c| c.at != NOWHERE) {
                        let x = &*image.add(c.at as usize);
                        (0..BLOCK).for_each(|l| sum[l] += c.weight * x[l]);
                    }
                    *to.add(i) = sum;
                }
            } }
        }
        dispatch! {
            unsafe fn $spread(
                image: *const [$t; BLOCK],
                corners: &[[Corner<$t>; 4]],
                g: *const [$t; BLOCK],
                sums: *mut [$t; BLOCK],
                slopes: *mut [$t; 2],
            ) { _I => {
                for (i, four) in corners.iter().enumerate() {
                    let g = *g.add(i);
                    for c in four.iter().filter(|c| c.at != NOWHERE) {
                        let (x, sum) = (&*image.add(c.at as usize), &mut *sums.add(c.at as usize));
                        let mut products = [0.0; BLOCK];
                        for l in 0..BLOCK {
                            sum[l] += c.weight * g[l];
                            products[l] = x[l] * g[l];
                        }
                        let mut half = BLOCK / 2;
                        while half > 0 {
                            (0..half).for_each(|l| products[l] += products[l + half]);
                            half /= 2;
                        }
                        let change = products[0];
                        (0..2).for_each(|d| (*slopes.add(i))[d] += change * c.slopes[d]);
                    }
                }
            } }
        }
        impl Blocks for $t {
            unsafe fn sums(image: *const [$t; BLOCK], corners: &[[Corner<$t>; 4]], to: *mut [$t; BLOCK]) {
                // SAFETY: the caller's promise.
                unsafe { $sums(image, corners, to) }
            }
            unsafe fn spread(
                image: *const [$t; BLOCK],
                corners: &[[Corner<$t>; 4]],
                g: *const [$t; BLOCK],
                sums: *mut [$t; BLOCK],
                slopes: *mut [$t; 2],
            ) {
                // SAFETY: the caller's promise.
                unsafe { $spread(image, corners, g, sums, slopes) }
            }
        }
    )*};
}
blocks!(f32: sums_f32, spread_f32; f64: sums_f64, spread_f64);

/// Sizes of a call.
#[derive(Clone, Copy)]
struct Sizes {
    items: usize,
    channels: usize,
    /// Of an image.
    pixels: usize,
    /// Of a grid.
    places: usize,
    sides: [Side; 2],
}

impl Sizes {
    fn new(attrs: &Attrs, x: &Operand, grid: &Operand) -> Option<Sizes> {
        let [items, channels, h, w] = *x.ty.shape.dims() else { return None };
        let (align, is_border) = (attrs.bool("align_corners").ok()?, attrs.str("padding").ok()? == "border");
        let sides = [h, w].map(|size| Side { size, align, is_border });
        Some(Sizes { items, channels, pixels: h * w, places: grid.ty.shape[1] * grid.ty.shape[2], sides })
    }
    fn blocks(&self) -> usize {
        self.channels.div_ceil(BLOCK)
    }
    /// Channels of a block.
    fn planes(&self, block: usize) -> usize {
        BLOCK.min(self.channels - block * BLOCK)
    }
    /// The corners of all places of all items.
    fn corners<T: Pixel>(&self, grid: &[T]) -> Vec<[Corner<T::Wide>; 4]> {
        let zero = T::Wide::default();
        let all = self.items * self.places;
        let mut to = vec![[Corner { at: NOWHERE, weight: zero, slopes: [zero; 2] }; 4]; all];
        let out = Shared::new(to.as_mut_ptr());
        pool::parallel_for(all.div_ceil(PLACES), &|task| {
            for i in task * PLACES..all.min((task + 1) * PLACES) {
                let g = [grid[2 * i].get(), grid[2 * i + 1].get()];
                // SAFETY: each task writes its own corners.
                unsafe { *out.get().add(i) = corners(g, self.sides) };
            }
        });
        to
    }
}

fn sample(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let (x, grid, out) = (args[0].clone(), args[1].clone(), outs[0].clone());
    let sizes = Sizes::new(attrs, &x, &grid)?;
    let pieces = sizes.places.div_ceil(PLACES);
    Some(with_pixel!(x.ty.dtype, T => Box::new(move |bases| {
        type W = <T as Pixel>::Wide;
        let Sizes { items, channels, pixels, places, .. } = sizes;
        // SAFETY: the result is apart from the operands.
        let (src, grid, dst) = unsafe { (rows::<T>(&x, bases), rows::<T>(&grid, bases), rows_mut::<T>(&out, bases)) };
        let (corners, blocks) = (sizes.corners(grid), sizes.blocks());
        if channels < FEW {
            pool::parallel_for(items * pieces, &|task| {
                let (item, first) = (task / pieces, task % pieces * PLACES);
                let corners = &corners[item * places + first..][..PLACES.min(places - first)];
                for plane in item * channels..(item + 1) * channels {
                    // SAFETY: each task writes its own stretch of each plane.
                    let to = unsafe { dst.slice(plane * places + first, corners.len()) };
                    sample_plane(&src[plane * pixels..][..pixels], corners, to);
                }
            });
            return Ok(());
        }
        let images = Scratch::<[W; BLOCK]>::new(items * blocks * pixels);
        let images = Shared::new(images.ptr());
        pool::parallel_for(items * blocks, &|task| {
            let (item, block) = (task / blocks, task % blocks);
            // SAFETY: planes of an item; each task writes its own image.
            unsafe {
                let from = src.as_ptr().add((item * channels + block * BLOCK) * pixels);
                W::interleave(from, sizes.planes(block), pixels, images.get().add(task * pixels));
            }
        });
        pool::parallel_for(items * blocks * pieces, &|task| {
            let (image, first) = (task / pieces, task % pieces * PLACES);
            let (item, block) = (image / blocks, image % blocks);
            let count = PLACES.min(places - first);
            let mut sums = [[W::default(); BLOCK]; PLACES];
            // SAFETY: corners lie in the image; each task writes its own stretch of each plane.
            unsafe {
                let corners = &corners[item * places + first..][..count];
                W::sums(images.get().add(image * pixels), corners, sums.as_mut_ptr());
                let to = dst.get().add((item * channels + block * BLOCK) * places + first);
                W::deinterleave(sums.as_ptr(), sizes.planes(block), count, to, places);
            }
        });
        Ok(())
    })))
}

/// The weighted sums of corners in one plane.
fn sample_plane<T: Pixel>(plane: &[T], corners: &[[Corner<T::Wide>; 4]], to: &mut [T]) {
    let mut sums = [T::Wide::default(); PLACES];
    for (four, sum) in corners.iter().zip(&mut sums) {
        let inside = four.iter().filter_map(|c| plane.get(c.at as usize).map(|x| c.weight * x.get()));
        *sum = inside.fold(T::Wide::default(), |sum, x| sum + x);
    }
    // SAFETY: as many sums as places.
    unsafe { T::store(sums.as_ptr(), to.as_mut_ptr(), to.len()) };
}

/// The gradients for image and coordinates. A task has a block of channels of an item; what the blocks say of the
/// coordinates is added in their order.
fn gradients(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Option<Prepared> {
    let [x, grid, g] = args else { return None };
    let (x, grid, g, of_image, of_grid) = (x.clone(), grid.clone(), g.clone(), outs[0].clone(), outs[1].clone());
    let sizes = Sizes::new(attrs, &x, &grid)?;
    Some(with_pixel!(x.ty.dtype, T => Box::new(move |bases| {
        type W = <T as Pixel>::Wide;
        let Sizes { items, channels, pixels, places, .. } = sizes;
        // SAFETY: the results are apart from the operands and from each other.
        let (src, grid, g) = unsafe { (rows::<T>(&x, bases), rows::<T>(&grid, bases), rows::<T>(&g, bases)) };
        // SAFETY: as above.
        let (to_image, to_grid) = unsafe { (rows_mut::<T>(&of_image, bases), rows_mut::<T>(&of_grid, bases)) };
        let (corners, blocks) = (sizes.corners(grid), sizes.blocks());
        let parts = blocks.max(1);
        let mut slopes = vec![[W::default(); 2]; items * parts * places];
        let changes = Shared::new(slopes.as_mut_ptr());
        pool::parallel_for(items * blocks, &|task| {
            let (item, block) = (task / blocks, task % blocks);
            let (plane, planes) = (item * channels + block * BLOCK, sizes.planes(block));
            let image = Scratch::<[W; BLOCK]>::new(pixels);
            let given = Scratch::<[W; BLOCK]>::new(places);
            let sums = Scratch::<[W; BLOCK]>::new(pixels);
            // SAFETY: planes of an item; corners lie in the image; each task writes its own planes and slopes.
            unsafe {
                W::interleave(src.as_ptr().add(plane * pixels), planes, pixels, image.ptr());
                W::interleave(g.as_ptr().add(plane * places), planes, places, given.ptr());
                (0..pixels).for_each(|p| sums.ptr().add(p).write([W::default(); BLOCK]));
                let (corners, changes) = (&corners[item * places..][..places], changes.get().add(task * places));
                W::spread(image.ptr(), corners, given.ptr(), sums.ptr(), changes);
                W::deinterleave(sums.ptr(), planes, pixels, to_image.get().add(plane * pixels), pixels);
            }
        });
        for item in 0..items {
            let (first, rest) = slopes[item * parts * places..][..parts * places].split_at_mut(places);
            for block in rest.chunks_exact(places.max(1)) {
                for (sum, more) in first.iter_mut().zip(block) {
                    *sum = [sum[0] + more[0], sum[1] + more[1]];
                }
            }
            // SAFETY: pairs of numbers lie one after the other; the item's own coordinates.
            unsafe { T::store(first.as_ptr().cast(), to_grid.get().add(item * places * 2), places * 2) };
        }
        Ok(())
    })))
}
