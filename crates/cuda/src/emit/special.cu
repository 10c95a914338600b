// Functions that CUDA's library lacks, in double; the commonest ones of positive floats in float.

static __device__ const double BERNOULLI[10] = {
    1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};

static __device__ __noinline__ double cot_pi(double x) { return 1 / tan(3.14159265358979323846 * (x - round(x))); }

static __device__ __noinline__ double digamma(double x) {
    if (x == 0) return copysign(__longlong_as_double(0x7ff0000000000000LL), -x);
    double mirrored = 0;
    if (x < 0) {
        if (x == floor(x)) return __longlong_as_double(0x7ff8000000000000LL);
        mirrored = -3.14159265358979323846 * cot_pi(x);
        x = 1 - x;
    }
    double sum = 0;
    while (x < 12) { sum -= 1 / x; x += 1; }
    double r = 1 / (x * x), series = 0;
    for (int j = 9; j >= 0; j--) series = (series + BERNOULLI[j] / (2.0 * (j + 1))) * r;
    return sum + log(x) - 0.5 / x - series + mirrored;
}
FN float digamma(float x) {
    if (!(x > 0)) return (float)digamma((double)x);
    float sum = 0;
    while (x < 6) { sum -= 1 / x; x += 1; }
    float r = 1 / (x * x);
    return sum + logf(x) - 0.5f / x - r * (1 / 12.0f - r * (1 / 120.0f - r * (1 / 252.0f - r * (1 / 240.0f))));
}

static __device__ __noinline__ double zeta(double s, double x) {
    double sum = 0;
    while (x < 12 + s) { sum += pow(x, -s); x += 1; }
    double last = pow(x, -s);
    sum += last * x / (s - 1) + 0.5 * last;
    double term = last * s / x / 2;
    for (int j = 0; j < 10; j++) {
        sum += BERNOULLI[j] * term;
        double k = 2.0 * (j + 1);
        term *= (s + k - 1) * (s + k) / ((k + 1) * (k + 2) * x * x);
    }
    return sum;
}

// The n-th derivative of cot(pi x): pi^n P(cot pi x), where each order maps P to -(1 + c^2) P'.
static __device__ __noinline__ double cot_pi_derivative(int n, double x) {
    double p[153], next[153];
    for (int k = 0; k < n + 3; k++) p[k] = 0;
    p[1] = 1;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i + 3; k++) next[k] = 0;
        for (int k = 1; k < i + 2; k++) { next[k - 1] -= k * p[k]; next[k + 1] -= k * p[k]; }
        for (int k = 0; k < i + 3; k++) p[k] = next[k];
    }
    double c = cot_pi(x), y = 0;
    for (int k = n + 1; k >= 0; k--) y = y * c + p[k];
    return pow(3.14159265358979323846, (double)n) * y;
}

static __device__ __noinline__ double polygamma_positive(double n, double x) {
    double factorial = 1;
    for (int i = 2; i <= (int)n; i++) factorial *= i;
    double size = factorial * zeta(n + 1, x);
    return fmod(n, 2.0) == 0 ? -size : size;
}
static __device__ __noinline__ double trigamma_positive(double x) {
    double sum = 0;
    while (x < 13) { sum += 1 / (x * x); x += 1; }
    double r = 1 / (x * x), series = 0;
    for (int j = 9; j >= 0; j--) series = (series + BERNOULLI[j]) * r;
    return sum + 1 / x + 0.5 * r + series / x;
}
static __device__ __noinline__ double polygamma(double n, double x) {
    if (n == 1 && x > 0) return trigamma_positive(x);
    if (n == 0) return digamma(x);
    if (n != floor(n) || !(n >= 1 && n <= 150) || x != x) return __longlong_as_double(0x7ff8000000000000LL);
    bool even = fmod(n, 2.0) == 0;
    if (x > 0) return polygamma_positive(n, x);
    if (x == floor(x)) return even ? __longlong_as_double(0x7ff8000000000000LL) : __longlong_as_double(0x7ff0000000000000LL);
    double mirrored = polygamma_positive(n, 1 - x);
    return (even ? mirrored : -mirrored) - 3.14159265358979323846 * cot_pi_derivative((int)n, x);
}
FN float polygamma(float n, float x) {
    if (n != 1 || !(x > 0)) return (float)polygamma((double)n, (double)x);
    float sum = 0;
    while (x < 6) { sum += 1 / (x * x); x += 1; }
    float y = 1 / x, r = y * y;
    return sum + y + 0.5f * r + y * r * (1 / 6.0f - r * (1 / 30.0f - r * (1 / 42.0f - r * (1 / 30.0f))));
}
