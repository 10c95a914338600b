//! `embedding`: rows of a table, looked up by number.

use crate::rules::{by_expansion, expand, f64s, floats, i64s};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `embedding`.
pub static OP: Op = Op {
    name: "embedding",
    doc: "Rows of a table w[V, E] at an index of any shape. The row `padding` collects no gradient; −1 for none.",
    attrs: &[("padding", AttrKind::Int)],
    infer: |c| {
        c.arity(2)?;
        let padding = c.attrs.int("padding")?;
        let rows = c.shape(0).first().copied().unwrap_or(0);
        if c.shape(0).rank() != 2 || padding < -1 || padding >= rows as i64 {
            let e = format!("takes a table [V, E] and a padding row below V (or -1), not {} and {padding}", c.shape(0));
            return Err(Error::shape(e));
        }
        if !c.dtype(1).is_int() {
            return Err(Error::dtype(format!("the index must be integers, not {}", c.dtype(1))));
        }
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    cases: || {
        let padding = |p: i64| Attrs::new().with("padding", p);
        vec![
            Case::new(vec![floats([3, 2], 1), i64s([2, 2], &[0, 2, 2, 1])], padding(-1)),
            Case::new(vec![f64s([3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), i64s([2], &[2, 0])], padding(0))
                .expect(vec![f64s([2, 2], &[5.0, 6.0, 1.0, 2.0])], "by hand")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let padding = c.attrs.int("padding")?;
    expand(args, |v| {
        let y = v[0].take(&v[1], 0);
        if padding < 0 {
            return Ok(vec![y]);
        }
        let is_padding = v[1].eq(padding).unsqueeze(-1);
        Ok(vec![Tensor::where_(&is_padding, &y.stop_gradient(), &y)])
    })
}

impl Tensor {
    /// Rows of this table `[V, E]` at an index of any shape.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let table = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(table.embedding(&Tensor::from([1i64])).to_vec::<f32>().unwrap(), [3.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn embedding(&self, index: &Tensor) -> Tensor {
        self.then(|_| Ok(Tensor::apply1(&OP, &[self, index], Attrs::new().with("padding", -1i64))))
    }
    /// Rows of this table `[V, E]`, of which the row `padding` (counted from the end if negative)
    /// collects no gradient.
    #[track_caller]
    pub fn embedding_padded(&self, index: &Tensor, padding: i64) -> Tensor {
        self.then(|t| {
            let row = crate::axis(padding, t.shape.first().copied().unwrap_or(0)).map_err(|_| {
                Error::index(format!("there is no row {padding} in a table {}", t.shape)).in_op("embedding")
            })?;
            Ok(Tensor::apply1(&OP, &[self, index], Attrs::new().with("padding", row)))
        })
    }
}
