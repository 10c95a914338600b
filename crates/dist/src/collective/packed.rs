//! Collectives in fewer bytes: elements are packed on the wire and added as they are.
//!
//! Each rank gets its part of everybody's elements packed, adds them up in tree order, and gives the
//! sum away packed again. Everybody, whoever has added included, ends with what was given away, and
//! so with the same bits. However many ranks there are, each sends about twice its packed elements.

use super::{Carrier, Deal, Group};
use crate::filter::{Filter, unpack};
use crate::{Error, Result, merge};
use std::sync::Arc;
use std::time::Instant;

/// What carries packed words.
pub(super) trait Words {
    /// How many ranks there are, and which of them this is.
    fn ranks(&self) -> (usize, usize);
    /// Part `j` goes to rank `j`.
    fn to_each(&mut self, send: &[f32], receive: &mut [f32]) -> Result<()>;
    /// Rank `i` brings part `i`.
    fn gather(&mut self, all: &mut [f32]) -> Result<()>;
}

impl Words for (&mut Group, Instant) {
    fn ranks(&self) -> (usize, usize) {
        (self.0.ranks(), self.0.rank())
    }
    fn to_each(&mut self, send: &[f32], receive: &mut [f32]) -> Result<()> {
        self.0.all_to_all(bytemuck::cast_slice(send), bytemuck::cast_slice_mut(receive), self.1)
    }
    fn gather(&mut self, all: &mut [f32]) -> Result<()> {
        self.0.all_gather(bytemuck::cast_slice_mut(all), 4, self.1)
    }
}
impl<'c> Words for (&mut (dyn Carrier + 'c), &Deal<'_>) {
    fn ranks(&self) -> (usize, usize) {
        (self.1.team.size(), self.1.team.me())
    }
    fn to_each(&mut self, send: &[f32], receive: &mut [f32]) -> Result<()> {
        self.0.all_to_all(self.1, bytemuck::cast_slice(send), bytemuck::cast_slice_mut(receive))
    }
    fn gather(&mut self, all: &mut [f32]) -> Result<()> {
        self.0.all_gather(self.1, bytemuck::cast_slice_mut(all))
    }
}

/// The sum of everybody's elements of this rank's part, of as many equal parts as there are ranks;
/// `lost` takes what packing has left out, if somebody wants it.
fn scattered(by: &mut impl Words, data: &[f32], filter: Filter, lost: Option<&mut [f32]>) -> Result<Arc<Vec<f32>>> {
    let (ranks, _) = by.ranks();
    let each = data.len() / ranks;
    let mut send: Vec<f32> = Vec::new();
    data.chunks_exact(each.max(1)).for_each(|part| send.extend(filter.words(part)));
    let words = send.len() / ranks;
    if let Some(lost) = lost {
        let sent = send.chunks_exact(words.max(1)).map(|w| unpack(filter.code(), w)).collect::<Result<Vec<_>>>()?;
        let sent = sent.iter().flatten();
        lost.iter_mut().zip(data.iter().zip(sent)).for_each(|(l, (x, s))| *l = owed(x - s));
    }
    let mut came = vec![0.0; send.len()];
    by.to_each(&send, &mut came)?;
    let parts = came.chunks_exact(words.max(1)).map(|w| part(filter, w, each)).collect::<Result<Vec<_>>>()?;
    Ok(if parts.is_empty() { Arc::default() } else { merge::tree_sum(parts) })
}

/// Everybody's elements one after the other, each rank's as they were packed.
fn gathered(by: &mut impl Words, mine: &[f32], filter: Filter) -> Result<Vec<f32>> {
    let (ranks, me) = by.ranks();
    let packed = filter.words(mine);
    let mut all = vec![0.0; packed.len() * ranks];
    all[me * packed.len()..][..packed.len()].copy_from_slice(&packed);
    by.gather(&mut all)?;
    let mut out = Vec::with_capacity(mine.len() * ranks);
    for words in all.chunks_exact(packed.len()) {
        out.extend_from_slice(&part(filter, words, mine.len())?);
    }
    Ok(out)
}

/// What is owed; nothing of what is no number, which would never be paid off.
fn owed(x: f32) -> f32 {
    if x.is_finite() { x } else { 0.0 }
}

fn part(filter: Filter, words: &[f32], len: usize) -> Result<Arc<Vec<f32>>> {
    let part = unpack(filter.code(), words)?;
    if part.len() != len {
        return Err(Error::refused(format!("{} elements were packed by another rank, not {len}", part.len())));
    }
    Ok(Arc::new(part))
}

/// Everybody ends with the sum of everybody's elements. What packing has left out stays in
/// `residual`, if there is one, and is added to the next call's elements.
pub(super) fn all_reduce(
    by: &mut impl Words,
    data: &mut [f32],
    filter: Filter,
    residual: Option<&mut [f32]>,
) -> Result<()> {
    let (ranks, me) = by.ranks();
    let mut mine = data.to_vec();
    if let Some(r) = residual.as_deref() {
        if r.len() != data.len() {
            return Err(Error::value(format!("{} elements, but a residual of {}", data.len(), r.len())));
        }
        merge::add(&mut mine, r);
    }
    // As many equal parts as there are ranks.
    mine.resize(data.len().next_multiple_of(ranks), 0.0);
    let each = mine.len() / ranks;
    let mut lost = residual.as_ref().map(|_| vec![0.0; mine.len()]);
    let sum = scattered(by, &mine, filter, lost.as_deref_mut())?;
    let all = gathered(by, &sum, filter)?;
    if let (Some(r), Some(mut lost)) = (residual, lost) {
        // What packing the sum has lost is owed by who has packed it.
        let own = me * each..(me + 1) * each;
        lost[own.clone()].iter_mut().zip(sum.iter().zip(&all[own])).for_each(|(l, (s, a))| *l += owed(s - a));
        r.copy_from_slice(&lost[..data.len()]);
    }
    data.copy_from_slice(&all[..data.len()]);
    Ok(())
}

impl dyn Carrier + '_ {
    /// Everybody ends with the sum of everybody's elements, packed on the wire.
    pub fn all_reduce_packed(&mut self, deal: &Deal, data: &[f32], filter: Filter) -> Result<Vec<f32>> {
        let mut sum = data.to_vec();
        all_reduce(&mut (self, deal), &mut sum, filter, None)?;
        Ok(sum)
    }
    /// This rank's part of the sum of everybody's elements, which are as many equal parts as there
    /// are ranks, packed on the wire.
    pub fn reduce_scatter_packed(&mut self, deal: &Deal, data: &[f32], filter: Filter) -> Result<Vec<f32>> {
        Ok(scattered(&mut (self, deal), data, filter, None)?.to_vec())
    }
    /// Everybody's elements one after the other, packed on the wire; this rank's own as well.
    pub fn all_gather_packed(&mut self, deal: &Deal, mine: &[f32], filter: Filter) -> Result<Vec<f32>> {
        gathered(&mut (self, deal), mine, filter)
    }
}
