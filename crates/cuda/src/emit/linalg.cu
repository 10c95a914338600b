// Factorizations of matrices, a block of `LINALG_T` threads each. Matrices are row-major in global memory; what one thread
// writes, others read after a barrier.

constexpr int LINALG_T = 256;

// C (m x n) -= A (m x k) B (k x n), or B transposed (n x k); C = A B with `IS_SET`. All threads of the block take part.
template <bool IS_TRANSPOSED, bool IS_SET = false, typename T>
__device__ void minus_product(T* c, long long ldc, const T* a, long long lda, const T* b, long long ldb, int m, int n, int k) {
  constexpr int TILE = 64, K = 16;
  __shared__ T as[K][TILE + 4], bs[K][TILE + 4];
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  for (int i0 = 0; i0 < m; i0 += TILE) {
    for (int j0 = 0; j0 < n; j0 += TILE) {
      T sum[4][4] = {};
      for (int k0 = 0; k0 < k; k0 += K) {
        __syncthreads();
        for (int e = threadIdx.x; e < TILE * K; e += LINALG_T) {
          const int i = e / K, l = e % K;
          as[l][i] = i0 + i < m && k0 + l < k ? a[(i0 + i) * lda + k0 + l] : (T)0;
          if (IS_TRANSPOSED) {
            bs[l][i] = j0 + i < n && k0 + l < k ? b[(j0 + i) * ldb + k0 + l] : (T)0;
          } else {
            const int j = e % TILE, h = e / TILE;
            bs[h][j] = j0 + j < n && k0 + h < k ? b[(k0 + h) * ldb + j0 + j] : (T)0;
          }
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < K; l++) {
#pragma unroll
          for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) sum[i][j] += as[l][row + i] * bs[l][column + j];
        }
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const int r = i0 + row + i, q = j0 + column + j;
          if (r < m && q < n) c[r * ldc + q] = IS_SET ? sum[i][j] : c[r * ldc + q] - sum[i][j];
        }
    }
  }
  __syncthreads();
}

// C = A B of square matrices; C is neither of them.
template <typename T> __device__ void set_product(T* c, const T* a, const T* b, int n) {
  __syncthreads();
  minus_product<false, true>(c, (long long)n, a, (long long)n, b, (long long)n, n, n, n);
}

// The lower Cholesky factor in place of the lower triangle. Returns false if a pivot is not positive.
template <typename T> __device__ bool cholesky(T* a, int n) {
  constexpr int B = 32;
  __shared__ T d[B][B + 1];
  __shared__ bool is_bad;
  if (threadIdx.x == 0) is_bad = false;
  for (int k0 = 0; k0 < n; k0 += B) {
    const int w = min(B, n - k0);
    __syncthreads();
    for (int e = threadIdx.x; e < w * w; e += LINALG_T) d[e / w][e % w] = a[(long long)(k0 + e / w) * n + k0 + e % w];
    __syncthreads();
    if (threadIdx.x < 32) {
      const int i = threadIdx.x;
      for (int j = 0; j < w; j++) {
        const T pivot = d[j][j];
        __syncwarp();
        if (!(pivot > 0)) {
          if (i == 0) is_bad = true;
          break;
        }
        const T root = sqrt(pivot);
        if (i == j) d[j][j] = root;
        if (i > j && i < w) d[i][j] /= root;
        __syncwarp();
        if (i > j && i < w)
          for (int l = j + 1; l <= i; l++) d[i][l] -= d[i][j] * d[l][j];
        __syncwarp();
      }
    }
    __syncthreads();
    if (is_bad) return false;
    for (int e = threadIdx.x; e < w * w; e += LINALG_T)
      if (e % w <= e / w) a[(long long)(k0 + e / w) * n + k0 + e % w] = d[e / w][e % w];
    // The rows below: X dᵀ = A.
    for (int i = k0 + w + threadIdx.x; i < n; i += LINALG_T) {
      T* row = a + (long long)i * n + k0;
      T x[B];
#pragma unroll
      for (int j = 0; j < B; j++) {
        if (j < w) {
          T v = row[j];
#pragma unroll
          for (int l = 0; l < B; l++)
            if (l < j) v -= x[l] * d[j][l];
          x[j] = v / d[j][j];
          row[j] = x[j];
        }
      }
    }
    __syncthreads();
    // The rest, in stripes up to the diagonal.
    for (int i = k0 + w; i < n; i += 64) {
      const int m = min(64, n - i);
      const T* p = a + (long long)i * n + k0;
      minus_product<true>(a + (long long)i * n + k0 + w, n, p, n, a + (long long)(k0 + w) * n + k0, n, m, i + m - k0 - w, w);
    }
  }
  return true;
}

