//! Kernels that move elements: concatenation, padding, choice by index; numbers from nothing.

use super::{Call, Lanes, Operand, Text, split};
use crate::emit::Kernel;
use crate::emit::scalar::{Class, constant};
use ir::Literal;
use std::fmt::Write;

/// Tensors one after the other along an axis, one kernel each.
pub fn concat(c: &Call) -> Option<Vec<Kernel>> {
    let axis = c.attrs.size("axis").ok()?;
    let out = Lanes::new(&c.outs[0].ty.shape, axis);
    let mut kernels = Vec::new();
    let mut at = 0;
    for a in c.args {
        let part = a.ty.shape[axis] * out.inner;
        if part * out.outer > 0 {
            let body = format!("y[i / {part} * {} + {at} + i % {part}] = x[i];\n", out.size * out.inner);
            kernels.extend(Text::new().reads("x", a).writes("y", &c.outs[0]).each(part * out.outer, &body)?);
        }
        at += part;
    }
    Some(kernels)
}

fn copy(from: &Operand, to: &Operand) -> Option<Vec<Kernel>> {
    Text::new().reads("x", from).writes("y", to).each(to.ty.shape.count(), "y[i] = x[i];\n")
}

/// Values as they are.
pub fn barrier(c: &Call) -> Option<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for (a, o) in c.args.iter().zip(c.outs).filter(|(_, o)| o.ty.shape.count() > 0) {
        kernels.extend(copy(a, o)?);
    }
    Some(kernels)
}

/// A border of one value; negative widths crop.
pub fn pad(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let lo = c.attrs.ints("lo").ok()?;
    let strides = x.ty.shape.strides();
    let fill = constant(&Literal::scalar_f64(y.ty.dtype, c.attrs.float("value").ok()?)).text;
    let mut body = split(&y.ty.shape, "i", "i");
    body += "idx at = 0;\nbool inside = true;\n";
    for d in 0..lo.len() {
        let _ = writeln!(
            body,
            "{{ const idx j = i{d} - ({}); inside &= j >= 0 && j < {}; at += j * {}; }}",
            lo[d], x.ty.shape[d], strides[d]
        );
    }
    let _ = writeln!(body, "if (inside) y[i] = x[at]; else y[i] = put_{}({fill});", y.ty.dtype);
    Text::new().reads("x", x).writes("y", y).each(y.ty.shape.count(), &body)
}

/// Class numbers as they are; one that is no class is reported.
pub fn check_class(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (classes, ignored) = (c.attrs.int("classes").ok()?, c.attrs.int("ignored").ok()?);
    let body = format!("if (x[i] != {ignored}) checked(x[i], {classes}, report, launch);\ny[i] = x[i];\n");
    Text::new().reads("x", x).writes("y", y).reports().each(y.ty.shape.count(), &body)
}

