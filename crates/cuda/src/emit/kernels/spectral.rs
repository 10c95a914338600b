//! Eigenvalues and singular values by Jacobi's method, and other functions of matrices by a block each. A large matrix
//! has a cluster of blocks. Numbers are real or pairs; 16-bit floats are computed in f32.

use super::{Call, Operand, Text};
use crate::claims::Claim;
use crate::emit::Kernel;
use crate::emit::scalar::Class;
use ir::Attrs;

/// Functions of matrices.
pub static CLAIMS: &[Claim] = &[
    Claim { scratch: |_, args| bytes(Matrices::real(&args[0]), |b| b.eigh_room()), ..Claim::new("eigh", eigh) },
    Claim { scratch: |_, args| bytes(Matrices::pairs(&args[0]), |b| b.eigh_room()), ..Claim::new("eigh_pairs", eigh) },
    Claim { scratch: |a, args| bytes(Matrices::real(&args[0]), |b| b.svd_room(is_full(a))), ..Claim::new("svd", svd) },
    Claim {
        scratch: |a, args| bytes(Matrices::pairs(&args[0]), |b| b.svd_room(is_full(a))),
        ..Claim::new("svd_pairs", svd)
    },
    Claim { scratch: |_, args| bytes(Matrices::real(&args[0]), |b| b.svd_room(false)), ..Claim::new("pinv", pinv) },
    Claim { scratch: |_, args| bytes(Matrices::real(&args[0]), cofactor_room), ..Claim::new("cofactor", cofactor) },
    Claim { scratch: |_, args| bytes(Matrices::real(&args[0]), |b| 6 * b.m * b.n), ..Claim::new("matrix_exp", exp) },
    Claim { scratch: qr_scratch, ..Claim::new("qr_pairs", qr) },
    Claim {
        scratch: |_, args| bytes(Matrices::pairs(&args[0]), |b| 6 * b.n * b.n + 8 * b.n),
        failure: Some(("matrix", "has eigenvalues that were not found")),
        ..Claim::new("eig_pairs", eig)
    },
];

const THREADS: usize = 256;
/// Blocks of a cluster at most, vectors from which on a matrix has one, and blocks that keep the device busy.
const PARTS_MAX: usize = 8;
const PARTS_FROM: usize = 96;
const BLOCKS: usize = 264;

/// A batch of matrices.
struct Matrices<'a> {
    a: &'a Operand,
    /// Matrices, their rows and columns.
    count: usize,
    m: usize,
    n: usize,
    class: Class,
    /// Elements are complex, a pair each.
    is_pairs: bool,
}

