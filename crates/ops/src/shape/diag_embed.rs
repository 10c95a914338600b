//! `diag_embed`: vectors as diagonals of matrices.

use crate::rules::{by_expansion, expand1, f64s, floats, product};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `diag_embed`.
pub static OP: Op = Op {
    name: "diag_embed",
    doc: "The last dimension on the diagonal `offset` of new dimensions `axis1` and `axis2`, zeros elsewhere.",
    attrs: &[("offset", AttrKind::Int), ("axis1", AttrKind::Int), ("axis2", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let on = |o: i64, a: i64, b: i64| Attrs::new().with("offset", o).with("axis1", a).with("axis2", b);
        vec![
            Case::new(vec![floats([2, 3], 1)], on(1, 0, 2)),
            Case::new(vec![floats([2], 2)], on(-1, 1, 0)),
            Case::new(vec![f64s([2], &[1., 2.])], on(0, 0, 1)).expect(vec![f64s([2, 2], &[1., 0., 0., 2.])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (offset, a, b) = (c.attrs.int("offset")?, c.attrs.size("axis1")?, c.attrs.size("axis2")?);
    let rank = c.shape(0).rank() + 1;
    if a == b || a >= rank || b >= rank || rank < 2 {
        return Err(Error::value(format!("{a} and {b} are no two axes of a result of rank {rank}")));
    }
    let size = c.shape(0)[rank - 2].saturating_add(offset.unsigned_abs() as usize);
    product(&[size, size])?;
    let mut rest = 0..rank as i64 - 2;
    let last = rank as i64;
    let order: Vec<i64> = (0..rank)
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
    expand1(x, |x| x[0].undiagonal(size, size, offset).permute(&order))
}

impl Tensor {
    /// The last dimension on the diagonal `offset` of new dimensions `axis1` and `axis2` of the
    /// result, zeros elsewhere.
    #[track_caller]
    pub fn diag_embed(&self, offset: i64, axis1: i64, axis2: i64) -> Tensor {
        self.then(|t| {
            let at = |a| axis(a, t.shape.rank() + 1).map_err(|e| e.in_op("diag_embed"));
            let attrs = Attrs::new().with("offset", offset).with("axis1", at(axis1)?).with("axis2", at(axis2)?);
            Ok(Tensor::apply1(&OP, &[self], attrs))
        })
    }
    /// A vector as the diagonal `offset` of a matrix, or that diagonal of a matrix as a vector.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1, 2]).diag(0);
    /// assert_eq!(x.to_vec::<i32>().unwrap(), [1, 0, 0, 2]);
    /// assert_eq!(x.diag(0).to_vec::<i32>().unwrap(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn diag(&self, offset: i64) -> Tensor {
        self.then(|t| match t.shape.rank() {
            1 => Ok(self.diag_embed(offset, 0, 1)),
            2 => Ok(self.diagonal(offset, 0, 1)),
            _ => Err(Error::shape(format!("a vector or a matrix is needed, not {}", t.shape)).in_op("diag")),
        })
    }
}
