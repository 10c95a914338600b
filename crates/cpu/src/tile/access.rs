//! How a tile's elements lie in memory: strided reads into tiles and writes out of them.

#![allow(unsafe_code)]

use crate::kernels::gemm::transpose8;
use crate::vmath::{convert, copy, dispatch};
use ir::DType;
pub use passes::Address as Spot;
use smallvec::SmallVec;

/// The base pointers of a run: inputs, constants, results, arena.
#[derive(Clone, Copy)]
pub struct Bases<'a>(pub &'a [*mut u8]);

// SAFETY: the pointers lead to memory that outlives the run; the memory plan, which
// `passes::check_memory_plan` checks, decides which region writes where.
unsafe impl Sync for Bases<'_> {}
// SAFETY: as above.
unsafe impl Send for Bases<'_> {}

impl Bases<'_> {
    /// The address of a spot.
    #[inline]
    pub fn at(&self, spot: Spot) -> *mut u8 {
        // A spot lies inside its buffer, so the sum stays inside one allocation.
        self.0[spot.base as usize].wrapping_add(spot.offset)
    }
}

/// A stretch of a loop's space: rows `r..r + h`, columns `c..c + w` of each.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub r: usize,
    pub h: usize,
    pub c: usize,
    pub w: usize,
}

/// Sizes with strides in bytes, outermost first.
pub type Steps = SmallVec<[(usize, isize); 2]>;

/// A strided walk over a value in memory.
#[derive(Clone, Debug)]
pub struct Access {
    /// Its first element.
    pub spot: Spot,
    /// Bytes an element takes.
    pub size: usize,
    /// From row to row.
    pub outer: Steps,
    /// Along a row.
    pub inner: Steps,
}

/// The position in bytes of element `i` of the space `steps` span.
#[inline]
fn position(steps: &Steps, i: usize) -> isize {
    match steps.as_slice() {
        [] => 0,
        [(_, s)] => i as isize * s,
        more => {
            let mut rest = i;
            let mut at = 0;
            for &(d, s) in more.iter().rev() {
                at += (rest % d) as isize * s;
                rest /= d;
            }
            at
        }
    }
}

/// Drops dimensions that do not matter and joins those that can be stepped through as one.
pub fn join(dims: &[usize], strides: &[isize], size: usize) -> Steps {
    let mut out = Steps::new();
    for (&d, &s) in dims.iter().zip(strides) {
        let s = s * size as isize;
        match out.last_mut() {
            _ if d == 1 => {}
            Some((e, t)) if *t == s * d as isize => {
                *e *= d;
                *t = s;
            }
            _ => out.push((d, s)),
        }
    }
    out
}

impl Access {
    /// True if the value differs from row to row.
    pub fn varies_by_row(&self) -> bool {
        self.outer.iter().any(|&(_, s)| s != 0)
    }
    /// True if the value differs along a row.
    pub fn varies_by_column(&self) -> bool {
        self.inner.iter().any(|&(_, s)| s != 0)
    }
    /// The address of the window's first element.
    #[inline]
    pub fn first(&self, bases: Bases, at: Window) -> *mut u8 {
        bases.at(self.spot).wrapping_offset(position(&self.outer, at.r) + position(&self.inner, at.c))
    }
    /// True if windows of this height and width lie in memory as in a tile, one element after the
    /// other; `columns` is the length of a row.
    pub fn is_dense(&self, h: usize, w: usize, columns: usize) -> bool {
        let size = self.size as isize;
        let by_row = !self.varies_by_row()
            || h == 1
            || match self.outer.as_slice() {
                [(_, s)] if self.varies_by_column() => *s == size * columns as isize && w == columns,
                [(_, s)] => *s == size,
                _ => false,
            };
        let by_column = !self.varies_by_column() || w == 1 || matches!(self.inner.as_slice(), [(_, s)] if *s == size);
        by_row && by_column
    }
    /// True if a row's elements lie far apart while a column's lie close: a transposed operand.
    pub fn is_transposed(&self) -> bool {
        match (self.outer.last(), self.inner.last()) {
            (Some((_, r)), Some((_, c))) => *r != 0 && r.unsigned_abs() * 2 <= c.unsigned_abs(),
            _ => false,
        }
    }

