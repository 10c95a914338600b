//! Max and average pooling over one to three spatial dimensions, and their gradients.
//!
//! Planes are independent: `x[planes, …]` to `y[planes, …]`, both contiguous, `planes` being
//! batch times channels. Output sizes are the window's, so ceil mode is the caller's choice
//! ([`Window::with_output`]).

#![allow(unsafe_code)]

use super::scratch::Scratch;
use super::window::Window;
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
use crate::vmath::simd::{Isa, Vector};

/// A float that can be pooled.
pub trait Pooled:
    Copy + Send + Sync + PartialOrd + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> + 'static
{
    /// Less than every number.
    const LOWEST: Self;
    /// Zero.
    const ZERO: Self;
    /// `1 / n`.
    fn inverse(n: usize) -> Self;
    /// Takes `x[0]`, `x[stride]`, … into `n` running maxima; they are elements `at`, `at + stride`,
    /// … of the plane. An index below 0 says that nothing was taken yet.
    ///
    /// # Safety
    /// `n` elements behind `y` and `index`, and `n` a stride apart behind `x`.
    unsafe fn take_max(x: *const Self, stride: usize, at: usize, y: *mut Self, index: *mut i64, n: usize);
    /// The maxima of all windows of a plane, by a faster way; `false` if there is none.
    fn max_plane(_w: &Window, _x: &[Self], _y: &mut [Self]) -> bool {
        false
    }
    /// The maxima of all windows of a plane and their places, by a faster way; `false` if there is
    /// none. `x` begins with the plane, but may be longer.
    fn pool_plane(_w: &Window, _x: &[Self], _y: &mut [Self], _index: &mut [i64]) -> bool {
        false
    }
}

#[inline(always)]
unsafe fn take_max<E: Pooled>(x: *const E, stride: usize, at: usize, y: *mut E, index: *mut i64, n: usize) {
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            let (v, best, place) = (*x.add(i * stride), *y.add(i), *index.add(i));
            #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
            let better = (v > best) | ((v != v) & (best == best)) | (place < 0);
            *y.add(i) = if better { v } else { best };
            *index.add(i) = if better { (at + i * stride) as i64 } else { place };
        }
    }
}

/// Strides that are common get loops of their own.
#[inline(always)]
unsafe fn take_max_strided<E: Pooled>(x: *const E, stride: usize, at: usize, y: *mut E, index: *mut i64, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match stride {
            1 => take_max(x, 1, at, y, index, n),
            2 => take_max(x, 2, at, y, index, n),
            _ => take_max(x, stride, at, y, index, n),
        }
    }
}

dispatch! {
    unsafe fn take_max_f32(x: *const f32, stride: usize, at: usize, y: *mut f32, index: *mut i64, n: usize) {
        _I => take_max_strided(x, stride, at, y, index, n)
    }
}
dispatch! {
    unsafe fn take_max_f64(x: *const f64, stride: usize, at: usize, y: *mut f64, index: *mut i64, n: usize) {
        _I => take_max_strided(x, stride, at, y, index, n)
    }
}

/// One output of a plane of numbers, tap by tap.
unsafe fn pool_one(w: &Window, x: *const f32, line: usize, col: usize) -> (f32, i64) {
    let (mut best, mut place) = (f32::NEG_INFINITY, -1);
    for ky in 0..w.kernel[1] {
        for kx in 0..w.kernel[2] {
            if let (Some(y), Some(c)) = (w.at(1, line, ky), w.at(2, col, kx)) {
                let at = y * w.input[2] + c;
                // SAFETY: inside the plane.
                let v = unsafe { *x.add(at) };
                if place < 0 || v > best || (v.is_nan() && !best.is_nan()) {
                    (best, place) = (v, at as i64);
                }
            }
        }
    }
    (best, place.max(0))
}

