//! Elements chosen by position: gather and scatter, order, indices of extremes.

crate::table! {
    argmax,
    argmin,
    check_class,
    flat_nonzero,
    gather,
    index_add,
    index_copy,
    kthvalue,
    masked_fill,
    median,
    nanmedian,
    one_hot,
    put,
    ravel_index,
    scatter,
    scatter_add,
    scatter_reduce,
    searchsorted,
    sort,
    take,
    take_along_axis,
    top_k,
}

pub(crate) mod forms;
pub(crate) use forms::FORMS;

use crate::rules::{GradTensors, grads};
use crate::{Axes, DType, Error, Result, Tensor, axis};
use ir::AxisSplit;
use ir::{Call, Literal, Shape};

/// What the rows of `argmax` and `argmin` have in common.
const INDEX_OF_EXTREME: ir::Op = ir::Op {
    attrs: &[("axis", ir::AttrKind::Int)],
    infer: infer_place,
    grad: ir::Grad::Zero,
    batch: crate::kernel::BATCH_AXIS,
    shard: ir::Shard::Lanes,
    ..ir::Op::DEFAULT
};

/// The gradient of ops that choose elements along `axis`: output 0 has them, output 1 their indices.
const CHOSEN_GRAD: ir::Grad = ir::Grad::Rule(|c| {
    let zeros = c.x(0).zeros_like();
    grads([zeros.scatter_add(c.attrs.int("axis")?, &c.y(1), &c.g(0))])
});

/// Fails unless input `i`, an index, is i64.
pub(crate) fn is_index(c: &Call, i: usize) -> Result<()> {
    if c.dtype(i) == DType::I64 {
        return Ok(());
    }
    Err(Error::dtype(format!("the index must be i64, not {}", c.dtype(i))))
}

/// An index checked against the size of the axis it points into.
pub(crate) fn inside(i: i64, axis: usize, size: usize) -> Result<usize> {
    if i >= 0 && (i as u64) < size as u64 {
        return Ok(i as usize);
    }
    Err(Error::index(format!("index {i} is out of range for axis {axis} of size {size}")))
}

/// The type rule shared by gather and the scatters: the index has the rank of input 0 and is no
/// larger beside the axis.
pub(crate) fn check_gather(c: &Call) -> Result<usize> {
    is_index(c, 1)?;
    let at = c.axis("axis")?;
    let (x, index) = (c.shape(0), c.shape(1));
    if x.rank() != index.rank() || (0..x.rank()).any(|d| d != at && index[d] > x[d]) {
        return Err(Error::shape(format!("an index of shape {index} does not fit {x} beside axis {at}")));
    }
    Ok(at)
}
/// The type rule of the scatters: the values have the index's shape.
pub(crate) fn check_scatter(c: &Call) -> Result<usize> {
    c.arity(3)?;
    let at = check_gather(c)?;
    if c.dtype(0) != c.dtype(2) {
        return Err(Error::dtype(format!("element types differ: {} and {}", c.dtype(0), c.dtype(2))));
    }
    if c.shape(1) != c.shape(2) {
        return Err(Error::shape(format!("{} values for an index of shape {}", c.shape(2), c.shape(1))));
    }
    Ok(at)
}

/// For each element of an index (gather's sense), the position in `x` it points at.
pub(crate) fn places(x: &Shape, index: &Literal, at: usize) -> Result<Vec<usize>> {
    let (strides, dims) = (x.strides(), index.shape());
    let place = |(flat, &i): (usize, &i64)| -> Result<usize> {
        let mut position = inside(i, at, x[at])? * strides[at] as usize;
        let mut rest = flat;
        for d in (0..dims.rank()).rev() {
            if d != at {
                position += rest % dims[d] * strides[d] as usize;
            }
            rest /= dims[d];
        }
        Ok(position)
    };
    index.to_i64().iter().enumerate().map(place).collect()
}

