// What every generated kernel may use. Values are computed with as float, double, long long or,
// for u64, unsigned long long; narrower floats are stored as their bits. No header is needed.

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
struct f8e4m3 { unsigned char bits; };
struct f8e5m2 { unsigned char bits; };
template <typename T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) pack { T at[N]; };
// Two to a word, which is how their numbers are found soonest.
template <> struct alignas(4) pack<bf16, 2> { union { bf16 at[2]; unsigned words[1]; }; };
template <> struct alignas(8) pack<bf16, 4> { union { bf16 at[4]; unsigned words[2]; }; };
template <> struct alignas(16) pack<bf16, 8> { union { bf16 at[8]; unsigned words[4]; }; };

#define FN static __device__ __forceinline__

// A launch may begin while the one before it ends; what that has written is there from here on.
FN void await_others() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next may begin when all blocks have said so.
FN void let_others() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Only then may the next begin, so that no more than two overlap.
FN void after_others() {
    await_others();
    let_others();
}
// Asks for memory that will be read soon.
FN void ask_for(const void* at) { asm volatile("prefetch.global.L2 [%0];" :: "l"(at)); }

// 16 bytes that are read once: they need no place in the first cache. Not moved before or behind
// other such reads, nor over the wait for the launch before.
FN uint4 once(const void* at) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(at));
    return x;
}
// 16 bytes that are read each time it is said, from memory and from shared memory.
FN uint4 anew(const void* at) {
    uint4 x;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(at));
    return x;
}
FN uint4 anew_shared(const void* at) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"((unsigned)__cvta_generic_to_shared(at)));
    return x;
}

FN float get(f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
FN float get(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
// As halves: this one's exponent counts from 7 where a half's counts from 15, the other is a half cut short.
FN float get(f8e4m3 x) {
    f16 y; y.bits = (unsigned short)((x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7);
    return (x.bits & 0x7f) == 0x7f ? __int_as_float(0x7fc00000) : get(y) * 256.0f;
}
FN float get(f8e5m2 x) { f16 y; y.bits = (unsigned short)(x.bits << 8); return get(y); }
FN float get(float x) { return x; }
FN double get(double x) { return x; }
FN long long get(unsigned char x) { return x; }
FN long long get(signed char x) { return x; }
FN long long get(short x) { return x; }
FN long long get(unsigned short x) { return x; }
FN long long get(int x) { return x; }
FN long long get(unsigned x) { return x; }
FN long long get(long long x) { return x; }
FN unsigned long long get(unsigned long long x) { return x; }

FN f16 put_f16(float x) { f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
FN bf16 put_bf16(float x) { bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
// The nearest number that the type holds. Two are converted together: one alone takes four times as long.
FN float round_bf16(float x) {
    unsigned y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(x), "f"(0.0f));
    return __uint_as_float(y);
}
FN bf16 cut_bf16(float x) { bf16 y; y.bits = (unsigned short)(__float_as_uint(x) >> 16); return y; }
// Rounded to even; what is too large is the greatest number there, and infinite here.
FN f8e4m3 put_f8e4m3(float x) {
    f8e4m3 y;
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    y.bits = (unsigned char)pair;
#else
    unsigned sign = __float_as_uint(x) >> 24 & 0x80, u = __float_as_uint(x) & 0x7fffffff;
    unsigned code = u < 0x3c800000 ? __float_as_uint(__uint_as_float(u) + 16384.0f) - __float_as_uint(16384.0f)
                                   : (u - (120u << 23) + 0x7ffff + (u >> 20 & 1)) >> 20;
    y.bits = (unsigned char)(sign | (u > 0x7f800000 ? 0x7f : u >= 0x43e80000 ? 0x7e : code));
#endif
    return y;
}
FN f8e5m2 put_f8e5m2(float x) {
    f8e5m2 y;
    unsigned sign = __float_as_uint(x) >> 24 & 0x80;
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    y.bits = (unsigned char)(fabsf(x) >= 61440.0f ? sign | 0x7c : pair);
#else
    unsigned u = __float_as_uint(x) & 0x7fffffff;
    unsigned code = u < 0x38800000 ? __float_as_uint(__uint_as_float(u) + 128.0f) - __float_as_uint(128.0f)
                                   : (u - (112u << 23) + 0xfffff + (u >> 21 & 1)) >> 21;
    y.bits = (unsigned char)(sign | (u > 0x7f800000 ? 0x7f : u >= 0x47700000 ? 0x7c : code));
#endif
    return y;
}
// A number that the type holds already, as a half cut short.
FN f8e5m2 cut_f8e5m2(float x) { f8e5m2 y; y.bits = (unsigned char)(put_f16(x).bits >> 8); return y; }
FN float put_f32(float x) { return x; }
FN double put_f64(double x) { return x; }
FN unsigned char put_bool(long long x) { return x != 0; }
FN unsigned char put_u8(long long x) { return (unsigned char)x; }
FN signed char put_i8(long long x) { return (signed char)x; }
FN short put_i16(long long x) { return (short)x; }
FN unsigned short put_u16(long long x) { return (unsigned short)x; }
FN int put_i32(long long x) { return (int)x; }
FN unsigned put_u32(long long x) { return (unsigned)x; }
FN long long put_i64(long long x) { return x; }
FN unsigned long long put_u64(unsigned long long x) { return x; }

// What is computed from 16-bit floats needs no more than this; the smallest numbers become 0.
FN float near_exp(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
FN float near_sigmoid(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + near_exp(-x)));
    return y;
}

FN float near_exp_below(float x, float most) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaf(x, 1.44269504f, most * -1.44269504f)));
    return y;
}