/// All windows of a plane, a vector of outputs at a time; windows are `S` columns apart.
#[inline(always)]
unsafe fn pool_plane_body<V: Vector<E = f32>, const S: usize>(
    w: &Window,
    x: *const f32,
    len: usize,
    y: *mut f32,
    index: *mut i64,
) {
    let lanes: [f32; 16] = std::array::from_fn(|i| (i * S) as f32);
    // Outputs all of whose columns are inside.
    let first = w.pad[2].div_ceil(S).min(w.output[2]);
    let end = ((w.input[2] + w.pad[2] + S).saturating_sub(w.kernel[2]) / S).clamp(first, w.output[2]);
    // SAFETY: places are inside the plane, vectors inside `len` elements, the rest is the caller's promise.
    unsafe {
        let steps = V::load(lanes.as_ptr());
        for line in 0..w.output[1] {
            let (y, index) = (y.add(line * w.output[2]), index.add(line * w.output[2]));
            let one = |col: usize| (*y.add(col), *index.add(col)) = pool_one(w, x, line, col);
            let rows = w.inside_taps(1, line);
            let mut col = first;
            while col < end && !rows.is_empty() {
                let corner = w.at(1, line, rows.start).unwrap_or(0) * w.input[2] + col * S - w.pad[2];
                let last = corner + (rows.len() - 1) * w.input[2] + w.kernel[2] - 1;
                if last + S * V::N > len {
                    break;
                }
                let n = V::N.min(end - col);
                let mut best = V::load_apart::<S>(x.add(corner));
                let mut place = V::splat(corner as f32) + steps;
                for ky in 0..rows.len() {
                    for kx in usize::from(ky == 0)..w.kernel[2] {
                        let at = corner + ky * w.input[2] + kx;
                        let (v, p) = (V::load_apart::<S>(x.add(at)), V::splat(at as f32) + steps);
                        let (more, is_number, was_number) = (best.lt(v), v.eq(v), best.eq(best));
                        let pick = |new: V, old: V| {
                            V::select(is_number, V::select(more, new, old), V::select(was_number, new, old))
                        };
                        (best, place) = (pick(v, best), pick(p, place));
                    }
                }
                best.store_n(y.add(col), n);
                let place = place.lanes();
                for i in 0..n {
                    *index.add(col + i) = place[i] as i64;
                }
                col += n;
            }
            (0..first).chain(col..w.output[2]).for_each(one);
        }
    }
}

dispatch! {
    unsafe fn pool_plane_1(w: &Window, x: *const f32, len: usize, y: *mut f32, index: *mut i64) {
        I => pool_plane_body::<<I as Isa>::S, 1>(w, x, len, y, index)
    }
}
dispatch! {
    unsafe fn pool_plane_2(w: &Window, x: *const f32, len: usize, y: *mut f32, index: *mut i64) {
        I => pool_plane_body::<<I as Isa>::S, 2>(w, x, len, y, index)
    }
}

/// The maxima alone: first down the columns of a window's lines, then along the line that is left,
/// which stands between minus infinities in `room`; windows are `S` columns apart.
#[inline(always)]
unsafe fn max_plane_body<V: Vector<E = f32>, const S: usize>(w: &Window, x: *const f32, room: *mut f32, y: *mut f32) {
    let (wide, pad) = (w.input[2], w.pad[2]);
    // SAFETY: lines are inside the plane, the room has the size of `max_room`.
    unsafe {
        for line in 0..w.output[1] {
            let y = y.add(line * w.output[2]);
            let rows = w.inside_taps(1, line);
            let Some(first) = w.at(1, line, rows.start).filter(|_| !rows.is_empty()) else {
                (0..w.output[2]).for_each(|i| *y.add(i) = f32::NEG_INFINITY);
                continue;
            };
            for i in (0..wide).step_by(V::N) {
                let n = V::N.min(wide - i);
                let from = x.add(first * wide + i);
                let mut most = V::load_n(from, n);
                for r in 1..rows.len() {
                    most = most.maximum(V::load_n(from.add(r * wide), n));
                }
                most.store_n(room.add(pad + i), n);
            }
            for col in (0..w.output[2]).step_by(V::N) {
                let from = room.add(col * S);
                let mut most = V::load_apart::<S>(from);
                for kx in 1..w.kernel[2] {
                    most = most.maximum(V::load_apart::<S>(from.add(kx)));
                }
                most.store_n(y.add(col), V::N.min(w.output[2] - col));
            }
        }
    }
}

