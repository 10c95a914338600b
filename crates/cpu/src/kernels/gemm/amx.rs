//! Tiles of AMX, the matrix unit of recent Intel processors: products of `bf16` and of 8-bit integers.
//!
//! A tile is 16 rows of 64 bytes. A tile of the left side has 16 rows and 16 words along `k`, a tile of the right side 16
//! words along `k` and 16 columns; a word is two `bf16` or four bytes. Both sides are packed into tiles that lie one after
//! the other along `k`, filled up with zeros, and multiplied two by two: 32 rows and 32 columns at a time.
//!
//! Linux lends the unit on request. Every element is summed along `k` in one order, whatever the threads.

#![allow(unsafe_code)]

use super::super::scratch::Scratch;
use super::{Gemm, Mat, Output, Patch};
use crate::pool::{self, Shared};
use crate::vmath::{Level, level};
use half::bf16;
use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// What words are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Two `bf16`, summed in `f32`.
    Bf16,
    /// Four bytes, unsigned ones on the left and signed ones on the right, summed in `i32`.
    Int8,
}

/// Rows and words of a tile.
pub(super) const TILE: usize = 16;
/// Words of a tile.
pub(super) const TILE_WORDS: usize = TILE * TILE;
/// How lines and tiles of a packed side lie.
pub(super) const PACKED: (usize, usize) = (4 * TILE, 4 * TILE_WORDS);
/// Rows and columns that are multiplied at a time: two tiles.
pub(super) const BLOCK: usize = 2 * TILE;
/// Blocks of rows that a task takes a block of columns through.
const DOWN: usize = 4;
/// Multiplications of a task, at least.
const TASK_MIN: usize = 1 << 22;

/// The sums of a block: its rows one after the other, `f32` or `i32` by their bits.
#[repr(align(64))]
pub(super) struct Sums(pub [u32; BLOCK * BLOCK]);

/// Whether the processor has tiles of this kind and the system lends them.
pub(super) fn is_available(kind: Kind) -> bool {
    static LENT: OnceLock<[bool; 2]> = OnceLock::new();
    level() == Level::Avx512 && LENT.get_or_init(detect)[kind as usize]
}

/// For [`Kind::Bf16`] and [`Kind::Int8`].
#[cfg(target_os = "linux")]
fn detect() -> [bool; 2] {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XTILEDATA: libc::c_long = 18;
    // SAFETY: every 64-bit processor has the instruction.
    #[allow(unused_unsafe)]
    let (has_leaf, has_osxsave) = unsafe { (__cpuid(0).eax >= 7, __cpuid(1).ecx >> 27 & 1 == 1) };
    if !has_leaf || !has_osxsave {
        return [false; 2];
    }
    // SAFETY: as above.
    #[allow(unused_unsafe)]
    let features = unsafe { __cpuid_count(7, 0).edx };
    let has = |bit: u32| features >> bit & 1 == 1;
    if !has(24) {
        return [false; 2];
    }
    let enabled: u32;
    // SAFETY: the processor has the instruction, as the operating system uses it.
    unsafe { asm!("xgetbv", in("ecx") 0u32, out("eax") enabled, out("edx") _, options(nomem, nostack)) };
    // The states of tiles and of their sizes.
    if enabled >> 17 & 3 != 3 {
        return [false; 2];
    }
    // SAFETY: asks the kernel to lend the tiles to this process; it says no where it cannot.
    let is_lent = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) } == 0;
    [is_lent && has(22), is_lent && has(25)]
}
#[cfg(not(target_os = "linux"))]
fn detect() -> [bool; 2] {
    [false; 2]
}

/// The sizes of all eight tiles.
#[repr(align(64))]
struct Config([u8; 64]);
static CONFIG: Config = {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    Config(bytes)
};

