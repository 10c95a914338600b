//! Switches that decide how programs are compiled for a GPU. Programs that begin to run after a change follow it; a
//! plan is used again only under the switches it was made with.

use std::sync::atomic::{AtomicU64, Ordering};

/// One switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Products of f32 matrices may be computed with 10 bits of precision (TF32), which is several times faster. Off
    /// unless asked for.
    MatmulTf32,
    /// Everything that can be computed along with a product is, even where a loop behind it was measured to be
    /// faster: so that all of it can be tested.
    AlwaysAlong,
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

const fn bit(s: Switch) -> u64 {
    1 << s as u64
}

static SWITCHES: AtomicU64 = AtomicU64::new(bit(Switch::DnnTf32) | bit(Switch::Benchmark) | bit(Switch::Dnn));

/// Turns a switch on or off.
pub fn set(s: Switch, is_on: bool) {
    if is_on {
        SWITCHES.fetch_or(bit(s), Ordering::Relaxed);
    } else {
        SWITCHES.fetch_and(!bit(s), Ordering::Relaxed);
    }
}

/// Whether a switch is on.
pub fn is_on(s: Switch) -> bool {
    all() & bit(s) != 0
}

/// All switches as one number.
pub fn all() -> u64 {
    SWITCHES.load(Ordering::Relaxed)
}

/// Products of f32 matrices may use TF32.
pub fn allow_tf32(yes: bool) {
    set(Switch::MatmulTf32, yes);
}

/// Everything that can be computed along with a product is.
pub fn always_along(yes: bool) {
    set(Switch::AlwaysAlong, yes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_changes_the_policy_and_nothing_else() {
        let before = all();
        for s in [Switch::MatmulTf32, Switch::Benchmark, Switch::Deterministic, Switch::Dnn, Switch::DnnTf32] {
            let was = is_on(s);
            set(s, !was);
            assert_eq!((is_on(s), all() ^ before), (!was, bit(s)), "{s:?}");
            set(s, was);
        }
        assert_eq!(all(), before);
    }
}