// Solves with a triangle of at most 32 rows, whose element (i, j) is `at(i, j)`: rows of x below each other, a thread for
// each column.
template <bool IS_UPPER, typename T, typename At>
__device__ void solve_block(At at, bool is_unit, T* x, long long ldx, int w, int k) {
  constexpr int B = 32;
  for (int c = threadIdx.x; c < k; c += LINALG_T) {
    T v[B];
#pragma unroll
    for (int e = 0; e < B; e++) v[e] = e < w ? x[e * ldx + c] : (T)0;
#pragma unroll
    for (int s = 0; s < B; s++) {
      const int e = IS_UPPER ? B - 1 - s : s;
      T sum = v[e];
      if (e < w) {
#pragma unroll
        for (int f = 0; f < B; f++)
          if (IS_UPPER ? f > e : f < e) sum -= (f < w ? at(e, f) : (T)0) * v[f];
        v[e] = is_unit ? sum : sum / at(e, e);
      }
    }
#pragma unroll
    for (int e = 0; e < B; e++)
      if (e < w) x[e * ldx + c] = v[e];
  }
}

// LU with partial pivoting in place of an m x n matrix. `order[i]` is the row of the input that stands at i. Returns the
// sign of that order, 0 if a column has no pivot. Columns are factored in shared memory, as many as fit.
template <typename T> __device__ int factor_lu(T* a, int m, int n, int* order) {
  constexpr int B = 32, ROOM = sizeof(T) == 4 ? 8192 : 2560;
  __shared__ T panel[ROOM];
  __shared__ T best[LINALG_T / 32];
  __shared__ int where[LINALG_T / 32], swaps[B];
  for (int i = threadIdx.x; i < m; i += LINALG_T) order[i] = i;
  int sign = 1;
  const int steps = min(m, n);
  for (int k0 = 0, w; k0 < steps; k0 += w) {
    const int rows = m - k0;
    const bool is_near = rows * 4 <= ROOM;
    w = min(min(is_near ? ROOM / rows / 4 * 4 : B, B), steps - k0);
    // Element (i, j) of the panel.
    T* p = is_near ? panel : a + (long long)k0 * n + k0;
    const long long si = is_near ? 1 : n, sj = is_near ? rows : 1;
    __syncthreads();
    if (is_near) {
#pragma unroll 4
      for (int e = threadIdx.x; e < rows * w; e += LINALG_T) panel[e % w * rows + e / w] = a[(long long)(k0 + e / w) * n + k0 + e % w];
    }
    for (int k = 0; k < w; k++) {
      __syncthreads();
      // The largest of the column, the first of equals.
      T top = -1;
      int at = rows;
      for (int i = k + threadIdx.x; i < rows; i += LINALG_T) {
        const T v = fabs(p[i * si + k * sj]);
        if (v > top || v != v) { top = v; at = i; }
      }
      for (int o = 16; o > 0; o /= 2) {
        const T v = __shfl_xor_sync(~0u, top, o);
        const int i = __shfl_xor_sync(~0u, at, o);
        if (v > top || (v == top && i < at)) { top = v; at = i; }
      }
      if (threadIdx.x % 32 == 0) { best[threadIdx.x / 32] = top; where[threadIdx.x / 32] = at; }
      __syncthreads();
      top = best[0];
      at = where[0];
      for (int i = 1; i < LINALG_T / 32; i++)
        if (best[i] > top || (best[i] == top && where[i] < at)) { top = best[i]; at = where[i]; }
      if (at >= rows || p[at * si + k * sj] == 0) {
        sign = 0;
        if (threadIdx.x == 0) swaps[k] = k;
        continue;
      }
      __syncthreads();
      if (threadIdx.x == 0) swaps[k] = at;
      if (at != k) {
        sign = -sign;
        // Within the panel now; the rest of the rows when the panel is done.
        for (int j = threadIdx.x; j < w; j += LINALG_T) {
          const T v = p[k * si + j * sj];
          p[k * si + j * sj] = p[at * si + j * sj];
          p[at * si + j * sj] = v;
        }
        if (threadIdx.x == 0) { const int o = order[k0 + k]; order[k0 + k] = order[k0 + at]; order[k0 + at] = o; }
        __syncthreads();
      }
      const T pivot = p[k * si + k * sj];
      for (int i = k + 1 + threadIdx.x; i < rows; i += LINALG_T) {
        T* row = p + i * si;
        const T f = row[k * sj] / pivot;
        row[k * sj] = f;
#pragma unroll 4
        for (int j = k + 1; j < w; j++) row[j * sj] -= f * p[k * si + j * sj];
      }
    }
    __syncthreads();
    if (is_near) {
#pragma unroll 4
      for (int e = threadIdx.x; e < rows * w; e += LINALG_T) a[(long long)(k0 + e / w) * n + k0 + e % w] = panel[e % w * rows + e / w];
    }
    for (int e = threadIdx.x; e < n - w; e += LINALG_T) {
      T* column = a + (long long)k0 * n + (e < k0 ? e : e + w);
      for (int s = 0; s < w; s++) {
        const int to = swaps[s];
        if (s == to) continue;
        const T v = column[(long long)s * n];
        column[(long long)s * n] = column[(long long)to * n];
        column[(long long)to * n] = v;
      }
    }
    __syncthreads();
    const int next = k0 + w;
    // The block row of U: L x = a.
    if (next < n)
      solve_block<false>([&](int i, int j) -> T { return p[i * si + j * sj]; }, true, a + (long long)k0 * n + next, (long long)n, w, n - next);
    __syncthreads();
    if (next < m && next < n)
      minus_product<false>(a + (long long)next * n + next, n, a + (long long)next * n + k0, n,
                           a + (long long)k0 * n + next, n, m - next, n - next, w);
  }
  __syncthreads();
  return sign;
}