impl<'a> Matrices<'a> {
    fn real(a: &'a Operand) -> Option<Matrices<'a>> {
        Matrices::new(a, false, &a.ty.shape)
    }
    fn pairs(a: &'a Operand) -> Option<Matrices<'a>> {
        Matrices::new(a, true, &a.ty.shape[..a.ty.shape.rank() - 1])
    }
    /// Of pairs if the op is of them: its results have a dimension more than matrices.
    fn of(c: &'a Call, is_pairs: bool) -> Option<Matrices<'a>> {
        if is_pairs { Matrices::pairs(&c.args[0]) } else { Matrices::real(&c.args[0]) }
    }
    fn new(a: &'a Operand, is_pairs: bool, dims: &[usize]) -> Option<Matrices<'a>> {
        let [.., m, n] = *dims else { return None };
        let count = dims.iter().product::<usize>().checked_div(m * n).unwrap_or(0);
        let class = Class::of(a.ty.dtype);
        // Places within a matrix are counted in 32 bits.
        let is_small = i32::try_from(m.max(n).pow(2)).is_ok();
        (count > 0 && is_small).then_some(Matrices { a, count, m, n, class, is_pairs })
    }
    /// Numbers of the class that an element is.
    fn wide(&self) -> usize {
        1 + usize::from(self.is_pairs)
    }
    /// Blocks of a matrix of so many vectors.
    fn parts(&self, vectors: usize, major: u32) -> usize {
        if major < 9 || vectors < PARTS_FROM {
            return 1;
        }
        let most = (BLOCKS / self.count).clamp(1, PARTS_MAX);
        if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 }
    }
    /// Numbers of scratch space a matrix needs: two matrices, values, their order and flags.
    fn eigh_room(&self) -> usize {
        2 * self.wide() * self.n * self.n + 2 * self.n + PARTS_MAX
    }
    fn svd_room(&self, is_full: bool) -> usize {
        let (length, count) = (self.m.max(self.n), self.m.min(self.n));
        let want = if is_full { length } else { count };
        self.wide() * (want * length + count * count + length) + count + length + PARTS_MAX
    }
    /// Types, and the matrix `number` of scratch space `each` with its elements as `raw(i, j)`.
    fn start(&self, parts: usize, each: usize) -> String {
        let (n, class) = (self.n, self.class.c());
        let (number, element) = if self.is_pairs {
            (format!("Cx<{class}>"), "N{get(a[2 * at]), get(a[2 * at + 1])}")
        } else {
            (class.to_string(), "get(a[at])")
        };
        format!(
            "typedef {class} R;\ntypedef {number} N;\nconstexpr int PARTS = {parts}, STEP = PARTS * {THREADS};\n\
             const idx number = blockIdx.x / PARTS, from = number * {};\n\
             const int first = blockIdx.x % PARTS * {THREADS} + threadIdx.x;\n\
             N* w = (N*)(work + number * {each});\n\
             auto raw = [&](int i, int j) -> N {{ const idx at = from + (idx)i * {n} + j; return {element}; }};\n",
            self.m * n,
        )
    }
    /// The kernel with this body. `t` has the results.
    fn kernel(&self, t: Text, parts: usize, body: &str) -> Option<Vec<Kernel>> {
        let t = t.reads("a", self.a).memory("work", self.class.c(), crate::emit::Arg::Scratch(0));
        let mut kernels = t.blocks(self.count * parts, THREADS, body)?;
        if parts > 1 {
            kernels.iter_mut().for_each(|k| k.spread_over_clusters(parts));
        }
        Some(kernels)
    }
}

fn bytes(b: Option<Matrices>, room: impl Fn(&Matrices) -> usize) -> usize {
    b.map_or(0, |b| b.count * room(&b) * b.class.size())
}
fn is_full(attrs: &Attrs) -> bool {
    attrs.bool("full") == Ok(true)
}

/// Statements that store `count` elements of a result, each by an expression of `e`; pairs if it is one.
fn store(y: &Operand, name: &str, count: usize, is_pairs: bool, element: &str) -> String {
    let dtype = y.ty.dtype;
    let put = if is_pairs {
        format!(
            "{name}[2 * (number * {count} + e)] = put_{dtype}(value.re);\n\
             {name}[2 * (number * {count} + e) + 1] = put_{dtype}(value.im);\n"
        )
    } else {
        format!("{name}[number * {count} + e] = put_{dtype}(value);\n")
    };
    format!("for (int e = first; e < {count}; e += STEP) {{\nconst auto value = {element};\n{put}}}\n")
}

fn eigh(c: &Call) -> Option<Vec<Kernel>> {
    let [values, vectors] = c.outs else { return None };
    let is_pairs = vectors.ty.shape.rank() == values.ty.shape.rank() + 2;
    let b = Matrices::of(c, is_pairs)?;
    let (n, parts) = (b.n, b.parts(b.n, c.major));
    let read = match c.attrs.str("triangle").ok()? {
        "upper" => "i < j ? raw(i, j) : conj_of(raw(j, i))",
        "lower" => "i > j ? raw(i, j) : conj_of(raw(j, i))",
        _ => "(raw(i, j) + conj_of(raw(j, i))) * (R)0.5",
    };
    let body = format!(
        "{}N* v = w + {size};\nR* values = (R*)(v + {size});\nint* order = (int*)(values + {n});\nint* flags = order + {n};\n\
         auto at = [&](int i, int j) -> N {{ return i == j ? From<N>::real(real_of(raw(i, i))) : {read}; }};\n\
         jacobi_eigh<PARTS>(at, {n}, w, v, values, order, flags);\n{}{}",
        b.start(parts, b.eigh_room()),
        store(values, "y", n, false, "values[order[e]]"),
        store(vectors, "z", n * n, is_pairs, &format!("v[(idx)order[e % {n}] * {n} + e / {n}]")),
        size = n * n,
    );
    b.kernel(Text::new().writes("y", values).writes("z", vectors), parts, &body)
}

/// Statements that compute the decomposition: singular vectors as rows of `left` and `right`, their number by `order`.
fn decomposed(b: &Matrices, parts: usize, is_full: bool, has_vectors: bool) -> String {
    let (length, count) = (b.m.max(b.n), b.m.min(b.n));
    let want = if is_full { length } else { count };
    let is_tall = b.m >= b.n;
    format!(
        "{}N* v = w + {};\nN* dots = v + {};\nR* values = (R*)(dots + {length});\nint* order = (int*)(values + {count});\n\
         int* flags = order + {length};\n\
         auto at = [&](int i, int j) -> N {{ return {}; }};\n\
         jacobi_svd<PARTS, {has_vectors}>(at, {length}, {count}, {want}, w, v, values, order, flags, dots);\n\
         N* left = {};\nN* right = {};\n",
        b.start(parts, b.svd_room(is_full)),
        want * length,
        count * count,
        if is_tall { "raw(i, j)" } else { "conj_of(raw(j, i))" },
        if is_tall { "w" } else { "v" },
        if is_tall { "v" } else { "w" },
    )
}

fn svd(c: &Call) -> Option<Vec<Kernel>> {
    let [u, s, vh] = c.outs else { return None };
    let is_pairs = u.ty.shape.rank() == s.ty.shape.rank() + 2;
    let b = Matrices::of(c, is_pairs)?;
    let (m, n, is_full) = (b.m, b.n, is_full(c.attrs));
    let (length, count) = (m.max(n), m.min(n));
    let want = if is_full { length } else { count };
    let (left, right) = if is_full { (m, n) } else { (count, count) };
    let parts = b.parts(count, c.major);
    let has_vectors = c.is_read(0) || c.is_read(2);
    let mut body = decomposed(&b, parts, is_full, has_vectors);
    if has_vectors {
        body += &format!("settle_pairs<PARTS>(left, {m}, right, {n}, {count}, w, {length}, {want});\n");
        body += &store(u, "u", m * left, is_pairs, &format!("left[(idx)order[e % {left}] * {m} + e / {left}]"));
        body += &store(vh, "vh", right * n, is_pairs, &format!("conj_of(right[(idx)order[e / {n}] * {n} + e % {n}])"));
    } else {
        body += "(void)left;\n(void)right;\n";
    }
    body += &store(s, "s", count, false, "values[order[e]]");
    b.kernel(Text::new().writes("u", u).writes("s", s).writes("vh", vh), parts, &body)
}

fn pinv(c: &Call) -> Option<Vec<Kernel>> {
    let (b, y) = (Matrices::real(&c.args[0])?, &c.outs[0]);
    let (m, n, count) = (b.m, b.n, b.m.min(b.n));
    let rtol = c.attrs.float("rtol").ok()?;
    let parts = b.parts(count, c.major);
    let body = format!(
        "{}const R least = values[order[0]] * (R){rtol:e};\n\
         auto product = [&](int i, int j) -> R {{\nR sum = 0;\n\
         for (int k = 0; k < {count}; k++) {{\n\
         const R s = values[k];\n\
         if (!(s <= least)) sum += right[(idx)k * {n} + i] * left[(idx)k * {m} + j] / s;\n}}\nreturn sum;\n}};\n{}",
        decomposed(&b, parts, false, true),
        store(y, "y", n * m, false, &format!("product(e / {m}, e % {m})")),
    );
    b.kernel(Text::new().writes("y", y), parts, &body)
}

/// Two matrices, a vector and row numbers before what the decomposition needs.
fn cofactor_room(b: &Matrices) -> usize {
    2 * b.n * b.n + 2 * b.n + b.svd_room(false)
}

/// The determinant times the inverse where pivots are good, through singular values elsewhere: the product of all but
/// one needs no division.
fn cofactor(c: &Call) -> Option<Vec<Kernel>> {
    let (b, y) = (Matrices::real(&c.args[0])?, &c.outs[0]);
    let n = b.n;
    let (size, room) = (n * n, cofactor_room(&b));
    let least = if b.class == Class::F32 { "1e-3f" } else { "1e-6" };
    let fill = |to: &str, value: &str| {
        format!("for (int e = first; e < {size}; e += STEP) {to}[e] = {value};\n__syncthreads();\n")
    };
    let body = format!(
        "{start}R* own = w;\nR* x = own + {size};\nR* others = x + {size};\nint* rows = (int*)(others + {n});\n\
         {load}int sign = factor_lu(own, {n}, {n}, rows);\n\
         R low = fabs(own[0]), high = low;\ndouble det = sign;\n\
         for (int i = 0; i < {n}; i++) {{\nconst R d = own[(idx)i * {n} + i];\nlow = fmin(low, fabs(d));\nhigh = fmax(high, fabs(d));\ndet *= d;\n}}\n\
         if (sign != 0 && low > high * {least}) {{\n{identity}\
         substitute(own, (long long){n}, x, {n}, {n}, false, true);\nsubstitute(own, (long long){n}, x, {n}, {n}, true, false);\n{store_inverse}\
         return;\n}}\n\
         w = (N*)(others + {both});\n{svd}\
         double turn = 1;\n\
         for (int side = 0; side < 2; side++) {{\n{copy}\
         turn *= factor_lu(own, {n}, {n}, rows);\n\
         for (int i = 0; i < {n}; i++) turn = own[(idx)i * {n} + i] < 0 ? -turn : turn;\n__syncthreads();\n}}\n\
         for (int k = first; k < {n}; k += STEP) {{\ndouble all = turn;\n\
         for (int j = 0; j < {n}; j++) all *= j == k ? 1 : values[j];\nothers[k] = (R)all;\n}}\n\
         __syncthreads();\n\
         auto product = [&](int i, int j) -> R {{\nR sum = 0;\n\
         for (int k = 0; k < {n}; k++) sum += left[(idx)k * {n} + i] * others[k] * right[(idx)k * {n} + j];\nreturn sum;\n}};\n{store_product}",
        start = b.start(1, room),
        both = 2 * n,
        load = fill("own", &format!("raw(e / {n}, e % {n})")),
        identity = fill("x", &format!("rows[e / {n}] == e % {n}")),
        store_inverse = store(y, "y", size, false, &format!("(R)(det * x[(idx)(e % {n}) * {n} + e / {n}])")),
        // Types and places are known already.
        svd = decomposed(&b, 1, false, true).split_once("N* v =").map(|(_, rest)| format!("N* v ={rest}"))?,
        copy = fill("own", "(side ? right : left)[e]"),
        store_product = store(y, "y", size, false, &format!("product(e / {n}, e % {n})")),
    );
    b.kernel(Text::new().writes("y", y), 1, &body)
}

fn exp(c: &Call) -> Option<Vec<Kernel>> {
    let (b, y) = (Matrices::real(&c.args[0])?, &c.outs[0]);
    let (n, size) = (b.n, b.n * b.n);
    let body = format!(
        "{}for (int e = first; e < {size}; e += STEP) w[e] = raw(e / {n}, e % {n});\n__syncthreads();\n\
         const R* x = exponential(w, w + {size}, {n});\n{}",
        b.start(1, 6 * size),
        store(y, "y", size, false, "x[e]"),
    );
    b.kernel(Text::new().writes("y", y), 1, &body)
}

/// Columns of Q.
fn q_columns(attrs: &Attrs, b: &Matrices) -> usize {
    if is_full(attrs) { b.m } else { b.m.min(b.n) }
}
fn qr_room(b: &Matrices, columns: usize) -> usize {
    2 * (b.m * b.n + b.m * columns + 2 * b.m.min(b.n))
}
fn qr_scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    bytes(Matrices::pairs(&args[0]), |b| qr_room(b, q_columns(attrs, b)))
}

fn qr(c: &Call) -> Option<Vec<Kernel>> {
    let (b, [q, r]) = (Matrices::pairs(&c.args[0])?, c.outs) else { return None };
    let (m, n, k, steps) = (b.m, b.n, q_columns(c.attrs, &b), b.m.min(b.n));
    let body = format!(
        "{}N* x = w + {size};\nN* heads = x + {};\nN* factors = heads + {steps};\n\
         for (int e = first; e < {size}; e += STEP) w[e] = raw(e / {n}, e % {n});\n\
         for (int e = first; e < {rows}; e += STEP) x[e] = From<N>::real(e / {k} == e % {k});\n__syncthreads();\n\
         factor_pairs(w, {m}, {n}, heads, factors);\n__syncthreads();\n\
         for (int j = {last}; j >= 0; j--)\n\
         if (abs2(factors[j]) > 0) reflect_pairs(w, {n}ll, j, {m}, heads[j], factors[j], x, {k}ll, 0, {k});\n{}{}",
        b.start(1, qr_room(&b, k)),
        m * k,
        store(q, "q", m * k, true, "x[e]"),
        store(r, "r", k * n, true, &format!("e / {n} <= e % {n} ? w[e] : N{{0, 0}}")),
        size = m * n,
        rows = m * k,
        last = steps as isize - 1,
    );
    b.kernel(Text::new().writes("q", q).writes("r", r), 1, &body)
}

fn eig(c: &Call) -> Option<Vec<Kernel>> {
    let (b, [values, vectors]) = (Matrices::pairs(&c.args[0])?, c.outs) else { return None };
    let (n, size) = (b.n, b.n * b.n);
    let body = format!(
        "{}N* q = w + {size};\nN* x = q + {size};\nN* values = x + {size};\nN* sines = values + {n};\n\
         N* diagonal = sines + {n};\nR* cosines = (R*)(diagonal + {n});\n\
         for (int e = first; e < {size}; e += STEP) w[e] = raw(e / {n}, e % {n});\n__syncthreads();\n\
         if (!schur_eig(w, q, x, values, sines, diagonal, cosines, {n})) {{\n\
         if (threadIdx.x == 0) checked(number, 0, report, launch);\n}}\n{}{}",
        b.start(1, 6 * size + 8 * n),
        store(values, "y", n, true, "values[e]"),
        store(vectors, "z", size, true, &format!("w[(idx)(e % {n}) * {n} + e / {n}]")),
    );
    b.kernel(Text::new().writes("y", values).writes("z", vectors).reports(), 1, &body)
}