macro_rules! two_by_two {
    ($vis:vis $name:ident, $dot:literal) => {
        /// Two tiles of rows, `a`, times two of columns, `b`, over `steps` tiles along `k`. Lines of the rows' tiles lie
        /// `lie.0` bytes apart, and their tiles `lie.1`.
        ///
        /// # Safety
        /// So many tiles lie there; the unit is lent, and its sizes are [`CONFIG`].
        $vis unsafe fn $name(
            a: [*const u32; 2],
            lie: (usize, usize),
            b: [*const u32; 2],
            steps: usize,
            to: &mut Sums,
        ) {
            // SAFETY: the caller's promise. Nothing else in the program uses tiles.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "2:",
                    "tileloadd tmm4, [{a0} + {a_row}*1]",
                    "tileloadd tmm6, [{b0} + {row}*1]",
                    concat!($dot, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm7, [{b1} + {row}*1]",
                    concat!($dot, " tmm1, tmm4, tmm7"),
                    "tileloadd tmm5, [{a1} + {a_row}*1]",
                    concat!($dot, " tmm2, tmm5, tmm6"),
                    concat!($dot, " tmm3, tmm5, tmm7"),
                    "add {a0}, {a_step}",
                    "add {a1}, {a_step}",
                    "add {b0}, 1024",
                    "add {b1}, 1024",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{c} + {row}*2], tmm0",
                    "tilestored [{c} + {row}*2 + 64], tmm1",
                    "tilestored [{c} + {row}*2 + 2048], tmm2",
                    "tilestored [{c} + {row}*2 + 2112], tmm3",
                    a0 = inout(reg) a[0] => _, a1 = inout(reg) a[1] => _,
                    b0 = inout(reg) b[0] => _, b1 = inout(reg) b[1] => _,
                    a_row = in(reg) lie.0, a_step = in(reg) lie.1,
                    steps = inout(reg) steps => _, row = in(reg) 64usize, c = in(reg) to.0.as_mut_ptr(),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}
two_by_two!(dot_bf16, "tdpbf16ps");
two_by_two!(pub(super) dot_int8, "tdpbusd");

/// A side in tiles: lines of 16 rows or columns, and in each the tiles along `k`.
pub(super) struct Tiles {
    /// Tiles along `k`.
    pub steps: usize,
    /// Rows or columns.
    pub lines: usize,
}

impl Tiles {
    /// For lines of so many words.
    pub fn new(lines: usize, words: usize) -> Tiles {
        Tiles { steps: words.div_ceil(TILE), lines }
    }
    /// Words of all tiles; whole blocks.
    pub fn words(&self) -> usize {
        self.lines.next_multiple_of(BLOCK) * self.steps * TILE
    }
    /// Fills the tiles on all threads: `fill(first line, first word, tile)`.
    ///
    /// # Safety
    /// Room for [`Tiles::words`].
    pub unsafe fn pack(&self, to: *mut u32, fill: &(dyn Fn(usize, usize, &mut [u32; TILE_WORDS]) + Sync)) {
        let (to, groups) = (Shared::new(to), self.words() / (self.steps.max(1) * TILE_WORDS));
        pool::parallel_for(groups, &|g| {
            for s in 0..self.steps {
                // SAFETY: the caller's promise; each task has tiles of its own.
                let tile = unsafe { &mut *to.get().add((g * self.steps + s) * TILE_WORDS).cast() };
                fill(g * TILE, s * TILE, tile);
            }
        });
    }
}

/// Runs `f` with the unit ready for [`dot_bf16`] and [`dot_int8`].
///
/// # Safety
/// The unit is lent.
pub(super) unsafe fn with_tiles(f: impl FnOnce()) {
    // SAFETY: the unit is lent; the sizes are valid.
    unsafe { asm!("ldtilecfg [{}]", in(reg) CONFIG.0.as_ptr(), options(nostack, readonly)) };
    f();
    // SAFETY: as above; idle tiles cost the processor power.
    unsafe { asm!("tilerelease", options(nomem, nostack)) };
}

/// Multiplies sides of bytes in tiles, and hands each block of sums over with its first row and column.
///
/// # Safety
/// Both sides are packed, with as many tiles along `k`, and the unit is lent.
pub(super) unsafe fn multiply(
    a: (&Tiles, *const u32),
    b: (&Tiles, *const u32),
    store: &(dyn Fn(usize, usize, &Sums) + Sync),
) {
    let steps = a.0.steps;
    let (rows, columns) = (a.0.lines.div_ceil(BLOCK), b.0.lines.div_ceil(BLOCK));
    let (pa, pb) = (Shared::new(a.1.cast_mut()), Shared::new(b.1.cast_mut()));
    let work = DOWN * BLOCK * BLOCK * steps * 2 * TILE;
    let across = (TASK_MIN / work.max(1)).clamp(1, columns.max(1));
    let groups = columns.div_ceil(across);
    pool::parallel_for(rows.div_ceil(DOWN) * groups, &|task| {
        let (first_row, first_column) = (task / groups * DOWN, task % groups * across);
        let mut sums = Sums([0; BLOCK * BLOCK]);
        let tiles = |p: Shared<u32>, block: usize| {
            [0, 1].map(|half| p.get().cast_const().wrapping_add((2 * block + half) * steps * TILE_WORDS))
        };
        let all = || {
            for column in first_column..columns.min(first_column + across) {
                for row in first_row..rows.min(first_row + DOWN) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        // Else sums of nothing.
                        if steps > 0 {
                            dot_int8(tiles(pa, row), PACKED, tiles(pb, column), steps, &mut sums);
                        }
                    }
                    store(row * BLOCK, column * BLOCK, &sums);
                }
            }
        };
        // SAFETY: the caller's promise.
        unsafe { with_tiles(all) };
    });
}