// Solves a triangular system in place of the right sides x (n x k). Returns false if a diagonal element is zero.
template <typename T>
__device__ bool substitute(const T* a, long long lda, T* x, int n, int k, bool is_upper, bool is_unit) {
  constexpr int B = 32;
  __shared__ T d[B][B + 1];
  bool is_bad = false;
  const int blocks = (n + B - 1) / B;
  for (int s = 0; s < blocks; s++) {
    const int b = is_upper ? blocks - 1 - s : s, i0 = b * B, w = min(B, n - i0);
    const int first = is_upper ? i0 + w : 0, count = is_upper ? n - i0 - w : i0;
    __syncthreads();
    for (int e = threadIdx.x; e < w * w; e += LINALG_T) {
      const T v = a[(i0 + e / w) * lda + i0 + e % w];
      d[e / w][e % w] = v;
      is_bad |= e / w == e % w && v == 0 && !is_unit;
    }
    if (count > 0)
      minus_product<false>(x + (long long)i0 * k, k, a + (long long)i0 * lda + first, lda, x + (long long)first * k, k, w, k, count);
    __syncthreads();
    const auto at = [&](int i, int j) -> T { return d[i][j]; };
    T* rows = x + (long long)i0 * k;
    if (is_upper) solve_block<true>(at, is_unit, rows, (long long)k, w, k);
    else solve_block<false>(at, is_unit, rows, (long long)k, w, k);
  }
  return !__syncthreads_or(is_bad);
}

// The sum over the threads of a block, for each of them.
template <typename T> __device__ T block_sum(T v) {
  __shared__ T sums[LINALG_T / 32];
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
  __syncthreads();
  T sum = 0;
  for (int i = 0; i < LINALG_T / 32; i++) sum += sums[i];
  return sum;
}

// Applies the reflector I - tau v vᵀ, v = (1, a[k+1..m][k]), to columns [from, to) of x with leading dimension ldx.
template <typename T>
__device__ void reflect(const T* a, long long lda, int k, int m, T tau, T* x, long long ldx, int from, int to) {
  constexpr int G = LINALG_T / 32;
  __shared__ T part[G][33];
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  for (int c0 = from; c0 < to; c0 += 32) {
    const int c = c0 + lane;
    T dot = 0;
    if (c < to)
      for (int i = k + group; i < m; i += G) dot += (i == k ? (T)1 : a[i * lda + k]) * x[i * ldx + c];
    __syncthreads();
    part[group][lane] = dot;
    __syncthreads();
    dot = 0;
    for (int g = 0; g < G; g++) dot += part[g][lane];
    dot *= tau;
    if (c < to)
      for (int i = k + group; i < m; i += G) x[i * ldx + c] -= dot * (i == k ? (T)1 : a[i * lda + k]);
  }
  __syncthreads();
}

// Householder QR in place of an m x n matrix: R above, reflectors below the diagonal, factors in `tau`. Signs are LAPACK's.
template <typename T> __device__ void factor_qr(T* a, int m, int n, T* tau) {
  for (int k = 0; k < min(m, n); k++) {
    T own = 0;
    for (int i = k + 1 + threadIdx.x; i < m; i += LINALG_T) own += a[(long long)i * n + k] * a[(long long)i * n + k];
    const T below = block_sum(own), head = a[(long long)k * n + k];
    __syncthreads();
    if (below == 0) {
      if (threadIdx.x == 0) tau[k] = 0;
      __syncthreads();
      continue;
    }
    const T beta = head > 0 ? -sqrt(head * head + below) : sqrt(head * head + below);
    const T factor = (beta - head) / beta;
    for (int i = k + 1 + threadIdx.x; i < m; i += LINALG_T) a[(long long)i * n + k] /= head - beta;
    if (threadIdx.x == 0) {
      a[(long long)k * n + k] = beta;
      tau[k] = factor;
    }
    __syncthreads();
    reflect(a, (long long)n, k, m, factor, a, (long long)n, k + 1, n);
  }
}
