//! Kernels that search, combine and add at indices.

use super::moves::{begin, place};
use super::sort::{Keys, Radix, radix_scratch};
use super::{BLOCK, Call, Operand, Text, split};
use crate::claims::{Claim, op};
use crate::emit::body::{Body, Writer};
use crate::emit::scalar::{Class, stored};
use crate::emit::{Arg, Kernel, access, pointwise};
use ir::{Attrs, AxisSplit, DType, Graph, Shape};
use passes::{Loop, Store};
use std::fmt::Write;

/// Searching, combining and adding at indices.
pub static CLAIMS: &[Claim] = &[
    Claim::new("searchsorted", searchsorted),
    Claim::new("ravel_index", ravel_index),
    Claim { scratch: |_, args| compact_scratch(&args[0]), ..Claim::new("flat_nonzero", flat_nonzero) },
    Claim { in_place: Some(0), scratch: scatter_scratch, ..Claim::new("scatter", |c| scatter(c, Combine::Put, true)) },
    Claim {
        in_place: Some(0),
        scratch: scatter_scratch,
        ..Claim::new("scatter_add", |c| scatter(c, Combine::Add, true))
    },
    Claim {
        in_place: Some(0),
        scratch: scatter_scratch,
        ..Claim::new("scatter_reduce", |c| scatter(c, Combine::of(c)?, c.attrs.bool("include_self").ok()?))
    },
    Claim { in_place: Some(0), scratch: index_add_scratch, ..Claim::new(op::INDEX_ADD, index_add) },
];

