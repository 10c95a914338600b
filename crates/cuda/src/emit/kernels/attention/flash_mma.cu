// Attention of many queries in f32 on tensor cores, forward and backward, without scores in memory. A block of four
// warps has 64 rows of its own, 16 a warp, and goes through 32 rows of the other side at a time, which are copied to
// shared memory one tile ahead.
//
// `T` is the number of TF32 products for one of f32: 1 rounds operands to 10 bits of mantissa, 3 keeps the product of
// their remainders with the rounded operands, which leaves an error of about f32's own.
//
// Lanes are 8 groups of 4. Lane t of group g has of a result of 16×8 the rows g and g + 8, columns 2 t and 2 t + 1.

FN unsigned tf32(float x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}
// What rounding left over; none of an infinity.
FN unsigned tf32_rest(float x, unsigned rounded) {
    const float rest = x - __uint_as_float(rounded);
    return tf32(rest == rest ? rest : 0.0f);
}
FN void multiply_tf32(float* c, const unsigned* a, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The left operand of a product, 16×8.
template <int T> struct FlashLeft {
    unsigned rounded[4], rest[4];
    __device__ __forceinline__ FlashLeft(float a, float b, float c, float d) {
        const float x[4] = {a, b, c, d};
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            rounded[i] = tf32(x[i]);
            rest[i] = T == 3 ? tf32_rest(x[i], rounded[i]) : 0;
        }
    }
};
template <int T> FN void flash_multiply(float* c, const FlashLeft<T>& a, float b0, float b1) {
    const unsigned r0 = tf32(b0), r1 = tf32(b1);
    if (T == 3) {
        multiply_tf32(c, a.rest, r0, r1);
        multiply_tf32(c, a.rounded, tf32_rest(b0, r0), tf32_rest(b1, r1));
    }
    multiply_tf32(c, a.rounded, r0, r1);
}

// Rows of one head in memory, `step` elements from one to the next. Rows in shared memory are D + 4 elements apart, so
// that the lanes of a warp read 32 banks.
struct FlashRows {
    const float* at;
    long long step;
};
// Copies rows to shared memory, 16 bytes at a time if all begin at a multiple of 16; zeros stand for rows that are not
// there.
template <int D, int ROWS, bool ALIGNED> FN void flash_bring(float* to, FlashRows rows, int first, int end) {
    for (int i = threadIdx.x; i < ROWS * (D / 4); i += 128) {
        const int row = i / (D / 4), e = i % (D / 4) * 4;
        const bool is_there = first + row < end;
        const float* from = is_there ? rows.at + (first + row) * rows.step + e : rows.at;
        float* there = to + row * (D + 4) + e;
        if (ALIGNED) {
            bring_16(shared_at(there), from, is_there);
        } else {
            #pragma unroll
            for (int n = 0; n < 4; n++) there[n] = is_there ? from[n] : 0.0f;
        }
    }
}
// c[16×32] = a bᵀ for 16 and 32 rows in shared memory.
template <int D, int T> FN void flash_scores(float (*c)[4], const float* a, const float* b) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        #pragma unroll
        for (int i = 0; i < 4; i++) c[j][i] = 0;
    }
    #pragma unroll 4
    for (int k = t; k < D; k += 8) {
        const float *low = a + g * (D + 4) + k, *high = low + 8 * (D + 4);
        const FlashLeft<T> left(low[0], high[0], low[4], high[4]);
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            const float* right = b + (8 * j + g) * (D + 4) + k;
            flash_multiply<T>(c[j], left, right[0], right[4]);
        }
    }
}
// c[16×D] += p b for p[16×32] as a result and 32 rows b in shared memory. Columns 2 t and 2 t + 1 of p are taken as the
// columns t and t + 4 of the left operand, and the rows of b accordingly.
template <int D, int T> FN void flash_weighted(float (*c)[4], const float (*p)[4], const float* b) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        const FlashLeft<T> left(p[j][0], p[j][2], p[j][1], p[j][3]);
        const float* rows = b + (8 * j + 2 * t) * (D + 4) + g;
        #pragma unroll
        for (int i = 0; i < D / 8; i++) flash_multiply<T>(c[i], left, rows[8 * i], rows[D + 4 + 8 * i]);
    }
}
template <int D> FN void flash_clear(float (*c)[4]) {
    #pragma unroll
    for (int i = 0; i < D / 8; i++) {
        #pragma unroll
        for (int n = 0; n < 4; n++) c[i][n] = 0;
    }
}
// Writes the two rows of a lane, times a factor each; rows from `end` on are not there.
template <int D> FN void flash_store(const float (*c)[4], float* to, long long step, int row, int end, float low, float high) {
    const int t = threadIdx.x % 4;
    #pragma unroll
    for (int i = 0; i < D / 8; i++) {
        if (row < end) *(float2*)(to + row * step + 8 * i + 2 * t) = make_float2(c[i][0] * low, c[i][1] * low);
        if (row + 8 < end) *(float2*)(to + (row + 8) * step + 8 * i + 2 * t) = make_float2(c[i][2] * high, c[i][3] * high);
    }
}