// The numbers in a word.
FN float whole_f32(unsigned x) { return __uint_as_float(x); }
FN float low_bf16(unsigned x) { return __uint_as_float(x << 16); }
FN float high_bf16(unsigned x) { return __uint_as_float(x & 0xffff0000u); }
FN float low_f16(unsigned x) { f16 y; y.bits = (unsigned short)x; return get(y); }
FN float high_f16(unsigned x) { f16 y; y.bits = (unsigned short)(x >> 16); return get(y); }

// A number of a pack.
template <typename T, int N> FN auto item(const pack<T, N>& q, int i) { return get(q.at[i]); }
FN float item_of_words(const unsigned* words, int i) { return i % 2 ? high_bf16(words[i / 2]) : low_bf16(words[i / 2]); }
FN float item(const pack<bf16, 2>& q, int i) { return item_of_words(q.words, i); }
FN float item(const pack<bf16, 4>& q, int i) { return item_of_words(q.words, i); }
FN float item(const pack<bf16, 8>& q, int i) { return item_of_words(q.words, i); }

// A float truncated and saturated, NaN as 0.
FN long long to_int(float x) { return x != x ? 0 : (long long)x; }
FN long long to_int(double x) { return x != x ? 0 : (long long)x; }
// The same without a sign; what is below 0 wraps around.
FN unsigned long long to_uint(float x) { return x >= 0 ? (unsigned long long)x : (unsigned long long)to_int(x); }
FN unsigned long long to_uint(double x) { return x >= 0 ? (unsigned long long)x : (unsigned long long)to_int(x); }

