// Inclusive scans along lanes. A state is what a thread carries from element to element; `M::of` combines two, in order.

template <typename S> __device__ inline S state_from_left(S v, int d) {
  union { S s; unsigned w[sizeof(S) / 4]; } u;
  u.s = v;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(S) / 4); i++) u.w[i] = __shfl_up_sync(~0u, u.w[i], d);
  return u.s;
}

// A number with its index.
template <typename V> struct Indexed { V v; long long at; };

struct ScanSum { template <typename S> static __device__ S of(S a, S b) { return a + b; } };
struct ScanProd { template <typename S> static __device__ S of(S a, S b) { return a * b; } };
// The last of equals; a NaN stays.
struct ScanMax { template <typename S> static __device__ S of(S a, S b) { return b.v != b.v || b.v >= a.v ? b : a; } };
struct ScanMin { template <typename S> static __device__ S of(S a, S b) { return b.v != b.v || b.v <= a.v ? b : a; } };
struct ScanLogSumExp {
  static __device__ double of(double a, double b) {
    const double low = a < b ? a : b, high = a < b ? b : a;
    if (low != low || high != high) return low + high;
    return low == high && isinf(low) ? low : high + log1p(exp(low - high));
  }
};

// Scans a tile of T threads with I states each, which follow what `before` has. State j of a lane is at `at(j)`.
// `has` says of how many states there are any. Returns the last state.
template <typename S, typename M, int T, int I> struct ScanTile {
  static constexpr int W = T / 32;
  S sums[W];
  S last;

  static __device__ int at(int j) { return (int)threadIdx.x / 32 * 32 * I + j * 32 + (int)threadIdx.x % 32; }

  __device__ void scan(S (&v)[I], int count, bool has_before, S before) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Within a warp, row by row.
#pragma unroll
    for (int j = 0; j < I; j++) {
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const S left = state_from_left(v[j], d);
        if (lane >= d) v[j] = M::of(left, v[j]);
      }
      if (j > 0) {
        union { S s; unsigned w[sizeof(S) / 4]; } u;
        u.s = v[j - 1];
#pragma unroll
        for (int i = 0; i < (int)(sizeof(S) / 4); i++) u.w[i] = __shfl_sync(~0u, u.w[i], 31);
        v[j] = M::of(u.s, v[j]);
      }
    }
    __syncthreads();
    if (lane == 31) sums[warp] = v[I - 1];
    __syncthreads();
    // All states of earlier warps exist if this warp has one.
    S first = before;
    bool has = has_before;
    for (int w = 0; w < warp; w++) {
      first = has ? M::of(first, sums[w]) : sums[w];
      has = true;
    }
    if (has) {
#pragma unroll
      for (int j = 0; j < I; j++) v[j] = M::of(first, v[j]);
    }
#pragma unroll
    for (int j = 0; j < I; j++) {
      if (at(j) == count - 1) last = v[j];
    }
    __syncthreads();
  }
};
