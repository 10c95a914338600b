//! The innermost loop of the matrix product: a tile of C in registers.
//!
//! Every element of a tile is summed along `k` one step after the other and then scaled and added
//! to C with one rounding, whatever the tile's size: how C is cut into tiles does not show in the
//! result.

#![allow(unsafe_code)]

use super::pack::transpose8;
use crate::vmath::simd::{Scalar, Vector};

/// Where a tile goes and what happens to what is there.
#[derive(Clone, Copy)]
pub(crate) struct Tile<E> {
    pub c: *mut E,
    /// Elements between rows of C and between its columns; one of the two is 1.
    pub c_row: isize,
    pub c_col: isize,
    /// Columns of the tile that exist.
    pub cols: usize,
    pub alpha: E,
    /// Add to C instead of overwriting it.
    pub add: bool,
    /// Memory to bring into cache meanwhile.
    pub ahead: Ahead,
    /// Where the rows of B are copied to meanwhile, one after the other, if the tile keeps them.
    pub keep: *mut E,
}

/// Rows that a right side is brought closer ahead of the strip that keeps it: a memory's latency.
const SOON: isize = 24;

/// Matrices that lie as C does and are wanted when a part of it is ready, at most.
pub(crate) const BESIDE: usize = 4;

/// Memory that is wanted next: a line a step of `k`, in rows.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    pub p: *const u8,
    /// Bytes from step to step.
    pub step: isize,
    /// Steps that a row takes.
    pub run: usize,
    /// Bytes from the end of a row to the next.
    pub jump: isize,
    /// Rows of each place.
    pub rows: usize,
    /// Further places of as many rows; null: no more.
    pub more: [*const u8; BESIDE - 1],
}

impl Ahead {
    /// Nothing is wanted but what is at hand.
    pub fn nothing(p: *const u8) -> Ahead {
        Ahead { p, step: 0, run: usize::MAX, jump: 0, rows: usize::MAX, more: [std::ptr::null(); BESIDE - 1] }
    }

    /// The tile at row `i` and column `j` of each matrix beside C.
    #[inline(always)]
    fn beside<E>(q: &Sweep<E>, i: usize, j: usize, rows: usize, cols: usize) -> Ahead {
        let size = size_of::<E>();
        let at = i as isize * q.c_row + j as isize * q.c_col;
        let place = |p: *const E| if p.is_null() { std::ptr::null() } else { p.wrapping_offset(at).cast::<u8>() };
        // Down the rows of memory, a line after the other.
        let (count, stride, width) = if q.c_col == 1 { (rows, q.c_row, cols) } else { (cols, q.c_col, rows) };
        let step = stride * size as isize;
        let [p, more @ ..] = q.beside.map(place);
        Ahead { p, step, run: count, jump: 64 - count as isize * step, rows: (width * size).div_ceil(64), more }
    }

    /// The start of row `done`, the one before it having ended at `p`.
    #[inline(always)]
    fn row(&mut self, done: usize, p: *const u8) -> *const u8 {
        if !done.is_multiple_of(self.rows) {
            return p.wrapping_offset(self.jump);
        }
        match self.more.get(done / self.rows - 1) {
            Some(next) if !next.is_null() => *next,
            _ => {
                (self.step, self.run) = (0, usize::MAX);
                self.p
            }
        }
    }
}

/// The left side of a tile: element `(r, p)` at `p + r * row + p * col`.
#[derive(Clone, Copy)]
pub(crate) struct Rows<E> {
    pub p: *const E,
    pub row: isize,
    pub col: isize,
}

/// What a step of `k` adds to a sum.
pub(crate) trait Step<V> {
    /// `sum` and what `x` and `y` make.
    fn add(x: V, y: V, sum: V) -> V;
}

/// One product a step.
pub(crate) struct One;
impl<V: Vector> Step<V> for One {
    #[inline(always)]
    fn add(x: V, y: V, sum: V) -> V {
        x.fma(y, sum)
    }
}