/// A side of a product of `bf16`: lines along `k`, rows of A or columns of B.
#[derive(Clone, Copy)]
struct Lines {
    p: Shared<bf16>,
    /// Elements between lines, and between neighbors of a line.
    line: isize,
    step: isize,
    lines: usize,
    k: usize,
    /// Whether a row of a tile is one step along `k` of 16 lines (the right side), or 16 words of one line.
    is_right: bool,
}

impl Lines {
    fn at(&self, line: usize, k: usize) -> *const u16 {
        self.p.get().wrapping_offset(line as isize * self.line + k as isize * self.step).cast()
    }

    /// The tile of 16 lines from `i` and 16 words from `w` on.
    ///
    /// # Safety
    /// The lines are valid memory, and the machine has AVX-512.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn tile(&self, i: usize, w: usize, to: &mut [u32; TILE_WORDS]) {
        // SAFETY: the caller's promise; what lies outside of the matrix is masked.
        unsafe {
            let (rows, is_by_step) = if self.step == 1 {
                (self.by_line(i, w), false)
            } else if self.line == 1 {
                (self.by_step(i, w), true)
            } else {
                return self.tile_of_any(i, w, to);
            };
            let rows = if is_by_step == self.is_right { rows } else { transposed(rows) };
            for (r, row) in rows.into_iter().enumerate() {
                _mm512_storeu_si512(to.as_mut_ptr().add(r * TILE).cast(), row);
            }
        }
    }

    /// For each of 16 lines its words; neighbors lie together.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn by_line(&self, i: usize, w: usize) -> [__m512i; TILE] {
        let inside = (self.k - 2 * w).min(2 * TILE);
        let mask = u32::MAX >> (2 * TILE - inside);
        let mut rows = [_mm512_setzero_si512(); TILE];
        for (r, row) in rows.iter_mut().enumerate().take(self.lines.saturating_sub(i)) {
            // SAFETY: the caller's promise.
            *row = unsafe { _mm512_maskz_loadu_epi16(mask, self.at(i + r, 2 * w).cast()) };
        }
        rows
    }

    /// For each of 16 words those of all lines; lines lie together.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn by_step(&self, i: usize, w: usize) -> [__m512i; TILE] {
        let inside = self.lines.saturating_sub(i).min(TILE);
        let mask = ((1u32 << inside) - 1) as u16;
        let half = |k: usize| {
            // SAFETY: the caller's promise.
            let v = unsafe {
                _mm256_maskz_loadu_epi16(if k < self.k { mask } else { 0 }, self.at(i, k.min(self.k)).cast())
            };
            _mm512_cvtepu16_epi32(v)
        };
        let mut rows = [_mm512_setzero_si512(); TILE];
        for (r, row) in rows.iter_mut().enumerate() {
            let k = 2 * (w + r);
            *row = _mm512_or_si512(half(k), _mm512_slli_epi32::<16>(half(k + 1)));
        }
        rows
    }

    unsafe fn tile_of_any(&self, i: usize, w: usize, to: &mut [u32; TILE_WORDS]) {
        for r in 0..TILE {
            for c in 0..TILE {
                let (i, w) = if self.is_right { (i + c, w + r) } else { (i + r, w + c) };
                let half = |k: usize| {
                    let is_inside = i < self.lines && k < self.k;
                    // SAFETY: the caller's promise.
                    if is_inside { u32::from(unsafe { *self.at(i, k) }) } else { 0 }
                };
                to[r * TILE + c] = half(2 * w) | half(2 * w + 1) << 16;
            }
        }
    }

    fn words(&self) -> usize {
        self.k.div_ceil(2)
    }

    /// Packs blocks of lines, one after the other.
    ///
    /// # Safety
    /// As for [`Lines::tile`]; room for them.
    unsafe fn pack(&self, first: usize, blocks: usize, to: *mut u32) {
        let steps = self.words().div_ceil(TILE);
        for g in 0..2 * blocks {
            for s in 0..steps {
                // SAFETY: the caller's promise.
                unsafe { self.tile(first + g * TILE, s * TILE, &mut *to.add((g * steps + s) * TILE_WORDS).cast()) };
            }
        }
    }
}

