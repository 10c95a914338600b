//! Runs tile programs.

#![allow(unsafe_code)]

use super::access::{Bases, Window};
use super::functions::Binary;
use super::lane::Lane;
use super::{Accumulator, Arg, Function, Gather, Home, Instr, Span, Tiles};
use crate::pool;
use crate::vmath::{dispatch, f32s};
use ir::Element;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// Numbers repeated at a time for loops that take vectors only.
const SPLAT: usize = 256;
/// Rows up to this length are not worth a call each: operands that vary by row or by column alone
/// are spread over the tile first.
const SHORT: usize = 24;
/// Elements of a tile that operands are spread over, at most.
const EXPANDED: usize = 1024;

/// Bytes of a cache line.
const LINE: usize = 64;

#[inline(always)]
fn prefetch_to_read(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// For memory that is written next: the line is then this processor's alone.
#[inline(always)]
fn prefetch_to_write(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above; where processors do not know the instruction it does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) p, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// 64 bytes on a cache line's boundary.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// A tile at work: where its values are, and what part of the space it is.
struct Tile<'a> {
    vals: &'a [*mut u8],
    at: Window,
}

impl Tiles {
    /// Runs the loop.
    ///
    /// # Safety
    /// The bases are those the program was emitted for, with every buffer alive, and no other thread
    /// touches what the loop writes.
    pub unsafe fn run(&self, bases: Bases) {
        let tasks = self.plan.tasks();
        if tasks == 1 {
            // SAFETY: the caller's promise.
            unsafe { self.task(bases, 0) };
        } else if tasks > 1 {
            // SAFETY: tasks write disjoint parts of the space.
            pool::parallel_for(tasks, &|i| unsafe { self.task(bases, i) });
        }
        for a in &self.accumulators {
            // SAFETY: every task is done.
            unsafe { self.finish(a, bases) };
        }
    }