impl Tensor {
    /// Integers as an index: i64.
    pub(crate) fn as_index(&self, op: &str) -> Result<Tensor> {
        let dtype = self.dtype()?;
        if !dtype.is_int() {
            return Err(Error::dtype(format!("the index must be an integer, not {dtype}")).in_op(op));
        }
        Ok(self.cast(DType::I64))
    }
    /// For positions in a part of a dimension: which of these lie in it, and where; those outside are 0. A position
    /// outside of the whole dimension is an error in the name of `op`.
    pub(crate) fn within(&self, part: &ir::Portion, op: &'static str) -> (Tensor, Tensor) {
        let all = self.check_class(part.size, 0, op);
        let in_run = |r: &std::ops::Range<usize>| all.ge(r.start as i64).logical_and(&all.lt(r.end as i64));
        let (mut is_here, mut at, mut before): (Option<Tensor>, Tensor, i64) = (None, all.zeros_like(), 0);
        for r in &part.runs {
            let here = in_run(r);
            at = Tensor::where_(&here, &(&all - (r.start as i64 - before)), &at);
            before += r.len() as i64;
            is_here = Some(is_here.map_or(here.clone(), |h| h.logical_or(&here)));
        }
        (is_here.unwrap_or_else(|| all.lt(0i64)), at)
    }
    /// An axis and this tensor with at least one dimension: a scalar counts as a vector of one.
    pub(crate) fn at_axis(&self, op: &str, along: i64) -> Result<(Tensor, usize)> {
        let rank = self.rank()?;
        let at = axis(along, rank.max(1)).map_err(|e| e.in_op(op))?;
        Ok((if rank == 0 { self.reshape([1]) } else { self.clone() }, at))
    }
    /// A tensor and its single axis, flattened for `..`.
    pub(crate) fn one_axis(&self, axes: &Axes, op: &str) -> Result<(Tensor, usize)> {
        match axes {
            Axes::All => Ok((self.reshape(self.count()?), 0)),
            Axes::List(l) if l.len() == 1 => self.at_axis(op, l[0]),
            Axes::List(l) => Err(Error::value(format!("takes one axis or all, not {l:?}")).in_op(op)),
        }
    }
}

/// The type rule of argmax and argmin.
fn infer_place(c: &Call) -> Result<ir::Types> {
    c.arity(1)?;
    crate::rules::number(c, 0)?;
    let at = c.axis("axis")?;
    let out = c.shape(0).reduce(&[at], true);
    if c.shape(0)[at] == 0 && out.count() > 0 {
        return Err(Error::shape(format!("axis {at} of {} is empty and has no such element", c.shape(0))));
    }
    crate::rules::one(DType::I64, out)
}

/// The first place of each lane's largest or smallest element.
fn extreme(c: &Call, args: &[Literal], greatest: bool) -> Result<Vec<Literal>> {
    let at = c.axis("axis")?;
    let lanes = AxisSplit::new(c.shape(0), at);
    let out = c.shape(0).reduce(&[at], true);
    let floats = if c.dtype(0).is_float() { args[0].to_f64() } else { vec![] };
    let ints = if c.dtype(0).is_float() { vec![] } else { args[0].to_ints() };
    let better = |a: usize, b: usize| match floats.is_empty() {
        true if greatest => ints[a] > ints[b],
        true => ints[a] < ints[b],
        false if floats[b].is_nan() => false,
        false if floats[a].is_nan() => true,
        false if greatest => floats[a] > floats[b],
        false => floats[a] < floats[b],
    };
    let place =
        |lane: Vec<usize>| (1..lane.len()).fold(0, |best, i| if better(lane[i], lane[best]) { i } else { best });
    let places: Vec<i64> = lanes.each().map(|lane| place(lane.collect()) as i64).collect();
    Ok(vec![Literal::from_i64(DType::I64, out, &places)])
}

impl Tensor {
    /// argmax or argmin along one axis or over all.
    #[track_caller]
    fn place_of(&self, op: &'static ir::Op, axes: &Axes, keep: bool) -> Tensor {
        self.then(|t| {
            let (x, at) = self.one_axis(axes, op.name)?;
            let y = Tensor::apply1(op, &[&x], ir::Attrs::new().with("axis", at));
            let all: Vec<usize> = (0..t.shape.rank()).collect();
            let over: &[usize] = if t.shape.rank() == 0 || *axes == Axes::All { &all } else { &[at] };
            Ok(y.reshape(t.shape.reduce(over, keep)))
        })
    }
    /// `then` for two results.
    #[track_caller]
    pub(crate) fn then2(&self, f: impl FnOnce(&ir::Type) -> Result<[Tensor; 2]>) -> [Tensor; 2] {
        let site = ir::Site::here();
        let fail = |e: Error| {
            let t = Tensor::from(e.at(site));
            [t.clone(), t]
        };
        match self.value() {
            Ok(v) => site.scope(|| f(v.ty())).unwrap_or_else(fail),
            Err(_) => [self.clone(), self.clone()],
        }
    }
}