// Weighted values and log-sum-exps of 64 queries from `first` on. `see(query, key, score)` is the score under the mask,
// −∞ where it hides the key. Scores are in powers of two: `scale` has the factor log₂ e.
template <int D, int T, bool CAUSAL, bool ALIGNED, typename See>
FN void flash_forward(FlashRows q, FlashRows k, FlashRows v, float* y, long long step, float* lse, int first, int queries,
                      int keys, float scale, See see) {
    extern __shared__ __align__(16) float flash_room[];
    const int ROW = D + 4, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, row = threadIdx.x / 32 * 16;
    float *own = flash_room, *other = own + 64 * ROW, *values = other + 2 * 32 * ROW;
    const float hidden = __int_as_float(0xff800000);
    const int end = CAUSAL ? min(keys, first + 64) : keys;
    flash_bring<D, 64, ALIGNED>(own, q, first, queries);
    flash_bring<D, 32, ALIGNED>(other, k, 0, keys);
    flash_bring<D, 32, ALIGNED>(values, v, 0, keys);
    bring_group();
    float most[2] = {hidden, hidden}, sum[2] = {0, 0}, out[D / 8][4];
    flash_clear<D>(out);
    for (int from = 0, stage = 0; from < end; from += 32, stage ^= 1) {
        bring_wait<0>();
        __syncthreads();
        if (from + 32 < end) {
            flash_bring<D, 32, ALIGNED>(other + (stage ^ 1) * 32 * ROW, k, from + 32, keys);
            flash_bring<D, 32, ALIGNED>(values + (stage ^ 1) * 32 * ROW, v, from + 32, keys);
            bring_group();
        }
        float p[4][4];
        flash_scores<D, T>(p, own + row * ROW, other + stage * 32 * ROW);
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            const int query = first + row + g + 8 * r;
            float top = most[r];
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                #pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int key = from + 8 * j + 2 * t + i;
                    float& x = p[j][2 * r + i];
                    const bool is_seen = key < keys && query < queries && (!CAUSAL || key <= query);
                    x = is_seen ? see(query, key, x * scale) : hidden;
                    top = fmax_nan(top, x);
                }
            }
            top = across<Max, 4>(top);
            const float less = top == hidden ? 1.0f : exp2f(most[r] - top);
            most[r] = top;
            float added = 0;
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                #pragma unroll
                for (int i = 0; i < 2; i++) {
                    float& x = p[j][2 * r + i];
                    x = top == hidden ? 0.0f : exp2f(x - top);
                    added += x;
                }
            }
            sum[r] = sum[r] * less + added;
            #pragma unroll
            for (int i = 0; i < D / 8; i++) out[i][2 * r] *= less, out[i][2 * r + 1] *= less;
        }
        flash_weighted<D, T>(out, p, values + stage * 32 * ROW);
    }
    float share[2];
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const float all = across<Sum, 4>(sum[r]);
        const int query = first + row + g + 8 * r;
        share[r] = most[r] == hidden ? 0.0f : 1 / all;
        if (t == 0 && query < queries) lse[query] = most[r] == hidden ? hidden : (most[r] + log2f(all)) * 0.693147180559945f;
    }
    flash_store<D>(out, y, step, first + row + g, queries, share[0], share[1]);
}

// The weight of a score: `last` is the query's log-sum-exp in powers of two.
FN float flash_weight(float score, float last) {
    const float hidden = __int_as_float(0xff800000);
    return score == hidden || last == hidden ? 0.0f : exp2f(score - last);
}

