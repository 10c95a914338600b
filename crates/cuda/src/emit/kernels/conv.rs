//! Convolution and pooling in their plainest form, a thread for each result, where no library computes them.

use super::{Call, Text, depthwise, split};
use crate::claims::Claim;
use crate::emit::Kernel;
use crate::emit::scalar::Class;
use crate::rewrite::rows;
use std::fmt::Write;

/// Pooling. Convolutions have their rows with those of the library.
pub static CLAIMS: &[Claim] =
    &[Claim::new("max_pool_index", max_pool_index), Claim::new(rows::POOL_GRAD_FIRST.name, max_pool_grad)];

/// Sizes of a convolution, spatial ones one for each dimension.
struct Geometry {
    x: Vec<usize>,
    w: Vec<usize>,
    y: Vec<usize>,
    stride: Vec<usize>,
    dilation: Vec<usize>,
    lo: Vec<i64>,
    groups: usize,
}

impl Geometry {
    fn new(c: &Call, x: &[usize], w: &[usize], y: &[usize]) -> Option<Geometry> {
        Some(Geometry {
            x: x.to_vec(),
            w: w.to_vec(),
            y: y.to_vec(),
            stride: c.attrs.sizes("stride").ok()?.to_vec(),
            dilation: c.attrs.sizes("dilation").ok()?.to_vec(),
            lo: c.attrs.ints("padding_lo").ok()?.to_vec(),
            groups: c.attrs.size("groups").ok()?,
        })
    }
    /// Loops over places `k{d}` of the kernel.
    fn over(&self, name: &str, sizes: &[usize]) -> String {
        (0..sizes.len()).map(|d| format!("for (idx {name}{d} = 0; {name}{d} < {}; {name}{d}++)\n", sizes[d])).collect()
    }
    /// Row-major number of places named `{name}{d}`.
    fn flat(name: &str, sizes: &[usize]) -> String {
        (0..sizes.len()).fold("0".to_string(), |s, d| format!("({s} * {} + {name}{d})", sizes[d]))
    }
    /// Statements that set `x{d}` from result place `q{d}` and kernel place `k{d}`, and `inside`.
    fn source(&self) -> String {
        let mut s = "bool inside = true;\n".to_string();
        for d in 0..self.stride.len() {
            let _ = writeln!(
                s,
                "const idx x{d} = q{d} * {} + k{d} * {} - ({}); inside &= x{d} >= 0 && x{d} < {};",
                self.stride[d],
                self.dilation[d],
                self.lo[d],
                self.x[d + 2]
            );
        }
        s
    }
}

