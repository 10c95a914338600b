// Matrices by a block of `LINALG_T` threads each: the exponential, complex QR, and eigenvalues of any square matrix.

// The exponential of w, of which the 1-norm decides how often it is halved; returns where it is. `room` has five more
// matrices.
template <typename T> __device__ T* exponential(T* w, T* room, int n) {
  const int size = n * n;
  T most = 0;
  for (int j = threadIdx.x; j < n; j += LINALG_T) {
    T sum = 0;
    for (int i = 0; i < n; i++) sum += fabs(w[(long long)i * n + j]);
    most = fmax_nan(most, sum);
  }
  most = block_max(most);
  if (!is_finite(most)) {
    for (int e = threadIdx.x; e < size; e += LINALG_T) w[e] = most - most;
    __syncthreads();
    return w;
  }
  const int halvings = most > (T)0.5 ? (int)ceil(log2(most) + 1) : 0;
  for (int e = threadIdx.x; e < size; e += LINALG_T) w[e] = times_two(w[e], -halvings);
  __syncthreads();
  // The series in powers of the fourth power (Paterson and Stockmeyer). What is left out is below 0.5^9 / 9! in float,
  // 0.5^17 / 17! in double: less than a rounding error.
  constexpr int GROUPS = sizeof(T) == 4 ? 2 : 4;
  T *w2 = room, *w3 = w2 + size, *w4 = w3 + size, *x = w4 + size, *y = x + size;
  set_product(w2, w, w, n);
  set_product(w3, w2, w, n);
  set_product(w4, w2, w2, n);
  double factors[4 * GROUPS + 1];
  factors[0] = 1;
#pragma unroll
  for (int k = 1; k <= 4 * GROUPS; k++) factors[k] = factors[k - 1] / k;
#pragma unroll
  for (int g = GROUPS - 1; g >= 0; g--) {
    const T f0 = (T)factors[4 * g], f1 = (T)factors[4 * g + 1], f2 = (T)factors[4 * g + 2], f3 = (T)factors[4 * g + 3];
    if (g == GROUPS - 1) {
      const T last = (T)factors[4 * GROUPS];
      for (int e = threadIdx.x; e < size; e += LINALG_T) x[e] = last * w4[e];
    } else {
      set_product(y, x, w4, n);
      T* other = x;
      x = y;
      y = other;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < size; e += LINALG_T)
      x[e] += f3 * w3[e] + f2 * w2[e] + f1 * w[e] + (e / n == e % n ? f0 : (T)0);
    __syncthreads();
  }
  for (int k = 0; k < halvings; k++) {
    set_product(y, x, x, n);
    T* other = x;
    x = y;
    y = other;
  }
  return x;
}

// Applies I - factor v v* to columns [from, to) of x, v = (head, a[k+1..m][k]).
template <typename N>
__device__ void reflect_pairs(const N* a, long long lda, int k, int m, N head, N factor, N* x, long long ldx, int from, int to) {
  constexpr int G = LINALG_T / 32;
  __shared__ N part[G][33];
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  for (int c0 = from; c0 < to; c0 += 32) {
    const int c = c0 + lane;
    N dot = From<N>::real(0);
    if (c < to)
      for (int i = k + group; i < m; i += G) dot = dot + conj_of(i == k ? head : a[i * lda + k]) * x[i * ldx + c];
    __syncthreads();
    part[group][lane] = dot;
    __syncthreads();
    dot = From<N>::real(0);
    for (int g = 0; g < G; g++) dot = dot + part[g][lane];
    dot = dot * factor;
    if (c < to)
      for (int i = k + group; i < m; i += G) x[i * ldx + c] = x[i * ldx + c] - dot * (i == k ? head : a[i * lda + k]);
  }
  __syncthreads();
}

// What takes (alpha, a vector of squared length `tail`) to a real multiple of its first direction: I - factor* v v* with
// v = (head, the vector). Signs are LAPACK's. The factor is 0 if there is nothing to do.
template <typename R> __device__ R reflector(Cx<R> alpha, R tail, Cx<R>& head, Cx<R>& factor) {
  head = alpha;
  factor = {0, 0};
  if (tail == 0 && alpha.im == 0) return alpha.re;
  const R beta = -copysign(sqrt(abs2(alpha) + tail), alpha.re);
  head.re -= beta;
  factor = head * (-1 / (beta * abs2(head)));
  return beta;
}

// Householder QR in place of an m x n matrix: R above, vectors below the diagonal, their heads and factors beside.
template <typename R> __device__ void factor_pairs(Cx<R>* a, int m, int n, Cx<R>* heads, Cx<R>* factors) {
  for (int k = 0; k < min(m, n); k++) {
    R own = 0;
    for (int i = k + 1 + threadIdx.x; i < m; i += LINALG_T) own += abs2(a[(long long)i * n + k]);
    const R tail = block_sum(own);
    Cx<R> head, factor;
    const R beta = reflector(a[(long long)k * n + k], tail, head, factor);
    __syncthreads();
    if (threadIdx.x == 0) {
      a[(long long)k * n + k] = {beta, 0};
      heads[k] = head;
      factors[k] = factor;
    }
    __syncthreads();
    if (abs2(factor) > 0) reflect_pairs(a, (long long)n, k, m, head, conj_of(factor), a, (long long)n, k + 1, n);
  }
}

