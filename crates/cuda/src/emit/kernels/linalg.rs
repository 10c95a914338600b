//! Linear algebra: a block for each matrix of a batch. The factors are computed in scratch space, in f32 or f64.

use super::{Call, Operand, Text};
use crate::claims::Claim;
use crate::emit::scalar::Class;
use crate::emit::{Arg, Kernel};
use ir::Attrs;

/// Factorizations and what is computed by them.
pub static CLAIMS: &[Claim] = &[
    Claim { scratch, failure: Some(("matrix", "is not positive definite")), ..Claim::new("cholesky", cholesky) },
    Claim { scratch: triangular_scratch, failure: SINGULAR, ..Claim::new("triangular_solve", triangular_solve) },
    Claim { scratch, failure: SINGULAR, ..Claim::new("solve", solve) },
    Claim { scratch, failure: SINGULAR, ..Claim::new("inv", inv) },
    Claim { scratch, ..Claim::new("det", det) },
    Claim { scratch, ..Claim::new("slogdet", slogdet) },
    Claim { scratch, ..Claim::new("lu", lu) },
    Claim { scratch, ..Claim::new("qr", qr) },
];

const SINGULAR: Option<(&str, &str)> = Some(("matrix", "is singular"));
const THREADS: usize = 256;

/// A batch of matrices with their share of the scratch space.
struct Batch<'a> {
    a: &'a Operand,
    /// Matrices, their rows and columns.
    count: usize,
    m: usize,
    n: usize,
    /// The type that is computed in.
    class: Class,
    /// Elements of the second matrix of the scratch space.
    other: usize,
}

impl<'a> Batch<'a> {
    /// `other`: columns of a second matrix with as many rows.
    fn new(a: &'a Operand, columns: usize) -> Option<Batch<'a>> {
        let [.., m, n] = *a.ty.shape.dims() else { return None };
        let count = a.ty.shape.count().checked_div(m * n).unwrap_or(0);
        let is_small = i32::try_from(m.max(n).max(columns)).is_ok();
        (count > 0 && is_small).then(|| Batch { a, count, m, n, class: Class::of(a.ty.dtype), other: m * columns })
    }
    /// Elements of a matrix, of the second, and of a vector of factors; the vector of row numbers counts as such too.
    fn each(&self) -> usize {
        self.m * self.n + self.other + 2 * self.m.max(self.n)
    }
    /// The statements all kernels begin with: the operand as `w`, room for the second matrix `x`, factors `t` and row
    /// numbers `order`. `element` is what goes to `w` at row `i` and column `j`.
    fn start(&self, element: &str) -> String {
        let (m, n, class) = (self.m, self.n, self.class.c());
        format!(
            "const idx number = blockIdx.x, from = number * {size};\n\
             {class}* w = work + number * {each};\n{class}* x = w + {size};\n{class}* t = x + {other};\n\
             int* order = (int*)(t + {longest});\n\
             #pragma unroll 8\nfor (int e = threadIdx.x; e < {size}; e += {THREADS}) {{\n\
             const int i = e / {n}, j = e % {n};\nw[e] = {element};\n}}\n\
             __syncthreads();\n",
            size = m * n,
            each = self.each(),
            other = self.other,
            longest = m.max(n),
        )
    }
    /// The kernel with this body. `t` has the other operands and the results.
    fn kernel(&self, t: Text, body: &str) -> Option<Vec<Kernel>> {
        let t = t.reads("a", self.a).memory("work", self.class.c(), Arg::Scratch(0));
        t.blocks(self.count, THREADS, body)
    }
}

/// The columns of the second matrix that an op needs: those of its second operand, or as many as the first has rows.
fn columns(args: &[Operand]) -> usize {
    let last = |o: &Operand| o.ty.shape.last().copied().unwrap_or(0);
    match args {
        [_, b, ..] => last(b),
        [a] => a.ty.shape.iter().rev().nth(1).copied().unwrap_or(0),
        [] => 0,
    }
}

fn batch(args: &[Operand]) -> Option<Batch<'_>> {
    Batch::new(&args[0], columns(args))
}

fn scratch(_: &Attrs, args: &[Operand]) -> usize {
    batch(args).map_or(0, |b| b.count * b.each() * b.class.size())
}

/// A statement that reports a matrix.
const REPORT: &str = "if (threadIdx.x == 0) checked(number, 0, report, launch);\n";

/// Statements that store `count` elements of a result, each by an expression of `e`.
fn store(y: &Operand, name: &str, count: usize, element: &str) -> String {
    let dtype = y.ty.dtype;
    format!(
        "#pragma unroll 8\n\
         for (int e = threadIdx.x; e < {count}; e += {THREADS}) {name}[number * {count} + e] = put_{dtype}({element});\n"
    )
}