/// y[n, o, q] = Σ x[n, c, q·stride + k·dilation − lo] · w[o, c, k].
pub fn forward(c: &Call) -> Option<Vec<Kernel>> {
    if let Some(kernels) = depthwise::forward(c) {
        return Some(kernels);
    }
    let (x, w, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let g = Geometry::new(c, &x.ty.shape, &w.ty.shape, &y.ty.shape)?;
    let (each, per) = (g.w[1], g.w[0] / g.groups);
    let class = Class::of(y.ty.dtype).c();
    let mut body = split(&g.y[2..], &format!("(i % {})", g.y[2..].iter().product::<usize>()), "q");
    let plane: usize = g.y[2..].iter().product();
    let _ = write!(
        body,
        "const idx o = i / {plane} % {}, n = i / {plane} / {};\n{class} sum = 0;\n\
         for (idx c = 0; c < {each}; c++)\n{}{{\n{}\
         if (inside) sum = sum + get(x[(n * {} + o / {per} * {each} + c) * {} + {}]) * get(w[(o * {each} + c) * {} + {}]);\n}}\n\
         y[i] = put_{}(sum);\n",
        g.y[1],
        g.y[1],
        g.over("k", &g.w[2..]),
        g.source(),
        g.x[1],
        g.x[2..].iter().product::<usize>(),
        Geometry::flat("x", &g.x[2..]),
        g.w[2..].iter().product::<usize>(),
        Geometry::flat("k", &g.w[2..]),
        y.ty.dtype
    );
    Text::new().reads("x", x).reads("w", w).writes("y", y).each(y.ty.shape.count(), &body)
}

/// The gradient of x from that of y: every result place that reads an element.
pub fn input_grad(c: &Call) -> Option<Vec<Kernel>> {
    if let Some(kernels) = depthwise::input_grad(c) {
        return Some(kernels);
    }
    let (dy, w, dx) = (&c.args[0], &c.args[1], &c.outs[0]);
    let g = Geometry::new(c, &dx.ty.shape, &w.ty.shape, &dy.ty.shape)?;
    let (each, per) = (g.w[1], g.w[0] / g.groups);
    let class = Class::of(dx.ty.dtype).c();
    let plane: usize = g.x[2..].iter().product();
    let mut body = split(&g.x[2..], &format!("(i % {plane})"), "x");
    let _ = write!(
        body,
        "const idx c = i / {plane} % {0}, n = i / {plane} / {0}, group = c / {each};\n{class} sum = 0;\n{1}{{\nbool inside = true;\n",
        g.x[1],
        g.over("k", &g.w[2..])
    );
    for d in 0..g.stride.len() {
        let _ = writeln!(
            body,
            "const idx t{d} = x{d} + ({}) - k{d} * {}, q{d} = t{d} / {s}; inside &= t{d} >= 0 && t{d} % {s} == 0 && q{d} < {};",
            g.lo[d],
            g.dilation[d],
            g.y[d + 2],
            s = g.stride[d]
        );
    }
    let _ = write!(
        body,
        "if (inside) for (idx o = group * {per}; o < (group + 1) * {per}; o++)\n\
         sum = sum + get(dy[(n * {} + o) * {} + {}]) * get(w[(o * {each} + c % {each}) * {} + {}]);\n}}\ndx[i] = put_{}(sum);\n",
        g.y[1],
        g.y[2..].iter().product::<usize>(),
        Geometry::flat("q", &g.y[2..]),
        g.w[2..].iter().product::<usize>(),
        Geometry::flat("k", &g.w[2..]),
        dx.ty.dtype
    );
    Text::new().reads("dy", dy).reads("w", w).writes("dx", dx).each(dx.ty.shape.count(), &body)
}

/// The gradient of w from that of y: a block adds up each of its elements.
pub fn weight_grad(c: &Call) -> Option<Vec<Kernel>> {
    if let Some(kernels) = depthwise::weight_grad(c) {
        return Some(kernels);
    }
    let (x, dy, dw) = (&c.args[0], &c.args[1], &c.outs[0]);
    let g = Geometry::new(c, &x.ty.shape, &dw.ty.shape, &dy.ty.shape)?;
    let (each, per) = (g.w[1], g.w[0] / g.groups);
    let class = Class::of(dw.ty.dtype).c();
    let (taps, plane) = (g.w[2..].iter().product::<usize>(), g.y[2..].iter().product::<usize>());
    let mut body = "const idx i = blockIdx.x;\n".to_string();
    body += &split(&g.w[2..], &format!("(i % {taps})"), "k");
    let _ = write!(
        body,
        "const idx c = i / {taps} % {each}, o = i / {taps} / {each};\n{class} a = 0;\n\
         for (idx t = threadIdx.x; t < {}; t += 128) {{\nconst idx n = t / {plane};\n{}{}\
         if (inside) a = a + get(x[(n * {} + o / {per} * {each} + c) * {} + {}]) * get(dy[(n * {} + o) * {plane} + t % {plane}]);\n}}\n\
         __shared__ {class} s[4];\n\
         a = across<Sum, 32>(a);\n\
         if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = a;\n\
         __syncthreads();\n\
         if (threadIdx.x == 0) dw[i] = put_{}(gather<Sum, 4>(s));\n",
        g.x[0] * plane,
        split(&g.y[2..], &format!("(t % {plane})"), "q"),
        g.source(),
        g.x[1],
        g.x[2..].iter().product::<usize>(),
        Geometry::flat("x", &g.x[2..]),
        g.y[1],
        dw.ty.dtype
    );
    Text::new().reads("x", x).reads("dy", dy).writes("dw", dw).blocks(dw.ty.shape.count(), 128, &body)
}

/// Where the greatest element of each window is: the first of equals, a NaN before all.
fn max_pool_index(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let [window, stride, lo, dilation] = ["window", "stride", "padding_lo", "dilation"].map(|n| c.attrs.sizes(n).ok());
    let (window, stride, lo, dilation) = (window?, stride?, lo?, dilation?);
    let (xs, ys) = (&x.ty.shape[2..], &y.ty.shape[2..]);
    let (plane, out): (usize, usize) = (xs.iter().product(), ys.iter().product());
    let class = Class::of(x.ty.dtype).c();
    let mut body = split(ys, &format!("(i % {out})"), "q");
    let _ = write!(body, "const idx base = i / {out} * {plane};\nidx best = -1;\n{class} top = 0;\n");
    for d in 0..window.len() {
        let _ = write!(
            body,
            "for (idx k{d} = 0; k{d} < {}; k{d}++) {{\nconst idx x{d} = q{d} * {} + k{d} * {} - {};\nif (x{d} < 0 || x{d} >= {}) continue;\n",
            window[d], stride[d], dilation[d], lo[d], xs[d]
        );
    }
    let _ = write!(
        body,
        "const idx at = {};\nconst {class} v = get(x[base + at]);\n\
         if (best < 0 || v > top || (v != v && top == top)) {{ best = at; top = v; }}\n{}y[i] = best;\n",
        Geometry::flat("x", xs),
        "}".repeat(window.len())
    );
    Text::new().reads("x", x).writes("y", y).each(y.ty.shape.count(), &body)
}

/// The gradient of max pooling: each element looks at the windows it is in, and takes the gradients of those whose
/// greatest it is.
fn max_pool_grad(c: &Call) -> Option<Vec<Kernel>> {
    let (index, g, dx) = (&c.args[0], &c.args[1], &c.outs[0]);
    let [window, stride, lo, dilation] = ["window", "stride", "padding_lo", "dilation"].map(|n| c.attrs.sizes(n).ok());
    let (window, stride, lo, dilation) = (window?, stride?, lo?, dilation?);
    let (xs, ys) = (&dx.ty.shape[2..], &g.ty.shape[2..]);
    let (plane, out): (usize, usize) = (xs.iter().product(), ys.iter().product());
    let class = Class::of(dx.ty.dtype).c();
    let mut body = format!("const idx place = i % {plane};\n{}", split(xs, "place", "x"));
    let _ = write!(body, "const idx base = i / {plane} * {out};\n{class} sum = 0;\n");
    for d in 0..window.len() {
        // From the first window that reaches the place to the last that begins before it.
        let reach = (window[d] - 1) * dilation[d] + 1;
        let _ = write!(
            body,
            "const idx t{d} = x{d} + {lo}, a{d} = t{d} < {reach} ? 0 : (t{d} - {reach}) / {stride} + 1;\n\
             const idx b{d} = t{d} / {stride} < {last} ? t{d} / {stride} : {last};\n\
             for (idx q{d} = a{d}; q{d} <= b{d}; q{d}++) {{\n",
            lo = lo[d],
            stride = stride[d],
            last = ys[d] - 1
        );
    }
    let _ = write!(
        body,
        "const idx at = base + {};\nif (index[at] == place) sum = sum + get(g[at]);\n{}dx[i] = put_{}(sum);\n",
        Geometry::flat("q", ys),
        "}".repeat(window.len()),
        dx.ty.dtype
    );
    Text::new().reads("index", index).reads("g", g).writes("dx", dx).each(dx.ty.shape.count(), &body)
}