template <typename R> FN Cx<R> over(Cx<R> a, Cx<R> b) {
  const R scale = 1 / fmax(fabs(b.re), fabs(b.im));
  const Cx<R> c = b * scale;
  return a * conj_of(c) * (scale / abs2(c));
}
template <typename R> FN Cx<R> root(Cx<R> z) {
  const R size = size_of(z);
  if (size == 0) return {0, 0};
  const R half = sqrt((size + fabs(z.re)) / 2);
  const R other = fabs(z.im) / (2 * half);
  return {z.re >= 0 ? half : other, copysign(z.re >= 0 ? other : half, z.im)};
}

// Makes everything below the first lower diagonal of t zero: q t q* stays what it was.
template <typename R> __device__ void hessenberg(Cx<R>* t, Cx<R>* q, Cx<R>* v, int n) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int k = 0; k + 2 < n; k++) {
    __syncthreads();
    R own = 0;
    for (int i = k + 2 + threadIdx.x; i < n; i += LINALG_T) own += abs2(t[(long long)i * n + k]);
    const R tail = block_sum(own);
    Cx<R> head, factor;
    reflector(t[(long long)(k + 1) * n + k], tail, head, factor);
    if (!(abs2(factor) > 0)) continue;
    for (int i = k + 1 + threadIdx.x; i < n; i += LINALG_T) v[i] = i == k + 1 ? head : t[(long long)i * n + k];
    __syncthreads();
    // From the left, a thread each column.
    for (int c = k + threadIdx.x; c < n; c += LINALG_T) {
      Cx<R> dot = {0, 0};
      for (int i = k + 1; i < n; i++) dot = dot + conj_of(v[i]) * t[(long long)i * n + c];
      dot = dot * conj_of(factor);
      for (int i = k + 1; i < n; i++) {
        const Cx<R> x = t[(long long)i * n + c] - dot * v[i];
        t[(long long)i * n + c] = c == k && i > k + 1 ? Cx<R>{0, 0} : x;
      }
    }
    __syncthreads();
    // From the right, a warp each row.
    for (int r = warp; r < 2 * n; r += LINALG_T / 32) {
      Cx<R>* x = r < n ? t + (long long)r * n : q + (long long)(r - n) * n;
      Cx<R> dot = {0, 0};
      for (int i = k + 1 + lane; i < n; i += 32) dot = dot + v[i] * x[i];
      dot = warp_sum(dot) * factor;
      for (int i = k + 1 + lane; i < n; i += 32) x[i] = x[i] - dot * conj_of(v[i]);
    }
  }
  __syncthreads();
}

// A shift: the eigenvalue of the last two rows that is nearer to the last element, now and then another number.
template <typename R> __device__ Cx<R> shift_of(const Cx<R>* t, int n, int last, int turns) {
  const Cx<R>* above = t + (long long)(last - 1) * n + last - 1;
  const Cx<R> a = above[0], b = above[1], c = above[n], d = above[n + 1];
  if (turns % 10 == 0) return d + Cx<R>{size_of(c), 0};
  const Cx<R> half = (a - d) * (R)0.5, square = root(half * half + b * c);
  const Cx<R> plus = half + square, minus = half - square;
  const Cx<R> far = size_of(plus) > size_of(minus) ? plus : minus;
  return far.re == 0 && far.im == 0 ? d : d - over(b * c, far);
}

// A step of the QR method on the rows from `first` to `last`. `sines`, `cosines` and `diagonal` have room for n.
template <typename R>
__device__ void qr_step(Cx<R>* t, Cx<R>* q, int n, int first, int last, Cx<R> shift, Cx<R>* sines, R* cosines, Cx<R>* diagonal) {
  for (int i = first + threadIdx.x; i <= last; i += LINALG_T) t[(long long)i * n + i] = t[(long long)i * n + i] - shift;
  for (int k = first; k < last; k++) {
    __syncthreads();
    Cx<R>* upper = t + (long long)k * n;
    Cx<R>* lower = upper + n;
    const Cx<R> x = upper[k], y = lower[k];
    const R far = size_of(x), r = hypot(far, size_of(y));
    R c = 1;
    Cx<R> s = {0, 0};
    if (r != 0 && far == 0) {
      c = 0;
      s = conj_of(y) * (1 / size_of(y));
    } else if (r != 0) {
      c = far / r;
      s = (x * (1 / far)) * (conj_of(y) * (1 / r));
    }
    for (int j = k + 1 + threadIdx.x; j < n; j += LINALG_T) {
      const Cx<R> a = upper[j], b = lower[j];
      upper[j] = a * c + s * b;
      lower[j] = b * c - conj_of(s) * a;
    }
    // Others may still read this column.
    if (threadIdx.x == 0) {
      sines[k] = s;
      cosines[k] = c;
      diagonal[k] = x * c + s * y;
    }
  }
  __syncthreads();
  for (int k = first + threadIdx.x; k < last; k += LINALG_T) {
    t[(long long)k * n + k] = diagonal[k];
    t[(long long)(k + 1) * n + k] = {0, 0};
  }
  __syncthreads();
  for (int r = threadIdx.x; r < n + last + 1; r += LINALG_T) {
    const bool is_left = r <= last;
    const int i = is_left ? r : r - last - 1;
    Cx<R>* x = (is_left ? t : q) + (long long)i * n;
    const int from = is_left ? max(first, i - 1) : first;
    if (from >= last) continue;
    Cx<R> a = x[from];
    for (int k = from; k < last; k++) {
      const Cx<R> b = x[k + 1], s = sines[k];
      const R c = cosines[k];
      x[k] = a * c + b * conj_of(s);
      a = b * c - a * s;
    }
    x[last] = a;
  }
  __syncthreads();
  for (int i = first + threadIdx.x; i <= last; i += LINALG_T) t[(long long)i * n + i] = t[(long long)i * n + i] + shift;
  __syncthreads();
}

