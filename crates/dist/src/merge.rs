//! Sums with a fixed order, so that everybody who adds the same numbers gets the same bits.
//!
//! The order is a tree over the contributors: neighbors first, then pairs of neighbors, and so
//! on. Collectives that exchange at distance 1, 2, 4… add in this order by themselves.

use crate::message::Update;
use crate::spare;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `a[i] += b[i]`.
pub fn add(a: &mut [f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "lengths");
    for (x, y) in a.iter_mut().zip(b) {
        *x += y;
    }
}

/// The sum of all parts in tree order; they must have one length.
pub fn tree_sum(mut parts: Vec<Arc<Vec<f32>>>) -> Arc<Vec<f32>> {
    let mut stride = 1;
    while stride < parts.len() {
        for i in (0..parts.len() - stride).step_by(2 * stride) {
            let (left, right) = parts.split_at_mut(i + stride);
            add(spare::make_mut(&mut left[i]), &right[0]);
            spare::give(std::mem::take(&mut right[0]));
        }
        stride *= 2;
    }
    parts.swap_remove(0)
}

/// The updates of one step, one list for each worker in order, as one list: blocks that are
/// updated whole are summed, rows stay as they are, in the workers' order.
pub fn merge(lists: Vec<Vec<Update>>) -> Vec<Update> {
    let mut whole: BTreeMap<(u32, u32), Vec<Update>> = BTreeMap::new();
    let mut rows = Vec::new();
    for list in lists {
        for u in list {
            if u.rows.is_empty() { whole.entry((u.table, u.block)).or_default().push(u) } else { rows.push(u) }
        }
    }
    let mut out: Vec<Update> = Vec::with_capacity(whole.len() + rows.len());
    for ((table, block), list) in whole {
        let (rate, count) = (list[0].rate, list.iter().map(|u| u.count).sum());
        let data = tree_sum(list.into_iter().map(|u| u.data).collect());
        out.push(Update { table, block, rows: Vec::new(), data, rate, count, filter: None });
    }
    out.extend(rows);
    out
}

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

/// Rows of a block, one after the other.
pub fn take_rows(value: &[f32], width: usize, rows: &[u32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows.len() * width);
    for r in rows {
        let at = *r as usize * width;
        out.extend_from_slice(&value[at..at + width]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_sum_is_a_tree() {
        // In f32, 1e8 swallows a 1: only ((a+b)+(c+d))+e gives this.
        let parts = [1e8f32, 1.0, -1e8, 1.0, 3.0].map(|x| Arc::new(vec![x]));
        let expected = ((1e8f32 + 1.0) + (-1e8 + 1.0)) + 3.0;
        assert_eq!(tree_sum(parts.to_vec())[0], expected);
    }

    #[test]
    fn rows_are_checked_and_added() {
        assert!(check_rows(6, 2, &[2], Some(2)).is_ok());
        assert!(check_rows(6, 2, &[3], Some(2)).is_err());
        assert!(check_rows(6, 2, &[], Some(5)).is_err());
        let mut v = vec![0.0; 6];
        add_rows(&mut v, 2, &[2, 0], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(v, [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
        assert_eq!(take_rows(&v, 2, &[2, 0]), [1.0, 2.0, 3.0, 4.0]);
    }
}
