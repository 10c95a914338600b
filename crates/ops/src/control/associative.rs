//! `associative_scan`: running combinations in logarithmically many steps.

use crate::{Error, Result, Tensor};
use ir::Site;

/// Running combinations of the rows of `xs` along the first axis: row `i` of the result combines
/// rows `0..=i`. `f` combines many pairs at once: it gets rows that come earlier and the rows that
/// follow them, and must be associative. Unlike [`scan`](super::scan()) it takes only about 2 log₂ n calls,
/// which run in parallel.
///
/// ```
/// # use talweg_ops::{Tensor, control::associative_scan};
/// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0]);
/// let y = associative_scan(|a, b| Ok(vec![&a[0] * &b[0]]), &[x]).unwrap();
/// assert_eq!(y[0].to_vec::<f32>().unwrap(), [1.0, 2.0, 6.0, 24.0, 120.0]);
/// ```
#[track_caller]
pub fn associative_scan(f: impl Fn(&[Tensor], &[Tensor]) -> Result<Vec<Tensor>>, xs: &[Tensor]) -> Result<Vec<Tensor>> {
    let site = Site::here();
    let run = || {
        let mut rows = None;
        for x in xs {
            let shape = x.shape()?;
            let n = *shape.first().ok_or_else(|| Error::shape("a scalar has no rows to go along"))?;
            if *rows.get_or_insert(n) != n {
                return Err(Error::shape(format!("rows must be equally many: {} and {n}", rows.unwrap_or(0))));
            }
        }
        combine(&f, xs, rows.unwrap_or(0))
    };
    run().map_err(|e| e.in_op("associative_scan").at(site))
}

/// Pairs are combined, their running combinations found by the same rule, and the rows between
/// them filled in.
fn combine(f: &dyn Fn(&[Tensor], &[Tensor]) -> Result<Vec<Tensor>>, xs: &[Tensor], n: usize) -> Result<Vec<Tensor>> {
    if n < 2 {
        return Ok(xs.to_vec());
    }
    let half = n / 2;
    let rest = n - half - 1;
    let each = |list: &[Tensor], from: usize, count: usize, step: usize| -> Result<Vec<Tensor>> {
        list.iter().map(|x| every(x, from, count, step)).collect()
    };
    let same = |got: Vec<Tensor>, count: usize| -> Result<Vec<Tensor>> {
        for (i, x) in xs.iter().enumerate() {
            let mut want = x.shape()?;
            want.dims_mut()[0] = count;
            let is_same = got.len() == xs.len() && got[i].shape()? == want && got[i].dtype()? == x.dtype()?;
            if !is_same {
                return Err(Error::shape("combining rows must give rows of the same number and types"));
            }
        }
        Ok(got)
    };
    let pairs = same(f(&each(xs, 0, half, 2)?, &each(xs, 1, half, 2)?)?, half)?;
    let odd = combine(f, &pairs, half)?;
    let between =
        if rest == 0 { None } else { Some(same(f(&each(&odd, 0, rest, 1)?, &each(xs, 2, rest, 2)?)?, rest)?) };
    (0..xs.len())
        .map(|i| {
            let first = every(&xs[i], 0, 1, 1)?;
            let even = between.as_ref().map_or(first.clone(), |b| Tensor::concat(&[first.clone(), b[i].clone()], 0));
            weave(&even, &odd[i], n)
        })
        .collect()
}

/// `count` rows from `from` on, `step` apart.
fn every(x: &Tensor, from: usize, count: usize, step: usize) -> Result<Tensor> {
    let shape = x.shape()?;
    let mut starts = vec![0; shape.rank()];
    let mut sizes: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    let mut steps = vec![1; shape.rank()];
    (starts[0], sizes[0], steps[0]) = (from as i64, count as i64, step as i64);
    Ok(x.slice_raw(&starts, &sizes, &steps))
}

/// Rows of `even` and `odd` by turns.
fn weave(even: &Tensor, odd: &Tensor, n: usize) -> Result<Tensor> {
    let half = n / 2;
    let mut shape = odd.shape()?;
    shape.dims_mut()[0] = 2 * half;
    let woven = Tensor::stack(&[every(even, 0, half, 1)?, odd.clone()], 1).reshape(shape);
    Ok(if n == 2 * half { woven } else { Tensor::concat(&[woven, every(even, half, 1, 1)?], 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::floats;
    use std::slice::from_ref;

    #[test]
    fn linear_recurrences_match_a_scan() {
        // h = a h + b, as pairs: (a, b) then (c, d) is (a c, b c + d).
        for n in [1, 2, 3, 6, 7] {
            let (a, b) = (Tensor::from(floats([n, 2], 1)).requires_grad(), Tensor::from(floats([n, 2], 2)));
            let f = |p: &[Tensor], q: &[Tensor]| Ok(vec![&p[0] * &q[0], &p[1] * &q[0] + &q[1]]);
            let fast = associative_scan(f, &[a.clone(), b.clone()]).unwrap().swap_remove(1);
            let step = |c: &[Tensor], r: &[Tensor]| {
                let h = &c[0] * &r[0] + &r[1];
                Ok((vec![h.clone()], vec![h]))
            };
            let start = Tensor::full_of([2], 0.0, ir::DType::F64);
            let slow = super::super::scan(step, &[start], &[a.clone(), b]).unwrap().1.swap_remove(0);
            let off = |x: &Tensor, y: &Tensor| (x - y).abs().max(..).item::<f64>().unwrap();
            assert!(off(&fast, &slow) < 1e-12, "n = {n}");
            let g = |y: &Tensor| crate::grad(&(y * y).sum(..), from_ref(&a)).unwrap().swap_remove(0);
            assert!(off(&g(&fast), &g(&slow)) < 1e-10, "n = {n}");
        }
    }

    #[test]
    fn a_combination_of_another_type_is_refused() {
        let e = associative_scan(|a, _| Ok(vec![a[0].sum(..)]), &[Tensor::from([1.0f32, 2.0])]).unwrap_err();
        assert!(e.to_string().contains("same number and types"), "{e}");
    }
}