// Eigenvalues of the matrix in t, and eigenvectors of length 1 as rows of t; `q` and `x` have as much room, the lists
// n elements. Returns false if they were not found.
template <typename R>
__device__ bool schur_eig(Cx<R>* t, Cx<R>* q, Cx<R>* x, Cx<R>* values, Cx<R>* sines, Cx<R>* diagonal, R* cosines, int n) {
  constexpr int TURNS = 60;
  const int size = n * n, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  R most = 0;
  for (int e = threadIdx.x; e < size; e += LINALG_T) most = fmax_nan(most, most_of(t[e]));
  most = block_max(most);
  if (!is_finite(most)) {
    const R nan = most - most;
    for (int e = threadIdx.x; e < size; e += LINALG_T) t[e] = {nan, nan};
    for (int i = threadIdx.x; i < n; i += LINALG_T) values[i] = {nan, nan};
    __syncthreads();
    return true;
  }
  const int exponent = most == 0 ? 0 : ilogb(most);
  for (int e = threadIdx.x; e < size; e += LINALG_T) {
    t[e] = times_two(t[e], -exponent);
    q[e] = {(R)(e / n == e % n), 0};
  }
  __syncthreads();
  hessenberg(t, q, sines, n);
  int last = n - 1, turns = 0;
  while (last > 0) {
    int first = last;
    for (; first > 0; first--) {
      const Cx<R>* here = t + (long long)first * n + first;
      const R beside = size_of(here[-n - 1]) + size_of(here[0]);
      if (size_of(here[-1]) <= epsilon_of(beside) * (beside == 0 ? 1 : beside)) break;
    }
    const Cx<R> shift = first < last ? shift_of(t, n, last, turns + 1) : Cx<R>{0, 0};
    __syncthreads();
    if (first > 0 && threadIdx.x == 0) t[(long long)first * n + first - 1] = {0, 0};
    __syncthreads();
    if (first == last) {
      last--;
      turns = 0;
      continue;
    }
    if (turns == TURNS) return false;
    turns++;
    qr_step(t, q, n, first, last, shift, sines, cosines, diagonal);
  }
  for (int i = threadIdx.x; i < n; i += LINALG_T) values[i] = times_two(t[(long long)i * n + i], exponent);
  // Eigenvectors of the triangle, a thread each.
  R top = 0;
  for (int e = threadIdx.x; e < size; e += LINALG_T) top = fmax(top, size_of(t[e]));
  const R least = fmax(block_max(top) * epsilon_of(top), (R)1e-37);
  for (int k = threadIdx.x; k < n; k += LINALG_T) {
    for (int i = n - 1; i > k; i--) x[(long long)i * n + k] = {0, 0};
    x[(long long)k * n + k] = {1, 0};
    for (int i = k - 1; i >= 0; i--) {
      Cx<R> sum = {0, 0};
      for (int j = i + 1; j <= k; j++) sum = sum + t[(long long)i * n + j] * x[(long long)j * n + k];
      const Cx<R> gap = t[(long long)k * n + k] - t[(long long)i * n + i];
      // Equal values: some vector close to the others.
      x[(long long)i * n + k] = over(sum, size_of(gap) < least ? Cx<R>{least, 0} : gap);
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < size; e += LINALG_T) {
    const int k = e / n, i = e % n;
    Cx<R> sum = {0, 0};
    for (int l = 0; l <= k; l++) sum = sum + q[(long long)i * n + l] * x[(long long)l * n + k];
    t[e] = sum;
  }
  __syncthreads();
  for (int j = warp; j < n; j += LINALG_T / 32) {
    Cx<R>* y = t + (long long)j * n;
    R far = 0;
    for (int l = lane; l < n; l += 32) far = fmax(far, most_of(y[l]));
    far = across<Max, 32>(far);
    R square = 0;
    for (int l = lane; l < n; l += 32) square += abs2(y[l] * (1 / far));
    const R inverse = 1 / (far * sqrt(warp_sum(square)));
    for (int l = lane; l < n; l += 32) y[l] = y[l] * inverse;
    __syncwarp();
    settle(y, n);
  }
  __syncthreads();
  return true;
}
