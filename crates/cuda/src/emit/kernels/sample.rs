//! Images read at given places.

use super::sort::{Keys, Radix, radix_scratch};
use super::{Call, Operand, Text};
use crate::claims::Claim;
use crate::emit::scalar::{Class, stored};
use crate::emit::{Arg, Kernel};
use ir::{Attrs, FlatNode, Type};

/// Sampling of images.
pub static CLAIMS: &[Claim] = &[
    Claim { is_whole: fits, ..Claim::new("grid_sample", grid_sample) },
    Claim { is_whole: fits, scratch, ..Claim::new("grid_sample_grad", grid_sample_grad) },
    Claim { is_whole: is_linear, ..Claim::new("interpolate", interpolate) },
    Claim { is_whole: is_uneven, ..Claim::new("adaptive_avg_pool", adaptive_means) },
];

/// Channels of a thread.
const EACH: usize = 8;

/// Images of two dimensions; bicubic samples are made of other ops.
fn fits(n: &FlatNode, types: &[Type]) -> bool {
    let mode = n.attrs.str("mode");
    let (image, places) = (types[0].shape.count(), types[1].shape.count());
    // Places are counted in 32 bits.
    let is_small = |n: usize| n > 0 && i32::try_from(n).is_ok();
    let is_sized = is_small(image) && places > 0 && types[0].shape.get(1).is_some_and(|c| is_small(c * 2 * places));
    types[0].shape.rank() == 4 && is_sized && (mode == Ok("bilinear") || mode == Ok("nearest"))
}

/// Images of two dimensions that are resampled linearly.
fn is_linear(n: &FlatNode, types: &[Type]) -> bool {
    let ty = &types[0];
    ty.shape.rank() == 4 && ty.dtype.is_float() && ty.shape.count() > 0 && n.attrs.str("mode") == Ok("linear")
}

/// Elements side by side that a thread resamples.
const WIDTH: usize = 4;

/// A thread for a few neighbors of the result. Places are computed in f64, as the reference does.
fn interpolate(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let [n, channels, h, w] = *x.ty.shape.dims() else { return None };
    let [.., oh, ow] = *y.ty.shape.dims() else { return None };
    let (step, is_aligned) = (c.attrs.literal("step").ok()?.to_f64(), c.attrs.bool("align_corners").ok()?);
    let center = |d: usize, i: &str, size: usize, out: usize| match is_aligned {
        true if out > 1 => format!("(double)({i}) * {:?} / {:?}", size as f64 - 1.0, out as f64 - 1.0),
        true => "0.0".to_string(),
        false => format!("fmax(((double)({i}) + 0.5) * {:?} - 0.5, 0.0)", step[d]),
    };
    let each = if ow.is_multiple_of(WIDTH) { WIDTH } else { 1 };
    let (class, ty) = (Class::of(x.ty.dtype).c(), stored(y.ty.dtype));
    let body = format!(
        "const idx column = i % {across} * {each}, row = i / {across} % {oh}, plane = i / {};\n\
         const double down = {};\n\
         const int r0 = min((int)down, {h} - 1), r1 = min(r0 + 1, {h} - 1);\n\
         const {class} b = ({class})(down - floor(down)), a = ({class})(1.0 - (down - floor(down)));\n\
         const {x_ty}* above = x + (plane * {h} + r0) * {w};\nconst {x_ty}* below = x + (plane * {h} + r1) * {w};\n\
         pack<{ty}, {each}> out;\n\
         #pragma unroll\nfor (int v = 0; v < {each}; v++) {{\n\
         const double right = {};\n\
         const int c0 = min((int)right, {w} - 1), c1 = min(c0 + 1, {w} - 1);\n\
         const {class} t = ({class})(right - floor(right)), s = ({class})(1.0 - (right - floor(right)));\n\
         const {class} top = get(above[c0]) * a + get(below[c0]) * b, next = get(above[c1]) * a + get(below[c1]) * b;\n\
         out.at[v] = put_{}(top * s + next * t);\n}}\n\
         *(pack<{ty}, {each}>*)(y + (plane * {oh} + row) * {ow} + column) = out;\n",
        oh * (ow / each),
        center(0, "row", h, oh),
        center(1, "column + v", w, ow),
        y.ty.dtype,
        across = ow / each,
        x_ty = stored(x.ty.dtype),
    );
    Text::new().reads("x", x).writes("y", y).each(n * channels * oh * (ow / each), &body)
}