/// Sixteen rows of sixteen words as columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn transposed(r: [__m512i; TILE]) -> [__m512i; TILE] {
    let mut t = r;
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    let mut r = t;
    for i in 0..4 {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    // Columns c, c + 4, c + 8 and c + 12 of four rows each.
    for c in 0..4 {
        let even = |a, b| _mm512_shuffle_i32x4::<0x88>(a, b);
        let odd = |a, b| _mm512_shuffle_i32x4::<0xdd>(a, b);
        let (low, high) = (even(r[c], r[4 + c]), even(r[8 + c], r[12 + c]));
        (t[c], t[8 + c]) = (even(low, high), odd(low, high));
        let (low, high) = (odd(r[c], r[4 + c]), odd(r[8 + c], r[12 + c]));
        (t[4 + c], t[12 + c]) = (even(low, high), odd(low, high));
    }
    t
}

/// Writes rows of a block to C, scaled, or adds them to it.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn store_f32(sums: &Sums, rows: usize, cols: usize, (alpha, add): (f32, bool), c: *mut f32, c_row: isize) {
    let mask = u32::MAX >> (BLOCK - cols);
    let alpha = _mm512_set1_ps(alpha);
    for r in 0..rows {
        for half in 0..2 {
            let mask = (mask >> (half * TILE)) as u16;
            // SAFETY: the caller's promise; lanes outside of C are masked.
            unsafe {
                let to = c.offset(r as isize * c_row).wrapping_add(half * TILE);
                let sum = _mm512_mul_ps(_mm512_loadu_ps(sums.0.as_ptr().add(r * BLOCK + half * TILE).cast()), alpha);
                let sum = if add { _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, to)) } else { sum };
                _mm512_mask_storeu_ps(to, mask, sum);
            }
        }
    }
}

/// Words of the packed right side that stay in the second-level cache while the left side passes.
const RESIDENT: usize = 1 << 17;
/// Multiplications from which on a product of `bf16` is cut.
const CUT_MIN: usize = 1 << 21;

