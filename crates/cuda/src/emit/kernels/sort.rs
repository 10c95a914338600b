//! Radix sort along an axis. A lane that fits into shared memory is sorted by one block. A longer one is sorted digit
//! by digit over the whole device: count the digits of each tile, add the counts up, move the keys.

use super::{Call, Operand, Text};
use crate::claims::Claim;
use crate::emit::{Arg, Kernel};
use ir::{Attrs, AxisSplit, DType, FlatNode, Type};

/// Sorting.
pub static CLAIMS: &[Claim] =
    &[Claim { scratch, ..Claim::new("sort", sort) }, Claim { is_whole: selects, ..Claim::new("top_k", top_k) }];

/// Threads of a tile of the device-wide sort.
const THREADS: usize = 256;
/// Lanes of so many elements at most are sorted by counting, a thread an element.
const COUNTED_MAX: usize = 32;
const DIGITS: usize = 256;

/// How keys are sorted.
pub struct Keys {
    /// Their C type.
    ty: &'static str,
    bytes: usize,
    /// Bits that differ.
    bits: usize,
    /// Keys of a thread of a tile.
    items: usize,
    /// The key of an element `{}`.
    text: String,
}

impl Keys {
    /// Numbers from 0 to `most`.
    pub fn up_to(most: usize) -> Keys {
        let bits = (usize::BITS - most.leading_zeros()).max(1) as usize;
        Keys { ty: "unsigned", bytes: 4, bits, items: 16, text: "(unsigned){}".to_string() }
    }
    fn new(dtype: DType, descending: bool) -> Keys {
        let (size, is_float) = (dtype.size(), dtype.is_float());
        let bits = if is_float { 8 * size.max(4) } else { 8 * size };
        let is_wide = bits == 64;
        let (ty, one) = if is_wide { ("unsigned long long", "1ull") } else { ("unsigned", "1u") };
        let is_signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
        let plain = match (is_float, is_signed) {
            (true, _) => "sort_key(get({}))".to_string(),
            (false, true) => format!("(({ty})get({{}}) ^ {one} << {})", bits - 1),
            (false, false) => format!("({ty})get({{}})"),
        };
        let mask = if bits < 32 { format!(" & {}u", (1u32 << bits) - 1) } else { String::new() };
        let text = if descending { format!("(~{plain}{mask})") } else { format!("({plain}{mask})") };
        Keys { ty, bytes: if is_wide { 8 } else { 4 }, bits, items: if is_wide { 8 } else { 16 }, text }
    }
    fn of(&self, element: &str) -> String {
        self.text.replace("{}", element)
    }
    fn tile(&self) -> usize {
        THREADS * self.items
    }
}

fn lanes(attrs: &Attrs, x: &Operand) -> Option<(AxisSplit, Keys)> {
    let l = AxisSplit::new(&x.ty.shape, attrs.size("axis").ok()?);
    Some((l, Keys::new(x.ty.dtype, attrs.bool("descending").ok()?)))
}

fn scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    match lanes(attrs, &args[0]) {
        Some((l, keys)) if l.size > keys.tile() => radix_scratch(l.outer * l.inner, l.size, &keys),
        _ => 0,
    }
}

/// The elements in order and where they came from.
fn sort(c: &Call) -> Option<Vec<Kernel>> {
    let (l, keys) = lanes(c.attrs, &c.args[0])?;
    u32::try_from(l.size).ok()?;
    match l.size {
        0..=COUNTED_MAX => by_counting(c, &l, &keys),
        n if n <= keys.tile() => in_block(c, &l, &keys),
        _ => over_device(c, &l, &keys),
    }
}

/// The most elements that are selected by a block.
const SELECTED_MAX: usize = 1024;

/// Whether few elements of long lanes are wanted: they are selected, not sorted.
fn selects(n: &FlatNode, types: &[Type]) -> bool {
    let (Ok(k), Ok(axis)) = (n.attrs.size("k"), n.attrs.size("axis")) else { return false };
    let ty = &types[0];
    let Some(&size) = ty.shape.get(axis) else { return false };
    let lanes = ty.shape.count().checked_div(size).unwrap_or(0);
    let is_long = size > THREADS * 16 && (size <= 1 << 20 || lanes >= 64);
    is_long && lanes > 0 && (1..=SELECTED_MAX).contains(&k) && u32::try_from(size).is_ok() && !ty.dtype.is_complex()
}

