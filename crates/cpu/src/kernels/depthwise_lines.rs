//! Windows of 3×3, 5×5 and 7×7 over single planes of `f32`, with stride 1 or 2: the usual depthwise convolutions.
//!
//! Where vectors are loaded with masks, planes are read where they lie ([`masks`]). Elsewhere a plane is copied between
//! zeros, with stride 2 its even and odd lines and columns apart, so that neighboring outputs
//! take neighboring elements. Some lines of outputs are summed at a time, and every vector of the input is read once for
//! all of them. Planes narrower than a vector are summed as one long line, whose ends of lines are left out afterwards;
//! those of several channels are copied, summed and stored in turns, since reading what was just written waits.

#![allow(unsafe_code)]

mod masks;

use super::conv::Conv;
use super::epilogue::Epilogue;
use super::scratch::Scratch;
use crate::pool::Shared;
use crate::vmath::simd::{Isa, Vector};
use crate::vmath::{Level, dispatch, level};

/// The most lanes of a vector.
const LANES: usize = 16;
/// Vectors of a long line that are summed at a time.
const LONG: usize = 4;
/// Outputs of a line up to which planes are summed as one long line.
const NARROW: usize = 8;
/// Narrow planes that are copied before they are summed.
const TURN: usize = 16;
/// Lines of outputs that are summed at a time.
const LINES: usize = 4;
/// Vectors of outputs that are stored at least before they are read again, where there are so many: a processor holds
/// fewer stores back.
const STORES: usize = 128;
/// The most taps of a window.
const TAPS: usize = 49;

/// Sums over the windows of a plane.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    from: [usize; 2],
    to: [usize; 2],
    pad: [usize; 2],
    side: usize,
    stride: usize,
    /// Taps are taken in reverse order.
    is_reversed: bool,
}

impl Lines {
    /// The forward pass of a convolution, if it is of this kind.
    pub(crate) fn forward(c: &Conv) -> Option<Lines> {
        let w = &c.window;
        let is_flat = w.input[0] == 1 && w.output[0] == 1 && w.kernel[0] == 1 && w.pad[0] == 0;
        let is_square = w.kernel[1] == w.kernel[2] && matches!(w.kernel[1], 3 | 5 | 7);
        let is_near = w.stride[1] == w.stride[2] && w.stride[1] <= 2 && w.dilation == [1; 3];
        let is_one = c.channels == c.groups && c.out_channels == c.groups;
        let two = |a: [usize; 3]| [a[1], a[2]];
        let (from, to, pad, side) = (two(w.input), two(w.output), two(w.pad), w.kernel[1]);
        let is_inside = pad[0] < side && pad[1] < side;
        let lines = Lines { from, to, pad, side, stride: w.stride[1], is_reversed: false };
        (is_flat && is_square && is_near && is_one && is_inside).then_some(lines)
    }

    /// The gradient of the input, if it is of this kind: it takes the output's gradient.
    pub(crate) fn backward(c: &Conv) -> Option<Lines> {
        let f = Lines::forward(c).filter(|f| f.stride == 1)?;
        let pad = f.pad.map(|p| f.side - 1 - p);
        Some(Lines { from: f.to, to: f.from, pad, is_reversed: true, ..f })
    }

