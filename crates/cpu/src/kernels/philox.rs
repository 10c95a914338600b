//! Random bits by Philox4x32-10, sixteen counters side by side.
//!
//! Written as loops over arrays that the compiler turns into vector code inside `dispatch!`; the
//! bits are those of the row's reference.

#![allow(unsafe_code)]

use crate::vmath::dispatch;

/// Counters at a time.
const LANES: usize = 16;

/// Fills `out` with the bits of the elements from place `first` (a multiple of 4) on.
pub fn fill(seed: u64, counter: u64, first: u64, out: &mut [u32]) {
    assert_eq!(first % 4, 0, "a block of bits starts at a multiple of 4");
    // SAFETY: plain Rust inside; only the instruction set differs.
    unsafe { run(seed, counter, first / 4, out) }
}

dispatch! {
    /// # Safety
    /// None beyond the machine having the instructions, which `dispatch!` sees to.
    unsafe fn run(seed: u64, counter: u64, block: u64, out: &mut [u32]) { _I => body(seed, counter, block, out) }
}

/// # Safety
/// None; it is unsafe because `dispatch!` calls it so.
#[inline(always)]
unsafe fn body(seed: u64, counter: u64, block: u64, out: &mut [u32]) {
    let mut at = block;
    for stretch in out.chunks_mut(4 * LANES) {
        let words = rounds(seed, counter, at);
        if let Ok(whole) = <&mut [u32; 4 * LANES]>::try_from(&mut *stretch) {
            whole.copy_from_slice(&words);
        } else {
            stretch.copy_from_slice(&words[..stretch.len()]);
        }
        at += LANES as u64;
    }
}

/// The words of `LANES` counters from `at` on, four a counter. Words are kept in 64 bits, whose
/// upper halves are 0: a product of two words needs no shuffling then.
#[inline(always)]
fn rounds(seed: u64, counter: u64, at: u64) -> [u32; 4 * LANES] {
    const LOW: u64 = 0xFFFF_FFFF;
    let (mut k0, mut k1) = (seed as u32, (seed >> 32) as u32);
    let mut c = [[0; LANES], [0; LANES], [counter & LOW; LANES], [counter >> 32; LANES]];
    for l in 0..LANES {
        let place = at + l as u64;
        (c[0][l], c[1][l]) = (place & LOW, place >> 32);
    }
    for _ in 0..10 {
        for l in 0..LANES {
            let a = 0xD251_1F53 * (c[0][l] & LOW);
            let b = 0xCD9E_8D57 * (c[2][l] & LOW);
            c[0][l] = (b >> 32) ^ c[1][l] ^ u64::from(k0);
            c[1][l] = b & LOW;
            c[2][l] = (a >> 32) ^ c[3][l] ^ u64::from(k1);
            c[3][l] = a & LOW;
        }
        (k0, k1) = (k0.wrapping_add(0x9E37_79B9), k1.wrapping_add(0xBB67_AE85));
    }
    let mut words = [0; 4 * LANES];
    for l in 0..LANES {
        for w in 0..4 {
            words[4 * l + w] = c[w][l] as u32;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_at_every_length() {
        // Random123, kat_vectors: the counter's low words are the place, so only zeros fit.
        let zeros = [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
        let mut whole = vec![0; 300];
        fill(0, 0, 0, &mut whole);
        assert_eq!(whole[..4], zeros);
        for n in 0..150 {
            let mut part = vec![0; n];
            fill(0, 0, 8, &mut part);
            assert_eq!(part, whole[8..8 + n], "{n} elements from place 8");
        }
    }
}
