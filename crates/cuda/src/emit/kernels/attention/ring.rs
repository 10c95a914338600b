//! The keys and values of many heads: those that come next are on their way to shared memory, from where
//! tensor cores take them, while these are used.

use super::{EACH, Sizes, View};
use crate::emit::WAIT;
use crate::emit::kernels::Operand;

/// Keys a warp takes at a time, and how often it has them in shared memory at least: those it is busy with and those
/// on their way.
pub const TILE: usize = 16;
pub const STAGES: usize = 2;

/// Bytes from a row of keys or values in shared memory to the next: eight of them lie in different banks.
fn pitch(s: &Sizes) -> usize {
    2 * s.width + 16
}

/// Bytes of shared memory: first for tiles, then for what the warps have found.
pub fn bytes(s: &Sizes) -> usize {
    let sums = s.warps * s.shared() * s.width * 4;
    (s.warps * s.stages * 2 * TILE * pitch(s)).max(sums)
}

/// The queries as tensor cores take them: lane 4g + c has of row g, of each 16 elements, two from 2c and two
/// from 8 + 2c on.
fn queries(s: &Sizes, q: &Operand) -> String {
    format!(
        "unsigned u[{steps}][2];\n\
         #pragma unroll\nfor (int i = 0; i < {steps} * 2; i++) {{\n\
         u[i / 2][i % 2] = *(const unsigned*)(q + b * {q0} + (h * {shared} + g) * {q1} + i * 8 + c * 2);\n\
         if (r >= {shared}) u[i / 2][i % 2] = 0;\n}}\n\
         float acc[{groups}][4] = {{}};\n",
        shared = s.shared(),
        steps = s.width / 16,
        groups = s.width / 8,
        q0 = q.layout.strides[0],
        q1 = q.layout.strides[1],
    )
}

/// Asks for the warp's first keys and values; before the launch before has ended, where it is known that it puts
/// some of them there and which.
fn first(s: &Sizes, is_put: bool) -> String {
    let (kept, width, step, ahead) = (s.kept, s.width, s.parts * s.warps, s.stages - 1);
    let each = |text: &str| format!("#pragma unroll\nfor (int i = 0; i < {ahead}; i++) {{\n{text}}}\n");
    let ask = format!("ask(tile + i * {step}, i, seen[i]);\n");
    if !is_put {
        return each(&format!("if (seen[i]) {ask}bring_group();\n"));
    }
    let early = each(&format!(
        "bool is_put = false;\n\
         #pragma unroll\nfor (int f = lane; f < {width}; f += 32)\n\
         is_put |= index[(b * {kept} + h) * {width} + f] / {TILE} == tile + i * {step};\n\
         is_late[i] = __any_sync(0xffffffffu, is_put);\n\
         if (seen[i] && !is_late[i]) {ask}"
    ));
    let late = each(&format!("if (seen[i] && is_late[i]) {ask}bring_group();\n"));
    format!(
        "// The launch before puts keys and values where the index says; others are there.\nbool is_late[{ahead}];\n{early}{WAIT}{late}"
    )
}