/// How many elements of an ascending sequence come before each value, by bisection. NaN is greatest.
fn searchsorted(c: &Call) -> Option<Vec<Kernel>> {
    let (sorted, values, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let (s, v) = (&sorted.ty.shape, &values.ty.shape);
    let n = *s.last()?;
    let each = if s.rank() == 1 { v.count() } else { *v.last()? };
    let class = Class::of(sorted.ty.dtype).c();
    let before = if c.attrs.bool("right").ok()? {
        "(now <= own || own != own)"
    } else {
        "(now < own || (own != own && now == now))"
    };
    let body = format!(
        "const {class} own = get(values[i]);\n\
         const idx row = i / {} * {n};\n\
         idx low = 0, high = {n};\n\
         while (low < high) {{\n\
         const idx middle = (low + high) / 2;\n\
         const {class} now = get(sorted[row + middle]);\n\
         if {before} low = middle + 1; else high = middle;\n}}\n\
         y[i] = low;\n",
        each.max(1)
    );
    Text::new().reads("sorted", sorted).reads("values", values).writes("y", y).each(v.count(), &body)
}

/// Indices along several axes as indices of the flattened axes.
fn ravel_index(c: &Call) -> Option<Vec<Kernel>> {
    let (sizes, y) = (c.attrs.sizes("sizes").ok()?, &c.outs[0]);
    let mut body = split(&y.ty.shape, "i", "i");
    body += "idx at = 0;\n";
    let mut t = Text::new();
    for (k, (a, n)) in c.args.iter().zip(&sizes).enumerate() {
        let name = format!("index{k}");
        t = t.reads(&name, a);
        let missing = y.ty.shape.rank() - a.ty.shape.rank();
        let strides = a.ty.shape.strides();
        let terms = (0..a.ty.shape.rank()).filter(|&d| a.ty.shape[d] > 1);
        let terms: Vec<String> = terms.map(|d| format!("i{} * {}", d + missing, strides[d])).collect();
        let from = if terms.is_empty() { "0".to_string() } else { terms.join(" + ") };
        let _ = write!(
            body,
            "{{\nconst idx j = {name}[{from}];\nchecked(j < 0 ? j + {n} : j, {n}, report, launch);\n\
             at = at * {n} + (j < 0 ? j + {n} : j);\n}}\n"
        );
    }
    t.writes("y", y).reports().each(y.ty.shape.count(), &(body + "y[i] = at;\n"))
}

/// Elements that a block compacts.
const COMPACT: usize = 256 * 16;

fn compact_scratch(x: &Operand) -> usize {
    4 * (x.ty.shape.count().div_ceil(COMPACT) + 1)
}

/// The indices of true elements: counts them by tiles, adds the counts up, writes.
fn flat_nonzero(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (n, size) = (x.ty.shape.count(), y.ty.shape.count());
    let fill = c.attrs.int("fill").ok()?;
    let tiles = n.div_ceil(COMPACT);
    let with = |t: Text| t.memory("counts", "unsigned", Arg::Scratch(0));
    // A warp has 512 neighbors, 32 at a time.
    let start = format!(
        "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n\
         const idx first = (idx)blockIdx.x * {COMPACT} + warp * 512;\n\
         __shared__ unsigned sums[8];\n\
         unsigned bits[16], own = 0;\n\
         #pragma unroll\nfor (int j = 0; j < 16; j++) {{\n\
         const idx at = first + j * 32 + lane;\n\
         bits[j] = __ballot_sync(~0u, at < {n} && x[min(at, {n}ll - 1)]);\n\
         own += __popc(bits[j]);\n}}\n\
         if (lane == 0) sums[warp] = own;\n__syncthreads();\n"
    );
    let mut kernels = Vec::new();
    if tiles > 0 {
        let count = format!(
            "{start}if (threadIdx.x == 0) {{\nunsigned all = 0;\nfor (int w = 0; w < 8; w++) all += sums[w];\ncounts[blockIdx.x] = all;\n}}\n"
        );
        kernels.extend(with(Text::new().reads("x", x)).blocks(tiles, 256, &count)?);
    }
    let add = format!(
        "__shared__ SortTile<unsigned, 256, 1> s;\n__shared__ unsigned sum;\n\
         unsigned before = 0;\n\
         for (int first = 0; first < {tiles}; first += 256) {{\n\
         const int t = first + (int)threadIdx.x;\n\
         const unsigned n = t < {tiles} ? counts[t] : 0u, at = s.exclusive(n);\n\
         if (t < {tiles}) counts[t] = before + at;\n\
         if (threadIdx.x == 255) sum = at + n;\n\
         __syncthreads();\nbefore += sum;\n__syncthreads();\n}}\n\
         if (threadIdx.x == 0) counts[{tiles}] = before;\n\
         for (idx p = (idx)before + threadIdx.x; p < {size}; p += 256) y[p] = {fill};\n"
    );
    kernels.extend(with(Text::new().writes("y", y)).blocks(1, 256, &add)?);
    if tiles > 0 {
        let write = format!(
            "{start}idx to = counts[blockIdx.x];\n\
             for (int w = 0; w < warp; w++) to += sums[w];\n\
             #pragma unroll\nfor (int j = 0; j < 16; j++) {{\n\
             const idx p = to + __popc(bits[j] & ((1u << lane) - 1u));\n\
             if ((bits[j] >> lane & 1u) && p < {size}) y[p] = first + j * 32 + lane;\n\
             to += __popc(bits[j]);\n}}\n"
        );
        kernels.extend(with(Text::new().reads("x", x).writes("y", y)).blocks(tiles, 256, &write)?);
    }
    Some(kernels)
}

/// How values that meet at a place are combined.
#[derive(Clone, Copy, PartialEq)]
enum Combine {
    /// The last one stays.
    Put,
    Add,
    Prod,
    Max,
    Min,
}

impl Combine {
    fn of(c: &Call) -> Option<Combine> {
        Some(match c.attrs.str("reduce").ok()? {
            "max" => Combine::Max,
            "min" => Combine::Min,
            _ => Combine::Prod,
        })
    }
    /// `old` with `own`.
    fn text(self) -> &'static str {
        match self {
            Combine::Put => "own",
            Combine::Add => "old + own",
            Combine::Prod => "old * own",
            Combine::Max => "fmax_nan(old, own)",
            Combine::Min => "fmin_nan(old, own)",
        }
    }
}

/// Lanes along the axis of a scatter from which on each gets a thread.
const LANES_MANY: usize = 2048;

fn is_scatter_sorted(attrs: &Attrs, index: &Operand) -> bool {
    let Ok(axis) = attrs.size("axis") else { return false };
    let l = AxisSplit::new(&index.ty.shape, axis);
    l.outer * l.inner < LANES_MANY && l.size >= 4 * SORTED && u32::try_from(index.ty.shape.count()).is_ok()
}
fn scatter_scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    let (places, n) = (args[0].ty.shape.count(), args[1].ty.shape.count());
    if !is_scatter_sorted(attrs, &args[1]) {
        return 0;
    }
    sorted_scratch(n, places, 1, &args[0])
}

