//! How many tokens of prompts a step may take beside decoding, so that the texts of others do not falter.

/// How much longer a step that reads prompts may take than one that decodes alone.
const FACTOR: f64 = 1.9;
/// The share of a new measurement.
const NEW: f64 = 0.2;
/// Tokens before anything was measured, and the fewest ever: a strip of a GEMM.
const FIRST: usize = 16;
const LEAST: usize = 8;

/// What steps took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Seconds of a step that decodes alone.
    decode: Option<f64>,
    /// Seconds of a token of a prompt in a step that decodes as well.
    token: Option<f64>,
}

fn mixed(old: Option<f64>, new: f64) -> Option<f64> {
    Some(old.map_or(new, |old| old + NEW * (new - old)))
}

impl Pace {
    /// Notes what a step took; one that compiled tells nothing.
    pub fn note(&mut self, seconds: f64, decodes: usize, prefill: usize) {
        if decodes > 0 && prefill == 0 {
            self.decode = mixed(self.decode, seconds);
        }
        if let Some(decode) = self.decode.filter(|_| decodes > 0 && prefill > 0) {
            self.token = mixed(self.token, (seconds - decode).max(0.05 * decode) / prefill as f64);
        }
    }
    /// Tokens of prompts that the next step may take if it decodes.
    pub fn prefill_max(&self) -> usize {
        let (Some(decode), Some(token)) = (self.decode, self.token) else { return FIRST };
        let tokens = (FACTOR - 1.0) * decode / token;
        // Steps of whole strips have few sizes, and so few programs.
        (tokens as usize / LEAST * LEAST).clamp(LEAST, 4096)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_take_as_long_as_decoding_does() {
        let mut p = Pace::default();
        assert_eq!(p.prefill_max(), FIRST);
        for _ in 0..100 {
            p.note(0.010, 4, 0);
            let n = p.prefill_max();
            p.note(0.010 + 0.0002 * n as f64, 4, n);
        }
        assert_eq!(p.prefill_max(), 40, "of the 45 tokens that 9 ms have room for");
        p.note(1.0, 0, 512);
        assert_eq!(p.prefill_max(), 40, "a step that decodes nothing says nothing");
    }
}