    /// Elements of a plane that is read, and of one that is written.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.from[0] * self.from[1], self.to[0] * self.to[1])
    }
    fn is_narrow(&self) -> bool {
        self.to[1] <= NARROW
    }
    /// Whether planes are read where they lie.
    pub(crate) fn has_masks() -> bool {
        matches!(level(), Level::Avx2 | Level::Avx512)
    }
    /// Planes that are computed together.
    pub(crate) fn turn(&self) -> usize {
        match (Lines::has_masks(), self.is_narrow()) {
            (true, _) => (STORES / (self.to[0] * self.to[1].div_ceil(LANES))).clamp(1, TURN),
            (_, true) => TURN,
            _ => 1,
        }
    }
    /// Elements that a window reaches beyond its first, in one of the parts of a plane.
    fn reach(&self) -> usize {
        (self.side - 1) / self.stride
    }
    /// Elements of a line of a part.
    fn pitch(&self) -> usize {
        let wide = if self.is_narrow() { self.to[1] } else { self.to[1].next_multiple_of(LANES) };
        wide + self.reach()
    }
    /// Lines of a part, with those of outputs beyond the plane that are summed together with its last.
    fn lines(&self) -> usize {
        let high = if self.is_narrow() { self.to[0] } else { self.to[0].max(LINES) };
        high + self.reach()
    }
    /// Elements of a part: `stride` × `stride` of them make a plane.
    fn part(&self) -> usize {
        self.lines() * self.pitch() + LONG * LANES + LANES
    }
    fn frame(&self) -> usize {
        self.stride * self.stride * self.part()
    }
    /// Where the taps of the first output lie in a frame.
    fn places(&self) -> [usize; TAPS] {
        std::array::from_fn(|t| {
            let (ky, kx, s) = (t / self.side, t % self.side, self.stride);
            (ky % s * s + kx % s) * self.part() + ky / s * self.pitch() + kx / s
        })
    }
    /// Elements of the long line, whole vectors.
    fn long(&self) -> usize {
        (self.lines() * self.pitch()).next_multiple_of(LONG * LANES)
    }
    /// The taps of a plane in the order they are used, a vector of each.
    #[inline(always)]
    unsafe fn taps<V: Vector<E = f32>, const K: usize>(&self, taps: *const f32) -> [[V; K]; K] {
        let mut all = [[V::zero(); K]; K];
        for (t, tap) in all.as_flattened_mut().iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *tap = V::splat(unsafe { *taps.add(if self.is_reversed { K * K - 1 - t } else { t }) });
        }
        all
    }
    /// Room for [`Lines::run`], filled with zeros.
    pub(crate) fn room(&self) -> Scratch<f32> {
        if Lines::has_masks() {
            return Scratch::new(0);
        }
        let zeros = self.turn() * self.frame();
        let room = Scratch::<f32>::new(zeros + if self.is_narrow() { TURN * self.long() } else { 0 });
        // SAFETY: as many elements were asked for.
        unsafe { std::ptr::write_bytes(room.ptr(), 0, zeros) };
        room
    }

    /// Computes `count` planes, [`Lines::turn`] at most, that lie one after the other, as their taps do; they are the
    /// rows of the epilogue from `row` on. Without masks it must be a plain one.
    ///
    /// # Safety
    /// The planes and taps are there, the result is apart from them, and the room is from [`Lines::room`] and used for
    /// nothing else.
    pub(crate) unsafe fn run(
        &self,
        count: usize,
        x: *const f32,
        taps: *const f32,
        (e, row): (&Epilogue<Shared<u8>>, usize),
        room: &Scratch<f32>,
    ) {
        debug_assert!(count <= self.turn());
        // SAFETY: the caller's promise.
        unsafe { planes(self, count, x, taps, e, row, room.ptr()) }
    }
}

dispatch! {
    unsafe fn planes(
        s: &Lines,
        count: usize,
        x: *const f32,
        taps: *const f32,
        e: &Epilogue<Shared<u8>>,
        row: usize,
        room: *mut f32
    ) {
        I => planes_body::<<I as Isa>::S>(s, count, x, taps, e, row, room)
    }
}