    /// Reads the window's elements into a tile. A value that does not vary by row fills one row,
    /// one that does not vary by column one element a row.
    ///
    /// # Safety
    /// The window lies inside the space, `tile` has room, and nothing writes either meanwhile.
    pub unsafe fn read(&self, bases: Bases, at: Window, tile: *mut u8) {
        let at = self.narrowed(at);
        // SAFETY: the caller's promise.
        unsafe { walk_in(self, bases, at, tile) }
    }

    /// Writes a tile to the window's elements; the value varies with every dimension it is
    /// stored along.
    ///
    /// # Safety
    /// As for [`Access::read`].
    pub unsafe fn write(&self, bases: Bases, at: Window, tile: *const u8) {
        let at = self.narrowed(at);
        let tile = tile.cast_mut();
        // SAFETY: the caller's promise; the tile is only read.
        unsafe { walk_out(self, bases, at, tile) }
    }

    /// The elements from row to row, if all rows are as far apart and each lies in one piece.
    pub fn row_distance(&self) -> Option<usize> {
        match (self.outer.as_slice(), self.inner.as_slice()) {
            ([(_, apart)], [(_, size)]) if *size == self.size as isize && *apart > 0 && apart % size == 0 => {
                Some((apart / size) as usize)
            }
            _ => None,
        }
    }

    /// True if [`Access::sum_rows`] serves: floats, rows beside each other, one distance along a row.
    pub fn is_summed_down(&self, dtype: DType) -> bool {
        let is_beside = self.outer.last().is_some_and(|&(_, apart)| apart == self.size as isize);
        let is_float = matches!(dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16);
        is_float && is_beside && self.inner.len() == 1 && self.is_transposed()
    }

    /// The sums of the window's rows, in `f64`: a stretch of rows at a time, whose elements lie together.
    ///
    /// # Safety
    /// As for [`Access::read`]; elements are of `dtype`, and `sums` has room for one a row: of `f64` for `f64`, else of
    /// `f32`.
    pub unsafe fn sum_rows(&self, bases: Bases, at: Window, dtype: DType, sums: *mut u8) {
        let (Some(&(rows, _)), Some(&(_, step))) = (self.outer.last(), self.inner.first()) else { return };
        let mut r = 0;
        while r < at.h {
            let run = (rows - (at.r + r) % rows).min(at.h - r);
            let first = self.first(bases, Window { r: at.r + r, ..at });
            // SAFETY: the caller's promise.
            unsafe {
                match dtype {
                    DType::F64 if const { ir::is_linked("f64") } => {
                        sum_down_f64(first, step, at.w, run, sums.add(8 * r))
                    }
                    DType::BF16 if const { ir::is_linked("bf16") } => {
                        sum_down_bf16(first, step, at.w, run, sums.add(4 * r))
                    }
                    DType::F16 if const { ir::is_linked("f16") } => {
                        sum_down_f16(first, step, at.w, run, sums.add(4 * r))
                    }
                    _ => sum_down_f32(first, step, at.w, run, sums.add(4 * r)),
                }
            }
            r += run;
        }
    }

    /// Whether a narrowed window has all elements of its rows.
    fn has_whole_rows(&self, at: Window) -> bool {
        let width: usize = self.inner.iter().map(|(d, _)| d).product();
        !self.varies_by_column() || (at.c == 0 && at.w == width)
    }

    /// The steps through all dimensions that a narrowed window has: from row to row, then along a row.
    fn all_steps(&self) -> Steps {
        let mut all = self.outer.clone();
        for &(d, s) in self.inner.iter().filter(|_| self.varies_by_column()) {
            match all.last_mut() {
                Some((e, t)) if *t == s * d as isize => {
                    *e *= d;
                    *t = s;
                }
                _ => all.push((d, s)),
            }
        }
        all
    }

    fn narrowed(&self, at: Window) -> Window {
        Window {
            h: if self.varies_by_row() { at.h } else { 1 },
            w: if self.varies_by_column() { at.w } else { 1 },
            ..at
        }
    }
}