/// Elements of the line that [`max_plane_body`] works on.
fn max_room(w: &Window) -> usize {
    let reach = (w.output[2].next_multiple_of(16) + 16) * w.stride[2] + w.kernel[2];
    reach.max(w.pad[2] + w.input[2])
}

dispatch! {
    unsafe fn max_plane_1(w: &Window, x: *const f32, room: *mut f32, y: *mut f32) {
        I => max_plane_body::<<I as Isa>::S, 1>(w, x, room, y)
    }
}
dispatch! {
    unsafe fn max_plane_2(w: &Window, x: *const f32, room: *mut f32, y: *mut f32) {
        I => max_plane_body::<<I as Isa>::S, 2>(w, x, room, y)
    }
}

/// Whether windows lie in one plane, without gaps, at most two columns apart.
fn is_flat(w: &Window) -> bool {
    w.input[0] == 1 && w.kernel[0] == 1 && w.output[0] == 1 && w.dilation == [1; 3] && w.stride[2] <= 2
}

impl Pooled for f32 {
    const LOWEST: f32 = f32::NEG_INFINITY;
    const ZERO: f32 = 0.0;
    fn inverse(n: usize) -> f32 {
        1.0 / n as f32
    }
    unsafe fn take_max(x: *const f32, stride: usize, at: usize, y: *mut f32, index: *mut i64, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { take_max_f32(x, stride, at, y, index, n) }
    }
    fn max_plane(w: &Window, x: &[f32], y: &mut [f32]) -> bool {
        if !is_flat(w) || y.len() != w.output_len() || x.len() < w.input_len() {
            return false;
        }
        let room = Scratch::<f32>::new(max_room(w));
        let pool = if w.stride[2] == 1 { max_plane_1 } else { max_plane_2 };
        // SAFETY: the slices hold the planes; the room is written before it is read.
        unsafe {
            (0..max_room(w)).for_each(|i| room.ptr().add(i).write(f32::NEG_INFINITY));
            pool(w, x.as_ptr(), room.ptr(), y.as_mut_ptr());
        }
        true
    }
    fn pool_plane(w: &Window, x: &[f32], y: &mut [f32], index: &mut [i64]) -> bool {
        // Places are counted in floats on the way.
        if !is_flat(w) || w.input_len() >= 1 << 24 || y.len() != w.output_len() {
            return false;
        }
        let pool = if w.stride[2] == 1 { pool_plane_1 } else { pool_plane_2 };
        // SAFETY: the slices hold the planes.
        unsafe { pool(w, x.as_ptr(), x.len(), y.as_mut_ptr(), index.as_mut_ptr()) };
        true
    }
}

impl Pooled for f64 {
    const LOWEST: f64 = f64::NEG_INFINITY;
    const ZERO: f64 = 0.0;
    fn inverse(n: usize) -> f64 {
        1.0 / n as f64
    }
    unsafe fn take_max(x: *const f64, stride: usize, at: usize, y: *mut f64, index: *mut i64, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { take_max_f64(x, stride, at, y, index, n) }
    }
}

#[track_caller]
fn check(what: &str, want: usize, got: usize) {
    assert!(want == got, "{what} of {want} elements expected, got {got}");
}

/// Runs `f(plane)` on all threads, several small planes a task.
fn each_plane(planes: usize, size: usize, f: &(dyn Fn(usize) + Sync)) {
    let each = (16384 / size.max(1)).max(1);
    pool::parallel_for(planes.div_ceil(each), &|task| {
        (task * each..((task + 1) * each).min(planes)).for_each(f);
    });
}

