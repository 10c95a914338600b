//! Products of windows of bytes with a packed right side: what a convolution is whose channels come last.
//!
//! A window is a few runs of neighboring bytes, at the same distances from its first byte wherever it lies. So windows
//! are multiplied where they lie, and nothing is laid out as a matrix.

#[cfg(target_arch = "x86_64")]
use super::super::super::scratch::Scratch;
use super::super::Patch;
#[cfg(target_arch = "x86_64")]
use super::super::amx;
use super::super::micro::{PANEL, panel_at, panel_count};
#[cfg(target_arch = "aarch64")]
use super::neon;
#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{Dot, LANES, ROWS, Right, STRIPS, Side, Way};
use std::ops::Range;

/// Windows that are multiplied together at most.
pub const BLOCK: usize = ROWS * STRIPS;

/// Bytes of a window and columns from which on tiles of AMX pay.
#[cfg(target_arch = "x86_64")]
const AMX_MIN: usize = 24;

/// The runs of a window.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Bytes from the window's first byte to each run.
    pub at: Vec<usize>,
    /// Words of four bytes that a run has.
    pub words: usize,
}

/// Where sums go: a matrix, tile by tile.
pub trait Place: Sync {
    /// Where a whole tile whose first sum has this row and column may be written at once, and how far its rows lie apart.
    fn direct(&self, row: usize, col: usize) -> Option<(*mut i32, usize)>;
    /// Takes a part of the sums, rows `width` apart.
    ///
    /// # Safety
    /// The part is inside the matrix, `tile` has its sums, and no other thread hands over the same part.
    unsafe fn take(&self, tile: *const i32, width: usize, part: Patch);
    /// Hears that all sums of a part were written or taken.
    fn done(&self, part: Patch);
}

/// Some windows and a panel, and where their products go.
pub(super) struct Strip<'a> {
    runs: &'a Runs,
    windows: [*const u8; ROWS],
    panel: *const u32,
    /// Vectors of the panel.
    nv: usize,
    /// What sums begin with, for each column.
    start: *const i32,
    to: *mut i32,
    to_row: usize,
}

impl Strip<'_> {
    #[inline(always)]
    pub(super) unsafe fn multiply<D: Dot>(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.nv {
                1 => self.wide::<D, 1>(),
                2 => self.wide::<D, 2>(),
                _ => self.wide::<D, PANEL>(),
            }
        }
    }
    /// Narrow vectors come with few registers: four windows at a time.
    #[inline(always)]
    unsafe fn wide<D: Dot, const NV: usize>(&self) {
        const HALF: usize = ROWS / 2;
        // SAFETY: the caller's promise.
        unsafe {
            if D::N == LANES {
                return self.rows::<D, NV, ROWS>(0);
            }
            self.rows::<D, NV, HALF>(0);
            self.rows::<D, NV, HALF>(HALF);
        }
    }
    #[inline(always)]
    unsafe fn rows<D: Dot, const NV: usize, const R: usize>(&self, first: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let start: [D; NV] = std::array::from_fn(|v| D::load(self.start.add(v * D::N)));
            let mut sums = [start; R];
            let mut b = self.panel;
            for &run in &self.runs.at {
                let lines: [*const u32; R] = std::array::from_fn(|r| self.windows[first + r].add(run).cast());
                for p in 0..self.runs.words {
                    let left = std::array::from_fn(|r| lines[r].add(p).read_unaligned());
                    D::add::<NV, R>(&mut sums, left, b);
                    b = b.add(NV * D::N);
                }
            }
            for r in 0..R {
                let to = self.to.add((first + r) * self.to_row);
                for v in 0..NV {
                    sums[r][v].store(to.add(v * D::N));
                }
            }
        }
    }
}