/// Adaptive pooling of two dimensions whose windows overlap or differ in size; others are reductions.
fn is_uneven(n: &FlatNode, types: &[Type]) -> bool {
    let (from, to) = (&types[0].shape, &n.outs[0].shape);
    let differs = from.iter().zip(to.iter()).skip(2).any(|(size, out)| *out > 0 && size % out > 0);
    differs && from.rank() == 4 && types[0].dtype.is_float() && from.count() > 0
}

/// A thread for each window.
fn adaptive_means(c: &Call) -> Option<Vec<Kernel>> {
    let (x, y) = (&c.args[0], &c.outs[0]);
    let [.., h, w] = *x.ty.shape.dims() else { return None };
    let [n, channels, oh, ow] = *y.ty.shape.dims() else { return None };
    let class = Class::of(x.ty.dtype).c();
    let body = format!(
        "const idx column = i % {ow}, row = i / {ow} % {oh}, plane = i / {};\n\
         const int r0 = (int)(row * {h} / {oh}), r1 = (int)(((row + 1) * {h} + {oh} - 1) / {oh});\n\
         const int c0 = (int)(column * {w} / {ow}), c1 = (int)(((column + 1) * {w} + {ow} - 1) / {ow});\n\
         {class} sum = 0;\n\
         for (int r = r0; r < r1; r++)\nfor (int c = c0; c < c1; c++) sum += get(x[(plane * {h} + r) * {w} + c]);\n\
         y[i] = put_{}(sum / ({class})((r1 - r0) * (c1 - c0)));\n",
        oh * ow,
        y.ty.dtype,
    );
    Text::new().reads("x", x).writes("y", y).each(n * channels * oh * ow, &body)
}

/// Statements that bring a place `p` outside of `size` elements back.
fn brought_back(padding: &str, is_aligned: bool, size: usize) -> Option<String> {
    let last = size as f64 - 1.0;
    Some(match padding {
        "zeros" => String::new(),
        "border" => format!("p = fmin_nan(fmax_nan(p, (F)0), (F){last:?});\n"),
        "reflection" => {
            let (low, span) = if is_aligned { (0.0, last) } else { (-0.5, last + 1.0) };
            if span == 0.0 {
                "p = 0;\n".to_string()
            } else {
                format!(
                    "{{\nconst F from = fabs(p - (F){low:?}), turns = floor(from / (F){span:?}), rest = from - turns * (F){span:?};\n\
                     p = (py_rem(turns, (F)2) == 1 ? (F){span:?} - rest : rest) + (F){low:?};\n}}\n\
                     p = fmin_nan(fmax_nan(p, (F)0), (F){last:?});\n"
                )
            }
        }
        _ => return None,
    })
}

/// Statements that find the elements `at{d}[…]` to be read along a dimension, and their weights `w{d}[…]`.
fn taps(attrs: &Attrs, d: usize, size: usize) -> Option<String> {
    let (padding, is_aligned) = (attrs.str("padding").ok()?, attrs.bool("align_corners").ok()?);
    let (n, last) = (size as f64, size as f64 - 1.0);
    let place = if is_aligned {
        format!("(g{d} + (F)1) * (F){:?}", last / 2.0)
    } else {
        format!("((g{d} + (F)1) * (F){n:?} - (F)1) * (F)0.5")
    };
    let is_nearest = attrs.str("mode").ok()? == "nearest";
    let inside = if padding == "zeros" { format!("q >= 0 && q <= (F){last:?}") } else { "true".to_string() };
    let (count, first, weight) =
        if is_nearest { (1, "rint(p)", "1") } else { (2, "floor(p)", "k == 0 ? (F)1 - (p - first) : p - first") };
    Some(format!(
        "int at{d}[{count}];\nF w{d}[{count}];\nbool is{d}[{count}];\n{{\nF p = {place};\n{}\
         const F first = {first};\n\
         #pragma unroll\nfor (int k = 0; k < {count}; k++) {{\n\
         const F q = first + (F)k;\n\
         at{d}[k] = (int)fmin(fmax(q, (F)0), (F){last:?});\nw{d}[k] = {weight};\nis{d}[k] = {inside};\n}}\n}}\n",
        brought_back(padding, is_aligned, size)?
    ))
}

