//! From logits to a token. A draw is a function of the request's seed and the position alone, so a request gets the
//! same tokens alone and in any company.

use crate::constrain::Mask;
use ir::{Error, Result};
use std::borrow::Cow;
use std::cell::RefCell;

/// How tokens are drawn. The defaults change nothing and draw from the model's distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 is greedy.
    pub temperature: f32,
    /// Only so many of the most likely tokens; 0 for all.
    pub top_k: usize,
    /// Only the most likely tokens whose probabilities sum up to this.
    pub top_p: f32,
    /// Only tokens at least this times as likely as the most likely one.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens that are in the prompt or were generated.
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens that were generated.
    pub presence_penalty: f32,
    /// Subtracted for each time a token was generated.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Only these tokens; all if there are none.
    pub allowed_tokens: Vec<u32>,
    /// Sequences of tokens that are not generated.
    pub bad_words: Vec<Vec<u32>>,
    /// The most likely tokens to report with their log probabilities.
    pub logprobs: usize,
    /// The seed of the request.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            allowed_tokens: Vec::new(),
            bad_words: Vec::new(),
            logprobs: 0,
            seed: 0,
        }
    }
}

/// What may not be drawn at one position.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// The tokens that a constraint allows.
    pub allowed: Option<&'a Mask>,
    /// Tokens that may come only if nothing else may: ends before the least length.
    pub late: &'a [u32],
}

/// A token and how likely it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: u32,
    /// Its log probability under the model, before temperature and cuts.
    pub logprob: f32,
    /// The most likely tokens with theirs, if they were asked for.
    pub top: Vec<(u32, f32)>,
}

impl Sampling {
    /// Fails unless every number is in its range.
    pub fn check(&self, vocabulary: usize) -> Result<()> {
        let within = |name: &str, x: f32, is_ok: bool, range: &str| {
            if is_ok { Ok(()) } else { Err(Error::value(format!("{name} is {x}, but must be {range}"))) }
        };
        within("temperature", self.temperature, self.temperature >= 0.0 && self.temperature.is_finite(), "at least 0")?;
        within("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "above 0 and at most 1")?;
        within("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "between 0 and 1")?;
        let penalty = self.repetition_penalty;
        within("repetition_penalty", penalty, penalty > 0.0 && penalty.is_finite(), "above 0")?;
        for (name, x) in [("presence_penalty", self.presence_penalty), ("frequency_penalty", self.frequency_penalty)] {
            within(name, x, (-2.0..=2.0).contains(&x), "between -2 and 2")?;
        }
        let biased = self.logit_bias.iter().map(|(t, _)| ("logit_bias", t));
        let allowed = self.allowed_tokens.iter().map(|t| ("allowed_token_ids", t));
        let bad = self.bad_words.iter().flatten().map(|t| ("bad_words", t));
        match biased.chain(allowed).chain(bad).find(|(_, t)| **t as usize >= vocabulary) {
            Some((key, t)) => Err(Error::value(format!("{key} names token {t}, but there are {vocabulary}"))),
            None => Ok(()),
        }
    }

    /// The token after `generated`, which came after `prompt`. Logits that are NaN everywhere, or +∞, are an error.
    pub fn sample(&self, logits: &[f32], prompt: &[u32], generated: &[u32], limits: Limits) -> Result<Sampled> {
        let mut z = self.penalized(logits, prompt, generated);
        let is_free = self.allowed_tokens.is_empty() && self.bad_words.is_empty();
        if !is_free || limits.allowed.is_some() || !limits.late.is_empty() {
            self.limit(z.to_mut(), generated, limits);
        }
        let greatest = most(&z).ok_or_else(|| Error::value("the logits hold no number"))?;
        if z[greatest as usize] == f32::INFINITY {
            return Err(Error::value(format!("the logit of token {greatest} is infinite")));
        }
        let token = if self.temperature == 0.0 { greatest } else { self.drawn(&z, greatest, generated.len()) };
        let base = log_sum_exp(logits);
        let top = likeliest(logits, self.logprobs).into_iter().map(|t| (t, logits[t as usize] - base)).collect();
        Ok(Sampled { token, logprob: logits[token as usize] - base, top })
    }

    fn penalized<'a>(&self, logits: &'a [f32], prompt: &[u32], generated: &[u32]) -> Cow<'a, [f32]> {
        let is_plain = self.repetition_penalty == 1.0 && self.presence_penalty == 0.0 && self.frequency_penalty == 0.0;
        if is_plain && self.logit_bias.is_empty() {
            return Cow::Borrowed(logits);
        }
        let mut z = logits.to_vec();
        if self.repetition_penalty != 1.0 {
            let mut seen: Vec<u32> = prompt.iter().chain(generated).copied().collect();
            seen.sort_unstable();
            seen.dedup();
            for x in seen.into_iter().filter_map(|t| logits.get(t as usize).map(|_| t as usize)) {
                z[x] = if z[x] > 0.0 { z[x] / self.repetition_penalty } else { z[x] * self.repetition_penalty };
            }
        }
        if self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 {
            let mut seen = generated.to_vec();
            seen.sort_unstable();
            for run in seen.chunk_by(|a, b| a == b) {
                if let Some(x) = z.get_mut(run[0] as usize) {
                    *x -= self.presence_penalty + self.frequency_penalty * run.len() as f32;
                }
            }
        }
        for (token, bias) in &self.logit_bias {
            z[*token as usize] += bias;
        }
        Cow::Owned(z)
    }