#if __CUDA_ARCH__ >= 800
FN float fmax_nan(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
FN float fmin_nan(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
#else
FN float fmax_nan(float a, float b) { return a != a || b != b ? __int_as_float(0x7fc00000) : fmaxf(a, b); }
FN float fmin_nan(float a, float b) { return a != a || b != b ? __int_as_float(0x7fc00000) : fminf(a, b); }
#endif
#if __CUDA_ARCH__ >= 800
// The greater of the numbers in two words, half by half.
FN unsigned max_pairs(unsigned a, unsigned b) {
    unsigned y;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}
#endif
FN double fmax_nan(double a, double b) { return a != a || b != b ? __longlong_as_double(0x7ff8000000000000LL) : fmax(a, b); }
FN long long fmax_nan(long long a, long long b) { return a > b ? a : b; }
FN double fmin_nan(double a, double b) { return a != a || b != b ? __longlong_as_double(0x7ff8000000000000LL) : fmin(a, b); }
FN long long fmin_nan(long long a, long long b) { return a < b ? a : b; }
FN unsigned long long fmax_nan(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
FN unsigned long long fmin_nan(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
FN long long fmax(long long a, long long b) { return a > b ? a : b; }
FN long long fmin(long long a, long long b) { return a < b ? a : b; }
FN unsigned long long fmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
FN unsigned long long fmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }

FN long long floor(long long x) { return x; }
FN long long ceil(long long x) { return x; }
FN long long trunc(long long x) { return x; }
FN long long rint(long long x) { return x; }
FN unsigned long long floor(unsigned long long x) { return x; }
FN unsigned long long ceil(unsigned long long x) { return x; }
FN unsigned long long trunc(unsigned long long x) { return x; }
FN unsigned long long rint(unsigned long long x) { return x; }
FN unsigned long long abs(unsigned long long x) { return x; }
FN long long fmod(long long a, long long b) { return b == 0 || b == -1 ? 0 : a % b; }
FN unsigned long long fmod(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a % b; }
FN unsigned long long py_rem(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a % b; }
FN unsigned long long floor_divide(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a / b; }
FN float py_rem(float a, float b) { float r = fmodf(a, b); return r == 0 ? copysignf(r, b) : (r < 0) != (b < 0) ? r + b : r; }
FN double py_rem(double a, double b) { double r = fmod(a, b); return r == 0 ? copysign(r, b) : (r < 0) != (b < 0) ? r + b : r; }
FN long long py_rem(long long a, long long b) { long long r = fmod(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
// In double for float as well: there the quotient is exact enough for the row's reference.
FN double floor_divide(double a, double b) {
    if (b == 0 || fabs(a) == __longlong_as_double(0x7ff0000000000000LL)) return a / b;
    double r = fmod(a, b), q = (a - r) / b - (r != 0 && (r < 0) != (b < 0) ? 1 : 0);
    if (q == 0) return copysign(0.0, a / b);
    double f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}
FN float floor_divide(float a, float b) { return (float)floor_divide((double)a, (double)b); }
FN long long floor_divide(long long a, long long b) {
    if (b == 0) return 0;
    if (b == -1) return (long long)(0ULL - (unsigned long long)a);
    long long q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
FN long long pow(long long a, long long b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    unsigned long long base = a, y = 1;
    for (unsigned long long e = b > 0xffffffffLL ? 0xffffffffLL : b; e; e >>= 1) {
        if (e & 1) y *= base;
        base *= base;
    }
    return y;
}
FN unsigned long long pow(unsigned long long a, unsigned long long b) {
    return (unsigned long long)pow((long long)a, (long long)(b > 0xffffffffULL ? 0xffffffffULL : b));
}
FN bool is_inf(float x) { return fabsf(x) == __int_as_float(0x7f800000); }
FN bool is_inf(double x) { return fabs(x) == __longlong_as_double(0x7ff0000000000000LL); }
FN bool is_inf(long long) { return false; }
FN bool is_inf(unsigned long long) { return false; }
FN bool is_finite(float x) { return fabsf(x) < __int_as_float(0x7f800000); }
FN bool is_finite(double x) { return fabs(x) < __longlong_as_double(0x7ff0000000000000LL); }
FN bool is_finite(long long) { return true; }
FN bool is_finite(unsigned long long) { return true; }
FN long long shl(long long a, long long b) { return b >= 0 && b < 64 ? (long long)((unsigned long long)a << b) : 0; }
FN long long shr(long long a, long long b) { return a >> (b < 0 ? 0 : b > 63 ? 63 : b); }
FN unsigned long long shl(unsigned long long a, unsigned long long b) { return b < 64 ? a << b : 0; }
FN unsigned long long shr(unsigned long long a, unsigned long long b) { return b < 64 ? a >> b : 0; }
FN float erfinv(float x) { return erfinvf(x); }
FN float erfcx(float x) { return erfcxf(x); }
FN float rsqrt(float x) { return rsqrtf(x); }
FN float cyl_bessel_i0(float x) { return cyl_bessel_i0f(x); }
FN float cyl_bessel_i1(float x) { return cyl_bessel_i1f(x); }

// Philox4x32-10: word `at % 4` of block `at / 4`.
FN void philox(unsigned c[4], unsigned k0, unsigned k1) {
    for (int i = 0; i < 10; i++) {
        unsigned long long a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
        unsigned n0 = (unsigned)(b >> 32) ^ c[1] ^ k0, n2 = (unsigned)(a >> 32) ^ c[3] ^ k1;
        c[0] = n0; c[1] = (unsigned)b; c[2] = n2; c[3] = (unsigned)a;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
}

// Four neighbors of a draw, or one of them, from its key.
FN void draw_four(const unsigned* key, unsigned long long block, unsigned* to) {
    unsigned c[4] = {(unsigned)block, (unsigned)(block >> 32), key[2], key[3]};
    philox(c, key[0], key[1]);
    for (int i = 0; i < 4; i++) to[i] = c[i];
}
FN unsigned draw_one(const unsigned* key, unsigned long long at) {
    unsigned c[4];
    draw_four(key, at / 4, c);
    return at % 4 == 0 ? c[0] : at % 4 == 1 ? c[1] : at % 4 == 2 ? c[2] : c[3];
}

struct Sum { template <typename T> FN T of(T a, T b) { return a + b; } };
struct Prod { template <typename T> FN T of(T a, T b) { return a * b; } };
struct Max { template <typename T> FN T of(T a, T b) { return fmax_nan(a, b); } };
struct Min { template <typename T> FN T of(T a, T b) { return fmin_nan(a, b); } };

// Combines the values of `N` neighboring lanes (a power of 2 up to 32); each lane gets the result.
template <typename M, int N, typename T> FN T across(T x) {
    #pragma unroll
    for (int d = N / 2; d > 0; d /= 2) x = M::of(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}
// Combines what the warps of a block have left in shared memory, always in the same order.
template <typename M, int N, typename T> FN T gather(const T* s) {
    if (N == 8 || N == 16 || N == 32) return across<M, N>(s[threadIdx.x % N]);
    T x = s[0];
    #pragma unroll
    for (int i = 1; i < N; i++) x = M::of(x, s[i]);
    return x;
}

// Two floats as the halves of a word, and the product of a 16×16 and a 16×8 matrix of halves added to
// what a lane has of the sum, on tensor cores.
FN unsigned pair_bf16(float a, float b) { return put_bf16(a).bits | (unsigned)put_bf16(b).bits << 16; }
FN unsigned pair_f16(float a, float b) { return put_f16(a).bits | (unsigned)put_f16(b).bits << 16; }
#if __CUDA_ARCH__ >= 800
#define MULTIPLY(name, type) \
FN void name(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
        "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); \
}
MULTIPLY(multiply_bf16, "bf16")
MULTIPLY(multiply_f16, "f16")
FN unsigned shared_at(const void* at) { return (unsigned)__cvta_generic_to_shared(at); }
// Four matrices of 8×8 halves from shared memory, as tensor cores take them: lane n has the address of row
// n % 8 of matrix n / 8. And the same, transposed.
FN void take_matrices(unsigned* to, unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
FN void take_transposed(unsigned* to, unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
// Copies 16 bytes to shared memory, or zeros where there is nothing, in groups that are waited for in
// their order: until only the latest `N` are on their way.
FN void bring_16(unsigned to, const void* from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}
FN void bring_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> FN void bring_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
#endif
#if __CUDA_ARCH__ >= 900
// Waits for the other blocks of the cluster; what they have in shared memory is there from then on.
FN void sync_cluster() {
#if __CUDACC_VER_MAJOR__ >= 13
    // Says that shared memory is all that matters: no block waits for writes to other memory.
    asm volatile("fence.release.sync_restrict::shared::cta.cluster;\n"
                 "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#else
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}
// Waits until the others have read what they need of this block's shared memory; not for what was written.
FN void leave_cluster() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// A barrier that opens when as many bytes have arrived in shared memory as were expected, the copies
// that bring them there (sizes and places are multiples of 16 bytes), and the wait for its opening, once
// for each time it opens.
FN void barrier_begin(unsigned long long* b) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_at(b)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
FN void barrier_expect(unsigned long long* b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_at(b)), "r"(bytes) : "memory");
}
FN void bring(void* to, const void* from, unsigned bytes, unsigned long long* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :: "r"(shared_at(to)), "l"(from), "r"(bytes), "r"(shared_at(b)) : "memory");
}
FN void barrier_wait(unsigned long long* b, unsigned parity) {
    asm volatile("{\n.reg .pred p;\nwait:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra wait;\ndone:\n}"
        :: "r"(shared_at(b)), "r"(parity) : "memory");
}
// Four floats that block `n` of the cluster has where this one has `at`.
FN float4 far_four(const float* at, int n) {
    unsigned there;
    float4 x;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_at(at)), "r"(n));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(there) : "memory");
    return x;
}
// What block `n` of the cluster has where this one has `at`.
template <typename T> FN T of_block(const T* at, int n) {
    const T* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(n));
    return *(const volatile T*)there;
}
#endif

// A bad index, for the host to find at the next synchronization, and on the device for kernels that
// must not change anything then.
struct Report { volatile long long launch, index; volatile long long* status; };
FN long long checked(long long i, long long size, Report* report, long long launch) {
    if (i >= 0 && i < size) return i;
    report->index = i;
    __threadfence_system();
    report->launch = launch;
    *report->status = launch;
    return 0;
}
