//! Radix sort along an axis. A lane that fits into shared memory is sorted by one block. A longer one is sorted digit
//! by digit over the whole device: count the digits of each tile, add the counts up, move the keys.

use super::{Call, Operand, Text};
use crate::claims::Claim;
use crate::emit::{Arg, Kernel};
use ir::{Attrs, AxisSplit, DType};

/// Sorting.
pub static CLAIMS: &[Claim] = &[Claim { scratch, ..Claim::new("sort", sort) }];

/// Threads of a tile of the device-wide sort.
const THREADS: usize = 256;
/// Lanes of so many elements at most are sorted by counting, a thread an element.
const COUNTED_MAX: usize = 32;
const DIGITS: usize = 256;

/// How the keys of an element type are sorted.
struct Keys {
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

/// The parts of the scratch space of a device-wide sort: two arrays of keys, two of ids, counts, totals; its end.
fn parts(l: &AxisSplit, keys: &Keys) -> [usize; 7] {
    let (lanes, tiles) = (l.outer * l.inner, l.size.div_ceil(keys.tile()));
    let count = lanes * l.size;
    let sizes = [count * keys.bytes, count * keys.bytes, count * 4, count * 4, lanes * DIGITS * tiles * 4, lanes * 1024];
    let mut at = [0; 7];
    for (i, bytes) in sizes.iter().enumerate() {
        at[i + 1] = at[i] + bytes.next_multiple_of(256);
    }
    at
}

fn scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    match lanes(attrs, &args[0]) {
        Some((l, keys)) if l.size > keys.tile() => parts(&l, &keys)[6],
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

/// All blocks sort together, digit by digit.
fn over_device(c: &Call, l: &AxisSplit, keys: &Keys) -> Option<Vec<Kernel>> {
    let at = parts(l, keys);
    let mut kernels = Vec::new();
    for pass in 0..keys.bits / 8 {
        let s = Pass { c, l, keys, at: &at, pass };
        kernels.extend(s.count()?);
        kernels.extend(s.add_up()?);
        kernels.extend(s.scatter()?);
    }
    Some(kernels)
}

/// One digit of a device-wide sort.
struct Pass<'a> {
    c: &'a Call<'a>,
    l: &'a AxisSplit,
    keys: &'a Keys,
    at: &'a [usize; 7],
    pass: usize,
}

impl Pass<'_> {
    fn tiles(&self) -> usize {
        self.l.size.div_ceil(self.keys.tile())
    }
    fn lanes(&self) -> usize {
        self.l.outer * self.l.inner
    }
    /// Scratch memory under a name.
    fn memory(&self, t: Text, name: &str, ty: &str, part: usize) -> Text {
        t.memory(name, ty, Arg::Scratch(self.at[part]))
    }
    /// The keys that the pass reads, and the text of key `p` of a lane.
    fn source(&self, t: Text) -> (Text, String) {
        if self.pass == 0 {
            let key = self.keys.of(&format!("x[base + (idx)p * {}]", self.l.inner));
            return (t.reads("x", &self.c.args[0]), key);
        }
        let t = self.memory(t, "keys", &format!("const {}", self.keys.ty), (self.pass + 1) % 2);
        (t, format!("keys[lane * {} + p]", self.l.size))
    }
    /// Statements that say which tile a block has.
    fn start(&self) -> String {
        let tiles = self.tiles();
        format!("const idx lane = blockIdx.x / {tiles}, tile = blockIdx.x % {tiles}, base = {};\n", base(self.l))
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
             for (int d = threadIdx.x; d < {DIGITS}; d += {THREADS}) counts[(lane * {DIGITS} + d) * {tiles} + tile] = histogram[d];\n",
            self.start(),
            items = self.keys.items,
            tile = self.keys.tile(),
            size = self.l.size,
            shift = 8 * self.pass,
            tiles = self.tiles(),
        );
        t.blocks(self.lanes() * self.tiles(), THREADS, &body)
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
        t.blocks(self.lanes() * DIGITS, THREADS, &body)
    }

    /// Moves keys and ids; the last pass writes the results.
    fn scatter(&self) -> Option<Vec<Kernel>> {
        let (c, l, ty) = (self.c, self.l, self.keys.ty);
        let (first, last) = (self.pass == 0, 8 * (self.pass + 1) == self.keys.bits);
        let (mut t, key) = self.source(Text::new());
        t = self.memory(t, "counts", "const unsigned", 4);
        t = self.memory(t, "totals", "const unsigned", 5);
        let id = if first {
            "p".to_string()
        } else {
            t = self.memory(t, "ids", "const unsigned", 2 + (self.pass + 1) % 2);
            format!("ids[lane * {} + p]", l.size)
        };
        let store = if last {
            if !first {
                t = t.reads("x", &c.args[0]);
            }
            t = t.writes("y", &c.outs[0]).writes("places", &c.outs[1]);
            let inner = l.inner;
            format!("y[base + to * {inner}] = x[base + (idx)s.ids[p] * {inner}];\nplaces[base + to * {inner}] = s.ids[p];\n")
        } else {
            t = self.memory(t, "next", ty, self.pass % 2);
            t = self.memory(t, "moved", "unsigned", 2 + self.pass % 2);
            format!("next[lane * {0} + to] = s.keys[p];\nmoved[lane * {0} + to] = s.ids[p];\n", l.size)
        };
        let (items, tile, size, tiles, shift) =
            (self.keys.items, self.keys.tile(), l.size, self.tiles(), 8 * self.pass);
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
             starts[threadIdx.x] = (idx)before + counts[(lane * {DIGITS} + threadIdx.x) * {tiles} + tile] - s.start[threadIdx.x];\n\
             __syncthreads();\n\
             const int count = min({size}ll - tile * {tile}, (idx){tile});\n\
             for (int p = threadIdx.x; p < count; p += {THREADS}) {{\n\
             const idx to = starts[(unsigned)(s.keys[p] >> {shift}) & 255u] + p;\n\
             {store}}}\n",
            self.start(),
        );
        t.blocks(self.lanes() * tiles, THREADS, &body)
    }
}