/// Elements combined at the places of an index, in the index's order: which of equal places wins and how sums are
/// rounded does not change. `keeps`: what is there counts too.
fn scatter(c: &Call, combine: Combine, keeps: bool) -> Option<Vec<Kernel>> {
    let (x, index, src, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let axis = c.attrs.size("axis").ok()?;
    let mut kernels = begin(x, y)?;
    let l = AxisSplit::new(&index.ty.shape, axis);
    if index.ty.shape.count() == 0 {
        return Some(kernels);
    }
    if combine == Combine::Add
        && let Some(more) = add_by_lanes(c, axis, l)
    {
        kernels.extend(more);
        return Some(kernels);
    }
    if is_scatter_sorted(c.attrs, index) && u32::try_from(x.ty.shape.count()).is_ok() {
        kernels.extend(scatter_sorted(c, combine, keeps, axis)?);
        return Some(kernels);
    }
    if combine == Combine::Add && l.inner == 1 && l.size >= 64 {
        kernels.extend(add_by_warps(c, axis, l)?);
        return Some(kernels);
    }
    let dtype = y.ty.dtype;
    // A thread for each lane. The first value of a place replaces what is there if no earlier index is the same.
    let fresh = if keeps {
        String::new()
    } else {
        format!(
            "bool fresh = true;\n\
             for (idx b = 0; b < k && fresh; b++)\n\
             fresh = index[(lane / {inner} * {size} + b) * {inner} + lane % {inner}] != index[i];\n\
             if (fresh) {{ y[at] = src[i]; continue; }}\n",
            size = l.size,
            inner = l.inner
        )
    };
    let store = match combine {
        Combine::Put => "y[at] = src[i];\n".to_string(),
        _ => {
            let class = Class::of(dtype).c();
            format!("const {class} old = get(y[at]), own = get(src[i]);\ny[at] = put_{dtype}({});\n", combine.text())
        }
    };
    let body = format!(
        "const idx lane = i;\nfor (idx k = 0; k < {size}; k++) {{\n\
         const idx i = (lane / {inner} * {size} + k) * {inner} + lane % {inner};\n{}{fresh}{store}}}\n",
        place(x, index, axis),
        size = l.size,
        inner = l.inner
    );
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y).reports();
    kernels.extend(t.each(l.outer * l.inner, &body)?);
    Some(kernels)
}

/// Sorts the values by their places. The thread of the first of equal places combines them.
fn scatter_sorted(c: &Call, combine: Combine, keeps: bool, axis: usize) -> Option<Vec<Kernel>> {
    let (x, index, src, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let (places, n) = (x.ty.shape.count(), index.ty.shape.count());
    let keys = Keys::up_to(places);
    let end = radix_scratch(1, n, &keys);
    // One out of range goes to the end of the list.
    let (size, strides) = (x.ty.shape[axis], x.ty.shape.strides());
    let mut at = format!("index[i] * {}", strides[axis]);
    for d in (0..strides.len()).filter(|&d| d != axis) {
        let _ = write!(at, " + i{d} * {}", strides[d]);
    }
    let key = format!(
        "[&](idx i) -> unsigned {{\n{}return index[i] >= 0 && index[i] < {size} ? (unsigned)({at}) : {places}u;\n}}(p)",
        split(&index.ty.shape, "i", "i")
    );
    if combine == Combine::Add {
        return add_sorted(c, AxisSplit { outer: 1, size: places, inner: 1 }, n, &key, size);
    }
    let read = |t: Text| (t.reads("index", index), key.clone());
    let lists = |t: Text, ty: &str| {
        let t = t.memory("sorted", ty, Arg::Scratch(end));
        t.memory("from", ty, Arg::Scratch(end + list_bytes(n)))
    };
    let store = |t: Text, _| (lists(t, "unsigned"), "sorted[to] = s.keys[p];\nfrom[to] = s.ids[p];\n".to_string());
    let radix = Radix { lanes: 1, size: n, keys: &keys, start: String::new(), read: &read, store: &store };
    let mut kernels = radix.kernels()?;
    let (dtype, class) = (y.ty.dtype, Class::of(y.ty.dtype).c());
    let (start, first) = if keeps { ("get(y[at])", "i") } else { ("get(src[from[i]])", "i + 1") };
    let next = format!("old = get(put_{dtype}({}));\n", combine.text());
    let work = match combine {
        Combine::Put => format!("idx b = i;\nwhile (b + 1 < {n} && sorted[b + 1] == at) b++;\ny[at] = src[from[b]];\n"),
        _ => format!(
            "{class} old = {start};\n\
             for (idx b = {first}; b < {n} && sorted[b] == at; b++) {{\n\
             const {class} own = get(src[from[b]]);\n{next}}}\n\
             y[at] = put_{dtype}(old);\n"
        ),
    };
    let body = format!(
        "const unsigned at = sorted[i];\n\
         if (at == {places}u) checked(index[from[i]], {size}, report, launch);\n\
         if (at == {places}u || (i > 0 && sorted[i - 1] == at)) return;\n{work}"
    );
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y);
    kernels.extend(lists(t, "const unsigned").reports().each(n, &body)?);
    Some(kernels)
}

