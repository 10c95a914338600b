//! `scatter_reduce`: values combined at indices along an axis.

use super::{check_scatter, places};
use crate::kernel::BATCH_AXIS;
use crate::rules::{GradTensors, f64s, floats, i64s, maybe_grads, number, same};
use crate::{DType, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, GradCall, Literal, Meaning, Op, Value};

/// The row of `scatter_reduce`.
pub static OP: Op = Op {
    name: "scatter_reduce",
    doc: "Values combined at indices along `axis` given by an index of the values' shape. `reduce` is prod, max or \
          min; without `include_self` existing elements are ignored where a value is written.",
    attrs: &[("axis", AttrKind::Int), ("reduce", AttrKind::Str), ("include_self", AttrKind::Bool)],
    infer: |c| {
        number(c, 0)?;
        check_scatter(c)?;
        match c.attrs.str("reduce")? {
            "prod" | "max" | "min" => same(c, 0),
            other => Err(Error::value(format!("reduce must be prod, max or min, not {other}"))),
        }
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| if c.attrs.str("reduce")? == "prod" { prod_grad(c) } else { extreme_grad(c) }),
    batch: BATCH_AXIS,
    shard: ir::Shard::Lanes,
    cases: || {
        let by = |a: i64, r: &str, s: bool| Attrs::new().with("axis", a).with("reduce", r).with("include_self", s);
        let index = || i64s([2, 2], &[2, 0, 2, 0]);
        let manual = |r: &str, s: bool, y: [f64; 4]| {
            let src = f64s([6], &[1., 2., 3., 4., 5., 6.]);
            let inputs = vec![f64s([4], &[1., 2., 3., 4.]), i64s([6], &[0, 1, 0, 1, 2, 1]), src];
            Case::new(inputs, by(0, r, s)).expect(vec![f64s([4], &y)], "PyTorch manual and its rule by hand").kinked()
        };
        let many = || i64s([1100], &(0..1100).map(|i| i * i % 70).collect::<Vec<i64>>());
        vec![
            Case::new(vec![floats([80], 3), many(), floats([1100], 4)], by(0, "max", false)).kinked(),
            Case::new(vec![floats([3, 3], 1), index(), floats([2, 2], 2)], by(0, "prod", true)),
            Case::new(vec![floats([3, 3], 1), index(), floats([2, 2], 2)], by(0, "prod", false)),
            Case::new(vec![floats([3, 3], 3), index(), floats([2, 2], 4)], by(0, "max", true)),
            Case::new(vec![floats([2, 3], 3), index(), floats([2, 2], 4)], by(1, "min", false)),
            manual("max", true, [3., 6., 5., 4.]),
            manual("min", false, [1., 2., 5., 4.]),
            manual("prod", true, [3., 96., 15., 4.]),
        ]
    },
    ..Op::DEFAULT
};

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let places = places(c.shape(0), &args[1], c.axis("axis")?)?;
    let (reduce, shape) = (c.attrs.str("reduce")?, c.shape(0).clone());
    let mut fresh = vec![!c.attrs.bool("include_self")?; shape.count()];
    Ok(vec![if c.dtype(0).is_float() {
        let mut x = args[0].to_f64();
        for (&p, v) in places.iter().zip(args[2].to_f64()) {
            x[p] = match reduce {
                _ if std::mem::take(&mut fresh[p]) => v,
                "prod" => x[p] * v,
                _ if x[p].is_nan() || v.is_nan() => f64::NAN,
                "max" => x[p].max(v),
                _ => x[p].min(v),
            };
        }
        Literal::from_f64(c.dtype(0), shape, &x)
    } else {
        let mut x = args[0].to_ints();
        for (&p, v) in places.iter().zip(args[2].to_ints()) {
            x[p] = match reduce {
                _ if std::mem::take(&mut fresh[p]) => v,
                "prod" => x[p].wrapping_mul(v),
                "max" => x[p].max(v),
                _ => x[p].min(v),
            };
        }
        Literal::from_ints(c.dtype(0), shape, &x)
    }])
}

/// The gradient of the elements that are there: none where a value came and they do not count.
fn of_self(c: &GradCall, g: Tensor) -> Result<Tensor> {
    if c.attrs.bool("include_self")? {
        return Ok(g);
    }
    Ok(g.scatter(c.attrs.int("axis")?, &c.x(1), &c.x(2).zeros_like()))
}

