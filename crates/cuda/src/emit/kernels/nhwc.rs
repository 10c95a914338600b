//! NHWC images: pooling, sums over height and width, space-to-depth. A thread has a vector of neighboring channels.

use super::{Call, Text};
use crate::claims::Claim;
use crate::emit::Kernel;
use crate::emit::scalar::{Class, stored};
use crate::rewrite::rows;

/// Ops on NHWC images.
pub static CLAIMS: &[Claim] = &[
    Claim::new(rows::POOL.name, max_pool),
    Claim::new(rows::POOL_GRAD.name, max_pool_grad),
    Claim::new(rows::SUM.name, sum_places),
    Claim::new(rows::SPACE_TO_DEPTH.name, to_depth),
    Claim::new(rows::DEPTH_TO_SPACE.name, from_depth),
];

/// Channels a thread has, of 16-bit floats.
const EACH: usize = 8;

/// Windows over images `[N, H, W, C]`.
struct Windows {
    /// Height and width of the image, the result, a window, its steps, and what is before it.
    x: [usize; 2],
    y: [usize; 2],
    window: [usize; 2],
    stride: [usize; 2],
    lo: [usize; 2],
}

impl Windows {
    fn new(c: &Call, x: &[usize], y: &[usize]) -> Option<Windows> {
        let pair = |name: &str| -> Option<[usize; 2]> { c.attrs.sizes(name).ok()?[..].try_into().ok() };
        let (window, stride, lo) = (pair("window")?, pair("stride")?, pair("padding_lo")?);
        Some(Windows { x: [x[1], x[2]], y: [y[1], y[2]], window, stride, lo })
    }
}

/// The greatest element of each window, the first of equals and a NaN before all, and its number.
fn max_pool(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y, tap) = (&c.args[0], &c.outs[0], &c.outs[1]);
    let w = Windows::new(c, &x.ty.shape, &y.ty.shape)?;
    let channels = x.ty.shape[3] / EACH;
    let ty = stored(x.ty.dtype);
    let body = format!(
        "const unsigned c = i % {channels}, q1 = i / {channels} % {y1}, q0 = i / {} % {y0}, n = i / {};\n\
         float top[{EACH}]; pack<unsigned char, {EACH}> which;\n\
         bool has = false;\n\
         #pragma unroll\nfor (int k0 = 0; k0 < {}; k0++) {{\n\
         const int x0 = (int)(q0 * {}) + k0 - {};\n\
         if (x0 < 0 || x0 >= {x0}) continue;\n\
         #pragma unroll\nfor (int k1 = 0; k1 < {w1}; k1++) {{\n\
         const int x1 = (int)(q1 * {}) + k1 - {};\n\
         if (x1 < 0 || x1 >= {x1}) continue;\n\
         const pack<{ty}, {EACH}> p = *(const pack<{ty}, {EACH}>*)(x + (((idx)n * {x0} + x0) * {x1} + x1) * {all} + c * {EACH});\n\
         #pragma unroll\nfor (int v = 0; v < {EACH}; v++) {{\n\
         const float a = get(p.at[v]);\n\
         if (!has || a > top[v] || (a != a && top[v] == top[v])) {{ top[v] = a; which.at[v] = k0 * {w1} + k1; }}\n}}\n\
         has = true;\n}}\n}}\n\
         pack<{ty}, {EACH}> out;\n\
         #pragma unroll\nfor (int v = 0; v < {EACH}; v++) out.at[v] = put_{dtype}(top[v]);\n\
         *(pack<{ty}, {EACH}>*)(y + i * {EACH}) = out;\n\
         *(pack<unsigned char, {EACH}>*)(tap + i * {EACH}) = which;\n",
        channels * w.y[1],
        channels * w.y[1] * w.y[0],
        w.window[0],
        w.stride[0],
        w.lo[0],
        w.stride[1],
        w.lo[1],
        y0 = w.y[0],
        y1 = w.y[1],
        x0 = w.x[0],
        x1 = w.x[1],
        w1 = w.window[1],
        all = x.ty.shape[3],
        dtype = x.ty.dtype
    );
    Text::new().reads("x", x).writes("y", y).writes("tap", tap).each(y.ty.shape.count() / EACH, &body)
}