/// Sums along the last axis: a warp for each lane takes 32 neighbors at once, of which the first of
/// those for one place adds up all, in order.
fn add_by_warps(c: &Call, axis: usize, l: AxisSplit) -> Option<Vec<Kernel>> {
    let (x, index, src, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let body = format!(
        "const idx lane = (idx)blockIdx.x * 8 + threadIdx.x / 32;\n\
         if (lane >= {lanes}) return;\n\
         const int own = threadIdx.x % 32;\n\
         for (idx first = 0; first < {size}; first += 32) {{\n\
         const bool live = first + own < {size};\n\
         const unsigned all = __ballot_sync(0xffffffffu, live);\n\
         if (live) {{\n\
         const idx i = lane * {size} + first + own;\n{place}\
         const unsigned same = __match_any_sync(all, (unsigned long long)at);\n\
         if (__ffs(same) - 1 == own) {{\n\
         {class} sum = get(y[at]);\n\
         for (unsigned m = same; m; m &= m - 1) sum = get(put_{dtype}(sum + get(src[i - own + __ffs(m) - 1])));\n\
         y[at] = put_{dtype}(sum);\n}}\n}}\n\
         __syncwarp();\n\
         __threadfence_block();\n}}\n",
        lanes = l.outer,
        size = l.size,
        place = place(x, index, axis),
        class = Class::of(y.ty.dtype).c(),
        dtype = y.ty.dtype
    );
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y).reports();
    t.blocks(l.outer.div_ceil(8), 256, &body)
}

/// Lanes of a block of [`add_by_lanes`], and the shared memory that their sums may take.
const LANES: [usize; 2] = [8, 4];
const LANE_BYTES: usize = 200 << 10;

/// Sums along an axis, where those of a few neighboring lanes fit into shared memory: a warp for each lane takes 32
/// indices at once, of which the first of those for one place adds up all, in order. Lanes are columns, or rows where
/// the axis is the last.
fn add_by_lanes(c: &Call, axis: usize, l: AxisSplit) -> Option<Vec<Kernel>> {
    let (x, index, src, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let (size, class, dtype) = (x.ty.shape[axis], Class::of(y.ty.dtype), y.ty.dtype);
    let is_alike = (0..x.ty.shape.rank()).all(|d| d == axis || x.ty.shape[d] == index.ty.shape[d]);
    // Places of neighboring lanes lie in different banks.
    let stride = size.next_multiple_of(32) + 4;
    let lanes = LANES.into_iter().find(|n| n * stride * class.size() <= LANE_BYTES)?;
    let (inner, n, is_rows) = (l.inner, l.size, l.inner == 1);
    let groups = if is_rows { l.outer.div_ceil(lanes) } else { l.outer * inner.div_ceil(lanes) };
    if !is_alike || (!is_rows && inner < lanes) || n < 64 || groups < 64 || !dtype.is_float() {
        return None;
    }
    let (find, all, place) = match is_rows {
        true => (
            format!("const idx row = (idx)blockIdx.x * {lanes} + warp;\nconst bool is_there = row < {};\n", l.outer),
            format!(
                "#pragma unroll 8\nfor (int t = own; t < {size} && is_there; t += 32) {{\n{class}& sum = to[t];\n",
                class = class.c()
            ),
            format!("row * {size} + t"),
        ),
        false => (
            format!(
                "const idx row = blockIdx.x / {0}, before = (idx)(blockIdx.x % {0}) * {lanes};\n\
                 const bool is_there = before + warp < {inner};\n",
                inner.div_ceil(lanes)
            ),
            format!(
                "#pragma unroll 8\nfor (int t = threadIdx.x; t < {}; t += {}) {{\nif (before + t % {lanes} >= {inner}) continue;\n\
                 {class}& sum = sums[t % {lanes} * {stride} + t / {lanes}];\n",
                lanes * size,
                32 * lanes,
                class = class.c()
            ),
            format!("(row * {size} + t / {lanes}) * {inner} + before + t % {lanes}"),
        ),
    };
    let column = if is_rows { "0" } else { "before + warp" };
    let body = format!(
        "extern __shared__ __align__(16) char room[];\n\
         __shared__ {class} values[{lanes}][32];\n\
         const int warp = threadIdx.x / 32, own = threadIdx.x % 32;\n\
         {class}* sums = ({class}*)room;\n\
         {class}* to = sums + warp * {stride};\n\
         {find}{all}sum = get(y[{place}]);\n}}\n\
         __syncthreads();\n\
         if (is_there) {{\n\
         const idx start = (row * {n} + own) * {inner} + {column};\n\
         idx next = own < {n} ? index[start] : 0;\n\
         {class} value = own < {n} ? get(src[start]) : ({class})0;\n\
         for (int first = 0; first < {n}; first += 32) {{\n\
         const bool live = first + own < {n};\n\
         const int j = live ? (int)checked(next, {size}, report, launch) : 0;\n\
         values[warp][own] = value;\n\
         __syncwarp();\n\
         if (first + 32 + own < {n}) {{\n\
         next = index[start + (idx)(first + 32) * {inner}];\n\
         value = get(src[start + (idx)(first + 32) * {inner}]);\n}}\n\
         const unsigned all = __ballot_sync(0xffffffffu, live);\n\
         if (live) {{\n\
         const unsigned same = __match_any_sync(all, j);\n\
         if (__ffs(same) - 1 == own) {{\n\
         {class} sum = to[j];\n\
         for (unsigned m = same; m; m &= m - 1) sum = sum + values[warp][__ffs(m) - 1];\n\
         to[j] = sum;\n}}\n}}\n\
         __syncwarp();\n}}\n}}\n\
         __syncthreads();\n\
         {all}y[{place}] = put_{dtype}(sum);\n}}\n",
        class = class.c(),
    );
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y).reports();
    let mut kernels = t.blocks(groups, 32 * lanes, &body)?;
    kernels[0].shared = (lanes * stride * class.size()) as u32;
    Some(kernels)
}