/// Computes a product of `bf16`; the unit is lent.
///
/// # Safety
/// As for [`Gemm::run`].
pub(super) unsafe fn run<C: Output<f32>>(q: &Gemm<bf16, C>, done: &(dyn Fn(Patch) + Sync)) {
    let side = |x: Mat<bf16>, lines: usize, is_right: bool| Lines {
        p: Shared::new(x.p.cast_mut()),
        line: x.row,
        step: x.col,
        lines,
        k: q.k,
        is_right,
    };
    let (left, right) = (side(q.a, q.m, false), side(q.b.t(), q.n, true));
    let steps = left.words().div_ceil(TILE);
    let block_words = BLOCK * TILE * steps;
    let (rows, columns) = (q.m.div_ceil(BLOCK), q.n.div_ceil(BLOCK));
    let is_cut = q.m * q.n * q.k >= CUT_MIN && !pool::is_inside_task();
    let wanted = if is_cut { 2 * pool::threads() } else { 1 };
    // Columns that a task packs and takes all of its rows through.
    let group = (RESIDENT / block_words.max(1)).clamp(1, columns.div_ceil(wanted).max(1));
    let groups = columns.div_ceil(group);
    let bands = wanted.div_ceil(groups).clamp(1, rows.div_ceil(DOWN).max(1));
    let packed = Scratch::<u32>::new(rows * block_words);
    let to = Shared::new(packed.ptr());
    let pack = |block: usize| {
        // SAFETY: the caller's promise; each block has room of its own.
        unsafe { left.pack(block * BLOCK, 1, to.get().add(block * block_words)) }
    };
    if is_cut {
        pool::parallel_for(rows, &pack)
    } else {
        (0..rows).for_each(pack)
    }
    let c = Shared::new(q.c);
    let (m, n, c_row, alpha, add) = (q.m, q.n, q.c_row, q.alpha, q.accumulate);
    let store = |i: usize, j: usize, sums: &Sums| {
        let (rows, cols) = (BLOCK.min(m - i), BLOCK.min(n - j));
        if C::SAME {
            // SAFETY: the caller's promise: inside C, whose type is that of the sums.
            unsafe {
                let to = c.get().offset(i as isize * c_row).add(j).cast::<f32>();
                store_f32(sums, rows, cols, (alpha, add), to, c_row);
            }
            return done(Patch { row: i, rows, col: j, cols });
        }
        for r in 0..rows {
            // SAFETY: the caller's promise: inside C.
            unsafe {
                let to = c.get().offset((i + r) as isize * c_row).add(j);
                let line = sums.0.as_ptr().add(r * BLOCK).cast::<f32>();
                if !add && alpha == 1.0 {
                    C::store(line, to, cols);
                    continue;
                }
                let mut old = [0.0f32; BLOCK];
                if add {
                    C::load(to, old.as_mut_ptr(), cols);
                }
                (0..cols).for_each(|x| old[x] += alpha * *line.add(x));
                C::store(old.as_ptr(), to, cols);
            }
        }
        done(Patch { row: i, rows, col: j, cols });
    };
    let task = |task: usize| {
        let (first, band) = (task / bands * group, task % bands);
        let count = group.min(columns - first);
        let room = Scratch::<u32>::new(count * block_words);
        // SAFETY: the caller's promise.
        unsafe { right.pack(first * BLOCK, count, room.ptr()) };
        let mut sums = Sums([0; BLOCK * BLOCK]);
        let halves = |p: *const u32, block: usize| {
            [0, 1].map(|half| p.wrapping_add(block * block_words + half * steps * TILE_WORDS))
        };
        let all = || {
            for row in rows * band / bands..rows * (band + 1) / bands {
                for column in 0..count {
                    if steps > 0 {
                        let (a, b) = (halves(to.get(), row), halves(room.ptr(), column));
                        // SAFETY: both sides were packed.
                        unsafe { dot_bf16(a, PACKED, b, steps, &mut sums) };
                    }
                    store(row * BLOCK, (first + column) * BLOCK, &sums);
                }
            }
        };
        // SAFETY: the unit is lent.
        unsafe { with_tiles(all) };
    };
    if is_cut { pool::parallel_for(groups * bands, &task) } else { (0..groups * bands).for_each(task) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skipped, with a word, where the processor has no tiles.
    fn is_tested(kind: Kind) -> bool {
        let is_there = is_available(kind);
        if !is_there {
            eprintln!("skipped: no {kind:?} tiles of AMX here");
        }
        is_there
    }

    #[test]
    fn bf16_products_of_every_edge() {
        if !is_tested(Kind::Bf16) {
            return;
        }
        for (m, n, k) in [(1, 1, 1), (16, 16, 32), (33, 17, 5), (70, 129, 67), (128, 96, 1000)] {
            // Small integers: every order of sums gives the same.
            let a: Vec<bf16> = (0..m * k).map(|i| bf16::from_f32((i * 7 % 5) as f32 - 2.0)).collect();
            let b: Vec<bf16> = (0..k * n).map(|i| bf16::from_f32((i * 5 % 7) as f32 - 3.0)).collect();
            // Each side by rows, by columns, and with every other element.
            for (way_a, way_b) in (0..9).map(|i| (i / 3, i % 3)) {
                let spread = |v: &[bf16]| v.iter().flat_map(|&x| [x, bf16::NAN]).collect::<Vec<_>>();
                let side = |v: &[bf16], rows: usize, cols: usize, way: usize| match way {
                    0 => (v.to_vec(), (cols as isize, 1)),
                    1 => (v.to_vec(), (1, rows as isize)),
                    _ => (spread(v), (2 * cols as isize, 2)),
                };
                let ((left, sa), (right, sb)) = (side(&a, m, k, way_a), side(&b, k, n, way_b));
                let mat = |v: &[bf16], (row, col): (isize, isize)| Mat { p: v.as_ptr(), row, col };
                let of = |v: &[bf16], (row, col): (isize, isize), i: usize, j: usize| {
                    v[i * row as usize + j * col as usize].to_f32()
                };
                let want: Vec<f32> = (0..m * n)
                    .map(|at| (0..k).map(|p| of(&left, sa, at / n, p) * of(&right, sb, p, at % n)).sum())
                    .collect();
                let mut c = vec![1.0f32; m * n];
                let mut q = Gemm::new(m, n, k, mat(&left, sa), mat(&right, sb), c.as_mut_ptr());
                (q.alpha, q.accumulate) = (2.0, true);
                // SAFETY: the vectors have the sizes that were named.
                unsafe { run(&q, &|_| {}) };
                let doubled: Vec<f32> = want.iter().map(|w| 1.0 + 2.0 * w).collect();
                assert_eq!(c, doubled, "{m}x{n}x{k}, ways {way_a} and {way_b}");
                let mut narrow = vec![bf16::ONE; m * n];
                let q = Gemm::new(m, n, k, mat(&left, sa), mat(&right, sb), narrow.as_mut_ptr());
                // SAFETY: as above.
                unsafe { run(&q, &|_| {}) };
                let rounded: Vec<bf16> = want.iter().map(|&w| bf16::from_f32(w)).collect();
                assert_eq!(narrow, rounded, "{m}x{n}x{k}, ways {way_a} and {way_b}");
            }
        }
    }
}