/// The first elements in order, by radix selection: a block for each lane.
fn top_k(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y, places) = (&c.args[0], &c.outs[0], &c.outs[1]);
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let (k, keys) = (c.attrs.size("k").ok()?, Keys::new(x.ty.dtype, c.attrs.bool("largest").ok()?));
    let (ty, inner) = (keys.ty, l.inner);
    let body = format!(
        "__shared__ SortTile<{ty}, 1024, 1> tile;\n\
         const idx lane = blockIdx.x, base = {};\n\
         select_first<{ty}, {}>(tile, [&](unsigned p) -> {ty} {{ return {}; }}, {}u, {k}u);\n\
         const int i = threadIdx.x;\n\
         const idx to = lane / {inner} * {} + lane % {inner} + (idx)i * {inner};\n\
         if (i < {k}) {{ y[to] = x[base + (idx)tile.ids[i] * {inner}]; places[to] = tile.ids[i]; }}\n",
        base(&l),
        keys.bits,
        keys.of(&format!("x[base + (idx)p * {inner}]")),
        l.size,
        k * inner,
    );
    let t = Text::new().reads("x", x).writes("y", y).writes("places", places);
    t.blocks(l.outer * l.inner, 1024, &body)
}

/// The first element of a lane.
fn base(l: &AxisSplit) -> String {
    format!("lane / {inner} * {} + lane % {inner}", l.size * l.inner, inner = l.inner)
}

/// Each element counts those that come before it.
fn by_counting(c: &Call, l: &AxisSplit, keys: &Keys) -> Option<Vec<Kernel>> {
    let (x, y, places) = (&c.args[0], &c.outs[0], &c.outs[1]);
    let (inner, size) = (l.inner, l.size);
    let body = format!(
        "const idx k = i / {inner} % {size}, base = i / {} * {} + i % {inner};\n\
         const {ty} own = {};\n\
         idx rank = 0;\n\
         for (idx j = 0; j < {size}; j++) {{\n\
         const {ty} other = {};\n\
         rank += other < own || (other == own && j < k);\n}}\n\
         y[base + rank * {inner}] = x[i];\n\
         places[base + rank * {inner}] = k;\n",
        size * inner,
        size * inner,
        keys.of("x[i]"),
        keys.of(&format!("x[base + j * {inner}]")),
        ty = keys.ty,
    );
    Text::new().reads("x", x).writes("y", y).writes("places", places).each(x.ty.shape.count(), &body)
}

/// A block sorts a lane in shared memory.
fn in_block(c: &Call, l: &AxisSplit, keys: &Keys) -> Option<Vec<Kernel>> {
    let (x, y, places) = (&c.args[0], &c.outs[0], &c.outs[1]);
    let (inner, size, ty) = (l.inner, l.size, keys.ty);
    let threads = size.div_ceil(keys.items).next_power_of_two().clamp(32, THREADS);
    let items = size.div_ceil(threads);
    let body = format!(
        "typedef SortTile<{ty}, {threads}, {items}> Tile;\n__shared__ Tile tile;\n\
         const idx lane = blockIdx.x, base = {};\n\
         {ty} k[{items}];\nunsigned id[{items}];\n\
         #pragma unroll\nfor (int j = 0; j < {items}; j++) {{\n\
         id[j] = Tile::at(j);\n\
         k[j] = id[j] < {size} ? {} : ~({ty})0;\n}}\n\
         tile.sort(k, id, {});\n\
         #pragma unroll\nfor (int j = 0; j < {items}; j++) {{\n\
         const idx to = base + (idx)Tile::at(j) * {inner};\n\
         if (Tile::at(j) < {size}) {{ y[to] = x[base + (idx)id[j] * {inner}]; places[to] = id[j]; }}\n}}\n",
        base(l),
        keys.of(&format!("x[base + (idx)id[j] * {inner}]")),
        keys.bits,
    );
    let t = Text::new().reads("x", x).writes("y", y).writes("places", places);
    t.blocks(l.outer * l.inner, threads, &body)
}