impl Right {
    /// Packs the matrix `[k, n]` for [`Right::multiply_windows`].
    ///
    /// # Safety
    /// All of its elements, signed bytes, must be valid for reading.
    pub unsafe fn for_windows(k: usize, n: usize, side: Side) -> Right {
        debug_assert!(side.is_signed);
        // SAFETY: the caller's promise.
        unsafe { Right::packed(k, n, side, Way::for_windows(k, n)) }
    }
    /// How many panels there are.
    pub fn panels(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.way == Way::Amx {
            return self.n.div_ceil(amx::BLOCK);
        }
        panel_count(self.vectors())
    }
    fn vectors(&self) -> usize {
        self.n.div_ceil(self.way.lanes())
    }
    /// What is done to each byte of the left side with `^` before it is multiplied.
    pub fn flip(&self, is_signed: bool) -> u8 {
        if is_signed == self.way.is_left_signed() { 0 } else { 128 }
    }
    /// What the sums of each column begin with, if bytes of the left side were flipped so.
    pub fn starts(&self, is_signed: bool) -> Vec<i32> {
        let shift = match (self.flip(is_signed), is_signed) {
            (0, _) => 0,
            (_, true) => 128,
            (_, false) => -128,
        };
        let mut starts: Vec<i32> = self.sums.iter().map(|s: &i32| s.wrapping_mul(-shift)).collect();
        // Whole panels.
        starts.resize(self.n.next_multiple_of(2 * LANES), 0);
        starts
    }
    /// The products of at most [`BLOCK`] windows with the columns of some panels; `first` is the row and column of the
    /// place where they begin.
    ///
    /// # Safety
    /// The windows' bytes, flipped, must be valid for reading; the place has room for the result.
    pub unsafe fn multiply_windows(
        &self,
        runs: &Runs,
        windows: &[*const u8],
        starts: &[i32],
        panels: Range<usize>,
        place: &impl Place,
        first: (usize, usize),
    ) {
        #[cfg(target_arch = "x86_64")]
        if self.way == Way::Amx {
            // SAFETY: the caller's promise.
            return unsafe { self.multiply_windows_amx(runs, windows, starts, panels, place, first) };
        }
        let (words, lanes) = (self.k.div_ceil(4), self.way.lanes());
        debug_assert!(windows.len() <= BLOCK && runs.at.len() * runs.words == words);
        let mut tile = [0i32; ROWS * PANEL * LANES];
        for panel in panels {
            let (v, nv) = panel_at(panel, self.vectors());
            let j = v * lanes;
            let (width, cols) = (nv * lanes, (nv * lanes).min(self.n - j));
            for (s, some) in windows.chunks(ROWS).enumerate() {
                let is_whole = some.len() == ROWS && cols == width;
                let (row, col) = (first.0 + s * ROWS, first.1 + j);
                let direct = if is_whole { place.direct(row, col) } else { None };
                let (to, to_row) = direct.unwrap_or((tile.as_mut_ptr(), width));
                // SAFETY: the caller's promise.
                unsafe {
                    let strip = Strip {
                        runs,
                        windows: std::array::from_fn(|r| some[r.min(some.len() - 1)]),
                        panel: self.room.as_slice().as_ptr().cast::<u32>().add(j * words),
                        nv,
                        start: starts[j..j + width].as_ptr(),
                        to,
                        to_row,
                    };
                    self.way.windows(&strip);
                    if direct.is_none() {
                        place.take(tile.as_ptr(), width, Patch { row, rows: some.len(), col, cols });
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Right {
    /// By tiles: the windows are laid out in them first, then all panels multiplied.
    unsafe fn multiply_windows_amx(
        &self,
        runs: &Runs,
        windows: &[*const u8],
        starts: &[i32],
        panels: Range<usize>,
        place: &impl Place,
        first: (usize, usize),
    ) {
        use amx::{BLOCK as SIDE, TILE, TILE_WORDS};
        const LINE: usize = 4 * TILE;
        let steps = self.k.div_ceil(LINE);
        let each = steps * TILE_WORDS;
        let room = Scratch::<u32>::new(windows.len().next_multiple_of(SIDE) / TILE * each);
        // Windows of one run that lie evenly are read where they lie.
        let is_run = runs.at.len() == 1 && self.k.is_multiple_of(LINE);
        let lie = |some: &[*const u8]| {
            let apart = (some[some.len() - 1].addr().wrapping_sub(some[0].addr())) / (some.len() - 1).max(1);
            let is_even = some.windows(2).all(|w| w[1].addr().wrapping_sub(w[0].addr()) == apart);
            (is_run && some.len() == SIDE && is_even).then_some((apart, LINE))
        };
        let lies: [Option<(usize, usize)>; BLOCK / SIDE] =
            std::array::from_fn(|s| windows.get(s * SIDE..(s + 1) * SIDE).and_then(lie));
        for (s, some) in windows.chunks(SIDE).enumerate().filter(|(s, _)| lies[*s].is_none()) {
            // SAFETY: there is room for all lines; the caller's promise.
            unsafe { lay_out(runs, some, steps, room.ptr().add(2 * s * each).cast()) };
        }
        let mut sums = amx::Sums([0; SIDE * SIDE]);
        let is_moved = starts.iter().any(|s| *s != 0);
        let run = || {
            for panel in panels {
                let (j, b) = (panel * SIDE, self.room.as_slice().as_ptr().cast::<u32>());
                let cols = SIDE.min(self.n - j);
                let b = [0, 1].map(|half| b.wrapping_add((2 * panel + half) * each));
                for (s, some) in windows.chunks(SIDE).enumerate() {
                    let (a, lie) = match lies[s] {
                        Some(lie) => ([some[0], some[TILE]].map(|p| p.wrapping_add(runs.at[0]).cast::<u32>()), lie),
                        None => {
                            let tile = |half| room.ptr().cast_const().wrapping_add((2 * s + half) * each);
                            ([0, 1].map(tile), amx::PACKED)
                        }
                    };
                    // SAFETY: the caller's promise.
                    unsafe {
                        amx::dot_int8(a, lie, b, steps, &mut sums);
                        let tile = sums.0.as_mut_ptr().cast::<i32>();
                        if is_moved {
                            move_by(tile, some.len(), starts[j..j + SIDE].as_ptr());
                        }
                        let part = Patch { row: first.0 + s * SIDE, rows: some.len(), col: first.1 + j, cols };
                        place.take(tile, SIDE, part);
                    }
                }
            }
        };
        // SAFETY: the way was chosen for this machine.
        unsafe { amx::with_tiles(run) }
    }
}

#[cfg(target_arch = "x86_64")]
crate::vmath::dispatch! {
    /// Adds what sums begin with to rows of a block.
    unsafe fn move_by(tile: *mut i32, rows: usize, start: *const i32) {
        _I => {
            const SIDE: usize = amx::BLOCK;
            let start = start.cast::<[i32; SIDE]>().read_unaligned();
            for r in 0..rows {
                let row = &mut *tile.add(r * SIDE).cast::<[i32; SIDE]>();
                (0..SIDE).for_each(|i| row[i] = row[i].wrapping_add(start[i]));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
crate::vmath::dispatch! {
    /// Lays windows out in tiles: a window is a line of 64 bytes in each of `steps` tiles.
    unsafe fn lay_out(runs: &Runs, windows: &[*const u8], steps: usize, to: *mut u8) {
        _I => {
            const LINE: usize = 4 * amx::TILE;
            const TILE_BYTES: usize = 4 * amx::TILE_WORDS;
            let bytes = 4 * runs.words;
            for (i, window) in windows.iter().enumerate() {
                let line = to.add(i / amx::TILE * steps * TILE_BYTES + i % amx::TILE * LINE);
                let mut at = 0;
                for run in &runs.at {
                    let (mut from, mut left) = (window.add(*run), bytes);
                    while left > 0 {
                        let to = line.add(at / LINE * TILE_BYTES + at % LINE);
                        let n = left.min(LINE - at % LINE);
                        if n == LINE {
                            to.cast::<[u8; LINE]>().write_unaligned(from.cast::<[u8; LINE]>().read_unaligned());
                        } else {
                            // Whole words, most of them four at a time.
                            let mut b = 0;
                            while b + 16 <= n {
                                let some = from.add(b).cast::<[u8; 16]>().read_unaligned();
                                to.add(b).cast::<[u8; 16]>().write_unaligned(some);
                                b += 16;
                            }
                            while b < n {
                                to.add(b).cast::<u32>().write_unaligned(from.add(b).cast::<u32>().read_unaligned());
                                b += 4;
                            }
                        }
                        (from, at, left) = (from.add(n), at + n, left - n);
                    }
                }
            }
        }
    }
}

impl Way {
    /// The fastest for windows of `k` bytes and `n` columns. Tiles of AMX want windows laid out, which pays where many
    /// columns use them.
    pub(super) fn for_windows(_k: usize, _n: usize) -> Way {
        match Way::best() {
            #[cfg(target_arch = "x86_64")]
            Way::Amx if _k >= AMX_MIN && _n >= AMX_MIN => Way::Amx,
            #[cfg(target_arch = "x86_64")]
            Way::Amx if std::arch::is_x86_feature_detected!("avx512vnni") => Way::Vnni512,
            #[cfg(target_arch = "x86_64")]
            Way::Amx => Way::Avx2,
            way => way,
        }
    }
    unsafe fn windows(self, s: &Strip) {
        // SAFETY: the caller's promise; the way was chosen for this machine.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Way::Amx => unreachable!("tiles are multiplied by `multiply_windows_amx`"),
                #[cfg(target_arch = "x86_64")]
                Way::Vnni512 => x86::windows_vnni512(s),
                #[cfg(target_arch = "x86_64")]
                Way::Vnni256 => x86::windows_vnni256(s),
                #[cfg(target_arch = "x86_64")]
                Way::Avx2 => x86::windows_avx2(s),
                #[cfg(target_arch = "aarch64")]
                Way::Dotprod => neon::windows_dotprod(s),
                #[cfg(target_arch = "aarch64")]
                Way::Neon => neon::windows_neon(s),
                Way::Portable => s.multiply::<[i32; 8]>(),
            }
        }
    }
}