/// The loop over the warp's keys: scores, softmax as it goes, sums of values. With `is_put`, there is an index of
/// the keys that the launch before puts there.
pub fn tiles(s: &Sizes, [q, k, v]: [&Operand; 3], view: &View, is_put: bool) -> String {
    let (width, dtype, parts, keys) = (s.width, q.ty.dtype, s.parts, s.keys);
    let at = |o: &Operand, d: usize| o.layout.strides[d];
    let View { any, one, added } = view;
    let (tiles, step) = (s.keys.div_ceil(TILE), s.parts * s.warps);
    format!(
        "// Which of a tile's keys are seen; known before they are asked for.\n\
         const auto look = [&](int tile) -> unsigned {{\n\
         const idx key = tile * {TILE} + lane;\n\
         return __ballot_sync(0xffffffffu, lane < {TILE} && key < {keys} && ({any}));\n}};\n\
         extern __shared__ __align__(128) char tiles[];\n\
         constexpr int pitch = {pitch}, half = {TILE} * pitch;\n\
         const unsigned own = shared_at(tiles) + warp * {stages} * 2 * half;\n\
         const auto ask = [&](int tile, int slot, unsigned seen) {{\n\
         const unsigned to = own + slot * 2 * half;\n\
         #pragma unroll\nfor (int i = 0; i < {loads}; i++) {{\n\
         const int row = (i * 32 + lane) / {pieces}, piece = (i * 32 + lane) % {pieces};\n\
         const bool is_in = seen >> row & 1;\nconst idx key = is_in ? tile * {TILE} + row : 0;\n\
         bring_16(to + row * pitch + piece * 16, k + b * {k0} + h * {k1} + key * {k2} + piece * {EACH}, is_in);\n\
         bring_16(to + half + row * pitch + piece * 16, v + b * {v0} + h * {v1} + key * {v2} + piece * {EACH}, is_in);\n}}\n}};\n\
         int tile = part + warp * {parts}, slot = 0;\n\
         unsigned seen[{stages} + 1];\n\
         #pragma unroll\nfor (int i = 0; i <= {stages}; i++) seen[i] = look(tile + i * {step});\n\
         {first}{queries}\
         for (; tile < {tiles}; tile += {step}) {{\n\
         bring_wait<{stages} - 2>();\n__syncwarp();\n\
         if (seen[{stages} - 1]) ask(tile + ({stages} - 1) * {step}, slot == 0 ? {stages} - 1 : slot - 1, seen[{stages} - 1]);\n\
         bring_group();\n\
         if (seen[0]) {{\n\
         const idx first = tile * {TILE};\n\
         const unsigned keys_at = own + slot * 2 * half + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 16;\n\
         const unsigned values_at = own + (slot * 2 + 1) * half + lane % 16 * pitch + lane / 16 * 16;\n\
         float p[2][4] = {{}}, most = hidden;\n\
         #pragma unroll\nfor (int i = 0; i < {steps}; i++) {{\n\
         unsigned x[4];\ntake_matrices(x, keys_at + i * 32);\n\
         multiply_{dtype}(p[0], u[i][0], 0, u[i][1], 0, x[0], x[1]);\n\
         multiply_{dtype}(p[1], u[i][0], 0, u[i][1], 0, x[2], x[3]);\n}}\n\
         #pragma unroll\nfor (int t = 0; t < 2; t++)\n\
         #pragma unroll\nfor (int i = 0; i < 2; i++) {{\n\
         const idx key = first + t * 8 + c * 2 + i;\n\
         p[t][i] = (seen[0] >> (t * 8 + c * 2 + i) & 1){one} ? p[t][i] * scale{added} : hidden;\n\
         most = fmaxf(most, p[t][i]);\n}}\n\
         most = fmaxf(top, across<Max, 4>(most));\n\
         const float less = top == hidden ? 0.0f : exp2f(top - most);\n\
         top = most;\nl = l * less;\n\
         #pragma unroll\nfor (int t = 0; t < 2; t++)\n\
         #pragma unroll\nfor (int i = 0; i < 2; i++) {{\n\
         p[t][i] = top == hidden ? 0.0f : exp2f(p[t][i] - top);\nl = l + p[t][i];\n}}\n\
         const unsigned e = pair_{dtype}(p[0][0], p[0][1]), f = pair_{dtype}(p[1][0], p[1][1]);\n\
         #pragma unroll\nfor (int j = 0; j < {steps}; j++) {{\n\
         unsigned z[4];\ntake_transposed(z, values_at + j * 32);\n\
         #pragma unroll\nfor (int n = 0; n < 2; n++) {{\n\
         float* const to = acc[j * 2 + n];\nto[0] *= less;\nto[1] *= less;\n\
         multiply_{dtype}(to, e, 0, f, 0, z[n * 2], z[n * 2 + 1]);\n}}\n}}\n}}\n\
         #pragma unroll\nfor (int i = 0; i < {stages}; i++) seen[i] = seen[i + 1];\n\
         seen[{stages}] = look(tile + ({stages} + 1) * {step});\n\
         slot = slot + 1 == {stages} ? 0 : slot + 1;\n}}\n",
        first = first(s, is_put),
        queries = queries(s, q),
        pitch = pitch(s),
        stages = s.stages,
        pieces = width / EACH,
        loads = TILE * width / EACH / 32,
        steps = width / 16,
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
        "// No warp has tiles left or in flight.\n\
         bring_wait<0>();\n__syncthreads();\n\
         float (*const sums)[{shared}][{width}] = (float (*)[{shared}][{width}])tiles;\n\
         if (r < {shared}) {{\n\
         #pragma unroll\nfor (int j = 0; j < {groups}; j++)\n\
         *(float2*)&sums[warp][r][j * 8 + c * 2] = make_float2(acc[j][0], acc[j][1]);\n}}\n",
        groups = width / 8,
    )
}
