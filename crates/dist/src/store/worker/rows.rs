//! A worker's reads and updates of some rows of a table, as embeddings need them.

use crate::filter::ResidualKey;
use crate::store::client::{Client, Table};
use crate::store::message::{Rows, Update};
use crate::store::worker::{Places, QUESTIONS_MAX, Store};
use crate::{Error, Filter, Result, pool};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Positions in a list of rows, each with the block that holds its row, by block.
pub(crate) type Order = Vec<(u32, usize)>;
type Place = (u32, usize);

impl Store {
    /// Adds to this step's updates of some rows.
    pub fn push_rows(&mut self, table: &Table, rows: &[usize], values: &[f32], rate: f32) -> Result<()> {
        check(table, rows, values.len())?;
        let deadline = self.deadline();
        let order = self.ordered(table, rows);
        let mut blocks = order.chunk_by(is_same);
        let pushed = blocks.try_for_each(|some| self.push_some(table, rows, values, some, rate, deadline));
        self.order = order;
        pushed
    }
    /// Reads some rows of a table.
    pub fn pull_rows(&mut self, table: &Table, rows: &[usize]) -> Result<Vec<f32>> {
        let mut out = vec![0.0; rows.len() * table.width];
        self.pull_rows_into(table, rows, &mut out)?;
        Ok(out)
    }
    /// Reads some rows of a table to where they belong, one after the other. Rows of one block that
    /// follow each other in the list are written there without a copy between.
    pub fn pull_rows_into(&mut self, table: &Table, rows: &[usize], into: &mut [f32]) -> Result<()> {
        check(table, rows, into.len())?;
        let deadline = self.deadline();
        let order = self.ordered(table, rows);
        let mut places = Places { first: 0, spots: std::mem::take(&mut self.spots), into: &mut [into] };
        let read = self.read_rows(table, rows, &order, &mut places, deadline);
        (self.spots, self.order) = (places.spots, order);
        read
    }

    /// Positions in `rows` by block; return the memory.
    fn ordered(&mut self, table: &Table, rows: &[usize]) -> Order {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(rows.iter().enumerate().map(|(i, r)| ((r / table.block_rows) as u32, i)));
        order.sort_unstable();
        order
    }
    /// Pushes the rows of one block.
    fn push_some(
        &mut self,
        table: &Table,
        rows: &[usize],
        values: &[f32],
        some: &[Place],
        rate: f32,
        deadline: Instant,
    ) -> Result<()> {
        let (width, block) = (table.width, some[0].0);
        let mut data = pool::take(some.len() * width);
        for (to, (_, i)) in pool::make_mut(&mut data).chunks_exact_mut(width).zip(some) {
            to.copy_from_slice(&values[i * width..][..width]);
        }
        let filter = self.filters.get(&table.id).copied();
        if let Some(f) = filter {
            let packed = self.pack_rows(f, table, rows, some, &data);
            pool::give(std::mem::replace(&mut data, packed?));
        }
        let rows = within(table, rows, some);
        let out =
            self.client.push(Update { table: table.id, block, rows, data, rate, numbers: None, count: 1, filter });
        self.send(out, deadline)
    }
    /// Packs the elements of some rows, with what earlier packing of these rows has left out.
    fn pack_rows(
        &mut self,
        filter: Filter,
        table: &Table,
        rows: &[usize],
        some: &[Place],
        data: &[f32],
    ) -> Result<Arc<Vec<f32>>> {
        let width = table.width;
        let mut residual = pool::take(data.len());
        let owes = |(_, i): &Place| ResidualKey::Row(table.id, rows[*i] as u64);
        for (place, r) in some.iter().zip(pool::make_mut(&mut residual).chunks_exact_mut(width)) {
            let owed = self.residuals.0.entry(owes(place)).or_default();
            owed.resize(width, 0.0);
            r.copy_from_slice(owed);
            // A row that is named twice owes once.
            owed.fill(0.0);
        }
        let words = filter.packed(data, pool::make_mut(&mut residual));
        for (place, r) in some.iter().zip(residual.chunks_exact(width)) {
            let owed = self.residuals.0.entry(owes(place)).or_default();
            owed.iter_mut().zip(r).for_each(|(o, r)| *o += r);
        }
        pool::give(residual);
        words
    }
    fn read_rows(
        &mut self,
        table: &Table,
        rows: &[usize],
        order: &[Place],
        places: &mut Places<'_, '_>,
        deadline: Instant,
    ) -> Result<()> {
        let (mut rest, width) = (order, table.width);
        while !rest.is_empty() {
            places.spots.clear();
            let mut asked = 0;
            for some in rest.chunk_by(is_same).take(QUESTIONS_MAX) {
                let (request, out) = self.client.pull(table.id, some[0].0, within(table, rows, some));
                if places.spots.is_empty() {
                    places.first = request;
                }
                places.spots.push(run(some).map(|r| (0, r.start * width..r.end * width)));
                asked += some.len();
                self.send(out, deadline)?;
            }
            self.pump_from(|c| !c.is_waiting(), Client::debtors, places, deadline, "reading from the store")?;
            let (now, later) = rest.split_at(asked);
            for (i, some) in now.chunk_by(is_same).enumerate() {
                self.scatter(places, i, some, width)?;
            }
            rest = later;
        }
        Ok(())
    }
    /// Puts the answer to the question with this number in the list where it belongs, unless it was
    /// read to there.
    fn scatter(&mut self, places: &mut Places<'_, '_>, question: usize, some: &[Place], width: usize) -> Result<()> {
        let data = match self.client.take(places.first + question as u64) {
            None if places.spots[question].is_none() => return Ok(()),
            data => data.unwrap_or_default(),
        };
        if data.len() != some.len() * width {
            let e = format!("{} rows were answered with {} elements", some.len(), data.len());
            return Err(Error::refused(e));
        }
        for ((_, i), row) in some.iter().zip(data.chunks_exact(width)) {
            places.into[0][i * width..][..width].copy_from_slice(row);
        }
        pool::give(data);
        Ok(())
    }
}

fn check(table: &Table, rows: &[usize], elements: usize) -> Result<()> {
    if let Some(r) = rows.iter().find(|r| **r >= table.rows) {
        return Err(Error::value(format!("table {} has {} rows, there is no row {r}", table.id, table.rows)));
    }
    if elements != rows.len() * table.width {
        let e = format!("{} rows of {} elements, but {elements} came", rows.len(), table.width);
        return Err(Error::value(e));
    }
    Ok(())
}
fn is_same(a: &Place, b: &Place) -> bool {
    a.0 == b.0
}
/// The rows at these positions, relative to their block.
fn within(table: &Table, rows: &[usize], some: &[Place]) -> Rows {
    Rows::of(some.iter().map(|(_, i)| (rows[*i] % table.block_rows) as u32))
}
/// These positions, if they are contiguous.
fn run(some: &[Place]) -> Option<Range<usize>> {
    let (first, last) = (some.first()?.1, some.last()?.1);
    (last - first + 1 == some.len()).then_some(first..last + 1)
}
