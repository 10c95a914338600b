//! Transposition: a loop that reads along one dimension and writes along another goes
//! through tiles in shared memory, so that both are neighbors for neighboring threads.

use super::Kernel;
use super::body::{Body, Writer};
use super::scalar::{self, Class};
use passes::{Loop, Step};

/// Elements of a tile's side, and rows of it that a block moves at once.
const SIDE: usize = 32;
const DOWN: usize = 8;

/// Sizes of a transposed loop: how many tiles' planes, and the two dimensions that change places.
struct Turn {
    planes: usize,
    /// Along it elements are read one after the other.
    read: usize,
    /// Along it they are written one after the other.
    written: usize,
    /// Strides of the load.
    strides: [isize; 3],
    offset: usize,
    load: usize,
}

fn turn(l: &Loop) -> Option<Turn> {
    let mut loads = l.steps.iter().enumerate().filter(|(_, s)| matches!(s, Step::Load { .. }));
    let (Some((load, Step::Load { strides, offset, .. })), None) = (loads.next(), loads.next()) else { return None };
    let is_plain = !l.steps.iter().any(|s| matches!(s, Step::Reduce { .. }));
    let (planes, read, written, strides) = match (l.dims.as_slice(), strides.as_slice()) {
        (&[m, n], &[sm, sn]) => (1, m, n, [0, sm, sn]),
        (&[o, m, n], &[so, sm, sn]) => (o, m, n, [so, sm, sn]),
        _ => return None,
    };
    let mut whole: Vec<isize> = vec![1; l.dims.len()];
    for d in (0..l.dims.len() - 1).rev() {
        whole[d] = whole[d + 1] * l.dims[d + 1] as isize;
    }
    let is_written = l.stores.iter().all(|s| s.strides.as_slice() == whole.as_slice());
    let fits = is_plain && is_written && strides[1] == 1 && strides[2] > 1 && strides[0] >= 0 && read >= 8;
    fits.then_some(Turn { planes, read, written, strides, offset: *offset, load })
}

/// True if a loop turns a value in memory.
pub fn fits(l: &Loop) -> bool {
    turn(l).is_some()
}

/// Bytes of the side of a tile of single bytes, which are moved four at a time.
const SIDE_BYTES: usize = 128;

/// The kernel of a loop that does nothing but turn a value of single bytes: threads turn squares of
/// four by four in registers, so that memory is read and written in whole words.
fn bytes(b: &Body, t: &Turn) -> Option<Kernel> {
    let is_moved = |s: &Step| match s {
        Step::Load { .. } => true,
        Step::Scalar { node, .. } => scalar::is_copy(&b.graph.nodes[*node as usize]),
        _ => false,
    };
    let [store] = b.stores.as_slice() else { return None };
    let &Turn { planes, read, written, strides: [so, _, sn], offset, load } = t;
    let sizes = [read, written, so.unsigned_abs(), sn.unsigned_abs(), offset];
    let is_even = sizes.iter().all(|n| n.is_multiple_of(4)) && read >= SIDE && written >= SIDE;
    let is_copy = b.l.steps.iter().all(is_moved) && b.dtype(load) == b.graph.ty(store.slot).dtype;
    if !is_copy || !is_even || b.dtype(load).size() != 1 {
        return None;
    }
    let (tm, tn) = (read.div_ceil(SIDE_BYTES), written.div_ceil(SIDE_BYTES));
    let mut w = Writer::new(b);
    let (p, q) = (w.source(load), w.target(store.slot));
    // A column of words is put where no two threads of a warp meet the same bank.
    w.put(format!(
        "__shared__ unsigned s[{SIDE_BYTES}][33];\n\
         const int x = threadIdx.x % 32, y = threadIdx.x / 32;\n\
         const idx n0 = blockIdx.x % {tn}u * {SIDE_BYTES}, m0 = blockIdx.x / {tn}u % {tm}u * {SIDE_BYTES};\n\
         const idx o = blockIdx.x / {}u, m = m0 + x * 4;\n\
         #pragma unroll\nfor (int a = y; a < 32; a += {DOWN}) {{\n\
         const idx n = n0 + a * 4;\n\
         if (m < {read}u && n < {written}u) {{\n\
         unsigned r[4];\n\
         #pragma unroll\n\
         for (int j = 0; j < 4; j++) r[j] = *(const unsigned*)({p} + (o * {so} + (n + j) * {sn} + m + {offset}));\n\
         const unsigned e = __byte_perm(r[0], r[1], 0x5140), f = __byte_perm(r[2], r[3], 0x5140);\n\
         const unsigned g = __byte_perm(r[0], r[1], 0x7362), h = __byte_perm(r[2], r[3], 0x7362);\n\
         const int at = (a + (x >> 3)) & 31;\n\
         s[x * 4][at] = __byte_perm(e, f, 0x5410);\n\
         s[x * 4 + 1][at] = __byte_perm(e, f, 0x7632);\n\
         s[x * 4 + 2][at] = __byte_perm(g, h, 0x5410);\n\
         s[x * 4 + 3][at] = __byte_perm(g, h, 0x7632);\n}}\n}}\n\
         __syncthreads();\n\
         #pragma unroll\nfor (int r = y; r < {SIDE_BYTES}; r += {DOWN})\n\
         if (m0 + r < {read}u && n0 + x * 4 < {written}u)\n\
         *(unsigned*)({q} + ((o * {read}u + m0 + r) * {written}u + n0 + x * 4)) = s[r][(x + (r >> 5)) & 31];\n",
        tm * tn
    ));
    Some(w.finish(planes * tm * tn, 32 * DOWN))
}

