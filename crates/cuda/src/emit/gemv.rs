//! A vector times a matrix: as fast as the matrix can be read, which begins before the vector is
//! known. A loop that makes the vector (a norm) is computed by every block for itself, and a loop that
//! takes the result (an activation) as its elements appear, so that the three are one launch.

use super::access::{self, split};
use super::body::{Body, Writer};
use super::kernels::Operand;
use super::scalar::stored;
use super::{Arg, Kernel, WAIT, partials, rows};
use ir::{DType, Graph, Meaning, Slot};
use passes::{Along, Loop, Step};
use std::fmt::Write;

/// Threads of a block: a warp for each point.
const BLOCK: usize = 256;
const WARPS: usize = BLOCK / 32;
/// Blocks that run at once where a thread holds little, and where it reads ahead.
const FIRST: usize = 396;
const STEADY: usize = 264;
/// Loads a thread has on their way at once.
const HELD: usize = 8;
/// The longest vector that every block may make for itself.
const MADE_MAX: usize = 1 << 13;
/// Elements of the product that a point of a loop may take.
const TAKEN_MAX: usize = 4;

/// A product of one row with a matrix, and the loops that go along with it.
pub struct Chain<'a> {
    /// The graph they are of.
    pub graph: &'a Graph,
    /// What makes the vector.
    pub before: Option<&'a Loop>,
    /// The vector, the matrix, and perhaps what is added.
    pub args: &'a [Operand],
    /// The product.
    pub y: &'a Operand,
    /// What takes the product.
    pub behind: Option<&'a Loop>,
    /// A launch of the same run precedes it, so that the matrix can be read before that ends.
    pub is_later: bool,
}

/// True for the product of one row with a matrix whose columns lie in memory one after the other.
pub fn fits(args: &[Operand], y: &Operand) -> bool {
    let (x, w) = (&args[0], &args[1]);
    let is_float = matches!(y.ty.dtype, DType::F32 | DType::BF16 | DType::F16);
    let [rows, columns] = *y.ty.shape.dims() else { return false };
    if !is_float || rows != 1 || w.ty.shape.rank() != 2 || x.ty.shape.rank() != 2 || columns == 0 {
        return false;
    }
    let (inner, each) = (w.ty.shape[0], 16 / y.ty.dtype.size());
    // The first step is along a column of the matrix, the second to the next column.
    let (unit, step) = (w.layout.strides[0], w.layout.strides[1]);
    unit == 1
        && inner > 0
        && step >= inner as isize
        && x.layout.strides[1] == 1
        && [inner, step.unsigned_abs(), w.layout.offset, x.layout.offset].into_iter().all(|n| n.is_multiple_of(each))
}

/// True if every block may compute a loop for itself: one short row, reduced on the way, that becomes
/// the vector `x`.
pub fn may_make(l: &Loop, x: &Operand) -> bool {
    let is_row = |s: &Step| match s {
        Step::Reduce { along, after, .. } => *along == Along::Row && !after,
        _ => true,
    };
    let is_reduced = l.steps.iter().any(|s| matches!(s, Step::Reduce { .. })) && l.steps.iter().all(is_row);
    let mut stores = l.stores.iter().filter(|s| s.slot == x.slot);
    let is_stored = matches!((stores.next(), stores.next()), (Some(s), None) if s.offset == 0 && s.strides[..] == [1]);
    let is_whole = x.layout.is_contiguous() && x.layout.offset == 0 && x.ty.shape.count() == l.columns();
    is_reduced && is_stored && is_whole && l.producer.is_none() && l.dims.len() == 1 && l.columns() <= MADE_MAX
}

/// True if a loop can take the elements of a product of `columns` as they appear: it takes none twice.
pub fn may_take(l: &Loop, y: Slot, columns: usize) -> bool {
    let is_plain = l.producer.is_none() && !l.steps.iter().any(|s| matches!(s, Step::Reduce { .. }));
    let taken = taken(l, y).len();
    is_plain && (1..=TAKEN_MAX).contains(&taken) && taken * l.rows() * l.columns() <= columns
}

