//! `diagonal`: the elements whose indices along two axes differ by a fixed offset.

use crate::rules::{GradTensors, f64s, floats, grads, reshaped};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Layout, Meaning, Op, Shape};

/// The row of `diagonal`.
pub static OP: Op = Op {
    name: "diagonal",
    doc: "The elements whose place along `axis2` is that along `axis1` plus `offset`, as a new last dimension.",
    attrs: &[("offset", AttrKind::Int), ("axis1", AttrKind::Int), ("axis2", AttrKind::Int)],
    infer: |c| reshaped(c, out_shape(c)?),
    meaning: Meaning::View(|c, l| {
        let (a, b) = (c.axis("axis1")?, c.axis("axis2")?);
        let (row, column) = start(c.attrs.int("offset")?);
        let shape = out_shape(c)?;
        if shape.count() == 0 {
            return Ok(Some(Layout::contiguous(&shape)));
        }
        let offset = l.offset as isize + row as isize * l.strides[a] + column as isize * l.strides[b];
        let mut strides: smallvec::SmallVec<[isize; 4]> =
            (0..l.shape.rank()).filter(|&d| d != a && d != b).map(|d| l.strides[d]).collect();
        strides.push(l.strides[a] + l.strides[b]);
        Ok(Some(Layout { shape, strides, offset: offset as usize }))
    }),
    grad: Grad::Rule(|c| {
        let (a, b) = (c.attrs.size("axis1")?, c.attrs.size("axis2")?);
        let shape = &c.inputs[0].ty().shape;
        let square = c.g(0).undiagonal(shape[a], shape[b], c.attrs.int("offset")?);
        // The two new axes stand last: put them back where they were.
        let mut rest = 0..shape.rank() as i64 - 2;
        let last = shape.rank() as i64;
        let order: Vec<i64> = (0..shape.rank())
            .map(|d| {
                if d == a {
                    last - 2
                } else if d == b {
                    last - 1
                } else {
                    rest.next().unwrap_or(0)
                }
            })
            .collect();
        grads([square.permute(&order)])
    }),
    batch: Batch::Rule(|c| {
        let up = |name| -> Result<i64> { Ok(c.attrs.int(name)? + 1) };
        let x = Tensor::from(c.inputs[0].clone());
        Ok(vec![x.diagonal(c.attrs.int("offset")?, up("axis1")?, up("axis2")?).value()?.clone()])
    }),
    cases: || {
        let on = |o: i64, a: i64, b: i64| Attrs::new().with("offset", o).with("axis1", a).with("axis2", b);
        let x = f64s([2, 2], &[0.0, 1.0, 2.0, 3.0]);
        vec![
            Case::new(vec![floats([2, 3, 4], 1)], on(1, 0, 2)),
            Case::new(vec![floats([3, 4, 2], 2)], on(-1, 1, 0)),
            Case::new(vec![x.clone()], on(0, 0, 1)).expect(vec![f64s([2], &[0.0, 3.0])], "NumPy manual: a.diagonal()"),
            Case::new(vec![x], on(1, 0, 1)).expect(vec![f64s([1], &[1.0])], "NumPy manual: a.diagonal(1)"),
        ]
    },
    ..Op::DEFAULT
};

/// Row and column of the first element.
fn start(offset: i64) -> (usize, usize) {
    if offset < 0 { (offset.unsigned_abs() as usize, 0) } else { (0, offset as usize) }
}

fn out_shape(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let (a, b) = (c.axis("axis1")?, c.axis("axis2")?);
    if a == b {
        return Err(Error::value(format!("axis1 and axis2 must differ, but both are {a}")));
    }
    let (row, column) = start(c.attrs.int("offset")?);
    let shape = c.shape(0);
    let size = shape[a].saturating_sub(row).min(shape[b].saturating_sub(column));
    Ok((0..shape.rank()).filter(|&d| d != a && d != b).map(|d| shape[d]).chain([size]).collect())
}

impl Tensor {
    /// The elements whose place along `axis2` is that along `axis1` plus `offset`, as a new last
    /// dimension.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(x.diagonal(0, 0, 1).to_vec::<i32>().unwrap(), [1, 4]);
    /// ```
    #[track_caller]
    pub fn diagonal(&self, offset: i64, axis1: i64, axis2: i64) -> Tensor {
        self.then(|t| {
            let at = |a| axis(a, t.shape.rank()).map_err(|e| e.in_op("diagonal"));
            let attrs = Attrs::new().with("offset", offset).with("axis1", at(axis1)?).with("axis2", at(axis2)?);
            Ok(Tensor::apply1(&OP, &[self], attrs))
        })
    }
    /// The transpose of `diagonal`: zeros of `rows` × `columns` in new last dimensions, with this
    /// tensor's last dimension on their diagonal.
    #[track_caller]
    pub(crate) fn undiagonal(&self, rows: usize, columns: usize, offset: i64) -> Tensor {
        self.then(|t| {
            let rank = t.shape.rank();
            let size = t.shape[rank - 1];
            let (row, column) = start(offset);
            let lead = &t.shape[..rank - 1];
            let with = |tail: &[usize]| -> Shape { lead.iter().chain(tail).copied().collect() };
            let border = |lo: i64, hi: i64, rank: usize| {
                let (mut l, mut h) = (vec![0; rank], vec![0; rank]);
                (l[rank - 1], h[rank - 1]) = (lo, hi);
                (l, h)
            };
            if size == 0 {
                return Ok(Tensor::full_of(with(&[rows, columns]), 0.0, t.dtype));
            }
            // On the flat matrix the diagonal's elements lie columns + 1 apart.
            let (lo, hi) = border(0, columns as i64, rank + 1);
            let spread = self.reshape(with(&[size, 1])).pad_raw(&lo, &hi, 0.0).reshape(with(&[size * (columns + 1)]));
            let before = (row * columns + column) as i64;
            let (lo, hi) = border(before, (rows * columns) as i64 - before - (size * (columns + 1)) as i64, rank);
            Ok(spread.pad_raw(&lo, &hi, 0.0).reshape(with(&[rows, columns])))
        })
    }
}