    /// Takes out what may not be drawn.
    fn limit(&self, z: &mut [f32], generated: &[u32], limits: Limits) {
        if !self.allowed_tokens.is_empty() {
            let allowed: std::collections::HashSet<u32> = self.allowed_tokens.iter().copied().collect();
            let others = (0u32..).zip(z.iter_mut()).filter(|(t, _)| !allowed.contains(t));
            others.for_each(|(_, x)| *x = f32::NEG_INFINITY);
        }
        for word in &self.bad_words {
            let Some((last, before)) = word.split_last() else { continue };
            if generated.ends_with(before) {
                z[*last as usize] = f32::NEG_INFINITY;
            }
        }
        if let Some(mask) = limits.allowed {
            let others = (0u32..).zip(z.iter_mut()).filter(|(t, _)| !mask.allows(*t));
            others.for_each(|(_, x)| *x = f32::NEG_INFINITY);
        }
        let is_late = |t: u32| limits.late.contains(&t);
        if !limits.late.is_empty() && (0u32..).zip(z.iter()).any(|(t, x)| *x > f32::NEG_INFINITY && !is_late(t)) {
            limits.late.iter().for_each(|t| z[*t as usize] = f32::NEG_INFINITY);
        }
    }

    /// A draw from what the cuts leave, in the order of tokens if there are none, else by probability, then by number.
    fn drawn(&self, z: &[f32], greatest: u32, position: usize) -> u32 {
        WEIGHTS.with_borrow_mut(|w| {
            let max = z[greatest as usize];
            weights(z, max, 1.0 / self.temperature, self.min_p, w);
            let share = uniform(self.seed, position as u64);
            if self.top_k == 0 && self.top_p >= 1.0 {
                return in_order(w, share).unwrap_or(greatest);
            }
            let kept = self.cut(w);
            let mut left = share * kept.iter().map(|k| k.1 as f64).sum::<f64>();
            for (token, w) in &kept {
                left -= *w as f64;
                if left < 0.0 {
                    return *token;
                }
            }
            kept.last().map_or(greatest, |k| k.0)
        })
    }

    /// The tokens that `top_k` and `top_p` leave, the likeliest first.
    fn cut(&self, w: &[f32]) -> Vec<(u32, f32)> {
        // Weights are counted by their leading bits, so that only those that may stay are sorted.
        let bucket = |w: f32| (w.to_bits() >> 20) as usize;
        let mut buckets = vec![(0usize, 0.0f64); bucket(1.0) + 1];
        for x in w.iter().filter(|x| **x > 0.0) {
            let b = &mut buckets[bucket(x.min(1.0))];
            *b = (b.0 + 1, b.1 + *x as f64);
        }
        let total: f64 = buckets.iter().map(|b| b.1).sum();
        let (mut count, mut sum) = (0, 0.0);
        let is_enough = |b: &(usize, f64)| {
            (count, sum) = (count + b.0, sum + b.1);
            if self.top_k > 0 { count >= self.top_k } else { sum >= self.top_p as f64 * total }
        };
        let least = buckets.len() - 1 - buckets.iter().rev().position(is_enough).unwrap_or(buckets.len() - 1);
        let is_in = |(_, w): &(u32, f32)| *w > 0.0 && bucket(w.min(1.0)) >= least;
        let mut kept: Vec<(u32, f32)> = (0u32..).zip(w.iter().copied()).filter(is_in).collect();
        kept.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let total = if self.top_k > 0 {
            kept.truncate(self.top_k);
            kept.iter().map(|k| k.1 as f64).sum()
        } else {
            total
        };
        if self.top_p < 1.0 {
            let mut sum = 0.0;
            let enough = |k: &(u32, f32)| {
                sum += k.1 as f64;
                sum >= self.top_p as f64 * total
            };
            let n = kept.iter().position(enough).map_or(kept.len(), |i| i + 1);
            kept.truncate(n);
        }
        kept
    }
}