#[inline(always)]
unsafe fn planes_body<V: Vector<E = f32>>(
    s: &Lines,
    count: usize,
    x: *const f32,
    taps: *const f32,
    e: &Epilogue<Shared<u8>>,
    row: usize,
    room: *mut f32,
) {
    let ((from, to), side) = (s.sizes(), s.side * s.side);
    // SAFETY: the caller's promise.
    unsafe {
        if V::HAS_MASKS {
            return masks::planes::<V>(s, count, x, taps, e, row);
        }
        let taps_of = |i: usize| {
            let mut own = [0f32; TAPS];
            for t in 0..side {
                own[if s.is_reversed { side - 1 - t } else { t }] = *taps.add(i * side + t);
            }
            own
        };
        let y = e.to.get().cast::<f32>().add(row * to);
        let places = s.places();
        (0..count).for_each(|i| fill::<V>(s, x.add(i * from), room.add(i * s.frame())));
        let long = room.add(s.turn() * s.frame());
        for i in 0..count {
            let (frame, own) = (room.add(i * s.frame()).cast_const(), &taps_of(i)[..side]);
            match (s.is_narrow(), s.side, s.stride) {
                (true, ..) => long_line::<V>(s, frame, own, &places[..side], long.add(i * s.long())),
                (_, 3, 1) => each_line::<V, 1>(s, frame, own, &places[..side], y.add(i * to)),
                (_, 3, _) => each_line::<V, 2>(s, frame, own, &places[..side], y.add(i * to)),
                _ => each_line::<V, 0>(s, frame, own, &places[..side], y.add(i * to)),
            }
        }
        if s.is_narrow() {
            for (i, line) in (0..count).flat_map(|i| (0..s.to[0]).map(move |line| (i, line))) {
                let from = long.add(i * s.long() + line * s.pitch());
                copy::<V>(from, y.add(i * to + line * s.to[1]), s.to[1]);
            }
        }
    }
}

#[inline(always)]
unsafe fn copy<V: Vector<E = f32>>(from: *const f32, to: *mut f32, count: usize) {
    let mut i = 0;
    while i < count {
        let n = V::N.min(count - i);
        // SAFETY: the caller's promise.
        unsafe { V::load_n(from.add(i), n).store_n(to.add(i), n) };
        i += n;
    }
}

/// Copies a plane into its frame.
#[inline(always)]
unsafe fn fill<V: Vector<E = f32>>(s: &Lines, x: *const f32, frame: *mut f32) {
    let (pitch, part) = (s.pitch(), s.part());
    for line in 0..s.from[0] {
        let at = line + s.pad[0];
        if at / s.stride >= s.lines() {
            break;
        }
        // SAFETY: lines and columns that the frame has; elements of the plane.
        unsafe {
            let from = x.add(line * s.from[1]);
            let to = frame.add(at % s.stride * s.stride * part + at / s.stride * pitch);
            if s.stride == 1 {
                copy::<V>(from, to.add(s.pad[1]), s.from[1].min(pitch - s.pad[1]));
                continue;
            }
            for odd in 0..2.min(s.from[1]) {
                let column = odd + s.pad[1];
                let to = to.add(column % 2 * part + column / 2);
                let count = (s.from[1] - odd).div_ceil(2).min(pitch - column / 2);
                for i in (0..count).step_by(V::N) {
                    let (p, left) = (from.add(odd + 2 * i), s.from[1] - odd - 2 * i);
                    let high = left.saturating_sub(V::N).min(V::N);
                    let pair = V::evens(V::load_n(p, left.min(V::N)), V::load_n(p.wrapping_add(V::N), high));
                    pair.store_n(to.add(i), V::N.min(count - i));
                }
            }
        }
    }
}

/// All outputs as one long line, of which `pitch` elements are a line of the plane.
#[inline(always)]
unsafe fn long_line<V: Vector<E = f32>>(s: &Lines, frame: *const f32, taps: &[f32], places: &[usize], to: *mut f32) {
    let count = (s.to[0] - 1) * s.pitch() + s.to[1];
    for first in (0..count).step_by(LONG * V::N) {
        let mut acc = [V::zero(); LONG];
        for (&tap, &place) in taps.iter().zip(places) {
            // SAFETY: parts have room for whole vectors after their last line.
            unsafe {
                let (tap, from) = (V::splat(tap), frame.add(place + first));
                for v in 0..LONG {
                    acc[v] = tap.fma(V::load(from.add(v * V::N)), acc[v]);
                }
            }
        }
        for v in 0..LONG {
            // SAFETY: the long line has whole vectors.
            unsafe { acc[v].store(to.add(first + v * V::N)) };
        }
    }
}