/// Sorted indices that a thread adds up.
const CHUNK: usize = 16;
/// Indices from which on they are sorted first.
const SORTED: usize = 256;

/// The scratch space of [`index_add`]: sorted indices, their positions, partial sums, and that of the sort.
fn index_add_scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    let n = args[1].ty.shape.count();
    let size = attrs.size("axis").map_or(0, |axis| args[0].ty.shape[axis]);
    if n < SORTED {
        return 0;
    }
    sorted_scratch(n, size, args[2].ty.shape.count().checked_div(n).unwrap_or(0), &args[0])
}
/// The same for `n` indices of so many places, with so many elements each.
fn sorted_scratch(n: usize, places: usize, elements: usize, x: &Operand) -> usize {
    let parts = 2 * elements * n.div_ceil(CHUNK) * Class::of(x.ty.dtype).size();
    radix_scratch(1, n, &Keys::up_to(places)) + 2 * list_bytes(n) + parts
}
fn list_bytes(n: usize) -> usize {
    (4 * n).next_multiple_of(256)
}

/// Slices added at the places of an index, in the index's order whatever the device does first.
fn index_add(c: &Call) -> Option<Vec<Kernel>> {
    let (x, index, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let n = index.ty.shape.count();
    let mut kernels = begin(x, y)?;
    if n * l.outer * l.inner > 0 {
        kernels.extend(match atomic(y.ty.dtype) {
            _ if n < SORTED => add_scanned(c, l, n)?,
            Some(ty) => add_atomically(c, l, n, ty)?,
            None => {
                // One out of range goes to the end of the list.
                let key = format!("(unsigned)(index[p] >= 0 && index[p] < {0} ? index[p] : {0})", l.size);
                add_sorted(c, l, n, &key, l.size)?
            }
        });
    }
    Some(kernels)
}

/// The C type that integers of a type are added atomically in: their sums do not depend on the order.
fn atomic(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::I32 | DType::U32 => Some("unsigned"),
        DType::I64 | DType::U64 => Some("unsigned long long"),
        _ => None,
    }
}

/// Bytes of shared memory in which few places are counted, and blocks that do so.
const SHARED: usize = 32 << 10;
const COUNTERS: usize = 528;

/// True if `n` integers are counted at few places in shared memory.
fn is_counted(y: &Operand, n: usize) -> bool {
    let size = y.ty.shape.count();
    y.ty.shape.rank() == 1 && size * y.ty.dtype.size() <= SHARED && n >= 16 * size && atomic(y.ty.dtype).is_some()
}

