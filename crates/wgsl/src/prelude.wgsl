// What generated kernels may use; only the functions that a kernel names are put before it. Suffixes say what a number
// is computed with: f (f32), i (i32), u (u32), l and ul (64-bit integers as vec2<u32>, low word first).

// Numbers that WGSL has no literals for come from the parameters, where no compiler sees them.
fn inf_f() -> f32 { return bitcast<f32>(P.head.x); }
fn nan_f() -> f32 { return bitcast<f32>(P.head.y); }
fn is_nan_f(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_inf_f(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn is_finite_f(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u; }

// Elements within words.
fn get_u8(w: u32, i: u32) -> i32 { return i32(extractBits(w, (i & 3u) * 8u, 8u)); }
fn get_i8(w: u32, i: u32) -> i32 { return extractBits(bitcast<i32>(w), (i & 3u) * 8u, 8u); }
fn get_u16(w: u32, i: u32) -> i32 { return i32(extractBits(w, (i & 1u) * 16u, 16u)); }
fn get_i16(w: u32, i: u32) -> i32 { return extractBits(bitcast<i32>(w), (i & 1u) * 16u, 16u); }
fn get_bf16(w: u32, i: u32) -> f32 { return bitcast<f32>(extractBits(w, (i & 1u) * 16u, 16u) << 16u); }
fn get_f16(w: u32, i: u32) -> f32 { return of_f16(extractBits(w, (i & 1u) * 16u, 16u)); }
fn get_f8e4m3(w: u32, i: u32) -> f32 {
  let b = extractBits(w, (i & 3u) * 8u, 8u);
  if ((b & 0x7fu) == 0x7fu) { return nan_f(); }
  return of_f16(((b & 0x80u) << 8u) | ((b & 0x7fu) << 7u)) * 256.0;
}
fn get_f8e5m2(w: u32, i: u32) -> f32 { return of_f16(extractBits(w, (i & 3u) * 8u, 8u) << 8u); }
fn of_f16(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let m = h & 0x7fffu;
  if (m >= 0x7c00u) { return bitcast<f32>(sign | (P.head.x | ((m & 0x3ffu) << 13u))); }
  if (m < 0x400u) {
    let x = f32(m) * 5.9604644775390625e-8;
    return bitcast<f32>(sign | bitcast<u32>(x));
  }
  return bitcast<f32>(sign | ((m << 13u) + 0x38000000u));
}
// Rounded to even.
fn bits_f16(x: f32) -> u32 {
  let u = bitcast<u32>(x);
  let sign = (u >> 16u) & 0x8000u;
  let m = u & 0x7fffffffu;
  if (m > 0x7f800000u) { return sign | 0x7e00u; }
  if (m >= 0x477ff000u) { return sign | 0x7c00u; }
  if (m < 0x38800000u) {
    // Below the least normal half: the sum's last bits are the half's.
    let shifted = bitcast<f32>(m) + 0.5;
    return sign | (bitcast<u32>(shifted) - 0x3f000000u);
  }
  return sign | ((m - 0x38000000u + 0xfffu + ((m >> 13u) & 1u)) >> 13u);
}
fn bits_bf16(x: f32) -> u32 {
  let u = bitcast<u32>(x);
  if (is_nan_f(x)) { return (u >> 16u) | 0x40u; }
  return (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;
}
fn bits_f8e4m3(x: f32) -> u32 {
  let sign = (bitcast<u32>(x) >> 24u) & 0x80u;
  let u = bitcast<u32>(x) & 0x7fffffffu;
  if (u > 0x7f800000u) { return sign | 0x7fu; }
  if (u >= 0x43e80000u) { return sign | 0x7eu; }
  if (u < 0x3c800000u) { return sign | (bitcast<u32>(bitcast<f32>(u) + 16384.0) - bitcast<u32>(f32(16384.0))); }
  return sign | ((u - (120u << 23u) + 0x7ffffu + ((u >> 20u) & 1u)) >> 20u);
}
fn bits_f8e5m2(x: f32) -> u32 {
  let sign = (bitcast<u32>(x) >> 24u) & 0x80u;
  let u = bitcast<u32>(x) & 0x7fffffffu;
  if (u > 0x7f800000u) { return sign | 0x7fu; }
  if (u >= 0x47700000u) { return sign | 0x7cu; }
  if (u < 0x38800000u) { return sign | (bitcast<u32>(bitcast<f32>(u) + 128.0) - bitcast<u32>(f32(128.0))); }
  return sign | ((u - (112u << 23u) + 0xfffffu + ((u >> 21u) & 1u)) >> 21u);
}
fn round_f16(x: f32) -> f32 { return of_f16(bits_f16(x)); }
fn round_bf16(x: f32) -> f32 { return bitcast<f32>(bits_bf16(x) << 16u); }
fn round_f8e4m3(x: f32) -> f32 { return get_f8e4m3(bits_f8e4m3(x), 0u); }
fn round_f8e5m2(x: f32) -> f32 { return get_f8e5m2(bits_f8e5m2(x), 0u); }

// Conversions. A float is truncated and saturated to 64 bits, NaN is 0.
fn l_of_f(x: f32) -> vec2<u32> {
  if (is_nan_f(x)) { return vec2<u32>(0u, 0u); }
  let m = abs(x);
  if (m >= 9223372036854775808.0) {
    if (x > 0.0) { return vec2<u32>(0xffffffffu, 0x7fffffffu); }
    return vec2<u32>(0u, 0x80000000u);
  }
  let w = ul_of_magnitude(m);
  if (x < 0.0) { return neg_l(w); }
  return w;
}
fn ul_of_f(x: f32) -> vec2<u32> {
  if (!(x >= 0.0)) { return l_of_f(x); }
  if (x >= 18446744073709551616.0) { return vec2<u32>(0xffffffffu, 0xffffffffu); }
  return ul_of_magnitude(x);
}
// By the bits: exact for all floats below 2^64.
fn ul_of_magnitude(m: f32) -> vec2<u32> {
  let u = bitcast<u32>(m);
  let e = i32(u >> 23u) - 150;
  let w = vec2<u32>((u & 0x7fffffu) | 0x800000u, 0u);
  if (e <= -24) { return vec2<u32>(0u, 0u); }
  if (e < 0) { return vec2<u32>(w.x >> u32(-e), 0u); }
  return shl_words(w, u32(e));
}
fn f_of_l(x: vec2<u32>) -> f32 {
  if ((x.y & 0x80000000u) != 0u) { return -f_of_ul(neg_l(x)); }
  return f_of_ul(x);
}
fn f_of_ul(x: vec2<u32>) -> f32 {
  if (x.y == 0u) { return f32(x.x); }
  // 24 bits and a sticky one, so that it is rounded once.
  let n = countLeadingZeros(x.y);
  let top = shl_words(x, n);
  let sticky = select(0u, 1u, (top.x | (top.y & 0x3fu)) != 0u);
  let r = f32((top.y & 0xffffffc0u) | (sticky << 5u));
  return r * bitcast<f32>((159u - n) << 23u);
}
fn l_of_i(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }
fn l_of_u(x: u32) -> vec2<u32> { return vec2<u32>(x, 0u); }

// 64-bit integers.
fn shl_words(a: vec2<u32>, n: u32) -> vec2<u32> {
  if (n == 0u) { return a; }
  if (n >= 64u) { return vec2<u32>(0u, 0u); }
  if (n >= 32u) { return vec2<u32>(0u, a.x << (n - 32u)); }
  return vec2<u32>(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}
fn shr_words(a: vec2<u32>, n: u32) -> vec2<u32> {
  if (n == 0u) { return a; }
  if (n >= 64u) { return vec2<u32>(0u, 0u); }
  if (n >= 32u) { return vec2<u32>(a.y >> (n - 32u), 0u); }
  return vec2<u32>((a.x >> n) | (a.y << (32u - n)), a.y >> n);
}
fn add_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn sub_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
fn neg_l(a: vec2<u32>) -> vec2<u32> { return sub_l(vec2<u32>(0u, 0u), a); }
fn wide_mul(a: u32, b: u32) -> vec2<u32> {
  let a0 = a & 0xffffu; let a1 = a >> 16u; let b0 = b & 0xffffu; let b1 = b >> 16u;
  let low = a0 * b0;
  let m = a1 * b0 + (low >> 16u);
  let n = a0 * b1 + (m & 0xffffu);
  return vec2<u32>((n << 16u) | (low & 0xffffu), a1 * b1 + (m >> 16u) + (n >> 16u));
}
fn mul_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let w = wide_mul(a.x, b.x);
  return vec2<u32>(w.x, w.y + a.x * b.y + a.y * b.x);
}
fn eq_l(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x == b.x && a.y == b.y; }
fn lt_ul(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }
fn lt_l(a: vec2<u32>, b: vec2<u32>) -> bool {
  return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}
fn is_zero_l(a: vec2<u32>) -> bool { return (a.x | a.y) == 0u; }
fn is_neg_l(a: vec2<u32>) -> bool { return (a.y & 0x80000000u) != 0u; }
// Quotient and remainder, bit by bit; b is not 0.
fn div_rem_ul(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  if (a.y == 0u && b.y == 0u) { return vec4<u32>(a.x / b.x, 0u, a.x % b.x, 0u); }
  var q = vec2<u32>(0u, 0u);
  var r = vec2<u32>(0u, 0u);
  for (var i = 0u; i < 64u; i = i + 1u) {
    let n = 63u - i;
    let carry = (r.y & 0x80000000u) != 0u;
    r = shl_words(r, 1u) | vec2<u32>(shr_words(a, n).x & 1u, 0u);
    if (carry || !lt_ul(r, b)) {
      r = sub_l(r, b);
      q = q | shl_words(vec2<u32>(1u, 0u), n);
    }
  }
  return vec4<u32>(q, r);
}
fn div_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (is_zero_l(b)) { return b; }
  let q = div_rem_ul(abs_l(a), abs_l(b)).xy;
  if (is_neg_l(a) != is_neg_l(b)) { return neg_l(q); }
  return q;
}
fn div_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (is_zero_l(b)) { return b; }
  return div_rem_ul(a, b).xy;
}
fn fmod_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (is_zero_l(b)) { return b; }
  return div_rem_ul(a, b).zw;
}
fn fmod_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (is_zero_l(b)) { return b; }
  let r = div_rem_ul(abs_l(a), abs_l(b)).zw;
  if (is_neg_l(a)) { return neg_l(r); }
  return r;
}
fn py_rem_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return fmod_ul(a, b); }
fn py_rem_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let r = fmod_l(a, b);
  if (!is_zero_l(r) && is_neg_l(r) != is_neg_l(b)) { return add_l(r, b); }
  return r;
}
fn floor_divide_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return div_ul(a, b); }
fn floor_divide_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let q = div_l(a, b);
  if (!is_zero_l(fmod_l(a, b)) && is_neg_l(a) != is_neg_l(b)) { return sub_l(q, vec2<u32>(1u, 0u)); }
  return q;
}
fn abs_l(a: vec2<u32>) -> vec2<u32> {
  if (is_neg_l(a)) { return neg_l(a); }
  return a;
}
fn abs_ul(a: vec2<u32>) -> vec2<u32> { return a; }
fn fmax_nan_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, lt_l(a, b)); }
fn fmin_nan_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, lt_l(b, a)); }
fn fmax_nan_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, lt_ul(a, b)); }
fn fmin_nan_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, lt_ul(b, a)); }
fn fmax_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return fmax_nan_l(a, b); }
fn fmin_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return fmin_nan_l(a, b); }
fn fmax_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return fmax_nan_ul(a, b); }
fn fmin_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return fmin_nan_ul(a, b); }
fn pow_words(a: vec2<u32>, b: u32) -> vec2<u32> {
  var y = vec2<u32>(1u, 0u);
  var base = a;
  for (var e = b; e != 0u; e = e >> 1u) {
    if ((e & 1u) != 0u) { y = mul_l(y, base); }
    base = mul_l(base, base);
  }
  return y;
}
fn pow_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (is_neg_l(b)) {
    if (eq_l(a, vec2<u32>(1u, 0u))) { return a; }
    if (eq_l(a, vec2<u32>(0xffffffffu, 0xffffffffu))) { return select(a, vec2<u32>(1u, 0u), (b.x & 1u) == 0u); }
    return vec2<u32>(0u, 0u);
  }
  return pow_words(a, select(b.x, 0xffffffffu, b.y != 0u));
}
fn pow_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return pow_words(a, select(b.x, 0xffffffffu, b.y != 0u)); }
fn shl_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return shl_words(a, select(b.x, 64u, b.y != 0u)); }
fn shl_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return shl_l(a, b); }
fn shr_ul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return shr_words(a, select(b.x, 64u, b.y != 0u)); }
fn shr_l(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (is_neg_l(b)) { return a; }
  let n = select(min(b.x, 63u), 63u, b.y != 0u);
  let y = shr_words(a, n);
  if (is_neg_l(a) && n > 0u) { return y | shl_words(vec2<u32>(0xffffffffu, 0xffffffffu), 64u - n); }
  return y;
}

