//! `take`: slices chosen along an axis by an index of any rank; the lookup in an embedding.

use super::{inside, is_index};
use crate::kernel::batched_input;
use crate::rules::{GradTensors, expand, f64s, floats, i64s, maybe_grads, one};
use crate::{DType, Result, Tensor};
use ir::AxisSplit;
use ir::{AttrKind, Attrs, Batch, BatchCall, Call, Case, Factors, Grad, Literal, Meaning, Op, Shape, shard};

/// The row of `take`.
pub static OP: Op = Op {
    name: "take",
    doc: "Slices chosen along `axis`: the axis is replaced by the index's dimensions. Along axis 0, \
          y[i, ...] = x[index[i], ...].",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(2)?;
        is_index(c, 1)?;
        one(c.dtype(0), out_shape(c)?)
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let (x, index, at) = (c.inputs[0].ty(), c.x(1), c.attrs.size("axis")?);
        let count = index.count()?;
        let mut flat = x.shape.clone();
        flat.dims_mut()[at] = count;
        let zeros = c.x(0).zeros_like();
        maybe_grads(vec![Some(zeros.index_add(at as i64, &index.reshape(count), &c.g(0).reshape(flat))), None])
    }),
    batch: Batch::Rule(batch),
    linear: true,
    shard: ir::Shard::Rule(factors),
    on_part: Some(on_part),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        let x = f64s([6], &[4.0, 3.0, 5.0, 7.0, 6.0, 8.0]);
        vec![
            Case::new(vec![floats([3, 2, 2], 1), i64s([2, 2], &[1, 0, 1, 1])], along(1)),
            Case::new(vec![floats([3, 2], 2), i64s((), &[2])], along(0)),
            Case::new(vec![x, i64s([2, 2], &[0, 1, 2, 3])], along(0))
                .expect(vec![f64s([2, 2], &[4.0, 3.0, 5.0, 7.0])], "NumPy manual: np.take(a, [[0, 1], [2, 3]])"),
        ]
    },
    ..Op::DEFAULT
};

/// The dimensions of the index pass, and those of the tensor. What a part of the axis has is a term of the result.
fn factors(c: &Call) -> Result<Factors> {
    let at = c.axis("axis")?;
    let (mut x, index) = (shard::letters(c.shape(0), 'a'), shard::letters(c.shape(1), 'A'));
    if c.dtype(0) == DType::Bool {
        // Booleans have no sum.
        x.replace_range(at..at + 1, ".");
    }
    let y = format!("{}{index}{}", &x[..at], &x[at + 1..]);
    Ok(Factors::of(&[&x, &index], &[&y]).looked_up(at))
}

/// Zeros where the index points outside of the part.
fn on_part(c: &Call, args: &[ir::Value], part: &ir::Portion) -> Result<Vec<ir::Value>> {
    let (at, own) = (c.axis("axis")?, c.shape(1));
    let mut mask = vec![1; c.shape(0).rank() - 1 + own.rank()];
    mask[at..at + own.rank()].copy_from_slice(own);
    expand(args, |v| {
        let (is_here, index) = v[1].within(part, OP.name);
        let y = v[0].take(&index, at as i64);
        Ok(vec![Tensor::where_(&is_here.reshape(mask.as_slice()), &y, y.zeros_like())])
    })
}

fn out_shape(c: &Call) -> Result<Shape> {
    let (at, x) = (c.axis("axis")?, c.shape(0));
    Ok(x[..at].iter().chain(c.shape(1).iter()).chain(&x[at + 1..]).copied().collect())
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let at = c.axis("axis")?;
    let AxisSplit { size, inner, .. } = AxisSplit::new(c.shape(0), at);
    let index: Vec<usize> = args[1].to_i64().iter().map(|&i| inside(i, at, size)).collect::<Result<_>>()?;
    let n = index.len();
    Ok(vec![args[0].pick(&out_shape(c)?, |i| Some((i / inner / n * size + index[i / inner % n]) * inner + i % inner))])
}

fn batch(c: &BatchCall) -> Result<Vec<ir::Value>> {
    let at = c.attrs.int("axis")?;
    let (x, index) = (Tensor::from(c.inputs[0].clone()), Tensor::from(c.inputs[1].clone()));
    let out = match (c.batched[0], c.batched[1]) {
        (true, false) => x.take(&index, at + 1),
        (false, _) => {
            let y = x.take(&index, at);
            let mut order: Vec<i64> = (0..y.rank()? as i64).collect();
            order.remove(at as usize);
            order.insert(0, at);
            y.permute(&order)
        }
        (true, true) => {
            // A different index for each member: gather, with the index repeated beside the axis.
            let (x, index) = (batched_input(c, 0), batched_input(c, 1));
            let (dims, own) = (x.shape()?, index.shape()?);
            let count: usize = own[1..].iter().product();
            let at = at as usize + 1;
            let mut thin = Shape::new(&vec![1; dims.rank()]);
            (thin.dims_mut()[0], thin.dims_mut()[at]) = (c.size, count);
            let mut wide = dims.clone();
            wide.dims_mut()[at] = count;
            let out: Shape = dims[..at].iter().chain(&own[1..]).chain(&dims[at + 1..]).copied().collect();
            x.gather(at as i64, &index.reshape(thin).broadcast_to(wide)).reshape(out)
        }
    };
    Ok(vec![out.value()?.clone()])
}

impl Tensor {
    /// Slices chosen along an axis, which is replaced by the index's dimensions. Along axis 0,
    /// `y[i, ...] = x[index[i], ...]`: the lookup in an embedding.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[1, 2], [3, 4], [5, 6]]);
    /// assert_eq!(x.take(&Tensor::from([2, 0]), 0).to_vec::<i32>().unwrap(), [5, 6, 1, 2]);
    /// ```
    #[track_caller]
    pub fn take(&self, index: &Tensor, along: i64) -> Tensor {
        self.then(|_| {
            let (x, at) = self.at_axis("take", along)?;
            Ok(Tensor::apply1(&OP, &[&x, &index.as_index("take")?], Attrs::new().with("axis", at)))
        })
    }
    /// `take` with the arguments in PyTorch's order and an index of one dimension.
    #[track_caller]
    pub fn index_select(&self, along: i64, index: &Tensor) -> Tensor {
        self.then(|t| {
            let y = self.take(&index.reshape(index.count()?), along);
            Ok(if t.shape.rank() == 0 { y.reshape(()) } else { y })
        })
    }
}
