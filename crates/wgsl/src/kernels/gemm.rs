//! GEMM: `y[b, m, n] = Σ a[b, m, k] · b[b, k, n]`, for products of matrices and, with other ways to find the elements,
//! convolutions. Large ones in f32 by tiles of 64 × 64 in workgroup memory, a thread computing 4 × 4; others a thread
//! for each result.

use super::{Kernels, plain};
use crate::claims::{Call, Claim};
use crate::element::{Class, Val, cast};
use crate::expression::combined;
use crate::kernel::{Kernel, Ptr, Text, index, split};
use crate::kernels::moves::wrapped;
use ir::FlatNode;
use passes::{Operand, View};

/// Products of matrices.
pub static CLAIMS: &[Claim] = &[
    Claim { accepts: |_, _, _| true, flops, ..Claim::new("matmul", matmul) },
    Claim { accepts: |_, _, _| true, flops, ..Claim::new("int_matmul", matmul) },
];

fn flops(n: &FlatNode, args: &[View]) -> usize {
    let k = args[0].layout.shape.last().copied().unwrap_or(1);
    2 * k * n.outs[0].shape.count()
}

/// Sides of a tile, its depth, and what a thread has of it.
const TILE: usize = 64;
const DEPTH: usize = 16;
const EACH: usize = 4;
const THREADS: usize = (TILE / EACH) * (TILE / EACH);

/// A product: sizes, and how elements are found. In all texts `bi` is the number of the matrix.
pub struct Product {
    /// Matrices, rows, columns, and the length of the sums.
    pub sizes: [usize; 4],
    /// Statements and the element of the left matrix at `m`, `k`.
    pub a: (String, String),
    /// The same of the right one at `k`, `n`.
    pub b: (String, String),
    /// The place of the result at `m`, `n`.
    pub y: String,
    /// What is computed with.
    pub class: Class,
}

impl Product {
    /// Its kernels.
    pub fn kernels(&self, mut t: Text, y: &Operand, to: &Ptr) -> Option<Vec<Kernel>> {
        let [count, m, n, k] = self.sizes;
        let ty = self.class.ty();
        t.before += &format!(
            "fn left(bi: u32, m: u32, k: u32) -> {ty} {{\n{}return {};\n}}\nfn right(bi: u32, k: u32, n: u32) -> {ty} {{\n{}return {};\n}}\n",
            self.a.0, self.a.1, self.b.0, self.b.1
        );
        let is_tiled =
            self.class == Class::F32 && m >= TILE / 4 && n >= TILE / 4 && k >= DEPTH && m * n * count >= TILE * TILE;
        if is_tiled {
            return self.tiled(t, to);
        }
        let sum = combined(self.class, "+", "sum", &combined(self.class, "*", "left(bi, m, k)", "right(bi, k, n)"));
        let body = format!(
            "let n = i % {n}u; let m = i / {n}u % {m}u; let bi = i / {}u;\nvar sum: {ty} = {};\n\
             for (var k = 0u; k < {k}u; k = k + 1u) {{ sum = {sum}; }}\n{}",
            (m * n).max(1),
            self.class.int(0),
            to.put(&self.y, &wrapped(self.class, y.ty.dtype, "sum")),
            n = n.max(1),
            m = m.max(1),
        );
        t.each(count * m * n, &body)
    }

