//! Depthwise convolution: each channel has a kernel of its own. A thread computes several rows of a column, so that what
//! it reads serves several results; neighbors share lines of the cache. Sizes, strides and taps are numbers in the text.

use super::{Call, Operand, Text};
use crate::emit::scalar::Class;
use crate::emit::{Arg, Kernel};
use ir::Attrs;
use std::fmt::Write;

/// Rows of a column that a thread has.
const ROWS: usize = 4;
/// Taps at most: they are registers of a thread.
const TAPS_MAX: usize = 49;
const THREADS: usize = 256;
/// Blocks that keep the device busy.
const BLOCKS: usize = 2112;

/// A convolution of planes: height and width of each, of the kernel, steps and padding before.
struct Planes {
    batch: usize,
    channels: usize,
    x: [usize; 2],
    y: [usize; 2],
    taps: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    lo: [i64; 2],
}

/// One or two spatial dimensions as two.
fn two<T: Copy>(dims: &[T], one: T) -> Option<[T; 2]> {
    match dims {
        [a] => Some([one, *a]),
        [a, b] => Some([*a, *b]),
        _ => None,
    }
}

impl Planes {
    /// From the shapes of image, kernel and result; `None` if it is not depthwise.
    fn new(attrs: &Attrs, x: &Operand, w: &Operand, y: &Operand) -> Option<Planes> {
        let (xs, ws, ys) = (x.ty.shape.dims(), w.ty.shape.dims(), y.ty.shape.dims());
        let groups = attrs.size("groups").ok()?;
        if xs.len() < 3 || groups < 2 || xs[1] != groups || ws[0] != groups || ws[1] != 1 {
            return None;
        }
        let p = Planes {
            batch: xs[0],
            channels: groups,
            x: two(&xs[2..], 1)?,
            y: two(&ys[2..], 1)?,
            taps: two(&ws[2..], 1)?,
            stride: two(&attrs.sizes("stride").ok()?, 1)?,
            dilation: two(&attrs.sizes("dilation").ok()?, 1)?,
            lo: two(attrs.ints("padding_lo").ok()?, 0)?,
        };
        let is_small = |o: &Operand| i32::try_from(o.ty.shape.count()).is_ok() && o.ty.shape.count() > 0;
        let is_float = !Class::of(x.ty.dtype).is_int();
        (is_float && p.taps[0] * p.taps[1] <= TAPS_MAX && [x, w, y].into_iter().all(is_small)).then_some(p)
    }
    /// Statements that load the taps of channel `c` as `k`.
    fn kernel(&self, class: &str) -> String {
        let n = self.taps[0] * self.taps[1];
        format!("{class} k[{n}];\n#pragma unroll\nfor (int t = 0; t < {n}; t++) k[t] = get(w[c * {n} + t]);\n")
    }
    /// Statements that set `a` to the element of `plane` at row and column, 0 outside.
    fn load(&self, class: &str, size: [usize; 2], row: &str, column: &str) -> String {
        format!(
            "const {class} a = (unsigned)({row}) < {}u && (unsigned)({column}) < {}u ? get(plane[({row}) * {} + {column}]) : ({class})0;\n",
            size[0], size[1], size[1]
        )
    }
    /// Statements that say which plane, strip of rows and column thread `i` has.
    fn place(&self, strips: usize, columns: usize) -> String {
        format!(
            "const unsigned u = (unsigned)i;\nconst int q = u % {columns}u, s = u / {columns}u % {strips}u;\n\
             const unsigned p = u / {}u, c = p % {}u;\n",
            columns * strips,
            self.channels
        )
    }
}

