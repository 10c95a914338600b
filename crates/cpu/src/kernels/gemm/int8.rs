//! Products of 8-bit integers, summed in 32 bits: exact, and wrapping around where `i32` does.
//!
//! Four neighbors along `k` make a word of 32 bits. Bytes of the right side are multiplied as signed
//! ones, bytes of the left side as unsigned ones (on ARM as signed ones), which is what processors do
//! fastest. A side of the other kind is moved by 128, and the result put right by the sums of rows and
//! of columns: `(A' - x) (B' + y) = A' B' + y rows(A') - x columns(B') - x y k`.

#![allow(unsafe_code)]

use super::super::scratch::Scratch;
use super::Mat;
#[cfg(target_arch = "x86_64")]
use super::amx;
use super::micro::{PANEL, panel_at, panel_count};
use crate::pool::{self, Shared};
use crate::vmath::dispatch;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::vmath::{Level, level};
use ir::Bytes;

pub mod windows;

/// Rows of a tile.
const ROWS: usize = 8;
/// The most lanes of a vector.
const LANES: usize = 16;
/// Strips of rows that a task multiplies with a panel.
const STRIPS: usize = 16;
/// Multiplications of a task, at least.
const TASK_MIN: usize = 1 << 20;

/// A matrix of bytes.
#[derive(Clone, Copy)]
pub struct Side {
    /// Where it lies.
    pub mat: Mat<u8>,
    /// Whether its bytes are `i8`, or else `u8`.
    pub is_signed: bool,
}

impl Side {
    /// What is added to the bytes of a left side, multiplied as `signed` bytes or unsigned ones.
    fn left_shift(&self, signed: bool) -> i32 {
        if self.is_signed == signed {
            0
        } else if signed {
            -128
        } else {
            128
        }
    }
    /// What is taken from the bytes of a right side, which are multiplied as signed ones.
    fn right_shift(&self) -> i32 {
        if self.is_signed { 0 } else { 128 }
    }
    /// The word of the four bytes from step `p` on of line `i`, zeros behind the end, each byte
    /// moved by `flip`. `lines` turns the matrix so that lines run along `k`.
    #[inline(always)]
    unsafe fn word(lines: Mat<u8>, i: usize, p: usize, k: usize, flip: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            let at = lines.at(i, p);
            if lines.col == 1 && p + 4 <= k {
                return at.cast::<u32>().read_unaligned() ^ flip;
            }
            let byte =
                |q: usize| if p + q < k { (*at.offset(q as isize * lines.col)) as u32 ^ (flip & 255) } else { 0 };
            byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24
        }
    }
}

dispatch! {
    /// Words of which each has a byte of four rows.
    unsafe fn weave(rows: [*const u8; 4], n: usize, flip: u32, to: *mut u32) {
        _I => {
            let [a, b, c, d] = rows;
            for i in 0..n {
                let [a, b, c, d] = [*a.add(i), *b.add(i), *c.add(i), *d.add(i)].map(|x| x as u32);
                to.add(i).write((a | b << 8 | c << 16 | d << 24) ^ flip);
            }
        }
    }
}

dispatch! {
    /// Adds the signed bytes of each word.
    unsafe fn add_sums(words: *const u32, sums: &mut [i32]) {
        _I => {
            for (i, sum) in sums.iter_mut().enumerate() {
                let word = *words.add(i) as i32;
                let bytes = (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
                *sum = sum.wrapping_add(bytes);
            }
        }
    }
}

/// How words are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Tiles, see [`amx`].
    #[cfg(target_arch = "x86_64")]
    Amx,
    #[cfg(target_arch = "x86_64")]
    Vnni512,
    #[cfg(target_arch = "x86_64")]
    Vnni256,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Dotprod,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

impl Way {
    /// The fastest of this machine, no wider than the level in use.
    fn best() -> Way {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            match level() {
                Level::Avx512 if amx::is_available(amx::Kind::Int8) => Way::Amx,
                Level::Avx512 if has!("avx512vnni") => Way::Vnni512,
                Level::Portable => Way::Portable,
                _ if has!("avxvnni") => Way::Vnni256,
                _ => Way::Avx2,
            }
        }
        #[cfg(target_arch = "aarch64")]
        match level() {
            Level::Portable => Way::Portable,
            _ if std::arch::is_aarch64_feature_detected!("dotprod") => Way::Dotprod,
            _ => Way::Neon,
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Way::Portable
    }
    /// Whether bytes of the left side are multiplied as signed ones.
    fn is_left_signed(self) -> bool {
        match self {
            #[cfg(target_arch = "aarch64")]
            Way::Dotprod | Way::Neon => true,
            _ => false,
        }
    }
    /// Lanes of a vector.
    fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Way::Vnni512 | Way::Amx => 16,
            _ => 8,
        }
    }
}