/// `C[R, V*N] (+)= alpha * A[R, k] B[k, V*N]`, with rows of B `b_step` elements apart.
///
/// # Safety
/// `R` rows of `k` elements of A, `k` rows of `NV * V::N` elements of B, and `R` rows of `cols`
/// elements of C must be valid, with `cols <= NV * V::N`; as many elements as B's where it is kept.
#[inline(always)]
pub(crate) unsafe fn tile<V: Vector, D: Step<V>, const R: usize, const NV: usize, const KEEP: bool>(
    k: usize,
    a: Rows<V::E>,
    b: *const V::E,
    b_step: isize,
    t: Tile<V::E>,
) {
    let mut acc = [[V::zero(); NV]; R];
    let (mut pa, mut pb, mut ahead, mut keep, mut left) = (a.p, b, t.ahead.p, t.keep, k);
    let (mut wanted, mut done) = (t.ahead, 0);
    // SAFETY: the caller's promise; addresses past the end are only prefetched.
    unsafe {
        loop {
            let steps = wanted.run.min(left);
            for _ in 0..steps {
                let mut row = [V::zero(); NV];
                for v in 0..NV {
                    row[v] = V::load(pb.add(v * V::N));
                    if KEEP {
                        row[v].store(keep.add(v * V::N));
                        prefetch(pb.wrapping_offset(SOON * b_step).wrapping_add(v * V::N).cast());
                    }
                }
                if KEEP {
                    keep = keep.add(NV * V::N);
                }
                prefetch(ahead);
                for r in 0..R {
                    let x = V::splat(*pa.offset(r as isize * a.row));
                    for v in 0..NV {
                        acc[r][v] = D::add(x, row[v], acc[r][v]);
                    }
                }
                pa = pa.wrapping_offset(a.col);
                pb = pb.wrapping_offset(b_step);
                ahead = ahead.wrapping_offset(wanted.step);
            }
            left -= steps;
            if left == 0 {
                break;
            }
            done += 1;
            ahead = wanted.row(done, ahead);
        }
        store::<V, R, NV>(&acc, t);
    }
}

/// Straight-line code only touches `acc` here: were it indexed by a variable, it would live in
/// memory during the loop above.
#[inline(always)]
unsafe fn store<V: Vector, const R: usize, const NV: usize>(acc: &[[V; NV]; R], t: Tile<V::E>) {
    let alpha = V::splat(t.alpha);
    // SAFETY: rows and columns as promised to `tile`; the buffer holds the whole tile.
    unsafe {
        if t.cols == NV * V::N && t.c_col == 1 {
            for r in 0..R {
                for v in 0..NV {
                    let p = t.c.offset(r as isize * t.c_row).add(v * V::N);
                    let sum = if t.add { acc[r][v].fma(alpha, V::load(p)) } else { acc[r][v] * alpha };
                    sum.store(p);
                }
            }
            return;
        }
        // Room for the rows that a transposed block has.
        let mut room = [[V::zero(); NV]; 8];
        let flat = room.as_mut_ptr().cast::<V::E>();
        for r in 0..R {
            for v in 0..NV {
                acc[r][v].store(flat.add((r * NV + v) * V::N));
            }
        }
        if t.c_col == 1 {
            for r in 0..R {
                add_line::<V>(flat.add(r * NV * V::N), t.c.offset(r as isize * t.c_row), t.cols, &t);
            }
        } else {
            store_turned::<V>(flat, R, NV * V::N, t);
        }
    }
}

/// Writes a tile of `rows` rows, `width` apart, to a C whose rows are contiguous; there is room for
/// eight.
#[inline(always)]
unsafe fn store_turned<V: Vector>(flat: *const V::E, rows: usize, width: usize, t: Tile<V::E>) {
    let mut block = [[V::E::default(); 8]; 8];
    let to = block.as_mut_ptr().cast::<V::E>();
    let is_plain = rows == 8 && !t.add && t.alpha == V::E::from_f64(1.0) && t.c_col > 0;
    for first in (0..t.cols).step_by(8) {
        // SAFETY: `rows <= 8` and `width` is a multiple of 8, or else single elements are copied.
        unsafe {
            if is_plain && width.is_multiple_of(8) && t.cols - first >= 8 {
                transpose8(flat.add(first), width as isize, t.c.offset(first as isize * t.c_col), t.c_col as usize);
                continue;
            }
            if width.is_multiple_of(8) {
                transpose8(flat.add(first), width as isize, to, 8);
            } else {
                for j in first..t.cols.min(first + 8) {
                    for r in 0..rows {
                        *to.add((j - first) * 8 + r) = *flat.add(r * width + j);
                    }
                }
            }
            for j in first..t.cols.min(first + 8) {
                add_line::<V>(to.add((j - first) * 8), t.c.offset(j as isize * t.c_col), rows, &t);
            }
        }
    }
}