/// Whether a convolution is better computed here than by the library: f32 and f64 images of which each channel has a
/// kernel of its own.
pub fn is_better(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> bool {
    let (a, b, c) = (&args[0], &args[1], &outs[0]);
    let is_wide = a.ty.dtype.size() >= 4;
    // Image, kernel and result stand in another order in each of the three.
    is_wide
        && (Planes::new(attrs, a, b, c).is_some()
            || Planes::new(attrs, c, b, a).is_some()
            || Planes::new(attrs, a, c, b).is_some())
}

/// y = x * w.
pub fn forward(c: &Call) -> Option<Vec<Kernel>> {
    let (x, w, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let p = Planes::new(c.attrs, x, w, y)?;
    let class = Class::of(y.ty.dtype).c();
    let rows = ROWS.min(p.y[0]);
    let strips = p.y[0].div_ceil(rows);
    let mut body = p.place(strips, p.y[1]) + &p.kernel(class);
    let _ = write!(
        body,
        "const auto* plane = x + (idx)p * {};\n{class} sum[{rows}] = {{}};\n\
         const int top = s * {} - ({}), left = q * {} - ({});\n",
        p.x[0] * p.x[1],
        rows * p.stride[0],
        p.lo[0],
        p.stride[1],
        p.lo[1]
    );
    for r in 0..(rows - 1) * p.stride[0] + (p.taps[0] - 1) * p.dilation[0] + 1 {
        let tap =
            |o: usize| r.checked_sub(o * p.stride[0]).filter(|d| d % p.dilation[0] == 0).map(|d| d / p.dilation[0]);
        let served: Vec<(usize, usize)> =
            (0..rows).filter_map(|o| Some((o, tap(o).filter(|&k| k < p.taps[0])?))).collect();
        if served.is_empty() {
            continue;
        }
        for k1 in 0..p.taps[1] {
            let load = p.load(class, p.x, &format!("top + {r}"), &format!("left + {}", k1 * p.dilation[1]));
            let _ = write!(body, "{{\n{load}");
            for (o, k0) in &served {
                let _ = writeln!(body, "sum[{o}] += a * k[{}];", k0 * p.taps[1] + k1);
            }
            body += "}\n";
        }
    }
    let _ = write!(
        body,
        "#pragma unroll\nfor (int o = 0; o < {rows}; o++)\nif (s * {rows} + o < {}) y[(idx)p * {} + (s * {rows} + o) * {} + q] = put_{}(sum[o]);\n",
        p.y[0],
        p.y[0] * p.y[1],
        p.y[1],
        y.ty.dtype
    );
    let threads = p.batch * p.channels * strips * p.y[1];
    Text::new().reads("x", x).reads("w", w).writes("y", y).each(threads, &body)
}

/// The gradient of x from that of y. A thread has as many neighboring columns as a step is wide: which taps reach them
/// is known.
pub fn input_grad(c: &Call) -> Option<Vec<Kernel>> {
    let (dy, w, dx) = (&c.args[0], &c.args[1], &c.outs[0]);
    let p = Planes::new(c.attrs, dx, w, dy)?;
    let class = Class::of(dx.ty.dtype).c();
    let [s0, s1] = p.stride;
    let (rows, columns) = (ROWS.next_multiple_of(s0), s1);
    let (strips, groups) = (p.x[0].div_ceil(rows), p.x[1].div_ceil(columns));
    let mut body = p.place(strips, groups) + &p.kernel(class);
    let _ = write!(
        body,
        "const auto* plane = dy + (idx)p * {};\n{class} sum[{rows}][{columns}] = {{}};\nconst int top = s * {}, left = q;\n",
        p.y[0] * p.y[1],
        rows / s0
    );
    // Element `a` after the first of a strip is reached by tap k where o + lo - k dilation = a stride.
    let reach = |d: usize, count: usize| {
        let (lo, last) = (p.lo[d], ((p.taps[d] - 1) * p.dilation[d]) as i64);
        let stride = p.stride[d] as i64;
        ((lo - last).div_euclid(stride), (count as i64 - 1 + lo).div_euclid(stride))
    };
    let tap = |d: usize, o: usize, a: i64| {
        let off = o as i64 + p.lo[d] - a * p.stride[d] as i64;
        let step = p.dilation[d] as i64;
        (off >= 0 && off % step == 0 && off / step < p.taps[d] as i64).then_some((off / step) as usize)
    };
    let ((a0, a1), (b0, b1)) = (reach(0, rows), reach(1, columns));
    for a in a0..=a1 {
        for b in b0..=b1 {
            let mut adds = String::new();
            for (o, j) in (0..rows).flat_map(|o| (0..columns).map(move |j| (o, j))) {
                if let (Some(k0), Some(k1)) = (tap(0, o, a), tap(1, j, b)) {
                    let _ = writeln!(adds, "sum[{o}][{j}] += a * k[{}];", k0 * p.taps[1] + k1);
                }
            }
            if !adds.is_empty() {
                let load = p.load(class, p.y, &format!("top + ({a})"), &format!("left + ({b})"));
                let _ = write!(body, "{{\n{load}{adds}}}\n");
            }
        }
    }
    let _ = write!(
        body,
        "#pragma unroll\nfor (int o = 0; o < {rows}; o++)\n#pragma unroll\nfor (int j = 0; j < {columns}; j++)\n\
         if (s * {rows} + o < {} && q * {columns} + j < {x1}) dx[(idx)p * {} + (s * {rows} + o) * {x1} + q * {columns} + j] = put_{}(sum[o][j]);\n",
        p.x[0],
        p.x[0] * p.x[1],
        dx.ty.dtype,
        x1 = p.x[1],
    );
    let threads = p.batch * p.channels * strips * groups;
    Text::new().reads("dy", dy).reads("w", w).writes("dx", dx).each(threads, &body)
}

/// Pictures that a block adds up, and how many blocks a channel has.
fn shares(p: &Planes) -> (usize, usize) {
    let parts = (BLOCKS / p.channels).clamp(1, p.batch);
    let each = p.batch.div_ceil(parts);
    (each, p.batch.div_ceil(each))
}

/// Scratch space of [`weight_grad`].
pub fn scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    // The kernel's shape is that of the result.
    let (Ok(shape), Some(&channels)) = (attrs.sizes("shape"), args[0].ty.shape.get(1)) else { return 0 };
    if attrs.size("groups") != Ok(channels) {
        return 0;
    }
    let taps: usize = shape.iter().skip(2).product();
    let parts = (BLOCKS / channels.max(1)).clamp(1, args[0].ty.shape[0].max(1));
    channels * taps * parts * Class::of(args[0].ty.dtype).size()
}

/// The gradient of w from that of y: a block for each channel and some images, then their sum.
pub fn weight_grad(c: &Call) -> Option<Vec<Kernel>> {
    let (x, dy, dw) = (&c.args[0], &c.args[1], &c.outs[0]);
    let p = Planes::new(c.attrs, x, dw, dy)?;
    let class = Class::of(dw.ty.dtype).c();
    let taps = p.taps[0] * p.taps[1];
    let (each, parts) = shares(&p);
    let rows = ROWS.min(p.y[0]);
    let strips = p.y[0].div_ceil(rows);
    let mut body = format!(
        "const int c = blockIdx.x % {ch}u, part = blockIdx.x / {ch}u;\n{class} sum[{taps}] = {{}};\n\
         const int end = min((part + 1) * {each}, {}) * {work};\n\
         for (int t = part * {each} * {work} + threadIdx.x; t < end; t += {THREADS}) {{\n\
         const int q = t % {y1}, s = t / {y1} % {strips}, n = t / {work};\n\
         const auto* plane = x + ((idx)n * {ch} + c) * {};\nconst auto* from = dy + ((idx)n * {ch} + c) * {};\n\
         const int top = s * {} - ({}), left = q * {} - ({});\n\
         {class} g[{rows}];\n\
         #pragma unroll\nfor (int o = 0; o < {rows}; o++) g[o] = s * {rows} + o < {} ? get(from[(s * {rows} + o) * {y1} + q]) : ({class})0;\n",
        p.batch,
        p.x[0] * p.x[1],
        p.y[0] * p.y[1],
        rows * p.stride[0],
        p.lo[0],
        p.stride[1],
        p.lo[1],
        p.y[0],
        ch = p.channels,
        work = strips * p.y[1],
        y1 = p.y[1],
    );
    for r in 0..(rows - 1) * p.stride[0] + (p.taps[0] - 1) * p.dilation[0] + 1 {
        for k1 in 0..p.taps[1] {
            let mut adds = String::new();
            for o in 0..rows {
                let tap = r.checked_sub(o * p.stride[0]).filter(|d| d % p.dilation[0] == 0).map(|d| d / p.dilation[0]);
                if let Some(k0) = tap.filter(|&k| k < p.taps[0]) {
                    let _ = writeln!(adds, "sum[{}] += a * g[{o}];", k0 * p.taps[1] + k1);
                }
            }
            if !adds.is_empty() {
                let load = p.load(class, p.x, &format!("top + {r}"), &format!("left + {}", k1 * p.dilation[1]));
                let _ = write!(body, "{{\n{load}{adds}}}\n");
            }
        }
    }
    let _ = write!(
        body,
        "}}\n__shared__ {class} all[{taps}][{warps}];\n\
         #pragma unroll\nfor (int t = 0; t < {taps}; t++) {{\n\
         const {class} a = across<Sum, 32>(sum[t]);\nif (threadIdx.x % 32 == 0) all[t][threadIdx.x / 32] = a;\n}}\n\
         __syncthreads();\n\
         for (int t = threadIdx.x; t < {taps}; t += {THREADS}) {{\n{class} a = 0;\nfor (int n = 0; n < {warps}; n++) a += all[t][n];\n\
         parts[((idx)c * {taps} + t) * {parts} + part] = a;\n}}\n",
        warps = THREADS / 32,
    );
    let text = Text::new().reads("x", x).reads("dy", dy).memory("parts", class, Arg::Scratch(0));
    let mut kernels = text.blocks(p.channels * parts, THREADS, &body)?;
    let last = format!(
        "{class} a = 0;\nfor (int n = 0; n < {parts}; n++) a += parts[i * {parts} + n];\ndw[i] = put_{}(a);\n",
        dw.ty.dtype
    );
    let text = Text::new().writes("dw", dw).memory("parts", &format!("const {class}"), Arg::Scratch(0));
    kernels.extend(text.each(p.channels * taps, &last)?);
    Some(kernels)
}