/// The kernels of an `index_add` of integers at few places with the loop that computes index, values or both, for it
/// alone: a histogram, whose bins are never written. `None` where it is not one.
pub fn histogram(l: &Loop, graph: &Graph, args: &[Operand], y: &Operand) -> Option<Vec<Kernel>> {
    let (x, index, src) = (&args[0], &args[1], &args[2]);
    let (n, size) = (index.ty.shape.count(), y.ty.shape.count());
    let ty = atomic(y.ty.dtype).filter(|_| is_counted(y, n))?;
    let mut b = Body::new(l, graph, false, |_| true, true);
    let is_whole = |s: &&Store| {
        let strides = Shape::new(&l.dims).strides();
        s.offset == 0 && s.strides.iter().zip(&strides).all(|(a, b)| a == b)
    };
    let is_line = [index, src].iter().all(|o| o.layout.is_contiguous() && o.layout.offset == 0);
    if !is_line || l.dims.iter().product::<usize>() != n || !b.stores.iter().all(is_whole) {
        return None;
    }
    let stores = std::mem::take(&mut b.stores);
    let step = |o: &Operand| stores.iter().find(|s| s.slot == o.slot).map(|s| s.step as usize);
    let steps = [step(index), step(src)];
    let width = b.width();
    let copies = (SHARED / (size * y.ty.dtype.size())).clamp(1, BLOCK / 32);
    let mut w = Writer::new(&b);
    for (o, name) in
        [(index, "index"), (src, "src")].into_iter().zip(steps).filter(|(_, s)| s.is_none()).map(|(o, _)| o)
    {
        w.given(&format!("const {}* __restrict__ {name}", stored(o.ty.dtype)), Arg::Value(o.slot));
    }
    w.given(&format!("{}* y", stored(y.ty.dtype)), Arg::Value(y.slot));
    w.given("Report* report", Arg::Report);
    w.given("long long launch", Arg::Launch);
    let total = size * copies;
    w.put(format!(
        "__shared__ {ty} sums[{total}];\n\
         for (int j = threadIdx.x; j < {total}; j += {BLOCK}) sums[j] = 0;\n\
         __syncthreads();\n\
         {ty}* own = sums + threadIdx.x / 32 % {copies} * {size};\n\
         for (idx t = (idx)blockIdx.x * {BLOCK} + threadIdx.x; t < {}u; t += gridDim.x * {BLOCK}) {{\n",
        n / width
    ));
    let (text, at) = access::split(&l.dims, &if width > 1 { format!("(t * {width})") } else { "t".into() }, "i");
    w.put(text + "\n");
    pointwise::element(&mut w, &b, &at, width, |w, names| {
        let value = |o: usize, name: &str| match steps[o] {
            Some(step) => b.val(step, names).text,
            None => format!("get({name}[t * {width} + v])"),
        };
        w.put(format!(
            "const idx bin = (idx)checked({}, {size}, report, launch);\nconst {ty} add = ({ty}){};\n\
             if (add) atomicAdd(own + bin, add);\n",
            value(0, "index"),
            value(1, "src")
        ));
    });
    w.put(format!(
        "}}\n__syncthreads();\n\
         for (int j = threadIdx.x; j < {size}; j += {BLOCK}) {{\n\
         {ty} sum = 0;\nfor (int c = 0; c < {copies}; c++) sum += sums[c * {size} + j];\n\
         if (sum) atomicAdd(({ty}*)&y[j], sum);\n}}\n"
    ));
    let mut kernels = begin(x, y)?;
    kernels.push(w.finish((n / width).div_ceil(BLOCK * 4).clamp(1, COUNTERS), BLOCK));
    Some(kernels)
}

/// Adds integers in any order. Few places are counted in shared memory first.
fn add_atomically(c: &Call, l: AxisSplit, n: usize, ty: &str) -> Option<Vec<Kernel>> {
    let (index, src, y) = (&c.args[1], &c.args[2], &c.outs[0]);
    let AxisSplit { outer, size, inner } = l;
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y).reports();
    if is_counted(y, n) {
        let body = format!(
            "__shared__ {ty} sums[{size}];\n\
             for (int j = threadIdx.x; j < {size}; j += {BLOCK}) sums[j] = 0;\n\
             __syncthreads();\n\
             for (idx k = (idx)blockIdx.x * {BLOCK} + threadIdx.x; k < {n}; k += (idx)gridDim.x * {BLOCK})\n\
             atomicAdd(&sums[checked(index[k], {size}, report, launch)], ({ty})src[k]);\n\
             __syncthreads();\n\
             for (int j = threadIdx.x; j < {size}; j += {BLOCK}) if (sums[j]) atomicAdd(({ty}*)&y[j], sums[j]);\n"
        );
        return t.blocks(n.div_ceil(BLOCK).min(COUNTERS), BLOCK, &body);
    }
    let body = format!(
        "const idx e = i % {inner}, k = i / {inner} % {n}, o = i / {};\n\
         const idx j = checked(index[k], {size}, report, launch);\n\
         atomicAdd(({ty}*)&y[(o * {size} + j) * {inner} + e], ({ty})src[i]);\n",
        n * inner
    );
    t.each(outer * n * inner, &body)
}

