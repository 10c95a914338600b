//! Cumulative ops along an axis. A block scans a lane tile by tile. Where lanes are few and long, a block takes a tile:
//! first the tiles' totals are computed, then those of the tiles before each tile, then the results. Where the axis is
//! not the last, a thread takes a lane.

use super::{Call, Operand, Text};
use crate::claims::Claim;
use crate::emit::scalar::Class;
use crate::emit::{Arg, Kernel};
use ir::{Attrs, AxisSplit, DType};

/// Cumulative ops.
pub static CLAIMS: &[Claim] = &[
    Claim { scratch, ..Claim::new("cumsum", |c| scan(c, Form::Total("ScanSum"))) },
    Claim { scratch, ..Claim::new("cumprod", |c| scan(c, Form::Total("ScanProd"))) },
    Claim { scratch, ..Claim::new("logcumsumexp", |c| scan(c, Form::Total("ScanLogSumExp"))) },
    Claim { scratch, ..Claim::new("cummax", |c| scan(c, Form::Extreme("ScanMax"))) },
    Claim { scratch, ..Claim::new("cummin", |c| scan(c, Form::Extreme("ScanMin"))) },
];

/// What is carried along.
#[derive(Clone, Copy)]
enum Form {
    /// A number, by a monoid.
    Total(&'static str),
    /// An element with its index.
    Extreme(&'static str),
}

const THREADS: usize = 256;
const ITEMS: usize = 8;
const TILE: usize = THREADS * ITEMS;
/// Lanes that keep the device busy with a block each.
const LANES_MANY: usize = 256;
/// Bytes of a state at most.
const STATE: usize = 16;

fn is_cut(l: &AxisSplit) -> bool {
    l.inner == 1 && l.size > 4 * TILE && l.outer < LANES_MANY
}

fn scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    let Ok(axis) = attrs.size("axis") else { return 0 };
    let l = AxisSplit::new(&args[0].ty.shape, axis);
    if is_cut(&l) { l.outer * l.size.div_ceil(TILE) * STATE } else { 0 }
}

/// A scan of an input, as text.
struct Scan {
    /// The C type of a state and of the monoid.
    state: String,
    monoid: &'static str,
    /// The state of element `k` at address `from`, and what stores state `now` there.
    load: String,
    store: String,
}

impl Scan {
    fn new(dtype: DType, form: Form) -> Scan {
        match form {
            Form::Total(monoid) => {
                let state = if dtype.is_float() { "double" } else { "long long" };
                let (load, work) = (format!("({state})get(x[from])"), Class::of(dtype).c());
                Scan { state: state.to_string(), monoid, load, store: format!("y[from] = put_{dtype}(({work})now);\n") }
            }
            Form::Extreme(monoid) => {
                let state = format!("Indexed<{}>", Class::of(dtype).c());
                let load = format!("{state}{{get(x[from]), k}}");
                let store = format!("y[from] = put_{dtype}(now.v);\nplaces[from] = now.at;\n");
                Scan { state, monoid, load, store }
            }
        }
    }
}

fn scan(c: &Call, form: Form) -> Option<Vec<Kernel>> {
    let x = &c.args[0];
    let l = AxisSplit::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let reverse = c.attrs.get("reverse").is_some() && c.attrs.bool("reverse").ok()?;
    let s = Scan::new(x.ty.dtype, form);
    if x.ty.shape.count() == 0 {
        return Some(Vec::new());
    }
    // The address of element `k` in the order of the scan.
    let from = |k: &str| {
        let at = if reverse { format!("({} - {k})", l.size - 1) } else { k.to_string() };
        format!("base + {at} * {}", l.inner)
    };
    let operands = || {
        let t = Text::new().reads("x", x).writes("y", &c.outs[0]);
        if c.outs.len() > 1 { t.writes("places", &c.outs[1]) } else { t }
    };
    match l.inner {
        1 if is_cut(&l) => cut(c, &l, &s, &from, operands()),
        1 => operands().blocks(l.outer, THREADS, &whole(&l, &s, &from)),
        _ => operands().each(l.outer * l.inner, &by_thread(&l, &s, &from)),
    }
}

/// A thread scans a lane; neighbors have neighboring elements.
fn by_thread(l: &AxisSplit, s: &Scan, from: &dyn Fn(&str) -> String) -> String {
    let Scan { state, monoid, load, store } = s;
    format!(
        "const idx base = i / {inner} * {} + i % {inner};\n\
         {state} now;\n\
         #pragma unroll 8\n\
         for (idx k = 0; k < {size}; k++) {{\n\
         const idx from = {};\n\
         const {state} own = {load};\n\
         now = k ? {monoid}::of(now, own) : own;\n{store}}}\n",
        l.size * l.inner,
        from("k"),
        inner = l.inner,
        size = l.size,
    )
}

/// Statements that load, scan and store the tile that begins with element `first`.
fn tile(l: &AxisSplit, s: &Scan, from: &dyn Fn(&str) -> String, has_before: &str, is_stored: bool) -> String {
    let Scan { state, load, store, .. } = s;
    let stored = format!(
        "#pragma unroll\nfor (int j = 0; j < {ITEMS}; j++) {{\n\
         const idx k = first + Tile::at(j);\n\
         if (k < {}) {{\nconst idx from = {};\nconst {state} now = v[j];\n{store}}}\n}}\n",
        l.size,
        from("k")
    );
    format!(
        "{state} v[{ITEMS}];\n\
         #pragma unroll\nfor (int j = 0; j < {ITEMS}; j++) {{\n\
         const idx k = min(first + Tile::at(j), (idx){});\n\
         const idx from = {};\n\
         v[j] = {load};\n}}\n\
         tile.scan(v, (int)min((idx){TILE}, {} - first), {has_before}, before);\n{}",
        l.size - 1,
        from("k"),
        l.size,
        if is_stored { &stored } else { "" },
    )
}

fn declared(s: &Scan) -> String {
    let Scan { state, monoid, .. } = s;
    format!("typedef ScanTile<{state}, {monoid}, {THREADS}, {ITEMS}> Tile;\n__shared__ Tile tile;\n{state} before;\n")
}

/// A block scans a lane, tile by tile.
fn whole(l: &AxisSplit, s: &Scan, from: &dyn Fn(&str) -> String) -> String {
    format!(
        "{}const idx base = (idx)blockIdx.x * {size};\n\
         for (idx first = 0; first < {size}; first += {TILE}) {{\n{}before = tile.last;\n}}\n",
        declared(s),
        tile(l, s, from, "first > 0", true),
        size = l.size
    )
}

/// Blocks scan tiles, after what comes before each was computed.
fn cut(c: &Call, l: &AxisSplit, s: &Scan, from: &dyn Fn(&str) -> String, all: Text) -> Option<Vec<Kernel>> {
    let tiles = l.size.div_ceil(TILE);
    let state = &s.state;
    let start = format!(
        "{}const idx lane = blockIdx.x / {tiles}, number = blockIdx.x % {tiles};\n\
         const idx base = lane * {}, first = number * {TILE};\n",
        declared(s),
        l.size
    );
    let totals =
        format!("{start}{}if (threadIdx.x == 0) totals[blockIdx.x] = tile.last;\n", tile(l, s, from, "false", false));
    let t = Text::new().reads("x", &c.args[0]).memory("totals", state, Arg::Scratch(0));
    let mut kernels = t.blocks(l.outer * tiles, THREADS, &totals)?;
    // The totals are scanned as a lane of their own.
    let sums = format!(
        "{}{state}* own = totals + (idx)blockIdx.x * {tiles};\n\
         for (idx first = 0; first < {tiles}; first += {TILE}) {{\n\
         {state} v[{ITEMS}];\n\
         #pragma unroll\nfor (int j = 0; j < {ITEMS}; j++) v[j] = own[min(first + Tile::at(j), (idx){})];\n\
         tile.scan(v, (int)min((idx){TILE}, {tiles} - first), first > 0, before);\n\
         #pragma unroll\nfor (int j = 0; j < {ITEMS}; j++) if (first + Tile::at(j) < {tiles}) own[first + Tile::at(j)] = v[j];\n\
         before = tile.last;\n__syncthreads();\n}}\n",
        declared(s),
        tiles - 1
    );
    kernels.extend(Text::new().memory("totals", state, Arg::Scratch(0)).blocks(l.outer, THREADS, &sums)?);
    let results =
        format!("{start}if (number > 0) before = totals[blockIdx.x - 1];\n{}", tile(l, s, from, "number > 0", true));
    let t = all.memory("totals", &format!("const {state}"), Arg::Scratch(0));
    kernels.extend(t.blocks(l.outer * tiles, THREADS, &results)?);
    Some(kernels)
}
