//! `index_add`: slices added at indices along an axis.

use super::{inside, is_index};
use crate::kernel::batched_input;
use crate::rules::{GradTensors, expand, f64s, floats, i64s, maybe_grads, number, same};
use crate::{Error, Result, Tensor};
use ir::AxisSplit;
use ir::{AttrKind, Attrs, Batch, BatchCall, Call, Case, Factors, Grad, Literal, Meaning, Op, Shape, shard};

/// The row of `index_add`.
pub static OP: Op = Op {
    name: "index_add",
    doc: "Slices added at indices along `axis`: along axis 0, x[index[i], ...] += src[i, ...].",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| number(c, 0).and_then(|()| check_slices(c)).and_then(|_| same(c, 0)),
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let g = c.g(0);
        let src = g.take(&c.x(1), c.attrs.int("axis")?);
        maybe_grads(vec![Some(g), None, Some(src)])
    }),
    batch: Batch::Rule(|c| batch_slices(c, |x, at, index, src| x.scatter_add(at, index, src))),
    linear: true,
    shard: ir::Shard::Rule(factors),
    on_part: Some(on_part),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let many = || i64s([300], &(0..300).map(|i| i * i % 40).collect::<Vec<i64>>());
        let src: Vec<f64> = (1..10).map(f64::from).collect();
        let sum = [2., 3., 4., 1., 1., 1., 8., 9., 10., 1., 1., 1., 5., 6., 7.];
        vec![
            Case::new(vec![floats([2, 3], 1), i64s([2], &[2, 2]), floats([2, 2], 2)], along(1)),
            Case::new(vec![floats([2, 40, 3], 3), many(), floats([2, 300, 3], 4)], along(1)).kinked(),
            Case::new(vec![f64s([5, 3], &[1.0; 15]), i64s([3], &[0, 4, 2]), f64s([3, 3], &src)], along(0))
                .expect(vec![f64s([5, 3], &sum)], "PyTorch manual: torch.ones(5, 3).index_add_(0, index, t)"),
        ]
    },
    ..Op::DEFAULT
};

/// Every dimension passes; the slices are terms of a sum.
fn factors(c: &Call) -> Result<Factors> {
    let at = c.axis("axis")?;
    let (x, mut src) = (shard::letters(c.shape(0), 'a'), shard::letters(c.shape(0), 'a'));
    src.replace_range(at..at + 1, "I");
    Ok(Factors::of(&[&x, "I", &src], &[&x]).adding(&[0]).looked_up(at))
}

/// Slices that belong elsewhere are zeros.
fn on_part(c: &Call, args: &[ir::Value], part: &ir::Portion) -> Result<Vec<ir::Value>> {
    let at = c.axis("axis")?;
    let mut mask = vec![1; c.shape(0).rank()];
    mask[at] = c.shape(1).count();
    expand(args, |v| {
        let (is_here, index) = v[1].within(part, OP.name);
        let src = Tensor::where_(&is_here.reshape(mask.as_slice()), &v[2], v[2].zeros_like());
        Ok(vec![v[0].index_add(at as i64, &index, &src)])
    })
}

/// The type rule of ops that put slices at indices along an axis.
pub(crate) fn check_slices(c: &Call) -> Result<usize> {
    c.arity(3)?;
    is_index(c, 1)?;
    let at = c.axis("axis")?;
    if c.dtype(0) != c.dtype(2) {
        return Err(Error::dtype(format!("element types differ: {} and {}", c.dtype(0), c.dtype(2))));
    }
    let mut want = c.shape(0).clone();
    want.dims_mut()[at] = c.shape(1).count();
    if c.shape(1).rank() != 1 || *c.shape(2) != want {
        return Err(Error::shape(format!(
            "values of shape {} and an index of shape {} do not fit axis {at} of {}",
            c.shape(2),
            c.shape(1),
            c.shape(0)
        )));
    }
    Ok(at)
}

/// Batching of such an op: by the scatter that takes an index for each element.
pub(crate) fn batch_slices(
    c: &BatchCall,
    scatter: impl FnOnce(&Tensor, i64, &Tensor, &Tensor) -> Tensor,
) -> Result<Vec<ir::Value>> {
    let (x, index, src) = (batched_input(c, 0), batched_input(c, 1), batched_input(c, 2));
    let (at, dims) = (c.attrs.size("axis")? + 1, src.shape()?);
    let mut thin = Shape::new(&vec![1; dims.rank()]);
    (thin.dims_mut()[0], thin.dims_mut()[at]) = (c.size, dims[at]);
    Ok(vec![scatter(&x, at as i64, &index.reshape(thin).broadcast_to(dims), &src).value()?.clone()])
}

/// For each element of the slices, its index in a tensor of shape `x`.
pub(crate) fn slice_places(x: &Shape, index: &Literal, at: usize) -> Result<Vec<usize>> {
    let AxisSplit { outer, size, inner } = AxisSplit::new(x, at);
    let index: Vec<usize> = index.to_i64().iter().map(|&i| inside(i, at, size)).collect::<Result<_>>()?;
    let n = index.len();
    Ok((0..outer * n * inner).map(|i| (i / inner / n * size + index[i / inner % n]) * inner + i % inner).collect())
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let places = slice_places(c.shape(0), &args[1], c.axis("axis")?)?;
    let shape = c.shape(0).clone();
    Ok(vec![if c.dtype(0).is_float() {
        let mut x = args[0].to_f64();
        places.iter().zip(args[2].to_f64()).for_each(|(&p, v)| x[p] += v);
        Literal::from_f64(c.dtype(0), shape, &x)
    } else {
        let mut x = args[0].to_i64();
        places.iter().zip(args[2].to_i64()).for_each(|(&p, v)| x[p] = x[p].wrapping_add(v));
        Literal::from_i64(c.dtype(0), shape, &x)
    }])
}

impl Tensor {
    /// Slices added at indices along an axis: along axis 0, `x[index[i], ...] += src[i, ...]`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([1, 1, 1]).index_add(0, &Tensor::from([2, 2]), &Tensor::from([5, 6]));
    /// assert_eq!(x.to_vec::<i32>().unwrap(), [1, 1, 12]);
    /// ```
    #[track_caller]
    pub fn index_add(&self, along: i64, index: &Tensor, src: &Tensor) -> Tensor {
        self.put_slices(&OP, along, index, src)
    }
    /// An op that puts slices at indices along an axis; scalars count as vectors of one element.
    #[track_caller]
    pub(crate) fn put_slices(&self, op: &'static Op, along: i64, index: &Tensor, src: &Tensor) -> Tensor {
        self.then(|t| {
            let (x, at) = self.at_axis(op.name, along)?;
            let index = index.as_index(op.name)?;
            let index = if index.rank()? == 0 { index.reshape([1]) } else { index };
            let src = if src.rank()? == 0 { src.reshape([1]) } else { src.clone() };
            let y = Tensor::apply1(op, &[&x, &index, &src.cast(t.dtype)], Attrs::new().with("axis", at));
            Ok(y.reshape(&t.shape))
        })
    }
}