/// Sorts by `key`, the place of slice `p`, and adds up the slices of equal ones, chunk by chunk. A key that is the size
/// of the axis is that of an index outside of `limit`.
fn add_sorted(c: &Call, l: AxisSplit, n: usize, key: &str, limit: usize) -> Option<Vec<Kernel>> {
    let (index, src, y) = (&c.args[1], &c.args[2], &c.outs[0]);
    let AxisSplit { outer, size, inner } = l;
    let keys = Keys::up_to(size);
    let end = radix_scratch(1, n, &keys);
    let read = |t: Text| (t.reads("index", index), key.to_string());
    let lists = |t: Text, ty: &str| {
        let t = t.memory("sorted", ty, Arg::Scratch(end));
        t.memory("from", ty, Arg::Scratch(end + list_bytes(n)))
    };
    let store = |t: Text, _| (lists(t, "unsigned"), "sorted[to] = s.keys[p];\nfrom[to] = s.ids[p];\n".to_string());
    let radix = Radix { lanes: 1, size: n, keys: &keys, start: String::new(), read: &read, store: &store };
    let mut kernels = radix.kernels()?;
    let (class, dtype) = (Class::of(y.ty.dtype).c(), y.ty.dtype);
    let chunks = n.div_ceil(CHUNK);
    if inner == 1 && outer >= ROWS_MANY && (n + size + 2 * chunks) * Class::of(dtype).size() <= 48 << 10 {
        kernels.extend(add_by_rows(c, l, n, limit, end)?);
        return Some(kernels);
    }
    let parts = end + 2 * list_bytes(n);
    let sums = |t: Text| {
        let t = t.memory("heads", class, Arg::Scratch(parts));
        t.memory("tails", class, Arg::Scratch(parts + outer * chunks * inner * Class::of(dtype).size()))
    };
    let start = format!("const idx e = i % {inner}, c = i / {inner} % {chunks}, o = i / {};\n", inner * chunks);
    let add =
        format!("y[(o * {size} + j) * {inner} + e] = put_{dtype}(get(y[(o * {size} + j) * {inner} + e]) + sum);\n");
    // A run of equal indices that lies in one chunk is added at once; of others the parts are kept.
    let within = format!(
        "{start}const idx first = c * {CHUNK}, end = min(first + {CHUNK}, (idx){n});\n\
         unsigned j = sorted[first];\n\
         bool open = first > 0 && sorted[first - 1] == j;\n\
         {class} sum = 0;\n\
         for (idx k = first; k < end; k++) {{\n\
         const unsigned now = sorted[k];\n\
         if (now != j) {{\nif (open) heads[i] = sum; else {{\n{add}}}\nj = now;\nsum = 0;\nopen = false;\n}}\n\
         if (now == {size}u) {{\nchecked(index[from[k]], {limit}, report, launch);\nreturn;\n}}\n\
         sum = sum + get(src[(o * {n} + from[k]) * {inner} + e]);\n}}\n\
         if (open) heads[i] = sum;\n\
         else if (end < {n} && sorted[end] == j) tails[i] = sum;\n\
         else {{\n{add}}}\n"
    );
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y);
    kernels.extend(sums(lists(t, "const unsigned")).reports().each(outer * chunks * inner, &within)?);
    // The chunk in which a long run begins adds up its parts.
    let across = format!(
        "{start}idx end = (c + 1) * {CHUNK};\n\
         if (end >= {n}) return;\n\
         const unsigned j = sorted[end - 1];\n\
         if (j == {size}u || sorted[end] != j || (sorted[c * {CHUNK}] == j && c > 0 && sorted[c * {CHUNK} - 1] == j)) return;\n\
         {class} sum = tails[i];\n\
         for (idx b = c + 1; b < {chunks}; b++) {{\n\
         sum = sum + heads[(o * {chunks} + b) * {inner} + e];\n\
         end = (b + 1) * {CHUNK};\n\
         if (end >= {n} || sorted[end] != j) break;\n}}\n{add}"
    );
    if chunks > 1 {
        let t = lists(Text::new().writes("y", y), "const unsigned");
        kernels.extend(sums(t).each(outer * chunks * inner, &across)?);
    }
    Some(kernels)
}

/// Rows from which on sorted indices are added row by row in shared memory.
const ROWS_MANY: usize = 256;