// Integers of 32 bits and fewer.
fn abs_i(a: i32) -> i32 { return abs(a); }
fn abs_u(a: u32) -> u32 { return a; }
fn fmax_nan_i(a: i32, b: i32) -> i32 { return max(a, b); }
fn fmin_nan_i(a: i32, b: i32) -> i32 { return min(a, b); }
fn fmax_nan_u(a: u32, b: u32) -> u32 { return max(a, b); }
fn fmin_nan_u(a: u32, b: u32) -> u32 { return min(a, b); }
fn fmax_i(a: i32, b: i32) -> i32 { return max(a, b); }
fn fmin_i(a: i32, b: i32) -> i32 { return min(a, b); }
fn fmax_u(a: u32, b: u32) -> u32 { return max(a, b); }
fn fmin_u(a: u32, b: u32) -> u32 { return min(a, b); }
fn div_i(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; }
  if (b == -1) { return -a; }
  return a / b;
}
fn div_u(a: u32, b: u32) -> u32 { return select(a / max(b, 1u), 0u, b == 0u); }
fn fmod_i(a: i32, b: i32) -> i32 {
  if (b == 0 || b == -1) { return 0; }
  return a % b;
}
fn fmod_u(a: u32, b: u32) -> u32 { return select(a % max(b, 1u), 0u, b == 0u); }
fn py_rem_u(a: u32, b: u32) -> u32 { return fmod_u(a, b); }
fn py_rem_i(a: i32, b: i32) -> i32 {
  let r = fmod_i(a, b);
  if (r != 0 && (r < 0) != (b < 0)) { return r + b; }
  return r;
}
fn floor_divide_u(a: u32, b: u32) -> u32 { return div_u(a, b); }
fn floor_divide_i(a: i32, b: i32) -> i32 {
  let q = div_i(a, b);
  if (fmod_i(a, b) != 0 && (a < 0) != (b < 0)) { return q - 1; }
  return q;
}
fn pow_i(a: i32, b: i32) -> i32 {
  if (b < 0) {
    if (a == 1) { return 1; }
    if (a == -1) { return select(-1, 1, (b & 1) == 0); }
    return 0;
  }
  return bitcast<i32>(pow_u(bitcast<u32>(a), u32(b)));
}
fn pow_u(a: u32, b: u32) -> u32 {
  var y = 1u;
  var base = a;
  for (var e = b; e != 0u; e = e >> 1u) {
    if ((e & 1u) != 0u) { y = y * base; }
    base = base * base;
  }
  return y;
}
fn shl_i(a: i32, b: i32) -> i32 { return select(0, a << u32(b & 31), b >= 0 && b < 32); }
fn shr_i(a: i32, b: i32) -> i32 { return a >> u32(clamp(b, 0, 31)); }
fn shl_u(a: u32, b: u32) -> u32 { return select(0u, a << (b & 31u), b < 32u); }
fn shr_u(a: u32, b: u32) -> u32 { return select(0u, a >> (b & 31u), b < 32u); }

// Philox4x32-10.
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
  var c = counter;
  var k = key;
  for (var i = 0u; i < 10u; i = i + 1u) {
    let a = wide_mul(0xD2511F53u, c.x);
    let b = wide_mul(0xCD9E8D57u, c.z);
    c = vec4<u32>(b.y ^ c.y ^ k.x, b.x, a.y ^ c.w ^ k.y, a.x);
    k = k + vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

// An order of bits that is the order of numbers; NaN is greatest.
fn sort_key_f(v: f32) -> u32 {
  if (is_nan_f(v)) { return 0xffffffffu; }
  let b = select(bitcast<u32>(v), 0u, v == 0.0);
  return select(b | 0x80000000u, ~b, (b & 0x80000000u) != 0u);
}
