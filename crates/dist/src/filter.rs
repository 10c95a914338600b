//! Filters: updates in fewer bytes on the wire, with what was left out added to the next one.
//!
//! A filter packs elements into words; the receiver unpacks them before anything else
//! happens. What packing loses stays with the sender as a residual, so that over many steps nothing
//! is lost, only late. The residual is state like any other: keep it with a checkpoint.

use crate::pool::{self, PooledVec};
use crate::{Error, Result};
use half::bf16;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How elements are packed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// Two bytes an element: the upper half of a float.
    Bf16,
    /// A byte an element, with a scale for each 256.
    Int8,
    /// A bit an element, with two values for each 1024.
    OneBit,
    /// The given share of the elements, those of the greatest magnitude.
    Top(f32),
}

/// What a residual belongs to: a block of a table that is pushed as a whole (or a bucket that is
/// reduced as a whole), or a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResidualKey {
    Block(u32, u64),
    Row(u32, u64),
}

/// What packing has left out so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Residuals(pub BTreeMap<ResidualKey, Vec<f32>>);

impl Residuals {
    /// As bytes, for a checkpoint.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (owed, r) in &self.0 {
            let (kind, table, number) = match *owed {
                ResidualKey::Block(table, block) => (0, table, block),
                ResidualKey::Row(table, row) => (1, table, row),
            };
            let head = [kind, table, number as u32, (number >> 32) as u32, r.len() as u32];
            head.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
            out.extend_from_slice(bytemuck::cast_slice(r));
        }
        out
    }
    /// From bytes.
    pub fn decode(mut bytes: &[u8]) -> Result<Residuals> {
        let bad = || Error::value("what filters had left out is cut short or damaged");
        let mut found = BTreeMap::new();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at_checked(20).ok_or_else(bad)?;
            let n = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
            let (table, number) = (n(4), u64::from(n(8)) | u64::from(n(12)) << 32);
            let owed = match n(0) {
                0 => ResidualKey::Block(table, number),
                1 => ResidualKey::Row(table, number),
                _ => return Err(bad()),
            };
            let (values, rest) = rest.split_at_checked(4 * n(16) as usize).ok_or_else(bad)?;
            found.insert(owed, values.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect());
            bytes = rest;
        }
        Ok(Residuals(found))
    }
}

const SCALED: usize = 256;
const SIGNED: usize = 1024;

impl Filter {
    /// Its number on the wire; 0 stands for none.
    pub(crate) fn code(self) -> u16 {
        match self {
            Filter::Bf16 => 1,
            Filter::Int8 => 2,
            Filter::OneBit => 3,
            Filter::Top(_) => 4,
        }
    }
    /// Packs `values` and what the residual holds, which then holds what this has lost.
    pub fn pack(self, values: &[f32], residual: &mut [f32]) -> Result<Vec<f32>> {
        self.packed(values, residual).map(|words| words.to_vec())
    }
    /// As [`Filter::pack`], in memory to be given back.
    pub(crate) fn packed(self, values: &[f32], residual: &mut [f32]) -> Result<Arc<Vec<f32>>> {
        if values.len() != residual.len() {
            let e = format!("{} elements, but a residual of {}", values.len(), residual.len());
            return Err(Error::value(e));
        }
        if let Some(x) = values.iter().find(|x| !x.is_finite()) {
            return Err(Error::value(format!("{x} cannot be packed")));
        }
        residual.iter_mut().zip(values).for_each(|(r, v)| *r += v);
        let mut words = pool::take(self.len(values.len()));
        self.words(residual, pool::make_mut(&mut words));
        let sent = unpacked(self.code(), &words)?;
        residual.iter_mut().zip(&*sent).for_each(|(r, s)| *r -= s);
        pool::give(sent);
        Ok(words)
    }
    /// Of this many elements, those that go over the wire where not all do.
    fn kept(self, n: usize) -> usize {
        let Filter::Top(share) = self else { return n };
        ((share * n as f32).ceil() as usize).clamp(usize::from(n > 0), n)
    }
    /// Words of this many packed elements.
    pub(crate) fn len(self, n: usize) -> usize {
        1 + match self {
            Filter::Bf16 => n.div_ceil(2),
            Filter::Int8 => n.div_ceil(SCALED) + whole_and_rest(n, SCALED, 4),
            Filter::OneBit => 2 * n.div_ceil(SIGNED) + whole_and_rest(n, SIGNED, 32),
            Filter::Top(_) => 2 * self.kept(n),
        }
    }
    /// Packs without a residual into [`Filter::len`] words. NaN stays NaN: of whole
    /// blocks of bytes and bits.
    pub(crate) fn words(self, x: &[f32], out: &mut [f32]) {
        assert_eq!(out.len(), self.len(x.len()), "words");
        let (first, out) = out.split_at_mut(1);
        first[0] = f32::from_bits(x.len() as u32);
        match self {
            Filter::Bf16 => {
                let half = |v: Option<&f32>| u32::from(bf16::from_f32(v.copied().unwrap_or(0.0)).to_bits());
                let word = |c: &[f32]| f32::from_bits(half(c.first()) | half(c.get(1)) << 16);
                out.iter_mut().zip(x.chunks(2)).for_each(|(o, c)| *o = word(c));
            }
            Filter::Int8 => {
                for (out, block) in out.chunks_mut(1 + SCALED / 4).zip(x.chunks(SCALED)) {
                    let is_good = block.iter().all(|v| v.is_finite());
                    let most = if is_good { block.iter().fold(0f32, |m, v| m.max(v.abs())) } else { f32::NAN };
                    let scale = most / 127.0;
                    out[0] = scale;
                    let byte = |v: &f32| if scale > 0.0 { (v / scale).round() as i8 as u8 } else { 0 };
                    let word = |c: &[f32]| c.iter().enumerate().fold(0, |w, (i, v)| w | u32::from(byte(v)) << (8 * i));
                    out[1..].iter_mut().zip(block.chunks(4)).for_each(|(o, c)| *o = f32::from_bits(word(c)));
                }
            }
            Filter::OneBit => {
                for (out, block) in out.chunks_mut(2 + SIGNED / 32).zip(x.chunks(SIGNED)) {
                    let mean = |is_high: bool| {
                        let of = block.iter().filter(|v| (**v >= 0.0) == is_high);
                        let (sum, n) = of.fold((0.0, 0), |(s, n), v| (s + v, n + 1));
                        if n > 0 { sum / n as f32 } else { 0.0 }
                    };
                    (out[0], out[1]) = (mean(false), mean(true));
                    let word = |c: &[f32]| c.iter().enumerate().fold(0u32, |w, (i, v)| w | u32::from(*v >= 0.0) << i);
                    out[2..].iter_mut().zip(block.chunks(32)).for_each(|(o, c)| *o = f32::from_bits(word(c)));
                }
            }
            Filter::Top(_) => {
                let (places, values) = out.split_at_mut(self.kept(x.len()));
                let chosen = greatest(x, places.len());
                places.iter_mut().zip(&*chosen).for_each(|(o, i)| *o = f32::from_bits(*i));
                values.iter_mut().zip(&*chosen).for_each(|(o, i)| *o = x[*i as usize]);
            }
        }
    }
}