/// `y[i] = sum of x[i + k step]` over `count` steps, for `n` neighbors: `$wide` is what an element is added as first.
macro_rules! sum_down {
    ($name:ident, $t:ty, $y:ty, $wide:expr) => {
        dispatch! {
            unsafe fn $name(x: *const u8, step: isize, count: usize, n: usize, y: *mut u8) {
                _I => {
                    let y = y.cast::<$y>();
                    let width = if n >= 32 { 32 } else { 16 };
                    let mut i = 0;
                    while i < n {
                        // The last strip reaches back over the one before it, rather than to be narrow.
                        let at = if n >= width { i.min(n - width) } else { i };
                        let (x, y) = (x.wrapping_add(size_of::<$t>() * at), y.add(at));
                        match n {
                            32.. => sum_strip::<$t, $y, 32>(x, step, count, y, $wide),
                            16.. => sum_strip::<$t, $y, 16>(x, step, count, y, $wide),
                            _ => (0..n).for_each(|l| {
                                sum_strip::<$t, $y, 1>(x.wrapping_add(size_of::<$t>() * l), step, count, y.add(l), $wide)
                            }),
                        }
                        i += width;
                    }
                }
            }
        }
    };
}
sum_down!(sum_down_f32, f32, f32, |x: f32| x);
sum_down!(sum_down_f64, f64, f64, |x: f64| x);
sum_down!(sum_down_bf16, u16, f32, convert::widen_bf16);
sum_down!(sum_down_f16, u16, f32, convert::widen_f16);

/// A float that sums are written as.
trait Sum: Copy + Default + std::ops::Add<Output = Self> {
    fn to_f64(self) -> f64;
    fn from_f64(x: f64) -> Self;
}
impl Sum for f32 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
}
impl Sum for f64 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }
}

/// The sums of `N` neighbors: of eight steps in the type of the result, then in `f64`.
#[inline(always)]
unsafe fn sum_strip<T: Copy, Y: Sum, const N: usize>(
    x: *const u8,
    step: isize,
    count: usize,
    y: *mut Y,
    wide: impl Fn(T) -> Y,
) {
    let at = |k: usize| x.wrapping_offset(k as isize * step).cast::<[T; N]>();
    let mut sums = [0f64; N];
    // SAFETY: the caller's promise.
    unsafe {
        let mut k = 0;
        while k + 8 <= count {
            let mut eight = [Y::default(); N];
            let rows: [*const [T; N]; 8] =
                [at(k), at(k + 1), at(k + 2), at(k + 3), at(k + 4), at(k + 5), at(k + 6), at(k + 7)];
            for l in 0..N {
                let pair = |r: usize| wide((*rows[r])[l]) + wide((*rows[r + 1])[l]);
                eight[l] = (pair(0) + pair(2)) + (pair(4) + pair(6));
            }
            (0..N).for_each(|l| sums[l] += eight[l].to_f64());
            k += 8;
        }
        for k in k..count {
            let row = &*at(k);
            (0..N).for_each(|l| sums[l] += wide(row[l]).to_f64());
        }
        (0..N).for_each(|l| *y.add(l) = Y::from_f64(sums[l]));
    }
}

/// Whether a build has elements of so many bytes.
const fn has_elements(bytes: usize) -> bool {
    let mut i = 0;
    while i < DType::ALL.len() {
        if DType::ALL[i].size() == bytes && ir::is_linked(DType::ALL[i].name()) {
            return true;
        }
        i += 1;
    }
    false
}

dispatch! {
    /// Moves elements into a tile.
    unsafe fn walk_in(a: &Access, bases: Bases, at: Window, tile: *mut u8) {
        _I => match a.size {
            1 if const { has_elements(1) } => walk::<u8, false>(a, bases, at, tile),
            2 if const { has_elements(2) } => walk::<u16, false>(a, bases, at, tile),
            4 if const { has_elements(4) } => walk::<u32, false>(a, bases, at, tile),
            _ if const { has_elements(8) || has_elements(16) } => walk::<u64, false>(a, bases, at, tile),
            _ => ir::unlinked("elements of this size"),
        }
    }
}
dispatch! {
    /// Moves a tile's elements into memory.
    unsafe fn walk_out(a: &Access, bases: Bases, at: Window, tile: *mut u8) {
        _I => match a.size {
            1 if const { has_elements(1) } => walk::<u8, true>(a, bases, at, tile),
            2 if const { has_elements(2) } => walk::<u16, true>(a, bases, at, tile),
            4 if const { has_elements(4) } => walk::<u32, true>(a, bases, at, tile),
            _ if const { has_elements(8) || has_elements(16) } => walk::<u64, true>(a, bases, at, tile),
            _ => ir::unlinked("elements of this size"),
        }
    }
}