/// Calls `f(first output, first input, outputs)` for each run of outputs along the last dimension
/// that has a tap inside the input; inputs of a run are a stride apart. Runs of one output row
/// come one after the other, in the order of taps.
#[inline(always)]
fn each_run(w: &Window, mut f: impl FnMut(usize, usize, usize)) {
    for oz in 0..w.output[0] {
        for oy in 0..w.output[1] {
            let out = (oz * w.output[1] + oy) * w.output[2];
            for kz in 0..w.kernel[0] {
                let Some(z) = w.at(0, oz, kz) else { continue };
                for ky in 0..w.kernel[1] {
                    let Some(y) = w.at(1, oy, ky) else { continue };
                    let row = (z * w.input[1] + y) * w.input[2];
                    for kx in 0..w.kernel[2] {
                        let (low, high) = w.inside(2, kx);
                        if low < high {
                            let at = row + low * w.stride[2] + kx * w.dilation[2] - w.pad[2];
                            f(out + low, at, high - low);
                        }
                    }
                }
            }
        }
    }
}

/// The largest element of each window, and its place in the input plane (the first of equals, or
/// the first NaN). Padding is never chosen; a window of padding alone gives minus infinity and 0.
pub fn max_pool<E: Pooled>(w: &Window, planes: usize, x: &[E], y: &mut [E], index: &mut [i64]) {
    let (size_in, size_out) = (w.input_len(), w.output_len());
    check("max_pool: an input", planes * size_in, x.len());
    check("max_pool: an output", planes * size_out, y.len());
    check("max_pool: an index", planes * size_out, index.len());
    let (py, pi) = (Shared::new(y.as_mut_ptr()), Shared::new(index.as_mut_ptr()));
    each_plane(planes, size_in, &|plane| {
        let x = &x[plane * size_in..];
        // SAFETY: each plane is written by one task.
        let (y, index) = unsafe { (py.slice(plane * size_out, size_out), pi.slice(plane * size_out, size_out)) };
        if E::pool_plane(w, x, y, index) {
            return;
        }
        let x = &x[..size_in];
        y.fill(E::LOWEST);
        index.fill(0);
        let mut fresh = usize::MAX;
        each_run(w, |out, at, count| {
            // The first tap of a row is taken even when it is minus infinity.
            let row = out / w.output[2];
            if row != fresh {
                fresh = row;
                index[row * w.output[2]..(row + 1) * w.output[2]].fill(-1);
            }
            let (y, index) = (&mut y[out..out + count], &mut index[out..out + count]);
            debug_assert!(at + (count - 1) * w.stride[2] < x.len());
            // SAFETY: runs stay inside the planes.
            unsafe {
                E::take_max(x.as_ptr().add(at), w.stride[2], at, y.as_mut_ptr(), index.as_mut_ptr(), count);
            }
        });
        index.iter_mut().for_each(|i| *i = (*i).max(0));
    });
}

/// [`max_pool`] without the places.
pub fn max_pool_values<E: Pooled>(w: &Window, planes: usize, x: &[E], y: &mut [E]) {
    let (size_in, size_out) = (w.input_len(), w.output_len());
    check("max_pool: an input", planes * size_in, x.len());
    check("max_pool: an output", planes * size_out, y.len());
    let py = Shared::new(y.as_mut_ptr());
    each_plane(planes, size_in, &|plane| {
        let x = &x[plane * size_in..][..size_in];
        // SAFETY: each plane is written by one task.
        let y = unsafe { py.slice(plane * size_out, size_out) };
        if !E::max_plane(w, x, y) {
            let index = Scratch::<i64>::new(size_out);
            // SAFETY: as many as there are outputs; all are written before any is read.
            max_pool(w, 1, x, y, unsafe { index.slice() });
        }
    });
}

