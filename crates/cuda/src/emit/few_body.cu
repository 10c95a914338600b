constexpr int OWN = INNER / PARTS, CHUNKS = OWN / 64, STAGE = (LINES + PADDED) * 128, WIDE = LINES + 4, COPIES = 128;
extern __shared__ char shared[];
char* const ring = (char*)(((unsigned long long)shared + 1023) & ~1023ull);
__shared__ unsigned long long full[STAGES], empty[STAGES];
const int part = blockIdx.x % PARTS, tile = blockIdx.x / PARTS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
if (threadIdx.x == 0) {
    #pragma unroll
    for (int i = 0; i < STAGES; i++) { barrier_of(&full[i], COPIES); barrier_of(&empty[i], 4); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__syncthreads();
// Sums of the block: a row of them for each row of the product.
float* const all = (float*)ring;
if (threadIdx.x >= 128) {
    // These warps bring weights and rows; neighboring blocks have neighboring pieces of a line.
    const int thread = threadIdx.x - 128, piece = thread % 8, first = thread / 8;
    const unsigned to = shared_at(ring) + first * 128 + ((piece ^ first % 8) << 4);
    const auto ask_weights = [&](int c) {
        const unsigned at = to + c % STAGES * STAGE;
        #pragma unroll
        for (int i = 0; i < LINES * 8 / COPIES; i++)
            bring_weights(at + i * (COPIES / 8) * 128, w + column(tile, first + i * (COPIES / 8)) * STEP + (c * PARTS + part) * 64 + piece * 8);
    };
    const auto ask_rows = [&](int c) {
        const unsigned at = to + c % STAGES * STAGE + LINES * 128;
        #pragma unroll
        for (int i = 0; i < PADDED * 8 / COPIES; i++) {
            const int row = first + i * (COPIES / 8);
            bring_16(at + i * (COPIES / 8) * 128, x + (row < ROWS ? row : 0) * ROW + (c * PARTS + part) * 64 + piece * 8, row < ROWS);
        }
    };
    if (!IS_EARLY) await_others();
    #pragma unroll 1
    for (int c = 0; c < STAGES && c < CHUNKS; c++) ask_weights(c);
    bring_group();
    if (IS_EARLY) await_others();
    #pragma unroll 1
    for (int c = 0; c < CHUNKS + STAGES - 1; c++) {
        if (c < CHUNKS) {
            if (c >= STAGES) {
                barrier_wait(&empty[c % STAGES], (c / STAGES - 1) % 2);
                ask_weights(c);
            }
            ask_rows(c);
        }
        bring_group();
        if (c >= STAGES - 1) {
            bring_wait<STAGES - 1>();
            bring_seen();
            barrier_arrive(&full[(c - STAGES + 1) % STAGES]);
        }
    }
} else {
    // These multiply: 64 lines of weights by all rows.
    await_others();
    float sums[PADDED / 2];
    #pragma unroll
    for (int i = 0; i < PADDED / 2; i++) sums[i] = 0;
    #pragma unroll 1
    for (int c = 0; c < CHUNKS; c++) {
        barrier_wait(&full[c % STAGES], c / STAGES % 2);
        const unsigned at = shared_at(ring) + c % STAGES * STAGE;
        const unsigned long long a = matrix_at(at), b = matrix_at(at + LINES * 128);
        products_begin();
        #pragma unroll
        for (int k = 0; k < 4; k++) multiply_matrices(sums, a + k * 2, b + k * 2);
        products_wait();
        if (lane == 0) barrier_arrive(&empty[c % STAGES]);
    }
    asm volatile("bar.sync 1, 128;" ::: "memory");
    #pragma unroll
    for (int i = 0; i < PADDED / 2; i++)
        all[(i / 4 * 8 + lane % 4 * 2 + i % 2) * WIDE + warp * 16 + i % 4 / 2 * 8 + lane / 4] = sums[i];
}
// The next launch may begin: earlier, its weights would come in between these, and its blocks go where there is room.
let_others();
