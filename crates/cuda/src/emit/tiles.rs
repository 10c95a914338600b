//! Values turned in memory: a loop that reads along one dimension and writes along another goes
//! through tiles in shared memory, so that both are neighbors for neighboring threads.

use super::Kernel;
use super::body::{Body, Writer};
use super::scalar::{self, Class};
use passes::{Loop, Step};

/// Elements of a tile's side, and rows of it that a block moves at once.
const SIDE: usize = 32;
const DOWN: usize = 8;

/// Sizes of a turned loop: how many tiles' planes, and the two dimensions that change places.
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

/// The kernel of a loop that turns a value; `None` for other loops, and where a result may lie
/// where the operand does.
pub fn lower(b: &Body) -> Option<Kernel> {
    let Turn { planes, read, written, strides: [so, _, sn], offset, load } = turn(b.l).filter(|_| !b.in_place)?;
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
