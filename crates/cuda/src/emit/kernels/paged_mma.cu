// Attention over a paged KV cache of 16-bit floats on tensor cores. A warp takes segments of 32 keys for up to 8 heads
// of a token, which are copied to a ring in shared memory ahead. Every 32nd segment belongs to one chain, and the chains
// are merged in a fixed order: a token's result depends on its own keys alone.
//
// Scores and results are computed transposed: their columns are heads. Lanes are 8 groups of 4. Lane t of group g has
// heads 2 t and 2 t + 1, of scores the keys g and g + 8 of 16, and of results the elements g and g + 8 of 16.

template <typename C> struct Halves;
template <> struct Halves<bf16> {
    FN void multiply(float* c, const unsigned* a, unsigned b0, unsigned b1) { multiply_bf16(c, a[0], a[1], a[2], a[3], b0, b1); }
    FN unsigned pair(float a, float b) { return pair_bf16(a, b); }
};
template <> struct Halves<f16> {
    FN void multiply(float* c, const unsigned* a, unsigned b0, unsigned b1) { multiply_f16(c, a[0], a[1], a[2], a[3], b0, b1); }
    FN unsigned pair(float a, float b) { return pair_f16(a, b); }
};
// A matrix of 8×8 halves, transposed between lanes.
FN unsigned transposed(unsigned x) {
    unsigned y;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

// The greatest score, the sum of weights and weighted values of a head.
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

// Pairs of a query's numbers, 8 apart, in the type of the keys.
template <typename C, typename Q> FN uint2 query(const Q* at) {
    return make_uint2(Halves<C>::pair(get(at[0]), get(at[1])), Halves<C>::pair(get(at[8]), get(at[9])));
}

// A cache as a head of keys sees it: `row` elements from a position to the next, blocks of `size` positions.
template <typename C> struct Keys {
    const C *k, *v;
    const int* table;
    int blocks, size;
    long long row;
    // Positions that are seen, and chains of segments.
    int start, end, chains;
};

// The block of a position, or -1 where there is none.
template <typename C> FN int block_at(const Keys<C>& c, int position) {
    const int block = position < c.end ? c.table[position / c.size] : -1;
    return block < c.blocks ? block : -1;
}

// The first segment of a chain that has positions from `start` on.
FN int first_segment(int chain, int start, int chains) {
    const int low = start / 32;
    return chain >= low ? chain : chain + (low - chain + chains - 1) / chains * chains;
}
// Segments that a warp takes: those of chains `chain`, `chain + step`…
struct Walk {
    int chain, segment, step;
};
// The first segment from the next chain on that has positions from `start` to `end`; after the last, `chain` is
// `chains` or more.
FN void next_chain(Walk& w, int start, int end, int chains) {
    do {
        w.chain += w.step;
        w.segment = first_segment(w.chain, start, chains);
    } while (w.chain < chains && w.segment * 32 >= end);
}
FN Walk walk(int start, int end, int chains, int chain, int step) {
    Walk w = {chain - step, 0, step};
    next_chain(w, start, end, chains);
    return w;
}
FN void advance(Walk& w, int start, int end, int chains) {
    w.segment += chains;
    if (w.segment * 32 >= end) next_chain(w, start, end, chains);
}

// Asks for the keys and values of the segment from `first` on: rows whose pieces of 16 bytes are exchanged by the row's
// number. What is masked is zero: it may be NaN.
template <int D, typename C> FN void ask_segment(unsigned to, const Keys<C>& c, int first) {
    constexpr int PIECES = D / 8, ROWS = 32 / PIECES;
    const int lane = threadIdx.x % 32, piece = lane % PIECES;
    #pragma unroll
    for (int j = 0; j < 2; j++) {
        const int p = first + 16 * j, block = block_at(c, p);
        const bool is_there = block >= 0;
        const long long at = is_there ? ((long long)block * c.size + p % c.size) * c.row : 0;
        #pragma unroll
        for (int i = 0; i < 16 / ROWS; i++) {
            const int row = i * ROWS + lane / PIECES;
            const bool is_seen = is_there && p + row >= c.start && p + row < c.end;
            const long long from = at + row * c.row + piece * 8;
            const unsigned there = to + ((16 * j + row) * PIECES + (piece ^ row % 8)) * 16;
            bring_16(there, c.k + from, is_seen);
            bring_16(there + 32 * PIECES * 16, c.v + from, is_seen);
        }
    }
}

// Asks the second cache for the first segments of chains: a lane has a row of keys and one of values.
template <int D, typename C> FN void ask_early(const Keys<C>& c, int chain, int step, int count) {
    const int row = threadIdx.x % 32;
    Walk w = walk(c.start, c.end, c.chains, chain, step);
    for (int n = 0; n < count && w.chain < c.chains; n++) {
        const int p = w.segment * 32 + row, block = block_at(c, p);
        if (block >= 0 && p >= c.start) {
            const long long at = ((long long)block * c.size + p % c.size) * c.row;
            #pragma unroll
            for (int i = 0; i < D; i += 64) ask_for(c.k + at + i), ask_for(c.v + at + i);
        }
        advance(w, c.start, c.end, c.chains);
    }
}

// What a lane has seen of its two heads; its sums are of its own keys.
template <int D> struct Heads {
    float most[2], sum[2], y[D / 16][4];
};
template <int D> FN void clear(Heads<D>& s) {
    s.most[0] = s.most[1] = __int_as_float(0xff800000);
    s.sum[0] = s.sum[1] = 0;
    #pragma unroll
    for (int i = 0; i < D / 16; i++) s.y[i][0] = s.y[i][1] = s.y[i][2] = s.y[i][3] = 0;
}
template <int D> FN void merge(Heads<D>& s, const Heads<D>& later) {
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        float a, b;
        if (!weigh(s.most[h], later.most[h], a, b)) continue;
        s.sum[h] = weighed(s.sum[h], a, later.sum[h], b);
        #pragma unroll
        for (int i = 0; i < D / 16; i++) {
            s.y[i][h] = weighed(s.y[i][h], a, later.y[i][h], b);
            s.y[i][h + 2] = weighed(s.y[i][h + 2], a, later.y[i][h + 2], b);
        }
    }
}
// Its sums become those of all keys.
template <int D> FN void finish(Heads<D>& s) {
    #pragma unroll
    for (int h = 0; h < 2; h++)
        #pragma unroll
        for (int d = 4; d < 32; d *= 2) s.sum[h] += __shfl_xor_sync(0xffffffffu, s.sum[h], d);
}