/// A right side, packed for any number of products.
pub struct Right {
    k: usize,
    n: usize,
    way: Way,
    /// Panels, and in them for each word of `k` the columns.
    room: Bytes,
    /// What column `j` of the result is moved by when the left side is moved.
    sums: Vec<i32>,
    shift: i32,
}

impl Right {
    /// Packs the matrix `[k, n]`.
    ///
    /// # Safety
    /// All of its elements must be valid for reading.
    pub unsafe fn new(k: usize, n: usize, side: Side) -> Right {
        // SAFETY: the caller's promise.
        unsafe { Right::packed(k, n, side, Way::best()) }
    }

    unsafe fn packed(k: usize, n: usize, side: Side, way: Way) -> Right {
        #[cfg(target_arch = "x86_64")]
        if way == Way::Amx {
            // SAFETY: the caller's promise.
            return unsafe { Right::in_tiles(k, n, side) };
        }
        let (lanes, words, shift) = (way.lanes(), k.div_ceil(4), side.right_shift());
        let mut room = Bytes::any(words * n.next_multiple_of(lanes) * 4);
        let mut sums = vec![0i32; n];
        let (to, ps) = (Shared::new(room.as_mut().as_mut_ptr().cast::<u32>()), Shared::new(sums.as_mut_ptr()));
        let flip = if shift == 0 { 0 } else { 0x8080_8080 };
        let vectors = n.div_ceil(lanes);
        let from = Shared::new(side.mat.p.cast_mut());
        let lines = move || Mat { p: from.get().cast_const(), row: side.mat.col, col: side.mat.row };
        pool::parallel_for(panel_count(vectors), &|i| {
            let (v, nv) = panel_at(i, vectors);
            let (j, w) = (v * lanes, nv * lanes);
            let cols = w.min(n - j);
            // SAFETY: the caller's promise; each task writes its own panel and sums.
            unsafe {
                let (to, sums) = (to.get().add(j * words), ps.slice(j, cols));
                for p in 0..words {
                    let to = to.add(p * w);
                    if lines().row == 1 && 4 * p + 4 <= k {
                        let rows = [0, 1, 2, 3].map(|q| lines().at(j, 4 * p + q));
                        weave(rows, cols, flip, to);
                    } else {
                        (0..cols).for_each(|c| to.add(c).write(Side::word(lines(), j + c, 4 * p, k, flip)));
                    }
                    (cols..w).for_each(|c| to.add(c).write(0));
                    add_sums(to, sums);
                }
            }
        });
        Right { k, n, way, room, sums, shift }
    }