fn element(at: &str) -> String {
    format!("get(a[from + {at}])")
}

fn cholesky(c: &Call) -> Option<Vec<Kernel>> {
    let b = batch(c.args)?;
    let (n, y) = (b.n, &c.outs[0]);
    let (lower, upper) = (format!("i * {n} + j"), format!("j * {n} + i"));
    let read = match c.attrs.str("triangle").ok()? {
        "upper" => element(&upper),
        "lower" => element(&lower),
        _ => format!("({} + {}) / 2", element(&lower), element(&upper)),
    };
    let body = format!(
        "{}const bool is_done = cholesky(w, {n});\nif (!is_done) {{\n{REPORT}}}\n{}",
        b.start(&read),
        store(y, "y", n * n, &format!("e % {n} <= e / {n} ? w[e] : 0"))
    );
    b.kernel(Text::new().writes("y", y).reports(), &body)
}

/// Statements that fill the second matrix with the rows of the right sides.
fn right_sides(b: &Batch, element: &str) -> String {
    let k = b.other / b.m.max(1);
    format!(
        "#pragma unroll 8\n\
         for (int e = threadIdx.x; e < {}; e += {THREADS}) {{\nconst int i = e / {k}, j = e % {k};\nx[e] = {element};\n}}\n\
         __syncthreads();\n",
        b.other
    )
}

/// Blocks that keep a GPU busy, and the fewest right sides of one.
const BLOCKS: usize = 264;
const SIDES_MIN: usize = 32;

/// How the right sides of triangular systems are divided between blocks: parts, and right sides of each.
fn divided(b: &Batch) -> (usize, usize) {
    let k = b.other / b.m.max(1);
    let parts = (BLOCKS / b.count).clamp(1, k.div_ceil(SIDES_MIN).max(1));
    let each = k.div_ceil(parts).next_multiple_of(SIDES_MIN).clamp(1, k.max(1));
    (k.div_ceil(each).max(1), each)
}
fn triangular_scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    match batch(args) {
        Some(b) if b.class.size() == b.a.ty.dtype.size() => {
            let (parts, each) = divided(&b);
            b.count * parts * b.m * each * b.class.size()
        }
        _ => scratch(attrs, args),
    }
}

/// Triangular systems whose matrices are read where they are: a block for some of the right sides of one.
fn divided_solve(c: &Call, b: &Batch) -> Option<Vec<Kernel>> {
    let (n, k, y, class) = (b.n, b.other / b.m.max(1), &c.outs[0], b.class.c());
    let (is_upper, is_unit) = (c.attrs.bool("upper").ok()?, c.attrs.bool("unit").ok()?);
    let (parts, each) = divided(b);
    let place = format!("number * {} + e / sides * {k} + first + e % sides", n * k);
    let body = format!(
        "const idx number = blockIdx.x / {parts};\n\
         const int first = blockIdx.x % {parts} * {each}, sides = min({each}, {k} - first);\n\
         {class}* x = work + (idx)blockIdx.x * {};\n\
         #pragma unroll 8\nfor (int e = threadIdx.x; e < {n} * sides; e += {THREADS}) x[e] = get(b[{place}]);\n\
         __syncthreads();\n\
         const bool is_done = substitute(a + number * {}, {n}, x, {n}, sides, {is_upper}, {is_unit});\n\
         if (!is_done) {{\n{REPORT}}}\n\
         #pragma unroll 8\nfor (int e = threadIdx.x; e < {n} * sides; e += {THREADS}) y[{place}] = put_{}(x[e]);\n",
        n * each,
        n * n,
        y.ty.dtype
    );
    let t = Text::new().reads("b", &c.args[1]).writes("y", y).reports().reads("a", b.a);
    t.memory("work", class, Arg::Scratch(0)).blocks(b.count * parts, THREADS, &body)
}

fn triangular_solve(c: &Call) -> Option<Vec<Kernel>> {
    let b = batch(c.args)?;
    if b.class.size() == b.a.ty.dtype.size() {
        return divided_solve(c, &b);
    }
    let (n, k, y) = (b.n, b.other / b.m.max(1), &c.outs[0]);
    let (is_upper, is_unit) = (c.attrs.bool("upper").ok()?, c.attrs.bool("unit").ok()?);
    let body = format!(
        "{}{}const bool is_done = substitute(w, {n}, x, {n}, {k}, {is_upper}, {is_unit});\nif (!is_done) {{\n{REPORT}}}\n{}",
        b.start(&element(&format!("i * {n} + j"))),
        right_sides(&b, &format!("get(b[number * {} + e])", b.other)),
        store(y, "y", b.other, "x[e]")
    );
    b.kernel(Text::new().reads("b", &c.args[1]).writes("y", y).reports(), &body)
}

