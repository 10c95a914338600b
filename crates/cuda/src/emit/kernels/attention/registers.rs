//! The keys and values of few heads, which many warps share: each has few of them, in registers, and asks for
//! the next while it uses these.

use super::{EACH, Sizes, View};
use crate::emit::kernels::Operand;

/// Keys a warp takes at a time.
pub const TILE: usize = 32;

/// The queries as tensor cores take them: lane 4g + c has row g, and of each 32 elements the 8 from 8c on.
fn queries(s: &Sizes, q: &Operand) -> String {
    format!(
        "uint4 u[{chunks}];\n\
         #pragma unroll\nfor (int i = 0; i < {chunks}; i++) {{\n\
         u[i] = *(const uint4*)(q + b * {q0} + (h * {shared} + g) * {q1} + i * 32 + c * {EACH});\n\
         if (r >= {shared}) u[i] = make_uint4(0, 0, 0, 0);\n}}\n\
         float acc[{passes}][8][4] = {{}};\n",
        shared = s.shared(),
        chunks = s.width / 32,
        passes = s.width.div_ceil(64),
        q0 = q.layout.strides[0],
        q1 = q.layout.strides[1],
    )
}

/// The loop over the warp's keys: scores, softmax as it goes, sums of values.
pub fn tiles(s: &Sizes, [q, k, v]: [&Operand; 3], view: &View) -> String {
    let (width, dtype, parts, keys) = (s.width, q.ty.dtype, s.parts, s.keys);
    let at = |o: &Operand, d: usize| o.layout.strides[d];
    let View { any, one, added } = view;
    let (tiles, step) = (s.keys.div_ceil(TILE), s.parts * s.warps);
    let queries = queries(s, q);
    format!(
        "{queries}// Which of a tile's keys are seen; known one tile ahead.\n\
         const auto look = [&](int tile) -> unsigned {{\n\
         const idx key = tile * {TILE} + lane;\n\
         return __ballot_sync(0xffffffffu, key < {keys} && ({any}));\n}};\n\
         uint4 x[4][{chunks}], z[2][4][{passes}];\n\
         const auto ask_keys = [&](int tile, unsigned seen) {{\n\
         #pragma unroll\nfor (int t = 0; t < 4; t++) {{\n\
         const idx key = tile * {TILE} + t * 8 + r;\nconst bool is_in = seen >> (t * 8 + r) & 1;\n\
         #pragma unroll\nfor (int i = 0; i < {chunks}; i++) {{\n\
         x[t][i] = make_uint4(0, 0, 0, 0);\n\
         if (is_in) x[t][i] = *(const uint4*)(k + b * {k0} + h * {k1} + key * {k2} + i * 32 + c * {EACH});\n}}\n}}\n}};\n\
         const auto ask_values = [&](int tile, unsigned seen) {{\n\
         #pragma unroll\nfor (int t = 0; t < 8; t++) {{\n\
         const int place = t / 4 * 16 + t % 4 / 2 * 8 + c * 2 + t % 2;\n\
         const idx key = tile * {TILE} + place;\nconst bool is_in = seen >> place & 1;\n\
         #pragma unroll\nfor (int i = 0; i < {passes}; i++) {{\n\
         z[t / 4][t % 4][i] = make_uint4(0, 0, 0, 0);\n\
         if (is_in && i * 64 + r * {EACH} < {width}) z[t / 4][t % 4][i] = *(const uint4*)(v + b * {v0} + h * {v1} + key * {v2} + i * 64 + r * {EACH});\n}}\n}}\n}};\n\
         int tile = part + warp * {parts};\n\
         unsigned seen = look(tile), next = look(tile + {step});\n\
         ask_keys(tile, seen);\nask_values(tile, seen);\n\
         // The next keys are on their way while values are used, the next values while keys are.\n\
         for (; tile < {tiles}; tile += {step}) {{\n\
         const idx first = tile * {TILE};\n\
         float p[4][4], most = hidden;\n\
         #pragma unroll\nfor (int t = 0; t < 4; t++) {{\n\
         #pragma unroll\nfor (int i = 0; i < 4; i++) p[t][i] = 0;\n\
         #pragma unroll\nfor (int i = 0; i < {chunks}; i++) {{\n\
         multiply_{dtype}(p[t], u[i].x, 0, u[i].y, 0, x[t][i].x, x[t][i].y);\n\
         multiply_{dtype}(p[t], u[i].z, 0, u[i].w, 0, x[t][i].z, x[t][i].w);\n}}\n\
         #pragma unroll\nfor (int i = 0; i < 2; i++) {{\n\
         const idx key = first + t * 8 + c * 2 + i;\n\
         p[t][i] = (seen >> (t * 8 + c * 2 + i) & 1){one} ? p[t][i] * scale{added} : hidden;\n\
         most = fmaxf(most, p[t][i]);\n}}\n}}\n\
         ask_keys(tile + {step}, next);\n\
         if (seen) {{\n\
         most = fmaxf(top, across<Max, 4>(most));\n\
         const float less = top == hidden ? 0.0f : exp2f(top - most);\n\
         top = most;\nl = l * less;\n\
         #pragma unroll\nfor (int t = 0; t < 4; t++)\n\
         #pragma unroll\nfor (int i = 0; i < 2; i++) {{\n\
         p[t][i] = top == hidden ? 0.0f : exp2f(p[t][i] - top);\nl = l + p[t][i];\n}}\n\
         #pragma unroll\nfor (int i = 0; i < {passes}; i++)\n\
         #pragma unroll\nfor (int j = 0; j < 8; j++) {{\nacc[i][j][0] *= less;\nacc[i][j][1] *= less;\n\
         #pragma unroll\nfor (int w = 0; w < 2; w++) {{\n\
         const unsigned how = j % 2 ? 0x7632 : 0x5410;\n\
         const unsigned e = __byte_perm((&z[w][0][i].x)[j / 2], (&z[w][1][i].x)[j / 2], how);\n\
         const unsigned f = __byte_perm((&z[w][2][i].x)[j / 2], (&z[w][3][i].x)[j / 2], how);\n\
         multiply_{dtype}(acc[i][j], pair_{dtype}(p[w * 2][0], p[w * 2][1]), 0, pair_{dtype}(p[w * 2 + 1][0], p[w * 2 + 1][1]), 0, e, f);\n}}\n}}\n}}\n\
         ask_values(tile + {step}, next);\nseen = next;\nnext = look(tile + 2 * {step});\n}}\n",
        chunks = width / 32,
        passes = width.div_ceil(64),
        k0 = at(k, 0),
        k1 = at(k, 1),
        k2 = at(k, 2),
        v0 = at(v, 0),
        v1 = at(v, 1),
        v2 = at(v, 2),
    )
}

/// Puts a warp's sums into shared memory as `sums`.
pub fn sums(s: &Sizes) -> String {
    let (shared, width) = (s.shared(), s.width);
    format!(
        "__shared__ float sums[{warps}][{shared}][{width}];\n\
         if (r < {shared}) {{\n\
         #pragma unroll\nfor (int i = 0; i < {passes}; i++)\n\
         #pragma unroll\nfor (int j = 0; j < 8; j++)\n\
         #pragma unroll\nfor (int n = 0; n < 2; n++) {{\n\
         const int f = i * 64 + (c * 2 + n) * 8 + j;\n\
         if (f < {width}) sums[warp][r][f] = acc[i][j][n];\n}}\n}}\n",
        warps = s.warps,
        passes = width.div_ceil(64),
    )
}