/// All outputs line by line, several lines at a time; windows of 3×3 with stride `S`, or others if it is 0.
#[inline(always)]
unsafe fn each_line<V: Vector<E = f32>, const S: usize>(
    s: &Lines,
    frame: *const f32,
    taps: &[f32],
    places: &[usize],
    y: *mut f32,
) {
    // The last lines are summed with some before them once more.
    let last = s.to[0].saturating_sub(LINES);
    for line in (0..s.to[0]).step_by(LINES).map(|line| line.min(last)) {
        // SAFETY: the caller's promise.
        unsafe {
            if S > 0 && s.to[0] >= LINES {
                lines_of_three::<V, S>(s, frame, taps, line, y);
            } else {
                some_lines::<V>(s, frame, taps, places, line, y);
            }
        }
    }
}

/// Stores vectors of some lines of outputs, from `line` and `col` on.
#[inline(always)]
unsafe fn store_lines<V: Vector<E = f32>>(s: &Lines, acc: [V; LINES], line: usize, col: usize, y: *mut f32) {
    let n = V::N.min(s.to[1] - col);
    for l in 0..LINES {
        if line + l < s.to[0] {
            // SAFETY: lines and columns of the plane.
            unsafe { acc[l].store_n(y.add((line + l) * s.to[1] + col), n) };
        }
    }
}

/// Some lines of outputs from `line` on, perhaps beyond the plane.
#[inline(always)]
unsafe fn some_lines<V: Vector<E = f32>>(
    s: &Lines,
    frame: *const f32,
    taps: &[f32],
    places: &[usize],
    line: usize,
    y: *mut f32,
) {
    let pitch = s.pitch();
    for col in (0..s.to[1]).step_by(V::N) {
        let mut acc = [V::zero(); LINES];
        for (&tap, &place) in taps.iter().zip(places) {
            // SAFETY: lines have room for whole vectors.
            unsafe {
                let (tap, from) = (V::splat(tap), frame.add(place + line * pitch + col));
                for l in 0..LINES {
                    acc[l] = tap.fma(V::load(from.add(l * pitch)), acc[l]);
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { store_lines(s, acc, line, col, y) };
    }
}

/// [`some_lines`] of windows of 3×3 with stride `S`: taps stay in registers, and every vector of the input is read once for
/// all lines.
#[inline(always)]
unsafe fn lines_of_three<V: Vector<E = f32>, const S: usize>(
    s: &Lines,
    frame: *const f32,
    taps: &[f32],
    line: usize,
    y: *mut f32,
) {
    let (pitch, part) = (s.pitch(), s.part());
    let taps: [V; 9] = std::array::from_fn(|t| V::splat(taps[t]));
    for col in (0..s.to[1]).step_by(V::N) {
        let mut acc = [V::zero(); LINES];
        // Every line of the input that the outputs take, each written out so that no sum is indexed by a variable.
        macro_rules! lines {
            ($($r:literal)*) => { $( if $r < (LINES - 1) * S + 3 {
                for kx in 0..3 {
                    let part = ($r % S * S + kx % S) * part;
                    // SAFETY: lines have room for whole vectors.
                    let x = unsafe { V::load(frame.add(part + (line + $r / S) * pitch + kx / S + col)) };
                    for l in 0..LINES {
                        if $r >= l * S && $r - l * S < 3 {
                            acc[l] = taps[($r - l * S) * 3 + kx].fma(x, acc[l]);
                        }
                    }
                }
            } )* };
        }
        lines!(0 1 2 3 4 5 6 7 8);
        // SAFETY: the caller's promise.
        unsafe { store_lines(s, acc, line, col, y) };
    }
}
