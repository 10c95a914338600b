//! Convolutions as GEMMs whose operands are found in the images (implicit im2col): nothing is copied.
//!
//! | | matrices | rows | columns | summed over |
//! |---|---|---|---|---|
//! | `conv` | images × groups | output channels of a group | places of the result | input channels of a group × kernel |
//! | `conv_input_grad` | images × groups | input channels of a group | places of the image | output channels of a group × kernel |
//! | `conv_weight_grad` | groups | output channels of a group | input channels × kernel | images × places of the result |

use super::gemm::{Product, element};
use super::{Kernels, plain};
use crate::claims::{Call, Claim};
use crate::element::Class;
use crate::kernel::{Text, split};
use ir::FlatNode;
use passes::View;

/// Convolutions.
pub static CLAIMS: &[Claim] = &[
    Claim { flops, ..Claim::new("conv", forward) },
    Claim { flops, ..Claim::new("conv_input_grad", input_grad) },
    Claim { flops, ..Claim::new("conv_weight_grad", weight_grad) },
];

/// Twice the products: each element of the kernel meets each place of the result once an image.
fn flops(n: &FlatNode, args: &[View]) -> usize {
    let shapes = || args.iter().map(|a| a.layout.shape.count()).chain([n.outs[0].shape.count()]);
    // Of image, kernel and result; the kernel is the smallest of most.
    2 * shapes().product::<usize>() / shapes().max().unwrap_or(1).max(1)
}

/// Sizes of a convolution.
struct Geometry {
    x: Vec<usize>,
    w: Vec<usize>,
    y: Vec<usize>,
    stride: Vec<usize>,
    dilation: Vec<usize>,
    lo: Vec<i64>,
    groups: usize,
    class: Class,
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
            class: Class::of(c.outs[0].ty.dtype)?,
        })
    }
    fn plane(list: &[usize]) -> usize {
        list[2..].iter().product()
    }
    /// Row-major number of places named `{name}{d}`.
    fn flat(name: &str, sizes: &[usize]) -> String {
        (0..sizes.len()).fold("0u".to_string(), |s, d| format!("({s} * {}u + {name}{d})", sizes[d]))
    }
    /// Statements that set `x{d}` from result place `q{d}` and kernel place `k{d}`; outside of the image they return 0.
    fn source(&self) -> String {
        let zero = self.class.int(0);
        let line = |d: usize| {
            format!(
                "let s{d} = i32(q{d} * {}u + k{d} * {}u) - ({});\nif (s{d} < 0 || s{d} >= {}) {{ return {zero}; }}\nlet x{d} = u32(s{d});\n",
                self.stride[d],
                self.dilation[d],
                self.lo[d],
                self.x[d + 2]
            )
        };
        (0..self.stride.len()).map(line).collect()
    }
    /// Statements that set `q{d}` from image place `x{d}` and kernel place `k{d}`; where no result is there they return 0.
    fn target(&self) -> String {
        let zero = self.class.int(0);
        let line = |d: usize| {
            format!(
                "let s{d} = i32(x{d}) + ({lo}) - i32(k{d} * {dilation}u);\n\
                 if (s{d} < 0 || s{d} % {stride} != 0 || s{d} / {stride} >= {size}) {{ return {zero}; }}\n\
                 let q{d} = u32(s{d} / {stride});\n",
                lo = self.lo[d],
                dilation = self.dilation[d],
                stride = self.stride[d],
                size = self.y[d + 2]
            )
        };
        (0..self.stride.len()).map(line).collect()
    }
}