/// The steps that load the product.
pub(super) fn taken(l: &Loop, y: Slot) -> Vec<usize> {
    let is_load = |s: &Step| matches!(s, Step::Load { root, .. } if *root == y);
    (0..l.steps.len()).filter(|&i| is_load(&l.steps[i])).collect()
}

/// How the work is spread.
struct Geometry {
    /// Elements of a load.
    each: usize,
    inner: usize,
    /// Loads a thread has on their way, and how often it has so many for an element.
    held: usize,
    chunks: usize,
    /// Points, elements of the product for each, and blocks.
    points: usize,
    taken: usize,
    grid: usize,
    /// The next loads are on their way while these are used.
    is_ahead: bool,
}

impl Geometry {
    fn new(c: &Chain) -> Geometry {
        let (inner, each) = (c.args[1].ty.shape[0], 16 / c.y.ty.dtype.size());
        let loads = inner.div_ceil(32 * each);
        let held = loads.min(HELD);
        let (points, taken) = match c.behind {
            Some(l) => (l.rows() * l.columns(), taken(l, c.y.slot).len()),
            None => (c.y.ty.shape[1], 1),
        };
        let (blocks, chunks) = (points.div_ceil(WARPS), loads.div_ceil(held));
        let is_ahead = chunks * taken > 1 || blocks > FIRST;
        Geometry {
            each,
            inner,
            held,
            chunks,
            points,
            taken,
            grid: blocks.min(if is_ahead { STEADY } else { FIRST }),
            is_ahead,
        }
    }
    /// True if some lanes have nothing to load at the end of a column.
    fn is_ragged(&self) -> bool {
        self.held * self.chunks * 32 * self.each != self.inner
    }
}

/// The launch being written: parameters, their arguments, functions before the kernel.
#[derive(Default)]
pub(super) struct Launch {
    pub params: Vec<String>,
    pub args: Vec<Arg>,
    pub functions: String,
}

impl Launch {
    /// A pointer, or a number, under a name.
    pub fn param(&mut self, ty: &str, name: &str, arg: Arg) {
        let apart = if ty.ends_with('*') { " __restrict__" } else { "" };
        self.params.push(format!("{ty}{apart} {name}"));
        self.args.push(arg);
    }
    /// A function of a loop's text; the call of it, where `inside` is passed for a value that is no
    /// parameter of the kernel.
    pub fn function(&mut self, name: &str, head: &str, w: Writer, inside: Option<(Slot, &str)>) -> String {
        let (text, params, args) = w.parts();
        let _ = write!(self.functions, "FN void {name}({head}, {}) {{\n{text}}}\n", params.join(", "));
        let mut call = Vec::new();
        for (param, arg) in params.iter().zip(args) {
            match inside {
                Some((slot, memory)) if arg == Arg::Value(slot) => call.push(memory.to_string()),
                _ => {
                    let ty = param.rsplit_once(' ').map_or("", |(ty, _)| ty).replace(" __restrict__", "");
                    let own = format!("{name}{}", self.args.len());
                    self.param(&ty, &own, arg);
                    call.push(own);
                }
            }
        }
        call.join(", ")
    }
}