/// Slices chosen along an axis by an index of any shape.
pub fn take(c: &Call) -> Option<Vec<Kernel>> {
    let (x, index, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let l = Lanes::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let n = index.ty.shape.count();
    let body = format!(
        "const idx k = i % {inner}, r = i / {inner}, o = r / {n};\n\
         const idx j = checked(index[r % {n}], {size}, report, launch);\n\
         y[i] = x[(o * {size} + j) * {inner} + k];\n",
        inner = l.inner,
        size = l.size
    );
    let t = Text::new().reads("x", x).reads("index", index).writes("y", y).reports();
    t.each(y.ty.shape.count(), &body)
}

/// The place in `x` that element `i` of an index of the same rank points to, as `at`.
fn place(x: &Operand, index: &Operand, axis: usize) -> String {
    let strides = x.ty.shape.strides();
    let mut body = split(&index.ty.shape, "i", "i");
    let _ = writeln!(body, "idx at = checked(index[i], {}, report, launch) * {};", x.ty.shape[axis], strides[axis]);
    for d in (0..strides.len()).filter(|&d| d != axis) {
        let _ = writeln!(body, "at += i{d} * {};", strides[d]);
    }
    body
}

/// Elements chosen along an axis by an index of the same rank.
pub fn gather(c: &Call) -> Option<Vec<Kernel>> {
    let (x, index, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let body = place(x, index, c.attrs.size("axis").ok()?) + "y[i] = x[at];\n";
    let t = Text::new().reads("x", x).reads("index", index).writes("y", y).reports();
    t.each(y.ty.shape.count(), &body)
}

/// Elements put at, or added to, the places of an index: a thread for each lane along the axis, in
/// order, so that which of equal places wins and how sums are rounded does not change.
pub fn scatter(c: &Call, is_sum: bool) -> Option<Vec<Kernel>> {
    let (x, index, src, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let axis = c.attrs.size("axis").ok()?;
    let mut kernels = copy(x, y)?;
    let l = Lanes::new(&index.ty.shape, axis);
    if index.ty.shape.count() == 0 {
        return Some(kernels);
    }
    let dtype = y.ty.dtype;
    let put = if is_sum { format!("put_{dtype}(get(y[at]) + get(src[i]))") } else { "src[i]".to_string() };
    let body = format!(
        "const idx lane = i;\nfor (idx k = 0; k < {size}; k++) {{\n\
         const idx i = (lane / {inner} * {size} + k) * {inner} + lane % {inner};\n{}y[at] = {put};\n}}\n",
        place(x, index, axis),
        size = l.size,
        inner = l.inner
    );
    let t = Text::new().reads("index", index).reads("src", src).writes("y", y).reports();
    kernels.extend(t.each(l.outer * l.inner, &body)?);
    Some(kernels)
}

/// Slices added at the places of an index. The block of an index's first occurrence adds up all of
/// them in order; the others have nothing to do.
pub fn index_add(c: &Call) -> Option<Vec<Kernel>> {
    let (x, index, src, y) = (&c.args[0], &c.args[1], &c.args[2], &c.outs[0]);
    let l = Lanes::new(&x.ty.shape, c.attrs.size("axis").ok()?);
    let n = index.ty.shape.count();
    let mut kernels = copy(x, y)?;
    if n * l.outer * l.inner == 0 {
        return Some(kernels);
    }
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
         {class} sum = e < {inner} ? get(x[(o * {size} + j) * {inner} + e]) : ({class})0;\n\
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
    let t = Text::new().reads("x", x).reads("index", index).reads("src", src).writes("y", y).reports();
    kernels.extend(t.blocks(l.outer * n, 128, &body)?);
    Some(kernels)
}

/// Windows added up where they overlap.
pub fn fold(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let (axis, size, step) = (c.attrs.size("axis").ok()?, c.attrs.size("size").ok()?, c.attrs.size("step").ok()?);
    let l = Lanes::new(&y.ty.shape, axis);
    let windows = x.ty.shape[axis];
    let class = Class::of(y.ty.dtype).c();
    let body = format!(
        "const idx low = i % {inner}, p = i / {inner} % {length}, high = i / {inner} / {length};\n\
         {class} sum = 0;\n\
         idx w = p - {size} + 1;\n\
         w = w <= 0 ? 0 : (w + {step} - 1) / {step};\n\
         for (; w < {windows} && w * {step} <= p; w++)\n\
         sum = sum + get(x[((high * {windows} + w) * {inner} + low) * {size} + (p - w * {step})]);\n\
         y[i] = put_{}(sum);\n",
        y.ty.dtype,
        inner = l.inner,
        length = l.size
    );
    Text::new().reads("x", x).writes("y", y).each(y.ty.shape.count(), &body)
}

/// 0, 1, 2…
pub fn iota(c: &Call) -> Option<Vec<Kernel>> {
    let y = &c.outs[0];
    let class = Class::of(y.ty.dtype).c();
    Text::new().writes("y", y).each(y.ty.shape.count(), &format!("y[i] = put_{}(({class})i);\n", y.ty.dtype))
}

/// 32 random bits an element by Philox4x32-10, of the key and the element's place.
pub fn random_bits(c: &Call) -> Option<Vec<Kernel>> {
    let (key, y) = (&c.args[0], &c.outs[0]);
    let n = y.ty.shape.count();
    let body = format!(
        "const unsigned long long seed = key[0], counter = key[1];\n\
         unsigned w[4] = {{(unsigned)i, (unsigned)(i >> 32), (unsigned)counter, (unsigned)(counter >> 32)}};\n\
         philox(w, (unsigned)seed, (unsigned)(seed >> 32));\n\
         for (int k = 0; k < 4; k++) if (i * 4 + k < {n}) y[i * 4 + k] = w[k];\n"
    );
    Text::new().reads("key", key).writes("y", y).each(n.div_ceil(4), &body)
}