/// Taps of a dimension.
fn side(attrs: &Attrs) -> Option<usize> {
    Some(if attrs.str("mode").ok()? == "nearest" { 1 } else { 2 })
}

/// Bytes of an image's channel that shared memory holds, threads of a block that does so, and blocks that fill a GPU.
const PLANE_BYTES: usize = 72 << 10;
const PLANE_THREADS: usize = 512;
const PLANES: usize = 264;

/// A thread for each place and a few channels; or, where a channel fits into shared memory and most of it is read, a
/// block for each channel.
fn grid_sample(c: &Call) -> Option<Vec<Kernel>> {
    let (x, grid, y) = (&c.args[0], &c.args[1], &c.outs[0]);
    let [n, channels, h, w] = *x.ty.shape.dims() else { return None };
    let places = grid.ty.shape.count() / (2 * n).max(1);
    let (groups, count, size) = (channels.div_ceil(EACH), side(c.attrs)?, h * w);
    let (bytes, planes) = (size * x.ty.dtype.size(), n * channels);
    let is_shared = bytes <= PLANE_BYTES && size <= 4 * places && planes * places >= 1 << 18;
    let given = format!(
        "const F g1 = get(grid[(n * {places} + q) * 2]), g0 = get(grid[(n * {places} + q) * 2 + 1]);\n{}{}",
        taps(c.attrs, 0, h)?,
        taps(c.attrs, 1, w)?
    );
    let sum = |read: &str| {
        format!(
            "F sum = 0;\n\
             #pragma unroll\nfor (int a = 0; a < {count}; a++)\n\
             #pragma unroll\nfor (int b = 0; b < {count}; b++) {{\n\
             const F v = get({read}[at0[a] * {w} + at1[b]]);\n\
             sum += is0[a] && is1[b] ? v * (w0[a] * w1[b]) : (F)0;\n}}\n"
        )
    };
    let (class, dtype) = (Class::of(x.ty.dtype).c(), y.ty.dtype);
    let t = Text::new().reads("x", x).reads("grid", grid).writes("y", y);
    if is_shared {
        let parts = (PLANES / planes).clamp(1, places.div_ceil(PLANE_THREADS));
        let body = format!(
            "typedef {class} F;\n\
             extern __shared__ __align__(16) char room[];\n\
             {ty}* own = ({ty}*)room;\n\
             const unsigned plane = blockIdx.x / {parts}u, part = blockIdx.x % {parts}u, n = plane / {channels}u;\n\
             #pragma unroll 8\n\
             for (unsigned t = threadIdx.x; t < {size}u; t += {PLANE_THREADS}) own[t] = x[plane * {size}u + t];\n\
             __syncthreads();\n\
             for (unsigned q = part * {PLANE_THREADS} + threadIdx.x; q < {places}u; q += {parts}u * {PLANE_THREADS}) {{\n\
             {given}{}y[plane * {places}u + q] = put_{dtype}(sum);\n}}\n",
            sum("own"),
            ty = stored(x.ty.dtype),
        );
        let mut kernels = t.blocks(planes * parts, PLANE_THREADS, &body)?;
        kernels[0].shared = bytes as u32;
        return Some(kernels);
    }
    let body = format!(
        "typedef {class} F;\n\
         const unsigned at = (unsigned)i, q = at % {places}u, row = at / {places}u, group = row % {groups}u, n = row / {groups}u;\n\
         {given}const unsigned first = n * {channels} + group * {EACH};\n\
         #pragma unroll\nfor (int k = 0; k < {EACH}; k++) {{\n\
         if (group * {EACH} + k >= {channels}) break;\n\
         const {ty}* plane = x + (first + k) * {size};\n\
         {}y[(first + k) * {places} + q] = put_{dtype}(sum);\n}}\n",
        sum("plane"),
        ty = stored(x.ty.dtype),
    );
    t.each(n * groups * places, &body)
}