/// The kernel of a loop that turns a value; `None` for other loops, and where a result may lie
/// where the operand does.
pub fn lower(b: &Body) -> Option<Kernel> {
    let t = turn(b.l).filter(|_| !b.in_place)?;
    if let Some(kernel) = bytes(b, &t) {
        return Some(kernel);
    }
    let Turn { planes, read, written, strides: [so, _, sn], offset, load } = t;
    let (tm, tn) = (read.div_ceil(SIDE), written.div_ceil(SIDE));
    let mut w = Writer::new(b);
    let (p, ty) = (w.source(load), scalar::stored(b.dtype(load)));
    w.put(format!(
        "__shared__ {ty} s[{SIDE}][{}];\n\
         const int x = threadIdx.x % {SIDE}, y = threadIdx.x / {SIDE};\n\
         const idx n0 = blockIdx.x % {tn}u * {SIDE}, m0 = blockIdx.x / {tn}u % {tm}u * {SIDE}, o = blockIdx.x / {}u;\n\
         #pragma unroll\nfor (int r = y; r < {SIDE}; r += {DOWN})\n\
         if (m0 + x < {read}u && n0 + r < {written}u) s[r][x] = {p}[o * {so} + (n0 + r) * {sn} + m0 + x + {offset}];\n\
         __syncthreads();\n\
         #pragma unroll\nfor (int r = y; r < {SIDE}; r += {DOWN})\n\
         if (m0 + r < {read}u && n0 + x < {written}u) {{\n",
        SIDE + 1,
        tm * tn
    ));
    let mut names: Vec<Option<String>> = vec![None; b.l.steps.len()];
    for i in b.steps() {
        match &b.l.steps[i] {
            Step::Load { .. } => {
                w.put(format!("const {} t{i} = get(s[x][r]);\n", Class::of(b.dtype(i)).c()));
                names[i] = Some(format!("t{i}"));
            }
            Step::Scalar { .. } => {
                let text = b.compute(i, &mut names, "t");
                w.put(text);
            }
            Step::Const(_) | Step::Reduce { .. } => {}
        }
    }
    for s in &b.stores {
        let (p, dtype) = (w.target(s.slot), b.graph.ty(s.slot).dtype);
        let value = b.val(s.step as usize, &names).text;
        w.put(format!("{p}[(o * {read}u + m0 + r) * {written}u + n0 + x] = put_{dtype}({value});\n"));
    }
    w.put("}\n");
    Some(w.finish(planes * tm * tn, SIDE * DOWN))
}
