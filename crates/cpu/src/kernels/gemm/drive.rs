//! Runs an oriented GEMM: packs what must be packed, and sweeps over blocks of C.

#![allow(unsafe_code)]

use super::super::scratch::Scratch;
use super::Patch;
use super::element::{Float, Multiply, SweepOf};
use super::micro::{Ahead, BESIDE, PANEL, Panels, Sweep, panel_at, panel_count};
use super::orient::{Oriented, Way, share};
use crate::pool::{self, Shared};

/// Columns of the right side that are packed together for all threads.
pub(super) const COLUMNS: usize = 4096;
/// Bytes of a packed right side that stay in the second-level cache while the left side passes.
const RESIDENT: usize = 448 * 1024;
/// Rows of the right side that a task packs.
const PACK_ROWS: usize = 64;
/// Elements up to which one thread packs before the others are ready.
const PACK_ALONE: usize = 1 << 14;

/// The part of a product that one sweep covers.
#[derive(Clone, Copy)]
struct Part {
    i: usize,
    m: usize,
    j: usize,
    n: usize,
    p: usize,
    k: usize,
}

/// Columns cut into strips that are packed one at a time, and `k` into parts.
struct Pieces {
    first: usize,
    n: usize,
    lanes: usize,
    strips: usize,
    /// The columns of the widest strip, whole vectors.
    width: usize,
    m: usize,
    k: usize,
    kc: usize,
}

impl Pieces {
    fn new<S: Multiply>(q: &Oriented<S>, first: usize, n: usize) -> Pieces {
        let vectors = n.div_ceil(q.lanes);
        let strips = vectors.div_ceil(q.strip());
        let width = vectors.div_ceil(strips) * q.lanes;
        Pieces { first, n, lanes: q.lanes, strips, width, m: q.m, k: q.k, kc: q.depth() }
    }
    fn count(&self) -> usize {
        self.strips * self.k.div_ceil(self.kc)
    }
    /// Piece `x`: all parts of `k` of a strip, then the next strip.
    fn at(&self, x: usize) -> Part {
        let parts = self.k.div_ceil(self.kc);
        let (j, n) = share(x / parts, self.strips, self.n, self.lanes);
        let p = x % parts * self.kc;
        Part { i: 0, m: self.m, j: self.first + j, n, p, k: self.kc.min(self.k - p) }
    }
}

impl<S: Multiply> Oriented<S> {
    /// Computes the product and calls `done` for each part of C when it is ready, on the thread
    /// that computed it.
    ///
    /// # Safety
    /// As for [`super::Gemm::run`].
    pub unsafe fn run(&self, done: &(dyn Fn(Patch) + Sync)) {
        let tasks = match self.way() {
            Way::Whole => 1,
            Way::Columns(tasks) => tasks,
            // SAFETY: the caller's promise.
            Way::Rows(tasks) => return unsafe { self.rows(tasks, done) },
            // SAFETY: likewise.
            Way::Grid(rows, columns) => return unsafe { self.grid_of(rows, columns, done) },
        };
        let packed = (!self.is_left_direct()).then(|| Scratch::<S::Acc>::new(self.m * self.k));
        let left = packed.as_ref().map(|p| Shared::new(p.ptr()));
        left.into_iter().for_each(|left| self.pack_left_shared(left));
        let this = Shared::new((self as *const Self).cast_mut());
        pool::parallel_for(tasks, &move |t| {
            // SAFETY: alive until `parallel_for` returns; tasks have columns of their own.
            unsafe {
                let this = &*this.get();
                let (j, n) = share(t, tasks, this.n, this.lanes);
                this.columns(j, n, left.map(|p| p.get().cast_const()), done);
            }
        });
    }

