// Attention over a paged KV cache. Four warps take every fourth key of a segment, and segments are merged in order:
// a token's result depends on its own keys alone.

// Sums of weighted values with the greatest score and the sum of weights, for R heads of which a lane has W elements.
template <int R, int W> struct Partial {
    float most[R], sum[R], y[R][W];
};
template <int R, int W> FN void clear(Partial<R, W>& p) {
    #pragma unroll
    for (int r = 0; r < R; r++) {
        p.most[r] = __int_as_float(0xff800000);
        p.sum[r] = 0;
        #pragma unroll
        for (int e = 0; e < W; e++) p.y[r][e] = 0;
    }
}
// Adds what another has seen later.
template <int R, int W> FN void merge(Partial<R, W>& p, int r, float most, float sum, const float* y) {
    if (most == __int_as_float(0xff800000)) return;
    const float top = fmaxf(p.most[r], most), a = expf(p.most[r] - top), b = expf(most - top);
    p.most[r] = top;
    p.sum[r] = p.sum[r] * a + sum * b;
    #pragma unroll
    for (int e = 0; e < W; e++) p.y[r][e] = p.y[r][e] * a + y[e] * b;
}
// Element e of a row of floats; rows of bytes have their scale, an f32, behind them.
template <typename C> FN float stored(const C* row, int d, int e) { return get(row[e]); }
FN float stored(const signed char* row, int d, int e) {
    unsigned bits = 0;
    #pragma unroll
    for (int i = 0; i < 4; i++) bits |= (unsigned)(unsigned char)row[d + i] << 8 * i;
    return (float)row[e] * __uint_as_float(bits);
}
// A lane's W elements of a row of d; `WHOLE` rows of 32 W floats are read in one piece a lane.
template <int W, bool WHOLE, typename C> FN void read_row(const C* row, int d, float* to) {
    const int first = threadIdx.x % 32 * W;
    if constexpr (WHOLE) {
        const pack<C, W> q = *(const pack<C, W>*)(row + first);
        #pragma unroll
        for (int e = 0; e < W; e++) to[e] = item(q, e);
    } else {
        #pragma unroll
        for (int e = 0; e < W; e++) to[e] = first + e < d ? stored(row, d, first + e) : 0.0f;
    }
}
// A warp writes a row of D numbers in 8 bits with their scale behind them.
template <int D, typename T> FN void store_row(const T* x, signed char* to) {
    const int lane = threadIdx.x % 32;
    float amax = 0;
    for (int e = lane; e < D; e += 32) amax = fmaxf(amax, fabsf(get(x[e])));
    amax = across<Max, 32>(amax);
    const float inverse = amax > 0 ? 127.0f / amax : 0.0f;
    for (int e = lane; e < D; e += 32) to[e] = (signed char)rintf(get(x[e]) * inverse);
    if (lane < 4) to[D + lane] = (signed char)(__float_as_uint(amax / 127.0f) >> 8 * lane & 255);
}
// What a segment of keys adds to the heads of a token: all four warps return the same.
template <bool WHOLE, int R, int W, typename C> FN void see_segment(Partial<R, W>& total, const float (&q)[R][W], const C* k, const C* v,
    const int* table, int first, int last, int blocks, int size, long long row, int width, int head, int d, float cap,
    float* shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Partial<R, W> own;
    clear(own);
    #pragma unroll 4
    for (int p = first + warp; p < last; p += 4) {
        const int block = table[p / size];
        if (block < 0 || block >= blocks) continue;
        const long long at = ((long long)block * size + p % size) * row + (long long)head * width;
        float key[W], value[W];
        read_row<W, WHOLE>(k + at, d, key);
        read_row<W, WHOLE>(v + at, d, value);
        #pragma unroll
        for (int r = 0; r < R; r++) {
            float s = 0;
            #pragma unroll
            for (int e = 0; e < W; e++) s = fmaf(q[r][e], key[e], s);
            s = across<Sum, 32>(s);
            if (cap > 0) s = cap * tanhf(s / cap);
            const float top = fmaxf(own.most[r], s), a = expf(own.most[r] - top), b = expf(s - top);
            own.most[r] = top;
            own.sum[r] = own.sum[r] * a + b;
            #pragma unroll
            for (int e = 0; e < W; e++) own.y[r][e] = own.y[r][e] * a + value[e] * b;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int r = 0; r < R; r++) {
        float* to = shared + (warp * R + r) * (32 * W + 2);
        #pragma unroll
        for (int e = 0; e < W; e++) to[lane * W + e] = own.y[r][e];
        if (lane == 0) {
            to[32 * W] = own.most[r];
            to[32 * W + 1] = own.sum[r];
        }
    }
    __syncthreads();
    Partial<R, W> all;
    clear(all);
    #pragma unroll
    for (int w = 0; w < 4; w++)
        #pragma unroll
        for (int r = 0; r < R; r++) {
            const float* from = shared + (w * R + r) * (32 * W + 2);
            merge(all, r, from[32 * W], from[32 * W + 1], from + lane * W);
        }
    #pragma unroll
    for (int r = 0; r < R; r++) merge(total, r, all.most[r], all.sum[r], all.y[r]);
}