/// Sizes of a gradient.
struct Sizes {
    n: usize,
    channels: usize,
    h: usize,
    w: usize,
    /// Places of an image, and taps of them.
    places: usize,
    taps: usize,
}

impl Sizes {
    fn new(attrs: &Attrs, args: &[Operand]) -> Option<Sizes> {
        let [n, channels, h, w] = *args[0].ty.shape.dims() else { return None };
        let places = args[1].ty.shape.count().checked_div(2 * n)?;
        let taps = places * side(attrs)? * side(attrs)?;
        let is_small = i32::try_from(h * w + 1).is_ok() && i32::try_from(n * taps).is_ok();
        (is_small && channels * taps > 0).then_some(Sizes { n, channels, h, w, places, taps })
    }
    fn keys(&self) -> Keys {
        Keys::up_to(self.h * self.w)
    }
    /// Where the parts of the scratch space begin: elements that taps lead to in order, the taps, their weights, where
    /// the taps of each element begin; its end.
    fn parts(&self) -> [usize; 5] {
        let mut at = [radix_scratch(self.n, self.taps, &self.keys()); 5];
        let sizes = [
            4 * self.n * self.taps,
            4 * self.n * self.taps,
            8 * self.n * self.taps,
            4 * self.n * (self.h * self.w + 1),
        ];
        for (i, bytes) in sizes.iter().enumerate() {
            at[i + 1] = at[i] + bytes.next_multiple_of(256);
        }
        at
    }
}

fn scratch(attrs: &Attrs, args: &[Operand]) -> usize {
    Sizes::new(attrs, args).map_or(0, |s| s.parts()[4])
}

/// Statements that find the taps of place `q` of image `n`.
fn found(attrs: &Attrs, s: &Sizes) -> Option<String> {
    let places = s.places;
    Some(format!(
        "const F g1 = get(grid[(n * {places} + q) * 2]), g0 = get(grid[(n * {places} + q) * 2 + 1]);\n{}{}",
        taps(attrs, 0, s.h)?,
        taps(attrs, 1, s.w)?
    ))
}

/// The image's gradient: taps are sorted by the elements they lead to, so that each element adds up its own, in order.
/// That of the coordinates: four threads for each place.
fn grid_sample_grad(c: &Call) -> Option<Vec<Kernel>> {
    let s = Sizes::new(c.attrs, c.args)?;
    let mut kernels = Vec::new();
    if c.is_read(0) {
        kernels.extend(sorted(c, &s)?);
        kernels.extend(weighted(c, &s)?);
        kernels.extend(of_image(c, &s)?);
    }
    if c.is_read(1) {
        kernels.extend(of_grid(c, &s)?);
    }
    Some(kernels)
}

/// Element and weight of tap `a`, `b` of place `q`, as a function of the number of the tap.
fn tap(c: &Call, s: &Sizes, result: &str) -> Option<String> {
    let side = side(c.attrs)?;
    Some(format!(
        "typedef {class} F;\nconst int q = t / {all}, a = t % {all} / {side}, b = t % {side};\n{}{result}",
        found(c.attrs, s)?,
        class = Class::of(c.args[0].ty.dtype).c(),
        all = side * side,
    ))
}