/// All blocks sort together.
fn over_device(c: &Call, l: &AxisSplit, keys: &Keys) -> Option<Vec<Kernel>> {
    let inner = l.inner;
    let read = |t: Text| (t.reads("x", &c.args[0]), keys.of(&format!("x[base + (idx)p * {inner}]")));
    let store = |t: Text, has_read: bool| {
        let t = if has_read { t } else { t.reads("x", &c.args[0]) };
        let text = format!(
            "y[base + to * {inner}] = x[base + (idx)s.ids[p] * {inner}];\nplaces[base + to * {inner}] = s.ids[p];\n"
        );
        (t.writes("y", &c.outs[0]).writes("places", &c.outs[1]), text)
    };
    let start = format!("const idx base = {};\n", base(l));
    Radix { lanes: l.outer * l.inner, size: l.size, keys, start, read: &read, store: &store }.kernels()
}

/// A text with more parameters, and an expression or statements that use them.
pub type With<'a, A> = &'a dyn Fn(Text, A) -> (Text, String);

/// A device-wide sort of lanes, digit by digit.
pub struct Radix<'a> {
    /// Lanes and the size of each.
    pub lanes: usize,
    /// Keys of a lane.
    pub size: usize,
    /// Their form.
    pub keys: &'a Keys,
    /// Statements before key and store, which may use `lane`.
    pub start: String,
    /// The expression of key `p` of a lane.
    pub read: &'a dyn Fn(Text) -> (Text, String),
    /// The statements that store key `s.keys[p]` and id `s.ids[p]` as number `to` of the lane. True if the text has
    /// the parameters of `read` already.
    pub store: With<'a, bool>,
}

/// Where the parts of the scratch space begin: two arrays of keys, two of ids, counts, totals; its end.
fn parts(lanes: usize, size: usize, keys: &Keys) -> [usize; 7] {
    let (count, tiles) = (lanes * size, size.div_ceil(keys.tile()));
    let sizes =
        [count * keys.bytes, count * keys.bytes, count * 4, count * 4, lanes * DIGITS * tiles * 4, lanes * 1024];
    let mut at = [0; 7];
    for (i, bytes) in sizes.iter().enumerate() {
        at[i + 1] = at[i] + bytes.next_multiple_of(256);
    }
    at
}

/// Bytes of scratch space of a device-wide sort.
pub fn radix_scratch(lanes: usize, size: usize, keys: &Keys) -> usize {
    parts(lanes, size, keys)[6]
}

impl Radix<'_> {
    /// The kernels of all digits.
    pub fn kernels(&self) -> Option<Vec<Kernel>> {
        let at = parts(self.lanes, self.size, self.keys);
        let mut kernels = Vec::new();
        for pass in 0..self.keys.bits.div_ceil(8) {
            let p = Pass { r: self, at: &at, pass };
            kernels.extend(p.count()?);
            kernels.extend(p.add_up()?);
            kernels.extend(p.scatter()?);
        }
        Some(kernels)
    }
}

/// One digit.
struct Pass<'a> {
    r: &'a Radix<'a>,
    at: &'a [usize; 7],
    pass: usize,
}

