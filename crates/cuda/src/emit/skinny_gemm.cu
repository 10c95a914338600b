// What skinny GEMMs use: barriers that count arrivals and bytes, copies of tiles to shared memory by tensor maps, and
// products of matrices that lie there (rows of 128 bytes, whose pieces of 16 are exchanged by their row), which a
// group of four warps asks for and waits for.
struct alignas(128) TensorMap { unsigned long long words[16]; };
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
FN void barrier_of(unsigned long long* b, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_at(b)), "r"(arrivals) : "memory");
}
FN void barrier_arrive(unsigned long long* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_at(b)) : "memory");
}
// A tile of rows, and one of weights, which no one reads again soon.
FN void bring_rows(unsigned to, const TensorMap* map, int x, int y, unsigned long long* b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(shared_at(b)) : "memory");
}
FN void bring_weights(unsigned to, const TensorMap* map, int x, int y, unsigned long long* b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3}], [%4], %5;"
        :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(shared_at(b)), "l"(0x12f0000000000000ull) : "memory");
}
FN unsigned long long matrix_at(unsigned at) {
    return (unsigned long long)(at >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
FN void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FN void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> FN void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
FN float2 of_block(const float2* at, int n) {
    unsigned there;
    float2 v;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_at(at)), "r"(n));
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(there) : "memory");
    return v;
}
FN float4 of_block(const float4* at, int n) {
    unsigned there;
    float4 v;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_at(at)), "r"(n));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(there) : "memory");
    return v;
}
#endif
// A number that is greater the greater an element is (or the less, if so asked), NaN before all
// others, and the sooner it comes among equal ones.
template <bool IS_LEAST> FN unsigned long long rank(float x, unsigned at) {
    const unsigned bits = __float_as_uint(x + 0.0f), order = bits >> 31 ? ~bits : bits | 0x80000000u;
    const unsigned by = x != x ? 0xffffffffu : IS_LEAST ? ~order : order;
    return (unsigned long long)by << 32 | (0xffffffffu - at);
}