    /// The whole height of some columns; `left` is the packed left side, unless it is used where
    /// it lies.
    unsafe fn columns(&self, first: usize, n: usize, left: Option<*const S::Acc>, done: &(dyn Fn(Patch) + Sync)) {
        if n == 0 {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let cut = Pieces::new(self, first, n);
            // A right side that few rows use is not worth packing, but for its ragged edge.
            let is_direct = S::SAME && self.right.col == 1 && self.right.row != 0;
            if self.k == 0 {
                self.clear(0, self.m, first, n);
            } else if is_direct && self.m <= self.height {
                let room = Scratch::<S::Acc>::new(self.lanes * cut.kc);
                (0..cut.count()).for_each(|x| self.sweep_direct(cut.at(x), left, room.ptr()));
            } else if is_direct && !self.is_stream() {
                let room = Scratch::<S::Acc>::new(PANEL * self.lanes * cut.kc);
                let finish = |j: usize, n: usize| done(self.patch(0, self.m, j, n));
                self.sweep_keeping(first, n, left, room.ptr(), if self.is_free { &finish } else { &|_, _| {} });
                if self.is_free {
                    return;
                }
            } else {
                // One buffer is multiplied with while the other is filled.
                let size = cut.width * cut.kc;
                let packed = Scratch::<S::Acc>::new(2 * size);
                let (mut now, mut then) = (packed.ptr(), packed.ptr().add(size));
                let head = cut.at(0);
                self.pack_steps(head, 0, head.k, now);
                for x in 0..cut.count() {
                    let next = if x + 1 < cut.count() { Some(cut.at(x + 1)) } else { None };
                    self.multiply(cut.at(x), left, now, next, then);
                    (now, then) = (then, now);
                }
            }
        }
        done(self.patch(0, self.m, first, n));
    }

    /// Multiplies with a packed part of the right side, and packs the next part into `room`, a
    /// little after each tile or two: then memory is read all the time, and what was read ahead
    /// is still in cache.
    unsafe fn multiply(
        &self,
        part: Part,
        left: Option<*const S::Acc>,
        right: *const S::Acc,
        next: Option<Part>,
        room: *mut S::Acc,
    ) {
        let vectors = part.n.div_ceil(self.lanes);
        let (panels, high) = (panel_count(vectors), 2 * self.height);
        let units = panels * part.m.div_ceil(high);
        let (mut unit, mut packed) = (0, 0);
        for panel in 0..panels {
            let (v, nv) = panel_at(panel, vectors);
            let j = v * self.lanes;
            for i in (0..part.m).step_by(high) {
                unit += 1;
                let piece =
                    Part { i, m: high.min(part.m - i), j: part.j + j, n: (nv * self.lanes).min(part.n - j), ..part };
                // SAFETY: the caller's promise.
                unsafe {
                    let mut q = self.sweep(piece, left.map(|l| l.add(self.m * part.p + i * part.k)));
                    q.right = Panels { p: right.add(j * part.k), row: 0 };
                    let Some(next) = next else {
                        S::Acc::sweep(&SweepOf(q));
                        continue;
                    };
                    let until =
                        if unit == units { next.k } else { (next.k * unit / units).next_multiple_of(8).min(next.k) };
                    if packed < until {
                        q.ahead = self.ahead(next, packed);
                    }
                    S::Acc::sweep(&SweepOf(q));
                    self.pack_steps(next, packed, until, room);
                    packed = until;
                }
            }
        }
    }

    /// Right side as it lies, a panel at a time, which the first strip of rows packs for the others;
    /// panels with columns that do not fill a vector are packed before. `done` is called for the columns of each.
    unsafe fn sweep_keeping(
        &self,
        first: usize,
        n: usize,
        left: Option<*const S::Acc>,
        room: *mut S::Acc,
        done: &dyn Fn(usize, usize),
    ) {
        let (vectors, kc) = (n.div_ceil(self.lanes), self.depth());
        let panels = (0..panel_count(vectors)).map(|i| panel_at(i, vectors));
        for ((v, nv), p) in panels.flat_map(|panel| (0..self.k).step_by(kc).map(move |p| (panel, p))) {
            let j = v * self.lanes;
            let (n, k) = ((nv * self.lanes).min(n - j), kc.min(self.k - p));
            let part = Part { i: 0, m: self.m, j: first + j, n, p, k };
            // SAFETY: the caller's promise; `S` is the type of the computation.
            unsafe {
                let mut q = self.sweep(part, left.map(|l| l.add(self.m * p)));
                if n.is_multiple_of(self.lanes) {
                    q.right = Panels { p: self.right.at(p, part.j).cast(), row: self.right.row };
                    q.keep = room;
                } else {
                    self.pack_steps(part, 0, k, room);
                    q.right = Panels { p: room, row: 0 };
                }
                S::Acc::sweep(&SweepOf(q));
            }
            if p + k == self.k {
                done(part.j, n);
            }
        }
    }

