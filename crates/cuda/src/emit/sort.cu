// Radix sort by digits of 8 bits, least significant first. Equal keys keep their order.

// Keys that are ordered as the numbers are. NaN is greatest; both zeros are equal.
__device__ inline unsigned sort_key(float v) {
  if (v != v) return ~0u;
  const unsigned b = __float_as_uint(v == 0.0f ? 0.0f : v);
  return b & 0x80000000u ? ~b : b | 0x80000000u;
}
__device__ inline unsigned long long sort_key(double v) {
  if (v != v) return ~0ull;
  const unsigned long long b = (unsigned long long)__double_as_longlong(v == 0.0 ? 0.0 : v);
  return b >> 63 ? ~b : b | 1ull << 63;
}

// A tile: T threads with I keys each. Key j of a lane is at `at(j)`.
template <typename K, int T, int I> struct SortTile {
  static constexpr int W = T / 32, N = T * I;
  unsigned histogram[W * 256], start[256], sums[32];
  K keys[N];
  unsigned ids[N];

  static __device__ int at(int j) { return (int)threadIdx.x / 32 * 32 * I + j * 32 + (int)threadIdx.x % 32; }

  // The position of each key if the tile is sorted by a digit. Sets `start` to the first position of each digit.
  __device__ void rank(const K (&k)[I], unsigned (&r)[I], int shift) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < W * 256; i += T) histogram[i] = 0;
    __syncthreads();
    unsigned* own = histogram + warp * 256;
#pragma unroll
    for (int j = 0; j < I; j++) {
      const unsigned d = (unsigned)(k[j] >> shift) & 255u;
      const unsigned same = __match_any_sync(~0u, d), before = __popc(same & ((1u << lane) - 1u));
      unsigned count = 0;
      if (before == 0) {
        count = own[d];
        own[d] = count + __popc(same);
      }
      r[j] = __shfl_sync(~0u, count, __ffs(same) - 1) + before;
      __syncwarp();
    }
    __syncthreads();
    constexpr int P = T < 256 ? T : 256, D = 256 / P;
    unsigned part[D], total = 0;
    if (threadIdx.x < P) {
#pragma unroll
      for (int e = 0; e < D; e++) {
        unsigned sum = 0;
        for (int w = 0; w < W; w++) {
          unsigned& c = histogram[w * 256 + threadIdx.x * D + e];
          const unsigned now = c;
          c = sum;
          sum += now;
        }
        part[e] = sum;
        total += sum;
      }
    }
    unsigned first = exclusive(total);
    if (threadIdx.x < P) {
#pragma unroll
      for (int e = 0; e < D; e++) {
        start[threadIdx.x * D + e] = first;
        first += part[e];
      }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < I; j++) {
      const unsigned d = (unsigned)(k[j] >> shift) & 255u;
      r[j] += start[d] + own[d];
    }
  }
  // The sum over the threads before this one. Synchronizes the block.
  __device__ unsigned exclusive(unsigned v) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned sum = v;
    for (int o = 1; o < 32; o *= 2) {
      const unsigned left = __shfl_up_sync(~0u, sum, o);
      if (lane >= o) sum += left;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    unsigned base = sum - v;
    for (unsigned w = 0; w < warp; w++) base += sums[w];
    return base;
  }
  // Puts keys and ids where they belong.
  __device__ void place(const K (&k)[I], const unsigned (&id)[I], const unsigned (&r)[I]) {
#pragma unroll
    for (int j = 0; j < I; j++) {
      keys[r[j]] = k[j];
      ids[r[j]] = id[j];
    }
    __syncthreads();
  }
  // Sorts the tile by the lowest `bits` bits.
  __device__ void sort(K (&k)[I], unsigned (&id)[I], int bits) {
    unsigned r[I];
    for (int shift = 0; shift < bits; shift += 8) {
      rank(k, r, shift);
      place(k, id, r);
#pragma unroll
      for (int j = 0; j < I; j++) {
        k[j] = keys[at(j)];
        id[j] = ids[at(j)];
      }
      __syncthreads();
    }
  }
};

// The first k of a lane's `size` keys in order, by a block of 1024 threads. `key(p)` is key p. Afterwards number i of them is
// `tile.keys[i]`, its position `tile.ids[i]`. Of equal keys the first are taken.
template <typename K, int BITS, typename F> __device__ void select_first(SortTile<K, 1024, 1>& tile, F key, unsigned size, unsigned k) {
  __shared__ unsigned histogram[256], found[2], warps[2][32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  K prefix = 0, mask = 0;
  unsigned need = k;
  // The k-th key, digit by digit from the highest.
  for (int shift = BITS - 8; shift >= 0; shift -= 8) {
    if (threadIdx.x < 256) histogram[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 4
    for (unsigned first = 0; first < size; first += 1024) {
      const unsigned p = first + threadIdx.x;
      const K now = p < size ? key(p) : (K)0;
      const bool is_in = p < size && (now & mask) == prefix;
      const unsigned all = __ballot_sync(~0u, is_in);
      if (is_in) {
        const unsigned d = (unsigned)(now >> shift) & 255u, same = __match_any_sync(all, d);
        if (__ffs(same) - 1 == (int)lane) atomicAdd(&histogram[d], __popc(same));
      }
    }
    __syncthreads();
    const unsigned own = threadIdx.x < 256 ? histogram[threadIdx.x] : 0u, before = tile.exclusive(own);
    if (own > 0 && before < need && need <= before + own) {
      found[0] = threadIdx.x;
      found[1] = before;
    }
    __syncthreads();
    prefix |= (K)found[0] << shift;
    mask |= (K)255 << shift;
    need -= found[1];
  }
  // A warp has neighbors: those before the k-th key, and of its equals the first `need`.
  const unsigned part = (size + 1023u) / 1024u * 32u, begin = min(warp * part, size), end = min(begin + part, size);
  unsigned less = 0, same = 0;
#pragma unroll 4
  for (unsigned p = begin + lane; p - lane < end; p += 32) {
    const K now = p < end ? key(p) : ~(K)0;
    less += __popc(__ballot_sync(~0u, p < end && now < prefix));
    same += __popc(__ballot_sync(~0u, p < end && now == prefix));
  }
  if (lane == 0) {
    warps[0][warp] = less;
    warps[1][warp] = same;
  }
  __syncthreads();
  unsigned to = 0, equal = 0;
  for (unsigned w = 0; w < warp; w++) {
    to += warps[0][w];
    equal += warps[1][w];
  }
  for (unsigned p = begin + lane; (less || same) && p - lane < end; p += 32) {
    const K now = p < end ? key(p) : ~(K)0;
    const unsigned here = __ballot_sync(~0u, p < end && now < prefix), ties = __ballot_sync(~0u, p < end && now == prefix);
    const unsigned left = (1u << lane) - 1u;
    if (here >> lane & 1u) {
      tile.keys[to + __popc(here & left)] = now;
      tile.ids[to + __popc(here & left)] = p;
    }
    const unsigned rank = equal + __popc(ties & left);
    if ((ties >> lane & 1u) && rank < need) {
      tile.keys[k - need + rank] = now;
      tile.ids[k - need + rank] = p;
    }
    to += __popc(here);
    equal += __popc(ties);
  }
  __syncthreads();
  K now[1] = {threadIdx.x < k ? tile.keys[threadIdx.x] : ~(K)0};
  unsigned id[1] = {threadIdx.x < k ? tile.ids[threadIdx.x] : 0u};
  __syncthreads();
  tile.sort(now, id, BITS);
}