/// Where the `k` elements of the greatest magnitude stand, in order; then the others.
fn greatest(x: &[f32], k: usize) -> PooledVec<u32> {
    let mut all = PooledVec::of(0..x.len() as u32);
    let Some(order) = all.get_mut() else { return all };
    let by = |i: &u32, j: &u32| x[*j as usize].abs().total_cmp(&x[*i as usize].abs()).then(i.cmp(j));
    if k < order.len() {
        order.select_nth_unstable_by(k, by);
    }
    order[..k].sort_unstable();
    all
}

/// How many elements were packed; words that no filter has made are refused.
fn elements(code: u16, words: &[f32]) -> Result<usize> {
    let (first, rest) = words.split_first().ok_or_else(|| bad("is empty"))?;
    let n = first.to_bits() as usize;
    let expected = match code {
        1 => n.div_ceil(2),
        2 => n.div_ceil(SCALED) + whole_and_rest(n, SCALED, 4),
        3 => 2 * n.div_ceil(SIGNED) + whole_and_rest(n, SIGNED, 32),
        4 if rest.len().is_multiple_of(2) && rest.len() / 2 <= n => rest.len(),
        _ => return Err(bad("has no known form")),
    };
    // Of the top elements a million may stand for few words: memory is bounded by the frame's limit.
    if rest.len() != expected || n > net::PAYLOAD_MAX / 4 {
        return Err(bad(&format!("of {n} elements has {} words, not {expected}", rest.len())));
    }
    Ok(n)
}
fn bad(what: &str) -> Error {
    Error::refused(format!("a packed update {what}"))
}

/// The elements that were packed, in memory to be given back.
pub(crate) fn unpacked(code: u16, words: &[f32]) -> Result<Arc<Vec<f32>>> {
    let mut out = pool::take(elements(code, words)?);
    unpack(code, words, pool::make_mut(&mut out))?;
    Ok(out)
}

