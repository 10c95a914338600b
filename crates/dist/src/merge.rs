//! Sums with a fixed order, so that all processes that add the same values get the same bits.
//!
//! The order is a tree over the contributors: neighbors first, then pairs of neighbors, and so
//! on. Collectives that exchange at distance 1, 2, 4… add in this order by themselves.

use crate::pool;
use crate::store::message::Update;
use std::borrow::Cow;
use std::sync::Arc;

/// `a[i] += b[i]`.
pub fn add(a: &mut [f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "lengths");
    for (x, y) in a.iter_mut().zip(b) {
        *x += y;
    }
}

/// Values that count `weight` each; those that count nothing are 0, whatever they are.
pub fn weighted(values: &[f32], weight: f32) -> Cow<'_, [f32]> {
    if weight == 1.0 {
        Cow::Borrowed(values)
    } else if weight == 0.0 {
        Cow::Owned(vec![0.0; values.len()])
    } else {
        Cow::Owned(values.iter().map(|x| x * weight).collect())
    }
}

/// Adds all parts up in tree order; the first becomes the sum.
fn tree<T>(parts: &mut [T], mut add: impl FnMut(&mut T, &mut T)) {
    let mut stride = 1;
    while stride < parts.len() {
        for i in (0..parts.len() - stride).step_by(2 * stride) {
            let (left, right) = parts.split_at_mut(i + stride);
            add(&mut left[i], &mut right[0]);
        }
        stride *= 2;
    }
}

/// The sum of all parts in tree order; they must have one length.
pub fn tree_sum(mut parts: impl AsMut<[Arc<Vec<f32>>]>) -> Arc<Vec<f32>> {
    let parts = parts.as_mut();
    tree(parts, |a, b| {
        add(pool::make_mut(a), b);
        pool::give(std::mem::replace(b, pool::take(0)));
    });
    std::mem::replace(&mut parts[0], pool::take(0))
}

/// The updates of one step, in the order of the workers, as fewer: blocks that are updated whole
/// are summed and come first, rows stay as they are. Each has its place in the list with it.
pub(crate) fn merge(all: &mut Vec<(usize, Update)>) {
    let key = |u: &Update| if u.rows.is_empty() { (false, u.table, u.block) } else { (true, 0, 0) };
    all.sort_unstable_by_key(|(at, u)| (key(u), *at));
    for alike in all.chunk_by_mut(|(_, a), (_, b)| a.rows.is_empty() && key(a) == key(b)) {
        let count = alike.iter().map(|(_, u)| u.count).fold(0, u32::wrapping_add);
        tree(alike, |(_, a), (at, b)| {
            add(pool::make_mut(&mut a.data), &b.data);
            pool::give(std::mem::replace(&mut b.data, pool::take(0)));
            *at = GONE;
        });
        alike[0].1.count = count;
    }
    all.retain(|(at, _)| *at != GONE);
}

/// The place of an update that is contained in another.
const GONE: usize = usize::MAX;

/// Fails unless the rows lie within a block of `len` elements and `data`, if any, fits them.
pub fn check_rows(len: usize, width: usize, rows: &[u32], data: Option<usize>) -> Result<(), String> {
    let height = len / width;
    if let Some(r) = rows.iter().find(|r| **r as usize >= height) {
        return Err(format!("row {r} is outside of a block of {height} rows"));
    }
    let expected = if rows.is_empty() { len } else { rows.len() * width };
    match data {
        Some(n) if n != expected => Err(format!("{expected} elements were expected, not {n}")),
        _ => Ok(()),
    }
}

/// Adds rows, or a whole block if none are named, to a block.
pub fn add_rows(value: &mut [f32], width: usize, rows: &[u32], data: &[f32]) {
    if rows.is_empty() {
        return add(value, data);
    }
    for (r, d) in rows.iter().zip(data.chunks_exact(width)) {
        let at = *r as usize * width;
        add(&mut value[at..at + width], d);
    }
}

/// Copies rows of a block to `out`, one after the other.
pub fn take_rows(value: &[f32], width: usize, rows: &[u32], out: &mut [f32]) {
    for (r, to) in rows.iter().zip(out.chunks_exact_mut(width)) {
        let at = *r as usize * width;
        to.copy_from_slice(&value[at..at + width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_sum_is_a_tree() {
        // In f32, 1e8 swallows a 1: only ((a+b)+(c+d))+e gives this.
        let parts = [1e8f32, 1.0, -1e8, 1.0, 3.0].map(|x| Arc::new(vec![x]));
        let expected = ((1e8f32 + 1.0) + (-1e8 + 1.0)) + 3.0;
        assert_eq!(tree_sum(parts)[0], expected);
    }

    #[test]
    fn whole_blocks_are_summed_and_rows_stay() {
        let update = |block, rows: &[u32], x: f32| {
            let (rows, data) = (rows.to_vec().into(), Arc::new(vec![x]));
            Update { table: 0, block, rows, data, rate: 0.5, numbers: None, count: 1, filter: None }
        };
        let list =
            [update(1, &[], 1.0), update(0, &[2], 2.0), update(0, &[], 3.0), update(1, &[], 4.0), update(0, &[1], 5.0)];
        let mut all: Vec<_> = list.into_iter().enumerate().collect();
        merge(&mut all);
        let seen: Vec<_> = all.iter().map(|(_, u)| (u.block, u.rows.to_vec(), u.data[0], u.count)).collect();
        assert_eq!(seen, [(0, vec![], 3.0, 1), (1, vec![], 5.0, 2), (0, vec![2], 2.0, 1), (0, vec![1], 5.0, 1)]);
    }

    #[test]
    fn rows_are_checked_and_added() {
        assert!(check_rows(6, 2, &[2], Some(2)).is_ok());
        assert!(check_rows(6, 2, &[3], Some(2)).is_err());
        assert!(check_rows(6, 2, &[], Some(5)).is_err());
        let mut v = vec![0.0; 6];
        add_rows(&mut v, 2, &[2, 0], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(v, [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
        let mut out = [0.0; 4];
        take_rows(&v, 2, &[2, 0], &mut out);
        assert_eq!(out, [1.0, 2.0, 3.0, 4.0]);
    }
}