    /// `C[m, n] = A[m, k] B`, rows of C `c_row` apart.
    ///
    /// # Safety
    /// A's elements must be valid for reading, C's for writing, apart from each other.
    pub unsafe fn multiply(&self, m: usize, a: Side, c: *mut i32, c_row: isize) {
        #[cfg(target_arch = "x86_64")]
        if self.way == Way::Amx {
            // SAFETY: the caller's promise.
            return unsafe { self.multiply_tiles(m, a, c, c_row) };
        }
        let (words, vectors) = (self.k.div_ceil(4), self.n.div_ceil(self.way.lanes()));
        let strips = m.div_ceil(ROWS);
        let left = Scratch::<u32>::new(strips * ROWS * words);
        let moved = Scratch::<i32>::new(strips * ROWS);
        let (pl, pm, pc) = (Shared::new(left.ptr()), Shared::new(moved.ptr()), Shared::new(c));
        let from = Shared::new(a.mat.p.cast_mut());
        let side = move || Side { mat: Mat { p: from.get().cast_const(), ..a.mat }, ..a };
        let each = (TASK_MIN / (ROWS * self.k).max(1)).clamp(1, strips.max(1));
        pool::parallel_for(strips.div_ceil(each), &|task| {
            for s in task * each..strips.min((task + 1) * each) {
                // SAFETY: the caller's promise; each task writes its own strips.
                unsafe {
                    let (to, moved) = (pl.get().add(s * ROWS * words), pm.slice(s * ROWS, ROWS));
                    self.pack_strip(side(), s * ROWS, ROWS.min(m - s * ROWS), to, moved);
                }
            }
        });
        // Blocks of strips, and for each the panels, some a task.
        let (blocks, panels) = (strips.div_ceil(STRIPS), panel_count(vectors));
        let work = strips.min(STRIPS) * ROWS * PANEL * self.way.lanes() * self.k;
        let group = (TASK_MIN / work.max(1)).clamp(1, panels.max(1));
        let groups = panels.div_ceil(group);
        let shift = a.left_shift(self.way.is_left_signed());
        pool::parallel_for(blocks * groups, &|task| {
            let (block, first) = (task / groups, task % groups * group);
            for panel in first..panels.min(first + group) {
                let (v, nv) = panel_at(panel, vectors);
                let j = v * self.way.lanes();
                let cols = (nv * self.way.lanes()).min(self.n - j);
                for s in block * STRIPS..strips.min((block + 1) * STRIPS) {
                    // SAFETY: the caller's promise; tiles are apart.
                    unsafe {
                        let b = self.room.as_slice().as_ptr().cast::<u32>().add(j * words);
                        let mut tile = [0i32; ROWS * PANEL * LANES];
                        self.tile(words, pl.get().add(s * ROWS * words), b, nv, &mut tile);
                        for r in 0..ROWS.min(m - s * ROWS) {
                            let to = pc.get().offset((s * ROWS + r) as isize * c_row).add(j);
                            let (row, add) = (&tile[r * nv * self.way.lanes()..], *pm.get().add(s * ROWS + r));
                            for i in 0..cols {
                                let sum = row[i].wrapping_add(add);
                                to.add(i).write(sum.wrapping_sub(shift.wrapping_mul(self.sums[j + i])));
                            }
                        }
                    }
                }
            }
        });
    }

    /// Packs rows of the left side, word by word, and says what each row of the result is moved by.
    unsafe fn pack_strip(&self, a: Side, first: usize, rows: usize, to: *mut u32, moved: &mut [i32]) {
        let signed = self.way.is_left_signed();
        let (x, y) = (a.left_shift(signed), self.shift);
        let value = |b: u8| if signed { b as i8 as i32 } else { b as i32 };
        let flip = if x == 0 { 0 } else { 0x8080_8080 };
        // SAFETY: the caller's promise.
        unsafe {
            for p in 0..self.k.div_ceil(4) {
                for r in 0..ROWS {
                    let word = if r < rows { Side::word(a.mat, first + r, 4 * p, self.k, flip) } else { 0 };
                    to.add(p * ROWS + r).write(word);
                }
            }
            let both = x.wrapping_mul(y).wrapping_mul(self.k as i32);
            for r in 0..ROWS {
                let word = |p: usize| (*to.add(p * ROWS + r)).to_le_bytes().into_iter().map(value).sum::<i32>();
                let sum = if y == 0 { 0 } else { (0..self.k.div_ceil(4)).map(word).fold(0, i32::wrapping_add) };
                moved[r] = y.wrapping_mul(sum).wrapping_sub(both);
            }
        }
    }

