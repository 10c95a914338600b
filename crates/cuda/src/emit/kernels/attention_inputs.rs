//! What goes before and behind attention in the library: masks as numbers to add, lengths and keys in
//! the form it takes, and queries that see nothing.

use super::{Operand, Text};
use crate::emit::scalar::stored;
use crate::emit::{Arg, Kernel};
use ir::DType;

/// Threads of the one block that writes a few numbers.
const FEW: usize = 256;

/// Elements of a store of 16 bytes.
const EACH: usize = 8;

/// A mask as numbers of a type to add: rows of `dims[3]`, of which the first `keys` count, at a byte of
/// the scratch space.
pub fn bias(m: &Operand, dtype: DType, dims: [i64; 4], keys: i64, hidden: f64, at: usize) -> Option<Vec<Kernel>> {
    let (count, row) = (dims.iter().product::<i64>() as usize, dims[3]);
    let value = |x: &str| match m.ty.dtype {
        DType::Bool => format!("{x} ? 0.0f : {hidden:e}f"),
        _ => format!("get({x}) < {hidden:e}f ? {hidden:e}f : get({x})"),
    };
    let (name, from, to) = (dtype.name(), stored(m.ty.dtype), stored(dtype));
    let t = Text::new().reads("m", m).memory("bias", to, Arg::Scratch(at));
    if m.ty.shape.count() == count && m.layout.offset.is_multiple_of(EACH) {
        let body = format!(
            "const auto x = ((const pack<{from}, {EACH}>*)m)[i];\npack<{to}, {EACH}> y;\n\
             #pragma unroll\nfor (int k = 0; k < {EACH}; k++) y.at[k] = put_{name}({});\n\
             ((pack<{to}, {EACH}>*)bias)[i] = y;\n",
            value("x.at[k]"),
        );
        return t.each(count / EACH, &body);
    }
    // Rows that have to be aligned, or a mask that says the same of all keys.
    let column = if m.ty.shape.last() == Some(&1) { "row".to_string() } else { format!("row * {keys} + column") };
    let body = format!(
        "const idx row = i / {row}, column = i % {row};\n\
         bias[i] = put_{name}(column < {keys} ? {} : 0.0f);\n",
        value(&format!("m[{column}]")),
    );
    t.each(count, &body)
}

/// Lengths of queries and of keys, from one to how many there are, each in a list of its own; and the
/// seed and offset of a generator from a key. Each comes with the bytes of the scratch space it goes to.
pub fn numbers(
    lengths: Option<(&Operand, [usize; 2])>,
    [queries, keys]: [i64; 2],
    key: Option<(&Operand, [usize; 2])>,
) -> Option<Vec<Kernel>> {
    let (mut t, mut body) = (Text::new(), "const idx i = threadIdx.x;\n".to_string());
    if let Some((l, [a, b])) = lengths {
        t = t.reads("l", l).memory("a", "int", Arg::Scratch(a)).memory("b", "int", Arg::Scratch(b));
        let count = l.ty.shape.count() / 2;
        body += &format!(
            "for (idx k = i; k < {count}; k += {FEW}) {{\n\
             a[k] = min(max(l[k], 1), {queries});\nb[k] = min(max(l[{count} + k], 1), {keys});\n}}\n"
        );
    }
    if let Some((key, [seed, offset])) = key {
        t = t.reads("key", key).memory("seed", "unsigned long long", Arg::Scratch(seed));
        t = t.memory("offset", "unsigned long long", Arg::Scratch(offset));
        // The library's numbers of one offset and the next overlap, so each draw has a seed of its own.
        // So has each part of a draw that several processes share.
        let before = if key.ty.shape.count() == 3 { "(unsigned)key[2]" } else { "0" };
        body += &format!(
            "if (i == 0) {{\nconst unsigned long long s = key[0], c = key[1];\n\
             unsigned w[4] = {{{before}, 0, (unsigned)c, (unsigned)(c >> 32)}};\n\
             philox(w, (unsigned)s, (unsigned)(s >> 32));\n\
             *seed = (unsigned long long)w[0] << 32 | w[1];\n*offset = 0;\n}}\n"
        );
    }
    t.blocks(1, FEW, &body)
}

/// Logarithms of sums with a great number for queries that see nothing, whose weights are 0 then.
pub fn logs(lse: &Operand, hidden: f64, at: usize) -> Option<Vec<Kernel>> {
    let body = format!("logs[i] = lse[i] > {:e}f ? lse[i] : 1e30f;\n", hidden / 2.0);
    let count = lse.ty.shape.count();
    Text::new().reads("lse", lse).memory("logs", "float", Arg::Scratch(at)).each(count, &body)
}

/// Zeros, and −∞ as the logarithm, for queries that see nothing: those behind the end of their sequence, of
/// sequences without keys, or with everything hidden.
pub fn unseen(
    y: &Operand,
    by: &[i64],
    scores: [i64; 4],
    lse: &Operand,
    lengths: Option<&Operand>,
    hidden: f64,
) -> Option<Vec<Kernel>> {
    let [_, heads, queries, _] = scores;
    let depth = y.ty.shape.last().copied().unwrap_or(0);
    let mut t = Text::new().writes("y", y).writes("lse", lse);
    let mut counts = String::new();
    if let Some(o) = lengths {
        t = t.reads("of", o);
        counts = format!(" && l < of[b] && of[{} + b] > 0", o.ty.shape.count() / 2);
    }
    // A thread has 16 bytes of a row. That the row is unseen stays so when its logarithm is written.
    let chunks = depth / EACH;
    let body = format!(
        "const idx row = i / {chunks}, at = i % {chunks} * {EACH};\n\
         const idx b = row / {each}, h = row / {queries} % {heads}, l = row % {queries};\n\
         if (lse[row] > {:e}f{counts}) return;\n\
         *(uint4*)(y + b * {} + h * {} + l * {} + at) = make_uint4(0, 0, 0, 0);\n\
         if (at == 0) lse[row] = __int_as_float(0xff800000);\n",
        hidden / 2.0,
        by[0],
        by[1],
        by[2],
        each = heads * queries,
    );
    t.each(lse.ty.shape.count() * chunks, &body)
}
