//! `masked_fill`: one value where a mask holds; and the elements where a mask holds.

use crate::rules::{expand1, f64s, floats};
use crate::{DType, Error, Operand, Result, Tensor};
use ir::{Attrs, Case, Literal, Meaning, Op};

/// The row of `masked_fill`.
pub static OP: Op = Op {
    name: "masked_fill",
    doc: "`value` where the mask holds, else the element; the three broadcast.",
    infer: |c| {
        let scalar = ir::Type::new(c.types.first().map_or(DType::F32, |t| t.dtype), ());
        c.arity(3)?;
        if c.types[2] != scalar {
            return Err(Error::shape(format!("the value must be {scalar}, not {}", c.types[2])));
        }
        let types = [c.types[1].clone(), c.types[2].clone(), c.types[0].clone()];
        ir::Scalar::infer(&ir::Call { types: &types, attrs: c.attrs }, 3, ir::Out::Select, true)
    },
    meaning: Meaning::Composite(|_, x| expand1(x, |x| Tensor::where_(&x[1], &x[2], &x[0]))),
    cases: || {
        let mask = Literal::generate([2, 3], |i| i % 2 == 0);
        let two = Literal::generate([2], |i| i == 1);
        vec![
            Case::new(vec![floats([3], 1), mask, floats((), 2)], Attrs::new()),
            Case::new(vec![f64s([2], &[1.0, 2.0]), two, f64s((), &[9.0])], Attrs::new())
                .expect(vec![f64s([2], &[1.0, 9.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// `value` where the mask holds, else the element. The value takes the tensor's type.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1.0f32, -2.0]);
    /// assert_eq!(x.masked_fill(&x.lt(0.0), 0.0).to_vec::<f32>().unwrap(), [1.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Operand) -> Tensor {
        self.then(|t| {
            let value = value.operand(t.dtype).cast(t.dtype);
            Ok(Tensor::apply1(&OP, &[self, mask, &value], Attrs::new()))
        })
    }
    /// The elements where the mask holds, in row-major order; the two broadcast.
    ///
    /// How many there are depends on the mask's values, so the mask is computed at once.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(x.masked_select(&x.gt(1)).to_vec::<i32>().unwrap(), [2, 3, 4]);
    /// ```
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Tensor {
        self.then(|t| {
            let dims = mask.shape()?.broadcast(&t.shape).ok_or_else(|| {
                let e =
                    format!("a mask of shape {} does not broadcast with {}", mask.shape().unwrap_or_default(), t.shape);
                Error::shape(e).in_op("masked_select")
            })?;
            let [places] = mask.broadcast_to(&dims).ravel().held("masked_select")?;
            Ok(self.broadcast_to(&dims).ravel().take(&places, 0))
        })
    }
    /// The indices of the nonzero elements: one row per element, one column per dimension.
    ///
    /// How many there are depends on the values, so they are computed at once.
    #[track_caller]
    pub fn nonzero(&self) -> Tensor {
        self.then(|t| {
            let rank = t.shape.rank();
            let columns = self.cast(DType::Bool).held_all()?;
            if rank == 0 {
                return Ok(Tensor::new([usize::from(self.item::<f64>()? != 0.0), 0], &[] as &[i64]));
            }
            Ok(Tensor::stack(&columns, 1))
        })
    }
    /// For each dimension of a mask, the coordinates where it is true. Computes the
    /// mask.
    pub(crate) fn held_all(&self) -> Result<Vec<Tensor>> {
        let shape = self.shape()?;
        let flat = self.held_indices()?;
        let strides = shape.strides();
        let column = |d: usize| {
            let upper = if strides[d] == 1 { flat.clone() } else { flat.floor_divide(strides[d] as i64) };
            if d == 0 { upper } else { upper.rem(shape[d] as i64) }
        };
        Ok((0..shape.rank()).map(column).collect())
    }
    /// `held_all` of a mask with exactly `N` dimensions.
    pub(crate) fn held<const N: usize>(&self, op: &str) -> Result<[Tensor; N]> {
        if self.dtype()? != DType::Bool {
            return Err(Error::dtype(format!("the mask must be bool, not {}", self.dtype()?)).in_op(op));
        }
        self.held_all()?.try_into().map_err(|_| Error::shape(format!("the mask must have {N} dimensions")).in_op(op))
    }
}