    /// Right side as it lies; only columns that do not fill a vector are packed.
    unsafe fn sweep_direct(&self, part: Part, left: Option<*const S::Acc>, room: *mut S::Acc) {
        let full = part.n / self.lanes * self.lanes;
        // SAFETY: the caller's promise; `S` is the type of the computation.
        unsafe {
            let q = self.sweep(part, left.map(|l| l.add(self.m * part.p)));
            if full > 0 {
                let right = Panels { p: self.right.at(part.p, part.j).cast(), row: self.right.row };
                S::Acc::sweep(&SweepOf(Sweep { n: full, right, ..q }));
            }
            if full < part.n {
                let part = Part { j: part.j + full, n: part.n - full, ..part };
                self.pack_steps(part, 0, part.k, room);
                let c = q.c.offset(full as isize * q.c_col);
                S::Acc::sweep(&SweepOf(Sweep { n: part.n, right: Panels { p: room, row: 0 }, c, ..q }));
            }
        }
    }

    /// Bands of rows, and of each some columns a task; neighbors share a band, which then stays in cache.
    unsafe fn grid_of(&self, rows: usize, columns: usize, done: &(dyn Fn(Patch) + Sync)) {
        let this = Shared::new((self as *const Self).cast_mut());
        pool::parallel_for(rows * columns, &move |t| {
            // SAFETY: alive until `parallel_for` returns; tasks have parts of C of their own.
            unsafe {
                let this = &*this.get();
                let (i, m) = share(t / columns, rows, this.m, this.height);
                let (j, n) = share(t % columns, columns, this.n, this.lanes);
                if m > 0 && n > 0 {
                    let patch = this.patch(i, m, j, n);
                    this.band(i, m).columns(j, n, None, &|_| done(patch));
                }
            }
        });
    }

    /// Row by row of blocks: the right side is packed once for all, a part of `k` at a time.
    unsafe fn rows(&self, tasks: usize, done: &(dyn Fn(Patch) + Sync)) {
        let kc = self.depth();
        let width = COLUMNS.min(self.n).next_multiple_of(self.lanes);
        let packed = Scratch::<S::Acc>::new(width * kc);
        let (this, right) = (Shared::new((self as *const Self).cast_mut()), Shared::new(packed.ptr()));
        for j in (0..self.n).step_by(COLUMNS) {
            let n = COLUMNS.min(self.n - j);
            let mut p = 0;
            while p < self.k || p == 0 {
                let k = kc.min(self.k - p);
                let all = Part { i: 0, m: self.m, j, n, p, k };
                self.pack_shared(all, right);
                let is_last = p + kc >= self.k;
                pool::parallel_for(tasks, &move |t| {
                    // SAFETY: alive until `parallel_for` returns; tasks have rows of their own.
                    unsafe {
                        let this = &*this.get();
                        let (i, m) = share(t, tasks, this.m, this.height);
                        if m > 0 {
                            this.block(Part { i, m, ..all }, right.get(), is_last);
                        }
                        if m > 0 && is_last {
                            done(this.patch(i, m, j, n));
                        }
                    }
                });
                p += kc;
            }
        }
    }