/// The gradient of [`max_pool`]: `dy` goes to the places in `index`, the rest is zero.
///
/// # Panics
/// When a place lies outside its plane.
pub fn max_pool_grad<E: Pooled>(planes: usize, dy: &[E], index: &[i64], dx: &mut [E]) {
    if planes == 0 {
        return;
    }
    let (size_in, size_out) = (dx.len() / planes, dy.len() / planes);
    check("max_pool_grad: an index", planes * size_out, index.len());
    check("max_pool_grad: an input gradient", planes * size_in, dx.len());
    let p = Shared::new(dx.as_mut_ptr());
    each_plane(planes, size_in, &|plane| {
        // SAFETY: each plane is written by one task.
        let dx = unsafe { p.slice(plane * size_in, size_in) };
        dx.fill(E::ZERO);
        let part = plane * size_out..(plane + 1) * size_out;
        for (&i, &g) in index[part.clone()].iter().zip(&dy[part]) {
            dx[i as usize] = dx[i as usize] + g;
        }
    });
}

/// What an average divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The size of the window, padding included.
    Window,
    /// The elements that are inside the input.
    Inside,
}

/// One factor an output position.
fn factors<E: Pooled>(w: &Window, divisor: Divisor) -> Vec<E> {
    let count = |d: usize, o: usize| (0..w.kernel[d]).filter(|&k| w.at(d, o, k).is_some()).count();
    let inside = |p: usize| {
        let [_, oy, ox] = w.output;
        count(0, p / ox / oy) * count(1, p / ox % oy) * count(2, p % ox)
    };
    (0..w.output_len())
        .map(|p| match divisor {
            Divisor::Window => E::inverse(w.kernel_len()),
            Divisor::Inside => E::inverse(inside(p).max(1)),
        })
        .collect()
}

/// The average of each window; padding counts as zero.
pub fn avg_pool<E: Pooled>(w: &Window, planes: usize, divisor: Divisor, x: &[E], y: &mut [E]) {
    let (size_in, size_out) = (w.input_len(), w.output_len());
    check("avg_pool: an input", planes * size_in, x.len());
    check("avg_pool: an output", planes * size_out, y.len());
    let factors = factors::<E>(w, divisor);
    let p = Shared::new(y.as_mut_ptr());
    each_plane(planes, size_in, &|plane| {
        let x = &x[plane * size_in..][..size_in];
        // SAFETY: each plane is written by one task.
        let y = unsafe { p.slice(plane * size_out, size_out) };
        y.fill(E::ZERO);
        each_run(w, |out, at, count| {
            for i in 0..count {
                y[out + i] = y[out + i] + x[at + i * w.stride[2]];
            }
        });
        y.iter_mut().zip(&factors).for_each(|(y, f)| *y = *y * *f);
    });
}

