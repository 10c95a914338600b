//! Which way round a product is computed, and how it is cut.

use super::element::{Float, Multiply};
use super::micro::BESIDE;
use super::{Gemm, Mat, Patch};
use crate::pool;

/// A product whose right side fills the vectors: as it was given, or transposed.
#[derive(Clone, Copy)]
pub(super) struct Oriented<S: Multiply> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: S::Acc,
    pub left: Mat<S>,
    pub right: Mat<S>,
    pub c: *mut S::Acc,
    pub c_row: isize,
    pub c_col: isize,
    pub add: bool,
    is_straight: bool,
    /// Matrices that lie as C does and are wanted when a part of C is ready; null: no more.
    pub beside: [*const S::Acc; BESIDE],
    /// Elements of both sides are pairs of `bf16`, see [`super::bf16_dot`].
    pub pairs: bool,
    /// Lanes of a vector.
    pub lanes: usize,
    /// Rows of a tile.
    pub height: usize,
    /// Whether no consumer needs whole rows of the result at a time.
    pub is_free: bool,
    /// The length of the parts of `k`, where the whole product decided it; else 0.
    fixed_depth: usize,
}

/// How a product is cut into tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Not at all.
    Whole,
    /// By columns; each task packs the right side's columns that it needs.
    Columns(usize),
    /// By rows; the right side is packed by all threads, then used by all.
    Rows(usize),
    /// By rows and by columns; each task reads what it needs of both sides.
    Grid(usize, usize),
}

/// Steps of `k` that one packing covers at most, so that a panel and some rows of the left side fit
/// the second-level cache.
const DEPTH: usize = 1024;
/// The same for a right side that streams from memory: short and wide, for long stretches.
const STREAM_DEPTH: usize = 256;
/// Bytes from which on a right side streams.
const STREAM: usize = 8 << 20;
/// Vectors of the right side that are packed at a time where each task packs its own.
const STRIP: usize = 6;
const STREAM_STRIP: usize = 48;
/// Multiplications below which a product is not cut.
const WHOLE: usize = 1 << 18;
/// Multiplications of a task, at least.
const TASK_MIN: usize = 1 << 19;
/// Tasks that a product is cut into at most by rows, while they have few of them.
const TASKS: usize = 16;
/// The most rows of a task: together with a panel they fit the second-level cache.
const ROWS_MAX: usize = 128;
/// Threads from which on a product is cut both ways: they would wait for each other's packing, and each read the whole
/// right side from caches that they share.
const GRID_THREADS: usize = 8;
/// Tasks of a grid for each thread: processors that share a core are not equally fast.
const GRID_TASKS: usize = 4;
/// Vectors of a row that a task of a grid has at least.
const GRID_VECTORS: usize = 6;
/// The most rows of a product that is cut by columns.
const COLUMNS_ROWS: usize = 256;

impl<S: Multiply> Oriented<S> {
    /// The cheaper way round.
    pub fn new<C>(q: &Gemm<S, C>, a: Mat<S>, b: Mat<S>, c: *mut S::Acc, c_row: isize) -> Oriented<S> {
        let (lanes, height) = S::Acc::tile();
        let straight = Oriented {
            m: q.m,
            n: q.n,
            k: q.k,
            alpha: q.alpha,
            left: a,
            right: b,
            c,
            c_row,
            c_col: 1,
            add: q.accumulate,
            is_straight: true,
            beside: [std::ptr::null(); BESIDE],
            pairs: false,
            lanes,
            height,
            is_free: false,
            fixed_depth: 0,
        };
        let (m, n, left, right) = (q.n, q.m, b.t(), a.t());
        let transposed = Oriented { m, n, left, right, c_row: 1, c_col: c_row, is_straight: false, ..straight };
        if transposed.cost() < straight.cost() { transposed } else { straight }
    }

    /// Cycles by a rough count: those of the tiles, and of packing by copying or transposing.
    fn cost(&self) -> usize {
        let lines = self.n.div_ceil(self.lanes);
        let tiles = self.m * lines * self.k;
        let pack_right = if self.right.col == 1 { lines } else { lines * self.lanes / 2 };
        let pack_left = if self.is_left_direct() { 0 } else { self.m / 4 };
        // A transposed result is written in small pieces.
        let store = if self.c_col == 1 { 0 } else { self.m * self.n };
        tiles + (pack_right + pack_left) * self.k + store
    }

    /// Whether the left side is used where it lies. A sweep takes a distance of 0 between rows as
    /// the sign of a packed side, so a row that is repeated is packed.
    pub fn is_left_direct(&self) -> bool {
        S::SAME && self.left.col == 1 && self.left.row != 0
    }