/// `to (+)= alpha * from`, `n` contiguous elements.
#[inline(always)]
unsafe fn add_line<V: Vector>(from: *const V::E, to: *mut V::E, n: usize, t: &Tile<V::E>) {
    let alpha = V::splat(t.alpha);
    let mut j = 0;
    // SAFETY: `n` elements behind each pointer.
    unsafe {
        while j < n {
            let count = V::N.min(n - j);
            let (x, p) = (V::load_n(from.add(j), count), to.add(j));
            (if t.add { x.fma(alpha, V::load_n(p, count)) } else { x * alpha }).store_n(p, count);
            j += count;
        }
    }
}

/// Brings a cache line closer; any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) p, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// What a sweep multiplies the left side with.
#[derive(Clone, Copy)]
pub(crate) struct Panels<E> {
    pub p: *const E,
    /// Elements between rows where B lies as it is; 0: packed, a panel after the other.
    pub row: isize,
}

/// A packed or direct block of the left side times panels of the right side, one part of `k`.
#[derive(Clone, Copy)]
pub(crate) struct Sweep<E> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: E,
    pub left: *const E,
    /// Elements between rows where A lies as it is, along `k`; 0: packed in strips.
    pub left_row: isize,
    pub right: Panels<E>,
    pub c: *mut E,
    pub c_row: isize,
    pub c_col: isize,
    pub add: bool,
    /// Take the strips of rows one by one (and all panels for each) instead of the panels.
    pub strips_first: bool,
    /// The next strip of the left side follows in memory and is to be brought closer.
    pub left_ahead: bool,
    /// Memory that is wanted next; the tiles of the first strip see to it.
    pub ahead: Option<Ahead>,
    /// Matrices that lie as C does and are wanted when all of it is ready; each tile brings its part
    /// closer. Null: no more.
    pub beside: [*const E; BESIDE],
    /// Room for the right side, a single panel that lies as it is: the first strip copies it there
    /// for the others. Null: nothing is copied.
    pub keep: *mut E,
    /// Elements of both sides are pairs of `bf16`, see [`super::pairs`].
    pub pairs: bool,
}

/// Vectors that a panel is wide at most. WebAssembly's are two registers each, of which its hosts have half as many.
pub(crate) const PANEL: usize = if cfg!(target_arch = "wasm32") { 1 } else { 3 };

/// How many panels `vectors` make.
#[inline(always)]
pub(crate) fn panel_count(vectors: usize) -> usize {
    vectors.div_ceil(PANEL)
}

/// First vector and width in vectors of panel `i`: three each, but never one at the end, where
/// two and two do better.
#[inline(always)]
pub(crate) fn panel_at(i: usize, vectors: usize) -> (usize, usize) {
    let short = vectors % PANEL == 1 && vectors > 1;
    let last = panel_count(vectors) - 1;
    let start = if short && i == last { vectors - 2 } else { PANEL * i };
    let end = if short && i + 1 == last { vectors - 2 } else { vectors.min(start + PANEL) };
    (start, end - start)
}

/// Runs a sweep. `R` is the height of a tile.
///
/// # Safety
/// What the sweep describes must be valid memory.
#[inline(always)]
pub(crate) unsafe fn sweep<V: Vector, D: Step<V>, const R: usize>(q: &Sweep<V::E>) {
    let vectors = q.n.div_ceil(V::N);
    let (strips, panels) = (q.m.div_ceil(R), panel_count(vectors));
    let inner = if q.strips_first { panels } else { strips };
    let (mut outer, mut at) = (0, 0);
    for _ in 0..strips * panels {
        let (i, p) = if q.strips_first { (outer, at) } else { (at, outer) };
        let (v, nv) = panel_at(p, vectors);
        // SAFETY: the caller's promise.
        unsafe { strip::<V, D, R>(q, i * R, v, nv) };
        at += 1;
        if at == inner {
            (outer, at) = (outer + 1, 0);
        }
    }
}