/// The gradient of [`avg_pool`].
pub fn avg_pool_grad<E: Pooled>(w: &Window, planes: usize, divisor: Divisor, dy: &[E], dx: &mut [E]) {
    let (size_in, size_out) = (w.input_len(), w.output_len());
    check("avg_pool_grad: an output gradient", planes * size_out, dy.len());
    check("avg_pool_grad: an input gradient", planes * size_in, dx.len());
    let factors = factors::<E>(w, divisor);
    let p = Shared::new(dx.as_mut_ptr());
    each_plane(planes, size_in, &|plane| {
        let dy = &dy[plane * size_out..][..size_out];
        // SAFETY: each plane is written by one task.
        let dx = unsafe { p.slice(plane * size_in, size_in) };
        dx.fill(E::ZERO);
        each_run(w, |out, at, count| {
            for i in 0..count {
                let to = &mut dx[at + i * w.stride[2]];
                *to = *to + dy[out + i] * factors[out + i];
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Noise, assert_close};
    use super::*;

    fn random(noise: &mut Noise) -> Window {
        let dims = noise.range(1, 3);
        let kernel: Vec<usize> = (0..dims).map(|_| noise.range(1, 4)).collect();
        let dilation: Vec<usize> = (0..dims).map(|_| noise.range(1, 2)).collect();
        let stride: Vec<usize> = (0..dims).map(|_| noise.range(1, 3)).collect();
        let input: Vec<usize> = (0..dims).map(|d| noise.range(1, 7) + dilation[d] * (kernel[d] - 1)).collect();
        let pad: Vec<(usize, usize)> = (0..dims).map(|d| (noise.range(0, kernel[d] / 2), noise.range(0, 2))).collect();
        Window::new(&input, &kernel, &stride, &pad, &dilation)
    }

    /// The input places of the window of output `p`.
    fn places(w: &Window, p: usize) -> Vec<usize> {
        let pos = [p / w.output[2] / w.output[1], p / w.output[2] % w.output[1], p % w.output[2]];
        let mut all = Vec::new();
        for t in 0..w.kernel_len() {
            let tap = [t / w.kernel[2] / w.kernel[1], t / w.kernel[2] % w.kernel[1], t % w.kernel[2]];
            let at = (0..3).try_fold(0, |at, d| {
                let i = (pos[d] * w.stride[d] + tap[d] * w.dilation[d]) as isize - w.pad[d] as isize;
                (i >= 0 && (i as usize) < w.input[d]).then(|| at * w.input[d] + i as usize)
            });
            all.extend(at);
        }
        all
    }

    #[test]
    fn pools_and_gradients() {
        let mut noise = Noise::new(21);
        for _ in 0..150 {
            let w = random(&mut noise);
            let planes = noise.range(1, 4);
            let (a, b) = (w.input_len(), w.output_len());
            let (x, dy) = (noise.f32s(planes * a), noise.f32s(planes * b));
            let (mut y, mut index, mut dx) = (vec![0f32; planes * b], vec![0i64; planes * b], vec![7f32; planes * a]);
            max_pool(&w, planes, &x, &mut y, &mut index);
            let mut values = vec![9f32; planes * b];
            max_pool_values(&w, planes, &x, &mut values);
            assert_eq!(values, y, "{w:?}");
            max_pool_grad(planes, &dy, &index, &mut dx);
            let (mut mean, mut dmean) = (vec![0f32; planes * b], vec![7f32; planes * a]);
            let divisor = if noise.flip() { Divisor::Window } else { Divisor::Inside };
            avg_pool(&w, planes, divisor, &x, &mut mean);
            avg_pool_grad(&w, planes, divisor, &dy, &mut dmean);
            let (mut want_dx, mut want_mean, mut want_dmean) =
                (vec![0f64; planes * a], vec![0f64; planes * b], vec![0f64; planes * a]);
            for n in 0..planes {
                for p in 0..b {
                    let all = places(&w, p);
                    let best = all.iter().copied().reduce(|i, j| if x[n * a + j] > x[n * a + i] { j } else { i });
                    assert_eq!(index[n * b + p] as usize, best.unwrap_or(0), "{w:?}");
                    assert_eq!(y[n * b + p], best.map_or(f32::NEG_INFINITY, |i| x[n * a + i]));
                    want_dx[n * a + best.unwrap_or(0)] += dy[n * b + p] as f64;
                    let count = if divisor == Divisor::Window { w.kernel_len() } else { all.len().max(1) };
                    for i in all {
                        want_mean[n * b + p] += x[n * a + i] as f64 / count as f64;
                        want_dmean[n * a + i] += dy[n * b + p] as f64 / count as f64;
                    }
                }
            }
            assert_close(&dx, &want_dx, 1e-5, "max gradient");
            assert_close(&mean, &want_mean, 1e-5, "mean");
            assert_close(&dmean, &want_dmean, 1e-5, "mean gradient");
        }
    }

    #[test]
    fn nan_wins_and_minus_infinity_has_a_place() {
        let w = Window::new(&[4], &[2], &[2], &[(0, 0)], &[1]);
        let (mut y, mut index) = ([0f32; 2], [0i64; 2]);
        max_pool(&w, 1, &[1.0, f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY], &mut y, &mut index);
        assert!(y[0].is_nan() && y[1] == f32::NEG_INFINITY);
        assert_eq!(index, [1, 2]);
        max_pool_values(&w, 1, &[1.0, f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY], &mut y);
        assert!(y[0].is_nan() && y[1] == f32::NEG_INFINITY);
    }
}
