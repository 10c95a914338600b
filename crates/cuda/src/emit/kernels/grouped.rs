//! `grouped_mm`: a GEMM for each group. Ends of groups are known to the device only: a block looks for its tile among
//! them.

use super::{Call, Operand, Text};
use crate::claims::Claim;
use crate::emit::Kernel;
use crate::emit::scalar::{Class, stored};
use ir::{DType, FlatNode};
use passes::View;
use std::fmt::Write;

/// GEMMs of groups.
pub static CLAIMS: &[Claim] =
    &[Claim { accepts: |_, operand, _| operand < 2, flops, ..Claim::new("grouped_mm", grouped_mm) }];

fn flops(n: &FlatNode, args: &[View]) -> usize {
    let (a, b) = (&args[0].layout.shape, &args[1].layout.shape);
    let columns = b.last().copied().unwrap_or(1);
    let all = if a.rank() == 3 { a[1] * a[2] * columns } else { a.count() * columns };
    if n.outs[0].shape.count() == 0 { 0 } else { 2 * all }
}

/// Rows and columns of a tile of the result.
const TILE: usize = 64;
const THREADS: usize = 256;
/// Elements of 16 bits that are loaded together.
const PACK: usize = 8;

/// Elements between rows (or columns) of a matrix and between inner elements, and between the matrices of a stack.
#[derive(Clone, Copy)]
struct Side {
    lane: isize,
    inner: isize,
    next: isize,
    /// Whether packs may begin at its first element.
    is_aligned: bool,
}

impl Side {
    fn new(o: &Operand, is_left: bool) -> Side {
        let (l, r) = (&o.layout, o.layout.shape.rank());
        let (row, column) = (l.strides[r - 2], l.strides[r - 1]);
        let (lane, inner) = if is_left { (row, column) } else { (column, row) };
        Side { lane, inner, next: if r == 3 { l.strides[0] } else { 0 }, is_aligned: l.offset.is_multiple_of(PACK) }
    }
    /// Whether all strides but the one of 1 are whole packs.
    fn has_packs(&self, across: isize) -> bool {
        let is_whole = |n: isize| n.unsigned_abs().is_multiple_of(PACK);
        self.is_aligned && is_whole(across) && is_whole(self.next)
    }
}

/// The result as tiles of rows in groups: where columns are in groups, of the transposed product.
struct Tiles {
    left: Side,
    right: Side,
    rows: usize,
    columns: usize,
    inner: usize,
    /// Elements between rows and between columns of the result.
    to: (usize, usize),
    /// Whether the inner elements are in groups, not the rows.
    is_inner: bool,
}