    unsafe fn task(&self, bases: Bases, i: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.window(bases, self.plan.task(i)) }
    }

    /// Runs a part of the loop; one without reductions over more than the part.
    ///
    /// # Safety
    /// As for [`Tiles::run`].
    pub unsafe fn window(&self, bases: Bases, all: Window) {
        SCRATCH.with_borrow_mut(|scratch| {
            let lines = self.scratch.div_ceil(64);
            if scratch.len() < lines {
                scratch.resize(lines, Line([0; 64]));
            }
            let scratch = scratch.as_mut_ptr().cast::<u8>();
            let mut vals: SmallVec<[*mut u8; 48]> = SmallVec::with_capacity(self.homes.len());
            for h in &self.homes {
                vals.push(match h {
                    Home::Scratch(at) => scratch.wrapping_add(*at),
                    Home::Const(k) => (&raw const self.consts[*k]).cast::<u8>().cast_mut(),
                    Home::Memory(_) => std::ptr::null_mut(),
                });
            }
            for a in &self.accumulators {
                // SAFETY: this task's own accumulators.
                unsafe { a.wide.clear(self.partial(a, bases, all), a.count(all)) };
            }
            let mut r = all.r;
            while r < all.r + all.h {
                let h = self.plan.h.min(all.r + all.h - r);
                let mut c = all.c;
                while c < all.c + all.w {
                    let at = Window { r, h, c, w: self.plan.w.min(all.c + all.w - c) };
                    for (v, home) in vals.iter_mut().zip(&self.homes) {
                        if let Home::Memory(access) = home {
                            *v = access.first(bases, at);
                        }
                    }
                    if !self.ahead.is_empty() {
                        self.look_ahead(bases, at, all);
                    }
                    // SAFETY: the window lies inside the task.
                    unsafe { self.tile(bases, &Tile { vals: &vals, at }, all) };
                    c += at.w;
                }
                r += h;
            }
        });
    }

    /// Brings the memory of the next tile closer.
    fn look_ahead(&self, bases: Bases, at: Window, all: Window) {
        let (mut r, mut c) = (at.r, at.c + at.w);
        if c >= all.c + all.w {
            (r, c) = (at.r + at.h, all.c);
        }
        if r >= all.r + all.h {
            return;
        }
        let next = Window { r, h: self.plan.h.min(all.r + all.h - r), c, w: self.plan.w.min(all.c + all.w - c) };
        for a in &self.ahead {
            let p = a.access.first(bases, next).cast_const();
            let bytes = a.span.count(next.h, next.w) * a.access.size;
            if a.is_written {
                (0..bytes).step_by(LINE).for_each(|i| prefetch_to_write(p.wrapping_add(i)));
            } else {
                (0..bytes).step_by(LINE).for_each(|i| prefetch_to_read(p.wrapping_add(i)));
            }
        }
    }

    unsafe fn tile(&self, bases: Bases, t: &Tile, all: Window) {
        let (h, w) = (t.at.h, t.at.w);
        let at = |v: u16| t.vals[v as usize];
        for instr in &self.instrs {
            // SAFETY: values were given room for a tile of their span; memory windows lie inside
            // their buffers.
            unsafe {
                match instr {
                    Instr::Read { access, y, .. } => access.read(bases, t.at, at(*y)),
                    Instr::ReadSum { access, dtype, y } => access.sum_rows(bases, t.at, *dtype, at(*y)),
                    Instr::Write { access, x } => access.write(bases, t.at, at(*x)),
                    Instr::Unary { f, x, y, span } => f(at(*x), at(*y), span.count(h, w)),
                    Instr::Binary { f, a, b, y, .. } => t.binary(f, *a, *b, *y),
                    Instr::Triple { f, args, y } => {
                        t.stretches(*args, *y, |[(a, _), (b, b1), (c, c1), (d, d1)], y, n| {
                            f[4 * usize::from(!b1) + 2 * usize::from(!c1) + usize::from(!d1)]([a, b, c, d], y, n)
                        })
                    }
                    Instr::Chain { f, a, b, c, y, .. } => {
                        t.stretches([*a, *b, *c], *y, |[(a, _), (b, b1), (c, c1)], y, n| {
                            f[usize::from(!b1)][usize::from(!c1)]([a, b, c], y, n)
                        })
                    }
                    Instr::Dot { a, b, y } => {
                        for r in 0..if a.span.by_row { h } else { 1 } {
                            let (p, q) = (at(a.val).cast::<f32>().add(r * w), at(b.val).cast::<f32>().add(r * w));
                            *at(*y).cast::<f32>().add(r) = f32s::raw::dot(p, q, w);
                        }
                    }
                    Instr::Select { f, c, a, b, y } => t.select(*f, [*c, *a, *b], *y),
                    Instr::Each { f, args, y, to } => t.each(*f, args, *y, *to),
                    Instr::Expand { x, y } => t.expand(*x, *y),
                    Instr::Rows { f, x, y, .. } => {
                        f.run(at(x.val), at(*y), if x.span.by_row { h } else { 1 }, w, x.size as usize);
                    }
                    Instr::AccumulateRead { to, access, apart } => {
                        let (a, at) = (&self.accumulators[*to], t.at);
                        let acc = self.partial(a, bases, all).add((at.c - all.c) * 8);
                        (a.wide.columns)(access.first(bases, at), acc, at.h, at.w, *apart);
                    }
                    Instr::Accumulate { to, x } => {
                        let a = &self.accumulators[*to];
                        a.add(self.partial(a, bases, all), at(*x), t.at, all);
                    }
                }
            }
        }
    }

    /// Where a task's accumulators of a reduction begin.
    fn partial(&self, a: &Accumulator, bases: Bases, all: Window) -> *mut u8 {
        let (down, across) = (all.r / self.plan.task_rows, all.c / self.plan.task_columns);
        let first = match a.how {
            Gather::Rows => across * self.plan.rows + all.r,
            Gather::Columns => down * self.plan.columns + all.c,
            Gather::Points | Gather::RowValues => down * self.plan.across + across,
        };
        bases.at(self.partials).wrapping_add(a.offset + first * 8)
    }

    /// Joins the tasks' partial results in order and writes the result.
    unsafe fn finish(&self, a: &Accumulator, bases: Bases) {
        let (values, parts) = match a.how {
            Gather::Rows => (self.plan.rows, self.plan.across),
            Gather::Columns => (self.plan.columns, self.plan.down),
            Gather::Points => (1, self.plan.tasks()),
            // Tasks side by side see the same rows; those of the first column count.
            Gather::RowValues => (1, self.plan.down),
        };
        let first = bases.at(self.partials).wrapping_add(a.offset);
        let out = bases.at(a.out);
        let stride = if a.how == Gather::RowValues { self.plan.across } else { values };
        // SAFETY: partial results lie one part after the other; the result has room for all values.
        unsafe {
            for p in 1..parts {
                a.wide.join(first, first.wrapping_add(p * stride * 8), values);
            }
            a.wide.finish(first, a.dtype, out, values);
        }
    }
}

