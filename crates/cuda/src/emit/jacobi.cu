// One-sided Jacobi: eigenvalues and singular values. A matrix has `PARTS` blocks of `LINALG_T` threads, which are a
// cluster where they are several. Vectors are rows of `w` and `v`, so that the elements of one lie together; a warp
// rotates two of them.

// Complex numbers beside real ones.
template <typename T> struct Cx { T re, im; };
template <typename N> struct RealOf { typedef N type; };
template <typename T> struct RealOf<Cx<T>> { typedef T type; };
FN float conj_of(float x) { return x; }
FN double conj_of(double x) { return x; }
FN float real_of(float x) { return x; }
FN double real_of(double x) { return x; }
FN float size_of(float x) { return fabsf(x); }
FN double size_of(double x) { return fabs(x); }
FN float most_of(float x) { return fabsf(x); }
FN double most_of(double x) { return fabs(x); }
FN float abs2(float x) { return x * x; }
FN double abs2(double x) { return x * x; }
template <typename T> FN Cx<T> operator+(Cx<T> a, Cx<T> b) { return {a.re + b.re, a.im + b.im}; }
template <typename T> FN Cx<T> operator-(Cx<T> a, Cx<T> b) { return {a.re - b.re, a.im - b.im}; }
template <typename T> FN Cx<T> operator-(Cx<T> a) { return {-a.re, -a.im}; }
template <typename T> FN Cx<T> operator*(Cx<T> a, Cx<T> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
template <typename T> FN Cx<T> operator*(Cx<T> a, T b) { return {a.re * b, a.im * b}; }
template <typename T> FN Cx<T> conj_of(Cx<T> x) { return {x.re, -x.im}; }
template <typename T> FN T real_of(Cx<T> x) { return x.re; }
template <typename T> FN T size_of(Cx<T> x) { return hypot(x.re, x.im); }
template <typename T> FN T most_of(Cx<T> x) { return fmax_nan(fabs(x.re), fabs(x.im)); }
template <typename T> FN T abs2(Cx<T> x) { return x.re * x.re + x.im * x.im; }
template <typename N> struct From { FN N real(N x) { return x; } };
template <typename T> struct From<Cx<T>> { FN Cx<T> real(T x) { return {x, 0}; } };
FN float warp_sum(float x) { return across<Sum, 32>(x); }
FN double warp_sum(double x) { return across<Sum, 32>(x); }
template <typename T> FN Cx<T> warp_sum(Cx<T> x) { return {across<Sum, 32>(x.re), across<Sum, 32>(x.im)}; }
FN float epsilon_of(float) { return 1.1920929e-7f; }
FN double epsilon_of(double) { return 2.220446049250313e-16; }

constexpr int JACOBI_WARPS = LINALG_T / 32;

// Waits for all blocks of the matrix, and for what they have written.
template <int PARTS> FN void sync_parts() {
#if __CUDA_ARCH__ >= 900
  if (PARTS > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}
// A number times a power of two, in two steps: the power itself may be out of range.
template <typename R> FN R times_two(R x, int exponent) { return ldexp(ldexp(x, exponent / 2), exponent - exponent / 2); }
template <typename R> FN Cx<R> times_two(Cx<R> x, int exponent) { return {times_two(x.re, exponent), times_two(x.im, exponent)}; }

// The largest, or a NaN, of what the threads of a block have.
template <typename R> FN R block_max(R x) {
  __shared__ R all[JACOBI_WARPS];
  x = across<Max, 32>(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = x;
  __syncthreads();
  for (int i = 0; i < JACOBI_WARPS; i++) x = fmax_nan(x, all[i]);
  return x;
}

// Makes rows p and q of w orthogonal, if they are not yet, and rotates rows p and q of v with them. By a warp.
template <typename N> __device__ bool rotate_rows(N* w, int length, N* v, int count, int p, int q) {
  typedef typename RealOf<N>::type R;
  const int lane = threadIdx.x % 32;
  N* a = w + (long long)p * length;
  N* b = w + (long long)q * length;
  R aa = 0, bb = 0;
  N dot = From<N>::real(0);
  for (int l = lane; l < length; l += 32) {
    const N x = a[l], y = b[l];
    aa += abs2(x);
    bb += abs2(y);
    dot = dot + conj_of(x) * y;
  }
  aa = warp_sum(aa);
  bb = warp_sum(bb);
  dot = warp_sum(dot);
  const R off = size_of(dot), tolerance = epsilon_of(off) * sqrt((R)length);
  if (off == 0 || !(off > tolerance * sqrt(aa) * sqrt(bb))) return false;
  const R zeta = (bb - aa) / (2 * off);
  const R t = (zeta >= 0 ? (R)1 : (R)-1) / (fabs(zeta) + hypot((R)1, zeta));
  const R c = 1 / sqrt(1 + t * t), s = c * t;
  // In two steps: the inverse of the least numbers is out of range.
  N turn = conj_of(dot) * (R)(1 / fmax(off, (R)1e-37));
  turn = turn * (R)(1 / size_of(turn));
  for (int l = lane; l < length; l += 32) {
    const N x = a[l], y = b[l] * turn;
    a[l] = x * c - y * s;
    b[l] = x * s + y * c;
  }
  {
    N* d = v + (long long)p * count;
    N* e = v + (long long)q * count;
    for (int l = lane; l < count; l += 32) {
      const N x = d[l], y = e[l] * turn;
      d[l] = x * c - y * s;
      e[l] = x * s + y * c;
    }
  }
  return true;
}

// Makes all `count` rows of w orthogonal, round by round: in each, every row meets another one.
template <int PARTS, typename N> __device__ void jacobi(N* w, int length, N* v, int count, volatile int* flags) {
  constexpr int SWEEPS = 40;
  const int even = (count + 1) / 2 * 2, part = blockIdx.x % PARTS;
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    bool is_rotated = false;
    for (int r = 0; r < even - 1; r++) {
      for (int k = part * JACOBI_WARPS + (int)threadIdx.x / 32; k < even / 2; k += PARTS * JACOBI_WARPS) {
        const int i = k == 0 ? even - 1 : (r + k) % (even - 1), j = (r + even - 1 - k) % (even - 1);
        if (i < count && j < count) is_rotated |= rotate_rows(w, length, v, count, min(i, j), max(i, j));
      }
      sync_parts<PARTS>();
    }
    int any = __syncthreads_or(is_rotated);
    if (PARTS > 1) {
      if (threadIdx.x == 0) flags[part] = any;
      sync_parts<PARTS>();
      any = 0;
      for (int p = 0; p < PARTS; p++) any |= flags[p];
      sync_parts<PARTS>();
    }
    if (!any) return;
  }
}

// Makes a vector's length 1, and returns the length it had: rounding changes it a little with each rotation. By a warp.
template <typename N> __device__ typename RealOf<N>::type normalize(N* x, int length) {
  typedef typename RealOf<N>::type R;
  R square = 0;
  for (int l = threadIdx.x % 32; l < length; l += 32) square += abs2(x[l]);
  const R size = sqrt(warp_sum(square));
  for (int l = threadIdx.x % 32; l < length; l += 32) x[l] = x[l] * (R)(1 / size);
  __syncwarp();
  return size;
}

// The order of values: ascending, or descending.
template <int PARTS, bool IS_DESCENDING, typename R> __device__ void sort_values(const R* values, int count, int* order) {
  sync_parts<PARTS>();
  if (blockIdx.x % PARTS == 0) {
    for (int i = threadIdx.x; i < count; i += LINALG_T) {
      const R own = values[i];
      int rank = 0;
      for (int j = 0; j < count; j++) {
        const R other = values[j];
        const bool is_before = IS_DESCENDING ? other > own : other < own;
        rank += is_before || (other == own && j < i);
      }
      order[rank] = i;
    }
  }
  sync_parts<PARTS>();
}

// Turns a vector so that its largest component is real and positive; returns the phase it had. Of components that are
// equal but for rounding, the first counts. By a warp.
template <typename N> __device__ N settle(N* x, int length) {
  typedef typename RealOf<N>::type R;
  const int lane = threadIdx.x % 32;
  R most = 0;
  for (int l = lane; l < length; l += 32) most = fmax(most, size_of(x[l]));
  most = across<Max, 32>(most);
  if (!(most > 0)) return From<N>::real(1);
  long long best = length;
  const R enough = most * (1 - 64 * epsilon_of(most));
  for (int l = length - 1 - lane; l >= 0; l -= 32)
    if (size_of(x[l]) >= enough) best = l;
  best = across<Min, 32>(best);
  const N pivot = x[best];
  const R size = size_of(pivot);
  const N phase = pivot * (R)(1 / size);
  __syncwarp();
  for (int l = lane; l < length; l += 32) x[l] = l == best ? From<N>::real(size) : x[l] * conj_of(phase);
  __syncwarp();
  return phase;
}

// Eigenvalues of the Hermitian matrix with elements `at(i, j)`, in ascending order as `order` says, and eigenvectors as
// rows of v.
template <int PARTS, typename N, typename R, typename At>
__device__ void jacobi_eigh(At at, int n, N* w, N* v, R* values, int* order, int* flags) {
  const int part = blockIdx.x % PARTS, lane = threadIdx.x % 32;
  const int warp = part * JACOBI_WARPS + threadIdx.x / 32;
  R most = 0;
  for (int e = threadIdx.x; e < n * n; e += LINALG_T) most = fmax_nan(most, most_of(at(e / n, e % n)));
  most = block_max(most);
  if (!is_finite(most)) {
    const R nan = most - most;
    for (int e = part * LINALG_T + threadIdx.x; e < n * n; e += PARTS * LINALG_T) v[e] = From<N>::real(nan);
    for (int i = part * LINALG_T + threadIdx.x; i < n; i += PARTS * LINALG_T) { values[i] = nan; order[i] = i; }
    sync_parts<PARTS>();
    return;
  }
  const int exponent = most == 0 ? 0 : ilogb(most);
  // A shift that leaves no negative eigenvalue, by Gershgorin's circles or the norm.
  R deep = 0, square = 0;
  for (int i = threadIdx.x / 32; i < n; i += JACOBI_WARPS) {
    R around = 0, all = 0;
    for (int j = lane; j < n; j += 32) {
      const N x = times_two(at(i, j), -exponent);
      around += i == j ? -real_of(x) : size_of(x);
      all += abs2(x);
    }
    deep = fmax(deep, warp_sum(around));
    square += warp_sum(all);
  }
  deep = block_max(deep);
  const R shift = fmin(deep, sqrt(block_sum(lane == 0 ? square : 0)));
  for (int e = part * LINALG_T + threadIdx.x; e < n * n; e += PARTS * LINALG_T) {
    const int j = e / n, l = e % n;
    const N x = times_two(conj_of(at(j, l)), -exponent);
    w[e] = j == l ? x + From<N>::real(shift) : x;
    v[e] = From<N>::real(j == l);
  }
  sync_parts<PARTS>();
  jacobi<PARTS>(w, n, v, n, flags);
  // Of the matrix itself, which the shift has rounded.
  for (int j = warp; j < n; j += PARTS * JACOBI_WARPS) {
    N* x = v + (long long)j * n;
    normalize(x, n);
    R sum = 0;
    for (int i = 0; i < n; i++) {
      const N left = conj_of(x[i]);
      for (int l = lane; l < n; l += 32) sum += real_of(left * times_two(at(i, l), -exponent) * x[l]);
    }
    sum = warp_sum(sum);
    if (lane == 0) values[j] = sum;
  }
  sort_values<PARTS, false>(values, n, order);
  for (int i = part * LINALG_T + threadIdx.x; i < n; i += PARTS * LINALG_T) values[i] = times_two(values[i], exponent);
  for (int j = warp; j < n; j += PARTS * JACOBI_WARPS) settle(v + (long long)j * n, n);
  sync_parts<PARTS>();
}

// Rows from `have` to `want` of x, in the order of `order`, that make an orthonormal set with those before. By a block.
template <typename N> __device__ void complete_rows(N* x, const int* order, int have, int want, int length, N* dots) {
  typedef typename RealOf<N>::type R;
  __shared__ R rests[JACOBI_WARPS];
  __shared__ int places[JACOBI_WARPS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int j = have; j < want; j++) {
    __syncthreads();
    N* y = x + (long long)order[j] * length;
    // The direction of which the others hold the least.
    R top = -1;
    int best = length;
    for (int i = threadIdx.x; i < length; i += LINALG_T) {
      R rest = 1;
      for (int k = 0; k < j; k++) rest -= abs2(x[(long long)order[k] * length + i]);
      if (rest > top) { top = rest; best = i; }
    }
    for (int o = 16; o > 0; o /= 2) {
      const R rest = __shfl_xor_sync(~0u, top, o);
      const int i = __shfl_xor_sync(~0u, best, o);
      if (rest > top || (rest == top && i < best)) { top = rest; best = i; }
    }
    if (lane == 0) { rests[warp] = top; places[warp] = best; }
    __syncthreads();
    top = rests[0];
    best = places[0];
    for (int i = 1; i < JACOBI_WARPS; i++)
      if (rests[i] > top || (rests[i] == top && places[i] < best)) { top = rests[i]; best = places[i]; }
    for (int i = threadIdx.x; i < length; i += LINALG_T) y[i] = From<N>::real(i == best);
    // Twice is enough.
    for (int pass = 0; pass < 2; pass++) {
      __syncthreads();
      for (int k = warp; k < j; k += JACOBI_WARPS) {
        const N* other = x + (long long)order[k] * length;
        N dot = From<N>::real(0);
        for (int i = lane; i < length; i += 32) dot = dot + conj_of(other[i]) * y[i];
        dot = warp_sum(dot);
        if (lane == 0) dots[k] = dot;
      }
      __syncthreads();
      R square = 0;
      for (int i = threadIdx.x; i < length; i += LINALG_T) {
        N rest = y[i];
        for (int k = 0; k < j; k++) rest = rest - dots[k] * x[(long long)order[k] * length + i];
        y[i] = rest;
        square += abs2(rest);
      }
      const R inverse = 1 / sqrt(block_sum(square));
      for (int i = threadIdx.x; i < length; i += LINALG_T) y[i] = y[i] * inverse;
    }
  }
  __syncthreads();
}

// Singular values of the matrix with `length` rows and `count` columns (no more than rows) and elements `at(i, j)`, in
// descending order as `order` says. Rows of v are the right singular vectors; with `HAS_VECTORS` those of w are the left
// ones, of which there are `want`. Returns false where an element is not finite; everything is NaN then.
template <int PARTS, bool HAS_VECTORS, typename N, typename R, typename At>
__device__ bool jacobi_svd(At at, int length, int count, int want, N* w, N* v, R* values, int* order, int* flags, N* dots) {
  R* lengths = (R*)dots;
  const int part = blockIdx.x % PARTS, lane = threadIdx.x % 32, first = part * LINALG_T + threadIdx.x;
  const int warp = part * JACOBI_WARPS + threadIdx.x / 32;
  R most = 0;
  for (int e = threadIdx.x; e < length * count; e += LINALG_T) most = fmax_nan(most, most_of(at(e / count, e % count)));
  most = block_max(most);
  const bool is_good = is_finite(most);
  const int exponent = most == 0 || !is_good ? 0 : ilogb(most);
  for (int e = first; e < length * count; e += PARTS * LINALG_T)
    w[e] = is_good ? times_two(at(e % length, e / length), -exponent) : From<N>::real(most - most);
  for (int e = first; e < count * count; e += PARTS * LINALG_T)
    v[e] = From<N>::real(is_good ? (R)(e / count == e % count) : most - most);
  for (int e = length * count + first; e < length * want; e += PARTS * LINALG_T) w[e] = From<N>::real(most - most);
  for (int i = count + first; i < want; i += PARTS * LINALG_T) order[i] = i;
  sync_parts<PARTS>();
  if (!is_good) {
    for (int i = first; i < count; i += PARTS * LINALG_T) { values[i] = most - most; order[i] = i; }
    sync_parts<PARTS>();
    return false;
  }
  jacobi<PARTS>(w, length, v, count, flags);
  for (int j = warp; j < count; j += PARTS * JACOBI_WARPS) {
    const N* x = w + (long long)j * length;
    R square = 0;
    for (int l = lane; l < length; l += 32) square += abs2(x[l]);
    square = warp_sum(square);
    // What rounding has added to the length of the one it has added to that of the other.
    const R drift = normalize(v + (long long)j * count, count);
    if (lane == 0) values[j] = sqrt(square) / drift;
    if (lane == 0) lengths[j] = sqrt(square);
  }
  sort_values<PARTS, true>(values, count, order);
  if (HAS_VECTORS) {
    const R tiny = values[order[0]] * (R)1e-15;
    int rank = 0;
    for (int j = 0; j < count; j++) rank += values[j] > tiny;
    for (int j = warp; j < count; j += PARTS * JACOBI_WARPS) {
      const R s = lengths[j];
      if (values[j] > tiny)
        for (int l = lane; l < length; l += 32) w[(long long)j * length + l] = w[(long long)j * length + l] * (1 / s);
    }
    sync_parts<PARTS>();
    if (part == 0) complete_rows(w, order, rank, want, length, dots);
  }
  sync_parts<PARTS>();
  for (int i = first; i < count; i += PARTS * LINALG_T) values[i] = times_two(values[i], exponent);
  sync_parts<PARTS>();
  return true;
}

// Turns pairs of singular vectors so that the largest component of each row of u is real and positive, and further rows
// of w likewise.
template <int PARTS, typename N>
__device__ void settle_pairs(N* u, int rows, N* other, int others, int count, N* w, int length, int want) {
  const int warp = blockIdx.x % PARTS * JACOBI_WARPS + threadIdx.x / 32;
  for (int j = warp; j < want; j += PARTS * JACOBI_WARPS) {
    if (j >= count) {
      settle(w + (long long)j * length, length);
      continue;
    }
    const N turn = conj_of(settle(u + (long long)j * rows, rows));
    for (int l = threadIdx.x % 32; l < others; l += 32) other[(long long)j * others + l] = other[(long long)j * others + l] * turn;
  }
  sync_parts<PARTS>();
}
