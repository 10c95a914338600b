//! Random numbers by counter: a draw is a pure function of a seed and a position.
//!
//! The generator is Philox 4x32 with ten rounds (Salmon et al., 2011). There is
//! no state to save: given the seed, the purpose and the index of a
//! sample, its numbers can be drawn again, in any order, on any thread.

/// A stream of random numbers that belongs to one place (a sample, an epoch).
///
/// ```
/// use talweg_data::random::Random;
/// let mut a = Random::new(7, 0, 41);
/// let mut b = Random::new(7, 0, 41);
/// assert_eq!(a.bits(), b.bits());
/// assert_ne!(a.bits(), Random::new(7, 0, 42).bits());
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    used: usize,
}

impl Random {
    /// The stream of place `index` for the given purpose under `seed`.
    ///
    /// Purposes keep streams of the same seed apart: shuffling and augmenting
    /// sample 3 must not draw the same numbers.
    pub fn new(seed: u64, purpose: u32, index: u64) -> Self {
        let counter = [0, purpose, index as u32, (index >> 32) as u32];
        Random { key: [seed as u32, (seed >> 32) as u32], counter, block: [0; 4], used: 4 }
    }

    /// The next 32 random bits.
    pub fn bits(&mut self) -> u32 {
        if self.used == 4 {
            self.block = philox(self.counter, self.key);
            // A stream is 2^34 numbers long; wrapping would only repeat it.
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// The next 64 random bits.
    pub fn wide(&mut self) -> u64 {
        u64::from(self.bits()) | u64::from(self.bits()) << 32
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// Uniform in `[low, high)`.
    pub fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// Uniform in `0..bound`, without bias (Lemire's method).
    ///
    /// # Panics
    /// If `bound` is zero: there is no such number.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "Random::below needs a bound of at least 1");
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.wide()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// True with probability `chance`.
    pub fn coin(&mut self, chance: f32) -> bool {
        self.unit() < chance
    }

    /// Standard normal (Box-Muller; one of the pair is thrown away so that a
    /// draw always costs two numbers).
    pub fn normal(&mut self) -> f32 {
        let radius = 1.0 - self.unit();
        let angle = self.unit() * core::f32::consts::TAU;
        libm::sqrtf(-2.0 * libm::logf(radius)) * libm::cosf(angle)
    }
}

/// A seed derived from a seed and a number, for streams within streams (the
/// augmentation of one epoch, say).
pub fn derive(seed: u64, number: u64) -> u64 {
    Random::new(seed, PURPOSE_DERIVE, number).wide()
}

pub(crate) const PURPOSE_DERIVE: u32 = 0;
/// The purpose of a shuffle, for the order of a [`Loader`](crate::Loader).
pub const PURPOSE_SHUFFLE: u32 = 1;
pub(crate) const PURPOSE_SPLIT: u32 = 2;
/// The purpose of augmentation, for custom streams that draw what [`Dataset::vary`](crate::Dataset::vary) draws.
pub const PURPOSE_AUGMENT: u32 = 3;
pub(crate) const PURPOSE_DIGITS: u32 = 4;

/// A uniformly random order of `0..len`: Fisher-Yates over one stream, so that
/// nothing but the permutation itself is stored.
pub fn permutation(seed: u64, purpose: u32, number: u64, len: usize) -> Vec<usize> {
    let mut random = Random::new(seed, purpose, number);
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        let other = random.below(last as u64 + 1) as usize;
        order.swap(last, other);
    }
    order
}

/// One block of Philox 4x32-10.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let left = u64::from(counter[0]) * 0xD251_1F53;
        let right = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (right >> 32) as u32 ^ counter[1] ^ key[0],
            right as u32,
            (left >> 32) as u32 ^ counter[3] ^ key[1],
            left as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the reference implementation (Random123's
    /// `kat_vectors`).
    #[test]
    fn philox_matches_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn permutation_is_one_and_depends_on_everything() {
        let order = permutation(3, 1, 0, 1000);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..1000));
        assert_eq!(order, permutation(3, 1, 0, 1000));
        assert_ne!(order, permutation(3, 1, 1, 1000));
        assert_ne!(order, permutation(4, 1, 0, 1000));
        assert!(permutation(3, 1, 0, 0).is_empty());
    }

    #[test]
    fn draws_have_the_right_moments() {
        let mut random = Random::new(1, 9, 0);
        let draws: Vec<f32> = (0..20_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f32>() / 20_000.0;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 20_000.0;
        assert!(mean.abs() < 0.03, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.05, "variance {variance}");

        let mut counts = [0; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|c| (9_500..10_500).contains(c)), "{counts:?}");
    }
}