    fn tiled(&self, mut t: Text, to: &Ptr) -> Option<Vec<Kernel>> {
        let [count, m, n, k] = self.sizes;
        let (down, across) = (m.div_ceil(TILE), n.div_ceil(TILE));
        t.before += &format!(
            "var<workgroup> ta: array<f32, {}>;\nvar<workgroup> tb: array<f32, {}>;\n",
            DEPTH * TILE,
            DEPTH * TILE
        );
        let loads = DEPTH * TILE / THREADS;
        let put = to.put(&self.y, "sum[u * 4u + v]");
        let body = format!(
            "let bi = group / {0}u; let first_m = group % {0}u / {across}u * {TILE}u; let first_n = group % {across}u * {TILE}u;\n\
             let tm = lane / {1}u * {EACH}u; let tn = lane % {1}u * {EACH}u;\n\
             var sum: array<f32, 16>;\n\
             for (var first = 0u; first < {k}u; first = first + {DEPTH}u) {{\n\
             for (var e = 0u; e < {loads}u; e = e + 1u) {{\n\
             let p = e * {THREADS}u + lane;\n\
             let am = first_m + p / {DEPTH}u; let ak = first + p % {DEPTH}u;\n\
             var va = 0.0; if (am < {m}u && ak < {k}u) {{ va = left(bi, am, ak); }}\n\
             ta[p % {DEPTH}u * {TILE}u + p / {DEPTH}u] = va;\n\
             let bk = first + p / {TILE}u; let bn = first_n + p % {TILE}u;\n\
             var vb = 0.0; if (bk < {k}u && bn < {n}u) {{ vb = right(bi, bk, bn); }}\n\
             tb[p] = vb;\n}}\n\
             workgroupBarrier();\n\
             for (var d = 0u; d < {DEPTH}u; d = d + 1u) {{\n\
             for (var u = 0u; u < 4u; u = u + 1u) {{\nlet x = ta[d * {TILE}u + tm + u];\n\
             for (var v = 0u; v < 4u; v = v + 1u) {{ sum[u * 4u + v] = sum[u * 4u + v] + x * tb[d * {TILE}u + tn + v]; }}\n}}\n}}\n\
             workgroupBarrier();\n}}\n\
             for (var u = 0u; u < 4u; u = u + 1u) {{\nfor (var v = 0u; v < 4u; v = v + 1u) {{\n\
             let m = first_m + tm + u; let n = first_n + tn + v;\n\
             if (m < {m}u && n < {n}u) {{ {put} }}\n}}\n}}\n",
            down * across,
            TILE / EACH,
        );
        t.groups(count * down * across, THREADS, &body)
    }
}

/// The element of an operand in the class of the result.
pub fn element(p: &Ptr, o: &Operand, class: Class, at: &str) -> Option<String> {
    let text = p.at(at);
    if Class::of(o.ty.dtype)? == class { Some(text) } else { cast(&Val { text, dtype: o.ty.dtype }, class.dtype()) }
}

/// Operands of any strides; matrices are broadcast against each other.
fn matmul(c: &Call) -> Kernels {
    let (a, b, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let shape = &y.ty.shape;
    let rank = shape.rank();
    let (lead, sizes) = shape.split_at(rank - 2);
    let k = *a.ty.shape.last()?;
    let class = Class::of(y.ty.dtype)?;
    let (places, names) = split(lead, "bi", "d");
    let side = |t: &mut Text, o: &Operand, row: &str, column: &str| {
        let l = &o.layout;
        let own = l.shape.rank();
        let mut at: Vec<String> = names[rank - own..].to_vec();
        at.extend([row.to_string(), column.to_string()]);
        let steps: Vec<isize> = (0..own).map(|d| if l.shape[d] == 1 { 0 } else { l.strides[d] }).collect();
        let p = t.param(crate::kernel::Arg::Value(o.slot), o.ty.dtype, 0, false);
        Some((places.clone(), element(&p, o, class, &index(&steps, l.offset, &at))?))
    };
    let mut t = Text::new();
    let (left, right) = (side(&mut t, a, "m", "k")?, side(&mut t, b, "k", "n")?);
    let to = t.writes(y);
    let y_at = format!("(bi * {}u + m) * {}u + n", sizes[0], sizes[1]);
    let count = lead.iter().product();
    let p = Product { sizes: [count, sizes[0], sizes[1], k], a: left, b: right, y: y_at, class };
    plain(p.kernels(t, y, &to))
}