fn sorted(c: &Call, s: &Sizes) -> Option<Vec<Kernel>> {
    let (keys, at, size) = (s.keys(), s.parts(), s.taps);
    let outside = s.h * s.w;
    let result = format!("return is0[a] && is1[b] ? (unsigned)(at0[a] * {} + at1[b]) : {outside}u;\n", s.w);
    let key = format!("[&](idx n, unsigned t) -> unsigned {{\n{}}}(lane, p)", tap(c, s, &result)?);
    let read = |t: Text| (t.reads("grid", &c.args[1]), key.clone());
    let store = |t: Text, _| {
        let t = t.memory("sorted", "unsigned", Arg::Scratch(at[0])).memory("from", "unsigned", Arg::Scratch(at[1]));
        (t, format!("sorted[lane * {size} + to] = s.keys[p];\nfrom[lane * {size} + to] = s.ids[p];\n"))
    };
    Radix { lanes: s.n, size, keys: &keys, start: String::new(), read: &read, store: &store }.kernels()
}

/// The weights of sorted taps, and where the taps of each element begin, by bisection.
fn weighted(c: &Call, s: &Sizes) -> Option<Vec<Kernel>> {
    let (at, size, cells) = (s.parts(), s.taps, s.h * s.w);
    let class = Class::of(c.args[0].ty.dtype).c();
    let t = Text::new().reads("grid", &c.args[1]).memory("sorted", "const unsigned", Arg::Scratch(at[0]));
    let t = t.memory("from", "const unsigned", Arg::Scratch(at[1])).memory("weights", class, Arg::Scratch(at[2]));
    let t = t.memory("starts", "unsigned", Arg::Scratch(at[3]));
    let each = size.max(cells + 1);
    let body = format!(
        "const idx n = i / {each}, k = i % {each};\n\
         if (k <= {cells}) {{\n\
         int low = 0, high = {size};\n\
         while (low < high) {{\nconst int middle = (low + high) / 2;\n\
         if (sorted[n * {size} + middle] < (unsigned)k) low = middle + 1; else high = middle;\n}}\n\
         starts[n * {} + k] = low;\n}}\n\
         if (k < {size}) {{\nconst unsigned t = from[n * {size} + k];\n{}}}\n",
        cells + 1,
        tap(c, s, &format!("weights[n * {size} + k] = w0[a] * w1[b];\n"))?
    );
    t.each(s.n * each, &body)
}

fn of_image(c: &Call, s: &Sizes) -> Option<Vec<Kernel>> {
    let (at, &Sizes { n, channels, h, w, places, taps }) = (s.parts(), s);
    let (cells, groups, y) = (h * w, channels.div_ceil(EACH), &c.outs[0]);
    let class = Class::of(c.args[0].ty.dtype).c();
    let t = Text::new().reads("g", &c.args[2]).writes("y", y).memory("from", "const unsigned", Arg::Scratch(at[1]));
    let t = t.memory("weights", &format!("const {class}"), Arg::Scratch(at[2]));
    let t = t.memory("starts", "const unsigned", Arg::Scratch(at[3]));
    let body = format!(
        "const idx cell = i % {cells}, group = i / {cells} % {groups}, n = i / {};\n\
         const int end = starts[n * {next} + cell + 1];\n\
         {class} sums[{EACH}] = {{}};\n\
         const idx first = n * {channels} + group * {EACH};\n\
         for (int k = starts[n * {next} + cell]; k < end; k++) {{\n\
         const {class} weight = weights[n * {taps} + k];\n\
         const idx q = from[n * {taps} + k] / {all};\n\
         #pragma unroll\nfor (int e = 0; e < {EACH}; e++)\n\
         if (group * {EACH} + e < {channels}) sums[e] += weight * get(g[(first + e) * {places} + q]);\n}}\n\
         #pragma unroll\nfor (int e = 0; e < {EACH}; e++)\n\
         if (group * {EACH} + e < {channels}) y[(first + e) * {cells} + cell] = put_{}(sums[e]);\n",
        cells * groups,
        y.ty.dtype,
        next = cells + 1,
        all = taps / places,
    );
    t.each(n * groups * cells, &body)
}

