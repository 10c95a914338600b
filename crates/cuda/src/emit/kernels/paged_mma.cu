// Attention over a paged KV cache of 16-bit floats on tensor cores. A warp takes segments of 64 keys for up to 8 heads
// of a token. Every 32nd segment belongs to one chain, and the chains are merged in a fixed order: a token's result
// depends on its own keys alone.
//
// Lanes are 8 groups of 4. Lane t of group g has head g, and of it a quarter of the elements, which follow each other.

template <typename C> struct Halves;
template <> struct Halves<bf16> {
    FN void multiply(float* c, unsigned a0, unsigned a2, unsigned b0, unsigned b1) { multiply_bf16(c, a0, 0, a2, 0, b0, b1); }
    FN unsigned pair(float a, float b) { return pair_bf16(a, b); }
};
template <> struct Halves<f16> {
    FN void multiply(float* c, unsigned a0, unsigned a2, unsigned b0, unsigned b1) { multiply_f16(c, a0, 0, a2, 0, b0, b1); }
    FN unsigned pair(float a, float b) { return pair_f16(a, b); }
};

// The greatest score, the sum of weights and weighted values: what a lane has of a head.
template <int N> struct Seen {
    float most, sum, y[N];
};
template <int N> FN void clear(Seen<N>& s) {
    s.most = __int_as_float(0xff800000);
    s.sum = 0;
    #pragma unroll
    for (int e = 0; e < N; e++) s.y[e] = 0;
}
// How what was seen before and later is weighed; false if nothing was seen later. Products and sums are written out, so
// that they are rounded alike in every kernel.
FN bool weigh(float& most, float later, float& a, float& b) {
    if (later == __int_as_float(0xff800000)) return false;
    const float top = fmaxf(most, later);
    a = near_exp(most - top);
    b = near_exp(later - top);
    most = top;
    return true;
}
FN float weighed(float x, float a, float y, float b) { return fmaf(y, b, __fmul_rn(x, a)); }
template <int N> FN void merge(Seen<N>& s, const Seen<N>& later) {
    float a, b;
    if (!weigh(s.most, later.most, a, b)) return;
    s.sum = weighed(s.sum, a, later.sum, b);
    #pragma unroll
    for (int e = 0; e < N; e++) s.y[e] = weighed(s.y[e], a, later.y[e], b);
}
// The same where the values seen before are in memory.
template <int N> FN void merge(float& most, float& sum, float* y, const Seen<N>& later) {
    float a, b;
    if (!weigh(most, later.most, a, b)) return;
    sum = weighed(sum, a, later.sum, b);
    #pragma unroll
    for (int e = 0; e < N; e++) y[e] = weighed(y[e], a, later.y[e], b);
}

FN unsigned word_of(const uint4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }
FN uint4 sixteen(const void* at) { return *(const uint4*)at; }
// Eight numbers of a query in the type of the keys.
template <typename C, typename Q> FN uint4 query(const Q* at) {
    const pack<Q, 8> q = *(const pack<Q, 8>*)at;
    return make_uint4(Halves<C>::pair(item(q, 0), item(q, 1)), Halves<C>::pair(item(q, 2), item(q, 3)),
        Halves<C>::pair(item(q, 4), item(q, 5)), Halves<C>::pair(item(q, 6), item(q, 7)));
}

// A cache as a head of keys sees it: `row` elements from a position to the next, blocks of `size` positions.
template <typename C> struct Keys {
    const C *k, *v;
    const int* table;
    int blocks, size;
    long long row;
    // Positions that are seen.
    int start, end;
};