thread_local! {
    /// Weights of a draw: as many as there are tokens.
    static WEIGHTS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// The token at this share of the sum of all weights.
fn in_order(w: &[f32], share: f64) -> Option<u32> {
    const PART: usize = 1024;
    let sum = |part: &[f32]| {
        let mut lanes = [0.0f64; 8];
        part.chunks(8).for_each(|x| x.iter().zip(&mut lanes).for_each(|(x, to)| *to += *x as f64));
        lanes.iter().sum::<f64>()
    };
    let sums: Vec<f64> = w.chunks(PART).map(sum).collect();
    let mut left = share * sums.iter().sum::<f64>();
    let mut last = None;
    for (i, part) in w.chunks(PART).enumerate() {
        if left >= sums[i] && i + 1 < sums.len() {
            left -= sums[i];
            continue;
        }
        for (j, x) in part.iter().enumerate().filter(|(_, x)| **x > 0.0) {
            last = Some((i * PART + j) as u32);
            left -= *x as f64;
            if left < 0.0 {
                return last;
            }
        }
    }
    last
}

/// The greatest, the first of equals; `None` if all are NaN or −∞.
fn most(z: &[f32]) -> Option<u32> {
    let max = greatest(z);
    if max > f32::NEG_INFINITY { place(z, max).map(|t| t as u32) } else { None }
}

/// The `n` greatest, in order.
fn likeliest(z: &[f32], n: usize) -> Vec<u32> {
    let n = n.min(z.len());
    if n == 0 {
        return Vec::new();
    }
    let mut order: Vec<u32> = (0..z.len() as u32).collect();
    let by_logit = |a: &u32, b: &u32| z[*b as usize].total_cmp(&z[*a as usize]).then(a.cmp(b));
    order.select_nth_unstable_by(n - 1, by_logit);
    order.truncate(n);
    order.sort_unstable_by(by_logit);
    order
}

/// Functions over all logits, compiled for the vectors of this machine: a vocabulary is long. No result depends on
/// how wide they are.
macro_rules! vectorized {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $t:ty),*) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        fn $name($($arg: $t),*) $(-> $ret)? {
            #[inline(always)]
            fn plain($($arg: $t),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($arg: $t),*) $(-> $ret)? {
                plain($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $t),*) $(-> $ret)? {
                plain($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::is_x86_feature_detected as has;
                if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
                    // SAFETY: the machine has the instructions.
                    return unsafe { avx512($($arg),*) };
                }
                if has!("avx2") {
                    // SAFETY: as above.
                    return unsafe { avx2($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}

vectorized! {
    /// The greatest number; −∞ if there is none.
    fn greatest(z: &[f32]) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; 64];
        let (whole, rest) = z.as_chunks::<64>();
        for x in whole {
            (0..64).for_each(|i| lanes[i] = if x[i] > lanes[i] { x[i] } else { lanes[i] });
        }
        rest.iter().chain(&lanes).fold(f32::NEG_INFINITY, |m, x| if *x > m { *x } else { m })
    }
}

vectorized! {
    /// Where a number is first.
    fn place(z: &[f32], x: f32) -> Option<usize> {
        let is_in = |part: &[f32]| part.iter().fold(false, |any, y| any | (*y == x));
        let part = z.chunks(256).position(is_in)?;
        z[part * 256..].iter().position(|y| *y == x).map(|i| part * 256 + i)
    }
}

/// log Σ eᶻ.
fn log_sum_exp(z: &[f32]) -> f32 {
    let max = greatest(z);
    max + sum_exp(z, max).ln() as f32
}

vectorized! {
    /// Σ e^(z - max).
    fn sum_exp(z: &[f32], max: f32) -> f64 {
        let mut total = 0.0f64;
        for part in z.chunks(4096) {
            let mut lanes = [0.0f32; 16];
            let (whole, rest) = part.as_chunks::<16>();
            for x in whole {
                (0..16).for_each(|i| lanes[i] += exp(x[i] - max));
            }
            total += lanes.iter().map(|x| *x as f64).sum::<f64>();
            total += rest.iter().map(|x| exp(*x - max) as f64).sum::<f64>();
        }
        total
    }
}

vectorized! {
    /// e^((z - max) · inverse), or 0 if that is less than `least`, too small for a float, or NaN.
    fn weights(z: &[f32], max: f32, inverse: f32, least: f32, to: &mut Vec<f32>) {
        to.clear();
        to.extend(z.iter().map(|z| {
            let x = (*z - max) * inverse;
            let w = exp(x);
            if x > -87.0 && w >= least { w } else { 0.0 }
        }));
    }
}

/// eˣ for x ≤ 0, to about one unit of the last place: a polynomial around the nearest power of two. Compilers make
/// vectors of it, and the library's function is a call for each of 50,000 logits.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    let x = if x > -87.0 { x } else { -87.0 };
    // The nearest integer is then in the low bits.
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let power = rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    // ln 2 in two parts, of which the first times n is exact.
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let y = p * r * r + r + 1.0;
    y * f32::from_bits(power)
}

/// A number in [0, 1) that depends on the seed and the position alone.
fn uniform(seed: u64, position: u64) -> f64 {
    let mut x = seed ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..2 {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x = (x ^ (x >> 31)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    (x >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_exponentials_are_those_of_f64() {
        let z: Vec<f32> = (0..10_007).map(|i| ((i * 7919) % 1000) as f32 * 0.05 - 40.0).collect();
        let want = z.iter().map(|x| (*x as f64).exp()).sum::<f64>().ln();
        assert!((log_sum_exp(&z) as f64 - want).abs() < 1e-5);
        for i in 0..870 {
            let x = -(i as f32) / 10.0;
            assert!((exp(x) as f64 / (x as f64).exp() - 1.0).abs() < 3e-7, "exp({x})");
        }
    }

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, -1.0, 0.0];

    /// How often each token is drawn.
    fn shares(s: &Sampling, logits: &[f32], generated: &[u32]) -> Vec<f64> {
        let mut counts = vec![0.0; logits.len()];
        for seed in 0..20_000 {
            let s = Sampling { seed, ..s.clone() };
            counts[s.sample(logits, &[], generated, Limits::default()).unwrap().token as usize] += 1.0 / 20_000.0;
        }
        counts
    }
    fn softmax(z: &[f64]) -> Vec<f64> {
        let sum: f64 = z.iter().map(|x| x.exp()).sum();
        z.iter().map(|x| x.exp() / sum).collect()
    }
    fn near(got: &[f64], want: &[f64]) {
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 0.015), "{got:?} ≠ {want:?}");
    }

    #[test]
    fn draws_follow_the_distribution() {
        near(&shares(&Sampling::default(), &LOGITS, &[]), &softmax(&LOGITS.map(f64::from)));
        let hot = Sampling { temperature: 2.0, ..Sampling::default() };
        near(&shares(&hot, &LOGITS, &[]), &softmax(&LOGITS.map(|x| x as f64 / 2.0)));
    }

    #[test]
    fn cuts_leave_the_likeliest() {
        let two = softmax(&[3.0, 2.0]);
        let want = [0.0, two[0], two[1], 0.0, 0.0];
        near(&shares(&Sampling { top_k: 2, ..Sampling::default() }, &LOGITS, &[]), &want);
        // The likeliest two have 0.64 + 0.24 of the whole.
        near(&shares(&Sampling { top_p: 0.8, ..Sampling::default() }, &LOGITS, &[]), &want);
        near(&shares(&Sampling { min_p: 0.3, ..Sampling::default() }, &LOGITS, &[]), &want);
    }

    #[test]
    fn cuts_keep_what_sorting_everything_keeps() {
        for seed in 0..40u64 {
            let n = 1 + (uniform(seed, 1) * 3000.0) as usize;
            // Some weights are equal, and some are zero.
            let w: Vec<f32> = (0..n).map(|i| (uniform(seed, i as u64 + 2) * 50.0).floor() as f32 - 49.0).collect();
            let w: Vec<f32> = w.iter().map(|x| if *x < -40.0 { 0.0 } else { x.exp() }).collect();
            for (top_k, top_p) in [(0, 0.9), (0, 0.1), (0, 0.9999), (1, 1.0), (7, 1.0), (50, 0.5), (5000, 0.95)] {
                let mut want: Vec<(u32, f32)> = (0u32..).zip(w.iter().copied()).filter(|x| x.1 > 0.0).collect();
                want.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                want.truncate(if top_k > 0 { top_k } else { n });
                let total: f64 = want.iter().map(|x| x.1 as f64).sum();
                let before = |i: usize| want[..i].iter().map(|x| x.1 as f64).sum::<f64>();
                let count = (0..want.len()).filter(|i| before(*i) < top_p as f64 * total * (1.0 - 1e-12)).count();
                want.truncate(if top_p < 1.0 { count } else { n });
                let got = Sampling { top_k, top_p, ..Sampling::default() }.cut(&w);
                assert_eq!(got, want, "seed {seed}, {n} tokens, top_k {top_k}, top_p {top_p}");
            }
        }
    }

    #[test]
    fn a_long_vocabulary_is_drawn_by_its_shares() {
        // Weights 0, 1, 2 in turn, over several parts.
        let w: Vec<f32> = (0..3001).map(|i| (i % 3) as f32).collect();
        let mut counts = [0.0; 3];
        (0..20_000).for_each(|i| counts[in_order(&w, i as f64 / 20_000.0).unwrap() as usize % 3] += 1.0 / 20_000.0);
        near(&counts, &[0.0, 1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!((in_order(&w, 0.0), in_order(&w, 1.0), in_order(&[0.0; 5], 0.5)), (Some(1), Some(2999), None));
        let z: Vec<f32> = (0..1000).map(|i| ((i * 37) % 1000) as f32).collect();
        assert_eq!((most(&z), z[27]), (Some(27), 999.0));
    }

    #[test]
    fn penalties_and_biases_move_logits() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let token =
            |s: Sampling, generated: &[u32]| s.sample(&LOGITS, &[1], generated, Limits::default()).unwrap().token;
        assert_eq!(token(greedy.clone(), &[]), 1);
        assert_eq!(token(Sampling { repetition_penalty: 2.0, ..greedy.clone() }, &[]), 2, "token 1 is in the prompt");
        assert_eq!(token(Sampling { presence_penalty: 1.5, ..greedy.clone() }, &[1, 1]), 2);
        assert_eq!(token(Sampling { frequency_penalty: 0.4, ..greedy.clone() }, &[1, 1]), 1);
        assert_eq!(token(Sampling { frequency_penalty: 0.4, ..greedy.clone() }, &[1, 1, 1]), 2);
        assert_eq!(token(Sampling { logit_bias: vec![(4, 100.0)], ..greedy }, &[]), 4);
    }

    #[test]
    fn words_are_kept_out_and_ends_come_late() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let token = |s: &Sampling, generated: &[u32], late: &[u32]| {
            s.sample(&LOGITS, &[], generated, Limits { late, ..Limits::default() }).unwrap().token
        };
        let bad = Sampling { bad_words: vec![vec![1], vec![4, 2]], ..greedy.clone() };
        assert_eq!((token(&bad, &[], &[]), token(&bad, &[4], &[])), (2, 0), "2 is bad only after 4");
        let few = Sampling { allowed_tokens: vec![0, 3], ..greedy.clone() };
        assert_eq!((token(&few, &[], &[]), token(&few, &[], &[0]), token(&few, &[], &[0, 3])), (0, 3, 0));
        assert_eq!(token(&greedy, &[], &[1]), 2);
    }

    #[test]
    fn log_probabilities_are_the_models() {
        let s = Sampling { temperature: 0.0, logprobs: 2, ..Sampling::default() };
        let got = s.sample(&LOGITS, &[], &[], Limits::default()).unwrap();
        let want = softmax(&LOGITS.map(f64::from));
        assert_eq!((got.top[0].0, got.top[1].0), (1, 2));
        assert!((got.logprob as f64 - want[1].ln()).abs() < 1e-6 && (got.top[1].1 as f64 - want[2].ln()).abs() < 1e-6);
    }

    #[test]
    fn what_cannot_be_drawn_from_is_an_error() {
        let s = Sampling::default();
        let sample = |z: &[f32]| s.sample(z, &[], &[], Limits::default());
        assert!(sample(&[f32::NAN; 3]).is_err());
        assert!(sample(&[f32::INFINITY, 0.0]).is_err());
        assert_eq!(sample(&[f32::NEG_INFINITY, 0.0]).unwrap().token, 1);
        assert!(Sampling { top_p: 0.0, ..s.clone() }.check(5).unwrap_err().message.contains("top_p is 0"));
        assert!(Sampling { logit_bias: vec![(5, 1.0)], ..s }.check(5).unwrap_err().message.contains("token 5"));
    }
}
