// Block-quantized weights. A quarter t of a sub-block of 32 weights is weights 4t to 4t + 3 and 16 + 4t to
// 16 + 4t + 3: one or two words of the packed bytes. `weights(row, sub, t, w)` unpacks those eight.

FN unsigned word4(const unsigned char* p) { return *(const unsigned*)p; }
// Blocks of some formats lie at even addresses only.
FN unsigned word2(const unsigned char* p) {
    return *(const unsigned short*)p | (unsigned)*(const unsigned short*)(p + 2) << 16;
}
FN float half_at(const unsigned char* p) { f16 x; x.bits = *(const unsigned short*)p; return get(x); }
FN float byte_of(unsigned w, int i) { return (float)(w >> 8 * i & 255); }
FN float signed_byte_of(unsigned w, int i) { return (float)((int)(w << (24 - 8 * i)) >> 24); }
// Eight weights from two words of bytes.
FN void scaled(unsigned low, unsigned high, float d, float m, float* w) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i] = byte_of(low, i) * d + m;
        w[4 + i] = byte_of(high, i) * d + m;
    }
}
FN void signed_scaled(unsigned low, unsigned high, float d, float* w) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i] = signed_byte_of(low, i) * d;
        w[4 + i] = signed_byte_of(high, i) * d;
    }
}
// Four neighboring bits as bit 4 of four bytes.
FN unsigned spread(unsigned bits) { return (bits & 15) * 0x00204081u & 0x01010101u; }
// The scale and the minimum of sub-block j of a K-quant, as 6-bit numbers.
FN void six_bits(const unsigned char* p, int j, float* scale, float* min) {
    const int a = p[j % 4], b = p[j % 4 + 4], c = p[j % 4 + 8];
    *scale = (float)(j < 4 ? a & 63 : (c & 15) | (a >> 6) << 4);
    *min = (float)(j < 4 ? b & 63 : (c >> 4) | (b >> 6) << 4);
}