impl Pass<'_> {
    fn tiles(&self) -> usize {
        self.r.size.div_ceil(self.r.keys.tile())
    }
    /// Scratch memory under a name.
    fn memory(&self, t: Text, name: &str, ty: &str, part: usize) -> Text {
        t.memory(name, ty, Arg::Scratch(self.at[part]))
    }
    /// The keys that the pass reads, and the text of key `p` of a lane.
    fn source(&self, t: Text) -> (Text, String) {
        if self.pass == 0 {
            return (self.r.read)(t);
        }
        let t = self.memory(t, "keys", &format!("const {}", self.r.keys.ty), (self.pass + 1) % 2);
        (t, format!("keys[lane * {} + p]", self.r.size))
    }
    /// Statements that say which tile a block has.
    fn start(&self) -> String {
        let tiles = self.tiles();
        format!("const idx lane = blockIdx.x / {tiles}, tile = blockIdx.x % {tiles};\n{}", self.r.start)
    }

    fn count(&self) -> Option<Vec<Kernel>> {
        let (t, key) = self.source(Text::new());
        let t = self.memory(t, "counts", "unsigned", 4);
        let body = format!(
            "{}__shared__ unsigned histogram[{DIGITS}];\n\
             for (int d = threadIdx.x; d < {DIGITS}; d += {THREADS}) histogram[d] = 0;\n\
             __syncthreads();\n\
             #pragma unroll\nfor (int j = 0; j < {items}; j++) {{\n\
             const unsigned p = tile * {tile} + j * {THREADS} + threadIdx.x;\n\
             if (p < {size}u) atomicAdd(&histogram[(unsigned)({key} >> {shift}) & 255u], 1u);\n}}\n\
             __syncthreads();\n\
             for (int d = threadIdx.x; d < {DIGITS}; d += {THREADS})\n\
             counts[(lane * {DIGITS} + d) * {tiles} + tile] = histogram[d];\n",
            self.start(),
            items = self.r.keys.items,
            tile = self.r.keys.tile(),
            size = self.r.size,
            shift = 8 * self.pass,
            tiles = self.tiles(),
        );
        t.blocks(self.r.lanes * self.tiles(), THREADS, &body)
    }

    /// For each digit of a lane: the counts of the tiles before each tile, and the sum.
    fn add_up(&self) -> Option<Vec<Kernel>> {
        let t = self.memory(Text::new(), "counts", "unsigned", 4);
        let t = self.memory(t, "totals", "unsigned", 5);
        let body = format!(
            "__shared__ SortTile<unsigned, {THREADS}, 1> s;\n__shared__ unsigned sum;\n\
             unsigned* own = counts + (idx)blockIdx.x * {tiles};\n\
             unsigned before = 0;\n\
             for (int first = 0; first < {tiles}; first += {THREADS}) {{\n\
             const int t = first + (int)threadIdx.x;\n\
             const unsigned n = t < {tiles} ? own[t] : 0u, at = s.exclusive(n);\n\
             if (t < {tiles}) own[t] = before + at;\n\
             if (threadIdx.x == {last}) sum = at + n;\n\
             __syncthreads();\n\
             before += sum;\n\
             __syncthreads();\n}}\n\
             if (threadIdx.x == 0) totals[blockIdx.x] = before;\n",
            tiles = self.tiles(),
            last = THREADS - 1,
        );
        t.blocks(self.r.lanes * DIGITS, THREADS, &body)
    }

    /// Moves keys and ids; the last pass stores them.
    fn scatter(&self) -> Option<Vec<Kernel>> {
        let (ty, size, tiles) = (self.r.keys.ty, self.r.size, self.tiles());
        let (first, last) = (self.pass == 0, 8 * (self.pass + 1) >= self.r.keys.bits);
        let (mut t, key) = self.source(Text::new());
        t = self.memory(t, "counts", "const unsigned", 4);
        t = self.memory(t, "totals", "const unsigned", 5);
        let mut id = "p".to_string();
        if !first {
            t = self.memory(t, "ids", "const unsigned", 2 + (self.pass + 1) % 2);
            id = format!("ids[lane * {size} + p]");
        }
        let (t, store) = if last {
            (self.r.store)(t, first)
        } else {
            t = self.memory(t, "next", ty, self.pass % 2);
            t = self.memory(t, "moved", "unsigned", 2 + self.pass % 2);
            (t, format!("next[lane * {size} + to] = s.keys[p];\nmoved[lane * {size} + to] = s.ids[p];\n"))
        };
        let (items, tile, shift) = (self.r.keys.items, self.r.keys.tile(), 8 * self.pass);
        let body = format!(
            "{}typedef SortTile<{ty}, {THREADS}, {items}> Tile;\n__shared__ Tile s;\n__shared__ long long starts[{DIGITS}];\n\
             {ty} k[{items}];\nunsigned id[{items}], r[{items}];\n\
             #pragma unroll\nfor (int j = 0; j < {items}; j++) {{\n\
             const unsigned p = tile * {tile} + Tile::at(j);\n\
             k[j] = p < {size}u ? {key} : ~({ty})0;\n\
             id[j] = p < {size}u ? {id} : 0u;\n}}\n\
             s.rank(k, r, {shift});\n\
             s.place(k, id, r);\n\
             const unsigned before = s.exclusive(totals[lane * {DIGITS} + threadIdx.x]);\n\
             starts[threadIdx.x] =\n\
             (idx)before + counts[(lane * {DIGITS} + threadIdx.x) * {tiles} + tile] - s.start[threadIdx.x];\n\
             __syncthreads();\n\
             const int count = min({size}ll - tile * {tile}, (idx){tile});\n\
             for (int p = threadIdx.x; p < count; p += {THREADS}) {{\n\
             const idx to = starts[(unsigned)(s.keys[p] >> {shift}) & 255u] + p;\n\
             {store}}}\n",
            self.start(),
        );
        t.blocks(self.r.lanes * tiles, THREADS, &body)
    }
}
