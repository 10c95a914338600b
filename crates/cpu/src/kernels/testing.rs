//! Helpers of the kernels' tests.

/// Numbers without pattern in -1..1.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn next(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// An integer in `low..=high`.
    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() >> 33) as usize % (high - low + 1)
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.bits() >> 63 == 1
    }

    pub(crate) fn f32s(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next() as f32).collect()
    }

    pub(crate) fn f64s(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.next()).collect()
    }
}

/// Fails with the first pair that is apart by more than `tolerance`, relative above 1.
#[track_caller]
pub(crate) fn assert_close(got: &[f32], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let off = (g as f64 - w).abs();
        assert!(off <= tolerance * w.abs().max(1.0), "{what}: element {i} is {g}, want {w}");
    }
}