    /// Some rows times a packed part of the right side, the last of them or not.
    unsafe fn block(&self, part: Part, right: *const S::Acc, is_last: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.k == 0 {
                return self.clear(part.i, part.m, part.j, part.n);
            }
            let left = (!self.is_left_direct()).then(|| Scratch::<S::Acc>::new(part.m * part.k));
            if let Some(left) = &left {
                self.pack_strips(part, 0, part.m.div_ceil(self.height), left.ptr());
            }
            let mut q = self.sweep(part, left.as_ref().map(|l| l.ptr().cast_const()));
            q.right = Panels { p: right, row: 0 };
            q.strips_first = part.n * part.k * size_of::<S::Acc>() <= RESIDENT;
            q.left_ahead = q.strips_first && q.left_row == part.k as isize;
            if is_last {
                let at = part.i as isize * self.c_row + part.j as isize * self.c_col;
                let moved = |p: *const S::Acc| if p.is_null() { p } else { p.wrapping_offset(at) };
                q.beside = self.beside.map(moved);
            }
            // What C was until now is wanted as well.
            if q.add && q.beside[BESIDE - 1].is_null() {
                q.beside.rotate_right(1);
                q.beside[0] = q.c;
            }
            if q.strips_first {
                S::Acc::sweep(&SweepOf(q));
            } else {
                self.sweep_panels(&q);
            }
        }
    }

    /// A sweep a panel at a time, which brings the next panel closer.
    unsafe fn sweep_panels(&self, q: &Sweep<S::Acc>) {
        let vectors = q.n.div_ceil(self.lanes);
        let panels = panel_count(vectors);
        for panel in 0..panels {
            let (v, nv) = panel_at(panel, vectors);
            let (j, w) = (v * self.lanes, nv * self.lanes);
            let at = j as isize * q.c_col;
            // SAFETY: the caller's promise; panels lie one after the other.
            unsafe {
                let p = q.right.p.add(j * q.k);
                let next = (panel + 1 < panels).then(|| Ahead { step: 64, ..Ahead::nothing(p.add(w * q.k).cast()) });
                S::Acc::sweep(&SweepOf(Sweep {
                    n: w.min(q.n - j),
                    right: Panels { p, row: 0 },
                    c: q.c.offset(at),
                    beside: q.beside.map(|p| if p.is_null() { p } else { p.wrapping_offset(at) }),
                    ahead: next,
                    ..*q
                }));
            }
        }
    }

    /// A sweep over a part, without its right side; `left` is its packed left side.
    unsafe fn sweep(&self, part: Part, left: Option<*const S::Acc>) -> Sweep<S::Acc> {
        let (left, left_row) = match left {
            Some(p) => (p, 0),
            None => (self.left.at(part.i, part.p).cast(), self.left.row),
        };
        Sweep {
            m: part.m,
            n: part.n,
            k: part.k,
            alpha: self.alpha,
            left,
            left_row,
            right: Panels { p: std::ptr::null(), row: 0 },
            c: self.c.wrapping_offset(part.i as isize * self.c_row + part.j as isize * self.c_col),
            c_row: self.c_row,
            c_col: self.c_col,
            add: self.add || part.p > 0,
            strips_first: false,
            left_ahead: false,
            ahead: None,
            beside: [std::ptr::null(); BESIDE],
            keep: std::ptr::null_mut(),
            pairs: self.pairs,
        }
    }

    /// Step `p` and those after it of a part of a right side that lies row by row.
    fn ahead(&self, part: Part, p: usize) -> Option<Ahead> {
        if self.right.col != 1 {
            return None;
        }
        let lines = (part.n * size_of::<S>()).div_ceil(64);
        let row = self.right.row * size_of::<S>() as isize;
        Some(Ahead {
            p: self.right.at(part.p + p, part.j).cast(),
            step: 64,
            run: lines,
            jump: row - 64 * lines as isize,
            ..Ahead::nothing(std::ptr::null())
        })
    }

    /// Packs strips `from..to` of rows `i..i + m` of the left side, `k` steps from `p` on.
    unsafe fn pack_strips(&self, part: Part, from: usize, to: usize, room: *mut S::Acc) {
        let (mut first, end) = (from * self.height, part.m.min(to * self.height));
        if self.left.row == 1 {
            // SAFETY: strips lie one after the other inside the scratch memory.
            unsafe {
                let x = self.left.at(part.i + first, part.p);
                let rows = (end - first) / self.height * self.height;
                S::pack_strips(x, self.left.col, rows, self.height, part.k, room.add(first * part.k));
                first += rows;
            }
        }
        for r in (first..end).step_by(self.height) {
            let rows = self.height.min(part.m - r);
            // SAFETY: strips lie one after the other inside the scratch memory.
            unsafe {
                let x = self.left.at(part.i + r, part.p);
                S::pack(x, self.left.row, self.left.col, rows, part.k, rows, room.add(r * part.k));
            }
        }
    }

    /// Packs the whole left side on all threads, one part of `k` after the other.
    fn pack_left_shared(&self, to: Shared<S::Acc>) {
        let this = Shared::new((self as *const Self).cast_mut());
        let (kc, strips) = (self.depth(), self.m.div_ceil(self.height));
        let group = strips.div_ceil(8);
        let groups = strips.div_ceil(group);
        pool::parallel_for(groups * self.k.div_ceil(kc), &move |t| {
            // SAFETY: alive until `parallel_for` returns; each task packs strips of its own.
            unsafe {
                let this = &*this.get();
                let (p, from) = (t / groups * kc, t % groups * group);
                let part = Part { i: 0, m: this.m, j: 0, n: this.n, p, k: kc.min(this.k - p) };
                this.pack_strips(part, from, from + group, to.get().add(this.m * p));
            }
        });
    }

    /// Packs steps `from..to` of a part of the right side, all panels.
    unsafe fn pack_steps(&self, part: Part, from: usize, to: usize, room: *mut S::Acc) {
        let vectors = part.n.div_ceil(self.lanes);
        if from < to {
            for i in 0..panel_count(vectors) {
                // SAFETY: the caller's promise.
                unsafe { self.pack_panel(part, i, vectors, from, to - from, room) };
            }
        }
    }

    /// Packs `k` steps from `p` on of panel `i`.
    unsafe fn pack_panel(&self, part: Part, i: usize, vectors: usize, p: usize, k: usize, to: *mut S::Acc) {
        let (v, nv) = panel_at(i, vectors);
        let (j, w) = (v * self.lanes, nv * self.lanes);
        // SAFETY: panels lie one after the other inside the scratch memory.
        unsafe {
            let from = self.right.at(part.p + p, part.j + j);
            let to = to.add(j * part.k + p * w);
            S::pack(from, self.right.col, self.right.row, w.min(part.n - j), k, w, to);
        }
    }

    /// Packs a part of the right side on all threads.
    fn pack_shared(&self, part: Part, to: Shared<S::Acc>) {
        let this = Shared::new((self as *const Self).cast_mut());
        let vectors = part.n.div_ceil(self.lanes);
        let panels = panel_count(vectors);
        let chunks = part.k.div_ceil(PACK_ROWS);
        // Where rows are contiguous, a task takes some of them whole.
        let by_rows = self.right.col == 1;
        let tasks = if by_rows { chunks } else { chunks * panels };
        if part.n * part.k <= PACK_ALONE {
            // SAFETY: the room is for the whole part.
            return unsafe { self.pack_steps(part, 0, part.k, to.get()) };
        }
        pool::parallel_for(tasks, &move |t| {
            // SAFETY: alive until `parallel_for` returns; each task packs a piece of its own.
            unsafe {
                let this = &*this.get();
                let p = t % chunks * PACK_ROWS;
                let k = PACK_ROWS.min(part.k - p);
                if !by_rows {
                    return this.pack_panel(part, t / chunks, vectors, p, k, to.get());
                }
                for from in (p..p + k).step_by(8) {
                    this.pack_steps(part, from, (p + k).min(from + 8), to.get());
                }
            }
        });
    }

    /// Sets a part of C to zero, for products without any steps.
    unsafe fn clear(&self, i: usize, m: usize, j: usize, n: usize) {
        if self.add {
            return;
        }
        for r in i..i + m {
            for c in j..j + n {
                // SAFETY: inside C.
                unsafe { *self.c.offset(r as isize * self.c_row + c as isize * self.c_col) = S::Acc::default() };
            }
        }
    }
}