/// y[n, o, q] = Σ x[n, c, q·stride + k·dilation − lo] · w[o, c, k].
fn forward(c: &Call) -> Kernels {
    let (x, w, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let g = Geometry::new(c, &x.ty.shape, &w.ty.shape, &y.ty.shape)?;
    let (each, per, taps) = (g.w[1], g.w[0] / g.groups, Geometry::plane(&g.w));
    let mut t = Text::new();
    let (px, pw, py) = (t.reads(x), t.reads(w), t.writes(y));
    let a = element(&pw, w, g.class, &format!("(bi % {}u * {per}u + m) * {}u + k", g.groups, each * taps))?;
    let b_text = format!(
        "let image = bi / {0}u; let channel = bi % {0}u * {each}u + k / {1}u;\n{2}{3}{4}",
        g.groups,
        taps.max(1),
        split(&g.y[2..], "n", "q").0,
        split(&g.w[2..], &format!("(k % {}u)", taps.max(1)), "k").0,
        g.source()
    );
    let at =
        format!("(image * {}u + channel) * {}u + {}", g.x[1], Geometry::plane(&g.x), Geometry::flat("x", &g.x[2..]));
    let b = element(&px, x, g.class, &at)?;
    let plane = Geometry::plane(&g.y);
    let y_at = format!("(bi * {per}u + m) * {plane}u + n");
    let sizes = [g.x[0] * g.groups, per, plane, each * taps];
    let p = Product { sizes, a: (String::new(), a), b: (b_text, b), y: y_at, class: g.class };
    plain(p.kernels(t, y, &py))
}

/// The gradient of x from that of y: every result place that reads an element.
fn input_grad(c: &Call) -> Kernels {
    let (dy, w, dx) = (&c.args[0], &c.args[1], &c.outs[0]);
    let g = Geometry::new(c, &dx.ty.shape, &w.ty.shape, &dy.ty.shape)?;
    let (each, per, taps) = (g.w[1], g.w[0] / g.groups, Geometry::plane(&g.w).max(1));
    let mut t = Text::new();
    let (py, pw, px) = (t.reads(dy), t.reads(w), t.writes(dx));
    let at = format!("((bi % {}u * {per}u + k / {taps}u) * {each}u + m) * {taps}u + k % {taps}u", g.groups);
    let a = element(&pw, w, g.class, &at)?;
    let b_text = format!(
        "let image = bi / {0}u; let channel = bi % {0}u * {per}u + k / {taps}u;\n{1}{2}{3}",
        g.groups,
        split(&g.x[2..], "n", "x").0,
        split(&g.w[2..], &format!("(k % {taps}u)"), "k").0,
        g.target()
    );
    let at =
        format!("(image * {}u + channel) * {}u + {}", g.y[1], Geometry::plane(&g.y), Geometry::flat("q", &g.y[2..]));
    let b = element(&py, dy, g.class, &at)?;
    let plane = Geometry::plane(&g.x);
    let y_at = format!("(bi * {each}u + m) * {plane}u + n");
    let sizes = [g.x[0] * g.groups, each, plane, per * taps];
    let p = Product { sizes, a: (String::new(), a), b: (b_text, b), y: y_at, class: g.class };
    plain(p.kernels(t, dx, &px))
}

/// The gradient of w from that of y.
fn weight_grad(c: &Call) -> Kernels {
    let (x, dy, dw) = (&c.args[0], &c.args[1], &c.outs[0]);
    let g = Geometry::new(c, &x.ty.shape, &dw.ty.shape, &dy.ty.shape)?;
    let (each, per, taps) = (g.w[1], g.w[0] / g.groups, Geometry::plane(&g.w).max(1));
    let plane = Geometry::plane(&g.y).max(1);
    let mut t = Text::new();
    let (px, py, pw) = (t.reads(x), t.reads(dy), t.writes(dw));
    let at = format!("(k / {plane}u * {}u + bi * {per}u + m) * {plane}u + k % {plane}u", g.y[1]);
    let a = element(&py, dy, g.class, &at)?;
    let b_text = format!(
        "let image = k / {plane}u; let channel = bi * {each}u + n / {taps}u;\n{}{}{}",
        split(&g.y[2..], &format!("(k % {plane}u)"), "q").0,
        split(&g.w[2..], &format!("(n % {taps}u)"), "k").0,
        g.source()
    );
    let at =
        format!("(image * {}u + channel) * {}u + {}", g.x[1], Geometry::plane(&g.x), Geometry::flat("x", &g.x[2..]));
    let b = element(&px, x, g.class, &at)?;
    let y_at = format!("(bi * {per}u + m) * {}u + n", each * taps);
    let sizes = [g.groups, per, each * taps, g.x[0] * plane];
    let p = Product { sizes, a: (String::new(), a), b: (b_text, b), y: y_at, class: g.class };
    plain(p.kernels(t, dw, &pw))
}