/// Evenly to all that equal the result.
fn extreme_grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (x, index, src, y, g) = (c.x(0), c.x(1), c.x(2), c.y(0), c.g(0));
    let at = c.attrs.int("axis")?;
    let mine = of_self(c, x.eq(&y).cast_like(&g))?;
    let theirs = src.eq(y.gather(at, &index)).cast_like(&g);
    let each = &g / mine.scatter_add(at, &index, &theirs).maximum(1.0);
    maybe_grads(vec![Some(mine * &each), None, Some(theirs * each.gather(at, &index))])
}

/// The product of the others. An element that is the only zero of its product is taken out by
/// computing the product with 1 in its place.
fn prod_grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (x, index, src, y, g) = (c.x(0), c.x(1), c.x(2), c.y(0), c.g(0));
    let at = c.attrs.int("axis")?;
    let again = |x: &Tensor, src: &Tensor| Tensor::apply1(&OP, &[x, &index, src], c.attrs.clone());
    let without_zero = Tensor::where_(&x.eq(0.0), &x.ones_like(), &x);
    let gx = of_self(c, &g * again(&without_zero, &src) / &without_zero)?;
    let zero = src.eq(0.0);
    let zeros = x.zeros_like().scatter_add(at, &index, &zero.cast_like(&x)).gather(at, &index);
    let single = zero.and(zeros.eq(1.0));
    let rest = again(&x, &Tensor::where_(&single, &src.ones_like(), &src));
    let divided = (&g * &y).gather(at, &index) / Tensor::where_(&zero, &src.ones_like(), &src);
    let gs = Tensor::where_(&single, &(&g * rest).gather(at, &index), &divided);
    maybe_grads(vec![Some(gx), None, Some(gs)])
}

/// How values that meet are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Added.
    Sum,
    /// Averaged.
    Mean,
    /// Multiplied.
    Prod,
    /// The largest; equal ones share the gradient.
    Max,
    /// The smallest; equal ones share the gradient.
    Min,
}

impl Tensor {
    /// Values combined at indices along an axis: along axis 0 of a matrix, `src[i, j]` goes to
    /// `x[index[i, j], j]`. Without `include_self` the elements that are there count for nothing
    /// where a value comes.
    ///
    /// ```
    /// # use talweg_ops::{Combine, Tensor};
    /// let (index, src) = (Tensor::from([0, 1, 0]), Tensor::from([1.0f32, 2.0, 4.0]));
    /// let x = Tensor::from([9.0f32, 9.0, 9.0]).scatter_reduce(0, &index, &src, Combine::Mean, false);
    /// assert_eq!(x.to_vec::<f32>().unwrap(), [2.5, 2.0, 9.0]);
    /// ```
    #[track_caller]
    pub fn scatter_reduce(&self, along: i64, index: &Tensor, src: &Tensor, by: Combine, include_self: bool) -> Tensor {
        let name = match by {
            Combine::Sum | Combine::Mean => return self.scatter_mean(along, index, src, by, include_self),
            Combine::Prod => "prod",
            Combine::Max => "max",
            Combine::Min => "min",
        };
        let more = Attrs::new().with("reduce", name).with("include_self", include_self);
        self.scatter_by(&OP, along, index, src, more)
    }
    /// Sum and mean are made of scatter_add.
    #[track_caller]
    fn scatter_mean(&self, along: i64, index: &Tensor, src: &Tensor, by: Combine, include_self: bool) -> Tensor {
        self.then(|t| {
            let zeros = src.zeros_like();
            let base = if include_self { self.clone() } else { self.scatter(along, index, &zeros) };
            let sum = base.scatter_add(along, index, src);
            if by == Combine::Sum {
                return Ok(sum);
            }
            let start = Tensor::full_of(&t.shape, 1.0, DType::I64);
            let counts = zeros.cast(DType::I64);
            let start = if include_self { start } else { start.scatter(along, index, &counts) };
            let n = start.scatter_add(along, index, &counts.ones_like()).cast(t.dtype);
            Ok(if t.dtype.is_inexact() { sum / n } else { (sum / n).floor().cast(t.dtype) })
        })
    }
}