/// Statements that compute how a place changes with its coordinate, `turn{d}`.
fn turn(attrs: &Attrs, d: usize, size: usize) -> Option<String> {
    let (padding, is_aligned) = (attrs.str("padding").ok()?, attrs.bool("align_corners").ok()?);
    let (n, last) = (size as f64, size as f64 - 1.0);
    let (step, place) = if is_aligned {
        (last / 2.0, format!("(g{d} + (F)1) * (F){:?}", last / 2.0))
    } else {
        (n / 2.0, format!("((g{d} + (F)1) * (F){n:?} - (F)1) * (F)0.5"))
    };
    let (low, span) = if is_aligned { (0.0, last) } else { (-0.5, last + 1.0) };
    Some(match padding {
        "border" => format!(
            "F turn{d} = {step:?};\n{{\nconst F p = {place};\nif (!(p > 0 && p < (F){last:?})) turn{d} = 0;\n}}\n"
        ),
        "reflection" if span == 0.0 => format!("const F turn{d} = 0;\n"),
        "reflection" => format!(
            "F turn{d} = {step:?};\n{{\nF p = {place};\n\
             const bool is_back = (py_rem(floor(fabs(p - (F){low:?}) / (F){span:?}), (F)2) == 1) != (p < (F){low:?});\n{}\
             turn{d} = !(p > 0 && p < (F){last:?}) ? (F)0 : is_back ? -turn{d} : turn{d};\n}}\n",
            brought_back(padding, is_aligned, size)?
        ),
        _ => format!("const F turn{d} = {step:?};\n"),
    })
}

/// Places of a block, and threads of each.
const PLACES: usize = 64;
const THREADS: usize = 4;

fn of_grid(c: &Call, s: &Sizes) -> Option<Vec<Kernel>> {
    let &Sizes { n, channels, h, w, places, .. } = s;
    let (x, y) = (&c.args[0], &c.outs[1]);
    if side(c.attrs)? == 1 {
        return Text::new().writes("y", y).each(y.ty.shape.count(), &format!("y[i] = put_{}(0);\n", y.ty.dtype));
    }
    let body = format!(
        "typedef {class} F;\n\
         const idx i = (idx)blockIdx.x * {PLACES} + threadIdx.x % {PLACES}, at = min(i, (idx){} - 1);\n\
         const idx n = at / {places}, q = at % {places};\n{}{}{}\
         F change[2][2] = {{}};\n\
         for (int k = threadIdx.x / {PLACES}; k < {channels}; k += {THREADS}) {{\n\
         const F g = get(gradient[(n * {channels} + k) * {places} + q]);\n\
         #pragma unroll\nfor (int a = 0; a < 2; a++)\n#pragma unroll\nfor (int b = 0; b < 2; b++)\n\
         if (is0[a] && is1[b]) change[a][b] += g * get(x[(n * {channels} + k) * {} + at0[a] * {w} + at1[b]]);\n}}\n\
         const F down = (change[1][0] - change[0][0]) * w1[0] + (change[1][1] - change[0][1]) * w1[1];\n\
         const F right = (change[0][1] - change[0][0]) * w0[0] + (change[1][1] - change[1][0]) * w0[1];\n\
         __shared__ F sums[2][{THREADS}][{PLACES}];\n\
         sums[0][threadIdx.x / {PLACES}][threadIdx.x % {PLACES}] = right * turn1;\n\
         sums[1][threadIdx.x / {PLACES}][threadIdx.x % {PLACES}] = down * turn0;\n\
         __syncthreads();\n\
         if (threadIdx.x >= {PLACES} || i >= {}) return;\n\
         #pragma unroll\nfor (int d = 0; d < 2; d++) {{\n\
         F sum = 0;\n#pragma unroll\nfor (int t = 0; t < {THREADS}; t++) sum += sums[d][t][threadIdx.x];\n\
         y[i * 2 + d] = put_{dtype}(sum);\n}}\n",
        n * places,
        found(c.attrs, s)?,
        turn(c.attrs, 0, h)?,
        turn(c.attrs, 1, w)?,
        h * w,
        n * places,
        class = Class::of(x.ty.dtype).c(),
        dtype = y.ty.dtype,
    );
    let t = Text::new().reads("x", x).reads("grid", &c.args[1]).reads("gradient", &c.args[2]).writes("y", y);
    t.blocks((n * places).div_ceil(PLACES), PLACES * THREADS, &body)
}
