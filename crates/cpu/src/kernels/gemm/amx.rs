//! Tiles of AMX, the matrix unit of recent Intel processors: products of `bf16` and of 8-bit integers.
//!
//! A tile is 16 rows of 64 bytes. A tile of the left side has 16 rows and 16 words along `k`, a tile of the right side 16
//! words along `k` and 16 columns; a word is two `bf16` or four bytes. Both sides are packed into tiles that lie one after
//! the other along `k`, filled up with zeros, and multiplied two by two: 32 rows and 32 columns at a time.
//!
//! Linux lends the unit on request. Every element is summed along `k` in one order, whatever the threads.

#![allow(unsafe_code)]

use super::super::scratch::Scratch;
use super::{Gemm, Mat, Patch};
use crate::pool::{self, Shared};
use crate::vmath::{Level, level};
use half::bf16;
use std::arch::asm;
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

/// Runs `f` with the unit ready for [`dot_int8`].
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

/// Multiplies sides in tiles, and hands each block of sums over with its first row and column.
///
/// # Safety
/// Both sides are packed, with as many tiles along `k`, and the unit is lent.
pub(super) unsafe fn multiply(
    kind: Kind,
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
                        match kind {
                            // Sums of nothing.
                            _ if steps == 0 => {}
                            Kind::Bf16 => dot_bf16(tiles(pa, row), PACKED, tiles(pb, column), steps, &mut sums),
                            Kind::Int8 => dot_int8(tiles(pa, row), PACKED, tiles(pb, column), steps, &mut sums),
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

/// The tile of pairs of 16 rows from `i` and 16 words from `p` on.
unsafe fn row_tile(x: Mat<bf16>, i: usize, p: usize, lines: usize, k: usize, to: &mut [u32; TILE_WORDS]) {
    for (r, row) in to.chunks_exact_mut(TILE).enumerate() {
        let i = i + r;
        if i >= lines {
            row.fill(0);
        } else if x.col == 1 && 2 * (p + TILE) <= k {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(x.at(i, 2 * p).cast::<u8>(), row.as_mut_ptr().cast(), 4 * TILE) };
        } else {
            for (w, y) in row.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                let at = |p: usize| if p < k { u32::from(unsafe { *x.at(i, p) }.to_bits()) } else { 0 };
                *y = at(2 * (p + w)) | at(2 * (p + w) + 1) << 16;
            }
        }
    }
}

/// The tile of pairs of 16 columns from `j` and 16 words from `p` on.
unsafe fn column_tile(x: Mat<bf16>, j: usize, p: usize, lines: usize, k: usize, to: &mut [u32; TILE_WORDS]) {
    for (w, row) in to.chunks_exact_mut(TILE).enumerate() {
        let p = 2 * (p + w);
        for (c, y) in row.iter_mut().enumerate() {
            let is_inside = j + c < lines;
            // SAFETY: the caller's promise.
            let at = |p: usize| if is_inside && p < k { u32::from(unsafe { *x.at(p, j + c) }.to_bits()) } else { 0 };
            *y = at(p) | at(p + 1) << 16;
        }
    }
}

/// Computes a product of `bf16`; the unit is lent.
///
/// # Safety
/// As for [`Gemm::run`].
pub(super) unsafe fn run(q: &Gemm<bf16, f32>, done: &(dyn Fn(Patch) + Sync)) {
    let words = q.k.div_ceil(2);
    let (left, right) = (Tiles::new(q.m, words), Tiles::new(q.n, words));
    let (left_room, right_room) = (Scratch::<u32>::new(left.words()), Scratch::<u32>::new(right.words()));
    let (pa, pb, pc) = (Shared::new(q.a.p.cast_mut()), Shared::new(q.b.p.cast_mut()), Shared::new(q.c));
    let (a, b) = ((q.a.row, q.a.col), (q.b.row, q.b.col));
    let (m, n, k, c_row, alpha, add) = (q.m, q.n, q.k, q.c_row, q.alpha, q.accumulate);
    let of = |p: Shared<bf16>, (row, col): (isize, isize)| Mat { p: p.get().cast_const(), row, col };
    // SAFETY: the caller's promise.
    unsafe {
        left.pack(left_room.ptr(), &move |i, p, to| row_tile(of(pa, a), i, p, m, k, to));
        right.pack(right_room.ptr(), &move |j, p, to| column_tile(of(pb, b), j, p, n, k, to));
        multiply(Kind::Bf16, (&left, left_room.ptr()), (&right, right_room.ptr()), &move |i, j, sums| {
            let (rows, cols) = (BLOCK.min(m - i), BLOCK.min(n - j));
            for r in 0..rows {
                let to = pc.get().offset((i + r) as isize * c_row).add(j);
                for (x, sum) in sums.0[r * BLOCK..][..cols].iter().enumerate() {
                    let old = if add { *to.add(x) } else { 0.0 };
                    *to.add(x) = old + alpha * f32::from_bits(*sum);
                }
            }
            done(Patch { row: i, rows, col: j, cols });
        });
    }
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
            for is_turned in [false, true] {
                let mut c = vec![1.0f32; m * n];
                let right = if is_turned { Mat::row_major(b.as_ptr(), k).t() } else { Mat::row_major(b.as_ptr(), n) };
                let mut q = Gemm::new(m, n, k, Mat::row_major(a.as_ptr(), k), right, c.as_mut_ptr());
                (q.alpha, q.accumulate) = (2.0, true);
                // SAFETY: the vectors have the sizes that were named.
                unsafe { run(&q, &|_| {}) };
                for i in 0..m {
                    for j in 0..n {
                        let at = |p: usize| b[if is_turned { j * k + p } else { p * n + j }].to_f32();
                        let sum: f32 = (0..k).map(|p| a[i * k + p].to_f32() * at(p)).sum();
                        assert_eq!(c[i * n + j], 1.0 + 2.0 * sum, "{m}x{n}x{k} turned {is_turned}: {i}, {j}");
                    }
                }
            }
        }
    }
}