/// The gradient of max pooling: each element looks at the windows it is in.
fn max_pool_grad(c: &Call) -> Option<Vec<Kernel>> {
    let (tap, g, dx) = (&c.args[0], &c.args[1], &c.outs[0]);
    let w = Windows::new(c, &dx.ty.shape, &g.ty.shape)?;
    let channels = dx.ty.shape[3] / EACH;
    let ty = stored(g.ty.dtype);
    // The windows that hold place x: from the first that reaches it to the last that begins before.
    let range = |d: usize| {
        format!(
            "const int t{d} = (int)x{d} + {lo}, a{d} = t{d} < {window} ? 0 : (t{d} - {window}) / {stride} + 1, \
             b{d} = min(t{d} / {stride}, {last});\n",
            lo = w.lo[d],
            window = w.window[d],
            stride = w.stride[d],
            last = w.y[d] - 1
        )
    };
    let body = format!(
        "const unsigned c = i % {channels}, x1 = i / {channels} % {x1}, x0 = i / {} % {x0}, n = i / {};\n{}{}\
         float sum[{EACH}] = {{}};\n\
         for (int q0 = a0; q0 <= b0; q0++)\nfor (int q1 = a1; q1 <= b1; q1++) {{\n\
         const int k = (t0 - q0 * {}) * {} + t1 - q1 * {};\n\
         const idx at = (((idx)n * {} + q0) * {} + q1) * {} + c * {EACH};\n\
         const pack<unsigned char, {EACH}> which = *(const pack<unsigned char, {EACH}>*)(tap + at);\n\
         const pack<{ty}, {EACH}> p = *(const pack<{ty}, {EACH}>*)(g + at);\n\
         #pragma unroll\nfor (int v = 0; v < {EACH}; v++) if (which.at[v] == k) sum[v] = sum[v] + get(p.at[v]);\n}}\n\
         pack<{ty}, {EACH}> out;\n\
         #pragma unroll\nfor (int v = 0; v < {EACH}; v++) out.at[v] = put_{}(sum[v]);\n\
         *(pack<{ty}, {EACH}>*)(dx + i * {EACH}) = out;\n",
        channels * w.x[1],
        channels * w.x[1] * w.x[0],
        range(0),
        range(1),
        w.stride[0],
        w.window[1],
        w.stride[1],
        w.y[0],
        w.y[1],
        dx.ty.shape[3],
        g.ty.dtype,
        x0 = w.x[0],
        x1 = w.x[1],
    );
    Text::new().reads("tap", tap).reads("g", g).writes("dx", dx).each(dx.ty.shape.count() / EACH, &body)
}

/// Sums over the places of each picture.
fn sum_places(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let [_, h, w, channels] = *x.ty.shape.dims() else { return None };
    let places = h * w;
    let ty = stored(x.ty.dtype);
    let body = format!(
        "const idx n = i / {vectors}, c = i % {vectors};\n\
         float sum[{EACH}] = {{}};\n\
         #pragma unroll 4\nfor (int k = 0; k < {places}; k++) {{\n\
         const pack<{ty}, {EACH}> p = *(const pack<{ty}, {EACH}>*)(x + (n * {places} + k) * {channels} + c * {EACH});\n\
         #pragma unroll\nfor (int v = 0; v < {EACH}; v++) sum[v] = sum[v] + get(p.at[v]);\n}}\n\
         pack<{ty}, {EACH}> out;\n\
         #pragma unroll\nfor (int v = 0; v < {EACH}; v++) out.at[v] = put_{}(sum[v]);\n\
         *(pack<{ty}, {EACH}>*)(y + i * {EACH}) = out;\n",
        y.ty.dtype,
        vectors = channels / EACH,
    );
    Text::new().reads("x", x).writes("y", y).each(y.ty.shape.count() / EACH, &body)
}

/// Squares of 2 × 2 places as one place with four times the channels, last in memory, as many of
/// them as asked for: a thread has a place.
fn to_depth(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let ([_, given, h, w], [_, rows, columns, wanted]) = (x.ty.shape.dims(), y.ty.shape.dims()) else { return None };
    let off = c.attrs.size("off").ok()?;
    let (ty, dtype) = (stored(y.ty.dtype), y.ty.dtype);
    let zero = format!("put_{dtype}(({})0)", Class::of(dtype).c());
    let body = format!(
        "const idx q1 = i % {columns}, q0 = i / {columns} % {rows}, n = i / {};\n\
         pack<{ty}, {EACH}> out[{}];\n\
         #pragma unroll\nfor (int d = 0; d < {wanted}; d++) {{\n\
         const int c = d % {given}, a = d / {given} / 2, b = d / {given} % 2;\n\
         const int x0 = (int)q0 * 2 + a - {off}, x1 = (int)q1 * 2 + b - {off};\n\
         const bool is_inside = d < {} && x0 >= 0 && x0 < {h} && x1 >= 0 && x1 < {w};\n\
         out[d / {EACH}].at[d % {EACH}] = is_inside ? put_{dtype}(get(x[((n * {given} + c) * {h} + x0) * {w} + x1])) : {zero};\n}}\n\
         #pragma unroll\nfor (int d = 0; d < {wanted} / {EACH}; d++) *(pack<{ty}, {EACH}>*)(y + i * {wanted} + d * {EACH}) = out[d];\n",
        rows * columns,
        wanted / EACH,
        4 * given,
    );
    Text::new().reads("x", x).writes("y", y).each(y.ty.shape.count() / wanted, &body)
}

/// Back from there: each element of `[N, C, H, W]` finds its place.
fn from_depth(c: &Call) -> Option<Vec<Kernel>> {
    let (y, x) = (&c.args[0], &c.outs[0]);
    let ([_, given, h, w], [_, rows, columns, wanted]) = (x.ty.shape.dims(), y.ty.shape.dims()) else { return None };
    let off = c.attrs.size("off").ok()?;
    let body = format!(
        "const idx x1 = i % {w} + {off}, x0 = i / {w} % {h} + {off}, c = i / {} % {given}, n = i / {};\n\
         x[i] = y[((n * {rows} + x0 / 2) * {columns} + x1 / 2) * {wanted} + (x0 % 2 * 2 + x1 % 2) * {given} + c];\n",
        h * w,
        given * h * w,
    );
    Text::new().reads("y", y).writes("x", x).each(x.ty.shape.count(), &body)
}