    /// A strip times a panel of `nv` vectors.
    unsafe fn tile(&self, words: usize, a: *const u32, b: *const u32, nv: usize, to: &mut [i32; ROWS * PANEL * LANES]) {
        let to = to.as_mut_ptr();
        // SAFETY: the caller's promise; the way was chosen for this machine.
        unsafe {
            match self.way {
                #[cfg(target_arch = "x86_64")]
                Way::Amx => unreachable!("tiles are multiplied by `multiply_tiles`"),
                #[cfg(target_arch = "x86_64")]
                Way::Vnni512 => x86::tile_vnni512(words, a, b, nv, to),
                #[cfg(target_arch = "x86_64")]
                Way::Vnni256 => x86::tile_vnni256(words, a, b, nv, to),
                #[cfg(target_arch = "x86_64")]
                Way::Avx2 => x86::tile_avx2(words, a, b, nv, to),
                #[cfg(target_arch = "aarch64")]
                Way::Dotprod => neon::tile_dotprod(words, a, b, nv, to),
                #[cfg(target_arch = "aarch64")]
                Way::Neon => neon::tile_neon(words, a, b, nv, to),
                Way::Portable => tile_of::<[i32; 8]>(words, a, b, nv, to),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Right {
    /// A right side packed in tiles of AMX.
    unsafe fn in_tiles(k: usize, n: usize, side: Side) -> Right {
        let (tiles, shift) = (amx::Tiles::new(n, k.div_ceil(4)), side.right_shift());
        let mut room = Bytes::any(tiles.words() * 4);
        let flip = if shift == 0 { 0 } else { 0x8080_8080 };
        let from = Shared::new(side.mat.p.cast_mut());
        let to = room.as_mut().as_mut_ptr().cast::<u32>();
        // SAFETY: the caller's promise.
        unsafe {
            tiles.pack(to, &|j, p, tile| {
                let lines = Mat { p: from.get().cast_const(), row: side.mat.col, col: side.mat.row };
                for (i, to) in tile.iter_mut().enumerate() {
                    let (j, p) = (j + i % 16, 4 * (p + i / 16));
                    *to = if j < n && p < k { Side::word(lines, j, p, k, flip) } else { 0 };
                }
            });
            let mut sums = vec![0i32; n];
            for (first, sums) in sums.chunks_mut(16).enumerate() {
                (0..16 * tiles.steps).for_each(|p| add_sums(to.add(16 * (first * 16 * tiles.steps + p)), sums));
            }
            Right { k, n, way: Way::Amx, room, sums, shift }
        }
    }

    unsafe fn multiply_tiles(&self, m: usize, a: Side, c: *mut i32, c_row: isize) {
        let (k, x, y) = (self.k, a.left_shift(false), self.shift);
        let (left, right) = (amx::Tiles::new(m, k.div_ceil(4)), amx::Tiles::new(self.n, k.div_ceil(4)));
        let room = Scratch::<u32>::new(left.words());
        let (from, pl, pc) = (Shared::new(a.mat.p.cast_mut()), Shared::new(room.ptr()), Shared::new(c));
        let flip = if x == 0 { 0 } else { 0x8080_8080 };
        // SAFETY: the caller's promise.
        unsafe {
            left.pack(room.ptr(), &|i, p, tile| {
                let lines = Mat { p: from.get().cast_const(), ..a.mat };
                for (r, to) in tile.iter_mut().enumerate() {
                    let (i, p) = (i + r / 16, 4 * (p + r % 16));
                    *to = if i < m && p < k { Side::word(lines, i, p, k, flip) } else { 0 };
                }
            });
            // What each row of the result is moved by.
            let both = x.wrapping_mul(y).wrapping_mul(k as i32);
            let row_sum = |i: usize| {
                let row = pl.get().add(i / 16 * 256 * left.steps + i % 16 * 16);
                let word =
                    |p: usize| (*row.add(p / 16 * 256 + p % 16)).to_le_bytes().map(i32::from).iter().sum::<i32>();
                (0..k.div_ceil(4)).map(word).fold(0, i32::wrapping_add)
            };
            let moved = |i: usize| y.wrapping_mul(if y == 0 { 0 } else { row_sum(i) }).wrapping_sub(both);
            let moved: Vec<i32> = (0..m).map(moved).collect();
            let b = self.room.as_slice().as_ptr().cast();
            amx::multiply((&left, room.ptr()), (&right, b), &|i, j, sums| {
                for r in 0..32.min(m - i) {
                    let to = pc.get().offset((i + r) as isize * c_row).add(j);
                    for q in 0..32.min(self.n - j) {
                        let sum = (sums.0[r * 32 + q] as i32).wrapping_add(moved[i + r]);
                        to.add(q).write(sum.wrapping_sub(x.wrapping_mul(self.sums[j + q])));
                    }
                }
            });
        }
    }
}

/// A vector of sums.
trait Dot: Copy {
    const N: usize;
    fn zero() -> Self;
    /// Adds the products of the bytes of `a` and the signed bytes behind `b`, lane by lane.
    ///
    /// # Safety
    /// As many words behind `b` as there are lanes.
    unsafe fn add<const NV: usize, const R: usize>(sums: &mut [[Self; NV]; R], a: [u32; R], b: *const u32);
    /// # Safety
    /// As many sums behind `from` as there are lanes.
    unsafe fn load(from: *const i32) -> Self;
    /// # Safety
    /// Room for as many sums as there are lanes.
    unsafe fn store(self, to: *mut i32);
}

impl Dot for [i32; 8] {
    const N: usize = 8;
    #[inline(always)]
    fn zero() -> Self {
        [0; 8]
    }
    #[inline(always)]
    unsafe fn add<const NV: usize, const R: usize>(sums: &mut [[Self; NV]; R], a: [u32; R], b: *const u32) {
        for v in 0..NV {
            // SAFETY: the caller's promise.
            let words: [u32; 8] = unsafe { b.add(v * 8).cast::<[u32; 8]>().read_unaligned() };
            for byte in 0..4 {
                let right = words.map(|w| (w >> (8 * byte)) as u8 as i8 as i32);
                for r in 0..R {
                    let left = ((a[r] >> (8 * byte)) & 255) as i32;
                    for i in 0..8 {
                        sums[r][v][i] = sums[r][v][i].wrapping_add(left * right[i]);
                    }
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[i32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[i32; 8]>().write_unaligned(self) }
    }
}

#[inline(always)]
unsafe fn tile_of<D: Dot>(words: usize, a: *const u32, b: *const u32, nv: usize, to: *mut i32) {
    // SAFETY: the caller's promise.
    unsafe {
        match nv {
            1 => tile_wide::<D, 1>(words, a, b, to),
            2 => tile_wide::<D, 2>(words, a, b, to),
            _ => tile_wide::<D, PANEL>(words, a, b, to),
        }
    }
}

/// Narrow vectors come with few registers: four rows at a time.
#[inline(always)]
unsafe fn tile_wide<D: Dot, const NV: usize>(words: usize, a: *const u32, b: *const u32, to: *mut i32) {
    // SAFETY: the caller's promise.
    unsafe {
        if D::N == LANES {
            return rows_of::<D, NV, ROWS>(words, a, b, to);
        }
        rows_of::<D, NV, { ROWS / 2 }>(words, a, b, to);
        rows_of::<D, NV, { ROWS / 2 }>(words, a.add(ROWS / 2), b, to.add(ROWS / 2 * NV * D::N));
    }
}

#[inline(always)]
unsafe fn rows_of<D: Dot, const NV: usize, const R: usize>(words: usize, a: *const u32, b: *const u32, to: *mut i32) {
    let mut sums = [[D::zero(); NV]; R];
    // SAFETY: the caller's promise.
    unsafe {
        for p in 0..words {
            let left = std::array::from_fn(|r| *a.add(p * ROWS + r));
            D::add::<NV, R>(&mut sums, left, b.add(p * NV * D::N));
        }
        for r in 0..R {
            for v in 0..NV {
                sums[r][v].store(to.add((r * NV + v) * D::N));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::windows::Strip;
    use super::{Dot, tile_of};
    use std::arch::x86_64::*;

    /// A vector type whose words are multiplied by one expression.
    macro_rules! dot {
        ($name:ident, $v:ty, $n:literal, $zero:ident, $load:ident, $splat:ident, $store:ident, |$sum:ident, $a:ident, $b:ident| $dot:expr) => {
            #[derive(Clone, Copy)]
            struct $name($v);
            impl Dot for $name {
                const N: usize = $n;
                #[inline(always)]
                fn zero() -> Self {
                    // SAFETY: only used in functions compiled for the instructions.
                    unsafe { $name($zero()) }
                }
                #[inline(always)]
                unsafe fn add<const NV: usize, const R: usize>(sums: &mut [[Self; NV]; R], a: [u32; R], b: *const u32) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let mut right = [$zero(); NV];
                        for v in 0..NV {
                            right[v] = $load(b.add(v * $n).cast());
                        }
                        for r in 0..R {
                            let $a = $splat(a[r] as i32);
                            for v in 0..NV {
                                let ($sum, $b) = (sums[r][v].0, right[v]);
                                sums[r][v] = $name($dot);
                            }
                        }
                    }
                }
                #[inline(always)]
                unsafe fn load(from: *const i32) -> Self {
                    // SAFETY: the caller's promise.
                    unsafe { $name($load(from.cast())) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut i32) {
                    // SAFETY: the caller's promise.
                    unsafe { $store(to.cast(), self.0) }
                }
            }
        };
    }
    dot!(
        Wide,
        __m512i,
        16,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_set1_epi32,
        _mm512_storeu_si512,
        |sum, a, b| _mm512_dpbusd_epi32(sum, a, b)
    );
    dot!(
        Narrow,
        __m256i,
        8,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_set1_epi32,
        _mm256_storeu_si256,
        |sum, a, b| _mm256_dpbusd_avx_epi32(sum, a, b)
    );
    // Even and odd bytes as numbers of 16 bits, whose products are added in pairs.
    dot!(
        Pairs,
        __m256i,
        8,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_set1_epi32,
        _mm256_storeu_si256,
        |sum, a, b| {
            let even = _mm256_and_si256(a, _mm256_set1_epi16(255));
            let odd = _mm256_srli_epi16::<8>(a);
            let low = _mm256_madd_epi16(even, _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b)));
            let high = _mm256_madd_epi16(odd, _mm256_srai_epi16::<8>(b));
            _mm256_add_epi32(sum, _mm256_add_epi32(low, high))
        }
    );

    macro_rules! tile {
        ($name:ident, $windows:ident, $v:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(words: usize, a: *const u32, b: *const u32, nv: usize, to: *mut i32) {
                // SAFETY: the caller's promise.
                unsafe { tile_of::<$v>(words, a, b, nv, to) }
            }
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $windows(s: &Strip) {
                // SAFETY: the caller's promise.
                unsafe { s.multiply::<$v>() }
            }
        };
    }
    tile!(tile_vnni512, windows_vnni512, Wide, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma");
    tile!(tile_vnni256, windows_vnni256, Narrow, "avx2,fma,avxvnni");
    tile!(tile_avx2, windows_avx2, Pairs, "avx2,fma");
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::windows::Strip;
    use super::{Dot, tile_of};
    use std::arch::aarch64::*;

    /// Eight sums, whose words are multiplied by one expression.
    macro_rules! dot {
        ($name:ident, $tile:ident, $windows:ident, $features:literal, |$sum:ident, $a:ident, $b:ident| $dot:expr) => {
            #[derive(Clone, Copy)]
            struct $name(int32x4_t, int32x4_t);
            impl Dot for $name {
                const N: usize = 8;
                #[inline(always)]
                fn zero() -> Self {
                    // SAFETY: every 64-bit ARM has the instruction.
                    unsafe { $name(vdupq_n_s32(0), vdupq_n_s32(0)) }
                }
                #[inline(always)]
                unsafe fn add<const NV: usize, const R: usize>(sums: &mut [[Self; NV]; R], a: [u32; R], b: *const u32) {
                    let part = |$sum: int32x4_t, $a: int8x16_t, $b: int8x16_t| -> int32x4_t { $dot };
                    // SAFETY: the caller's promise.
                    unsafe {
                        let b = b.cast::<i8>();
                        for r in 0..R {
                            let left = vreinterpretq_s8_u32(vdupq_n_u32(a[r]));
                            for v in 0..NV {
                                let s = &mut sums[r][v];
                                s.0 = part(s.0, left, vld1q_s8(b.add(v * 32)));
                                s.1 = part(s.1, left, vld1q_s8(b.add(v * 32 + 16)));
                            }
                        }
                    }
                }
                #[inline(always)]
                unsafe fn load(from: *const i32) -> Self {
                    // SAFETY: the caller's promise.
                    unsafe { $name(vld1q_s32(from), vld1q_s32(from.add(4))) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut i32) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        vst1q_s32(to, self.0);
                        vst1q_s32(to.add(4), self.1);
                    }
                }
            }
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $tile(words: usize, a: *const u32, b: *const u32, nv: usize, to: *mut i32) {
                // SAFETY: the caller's promise.
                unsafe { tile_of::<$name>(words, a, b, nv, to) }
            }
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $windows(s: &Strip) {
                // SAFETY: the caller's promise.
                unsafe { s.multiply::<$name>() }
            }
        };
    }
    // The intrinsic is not stable in Rust yet: the instruction is written out.
    dot!(Fours, tile_dotprod, windows_dotprod, "neon,dotprod", |sum, a, b| {
        let mut sum = sum;
        // SAFETY: only used where the processor has the instruction.
        unsafe {
            std::arch::asm!(".arch_extension dotprod", "sdot {s:v}.4s, {a:v}.16b, {b:v}.16b", s = inout(vreg) sum,
                a = in(vreg) a, b = in(vreg) b, options(pure, nomem, nostack, preserves_flags));
        }
        sum
    });
    // Products of 16 bits, added in pairs, and the pairs' sums of a word.
    // SAFETY: every 64-bit ARM has the instructions.
    dot!(Pairs, tile_neon, windows_neon, "neon", |sum, a, b| unsafe {
        let low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
        let high = vpaddlq_s16(vmull_high_s8(a, b));
        vaddq_s32(sum, vpaddq_s32(low, high))
    });
}

#[cfg(test)]
mod tests;
