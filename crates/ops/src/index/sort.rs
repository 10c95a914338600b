//! `sort`: the elements along an axis in order, and where each came from.

use crate::kernel::BATCH_AXIS;
use crate::rules::{GradTensors, f64s, floats, grads, i64s, number};
use crate::{DType, Result, Tensor};
use ir::AxisSplit;
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Type};
use std::cmp::Ordering;

/// The row of `sort`.
pub static OP: Op = Op {
    name: "sort",
    doc: "The elements along `axis` in ascending or descending order, and the original index of each. Equal \
          elements keep their order; NaN counts as largest.",
    attrs: &[("axis", AttrKind::Int), ("descending", AttrKind::Bool)],
    infer: |c| {
        c.arity(1)?;
        number(c, 0)?;
        c.axis("axis")?;
        let places = Type::new(DType::I64, c.shape(0));
        Ok([c.types[0].clone(), places].into_iter().collect())
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let zeros = c.x(0).zeros_like();
        grads([zeros.scatter_add(c.attrs.int("axis")?, &c.y(1), &c.g(0))])
    }),
    batch: BATCH_AXIS,
    shard: ir::Shard::Lanes,
    cases: || {
        let along = |a: i64, d: bool| Attrs::new().with("axis", a).with("descending", d);
        let x = f64s([2, 3], &[3.0, 1.0, 2.0, 5.0, 5.0, 4.0]);
        vec![
            Case::new(vec![floats([2, 4], 1)], along(1, false)),
            Case::new(vec![floats([3, 2], 2)], along(0, true)),
            // Lanes that a block sorts, and a lane that takes the whole device.
            Case::new(vec![floats([2, 700], 3)], along(1, false)).kinked(),
            Case::new(vec![floats([40, 3], 4)], along(0, true)).kinked(),
            Case::new(vec![floats([4500], 5)], along(0, true)).kinked(),
            Case::new(vec![f64s([2, 2], &[1.0, 4.0, 3.0, 1.0])], along(1, false)).expect(
                vec![f64s([2, 2], &[1.0, 4.0, 1.0, 3.0]), i64s([2, 2], &[0, 1, 1, 0])],
                "NumPy manual: np.sort([[1, 4], [3, 1]])",
            ),
            Case::new(vec![x], along(1, true))
                .expect(
                    vec![f64s([2, 3], &[3.0, 2.0, 1.0, 5.0, 5.0, 4.0]), i64s([2, 3], &[0, 2, 1, 0, 1, 2])],
                    "by hand",
                )
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// Ascending order of floats with NaN as largest.
pub(crate) fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The indices of each lane's elements in sorted order, one lane after the other in row-major order.
pub(crate) fn order(x: &Literal, lanes: AxisSplit, descending: bool) -> Vec<(usize, usize)> {
    let is_inexact = x.dtype().is_inexact();
    let floats = if is_inexact { x.to_complex() } else { vec![] };
    let ints = if is_inexact { vec![] } else { x.to_ints() };
    // Complex numbers are in some order, so that equal ones are adjacent: by one part, then the other.
    let less = |a: usize, b: usize| {
        let o = match is_inexact {
            true => compare(floats[a].re, floats[b].re).then(compare(floats[a].im, floats[b].im)),
            false => ints[a].cmp(&ints[b]),
        };
        if descending { o.reverse() } else { o }
    };
    let mut out = vec![(0, 0); x.count()];
    for lane in lanes.each() {
        let mut sorted: Vec<(usize, usize)> = lane.clone().enumerate().map(|(i, p)| (p, i)).collect();
        sorted.sort_by(|a, b| less(a.0, b.0));
        lane.zip(sorted).for_each(|(p, s)| out[p] = s);
    }
    out
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let lanes = AxisSplit::new(c.shape(0), c.axis("axis")?);
    let order = order(&args[0], lanes, c.attrs.bool("descending")?);
    let places: Vec<i64> = order.iter().map(|&(_, i)| i as i64).collect();
    let sorted = args[0].pick(c.shape(0), |i| Some(order[i].0));
    Ok(vec![sorted, Literal::from_i64(DType::I64, c.shape(0).clone(), &places)])
}

impl Tensor {
    /// The elements along an axis in ascending order, and the original index of each. Equal elements
    /// keep their order; NaN counts as largest.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [values, indices] = Tensor::from([3, 1, 2]).sort(0);
    /// assert_eq!(values.to_vec::<i32>().unwrap(), [1, 2, 3]);
    /// assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 2, 0]);
    /// ```
    #[track_caller]
    pub fn sort(&self, along: i64) -> [Tensor; 2] {
        self.sort_in(along, false)
    }
    /// The elements along an axis in descending order, and the original index of each.
    #[track_caller]
    pub fn sort_descending(&self, along: i64) -> [Tensor; 2] {
        self.sort_in(along, true)
    }
    #[track_caller]
    pub(crate) fn sort_in(&self, along: i64, descending: bool) -> [Tensor; 2] {
        self.then2(|t| {
            let (x, at) = self.at_axis("sort", along)?;
            let attrs = Attrs::new().with("axis", at).with("descending", descending);
            let [values, places] = Tensor::apply_n(&OP, &[&x], attrs);
            Ok([values.reshape(&t.shape), places.reshape(&t.shape)])
        })
    }
}