impl Accumulator {
    /// How many accumulators a task has.
    fn count(&self, all: Window) -> usize {
        match self.how {
            Gather::Rows => all.h,
            Gather::Columns => all.w,
            Gather::Points | Gather::RowValues => 1,
        }
    }

    /// Adds a tile.
    unsafe fn add(&self, acc: *mut u8, x: *const u8, at: Window, all: Window) {
        let size = self.wide.lane.size();
        // SAFETY: the caller's promise: `acc` has this task's accumulators, `x` a tile.
        unsafe {
            match self.how {
                Gather::Rows => {
                    for r in 0..at.h {
                        self.wide.points(x.add(r * at.w * size), acc.add((at.r - all.r + r) * 8), at.w);
                    }
                }
                Gather::Columns => (self.wide.columns)(x, acc.add((at.c - all.c) * 8), at.h, at.w, at.w),
                Gather::Points => self.wide.points(x, acc, at.h * at.w),
                Gather::RowValues => (self.wide.columns)(x, acc, at.h, 1, 1),
            }
        }
    }
}

impl Tile<'_> {
    /// Where row `r` of an operand is, and whether it is one number for the whole row.
    fn row(&self, a: Arg, r: usize) -> (*mut u8, bool) {
        let size = a.size as usize;
        let p = self.vals[a.val as usize];
        match (a.span.by_row, a.span.by_column) {
            (true, true) => (p.wrapping_add(r * self.at.w * size), false),
            (true, false) => (p.wrapping_add(r * size), true),
            (false, true) => (p, false),
            (false, false) => (p, true),
        }
    }

    /// Runs `f` over stretches in which each operand is a vector or one number: the whole tile
    /// where all operands allow it, else row by row.
    #[inline]
    unsafe fn stretches<const N: usize>(
        &self,
        args: [Arg; N],
        y: Arg,
        mut f: impl FnMut([(*const u8, bool); N], *mut u8, usize),
    ) {
        let (h, w) = (self.at.h, self.at.w);
        let whole = |s: Span| s == y.span || s == Span::ONE || (w == 1 && s.by_row == y.span.by_row);
        if args.iter().all(|a| whole(a.span)) {
            let ops = args.map(|a| {
                let is_number = a.span == Span::ONE && y.span != Span::ONE;
                (self.vals[a.val as usize].cast_const(), is_number)
            });
            return f(ops, self.vals[y.val as usize], y.span.count(h, w));
        }
        if w <= SHORT && h * w <= EXPANDED {
            let mut room = [[const { MaybeUninit::<u64>::uninit() }; EXPANDED]; N];
            let mut k = 0;
            let ops = args.map(|a| {
                let to = room[k].as_mut_ptr().cast::<u8>();
                k += 1;
                if a.span == y.span || a.span == Span::ONE {
                    return (self.vals[a.val as usize].cast_const(), a.span == Span::ONE);
                }
                for r in 0..h {
                    let (p, is_number) = self.row(a, r);
                    let to = to.wrapping_add(r * w * a.size as usize);
                    // SAFETY: the room holds a tile of numbers of any size.
                    unsafe { spread(p, is_number, a.size as usize, to, w) };
                }
                (to.cast_const(), false)
            });
            return f(ops, self.vals[y.val as usize], h * w);
        }
        for r in 0..h {
            let ops = args.map(|a| {
                let (p, is_number) = self.row(a, r);
                (p.cast_const(), is_number)
            });
            f(ops, self.row(y, r).0, w);
        }
    }

    unsafe fn binary(&self, f: &Binary, a: Arg, b: Arg, y: Arg) {
        let (sa, sy) = (a.size as usize, y.size as usize);
        // SAFETY: stretches lie inside their tiles.
        unsafe {
            self.stretches([a, b], y, |[(a, a1), (b, b1)], y, n| match (a1, b1, f.vs, f.sv) {
                (false, false, ..) => (f.vv)(a, b, y, n),
                (false, true, Some(vs), _) => vs(a, b, y, n),
                (true, false, _, Some(sv)) => sv(a, b, y, n),
                _ => in_chunks(n, [(a, a1, sa), (b, b1, sa)], |[a, b], i, m| (f.vv)(a, b, y.add(i * sy), m)),
            });
        }
    }

    unsafe fn select(&self, f: super::F3, args: [Arg; 3], y: Arg) {
        let size = y.size as usize;
        // SAFETY: stretches lie inside their tiles.
        unsafe {
            self.stretches(args, y, |[(c, c1), (a, a1), (b, b1)], y, n| {
                if !c1 && !a1 && !b1 {
                    return f(c, a, b, y, n);
                }
                let args = [(c, c1, 1), (a, a1, size), (b, b1, size)];
                in_chunks(n, args, |[c, a, b], i, m| f(c, a, b, y.add(i * size), m));
            });
        }
    }

    /// Number by number, with the function in the op's row.
    unsafe fn each(&self, f: Function, args: &[(Arg, Lane)], y: Arg, to: Lane) {
        let (h, w) = (if y.span.by_row { self.at.h } else { 1 }, if y.span.by_column { self.at.w } else { 1 });
        let mut floats: SmallVec<[f64; 4]> = SmallVec::from_elem(0.0, args.len());
        let mut ints: SmallVec<[i128; 4]> = SmallVec::from_elem(0, args.len());
        for i in 0..h * w {
            let (r, c) = (i / w, i % w);
            for (k, (a, lane)) in args.iter().enumerate() {
                let (p, is_number) = self.row(*a, r);
                let at = if is_number { 0 } else { c };
                // SAFETY: element `c` of row `r` of a tile.
                unsafe {
                    match f {
                        Function::Float(_) => floats[k] = load_f64(p, *lane, at),
                        Function::Int(_) => ints[k] = load_int(p, *lane, at),
                    }
                }
            }
            // SAFETY: as above.
            unsafe {
                let p = self.vals[y.val as usize];
                match f {
                    Function::Float(f) => store_f64(p, to, i, f(&floats)),
                    Function::Int(f) => store_int(p, to, i, f(&ints)),
                }
            }
        }
    }

    unsafe fn expand(&self, x: Arg, y: Arg) {
        let size = x.size as usize;
        let w = if y.span.by_column { self.at.w } else { 1 };
        if (2..=4).contains(&w) && y.span.by_row && x.span.by_row && !x.span.by_column {
            // SAFETY: a number a row, and rows of `w` elements.
            return unsafe { repeat(self.vals[x.val as usize], size, self.vals[y.val as usize], self.at.h, w) };
        }
        for r in 0..if y.span.by_row { self.at.h } else { 1 } {
            let (p, is_number) = self.row(x, r);
            let q = self.vals[y.val as usize].wrapping_add(r * w * size);
            // SAFETY: row `r` of both tiles.
            unsafe { spread(p, is_number, size, q, w) };
        }
    }
}