// What a warp sees in the 64 positions from `first` on. The product with keys takes elements of a head in an order of
// its own, so that a lane reads 16 bytes of a key at once; that with values takes columns so.
template <int D, typename C> FN void see_keys(Seen<D / 4>& seen, const uint4 (&q)[D / 32], const Keys<C>& c, int first, float scale,
    float cap) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    long long at[4];
    float s[4][4];
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        const int p = first + 16 * j, block = p < c.end ? c.table[p / c.size] : -1;
        at[j] = block >= 0 && block < c.blocks ? ((long long)block * c.size + p % c.size) * c.row : -1;
    }
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        const C* keys = c.k + (at[j] < 0 ? 0 : at[j]) + g * c.row + 8 * t;
        float low[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
        #pragma unroll
        for (int i = 0; i < D / 32; i++) {
            const uint4 a = sixteen(keys + 32 * i), b = sixteen(keys + 8 * c.row + 32 * i);
            Halves<C>::multiply(low, q[i].x, q[i].y, a.x, a.y);
            Halves<C>::multiply(high, q[i].x, q[i].y, b.x, b.y);
            Halves<C>::multiply(low, q[i].z, q[i].w, a.z, a.w);
            Halves<C>::multiply(high, q[i].z, q[i].w, b.z, b.w);
        }
        s[j][0] = low[0], s[j][1] = low[1], s[j][2] = high[0], s[j][3] = high[1];
    }
    float most = __int_as_float(0xff800000);
    #pragma unroll
    for (int j = 0; j < 4; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            const int p = first + 16 * j + e / 2 * 8 + 2 * t + e % 2;
            float z = s[j][e] * scale;
            if (cap > 0) z = cap * tanhf(z / cap);
            s[j][e] = at[j] >= 0 && p >= c.start && p < c.end ? z : __int_as_float(0xff800000);
            most = fmaxf(most, s[j][e]);
        }
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    const float top = most == __int_as_float(0xff800000) ? 0.0f : most;
    float sum = 0, y[D / 8][4];
    #pragma unroll
    for (int i = 0; i < D / 8; i++) y[i][0] = y[i][1] = y[i][2] = y[i][3] = 0;
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        const C* values = c.v + (at[j] < 0 ? 0 : at[j]) + g * (D / 8);
        uint4 x[4][D / 64];
        #pragma unroll
        for (int r = 0; r < 4; r++) {
            const int key = r / 2 * 8 + 2 * t + r % 2, p = first + 16 * j + key;
            // What nobody has written may be no number.
            const bool is_seen = at[j] >= 0 && p >= c.start && p < c.end;
            #pragma unroll
            for (int h = 0; h < D / 64; h++) x[r][h] = is_seen ? sixteen(values + key * c.row + 8 * h) : make_uint4(0, 0, 0, 0);
        }
        float w[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            w[e] = near_exp(s[j][e] - top);
            sum += w[e];
        }
        const unsigned a0 = Halves<C>::pair(w[0], w[1]), a2 = Halves<C>::pair(w[2], w[3]);
        #pragma unroll
        for (int i = 0; i < D / 8; i++) {
            const int h = i / 8, word = i % 8 / 2, part = i % 2 ? 0x7632 : 0x5410;
            Halves<C>::multiply(y[i], a0, a2, __byte_perm(word_of(x[0][h], word), word_of(x[1][h], word), part),
                __byte_perm(word_of(x[2][h], word), word_of(x[3][h], word), part));
        }
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    seen.most = most;
    seen.sum = sum;
    #pragma unroll
    for (int i = 0; i < D / 8; i++) seen.y[i] = y[i][0], seen.y[D / 8 + i] = y[i][1];
}

// The first segment of a chain that a token sees.
FN int chain_begin(int chain, int chains, int start) {
    const int low = start / 64;
    return chain >= low ? chain : chain + (low - chain + chains - 1) / chains * chains;
}
// All segments of a chain.
template <int D, typename C> FN void see_chain(Seen<D / 4>& total, const uint4 (&q)[D / 32], const Keys<C>& c, int chain, int chains,
    float scale, float cap) {
    clear(total);
    for (int s = chain_begin(chain, chains, c.start); s * 64 < c.end; s += chains) {
        Seen<D / 4> seen;
        see_keys<D>(seen, q, c, s * 64, scale, cap);
        merge(total, seen);
    }
}