/// The kernel.
pub fn lower(c: &Chain) -> Kernel {
    let s = Geometry::new(c);
    let (x, w) = (&c.args[0], &c.args[1]);
    let ty = stored(c.y.ty.dtype);
    let mut out = Launch::default();
    out.param(&format!("const {ty}*"), "weights", Arg::Value(w.slot));
    let made = c.before.map(|l| {
        let body = Body::new(l, c.graph, false, |_| true, true);
        let writer = rows::inside(&body, x.slot, BLOCK);
        let call = out.function("before", "const bool is_first", writer, Some((x.slot, "made")));
        format!("__shared__ alignas(16) {ty} made[{}];\nbefore(blockIdx.x == 0, {call});\n__syncthreads();\n", s.inner)
    });
    let vector = match made {
        Some(text) => text + &format!("const {ty}* x = made;\n"),
        None => {
            out.param(&format!("const {ty}*"), "given", Arg::Value(x.slot));
            format!("const {ty}* x = given + {};\n", x.layout.offset)
        }
    };
    let added = c.args.get(2).map_or(String::new(), |b| {
        out.param(&format!("const {ty}*"), "bias", Arg::Value(b.slot));
        format!(" + get(bias[{} + COLUMN])", b.layout.offset)
    });
    let (places, columns, finish) = result(c, &added, &mut out);
    loads(&s, c.y.ty.dtype, c.before.is_some(), &mut out.functions);
    let columns: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(i, at)| format!("if (which == {i}) return w + ({at}) * (idx){};\n", w.layout.strides[1]))
        .collect();
    // A matrix that nothing of this run has written can be read before the launch before has ended.
    let is_early = c.is_later && matches!(c.graph.node(w.slot).op.meaning, Meaning::Input | Meaning::Const);
    let first = format!("if (first < {}) ask(held, at(first, 0), 0);\n", s.points);
    let (early, late) = if is_early { (first.as_str(), "") } else { ("", first.as_str()) };
    let source = format!(
        "typedef long long idx;\n{functions}\
         extern \"C\" __global__ void __launch_bounds__({BLOCK}, {apart}) run({params}) {{\n\
         const {ty}* w = weights + {offset};\n\
         const auto at = [&](idx n, int which) -> const {ty}* {{\n{places}{columns}return w;\n}};\n\
         const idx first = (idx)blockIdx.x * {WARPS} + threadIdx.x / 32;\n\
         uint4 held[{held}];\n{early}{WAIT}{late}{vector}\
         for (idx n = first; n < {points}; n += {step}) {{\n{body}{places}if (threadIdx.x % 32 == 0) {{\n{finish}}}\n}}\n}}\n",
        functions = out.functions,
        apart = if s.is_ahead { 2 } else { 3 },
        params = out.params.join(", "),
        offset = w.layout.offset,
        columns = columns.concat(),
        held = s.held,
        points = s.points,
        step = s.grid * WARPS,
        body = sums(&s),
    );
    Kernel::new(source, s.grid, BLOCK, out.args)
}

/// The functions that load a chunk of a column, and that multiply it with the vector.
fn loads(s: &Geometry, dtype: DType, is_made: bool, to: &mut String) {
    // Read anew each time: kept for the next column, the vector would leave no registers for it.
    let anew = if is_made { "anew_shared" } else { "anew" };
    let ty = stored(dtype);
    let guard = if s.is_ragged() { format!("if (k < {}) ", s.inner) } else { String::new() };
    let zero = if s.is_ragged() { "to[i] = make_uint4(0, 0, 0, 0);\n" } else { "" };
    // Halves stay two to a word until they are used: apart, each would take a register.
    let halves: &[&str] = if dtype == DType::F32 { &["whole"] } else { &["low", "high"] };
    let product =
        |word: &str, half: &str| format!("sum = sum + {half}_{dtype}(held[i].{word}) * {half}_{dtype}(u.{word});\n");
    let products: Vec<String> =
        ["x", "y", "z", "w"].iter().flat_map(|w| halves.iter().map(move |h| product(w, h))).collect();
    let _ = write!(
        to,
        "FN void ask(uint4* to, const {ty}* column, int chunk) {{\n\
         #pragma unroll\nfor (int i = 0; i < {held}; i++) {{\n\
         const int k = (chunk * {held} + i) * {stride} + threadIdx.x % 32 * {each};\n{zero}{guard}to[i] = once(column + k);\n}}\n}}\n\
         FN float add(const uint4* held, const {ty}* x, int chunk, float sum) {{\n\
         #pragma unroll\nfor (int i = 0; i < {held}; i++) {{\n\
         const int k = (chunk * {held} + i) * {stride} + threadIdx.x % 32 * {each};\n{guard}{{\n\
         const uint4 u = {anew}(x + k);\n\
         {products}}}\n}}\nreturn sum;\n}}\n",
        products = products.concat(),
        held = s.held,
        stride = 32 * s.each,
        each = s.each,
    );
}