/// Runs `f(operands, start, length)` over stretches that repeated numbers have room for. An operand is where it lies,
/// whether it is one number, and the size of an element.
#[inline]
unsafe fn in_chunks<const N: usize>(
    n: usize,
    args: [(*const u8, bool, usize); N],
    mut f: impl FnMut([*const u8; N], usize, usize),
) {
    let mut room = [[const { MaybeUninit::<u64>::uninit() }; SPLAT]; N];
    let mut k = 0;
    // Each number is repeated once, for all stretches.
    let args = args.map(|(x, is_number, size)| {
        let y = room[k].as_mut_ptr().cast::<u8>();
        k += 1;
        if !is_number {
            return (x, size);
        }
        // SAFETY: the room holds `SPLAT` numbers of any size.
        unsafe { fill(x, size, y, n.min(SPLAT)) };
        (y.cast_const(), 0)
    });
    let mut i = 0;
    while i < n {
        let m = SPLAT.min(n - i);
        f(args.map(|(x, size)| x.wrapping_add(i * size)), i, m);
        i += m;
    }
}

dispatch! {
    /// Each of `n` elements `w` times, for `w` of 2 to 4.
    unsafe fn repeat(x: *const u8, size: usize, y: *mut u8, n: usize, w: usize) {
        _I => match size {
            1 => repeat_of(x, y, n, w),
            2 => repeat_of(x.cast::<u16>(), y.cast::<u16>(), n, w),
            4 => repeat_of(x.cast::<u32>(), y.cast::<u32>(), n, w),
            _ => repeat_of(x.cast::<u64>(), y.cast::<u64>(), n, w),
        }
    }
}

