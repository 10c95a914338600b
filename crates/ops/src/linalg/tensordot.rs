//! `tensordot`: sums of products over chosen axes of two tensors.

use crate::rules::{f64s, floats};
use crate::{Error, Operand, Result, Tensor, axis};
use ir::{Attrs, Case};

super::composite!(
    "tensordot",
    "Sums of products over `axes_a` of the first and `axes_b` of the second tensor, in pairs; the other axes of both \
     follow each other.",
    2,
    [("axes_a", Ints), ("axes_b", Ints)],
    |c, t| {
        let (xa, xb) = (c.attrs.sizes("axes_a")?, c.attrs.sizes("axes_b")?);
        let (a, b) = (c.shape(0), c.shape(1));
        let is_bad = |x: &[usize], rank: usize| x.iter().enumerate().any(|(i, d)| *d >= rank || x[..i].contains(d));
        if is_bad(&xa, a.rank()) || is_bad(&xb, b.rank()) || xa.len() != xb.len() {
            return Err(Error::value(format!("axes {xa:?} and {xb:?} do not pair axes of {a} and {b}")));
        }
        // A size of 1 is repeated, as PyTorch does.
        if let Some(k) = (0..xa.len()).find(|&k| a[xa[k]] != b[xb[k]] && a[xa[k]] != 1 && b[xb[k]] != 1) {
            return Err(Error::shape(format!("axis {} of {a} and axis {} of {b} differ in size", xa[k], xb[k])));
        }
        let differ: Vec<usize> = (0..xa.len()).filter(|&k| a[xa[k]] != b[xb[k]]).collect();
        let summed = |t: &Tensor, x: &[usize]| {
            let over: Vec<usize> = differ.iter().map(|&k| x[k]).collect();
            t.sum_keep(over).cast(c.dtype(0))
        };
        let (ta, tb) = (summed(&t[0], &xa), summed(&t[1], &xb));
        let free = |x: &[usize], rank: usize| (0..rank).filter(|d| !x.contains(d)).collect::<Vec<_>>();
        let (fa, fb) = (free(&xa, a.rank()), free(&xb, b.rank()));
        let order = |x: &[usize], y: &[usize]| [x, y].concat().iter().map(|&d| d as i64).collect::<Vec<_>>();
        let count = |s: &ir::Shape, x: &[usize]| x.iter().map(|&d| s[d]).product::<usize>();
        let k = (0..xa.len()).map(|k| if differ.contains(&k) { 1 } else { a[xa[k]] }).product::<usize>();
        let left = ta.permute(&order(&fa, &xa)).reshape([count(a, &fa), k]);
        let right = tb.permute(&order(&xb, &fb)).reshape([k, count(b, &fb)]);
        let shape: ir::Shape = fa.iter().map(|&d| a[d]).chain(fb.iter().map(|&d| b[d])).collect();
        Ok(left.matmul(&right).reshape(shape))
    },
    || {
        let by = |a: &[i64], b: &[i64]| Attrs::new().with("axes_a", a).with("axes_b", b);
        let ones = |n: usize| vec![1.0; n];
        vec![
            Case::new(vec![floats([2, 3, 2], 1), floats([3, 2, 1], 2)], by(&[0, 1], &[1, 0])),
            Case::new(vec![floats([1, 3], 1), floats([2, 3], 2)], by(&[0], &[0])),
            Case::new(vec![f64s([2, 3], &ones(6)), f64s([3, 2], &ones(6))], by(&[1, 0], &[0, 1]))
                .expect(vec![f64s((), &[6.0])], "by hand: six products of ones"),
        ]
    },
    autocast: ir::Autocast::Narrow
);

impl Tensor {
    /// Sums of products over axes of this tensor and of another, in pairs.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let (a, b) = (Tensor::ones([3, 4, 5]), Tensor::ones([4, 3, 2]));
    /// assert_eq!(a.tensordot(&b, &[1, 0], &[0, 1]).dims().unwrap(), [5, 2]);
    /// ```
    #[track_caller]
    pub fn tensordot(&self, other: impl Operand, axes: &[i64], other_axes: &[i64]) -> Tensor {
        self.then(|_| {
            let (a, b) = self.promoted(other)?;
            let resolve = |list: &[i64], rank| list.iter().map(|&x| axis(x, rank)).collect::<Result<Vec<usize>>>();
            let fail = |e: Error| e.in_op("tensordot");
            let (xa, xb) = (resolve(axes, a.rank()?).map_err(fail)?, resolve(other_axes, b.rank()?).map_err(fail)?);
            Ok(Tensor::apply1(&OP, &[&a, &b], Attrs::new().with("axes_a", &xa).with("axes_b", &xb)))
        })
    }
}