// Adds what is seen in the segment from `first` on, which lies at `at`.
template <int D, typename C> FN void see_segment(Heads<D>& total, const uint2 (&q)[D / 16], const Keys<C>& c, int first, unsigned at,
    float scale, float cap) {
    constexpr int PIECES = D / 8;
    const int lane = threadIdx.x % 32, g = lane / 4, r = lane % 8;
    float s[2][4], most[2] = {__int_as_float(0xff800000), __int_as_float(0xff800000)};
    #pragma unroll
    for (int j = 0; j < 2; j++) {
        const bool is_there = block_at(c, first + 16 * j) >= 0;
        s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
        #pragma unroll
        for (int i = 0; i < D / 16; i++) {
            unsigned a[4];
            take_matrices(a, at + ((16 * j + lane % 16) * PIECES + (2 * i + lane / 16 ^ r)) * 16);
            Halves<C>::multiply(s[j], a, q[i].x, q[i].y);
        }
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            const int p = first + 16 * j + g + e / 2 * 8;
            float z = s[j][e] * scale;
            if (cap > 0) z = cap * tanhf(z / cap);
            s[j][e] = is_there && p >= c.start && p < c.end ? z : __int_as_float(0xff800000);
            most[e % 2] = fmaxf(most[e % 2], s[j][e]);
        }
    }
    float top[2];
    #pragma unroll
    for (int h = 0; h < 2; h++) {
        #pragma unroll
        for (int d = 4; d < 32; d *= 2) most[h] = fmaxf(most[h], __shfl_xor_sync(0xffffffffu, most[h], d));
        most[h] = fmaxf(total.most[h], most[h]);
        top[h] = most[h] == __int_as_float(0xff800000) ? 0.0f : most[h];
        const float a = near_exp(total.most[h] - top[h]);
        total.most[h] = most[h];
        total.sum[h] *= a;
        #pragma unroll
        for (int i = 0; i < D / 16; i++) total.y[i][h] *= a, total.y[i][h + 2] *= a;
    }
    unsigned b[2][2];
    #pragma unroll
    for (int j = 0; j < 2; j++) {
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            s[j][e] = near_exp(s[j][e] - top[e % 2]);
            total.sum[e % 2] += s[j][e];
        }
        b[j][0] = transposed(Halves<C>::pair(s[j][0], s[j][1]));
        b[j][1] = transposed(Halves<C>::pair(s[j][2], s[j][3]));
    }
    const unsigned values = at + 32 * PIECES * 16;
    #pragma unroll
    for (int i = 0; i < D / 16; i++)
        #pragma unroll
        for (int j = 0; j < 2; j++) {
            unsigned a[4];
            take_transposed(a, values + ((16 * j + r + lane / 16 * 8) * PIECES + (2 * i + lane / 8 % 2 ^ r)) * 16);
            Halves<C>::multiply(total.y[i], a, b[j][0], b[j][1]);
        }
}

// A warp's walk over its segments. `put` takes what was seen of each chain.
template <int D, int STAGES, typename C, typename F> FN void see_chains(const uint2 (&q)[D / 16], const Keys<C>& c, int chain, int step,
    unsigned ring, float scale, float cap, const F& put) {
    constexpr unsigned STAGE = 2 * 32 * D * 2;
    Walk now = walk(c.start, c.end, c.chains, chain, step), ahead = now;
    #pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (ahead.chain < c.chains) {
            ask_segment<D>(ring + i * STAGE, c, ahead.segment * 32);
            advance(ahead, c.start, c.end, c.chains);
        }
        bring_group();
    }
    Heads<D> total;
    clear(total);
    int stage = 0, free = STAGES - 1;
    while (now.chain < c.chains) {
        bring_wait<STAGES - 2>();
        __syncwarp();
        if (ahead.chain < c.chains) {
            ask_segment<D>(ring + free * STAGE, c, ahead.segment * 32);
            advance(ahead, c.start, c.end, c.chains);
        }
        bring_group();
        see_segment<D>(total, q, c, now.segment * 32, ring + stage * STAGE, scale, cap);
        free = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        const int done = now.chain;
        advance(now, c.start, c.end, c.chains);
        if (now.chain != done) {
            finish(total);
            put(total, done);
            clear(total);
        }
    }
}