/// The statements that factor the operand by LU.
fn factored(b: &Batch) -> String {
    let (m, n) = (b.m, b.n);
    format!("{}const int sign = factor_lu(w, {m}, {n}, order);\n", b.start(&element(&format!("i * {n} + j"))))
}

/// X with A X = B, where `side` is the element of B at row `order[i]` and column `j`.
fn solved(b: &Batch, y: &Operand, side: &str) -> String {
    let (n, k) = (b.n, b.other / b.m.max(1));
    format!(
        "{}if (sign == 0) {{\n{REPORT}}}\n{}\
         substitute(w, {n}, x, {n}, {k}, false, true);\n\
         substitute(w, {n}, x, {n}, {k}, true, false);\n{}",
        factored(b),
        right_sides(b, side),
        store(y, "y", b.other, "x[e]")
    )
}

fn solve(c: &Call) -> Option<Vec<Kernel>> {
    let b = batch(c.args)?;
    let (k, y) = (b.other / b.m.max(1), &c.outs[0]);
    let body = solved(&b, y, &format!("get(b[number * {} + order[i] * {k} + j])", b.other));
    b.kernel(Text::new().reads("b", &c.args[1]).writes("y", y).reports(), &body)
}

fn inv(c: &Call) -> Option<Vec<Kernel>> {
    let b = batch(c.args)?;
    let y = &c.outs[0];
    b.kernel(Text::new().writes("y", y).reports(), &solved(&b, y, "order[i] == j"))
}

fn det(c: &Call) -> Option<Vec<Kernel>> {
    let b = batch(c.args)?;
    let (n, y, class) = (b.n, &c.outs[0], b.class.c());
    let body = format!(
        "{}if (threadIdx.x == 0) {{\ndouble all = sign;\n\
         for (int i = 0; i < {n}; i++) all *= w[(idx)i * {n} + i];\n\
         y[number] = put_{}(({class})all);\n}}\n",
        factored(&b),
        y.ty.dtype
    );
    b.kernel(Text::new().writes("y", y), &body)
}

fn slogdet(c: &Call) -> Option<Vec<Kernel>> {
    let b = batch(c.args)?;
    let (n, class, dtype) = (b.n, b.class.c(), c.outs[0].ty.dtype);
    let body = format!(
        "{}if (threadIdx.x == 0) {{\nint s = sign;\ndouble all = 0;\n\
         for (int i = 0; i < {n}; i++) {{\nconst double d = w[(idx)i * {n} + i];\ns = d < 0 ? -s : s;\nall += log(fabs(d));\n}}\n\
         y[number] = put_{dtype}(({class})s);\nlogs[number] = put_{dtype}(({class})all);\n}}\n",
        factored(&b),
    );
    b.kernel(Text::new().writes("y", &c.outs[0]).writes("logs", &c.outs[1]), &body)
}

fn lu(c: &Call) -> Option<Vec<Kernel>> {
    let b = batch(c.args)?;
    let (m, n) = (b.m, b.n);
    let k = m.min(n);
    let lower = format!("e / {k} > e % {k} ? w[e / {k} * {n} + e % {k}] : e / {k} == e % {k}");
    let body = format!(
        "{}(void)sign;\n{}{}{}",
        factored(&b),
        store(&c.outs[0], "p", m * m, &format!("order[e % {m}] == e / {m}")),
        store(&c.outs[1], "l", m * k, &lower),
        store(&c.outs[2], "u", k * n, &format!("e / {n} <= e % {n} ? w[e] : 0")),
    );
    let [p, l, u] = c.outs else { return None };
    b.kernel(Text::new().writes("p", p).writes("l", l).writes("u", u), &body)
}

fn qr(c: &Call) -> Option<Vec<Kernel>> {
    let b = batch(c.args)?;
    let (m, n, [q, r]) = (b.m, b.n, c.outs) else { return None };
    let k = *q.ty.shape.last()?;
    let body = format!(
        "{}factor_qr(w, {m}, {n}, t);\n\
         for (int e = threadIdx.x; e < {}; e += {THREADS}) x[e] = e / {k} == e % {k};\n\
         __syncthreads();\n\
         for (int j = {last}; j >= 0; j--) reflect(w, {n}ll, j, {m}, t[j], x, {k}ll, 0, {k});\n{}{}",
        b.start(&element(&format!("i * {n} + j"))),
        m * k,
        store(q, "q", m * k, "x[e]"),
        store(r, "r", k * n, &format!("e / {n} <= e % {n} ? w[e] : 0")),
        last = m.min(n) as isize - 1,
    );
    b.kernel(Text::new().writes("q", q).writes("r", r), &body)
}