/// Moves elements between memory and a tile, row by row; `OUT` is toward memory.
#[inline(always)]
unsafe fn walk<T: Copy, const OUT: bool>(a: &Access, bases: Bases, at: Window, tile: *mut u8) {
    let tile = tile.cast::<T>();
    // A transposed operand is walked down its columns, which are close together in memory: a stretch of rows at a time.
    if let (Some(&(rows, rs)), [(_, cs)], true) = (a.outer.last(), a.inner.as_slice(), a.is_transposed() && at.h >= 4) {
        let mut r = 0;
        while r < at.h {
            let run = if a.outer.len() == 1 { at.h } else { (rows - (at.r + r) % rows).min(at.h - r) };
            let first = a.first(bases, Window { r: at.r + r, ..at });
            // SAFETY: the caller's promise; rows from `r` on of the tile.
            unsafe { walk_columns::<T, OUT>(first, (rs, *cs), (run, at.w), tile.add(r * at.w)) };
            r += run;
        }
        return;
    }
    let first = a.first(bases, at);
    // Short rows that the window has whole are one long row over all dimensions.
    if at.h > 1 && at.w <= SHORT && a.has_whole_rows(at) {
        let all = a.all_steps();
        // SAFETY: the caller's promise; all rows of the tile.
        return unsafe { walk_row::<T, OUT>(&all, first, at.r * at.w, at.h * at.w, tile) };
    }
    let mut outer = Odometer::new(&a.outer, at.r, first);
    for r in 0..at.h {
        // SAFETY: the caller's promise; row `r` of the tile.
        unsafe { walk_row::<T, OUT>(&a.inner, outer.p, at.c, at.w, tile.add(r * at.w)) };
        outer.advance();
    }
}

/// Rows up to this length are not worth a walk each.
const SHORT: usize = 64;

/// A place that steps through dimensions without a division each.
struct Odometer<'a> {
    steps: &'a Steps,
    /// From the last dimension on.
    index: SmallVec<[usize; 4]>,
    p: *mut u8,
}

impl<'a> Odometer<'a> {
    /// At element `i`, which lies at `p`.
    #[inline(always)]
    fn new(steps: &'a Steps, i: usize, p: *mut u8) -> Odometer<'a> {
        let (mut rest, mut index) = (i, SmallVec::new());
        for &(d, _) in steps.iter().rev() {
            index.push(rest % d);
            rest /= d;
        }
        Odometer { steps, index, p }
    }
    #[inline(always)]
    fn advance(&mut self) {
        for (&(d, s), i) in self.steps.iter().rev().zip(&mut self.index) {
            *i += 1;
            self.p = self.p.wrapping_offset(s);
            if *i < d {
                return;
            }
            *i = 0;
            self.p = self.p.wrapping_offset(-(d as isize) * s);
        }
    }
}

/// Moves `h` rows of `w` elements down their columns, rows `rs` and columns `cs` bytes apart in memory.
#[inline(always)]
unsafe fn walk_columns<T: Copy, const OUT: bool>(
    first: *mut u8,
    (rs, cs): (isize, isize),
    (h, w): (usize, usize),
    tile: *mut T,
) {
    let size = size_of::<T>() as isize;
    // Columns that lie in one piece are moved in blocks of eight by eight.
    let is_blocked = rs == size && cs > 0 && cs % size == 0;
    let (bh, bw) = if is_blocked { (h / 8 * 8, w / 8 * 8) } else { (0, 0) };
    let apart = (cs / size) as usize;
    let moved = |k: usize, c: usize| first.wrapping_offset(k as isize * rs + c as isize * cs).cast::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        for c in (0..bw).step_by(8) {
            for k in (0..bh).step_by(8) {
                let (memory, tile) = (moved(k, c), tile.add(k * w + c));
                if OUT {
                    transpose8(tile.cast_const(), w as isize, memory, apart);
                } else {
                    transpose8(memory.cast_const(), apart as isize, tile, w);
                }
            }
        }
        for c in 0..w {
            for k in if c < bw { bh } else { 0 }..h {
                swap_in::<T, OUT>(moved(k, c), tile.add(k * w + c));
            }
        }
    }
}