/// The elements that were packed, which must be as many as there is room for; words that no filter
/// has made are refused.
pub(crate) fn unpack(code: u16, words: &[f32], out: &mut [f32]) -> Result<()> {
    let n = elements(code, words)?;
    if n != out.len() {
        return Err(Error::refused(format!("{n} elements were packed, not {}", out.len())));
    }
    let rest = &words[1..];
    match code {
        1 => {
            let both = |w: &f32| [w.to_bits() as u16, (w.to_bits() >> 16) as u16].map(|b| bf16::from_bits(b).to_f32());
            out.chunks_mut(2).zip(rest).for_each(|(o, w)| o.copy_from_slice(&both(w)[..o.len()]));
        }
        2 => {
            for (out, block) in out.chunks_mut(SCALED).zip(rest.chunks(1 + SCALED / 4)) {
                let bytes = |w: &f32| w.to_bits().to_le_bytes().map(|b| f32::from(b as i8) * block[0]);
                out.chunks_mut(4).zip(&block[1..]).for_each(|(o, w)| o.copy_from_slice(&bytes(w)[..o.len()]));
            }
        }
        3 => {
            for (out, block) in out.chunks_mut(SIGNED).zip(rest.chunks(2 + SIGNED / 32)) {
                let bit = |i: usize| block[usize::from(block[2 + i / 32].to_bits() >> (i % 32) & 1 == 1)];
                out.iter_mut().enumerate().for_each(|(i, o)| *o = bit(i));
            }
        }
        _ => {
            out.fill(0.0);
            let (places, values) = rest.split_at(rest.len() / 2);
            for (i, v) in places.iter().zip(values) {
                *out.get_mut(i.to_bits() as usize).ok_or_else(|| bad("names an element that is not there"))? = *v;
            }
        }
    }
    Ok(())
}
/// Words of `n` elements in blocks of `block`, each filled up to whole words of `each`.
fn whole_and_rest(n: usize, block: usize, each: usize) -> usize {
    n / block * (block / each) + (n % block).div_ceil(each)
}

impl FromStr for Filter {
    type Err = Error;
    fn from_str(s: &str) -> Result<Filter> {
        let bad = || Error::value(format!("a filter is bf16, int8, 1bit or top:SHARE, not {s:?}"));
        match s {
            "bf16" => Ok(Filter::Bf16),
            "int8" => Ok(Filter::Int8),
            "1bit" => Ok(Filter::OneBit),
            _ => {
                let share: f32 = s.strip_prefix("top:").and_then(|n| n.parse().ok()).ok_or_else(bad)?;
                if share > 0.0 && share <= 1.0 { Ok(Filter::Top(share)) } else { Err(bad()) }
            }
        }
    }
}
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Bf16 => f.write_str("bf16"),
            Filter::Int8 => f.write_str("int8"),
            Filter::OneBit => f.write_str("1bit"),
            Filter::Top(share) => write!(f, "top:{share}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(Filter, f64); 4] =
        [(Filter::Bf16, 1.9), (Filter::Int8, 3.9), (Filter::OneBit, 30.0), (Filter::Top(0.01), 45.0)];

    fn values(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) as f32 * 0.37).sin() * (1.0 + (i % 5) as f32)).collect()
    }

    #[test]
    fn nothing_is_lost_over_many_steps_and_bytes_are_saved() {
        let n = 20_480;
        for (filter, ratio) in ALL {
            let mut residual = vec![0.0; n];
            let (mut given, mut sent) = (vec![0.0f64; n], vec![0.0f64; n]);
            for step in 0..50 {
                let x = values(n, step);
                let words = filter.pack(&x, &mut residual).unwrap();
                assert!(n as f64 / words.len() as f64 > ratio, "{filter}: {} words", words.len());
                given.iter_mut().zip(&x).for_each(|(a, v)| *a += f64::from(*v));
                let got = unpacked(filter.code(), &words).unwrap();
                sent.iter_mut().zip(&*got).for_each(|(a, v)| *a += f64::from(*v));
            }
            let owed = given.iter().zip(&sent).zip(&residual).map(|((g, s), r)| (g - s - f64::from(*r)).abs());
            assert!(owed.fold(0.0, f64::max) < 0.02, "{filter}");
        }
    }

    #[test]
    fn odd_lengths_read_back_and_damaged_words_are_refused() {
        for (filter, _) in ALL {
            for n in [0, 1, 2, 31, 33, 257, 1025, 2049] {
                let words = filter.pack(&values(n, 1), &mut vec![0.0; n]).unwrap();
                assert_eq!(unpacked(filter.code(), &words).unwrap().len(), n, "{filter}");
                for cut in 0..words.len() {
                    let _ = unpacked(filter.code(), &words[..cut]);
                }
                let mut longer = words.clone();
                longer.push(0.0);
                assert!(unpacked(filter.code(), &longer).is_err(), "{filter}");
            }
            assert!(unpacked(filter.code(), &[f32::from_bits(u32::MAX)]).is_err());
            assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
        }
        assert!(unpacked(4, &[f32::from_bits(2), f32::from_bits(9), 1.0]).is_err(), "there is no element 9 of 2");
        assert!(unpacked(9, &[0.0]).is_err());
        assert!(Filter::Int8.pack(&[f32::NAN], &mut [0.0]).is_err());
        for bad in ["", "top", "top:0", "top:2", "fp8"] {
            assert!(bad.parse::<Filter>().is_err(), "{bad}");
        }
    }
}