/// The sums of [`add_sorted`] along the last axis, of many rows that have one index: a block has a row and its sums in
/// shared memory, so that memory is read and written in order.
fn add_by_rows(c: &Call, l: AxisSplit, n: usize, limit: usize, lists: usize) -> Option<Vec<Kernel>> {
    let (index, src, y) = (&c.args[1], &c.args[2], &c.outs[0]);
    let (outer, size, chunks) = (l.outer, l.size, n.div_ceil(CHUNK));
    let (class, dtype) = (Class::of(y.ty.dtype).c(), y.ty.dtype);
    let body = format!(
        "__shared__ {class} own[{n}], sums[{size}], heads[{chunks}], tails[{chunks}];\n\
         for (idx o = blockIdx.x; o < {outer}; o += gridDim.x) {{\n\
         for (int k = threadIdx.x; k < {n}; k += {BLOCK}) own[k] = get(src[o * {n} + k]);\n\
         for (int j = threadIdx.x; j < {size}; j += {BLOCK}) sums[j] = get(y[o * {size} + j]);\n\
         __syncthreads();\n\
         for (int c = threadIdx.x; c < {chunks}; c += {BLOCK}) {{\n\
         const int first = c * {CHUNK}, end = min(first + {CHUNK}, {n});\n\
         unsigned j = sorted[first];\n\
         bool open = first > 0 && sorted[first - 1] == j;\n\
         {class} sum = 0;\n\
         for (int k = first; k < end; k++) {{\n\
         const unsigned now = sorted[k];\n\
         if (now != j) {{\nif (open) heads[c] = sum; else sums[j] = sums[j] + sum;\nj = now;\nsum = 0;\nopen = false;\n}}\n\
         if (now == {size}u) {{\nchecked(index[from[k]], {limit}, report, launch);\nbreak;\n}}\n\
         sum = sum + own[from[k]];\n}}\n\
         if (j == {size}u) continue;\n\
         if (open) heads[c] = sum;\n\
         else if (end < {n} && sorted[end] == j) tails[c] = sum;\n\
         else sums[j] = sums[j] + sum;\n}}\n\
         __syncthreads();\n\
         for (int c = threadIdx.x; c < {chunks}; c += {BLOCK}) {{\n\
         int end = (c + 1) * {CHUNK};\n\
         if (end >= {n}) continue;\n\
         const unsigned j = sorted[end - 1];\n\
         if (j == {size}u || sorted[end] != j || (sorted[c * {CHUNK}] == j && c > 0 && sorted[c * {CHUNK} - 1] == j)) continue;\n\
         {class} sum = tails[c];\n\
         for (int b = c + 1; b < {chunks}; b++) {{\n\
         sum = sum + heads[b];\n\
         end = (b + 1) * {CHUNK};\n\
         if (end >= {n} || sorted[end] != j) break;\n}}\n\
         sums[j] = sums[j] + sum;\n}}\n\
         __syncthreads();\n\
         for (int j = threadIdx.x; j < {size}; j += {BLOCK}) y[o * {size} + j] = put_{dtype}(sums[j]);\n\
         __syncthreads();\n}}\n"
    );
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y);
    let t = t.memory("sorted", "const unsigned", Arg::Scratch(lists));
    t.memory("from", "const unsigned", Arg::Scratch(lists + list_bytes(n))).reports().blocks(
        outer.min(1056),
        BLOCK,
        &body,
    )
}

/// The block of an index's first occurrence adds up all of them; the others have nothing to do.
fn add_scanned(c: &Call, l: AxisSplit, n: usize) -> Option<Vec<Kernel>> {
    let (index, src, y) = (&c.args[1], &c.args[2], &c.outs[0]);
    let class = Class::of(y.ty.dtype).c();
    let body = format!(
        "const idx o = blockIdx.x / {n}, n = blockIdx.x % {n};\n\
         const idx j = checked(index[n], {size}, report, launch);\n\
         int seen = 0;\n\
         for (idx k = threadIdx.x; k < n; k += 128) seen |= index[k] == index[n];\n\
         if (__syncthreads_or(seen)) return;\n\
         __shared__ unsigned found[4];\n\
         for (idx start = 0; start < {inner}; start += 128) {{\n\
         const idx e = start + threadIdx.x;\n\
         {class} sum = e < {inner} ? get(y[(o * {size} + j) * {inner} + e]) : ({class})0;\n\
         for (idx first = n; first < {n}; first += 128) {{\n\
         const idx k = first + threadIdx.x;\n\
         const unsigned bits = __ballot_sync(0xffffffffu, k < {n} && index[k] == index[n]);\n\
         __syncthreads();\n\
         if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = bits;\n\
         __syncthreads();\n\
         for (int w = 0; w < 4; w++)\n\
         for (unsigned b = found[w]; b; b &= b - 1) {{\n\
         const idx at = first + w * 32 + __ffs(b) - 1;\n\
         if (e < {inner}) sum = sum + get(src[(o * {n} + at) * {inner} + e]);\n\
         }}\n}}\n\
         if (e < {inner}) y[(o * {size} + j) * {inner} + e] = put_{dtype}(sum);\n}}\n",
        size = l.size,
        inner = l.inner,
        dtype = y.ty.dtype
    );
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y).reports();
    t.blocks(l.outer * n, 128, &body)
}
