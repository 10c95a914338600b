//! `iota`: the numbers 0, 1, 2…, and the ranges made of them.

use crate::rules::{expand1, f64s, one};
use crate::{DType, Error, Number, Result, Tensor};
use ir::{AttrKind, Attrs, Case, Grad, Literal, Meaning, Op, Site};
use std::ops::Range;

/// The row of `iota`.
pub static OP: Op = Op {
    name: "iota",
    doc: "The numbers 0, 1, 2… up to `size`, of type `dtype`.",
    attrs: &[("size", AttrKind::Int), ("dtype", AttrKind::DType)],
    infer: |c| {
        c.arity(0)?;
        let dtype = c.attrs.dtype("dtype")?;
        dtype.check_computes()?;
        one(dtype, c.attrs.size("size")?)
    },
    meaning: Meaning::Kernel(|c, _| {
        let (size, dtype) = (c.attrs.size("size")?, c.attrs.dtype("dtype")?);
        let data: Vec<i64> = (0..size as i64).collect();
        Ok(vec![Literal::from_i64(dtype, size, &data)])
    }),
    grad: Grad::Zero,
    generate: Some(|c, args, ranges| {
        let (dtype, own) = (c.attrs.dtype("dtype")?, ranges[0].clone());
        expand1(args, |_| (Tensor::iota(own.len(), DType::I64) + own.start as i64).cast(dtype))
    }),
    cases: || {
        let attrs = Attrs::new().with("size", 3i64).with("dtype", DType::F64);
        vec![Case::new(vec![], attrs).expect(vec![f64s([3], &[0.0, 1.0, 2.0])], "NumPy manual: np.arange(3.0)")]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The numbers 0, 1, 2… up to `size`, of type `dtype`.
    #[track_caller]
    pub fn iota(size: usize, dtype: DType) -> Tensor {
        Tensor::apply1(&OP, &[], Attrs::new().with("size", size).with("dtype", dtype))
    }
    /// The numbers from the start of a range up to its end, which is left out, one apart.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::arange(2..5).to_vec::<i32>().unwrap(), [2, 3, 4]);
    /// assert_eq!(Tensor::arange_step(1.0..2.5, 0.5).to_vec::<f64>().unwrap(), [1.0, 1.5, 2.0]);
    /// assert_eq!(Tensor::arange_step(3i64..0, -1).to_vec::<i64>().unwrap(), [3, 2, 1]);
    /// ```
    #[track_caller]
    pub fn arange<N: Number>(range: Range<N>) -> Tensor {
        Tensor::arange_step(range, N::from_int(1))
    }
    /// The numbers from the start of a range up to its end, which is left out, `step` apart.
    #[track_caller]
    pub fn arange_step<N: Number>(range: Range<N>, step: N) -> Tensor {
        let site = Site::here();
        site.scope(|| arange(range, step).map_err(|e| e.in_op("arange").at(site)).into())
    }
    /// `size` numbers of type f32 from `start` to `stop`, both included, evenly spaced.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 3).to_vec::<f32>().unwrap(), [0.0, 0.5, 1.0]);
    /// ```
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, size: usize) -> Tensor {
        Tensor::linspace_of(start, stop, size, DType::F32)
    }
    /// `size` numbers of type `dtype` from `start` to `stop`, both included, evenly spaced.
    #[track_caller]
    pub fn linspace_of(start: f64, stop: f64, size: usize, dtype: DType) -> Tensor {
        let site = Site::here();
        site.scope(|| {
            if size < 2 {
                return Tensor::full_of(size, start, dtype);
            }
            // From both ends to the middle, so that both ends are exact.
            let step = (stop - start) / (size - 1) as f64;
            let i = Tensor::iota(size, DType::F64);
            let low = &i * step + start;
            let high = stop - ((size - 1) as f64 - &i) * step;
            Tensor::where_(&i.gt((size / 2) as f64 - 0.5), &high, &low).cast(dtype)
        })
    }
    /// The unit matrix of type f32.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::eye(2).to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 1.0]);
    /// ```
    #[track_caller]
    pub fn eye(size: usize) -> Tensor {
        Tensor::eye_of(size, size, DType::F32)
    }
    /// Ones on the diagonal of a `rows` × `columns` matrix of type `dtype`.
    #[track_caller]
    pub fn eye_of(rows: usize, columns: usize, dtype: DType) -> Tensor {
        let site = Site::here();
        site.scope(|| {
            let down = Tensor::iota(rows, DType::I64).reshape([rows, 1]);
            down.eq(Tensor::iota(columns, DType::I64)).cast(dtype)
        })
    }
}

fn arange<N: Number>(range: Range<N>, step: N) -> Result<Tensor> {
    let (start, stop) = (range.start, range.end);
    let bad = || Error::value(format!("no range leads from {start:?} to {stop:?} in steps of {step:?}"));
    if N::DTYPE.is_complex() {
        return Err(bad());
    }
    if N::DTYPE.is_float() {
        let (from, by) = (start.to_f64(), step.to_f64());
        let size = ((stop.to_f64() - from) / by).ceil();
        if !size.is_finite() || size > isize::MAX as f64 {
            return Err(bad());
        }
        return Ok((Tensor::iota(size.max(0.0) as usize, DType::F64) * by + from).cast(N::DTYPE));
    }
    let (from, to, by) = (start.to_int(), stop.to_int(), step.to_int());
    if by == 0 {
        return Err(bad());
    }
    // A range that leads the other way is empty.
    let size = (((to - from) * by.signum()).max(0) + by.abs() - 1) / by.abs();
    Ok((Tensor::iota(size as usize, DType::I64) * by as i64 + from as i64).cast(N::DTYPE))
}