/// The sums `s0`… of a point; the loads of the first chunk are on their way.
fn sums(s: &Geometry) -> String {
    let mut text = String::new();
    for which in 0..s.taken {
        let _ = writeln!(text, "float s{which} = 0;");
        for chunk in 0..s.chunks {
            if !s.is_ahead {
                let _ = writeln!(text, "s{which} = add(held, x, {chunk}, s{which});");
                continue;
            }
            let is_last = chunk + 1 == s.chunks;
            let next = match (is_last, which + 1 == s.taken) {
                (true, true) => format!("if (n + {0} < {1}) ask(next, at(n + {0}, 0), 0);\n", s.grid * WARPS, s.points),
                (true, false) => format!("ask(next, at(n, {}), 0);\n", which + 1),
                (false, _) => format!("ask(next, at(n, {which}), {});\n", chunk + 1),
            };
            let _ = write!(
                text,
                "{{\nuint4 next[{held}];\n{next}s{which} = add(held, x, {chunk}, s{which});\n\
                 #pragma unroll\nfor (int i = 0; i < {held}; i++) held[i] = next[i];\n}}\n",
                held = s.held
            );
        }
        let _ = writeln!(text, "s{which} = across<Sum, 32>(s{which});");
    }
    text
}

/// The statements that split a point `n`, the columns it takes, and what is done with their sums.
fn result(c: &Chain, added: &str, out: &mut Launch) -> (String, Vec<String>, String) {
    let dtype = c.y.ty.dtype;
    let Some(l) = c.behind else {
        out.param(&format!("{}*", stored(dtype)), "y", Arg::Value(c.y.slot));
        let sum = format!("s0{}", added.replace("COLUMN", "n"));
        return (String::new(), vec!["n".to_string()], format!("y[{} + n] = put_{dtype}({sum});\n", c.y.layout.offset));
    };
    let (places, at) = split(&l.dims, "n", "i");
    let index = |i: usize| match &l.steps[i] {
        Step::Load { strides, offset, .. } => access::index(strides, *offset, &at),
        _ => "0".to_string(),
    };
    let columns: Vec<String> = taken(l, c.y.slot).into_iter().map(index).collect();
    let given: Vec<(usize, String)> =
        taken(l, c.y.slot).into_iter().enumerate().map(|(k, step)| (step, format!("s{k}"))).collect();
    let body = Body::new(l, c.graph, false, |_| true, true);
    let head: Vec<String> = given.iter().map(|(_, s)| format!("const float {s}")).collect();
    let writer = point(&body, &given);
    let call = out.function("behind", &format!("idx n, {}", head.join(", ")), writer, None);
    let rounded = |(k, at): (usize, &String)| {
        let sum = format!("s{k}{}", added.replace("COLUMN", &format!("({at})")));
        partials::rounded(&sum, dtype)
    };
    let sums: Vec<String> = columns.iter().enumerate().map(rounded).collect();
    (places + "\n", columns, format!("behind(n, {}, {call});\n", sums.join(", ")))
}

/// The text of a loop at its point `n`, where some of what it loads has a name already.
pub(super) fn point<'b, 'a>(b: &'b Body<'a>, given: &[(usize, String)]) -> Writer<'b, 'a> {
    let mut w = Writer::new(b);
    let (text, at) = split(&b.l.dims, "n", "i");
    w.put(text + "\n");
    let names = w.steps_given(&at, given);
    for s in &b.stores {
        let (p, dtype) = (w.target(s.slot), b.graph.ty(s.slot).dtype);
        let value = b.val(s.step as usize, &names).text;
        w.put(format!("{p}[{}] = put_{dtype}({value});\n", access::index(&s.strides, s.offset, &at)));
    }
    w
}