#[inline(always)]
unsafe fn repeat_of<T: Copy>(x: *const T, y: *mut T, n: usize, w: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match w {
            2 => repeat_by::<T, 2>(x, y, n),
            3 => repeat_by::<T, 3>(x, y, n),
            _ => repeat_by::<T, 4>(x, y, n),
        }
    }
}

/// A count that the compiler knows becomes shuffles of vectors.
#[inline(always)]
unsafe fn repeat_by<T: Copy, const W: usize>(x: *const T, y: *mut T, n: usize) {
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe { y.add(i * W).cast::<[T; W]>().write_unaligned([*x.add(i); W]) };
    }
}

/// A row of `w` elements from a row or from one number.
#[inline(always)]
unsafe fn spread(x: *const u8, is_number: bool, size: usize, y: *mut u8, w: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_number {
            fill(x, size, y, w);
        } else {
            std::ptr::copy_nonoverlapping(x, y, w * size);
        }
    }
}

unsafe fn fill(x: *const u8, size: usize, y: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => std::slice::from_raw_parts_mut(y, n).fill(*x),
            2 => std::slice::from_raw_parts_mut(y.cast::<u16>(), n).fill(*x.cast()),
            4 => std::slice::from_raw_parts_mut(y.cast::<u32>(), n).fill(*x.cast()),
            _ => std::slice::from_raw_parts_mut(y.cast::<u64>(), n).fill(*x.cast()),
        }
    }
}

unsafe fn load_f64(p: *const u8, lane: Lane, i: usize) -> f64 {
    // SAFETY: the caller's promise.
    ir::with_dtype!(lane.dtype(), T => unsafe { T::load(*p.cast::<<T as Element>::Stored>().add(i)).to_f64() })
}
unsafe fn load_int(p: *const u8, lane: Lane, i: usize) -> i128 {
    // SAFETY: the caller's promise.
    ir::with_dtype!(lane.dtype(), T => unsafe { T::load(*p.cast::<<T as Element>::Stored>().add(i)).to_int() })
}
unsafe fn store_f64(p: *mut u8, lane: Lane, i: usize, x: f64) {
    // SAFETY: the caller's promise.
    ir::with_dtype!(lane.dtype(), T => unsafe {
        *p.cast::<<T as Element>::Stored>().add(i) = <T as Element>::from_f64(x).store()
    })
}
unsafe fn store_int(p: *mut u8, lane: Lane, i: usize, x: i128) {
    // SAFETY: the caller's promise.
    ir::with_dtype!(lane.dtype(), T => unsafe {
        *p.cast::<<T as Element>::Stored>().add(i) = <T as Element>::from_int(x).store()
    })
}