/// One tile: the strip of rows from `i` on, the panel of `nv` vectors from vector `v` on.
#[inline(always)]
unsafe fn strip<V: Vector, D: Step<V>, const R: usize>(q: &Sweep<V::E>, i: usize, v: usize, nv: usize) {
    let rows = R.min(q.m - i);
    let j = v * V::N;
    // SAFETY: the caller's promise.
    unsafe {
        let a = if q.left_row == 0 {
            Rows { p: q.left.add(i * q.k), row: 1, col: rows as isize }
        } else {
            Rows { p: q.left.offset(i as isize * q.left_row), row: q.left_row, col: 1 }
        };
        let (b, step) = if q.right.row == 0 {
            (q.right.p.add(j * q.k), (nv * V::N) as isize)
        } else if i > 0 && !q.keep.is_null() {
            (q.keep.cast_const(), (nv * V::N) as isize)
        } else {
            (q.right.p.add(j), q.right.row)
        };
        let ahead = match q.ahead {
            Some(ahead) if i == 0 => ahead,
            // Memory in one piece: each strip sees to a line of every step.
            Some(ahead) if ahead.run == usize::MAX && i < nv * R => {
                Ahead { p: ahead.p.wrapping_offset((i / R * q.k) as isize * ahead.step), ..ahead }
            }
            _ if !q.beside[0].is_null() => Ahead::beside(q, i, j, rows, (nv * V::N).min(q.n - j)),
            _ if q.left_ahead && v == 0 && i + R < q.m => Ahead {
                p: q.left.wrapping_offset((i + R) as isize * q.left_row).cast(),
                step: (R * size_of::<V::E>()) as isize,
                ..Ahead::nothing(a.p.cast())
            },
            _ => Ahead::nothing(a.p.cast()),
        };
        let t = Tile {
            c: q.c.offset(i as isize * q.c_row + j as isize * q.c_col),
            c_row: q.c_row,
            c_col: q.c_col,
            cols: (nv * V::N).min(q.n - j),
            alpha: q.alpha,
            add: q.add,
            ahead,
            keep: q.keep,
        };
        if i == 0 && rows == R && !q.keep.is_null() {
            return match nv {
                1 => tile::<V, D, R, 1, true>(q.k, a, b, step, t),
                2 => tile::<V, D, R, 2, true>(q.k, a, b, step, t),
                _ => tile::<V, D, R, 3, true>(q.k, a, b, step, t),
            };
        }
        match nv {
            1 => any_rows::<V, D, R, 1>(rows, q.k, a, b, step, t),
            2 => any_rows::<V, D, R, 2>(rows, q.k, a, b, step, t),
            _ => any_rows::<V, D, R, 3>(rows, q.k, a, b, step, t),
        }
    }
}

/// A tile with as many rows as there are. A build for one model has tiles of few heights: rows of low ones are
/// computed one by one, with the same bits.
#[inline(always)]
unsafe fn any_rows<V: Vector, D: Step<V>, const R: usize, const W: usize>(
    rows: usize,
    k: usize,
    a: Rows<V::E>,
    b: *const V::E,
    step: isize,
    t: Tile<V::E>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if !const { ir::IS_GENERAL } && rows < R {
            let mut r = 0;
            while r < rows {
                let (from, to) = (r as isize * a.row, r as isize * t.c_row);
                let (a, t) = (Rows { p: a.p.offset(from), ..a }, Tile { c: t.c.offset(to), ..t });
                if R > 4 && rows - r >= 4 {
                    tile::<V, D, 4, W, false>(k, a, b, step, t);
                    r += 4;
                } else {
                    tile::<V, D, 1, W, false>(k, a, b, step, t);
                    r += 1;
                }
            }
            return;
        }
        match rows {
            1 => tile::<V, D, 1, W, false>(k, a, b, step, t),
            2 => tile::<V, D, 2, W, false>(k, a, b, step, t),
            3 => tile::<V, D, 3, W, false>(k, a, b, step, t),
            4 => tile::<V, D, 4, W, false>(k, a, b, step, t),
            5 if R > 4 => tile::<V, D, 5, W, false>(k, a, b, step, t),
            6 if R > 4 => tile::<V, D, 6, W, false>(k, a, b, step, t),
            7 if R > 4 => tile::<V, D, 7, W, false>(k, a, b, step, t),
            _ => tile::<V, D, R, W, false>(k, a, b, step, t),
        }
    }
}