#define LOW 0x0f0f0f0fu
FN void weights_q4_0(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 18 * (long long)sub;
    const float d = half_at(p);
    const unsigned q = word2(p + 2 + 4 * t);
    scaled(q & LOW, q >> 4 & LOW, d, -8 * d, w);
}
FN void weights_q4_1(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 20 * (long long)sub;
    const unsigned q = word4(p + 4 + 4 * t);
    scaled(q & LOW, q >> 4 & LOW, half_at(p), half_at(p + 2), w);
}
FN void weights_q5_0(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 22 * (long long)sub;
    const float d = half_at(p);
    const unsigned h = word2(p + 2), q = word2(p + 6 + 4 * t);
    scaled((q & LOW) | spread(h >> 4 * t) << 4, (q >> 4 & LOW) | spread(h >> (16 + 4 * t)) << 4, d, -16 * d, w);
}
FN void weights_q5_1(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 24 * (long long)sub;
    const unsigned h = word4(p + 4), q = word4(p + 8 + 4 * t);
    scaled((q & LOW) | spread(h >> 4 * t) << 4, (q >> 4 & LOW) | spread(h >> (16 + 4 * t)) << 4, half_at(p),
        half_at(p + 2), w);
}
FN void weights_q8_0(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 34 * (long long)sub;
    signed_scaled(word2(p + 2 + 4 * t), word2(p + 18 + 4 * t), half_at(p), w);
}
FN void weights_int8(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 130 * (long long)(sub / 4);
    const unsigned char* q = p + 2 + 32 * (sub % 4) + 4 * t;
    signed_scaled(word2(q), word2(q + 16), half_at(p), w);
}
// The first 64 weights of a group are low nibbles, the others high ones.
FN void weights_int4(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 68 * (long long)(sub / 4);
    const unsigned char* q = p + 4 + 32 * (sub % 2) + 4 * t;
    const int shift = sub % 4 / 2 * 4;
    scaled(word4(q) >> shift & LOW, word4(q + 16) >> shift & LOW, half_at(p), half_at(p + 2), w);
}
FN void weights_q4_k(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 144 * (long long)(sub / 8);
    const int j = sub % 8, shift = j % 2 * 4;
    float scale, min;
    six_bits(p + 4, j, &scale, &min);
    const unsigned char* q = p + 16 + 32 * (j / 2) + 4 * t;
    scaled(word4(q) >> shift & LOW, word4(q + 16) >> shift & LOW, half_at(p) * scale, -(half_at(p + 2) * min), w);
}
FN void weights_q5_k(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 176 * (long long)(sub / 8);
    const int j = sub % 8, shift = j % 2 * 4;
    float scale, min;
    six_bits(p + 4, j, &scale, &min);
    const unsigned char *q = p + 48 + 32 * (j / 2) + 4 * t, *h = p + 16 + 4 * t;
    const unsigned low = (word4(h) >> j & 0x01010101u) << 4, high = (word4(h + 16) >> j & 0x01010101u) << 4;
    scaled((word4(q) >> shift & LOW) | low, (word4(q + 16) >> shift & LOW) | high, half_at(p) * scale,
        -(half_at(p + 2) * min), w);
}
FN void weights_q6_k(const unsigned char* row, int sub, int t, float* w) {
    const unsigned char* p = row + 210 * (long long)(sub / 8);
    const int half = sub % 8 / 4, run = sub % 4;
    const float d = half_at(p + 208);
    const unsigned char *q = p + 64 * half + 32 * (run % 2) + 4 * t, *h = p + 128 + 32 * half + 4 * t;
    const unsigned low = (word2(q) >> run / 2 * 4 & LOW) | (word2(h) >> 2 * run & 0x03030303u) << 4;
    const unsigned high = (word2(q + 16) >> run / 2 * 4 & LOW) | (word2(h + 16) >> 2 * run & 0x03030303u) << 4;
    const signed char* s = (const signed char*)p + 192 + 8 * half + 2 * run;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i] = d * (float)s[0] * (byte_of(low, i) - 32);
        w[4 + i] = d * (float)s[1] * (byte_of(high, i) - 32);
    }
}
// Weights that are floats.
FN void weights_f32(const unsigned char* row, int sub, int t, float* w) {
    const float4 low = *(const float4*)(row + 128 * (long long)sub + 16 * t), high = *(const float4*)(row + 128 * (long long)sub + 64 + 16 * t);
    w[0] = low.x, w[1] = low.y, w[2] = low.z, w[3] = low.w;
    w[4] = high.x, w[5] = high.y, w[6] = high.z, w[7] = high.w;
}
template <typename T> FN void weights_of_16_bits(const unsigned char* row, int sub, int t, float* w) {
    const pack<T, 4> low = *(const pack<T, 4>*)(row + 64 * (long long)sub + 8 * t);
    const pack<T, 4> high = *(const pack<T, 4>*)(row + 64 * (long long)sub + 32 + 8 * t);
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i] = item(low, i);
        w[4 + i] = item(high, i);
    }
}
FN void weights_f16(const unsigned char* row, int sub, int t, float* w) { weights_of_16_bits<f16>(row, sub, t, w); }
FN void weights_bf16(const unsigned char* row, int sub, int t, float* w) { weights_of_16_bits<bf16>(row, sub, t, w); }

// Activations in 8 bits per block of N, as floats again: a thread for each block.
template <int N, typename T> FN void round_activations(const T* x, float* y) {
    float most = 0;
    for (int i = 0; i < N; i++) if (fabsf(get(x[i])) > fabsf(most)) most = get(x[i]);
    const float amax = fabsf(most);
    float inverse = 0, scale = 0;
    if (amax > 0 && N == 256) {
        inverse = -127.0f / most;
        scale = 1.0f / inverse;
    } else if (amax > 0) {
        inverse = 127.0f / amax;
        scale = amax / 127.0f;
        if (scale >= 6.2e-5f && scale <= 65504.0f) scale = get(put_f16(scale));
    }
    for (int i = 0; i < N; i++) y[i] = fminf(rintf(get(x[i]) * inverse), 127.0f) * scale;
}

// A warp multiplies a row of weights with up to M rows of x. Sums are made in one order for any number of rows.
template <void (*WEIGHTS)(const unsigned char*, int, int, float*), int M, typename T>
FN void multiply_row(const unsigned char* row, const T* x, int rows, int k, float* sums) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    float own[M];
    #pragma unroll
    for (int m = 0; m < M; m++) own[m] = 0;
    for (int sub = lane / 4; sub < k / 32; sub += 8) {
        float w[8];
        WEIGHTS(row, sub, t, w);
        #pragma unroll
        for (int m = 0; m < M; m++) {
            if (m >= rows) break;
            const T* from = x + (long long)m * k + 32 * sub + 4 * t;
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                own[m] = fmaf(w[i], get(from[i]), own[m]);
                own[m] = fmaf(w[4 + i], get(from[16 + i]), own[m]);
            }
        }
    }
    #pragma unroll
    for (int m = 0; m < M; m++) sums[m] = across<Sum, 32>(own[m]);
}
