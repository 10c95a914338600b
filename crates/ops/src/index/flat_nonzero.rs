//! `flat_nonzero`: the flat indices of the true elements.

use crate::rules::{i64s, one};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op};

/// The row of `flat_nonzero`.
pub static OP: Op = Op {
    name: "flat_nonzero",
    doc: "The flat indices of the true elements of a mask in row-major order: the first `size` of them, then `fill`.",
    attrs: &[("size", AttrKind::Int), ("fill", AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        if c.dtype(0) != DType::Bool {
            return Err(Error::dtype(format!("the mask must be bool, not {}", c.dtype(0))));
        }
        c.attrs.int("fill")?;
        one(DType::I64, [c.attrs.size("size")?])
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Zero,
    cases: || {
        let of = |size: i64, fill: i64| Attrs::new().with("size", size).with("fill", fill);
        let mask = Literal::from_i64(DType::Bool, [2, 3], &[0, 1, 1, 0, 0, 1]);
        let long: Vec<i64> = (0..9000).map(|i| i64::from(i * i % 7 == 1)).collect();
        let long = Literal::from_i64(DType::Bool, [9000], &long);
        vec![
            Case::new(vec![mask.clone()], of(3, -1))
                .expect(vec![i64s([3], &[1, 2, 5])], "NumPy manual, flatnonzero, by hand"),
            Case::new(vec![mask], of(5, -1)).expect(vec![i64s([5], &[1, 2, 5, -1, -1])], "by hand"),
            Case::new(vec![long.clone()], of(0, 7)),
            Case::new(vec![long.clone()], of(2500, 7)),
            Case::new(vec![long], of(2700, 7)),
        ]
    },
    ..Op::DEFAULT
};

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (size, fill) = (c.attrs.size("size")?, c.attrs.int("fill")?);
    // Each index is written where the next true element's belongs, so that there is nothing to predict.
    let (mut indices, mut count) = (vec![fill; size + 1], 0);
    for (i, &b) in args[0].bytes().iter().enumerate() {
        if count == size {
            break;
        }
        indices[count] = i as i64;
        count += usize::from(b != 0);
    }
    indices[count..].fill(fill);
    indices.truncate(size);
    Ok(vec![Literal::from_i64(DType::I64, [size], &indices)])
}

impl Tensor {
    /// The flat indices of the true elements of a mask in row-major order: the first `size` of them, then `fill`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let indices = Tensor::from([false, true, true]).flat_nonzero(3, -1);
    /// assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 2, -1]);
    /// ```
    #[track_caller]
    pub fn flat_nonzero(&self, size: usize, fill: i64) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("size", size).with("fill", fill))
    }
    /// [`Tensor::flat_nonzero`] of all true elements. Their number depends on the values, so the mask is computed.
    pub(crate) fn held_indices(&self) -> Result<Tensor> {
        let count = self.cast(DType::I64).sum(..).item::<i64>()?;
        Ok(self.flat_nonzero(count as usize, 0))
    }
}
