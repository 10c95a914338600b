//! Flags that decide how programs are compiled for a GPU. A compiled program is reused only under the flags it was
//! compiled with.

use std::sync::atomic::{AtomicU64, Ordering};

/// One flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// GEMM of f32 may use TF32 (10 bits of mantissa), which is several times faster. Off by default.
    MatmulTf32,
    /// Fuses every possible epilogue, even where a loop after the GEMM was measured to be faster; for tests.
    AlwaysEpilogue,
    /// cuDNN may compute convolutions of f32 with TF32.
    DnnTf32,
    /// cuDNN's candidates are timed and the fastest is taken; else its first guess is.
    Benchmark,
    /// The same program on the same inputs computes the same bits in every run: nothing is chosen by timing, and
    /// what adds up in a changing order is not used.
    Deterministic,
    /// cuDNN is used at all.
    Dnn,
}

const fn bit(s: Flag) -> u64 {
    1 << s as u64
}

static FLAGS: AtomicU64 = AtomicU64::new(bit(Flag::DnnTf32) | bit(Flag::Benchmark) | bit(Flag::Dnn));

/// Sets or clears a flag.
pub fn set(s: Flag, is_on: bool) {
    if is_on {
        FLAGS.fetch_or(bit(s), Ordering::Relaxed);
    } else {
        FLAGS.fetch_and(!bit(s), Ordering::Relaxed);
    }
}

/// Whether a flag is set.
pub fn is_on(s: Flag) -> bool {
    all() & bit(s) != 0
}

/// All flags as one number.
pub fn all() -> u64 {
    FLAGS.load(Ordering::Relaxed)
}

/// GEMM of f32 may use TF32.
pub fn allow_tf32(yes: bool) {
    set(Flag::MatmulTf32, yes);
}

/// Fuses every possible epilogue into its GEMM.
pub fn always_epilogue(yes: bool) {
    set(Flag::AlwaysEpilogue, yes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_changes_its_own_bit_only() {
        let before = all();
        for s in [Flag::MatmulTf32, Flag::Benchmark, Flag::Deterministic, Flag::Dnn, Flag::DnnTf32] {
            let was = is_on(s);
            set(s, !was);
            assert_eq!((is_on(s), all() ^ before), (!was, bit(s)), "{s:?}");
            set(s, was);
        }
        assert_eq!(all(), before);
    }
}
