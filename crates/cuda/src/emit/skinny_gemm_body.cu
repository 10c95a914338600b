constexpr int CHUNKS = INNER / 64, GROUPS = LINES / 64, CONSUMERS = GROUPS * 128;
constexpr int STAGE = (LINES + PADDED) * 128, WIDE = LINES + 4, WARPS = CONSUMERS / 32;
extern __shared__ char shared[];
char* const ring = (char*)(((unsigned long long)shared + 1023) & ~1023ull);
__shared__ unsigned long long full[STAGES], empty[STAGES];
const int part = blockIdx.x % PARTS, tile = blockIdx.x / PARTS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
const int chunks = (CHUNKS - part + PARTS - 1) / PARTS;
const auto place = [&](int c) { return shared_at(ring) + c % STAGES * STAGE; };
// The copies of a chunk: lines of weights, and rows.
const auto ask_weights = [&](int c) {
    barrier_expect(&full[c % STAGES], STAGE);
    #pragma unroll
    for (int i = 0; i < LINES / POINTS; i++)
        bring_weights(place(c) + i * POINTS * 128, &weights, (c * PARTS + part) * 64, tile * POINTS + i * STRETCH, &full[c % STAGES]);
};
const auto ask_rows = [&](int c) {
    bring_rows(place(c) + LINES * 128, &rows, (c * PARTS + part) * 64, 0, &full[c % STAGES]);
};
if (threadIdx.x == CONSUMERS) {
    #pragma unroll
    for (int i = 0; i < STAGES; i++) { barrier_of(&full[i], 1); barrier_of(&empty[i], WARPS); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (!IS_EARLY) await_others();
    #pragma unroll 1
    for (int c = 0; c < STAGES && c < chunks; c++) ask_weights(c);
}
__syncwarp();
__syncthreads();
await_others();
// Sums of the block: a row of them for each row of the product.
float* const all = (float*)ring;
if (warp == WARPS) {
    // This warp asks for copies. The next launch may begin when the last weights are on their way.
    if (lane == 0) {
        #pragma unroll 1
        for (int c = 0; c < chunks; c++) {
            if (c >= STAGES) {
                barrier_wait(&empty[c % STAGES], (c / STAGES - 1) % 2);
                ask_weights(c);
            }
            ask_rows(c);
        }
        let_others();
    }
    __syncwarp();
} else {
    // These multiply: each group of four warps 64 lines of weights by all rows, a chunk ahead of the one it frees.
    float sums[PADDED / 2];
    #pragma unroll
    for (int i = 0; i < PADDED / 2; i++) sums[i] = 0;
    #pragma unroll 1
    for (int c = 0; c < chunks; c++) {
        barrier_wait(&full[c % STAGES], c / STAGES % 2);
        const unsigned long long a = matrix_at(place(c) + warp / 4 * 64 * 128), b = matrix_at(place(c) + LINES * 128);
        products_begin();
        #pragma unroll
        for (int k = 0; k < 4; k++) multiply_matrices(sums, a + k * 2, b + k * 2);
        products_commit();
        if (c > 0) {
            products_wait<1>();
            if (lane == 0) barrier_arrive(&empty[(c - 1) % STAGES]);
        }
    }
    products_wait<0>();
    asm volatile("bar.sync 1, %0;" :: "n"(CONSUMERS) : "memory");
    #pragma unroll
    for (int i = 0; i < PADDED / 2; i++)
        all[(i / 4 * 8 + lane % 4 * 2 + i % 2) * WIDE + warp * 16 + i % 4 / 2 * 8 + lane / 4] = sums[i];
}
