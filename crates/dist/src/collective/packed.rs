//! Collectives in fewer bytes: elements are packed on the wire and added as they are.
//!
//! Each rank gets its part of all ranks' elements packed, adds them in tree order, and sends the
//! sum packed again. Every rank, the one that added included, ends with what was sent, and
//! so with the same bits. However many ranks there are, each sends about twice its packed elements.

use super::{Communicator, Mesh, Operation};
use crate::filter::{Filter, unpack};
use crate::{Error, Result, merge, pool};
use smallvec::SmallVec;
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

impl Words for (&mut Mesh, Instant) {
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
impl<'c> Words for (&mut (dyn Communicator + 'c), &Operation<'_>) {
    fn ranks(&self) -> (usize, usize) {
        (self.1.group.size(), self.1.group.me())
    }
    fn to_each(&mut self, send: &[f32], receive: &mut [f32]) -> Result<()> {
        self.0.all_to_all(self.1, bytemuck::cast_slice(send), bytemuck::cast_slice_mut(receive))
    }
    fn gather(&mut self, all: &mut [f32]) -> Result<()> {
        self.0.all_gather(self.1, bytemuck::cast_slice_mut(all))
    }
}

/// The sum of all ranks' elements of this rank's part, of as many equal parts as there are ranks;
/// `lost` takes what packing has left out, if the caller wants it.
fn scattered(by: &mut impl Words, data: &[f32], filter: Filter, lost: Option<&mut [f32]>) -> Result<Arc<Vec<f32>>> {
    let (ranks, _) = by.ranks();
    let each = data.len() / ranks;
    if each == 0 {
        return Ok(pool::take(0));
    }
    let words = filter.len(each);
    let (mut send, mut came) = (pool::take(words * ranks), pool::take(words * ranks));
    let packed = pool::make_mut(&mut send).chunks_exact_mut(words);
    packed.zip(data.chunks_exact(each)).for_each(|(w, part)| filter.words(part, w));
    let mut parts: SmallVec<[Arc<Vec<f32>>; 64]> = SmallVec::new();
    if let Some(lost) = lost {
        let mut sent = pool::take(each);
        for ((w, x), lost) in send.chunks_exact(words).zip(data.chunks_exact(each)).zip(lost.chunks_exact_mut(each)) {
            unpack(filter.code(), w, pool::make_mut(&mut sent))?;
            lost.iter_mut().zip(x.iter().zip(&*sent)).for_each(|(l, (x, s))| *l = finite(x - s));
        }
        pool::give(sent);
    }
    by.to_each(&send, pool::make_mut(&mut came))?;
    for w in came.chunks_exact(words) {
        let mut part = pool::take(each);
        unpack(filter.code(), w, pool::make_mut(&mut part))?;
        parts.push(part);
    }
    pool::give(send);
    pool::give(came);
    Ok(merge::tree_sum(&mut parts))
}

/// All ranks' elements one after the other, each rank's as they were packed; there is room for all
/// of them, or for the first.
fn gathered(by: &mut impl Words, mine: &[f32], filter: Filter, out: &mut [f32]) -> Result<()> {
    let (ranks, me) = by.ranks();
    let words = filter.len(mine.len());
    let mut all = pool::take(words * ranks);
    filter.words(mine, &mut pool::make_mut(&mut all)[me * words..][..words]);
    by.gather(pool::make_mut(&mut all))?;
    let mut part = pool::take(mine.len());
    for (w, out) in all.chunks_exact(words).zip(out.chunks_mut(mine.len().max(1))) {
        unpack(filter.code(), w, pool::make_mut(&mut part))?;
        out.copy_from_slice(&part[..out.len()]);
    }
    pool::give(part);
    pool::give(all);
    Ok(())
}

/// The residual; 0 for NaN, which would never be compensated.
fn finite(x: f32) -> f32 {
    if x.is_finite() { x } else { 0.0 }
}

/// Every rank ends with the sum of all ranks' elements. What packing has left out stays in
/// `residual`, if there is one, and is added to the next call's elements.
pub(super) fn all_reduce(
    by: &mut impl Words,
    data: &mut [f32],
    filter: Filter,
    residual: Option<&mut [f32]>,
) -> Result<()> {
    let (ranks, me) = by.ranks();
    // As many equal parts as there are ranks.
    let each = data.len().div_ceil(ranks);
    let mut mine = pool::take(each * ranks);
    let elements = pool::make_mut(&mut mine);
    elements[..data.len()].copy_from_slice(data);
    elements[data.len()..].fill(0.0);
    if let Some(r) = residual.as_deref() {
        if r.len() != data.len() {
            return Err(Error::value(format!("{} elements, but a residual of {}", data.len(), r.len())));
        }
        merge::add(&mut elements[..data.len()], r);
    }
    let mut lost = residual.as_ref().map(|_| pool::take(each * ranks));
    let sum = scattered(by, &mine, filter, lost.as_mut().map(|l| pool::make_mut(l).as_mut_slice()))?;
    pool::give(mine);
    gathered(by, &sum, filter, data)?;
    if let (Some(r), Some(lost)) = (residual, lost) {
        r.copy_from_slice(&lost[..data.len()]);
        pool::give(lost);
        // What packing the sum has lost belongs to the residual of the rank that packed it.
        let own = (me * each).min(data.len())..((me + 1) * each).min(data.len());
        let pairs = sum.iter().zip(&data[own.clone()]);
        r[own].iter_mut().zip(pairs).for_each(|(l, (s, a))| *l += finite(s - a));
    }
    pool::give(sum);
    Ok(())
}

impl dyn Communicator + '_ {
    /// Every rank ends with the sum of all ranks' elements, packed on the wire.
    pub fn all_reduce_packed(&mut self, operation: &Operation, data: &mut [f32], filter: Filter) -> Result<()> {
        all_reduce(&mut (self, operation), data, filter, None)
    }
    /// This rank's part of the sum of all ranks' elements, which are as many equal parts as there
    /// are ranks, packed on the wire.
    pub fn reduce_scatter_packed(
        &mut self,
        operation: &Operation,
        data: &[f32],
        filter: Filter,
        out: &mut [f32],
    ) -> Result<()> {
        let sum = scattered(&mut (self, operation), data, filter, None)?;
        out.copy_from_slice(&sum);
        pool::give(sum);
        Ok(())
    }
    /// All ranks' elements one after the other, packed on the wire; this rank's own as well.
    pub fn all_gather_packed(
        &mut self,
        operation: &Operation,
        mine: &[f32],
        filter: Filter,
        out: &mut [f32],
    ) -> Result<()> {
        gathered(&mut (self, operation), mine, filter, out)
    }
}
