// What products of few rows use: barriers that count threads, copies of weights to shared memory, and
// the products of matrices that lie there (rows of 128 bytes, whose pieces of 16 are exchanged by their
// row), which a group of four warps asks for and waits for.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
FN void barrier_of(unsigned long long* b, int threads) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_at(b)), "r"(threads) : "memory");
}
FN void barrier_arrive(unsigned long long* b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_at(b)) : "memory");
}
FN void bring_weights(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}
// What has arrived may be multiplied from here on.
FN void bring_seen() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FN unsigned long long matrix_at(unsigned at) {
    return (unsigned long long)(at >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
FN void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FN void products_wait() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}
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
// A number that is greater the greater an element is (or the less, if so asked), what is no number before all
// others, and the sooner it comes among equal ones.
template <bool IS_LEAST> FN unsigned long long rank(float x, unsigned at) {
    const unsigned bits = __float_as_uint(x + 0.0f), order = bits >> 31 ? ~bits : bits | 0x80000000u;
    const unsigned by = x != x ? 0xffffffffu : IS_LEAST ? ~order : order;
    return (unsigned long long)by << 32 | (0xffffffffu - at);
}