/// Moves `w` elements of a row from column `c` on, where `p` is.
#[inline(always)]
unsafe fn walk_row<T: Copy, const OUT: bool>(inner: &Steps, mut p: *mut u8, c: usize, w: usize, tile: *mut T) {
    let Some(&(d, step)) = inner.last() else {
        // SAFETY: the caller's promise.
        return unsafe { swap_in::<T, OUT>(p.cast(), tile) };
    };
    // Where the column lies along each dimension but the last.
    let mut index: SmallVec<[usize; 4]> = SmallVec::new();
    let (mut done, mut k) = (0, c % d);
    let mut rest = c / d;
    for &(d, _) in inner[..inner.len() - 1].iter().rev() {
        index.push(rest % d);
        rest /= d;
    }
    while done < w {
        let run = (d - k).min(w - done);
        // Whole runs that follow each other along the dimension before the last one.
        let before = inner.len().checked_sub(2).map(|b| inner[b]);
        let runs = match before {
            Some((e, _)) if k == 0 && run == d => (e - index[0]).min((w - done) / d),
            _ => 1,
        };
        let apart = before.map_or(0, |(_, s)| s);
        // SAFETY: the caller's promise.
        unsafe {
            let to = tile.add(done);
            match (run, runs) {
                (2, 2..) => short_runs::<T, 2, OUT>(p, step, apart, runs, to),
                (3, 2..) => short_runs::<T, 3, OUT>(p, step, apart, runs, to),
                (4, 2..) => short_runs::<T, 4, OUT>(p, step, apart, runs, to),
                _ => (0..runs).for_each(|i| {
                    one_run::<T, OUT>(p.wrapping_offset(i as isize * apart), step, run, to.add(i * run));
                }),
            }
        }
        done += run * runs;
        if done >= w {
            return;
        }
        // The last of these runs is over: carry.
        p = p.wrapping_offset(-(k as isize) * step);
        k = 0;
        let mut by = runs;
        for (&(e, s), i) in inner[..inner.len() - 1].iter().rev().zip(&mut index) {
            *i += by;
            p = p.wrapping_offset(by as isize * s);
            if *i < e {
                break;
            }
            p = p.wrapping_offset(-(e as isize) * s);
            (*i, by) = (0, 1);
        }
    }
}

/// Elements one step apart.
#[inline(always)]
unsafe fn one_run<T: Copy, const OUT: bool>(p: *mut u8, step: isize, run: usize, tile: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        if step == size_of::<T>() as isize && run > 16 {
            let (from, to) = if OUT { (tile.cast_const(), p.cast::<T>()) } else { (p.cast_const().cast::<T>(), tile) };
            copy::copy_bytes(from.cast(), to.cast(), run * size_of::<T>());
        } else if step == 2 * size_of::<T>() as isize {
            // A distance that the compiler knows becomes shuffles of vectors.
            (0..run).for_each(|k| swap_in::<T, OUT>(p.cast::<T>().wrapping_add(2 * k), tile.add(k)));
        } else if step == -(size_of::<T>() as isize) {
            (0..run).for_each(|k| swap_in::<T, OUT>(p.cast::<T>().wrapping_sub(k), tile.add(k)));
        } else if step == 0 && !OUT {
            std::slice::from_raw_parts_mut(tile, run).fill(*p.cast::<T>());
        } else {
            (0..run).for_each(|k| swap_in::<T, OUT>(p.wrapping_offset(k as isize * step).cast(), tile.add(k)));
        }
    }
}

/// Runs of `N` elements.
#[inline(always)]
unsafe fn short_runs<T: Copy, const N: usize, const OUT: bool>(
    p: *mut u8,
    step: isize,
    apart: isize,
    runs: usize,
    tile: *mut T,
) {
    if !OUT && step == 0 && apart == size_of::<T>() as isize {
        // Each element of a row so many times: with distances that the compiler knows.
        for i in 0..runs {
            // SAFETY: the caller's promise.
            let x = unsafe { *p.cast::<T>().add(i) };
            // SAFETY: as above.
            (0..N).for_each(|k| unsafe { *tile.add(i * N + k) = x });
        }
        return;
    }
    for i in 0..runs {
        let p = p.wrapping_offset(i as isize * apart);
        for k in 0..N {
            // SAFETY: the caller's promise.
            unsafe { swap_in::<T, OUT>(p.wrapping_offset(k as isize * step).cast(), tile.add(i * N + k)) };
        }
    }
}

#[inline(always)]
unsafe fn swap_in<T: Copy, const OUT: bool>(memory: *mut T, tile: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        if OUT {
            *memory = *tile;
        } else {
            *tile = *memory;
        }
    }
}