// Gradients of 64 keys and values from `first` on, over the queries of all heads that share them. `head(n)` has the rows
// of queries, of their gradients, log-sum-exps and sums of gradient times result of the n-th.
struct FlashHead {
    FlashRows q, g;
    const float *lse, *along;
};
template <int D, int T, bool CAUSAL, bool ALIGNED, typename Head, typename See>
FN void flash_keys(FlashRows k, FlashRows v, float* of_k, long long k_step, float* of_v, long long v_step, int first,
                   int heads, int queries, int keys, float scale, Head head, See see) {
    extern __shared__ __align__(16) float flash_room[];
    const int ROW = D + 4, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, row = threadIdx.x / 32 * 16;
    float *own = flash_room, *values = own + 64 * ROW, *other = values + 64 * ROW, *given = other + 2 * 32 * ROW;
    // Under a causal mask, queries before the first key see none.
    const int start = CAUSAL ? first : 0, tiles = queries > start ? (queries - start + 31) / 32 : 0, steps = heads * tiles;
    float to_k[D / 8][4], to_v[D / 8][4];
    flash_clear<D>(to_k);
    flash_clear<D>(to_v);
    flash_bring<D, 64, ALIGNED>(own, k, first, keys);
    flash_bring<D, 64, ALIGNED>(values, v, first, keys);
    if (steps > 0) {
        const FlashHead h = head(0);
        flash_bring<D, 32, ALIGNED>(other, h.q, start, queries);
        flash_bring<D, 32, ALIGNED>(given, h.g, start, queries);
    }
    bring_group();
    for (int n = 0, stage = 0; n < steps; n++, stage ^= 1) {
        bring_wait<0>();
        __syncthreads();
        if (n + 1 < steps) {
            const FlashHead h = head((n + 1) / tiles);
            const int from = start + (n + 1) % tiles * 32;
            flash_bring<D, 32, ALIGNED>(other + (stage ^ 1) * 32 * ROW, h.q, from, queries);
            flash_bring<D, 32, ALIGNED>(given + (stage ^ 1) * 32 * ROW, h.g, from, queries);
            bring_group();
        }
        const FlashHead h = head(n / tiles);
        const int from = start + n % tiles * 32;
        // Rows are keys, columns queries.
        float p[4][4], d[4][4], along[4][2];
        flash_scores<D, T>(p, own + row * ROW, other + stage * 32 * ROW);
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                const int query = from + 8 * j + 2 * t + i;
                const bool is_there = query < queries;
                const float last = is_there ? h.lse[query] * 1.44269504088896f : 0.0f;
                along[j][i] = is_there ? h.along[query] : 0.0f;
                #pragma unroll
                for (int r = 0; r < 2; r++) {
                    const int key = first + row + g + 8 * r;
                    float& x = p[j][2 * r + i];
                    const bool is_seen = is_there && key < keys && (!CAUSAL || key <= query);
                    x = is_seen ? flash_weight(see(n / tiles, query, key, x * scale), last) : 0.0f;
                }
            }
        }
        flash_weighted<D, T>(to_v, p, given + stage * 32 * ROW);
        flash_scores<D, T>(d, values + row * ROW, given + stage * 32 * ROW);
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) d[j][i] = p[j][i] * (d[j][i] - along[j][i % 2]);
        }
        flash_weighted<D, T>(to_k, d, other + stage * 32 * ROW);
    }
    const float factor = scale * 0.693147180559945f;
    flash_store<D>(to_k, of_k, k_step, first + row + g, keys, factor, factor);
    flash_store<D>(to_v, of_v, v_step, first + row + g, keys, 1.0f, 1.0f);
}

// Gradients of 64 queries from `first` on.
template <int D, int T, bool CAUSAL, bool ALIGNED, typename See>
FN void flash_queries(FlashRows q, FlashRows k, FlashRows v, FlashHead h, float* of_q, long long step, int first,
                      int queries, int keys, float scale, See see) {
    extern __shared__ __align__(16) float flash_room[];
    const int ROW = D + 4, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, row = threadIdx.x / 32 * 16;
    float *own = flash_room, *given = own + 64 * ROW, *other = given + 64 * ROW, *values = other + 2 * 32 * ROW;
    const int end = CAUSAL ? min(keys, first + 64) : keys;
    float to[D / 8][4], last[2], along[2];
    flash_clear<D>(to);
    #pragma unroll
    for (int r = 0; r < 2; r++) {
        const int query = first + row + g + 8 * r;
        last[r] = query < queries ? h.lse[query] * 1.44269504088896f : 0.0f;
        along[r] = query < queries ? h.along[query] : 0.0f;
    }
    flash_bring<D, 64, ALIGNED>(own, q, first, queries);
    flash_bring<D, 64, ALIGNED>(given, h.g, first, queries);
    flash_bring<D, 32, ALIGNED>(other, k, 0, keys);
    flash_bring<D, 32, ALIGNED>(values, v, 0, keys);
    bring_group();
    for (int from = 0, stage = 0; from < end; from += 32, stage ^= 1) {
        bring_wait<0>();
        __syncthreads();
        if (from + 32 < end) {
            flash_bring<D, 32, ALIGNED>(other + (stage ^ 1) * 32 * ROW, k, from + 32, keys);
            flash_bring<D, 32, ALIGNED>(values + (stage ^ 1) * 32 * ROW, v, from + 32, keys);
            bring_group();
        }
        float p[4][4], d[4][4];
        flash_scores<D, T>(p, own + row * ROW, other + stage * 32 * ROW);
        flash_scores<D, T>(d, given + row * ROW, values + stage * 32 * ROW);
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                const int r = i / 2, query = first + row + g + 8 * r, key = from + 8 * j + 2 * t + i % 2;
                const bool is_seen = key < keys && query < queries && (!CAUSAL || key <= query);
                const float weight = is_seen ? flash_weight(see(query, key, p[j][i] * scale), last[r]) : 0.0f;
                d[j][i] = weight * (d[j][i] - along[r]);
            }
        }
        flash_weighted<D, T>(to, d, other + stage * 32 * ROW);
    }
    const float factor = scale * 0.693147180559945f;
    flash_store<D>(to, of_q, step, first + row + g, queries, factor, factor);
}