fn grouped_mm(c: &Call) -> Option<Vec<Kernel>> {
    let (a, b, ends, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let (sa, sb, groups) = (&a.layout.shape, &b.layout.shape, ends.ty.shape[0]);
    let (m, k, n) = (sa[sa.rank() - 2], sa[sa.rank() - 1], sb[sb.rank() - 1]);
    if y.ty.shape.count() == 0 {
        return Some(Vec::new());
    }
    let (left, right) = (Side::new(a, true), Side::new(b, false));
    let is_inner = sa.rank() == sb.rank();
    let is_transposed = sa.rank() == 3;
    let t = match is_transposed {
        true => Tiles { left: right, right: left, rows: n, columns: m, inner: k, to: (1, n), is_inner },
        false => Tiles { left, right, rows: m, columns: n, inner: k, to: (n, 1), is_inner },
    };
    let names = if is_transposed { ("right", "left") } else { ("left", "right") };
    let text = Text::new().reads(names.0, a).reads(names.1, b).reads("ends", ends).writes("y", y);
    let dtype = y.ty.dtype;
    let has_halves = matches!(dtype, DType::BF16 | DType::F16) && c.major >= 8;
    let body = t.find(groups) + &if has_halves { t.on_tensor_cores(dtype) } else { t.in_registers(dtype) };
    let (across, down) = (t.columns.div_ceil(TILE), t.rows.div_ceil(TILE));
    let grid = across * if is_inner { down * groups } else { down + groups + 1 };
    text.blocks(grid, THREADS, &body)
}

impl Tiles {
    /// Statements that find the `rows` and `columns` of a block, its operands `x` and `w`, its result `to`, and the inner
    /// elements from `k0` to `k1`.
    fn find(&self, groups: usize) -> String {
        let Tiles { left, right, rows, columns, inner, to, is_inner } = self;
        let across = columns.div_ceil(TILE);
        let mut s = format!(
            "const idx column = (idx)(blockIdx.x % {across}) * {TILE};\n\
             const int columns = (int)min((idx){TILE}, {columns} - column);\n\
             idx at = blockIdx.x / {across};\n"
        );
        let _ = match is_inner {
            true => write!(
                s,
                "const idx g = at / {down}, row = at % {down} * {TILE};\n\
                 const int rows = (int)min((idx){TILE}, {rows} - row);\n\
                 idx k0 = 0;\n\
                 for (idx e = 0; e < g; e++) k0 = min(max(ends[e], k0), (idx){inner});\n\
                 const idx k1 = min(max(ends[g], k0), (idx){inner});\n\
                 auto* to = y + g * {};\n",
                rows * columns,
                down = rows.div_ceil(TILE),
            ),
            // Rows after the last group are zeros: sums of nothing.
            false => write!(
                s,
                "idx row = 0, end = 0, g = 0;\n\
                 for (; g <= {groups}; g++) {{\n\
                 end = g < {groups} ? min(max(ends[g], row), (idx){rows}) : {rows};\n\
                 const idx tiles = (end - row + {}) / {TILE};\n\
                 if (at < tiles) break;\n\
                 at -= tiles;\nrow = end;\n}}\n\
                 row += at * {TILE};\n\
                 if (g > {groups}) return;\n\
                 const int rows = (int)min((idx){TILE}, end - row);\n\
                 const idx k0 = 0, k1 = g < {groups} ? {inner} : 0;\n\
                 auto* to = y;\n",
                TILE - 1
            ),
        };
        let _ = write!(
            s,
            "to += row * {} + column * {};\n\
             const auto* x = left + row * ({}) + g * ({});\n\
             const auto* w = right + column * ({}) + g * ({});\n",
            to.0, to.1, left.lane, left.next, right.lane, right.next
        );
        s
    }

    /// A thread computes 4 × 4 elements.
    fn in_registers(&self, dtype: DType) -> String {
        let class = Class::of(dtype).c();
        // Neighboring threads read and write neighboring elements.
        let place = |s: &Side| if s.inner == 1 { "q = e % 16, r = e / 16" } else { "r = e % 64, q = e / 64" };
        let load = |from: &str, to: &str, count: &str, s: &Side| {
            format!(
                "{{ const int {};\n\
                 {to}[q][r] = r < {count} && k + q < k1 ? ({class})get({from}[r * (idx)({}) + (k + q) * ({})]) : 0; }}\n",
                place(s),
                s.lane,
                s.inner
            )
        };
        let (row, column) = if self.to.1 == 1 { ("/", "%") } else { ("%", "/") };
        format!(
            "__shared__ {class} xs[16][{wide}], ws[16][{wide}];\n\
             {class} c[4][4] = {{}};\n\
             const int own_row = threadIdx.x {row} 16, own_column = threadIdx.x {column} 16;\n\
             for (idx k = k0; k < k1; k += 16) {{\n\
             for (int e = threadIdx.x; e < 1024; e += {THREADS}) {{\n{}{}}}\n\
             __syncthreads();\n\
             #pragma unroll\nfor (int q = 0; q < 16; q++) {{\n\
             #pragma unroll\nfor (int i = 0; i < 4; i++)\n\
             #pragma unroll\nfor (int j = 0; j < 4; j++) c[i][j] += xs[q][own_row + 16 * i] * ws[q][own_column + 16 * j];\n}}\n\
             __syncthreads();\n}}\n\
             #pragma unroll\nfor (int i = 0; i < 4; i++)\n\
             #pragma unroll\nfor (int j = 0; j < 4; j++) {{\n\
             const int r = own_row + 16 * i, s = own_column + 16 * j;\n\
             if (r < rows && s < columns) to[r * (idx){} + s * (idx){}] = put_{dtype}(c[i][j]);\n}}\n",
            load("x", "xs", "rows", &self.left),
            load("w", "ws", "columns", &self.right),
            self.to.0,
            self.to.1,
            wide = TILE + 1,
        )
    }

    /// A warp computes 16 × 32 elements, 32 inner elements at a time. Lanes of shared memory are padded against bank
    /// conflicts.
    fn on_tensor_cores(&self, dtype: DType) -> String {
        let ty = stored(dtype);
        // The first inner element of a group, and the first row, may be anywhere.
        let is_left_fixed = self.is_inner;
        let is_inner_fixed = !self.is_inner;
        format!(
            "__shared__ __align__(16) {ty} xs[{TILE}][40], ws[{TILE}][40];\n\
             float c[4][4] = {{}};\n\
             const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, t = lane % 4 * 2;\n\
             const int own_row = warp % 4 * 16 + group, own_column = warp / 4 * 32;\n\
             for (idx k = k0; k < k1; k += 32) {{\n{}{}\
             __syncthreads();\n\
             #pragma unroll\nfor (int q = t; q < 32; q += 16) {{\n\
             unsigned a[4];\n\
             #pragma unroll\nfor (int i = 0; i < 4; i++) a[i] = *(const unsigned*)&xs[own_row + i % 2 * 8][q + i / 2 * 8];\n\
             #pragma unroll\nfor (int j = 0; j < 4; j++) {{\n\
             const {ty}* b = ws[own_column + 8 * j + group] + q;\n\
             multiply_{dtype}(c[j], a[0], a[1], a[2], a[3], *(const unsigned*)b, *(const unsigned*)(b + 8));\n}}\n}}\n\
             __syncthreads();\n}}\n\
             #pragma unroll\nfor (int j = 0; j < 4; j++)\n\
             #pragma unroll\nfor (int i = 0; i < 4; i++) {{\n\
             const int r = own_row + i / 2 * 8, s = own_column + 8 * j + t + i % 2;\n\
             if (r < rows && s < columns) to[r * (idx){} + s * (idx){}] = put_{dtype}(c[j][i]);\n}}\n",
            self.load("x", "xs", "rows", ty, &self.left, is_left_fixed, is_inner_fixed),
            self.load("w", "ws", "columns", ty, &self.right, true, is_inner_fixed),
            self.to.0,
            self.to.1,
        )
    }

    /// Statements that bring a tile of an operand to shared memory: in packs along the inner elements, in packs across
    /// them, or one by one.
    fn load(
        &self,
        from: &str,
        to: &str,
        count: &str,
        ty: &str,
        s: &Side,
        is_lane_fixed: bool,
        is_inner_fixed: bool,
    ) -> String {
        let (lane, inner) = (s.lane, s.inner);
        if inner == 1 && is_inner_fixed && s.has_packs(lane) && self.inner.is_multiple_of(PACK) {
            return format!(
                "{{ const int r = threadIdx.x / 4, q = threadIdx.x % 4 * {PACK};\n\
                 uint4 v = {{0, 0, 0, 0}};\n\
                 if (r < {count} && k + q < k1) v = *(const uint4*)({from} + r * (idx)({lane}) + k + q);\n\
                 *(uint4*)&{to}[r][q] = v; }}\n"
            );
        }
        if lane == 1 && is_lane_fixed && s.has_packs(inner) {
            return format!(
                "{{ const int r = threadIdx.x % 8 * {PACK}, q = threadIdx.x / 8;\n\
                 pack<{ty}, {PACK}> v = {{}};\n\
                 const {ty}* at = {from} + r + (k + q) * ({inner});\n\
                 if (k + q < k1 && r + {PACK} <= {count}) v = *(const pack<{ty}, {PACK}>*)at;\n\
                 else if (k + q < k1) for (int i = 0; r + i < {count}; i++) v.at[i] = at[i];\n\
                 #pragma unroll\nfor (int i = 0; i < {PACK}; i++) {to}[r + i][q] = v.at[i]; }}\n"
            );
        }
        let place = if inner == 1 { "q = e % 32, r = e / 32" } else { "r = e % 64, q = e / 64" };
        format!(
            "for (int e = threadIdx.x; e < {}; e += {THREADS}) {{\n\
             const int {place};\n\
             {ty} v = {{}};\n\
             if (r < {count} && k + q < k1) v = {from}[r * (idx)({lane}) + (k + q) * ({inner})];\n\
             {to}[r][q] = v;\n}}\n",
            32 * TILE
        )
    }
}