    /// Whether both sides are used where they lie.
    fn is_direct(&self) -> bool {
        self.is_left_direct() && S::SAME && self.right.col == 1 && self.right.row != 0
    }

    /// Whether the right side is read from memory row by row and used once.
    pub fn is_stream(&self) -> bool {
        self.fixed_depth == 0 && self.right.col == 1 && self.is_flat() && self.k * self.n * size_of::<S>() >= STREAM
    }

    /// Whether the product is cut by columns: it is low, and every task can use the left side.
    fn is_flat(&self) -> bool {
        let is_shared = self.is_left_direct() || self.m < 8 * self.height;
        is_shared && self.m <= COLUMNS_ROWS && self.n >= self.m
    }

    /// The length of the parts that `k` is cut into; decides the result's bits, and is a function of
    /// the operands' shapes and layouts alone.
    pub fn depth(&self) -> usize {
        if self.fixed_depth > 0 {
            return self.fixed_depth;
        }
        let most = if self.is_stream() { STREAM_DEPTH } else { DEPTH };
        self.k.div_ceil(self.k.div_ceil(most).max(1)).max(1)
    }

    /// Vectors of the right side that are packed at a time where each task packs its own.
    pub fn strip(&self) -> usize {
        if self.is_stream() { STREAM_STRIP } else { STRIP }
    }

    /// How to cut the product. The number of threads may show here, but not in the result.
    pub fn way(&self) -> Way {
        let work = self.m * self.n * self.k;
        if work < WHOLE {
            return Way::Whole;
        }
        let floor = |x: usize| if x < 2 { 1 } else { 1 << x.ilog2() };
        let tasks = floor(work / TASK_MIN).clamp(2, TASKS);
        if self.is_flat() {
            if pool::is_inside_task() {
                return Way::Whole;
            }
            let threads = pool::threads();
            // Two for each thread: processors that share a core are not equally fast.
            let wanted = floor(work / TASK_MIN).clamp(2, TASKS.max(2 * threads));
            let columns = wanted.min(floor(2 * threads)).min(floor(self.n.div_ceil(self.lanes) / 2));
            let rows = threads.div_ceil(columns).min(wanted / columns).min(self.m / (2 * self.height));
            if rows > 1 && threads >= GRID_THREADS && self.is_free && self.is_direct() {
                return Way::Grid(rows, columns);
            }
            return match columns {
                1 => Way::Whole,
                tasks => Way::Columns(tasks),
            };
        }
        if let Some((rows, columns)) = self.grid(pool::threads()) {
            return Way::Grid(rows, columns);
        }
        let mut tasks = tasks.min(floor(self.m.div_ceil(self.height)));
        while self.m.div_ceil(tasks) > ROWS_MAX {
            tasks *= 2;
        }
        if tasks == 1 { Way::Whole } else { Way::Rows(tasks) }
    }

    /// Rows and columns of tasks, where a product is cut both ways.
    fn grid(&self, threads: usize) -> Option<(usize, usize)> {
        let is_large = self.m * self.n * self.k >= threads * GRID_TASKS * TASK_MIN;
        if !self.is_free || !self.is_direct() || !is_large || threads < GRID_THREADS || pool::is_inside_task() {
            return None;
        }
        let rows = self.m.div_ceil(ROWS_MAX);
        let most = self.n.div_ceil(self.lanes * GRID_VECTORS);
        Some((rows, (GRID_TASKS * threads).div_ceil(rows).clamp(1, most)))
    }

    /// Some rows of the product, cut along `k` as the whole is.
    pub fn band(&self, first: usize, m: usize) -> Oriented<S> {
        Oriented {
            m,
            left: self.left.down(first),
            c: self.c.wrapping_offset(first as isize * self.c_row),
            fixed_depth: self.depth(),
            // Its parts are reported together.
            is_free: false,
            ..*self
        }
    }

    /// Whether the product is computed as it was given.
    pub fn is_straight(&self) -> bool {
        self.is_straight
    }

    /// A part of the result as it was given.
    pub fn patch(&self, row: usize, rows: usize, col: usize, cols: usize) -> Patch {
        if self.is_straight {
            Patch { row, rows, col, cols }
        } else {
            Patch { row: col, rows: cols, col: row, cols: rows }
        }
    }
}

/// Part `i` of `count` parts of `0..n`, cut at multiples of `unit`: its start and its length.
pub(super) fn share(i: usize, count: usize, n: usize, unit: usize) -> (usize, usize) {
    let units = n.div_ceil(unit);
    let at = |i: usize| (i * units / count * unit).min(n);
    (at(i), at(i + 1) - at(i))
}
